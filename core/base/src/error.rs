//! Errors by audience: about wire data ([`Malformed`]), for a peer or an application ([`Refusal`]), for the author of a
//! configuration ([`ConfigError`]).

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Wire data that does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Byte offset into the item being parsed.
    pub offset: u64,
    /// Violated rule, or expected item.
    pub reason: &'static str,
}
impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.offset)
    }
}
impl core::error::Error for Malformed {}

/// Reason for not accepting a bundle or request. Each layer translates it to a code of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The store is still being read after a restart (TCPCL "no resources", LTP SYS_CNCLD).
    NotOpen,
    /// Storage or memory is full (TCPCL "no resources", LTP SYS_CNCLD).
    NoResources,
    /// The node holds the bundle already (TCPCL "completed").
    Duplicate,
    /// Malformed or against a rule (TCPCL "not acceptable").
    NotAcceptable,
    /// The node is shutting down (TCPCL "session terminating").
    Terminating,
    /// Larger than this node accepts.
    TooLarge,
    /// The bundle's lifetime expired.
    Expired,
    /// No such registration, link or node.
    Unknown,
    /// A disk operation of the store failed, perhaps only temporarily; the log has the cause.
    StoreFailed,
    /// The stored copy is permanently damaged.
    Damaged,
}
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoResources => "no resources: storage or memory is full",
            Refusal::NotOpen => "the bundle store is still recovering; it will be accepted later",
            Refusal::Duplicate => "already received",
            Refusal::NotAcceptable => "not acceptable: malformed, or a rule is violated",
            Refusal::Terminating => "the node is shutting down",
            Refusal::TooLarge => "larger than this node accepts",
            Refusal::Expired => "lifetime expired",
            Refusal::Unknown => "unknown endpoint, link or node",
            Refusal::StoreFailed => "the bundle store failed",
            Refusal::Damaged => "damaged in the bundle store",
        })
    }
}

/// Unusable configuration: the key, the expected value, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path of the key, such as `link.mars.rate`.
    pub path: String,
    /// Expected value, and the one found.
    pub expected: String,
    /// Suggested remedy, shown after `hint:`; may be empty.
    pub hint: String,
}
impl ConfigError {
    /// Error for a policy that needs an oracle's knowledge of the network but was chosen for a real node; `real` lists
    /// the policies that a real node can use.
    pub fn needs_oracle(path: String, chosen: &str, real: &[&str]) -> ConfigError {
        ConfigError {
            path,
            expected: format!("`{chosen}` needs knowledge of the whole network, which only a simulator has"),
            hint: format!("use one of {}; or run `{chosen}` in `farlink run --in sim`", real.join(", ")),
        }
    }
}
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.expected)?;
        if !self.hint.is_empty() {
            write!(f, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
impl core::error::Error for ConfigError {}

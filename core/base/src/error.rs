//! Errors by audience: the wire ([`Malformed`]), the peer or application ([`Refusal`]), the person
//! who wrote the configuration ([`ConfigError`]).

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Wire data that does not parse: where, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Byte offset into the item being parsed.
    pub offset: u64,
    /// What was expected there.
    pub reason: &'static str,
}
impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.offset)
    }
}
impl core::error::Error for Malformed {}

/// Why something offered was not accepted. Each layer translates it to its protocol's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The store is still being read after a restart (TCPCL "no resources", LTP SYS_CNCLD).
    NotOpen,
    /// Storage or memory is full (TCPCL "no resources", LTP SYS_CNCLD).
    NoResources,
    /// The bundle is already here (TCPCL "completed").
    Duplicate,
    /// It does not parse or breaks a rule (TCPCL "not acceptable").
    NotAcceptable,
    /// The node is shutting down (TCPCL "session terminating").
    Terminating,
    /// It is larger than this node takes.
    TooLarge,
    /// Its lifetime is over.
    Expired,
    /// No such registration, link or node.
    Unknown,
    /// The store failed; see the log. It may work again later.
    StoreFailed,
    /// What the store kept is damaged, for good.
    Damaged,
}
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoResources => "no resources: storage or memory is full",
            Refusal::NotOpen => "the bundle store is still being read; it will be taken later",
            Refusal::Duplicate => "already received",
            Refusal::NotAcceptable => "not acceptable: malformed or against a rule",
            Refusal::Terminating => "the node is shutting down",
            Refusal::TooLarge => "larger than this node accepts",
            Refusal::Expired => "lifetime expired",
            Refusal::Unknown => "unknown endpoint, link or node",
            Refusal::StoreFailed => "the bundle store failed",
            Refusal::Damaged => "damaged in the bundle store",
        })
    }
}

/// A configuration that cannot be used: which key, what was expected, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path of the key, such as `link.mars.rate`.
    pub path: String,
    /// What was expected, and what was found.
    pub expected: String,
    /// What to try next.
    pub hint: String,
}
impl ConfigError {
    /// A policy that needs to know the whole network, chosen where only a node is; `real`: those that do not.
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

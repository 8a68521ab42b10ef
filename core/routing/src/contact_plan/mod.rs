//! Contact plans: when which node can transmit to which, how fast, and how long light takes.
//!
//! One file per dialect ([`ion`], [`farlink`]); [`parse`] tells them apart. [`check`] finds what a
//! plan's author would want to know, [`gantt`] draws it, [`forecast`] says how full a node gets.

mod check;
mod clock;
pub mod farlink;
mod forecast;
mod gantt;
pub mod ion;
pub mod text;

pub use check::{Finding, check};
pub use clock::PlanClock;
pub use farlink::emit as emit_farlink;
pub use farlink_book::Forecast;
pub use forecast::{Question, draw as draw_forecast, forecast};
pub use gantt::gantt;
pub use ion::emit as emit_ion;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use farlink_base::{DataRate, DtnTime, Duration, NodeId};

/// Nanoseconds from the plan's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PlanTime(pub u64);

impl PlanTime {
    /// Later than every contact.
    pub const MAX: PlanTime = PlanTime(u64::MAX);
    /// Whole seconds from the epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        PlanTime(seconds.saturating_mul(1_000_000_000))
    }
    /// Seconds from the epoch, for people and JSON.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self + duration`, stopping at [`PlanTime::MAX`].
    pub fn saturating_add(self, duration: Duration) -> Self {
        PlanTime(self.0.saturating_add(nanoseconds(duration)))
    }
    /// Time passed since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: PlanTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A plan time as seconds with as many decimals as needed.
pub(crate) fn decimal(time: PlanTime) -> String {
    text::decimal_seconds(time.0)
}

/// Nanoseconds of a duration, saturating.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One contact: `from` may transmit to `to` from `start` to `end` (transmit time; what is in flight
/// at the end still arrives).
#[derive(Clone, PartialEq, Debug)]
pub struct Contact {
    /// Transmitting node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Name of the link, where several join the pair; `None` is the only one.
    pub link: Option<String>,
    /// First moment of transmission.
    pub start: PlanTime,
    /// Last moment of transmission.
    pub end: PlanTime,
    /// Transmission rate.
    pub rate: DataRate,
    /// One-way light time.
    pub one_way_delay: Duration,
    /// How likely it comes to pass, 0 to 1.
    pub confidence: f64,
}

/// A contact plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContactPlan {
    /// Wall time of `PlanTime(0)`; `None` is bound by the driver at start.
    pub epoch: Option<DtnTime>,
    /// Contacts in the order of the file.
    pub contacts: Vec<Contact>,
}

impl ContactPlan {
    /// Start of the first and end of the last contact.
    pub fn span(&self) -> Option<(PlanTime, PlanTime)> {
        let start = self.contacts.iter().map(|c| c.start).min()?;
        let end = self.contacts.iter().map(|c| c.end).max()?;
        Some((start, end))
    }
    /// Every node in it, in order.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.contacts.iter().flat_map(|c| [c.from, c.to]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// How a plan is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// ION's `ionadmin` commands.
    Ion,
    /// Ours.
    Farlink,
}
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Ion => "ion",
            Dialect::Farlink => "farlink",
        })
    }
}

/// A plan that cannot be read: where, what is wrong, what to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// Line, from 1; 0 is the file as a whole.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// What to try.
    pub hint: String,
}
impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
impl core::error::Error for PlanError {}

/// Something read but not followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Line, from 1; 0 is the plan as a whole.
    pub line: u32,
    /// What.
    pub message: String,
}
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

/// A plan as read from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The plan.
    pub plan: ContactPlan,
    /// How it was written.
    pub dialect: Dialect,
    /// Names the file gives to nodes.
    pub names: Vec<(String, NodeId)>,
    /// Line of each contact.
    pub lines: Vec<u32>,
    /// What was not followed.
    pub warnings: Vec<Warning>,
}
impl Parsed {
    /// A node by number, `ipn:` EID or a name the file gives.
    pub fn node(&self, text: &str) -> Option<NodeId> {
        let named = self.names.iter().find(|(name, _)| name == text).map(|(_, node)| *node);
        named.or_else(|| text::parse_node(text))
    }
    /// The name the file gives to a node, else its node ID.
    pub fn name(&self, node: NodeId) -> String {
        let named = self.names.iter().find(|(_, n)| *n == node);
        named.map_or_else(|| alloc::format!("{node}"), |(name, _)| name.clone())
    }
}

/// Reads a plan in either dialect.
///
/// # Errors
/// The first line that cannot be understood.
pub fn parse(text: &str) -> Result<Parsed, PlanError> {
    parse_with(text, &|_| None)
}

/// Reads a plan in either dialect; `resolve` knows names of nodes the file does not declare (those
/// of a scenario, or dtn node IDs).
///
/// # Errors
/// The first line that cannot be understood.
pub fn parse_with(text: &str, resolve: &dyn Fn(&str) -> Option<NodeId>) -> Result<Parsed, PlanError> {
    match detect(text)? {
        Dialect::Ion => ion::parse(text),
        Dialect::Farlink => farlink::parse_with(text, resolve),
    }
}

/// Which dialect a text is in, from its first line that says something. An empty plan is ours.
///
/// # Errors
/// When that line is in neither.
pub fn detect(text: &str) -> Result<Dialect, PlanError> {
    for (line, content) in text::lines(text) {
        let Some(word) = content.split_whitespace().next() else { continue };
        if farlink::KEYWORDS.contains(&word) {
            return Ok(Dialect::Farlink);
        }
        if word.chars().count() == 1 && word.chars().all(|c| ion::COMMANDS.contains(c)) {
            return Ok(Dialect::Ion);
        }
        return Err(PlanError {
            line,
            message: alloc::format!("`{}` begins no line of a contact plan", text::shorten(word)),
            hint: "write `contact 1 2 +0..+3600 rate 2 Mbit/s delay 600 s`, or ION's `a contact +0 +3600 1 2 250000`"
                .into(),
        });
    }
    Ok(Dialect::Farlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_told_apart() {
        assert_eq!(detect("# x\n\na contact +0 +1 1 2 3"), Ok(Dialect::Ion));
        assert_eq!(detect("## begin ionadmin\n1 1 ''\n"), Ok(Dialect::Ion));
        assert_eq!(detect("@ +5"), Ok(Dialect::Ion));
        assert_eq!(detect("epoch 2026-11-20T09:00:00Z"), Ok(Dialect::Farlink));
        assert_eq!(detect(""), Ok(Dialect::Farlink));
        let error = detect("\n[plan]\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(!error.hint.is_empty());
    }
}

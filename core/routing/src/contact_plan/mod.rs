//! Contact plans: windows in which nodes can transmit to others, with rates and light times.
//!
//! Each dialect has a file ([`ion`], [`farlink`]); [`parse`] detects the dialect. [`check`] reports problems,
//! [`gantt`] draws a plan, [`forecast`] predicts how full a node gets.

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
pub use forecast::{ForecastRequest, draw as draw_forecast, forecast};
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
    /// Time at a number of whole seconds after the epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        PlanTime(seconds.saturating_mul(1_000_000_000))
    }
    /// Seconds from the epoch, for people and JSON.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Sum with a duration, saturating at [`PlanTime::MAX`].
    pub fn saturating_add(self, duration: Duration) -> Self {
        PlanTime(self.0.saturating_add(nanoseconds(duration)))
    }
    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: PlanTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds of a plan time, with as many decimals as needed.
pub(crate) fn decimal(time: PlanTime) -> String {
    text::decimal_seconds(time.0)
}

/// Nanoseconds of a duration, saturating.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A contact: `from` may transmit to `to` from `start` to `end` (transmission time; bundles in flight at the end
/// still arrive).
#[derive(Clone, PartialEq, Debug)]
pub struct Contact {
    /// Transmitting node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Name of the link, if several join the pair; `None` for the only one.
    pub link: Option<String>,
    /// Start of transmission.
    pub start: PlanTime,
    /// End of transmission.
    pub end: PlanTime,
    /// Transmission rate.
    pub rate: DataRate,
    /// One-way light time.
    pub one_way_delay: Duration,
    /// Probability that the contact takes place, 0 to 1.
    pub confidence: f64,
}

/// A contact plan on its own time scale.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContactPlan {
    /// Wall time of `PlanTime(0)`; without it the driver sets the epoch at its start.
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
    /// Nodes of all contacts, in order.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.contacts.iter().flat_map(|c| [c.from, c.to]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// Dialect of a contact-plan file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// ION's `ionadmin` commands.
    Ion,
    /// Farlink's own dialect.
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

/// A plan that cannot be parsed: line, problem and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// Line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// Description of the problem.
    pub message: String,
    /// Suggested remedy.
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

/// A line of a plan that was read but not followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Line, from 1; 0 for the plan as a whole.
    pub line: u32,
    /// Description of the content that was not followed.
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

/// A parsed plan with the details of its file.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The plan.
    pub plan: ContactPlan,
    /// Dialect of the file.
    pub dialect: Dialect,
    /// Node names that the file declares.
    pub names: Vec<(String, NodeId)>,
    /// Line of each contact.
    pub lines: Vec<u32>,
    /// Lines that were not followed.
    pub warnings: Vec<Warning>,
    /// Contacts of ION's dialect that no range covers, which are no part of the plan.
    pub without_range: Vec<Contact>,
}
impl Parsed {
    /// Finds a node by number, `ipn:` or `dtn:` EID, or a declared name.
    pub fn node(&self, text: &str) -> Option<NodeId> {
        let named = self.names.iter().find(|(name, _)| name == text).map(|(_, node)| *node);
        named.or_else(|| text::parse_node(text))
    }
    /// Declared name of a node, or its node ID.
    pub fn name(&self, node: NodeId) -> String {
        let named = self.names.iter().find(|(_, n)| *n == node);
        named.map_or_else(|| alloc::format!("{node}"), |(name, _)| name.clone())
    }
}

/// Parses a plan in either dialect.
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse(text: &str) -> Result<Parsed, PlanError> {
    parse_with(text, &|_| None)
}

/// Parses a plan in either dialect; `resolve` finds nodes by names that the file does not declare (those of a
/// scenario, or dtn node IDs).
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse_with(text: &str, resolve: &dyn Fn(&str) -> Option<NodeId>) -> Result<Parsed, PlanError> {
    match detect(text)? {
        Dialect::Ion => ion::parse(text),
        Dialect::Farlink => farlink::parse_with(text, resolve),
    }
}

/// Detects the dialect of a text from its first line with content. An empty plan is in Farlink's dialect.
///
/// # Errors
/// The first line with content is in neither dialect.
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
            hint: "write `contact 1 2 +0..+3600 rate 2 Mbit/s delay 600 s`, or ION's `a contact +0 +3600 1 2 250000` \
                   with `a range +0 +3600 1 2 600`"
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

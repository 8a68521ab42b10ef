//! Contact plans: when which node can transmit to which, how fast, and how long light takes.

use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{DataRate, DtnTime, Duration, NodeId};

/// Nanoseconds from the plan's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PlanTime(pub u64);

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

//! The work list: follow-up steps of an input, and timers.

use crate::app::AppInput;
use crate::custody;
use crate::io::OfferToken;
use crate::state::queues::ListId;
use crate::tunnel;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::{Empty, EndpointId, Instant, Lazy, LinkId, PeerId, TimerKey, TimerQueue};
use farlink_book::{Action, Handle, Side};

/// Units of follow-up work per call. While work is left over, [`Agent::next_timeout`](crate::Agent::next_timeout)
/// returns the current time.
const SLICE: u32 = 256;
/// Most application requests kept while the store is opening.
pub(crate) const DEFERRED_MAX: usize = 100_000;

/// Action due at a deadline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Timer {
    /// A link's contact begins or ends.
    Edge(LinkId),
    /// The contact of a queue's list has ended.
    List(ListId),
    /// A link's backlog is short enough for the next bundle.
    Pace(LinkId),
    /// A neighbour's summary is overdue.
    Summary(PeerId),
    /// The budget may admit a neighbour's waiting hello.
    Hello(PeerId),
    /// A policy requested to be woken.
    Policy(Side),
}

/// Steps that follow from an input; worked off within the budget, never by recursion.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Decide on the next step of a bundle.
    Dispatch(Handle),
    /// Hand the next bundle from a link's queue, or from its neighbour's offer, to the link's layer.
    Pump(LinkId),
    /// Hand bundles to the applications of an endpoint.
    Deliver(EndpointId),
    /// Offer a bundle to the neighbours again: its labels have changed, its wait has ended, or it must be sent again,
    /// as a whole, as a copy or in further fragments.
    Offer(Handle),
    /// Members left a group; drop bundles that were held only to be delivered to them.
    Forsake(Vec<Handle>),
    /// Route every waiting bundle again.
    RerouteAll,
    /// Drop a hello that is out of date, unless it is being sent.
    DropHello(Handle),
    /// A custody signal waits to be applied.
    Custody(Box<custody::ReceivedCustodySignal>),
    /// A signal about tunnel transmissions waits to be applied.
    Signal(Box<tunnel::ReceivedTunnelSignal>),
    /// A bundle that came through a tunnel waits to be opened.
    Outer(Handle),
    /// The outer bundle around the bundle of this number left the node (`true`) or was given up.
    Tunnel(u64, bool),
    /// A tunnel may have room for the next bundle in its line.
    Line,
    /// A policy requested an action.
    Action(Side, Action),
    /// Pieces of an arriving bundle stay as fragments (`true`), or go because the whole bundle is here or is damaged.
    Pieces(OfferToken, bool),
}

/// Requests of applications that came while the store was opening.
#[derive(Debug)]
struct Deferred(Vec<AppInput>);
// Allocated on first use: in most nodes the store is open before the first request comes.
impl Empty for Deferred {
    type From = ();
    const EMPTY: &'static Self = &Deferred(Vec::new());
    fn make((): ()) -> Self {
        Deferred(Vec::new())
    }
}

/// The work list of one node, its timers, and the budget of one call.
#[derive(Debug)]
pub(crate) struct Work {
    steps: VecDeque<Step>,
    timers: TimerQueue<Timer>,
    budget: u32,
    deferred: Lazy<Deferred>,
}

impl Work {
    pub fn new() -> Self {
        Work { steps: VecDeque::new(), timers: TimerQueue::new(), budget: SLICE, deferred: Lazy::default() }
    }
    pub fn begin(&mut self) {
        self.budget = SLICE;
    }
    /// Takes a unit of the budget; false if it is used up.
    pub fn spend_one(&mut self) -> bool {
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
    /// Takes units of the budget, or all that remain if they are fewer.
    pub fn spend(&mut self, units: u32) {
        self.budget = self.budget.saturating_sub(units);
    }
    pub fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }
    pub fn extend(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
    }
    pub fn pop_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }
    pub fn arm(&mut self, at: Instant, timer: Timer) -> TimerKey {
        self.timers.arm(at, timer)
    }
    pub fn cancel(&mut self, timer: TimerKey) {
        self.timers.cancel(timer);
    }
    /// Takes the next due timer and one unit of the budget; `None` if no timer is due or the budget is used up.
    pub fn pop_timer(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = if self.budget > 0 { self.timers.pop_due(now)? } else { return None };
        self.budget -= 1;
        Some(timer)
    }
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
    /// Keeps a request of an application until the store is open. Returns the request as error if [`DEFERRED_MAX`] are
    /// kept already.
    pub fn defer(&mut self, input: AppInput) -> Result<(), AppInput> {
        if self.deferred.0.len() < DEFERRED_MAX {
            self.deferred.0.push(input);
            return Ok(());
        }
        Err(input)
    }
    /// Takes the requests kept while the store was opening, in order of arrival.
    pub fn take_deferred(&mut self) -> Vec<AppInput> {
        // Taking the whole table frees its memory, which is not needed again.
        core::mem::take(&mut self.deferred).made().map(|deferred| core::mem::take(&mut deferred.0)).unwrap_or_default()
    }
    /// Frees memory that earlier load needed.
    pub fn rest(&mut self) {
        self.steps.shrink_to_fit();
    }
    #[cfg(feature = "audit")]
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
    #[cfg(feature = "audit")]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resting_work_list_frees_memory() {
        let mut work = Work::new();
        work.extend((0..1000).map(|_| Step::RerouteAll));
        while work.pop_step().is_some() {}
        assert!(work.steps.capacity() >= 1000);
        work.rest();
        assert_eq!(work.steps.capacity(), 0);
    }
}

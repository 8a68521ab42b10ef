//! What is left to do: steps that follow from an input, and timers.

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

/// Units of follow-up work of one call: what remains makes [`Agent::next_timeout`](crate::Agent::next_timeout) now.
const SLICE: u32 = 256;
/// Requests of applications kept while the store is opening.
const DEFERRED_MAX: usize = 100_000;

/// Things to do when a deadline passes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Timer {
    /// A link's contact begins or ends.
    Edge(LinkId),
    /// The contact a list waits for is over.
    List(ListId),
    /// A link is no longer busy.
    Pace(LinkId),
    /// A neighbour's summary was waited for long enough.
    Summary(PeerId),
    /// There may be time for what a neighbour said.
    Hear(PeerId),
    /// A policy wants to be woken.
    Policy(Side),
}

/// Steps that follow from an input; drained within the budget, never by recursion.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Decide what happens with a bundle.
    Dispatch(Handle),
    /// Move bundles from a link's queue to its layer.
    Pump(LinkId),
    /// Hand bundles to the applications of an endpoint.
    Deliver(EndpointId),
    /// See whether neighbours want a carried bundle, or want it still.
    Offer(Handle),
    /// Members left their group: what was still to come to them may be held for nothing else.
    Forsake(Vec<Handle>),
    /// Ask again about every bundle that waits.
    RerouteAll,
    /// A hello is out of date.
    DropHello(Handle),
    /// A custody signal is to be heeded.
    Custody(Box<custody::Heard>),
    /// A signal about transmissions through a tunnel is to be heeded.
    Signal(Box<tunnel::Told>),
    /// A bundle that came through a tunnel is to be opened.
    Outer(Handle),
    /// The bundle around this one left the node, or was given up.
    Tunnel(u64, bool),
    /// Who waits for room in a tunnel may have it.
    Line,
    /// A policy ordered something.
    Action(Side, Action),
    /// The pieces of what was arriving stay as fragments, or the whole is here and they go.
    Pieces(OfferToken, bool),
}

/// What applications asked while the store was opening.
#[derive(Debug)]
struct Deferred(Vec<AppInput>);
/// Most nodes are open before anybody asks.
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
    /// A call begins.
    pub fn begin(&mut self) {
        self.budget = SLICE;
    }
    /// Takes a unit of the budget; false: nothing is left of it.
    pub fn spend_one(&mut self) -> bool {
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
    /// Takes units of the budget, as many as there are.
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
    /// A timer that is due, for a unit of the budget.
    pub fn pop_timer(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = if self.budget > 0 { self.timers.pop_due(now)? } else { return None };
        self.budget -= 1;
        Some(timer)
    }
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
    /// An application asks for something while the store is opening.
    pub fn defer(&mut self, input: AppInput) {
        if self.deferred.0.len() < DEFERRED_MAX {
            self.deferred.0.push(input);
        }
    }
    /// What applications asked for meanwhile.
    pub fn take_deferred(&mut self) -> Vec<AppInput> {
        core::mem::take(&mut self.deferred).made().map(|deferred| core::mem::take(&mut deferred.0)).unwrap_or_default()
    }
    /// Gives back room that a busy time needed.
    pub fn rest(&mut self) {
        self.steps.shrink_to_fit();
    }
    /// Armed timers.
    #[cfg(feature = "audit")]
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
    /// Steps left over.
    #[cfg(feature = "audit")]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }
}

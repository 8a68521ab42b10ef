//! Dispatching (RFC 9171 5.3) and the choice of a next hop: router first, then static routes, then
//! the direct neighbour.

use crate::agent::{Agent, Step};
use crate::held::Place;
use crate::io::Output;
use crate::link::{QueueEntry, QueueKey};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{BundleHandle, BundleView, Event, Instant, LinkId, NodeId, Proposal, Sink};
use farlink_bundle::EndpointId;
use farlink_routing::{Outcome, Question, RouterOutput};

/// A bundle is not cut into pieces with less payload than this to find a route.
const PIECE_MIN: u64 = 1024;

impl Agent {
    /// Decides what happens with a bundle that is new or waits.
    pub(crate) fn dispatch<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        match held.place {
            Place::New => {}
            Place::Waiting { retry } => {
                held.place = Place::New;
                self.waiting.remove(&handle);
                if let Some(key) = retry {
                    self.timers.cancel(key);
                }
            }
            _ => return,
        }
        let destination = held.view.destination;
        if self.is_local(destination) {
            self.deliver_locally(now, handle, out);
        } else {
            self.route(now, handle, out);
        }
    }

    fn route<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(view) = self.bundles.get(&handle).map(|h| h.view.clone()) else { return };
        let mut retry = Instant::MAX;
        let mut copied = false;
        for proposal in self.proposals(now, &view) {
            match proposal {
                Proposal::Forward { link, next_hop, not_before, until, .. } => {
                    if self.queue(now, &view, link, next_hop, not_before, until, out) {
                        self.tell_router_outcome(now, &view, Outcome::Queued { link });
                        return;
                    }
                }
                Proposal::Copy { link, next_hop, split } => {
                    copied |= self.queue_copy(now, &view, link, next_hop, split, out);
                }
                Proposal::Wait { until } => retry = retry.min(until),
            }
        }
        if copied {
            return self.wait(now, handle, retry, out);
        }
        if let Some((link, next_hop)) = self.static_next_hop(now, handle, &view) {
            if self.queue(now, &view, link, next_hop, now, Instant::MAX, out) {
                return;
            }
        }
        if self.cut_for_a_smaller_contact(now, handle, &view, out) {
            return;
        }
        self.wait(now, handle, retry, out);
    }

    fn proposals(&mut self, now: Instant, view: &BundleView) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        self.router.propose(now, Question::Bundle(view), &mut proposals);
        let store = self.store_view();
        proposals.retain(|p| self.control.allow(now, view, p, &store));
        proposals
    }

    /// Puts a bundle into a link's queue; false when the link cannot be used for it.
    #[allow(clippy::too_many_arguments)]
    fn queue<S: Sink<Output>>(
        &mut self,
        now: Instant,
        view: &BundleView,
        link: LinkId,
        next_hop: NodeId,
        not_before: Instant,
        until: Instant,
        out: &mut S,
    ) -> bool {
        if !self.links.get(&link).is_some_and(|l| l.enabled) || until <= now || view.excluded.contains(&next_hop) {
            return false;
        }
        let handle = view.bundle;
        let until = self.arm_route(until, handle);
        let key = QueueKey::new(view.priority, not_before, handle);
        if let Some(l) = self.links.get_mut(&link) {
            l.enqueue(key, QueueEntry { next_hop, copy: None, size: view.size });
        }
        if let Some(held) = self.bundles.get_mut(&handle) {
            held.place = Place::Queued { link, key, until };
        }
        self.event(out, Event::Routed { bundle: handle, link, next_hop });
        self.steps.push_back(Step::Pump(link));
        true
    }

    /// Puts a copy of a bundle into a link's queue, once per neighbour.
    fn queue_copy<S: Sink<Output>>(
        &mut self,
        now: Instant,
        view: &BundleView,
        link: LinkId,
        next_hop: NodeId,
        split: u32,
        out: &mut S,
    ) -> bool {
        let handle = view.bundle;
        let Some(held) = self.bundles.get_mut(&handle) else { return false };
        if held.given.contains(&next_hop) || view.received_from == Some(next_hop) {
            return false;
        }
        let Some(l) = self.links.get_mut(&link).filter(|l| l.enabled) else { return false };
        held.given.push(next_hop);
        let key = QueueKey::new(view.priority, now, handle);
        l.enqueue(key, QueueEntry { next_hop, copy: Some(split), size: view.size });
        self.event(out, Event::Routed { bundle: handle, link, next_hop });
        self.steps.push_back(Step::Pump(link));
        true
    }

    /// Leaves a bundle until something changes, or until `retry`.
    pub(crate) fn wait<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, retry: Instant, out: &mut S) {
        let Some(held) = self.bundles.get(&handle) else { return };
        let after_failure = if held.view.excluded.is_empty() { Instant::MAX } else { now + back_off(held.failures) };
        let retry = self.arm_route(retry.max(Instant(now.0 + 1)).min(after_failure), handle);
        if let Some(held) = self.bundles.get_mut(&handle) {
            held.place = Place::Waiting { retry };
        }
        self.waiting.insert(handle);
        self.event(out, Event::Waiting { bundle: handle });
    }

    /// Static routes, then a link straight to the destination.
    fn static_next_hop(&mut self, now: Instant, handle: BundleHandle, view: &BundleView) -> Option<(LinkId, NodeId)> {
        let destination = self.bundles.get(&handle)?.bundle.primary.destination.clone();
        let best = self
            .settings
            .routes
            .iter()
            .filter_map(|(pattern, hop)| pattern_rank(pattern, &destination).map(|rank| (rank, hop)))
            .max_by_key(|(rank, _)| *rank)
            .map(|(_, hop)| hop.clone());
        let next_hop = best.map_or(view.destination, |hop| self.names.node(&hop));
        if view.excluded.contains(&next_hop) {
            return None;
        }
        // Among parallel links one that is up goes first; a link ruled by the plan is the router's
        // to choose, unless there is no router that reads the plan.
        let plan_rules = self.router.uses_plan();
        let usable = self.links.values().filter(|l| l.peer == next_hop && l.enabled && !(l.planned && plan_rules));
        usable.min_by_key(|l| (!l.is_up(now), l.queued_bytes, l.id)).map(|l| (l.id, next_hop))
    }

    /// When no contact can take the whole bundle but one could take half of it, cuts it (RFC 9171
    /// 5.8); the halves are dispatched in turn.
    fn cut_for_a_smaller_contact<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        view: &BundleView,
        out: &mut S,
    ) -> bool {
        if !view.may_fragment || !self.router.uses_plan() || view.payload_size < 2 * PIECE_MIN {
            return false;
        }
        let mut size = view.size;
        while size > 2 * PIECE_MIN {
            size /= 2;
            let smaller = BundleView { size, payload_size: size, ..view.clone() };
            if self.proposals(now, &smaller).iter().any(|p| matches!(p, Proposal::Forward { .. })) {
                let overhead = view.size - view.payload_size + 32;
                let first = size.saturating_sub(overhead).max(PIECE_MIN / 2);
                return self.cut(now, handle, first, out);
            }
        }
        false
    }

    pub(crate) fn tell_router_outcome(&mut self, now: Instant, view: &BundleView, outcome: Outcome) {
        self.router.on_outcome(now, view, outcome, &mut self.router_said);
    }

    /// What the router said unasked.
    pub(crate) fn on_router_output<S: Sink<Output>>(&mut self, now: Instant, said: RouterOutput, out: &mut S) {
        match said {
            RouterOutput::Signal(signal) => self.send_signal(now, crate::report::Policy::Router, signal, out),
            RouterOutput::Reconsider => self.steps.push_back(Step::Reconsider),
            RouterOutput::Bump(handle) => {
                if !matches!(self.bundles.get(&handle).map(|h| &h.place), Some(Place::Queued { .. })) {
                    return;
                }
                self.unlink(handle);
                self.steps.push_back(Step::Dispatch(handle));
            }
        }
    }
}

/// Wait after the n-th failure in a row: 1 s, 2 s, ... 64 s.
pub(crate) fn back_off(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(6))
}

/// How well a route pattern fits: longer is better; `None` does not fit.
pub(crate) fn pattern_rank(pattern: &str, destination: &EndpointId) -> Option<usize> {
    use alloc::string::ToString;
    let text: String = destination.to_string();
    if pattern == "*" {
        return Some(0);
    }
    if let Some(prefix) = pattern.strip_suffix('*') {
        return text.starts_with(prefix).then_some(prefix.len());
    }
    let node: String = destination.node_id().to_string();
    (text == pattern || node == pattern).then_some(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_wins() {
        let to = EndpointId::ipn(52, 7);
        assert_eq!(pattern_rank("*", &to), Some(0));
        assert_eq!(pattern_rank("ipn:5*", &to), Some(5));
        assert_eq!(pattern_rank("ipn:52.*", &to), Some(7));
        assert_eq!(pattern_rank("ipn:52.0", &to), Some(usize::MAX), "a node ID stands for all its services");
        assert_eq!(pattern_rank("ipn:5.*", &to), None);
    }

    #[test]
    fn back_off_doubles_and_stops() {
        assert_eq!([1, 2, 3, 7, 99].map(|n| back_off(n).as_secs()), [1, 2, 4, 64, 64]);
    }
}

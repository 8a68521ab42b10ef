//! Events for the two policies, and the actions they request.

use crate::agent::Agent;
use crate::context::Context;
use crate::io::Output;
use crate::policies::{Seen, seen};
use crate::work::{Step, Timer};
use farlink_base::{Instant, Sink};
use farlink_book::{Action, PolicyEvent, Side};

impl Agent {
    /// View of the node for its policies.
    pub(crate) fn seen(&self, now: Instant) -> Seen<'_> {
        seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now)
    }

    /// Passes an event to each policy that subscribed to it.
    pub(crate) fn notify_policies(&mut self, now: Instant, news: &PolicyEvent<'_>) {
        for side in [Side::Router, Side::Control] {
            if self.is_subscribed(side, news) {
                self.notify_policy(now, side, news);
            }
        }
    }
    /// Whether a policy gets an event: it subscribed, and the event is not about a hello of this node.
    pub(crate) fn is_subscribed(&self, side: Side, news: &PolicyEvent<'_>) -> bool {
        self.policies.wants(side, news)
            && match *news {
                PolicyEvent::Handed { bundle, .. }
                | PolicyEvent::Sent { bundle, .. }
                | PolicyEvent::Failed { bundle, .. }
                | PolicyEvent::Gone { bundle, .. } => self.book.get(bundle).is_some_and(|held| !self.is_hello(held)),
                _ => true,
            }
    }
    /// Passes an event to one policy.
    pub(crate) fn notify_policy(&mut self, now: Instant, side: Side, news: &PolicyEvent<'_>) {
        let seen = seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now);
        self.policies.notify(seen, side, news);
        self.follow_orders(now, side);
    }
    /// Applies the actions that a policy requested: small ones at once, the others as steps.
    pub(crate) fn follow_orders(&mut self, now: Instant, side: Side) {
        for order in self.policies.orders() {
            match order {
                Action::Label { bundle, label } => {
                    if let Some(held) = self.book.get_mut(bundle) {
                        held.labels[side as usize] = label;
                        self.work.push(Step::Offer(bundle));
                    }
                }
                Action::Ban { id } => self.remembered.ban(id),
                Action::Tell { to, bytes } => self.hellos.queue_message(to, side, &bytes),
                Action::Wake(at) => drop(self.work.arm(at.max(now), Timer::Policy(side))),
                Action::RerouteAll => self.work.push(Step::RerouteAll),
                Action::RerouteTo(node) => self.outbound.reroute_scan.to(node),
                Action::Reask(peer) => self.outbound.offers.reask(&mut self.book, peer),
                // Other actions route or delete a bundle. A policy may request many, so they run as steps within the
                // budget.
                order => self.work.push(Step::Action(side, order)),
            }
        }
    }
    /// Applies an action that reroutes, deletes or moves a bundle.
    pub(crate) fn follow<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, _side: Side, order: Action) {
        match order {
            Action::Reroute(bundle) => self.reroute(cx, bundle),
            // Policies cannot end custody, delivery or transmissions: the bundle leaves once those end.
            Action::Delete { bundle, why } => self.give_up(cx, bundle, why),
            Action::Migrate { bundle, to } => self.migrate(bundle, to, cx.out),
            _ => {}
        }
    }
}

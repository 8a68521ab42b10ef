//! The contact plan on this process's clock: when each link of this node may be used.

use crate::agent::{Agent, Step, Timer};
use crate::io::Output;
use crate::link::Window;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer::LinkState;
use farlink_base::{Clock, DtnTime, Event, Instant, LinkId, Sink};
use farlink_routing::{Contact, ContactChange, ContactPlan};

/// A contact of this node and the link it is for.
pub(crate) type LocalContact = (u32, LinkId);

/// `epoch + offset` on the monotonic clock, clamped to its origin: contacts that began before the
/// process did are under way.
fn place(base_ns: i128, offset_ns: u64) -> Instant {
    let at = base_ns + i128::from(offset_ns);
    Instant(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
}

/// Nanoseconds on the monotonic clock of the plan's epoch; negative when it passed before the
/// clock's origin. `None`: the plan is in UTC and this node does not know the time.
fn base_of(epoch: Option<DtnTime>, bound: Instant, clock: &Clock) -> Option<i128> {
    match epoch {
        None => Some(i128::from(bound.0)),
        Some(epoch) => {
            let utc = clock.utc?;
            Some(i128::from(clock.at.0) + (i128::from(epoch.0) - i128::from(utc.0)) * 1_000_000)
        }
    }
}

impl Agent {
    /// Loads or replaces the plan.
    pub fn set_plan<S: Sink<Output>>(&mut self, now: Instant, plan: Arc<ContactPlan>, out: &mut S) {
        self.plan = Some(plan);
        self.bind_plan(now, out);
    }

    /// The plan to begin with; it is bound by the first clock reading.
    pub fn preload_plan(&mut self, plan: Arc<ContactPlan>) {
        self.plan = Some(plan);
    }

    /// Puts the plan's contacts onto the monotonic clock, anew after each change of clock or plan.
    pub(crate) fn bind_plan<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        let Some(plan) = self.plan.clone() else {
            return self.tell_links(now, out);
        };
        let bound = *self.plan_epoch.get_or_insert(now);
        let base = base_of(plan.epoch, bound, &self.clock);
        self.local_contacts.clear();
        for link in self.links.values_mut() {
            link.transmit.clear();
            link.receive.clear();
            link.planned = false;
        }
        for (index, contact) in plan.contacts.iter().enumerate() {
            self.bind_contact(index as u32, contact, base);
        }
        for link in self.links.values_mut() {
            link.transmit.sort_by_key(|w| w.start);
            link.receive.sort_by_key(|w| w.start);
        }
        let (clock, local) = (self.clock, core::mem::take(&mut self.local_contacts));
        self.router.on_plan(now, &clock, &plan, &local, &mut self.router_said);
        self.local_contacts = local;
        self.tell_links(now, out);
        self.steps.push_back(Step::Reconsider);
    }

    fn bind_contact(&mut self, index: u32, contact: &Contact, base: Option<i128>) {
        let (sends, receives) = (self.is_local(contact.from), self.is_local(contact.to));
        if sends == receives {
            return;
        }
        let peer = if sends { contact.to } else { contact.from };
        let found = self
            .links
            .values_mut()
            .find(|l| !l.id.is_dynamic() && l.peer == peer && contact.link.as_ref().is_none_or(|name| *name == l.name));
        let Some(link) = found else { return };
        link.planned = true;
        if sends {
            self.local_contacts.push((index, link.id));
        }
        let Some(base) = base else { return };
        let window = Window {
            start: place(base, contact.start.0),
            end: place(base, contact.end.0),
            rate: contact.rate,
            delay: contact.one_way_delay,
        };
        if window.end <= window.start {
            return;
        }
        if sends {
            link.transmit.push(window);
        } else {
            // The peer's transmit time arrives here one light time later.
            let late = |t: Instant| t.saturating_add(window.delay);
            link.receive.push(Window { start: late(window.start), end: late(window.end), ..window });
        }
    }

    pub(crate) fn on_contact_edge<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        self.tell_links(now, out);
    }

    /// Tells layers, router and listeners what links can do now, and arms the next edge.
    pub(crate) fn tell_links<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        if !self.open {
            return;
        }
        let mut changes = Vec::new();
        let mut next: Option<Instant> = None;
        for link in self.links.values_mut() {
            if let Some(edge) = link.next_change(now) {
                next = Some(next.map_or(edge, |n| n.min(edge)));
            }
            let state = link.state(now);
            if link.told != Some(state) {
                link.told = Some(state);
                out.push(Output::Link { link: link.id, state });
            }
            let up = link.is_up(now);
            if up != link.said_up {
                link.said_up = up;
                link.busy_until = now;
                changes.push((link.id, link.peer, up, state));
            }
        }
        if let Some(edge) = next {
            self.timers.arm(edge, Timer::Contacts);
        }
        for (link, peer, up, state) in changes {
            self.on_link_change(now, link, peer, up.then_some(state), out);
        }
    }

    fn on_link_change<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        peer: farlink_base::NodeId,
        state: Option<LinkState>,
        out: &mut S,
    ) {
        match state {
            Some(state) => {
                self.event(out, Event::LinkUp { link, peer });
                let until = self.links.get(&link).and_then(|l| l.contact(now)).map(|w| w.end);
                let change = ContactChange::Up { peer, link, rate: state.rate, until };
                self.router.on_contact(now, change, &mut self.router_said);
                self.offer_stored(now, peer, link);
                self.steps.push_back(Step::Pump(link));
                self.steps.push_back(Step::Reconsider);
            }
            None => {
                self.event(out, Event::LinkDown { link });
                self.router.on_contact(now, ContactChange::Down { peer, link }, &mut self.router_said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_land_on_the_monotonic_clock() {
        let clock = Clock { at: Instant(5_000_000_000), utc: Some(DtnTime(100_000)), error_ms: 0 };
        // An epoch 2 s in the past of t+5 s is t+3 s; one 60 s in the past is before the origin.
        let base = base_of(Some(DtnTime(98_000)), Instant::ZERO, &clock).unwrap();
        assert_eq!(place(base, 1_000_000_000), Instant(4_000_000_000));
        let base = base_of(Some(DtnTime(40_000)), Instant::ZERO, &clock).unwrap();
        assert_eq!(place(base, 0), Instant::ZERO);
        assert_eq!(place(base, 70_000_000_000), Instant(15_000_000_000));
        assert_eq!(base_of(None, Instant(7), &clock), Some(7));
        assert_eq!(base_of(Some(DtnTime(1)), Instant(7), &Clock::UNTRUSTED), None);
    }
}

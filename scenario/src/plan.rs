//! The nodes' contact plan: the scenario's links as routers see them.

use crate::types::Scenario;
use farlink_base::{DataRate, Duration, Instant};
use farlink_link::{ContactWindow, Delay, LinkSpec, Rate};
use farlink_routing::{ContactPlan, PlanTime};
use std::collections::HashSet;

/// End of contacts of links that are always up: ten years, beyond every run.
const ALWAYS: Duration = Duration::from_secs(3650 * 86_400);
/// Rate that the contact plan gives for a direction without a limit.
const UNLIMITED: DataRate = DataRate(10_000_000_000);

impl Scenario {
    /// Contact plan of every node of the run: the scenario's contacts, those of `forecast`, and one long contact for
    /// each direction of a link that is always up. Links that appear, disappear or are discovered are in it only with
    /// contacts of their own. Times count from the start of the run.
    pub fn contact_plan(&self) -> ContactPlan {
        let mut contacts = Vec::new();
        let scheduled: HashSet<usize> = self.contacts.iter().map(|contact| contact.link).collect();
        for (index, link) in self.links.iter().enumerate() {
            if !scheduled.contains(&index) && link.lasts() && !link.found {
                contacts.push(self.routing_contact(index, true, Duration::ZERO, ALWAYS));
                contacts.push(self.routing_contact(index, false, Duration::ZERO, ALWAYS));
            }
            debug_assert!(link.between[0] != link.between[1]);
        }
        for contact in &self.contacts {
            let mut c = self.routing_contact(contact.link, contact.forward, contact.start, contact.end);
            c.rate = contact.rate.unwrap_or(c.rate);
            c.one_way_delay = contact.delay.unwrap_or(c.one_way_delay);
            c.confidence = contact.confidence;
            contacts.push(c);
        }
        contacts.extend(self.forecast.iter().cloned());
        ContactPlan { epoch: self.epoch, contacts }
    }

    /// Model of the link with this index, for emulator and simulator. Its windows are the link's contacts, less the
    /// times of its faults. A discovered link that appears or disappears has one window while it exists. Instants count
    /// from the start of the run.
    pub fn link_spec(&self, link: usize) -> LinkSpec {
        let here = &self.links[link];
        let mut spec = LinkSpec { forward: here.forward.clone(), reverse: here.reverse.clone() };
        if self.scheduled(link) {
            for (forward, direction) in [(true, &mut spec.forward), (false, &mut spec.reverse)] {
                let mine = self.contacts.iter().filter(|c| c.link == link && c.forward == forward);
                let nanoseconds = |d: Duration| Instant(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
                let window = |c: &crate::types::Contact| ContactWindow {
                    start: nanoseconds(c.start),
                    end: nanoseconds(c.end),
                    rate: c.rate,
                    delay: c.delay,
                };
                direction.windows = Some(mine.map(window).collect());
            }
        } else if here.found && !here.lasts() {
            let instant = |at: Duration| Instant(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
            let there = || ContactWindow::new(instant(here.appears), instant(here.disappears.unwrap_or(ALWAYS)));
            (spec.forward.windows, spec.reverse.windows) = (Some(vec![there()]), Some(vec![there()]));
        }
        // Faults come last: they cut windows of contacts and of discovered links alike, and nodes do not foresee them.
        for direction in [&mut spec.forward, &mut spec.reverse] {
            direction.windows = self.windows_left(link, direction.windows.take());
        }
        spec
    }

    /// Whether the link with this index has contacts, and is up only during these.
    pub fn scheduled(&self, link: usize) -> bool {
        self.contacts.iter().any(|contact| contact.link == link)
    }

    fn routing_contact(&self, link: usize, forward: bool, start: Duration, end: Duration) -> farlink_routing::Contact {
        let here = &self.links[link];
        let (from, to, direction) = if forward {
            (here.between[0], here.between[1], &here.forward)
        } else {
            (here.between[1], here.between[0], &here.reverse)
        };
        let rate = match &direction.rate {
            Rate::Unlimited => UNLIMITED,
            Rate::Constant(rate) => *rate,
            Rate::Steps(steps) => {
                // A contact has one rate in a plan: the one that holds when it begins.
                let held = steps.iter().take_while(|(time, _)| *time <= start).last().or(steps.first());
                held.map_or(UNLIMITED, |(_, rate)| *rate)
            }
        };
        let one_way_delay = delay_at(&direction.delay, start);
        farlink_routing::Contact {
            from: self.nodes[from].number,
            to: self.nodes[to].number,
            link: Some(here.name.clone()),
            start: PlanTime(start.as_nanos() as u64),
            end: PlanTime(end.as_nanos() as u64),
            rate,
            one_way_delay,
            confidence: 1.0,
        }
    }
}

/// Delay of a link this long after the start of the run, interpolated between the points of its table.
fn delay_at(delay: &Delay, time: Duration) -> Duration {
    let points = match delay {
        Delay::Constant(delay) => return *delay,
        Delay::Table(points) => points,
    };
    let after = points.partition_point(|(t, _)| *t <= time);
    match (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after)) {
        (Some((t0, d0)), Some((t1, d1))) => {
            let share = (time - *t0).as_secs_f64() / (*t1 - *t0).as_secs_f64();
            let delay = d0.as_secs_f64() + (d1.as_secs_f64() - d0.as_secs_f64()) * share;
            // Rounded to a whole nanosecond, so that equal delays stay equal after the arithmetic.
            Duration::from_nanos((delay * 1e9 + 0.5) as u64)
        }
        (Some((_, delay)), None) | (None, Some((_, delay))) => *delay,
        (None, None) => Duration::ZERO,
    }
}

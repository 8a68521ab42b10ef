//! Counters of bundles created and delivered at a node, from its event file.

use crate::driver::BundleTally;
use farlink_base::{BundleHandle, BundleKey, Event};
use farlink_events::{EventNames, is_event};
use std::collections::{HashMap, HashSet};

/// Counters of a node over all its restarts.
#[derive(Debug, Default)]
pub struct Counted {
    pub tally: BundleTally,
    /// Bundles delivered to the node's applications; a restarted node may deliver them again.
    taken: HashSet<BundleKey>,
    /// Bundles at the node now, by their numbers, which are valid until the next restart.
    here: HashMap<BundleHandle, BundleKey>,
}

impl Counted {
    /// Counts one line of the event file. `restarts` is whether the node is ever restarted: then the identity of each
    /// bundle is needed, which costs more.
    pub fn count(&mut self, line: &[u8], restarts: bool) {
        let is = |name: &str| is_event(line, name);
        if is("created") {
            self.tally.created += 1;
        } else if restarts && ["seen", "delivered", "deleted"].into_iter().any(is) {
            self.note(line);
        } else if !restarts && is("delivered") {
            self.tally.delivered += 1;
        }
    }

    /// Forgets the bundle numbers after a kill, because the restarted node assigns them again.
    pub fn begin_again(&mut self) {
        self.here.clear();
    }

    fn note(&mut self, line: &[u8]) {
        let names = EventNames::new(String::new(), Vec::new());
        let read = std::str::from_utf8(line).ok().and_then(|line| names.read(line).ok());
        match read {
            Some((_, Event::Seen { bundle, key, .. })) => drop(self.here.insert(bundle, key)),
            Some((_, Event::Deleted { bundle, .. })) => drop(self.here.remove(&bundle)),
            Some((_, Event::Delivered { bundle })) => {
                // A restarted node may deliver a bundle again, under another number. A bundle without a `seen` event
                // cannot be recognised, so it counts each time.
                let is_new = self.here.get(&bundle).is_none_or(|key| self.taken.insert(*key));
                self.tally.delivered += u64::from(is_new);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DeleteReason, Instant, NodeId, Priority};

    fn lines(events: &[Event]) -> Vec<String> {
        let names = EventNames::new("ipn:2.0".into(), Vec::new());
        events.iter().map(|event| names.json(Instant(5), 6, event)).collect()
    }
    fn seen(number: u64, sequence: u64) -> Event {
        let key = BundleKey { source: NodeId(1), service: 64, time: 9, sequence, fragment: None };
        let (bundle, destination) = (BundleHandle(number), NodeId(2));
        let (payload, size, lifetime_ms) = (10, 60, 5000);
        let priority = Priority::Normal;
        Event::Seen { bundle, key, destination, destination_service: 9, payload, size, priority, lifetime_ms }
    }
    fn delivered(number: u64) -> Event {
        Event::Delivered { bundle: BundleHandle(number) }
    }

    #[test]
    fn redelivery_after_restart_counts_once() {
        let mut counted = Counted::default();
        let mut count = |events: &[Event]| {
            lines(events).iter().for_each(|line| counted.count(line.as_bytes(), true));
            counted.begin_again();
            counted.tally.delivered
        };
        let gone = Event::Deleted { bundle: BundleHandle(1), reason: DeleteReason::Done };
        assert_eq!(count(&[seen(1, 1), seen(2, 2), delivered(1), gone, seen(1, 3), delivered(1)]), 2);
        assert_eq!(count(&[seen(1, 2), seen(2, 1), delivered(2), delivered(1)]), 3, "the second bundle is new");
    }
}

//! Recorded contacts.

use super::edge::{ContactEdge, Contacts};
use farlink_base::Instant;
use std::collections::BTreeMap;

/// Recorded contact of two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encounter {
    /// Index of one node in the scenario.
    pub a: u32,
    /// Index of the other node.
    pub b: u32,
    /// Start of the contact.
    pub start: Instant,
    /// End of the contact; [`Instant::MAX`] for never.
    pub end: Instant,
}

/// Edges of recorded contacts, in time order.
pub struct Recorded {
    edges: std::vec::IntoIter<ContactEdge>,
}

impl Recorded {
    /// Sorts the encounters of a radio, given in any order. Overlapping or adjacent ones of a pair are joined; empty
    /// ones and those of a node with itself are dropped.
    pub fn new(radio: u16, encounters: impl IntoIterator<Item = Encounter>) -> Recorded {
        let mut pairs: BTreeMap<(u32, u32), Vec<(Instant, Instant)>> = BTreeMap::new();
        for Encounter { a, b, start, end } in encounters {
            if a != b && start < end {
                pairs.entry((a.min(b), a.max(b))).or_default().push((start, end));
            }
        }
        let mut edges = Vec::new();
        for ((a, b), mut times) in pairs {
            times.sort_unstable();
            let mut joined: Vec<(Instant, Instant)> = Vec::with_capacity(times.len());
            for (start, end) in times {
                // Starts are sorted, so only the last interval can overlap.
                match joined.last_mut().filter(|(_, until)| start <= *until) {
                    Some((_, until)) => *until = end.max(*until),
                    None => joined.push((start, end)),
                }
            }
            for (start, end) in joined {
                edges.push(ContactEdge { at: start, a, b, radio, up: true });
                if end < Instant::MAX {
                    edges.push(ContactEdge { at: end, a, b, radio, up: false });
                }
            }
        }
        edges.sort_by_key(ContactEdge::key);
        Recorded { edges: edges.into_iter() }
    }
}

impl Contacts for Recorded {
    fn next(&mut self, until: Instant) -> Option<ContactEdge> {
        let due = self.edges.as_slice().first().is_some_and(|edge| edge.at <= until);
        if due { self.edges.next() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(encounters: &[(u32, u32, u64, u64)]) -> Vec<(u64, u32, u32, bool)> {
        let encounter =
            |&(a, b, start, end): &(u32, u32, u64, u64)| Encounter { a, b, start: Instant(start), end: Instant(end) };
        let mut recorded = Recorded::new(0, encounters.iter().map(encounter));
        let all = std::iter::from_fn(|| recorded.next(Instant(1000)));
        all.map(|edge| (edge.at.0, edge.a, edge.b, edge.up)).collect()
    }

    #[test]
    fn overlapping_records_are_one_encounter() {
        let found = edges(&[(2, 1, 10, 20), (1, 2, 15, 30), (1, 2, 30, 35), (1, 2, 12, 14), (1, 2, 36, 40)]);
        assert_eq!(found, [(10, 1, 2, true), (35, 1, 2, false), (36, 1, 2, true), (40, 1, 2, false)]);
    }

    #[test]
    fn self_and_empty_encounters_are_dropped() {
        assert_eq!(edges(&[(3, 3, 1, 9), (1, 2, 5, 5), (1, 2, 9, 4)]), []);
        assert_eq!(edges(&[(1, 0, 5, u64::MAX)]), [(5, 0, 1, true)]);
        assert_eq!(edges(&[(1, 0, 1001, 2000)]), [], "as far as was asked for");
    }
}

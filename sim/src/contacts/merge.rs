//! Merge of several contact sources.

use super::edge::{ContactEdge, Contacts};
use farlink_base::Instant;

/// Source with its next edge, read ahead.
struct ContactSource {
    ahead: Option<ContactEdge>,
    contacts: Box<dyn Contacts>,
}

/// Edges of several sources in time order; each pair and radio belongs to one source.
#[derive(Default)]
pub struct Merge {
    sources: Vec<ContactSource>,
}

impl Merge {
    /// Merges these sources.
    pub fn new(sources: impl IntoIterator<Item = Box<dyn Contacts>>) -> Merge {
        let sources = sources.into_iter().map(|contacts| ContactSource { ahead: None, contacts }).collect();
        Merge { sources }
    }
    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

impl Contacts for Merge {
    fn next(&mut self, until: Instant) -> Option<ContactEdge> {
        // One edge of each source is read ahead, so that the earliest is known.
        for source in self.sources.iter_mut().filter(|source| source.ahead.is_none()) {
            source.ahead = source.contacts.next(until);
        }
        let due = |source: &&mut ContactSource| source.ahead.is_some_and(|edge| edge.at <= until);
        let first = self.sources.iter_mut().filter(due).min_by_key(|source| source.ahead.map(|edge| edge.key()))?;
        first.ahead.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contacts::trace::{Encounter, Recorded};

    fn recorded(radio: u16, times: &[(u64, u64)]) -> Box<dyn Contacts> {
        let encounter =
            |(start, end): &(u64, u64)| Encounter { a: 0, b: 1, start: Instant(*start), end: Instant(*end) };
        Box::new(Recorded::new(radio, times.iter().map(encounter)))
    }

    #[test]
    fn merged_edges_are_ordered_and_complete() {
        let mut merge = Merge::new([recorded(1, &[(5, 10), (20, 30)]), recorded(0, &[(5, 12), (40, 41)])]);
        let mut found = Vec::new();
        for until in [4, 5, 11, 10, 100] {
            while let Some(edge) = merge.next(Instant(until)) {
                assert!(edge.at.0 <= until);
                found.push((edge.at.0, edge.radio, edge.up));
            }
        }
        let first = [(5, 0, true), (5, 1, true), (10, 1, false), (12, 0, false), (20, 1, true), (30, 1, false)];
        assert_eq!(found, [&first[..], &[(40, 0, true), (41, 0, false)]].concat());
        assert!(Merge::default().is_empty() && Merge::default().next(Instant::MAX).is_none());
    }
}

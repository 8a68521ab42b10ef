//! Contact edges and their sources.

use farlink_base::Instant;

/// Start or end of a contact between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContactEdge {
    /// Time of the edge, rounded up to a nanosecond.
    pub at: Instant,
    /// The node with the lower index in the scenario.
    pub a: u32,
    /// The node with the higher index.
    pub b: u32,
    /// Index of the radio in the scenario.
    pub radio: u16,
    /// Whether the contact starts.
    pub up: bool,
}

impl ContactEdge {
    /// Sort key of edges: time, ends before starts, then radio and nodes.
    pub fn key(&self) -> (Instant, bool, u16, u32, u32) {
        (self.at, self.up, self.radio, self.a, self.b)
    }
}

/// Source of contact edges.
///
/// Edges come in the order of [`ContactEdge::key`]. Edges of one pair and radio alternate, beginning with a start, and
/// have different times: a contact without duration is dropped.
pub trait Contacts: Send {
    /// The next edge not later than `until`; `None` without one. A later `until` may yield one.
    fn next(&mut self, until: Instant) -> Option<ContactEdge>;
}

/// Converts seconds from the start of the run to an instant, rounded up to a nanosecond. All sources round by this
/// function only. Times before the start become the start; times beyond every run become [`Instant::MAX`].
pub fn instant(seconds: f64) -> Instant {
    // Casts saturate; not-a-number becomes the start.
    Instant((seconds * 1e9).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_up_to_nanoseconds() {
        assert_eq!(instant(0.0), Instant(0));
        assert_eq!(instant(-3.0), Instant(0));
        assert_eq!(instant(1.0), Instant(1_000_000_000));
        assert_eq!(instant(0.250_000_000_25), Instant(250_000_001));
        assert_eq!(instant(f64::INFINITY), Instant::MAX);
    }

    #[test]
    fn ends_precede_starts_lower_nodes_first() {
        let edge = |at, up, radio, a, b| ContactEdge { at: Instant(at), a, b, radio, up };
        let mut edges =
            [edge(2, true, 0, 0, 1), edge(2, false, 1, 7, 8), edge(1, true, 3, 4, 5), edge(2, true, 0, 0, 0)];
        edges.sort_by_key(ContactEdge::key);
        assert_eq!(edges.map(|e| (e.at.0, e.up, e.b)), [(1, true, 5), (2, false, 8), (2, true, 0), (2, true, 1)]);
    }
}

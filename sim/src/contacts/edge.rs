//! Contact edges, and the sources they come from.

use farlink_base::Instant;

/// Two nodes begin to hear each other, or cease to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContactEdge {
    /// When; of an instant between two nanoseconds, the later one.
    pub at: Instant,
    /// One node, by its place in the scenario: the lower.
    pub a: u32,
    /// The other: the higher.
    pub b: u32,
    /// The radio, by its place in the scenario.
    pub radio: u16,
    /// Whether they begin to.
    pub up: bool,
}

impl ContactEdge {
    /// The order in which edges come: by time; of one time those that end before those that begin, and
    /// by radio and nodes.
    pub fn key(&self) -> (Instant, bool, u16, u32, u32) {
        (self.at, self.up, self.radio, self.a, self.b)
    }
}

/// A source of contact edges.
///
/// The edges come in the order of [`ContactEdge::key`]. Those of one pair and radio come by turns,
/// beginning with one that is up, and never two at one time: a contact that ends as it begins never was.
pub trait Contacts: Send {
    /// The next edge that is not later than `until`; `None` when there is none so early. A later `until`
    /// may bring one.
    fn next(&mut self, until: Instant) -> Option<ContactEdge>;
}

/// The first whole nanosecond that is not before a time in seconds from the start of the run: the one
/// rounding of all sources. Times before the start are the start; those beyond every run are
/// [`Instant::MAX`].
pub fn instant(seconds: f64) -> Instant {
    // Casts saturate, and a time that is not a number would be the start.
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

//! Mean times between meetings of nodes; each node measures its own and relays those of others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};
use farlink_book::{Reporters, put_number};

/// Maximum number of nodes whose meetings are known.
const NODES_MAX: usize = 1024;
/// Maximum number of neighbours known of each node.
const NEIGHBOURS_MAX: usize = 256;
/// Maximum number of means over all nodes, which bounds the search for reachable nodes.
const MEANS_MAX: usize = 65_536;
/// Longest plausible mean, s: 31 years.
const MEAN_MAX_S: f64 = 1e9;
/// Maximum number of successive meetings by which a bundle is expected to arrive (RAPID 4.1.2).
const HOPS: u32 = 3;

/// Meetings reported by a node.
#[derive(Debug)]
struct MeetingRow {
    /// Time of the report, ms on this process's clock.
    said_ms: i64,
    /// Value of the change counter at the last change of the row.
    changed: u64,
    /// Mean time between meetings, s.
    means: BTreeMap<NodeId, f64>,
}

/// Mean times between meetings, per pair of nodes.
#[derive(Default, Debug)]
pub struct MeetingTable {
    rows: BTreeMap<NodeId, MeetingRow>,
    /// Number of means in all rows.
    means: usize,
    /// Reporter of each node's row.
    reporters: Reporters<NodeId>,
    /// Nodes that this node met: number of meetings, and whether the identity was ever certain.
    counts: BTreeMap<NodeId, (u32, bool)>,
}

pub fn millis(at: Instant) -> i64 {
    (at.0 / 1_000_000) as i64
}

impl MeetingTable {
    /// Records a meeting of this node; the mean is the time since the start divided by the number of meetings.
    /// Increments `change`.
    pub fn meet(&mut self, me: NodeId, now: Instant, (other, sure): (NodeId, bool), change: &mut u64) {
        if self.counts.len() >= NEIGHBOURS_MAX && !self.counts.contains_key(&other) && !self.forget_unsure(me) {
            return;
        }
        let (count, known) = self.counts.entry(other).or_insert((0, false));
        (*count, *known) = (count.saturating_add(1), *known || sure);
        // No two nodes meet more than once a second.
        let mean = (now.as_secs_f64() / f64::from(*count)).max(1.0);
        *change += 1;
        let row = self.rows.entry(me).or_insert(MeetingRow { said_ms: 0, changed: 0, means: BTreeMap::new() });
        (row.said_ms, row.changed) = (millis(now), *change);
        self.means += usize::from(row.means.insert(other, mean).is_none());
    }
    /// Makes space for a node met, by forgetting the least met of those that only claimed a name. Returns whether one
    /// was forgotten.
    fn forget_unsure(&mut self, me: NodeId) -> bool {
        let unsure = self.counts.iter().filter(|(_, (_, sure))| !sure);
        let Some(least) = unsure.min_by_key(|(_, (count, _))| *count).map(|(node, _)| *node) else { return false };
        self.counts.remove(&least);
        if let Some(row) = self.rows.get_mut(&me) {
            self.means -= usize::from(row.means.remove(&least).is_some());
        }
        true
    }
    /// Upper bound of the steps of [`MeetingTable::reach`].
    pub fn looks(&self) -> usize {
        HOPS as usize * self.means
    }
    /// Learns a node's row; without space, forgets rows of the reporter with most rows.
    fn learn(&mut self, node: NodeId, row: MeetingRow, reporter: NodeId) {
        let known = self.rows.get(&node).map(|row| row.means.len());
        let fits = |all: &Self| {
            let nodes = all.rows.len() < NODES_MAX || all.rows.contains_key(&node);
            nodes && all.means + row.means.len() <= MEANS_MAX + known.unwrap_or(0)
        };
        while !fits(self) {
            let Some(loser) = self.reporters.loser() else { return };
            self.forget(loser);
            // The evicted row is the one that the report would replace: the report is dropped.
            if loser == node {
                return;
            }
        }
        self.means = self.means - known.unwrap_or(0) + row.means.len();
        self.rows.insert(node, row);
        self.reporters.note(node, reporter);
    }
    fn forget(&mut self, node: NodeId) {
        self.reporters.forget(node);
        self.means -= self.rows.remove(&node).map_or(0, |row| row.means.len());
    }
    /// Expected time, s, until a bundle at the node `from` reaches each other node, directly or through others: the
    /// least sum of at most three means.
    pub fn reach(&self, from: NodeId) -> BTreeMap<NodeId, f64> {
        let mut reach = BTreeMap::from([(from, 0.0)]);
        let mut last = reach.clone();
        // Only nodes that became nearer in the last round can bring others nearer.
        for _ in 0..HOPS {
            let mut next = BTreeMap::new();
            for (at, time) in &last {
                for (to, mean) in self.rows.get(at).into_iter().flat_map(|row| &row.means) {
                    let through = time + mean;
                    if reach.get(to).is_none_or(|known| through < *known) {
                        reach.insert(*to, through);
                        next.insert(*to, through);
                    }
                }
            }
            last = next;
        }
        reach
    }
    /// Writes rows changed after `since`, the latest first, in at most `most` bytes: number of rows; for each its
    /// node, the age of the report in ms, and its neighbours with their means.
    pub fn write(&self, now: Instant, since: u64, message: &mut Vec<u8>, most: usize) {
        let mut rows: Vec<_> = self.rows.iter().filter(|(_, row)| row.changed > since).collect();
        rows.sort_by_key(|(_, row)| core::cmp::Reverse(row.changed));
        let mut left = most;
        // Rows are written whole: to the reader, a truncated row would be a change.
        let fits = |(_, row): &&(&NodeId, &MeetingRow)| match left.checked_sub(24 + 16 * row.means.len()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let rows: Vec<_> = rows.iter().take_while(fits).collect();
        put_number(message, rows.len() as u64);
        for (node, row) in rows {
            put_number(message, node.0);
            put_number(message, (millis(now) - row.said_ms).max(0) as u64);
            put_number(message, row.means.len() as u64);
            for (other, mean) in &row.means {
                put_number(message, other.0);
                put_number(message, mean.to_bits());
            }
        }
    }
    /// Reads rows from a neighbour up to the first inconsistency. Of each node the newest row counts; this node's own
    /// row is never taken from others.
    pub fn read(
        &mut self,
        (me, reporter): (NodeId, NodeId),
        now: Instant,
        numbers: &mut impl Iterator<Item = u64>,
        change: &mut u64,
    ) -> Option<()> {
        for _ in 0..numbers.next()? {
            let (node, age) = (NodeId(numbers.next()?), i64::try_from(numbers.next()?).ok()?);
            let mut means = BTreeMap::new();
            for _ in 0..numbers.next()? {
                let (other, mean) = (NodeId(numbers.next()?), f64::from_bits(numbers.next()?));
                if (1.0..=MEAN_MAX_S).contains(&mean) && means.len() < NEIGHBOURS_MAX {
                    means.insert(other, mean);
                }
            }
            // Ages are sent, because clocks of nodes differ.
            let said_ms = millis(now).saturating_sub(age);
            let known = self.rows.get(&node);
            let newer = known.is_none_or(|row| said_ms > row.said_ms);
            // An unchanged row is not relayed again.
            if newer && node != me && known.is_none_or(|row| row.means != means) {
                *change += 1;
                self.learn(node, MeetingRow { said_ms, changed: *change, means }, reporter);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_book::numbers;

    fn at(s: u64) -> Instant {
        Instant(s * 1_000_000_000)
    }
    const ME: NodeId = NodeId(1);

    #[test]
    fn means_reach_over_three_hops() {
        let (mut meetings, mut change) = (MeetingTable::default(), 0);
        for (now, other) in [(0, 9), (100, 2), (300, 2), (400, 3)] {
            meetings.meet(ME, at(now), (NodeId(other), true), &mut change);
        }
        for (node, other, mean) in [(2, 3, 50.0), (3, 4, 60.0), (4, 5, 70.0), (5, 6, 1.0)] {
            let means = BTreeMap::from([(NodeId(other), mean)]);
            // Rows of other nodes, as if reported.
            meetings.rows.insert(NodeId(node), MeetingRow { said_ms: 0, changed: 0, means });
        }
        // Node 2 was met twice in 300 s, node 3 once in 400 s, node 9 at the start.
        let reach = meetings.reach(ME);
        let of = |node| reach.get(&NodeId(node)).copied();
        assert_eq!((of(2), of(9)), (Some(150.0), Some(1.0)), "at least a second");
        assert_eq!((of(3), of(4)), (Some(200.0), Some(260.0)), "through 2 sooner than in its own 400 s");
        assert_eq!((of(5), of(6)), (Some(530.0), None), "directly through 3: through 2 it would need a fourth meeting");
        assert_eq!(meetings.reach(NodeId(3)).get(&NodeId(6)).copied(), Some(131.0));
    }

    #[test]
    fn changed_rows_are_sent_once() {
        let (mut ours, mut theirs, mut change, mut there) = (MeetingTable::default(), MeetingTable::default(), 0, 0);
        ours.meet(ME, at(100), (NodeId(2), true), &mut change);
        let told = |ours: &MeetingTable, since, most| {
            let mut message = Vec::new();
            ours.write(at(200), since, &mut message, most);
            message
        };
        let first = told(&ours, 0, 1000);
        assert_eq!(first.len(), 8 + 24 + 16);
        assert_eq!((told(&ours, change, 1000).len(), told(&ours, 0, 39).len()), (8, 8), "nothing new; no room");
        let mut read = |now, message: &[u8]| {
            theirs
                .read((NodeId(2), ME), at(now), &mut numbers(message), &mut there)
                .map(|()| theirs.reach(ME)[&NodeId(2)])
        };
        assert_eq!(read(200, &first), Some(100.0));
        ours.meet(ME, at(190), (NodeId(2), true), &mut change);
        let second = told(&ours, 0, 1000);
        assert_eq!(read(200, &second), Some(95.0));
        assert_eq!(read(200, &first), Some(95.0), "an older report");
        for cut in (8..first.len()).step_by(8) {
            assert_eq!(read(900, &first[..cut]), None, "{cut}");
        }
        assert_eq!(there, 2);
    }

    #[test]
    fn own_measurements_and_bad_times_stay() {
        let (mut meetings, mut change) = (MeetingTable::default(), 0);
        let row = |node: u64, mean: f64| {
            let mut message = Vec::new();
            [1, node, 0, 1, 7, mean.to_bits()].iter().for_each(|number| put_number(&mut message, *number));
            message
        };
        for (node, mean) in [(1, 5.0), (3, f64::NAN), (4, -1.0), (5, f64::INFINITY), (6, 1e300), (7, 0.0)] {
            assert!(meetings.read((ME, NodeId(2)), at(9), &mut numbers(&row(node, mean)), &mut change).is_some());
        }
        assert!(meetings.rows.values().all(|row| row.means.is_empty()) && !meetings.rows.contains_key(&ME));
        for node in 10..5000 {
            assert!(meetings.read((ME, NodeId(2)), at(9), &mut numbers(&row(node, 5.0)), &mut change).is_some());
            meetings.meet(ME, at(9), (NodeId(node), true), &mut change);
        }
        assert!(meetings.rows.len() <= NODES_MAX + 1 && meetings.counts.len() == NEIGHBOURS_MAX);
    }

    /// A report about `nodes`: each meets as many `others`.
    fn lies(nodes: core::ops::Range<u64>, others: u64) -> Vec<u8> {
        let mut message = Vec::new();
        put_number(&mut message, nodes.end - nodes.start);
        for node in nodes {
            [node, 0, others].iter().for_each(|number| put_number(&mut message, *number));
            for other in 0..others {
                [1_000_000 + other, 5.0f64.to_bits()].iter().for_each(|number| put_number(&mut message, *number));
            }
        }
        message
    }

    #[test]
    fn invented_rows_evict_only_their_own() {
        let (mut meetings, mut change, liar, honest) = (MeetingTable::default(), 0, NodeId(3), NodeId(2));
        let mut receive = |meetings: &mut MeetingTable, reporter, message: &[u8]| {
            assert!(meetings.read((ME, reporter), at(9), &mut numbers(message), &mut change).is_some());
        };
        receive(&mut meetings, honest, &lies(10..60, 20));
        for round in 0..30 {
            receive(&mut meetings, liar, &lies(1_000 + 100 * round..1_100 + 100 * round, 256));
            assert!(meetings.means <= MEANS_MAX && meetings.looks() <= 3 * MEANS_MAX);
        }
        // Many short rows test the other bound, that on nodes.
        for round in 0..30 {
            receive(&mut meetings, liar, &lies(100_000 + 100 * round..100_100 + 100 * round, 1));
        }
        assert!((10..60).all(|node| meetings.rows.get(&NodeId(node)).is_some_and(|row| row.means.len() == 20)));
        assert_eq!((meetings.rows.len(), meetings.reporters.len()), (NODES_MAX, NODES_MAX));
        assert_eq!(meetings.means, meetings.rows.values().map(|row| row.means.len()).sum::<usize>());
        receive(&mut meetings, honest, &lies(60..70, 20));
        assert!((60..70).all(|node| meetings.rows.contains_key(&NodeId(node))), "and honest reports find space");
    }

    #[test]
    fn changing_names_leave_room_for_proven() {
        let (mut meetings, mut change) = (MeetingTable::default(), 0);
        (10..20).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), true), &mut change));
        // Claimed names fill the table but displace no proven one.
        (1_000..3_000).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), false), &mut change));
        (20..30).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), true), &mut change));
        assert!((10..30).all(|node| meetings.counts.contains_key(&NodeId(node))));
        assert_eq!((meetings.counts.len(), meetings.means), (NEIGHBOURS_MAX, NEIGHBOURS_MAX));
        assert_eq!(meetings.rows[&ME].means.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn first_of_equal_times_stays() {
        let (mut meetings, mut change) = (MeetingTable::default(), 0);
        for mean in [5.0f64, 6.0] {
            let mut message = Vec::new();
            [1, 3, 0, 1, 7, mean.to_bits()].iter().for_each(|number| put_number(&mut message, *number));
            meetings.read((ME, NodeId(2)), at(9), &mut numbers(&message), &mut change).unwrap();
            assert_eq!(meetings.reach(NodeId(3))[&NodeId(7)], 5.0);
        }
    }

    #[test]
    fn proven_row_survives_a_claim() {
        let (mut meetings, mut change) = (MeetingTable::default(), 0);
        meetings.meet(ME, at(9), (NodeId(10), true), &mut change);
        meetings.meet(ME, at(9), (NodeId(10), false), &mut change);
        for node in (1_000..1_300).flat_map(|node| [node; 3]) {
            meetings.meet(ME, at(9), (NodeId(node), false), &mut change);
        }
        assert!(meetings.counts.contains_key(&NodeId(10)));
    }
}

//! How long it takes nodes to meet each other, as each of them measures it and all tell it on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};
use farlink_book::{Reporters, put_number};

/// Nodes whose meetings are known at most.
const NODES_MAX: usize = 1024;
/// Neighbours known of each at most.
const NEIGHBOURS_MAX: usize = 256;
/// Means known of all nodes at most: so many are looked at to find who may be reached.
const MEANS_MAX: usize = 65_536;
/// The longest mean that makes sense, s: 31 years.
const MEAN_MAX_S: f64 = 1e9;
/// Meetings in a row by which a bundle may still be expected to arrive.
const HOPS: u32 = 3;

/// What a node says of its meetings.
#[derive(Debug)]
struct Row {
    /// When it said so, ms on this process's clock.
    said_ms: i64,
    /// Of all that changed which was the last of this one.
    changed: u64,
    /// Mean time from one meeting to the next, s.
    means: BTreeMap<NodeId, f64>,
}

/// Mean times between meetings.
#[derive(Default, Debug)]
pub struct Meetings {
    rows: BTreeMap<NodeId, Row>,
    /// Means in all of them.
    means: usize,
    /// Who told of which node's.
    tellers: Reporters<NodeId>,
    /// Whom this node met, how often, and whether it is sure who that was.
    counts: BTreeMap<NodeId, (u32, bool)>,
}

pub fn millis(at: Instant) -> i64 {
    (at.0 / 1_000_000) as i64
}

impl Meetings {
    /// This node meets another: the mean is the time since it began, by its meetings. `change` counts
    /// what changes.
    pub fn meet(&mut self, me: NodeId, now: Instant, (other, sure): (NodeId, bool), change: &mut u64) {
        if self.counts.len() >= NEIGHBOURS_MAX && !self.counts.contains_key(&other) && !self.forget_unsure(me) {
            return;
        }
        let (count, known) = self.counts.entry(other).or_insert((0, false));
        (*count, *known) = (count.saturating_add(1), *known || sure);
        let mean = (now.as_secs_f64() / f64::from(*count)).max(1.0);
        *change += 1;
        let row = self.rows.entry(me).or_insert(Row { said_ms: 0, changed: 0, means: BTreeMap::new() });
        (row.said_ms, row.changed) = (millis(now), *change);
        self.means += usize::from(row.means.insert(other, mean).is_none());
    }
    /// Room for one that is met: whoever only claimed a name and was met least often is forgotten.
    fn forget_unsure(&mut self, me: NodeId) -> bool {
        let unsure = self.counts.iter().filter(|(_, (_, sure))| !sure);
        let Some(least) = unsure.min_by_key(|(_, (count, _))| *count).map(|(node, _)| *node) else { return false };
        self.counts.remove(&least);
        if let Some(row) = self.rows.get_mut(&me) {
            self.means -= usize::from(row.means.remove(&least).is_some());
        }
        true
    }
    /// Things that [`Meetings::reach`] looks at.
    pub fn looks(&self) -> usize {
        HOPS as usize * self.means
    }
    /// Notes what somebody says of a node; where there is no room, what whoever told most told is forgotten.
    fn learn(&mut self, node: NodeId, row: Row, teller: NodeId) {
        let known = self.rows.get(&node).map(|row| row.means.len());
        let fits = |all: &Self| {
            let nodes = all.rows.len() < NODES_MAX || all.rows.contains_key(&node);
            nodes && all.means + row.means.len() <= MEANS_MAX + known.unwrap_or(0)
        };
        while !fits(self) {
            let Some(loser) = self.tellers.loser() else { return };
            self.forget(loser);
            if loser == node {
                return;
            }
        }
        self.means = self.means - known.unwrap_or(0) + row.means.len();
        self.rows.insert(node, row);
        self.tellers.note(node, teller);
    }
    fn forget(&mut self, node: NodeId) {
        self.tellers.forget(node);
        self.means -= self.rows.remove(&node).map_or(0, |row| row.means.len());
    }
    /// The expected time until a node meets each other one, directly or by others: the least sum of at
    /// most three means.
    pub fn reach(&self, from: NodeId) -> BTreeMap<NodeId, f64> {
        let mut reach = BTreeMap::from([(from, 0.0)]);
        let mut last = reach.clone();
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
    /// What changed since then, the newest first, in so many bytes: number of nodes; of each its node,
    /// how long ago it said so in ms, and its neighbours with their means.
    pub fn write(&self, now: Instant, since: u64, message: &mut Vec<u8>, most: usize) {
        let mut rows: Vec<_> = self.rows.iter().filter(|(_, row)| row.changed > since).collect();
        rows.sort_by_key(|(_, row)| core::cmp::Reverse(row.changed));
        let mut left = most;
        let fits = |(_, row): &&(&NodeId, &Row)| match left.checked_sub(24 + 16 * row.means.len()) {
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
    /// Reads what a neighbour says, as far as it makes sense: of each node the newest stays, and
    /// nobody else knows this node's.
    pub fn read(
        &mut self,
        (me, teller): (NodeId, NodeId),
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
            let said_ms = millis(now).saturating_sub(age);
            let known = self.rows.get(&node);
            let newer = known.is_none_or(|row| said_ms > row.said_ms);
            if newer && node != me && known.is_none_or(|row| row.means != means) {
                *change += 1;
                self.learn(node, Row { said_ms, changed: *change, means }, teller);
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
        let (mut meetings, mut change) = (Meetings::default(), 0);
        for (now, other) in [(0, 9), (100, 2), (300, 2), (400, 3)] {
            meetings.meet(ME, at(now), (NodeId(other), true), &mut change);
        }
        for (node, other, mean) in [(2, 3, 50.0), (3, 4, 60.0), (4, 5, 70.0), (5, 6, 1.0)] {
            let means = BTreeMap::from([(NodeId(other), mean)]);
            meetings.rows.insert(NodeId(node), Row { said_ms: 0, changed: 0, means });
        }
        let reach = meetings.reach(ME);
        let of = |node| reach.get(&NodeId(node)).copied();
        assert_eq!((of(2), of(9)), (Some(150.0), Some(1.0)), "at least a second");
        assert_eq!((of(3), of(4)), (Some(200.0), Some(260.0)), "by 2 sooner than its own 400 s");
        assert_eq!((of(5), of(6)), (Some(530.0), None), "by 3 at once: by 2 it would be a fourth meeting");
        assert_eq!(meetings.reach(NodeId(3)).get(&NodeId(6)).copied(), Some(131.0));
    }

    #[test]
    fn changed_rows_are_sent_once() {
        let (mut ours, mut theirs, mut change, mut there) = (Meetings::default(), Meetings::default(), 0, 0);
        ours.meet(ME, at(100), (NodeId(2), true), &mut change);
        let told = |ours: &Meetings, since, most| {
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
        assert_eq!(read(200, &first), Some(95.0), "it was said before");
        for cut in (8..first.len()).step_by(8) {
            assert_eq!(read(900, &first[..cut]), None, "{cut}");
        }
        assert_eq!(there, 2);
    }

    #[test]
    fn own_measurements_and_bad_times_stay() {
        let (mut meetings, mut change) = (Meetings::default(), 0);
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

    /// What somebody says of so many nodes: that each meets so many others.
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
        let (mut meetings, mut change, liar, honest) = (Meetings::default(), 0, NodeId(3), NodeId(2));
        let mut hear = |meetings: &mut Meetings, teller, message: &[u8]| {
            assert!(meetings.read((ME, teller), at(9), &mut numbers(message), &mut change).is_some());
        };
        hear(&mut meetings, honest, &lies(10..60, 20));
        for round in 0..30 {
            hear(&mut meetings, liar, &lies(1_000 + 100 * round..1_100 + 100 * round, 256));
            assert!(meetings.means <= MEANS_MAX && meetings.looks() <= 3 * MEANS_MAX);
        }
        for round in 0..30 {
            hear(&mut meetings, liar, &lies(100_000 + 100 * round..100_100 + 100 * round, 1));
        }
        assert!((10..60).all(|node| meetings.rows.get(&NodeId(node)).is_some_and(|row| row.means.len() == 20)));
        assert_eq!((meetings.rows.len(), meetings.tellers.len()), (NODES_MAX, NODES_MAX));
        assert_eq!(meetings.means, meetings.rows.values().map(|row| row.means.len()).sum::<usize>());
        hear(&mut meetings, honest, &lies(60..70, 20));
        assert!((60..70).all(|node| meetings.rows.contains_key(&NodeId(node))), "and who is honest finds room");
    }

    #[test]
    fn changing_names_leave_room_for_proven() {
        let (mut meetings, mut change) = (Meetings::default(), 0);
        (10..20).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), true), &mut change));
        (1_000..3_000).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), false), &mut change));
        (20..30).for_each(|node| meetings.meet(ME, at(9), (NodeId(node), true), &mut change));
        assert!((10..30).all(|node| meetings.counts.contains_key(&NodeId(node))));
        assert_eq!((meetings.counts.len(), meetings.means), (NEIGHBOURS_MAX, NEIGHBOURS_MAX));
        assert_eq!(meetings.rows[&ME].means.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn first_of_equal_times_stays() {
        let (mut meetings, mut change) = (Meetings::default(), 0);
        for mean in [5.0f64, 6.0] {
            let mut message = Vec::new();
            [1, 3, 0, 1, 7, mean.to_bits()].iter().for_each(|number| put_number(&mut message, *number));
            meetings.read((ME, NodeId(2)), at(9), &mut numbers(&message), &mut change).unwrap();
            assert_eq!(meetings.reach(NodeId(3))[&NodeId(7)], 5.0);
        }
    }

    #[test]
    fn proven_row_survives_a_claim() {
        let (mut meetings, mut change) = (Meetings::default(), 0);
        meetings.meet(ME, at(9), (NodeId(10), true), &mut change);
        meetings.meet(ME, at(9), (NodeId(10), false), &mut change);
        for node in (1_000..1_300).flat_map(|node| [node; 3]) {
            meetings.meet(ME, at(9), (NodeId(node), false), &mut change);
        }
        assert!(meetings.counts.contains_key(&NodeId(10)));
    }
}

//! RAPID's hello to a neighbour, of bounded length: change counters of both sides, bytes per meeting,
//! acknowledgments, meeting times, bundles held here with expected delivery, and copies known elsewhere. Meetings and
//! copies are repeated until the neighbour confirms them: a hello may be lost, and a node may restart.

use super::replicas::KnownCopy;
use super::{EXCHANGED_MAX, Exchanged, Rapid, age_ms, millis, rate};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{NodeId, PeerId};
use farlink_book::{Actions, Flags, Held, Node, Reporters, numbers, put_number};

/// Bytes of a bundle held by the sender: identity, destination, age in ms, size, rate.
const HELD_BYTES: usize = 48;
/// Bytes of a copy elsewhere: identity, holder, age of the report in ms, rate.
const COPY_BYTES: usize = 40;

/// Bundles of a neighbour by destination, oldest first: creation time, in ms on this process's clock, and the bytes of
/// this bundle and all older ones.
#[derive(Default, Debug)]
pub struct NeighbourQueue(BTreeMap<NodeId, Vec<(i64, u64)>>);

impl NeighbourQueue {
    /// Queue of bundles given as destination, creation time and size.
    fn of(mut bundles: Vec<(NodeId, i64, u64)>) -> NeighbourQueue {
        // Older bundles leave first, so the running sum counts the bytes ahead.
        bundles.sort_unstable();
        let mut queue: BTreeMap<NodeId, Vec<(i64, u64)>> = BTreeMap::new();
        for (to, born_ms, size) in bundles {
            let list = queue.entry(to).or_default();
            let before = list.last().map_or(0, |(_, bytes)| *bytes);
            list.push((born_ms, before.saturating_add(size)));
        }
        NeighbourQueue(queue)
    }
    /// Bytes that leave before a bundle created at `born_ms`.
    pub fn ahead(&self, to: NodeId, born_ms: i64) -> u64 {
        let Some(list) = self.0.get(&to) else { return 0 };
        let older = list.partition_point(|(born, _)| *born < born_ms);
        older.checked_sub(1).and_then(|last| list.get(last)).map_or(0, |(_, bytes)| *bytes)
    }
}

impl Rapid {
    /// Writes a hello: at most a quarter each for acknowledgments, meetings and held bundles; the rest for copies.
    pub(super) fn hello(&mut self, node: &Node<'_>, to: NodeId) -> Vec<u8> {
        let exchanged = self.exchanged.get(&to).copied().unwrap_or_default();
        // A counter from before a restart of this node is meaningless.
        let has = self.first..=self.change;
        let since = if has.contains(&exchanged.ours) { exchanged.ours } else { self.first };
        let (mut message, quarter) = (Vec::new(), self.hello_max / 4);
        [self.change, exchanged.theirs, self.meeting_bytes].iter().for_each(|n| put_number(&mut message, *n));
        self.acks.write(&mut message, quarter / 16 - 2);
        self.meetings.write(node.now, since, &mut message, quarter);
        self.write_held(node, &mut message, quarter / HELD_BYTES);
        let left = self.hello_max.saturating_sub(message.len()) / COPY_BYTES;
        for (id, copy) in self.replicas.since(since).filter(|(_, copy)| copy.holder != to).take(left) {
            put_number(&mut message, (id >> 64) as u64);
            put_number(&mut message, id as u64);
            put_number(&mut message, copy.holder.0);
            put_number(&mut message, (millis(node.now) - copy.said_ms).max(0) as u64);
            put_number(&mut message, copy.rate.to_bits());
        }
        message
    }

    /// Writes the bundles held longest, `most` at most, in their sending order.
    fn write_held(&self, node: &Node<'_>, message: &mut Vec<u8>, most: usize) {
        // Anonymous bundles and hellos cannot be referred to.
        let told = |held: &&Held| !held.bundle.is_anonymous() && !held.flags.has(Flags::VIRTUAL);
        let mut bundles: Vec<&Held> = node.book.all().filter(told).take(most).collect();
        bundles.sort_by_key(|held| (held.destination(), Reverse(age_ms(node, held)), held.number));
        put_number(message, bundles.len() as u64);
        let (mut last, mut ahead) = (NodeId::NULL, 0);
        for held in bundles {
            if held.destination() != last {
                (last, ahead) = (held.destination(), 0);
            }
            let rate = rate(self.reach.get(&last), ahead, held.size(), self.meeting_bytes);
            ahead += held.size();
            put_number(message, (held.bundle.id >> 64) as u64);
            put_number(message, held.bundle.id as u64);
            [last.0, age_ms(node, held), held.size(), rate.to_bits()].iter().for_each(|n| put_number(message, *n));
        }
    }

    /// Reads a neighbour's hello up to its first inconsistency.
    pub(super) fn read_hello(
        &mut self,
        node: &Node<'_>,
        from: PeerId,
        message: &[u8],
        out: &mut Actions,
    ) -> Option<()> {
        let peer = node.peers.get(from)?;
        let (speaker, reporter) = (peer.node, Reporters::<u128>::name(peer));
        // A longer hello is read only as far as this node would write one.
        let message = message.get(..self.hello_max).unwrap_or(message);
        let (numbers, replicas, now_ms) = (&mut numbers(message), &mut self.replicas, millis(node.now));
        let exchanged = Exchanged { theirs: numbers.next()?, ours: numbers.next()? };
        if self.exchanged.len() >= EXCHANGED_MAX && !self.exchanged.contains_key(&speaker) {
            // A forgotten neighbour is merely sent everything again.
            self.exchanged.pop_first();
        }
        self.exchanged.insert(speaker, exchanged);
        let meeting_bytes = numbers.next()?.max(1);
        self.acks.read(node, peer, numbers, out, |id| replicas.forget(id))?;
        self.meetings.read((node.me, reporter), node.now, numbers, &mut self.change)?;
        let mut queue = Vec::new();
        for _ in 0..numbers.next()? {
            let id = u128::from(numbers.next()?) << 64 | u128::from(numbers.next()?);
            let (to, age) = (NodeId(numbers.next()?), numbers.next()?);
            let (size, rate) = (numbers.next()?, f64::from_bits(numbers.next()?));
            queue.push((to, now_ms.saturating_sub_unsigned(age), size));
            let copy = KnownCopy { holder: speaker, rate, said_ms: now_ms };
            // A neighbour without a name holds nothing that can be attributed.
            if speaker != NodeId::NULL {
                self.replicas.learn(id, copy, reporter, &mut self.change);
            }
        }
        // The queue is complete: it replaces the one before.
        if let Some(neighbour) = self.neighbours.get_mut(&from) {
            (neighbour.queue, neighbour.meeting_bytes) = (NeighbourQueue::of(queue), meeting_bytes);
        }
        while let Some(high) = numbers.next() {
            let id = u128::from(high) << 64 | u128::from(numbers.next()?);
            let (holder, age) = (NodeId(numbers.next()?), numbers.next()?);
            let copy = KnownCopy {
                holder,
                rate: f64::from_bits(numbers.next()?),
                said_ms: now_ms.saturating_sub_unsigned(age),
            };
            if holder != node.me && holder != NodeId::NULL {
                self.replicas.learn(id, copy, reporter, &mut self.change);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_leaves_before() {
        let (two, three) = (NodeId(2), NodeId(3));
        // The last size would overflow the sum.
        let queue = NeighbourQueue::of([(two, 30, 100), (three, 5, 7), (two, 10, 50), (two, 20, u64::MAX)].into());
        let ahead = |to, born| queue.ahead(to, born);
        assert_eq!([10, 11, 20, 21, 99].map(|born| ahead(two, born)), [0, 50, 50, u64::MAX, u64::MAX]);
        assert_eq!((ahead(three, 5), ahead(three, 6), ahead(NodeId(4), 6)), (0, 7, 0));
    }
}

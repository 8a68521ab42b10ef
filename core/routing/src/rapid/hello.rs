//! What RAPID tells a neighbour it meets, in so many bytes: how much changed here, and there as far as
//! was heard; what its meetings carry, what arrived, who meets whom how often, what it holds and when
//! it is expected to deliver it, and what it learnt of others' copies. Of meetings and copies a
//! neighbour is told what it does not say it has: a hello may be lost, and a node begin anew.

use super::replicas::Copy;
use super::{EXCHANGED_MAX, Exchanged, Rapid, age_ms, millis, rate};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{NodeId, PeerId};
use farlink_book::{Actions, Flags, Held, Node, Reporters, numbers, put_number};

/// Bytes of a bundle the speaker holds: identity, destination, age in ms, size, rate.
const HELD_BYTES: usize = 48;
/// Bytes of a copy elsewhere: identity, holder, how long ago it said so in ms, rate.
const COPY_BYTES: usize = 40;

/// What a neighbour holds for each destination: when made, ms on this process's clock, and the bytes
/// up to and with it.
#[derive(Default, Debug)]
pub struct Queue(BTreeMap<NodeId, Vec<(i64, u64)>>);

impl Queue {
    /// Of bundles by destination, when made, size.
    fn of(mut bundles: Vec<(NodeId, i64, u64)>) -> Queue {
        bundles.sort_unstable();
        let mut queue: BTreeMap<NodeId, Vec<(i64, u64)>> = BTreeMap::new();
        for (to, born_ms, size) in bundles {
            let list = queue.entry(to).or_default();
            let before = list.last().map_or(0, |(_, bytes)| *bytes);
            list.push((born_ms, before.saturating_add(size)));
        }
        Queue(queue)
    }
    /// Bytes that leave before a bundle made then.
    pub fn ahead(&self, to: NodeId, born_ms: i64) -> u64 {
        let Some(list) = self.0.get(&to) else { return 0 };
        let older = list.partition_point(|(born, _)| *born < born_ms);
        older.checked_sub(1).and_then(|last| list.get(last)).map_or(0, |(_, bytes)| *bytes)
    }
}

impl Rapid {
    /// A quarter at most for each of what arrived, meetings and what is held; the rest for copies.
    pub(super) fn hello(&mut self, node: &Node<'_>, to: NodeId) -> Vec<u8> {
        let exchanged = self.exchanged.get(&to).copied().unwrap_or_default();
        // What an earlier life of this node counted says nothing.
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

    /// The bundles held longest, as many as there may be, in the order in which they leave.
    fn write_held(&self, node: &Node<'_>, message: &mut Vec<u8>, most: usize) {
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

    /// Reads a neighbour's hello as far as it makes sense.
    pub(super) fn heard(&mut self, node: &Node<'_>, from: PeerId, message: &[u8], out: &mut Actions) -> Option<()> {
        let peer = node.peers.get(from)?;
        let (speaker, teller) = (peer.node, Reporters::<u128>::name(peer));
        let message = message.get(..self.hello_max).unwrap_or(message);
        let (numbers, replicas, now_ms) = (&mut numbers(message), &mut self.replicas, millis(node.now));
        let exchanged = Exchanged { theirs: numbers.next()?, ours: numbers.next()? };
        if self.exchanged.len() >= EXCHANGED_MAX && !self.exchanged.contains_key(&speaker) {
            // Whoever it was is told everything again.
            self.exchanged.pop_first();
        }
        self.exchanged.insert(speaker, exchanged);
        let meeting_bytes = numbers.next()?.max(1);
        self.acks.read(node, peer, numbers, out, |id| replicas.forget(id))?;
        self.meetings.read((node.me, teller), node.now, numbers, &mut self.change)?;
        let mut queue = Vec::new();
        for _ in 0..numbers.next()? {
            let id = u128::from(numbers.next()?) << 64 | u128::from(numbers.next()?);
            let (to, age) = (NodeId(numbers.next()?), numbers.next()?);
            let (size, rate) = (numbers.next()?, f64::from_bits(numbers.next()?));
            queue.push((to, now_ms.saturating_sub_unsigned(age), size));
            let copy = Copy { holder: speaker, rate, said_ms: now_ms };
            if speaker != NodeId::NULL {
                self.replicas.learn(id, copy, teller, &mut self.change);
            }
        }
        if let Some(neighbour) = self.neighbours.get_mut(&from) {
            (neighbour.queue, neighbour.meeting_bytes) = (Queue::of(queue), meeting_bytes);
        }
        while let Some(high) = numbers.next() {
            let id = u128::from(high) << 64 | u128::from(numbers.next()?);
            let (holder, age) = (NodeId(numbers.next()?), numbers.next()?);
            let copy =
                Copy { holder, rate: f64::from_bits(numbers.next()?), said_ms: now_ms.saturating_sub_unsigned(age) };
            if holder != node.me && holder != NodeId::NULL {
                self.replicas.learn(id, copy, teller, &mut self.change);
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
        let queue = Queue::of([(two, 30, 100), (three, 5, 7), (two, 10, 50), (two, 20, u64::MAX)].into());
        let ahead = |to, born| queue.ahead(to, born);
        assert_eq!([10, 11, 20, 21, 99].map(|born| ahead(two, born)), [0, 50, 50, u64::MAX, u64::MAX]);
        assert_eq!((ahead(three, 5), ahead(three, 6), ahead(NodeId(4), 6)), (0, 7, 0));
    }
}

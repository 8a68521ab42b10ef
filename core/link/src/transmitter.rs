//! Transmitter of a direction: its rate, and the queue before it. Several directions may share one: a bottleneck, such
//! as links that leave through the same modem.

use crate::schedule::RateSchedule;
use crate::spec::DirectionSpec;
use crate::statistics::DropReason;
use alloc::collections::VecDeque;
use farlink_base::Instant;

/// Rate and queue of a direction, or of several ([`LinkDirection::with_transmitter`](crate::LinkDirection)).
#[derive(Clone, Debug)]
pub struct Transmitter {
    pub(crate) rate: RateSchedule,
    queue_limit: u64,
    /// Packets not transmitted yet: end of the transmission, and bytes.
    waiting: VecDeque<(Instant, u64)>,
    pub(crate) waiting_bytes: u64,
    /// Time from which the transmitter is idle.
    pub(crate) free: Instant,
}

impl Transmitter {
    /// Creates an idle transmitter with the rate and queue of a direction.
    pub fn new(spec: &DirectionSpec) -> Transmitter {
        Transmitter {
            rate: RateSchedule::new(spec),
            queue_limit: spec.queue_bytes(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free: Instant::ZERO,
        }
    }

    /// Creates a transmitter that directions with equal rates share, with the longest of their queues. `None` if there
    /// is no direction.
    pub fn shared<'a>(specs: impl IntoIterator<Item = &'a DirectionSpec>) -> Option<Transmitter> {
        let all = specs.into_iter().map(Transmitter::new);
        all.reduce(|one, other| Transmitter { queue_limit: one.queue_limit.max(other.queue_limit), ..one })
    }

    /// Bytes that wait for transmission at `now`, including the packet under transmission.
    pub(crate) fn queued_bytes(&mut self, now: Instant) -> u64 {
        while let Some((_, bytes)) = self.waiting.front().copied().filter(|w| w.0 <= now) {
            self.waiting_bytes -= bytes;
            self.waiting.pop_front();
        }
        self.waiting_bytes
    }

    /// Queues a packet; returns when its transmission begins and ends. `until`: time at which the link goes down.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        bytes: u64,
        until: Instant,
    ) -> Result<(Instant, Instant), DropReason> {
        let queued = self.queued_bytes(now);
        // An empty queue accepts any packet, even one longer than its limit.
        if queued > 0 && queued + bytes > self.queue_limit {
            return Err(DropReason::QueueFull);
        }
        let start = self.free.max(now);
        let end = self.rate.finish(start, bytes);
        // The link would go down within the packet, or the rate stays 0.
        if end > until || end == Instant::MAX {
            return Err(DropReason::WindowEnd);
        }
        if end > now {
            self.free = end;
            self.waiting.push_back((end, bytes));
            self.waiting_bytes += bytes;
        }
        Ok((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ContactWindow, Loss};
    use crate::{LinkDirection, PacketFate};
    use alloc::vec::Vec;
    use farlink_base::{DataRate, DataVolume, Duration};

    const MS: u64 = 1_000_000;

    fn spec(delay_ms: u64, queue: u64) -> DirectionSpec {
        let spec = DirectionSpec::new(DataRate(1_000_000), Duration::from_millis(delay_ms));
        DirectionSpec { queue: Some(DataVolume(queue)), ..spec }
    }

    /// Two directions that share a bottleneck of 1 Mbit/s, at which 125 B take 1 ms.
    struct Pair {
        shared: Transmitter,
        directions: [LinkDirection; 2],
    }
    impl Pair {
        fn of(specs: [DirectionSpec; 2]) -> Pair {
            let shared = Transmitter::shared(&specs).unwrap();
            let mut seed = 0;
            let directions = specs.map(|spec| {
                seed += 1;
                LinkDirection::new(spec, seed)
            });
            Pair { shared, directions }
        }
        fn send(&mut self, which: usize, now: u64, bytes: u64) -> Option<u64> {
            let fate = |d: &mut LinkDirection| d.transmit(Instant(now), bytes);
            let fate: PacketFate = self.directions[which].with_transmitter(&mut self.shared, fate);
            fate.deliveries().next().map(|arrival| arrival.at.0 / MS)
        }
    }

    #[test]
    fn links_of_a_bottleneck_wait_for_each_other() {
        let mut pair = Pair::of([spec(10, 100_000), spec(20, 100_000)]);
        assert_eq!(pair.send(0, 0, 1250), Some(20));
        assert_eq!(pair.send(1, 0, 1250), Some(40), "10 ms behind the other, then its own delay");
        assert_eq!(pair.send(0, 25 * MS, 1250), Some(45));
        let busy = pair.directions.each_ref().map(|d| d.statistics().busy.as_millis());
        assert_eq!(busy, [20, 10], "each counts its own packets");
        assert_eq!(pair.directions[0].drained_at(), Instant::ZERO, "its own transmitter is unused");
    }

    #[test]
    fn bottleneck_queue_fills_from_all_links() {
        let mut pair = Pair::of([spec(0, 1000), spec(0, 3000)]);
        let arrived: Vec<bool> = (0..10).map(|n| pair.send(n % 2, 0, 500).is_some()).collect();
        assert_eq!(arrived.iter().filter(|arrived| **arrived).count(), 6, "the longer queue holds");
        let full = pair.directions.each_ref().map(|d| d.statistics().dropped_by(DropReason::QueueFull));
        assert_eq!(full, [2, 2]);
        assert_eq!(pair.send(0, 24 * MS, 500), Some(28));
    }

    #[test]
    fn windows_and_losses_stay_with_each_link() {
        let window = ContactWindow::new(Instant(0), Instant(5 * MS));
        let windowed = DirectionSpec { windows: Some(Vec::from([window])), ..spec(0, 100_000) };
        let lossy = DirectionSpec { loss: Loss::Bernoulli(0.5), ..spec(0, 100_000) };
        let mut pair = Pair::of([windowed, lossy.clone()]);
        let shared: Vec<bool> = (0..200).map(|n| pair.send(1, n * 10 * MS, 125).is_some()).collect();
        assert_eq!(pair.send(0, 2000 * MS, 125), None, "its window is over");
        let mut alone = LinkDirection::new(lossy, 2);
        let lost = |n: u64| alone.transmit(Instant(n * 10 * MS), 125).deliveries().next().is_some();
        assert_eq!(shared, (0..200).map(lost).collect::<Vec<_>>(), "as if it were alone");
    }
}

//! One direction of a link: computes the fate of each packet, and its times.

use crate::availability::Availability;
use crate::impairment::Impairments;
use crate::schedule::DelaySchedule;
use crate::spec::DirectionSpec;
use crate::statistics::{DropReason, Statistics};
use crate::transmitter::Transmitter;
use farlink_base::{DataRate, Duration, Instant, Rng};

/// Arrival of a packet at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketArrival {
    /// Arrival time of the last bit.
    pub at: Instant,
    /// Whether a bit was flipped on the way, undetected by the link. A driver that has the packet's bytes flips one of
    /// their bits; a simulation without bytes drops the packet, as the checksums of UDP and TCP would.
    pub corrupted: bool,
}

/// Fate of one wire packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketFate {
    /// The packet arrives.
    Arrives(PacketArrival),
    /// The packet arrives twice.
    Twice(PacketArrival, PacketArrival),
    /// The packet is lost.
    Dropped(DropReason),
}
impl PacketFate {
    /// Arrivals of the packet: two, one, or none if it is lost.
    pub fn deliveries(&self) -> PacketArrivals {
        match *self {
            PacketFate::Arrives(one) => [Some(one), None].into_iter().flatten(),
            PacketFate::Twice(one, two) => [Some(one), Some(two)].into_iter().flatten(),
            PacketFate::Dropped(_) => [None, None].into_iter().flatten(),
        }
    }
}

/// Iterator over the arrivals of one packet.
pub type PacketArrivals = core::iter::Flatten<core::array::IntoIter<Option<PacketArrival>, 2>>;

/// Seed of one direction of the link with this index. Simulator and testbed use the same seed, so that packet `n` of a
/// direction meets the same fate in both.
pub fn direction_seed(seed: u64, link: usize, forward: bool) -> u64 {
    seed ^ ((link as u64) * 2 + u64::from(!forward) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// One direction of a link. The times passed to its methods must not decrease.
///
/// A packet passes, in this order: the contact windows (a link that is down drops it, but packets in flight arrive),
/// the queue, the transmitter (which counts IP bytes and the link's overhead), random loss (after the transmitter, so
/// that lost packets use their share of the rate), and the delay.
#[derive(Clone, Debug)]
pub struct LinkDirection {
    pub(crate) spec: DirectionSpec,
    pub(crate) transmitter: Transmitter,
    delay: DelaySchedule,
    pub(crate) availability: Availability,
    pub(crate) impairments: Impairments,
    /// Latest arrival of the packets that were not reordered; the next packet without a detour arrives no earlier.
    in_order: Instant,
    last_arrival: Instant,
    pub(crate) statistics: Statistics,
}

impl LinkDirection {
    /// Creates an idle direction. All its randomness follows from `seed`, which must differ between directions. Call
    /// [`DirectionSpec::check`] first: tables that are out of order give arbitrary times.
    pub fn new(spec: DirectionSpec, seed: u64) -> LinkDirection {
        LinkDirection {
            transmitter: Transmitter::new(&spec),
            delay: DelaySchedule::new(&spec),
            availability: Availability::new(&spec, Rng::stream(seed, Impairments::OUTAGES)),
            impairments: Impairments::new(seed),
            in_order: Instant::ZERO,
            last_arrival: Instant::ZERO,
            statistics: Statistics::default(),
            spec,
        }
    }

    /// Transmits a packet offered at `now`, and returns its fate. `ip_bytes`: length with the headers of UDP or TCP and
    /// IP.
    pub fn transmit(&mut self, now: Instant, ip_bytes: u64) -> PacketFate {
        let bytes = ip_bytes + u64::from(self.spec.overhead);
        self.statistics.sent += 1;
        self.statistics.sent_bytes += bytes;
        // Dropped packets draw no random numbers, because they were never transmitted.
        let left = match self.enqueue(now, bytes) {
            Ok(left) => left,
            Err(reason) => return self.drop_packet(reason, bytes),
        };
        // Every generator draws once per transmitted packet, lost or not, so that no setting changes the draws for
        // another.
        let lost = self.impairments.lost(&self.spec.loss);
        let bit_error = self.impairments.bit_error(self.spec.bit_error_rate, bytes);
        let arrival = self.arrival(left);
        let corrupted = self.impairments.corrupted(self.spec.corrupt);
        let duplicated = self.impairments.duplicated(self.spec.duplicate);
        // A packet with a random loss and a bit error counts as lost at random.
        if lost || bit_error {
            return self.drop_packet(if lost { DropReason::Loss } else { DropReason::BitError }, bytes);
        }
        self.statistics.delivered += 1;
        self.statistics.delivered_bytes += bytes;
        self.statistics.corrupted += u64::from(corrupted);
        let delivery = PacketArrival { at: arrival, corrupted };
        if duplicated {
            self.statistics.duplicated += 1;
            PacketFate::Twice(delivery, delivery)
        } else {
            PacketFate::Arrives(delivery)
        }
    }

    /// Transmits every wire packet of a super-packet (segmentation offload), in order, because loss, rate and queue
    /// apply to wire packets. `out` receives the fate of each.
    pub fn transmit_segments(
        &mut self,
        now: Instant,
        ip_bytes: impl IntoIterator<Item = u64>,
        mut out: impl FnMut(PacketFate),
    ) {
        for bytes in ip_bytes {
            out(self.transmit(now, bytes));
        }
    }

    /// Whether the link may transmit at `now`.
    pub fn is_up(&mut self, now: Instant) -> bool {
        self.availability.at(now).0
    }

    /// First instant after `now` at which [`LinkDirection::is_up`] may change, so that a driver can raise or lower a
    /// carrier; [`Instant::MAX`] if it never changes.
    pub fn next_change(&mut self, now: Instant) -> Instant {
        self.availability.at(now).1
    }

    /// Transmission rate at `now`; `None` if unlimited.
    pub fn rate(&self, now: Instant) -> Option<DataRate> {
        self.transmitter.rate.at(now).map(DataRate)
    }

    /// One-way delay of a packet that leaves at `now`, without jitter and detours.
    pub fn delay(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.delay.at(now))
    }

    /// Bytes that wait for transmission at `now`, including the packet under transmission.
    pub fn queued_bytes(&mut self, now: Instant) -> u64 {
        self.transmitter.queued_bytes(now)
    }

    /// Time at which the queue is empty, if nothing is added.
    pub fn drained_at(&self) -> Instant {
        self.transmitter.free
    }

    /// Runs `work` with a transmitter that several directions share, in place of this direction's own. Rate and queue
    /// are then the shared ones; windows, losses, delay and counters are this direction's. The times given to all
    /// directions that share the transmitter must not decrease.
    pub fn with_transmitter<T>(&mut self, shared: &mut Transmitter, work: impl FnOnce(&mut LinkDirection) -> T) -> T {
        core::mem::swap(&mut self.transmitter, shared);
        let result = work(self);
        core::mem::swap(&mut self.transmitter, shared);
        result
    }

    /// Latest arrival of any packet transmitted so far, lost ones included. No packet is in flight after it, so a
    /// driver may then lower the carrier.
    pub fn last_arrival(&self) -> Instant {
        self.last_arrival
    }

    /// Counters since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Specification of the direction.
    pub fn spec(&self) -> &DirectionSpec {
        &self.spec
    }

    /// Queues a packet; returns the time at which its last bit leaves, or the reason for dropping it.
    fn enqueue(&mut self, now: Instant, bytes: u64) -> Result<Instant, DropReason> {
        let (up, until) = self.availability.at(now);
        if !up {
            return Err(DropReason::Down);
        }
        let (start, end) = self.transmitter.enqueue(now, bytes, until)?;
        self.statistics.busy += end - start;
        self.statistics.queue_peak = self.statistics.queue_peak.max(self.transmitter.waiting_bytes);
        Ok(end)
    }

    /// Time at which a packet that left at `left` arrives, with jitter and detour.
    pub(crate) fn arrival(&mut self, left: Instant) -> Instant {
        let jitter = self.impairments.jitter(&self.spec.jitter);
        let detour = self.impairments.detour(&self.spec);
        let mut at = Instant(left.0.saturating_add(self.delay.at(left)).saturating_add(jitter));
        if let Some(gap) = detour {
            self.statistics.reordered += 1;
            at = Instant(at.0.saturating_add(gap));
        } else if !self.spec.jitter.is_some_and(|jitter| jitter.reorders) {
            // Without reordering, a packet waits behind its predecessor.
            at = at.max(self.in_order);
            self.in_order = at;
        }
        self.last_arrival = self.last_arrival.max(at);
        at
    }

    pub(crate) fn drop_packet(&mut self, reason: DropReason, bytes: u64) -> PacketFate {
        self.statistics.dropped[reason as usize] += 1;
        self.statistics.dropped_bytes += bytes;
        PacketFate::Dropped(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ContactWindow, Delay, Jitter, JitterShape, Loss, Reorder};
    use alloc::vec::Vec;
    use farlink_base::DataVolume;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn megabit(delay_ms: u64) -> DirectionSpec {
        DirectionSpec::new(DataRate(1_000_000), Duration::from_millis(delay_ms))
    }
    fn arrivals(link: &mut LinkDirection, packets: impl IntoIterator<Item = (u64, u64)>) -> Vec<Option<u64>> {
        let verdict = |(at, bytes)| link.transmit(Instant(at), bytes).deliveries().next().map(|d| d.at.0);
        packets.into_iter().map(verdict).collect()
    }

    #[test]
    fn packets_take_rate_overhead_and_delay() {
        let mut link = LinkDirection::new(DirectionSpec { overhead: 25, ..megabit(600) }, 1);
        // With 25 B of overhead, 125 B take 1 ms at 1 Mbit/s.
        let got = arrivals(&mut link, [(0, 100), (0, 100), (10 * MS, 225)]);
        assert_eq!(got, [Some(601 * MS), Some(602 * MS), Some(612 * MS)], "1 ms per 125 B");
        assert_eq!(link.statistics().busy, Duration::from_millis(4));
        assert_eq!(link.statistics().delivered_bytes, 500);
        assert_eq!(link.last_arrival(), Instant(612 * MS));
    }

    #[test]
    fn overload_delivers_link_rate() {
        let spec = DirectionSpec { queue: Some(DataVolume(10_000)), ..megabit(10) };
        let mut link = LinkDirection::new(spec, 1);
        // A packet is sent every 5 ms and takes 10 ms to transmit.
        let got = arrivals(&mut link, (0..2000).map(|n| (n * 5 * MS, 1250)));
        let delivered = got.iter().flatten().count();
        // The queue of 10,000 B holds eight packets after the last arrival.
        assert!((1000..=1008).contains(&delivered), "{delivered} of 2000 in 10 s of 10 ms each");
        assert_eq!(link.statistics().dropped_by(DropReason::QueueFull), 2000 - delivered as u64);
        assert!(link.statistics().queue_peak <= 10_000);
        assert_eq!(link.queued_bytes(link.drained_at()), 0);
    }

    #[test]
    fn oversized_packet_passes_empty_queue() {
        let spec = DirectionSpec { queue: Some(DataVolume(10)), ..megabit(0) };
        let mut link = LinkDirection::new(spec, 1);
        assert_eq!(arrivals(&mut link, [(0, 1250), (MS, 1250)]), [Some(10 * MS), None]);
    }

    #[test]
    fn window_end_drops_unsent_packets() {
        let windows = Vec::from([ContactWindow::new(Instant(10 * MS), Instant(20 * MS))]);
        let mut link = LinkDirection::new(DirectionSpec { windows: Some(windows), ..megabit(1000) }, 1);
        // Five packets: one before the window, one within it, one that leaves exactly at its end, one that would leave
        // 1 ms after its end, and one after it.
        let packets = [(9 * MS, 125), (10 * MS, 1125), (11 * MS, 125), (12 * MS, 125), (20 * MS, 125)];
        let got = arrivals(&mut link, packets);
        assert_eq!(got, [None, Some(1019 * MS), Some(1020 * MS), None, None]);
        assert_eq!(link.statistics().dropped, [2, 1, 0, 0, 0]);
        assert!(!link.is_up(Instant(20 * MS)) && link.next_change(Instant(20 * MS)) == Instant::MAX);
    }

    #[test]
    fn lost_packets_use_link_rate() {
        let mut link = LinkDirection::new(DirectionSpec { loss: Loss::Bernoulli(0.05), ..megabit(0) }, 7);
        let got = arrivals(&mut link, (0..20_000).map(|n| (n * MS, 125)));
        let lost = got.iter().filter(|a| a.is_none()).count();
        assert!((lost as f64 / 2e4 - 0.05).abs() < 0.005, "{lost}");
        assert_eq!(link.drained_at(), Instant(20_000 * MS));
        let mut again = LinkDirection::new(link.spec().clone(), 7);
        assert_eq!(got, arrivals(&mut again, (0..20_000).map(|n| (n * MS, 125))), "same seed, same packets");
        let mut bigger = LinkDirection::new(link.spec().clone(), 7);
        let others = arrivals(&mut bigger, (0..20_000).map(|n| (n * 2 * MS, 200)));
        assert!(got.iter().zip(&others).all(|(a, b)| a.is_some() == b.is_some()), "by index, not by size or time");
    }

    #[test]
    fn jitter_keeps_order_by_default() {
        for (reorders, want) in [(false, 0), (true, 1)] {
            let jitter = Jitter { most: Duration::from_millis(20), shape: JitterShape::Normal, reorders };
            let mut link = LinkDirection::new(DirectionSpec { jitter: Some(jitter), ..megabit(50) }, 1);
            let got: Vec<_> = arrivals(&mut link, (0..1000).map(|n| (n * 2 * MS, 125))).into_iter().flatten().collect();
            assert_eq!(got.is_sorted(), want == 0);
            // 50 ms of delay, 1 ms of transmission, up to 20 ms of jitter, and up to 20 ms of waiting behind other
            // packets.
            assert!(got.iter().zip(0..).all(|(a, n)| (51 * MS..=91 * MS).contains(&(a - n * 2 * MS))));
        }
    }

    #[test]
    fn impairment_rates_match_spec() {
        let spec = DirectionSpec {
            reorder: Some(Reorder { probability: 0.1, gap: Duration::from_millis(5) }),
            duplicate: 0.05,
            corrupt: 0.02,
            ..megabit(50)
        };
        let mut link = LinkDirection::new(spec, 3);
        let (mut late, mut twice) = (0, 0);
        for n in 0..10_000u64 {
            let verdict = link.transmit(Instant(n * MS), 125);
            let arrival = verdict.deliveries().next().unwrap();
            late += u32::from(arrival.at == Instant((n + 56) * MS));
            assert!(arrival.at == Instant((n + 51) * MS) || arrival.at == Instant((n + 56) * MS));
            twice += u32::from(verdict.deliveries().count() == 2);
        }
        let s = link.statistics();
        assert_eq!((s.reordered, s.duplicated), (u64::from(late), u64::from(twice)));
        assert!(late.abs_diff(1000) < 100 && twice.abs_diff(500) < 80 && s.corrupted.abs_diff(200) < 50, "{s:?}");
    }

    #[test]
    fn super_packet_segments_get_verdicts() {
        let mut link = LinkDirection::new(DirectionSpec { loss: Loss::Bernoulli(0.5), ..megabit(1) }, 3);
        let mut verdicts = Vec::new();
        link.transmit_segments(Instant(0), [125, 125, 125, 50], |v| verdicts.push(v));
        let mut single = LinkDirection::new(link.spec().clone(), 3);
        let want: Vec<_> = [125, 125, 125, 50].map(|b| single.transmit(Instant(0), b)).into();
        assert_eq!(verdicts, want);
    }

    #[test]
    fn delay_table_interpolates_per_packet() {
        let minutes = |m: u64| Duration::from_secs(60 * m);
        let delay = Delay::Table(Vec::from([(minutes(0), minutes(4)), (minutes(100), minutes(24))]));
        let mut link = LinkDirection::new(DirectionSpec { delay, ..DirectionSpec::default() }, 1);
        let minute = 60_000 * MS;
        let got = arrivals(&mut link, [(0, 1), (50 * minute, 1), (200 * minute, 1)]);
        assert_eq!(got, [4, 50 + 14, 200 + 24].map(|m| Some(m * minute)));
    }

    proptest! {
        #[test]
        fn packet_accounting_and_causality_hold(
            packets in proptest::collection::vec((0u64..5 * MS, 1u64..3000), 1..200),
            loss in 0.0f64..1.0, queue in 0u64..20_000, seed: u64,
        ) {
            let spec = DirectionSpec {
                loss: Loss::Bernoulli(loss), queue: Some(DataVolume(queue)), duplicate: 0.3,
                bit_error_rate: 1e-5,
                windows: Some(Vec::from([ContactWindow::new(Instant(0), Instant(100 * MS))])), ..megabit(30)
            };
            let mut link = LinkDirection::new(spec, seed);
            let mut now = Instant(0);
            for (gap, bytes) in &packets {
                now += Duration::from_nanos(*gap);
                for delivery in link.transmit(now, *bytes).deliveries() {
                    // 8,000 ns per byte at 1 Mbit/s, and 30 ms of light time.
                    prop_assert!(delivery.at.0 >= now.0 + bytes * 8000 + 30 * MS);
                    // Nothing leaves after the window's end at 100 ms.
                    prop_assert!(delivery.at.0 <= 130 * MS);
                }
            }
            let s = link.statistics();
            prop_assert_eq!(s.sent, packets.len() as u64);
            prop_assert_eq!(s.sent, s.delivered + s.dropped_total());
            prop_assert_eq!(s.sent_bytes, s.delivered_bytes + s.dropped_bytes);
        }
    }
}

//! Link between two nodes: both directions, with IP and UDP over them.

use crate::sim_event::End;
use farlink_base::Instant;
use farlink_base::layer::DatagramBatch;
use farlink_link::stream::{Config, Segment};
use farlink_link::{LinkDirection, PacketFate, Statistics, Transmitter, UDP_IPV4_HEADERS};

/// Bytes of an IPv4 header.
const IPV4_HEADER: u64 = 20;

/// Link of the scenario, with the state of both directions and of its carrier.
pub(crate) struct Cable {
    /// First and second node of the link.
    pub ends: [End; 2],
    /// Forward direction (from the first node), then reverse.
    directions: [LinkDirection; 2],
    mtu: u64,
    /// TCP parameters of the hosts at both ends.
    pub streams: [Config; 2],
    carrier: bool,
    /// Index of the bottleneck that the cable shares with other cables; `None` without one.
    pub bottleneck: Option<usize>,
}

/// Transmitters that the cables of a bottleneck share, forward and reverse.
pub(crate) type SharedTransmitters = [Transmitter; 2];

/// Datagrams that arrive together, as one batch.
pub(crate) struct Arrival {
    pub at: Instant,
    pub train: DatagramBatch,
}

impl Cable {
    pub fn new(ends: [End; 2], directions: [LinkDirection; 2], mtu: u64, streams: [Config; 2]) -> Cable {
        // Stacks start with the medium up.
        Cable { ends, directions, mtu: mtu.max(IPV4_HEADER + 8), streams, carrier: true, bottleneck: None }
    }

    /// Sends a batch of datagrams from one end and appends the arrivals. `shared` is the transmitter of its bottleneck
    /// in that direction, if it has one.
    pub fn send(
        &mut self,
        now: Instant,
        end: usize,
        train: &DatagramBatch,
        mut shared: Option<&mut Transmitter>,
        arrivals: &mut Vec<Arrival>,
    ) {
        let stride = u64::from(train.stride.max(1));
        // Run of adjacent datagrams with one arrival time: time, first byte, end.
        let mut together: Option<(Instant, u64, u64)> = None;
        let mut from = 0;
        while from < train.data.len() {
            let to = (from + stride).min(train.data.len());
            let (first, again) = self.send_ip(now, end, to - from + UDP_IPV4_HEADERS, shared.as_deref_mut());
            for at in first.into_iter().chain(again) {
                together = match together {
                    Some((before, start, until)) if before == at && until == from => Some((at, start, to)),
                    before => {
                        join(arrivals, train, before);
                        Some((at, from, to))
                    }
                };
            }
            from = to;
        }
        join(arrivals, train, together);
    }

    /// Sends a stream segment from one end; returns its arrival, and that of a duplicate.
    pub fn send_segment(
        &mut self,
        now: Instant,
        end: usize,
        segment: &Segment,
        shared: Option<&mut Transmitter>,
    ) -> (Option<Instant>, Option<Instant>) {
        self.send_ip(now, end, segment.ip_bytes(), shared)
    }

    /// Sends an IP packet of `bytes` bytes from one end; returns its arrival, `None` if it is lost, and that of a
    /// duplicate.
    pub fn send_ip(
        &mut self,
        now: Instant,
        end: usize,
        bytes: u64,
        mut shared: Option<&mut Transmitter>,
    ) -> (Option<Instant>, Option<Instant>) {
        // At most two arrivals, the second of a duplicate. A packet above the MTU travels in fragments and arrives with
        // the last of them, if none is lost.
        let direction = &mut self.directions[end];
        let mut intact = |bytes: u64| {
            // The checksums of UDP and TCP detect the flipped bit.
            let verdict: PacketFate = match shared.as_deref_mut() {
                Some(shared) => direction.with_transmitter(shared, |direction| direction.transmit(now, bytes)),
                None => direction.transmit(now, bytes),
            };
            let mut whole = verdict.deliveries().filter(|delivery| !delivery.corrupted).map(|delivery| delivery.at);
            (whole.next(), whole.next())
        };
        if bytes <= self.mtu {
            return intact(bytes);
        }
        let (mut left, room) = (bytes - IPV4_HEADER, self.mtu - IPV4_HEADER);
        let mut last = Some(Instant::ZERO);
        while left > 0 {
            let here = left.min(room);
            left -= here;
            let (arrival, _) = intact(here + IPV4_HEADER);
            last = last.zip(arrival).map(|(a, b)| a.max(b));
        }
        (last, None)
    }

    /// New state of the carrier, if it changed: it is up while a direction is up or data is in flight.
    pub fn carrier(&mut self, now: Instant) -> Option<bool> {
        let up = self.directions.iter_mut().any(|d| d.is_up(now) || d.last_arrival() > now);
        (up != self.carrier).then(|| {
            self.carrier = up;
            up
        })
    }

    /// Whether the carrier was up at the last check.
    pub fn has_carrier(&self) -> bool {
        self.carrier
    }

    /// Time of the next carrier check; [`Instant::MAX`] for never.
    pub fn next_carrier_change(&mut self, now: Instant) -> Instant {
        let change = |d: &mut LinkDirection| {
            let draining = Some(d.last_arrival()).filter(|at| *at > now && !d.is_up(now));
            draining.unwrap_or(Instant::MAX).min(d.next_change(now))
        };
        let [forward, reverse] = &mut self.directions;
        change(forward).min(change(reverse))
    }

    /// Bytes waiting for transmission in a direction.
    pub fn queued(&mut self, now: Instant, forward: bool, shared: Option<&mut Transmitter>) -> u64 {
        let direction = &mut self.directions[usize::from(!forward)];
        match shared {
            Some(shared) => direction.with_transmitter(shared, |direction| direction.queued_bytes(now)),
            None => direction.queued_bytes(now),
        }
    }

    /// Counters, forward and reverse.
    pub fn statistics(&self) -> [Statistics; 2] {
        self.directions.each_ref().map(|d| *d.statistics())
    }
}

fn join(arrivals: &mut Vec<Arrival>, train: &DatagramBatch, datagrams: Option<(Instant, u64, u64)>) {
    // Datagrams that arrive with the last arrival and continue its batch are appended to it.
    let Some((at, start, end)) = datagrams else { return };
    let data = train.data.slice(start, end - start);
    if let Some(last) = arrivals.last_mut() {
        // Only the last datagram of a batch may be shorter than its stride.
        let full = last.train.data.len() % u64::from(train.stride.max(1)) == 0;
        if last.at == at && full {
            last.train.data.append(data);
            return;
        }
    }
    arrivals.push(Arrival { at, train: DatagramBatch { stride: train.stride, data } });
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DataRate, Duration, LinkId, Payload};
    use farlink_link::{ContactWindow, DirectionSpec, Loss};

    fn cable(spec: DirectionSpec) -> Cable {
        let end = |node| End { node, link: LinkId(0), address: ([10, 0, 0, 1 + node as u8], 1113).into() };
        let directions = [1, 2].map(|seed| LinkDirection::new(spec.clone(), seed));
        Cable::new([end(0), end(1)], directions, 1500, [Config::default(); 2])
    }
    fn train(bytes: u64, stride: u32) -> DatagramBatch {
        DatagramBatch { stride, data: Payload::fill(1, bytes) }
    }
    fn send(cable: &mut Cable, now: u64, train: &DatagramBatch) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        cable.send(Instant(now), 0, train, None, &mut arrivals);
        arrivals
    }

    #[test]
    fn batch_splits_only_with_rate() {
        let mut slow = cable(DirectionSpec::new(DataRate(8_000_000), Duration::from_millis(5)));
        let arrivals = send(&mut slow, 0, &train(2500, 972));
        let at: Vec<_> = arrivals.iter().map(|a| a.at.0 / 1000).collect();
        assert_eq!(at, [6000, 7000, 7584], "1000 B each, then 584 B");
        let mut fast = cable(DirectionSpec::default());
        let arrivals = send(&mut fast, 0, &train(2500, 972));
        assert_eq!(arrivals.len(), 1);
        assert_eq!(arrivals[0].train, train(2500, 972));
    }

    #[test]
    fn batch_with_loss_and_duplicate_keeps_bytes() {
        // Both cables have one seed: sending a batch and its datagrams one by one must draw the same losses.
        let spec = DirectionSpec { loss: Loss::Bernoulli(0.3), duplicate: 0.3, ..DirectionSpec::default() };
        let (mut whole, mut single) = (cable(spec.clone()), cable(spec));
        let sent = train(20_100, 1000);
        let mut expected = Payload::new();
        for datagram in sent.datagrams() {
            for arrival in send(&mut single, 0, &DatagramBatch { stride: 1000, data: datagram }) {
                expected.append(arrival.train.data);
            }
        }
        let mut arrived = Payload::new();
        let arrivals = send(&mut whole, 0, &sent);
        arrivals.into_iter().for_each(|arrival| arrived.append(arrival.train.data));
        assert!(arrived.len() != sent.data.len());
        assert_eq!(arrived.to_bytes(), expected.to_bytes());
    }

    #[test]
    fn large_datagram_needs_all_fragments() {
        // 9000 bytes need 7 packets of 1500, so 0.9^7 of the datagrams arrive.
        let spec = DirectionSpec { loss: Loss::Bernoulli(0.1), ..DirectionSpec::default() };
        let mut cable = cable(spec);
        let whole = (0..2000).filter(|_| !send(&mut cable, 0, &train(9000, 9000)).is_empty()).count();
        assert!((whole as f64 / 2000.0 - 0.9f64.powi(7)).abs() < 0.04, "{whole} of 2000 with 7 fragments");
    }

    #[test]
    fn carrier_falls_after_both_directions_drain() {
        let window = ContactWindow::new(Instant(100), Instant(200));
        let spec = DirectionSpec { windows: Some(vec![window]), ..DirectionSpec::default() };
        let mut cable =
            cable(DirectionSpec { delay: farlink_link::Delay::Constant(Duration::from_nanos(500)), ..spec });
        assert_eq!(cable.carrier(Instant(0)), Some(false));
        assert_eq!(cable.next_carrier_change(Instant(0)), Instant(100));
        assert_eq!(cable.carrier(Instant(100)), Some(true));
        send(&mut cable, 150, &train(10, 10));
        // The link goes down at 200, but the datagram sent at 150 is in flight until 650.
        assert_eq!(cable.next_carrier_change(Instant(150)), Instant(200));
        assert_eq!(cable.carrier(Instant(200)), None);
        assert_eq!(cable.next_carrier_change(Instant(200)), Instant(650));
        assert_eq!(cable.carrier(Instant(650)), Some(false));
        assert_eq!(cable.next_carrier_change(Instant(650)), Instant::MAX);
    }
}

//! Tests of the passive readers of LTP and UDPCL with the datagrams that two real entities exchange.

use crate::datagram_common::{self, Channel, EnginePair};
use crate::udpcl_common::{self, UdpclPair};
use farlink_base::{Duration, FindEnd, Instant, Payload};
use farlink_cla::ltp::{LtpReader, SpanConfig};
use farlink_cla::reading::{PassiveReader, Reading};
use farlink_cla::udpcl::{LinkParams, UdpclReader};
use std::collections::BTreeMap;

/// Finds the end of the test bundles, whose length follows after `AT` bytes.
#[derive(Default, Debug)]
struct SuiteEnd<const AT: usize> {
    length: [u8; 4],
    read: u64,
}
impl<const AT: usize> SuiteEnd<AT> {
    const HEAD: u64 = AT as u64 + 4;
}
impl<const AT: usize> FindEnd for SuiteEnd<AT> {
    fn opaque(&self) -> u64 {
        if self.read < Self::HEAD { 0 } else { u64::from(u32::from_be_bytes(self.length)) - self.read }
    }
    fn pass(&mut self, count: u64) {
        self.read += count;
    }
    fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0;
        while self.read < Self::HEAD && at < bytes.len() {
            if let Some(place) = (self.read as usize).checked_sub(AT) {
                self.length[place] = bytes[at];
            }
            (self.read, at) = (self.read + 1, at + 1);
        }
        let data = self.opaque().min((bytes.len() - at) as u64);
        self.pass(data);
        Ok(at + data as usize)
    }
    fn is_over(&self) -> bool {
        self.read >= Self::HEAD && self.opaque() == 0
    }
}

/// Bundles that a reader found, in order: number, length, first and last time.
fn read(reader: &mut dyn PassiveReader, wire: &[(Instant, Payload)], number_of: fn(&Payload) -> u64) -> Vec<[u64; 4]> {
    let (mut found, mut cut) = (Vec::new(), 0);
    let mut each = |reading: Reading<'_>| match reading {
        Reading::Bundle(p) => {
            let number = number_of(&Payload::from(p.head.to_vec()));
            found.push([number, p.length, p.first.0, p.last.0]);
        }
        Reading::Cut(_) => cut += 1,
        other => panic!("{other:?}"),
    };
    for (now, datagram) in wire {
        reader.push(*now, &datagram.to_bytes().unwrap(), &mut each);
    }
    found
}
fn ltp(wire: &[(Instant, Payload)]) -> Vec<[u64; 4]> {
    let mut reader = LtpReader::<SuiteEnd<0>>::new();
    let found = read(&mut reader, wire, datagram_common::number_of);
    assert_eq!((reader.sessions(), reader.held_bytes(), reader.unread()), (0, 0, 0));
    found
}

/// Sizes around the limits of segments.
const SIZES: [usize; 9] = [12, 100, 1330, 1338, 1345, 5000, 30_000, 70_000, 130_000];
const COUNT: u64 = 40;

/// Two engines after an exchange of bundles in both directions; the second engine's bundles are numbered from 1000 on.
fn exchanged(seed: u64, channel: Channel, span: SpanConfig) -> EnginePair {
    let mut world = EnginePair::new(seed, channel, span);
    world.record = true;
    for number in 0..COUNT {
        let size = SIZES[number as usize % SIZES.len()];
        // The test world checks that reliable bundles are accepted before they count as sent, which green ones need not
        // be.
        let reliable = world.sides[0].span.green_from == 0;
        world.offer(0, number, datagram_common::bundle(number, size), reliable);
        world.offer(1, 1000 + number, datagram_common::bundle(1000 + number, size / 2), reliable);
    }
    world.run(3_000_000);
    world.settle();
    world
}
fn assert_all_once(found: &[[u64; 4]], side: usize, halves: usize) {
    let mut lens: BTreeMap<u64, u64> = BTreeMap::new();
    for [number, len, first, last] in found {
        assert!(lens.insert(*number, *len).is_none(), "bundle {number} passed twice");
        assert!(first <= last);
    }
    let size = |number: u64| (SIZES[(number % 1000) as usize % SIZES.len()] / halves).max(12) as u64;
    let sent = (0..COUNT).map(|number| number + 1000 * side as u64);
    assert_eq!(lens, sent.map(|number| (number, size(number))).collect());
}

#[test]
fn lossless_ltp_passes_in_order() {
    let marked = SpanConfig {
        aggregate_bytes: 60_000,
        aggregate_wait: Duration::from_millis(5),
        aggregate_marked: true,
        ..SpanConfig::default()
    };
    let plain = SpanConfig { aggregate_marked: false, ..marked.clone() };
    for span in [SpanConfig::default(), plain, marked] {
        let world = exchanged(1, Channel::default(), span);
        for side in 0..2 {
            let left = ltp(&world.left[side]);
            assert_all_once(&left, side, side + 1);
            let arrived = ltp(&world.arrived[side]);
            let delay = world.channel.delay[side].as_nanos() as u64;
            // The channel only delays here, so bundles arrive at the times of their departure plus the delay.
            let later: Vec<_> =
                left.iter().map(|[n, len, first, last]| [*n, *len, first + delay, last + delay]).collect();
            assert_eq!(arrived, later);
        }
    }
}

#[test]
fn lossy_ltp_passes_each_bundle_once() {
    for seed in 0..12 {
        let channel = Channel {
            loss: [0.05 * (seed % 4) as f64; 2],
            jitter: Duration::from_millis(30 * (seed % 2)),
            duplicate: 0.2,
            ..Channel::default()
        };
        let aggregate_bytes = if seed % 3 == 0 { 0 } else { 50_000 };
        let span = SpanConfig {
            aggregate_bytes,
            aggregate_wait: Duration::from_millis(5),
            aggregate_marked: seed % 3 == 1,
            attempts: 60,
            ..SpanConfig::default()
        };
        let world = exchanged(seed, channel, span);
        for side in 0..2 {
            assert_all_once(&ltp(&world.left[side]), side, side + 1);
            assert_all_once(&ltp(&world.arrived[side]), side, side + 1);
        }
    }
}

#[test]
fn green_data_passes_as_red_does() {
    for green_from in [1, 700, 20_000] {
        let world = exchanged(3, Channel::default(), SpanConfig { green_from, ..SpanConfig::default() });
        for side in 0..2 {
            assert_all_once(&ltp(&world.left[side]), side, side + 1);
        }
    }
}

#[test]
fn udpcl_of_either_version_passes_once() {
    const SIZES: [usize; 8] = [13, 100, 1370, 1384, 1401, 2760, 5000, 30_000];
    for version in [1, 2] {
        let span = LinkParams { version, pace_bytes: 12_500_000, ..LinkParams::default() };
        let jitter = Duration::from_millis(if version == 2 { 20 } else { 0 });
        let channel = udpcl_common::Channel { jitter, ..udpcl_common::Channel::default() };
        let mut world = UdpclPair::new(5, channel, span);
        for number in 0..100 {
            world.give(0, number, SIZES[number as usize % SIZES.len()]);
        }
        world.run();
        for wire in [&world.left[0], &world.arrived[0]] {
            let mut reader = UdpclReader::<SuiteEnd<1>>::new();
            let mut found = read(&mut reader, wire, udpcl_common::number_of);
            assert_eq!((reader.transfers(), reader.unread()), (0, 0));
            found.sort_unstable();
            let found: Vec<_> = found.iter().map(|[number, len, ..]| (*number, *len as usize)).collect();
            assert_eq!(found, (0..100).map(|n| (n, SIZES[n as usize % SIZES.len()])).collect::<Vec<_>>());
        }
    }
}

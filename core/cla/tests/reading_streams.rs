//! Tests of the passive readers of stream layers with the bytes that two real entities exchange.

use crate::stream_common::{LINK, StreamOutcome, StreamPlan, run};
use farlink_base::{Duration, Instant, LayerId, Payload, Rng};
use farlink_cla::oneway::{self, Framing, OneWay, OneWayReader};
use farlink_cla::reading::{PassiveReader, Reading};
use farlink_cla::tcpcl_v4::{Config, LinkParams, TcpclReader, TcpclV4, Versions};
use proptest::prelude::*;

/// Findings of a reader in one direction.
#[derive(Default, Debug, PartialEq)]
struct Findings {
    /// Number and length of each complete bundle, in order.
    bundles: Vec<(u32, u64)>,
    cut: usize,
    lost: usize,
    unread: u64,
}

/// Reads one direction of a stream in pieces of a random length.
fn read(reader: &mut dyn PassiveReader, wire: &[(Instant, Payload)], rng: &mut Rng) -> Findings {
    let mut found = Findings::default();
    let (mut begun, mut last) = (Instant::ZERO, Instant::ZERO);
    let mut each = |reading: Reading<'_>| match reading {
        Reading::Bundle(passage) => {
            // Transfers follow one another, so their times do, too.
            assert!(passage.first >= begun && passage.last >= last.max(passage.first));
            (begun, last) = (passage.first, passage.last);
            // The agent's bundles have their number after the byte for the side.
            let number = passage.head[1..5].try_into().map(u32::from_be_bytes).unwrap();
            found.bundles.push((number, passage.length));
        }
        Reading::Cut(_) => found.cut += 1,
        Reading::Lost(_) => found.lost += 1,
        Reading::Enciphered => panic!("no TLS here"),
    };
    for (now, bytes) in wire {
        let mut bytes = &bytes.to_bytes().unwrap()[..];
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at((1 + rng.below(100) as usize).min(bytes.len()));
            reader.push(*now, piece, &mut each);
            bytes = rest;
        }
    }
    reader.end(&mut each);
    found.unread = reader.unread();
    found
}

/// Reads all streams of a run in both directions; returns the findings by sending side.
fn read_all(outcome: &StreamOutcome, make: &dyn Fn() -> Box<dyn PassiveReader>, seed: u64) -> [Findings; 2] {
    let mut rng = Rng::new(seed);
    let mut all: [Findings; 2] = Default::default();
    for wire in &outcome.wire {
        for side in 0..2 {
            let found = read(&mut *make(), &wire[side], &mut rng);
            all[side].bundles.extend(found.bundles);
            all[side].cut += found.cut;
            all[side].lost += found.lost;
            all[side].unread += found.unread;
        }
    }
    all
}
/// Findings when every bundle passes once, in order.
fn once(plan: &StreamPlan, side: usize) -> Findings {
    let bundles = (0..).zip(&plan.bundles[side]).map(|(number, len)| (number, *len as u64)).collect();
    Findings { bundles, ..Findings::default() }
}

fn tcpcl(segment_bytes: u64, versions: Versions) -> impl Fn(usize) -> TcpclV4 {
    move |side| {
        let names = ["ipn:1.0", "ipn:2.0"];
        let config = Config {
            layer: LayerId(3),
            node_id: names[side].into(),
            keepalive: Duration::from_secs(1),
            versions,
            ..Config::default()
        };
        let span = LinkParams {
            link: LINK,
            node_id: names[1 - side].into(),
            connect: side == 0,
            segment_bytes,
            window_bytes: 20_000,
            ..LinkParams::default()
        };
        TcpclV4::new(config, vec![span])
    }
}
fn one_way(framing: Framing) -> impl Fn(usize) -> OneWay {
    move |_| {
        let config = oneway::Config { layer: LayerId(3), framing, ..oneway::Config::default() };
        OneWay::new(config, vec![oneway::LinkParams { link: LINK, ..oneway::LinkParams::default() }])
    }
}
fn tcpcl_reader() -> Box<dyn PassiveReader> {
    Box::new(TcpclReader::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_bundle_sent_passes_once(
        seed: u64,
        first in proptest::collection::vec(12usize..5000, 0..12),
        second in proptest::collection::vec(12usize..700, 0..30),
        chunk in 1u64..5000,
        segment_bytes in 30u64..3000,
    ) {
        let plan = StreamPlan { seed, bundles: [first, second], chunk, ..StreamPlan::default() };
        let expected = [0, 1].map(|side| once(&plan, side));
        for versions in [Versions::Four, Versions::Three] {
            let outcome = run(&plan, &tcpcl(segment_bytes, versions));
            prop_assert_eq!(&read_all(&outcome, &tcpcl_reader, seed), &expected, "{:?}", versions);
        }
        for framing in [Framing::Stcp, Framing::Mtcp] {
            let outcome = run(&plan, &one_way(framing));
            let read = read_all(&outcome, &|| Box::new(OneWayReader::new(framing)), seed);
            prop_assert_eq!(&read, &expected, "{:?}", framing);
        }
    }

    #[test]
    fn resets_and_refusals_cut_bundles(
        seed: u64,
        lens in proptest::collection::vec(12usize..5000, 1..12),
        at in 1u64..20_000,
        refused in 0u64..400,
    ) {
        let plan = StreamPlan {
            seed, bundles: [lens, vec![100; 5]], reset: Some((0, at)), refused, ..StreamPlan::default()
        };
        for versions in [Versions::Four, Versions::Three] {
            let outcome = run(&plan, &tcpcl(700, versions));
            for (side, found) in read_all(&outcome, &tcpcl_reader, seed).into_iter().enumerate() {
                prop_assert!(found.lost == 0 && found.unread == 0, "{:?}", found);
                // Complete transfers are bundles that were sent, and each bundle was accepted in the end.
                for (number, len) in once(&plan, side).bundles {
                    prop_assert!(found.bundles.contains(&(number, len)), "{number} of {found:?}");
                }
                prop_assert!(found.bundles.iter().all(|(number, len)| plan.bundles[side][*number as usize] as u64 == *len));
            }
        }
    }
}

#[test]
fn tls_hides_the_session() {
    use farlink_cla::tcpcl_v4::Tls;
    let with_tls = |side: usize| {
        let names = ["ipn:1.0", "ipn:2.0"];
        let config = Config { node_id: names[side].into(), tls: Tls::Require, ..Config::default() };
        let link =
            LinkParams { link: LINK, node_id: names[1 - side].into(), connect: side == 0, ..LinkParams::default() };
        TcpclV4::new(config, vec![link])
    };
    let certificates = Some([vec!["ipn:1.0".into()], vec!["ipn:2.0".into()]]);
    let outcome = run(&StreamPlan { certificates, ..StreamPlan::default() }, &with_tls);
    for side in 0..2 {
        let mut wire = outcome.wire[0][side].iter();
        let (mut reader, mut found) = (TcpclReader::new(), Vec::new());
        let mut left = 6;
        // The test's streams stay unencrypted after the TLS handshake, so only the contact headers are as on a real
        // wire.
        while left > 0 {
            let (now, bytes) = wire.next().unwrap();
            let header = bytes.slice(0, left).to_bytes().unwrap();
            left -= header.len() as u64;
            reader.push(*now, &header, &mut |reading| found.push(reading == Reading::Enciphered));
        }
        for record in [&b"\x16\x03\x01\x02\x00\x01"[..], &[0; 500], b"\x17\x03\x03"] {
            reader.push(Instant(9), record, &mut |reading| found.push(reading == Reading::Enciphered));
        }
        assert_eq!((found, reader.unread()), (vec![true], 509));
    }
}

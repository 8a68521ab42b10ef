//! Tests of UDPCL entities against hostile datagrams: how they are handled, and what they cost.

use crate::udpcl_common::{LINK, UdpclBench, address, bundle, malformed, offers, refused, sent, split};
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, Output};
use farlink_base::{Payload, Refusal, Rng, socket};
use farlink_cla::udpcl::packet::{MessageKind, announcement};
use farlink_cla::udpcl::{Config, LinkParams, Udpcl, Usage};
use std::net::SocketAddr;

fn elsewhere(n: u32) -> SocketAddr {
    SocketAddr::from(([192, (n >> 16) as u8, (n >> 8) as u8, n as u8], 4556))
}
/// A packet with one segment.
fn segment(id: u16, total: u32, offset: u32, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xa1, 0x02, 0x84, 0x19];
    packet.extend(id.to_be_bytes());
    packet.push(0x1a);
    packet.extend(total.to_be_bytes());
    packet.push(0x1a);
    packet.extend(offset.to_be_bytes());
    packet.push(0x59);
    packet.extend((data.len() as u16).to_be_bytes());
    packet.extend(data);
    packet
}

/// Keeps 7122-3.4-1.
#[test]
fn every_first_octet_is_handled() {
    // The first octet alone determines the type of a message.
    for first in 0..=255u8 {
        for tail in [&b""[..], b"\0\0\0", b"\xff\xff\xff\xff", &[0x9f; 70]] {
            let mut bench = UdpclBench::new(|_, _| {});
            let packet = [&[first][..], tail].concat();
            let out = bench.receive(address(0), packet.clone());
            let (bundles, complaints) = (offers(&out), malformed(&out).len());
            match MessageKind::of(first) {
                MessageKind::Padding => assert_eq!((bundles.len(), complaints), (0, 0), "{packet:02x?}"),
                // Offered whether well formed or not, because parsing bundles is the agent's task.
                MessageKind::Bundle => assert_eq!((bundles[0].1.len(), complaints), (packet.len() as u64, 0)),
                MessageKind::Dtls | MessageKind::Unused => {
                    assert_eq!((bundles.len(), complaints), (0, 1), "{packet:02x?}")
                }
                MessageKind::Map => assert!(complaints <= 1 && bundles.len() <= 1, "{packet:02x?}"),
            }
            assert!(sent(&out).is_empty());
            assert_eq!(bench.layer.usage(), Usage::default());
        }
    }
}

#[test]
fn adjacent_messages_are_read_in_order() {
    let mut bench = UdpclBench::new(|_, _| {});
    let (one, two) = (bundle(1, 50).to_bytes().unwrap(), bundle(2, 60).to_bytes().unwrap());
    let lengths = |out: Vec<Output>| offers(&out).iter().map(|(_, b)| b.len()).collect::<Vec<u64>>();
    assert_eq!(lengths(bench.receive(address(0), [&one[..], &two, &one].concat())), [50, 60, 50]);
    assert_eq!(lengths(bench.receive(address(0), [&one[..], b"\0\0\0\x01"].concat())), [50], "padding");
    let maps = [&segment(1, 60, 0, &two[..30])[..], b"\xa1\x18\x63\xf6", &segment(1, 60, 30, &two[30..]), b"\0\0"];
    assert_eq!(lengths(bench.receive(address(0), maps.concat())), [60]);
    assert_eq!(
        lengths(bench.receive(address(0), [&one[..], &two[..59]].concat())),
        [50, 59],
        "cut off: the agent says so"
    );
    let out = bench.receive(address(0), [&one[..], b"\x42", &two].concat());
    assert_eq!((offers(&out).len(), malformed(&out).len()), (1, 1), "after what is no message nothing is read");
    // A datagram full of the shortest possible bundles.
    let mut bench = UdpclBench::new(|config, _| config.split = |_| Ok(Some(2)));
    let out = bench.receive(address(0), [0x9f, 0xff].repeat(32_000));
    assert_eq!((offers(&out).len(), malformed(&out).len()), (512, 1));
}

#[test]
fn bad_datagrams_do_not_hide_good() {
    let mut bench = UdpclBench::new(|_, _| {});
    let good = bundle(1, 50).to_bytes().unwrap();
    let data = [&[0x42; 50][..], &good, &[0xa1; 50], &good, &[0x16; 50], &good[..20]].concat();
    let train = DatagramBatch { stride: 50, data: Payload::from(data) };
    let out = bench.input(Input::Socket(socket::Input::Datagrams { from: address(0), train }));
    assert_eq!((offers(&out).len(), malformed(&out).len()), (3, 3));
}

#[test]
fn lengths_nobody_has_cost_nothing() {
    // A claimed length alone allocates nothing.
    let mut bench = UdpclBench::new(|_, _| {});
    let huge = [
        &b"\xa1\x02\x82\x05\x5b\xff\xff\xff\xff\xff\xff\xff\xffab"[..],
        b"\xa1\x02\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x05",
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        b"\xa1\x04\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xa1\x01\x9a\xff\xff\xff\xff\x01",
    ];
    for packet in huge {
        let out = bench.receive(address(0), packet.to_vec());
        assert_eq!((offers(&out).len(), malformed(&out).len()), (0, 1), "{packet:02x?}");
    }
    let deep = [&b"\xa1\x18\x63"[..], &[0x81; 60_000]].concat();
    assert_eq!(malformed(&bench.receive(address(0), deep)).len(), 1);
    let most = b"\xa1\x02\x84\x05\x1b\xff\xff\xff\xff\xff\xff\xff\xff\x00\x42\x9fa";
    assert_eq!(refused(&bench.receive(address(0), most.to_vec())), [Refusal::TooLarge]);
    let far = b"\xa1\x02\x84\x05\x18\x64\x1b\xff\xff\xff\xff\xff\xff\xff\xff\x42\x9fa";
    assert_eq!(malformed(&bench.receive(address(0), far.to_vec())).len(), 1);
    assert_eq!(bench.layer.usage(), Usage::default());
}

#[test]
fn overlap_flood_holds_nothing() {
    // Overlapping segments must not hide a bundle sent properly.
    let mut bench = UdpclBench::new(|_, _| {});
    let whole = bundle(7, 60_000).to_bytes().unwrap();
    let mut rng = Rng::new(1);
    assert!(offers(&bench.receive(address(0), segment(9, 60_000, 0, &whole[..30_000]))).is_empty());
    let before = bench.layer.usage();
    for _ in 0..20_000 {
        let (offset, len) = (rng.below(30_000), 1 + rng.below(1000) as usize);
        bench.receive(address(0), segment(9, 60_000, offset as u32, &vec![0xee; len]));
    }
    assert_eq!(bench.layer.usage(), before);
    let out = bench.receive(address(0), segment(9, 60_000, 30_000, &whole[30_000..]));
    assert_eq!(offers(&out)[0].1.to_bytes().unwrap(), whole);
    assert_eq!(bench.layer.usage(), Usage::default());
}

#[test]
fn address_flood_stays_within_quarter() {
    // Forged source addresses cost an attacker nothing, so there are a hundred thousand.
    let mut bench = UdpclBench::new(|config, _| (config.transfers, config.memory_bytes) = (1000, 1 << 20));
    let piece = vec![0x9f; 1000];
    let mut peer_ups = 0;
    for n in 0..100_000 {
        let mut said = bench.receive(elsewhere(n), segment(1, 5000, 0, &piece));
        said.extend(bench.receive(elsewhere(n), announcement(30_000, "ipn:1.0")));
        said.extend(bench.receive(elsewhere(n), bundle(1, 20).to_bytes().unwrap()));
        peer_ups += said.iter().filter(|o| matches!(o, Output::PeerUp { .. })).count();
        assert!(offers(&said).iter().all(|(link, _)| link.is_dynamic()));
        let usage = bench.layer.usage();
        assert!(usage.transfers <= 250 && usage.arriving_bytes <= 1 << 18, "{usage:?}");
    }
    assert_eq!((peer_ups, bench.layer.places()), (0, 1), "no address was confirmed");
    let whole = bundle(7, 5000).to_bytes().unwrap();
    for (at, end) in [(0, 2500), (2500, 5000)] {
        let out = bench.receive(address(0), segment(3, 5000, at as u32, &whole[at..end]));
        assert_eq!(offers(&out).len(), usize::from(end == 5000));
    }
    bench.later(200.0);
    assert_eq!((bench.layer.usage(), bench.layer.next_timeout()), (Usage::default(), None), "all is given back");
}

#[test]
fn unwanted_dynamic_peers_are_ignored() {
    let mut bench = UdpclBench::new(|config, _| config.accept_unknown = false);
    for packet in
        [bundle(1, 20).to_bytes().unwrap().to_vec(), segment(1, 50, 0, b"\x9fab"), announcement(1000, "ipn:9.0")]
    {
        let out = bench.receive(elsewhere(1), packet);
        assert_eq!((out.len(), malformed(&out).len()), (1, 1), "{out:?}");
    }
    assert_eq!(bench.layer.usage(), Usage::default());
    assert_eq!(offers(&bench.receive(address(0), bundle(1, 20).to_bytes().unwrap())).len(), 1);
}

#[test]
fn replies_never_exceed_input() {
    // Source addresses may be forged.
    let mut bench = UdpclBench::new(|_, _| {});
    let mut rng = Rng::new(3);
    let (mut heard, mut said) = (0, 0);
    for n in 0..20_000u32 {
        let mut packet = match n % 5 {
            0 => announcement(rng.below(100_000), "ipn:77.0"),
            1 => vec![0xa1, 0x06, 0x83, 0x1b, 1, 2, 3, 4, 5, 6, 7, 8, 0x19, 1, 2, 0],
            2 => b"\xa1\x06\x83\x01\x02\x00".to_vec(),
            3 => b"\xa1\x07\x82\x01\x82\x00\x00".to_vec(),
            _ => segment(n as u16, 500, 0, &[0x9f; 100]),
        };
        if rng.chance(0.3) {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << rng.below(8);
        }
        heard += packet.len() + 28;
        let out = bench.receive(elsewhere(n % 50), packet);
        said += sent(&out).iter().map(|(_, bytes)| bytes.len() + 28).sum::<usize>();
        assert!(sent(&out).iter().all(|(to, _)| *to == Destination::Address(elsewhere(n % 50))));
    }
    assert!(said < heard, "{said} B in answer to {heard} B");
}

#[test]
fn arbitrary_datagrams_are_survived() {
    // Random bytes, and packets with flipped bits: nothing panics, nothing is held forever, and everything offered was
    // received.
    let mut rng = Rng::new(11);
    let whole = bundle(7, 300).to_bytes().unwrap();
    let templates =
        [segment(4, 300, 0, &whole[..150]), segment(4, 300, 150, &whole[150..]), announcement(5000, "ipn:1.0")];
    for _ in 0..200 {
        let config = Config { seed: rng.next_u64(), split, memory_bytes: 1 << 18, ..Config::default() };
        let mut layer = UdpclBench::new(|_, _| {});
        layer.layer = Udpcl::new(config, vec![LinkParams { link: LINK, ..LinkParams::default() }]);
        let (mut heard, mut offered) = (0, 0);
        for _ in 0..100 {
            let mut packet = match rng.below(3) {
                0 => (0..rng.below(80)).map(|_| rng.below(256) as u8).collect(),
                1 => [0xa0 + rng.below(4) as u8].into_iter().chain((0..40).map(|_| rng.below(256) as u8)).collect(),
                _ => templates[rng.below(3) as usize].clone(),
            };
            for _ in 0..rng.below(4) {
                if !packet.is_empty() {
                    let at = rng.below(packet.len() as u64) as usize;
                    packet[at] ^= 1 << rng.below(8);
                }
            }
            if !packet.is_empty() {
                heard += packet.len() as u64;
                let out = layer.receive(elsewhere(rng.below(3) as u32), packet);
                offered += offers(&out).iter().map(|(_, bundle)| bundle.len()).sum::<u64>();
            }
        }
        assert!(offered <= heard);
        layer.later(300.0);
        assert_eq!(layer.layer.usage(), Usage::default());
    }
}

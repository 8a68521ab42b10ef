//! Tests of links with authenticated segments (RFC 5327 2.1): the contents of segments, which segments are dropped, and
//! that everything still arrives.

use crate::datagram_common;

use crate::datagram_common::{Channel, EnginePair};
use crate::ltp_bench::{LINK, LtpBench, bundle, segments, talk, view};
use farlink_base::layer::{Input, LinkState};
use farlink_base::security::Secret;
use farlink_base::{Bytes, DataRate, Duration, Payload};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Authentication, LinkKey, SpanConfig, Usage, extension};

fn keys(keys: &[(&str, u8)]) -> Authentication {
    let key = |(id, byte): &(&str, u8)| LinkKey { id: id.as_bytes().to_vec(), secret: Secret::new(vec![*byte; 32]) };
    Authentication::HmacSha1(keys.iter().map(key).collect())
}
fn bench(own: u64, peer: u64, authentication: Authentication) -> LtpBench {
    LtpBench::new(own, peer, |_, span| span.authentication = authentication.clone())
}
/// Two neighbours that share a key.
fn pair() -> [LtpBench; 2] {
    [bench(1, 2, keys(&[("moon", 7)])), bench(2, 1, keys(&[("moon", 7)]))]
}
fn suites(datagram: &[u8]) -> Vec<Vec<u8>> {
    view(datagram).header.of(extension::tag::AUTHENTICATION).map(<[u8]>::to_vec).collect()
}

/// Keeps 5327-2.1-2, 5327-2.1-4, 5327-2.1-5, 5327-2.1-6.
#[test]
fn every_segment_is_authenticated_and_fits() {
    let [mut a, mut b] = pair();
    let first = a.send(1, bundle(1, 20_000), true);
    assert!(first.iter().rev().skip(2).all(|datagram| datagram.len() == 1360), "full but for the last ones");
    let mut lost = 0;
    let went = talk([&mut a, &mut b], [1, 2], first, |side, datagram| {
        lost += usize::from(side == 0 && view(datagram).kind == kind::RED);
        side == 0 && view(datagram).kind == kind::RED && [2, 5].contains(&lost)
    });
    assert_eq!(b.bundles(), [bundle(1, 20_000)]);
    let kinds: Vec<u8> = went.iter().map(|(_, datagram)| view(datagram).kind).collect();
    for kind in [kind::RED, kind::CHECKPOINT, kind::BLOCK_END, kind::REPORT, kind::REPORT_ACK] {
        assert!(kinds.contains(&kind), "{kind}");
    }
    for (_, datagram) in &went {
        assert_eq!(suites(datagram), [b"\0moon"]);
        assert_eq!(view(datagram).trailer.of(0).map(<[u8]>::len).collect::<Vec<_>>(), [10]);
        assert!(datagram.len() <= 1360);
    }
    assert_eq!((a.dropped.len(), b.dropped.len()), (0, 0));
    assert_eq!((a.sent.len(), a.ltp.usage(), b.ltp.usage()), (1, Usage::default(), Usage::default()));
}

#[test]
fn cancels_are_authenticated() {
    // Control segments need authentication as much as data.
    let [mut a, mut b] = pair();
    let number = segments(&a.send(1, bundle(1, 3000), true))[0].session.number;
    let cancel = a.input(Input::CancelSend { link: LINK, id: farlink_base::layer::SendId(1) });
    assert_eq!(view(&cancel[0]).kind, kind::CANCEL_SENDER);
    let ack = b.receive(1, cancel[0].clone());
    assert_eq!((view(&ack[0]).kind, suites(&ack[0]).len()), (kind::CANCEL_SENDER_ACK, 1));
    a.receive(2, ack[0].clone());
    assert_eq!(a.ltp.usage(), Usage::default(), "{number} is acknowledged");
    a.send(2, bundle(2, 3000), true);
    let farewell = a.input(Input::RemoveLink { link: LINK });
    assert_eq!((view(&farewell[0]).kind, suites(&farewell[0]).len()), (kind::CANCEL_SENDER, 1));
    assert!(b.receive(1, farewell[0].clone()).len() == 1 && b.dropped.is_empty() && a.dropped.is_empty());
}

fn any_data(kind: u8, serial: u64) -> SegmentBody {
    let checkpoint = if (1..=3).contains(&kind) { serial } else { 0 };
    let data = Data { kind, service: 1, offset: 0, length: 8, checkpoint, report: 0 };
    SegmentBody::Data(data, Bytes::from_static(b"\0\0\0\x08abcd"))
}
/// One segment of each kind, in a session of engine 1.
fn every_kind(number: u64) -> Vec<Segment> {
    let session = SessionId { engine: 1, number };
    let report = SegmentBody::Report { serial: 77, checkpoint: 0, lower: 0, upper: 3000, claims: vec![(0, 3000)] };
    let mut bodies = vec![report, SegmentBody::ReportAck { serial: 1 }];
    bodies.extend([0, 1, 2, 3, 4, 7].map(|kind| any_data(kind, 9)));
    for by_sender in [false, true] {
        bodies.push(SegmentBody::Cancel { by_sender, reason: reason::USER });
        bodies.push(SegmentBody::CancelAck { by_sender });
    }
    bodies.into_iter().map(|body| Segment { session, body }).collect()
}

#[test]
fn forged_segment_is_dropped_silently() {
    // The check comes before any change of state, and forgeries are not answered.
    let forger = |authentication| bench(1, 2, authentication);
    // The sender has a session, and the receiver has half of its block.
    let [mut a, mut b] = pair();
    let first = a.send(1, bundle(1, 3000), true);
    let number = segments(&first)[0].session.number;
    b.receive(1, first[0].clone());
    let before = [a.ltp.usage(), b.ltp.usage()];
    assert_eq!((before[0].exports, before[1].imports), (1, 1));
    let (mut wrong_key, mut null) = (forger(keys(&[("moon", 8)])), forger(Authentication::Null));
    let mut said = 0;
    for session in [number, number + 1] {
        for segment in every_kind(session) {
            let bare = segment.emit();
            // Segments without authentication, with or without two more bytes, are neither accepted nor answered.
            for datagram in [bare.clone(), [&bare[..], &[0, 0]].concat().into()] {
                assert!(a.receive(2, datagram.clone()).is_empty() && b.receive(1, datagram).is_empty(), "{segment:?}");
            }
            said += 2;
        }
    }
    for forger in [&mut wrong_key, &mut null] {
        for datagram in forger.send(1, bundle(1, 3000), true) {
            assert!(b.receive(1, datagram).is_empty());
        }
    }
    assert_eq!([a.ltp.usage(), b.ltp.usage()], before, "nothing changed");
    assert!(b.dropped.len() >= said && b.dropped.iter().any(|why| why.contains("wrong")), "{:?}", b.dropped);
    assert!(b.dropped.iter().any(|why| why.contains("without")) && b.dropped.iter().any(|why| why.contains("way")));
    // The forgeries must not have harmed the genuine session.
    for datagram in &first[1..] {
        b.receive(1, datagram.clone());
    }
    assert_eq!(b.bundles(), [bundle(1, 3000)]);
}

#[test]
fn every_bit_flip_is_dropped() {
    let [mut a, mut b] = pair();
    let first = a.send(1, bundle(1, 100), true);
    let report = b.receive(1, first[0].clone());
    assert!(view(&report[0]).kind == kind::REPORT && first.len() == 1);
    for bit in 0..report[0].len() * 8 {
        let mut changed = report[0].to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        a.receive(2, changed);
        assert_eq!((a.sent.len(), a.ltp.usage().exports), (0, 1), "bit {bit}");
    }
    a.receive(2, report[0].clone());
    assert_eq!(a.sent.len(), 1);
}

/// Keeps 5327-2.1-7.
#[test]
fn keys_rotate_during_traffic() {
    // Both ends accept the old and the new key for a while, so that bundles keep arriving.
    let (old, both, new) = (keys(&[("1", 1)]), keys(&[("2", 2), ("1", 1)]), keys(&[("2", 2)]));
    for ends in [[&old, &old], [&both, &old], [&both, &both], [&new, &both], [&new, &new]] {
        let [mut a, mut b] = [bench(1, 2, ends[0].clone()), bench(2, 1, ends[1].clone())];
        let first = a.send(1, bundle(1, 5000), true);
        let there = talk([&mut a, &mut b], [1, 2], first, |_, _| false);
        // The other end drops segments signed with a key that it does not have; so new keys must be installed at all
        // ends first.
        let understood = ends != [&both, &old];
        assert_eq!((b.arrived.len(), a.sent.len()), (usize::from(understood), usize::from(understood)), "{ends:?}");
        assert!(understood || there.len() > 3, "it is tried again");
    }
}

/// Keeps 5327-2.1-1.
#[test]
fn optional_authentication_is_not_checked() {
    // A link without authentication ignores the extension.
    let (mut a, mut b) = (bench(1, 2, keys(&[("moon", 7)])), bench(2, 1, Authentication::None));
    for datagram in a.send(1, bundle(1, 5000), true) {
        b.receive(1, datagram);
    }
    assert!(b.bundles() == [bundle(1, 5000)] && b.dropped.is_empty());
}

#[test]
fn acknowledgment_is_sealed_for_unheard_neighbour() {
    // The neighbour's address is known, although no segment from there has arrived since the start.
    let [mut a, mut b] = pair();
    let report = {
        let first = a.send(1, bundle(1, 100), true);
        b.receive(1, first[0].clone())
    };
    let [mut started_anew, _] = pair();
    let ack = started_anew.receive(2, report[0].clone());
    assert_eq!((view(&ack[0]).kind, suites(&ack[0]).len()), (kind::REPORT_ACK, 1));
    b.receive(1, ack[0].clone());
    assert!(b.dropped.is_empty() && started_anew.dropped.is_empty());
}

/// Keeps 5327-2.1-1.
#[test]
fn other_links_are_unaffected_by_keys() {
    let mut b = bench(2, 1, keys(&[("moon", 7)]));
    // Engine 3 has no configured link, so its segments need no authentication.
    let session = SessionId { engine: 3, number: 5 };
    let report = b.receive(3, Segment { session, body: any_data(kind::BLOCK_END, 4) }.emit());
    assert!(b.arrived.len() == 1 && suites(&report[0]).is_empty());
    // Segments of engine 1 are not accepted from engine 3's address.
    let session = SessionId { engine: 1, number: 5 };
    assert!(b.receive(3, Segment { session, body: any_data(kind::BLOCK_END, 4) }.emit()).is_empty());
    assert_eq!(b.dropped.len(), 1);
    // Authentication by a peer without a configured link is not checked, whatever its key.
    let mut unknown = bench(3, 2, keys(&[("nobody knows it", 9)]));
    for datagram in unknown.send(1, bundle(1, 3000), true) {
        assert_eq!(suites(&datagram).len(), 1);
        b.receive(3, datagram);
    }
    assert!(b.bundles().last() == Some(&bundle(1, 3000)) && b.dropped.len() == 1, "{:?}", b.dropped);
    // The authenticated link still requires authentication.
    let session = SessionId { engine: 1, number: 6 };
    assert!(b.receive(1, Segment { session, body: any_data(kind::BLOCK_END, 4) }.emit()).is_empty());
    assert!(b.dropped.len() == 2 && b.dropped[1].contains("without"), "{:?}", b.dropped);
}

#[test]
fn authenticated_bundles_survive_loss_and_restarts() {
    // Includes the smallest datagrams, in which the extensions leave little room.
    for (seed, datagram) in (0..30).zip([64, 90, 200, 1360].into_iter().cycle()) {
        let channel = Channel {
            loss: [0.15; 2],
            jitter: Duration::from_millis(3),
            duplicate: 0.05,
            rate: Some(DataRate(20_000_000)),
            ..Channel::default()
        };
        let authentication = keys(&[("a key with a name", seed as u8)]);
        let span = SpanConfig { datagram_bytes: datagram, authentication, ..SpanConfig::default() };
        let mut world = EnginePair::new(seed, channel, span);
        for number in 0..20 {
            world.offer(0, number, datagram_common::bundle(number, 50 + number as usize * 700), true);
        }
        if seed % 3 == 0 {
            world.restart_at(0.05, 1);
        }
        world.run(1_000_000);
        world.settle();
        assert_eq!(world.sides[1].accepted.len(), 20);
        assert_eq!((world.sides[0].malformed, world.sides[1].malformed), (0, 0), "seed {seed}");
    }
}

#[test]
fn simulated_patterns_authenticate_as_bytes() {
    // A simulated payload is a fill; its hash must be that of the bytes which a real node sends.
    let span = SpanConfig { authentication: keys(&[("", 3)]), ..SpanConfig::default() };
    let mut world = EnginePair::new(3, Channel::default(), span);
    world.offer(0, 9, Payload::fill(9, 300_000), true);
    world.run(100_000);
    assert!(world.sides[1].offers[&9] == 1 && world.sides[1].malformed == 0);
    // The bytes on the link are those of all segments, with their extensions.
    let segments = 300_000u64.div_ceil(1360 - 17 - 20);
    let bytes = world.sides[0].sent_bytes;
    assert!(bytes > 300_000 + segments * (17 + 28) && bytes < 300_000 + (segments + 9) * (17 + 28 + 22), "{bytes}");
}

#[test]
fn link_without_its_key_carries_nothing() {
    // If authentication is required but the key is missing, nothing may be accepted without it.
    let [mut a, mut b] = [bench(1, 2, keys(&[])), bench(2, 1, keys(&[]))];
    let first = a.send(1, bundle(1, 500), true);
    talk([&mut a, &mut b], [1, 2], first, |_, _| false);
    assert!(b.arrived.is_empty() && b.dropped.iter().all(|why| why.contains("wrong")));
    a.input(Input::Link { link: LINK, state: LinkState::DOWN });
}

#[test]
fn authenticated_neighbour_may_change_port() {
    // A neighbour whose segments are authentic may send from any port of its host, and needs no cookie.
    let mut b = LtpBench::new(2, 1, |config, span| {
        config.cookies = farlink_cla::ltp::AskCookies::Always;
        span.authentication = keys(&[("moon", 7)]);
    });
    let [mut a, _] = pair();
    let elsewhere = std::net::SocketAddr::from(([10, 0, 0, 1], 9999));
    for datagram in a.send(1, bundle(1, 500), true) {
        b.receive_from(elsewhere, datagram);
    }
    assert_eq!((b.bundles(), b.dropped.len()), (vec![bundle(1, 500)], 0));
}

#[test]
fn keys_change_during_sessions() {
    let (old, both, new) = (keys(&[("1", 1)]), keys(&[("2", 2), ("1", 1)]), keys(&[("2", 2)]));
    let [mut a, mut b] = [bench(1, 2, old.clone()), bench(2, 1, old)];
    let first = a.send(1, bundle(1, 30_000), true);
    let (middle, rest) = first.split_at(first.len() / 2);
    middle.iter().for_each(|datagram| drop(b.receive(1, datagram.clone())));
    for bench in [&mut a, &mut b] {
        assert!(bench.ltp.replace_keys(LINK, &both));
    }
    // Segments under way carry the old key, retransmissions the new one.
    let went = talk([&mut a, &mut b], [1, 2], rest.to_vec(), |_, _| false);
    assert!(suites(&went.last().unwrap().1) == [b"\x002"] && suites(&went[0].1) == [b"\x001"]);
    assert!(b.bundles() == [bundle(1, 30_000)] && a.sent.len() == 1 && a.failed.is_empty());
    assert!(a.dropped.is_empty() && b.dropped.is_empty());
    assert!(b.ltp.replace_keys(LINK, &new) && !b.ltp.replace_keys(LINK, &Authentication::None));
    assert!(!b.ltp.replace_keys(farlink_base::LinkId(9), &new));
    let mut plain = bench(1, 2, Authentication::None);
    assert!(!plain.ltp.replace_keys(LINK, &new), "the bundle starts again");
}

#[test]
fn longer_key_name_fits_smallest_datagrams() {
    // Segments of blocks that were cut before the keys changed may exceed the datagram limit, but only by the length of
    // the longer key name.
    let long = keys(&[("a name of a key as long as can be", 2), ("", 1)]);
    let [mut a, mut b] = [1, 2].map(|own| {
        LtpBench::new(own, 3 - own, |_, span| {
            (span.datagram_bytes, span.authentication) = (64, keys(&[("", 1)]));
        })
    });
    let mut first = a.send(1, bundle(1, 900), true);
    assert!(a.ltp.replace_keys(LINK, &long) && b.ltp.replace_keys(LINK, &long));
    first.extend(a.send(2, bundle(2, 900), true));
    // Some segments are lost, so that reports claim parts of the block, and the rest is retransmitted.
    let mut count = 0;
    let went = talk([&mut a, &mut b], [1, 2], first, |_, _| {
        count += 1;
        count % 5 == 2
    });
    assert_eq!((b.arrived.len(), a.sent.len()), (2, 2));
    assert_eq!((a.ltp.usage(), b.ltp.usage()), (Usage::default(), Usage::default()));
    let longest = went.iter().map(|(_, datagram)| datagram.len()).max().unwrap();
    assert!(longest <= 64 + 17 + 32 + 1, "{longest}");
    assert!(went.len() < 2000, "{}", went.len());
}

//! Tests of peers without a configured link: when bundles are sent to them, and for how long.

use crate::udpcl_common;

use crate::udpcl_common::{LINK, UdpclBench, address, bundle, located, offers, sent, split};
use farlink_base::layer::{ConvergenceLayer, Destination, Input, LinkState, Output, SendId};
use farlink_base::{Bytes, Duration, Instant, LinkId};
use farlink_cla::udpcl::packet::{Extensions, Probe, announcement, confirmation_packet, probe_packet};
use farlink_cla::udpcl::{Config, LinkParams, Udpcl, Usage};
use std::net::SocketAddr;

fn unknown_peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 66], 50_000))
}
fn nonce_of(packet: &Bytes) -> u64 {
    let rope = packet.clone().into();
    Extensions::read(&mut farlink_base::Payload::reader(&rope)).unwrap().probe.unwrap().nonce
}
/// Lets an unknown peer announce itself and answer the probe; returns its link.
fn meet(bench: &mut UdpclBench, from: SocketAddr, listens_ms: u64, name: &str) -> Option<LinkId> {
    let asked = sent(&bench.receive(from, announcement(listens_ms, name)));
    let [(Destination::Address(to), probe)] = &asked[..] else { return None };
    assert_eq!(*to, from);
    let out = bench.receive(from, confirmation_packet(nonce_of(probe), 0));
    let up = out.iter().find_map(|o| match o {
        Output::PeerUp { link, claimed, proven: None, node: None } => Some((*link, claimed.clone())),
        _ => None,
    })?;
    assert_eq!(up.1.as_deref(), Some(name));
    assert!(out.iter().any(|o| matches!(o, Output::Ready { link, ready: true } if *link == up.0)));
    Some(up.0)
}
fn gone(out: &[Output], link: LinkId) -> bool {
    out.iter().any(|o| matches!(o, Output::PeerDown { link: gone } if *gone == link))
}

#[test]
fn confirmed_dynamic_peer_gets_bundles() {
    let mut bench = UdpclBench::new(|_, _| {});
    let link = meet(&mut bench, unknown_peer(), 10_000, "ipn:77.0").unwrap();
    assert!(link.is_dynamic() && bench.layer.usage().dynamic == 1);
    assert_eq!(offers(&bench.receive(unknown_peer(), bundle(1, 20).to_bytes().unwrap()))[0].0, link);
    let out = bench.input(Input::send(link, SendId(1), bundle(2, 100), true));
    assert_eq!(sent(&out)[0].0, Destination::Address(unknown_peer()));
    assert!(!gone(&bench.later(29.0), link), "three intervals");
    assert!(sent(&bench.receive(unknown_peer(), announcement(10_000, "ipn:77.0"))).is_empty(), "it is known");
    assert!(!gone(&bench.later(29.0), link));
    bench.input(Input::send(link, SendId(2), bundle(2, 1_000_000), true));
    let out = bench.later(1.5);
    assert!(gone(&out, link));
    assert!(out.iter().any(|o| matches!(o, Output::SendFailed { id: SendId(2), .. })));
    bench.later(200.0);
    assert_eq!((bench.layer.usage(), bench.layer.next_timeout()), (Usage::default(), None));
    assert_eq!(bench.input(Input::send(link, SendId(3), bundle(2, 100), true)).len(), 1, "there is no such link");
}

#[test]
fn nothing_else_makes_a_link() {
    let mut bench = UdpclBench::new(|_, _| {});
    let other = SocketAddr::from(([192, 0, 2, 67], 50_000));
    let ups = |out: &[Output]| out.iter().filter(|o| matches!(o, Output::PeerUp { .. })).count();
    assert!(sent(&bench.receive(unknown_peer(), announcement(1000, ""))).is_empty(), "no name");
    assert!(sent(&bench.receive(unknown_peer(), b"\xa1\x04\x67ipn:7.0".to_vec())).is_empty(), "not listening");
    let asked = sent(&bench.receive(unknown_peer(), announcement(1000, "ipn:77.0")));
    let nonce = nonce_of(&asked[0].1);
    assert_eq!(ups(&bench.receive(unknown_peer(), confirmation_packet(nonce ^ 1, 0))), 0, "another number");
    assert_eq!(ups(&bench.receive(other, confirmation_packet(nonce, 0))), 0, "from elsewhere");
    assert_eq!(
        nonce_of(&sent(&bench.receive(unknown_peer(), announcement(1000, "ipn:77.0")))[0].1),
        nonce,
        "asked again"
    );
    assert_ne!(nonce_of(&sent(&bench.receive(other, announcement(1000, "ipn:77.0")))[0].1), nonce);
    bench.later(25.0);
    assert_eq!(ups(&bench.receive(unknown_peer(), confirmation_packet(nonce, 0))), 0, "too late");
    assert_eq!((bench.layer.usage(), bench.layer.places()), (Usage::default(), 1));
}

#[test]
fn dynamic_peer_becomes_configured_neighbour() {
    // The dynamic link ends when a configured one leads to its address.
    let mut bench = UdpclBench::new(|_, _| {});
    let met = meet(&mut bench, unknown_peer(), 60_000, "ipn:77.0").unwrap();
    let mut out = Vec::new();
    let now = bench.now;
    assert!(bench.layer.add_span(now, LinkParams { link: LinkId(1), ..LinkParams::default() }, &mut out));
    assert!(gone(&bench.input(located(LinkId(1), unknown_peer())), met));
    assert_eq!(offers(&bench.receive(unknown_peer(), bundle(1, 20).to_bytes().unwrap()))[0].0, LinkId(1));
    assert_eq!(bench.layer.places(), 3);
}

#[test]
fn probe_reply_is_prompt_and_small() {
    // Rules of draft-ietf-dtn-udpcl sections 3.5.6 and 3.5.7. The source address may be forged, so the answer is hardly
    // longer than the probe.
    let mut bench = UdpclBench::new(|_, _| {});
    let probe = |nonce, sequence, delay_ms| probe_packet(Probe { nonce, sequence, delay_ms });
    for from in [address(0), unknown_peer()] {
        let said = sent(&bench.receive(from, probe(7, 3, 0)));
        assert_eq!(said, [(Destination::Address(from), Bytes::from(confirmation_packet(7, 3)))]);
        assert!(sent(&bench.receive(from, probe(7, 3, 1))).is_empty(), "one that is to wait for others");
        let long = probe(u64::MAX, u64::MAX, 0);
        assert!(sent(&bench.receive(from, long.clone())).is_empty(), "{} B", long.len());
        assert_eq!(
            sent(&bench.receive(from, [&long[..], b"\0"].concat())).len(),
            1,
            "padded to the length of its answer"
        );
    }
    assert_eq!((sent(&bench.later(200.0)).len(), bench.layer.next_timeout()), (0, None));
}

#[test]
fn repeated_questions_draw_one_small_reply() {
    // A small packet with a forged address and hundreds of probes must not cause a flood of answers at that address.
    let mut bench = UdpclBench::new(|_, _| {});
    let probes: Vec<u8> =
        (0..500).flat_map(|n| probe_packet(Probe { nonce: 1, sequence: n % 20, delay_ms: 0 })).collect();
    let names: Vec<u8> = (0..60u8).flat_map(|n| announcement(1000, &format!("ipn:{}.0", 10 + n))).collect();
    for (from, packet) in [(address(0), &probes), (unknown_peer(), &probes), (unknown_peer(), &names)] {
        let said = sent(&bench.receive(from, packet.clone()));
        let bytes: usize = said.iter().map(|(_, answer)| 28 + answer.len()).sum();
        assert!((1..=2).contains(&said.len()) && bytes <= 28 + packet.len(), "{bytes} B in {} packets", said.len());
    }
    let once = probe_packet(Probe { nonce: 7, sequence: 3, delay_ms: 0 });
    assert_eq!(sent(&bench.receive(unknown_peer(), once.repeat(2))).len(), 1);
}

#[test]
fn pending_probes_are_bounded() {
    // A flood of addresses displaces pending probes instead of growing the table.
    let mut bench = UdpclBench::new(|_, _| {});
    let at = |n: u32| SocketAddr::from(([192, 0, (n >> 8) as u8, n as u8], 4556));
    let asked =
        |bench: &mut UdpclBench, n| nonce_of(&sent(&bench.receive(at(n), announcement(60_000, "ipn:77.0")))[0].1);
    let nonces: Vec<u64> = (0..1025).map(|n| asked(&mut bench, n)).collect();
    let answers = |bench: &mut UdpclBench, n: u32| {
        bench.receive(at(n), confirmation_packet(nonces[n as usize], 0));
        bench.layer.usage().dynamic
    };
    assert_eq!([answers(&mut bench, 0), answers(&mut bench, 1024)], [0, 1], "the first are forgotten for the last");
}

#[test]
fn dynamic_peers_are_bounded_and_reused() {
    let mut bench = UdpclBench::new(|_, _| {});
    let at = |n: u32| SocketAddr::from(([192, 0, (n >> 8) as u8, n as u8], 4556));
    let met = (0..1200).filter(|n| meet(&mut bench, at(*n), 60_000, "ipn:77.0").is_some()).count();
    assert_eq!((met, bench.layer.usage().dynamic, bench.layer.places()), (1024, 1024, 1025));
    bench.later(200.0);
    assert_eq!(bench.layer.usage(), Usage::default());
    for n in 0..100 {
        assert!(meet(&mut bench, at(n), 60_000, "ipn:78.0").is_some());
    }
    assert_eq!(bench.layer.places(), 1025);
}

#[test]
fn one_sided_configuration_exchanges_both_ways() {
    // Only one side has a link. Its announcements let the other side make a dynamic link back.
    let config = |node: u64| Config { node_id: format!("ipn:{node}.0"), seed: node, split, ..Config::default() };
    let span = LinkParams { link: LINK, version: 2, keepalive: Duration::from_secs(20), ..LinkParams::default() };
    let mut layers = [Udpcl::new(config(1), vec![span]), Udpcl::new(config(2), Vec::new())];
    let (mut links, mut arrived) = ([Some(LINK), None], [0, 0]);
    let mut inputs = vec![(0, located(LINK, address(1))), (0, Input::Link { link: LINK, state: LinkState::UP })];
    for second in 0..120u64 {
        let now = Instant(second * 1_000_000_000);
        inputs.extend([(0, Input::Wake), (1, Input::Wake)]);
        for (side, link) in links.iter().enumerate() {
            if let Some(link) = *link {
                inputs.push((side, Input::send(link, SendId(second), bundle(second, 1000), false)));
                inputs.push((side, Input::Wake));
            }
        }
        while !inputs.is_empty() {
            let (side, input) = inputs.remove(0);
            let mut out = Vec::new();
            layers[side].handle(now, input, &mut out);
            arrived[side] += offers(&out).len();
            for (_, packet) in sent(&out) {
                inputs.push((1 - side, udpcl_common::datagram(address(side), packet)));
            }
            for output in out {
                if let Output::PeerUp { link, claimed, .. } = output {
                    assert_eq!((side, claimed.as_deref()), (1, Some("ipn:1.0")));
                    links[1] = Some(link);
                }
            }
        }
    }
    assert!(arrived[0] > 100 && arrived[1] > 100, "{arrived:?}");
}

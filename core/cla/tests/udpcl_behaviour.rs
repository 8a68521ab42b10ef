//! Tests of UDPCL links: accepted bundles, additions and removals, and attribution of datagrams.

use crate::udpcl_common::{LINK, UdpclBench, address, bundle, datagram, located, malformed, offers, seconds, sent};
use farlink_base::layer::{ConvergenceLayer, Destination, Input, LinkState, Output, SendId};
use farlink_base::{Chunk, DataRate, Duration, Extent, Leaving, LinkId, Payload, Refusal};
use farlink_cla::udpcl::packet::announcement;
use farlink_cla::udpcl::{LinkParams, Usage};
use std::net::SocketAddr;

/// Outcomes of bundles: sent, or failed, with the refusal if there was one.
fn outcomes(out: &[Output]) -> Vec<(u64, Result<(), Option<Refusal>>)> {
    let outcome = |o: &Output| match o {
        Output::Sent { id, .. } => Some((id.0, Ok(()))),
        Output::SendFailed { id, refused, .. } => Some((id.0, Err(*refused))),
        _ => None,
    };
    out.iter().filter_map(outcome).collect()
}
fn peers(out: &[Output]) -> Vec<(LinkId, Option<String>)> {
    let peer = |o: &Output| match o {
        Output::PeerUp { link, claimed, proven: None, node: None } => Some((*link, claimed.clone())),
        Output::PeerUp { .. } => panic!("{o:?}"),
        Output::PeerDown { link } => Some((*link, None)),
        _ => None,
    };
    out.iter().filter_map(peer).collect()
}
fn slow(span: &mut LinkParams) {
    (span.version, span.pace_bytes) = (2, 1000);
}

/// Keeps 7122-3.2-1.
#[test]
fn v1_bundles_fit_one_datagram() {
    // Version 2 would send longer ones in segments.
    let mut bench = UdpclBench::new(|_, _| {});
    let out = bench.send(1, bundle(1, 65_507));
    assert_eq!((sent(&out).len(), outcomes(&out)), (1, vec![(1, Ok(()))]));
    assert_eq!(sent(&out)[0].0, Destination::Link(LINK));
    bench.later(10.0);
    assert_eq!(outcomes(&bench.send(2, bundle(2, 65_508))), [(2, Err(Some(Refusal::TooLarge)))]);
    assert_eq!(LinkParams::default().largest(), Some(1400));
    let mut bench = UdpclBench::new(|_, span| span.version = 2);
    let mut out = bench.send(1, bundle(1, 200_000));
    out.extend(bench.later(10.0));
    assert!(sent(&out).len() > 140 && sent(&out).iter().all(|(_, bytes)| bytes.len() <= 1400));
    assert_eq!(outcomes(&out), [(1, Ok(()))]);
    assert_eq!(LinkParams { version: 2, ..LinkParams::default() }.largest(), None);
}

#[test]
fn unsendable_bundle_fails_at_once() {
    let mut bench = UdpclBench::new(|_, _| {});
    let mut stored = Payload::new();
    stored.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len: 20 });
    for (id, bad) in [(1, Payload::new()), (2, stored)] {
        assert_eq!(outcomes(&bench.send(id, bad)), [(id, Err(None))]);
    }
    let (link, part) = (LINK, bundle(1, 100));
    let out =
        bench.input(Input::Send { link, id: SendId(3), total: 50, part, reliable: false, leaving: Leaving::AS_IT_IS });
    assert_eq!(outcomes(&out), [(3, Err(None))], "more than all of it");
    let out = bench.input(Input::send(LinkId(7), SendId(4), bundle(1, 20), false));
    assert_eq!(outcomes(&out), [(4, Err(None))], "no such link");
    bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
    assert_eq!(outcomes(&bench.send(5, bundle(1, 20))), [(5, Err(None))], "a link that is down");
    bench.input(Input::Link { link: LINK, state: LinkState::UP });
    let out = bench.input(Input::Shutdown);
    assert!(out.iter().any(|o| matches!(o, Output::Ready { link: LINK, ready: false })));
    assert_eq!(outcomes(&bench.send(6, bundle(1, 20))), [(6, Err(None))], "at the end");
    assert!(offers(&bench.receive(address(0), bundle(1, 20).to_bytes().unwrap())).is_empty());
}

#[test]
fn link_down_returns_unsent_bundles() {
    // Other bundles follow when the link is up again.
    let mut bench = UdpclBench::new(|_, span| slow(span));
    bench.send(1, bundle(1, 5000));
    bench.send(2, bundle(2, 5000));
    let before = sent(&bench.later(2.0)).len();
    assert!(before > 0);
    let out = bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
    assert_eq!(outcomes(&out), [(1, Err(None)), (2, Err(None))]);
    assert!(sent(&bench.later(100.0)).is_empty());
    assert_eq!((bench.layer.usage(), bench.layer.next_timeout()), (Usage::default(), None));
    let out = bench.input(Input::Link { link: LINK, state: LinkState::UP });
    assert!(out.iter().any(|o| matches!(o, Output::Ready { link: LINK, ready: true })));
    let mut out = bench.send(3, bundle(3, 1000));
    out.extend(bench.later(5.0));
    assert_eq!(outcomes(&out), [(3, Ok(()))]);
    let out = bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
    assert!(matches!(out[..], [Output::Ready { link: LINK, ready: false }]), "{out:?}");
}

#[test]
fn withdrawal_is_answered_once() {
    // One withdrawn bundle waits, the other is leaving.
    let mut bench = UdpclBench::new(|_, span| slow(span));
    bench.send(1, bundle(1, 5000));
    bench.send(2, bundle(2, 5000));
    bench.send(3, bundle(3, 100));
    bench.later(2.0);
    let cancel = |bench: &mut UdpclBench, id| outcomes(&bench.input(Input::CancelSend { link: LINK, id: SendId(id) }));
    assert_eq!(cancel(&mut bench, 2), [(2, Err(None))], "not begun");
    assert_eq!(cancel(&mut bench, 1), [(1, Err(None))], "under way");
    assert_eq!((cancel(&mut bench, 1), cancel(&mut bench, 9)), (vec![], vec![]));
    let out = bench.later(20.0);
    assert_eq!((outcomes(&out), sent(&out).len()), (vec![(3, Ok(()))], 1));
    assert_eq!(cancel(&mut bench, 3), [], "it was sent");
    assert_eq!(bench.layer.usage(), Usage::default());
}

#[test]
fn read_failure_yields_to_next_bundle() {
    // Only the first part of the bundle has been given.
    let mut bench = UdpclBench::new(|_, span| slow(span));
    let (link, whole) = (LINK, bundle(1, 9000));
    let first = Input::Send {
        link,
        id: SendId(1),
        total: 9000,
        part: whole.slice(0, 2000),
        reliable: false,
        leaving: Leaving::AS_IT_IS,
    };
    let out = bench.input(first);
    assert!(out.iter().any(|o| matches!(o, Output::Want { id: SendId(1), from: 2000, len: 7000, .. })), "{out:?}");
    bench.send(2, bundle(2, 100));
    assert_eq!(sent(&bench.later(60.0)).len(), 0, "one segment left at once, and the next is not here");
    let out = bench.input(Input::SendBroken { link, id: SendId(1) });
    assert_eq!(outcomes(&out), [(1, Err(None)), (2, Ok(()))]);
    let late = bench.input(Input::SendMore { link, id: SendId(1), from: 2000, part: whole.slice(2000, 7000) });
    assert!(late.is_empty() && bench.layer.usage() == Usage::default());
}

#[test]
fn removed_udpcl_link_returns_all() {
    // After the removal, the link number may be used for another link.
    let mut bench = UdpclBench::new(|_, span| slow(span));
    bench.receive(address(0), announcement(30_000, "ipn:1.0"));
    bench.send(1, bundle(1, 5000));
    let segment = sent(&bench.later(0.0)).first().cloned();
    assert!(segment.is_none());
    bench.receive(address(0), b"\xa1\x02\x84\x05\x18\x64\x00\x42\x9fa".to_vec());
    assert_eq!(bench.layer.usage().transfers, 1);
    let out = bench.input(Input::RemoveLink { link: LINK });
    assert_eq!(outcomes(&out), [(1, Err(None))]);
    assert_eq!(peers(&out), [(LINK, None)]);
    assert_eq!(bench.layer.usage(), Usage::default());
    assert!(bench.input(Input::RemoveLink { link: LINK }).is_empty());
    assert!(bench.later(1000.0).is_empty());
    let from_there = offers(&bench.receive(address(0), bundle(1, 20).to_bytes().unwrap()));
    assert!(from_there[0].0.is_dynamic(), "an unattributed address");
    let mut out = Vec::new();
    let span = LinkParams { link: LINK, ..LinkParams::default() };
    assert!(bench.layer.add_span(bench.now, span.clone(), &mut out));
    assert!(!bench.layer.add_span(bench.now, span, &mut out), "the number is taken");
    let dynamic = LinkParams { link: LinkId(LinkId::DYNAMIC), ..LinkParams::default() };
    assert!(!bench.layer.add_span(bench.now, dynamic, &mut out));
    assert_eq!(bench.layer.places(), 1);
    bench.input(located(LINK, address(3)));
    let out = bench.input(Input::Link { link: LINK, state: LinkState::UP });
    assert!(out.iter().any(|o| matches!(o, Output::Ready { link: LINK, ready: true })));
    assert_eq!(offers(&bench.receive(address(3), bundle(1, 20).to_bytes().unwrap()))[0].0, LINK);
    let out = bench.input(Input::RemoveLink { link: LINK });
    assert!(matches!(out[..], [Output::Ready { link: LINK, ready: false }]), "{out:?}");
}

#[test]
fn thousand_flaps_leave_nothing() {
    let mut bench = UdpclBench::new(|_, span| slow(span));
    for flap in 0..1000u64 {
        bench.send(flap, bundle(flap, 3000));
        bench.receive(
            address(0),
            [&b"\xa1\x02\x84\x19"[..], &(flap as u16 + 300).to_be_bytes(), b"\x18\x64\x00\x42\x9fa"].concat(),
        );
        bench.later(0.01 * (flap % 7) as f64);
        bench.input(Input::RemoveLink { link: LINK });
        assert_eq!((bench.layer.usage(), bench.layer.places()), (Usage::default(), 1));
        let mut out = Vec::new();
        assert!(bench.layer.add_span(bench.now, LinkParams { link: LINK, ..LinkParams::default() }, &mut out));
        bench.input(located(LINK, address(0)));
        bench.input(Input::Link { link: LINK, state: LinkState::UP });
    }
}

#[test]
fn neighbour_matches_address_then_sole_host() {
    // The host is enough to attribute a datagram, if no other link leads there.
    let mut bench = UdpclBench::new(|_, _| {});
    let whole = bundle(1, 20).to_bytes().unwrap();
    let beside = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let from = |bench: &mut UdpclBench, at| offers(&bench.receive(at, whole.clone()))[0].0;
    assert_eq!(from(&mut bench, address(0)), LINK);
    assert_eq!(from(&mut bench, beside), LINK, "ION sends from a socket of its own");
    assert!(from(&mut bench, address(9)).is_dynamic());
    let mut out = Vec::new();
    assert!(bench.layer.add_span(bench.now, LinkParams { link: LinkId(1), ..LinkParams::default() }, &mut out));
    bench.input(located(LinkId(1), SocketAddr::from(([10, 0, 0, 1], 4557))));
    assert!(from(&mut bench, beside).is_dynamic(), "the host is ambiguous");
    assert_eq!(from(&mut bench, SocketAddr::from(([10, 0, 0, 1], 4557))), LinkId(1));
    bench.input(located(LINK, address(5)));
    assert_eq!([from(&mut bench, address(5)), from(&mut bench, beside)], [LINK, LinkId(1)], "it moved");
}

#[test]
fn enabled_link_wins_shared_address() {
    // Of two links to one address, datagrams belong to the one that is up.
    let mut bench = UdpclBench::new(|_, _| {});
    let mut out = Vec::new();
    assert!(bench.layer.add_span(bench.now, LinkParams { link: LinkId(1), ..LinkParams::default() }, &mut out));
    bench.input(located(LinkId(1), address(0)));
    let whole = bundle(1, 20).to_bytes().unwrap();
    assert_eq!(offers(&bench.receive(address(0), whole.clone()))[0].0, LINK);
    bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
    bench.input(Input::Link { link: LinkId(1), state: LinkState::UP });
    assert_eq!(offers(&bench.receive(address(0), whole.clone()))[0].0, LinkId(1));
    bench.input(Input::RemoveLink { link: LinkId(1) });
    assert_eq!(offers(&bench.receive(address(0), whole))[0].0, LINK, "also while it is down");
}

#[test]
fn name_claim_binds_only_its_address() {
    // A neighbour may not announce another node ID than the configured one.
    let mut bench = UdpclBench::new(|_, _| {});
    let name = |text: &str| announcement(30_000, text);
    assert_eq!(peers(&bench.receive(address(0), name("ipn:1.0"))), [(LINK, Some("ipn:1.0".into()))]);
    assert_eq!(peers(&bench.receive(address(0), name("ipn:1.0"))), [], "said once");
    for (from, wrong) in [(address(0), "ipn:3.0"), (SocketAddr::from(([10, 0, 0, 1], 9)), "ipn:1.0")] {
        let out = bench.receive(from, name(wrong));
        assert_eq!((peers(&out), malformed(&out).len()), (vec![], 1), "{wrong} from {from}");
    }
    assert_eq!(peers(&bench.receive(address(9), name("ipn:1.0"))), [], "another address");
    assert_eq!(peers(&bench.receive(address(0), name(""))), [], "no name");
    let mut bench = UdpclBench::new(|_, span| span.node_id = String::new());
    assert_eq!(peers(&bench.receive(address(0), name("ipn:3.0"))), [(LINK, Some("ipn:3.0".into()))]);
    for other in 4..100 {
        let out = bench.receive(address(0), name(&format!("ipn:{other}.0")));
        assert_eq!((peers(&out), malformed(&out).len()), (vec![], 1), "it has one node ID");
    }
}

/// Keeps 7122-3.4-2.
#[test]
fn keepalives_are_spaced_and_idle_only() {
    // RFC 7122 3.4: at least 15 s apart, and none while bundles leave.
    let mut bench = UdpclBench::new(|_, span| span.keepalive = Duration::from_secs(1));
    let times = |bench: &mut UdpclBench, after: f64| sent(&bench.later(after)).len();
    assert_eq!(times(&mut bench, 100.0), 6);
    for id in 0..10 {
        bench.send(id, bundle(id, 100));
        assert_eq!(times(&mut bench, 14.0), 0, "something was sent just now");
    }
    bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
    assert_eq!(times(&mut bench, 100.0), 0);
    bench.input(Input::Link { link: LINK, state: LinkState::UP });
    assert_eq!(times(&mut bench, 46.0), 3);
    bench.input(Input::Shutdown);
    assert_eq!(times(&mut bench, 100.0), 0);
    assert_eq!(bench.layer.next_timeout(), None);
}

#[test]
fn v2_node_announces_listening_each_minute() {
    // The interval is at most a minute (draft-ietf-dtn-udpcl section 3.5.3), even while bundles leave.
    let mut bench = UdpclBench::new(|_, span| (span.version, span.keepalive) = (2, Duration::from_secs(3600)));
    let mut said = Vec::new();
    for id in 0..100 {
        said.extend(sent(&bench.send(id, bundle(id, 100))));
        said.extend(sent(&bench.later(6.0)));
    }
    let told = said.iter().filter(|(_, bytes)| bytes[..] == announcement(60_000, "ipn:2.0")[..]).count();
    assert_eq!((said.len() - told, told), (100, 10));
}

#[test]
fn backlog_halves_before_more_is_accepted() {
    // The hysteresis keeps readiness from alternating with every bundle.
    let mut bench = UdpclBench::new(|_, span| span.pace_bytes = 200_000);
    let ready =
        |out: &[Output]| out.iter().find_map(|o| if let Output::Ready { ready, .. } = o { Some(*ready) } else { None });
    let mut sent = 0;
    let full = (0..100).find(|id| {
        sent += 1;
        ready(&bench.send(*id, bundle(*id, 1000))) == Some(false)
    });
    assert!(full.is_some() && bench.layer.usage().queued_bytes >= 10_000, "50 ms at 200 kB/s; {sent} given");
    while ready(&bench.later(0.001)).is_none() {}
    assert!((4000..=5000).contains(&bench.layer.usage().queued_bytes), "{:?}", bench.layer.usage());
}

#[test]
fn rate_change_is_obeyed_at_once() {
    // The time on the wire was computed at the old rate.
    let mut bench = UdpclBench::new(|_, _| {});
    let state = |rate| Input::Link { link: LINK, state: LinkState { rate: Some(DataRate(rate)), ..LinkState::UP } };
    bench.input(state(100));
    bench.send(1, bundle(1, 1000));
    bench.send(2, bundle(2, 1000));
    assert!(sent(&bench.later(60.0)).is_empty(), "a datagram takes 82 s");
    bench.input(state(0));
    assert!(
        sent(&bench.later(1000.0)).is_empty() && bench.layer.next_timeout().is_none(),
        "nothing leaves at rate zero"
    );
    let out = bench.input(state(1_000_000));
    assert_eq!(outcomes(&out), [(2, Ok(()))]);
    assert!(bench.now < seconds(2000.0));
}

#[test]
fn verdicts_and_holds_change_nothing() {
    // UDPCL conveys neither verdicts nor holds.
    use farlink_base::layer::Ticket;
    let mut bench = UdpclBench::new(|_, _| {});
    assert_eq!(offers(&bench.input(datagram(address(0), bundle(1, 30).to_bytes().unwrap()))).len(), 1);
    let ticket = Ticket(1);
    for input in [
        Input::Accepted { ticket },
        Input::Refused { ticket, reason: Refusal::NoResources },
        Input::Hold { ticket },
        Input::Resume { ticket },
        Input::Unshare,
        Input::CloseLink { link: LINK },
    ] {
        assert!(bench.input(input).is_empty());
    }
    assert_eq!(bench.layer.usage(), Usage::default());
}

//! Tests of sending over STCP and MTCP: byte for byte, and when a bundle counts as sent.

use crate::oneway_script;

use crate::oneway_script::{FRAMINGS, Lone, closed, downs, failed, frame, ours, send, sent, span, ups, vectors};
use farlink_base::layer::{Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Duration, Leaving, LinkId, Payload, Refusal};
use farlink_cla::oneway::{Config, Framing, LinkParams, Usage};

const SECOND: Duration = Duration::from_secs(1);

fn active(framing: Framing) -> Lone {
    Lone::active(framing, ours(), span())
}

#[test]
fn bundle_and_keepalive_match_known_bytes() {
    for framing in FRAMINGS {
        let vectors = vectors(framing);
        let of = |what: &str| vectors.iter().find(|(name, _)| name.starts_with(what)).unwrap().1.clone();
        let (whole, keepalive) = (of("one bundle"), of("keepalive"));
        let head = if framing == Framing::Stcp { 4 } else { 2 };
        let mut lone = active(framing);
        lone.give(send(1, whole[head..].to_vec()));
        assert_eq!(lone.wrote(), whole);
        lone.wait(SECOND * 14);
        assert!(lone.wrote().is_empty());
        lone.wait(SECOND);
        assert_eq!(lone.wrote(), keepalive, "15 s after the last byte");
        lone.wait(SECOND * 30);
        assert_eq!(lone.wrote(), [&keepalive[..], &keepalive].concat());
        let quiet = Config { keepalive: Duration::ZERO, ..ours() };
        let mut lone = Lone::active(framing, quiet, span());
        lone.wait(SECOND * 1000);
        assert!(lone.wrote().is_empty());
    }
}

#[test]
fn mtcp_keepalives_are_off_by_default() {
    // dtn7-rs 0.21 and pyD3TN 0.15 treat an empty byte string as an error, and lose the bundle after it.
    for (framing, says) in [(Framing::Stcp, true), (Framing::Mtcp, false)] {
        let mut lone = Lone::active(framing, Config { layer: ours().layer, ..Config::of(framing) }, span());
        lone.wait(SECOND * 1000);
        assert_eq!(!lone.wrote().is_empty(), says, "{framing:?}");
    }
    let told = Config { keepalive: SECOND * 5, layer: ours().layer, ..Config::of(Framing::Mtcp) };
    let mut lone = Lone::active(Framing::Mtcp, told, span());
    lone.wait(SECOND * 5);
    assert_eq!(lone.wrote(), [0x40]);
}

#[test]
fn bundle_is_sent_once_host_confirms() {
    // A bundle fails if the stream ends before the confirmation.
    for (framing, error) in FRAMINGS.into_iter().flat_map(|framing| [(framing, true), (framing, false)]) {
        let mut lone = Lone::new(framing, ours(), vec![span()]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        assert!(ups(&lone.said).is_empty(), "it is there once the stream is open");
        assert_eq!(ups(&lone.connects(1 << 20)), [LinkId(0)]);
        let ends: Vec<u64> = (1..=4).map(|n| n * frame(framing, &[7; 100]).len() as u64).collect();
        (1..=4).for_each(|id| lone.give(send(id, vec![7; 100])));
        assert_eq!(lone.wrote().len() as u64, ends[3]);
        assert!(lone.said().is_empty(), "written is not sent");
        lone.confirm(ends[0] - 1);
        assert!(lone.said().is_empty());
        lone.confirm(ends[0]);
        assert_eq!(sent(&lone.said()), [1]);
        lone.confirm(ends[0] - 50);
        lone.confirm(ends[0]);
        assert!(lone.said().is_empty(), "a repeated confirmation changes nothing");
        lone.confirm(ends[2] + 3);
        assert_eq!(sent(&lone.said()), [2, 3]);
        lone.close(error);
        let said = lone.said();
        assert_eq!((failed(&said), downs(&said)), (vec![4], vec![LinkId(0)]));
        // A peer that closes its half may have closed both: data sent from now on might reach nobody.
        assert_eq!(closed(&said, lone.stream), (!error).then_some(true));
        lone.confirm(ends[3]);
        assert!(lone.said().is_empty(), "too late");
        lone.wait(SECOND);
        lone.connects(1 << 20);
        lone.give(send(5, vec![7; 100]));
        lone.confirm(u64::MAX);
        assert_eq!(sent(&lone.said()), [5], "counted per stream; more than was written counts as everything");
    }
}

#[test]
fn unconfirmed_data_stay_within_window() {
    // A bundle longer than the window passes as well.
    for framing in FRAMINGS {
        let mut lone = Lone::active(framing, ours(), LinkParams { window_bytes: 1000, ..span() });
        lone.give(send(1, vec![1; 5000]));
        assert!(matches!(lone.said()[..], [Output::Ready { ready: false, .. }]));
        let whole = frame(framing, &[1; 5000]);
        let mut wrote = lone.wrote();
        assert_eq!(wrote.len(), 1000);
        while wrote.len() < whole.len() {
            lone.confirm(wrote.len() as u64 - 1);
            let more = lone.wrote();
            assert!((1..1000).contains(&more.len()), "{}", more.len());
            wrote.extend(more);
        }
        assert_eq!(wrote, whole);
        assert!(matches!(lone.said()[..], [Output::Ready { ready: true, .. }]), "less than the window is left of it");
        lone.confirm(whole.len() as u64);
        assert_eq!(sent(&lone.said()), [1]);
    }
}

#[test]
fn window_blocked_bundle_suppresses_keepalives() {
    // While data is unconfirmed, no keepalive is needed to find out whether the peer is alive.
    for framing in FRAMINGS {
        let quiet = Config { progress: Duration::ZERO, ..ours() };
        let mut lone = Lone::active(framing, quiet, LinkParams { window_bytes: 100, ..span() });
        lone.give(send(1, vec![1; 98]));
        lone.give(send(2, vec![2; 10]));
        assert_eq!(lone.wrote().len(), 100);
        // Time passes, and the driver wakes the layer without need.
        lone.wait(SECOND * 100);
        assert!(lone.wrote().is_empty());
        lone.confirm(50);
        assert!(!lone.wrote().is_empty());
    }
}

#[test]
fn keepalives_never_split_a_bundle() {
    // A bundle too long for a frame fails at once.
    for framing in FRAMINGS {
        let mut lone = active(framing);
        let (link, id, total) = (LinkId(0), SendId(1), 3000);
        lone.give(Input::Send {
            link,
            id,
            total,
            part: Payload::from(vec![1; 1000]),
            reliable: true,
            leaving: Leaving::AS_IT_IS,
        });
        let said = lone.said();
        assert!(
            matches!(said[..], [Output::Want { id: SendId(1), from: 1000, len: 2000, .. }]),
            "it asks for the rest: {said:?}"
        );
        let begun = lone.wrote();
        lone.confirm(begun.len() as u64);
        lone.wait(SECOND * 100);
        assert!(lone.wrote().is_empty(), "the bytes are late, and nothing stands in for them");
        lone.give(Input::SendMore { link, id, from: 500, part: Payload::from(vec![1; 2000]) });
        assert!(lone.wrote().is_empty(), "not what was asked for");
        lone.give(Input::SendMore { link, id, from: 1000, part: Payload::from(vec![1; 2500]) });
        let rest = lone.wrote();
        assert_eq!([begun, rest].concat(), frame(framing, &[1; 3000]), "never more than announced");
        lone.said();
        for total in [0, 1 << 32, u64::MAX].into_iter().filter(|total| framing == Framing::Stcp || *total != 1 << 32) {
            let part = Payload::from(vec![1; total.min(10) as usize]);
            lone.give(Input::Send { link, id: SendId(2), total, part, reliable: true, leaving: Leaving::AS_IT_IS });
            let said = lone.said();
            assert!(matches!(said[..], [Output::SendFailed { refused: Some(Refusal::TooLarge), .. }]), "{said:?}");
        }
        lone.confirm(u64::MAX);
        assert_eq!(sent(&lone.said()), [1]);
    }
}

#[test]
fn read_failure_ends_stream_once_begun() {
    // Only the end of the stream shows the peer that the bundle is incomplete.
    for framing in FRAMINGS {
        let mut lone = active(framing);
        lone.room(50);
        let (link, part) = (LinkId(0), || Payload::from(vec![1; 60]));
        for id in [1, 2].map(SendId) {
            lone.give(Input::Send { link, id, total: 100, part: part(), reliable: true, leaving: Leaving::AS_IT_IS });
        }
        lone.wrote();
        lone.said();
        lone.give(Input::SendBroken { link, id: SendId(2) });
        let said = lone.said();
        assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![2], None), "it was not begun");
        lone.give(send(3, vec![3; 10]));
        lone.give(Input::CancelSend { link, id: SendId(1) });
        lone.give(Input::CancelSend { link, id: SendId(3) });
        assert_eq!(failed(&lone.said()), [3], "a bundle that has begun continues");
        lone.give(Input::SendBroken { link, id: SendId(1) });
        let said = lone.said();
        assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![1], Some(false)));
    }
}

#[test]
fn unexpected_input_ends_stream_except_keepalive() {
    // Peers do not send bundles on this stream.
    for framing in FRAMINGS {
        let mut lone = active(framing);
        let keepalive = frame(framing, &[]);
        keepalive.iter().for_each(|byte| lone.receive(&[*byte]));
        lone.receive(&keepalive.repeat(1000));
        assert!(lone.said().is_empty() && lone.reasons().is_empty());
        lone.give(send(1, vec![1; 10]));
        lone.receive(&[&keepalive[..], &frame(framing, &[9; 10])[..5]].concat());
        let said = lone.said();
        assert_eq!((closed(&said, lone.stream), failed(&said)), (Some(true), vec![1]));
        assert_eq!(lone.reasons(), ["a bundle on a stream for sending only"]);
        assert!(!said.iter().any(|o| matches!(o, Output::Offer { .. })));
    }
}

#[test]
fn stalled_peer_is_dropped_outages_excluded() {
    // While the link is down, answers of the peer cannot arrive.
    for framing in FRAMINGS {
        // Either the peer's window is closed from the start, or its host acknowledges nothing.
        for room in [0, 1 << 20] {
            let mut lone = active(framing);
            lone.wait(SECOND * 5);
            lone.wrote();
            lone.room(room);
            lone.give(send(1, vec![1; 100]));
            lone.wait(SECOND * 119);
            assert!(failed(&lone.said()).is_empty());
            lone.give(Input::Link { link: LinkId(0), state: LinkState { receive: false, ..LinkState::UP } });
            lone.wait(SECOND * 1000);
            assert!(failed(&lone.said()).is_empty(), "its answers could not come");
            lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
            lone.wait(SECOND * 119);
            assert!(failed(&lone.said()).is_empty());
            lone.wait(SECOND);
            let said = lone.said();
            assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![1], Some(true)));
        }
        // Unconfirmed keepalives show that the peer is gone.
        let mut lone = active(framing);
        lone.wait(SECOND * 134);
        assert_eq!(closed(&lone.said(), lone.stream), None);
        lone.wait(SECOND);
        assert_eq!(closed(&lone.said(), lone.stream), Some(true), "2 min after the first");
        // A peer that accepts a few bytes now and then is kept.
        let mut lone = active(framing);
        lone.give(send(1, vec![1; 100]));
        for bytes in 1..100 {
            lone.wait(SECOND * 100);
            lone.confirm(bytes);
        }
        assert_eq!(closed(&lone.said(), lone.stream), None);
    }
}

#[test]
fn reconnect_backoff_resets_at_contact_start() {
    // Failed attempts before the contact do not delay the first attempt in it.
    let mut lone = Lone::new(Framing::Stcp, ours(), vec![span()]);
    assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    let mut waits = Vec::new();
    for _ in 0..10 {
        let Some(Output::Socket(socket::Output::Connect { stream, .. })) = lone.said().pop() else {
            panic!("it connects")
        };
        lone.stream = stream;
        lone.close(true);
        let before = lone.now;
        let Some(at) = farlink_base::layer::ConvergenceLayer::next_timeout(&lone.layer) else {
            panic!("it tries again")
        };
        waits.push((at - before).as_millis());
        lone.wait(at - before);
    }
    assert_eq!((&waits[..4], waits[9]), (&[100, 200, 400, 800][..], 30_000));
    lone.said();
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    lone.wait(SECOND * 10);
    assert_eq!(closed(&lone.said(), farlink_base::StreamId(lone.stream.0 + 1)), Some(true), "the attempt is given up");
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    lone.connects(100);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    lone.wait(SECOND * 1000);
    assert!(!lone.said().iter().any(|o| matches!(o, Output::Socket(_))), "a stream with nothing under way stays open");
    assert!(lone.wrote().is_empty(), "and silent");
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    assert_eq!(lone.wrote(), [0; 4], "it probes the peer at once");
}

#[test]
fn interrupted_bundle_restarts_after_grace() {
    // The stream survives an outage shorter than `PARK`, and ends after one of `PARK`.
    let mut lone = active(Framing::Mtcp);
    lone.give(send(1, vec![1; 100]));
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    assert!(matches!(lone.said()[..], [Output::Ready { ready: false, .. }]));
    lone.give(send(2, vec![2; 100]));
    assert_eq!(lone.wrote().len(), 102, "nothing leaves while it is down");
    lone.wait(SECOND * 4);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    assert_eq!(lone.wrote().len(), 102);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    lone.said();
    lone.wait(SECOND * 5);
    let said = lone.said();
    assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![1, 2], Some(true)));
    assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
}

#[test]
fn shutdown_finishes_begun_bundles() {
    // A shutdown waits until bundles in progress are confirmed.
    for framing in FRAMINGS {
        let mut lone = active(framing);
        lone.room(50);
        lone.give(send(1, vec![1; 100]));
        lone.give(send(2, vec![2; 100]));
        lone.give(Input::Shutdown);
        let said = lone.said();
        assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![2], None), "not begun");
        lone.give(send(3, vec![3; 10]));
        assert_eq!(failed(&lone.said()), [3]);
        lone.room(1000);
        assert_eq!(lone.wrote(), frame(framing, &[1; 100]));
        lone.confirm(100);
        assert!(lone.said().is_empty());
        lone.confirm(1000);
        let said = lone.said();
        assert_eq!((sent(&said), closed(&said, lone.stream)), (vec![1], Some(false)));
        lone.wait(SECOND * 1000);
        assert!(lone.said().is_empty(), "nothing is opened again");
        assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
        // A peer that confirms nothing does not delay the shutdown forever.
        let mut lone = active(framing);
        lone.give(send(1, vec![1; 100]));
        lone.give(Input::Shutdown);
        lone.wait(SECOND * 10);
        let said = lone.said();
        assert_eq!((failed(&said), closed(&said, lone.stream)), (vec![1], Some(true)));
        // A stream without bundles in progress closes at once.
        let mut lone = active(framing);
        lone.give(Input::Shutdown);
        assert_eq!(closed(&lone.said(), lone.stream), Some(false));
    }
}

#[test]
fn removed_link_returns_all_bundles() {
    // At each stage of the link, bundles wait in another queue; all must return to the agent.
    for (framing, removed) in FRAMINGS.into_iter().flat_map(|framing| [(framing, true), (framing, false)]) {
        for stage in 0..5 {
            let link = LinkId(0);
            let mut lone = Lone::new(framing, ours(), vec![span()]);
            lone.give(Input::Link { link, state: LinkState::UP });
            if stage > 0 {
                lone.connects(50);
            }
            let sends = if stage > 1 { vec![1, 2] } else { vec![] };
            sends.iter().for_each(|id| lone.give(send(*id, vec![1; 100])));
            match stage {
                3 => lone.close(true),
                4 => lone.give(Input::Link { link, state: LinkState::DOWN }),
                _ => {}
            }
            let before = failed(&lone.said());
            lone.give(if removed { Input::RemoveLink { link } } else { Input::CloseLink { link } });
            let said = lone.said();
            assert_eq!([before, failed(&said)].concat(), sends, "stage {stage}");
            let close = [Some(true), Some(false), Some(false), None, Some(false)][stage];
            assert_eq!(closed(&said, lone.stream), close.filter(|_| stage > 0), "stage {stage}");
            assert_eq!(downs(&said).len(), usize::from(close == Some(false)), "stage {stage}");
            let links = usize::from(!removed);
            assert_eq!(lone.layer.usage(), Usage { links, ..Usage::default() }, "stage {stage}");
            lone.wait(SECOND * 1000);
            assert!(lone.said().is_empty(), "it does not connect again");
            if removed {
                assert!(lone.layer.add_span(lone.now, span(), &mut Vec::new()));
            }
            lone.give(Input::Link { link, state: LinkState::UP });
            lone.connects(1 << 20);
            assert!(!lone.layer.add_span(lone.now, span(), &mut Vec::new()), "it is there");
            lone.give(send(7, vec![1; 100]));
            lone.confirm(1000);
            assert_eq!(sent(&lone.said()), [7], "it works again");
        }
    }
}

#[test]
fn unconnected_link_only_receives() {
    // Bundles leave only by a stream that this side has opened.
    let mut lone = Lone::waiting(Framing::Stcp, ours());
    lone.open(0, oneway_script::PLACE);
    let said = lone.said();
    assert!(ups(&said).is_empty(), "no router sends anything that way");
    assert!(!said.iter().any(|o| matches!(o, Output::Ready { .. } | Output::Socket(socket::Output::Confirm { .. }))));
    lone.give(send(1, vec![1; 10]));
    assert_eq!(failed(&lone.said()), [1]);
    lone.wait(SECOND * 1000);
    assert!(lone.wrote().is_empty(), "the accepting side sends nothing, not even keepalives");
}

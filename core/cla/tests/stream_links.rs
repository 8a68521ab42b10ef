//! Tests of TCPCLv4 links that are added and removed while sessions are open, and of bundles that are withdrawn.

use crate::tcpcl_v4_script::{Lone, PASSIVE, init_of, message, ours, send, span};
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Duration, Leaving, LinkId, Payload, Refusal, StreamId};
use farlink_cla::tcpcl_v4::{LinkParams, Usage};

const REMOVE: Input = Input::RemoveLink { link: LinkId(0) };

fn add(lone: &mut Lone, span: LinkParams) -> bool {
    let mut out = Vec::new();
    let added = lone.layer.add_span(lone.now, span, &mut out);
    lone.take(out);
    added
}
fn failed(said: &[Output]) -> Vec<u64> {
    let id = |o: &Output| match o {
        Output::SendFailed { id, refused: None, .. } => Some(id.0),
        _ => None,
    };
    said.iter().filter_map(id).collect()
}
fn count(said: &[Output], wanted: impl Fn(&Output) -> bool) -> usize {
    said.iter().filter(|o| wanted(o)).count()
}

#[test]
fn removed_link_returns_bundles_and_terminates() {
    // Written bytes leave before the session is terminated.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 60 }));
    lone.give(send(1, vec![1; 90]));
    lone.give(send(2, vec![2; 90]));
    lone.receive(&message("xfer_first_with_length"));
    lone.said();
    let begun = lone.wrote();
    lone.give(REMOVE);
    let said = lone.said();
    assert_eq!(failed(&said), [1, 2]);
    assert_eq!(count(&said, |o| matches!(o, Output::OfferAborted { .. })), 1);
    assert_eq!(count(&said, |o| matches!(o, Output::Ready { ready: false, .. })), 1);
    assert_eq!(count(&said, |o| matches!(o, Output::PeerDown { link: LinkId(0) })), 1);
    assert_eq!(lone.layer.usage(), Usage { links: 0, sessions: 1, timers: 1 }, "written bytes still leave");
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
    let rest = lone.wrote();
    assert!(rest.ends_with(&[5, 0, 0]), "SESS_TERM, not inside a segment: {begun:?} {rest:?}");
    assert_eq!(lone.closed(), Some(false));
    assert_eq!(lone.layer.usage(), Usage::default());
    lone.give(send(3, vec![3]));
    assert_eq!(failed(&lone.said()), [3], "there is no such link");
    lone.give(REMOVE);
    lone.wait(Duration::from_secs(1000));
    assert!(lone.said().is_empty(), "and it does not connect again");
}

#[test]
fn unconnected_links_are_removed_too() {
    // The stages: connecting, waiting for the peer's header, waiting to reconnect, down and about to be parked.
    for stage in 0..4 {
        let mut lone = Lone::new(ours(), vec![span()]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        let Some(Output::Socket(socket::Output::Connect { stream, .. })) = lone.said().pop() else {
            panic!("it connects")
        };
        lone.stream = stream;
        match stage {
            0 => {}
            1 => lone.open(),
            2 => lone.give(Input::Socket(socket::Input::Closed { stream, error: true })),
            _ => lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN }),
        }
        lone.said();
        lone.give(REMOVE);
        let closes = count(&lone.said(), |o| matches!(o, Output::Socket(socket::Output::Close { .. })));
        assert_eq!(closes, usize::from(stage != 2), "stage {stage}");
        assert_eq!((lone.layer.usage(), lone.layer.next_timeout()), (Usage::default(), None), "stage {stage}");
    }
}

#[test]
fn readded_link_works_beside_others() {
    // Sessions of other links must be unaffected by removal and addition.
    let other = LinkParams { link: LinkId(1), node_id: "ipn:3.0".into(), connect: false, ..span() };
    let mut lone = Lone::new(ours(), vec![other]);
    lone.give(Input::Link { link: LinkId(1), state: LinkState::UP });
    lone.open();
    let mut init = message("sess_init_ipn");
    let at = init.len() - 4 - 3;
    init[at] = b'3';
    lone.receive(&[message("contact_no_tls"), init].concat());
    lone.give(Input::send(LinkId(1), SendId(9), Payload::from(vec![9; 20]), true));
    for taken in [LinkId(1), LinkId(LinkId::DYNAMIC)] {
        assert!(!add(&mut lone, LinkParams { link: taken, ..span() }));
    }
    for round in 0..3u64 {
        assert!(add(&mut lone, LinkParams { segment_bytes: 50 + round, ..span() }));
        lone.said();
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        let Some(Output::Socket(socket::Output::Connect { stream, link: LinkId(0) })) = lone.said().pop() else {
            panic!("it connects")
        };
        lone.stream = stream;
        lone.open();
        lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
        lone.wrote();
        lone.give(send(round, vec![1; 100]));
        assert_eq!(lone.wrote()[27 + 7], 50 + round as u8, "by the new parameters");
        lone.give(REMOVE);
        assert_eq!(failed(&lone.said()), [round]);
    }
    lone.stream = PASSIVE;
    lone.receive(&[&[2, 3][..], &0u64.to_be_bytes(), &20u64.to_be_bytes()].concat());
    assert_eq!(count(&lone.said(), |o| matches!(o, Output::Sent { id: SendId(9), .. })), 1);
}

#[test]
fn early_peer_is_asked_to_reconnect() {
    // The peer connected on a dynamic link before its link was added.
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&message("xfer_single"));
    let ticket = lone.tickets()[0];
    assert!(add(&mut lone, LinkParams { connect: false, ..span() }));
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    assert_eq!(lone.wrote(), [5, 0, 0]);
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote()[0], 2, "transfers in progress are finished");
    lone.receive(&[5, 1, 0]);
    assert_eq!(lone.closed(), Some(false));
    lone.stream = StreamId(PASSIVE.0 + 1);
    lone.open();
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    assert_eq!(count(&lone.said(), |o| matches!(o, Output::PeerUp { link: LinkId(0), .. })), 1);
}

#[test]
fn dynamic_links_can_be_removed() {
    let mut lone = Lone::passive(ours());
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    let said = lone.said();
    let up = said.iter().find_map(|o| if let Output::PeerUp { link, .. } = o { Some(*link) } else { None });
    let link = up.expect("a dynamic link");
    lone.give(Input::RemoveLink { link });
    let said = lone.said();
    assert_eq!(count(&said, |o| matches!(o, Output::PeerDown { link: l } if *l == link)), 1);
    assert_eq!(count(&said, |o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))), 1);
    assert_eq!((lone.layer.usage(), lone.layer.next_timeout()), (Usage::default(), None));
}

#[test]
fn refused_stranger_leaves_no_link() {
    let mut lone = Lone::new(ours(), Vec::new());
    for number in 0..3 {
        lone.stream = StreamId(PASSIVE.0 + number);
        lone.open();
        let mut init = init_of(&format!("ipn:{}.0", 100 + number));
        // With a segment limit of zero the peer could receive nothing, so it is rejected.
        init[3..11].fill(0);
        lone.receive(&[message("contact_no_tls"), init].concat());
        assert_eq!((lone.closed(), lone.layer.usage()), (Some(false), Usage::default()));
    }
}

#[test]
fn thousand_flaps_leave_nothing() {
    let mut lone = Lone::new(ours(), Vec::new());
    for flap in 0..1000u64 {
        assert!(add(&mut lone, span()));
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        let Some(Output::Socket(socket::Output::Connect { stream, .. })) = lone.said().pop() else {
            panic!("it connects")
        };
        lone.stream = stream;
        // Each of five flaps gets further in the session than the one before.
        if flap % 5 > 0 {
            lone.open();
        }
        if flap % 5 > 1 {
            lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
        }
        if flap % 5 > 2 {
            lone.give(send(flap, vec![1; 200]));
            lone.receive(&message("xfer_single"));
        }
        if flap % 5 > 3 {
            lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
        }
        lone.give(REMOVE);
        lone.wrote();
        let said = lone.said();
        let (up, down) =
            (count(&said, |o| matches!(o, Output::PeerUp { .. })), |o: &Output| matches!(o, Output::PeerDown { .. }));
        assert_eq!(up, count(&said, down));
        assert_eq!(count(&said, |o| matches!(o, Output::Socket(socket::Output::Close { .. }))), 1);
        assert_eq!((lone.layer.usage(), lone.layer.next_timeout()), (Usage::default(), None), "flap {flap}");
    }
}

#[test]
fn only_unstarted_bundle_is_withdrawn() {
    // RFC 9174 has no message to abort a transfer in progress.
    let cancel = |id| Input::CancelSend { link: LinkId(0), id: SendId(id) };
    let mut lone = Lone::active(span()).greet(30);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 60 }));
    lone.give(send(1, vec![1; 90]));
    lone.give(send(2, vec![2; 10]));
    lone.give(send(3, vec![3; 10]));
    lone.said();
    lone.give(cancel(2));
    assert_eq!(failed(&lone.said()), [2]);
    lone.give(cancel(2));
    lone.give(cancel(1));
    assert!(lone.said().is_empty(), "answered once; what has begun is answered when it ends");
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
    let wrote = lone.wrote();
    assert!(!wrote.windows(10).any(|part| part == [2; 10]) && wrote.windows(10).any(|part| part == [3; 10]));
    lone.receive(&[&[2, 3][..], &0u64.to_be_bytes(), &90u64.to_be_bytes()].concat());
    assert!(matches!(lone.said()[..], [Output::Sent { id: SendId(1), .. }]));
    lone.receive(&[3, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(matches!(lone.said()[..], [Output::SendFailed { id: SendId(3), refused: Some(Refusal::NoResources), .. }]));
    lone.give(cancel(3));
    lone.give(Input::CancelSend { link: LinkId(7), id: SendId(3) });
    assert!(lone.said().is_empty(), "too late, or no such link");
}

/// Input that gives the first 40 bytes of bundle `id`, which has 90.
fn begin(id: u64) -> Input {
    let part = Payload::from(vec![id as u8; 40]);
    Input::Send { link: LinkId(0), id: SendId(id), total: 90, part, reliable: true, leaving: Leaving::AS_IT_IS }
}
fn more(id: u64) -> Input {
    Input::SendMore { link: LinkId(0), id: SendId(id), from: 40, part: Payload::from(vec![id as u8; 50]) }
}
fn wants(said: &[Output]) -> Vec<u64> {
    let id = |o: &Output| match o {
        Output::Want { id, from: 40, len: 50, .. } => Some(id.0),
        _ => None,
    };
    said.iter().filter_map(id).collect()
}

#[test]
fn only_waiting_streamed_bundle_is_withdrawn() {
    // Bundles given in parts are withdrawn in the same way as others.
    let cancel = |id| Input::CancelSend { link: LinkId(0), id: SendId(id) };
    let mut lone = Lone::active(span()).greet(30);
    lone.give(begin(81));
    lone.give(begin(82));
    lone.give(send(83, vec![83; 10]));
    assert_eq!(wants(&lone.said()), [81], "only what leaves is asked for");
    lone.give(cancel(82));
    assert_eq!(failed(&lone.said()), [82]);
    lone.give(more(82));
    lone.give(cancel(81));
    assert!(lone.said().is_empty() && !lone.wrote().contains(&83), "no bundle overtakes a transfer in progress");
    lone.give(more(81));
    let wrote = lone.wrote();
    assert_eq!(wrote.iter().filter(|byte| **byte == 81).count(), 50, "its rest");
    assert!(wrote.windows(10).any(|part| part == [83; 10]) && !wrote.windows(10).any(|part| part == [82; 10]));
    lone.receive(&[&[2, 1][..], &0u64.to_be_bytes(), &90u64.to_be_bytes()].concat());
    assert!(matches!(lone.said()[..], [Output::Sent { id: SendId(81), .. }]));
}

#[test]
fn removed_link_forgets_partial_transfer() {
    // The offer of the incoming bundle is aborted, because the rest will never arrive.
    for late in 0..3 {
        let mut lone = Lone::active(span()).greet(30);
        lone.give(begin(1));
        lone.give(begin(2));
        lone.said();
        lone.give(REMOVE);
        assert_eq!(failed(&lone.said()), [1, 2]);
        lone.give(match late {
            0 => more(1),
            1 => Input::SendBroken { link: LinkId(0), id: SendId(1) },
            _ => Input::CancelSend { link: LinkId(0), id: SendId(1) },
        });
        assert!(lone.said().is_empty());
        assert_eq!((lone.layer.usage(), lone.layer.next_timeout()), (Usage::default(), None));
    }
}

#[test]
fn read_failure_ends_only_begun_transfer() {
    // Once bytes have left, only the end of the session shows the peer that they are incomplete.
    let broken = |id| Input::SendBroken { link: LinkId(0), id: SendId(id) };
    let mut lone = Lone::active(span()).greet(30);
    lone.give(begin(1));
    lone.give(begin(2));
    lone.give(broken(2));
    assert_eq!((failed(&lone.said()), lone.closed()), (vec![2], None));
    lone.give(broken(1));
    let said = lone.said();
    assert_eq!(failed(&said), [1]);
    assert_eq!(count(&said, |o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))), 1);
    assert_eq!(count(&said, |o| matches!(o, Output::PeerDown { .. })), 1);
}

#[test]
fn paused_peer_still_reads_termination() {
    // The peer's input is paused, which must not delay the end of the session.
    let mut lone = Lone::active(span()).greet(30);
    lone.receive(&message("xfer_first_with_length"));
    let ticket = match lone.said()[..] {
        [Output::Offer { ticket, last: false, .. }] => ticket,
        ref other => panic!("{other:?}"),
    };
    lone.give(Input::Hold { ticket });
    assert!(matches!(lone.said()[..], [Output::Socket(socket::Output::Pause { .. })]));
    // Without room in the socket, the session stays until SESS_TERM is written.
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 0 }));
    lone.give(REMOVE);
    let said = lone.said();
    assert_eq!(count(&said, |o| matches!(o, Output::OfferAborted { ticket: t } if *t == ticket)), 1);
    assert_eq!(count(&said, |o| matches!(o, Output::Socket(socket::Output::Resume { .. }))), 1);
    for late in [Input::Resume { ticket }, Input::Hold { ticket }, Input::Accepted { ticket }] {
        lone.give(late);
    }
    assert!(lone.said().is_empty());
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
    assert_eq!((lone.closed(), lone.layer.usage()), (Some(false), Usage::default()));
}

#[test]
fn disabled_link_ends_and_blocks_sessions() {
    // Incoming sessions are rejected until the link is up again.
    let (link, close) = (LinkId(0), Input::CloseLink { link: LinkId(0) });
    for told_first in [true, false] {
        let mut lone = Lone::active(span()).greet(30);
        lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
        lone.give(send(1, vec![1; 90]));
        lone.receive(&message("xfer_first_with_length"));
        lone.said();
        lone.wrote();
        // The agent disables the link and reports it down; SESS_TERM must leave all the same.
        if told_first {
            lone.give(Input::Link { link, state: LinkState::DOWN });
        }
        lone.give(close.clone());
        let said = lone.said();
        assert_eq!(failed(&said), [1]);
        assert_eq!(count(&said, |o| matches!(o, Output::OfferAborted { .. })), 1);
        assert_eq!(count(&said, |o| matches!(o, Output::PeerDown { link: LinkId(0) })), 1);
        assert_eq!(count(&said, |o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))), 1);
        assert!(lone.wrote().ends_with(&[5, 0, 0]), "SESS_TERM");
        lone.wait(Duration::from_secs(600));
        assert_eq!(count(&lone.said(), |o| matches!(o, Output::Socket(socket::Output::Connect { .. }))), 0);
        // A disabled link must not come back by a connection of the peer.
        lone.stream = PASSIVE;
        lone.open();
        lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
        let said = lone.said();
        assert_eq!(count(&said, |o| matches!(o, Output::PeerUp { .. })), 0, "{said:?}");
        assert!(lone.wrote().ends_with(&[5, 0, 0]), "SESS_TERM: nothing about what it said");
        // A link that comes up is no longer disabled.
        lone.give(Input::Link { link, state: LinkState::UP });
        let said = lone.said();
        let Some(Output::Socket(socket::Output::Connect { stream, .. })) = said.last() else { panic!("{said:?}") };
        lone.stream = *stream;
        lone.open();
        lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
        assert_eq!(count(&lone.said(), |o| matches!(o, Output::PeerUp { link: LinkId(0), .. })), 1);
    }
}

#[test]
fn disabled_dynamic_link_keeps_its_session() {
    // Without its session the dynamic link would be removed, and made again as enabled.
    let mut lone = Lone::passive(ours());
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    let said = lone.said();
    let up = said.iter().find_map(|o| if let Output::PeerUp { link, .. } = o { Some(*link) } else { None });
    lone.give(Input::CloseLink { link: up.expect("a dynamic link") });
    assert!(lone.said().is_empty(), "otherwise the link would be removed, and made anew as enabled");
}

#[test]
fn connection_is_matched_to_enabled_link() {
    // Of two links to the node, one is disabled.
    let passive = |link| LinkParams { link: LinkId(link), connect: false, ..span() };
    let mut lone = Lone::new(ours(), vec![passive(0), passive(1)]);
    for link in [0, 1] {
        lone.give(Input::Link { link: LinkId(link), state: LinkState::UP });
    }
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    lone.give(Input::CloseLink { link: LinkId(0) });
    lone.stream = PASSIVE;
    lone.open();
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    assert_eq!(count(&lone.said(), |o| matches!(o, Output::PeerUp { link: LinkId(1), .. })), 1);
}

//! Tests of admission over TCPCLv4: neighbours are identified by address, other peers leave room for them, and the cost
//! of peers that send but do not read, or make no progress, is bounded.

use crate::tcpcl_v4_script::{Lone, PASSIVE, init_of, message, ours, send, span};
use farlink_base::layer::{Input, LinkState, Output};
use farlink_base::socket;
use farlink_base::{Duration, LinkId, Payload, StreamId};
use farlink_cla::tcpcl_v4::{Config, LinkParams};

fn hello() -> Vec<u8> {
    [message("contact_no_tls"), message("sess_init_ipn")].concat()
}
/// A peer at this address connects as stream `number` and sends these bytes.
fn connects(lone: &mut Lone, number: u64, address: &str, says: &[u8]) {
    lone.stream = StreamId(PASSIVE.0 + number);
    let from = format!("{address}:4556").parse().unwrap();
    lone.give(Input::Socket(socket::Input::Opened { stream: lone.stream, from }));
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone.receive(says);
}
fn located(lone: &mut Lone, addresses: &[&str]) {
    let addresses = addresses.iter().map(|address| format!("{address}:4556").parse().unwrap()).collect();
    lone.give(Input::Socket(socket::Input::Located { link: LinkId(0), addresses }));
}
fn waiting(span: LinkParams) -> Lone {
    let mut lone = Lone::new(ours(), vec![LinkParams { connect: false, ..span }]);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    lone
}
fn ups(said: &[Output]) -> usize {
    said.iter().filter(|o| matches!(o, Output::PeerUp { link: LinkId(0), .. })).count()
}
fn closed(said: &[Output], stream: StreamId) -> bool {
    said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { stream: s, .. }) if *s == stream))
}

#[test]
fn neighbour_is_identified_by_address_only() {
    let mut lone = waiting(span());
    located(&mut lone, &["10.0.0.1", "10.0.0.2"]);
    connects(&mut lone, 0, "10.9.9.9", &hello());
    assert!(lone.wrote().ends_with(&[5, 0, 4]), "contact failure");
    let said = lone.said();
    assert!(ups(&said) == 0 && closed(&said, PASSIVE), "no bundle of the neighbour's leaves to it");
    connects(&mut lone, 1, "10.0.0.2", &hello());
    assert_eq!(ups(&lone.said()), 1);
    let mut nowhere = waiting(span());
    located(&mut nowhere, &[]);
    connects(&mut nowhere, 0, "10.0.0.2", &hello());
    assert_eq!(ups(&nowhere.said()), 0, "its name is not resolved yet");
    let mut roaming = waiting(LinkParams { roams: true, ..span() });
    located(&mut roaming, &["10.0.0.1"]);
    connects(&mut roaming, 0, "10.9.9.9", &hello());
    assert_eq!(ups(&roaming.said()), 1, "the operator said so");
}

#[test]
fn remote_claim_never_displaces_live_session() {
    // Without proof of identity, a claim counts only if no live session serves the link.
    // The link has no address, so the first claimant is the neighbour while its session lives.
    for place in [None, Some("10.0.0.1")] {
        let mut lone = waiting(LinkParams { roams: place.is_some(), ..span() });
        place.iter().for_each(|place| located(&mut lone, &[place]));
        connects(&mut lone, 0, "10.0.0.1", &hello());
        assert_eq!(ups(&lone.said()), 1);
        connects(&mut lone, 1, "10.9.9.9", &hello());
        assert!(closed(&lone.said(), lone.stream), "the forger is rejected");
        lone.wrote();
        lone.give(send(1, vec![1; 10]));
        let to = |o: &Output| matches!(o, Output::SendFailed { .. });
        assert!(!lone.said().iter().any(to) && !lone.wrote().is_empty(), "bundles leave by the session that was there");
        // The neighbour connects again from its address, so it has lost the older session.
        connects(&mut lone, 2, "10.0.0.1", &hello());
        assert!(!closed(&lone.said(), lone.stream));
        for stream in [0, 2] {
            let stream = StreamId(PASSIVE.0 + stream);
            lone.give(Input::Socket(socket::Input::Closed { stream, error: true }));
        }
        connects(&mut lone, 3, "10.9.9.9", &hello());
        assert_eq!(ups(&lone.said()), 1, "it moved: no live session is left");
    }
    // A claim from another address does not take over a dynamic link, either.
    let mut unknown = Lone::new(ours(), Vec::new());
    connects(&mut unknown, 0, "10.0.0.1", &hello());
    unknown.said();
    connects(&mut unknown, 1, "10.0.0.2", &hello());
    assert!(closed(&unknown.said(), unknown.stream));
}

#[test]
fn silent_sessions_are_evicted_first() {
    // Other peers cannot use up the sessions that are reserved for neighbours.
    let mut lone = Lone::new(Config { sessions: 20, ..ours() }, vec![LinkParams { connect: false, ..span() }]);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    located(&mut lone, &["10.0.0.1"]);
    for number in 0..1000 {
        connects(&mut lone, number, "10.9.9.9", b"");
    }
    assert_eq!(lone.layer.usage().sessions, 20);
    lone.said();
    connects(&mut lone, 2000, "10.0.0.1", &hello());
    assert_eq!(ups(&lone.said()), 1, "the neighbour comes in");
    // Unknown peers introduce themselves, each as another node.
    for number in 3000..3100u64 {
        let mut init = message("sess_init_ipn");
        let at = init.len() - 4 - 7;
        assert_eq!(&init[at..at + 7], b"ipn:1.0");
        init[at..at + 7].copy_from_slice(format!("{number:.7}.ab").as_bytes());
        connects(&mut lone, number, "10.9.9.9", &[message("contact_no_tls"), init].concat());
    }
    lone.give(Input::Socket(socket::Input::Closed { stream: StreamId(PASSIVE.0 + 2000), error: true }));
    lone.said();
    assert!(lone.layer.usage().sessions <= 20);
    connects(&mut lone, 4000, "10.0.0.1", &hello());
    assert_eq!(ups(&lone.said()), 1, "and is admitted again");
}

#[test]
fn full_listener_answers_busy() {
    // RFC 9174 6.1: a peer that is refused for lack of room may connect again, unlike after a contact failure.
    let mut lone = Lone::new(Config { sessions: 2, ..ours() }, vec![LinkParams { connect: false, ..span() }]);
    for (number, id) in [(0, "ipn:71.0"), (1, "ipn:72.0")] {
        connects(&mut lone, number, "10.9.9.9", &[message("contact_no_tls"), init_of(id)].concat());
    }
    assert!(closed(&lone.said(), lone.stream));
    assert!(lone.wrote().ends_with(&[5, 0, 3]));
}

#[test]
fn acknowledgments_nobody_reads_are_bounded() {
    let empty = [&[1u8, 0][..], &0u64.to_be_bytes(), &0u64.to_be_bytes()].concat();
    let begin = [&[1u8, 2][..], &0u64.to_be_bytes(), &0u32.to_be_bytes(), &0u64.to_be_bytes()].concat();
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&begin);
    let mut fed = 0;
    // The driver reads on until it is paused.
    while !lone.said().iter().any(|o| matches!(o, Output::Socket(socket::Output::Pause { .. }))) {
        lone.receive(&empty.repeat(100));
        fed += 100;
        assert!(fed < 200_000, "{fed} empty segments and still welcome");
    }
    // A peer that sends nevertheless costs at most a megabyte, even with bundles in transfer to it.
    let mut busy = Lone::active(span()).greet(30);
    busy.give(send(1, vec![1; 100]));
    busy.receive(&begin);
    let closes = |o: &Output| matches!(o, Output::Socket(socket::Output::Close { abort: true, .. }));
    let dropped = (0..3000).any(|_| {
        busy.receive(&empty.repeat(100));
        busy.said().iter().any(closes)
    });
    assert!(dropped, "a peer that never reads is dropped");
}

#[test]
fn stalled_transfer_ends_despite_keepalives() {
    // Keepalives are no progress.
    let mut lone = Lone::passive(Config { progress: Duration::from_secs(100), ..ours() }).greet(30);
    lone.receive(&message("xfer_first_with_length"));
    for _ in 0..9 {
        lone.wait(Duration::from_secs(10));
        lone.receive(&[4]);
        assert_eq!(lone.closed(), None);
    }
    lone.wait(Duration::from_secs(10));
    lone.receive(&[4]);
    lone.wait(Duration::from_secs(5));
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { .. }))), "{said:?}");
    assert!(said.iter().any(|o| matches!(o, Output::OfferAborted { .. })));
    // A transfer with progress keeps its session; an idle session stays, too.
    let mut slow = Lone::passive(Config { progress: Duration::from_secs(100), ..ours() }).greet(30);
    let head = [&[1u8, 2][..], &0u64.to_be_bytes(), &0u32.to_be_bytes(), &50u64.to_be_bytes()].concat();
    slow.receive(&head);
    for _ in 0..49 {
        slow.wait(Duration::from_secs(40));
        slow.give(Input::Socket(socket::Input::Data { stream: slow.stream, data: Payload::from(vec![7]) }));
        assert_eq!(slow.closed(), None);
    }
}

/// A layer with a link made for an announcement, which leads to 10.0.0.1.
fn announced() -> Lone {
    let mut lone = waiting(LinkParams { hearsay: true, ..span() });
    located(&mut lone, &["10.0.0.1"]);
    lone
}

#[test]
fn announced_name_blocks_no_other_address() {
    // An announced node ID must not bind peers at other addresses.
    let mut lone = announced();
    connects(&mut lone, 0, "10.0.0.2", &hello());
    let said = lone.said();
    assert!(ups(&said) == 0 && !closed(&said, lone.stream), "it is a neighbour of its own");
    let dynamic = |o: &Output| matches!(o, Output::PeerUp { link, .. } if link.is_dynamic());
    assert!(said.iter().any(dynamic));
    connects(&mut lone, 1, "10.0.0.1", &hello());
    assert_eq!(ups(&lone.said()), 1, "the peer at the announced address is the neighbour");
    assert!(lone.layer.serves("ipn:1.0", "10.0.0.2".parse().unwrap()));
    assert!(lone.layer.serves("ipn:1.0", "10.0.0.1".parse().unwrap()));
    assert!(!lone.layer.serves("ipn:1.0", "10.0.0.3".parse().unwrap()));
    assert!(!lone.layer.serves("ipn:2.0", "10.0.0.1".parse().unwrap()));
}

#[test]
fn announcement_spares_existing_sessions() {
    // Sessions of a peer continue when a link is made for its announcement. When a link is configured, the peer must
    // connect again, to be served by it.
    for hearsay in [true, false] {
        let mut lone = Lone::new(ours(), Vec::new());
        connects(&mut lone, 0, "10.0.0.2", &hello());
        lone.said();
        lone.wrote();
        let mut said = Vec::new();
        let span = LinkParams { hearsay, connect: false, ..span() };
        assert!(lone.layer.add_span(lone.now, span, &mut said));
        let ended = said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Write { .. })));
        assert_eq!(ended, !hearsay, "the session is asked to come again for the operator's sake alone");
    }
}

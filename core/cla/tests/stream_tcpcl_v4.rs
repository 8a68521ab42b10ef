//! Tests of TCPCLv4 byte by byte: vectors, and sessions with peers that break the rules (RFC 9174).

use crate::tcpcl_v4_script::{Lone, PASSIVE, hex, init_of, message, ours, send, span, vectors};
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Duration, LinkId, Payload, Refusal, StreamId};
use farlink_cla::tcpcl_v4::{Config, LinkParams};

/// Keeps 9174-2.1-1, 9174-4.1-6, 9174-4.6-5, 9174-5.2.3-3, 9174-5.2.3-4, 9174-5.2.5.1-2.
#[test]
fn vector_session_matches_byte_for_byte() {
    let file = vectors();
    let hear = hex(file["session"]["active_to_passive_hex"].as_str().unwrap());
    let want = hex(file["session"]["passive_to_active_hex"].as_str().unwrap());
    for chunk in [1, 2, 3] {
        let mut lone = Lone::passive(ours());
        for part in hear.chunks(chunk) {
            lone.receive(part);
            for ticket in lone.tickets() {
                lone.give(Input::Accepted { ticket });
            }
        }
        assert_eq!(lone.wrote(), want);
    }
}

/// Keeps 9174-4-1, 9174-4.1-4, 9174-4.3-2, 9174-5.2-2, 9174-5.2-3, 9174-5.2.1-1, 9174-5.2.1-3, 9174-5.2.2-1.
/// Keeps 9174-5.2.2-3, 9174-5.2.2-4, 9174-5.2.2-5, 9174-5.2.2-6, 9174-5.2.2-7, 9174-5.2.3-2, 9174-5.2.5-1.
/// Keeps 9174-5.2.5-2, 9174-5.2.5.1-1, 9174-5.2.5.1-3.
#[test]
fn outgoing_bundles_match_vectors() {
    // Some peers send acknowledgments with flags 0 only; these count as well.
    let mut lone = Lone::active(span());
    assert_eq!(lone.wrote(), message("contact_no_tls"));
    let mut lone = lone.greet(30);
    let mut bundle = message("xfer_single")[22..].to_vec();
    bundle.truncate(28);
    lone.give(send(7, bundle.clone()));
    let mut single = message("xfer_single")[..22].to_vec();
    single[21] = 28;
    assert_eq!(lone.wrote(), [single, bundle].concat(), "one segment, no length extension");
    lone.give(send(8, message("xfer_single")[22..].to_vec()));
    let first = message("xfer_first_with_length");
    let wrote = lone.wrote();
    assert_eq!(wrote[..27], first[..27], "the first of several segments announces the length");
    assert_eq!(wrote[27..35], 28u64.to_be_bytes());
    assert_eq!(wrote[63..65], [1, 1], "the last one ends the transfer");
    lone.said();
    for (id, len) in [(0u64, 28u64), (1, 28), (1, 55)] {
        lone.receive(&[&[2, 0][..], &id.to_be_bytes(), &len.to_be_bytes()].concat());
    }
    let sent: Vec<u64> = lone.said().iter().map(|o| if let Output::Sent { id, .. } = o { id.0 } else { 99 }).collect();
    assert_eq!(sent, [7, 8]);
    lone.give(send(9, vec![5; 20]));
    let short = [&[1, 3][..], &2u64.to_be_bytes(), &[0; 4], &20u64.to_be_bytes(), &[5; 20]].concat();
    assert_eq!(lone.wrote(), short, "shorter than a segment may be: both its beginning and its end");
}

/// Keeps 9174-4.3-1, 9174-4.3-4, 9174-4.8-4, 9174-5.1.2-1, 9174-6.1-11, 9174-6.1-12.
#[test]
fn unknown_peers_and_versions_are_rejected() {
    for case in vectors()["negative"].as_array().unwrap() {
        let (bytes, want) = (hex(case["hex"].as_str().unwrap()), case["want"].as_str().unwrap());
        let mut lone = Lone::passive(ours());
        let mut expected = Vec::new();
        if bytes[0] == b'd' {
            lone.receive(&bytes);
            if want.contains("SESS_TERM reason 2") {
                expected = [message("contact_no_tls"), vec![5, 0, 2]].concat();
            }
        } else {
            lone.receive(&message("contact_no_tls"));
            if bytes == [0xee] {
                lone.receive(&message("sess_init_ipn"));
                expected = message("msg_reject_unknown");
            } else {
                expected = vec![5, 0, 4];
            }
            lone.wrote();
            lone.receive(&bytes);
        }
        assert_eq!(lone.wrote(), expected, "{want}");
        assert_eq!(lone.closed(), Some(false), "{want}");
    }
    let mut lone = Lone::passive(ours());
    lone.receive(&message("contact_tls"));
    lone.wrote();
    lone.receive(&message("sess_init_critical_unknown_ext"));
    assert_eq!(lone.wrote(), [5, 0, 4]);
}

/// Keeps 9174-4.1-7.
#[test]
fn silent_connection_is_dropped() {
    let mut lone = Lone::passive(ours());
    for byte in message("contact_no_tls") {
        lone.wait(Duration::from_secs(3));
        lone.receive(&[byte]);
    }
    assert_eq!(lone.closed(), Some(true));
    let mut lone = Lone::new(Config { sessions: 1, ..ours() }, Vec::new());
    lone.open();
    lone.stream = StreamId(PASSIVE.0 + 1);
    lone.open();
    assert_eq!(lone.closed(), Some(true), "one session is all this node takes");
}

/// Keeps 9174-5.1.1-1, 9174-5.1.1-2.
#[test]
fn silent_peer_is_terminated() {
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 10]));
    lone.wrote();
    lone.wait(Duration::from_secs(31));
    assert_eq!(lone.wrote(), [4], "the smaller interval of both");
    lone.receive(&[4]);
    lone.wait(Duration::from_secs(58));
    assert!(lone.said().iter().all(|o| !matches!(o, Output::Socket(socket::Output::Close { .. }))));
    lone.wait(Duration::from_secs(3));
    assert!(lone.wrote().ends_with(&message("sess_term_idle")), "RFC 9174 5.1.1");
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))));
    assert!(said.iter().any(|o| matches!(o, Output::SendFailed { id: SendId(1), refused: None, .. })));
    assert!(said.iter().any(|o| matches!(o, Output::PeerDown { .. })));
    assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Connect { .. }))), "and connected to again");
    let mut quiet = Lone::active(span()).greet(0);
    quiet.wait(Duration::from_secs(100_000));
    assert!(
        quiet.said().iter().all(|o| !matches!(o, Output::Socket(socket::Output::Close { .. }))),
        "0 disables both timers"
    );
    assert!(quiet.wrote().is_empty());
}

#[test]
fn dead_peer_is_dropped_without_termination() {
    // The socket is full, so SESS_TERM cannot leave.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 0 }));
    let mut ends = Vec::new();
    while ends.len() < 2 {
        lone.now = lone.layer.next_timeout().expect("it does not wait for ever");
        lone.give(Input::Wake);
        for output in lone.said() {
            match output {
                Output::PeerDown { .. } => ends.push(lone.now.as_secs_f64()),
                Output::Socket(socket::Output::Close { stream, abort: true }) if stream == lone.stream => {
                    ends.push(lone.now.as_secs_f64())
                }
                _ => {}
            }
        }
    }
    assert_eq!(ends, [60.0, 70.0], "the link is free at once, the stream after the time to introduce oneself");
}

#[test]
fn acknowledged_peer_is_heard_further() {
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 400_000]));
    assert!(lone.wrote().len() > 400_000);
    // The peer has read everything, but the socket reports that only when more is written.
    lone.receive(&[&[2, 1][..], &0u64.to_be_bytes(), &400_000u64.to_be_bytes()].concat());
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::Sent { id: SendId(1), .. })), "{said:?}");
    assert!(!said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Pause { .. }))), "{said:?}");
}

/// Keeps 9174-6.1-2.
#[test]
fn idle_session_terminates_in_order() {
    let mut lone = Lone::passive(Config { idle: Duration::from_secs(50), ..ours() }).greet(30);
    for _ in 0..4 {
        lone.wait(Duration::from_secs(10));
        lone.receive(&[4]);
    }
    assert!(lone.wrote().iter().all(|byte| *byte == 4));
    lone.wait(Duration::from_secs(11));
    assert!(lone.wrote().ends_with(&message("sess_term_idle")), "keepalives are no use of it");
    lone.receive(&message("sess_term_reply"));
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 9174-6.1-3, 9174-6.1-4, 9174-6.1-5, 9174-6.1-6, 9174-6.1-7.
#[test]
fn ending_session_finishes_but_starts_nothing() {
    // RFC 9174 6.1: transfers in progress are finished in both directions.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 10]));
    lone.receive(&[&message("xfer_first_with_length")[..], &message("sess_term_idle")].concat());
    assert!(lone.wrote().ends_with(&[message("sess_term_reply"), message("ack_first")].concat()));
    lone.give(send(2, vec![1; 10]));
    assert!(lone.said().iter().any(|o| matches!(o, Output::SendFailed { id: SendId(2), .. })));
    lone.receive(&message("xfer_last"));
    let tickets = lone.tickets();
    lone.give(Input::Accepted { ticket: tickets[0] });
    assert_eq!(lone.wrote(), message("ack_last"));
    let mut another = message("xfer_single");
    another[9] = 9;
    lone.receive(&another);
    assert_eq!(lone.wrote(), [3, 6, 0, 0, 0, 0, 0, 0, 0, 9], "session terminating");
    assert_eq!(lone.closed(), None);
    lone.receive(&[&[2, 3][..], &0u64.to_be_bytes(), &10u64.to_be_bytes()].concat());
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 9174-6.1-1, 9174-6.1-2, 9174-6.1-9.
#[test]
fn shutdown_terminates_and_rejects_connections() {
    let mut lone = Lone::active(span()).greet(30);
    lone.give(Input::Shutdown);
    assert_eq!(lone.wrote(), [5, 0, 0]);
    lone.receive(&[5, 1, 0]);
    assert_eq!(lone.closed(), Some(false));
    lone.wait(Duration::from_secs(1000));
    assert!(lone.said().is_empty(), "and does not connect again");
    lone.stream = PASSIVE;
    lone.open();
    assert_eq!(lone.closed(), Some(true));
}

/// Keeps 9174-4.6-6.
#[test]
fn wrong_peer_gets_no_bundles() {
    let mut lone = Lone::active(LinkParams { node_id: "ipn:9.0".into(), ..span() });
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    assert!(lone.wrote().ends_with(&[5, 0, 4]));
    assert!(lone.said().iter().all(|o| !matches!(o, Output::PeerUp { .. } | Output::Ready { .. })));
    let mut closed = Lone::passive(Config { accept_unknown: false, ..ours() });
    closed.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    assert!(closed.wrote().ends_with(&[5, 0, 4]));
}

/// Keeps 9174-4.6-6.
#[test]
fn configured_peer_uses_its_link() {
    // Any other peer gets a dynamic link.
    let mut lone = Lone::new(ours(), vec![LinkParams { connect: false, ..span() }]);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    lone.open();
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    let said = lone.said();
    assert!(
        matches!(&said[0], Output::PeerUp { link: LinkId(0), claimed: Some(id), proven: None, .. } if id == "ipn:1.0")
    );
    assert!(matches!(said[1], Output::Ready { link: LinkId(0), ready: true }));
    let mut unknown = Lone::passive(ours());
    unknown.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    let link = match &unknown.said()[..] {
        [Output::PeerUp { link, .. }, Output::Ready { ready: true, .. }] => *link,
        other => panic!("{other:?}"),
    };
    assert!(link.is_dynamic());
    unknown.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: true }));
    assert!(
        matches!(&unknown.said()[..], [Output::Ready { ready: false, .. }, Output::PeerDown { link: l }] if *l == link)
    );
}

/// Keeps 9174-4.4.1-2.
#[test]
fn equivalent_node_id_texts_match() {
    // One node number can be written in two ways (RFC 9758).
    let span = LinkParams { node_id: "ipn:977000.1.0".into(), ..span() };
    let hello = [message("contact_no_tls"), init_of("ipn:4196183048192001.0")].concat();
    let mut active = Lone::active(span.clone());
    let mut passive = Lone::new(ours(), vec![LinkParams { connect: false, ..span }]);
    passive.open();
    for lone in [&mut active, &mut passive] {
        lone.receive(&hello);
        assert!(lone.said().iter().any(|o| matches!(o, Output::PeerUp { link: LinkId(0), .. })), "{:?}", lone.wrote());
    }
}

/// Keeps 9174-5.2.4-1, 9174-5.2.4-2.
#[test]
fn refusal_codes_map_both_ways() {
    for (reason, code) in [(Refusal::NoResources, 2), (Refusal::Duplicate, 1), (Refusal::NotAcceptable, 4)] {
        for transfer in [0u64, 7, u64::MAX] {
            let mut lone = Lone::passive(ours()).greet(30);
            let mut single = message("xfer_single");
            single[2..10].copy_from_slice(&transfer.to_be_bytes());
            lone.receive(&single);
            let ticket = lone.tickets()[0];
            lone.give(Input::Refused { ticket, reason });
            assert_eq!(lone.wrote(), [&[3, code][..], &transfer.to_be_bytes()].concat());
        }
        let mut sender = Lone::active(span()).greet(30);
        sender.give(send(5, vec![1; 90]));
        sender.said();
        sender.receive(&[3, code, 0, 0, 0, 0, 0, 0, 0, 0]);
        match (sender.said().as_slice(), reason) {
            ([Output::Sent { id: SendId(5), .. }], Refusal::Duplicate) => {}
            ([Output::SendFailed { id: SendId(5), refused, .. }], reason) => assert_eq!(*refused, Some(reason)),
            other => panic!("{other:?}"),
        }
    }
}

/// Keeps 9174-5.1.2-3.
#[test]
fn false_transfer_claims_are_rejected() {
    let ack = |id: u64, len: u64| [&[2, 0][..], &id.to_be_bytes(), &len.to_be_bytes()].concat();
    let mut sender = Lone::active(span()).greet(30);
    sender.give(send(5, vec![1; 20]));
    sender.wrote();
    sender.receive(&ack(4, 20));
    assert_eq!(sender.wrote(), [6, 3, 2], "an unknown transfer");
    sender.receive(&ack(0, 21));
    assert_eq!(sender.wrote(), [6, 3, 2], "more than was sent");
    assert!(sender.said().iter().any(|o| matches!(o, Output::SendFailed { id: SendId(5), .. })));
    for bytes in [
        message("xfer_last"),
        [message("xfer_first_with_length"), message("xfer_single")].concat(),
        message("sess_init_ipn"),
        [&[1, 3][..], &[0; 8], &[0; 4], &[0xff; 8]].concat(),
    ] {
        let mut lone = Lone::passive(ours()).greet(30);
        lone.receive(&bytes);
        assert!(lone.wrote().starts_with(&[6, 3]) || lone.closed().is_some(), "{bytes:02x?}");
    }
}

/// Keeps 9174-4.6-2.
#[test]
fn oversized_bundle_is_not_sent() {
    let mut lone = Lone::active(span()).greet(30);
    lone.said();
    let bundle = Payload::fill(0, (1 << 32) + 1);
    lone.give(Input::send(LinkId(0), SendId(1), bundle, true));
    let said = lone.said();
    assert!(matches!(said[..], [Output::SendFailed { refused: Some(Refusal::TooLarge), .. }]), "{said:?}");
}

#[test]
fn a_fill_payload_passes_untouched() {
    let mut lone = Lone::active(span()).greet(30);
    let bundle = Payload::fill(3, 20);
    let mut out = Vec::new();
    let input = Input::send(LinkId(0), SendId(1), bundle, true);
    lone.layer.handle(lone.now, input, &mut out);
    let write = out
        .iter()
        .find_map(|o| if let Output::Socket(socket::Output::Write { data, .. }) = o { Some(data) } else { None });
    assert_eq!(write.unwrap().chunks().len(), 2, "a head and the payload as it was given");
}

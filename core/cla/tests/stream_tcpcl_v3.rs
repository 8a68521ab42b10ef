//! Tests of TCPCLv3 byte by byte: vectors, negotiation, and the end of a session (RFC 7242).

use crate::tcpcl_v3_script::{
    ALL, END, NONE, SILENT, START, ack, active, contact, old_message, old_ours, passive, segment,
};
use crate::tcpcl_v4_script::{Lone, PASSIVE, file, hex, send, span};
use farlink_base::layer::{Input, Output};
use farlink_base::{Duration, LinkId, Refusal, socket};
use farlink_cla::tcpcl_v4::{Config, LinkParams};

const UNACKED: u8 = NONE;

/// Keeps 7242-4-3, 7242-4.1-2.
#[test]
fn vector_session_matches_byte_for_byte() {
    let file = file("tcpclv3.json");
    let hear = hex(file["session"]["active_to_passive_hex"].as_str().unwrap());
    let mut want = hex(file["session"]["passive_to_active_hex"].as_str().unwrap());
    // This side offers refusals, asks for lengths and offers no reactive fragmentation; it answers SHUTDOWN.
    want[5] = ALL;
    want.push(0x50);
    for chunk in [1, 2, 3, 100] {
        let mut lone = Lone::passive(Config { keepalive: Duration::from_secs(30), ..old_ours() });
        assert_eq!(lone.written, want[..want.len() - 3], "RFC 7242 4: both introduce themselves at once");
        for part in hear.chunks(chunk) {
            lone.receive(part);
            let said = lone.said();
            for output in &said {
                if let Output::Offer { ticket, last: true, reliable, .. } = output {
                    assert!(reliable);
                    lone.give(Input::Accepted { ticket: *ticket });
                }
            }
            lone.said.extend(said);
        }
        assert_eq!(lone.wrote(), want);
        assert_eq!(lone.closed(), Some(false));
    }
}

/// Keeps 7242-3-1, 7242-5.2-1, 7242-5.2-2, 7242-5.2-3, 7242-5.2-4, 7242-5.2-5, 7242-5.5-1, 7242-5.5-2.
#[test]
fn outgoing_v3_bundles_match_vectors() {
    let mut lone = active(ALL);
    let single = old_message("data_single");
    let bundle = single[2..].to_vec();
    lone.give(send(7, bundle[..28].to_vec()));
    assert_eq!(lone.wrote(), [&[0x13, 28][..], &bundle[..28]].concat(), "one segment needs no length");
    lone.give(send(8, bundle.clone()));
    let wrote = lone.wrote();
    assert_eq!(wrote[..2], old_message("length"), "the length of what is longer, for the peer asked for it");
    assert_eq!(wrote[2..], [&[0x12, 28][..], &bundle[..28], &[0x11, 1], &bundle[28..]].concat());
    lone.receive(&[ack(28), ack(28), ack(29)].concat());
    assert_eq!(lone.sent(), [7, 8]);
    let mut lone = active(ALL & !8);
    lone.give(send(8, bundle));
    assert_eq!(lone.wrote()[..2], [0x12, 28], "lengths were not requested");
}

/// Keeps 7242-4.1-2, 7242-4.2-2, 7242-5.3-1.
#[test]
fn negotiation_takes_common_features() {
    for (flags, acked, refused) in
        [(ALL, true, true), (SILENT, true, false), (UNACKED, false, false), (4, false, false)]
    {
        let mut lone = passive(flags);
        lone.receive(&segment(START, b"abc"));
        assert_eq!(lone.wrote(), if acked { ack(3) } else { vec![] }, "flags {flags}");
        let said = lone.said();
        let Some(Output::Offer { ticket, reliable, .. }) = said.last() else { panic!("{said:?}") };
        assert_eq!(*reliable, acked, "flags {flags}");
        lone.give(Input::Refused { ticket: *ticket, reason: Refusal::NotAcceptable });
        assert_eq!(lone.wrote(), if refused { vec![0x30] } else { vec![] }, "flags {flags}");
    }
}

/// Keeps 7242-4.2-2.
#[test]
fn silent_peer_is_terminated() {
    let mut lone = active(ALL);
    lone.wait(Duration::from_secs(31));
    assert_eq!(lone.wrote(), old_message("keepalive"), "the smaller interval of both");
    lone.receive(&[0x40]);
    lone.wait(Duration::from_secs(58));
    assert_eq!(lone.closed(), None);
    lone.wait(Duration::from_secs(3));
    assert!(lone.wrote().ends_with(&[0x52, 0]), "RFC 7242 5.6, and why");
    assert_eq!(lone.closed(), Some(false));
    let mut quiet = Lone::connecting(old_ours(), span());
    quiet.receive(&contact(ALL, 0, "ipn:1.0"));
    quiet.wrote();
    quiet.wait(Duration::from_secs(100_000));
    assert!(quiet.wrote().is_empty() && quiet.closed().is_none(), "0 disables both timers");
}

/// Keeps 7242-4.2-2.
#[test]
fn subsecond_keepalive_becomes_one_second() {
    // An interval of 0 would disable keepalives.
    let often = Config { keepalive: Duration::from_millis(400), ..old_ours() };
    let mut lone = Lone::connecting(often, span());
    assert_eq!(lone.wrote()[6..8], [0, 1], "0 would be none at all");
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    lone.wait(Duration::from_millis(950));
    assert!(lone.wrote().is_empty() && lone.closed().is_none());
    lone.wait(Duration::from_millis(100));
    assert_eq!(lone.wrote(), [0x40]);
    lone.wait(Duration::from_millis(900));
    assert!(lone.closed().is_none(), "the peer may be silent for two intervals");
    lone.wait(Duration::from_millis(100));
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 7242-5.3-1, 7242-5.3-2, 7242-5.4-1.
#[test]
fn final_acknowledgments_wait_and_keep_order() {
    let mut lone = passive(ALL);
    lone.receive(&[segment(START, b"ab"), segment(END, b"c"), segment(START | END, b"defg")].concat());
    assert_eq!(lone.wrote(), ack(2), "intermediate ones do not wait");
    let tickets = lone.tickets();
    lone.give(Input::Accepted { ticket: tickets[1] });
    assert!(lone.wrote().is_empty(), "the first comes first");
    lone.give(Input::Accepted { ticket: tickets[0] });
    assert_eq!(lone.wrote(), [ack(3), ack(4)].concat());
}

#[test]
fn refusal_reasons_map_both_ways() {
    // Version 3 has fewer codes than version 4.
    for (reason, word) in [
        (Refusal::Duplicate, 1),
        (Refusal::NoResources, 2),
        (Refusal::Terminating, 2),
        (Refusal::TooLarge, 0),
        (Refusal::NotAcceptable, 0),
    ] {
        let mut lone = passive(ALL);
        lone.receive(&segment(START | END, b"abc"));
        let ticket = lone.tickets()[0];
        lone.give(Input::Refused { ticket, reason });
        assert_eq!(lone.wrote(), [0x30 | word], "{reason:?}");
    }
    for (word, heard) in
        [(0, Some(Refusal::NotAcceptable)), (2, Some(Refusal::NoResources)), (3, None), (9, Some(Refusal::NoResources))]
    {
        let mut lone = active(ALL);
        lone.give(send(1, vec![1; 10]));
        lone.receive(&[0x30 | word]);
        assert_eq!(lone.failed(), [(1, heard)], "{word}");
    }
    let mut lone = active(ALL);
    lone.give(send(1, vec![1; 10]));
    lone.receive(&[0x31]);
    assert_eq!(lone.sent(), [1], "the peer has it already");
}

/// Keeps 7242-3-1, 7242-5.2-5, 7242-5.4-2, 7242-5.4-3, 7242-5.5-3.
#[test]
fn refused_bundle_stops_between_segments() {
    let mut lone = active(ALL);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 30 }));
    lone.give(send(1, vec![1; 100]));
    lone.give(send(2, vec![2; 5]));
    assert_eq!(lone.wrote().len(), 30, "the first length and segment, but for its last bytes");
    lone.receive(&[0x32]);
    assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources))]);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
    let wrote = lone.wrote();
    assert_eq!(wrote, [&[1, 1][..], &[0x13, 5], &[2; 5]].concat(), "the segment is finished, none follows");
    lone.receive(&ack(5));
    assert_eq!(lone.sent(), [2]);
}

#[test]
fn unacknowledged_bundle_awaits_host_confirmation() {
    // If the peer acknowledges nothing, the acknowledgments of TCP are the best evidence.
    let mut lone = Lone::connecting(old_ours(), span());
    let hello = lone.wrote().len() as u64;
    lone.receive(&contact(UNACKED, 30, "ipn:1.0"));
    let stream = lone.stream;
    let said = lone.said();
    let asked = |o: &Output| matches!(o, Output::Socket(socket::Output::Confirm { stream: of }) if *of == stream);
    assert!(said.iter().any(asked), "{said:?}");
    lone.give(send(1, vec![1; 20]));
    lone.give(send(2, vec![2; 40]));
    assert_eq!(lone.wrote().len(), 22 + 44);
    lone.said();
    let mut confirm = |bytes: u64| {
        lone.give(Input::Socket(socket::Input::Confirmed { stream, bytes }));
        lone.sent()
    };
    assert!(confirm(hello + 21).is_empty());
    assert_eq!(confirm(hello + 22), [1]);
    assert!(confirm(hello + 22 + 43).is_empty());
    assert_eq!(confirm(u64::MAX), [2]);
    lone.give(send(3, vec![3; 20]));
    lone.give(Input::Socket(socket::Input::Closed { stream, error: true }));
    assert_eq!(lone.failed(), [(3, None)], "unconfirmed bundles are returned");
}

#[test]
fn unrefusable_peer_is_dropped_without_room() {
    // Without refusals, lack of room cannot be conveyed; for any other reason the bundle is acknowledged.
    for flags in [SILENT, UNACKED] {
        let mut lone = passive(flags);
        lone.receive(&[segment(START | END, b"abc"), segment(START, b"de")].concat());
        let said = lone.said();
        let tickets: Vec<_> = said
            .iter()
            .filter_map(|o| if let Output::Offer { ticket, .. } = o { Some(*ticket) } else { None })
            .collect();
        lone.wrote();
        lone.give(Input::Refused { ticket: tickets[0], reason: Refusal::Expired });
        let acks = [ack(3), ack(2)].concat();
        assert_eq!(lone.wrote(), if flags == SILENT { acks } else { vec![] });
        lone.give(Input::Refused { ticket: tickets[1], reason: Refusal::NoResources });
        assert_eq!(lone.wrote(), old_message("shutdown_busy"), "sent again in a new session");
        let said = lone.said();
        assert!(!said.iter().any(|o| matches!(o, Output::OfferAborted { .. })), "the node has given it up already");
        assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))));
        lone.give(Input::Refused { ticket: tickets[1], reason: Refusal::NoResources });
        assert!(lone.wrote().is_empty() && lone.said().is_empty(), "once is enough");
    }
}

#[test]
fn idle_session_terminates_in_order() {
    let mut lone = Lone::passive(Config { idle: Duration::from_secs(50), ..old_ours() });
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    lone.wrote();
    for _ in 0..4 {
        lone.wait(Duration::from_secs(10));
        lone.receive(&[0x40]);
    }
    assert!(lone.wrote().iter().all(|byte| *byte == 0x40));
    lone.wait(Duration::from_secs(11));
    assert!(lone.wrote().ends_with(&[0x52, 0]), "keepalives are no use of it");
    lone.receive(&[0x50]);
    assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)));
}

/// Keeps 7242-6.1-1, 7242-6.1-6.
#[test]
fn termination_waits_for_active_transfers() {
    // SHUTDOWN must be the last message.
    let mut lone = passive(ALL);
    lone.receive(&segment(START, b"abc"));
    lone.wrote();
    lone.give(Input::Shutdown);
    assert!(lone.wrote().is_empty(), "RFC 7242 6.1: acknowledged first");
    lone.receive(&segment(END, b"de"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), [ack(5), old_message("shutdown_plain")].concat());
    lone.receive(&segment(START | END, b"late"));
    assert!(
        lone.wrote().is_empty() && lone.tickets().is_empty(),
        "crossing segments are neither accepted nor answered"
    );
    lone.receive(&[0x50]);
    assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)));
    lone.wait(Duration::from_secs(1000));
    assert!(lone.said().is_empty());
}

#[test]
fn new_bundle_during_termination_is_refused() {
    // The refusal of the bundle leaves before SHUTDOWN.
    let mut lone = passive(ALL);
    lone.receive(&segment(START | END, b"abc"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Shutdown);
    lone.receive(&segment(START | END, b"later"));
    assert!(lone.tickets().is_empty());
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), [ack(3), vec![0x32, 0x50]].concat());
}

#[test]
fn peer_termination_returns_unacknowledged_bundles() {
    // The peer acknowledges nothing after its SHUTDOWN.
    let mut lone = active(ALL);
    lone.give(send(1, vec![1; 10]));
    lone.receive(&[segment(START | END, b"abc"), segment(START, b"d")].concat());
    let tickets = lone.tickets();
    lone.wrote();
    lone.receive(&[0x50]);
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::OfferAborted { .. })), "the rest of the second never comes");
    assert!(
        said.iter().any(|o| matches!(o, Output::SendFailed { refused: None, .. })),
        "the peer acknowledges nothing more"
    );
    assert!(said.iter().any(|o| matches!(o, Output::PeerDown { .. })));
    assert!(lone.wrote().is_empty());
    lone.give(Input::Accepted { ticket: tickets[0] });
    assert_eq!(lone.wrote(), [ack(3), vec![0x50]].concat());
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 7242-4.2-1, 7242-6.1-4, 7242-6.1-5.
#[test]
fn termination_in_any_state_ends_session() {
    // SHUTDOWN directly after the contact header, in one piece with it.
    let mut lone = Lone::passive(old_ours());
    lone.receive(&[contact(ALL, 30, "ipn:1.0"), vec![0x52, 2]].concat());
    assert!(lone.wrote().ends_with(&[0x50]));
    assert_eq!(lone.closed(), Some(false));
    // SHUTDOWN instead of the contact header.
    let mut lone = Lone::passive(old_ours());
    lone.receive(&[0x50; 20]);
    assert_eq!(lone.closed(), Some(false), "no magic bytes");
    // SHUTDOWN between segments, twice, and after this side's own SHUTDOWN.
    let mut lone = passive(ALL);
    lone.receive(&[segment(START, b"abc"), vec![0x50, 0x50]].concat());
    assert!(lone.said().iter().any(|o| matches!(o, Output::OfferAborted { .. })));
    assert_eq!(lone.wrote(), [0x50], "nothing of half a bundle is kept");
    let mut lone = passive(ALL);
    lone.give(Input::Shutdown);
    assert_eq!(lone.wrote(), [0x50]);
    lone.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: false }));
    assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)));
}

/// Keeps 7242-6.1-3.
#[test]
fn requested_reconnect_delay_is_obeyed() {
    // RFC 7242 6.1: SHUTDOWN may carry a reconnection delay.
    for (goodbye, waits) in [
        (old_message("shutdown_idle_delay_60"), Some(60)),
        (vec![0x51, 0], None),
        (old_message("shutdown_plain"), Some(0)),
    ] {
        let mut lone = active(ALL);
        lone.receive(&goodbye);
        lone.said();
        let connects = |lone: &mut Lone| {
            lone.said().iter().any(|o| matches!(o, Output::Socket(socket::Output::Connect { link: LinkId(0), .. })))
        };
        lone.wait(Duration::from_secs(waits.unwrap_or(365 * 86_400u64).saturating_sub(1)));
        assert!(!connects(&mut lone), "{goodbye:x?}");
        lone.wait(Duration::from_secs(2));
        assert_eq!(connects(&mut lone), waits.is_some(), "{goodbye:x?}");
        // A new contact cancels the delay.
        for state in [farlink_base::layer::LinkState::DOWN, farlink_base::layer::LinkState::UP] {
            lone.give(Input::Link { link: LinkId(0), state });
        }
        assert!(connects(&mut lone) || waits.is_some());
    }
}

/// Keeps 7242-4-4, 7242-6.1-2, 7242-6.1-5.
#[test]
fn wrong_peer_is_terminated_with_reason() {
    let mut lone = Lone::connecting(old_ours(), LinkParams { node_id: "ipn:9.0".into(), ..span() });
    lone.wrote();
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    assert_eq!(lone.wrote(), old_message("shutdown_busy"), "RFC 7242 4: a reason must be included");
    assert!(lone.said().iter().all(|o| !matches!(o, Output::PeerUp { .. } | Output::Ready { .. })));
    let mut closed = Lone::passive(Config { accept_unknown: false, ..old_ours() });
    closed.wrote();
    closed.receive(&contact(ALL, 30, "ipn:1.0"));
    assert_eq!(closed.wrote(), old_message("shutdown_busy"));
}

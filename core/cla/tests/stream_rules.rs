//! Tests of rules of RFC 9174 on single fields and messages, one test for each.

use crate::tcpcl_v4_script::{Lone, PASSIVE, init_of, message, ours, send, span};
use farlink_base::layer::{Input, Output, SendId};
use farlink_base::{LinkId, NodeId, Refusal, socket};

const START: u8 = 2;
const END: u8 = 1;
/// Reserved bits in flags.
const RESERVED: u8 = 0xfc;

fn segment(flags: u8, id: u64, data: &[u8]) -> Vec<u8> {
    let extensions: &[u8] = if flags & START != 0 { &[0; 4] } else { &[] };
    [&[1, flags][..], &id.to_be_bytes(), extensions, &(data.len() as u64).to_be_bytes(), data].concat()
}
fn ack(flags: u8, id: u64, len: u64) -> Vec<u8> {
    [&[2, flags][..], &id.to_be_bytes(), &len.to_be_bytes()].concat()
}
/// A SESS_INIT with these limits and extension items.
fn init(segment_mru: u64, transfer_mru: u64, node_id: &[u8], items: &[u8]) -> Vec<u8> {
    let mut init = [&[7, 0, 30][..], &segment_mru.to_be_bytes(), &transfer_mru.to_be_bytes()].concat();
    init.extend((node_id.len() as u16).to_be_bytes());
    init.extend_from_slice(node_id);
    init.extend((items.len() as u32).to_be_bytes());
    init.extend_from_slice(items);
    init
}
/// Introduces the script with these bytes instead of a regular SESS_INIT; returns the bytes written, whether the
/// session closes, and whether the peer is reported as up.
fn introduced(mut lone: Lone, init: &[u8]) -> (Vec<u8>, Option<bool>, bool) {
    lone.receive(&message("contact_no_tls"));
    lone.wrote();
    lone.said();
    lone.receive(init);
    let said = lone.said();
    let up = said.iter().any(|o| matches!(o, Output::PeerUp { .. }));
    lone.said = said;
    (lone.wrote(), lone.closed(), up)
}

#[test]
fn refused_session_is_reported_on_both_sides() {
    // The peer ends the session after both have introduced themselves: SESS_TERM, contact failure.
    for code in [0, 4] {
        let mut lone = Lone::active(span()).greet(30);
        lone.receive(&[5, 0, code]);
        let why = "the peer refused this node: its TLS, certificate or node ID";
        let told = (code == 4).then_some((Some(LinkId(0)), None, why));
        assert_eq!(lone.refusals, Vec::from_iter(told), "code {code}");
    }
    // This side refuses a peer that is not the node its link leads to.
    let mut lone = Lone::active(span());
    lone.receive(&message("contact_no_tls"));
    lone.receive(&init(1 << 20, 1 << 30, b"ipn:77.0", &[]));
    let told = lone.refusals.first().map(|(link, peer, _)| (*link, *peer));
    assert_eq!(told, Some((Some(LinkId(0)), Some(NodeId(77)))));
}

/// Keeps 9174-4.1-1, 9174-4.1-4, 9174-4.1-5, 9174-4.1-6.
#[test]
fn active_side_sends_header_first() {
    let mut active = Lone::active(span());
    assert_eq!(active.wrote(), message("contact_no_tls"), "at once");
    active.receive(&message("contact_no_tls"));
    assert_eq!(active.wrote()[0], 7, "SESS_INIT, and no second header");
    let mut passive = Lone::passive(ours());
    assert!(passive.wrote().is_empty());
    for byte in message("contact_no_tls") {
        assert!(passive.wrote().is_empty());
        passive.receive(&[byte]);
    }
    let wrote = passive.wrote();
    assert_eq!((&wrote[..6], wrote[6]), (&message("contact_no_tls")[..], 7));
}

/// Keeps 9174-4.3-3, 9174-4.3-4, 9174-6.1-11.
#[test]
fn each_side_handles_version_mismatch() {
    for version in [2, 5, 255] {
        let other = [&b"dtn!"[..], &[version, 0]].concat();
        let mut active = Lone::active(span());
        active.wrote();
        active.receive(&other);
        assert_eq!(
            (active.wrote(), active.closed()),
            (vec![], Some(false)),
            "{version}: the active side sends nothing more"
        );
        let mut passive = Lone::passive(ours());
        passive.receive(&other);
        assert_eq!(passive.wrote(), [message("contact_no_tls"), vec![5, 0, 2]].concat(), "{version}");
        assert_eq!(passive.closed(), Some(false));
    }
}

/// Keeps 9174-4.2-2, 9174-4.2-3, 9174-5.2.2-1, 9174-5.2.2-2, 9174-5.2.3-2, 9174-6.1-10.
#[test]
fn reserved_bits_are_zero_and_ignored() {
    let mut lone = Lone::active(span());
    assert_eq!(lone.wrote(), b"dtn!\x04\x00");
    lone.receive(b"dtn!\x04\xfe");
    assert_eq!(lone.wrote()[0], 7, "they do not mean TLS");
    lone.receive(&message("sess_init_ipn"));
    lone.give(send(1, vec![1; 60]));
    let wrote = lone.wrote();
    let second = 1 + 1 + 8 + 4 + 13 + 8 + 28;
    assert_eq!((wrote[1], wrote[second + 1]), (START, 0), "flags of each segment");
    lone.said();
    lone.receive(&ack(RESERVED | END, 0, 60));
    assert!(matches!(lone.said()[..], [Output::Sent { id: SendId(1), .. }, ..]));
    lone.receive(&segment(RESERVED | START, 0, b"abc"));
    lone.receive(&segment(RESERVED | END, 0, b"def"));
    assert_eq!(lone.tickets().len(), 1);
    lone.receive(&[5, 0xfe, 3]);
    assert!(lone.wrote().ends_with(&[5, 1, 3]), "no reply, but to be answered by one");
}

/// Keeps 9174-4.8-1, 9174-4.8-3, 9174-4.8-4, 9174-4.8-5.
#[test]
fn unknown_critical_session_extension_terminates() {
    // Other unknown extensions are skipped.
    let session = |items: &[u8]| introduced(Lone::passive(ours()), &init(4096, 1 << 20, b"ipn:1.0", items));
    for items in [&[0, 0, 9, 0, 2, 1, 1][..], &[0xfe, 0xff, 0xff, 0, 0], &[0, 0, 9, 0, 1, 1, 0xfe, 0, 9, 0, 1, 1]] {
        assert_eq!(session(items), (vec![], None, true), "{items:02x?}");
    }
    for items in [&[1, 0, 9, 0, 0][..], &[0, 0, 9, 0, 0, 0xff, 0, 9, 0, 1, 1]] {
        assert_eq!(session(items), (vec![5, 0, 4], Some(false), false), "{items:02x?}");
    }
    for items in [&[0][..], &[0, 0, 9, 0, 3, 1, 1], &[0, 0, 9, 0, 0, 0]] {
        assert_eq!(session(items), (vec![5, 0, 4], Some(false), false), "they do not fill their list: {items:02x?}");
    }
}

/// Keeps 9174-4.7-1.
#[test]
fn zero_segment_mru_gets_contact_failure() {
    let met = introduced(Lone::passive(ours()), &init(0, 1 << 20, b"ipn:1.0", &[]));
    assert_eq!(met, (vec![5, 0, 4], Some(false), false));
    let met = introduced(Lone::passive(ours()), &init(1, 1, b"ipn:1.0", &[]));
    assert_eq!(met, (vec![], None, true));
}

/// Keeps 9174-4.6-4.
#[test]
fn non_text_node_id_ends_session() {
    for name in [&b"ipn:\xff.0"[..], b"\xc3", b"\xed\xa0\x80"] {
        let met = introduced(Lone::passive(ours()), &init(4096, 1 << 20, name, &[]));
        assert_eq!(met, (vec![5, 0, 4], Some(false), false), "{name:02x?}");
    }
}

/// Keeps 9174-4.6-1, 9174-5.2-1.
#[test]
fn segments_and_transfers_respect_peer_limits() {
    // The limits are those in the peer's SESS_INIT.
    let mut lone = Lone::active(span());
    lone.receive(&message("contact_no_tls"));
    lone.receive(&init(10, 40, b"ipn:1.0", &[]));
    lone.wrote();
    lone.said();
    lone.give(send(1, vec![1; 41]));
    assert!(lone.wrote().is_empty());
    let Some(Output::SendFailed { id: SendId(1), refused, .. }) = lone.said().pop() else { panic!("too long") };
    assert_eq!(refused, Some(Refusal::TooLarge));
    lone.give(send(2, vec![2; 40]));
    let wrote = lone.wrote();
    let first = [&[1, START][..], &[0; 8], &13u32.to_be_bytes(), &[0, 0, 1, 0, 8], &40u64.to_be_bytes()].concat();
    let rest = [0, 0, END].map(|flags| [&[1, flags][..], &[0; 8], &10u64.to_be_bytes(), &[2; 10]].concat());
    assert_eq!(wrote, [&first[..], &10u64.to_be_bytes(), &[2; 10], &rest.concat()].concat());
}

/// Keeps 9174-5.2.2-2, 9174-5.2.3-4.
#[test]
fn acknowledgment_echoes_segment_flags() {
    // The flags are echoed, because their meaning is that of the segment's sender (RFC 9174 5.2.3).
    let mut lone = Lone::passive(ours()).greet(30);
    for (flags, so_far) in [(RESERVED | START, 3), (0x80, 6), (0, 9)] {
        lone.receive(&segment(flags, 0, b"abc"));
        assert_eq!(lone.wrote(), ack(flags, 0, so_far), "{flags:02x}");
    }
    lone.receive(&segment(0x40 | END, 0, b"abc"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), ack(0x40 | END, 0, 12));
}

/// Keeps 9174-6.1-4.
#[test]
fn termination_reply_echoes_reason() {
    for reason in [0, 1, 2, 3, 4, 5, 6, 255] {
        let mut lone = Lone::passive(ours()).greet(30);
        lone.receive(&[5, 0, reason]);
        assert_eq!((lone.wrote(), lone.closed()), (vec![5, 1, reason], Some(false)));
        let mut lone = Lone::passive(ours()).greet(30);
        lone.give(Input::Shutdown);
        lone.wrote();
        lone.receive(&[5, 1, reason]);
        assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)), "an answer is not answered");
    }
}

/// Keeps 9174-6.1-3.
#[test]
fn termination_before_initialization_is_answered() {
    for lone in [Lone::passive(ours()), Lone::active(span())] {
        assert_eq!(introduced(lone, &[5, 0, 3]), (vec![5, 1, 3], Some(false), false), "busy");
    }
    // Before the contact headers these bytes are no message at all.
    let mut lone = Lone::passive(ours());
    lone.receive(&[5, 0, 3]);
    assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)));
}

/// Keeps 9174-6.1-1, 9174-6.1-13.
#[test]
fn termination_never_splits_a_segment() {
    for room in 1..40 {
        let mut lone = Lone::active(span()).greet(30);
        lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room }));
        lone.give(send(1, vec![1; 20]));
        lone.give(Input::Shutdown);
        lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
        let whole = segment(START | END, 0, &[1; 20]);
        assert_eq!(lone.wrote(), [&whole[..], &[5, 0, 0]].concat(), "{room}");
    }
}

/// Keeps 9174-6.1-8.
#[test]
fn broken_connection_fails_both_directions() {
    // Outgoing bundles fail, and the incoming offer is aborted.
    for error in [true, false] {
        let mut lone = Lone::active(span()).greet(30);
        lone.give(send(1, vec![1; 100]));
        lone.receive(&segment(START, 0, b"abc"));
        lone.said();
        lone.give(Input::Socket(socket::Input::Closed { stream: lone.stream, error }));
        let said = lone.said();
        assert!(said.iter().any(|o| matches!(o, Output::SendFailed { id: SendId(1), refused: None, .. })), "{said:?}");
        assert!(said.iter().any(|o| matches!(o, Output::OfferAborted { .. })));
        assert!(said.iter().any(|o| matches!(o, Output::PeerDown { .. })));
    }
    let mut unknown = Lone::passive(ours());
    unknown.receive(&[message("contact_no_tls"), init_of("ipn:9.0")].concat());
    unknown.said();
    unknown.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: true }));
    assert!(unknown.said().iter().any(|o| matches!(o, Output::PeerDown { .. })));
}

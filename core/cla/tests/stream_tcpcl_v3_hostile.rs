//! Tests of TCPCLv3 against peers that lie, stall or miscount. Without transfer numbers both sides must count transfers
//! alike (RFC 7242 5.3, 5.4).

use crate::tcpcl_v3_script::{ALL, END, NONE, SILENT, START, ack, active, contact, old_ours, passive, sdnv, segment};
use crate::tcpcl_v4_script::{Lone, send};
use farlink_base::layer::{Input, Output};
use farlink_base::{Duration, Refusal, socket};
use farlink_cla::tcpcl_v4::Config;

/// Asserts that the session has ended with SHUTDOWN, and that nothing received afterwards was accepted.
fn is_over(lone: &mut Lone, why: &str) {
    let (wrote, said) = (lone.wrote(), lone.said());
    assert!(wrote.ends_with(&[0x50]) || wrote.ends_with(&[0x52, 2]), "{why}: {wrote:x?}");
    let closed = |o: &Output| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }));
    assert!(said.iter().any(closed), "{why}: {said:?}");
    assert!(!said.iter().any(|o| matches!(o, Output::Sent { .. } | Output::Offer { last: true, .. })), "{why}");
}

/// Keeps 7242-5.5-2.
#[test]
fn input_after_fault_is_ignored() {
    let whole = segment(START | END, b"a bundle");
    for (bytes, why) in [
        (segment(0, b"abc"), "a segment of no bundle"),
        (segment(END, b"abc"), "an end without a beginning"),
        ([segment(START, b"abc"), segment(START, b"def")].concat(), "a bundle within a bundle"),
        (vec![0x60, 5, 0x60, 5], "two lengths"),
        ([segment(START, b"abc"), vec![0x60, 5], segment(0, b"de")].concat(), "a length amid a bundle"),
        (vec![0x00], "a reserved type"),
        (vec![0x77], "an unassigned type"),
        (ack(1), "an acknowledgment of nothing"),
        (vec![0x32], "a refusal of nothing"),
        ([&[0x13][..], &[0xff; 10]].concat(), "a length of more than 64 bits"),
        ([&[0x20][..], &[0x80; 10]].concat(), "an acknowledgment of more than ten bytes"),
    ] {
        let mut lone = passive(ALL);
        lone.receive(&[bytes, whole.clone()].concat());
        is_over(&mut lone, why);
    }
}

#[test]
fn out_of_turn_acknowledgment_fails_all() {
    for (bytes, why) in [
        (ack(61), "more than was sent"),
        (ack(0), "none"),
        ([ack(28), ack(28)].concat(), "the same again"),
        ([ack(56), ack(28)].concat(), "less than before"),
        ([ack(60), ack(21)].concat(), "more than the second bundle"),
        ([ack(60), ack(20), ack(1)].concat(), "of a third bundle"),
    ] {
        let mut lone = active(ALL);
        lone.give(send(1, vec![1; 60]));
        lone.give(send(2, vec![2; 20]));
        lone.wrote();
        lone.receive(&bytes);
        let (mut sent, mut failed) = (Vec::new(), Vec::new());
        for output in lone.said() {
            match output {
                Output::Sent { id, .. } => sent.push(id.0),
                Output::SendFailed { id, refused: None, .. } => failed.push(id.0),
                _ => {}
            }
        }
        sent.extend(&failed);
        assert_eq!((sent, lone.wrote()), (vec![1, 2], vec![0x50]), "{why}: each is answered once");
        assert_eq!(failed.is_empty(), why == "of a third bundle");
    }
}

#[test]
fn segments_crossing_refusal_may_be_refused() {
    // Every segment of a refused bundle SHOULD be refused (RFC 7242 5.4); most peers refuse once.
    for again in 0..3 {
        let mut lone = active(ALL);
        lone.give(send(1, vec![1; 60]));
        lone.receive(&vec![0x32; 1 + again]);
        assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources))]);
        lone.give(send(2, vec![2; 20]));
        lone.receive(&ack(20));
        assert_eq!(lone.sent(), [2], "{again} more");
        lone.wrote();
        lone.receive(&[0x32]);
        is_over(&mut lone, "one more than there were segments");
    }
}

/// Keeps 7242-5.5-3.
#[test]
fn length_refusal_allows_one_per_segment() {
    // The LENGTH message and the first of three segments have left.
    let begun = || {
        let mut lone = active(ALL);
        lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 32 }));
        lone.give(send(1, vec![1; 60]));
        assert_eq!(lone.wrote().len(), 32);
        lone
    };
    let mut lone = begun();
    lone.receive(&[0x32, 0x32]);
    assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources))]);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone.give(send(2, vec![2; 20]));
    lone.receive(&ack(20));
    assert_eq!(lone.sent(), [2]);
    // The second refusal is ambiguous: it may be for the first segment or for the second bundle.
    let mut lone = begun();
    lone.receive(&[0x32]);
    assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources))]);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone.give(send(2, vec![2; 20]));
    lone.receive(&[0x32]);
    assert_eq!(lone.failed(), [(2, None)], "sent again");
    // A peer that acknowledges a segment has not refused the length.
    let mut lone = begun();
    lone.receive(&ack(28));
    lone.receive(&[0x32]);
    lone.said();
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone.give(send(2, vec![2; 20]));
    lone.receive(&[0x30]);
    assert_eq!(lone.failed(), [(2, Some(Refusal::NotAcceptable))]);
}

/// Accepts all complete offers until no more come; returns their number, and the largest number at once.
fn accept_all(lone: &mut Lone) -> (usize, usize) {
    let (mut accepted, mut most) = (0, 0);
    loop {
        let tickets = lone.tickets();
        if tickets.is_empty() {
            return (accepted, most);
        }
        (accepted, most) = (accepted + tickets.len(), most.max(tickets.len()));
        tickets.into_iter().for_each(|ticket| lone.give(Input::Accepted { ticket }));
    }
}

#[test]
fn tiny_bundle_flood_is_paced() {
    // One read may bring thousands of bundles; further ones are parsed as answers leave.
    let crowd = segment(START | END, b"x").repeat(20_000);
    let mut lone = passive(ALL);
    lone.receive(&crowd);
    let (accepted, most) = accept_all(&mut lone);
    assert_eq!(accepted, 20_000);
    assert!(most < 1100, "{most} held at once");
    assert_eq!(lone.wrote(), ack(1).repeat(20_000));
    // Data received before the end of the stream counts, even if answers are pending.
    let mut lone = passive(NONE);
    lone.receive(&crowd);
    lone.give(Input::Socket(socket::Input::Closed { stream: lone.stream, error: false }));
    assert_eq!(accept_all(&mut lone).0, 20_000);
}

#[test]
fn empty_bundles_and_segments_stay_cheap() {
    // The answers to empty bundles must be bounded, too.
    let mut lone = passive(ALL);
    lone.receive(&segment(START | END, b"").repeat(20_000));
    assert_eq!(lone.wrote(), vec![0x30; 20_000]);
    assert!(lone.closed().is_none());
    // The empty bundles come after a bundle without a verdict.
    let mut lone = passive(ALL);
    lone.receive(&[segment(START | END, b"first"), segment(START, b"a")].concat());
    let first = lone.tickets();
    let paused =
        |lone: &mut Lone| lone.said().iter().any(|o| matches!(o, Output::Socket(socket::Output::Pause { .. })));
    let mut heard = 0;
    while !paused(&mut lone) {
        lone.receive(&segment(0, b"").repeat(10_000));
        heard += 10_000;
        assert!(heard < 100_000, "acknowledgments pile up");
    }
    lone.give(Input::Accepted { ticket: first[0] });
    assert!(lone.said().iter().any(|o| matches!(o, Output::Socket(socket::Output::Resume { .. }))));
    lone.receive(&segment(END, b"b"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), [ack(5), ack(1).repeat(heard + 1), ack(2)].concat());
}

/// Keeps 7242-5.5-3.
#[test]
fn ambiguous_refusal_refuses_neither() {
    let mut lone = active(ALL);
    lone.give(send(1, vec![1; 60]));
    lone.give(send(2, vec![2; 20]));
    lone.wrote();
    lone.receive(&[0x32, 0x32]);
    assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources)), (2, None)], "the second comes again");
    assert_eq!(lone.wrote(), [0x50]);
    // If each bundle has one segment, there is no ambiguity.
    let mut lone = active(ALL);
    lone.give(send(1, vec![1; 20]));
    lone.give(send(2, vec![2; 20]));
    lone.receive(&[0x32, 0x30]);
    assert_eq!(lone.failed(), [(1, Some(Refusal::NoResources)), (2, Some(Refusal::NotAcceptable))]);
}

#[test]
fn refused_bundle_is_refused_once() {
    // The rest of the refused bundle is skipped.
    let mut lone = passive(ALL);
    lone.receive(&segment(START, b"abc"));
    let said = lone.said();
    let Some(Output::Offer { ticket, .. }) = said.last() else { panic!("{said:?}") };
    lone.give(Input::Refused { ticket: *ticket, reason: Refusal::NoResources });
    assert_eq!(lone.wrote(), [ack(3), vec![0x32]].concat());
    lone.receive(&[segment(0, b"crossed"), segment(END, b"it"), segment(START | END, b"next")].concat());
    let ticket = lone.tickets()[0];
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), ack(4), "a second refusal would be taken for that of the next bundle");
}

#[test]
fn oversized_bundle_is_refused_early() {
    // The bundle is refused at the latest when a segment exceeds the limit.
    let mru = old_ours().transfer_mru;
    for (bytes, offered) in [
        ([vec![0x60], sdnv(mru + 1), segment(START, b"a")].concat(), 0),
        ([vec![0x60], sdnv(u64::MAX), segment(START, b"a")].concat(), 0),
        ([vec![0x12], sdnv(mru + 1), vec![7; 300]].concat(), 0),
        ([vec![0x13], sdnv(u64::MAX), vec![7; 100_000]].concat(), 0),
        ([segment(START, b"abc"), vec![0x10], sdnv(mru), vec![7; 100_000]].concat(), 3),
    ] {
        let mut lone = passive(ALL);
        lone.receive(&bytes);
        let mut parts = 0;
        for output in lone.said() {
            match output {
                Output::Offer { part, .. } => parts += part.len(),
                Output::OfferAborted { .. } => assert!(parts > 0),
                _ => {}
            }
        }
        assert_eq!(parts, offered);
        assert!(lone.wrote().ends_with(&[0x32]));
        let mut deaf = passive(SILENT);
        deaf.receive(&bytes);
        is_over(&mut deaf, "the peer knows no refusals");
    }
}

#[test]
fn false_length_is_refused() {
    for bytes in [
        [vec![0x60, 2], segment(START | END, b"abc")].concat(),
        [vec![0x60, 4], segment(START | END, b"abc")].concat(),
        [vec![0x60, 4], segment(START, b"abc"), segment(END, b"de")].concat(),
        segment(START | END, b""),
        [segment(START, b""), segment(0, b""), segment(END, b"")].concat(),
    ] {
        let mut lone = passive(ALL);
        lone.receive(&bytes);
        let wrote = lone.wrote();
        assert_eq!(wrote.last(), Some(&0x30), "{bytes:x?}: {wrote:x?}");
        assert!(lone.tickets().is_empty());
        lone.receive(&segment(START | END, b"fits"));
        assert_eq!(lone.tickets().len(), 1, "the session goes on");
    }
}

#[test]
fn silent_connection_is_dropped() {
    let trickle = [b"dtn!\x03\x0d\x00\x1e".to_vec(), sdnv(2000), vec![b'x'; 100]].concat();
    let mut lone = Lone::passive(old_ours());
    for byte in trickle {
        lone.wait(Duration::from_millis(200));
        lone.receive(&[byte]);
    }
    assert_eq!(lone.closed(), Some(true));
    for bomb in [[&b"dtn!\x03\x0d\x00\x1e"[..], &[0xff; 10]].concat(), b"dtn!\x03\x0d\x00\x1e\x90\x01".to_vec()] {
        let mut lone = Lone::passive(old_ours());
        lone.receive(&bomb);
        assert_eq!(lone.closed(), Some(false), "at once");
    }
}

#[test]
fn endless_bundle_ends_session() {
    let mut lone = passive(ALL);
    lone.receive(&[0x12, 100, 1, 2, 3]);
    let mut waited = 0;
    while lone.closed().is_none() {
        lone.wait(Duration::from_secs(20));
        waited += 20;
        assert!(waited < 200, "for ever");
    }
    // Bytes of a keepalive within a segment are data; after the segment they are a keepalive.
    let mut lone = passive(ALL);
    lone.receive(&segment(START, b"abc"));
    for _ in 0..13 {
        lone.wait(Duration::from_secs(10));
        lone.receive(&[0x40]);
    }
    assert_eq!(lone.closed(), Some(false), "keepalives are no progress");
}

#[test]
fn missing_acknowledgment_returns_bundle() {
    // The progress timer ends the session although the peer sends keepalives.
    for flags in [ALL, NONE] {
        let mut lone = active(flags);
        lone.give(send(1, vec![1; 60]));
        lone.said();
        let mut failed = Vec::new();
        for _ in 0..14 {
            lone.wait(Duration::from_secs(10));
            lone.receive(&[0x40]);
            failed.extend(lone.failed());
        }
        assert_eq!(failed, [(1, None)], "flags {flags}");
    }
}

#[test]
fn unanswered_termination_ends_session() {
    for lives in [false, true] {
        let mut lone = active(ALL);
        lone.give(Input::Shutdown);
        assert_eq!(lone.wrote(), [0x50]);
        let mut ended = false;
        for _ in 0..6 {
            lone.wait(Duration::from_secs(5));
            if lives {
                lone.receive(&[0x40]);
            }
            ended |= lone.closed() == Some(true);
        }
        assert!(ended, "lives: {lives}");
        assert!(lone.wrote().is_empty(), "nothing follows SHUTDOWN");
    }
}

/// Keeps 7242-6.1-6.
#[test]
fn length_message_never_splits_a_segment() {
    let mut lone = active(ALL);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 10 }));
    lone.give(send(1, vec![1; 28]));
    assert_eq!(lone.wrote().len(), 10);
    lone.receive(&[0x00]);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 100 }));
    assert_eq!(lone.wrote(), [&[1; 20][..], &[0x50]].concat(), "RFC 7242 6.1: behind the segment");
}

#[test]
fn unknown_peers_headers_are_bounded() {
    // A header may claim a node ID of any length.
    let mut lone = Lone::new(Config { sessions: 4, ..old_ours() }, Vec::new());
    for n in 0..20u64 {
        lone.stream.0 = farlink_base::StreamId::PASSIVE | n;
        lone.open();
        lone.receive(&contact(ALL, 30, &format!("ipn:{}.0", n + 10)));
    }
    assert!(lone.layer.usage().sessions <= 4 && lone.layer.usage().links <= 4, "{:?}", lone.layer.usage());
}

//! Tests of TCPCLv4 sessions with peers that break the rules, and of timeouts for peers that do not answer (RFC 9174
//! 5.1.2, 5.2, 6.1).

use crate::tcpcl_v4_script::{Lone, PASSIVE, message, ours, send, span};
use farlink_base::layer::{Input, Output, SendId};
use farlink_base::socket;
use farlink_base::{Duration, Refusal};

const START: u8 = 2;
const END: u8 = 1;

fn segment(flags: u8, id: u64, data: &[u8]) -> Vec<u8> {
    let extensions: &[u8] = if flags & START != 0 { &[0; 4] } else { &[] };
    [&[1, flags][..], &id.to_be_bytes(), extensions, &(data.len() as u64).to_be_bytes(), data].concat()
}
fn ack(flags: u8, id: u64, len: u64) -> Vec<u8> {
    [&[2, flags][..], &id.to_be_bytes(), &len.to_be_bytes()].concat()
}
fn refuse(code: u8, id: u64) -> Vec<u8> {
    [&[3, code][..], &id.to_be_bytes()].concat()
}
/// Asserts that the session still works: it offers and acknowledges a transfer.
fn goes_on(lone: &mut Lone, id: u64) {
    lone.wrote();
    lone.receive(&segment(START | END, id, b"abc"));
    let tickets = lone.tickets();
    assert_eq!(tickets.len(), 1, "transfer {id} is offered");
    lone.give(Input::Accepted { ticket: tickets[0] });
    assert_eq!(lone.wrote(), ack(START | END, id, 3));
}

/// Keeps 9174-4-1, 9174-4.7-3, 9174-5.1.2-3.
#[test]
fn misplaced_message_is_rejected_session_continues() {
    let rejected = |kind: u8| vec![6, 3, kind];
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&message("sess_init_ipn"));
    assert_eq!(lone.wrote(), rejected(7), "a second SESS_INIT");
    goes_on(&mut lone, 0);
    lone.receive(&ack(0, 7, 1));
    assert_eq!(lone.wrote(), rejected(2), "an acknowledgment of nothing");
    lone.receive(&refuse(2, 7));
    assert_eq!(lone.wrote(), rejected(3), "a refusal of nothing");
    lone.receive(&segment(END, 9, b"of no transfer"));
    assert_eq!(lone.wrote(), rejected(1), "a segment without a transfer");
    goes_on(&mut lone, 1);
    lone.receive(&[6, 3, 4]);
    assert!(lone.wrote().is_empty(), "a rejection is not answered");
    goes_on(&mut lone, 2);
}

/// Keeps 9174-5.2.2-7.
#[test]
fn nested_transfer_ends_the_outer() {
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&segment(START, 0, b"abc"));
    assert_eq!(lone.wrote(), ack(START, 0, 3));
    lone.receive(&segment(START, 1, b"def"));
    assert!(lone.said().iter().any(|o| matches!(o, Output::OfferAborted { .. })));
    assert_eq!(lone.wrote(), [vec![6, 3, 1], refuse(3, 0), ack(START, 1, 3)].concat());
    lone.receive(&segment(END, 0, b"more of the first"));
    assert_eq!(lone.wrote(), [6, 3, 1], "the transfer has ended");
    lone.receive(&segment(END, 1, b"ghi"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), ack(END, 1, 6), "nothing of the first is in the second");
}

/// Keeps 9174-5.2.4-1, 9174-5.2.4-6.
#[test]
fn every_segment_after_refusal_is_refused() {
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&segment(START, 5, b"abc"));
    let said = lone.said();
    let Some(Output::Offer { ticket, .. }) = said.last() else { panic!("{said:?}") };
    lone.give(Input::Refused { ticket: *ticket, reason: Refusal::NoResources });
    assert!(lone.wrote().ends_with(&refuse(2, 5)));
    for flags in [0, 0, END] {
        lone.receive(&segment(flags, 5, b"under way"));
        assert_eq!(lone.wrote(), refuse(2, 5), "RFC 9174 5.2.4");
    }
    goes_on(&mut lone, 1);
    // A refused transfer counts as finished: the end of the session does not wait for its remaining segments.
    lone.receive(&segment(START, 2, b"abc"));
    let said = lone.said();
    let Some(Output::Offer { ticket, .. }) = said.last() else { panic!("{said:?}") };
    lone.give(Input::Refused { ticket: *ticket, reason: Refusal::NoResources });
    lone.receive(&[5, 0, 0]);
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 9174-4.5-1, 9174-5.1.2-3, 9174-5.2.4-2, 9174-5.2.4-5.
#[test]
fn messages_about_finished_transfer_are_tolerated() {
    // RFC 9174 5.2.4: the peer refuses each segment that crossed its refusal.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 100]));
    lone.receive(&refuse(2, 0));
    assert!(lone.said().iter().any(|o| matches!(o, Output::SendFailed { id: SendId(1), .. })));
    lone.wrote();
    for late in [refuse(2, 0), refuse(2, 0), ack(0, 0, 28)] {
        lone.receive(&late);
        assert_eq!((lone.wrote(), lone.said().len()), (vec![], 0), "{late:?}");
    }
    lone.receive(&refuse(2, 1));
    assert_eq!(lone.wrote(), [6, 3, 3], "a number never used");
}

/// Keeps 9174-5.2.1-1.
#[test]
fn reused_transfer_id_is_refused() {
    let mut lone = Lone::passive(ours()).greet(30);
    for id in [5, 0, 1, 2, 900, 899] {
        goes_on(&mut lone, id);
    }
    for id in [0, 1, 2, 5, 899, 900] {
        lone.receive(&segment(START | END, id, b"abc"));
        assert_eq!((lone.wrote(), lone.tickets()), (refuse(4, id), vec![]), "RFC 9174 5.2.1: {id}");
    }
    for id in [3, 4, 6, 901] {
        goes_on(&mut lone, id);
    }
}

#[test]
fn short_final_acknowledgment_returns_bundle() {
    // The peer marks an acknowledgment as final that does not cover the transfer.
    let mut lone = Lone::active(span()).greet(30);
    for id in [1, 2] {
        lone.give(send(id, vec![1; 60]));
    }
    lone.said();
    lone.wrote();
    lone.receive(&ack(END, 0, 59));
    assert!(matches!(lone.said()[..], [Output::SendFailed { id: SendId(1), refused: None, .. }, ..]));
    assert_eq!(lone.wrote(), [6, 3, 2]);
    lone.receive(&ack(END, 1, 60));
    assert!(lone.said().iter().any(|o| matches!(o, Output::Sent { id: SendId(2), .. })), "the next is not affected");
}

#[test]
fn exhausted_session_terminates() {
    // These faults affect more than one transfer, so the session ends.
    let mut lone = Lone::passive(ours()).greet(30);
    let longer = (ours().segment_mru + 1).to_be_bytes();
    lone.receive(&[&[1, START][..], &[0; 8], &[0; 4], &longer].concat());
    assert_eq!(lone.wrote(), [6, 3, 1, 5, 0, 5], "a segment longer than this node accepts");
    assert_eq!(lone.closed(), Some(false));
    let mut lone = Lone::active(span()).greet(30);
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 10 }));
    lone.give(send(1, vec![1; 90]));
    lone.receive(&ack(0, 0, 90));
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1000 }));
    assert!(lone.wrote().ends_with(&[6, 3, 2, 5, 0, 0]), "an acknowledgment of what is still being sent");
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 9174-6.1-3.
#[test]
fn goodbye_is_said_once() {
    // RFC 9174 6.1: one SESS_TERM per direction.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 10]));
    lone.receive(&[5, 0, 0]);
    assert!(lone.wrote().ends_with(&[5, 1, 0]));
    // The transfer keeps the session open; then a list of extensions comes that is longer than this node reads.
    lone.receive(&[&[1, START][..], &[0; 8], &[0xff; 4]].concat());
    assert_eq!((lone.wrote(), lone.closed()), (vec![], Some(false)));
}

#[test]
fn unacknowledged_bundle_times_out_despite_keepalives() {
    // A live peer that never acknowledges must not hold bundles forever.
    let mut lone = Lone::active(span()).greet(30);
    lone.give(send(1, vec![1; 60]));
    lone.said();
    for seconds in (0..150).step_by(10) {
        assert!(seconds <= 130, "still in flight");
        lone.wait(Duration::from_secs(10));
        // Neither a keepalive nor a repeated acknowledgment is progress.
        lone.receive(&[&[4][..], &ack(0, 0, 0)].concat());
        if lone.said().iter().any(|o| matches!(o, Output::SendFailed { id: SendId(1), refused: None, .. })) {
            assert!(seconds >= 100, "not before its time");
            return;
        }
    }
    panic!("in flight for ever");
}

#[test]
fn bundle_after_silence_gets_full_timeout() {
    // The progress timer starts with the bundle.
    let mut lone = Lone::active(span()).greet(0);
    lone.wait(Duration::from_secs(100_000));
    lone.give(send(1, vec![1; 60]));
    lone.wait(Duration::from_secs(100));
    assert!(lone.said().iter().all(|o| !matches!(o, Output::SendFailed { .. })));
    lone.receive(&ack(END, 0, 60));
    assert!(lone.said().iter().any(|o| matches!(o, Output::Sent { id: SendId(1), .. })));
}

#[test]
fn unanswered_termination_ends_session() {
    // The peer is dead, or it is alive but ignores SESS_TERM.
    for lives in [false, true] {
        let mut lone = Lone::active(span()).greet(30);
        lone.give(Input::Shutdown);
        assert_eq!(lone.wrote(), [5, 0, 0]);
        let mut ended = false;
        for _ in 0..6 {
            lone.wait(Duration::from_secs(5));
            if lives {
                lone.receive(&[4]);
            }
            ended |= lone.closed() == Some(true);
        }
        assert!(ended, "lives: {lives}");
    }
}

#[test]
fn half_closed_peer_still_gets_acknowledgments() {
    // A peer that has closed its half still reads.
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&[segment(START | END, 0, b"abc"), segment(START | END, 1, b"de"), segment(START, 2, b"f")].concat());
    let tickets = lone.tickets();
    lone.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: false }));
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::OfferAborted { .. })), "the rest of the third never comes");
    assert!(said.iter().any(|o| matches!(o, Output::PeerDown { .. })));
    assert!(!said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { .. }))), "answers are owed");
    lone.give(Input::Accepted { ticket: tickets[0] });
    assert_eq!(lone.closed(), None);
    lone.give(Input::Refused { ticket: tickets[1], reason: Refusal::NoResources });
    assert_eq!(lone.wrote(), [ack(START | END, 0, 3), refuse(2, 1)].concat());
    assert_eq!(lone.closed(), Some(false), "then the other half closes, in good order");
}

#[test]
fn half_closed_session_without_verdicts_ends() {
    // The peer has closed its half and waits for an answer, but the agent gives no verdict.
    let mut lone = Lone::passive(ours()).greet(30);
    lone.receive(&segment(START | END, 0, b"abc"));
    let ticket = lone.tickets()[0];
    lone.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: false }));
    lone.wait(Duration::from_secs(600));
    assert_eq!(lone.closed(), Some(true));
    lone.give(Input::Accepted { ticket });
    assert!(lone.wrote().is_empty(), "too late");
}

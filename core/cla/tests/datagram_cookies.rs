//! Tests of cookies (RFC 5327 2.2): those of this engine, by which unknown peers prove that they receive at their
//! address, and those of peers.

use crate::ltp_bench::{LINK, LtpBench, bundle, segments, talk, view};
use farlink_base::Bytes;
use farlink_base::layer::Input;
use farlink_cla::ltp::extension::{self, tag};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SegmentContent, SessionId, kind};
use farlink_cla::ltp::{AskCookies, Config, SpanConfig, Usage};

fn cookies(datagram: &[u8]) -> Vec<Vec<u8>> {
    view(datagram).header.of(tag::COOKIE).map(<[u8]>::to_vec).collect()
}
/// Segment with these cookies added.
fn with(segment: &[u8], values: &[&[u8]]) -> Bytes {
    assert_eq!(segment[0] >> 4, 0);
    let view = view(segment);
    assert!(view.header.is_empty());
    // The counts follow the session ID.
    let mut at = 1;
    for _ in 0..2 {
        at += segment[at..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    }
    let mut out = segment[..=at].to_vec();
    out[at] = (values.len() as u8) << 4;
    for value in values {
        out.extend([tag::COOKIE, value.len() as u8]);
        out.extend_from_slice(value);
    }
    out.extend_from_slice(&segment[at + 1..]);
    out.into()
}
/// Engine 1, and engine 2, which has no link to it and asks for cookies.
fn unknown_peers(ask: AskCookies) -> [LtpBench; 2] {
    let b = LtpBench::new(2, 7, |config: &mut Config, _: &mut SpanConfig| config.cookies = ask);
    [LtpBench::new(1, 2, |_, _| {}), b]
}
fn first_segment(number: u64, length: usize) -> Segment {
    let length = length as u64;
    let data = Data { kind: kind::BLOCK_END, service: 1, offset: 0, length, checkpoint: 5, report: 0 };
    let bytes = bundle(1, length as usize).to_bytes().unwrap();
    Segment { session: SessionId { engine: 1, number }, body: SegmentBody::Data(data, bytes) }
}

/// Keeps 5327-2.2-1, 5327-2.2-2, 5327-2.2-9.
#[test]
fn unknown_sender_must_echo_a_cookie() {
    // A cookie is requested once per session; from then on all segments carry it.
    for length in [100, 20_000] {
        let [mut a, mut b] = unknown_peers(AskCookies::Always);
        let first = a.send(1, bundle(1, length), true);
        let went = talk([&mut a, &mut b], [1, 2], first, |_, _| false);
        assert_eq!((b.bundles(), a.sent.len()), (vec![bundle(1, length)], 1));
        assert_eq!((a.ltp.usage(), b.ltp.usage()), (Usage::default(), Usage::default()));
        let asked = went.iter().position(|(side, _)| *side == 1).unwrap();
        let before: Vec<u8> = went[..asked].iter().map(|(_, datagram)| view(datagram).kind).collect();
        assert!(before.split_last() == Some((&kind::BLOCK_END, &vec![kind::RED; asked - 1][..])), "{before:?}");
        let SegmentContent::Report { claims, lower, upper, .. } = view(&went[asked].1).content else {
            panic!("no report")
        };
        assert_eq!((claims.runs().count(), lower, upper), (0, 0, length as u64));
        let cookie = cookies(&went[asked].1);
        assert!(cookie.len() == 1 && cookie[0].len() == 16);
        assert!(went[asked..].iter().all(|(_, datagram)| cookies(datagram) == cookie), "both ways");
        assert!(went.iter().all(|(_, datagram)| datagram.len() <= 1360));
        assert!(a.dropped.is_empty() && b.dropped.is_empty(), "{:?} {:?}", a.dropped, b.dropped);
    }
}

/// Keeps 5327-2.2-3, 5327-2.2-8.
#[test]
fn missing_cookie_keeps_no_state() {
    // The request is at most as long as the segment, so that it cannot amplify.
    let [_, mut b] = unknown_peers(AskCookies::Always);
    for (number, length) in (1..200).zip((4..200).cycle()) {
        let datagram = first_segment(number, length).emit();
        let answers = b.receive(1, datagram.clone());
        assert!(answers.len() <= 1 && answers.iter().all(|answer| answer.len() <= datagram.len()));
        assert!(answers.len() == 1 || length < 40, "{length}");
        assert!(answers.is_empty() || length > 12, "{length}");
        assert_eq!((b.ltp.usage(), b.arrived.len()), (Usage::default(), 0));
    }
    let asked = cookies(&b.receive(1, first_segment(500, 100).emit())[0]).remove(0);
    let good = with(&first_segment(500, 100).emit(), &[&asked]);
    // A cookie is rejected from another address, in another session, and with another value.
    let elsewhere = b.receive(9, good.clone());
    assert_ne!(cookies(&elsewhere[0])[0], asked);
    b.receive(1, with(&first_segment(501, 100).emit(), &[&asked]));
    b.receive(1, with(&first_segment(500, 100).emit(), &[&[7; 16]]));
    b.receive(1, with(&first_segment(500, 100).emit(), &[&asked[..15]]));
    assert_eq!((b.ltp.usage(), b.arrived.len()), (Usage::default(), 0));
    // A cookie is valid for at least one hour and at most two.
    b.later(3600.0);
    b.receive(1, good.clone());
    assert_eq!(b.arrived.len(), 1);
    let [_, mut b] = unknown_peers(AskCookies::Always);
    b.receive(1, first_segment(500, 100).emit());
    b.later(7200.0);
    b.receive(1, good);
    assert_eq!((b.arrived.len(), b.ltp.usage()), (0, Usage::default()));
}

#[test]
fn dynamic_peers_need_cookies_under_load() {
    // Configured neighbours are never asked for a cookie.
    let [mut a, mut b] = [LtpBench::new(1, 2, |_, _| {}), LtpBench::new(2, 1, |c, _| c.cookies = AskCookies::Always)];
    let first = a.send(1, bundle(1, 5000), true);
    assert!(talk([&mut a, &mut b], [1, 2], first, |_, _| false).iter().all(|(_, d)| cookies(d).is_empty()));
    assert_eq!(b.arrived.len(), 1);
    // Of 64 sessions dynamic peers get 16, and one address 4. Requests begin when half of the 16 are used.
    for (ask, asked) in [(AskCookies::Pressed, 4), (AskCookies::Never, 0)] {
        let mut b = LtpBench::new(2, 7, |config, _| (config.sessions, config.cookies) = (64, ask));
        let mut questions = 0;
        for address in 20..32 {
            let data = Data { kind: kind::CHECKPOINT, service: 1, offset: 0, length: 90, checkpoint: 5, report: 0 };
            let body = SegmentBody::Data(data, Bytes::from(vec![1; 90]));
            let session = SessionId { engine: address, number: 1 };
            let answers = b.receive(address, Segment { session, body }.emit());
            questions += answers.iter().filter(|answer| !cookies(answer).is_empty()).count();
        }
        assert_eq!((questions, b.ltp.usage().imports), (asked, 12 - asked), "{ask:?}");
    }
}

/// Keeps 5327-2.2-2, 5327-2.2-4, 5327-2.2-8, 5327-2.2-9, 5327-2.2-10.
#[test]
fn sender_echoes_peer_cookies() {
    let mut a = LtpBench::new(1, 2, |_, _| {});
    let first = segments(&a.send(1, bundle(1, 4000), true));
    let session = first[0].session;
    let report = |serial, claims: &[(u64, u64)]| {
        let body = SegmentBody::Report { serial, checkpoint: 0, lower: 0, upper: 4000, claims: claims.to_vec() };
        Segment { session, body }.emit()
    };
    let mut left = a.receive(2, with(&report(9, &[(0, 1000), (2000, 4000)]), &[b"abc"]));
    left.extend(a.later(1.0));
    assert!(left.len() >= 2 && left.iter().all(|datagram| cookies(datagram) == [b"abc"]), "the gap too");
    // Repeated checkpoints of the session carry the cookie.
    let again = a.later(5.0);
    assert!(!again.is_empty() && again.iter().all(|datagram| cookies(datagram) == [b"abc"]));
    // A report without the cookie, or with another one, changes nothing and is not answered.
    for wrong in [report(10, &[(0, 4000)]), with(&report(10, &[(0, 4000)]), &[b"xyz"])] {
        assert!(a.receive(2, wrong).is_empty() && a.sent.is_empty());
    }
    assert_eq!(a.dropped.len(), 2);
    // The cookie may be extended; the shorter value is no longer valid.
    let longer = a.receive(2, with(&report(10, &[(0, 500)]), &[b"abcdef"]));
    assert_eq!(cookies(&longer[0]), [b"abcdef"]);
    assert!(a.receive(2, with(&report(11, &[(0, 4000)]), &[b"abc"])).is_empty());
    let done = a.receive(2, with(&report(12, &[(0, 4000)]), &[b"abcdef!"]));
    assert!(cookies(&done[0]) == [b"abcdef!"] && a.sent.len() == 1);
    // An answer outside a session echoes the cookies of the segment.
    let late = a.receive(2, with(&report(13, &[(0, 4000)]), &[b"any"]));
    assert_eq!((view(&late[0]).kind, cookies(&late[0])), (kind::REPORT_ACK, vec![b"any".to_vec()]));
}

/// Keeps 5327-2.2-2, 5327-2.2-5, 5327-2.2-6, 5327-2.2-8.
#[test]
fn receiver_echoes_sender_cookies() {
    let mut b = LtpBench::new(2, 1, |_, _| {});
    let data = |kind, offset, checkpoint| {
        let data = Data { kind, service: 1, offset, length: 50, checkpoint, report: 0 };
        let whole = bundle(1, 100).to_bytes().unwrap();
        let body = SegmentBody::Data(data, whole.slice(offset as usize..offset as usize + 50));
        Segment { session: SessionId { engine: 1, number: 4 }, body }.emit()
    };
    b.receive(1, with(&data(kind::RED, 0, 0), &[b"theirs"]));
    assert!(b.receive(1, data(kind::BLOCK_END, 50, 5)).is_empty() && b.arrived.is_empty());
    let report = b.receive(1, with(&data(kind::BLOCK_END, 50, 5), &[b"theirs"]));
    assert!(cookies(&report[0]) == [b"theirs"] && b.arrived.len() == 1);
    assert!(b.later(5.0).iter().all(|again| cookies(again) == [b"theirs"]));
    // A cancel segment for the session needs the cookie, too, and its acknowledgment carries it.
    let cancel = Segment {
        session: SessionId { engine: 1, number: 4 },
        body: SegmentBody::Cancel { by_sender: true, reason: 0 },
    };
    assert!(b.receive(1, cancel.emit()).is_empty());
    assert_eq!(cookies(&b.receive(1, with(&cancel.emit(), &[b"theirs"]))[0]), [b"theirs"]);
    // Both ends add a cookie before they see that of the other.
    let [_, mut b] = unknown_peers(AskCookies::Always);
    let asked = cookies(&b.receive(1, with(&first_segment(9, 100).emit(), &[b"theirs"]))[0]).remove(0);
    let report = b.receive(1, with(&first_segment(9, 100).emit(), &[b"theirs", &asked]));
    assert_eq!(cookies(&report[0]), [b"theirs".to_vec(), asked.clone()]);
    let ack = |serial| {
        Segment { session: SessionId { engine: 1, number: 9 }, body: SegmentBody::ReportAck { serial } }.emit()
    };
    let SegmentContent::Report { serial, .. } = view(&report[0]).content else { panic!("no report") };
    b.receive(1, with(&ack(serial), &[&asked]));
    assert_eq!(b.ltp.usage().imports, 1, "one of two is missing");
    b.receive(1, with(&ack(serial), &[&asked, b"theirs"]));
    assert_eq!(b.ltp.usage(), Usage::default());
}

/// Keeps 5327-2.2-10.
#[test]
fn cookies_end_with_their_session() {
    let [mut a, mut b] = unknown_peers(AskCookies::Always);
    for id in 1..4 {
        let first = a.send(id, bundle(id as u8, 3000), true);
        assert!(first.iter().all(|datagram| cookies(datagram).is_empty()));
        talk([&mut a, &mut b], [1, 2], first, |_, _| false);
    }
    assert_eq!((b.arrived.len(), a.sent.len()), (3, 3));
}

#[test]
fn foreign_cookie_locks_nobody_out() {
    // A forger must not be able to make a session require an unknown cookie.
    let mut a = LtpBench::new(1, 2, |_, _| {});
    let session = segments(&a.send(1, bundle(1, 100), true))[0].session;
    let report = |serial| {
        let body = SegmentBody::Report { serial, checkpoint: 0, lower: 0, upper: 100, claims: vec![(0, 100)] };
        Segment { session, body }.emit()
    };
    a.receive(9, with(&report(5), &[b"forged"]));
    a.receive(2, report(6));
    assert_eq!(a.sent.len(), 1);
}

#[test]
fn excess_cookies_are_rejected() {
    // Cookies that are too many or too long to be kept are not accepted.
    let mut b = LtpBench::new(2, 1, |_, _| {});
    let long = [7; 65];
    for values in [&[&long[..]][..], &[b"a", b"b", b"c"], &[b""]] {
        let answer = b.receive(1, with(&first_segment(3, 100).emit(), values));
        assert!(answer.is_empty() && b.ltp.usage() == Usage::default(), "{values:?}");
    }
    assert_eq!(extension::tag::COOKIE, 1);
}

/// Keeps 5327-2.2-2.
#[test]
fn closed_session_replies_carry_cookies() {
    let mut b = LtpBench::new(2, 1, |_, _| {});
    let question = with(&first_segment(3, 100).emit(), &[b"theirs"]);
    let report = b.receive(1, question.clone());
    let SegmentContent::Report { serial, .. } = view(&report[0]).content else { panic!("no report") };
    let ack = Segment { session: SessionId { engine: 1, number: 3 }, body: SegmentBody::ReportAck { serial } }.emit();
    b.receive(1, with(&ack, &[b"theirs"]));
    assert_eq!((b.arrived.len(), b.ltp.usage()), (1, Usage::default()));
    // The sender repeats its checkpoint, and would ignore an answer without the cookie.
    let cancel = b.receive(1, question);
    assert_eq!((view(&cancel[0]).kind, cookies(&cancel[0])), (kind::CANCEL_RECEIVER, vec![b"theirs".to_vec()]));
}

/// Keeps 5327-2.2-2.
#[test]
fn link_removal_cancels_carry_cookies() {
    // An export and an import session, both with a cookie of the peer.
    let mut b = LtpBench::new(2, 1, |_, _| {});
    let session = segments(&b.send(1, bundle(1, 4000), true))[0].session;
    let body = SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 4000, claims: vec![(0, 1000)] };
    b.receive(1, with(&Segment { session, body }.emit(), &[b"ours"]));
    let data = Data { kind: kind::RED, service: 1, offset: 0, length: 50, checkpoint: 0, report: 0 };
    let body = SegmentBody::Data(data, bundle(1, 100).to_bytes().unwrap().slice(..50));
    b.receive(1, with(&Segment { session: SessionId { engine: 1, number: 4 }, body }.emit(), &[b"theirs"]));
    let left = b.input(Input::RemoveLink { link: LINK });
    let said: Vec<_> = left.iter().map(|datagram| (view(datagram).kind, cookies(datagram))).collect();
    let (ours, theirs) = (vec![b"ours".to_vec()], vec![b"theirs".to_vec()]);
    assert_eq!(said, [(kind::CANCEL_SENDER, ours), (kind::CANCEL_RECEIVER, theirs)]);
}

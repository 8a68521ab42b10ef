//! Tests of broken transfers when both sides keep parts (RFC 9174 3.2, RFC 7242 4.1): the sender's agent learns how
//! much was kept, and a receiver acknowledges only bytes that are kept.

use crate::tcpcl_v3_script::{ack, contact, old_ours, sdnv, segment};
use crate::tcpcl_v4_script::{Lone, init_of, message, ours, span};
use farlink_base::layer::{Input, Output, SendId};
use farlink_base::socket;
use farlink_base::{LinkId, Payload, Refusal};
use farlink_cla::tcpcl_v4::{Config, LinkParams};

const LEAST: u64 = 1000;
/// Session extension that announces in version 4 that parts are kept.
const ITEM: &[u8] = b"\0\xfa\x71\0\x0dfarlink parts";

fn reactive(config: Config) -> Config {
    Config { reactive: LEAST, ..config }
}
fn short_segments() -> LinkParams {
    LinkParams { segment_bytes: 100, ..span() }
}
fn init(item: &[u8]) -> Vec<u8> {
    let mut init = init_of("ipn:1.0");
    init.truncate(init.len() - 4);
    [&init[..], &(item.len() as u32).to_be_bytes(), item].concat()
}
fn four(mut lone: Lone, item: &[u8]) -> Lone {
    lone.receive(&message("contact_no_tls"));
    lone.receive(&init(item));
    lone.said();
    lone.wrote();
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone
}
fn three(mut lone: Lone, flags: u8) -> Lone {
    lone.receive(&contact(flags, 30, "ipn:1.0"));
    lone.said();
    lone.wrote();
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone
}
fn segment4(flags: u8, id: u64, data: &[u8]) -> Vec<u8> {
    let list = if flags & 2 != 0 { &[0u8; 4][..] } else { &[] };
    [&[1, flags][..], &id.to_be_bytes(), list, &(data.len() as u64).to_be_bytes(), data].concat()
}
fn ack4(flags: u8, id: u64, bytes: u64) -> Vec<u8> {
    [&[2, flags][..], &id.to_be_bytes(), &bytes.to_be_bytes()].concat()
}
fn breaks(lone: &mut Lone) -> Vec<Output> {
    lone.said();
    lone.give(Input::Socket(socket::Input::Closed { stream: lone.stream, error: true }));
    lone.said()
}
/// Failed transmissions and the bytes kept of them, in order.
fn told(said: &[Output]) -> Vec<(u64, Option<u64>)> {
    let pick = |o: &Output| match o {
        Output::SentInPart { id, bytes, link: LinkId(0) } => Some((id.0, Some(*bytes))),
        Output::SendFailed { id, refused: None, .. } => Some((id.0, None)),
        _ => None,
    };
    said.iter().filter_map(pick).collect()
}
fn bundle(id: u64, len: usize) -> Input {
    Input::send(LinkId(0), SendId(id), Payload::from(vec![7; len]), true)
}

/// Keeps 9174-4.8-2.
#[test]
fn partial_storage_is_announced_when_enabled() {
    for (config, item) in [(ours(), &[][..]), (reactive(ours()), ITEM)] {
        let mut lone = Lone::passive(config);
        lone.receive(&message("contact_no_tls"));
        let wrote = lone.wrote();
        let tail = [&(item.len() as u32).to_be_bytes(), item].concat();
        assert!(wrote.ends_with(&tail), "{wrote:x?}");
    }
    for (config, flags) in [(old_ours(), 0x0d), (reactive(old_ours()), 0x0f)] {
        let mut lone = Lone::passive(config);
        assert_eq!(lone.wrote()[5], flags, "version 3 has a flag for it");
    }
}

#[test]
fn acknowledged_parts_count_only_when_negotiated() {
    // Both sides must have announced that they keep parts.
    let other = b"\0\xfa\x71\0\x0dsomebody else";
    for (ours_too, item, counts) in
        [(true, ITEM, true), (false, ITEM, false), (true, &other[..], false), (true, &[], false)]
    {
        let config = if ours_too { reactive(ours()) } else { ours() };
        let mut lone = four(Lone::connecting(config, short_segments()), item);
        lone.give(bundle(1, 350));
        lone.give(bundle(2, 50));
        lone.receive(&ack4(2, 0, 100));
        lone.receive(&ack4(0, 0, 200));
        let want = if counts { vec![(1, Some(200)), (1, None), (2, None)] } else { vec![(1, None), (2, None)] };
        assert_eq!(told(&breaks(&mut lone)), want, "{item:?}");
    }
    for (ours_too, flags, counts) in
        [(true, 0x0f, true), (false, 0x0f, false), (true, 0x0d, false), (true, 0x02, false)]
    {
        let config = if ours_too { reactive(old_ours()) } else { old_ours() };
        let mut lone = three(Lone::connecting(config, short_segments()), flags);
        lone.give(bundle(1, 350));
        if flags & 1 != 0 {
            lone.receive(&[ack(100), ack(200)].concat());
        }
        let want = if counts { vec![(1, Some(200)), (1, None)] } else { vec![(1, None)] };
        assert_eq!(told(&breaks(&mut lone)), want, "flags {flags}");
    }
}

#[test]
fn refused_transfer_counts_nothing_kept() {
    // After a refusal, nothing of the bundle counts as kept, whatever was acknowledged before.
    let mut lone = four(Lone::connecting(reactive(ours()), short_segments()), ITEM);
    lone.give(bundle(1, 350));
    lone.receive(&ack4(2, 0, 100));
    lone.receive(&[&[3, 2][..], &[0; 8]].concat());
    let said = lone.said();
    assert!(!said.iter().any(|o| matches!(o, Output::SentInPart { .. })), "{said:?}");
    assert!(said.iter().any(|o| matches!(o, Output::SendFailed { refused: Some(Refusal::NoResources), .. })));
    assert_eq!(told(&breaks(&mut lone)), []);
}

#[test]
fn acknowledgments_wait_for_storage() {
    // The final acknowledgment waits for the whole bundle.
    let mut lone = four(Lone::passive(reactive(ours())), ITEM);
    lone.receive(&segment4(2, 0, &[1; 100]));
    let said = lone.said();
    let Some(Output::InParts { ticket, least: LEAST, .. }) = said.first() else { panic!("{said:?}") };
    let ticket = *ticket;
    assert!(matches!(said[1], Output::Offer { ticket: of, last: false, .. } if of == ticket));
    lone.receive(&segment4(0, 0, &[1; 100]));
    lone.receive(&segment4(0, 0, &[1; 100]));
    assert!(lone.wrote().is_empty(), "none of it is kept");
    lone.give(Input::Kept { ticket, bytes: 150 });
    assert_eq!(lone.wrote(), ack4(2, 0, 100), "segments are acknowledged whole");
    lone.give(Input::Kept { ticket, bytes: 120 });
    assert!(lone.wrote().is_empty(), "a smaller value is ignored");
    lone.give(Input::Kept { ticket, bytes: 300 });
    assert_eq!(lone.wrote(), [ack4(0, 0, 200), ack4(0, 0, 300)].concat());
    lone.receive(&segment4(0, 0, &[1; 100]));
    lone.receive(&segment4(1, 0, &[1; 100]));
    assert!(lone.wrote().is_empty());
    lone.give(Input::Accepted { ticket });
    assert_eq!(lone.wrote(), [ack4(0, 0, 400), ack4(1, 0, 500)].concat());
    lone.give(Input::Kept { ticket, bytes: 9000 });
    assert!(lone.wrote().is_empty(), "it is over");
    lone.receive(&segment4(3, 1, &[1; 100]));
    assert!(!lone.said().iter().any(|o| matches!(o, Output::InParts { .. })), "one segment is no part");
}

#[test]
fn v3_peer_learns_kept_length() {
    let mut lone = three(Lone::passive(reactive(old_ours())), 0x0f);
    lone.receive(&[vec![0x60], sdnv(300), segment(2, &[1; 100]), segment(0, &[1; 100])].concat());
    let said = lone.said();
    let Some(Output::InParts { ticket, .. }) = said.first() else { panic!("{said:?}") };
    assert!(lone.wrote().is_empty());
    lone.give(Input::Kept { ticket: *ticket, bytes: 100 });
    assert_eq!(lone.wrote(), ack(100));
    lone.receive(&segment(1, &[1; 100]));
    lone.give(Input::Accepted { ticket: *ticket });
    assert_eq!(lone.wrote(), [ack(200), ack(300)].concat());
}

#[test]
fn unnegotiated_acknowledgments_flow_as_before() {
    // To a peer that did not announce partial storage, intermediate acknowledgments promise nothing: they do not wait.
    let mut lone = four(Lone::passive(reactive(ours())), &[]);
    lone.receive(&segment4(2, 0, &[1; 100]));
    assert_eq!(lone.wrote(), ack4(2, 0, 100));
    assert!(!lone.said().iter().any(|o| matches!(o, Output::InParts { .. })));
}

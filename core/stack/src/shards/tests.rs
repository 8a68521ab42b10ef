//! Layer owner and remote layer, call by call, with messages that cross while the other side has changed its state.

use super::layer_owner::{LayerOwner, Part};
use super::remote_layer::{Do, RemoteLayer};
use super::{Across, ShardConfig, tagged, untagged};
use alloc::vec::Vec;
use farlink_base::layer::{Input, LinkState, Output, SendId, Ticket};
use farlink_base::{Instant, LinkId, NodeId, Payload, Refusal};

pub(super) const LINK: LinkId = LinkId(3);
pub(super) const TICKET: Ticket = Ticket(7);

pub(super) fn bytes(len: usize) -> Payload {
    Payload::from(alloc::vec![1u8; len])
}
pub(super) fn layer_owner(own: u8) -> LayerOwner {
    LayerOwner::new(&ShardConfig::new(own, 3, Vec::new()), [NodeId::ipn(1)].into(), [LINK].into_iter())
}
pub(super) fn send(id: u64, len: usize) -> Input {
    Input::send(LINK, SendId(id), bytes(len), true)
}
pub(super) fn ready(ready: bool) -> Output {
    Output::Ready { link: LINK, ready }
}
/// Short name of a message.
fn short(said: &Across) -> &'static str {
    match said {
        Across::Input(Input::Send { .. }) => "send",
        Across::Input(Input::Accepted { .. }) => "accepted",
        Across::Input(Input::Refused { .. }) => "refused",
        Across::Input(Input::CancelSend { .. }) => "cancel",
        Across::Input(_) => "input",
        Across::Output(Output::SendFailed { .. }) => "failed",
        Across::Output(Output::Sent { .. }) => "sent",
        Across::Output(Output::Ready { .. }) => "ready",
        Across::Output(Output::OfferAborted { .. }) => "aborted",
        Across::Output(Output::PeerDown { .. }) => "down",
        Across::Output(_) => "output",
        Across::Taken { .. } => "taken",
        Across::Known { .. } => "known",
        Across::Closed { .. } => "closed",
    }
}
pub(super) fn sent_after(owner: &mut LayerOwner, output: Output) -> Vec<(u8, &'static str)> {
    let mut out = Vec::new();
    let _own = owner.on_output(output, &mut out);
    out.iter().map(|(to, what)| (*to, short(what))).collect()
}
pub(super) fn take(owner: &mut LayerOwner, from: u8, input: Input) -> (bool, Vec<&'static str>) {
    let mut out = Vec::new();
    let given = owner.take(from, input, &mut out).is_some();
    (given, out.iter().map(short).collect())
}

/// Next bundle that leaves over a link without a rate.
fn next(owner: &mut LayerOwner, given: usize) -> Option<Input> {
    owner.next(given, &mut |_, _| None)
}

#[test]
fn rate_limit_spans_all_shards() {
    let mut owner = layer_owner(0);
    sent_after(&mut owner, ready(true));
    (0..3).for_each(|id| drop(take(&mut owner, 1, send(id, 10))));
    let (mut asked, at) = (Vec::new(), Instant(500));
    let mut pace = |link, size| {
        asked.push((link, size));
        (asked.len() > 1).then_some(at)
    };
    assert!(owner.next(0, &mut pace).is_some() && owner.next(1, &mut pace).is_none());
    assert_eq!((asked, owner.pending()), (Vec::from([(LINK, 10), (LINK, 10)]), Some(at)), "asked again then");
    assert!(owner.serves());
    while next(&mut owner, 0).is_some() {}
    assert!(owner.serves() && owner.pending().is_none(), "the layer has them");
    for id in 0..3 {
        sent_after(&mut owner, Output::Sent { id: tagged(1, SendId(id)), link: LINK });
    }
    assert!(!owner.serves());
}

#[test]
fn transmission_ids_are_tagged_and_restored() {
    for shard in [0, 1, 63] {
        for id in [SendId(0), SendId(1), SendId((1 << 56) - 1)] {
            assert_eq!(untagged(tagged(shard, id)), Some((shard, id)));
            assert_eq!(untagged(id), None, "the owner's own");
        }
    }
}

#[test]
fn foreign_bundles_leave_in_bounded_order() {
    let mut owner = layer_owner(0);
    assert_eq!(sent_after(&mut owner, ready(false)), [(1, "ready"), (2, "ready")], "all hear of it");
    for id in 0..20 {
        assert_eq!(take(&mut owner, 1 + (id % 2) as u8, send(id, 10)), (false, Vec::new()));
    }
    assert!(owner.pending().is_none() && next(&mut owner, 0).is_none(), "the layer takes nothing");
    sent_after(&mut owner, ready(true));
    assert!(owner.pending().is_some());
    let mut left = Vec::new();
    for given in 0.. {
        let Some(Input::Send { id, .. }) = next(&mut owner, given) else { break };
        left.push(untagged(id).unwrap());
    }
    let wanted: Vec<(u8, SendId)> = (0..8).map(|id| (1 + (id % 2) as u8, SendId(id))).collect();
    assert_eq!(left, wanted);
    assert!(owner.pending().is_some(), "more follow in the next call");
    assert_eq!(owner.taken().count(), 2, "each is told once how much was taken");
    sent_after(&mut owner, ready(false));
    assert!(next(&mut owner, 0).is_none());
    // A bundle that comes while others wait goes behind them.
    sent_after(&mut owner, ready(true));
    assert!(!take(&mut owner, 1, send(99, 1)).0);
}

#[test]
fn unsendable_bundle_returns_its_room() {
    for how in ["down", "gone", "removed", "unknown"] {
        let mut owner = layer_owner(0);
        sent_after(&mut owner, ready(false));
        take(&mut owner, 2, send(1, 10));
        let mut out = Vec::new();
        match how {
            "down" => owner.observe(&Input::Link { link: LINK, state: LinkState::DOWN }, &mut out),
            "gone" => drop(owner.on_output(Output::PeerDown { link: LINK }, &mut out)),
            _ => owner.observe(&Input::RemoveLink { link: LINK }, &mut out),
        }
        let back: Vec<_> = out.iter().filter(|(to, _)| *to == 2).map(|(_, what)| short(what)).collect();
        assert_eq!(back[..2], ["taken", "failed"], "{how}");
        // Bundles that were under way to the removed link fail, too.
        assert_eq!(take(&mut owner, 2, send(2, 10)), (false, Vec::from(["taken", "failed"])), "{how}");
        sent_after(&mut owner, ready(true));
        assert!(next(&mut owner, 0).is_none(), "{how}: nothing is left");
    }
}

#[test]
fn waiting_bundle_cancelled_at_owner() {
    let mut owner = layer_owner(0);
    take(&mut owner, 1, send(1, 10));
    let cancel = |id| Input::CancelSend { link: LINK, id: SendId(id) };
    assert_eq!(take(&mut owner, 2, cancel(1)), (true, Vec::new()), "another's");
    assert_eq!(take(&mut owner, 1, cancel(1)), (false, Vec::from(["taken", "failed"])));
    assert_eq!(take(&mut owner, 1, cancel(1)), (true, Vec::new()), "the layer knows nothing of it");
}

#[test]
fn head_collection_is_bounded() {
    let part = |owner: &mut LayerOwner, len: usize, last, answer: Option<bool>| match owner.part(
        (TICKET, false),
        bytes(len),
        last,
        |_, _| answer,
    ) {
        Part::Kept => ("kept", 0, None),
        Part::Here { part, least } => ("here", part.len(), least),
        Part::Away { part, least } => ("away", part.len(), least),
        Part::Refused | Part::Dropped => ("refused", 0, None),
    };
    let mut one = layer_owner(1);
    assert_eq!(part(&mut one, 10, false, None), ("kept", 0, None));
    assert_eq!(part(&mut one, 30, false, Some(true)), ("away", 40, None), "with what came before");
    assert_eq!(one.away(), 0, "its rest must be read, however long it is");
    assert_eq!((part(&mut one, 5, true, None).0, one.away()), ("away", 45), "whatever it looks like");
    assert_eq!(take(&mut one, 0, Input::Accepted { ticket: TICKET }), (true, Vec::new()));
    assert_eq!((one.away(), one.knows(TICKET)), (0, false));
    // Once the shard of the bundle is known, later parts are not parsed again to find it.
    assert_eq!(part(&mut one, 10, false, Some(false)).0, "here");
    assert_eq!(part(&mut one, 10, true, Some(true)).0, "here");
    assert!(!one.knows(TICKET));
    // With parts of a byte each, the head is parsed only each time the length has doubled, and no more bytes are kept
    // than a head may have.
    let (mut looked, mut kept) = (0, 0);
    while let Part::Kept = one.part((TICKET, false), bytes(1), false, |_, _| {
        looked += 1;
        None
    }) {
        kept += 1;
    }
    assert!(kept < 64 << 10 && looked < 20, "{kept} parts kept, looked {looked} times");
    // The request to keep the bundle in pieces goes to the shard with the bundle.
    let mut two = layer_owner(1);
    let in_parts = Output::InParts { ticket: TICKET, link: LINK, least: 77 };
    assert!(two.on_output(in_parts, &mut Vec::new()).is_none());
    assert_eq!(part(&mut two, 10, false, Some(true)), ("away", 10, Some(77)));
}

#[test]
fn later_parts_follow_first_shard_choice() {
    let mut owner = layer_owner(1);
    let mut here = |last, looks_central| {
        let part = owner.part((TICKET, false), bytes(10), last, |_, _| Some(looks_central));
        matches!(part, Part::Here { .. })
    };
    assert!(here(false, false));
    // Bytes in the middle of a payload may look like the head of another bundle.
    assert!(here(false, true) && here(false, true) && here(true, true));
}

#[test]
fn refused_offer_number_is_reusable() {
    let mut owner = layer_owner(1);
    let mut home = RemoteLayer::new(1, [LINK].into_iter());
    let part = |last| Output::Offer { ticket: TICKET, link: LINK, part: bytes(9), last, total: None, reliable: true };
    let offer = |owner: &mut LayerOwner, last| drop(owner.part((TICKET, false), bytes(9), last, |_, _| Some(true)));
    let after_message = |home: &mut RemoteLayer, what: Across| {
        let mut out = Vec::new();
        home.on_message(what, &mut out);
        out.len()
    };
    offer(&mut owner, false);
    assert_eq!(after_message(&mut home, Across::Output(part(false))), 1);
    let mut out = Vec::new();
    home.on_input(Input::Refused { ticket: TICKET, reason: Refusal::NoResources }, &mut out);
    assert!(matches!(&out[..], [Do::Owner(Across::Input(Input::Refused { .. }))]));
    // The owner has sent the next part before the refusal reaches it.
    offer(&mut owner, false);
    assert_eq!(after_message(&mut home, Across::Output(part(false))), 0, "nobody wants it any more");
    let refused = Input::Refused { ticket: TICKET, reason: Refusal::NoResources };
    assert_eq!(take(&mut owner, 0, refused), (true, Vec::from(["closed"])));
    assert_eq!(owner.away(), 0);
    assert_eq!(after_message(&mut home, Across::Closed { ticket: TICKET }), 0);
    assert_eq!(after_message(&mut home, Across::Output(part(true))), 1, "another bundle");
    let mut out = Vec::new();
    home.on_input(Input::Accepted { ticket: TICKET }, &mut out);
    home.on_input(Input::Accepted { ticket: TICKET }, &mut out);
    assert_eq!(out.len(), 1, "one verdict");
    // If the part under way is the last, no further part follows, and the refused offer is forgotten.
    after_message(&mut home, Across::Output(part(false)));
    home.on_input(Input::Refused { ticket: TICKET, reason: Refusal::NoResources }, &mut Vec::new());
    assert_eq!(after_message(&mut home, Across::Output(part(true))), 0);
    assert_eq!(after_message(&mut home, Across::Output(part(true))), 1, "another bundle");
    // An abandoned offer is reported once.
    home.on_input(Input::Accepted { ticket: TICKET }, &mut Vec::new());
    after_message(&mut home, Across::Output(part(false)));
    assert_eq!(after_message(&mut home, Across::Output(Output::OfferAborted { ticket: TICKET })), 1);
    assert_eq!(after_message(&mut home, Across::Output(Output::OfferAborted { ticket: TICKET })), 0);
}

#[test]
fn remote_layer_respects_owner_room() {
    let mut home = RemoteLayer::new(1, [LINK].into_iter());
    let mut out = Vec::new();
    home.on_input(send(0, 1), &mut out);
    assert!(matches!(&out[..], [Do::Owner(Across::Input(_))]), "not told that it is ready, and told nothing new");
    out.clear();
    home.on_message(Across::Output(ready(true)), &mut out);
    let says = |out: &mut Vec<Do>| {
        let last = out.iter().rev().find_map(|what| match what {
            Do::Emit(Output::Ready { ready, .. }) => Some(*ready),
            _ => None,
        });
        out.clear();
        last
    };
    assert_eq!(says(&mut out), Some(true));
    for id in 1..1024 {
        home.on_input(send(id, 1), &mut out);
    }
    assert_eq!(says(&mut out), Some(false), "so many are enough");
    home.on_message(Across::Taken { link: LINK, bundles: 1000, bytes: 1000 }, &mut out);
    assert_eq!(says(&mut out), Some(true));
    home.on_input(send(5000, 5 << 20), &mut out);
    assert_eq!(says(&mut out), Some(false), "so many bytes are, too");
    home.on_message(Across::Taken { link: LINK, bundles: u32::MAX, bytes: u64::MAX }, &mut out);
    assert_eq!(says(&mut out), Some(true));
    home.on_message(Across::Output(ready(false)), &mut out);
    assert_eq!(says(&mut out), Some(false));
}

#[test]
fn removed_link_ignores_late_messages() {
    let mut home = RemoteLayer::new(1, [LINK].into_iter());
    let mut out = Vec::new();
    home.on_message(Across::Output(ready(true)), &mut out);
    home.on_message(Across::Output(Output::PeerUp { link: LINK, claimed: None, proven: None, node: None }), &mut out);
    (0..3).for_each(|id| home.on_input(send(id, 1), &mut out));
    let part = Output::Offer { ticket: TICKET, link: LINK, part: bytes(1), last: false, total: None, reliable: true };
    home.on_message(Across::Output(part), &mut out);
    out.clear();
    home.on_input(Input::RemoveLink { link: LINK }, &mut out);
    let count =
        |what: fn(&Output) -> bool| out.iter().filter(|done| matches!(done, Do::Emit(output) if what(output))).count();
    assert_eq!(count(|output| matches!(output, Output::SendFailed { .. })), 3);
    assert_eq!(count(|output| matches!(output, Output::Ready { ready: false, .. })), 1);
    assert_eq!(count(|output| matches!(output, Output::OfferAborted { .. })), 1);
    assert_eq!(count(|output| matches!(output, Output::PeerDown { .. })), 1);
    let mut late = Vec::new();
    for said in [
        Output::Sent { id: SendId(1), link: LINK },
        Output::SendFailed { id: SendId(2), link: LINK, refused: None },
        Output::Want { link: LINK, id: SendId(0), from: 0, len: 1 },
        ready(true),
        Output::PeerUp { link: LINK, claimed: None, proven: None, node: None },
        Output::PeerDown { link: LINK },
        Output::OfferAborted { ticket: TICKET },
    ] {
        home.on_message(Across::Output(said), &mut late);
    }
    assert!(late.is_empty(), "{late:?}");
    home.on_input(send(9, 1), &mut late);
    assert!(matches!(&late[..], [Do::Emit(Output::SendFailed { id: SendId(9), .. })]), "there is no such link");
}

#[test]
fn unexpected_shard_messages_are_harmless() {
    let mut owner = layer_owner(1);
    for input in [
        Input::Accepted { ticket: TICKET },
        Input::Refused { ticket: TICKET, reason: Refusal::NoResources },
        Input::Hold { ticket: TICKET },
        Input::Kept { ticket: TICKET, bytes: 1 },
        Input::Shutdown,
        Input::RemoveLink { link: LINK },
        Input::Wake,
    ] {
        assert_eq!(take(&mut owner, 0, input), (false, Vec::new()));
    }
    let mut home = RemoteLayer::new(1, core::iter::empty());
    let mut out = Vec::new();
    for said in [
        Across::Input(Input::Wake),
        Across::Closed { ticket: TICKET },
        Across::Taken { link: LINK, bundles: 9, bytes: 9 },
        Across::Output(Output::Sent { id: SendId(1), link: LINK }),
        Across::Output(ready(true)),
    ] {
        home.on_message(said, &mut out);
    }
    assert!(out.is_empty());
}

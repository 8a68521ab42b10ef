//! Messages between layer owner and remote layer: each answer reaches its shard exactly once, counters return to zero,
//! and bounds hold.

use super::layer_owner::{LayerOwner, Part};
use super::remote_layer::{Do, RemoteLayer};
use super::tests::{LINK, TICKET, bytes, layer_owner, ready, send, sent_after, take};
use super::{Across, tagged, untagged};
use crate::config::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use farlink_base::layer::{Input, Output, SendId, Ticket};
use farlink_base::{BundleMeta, EndpointId, Facts, LinkId, NodeId, Payload, Priority, Rare, Refusal};

/// Actions of a remote layer after messages of the owner.
fn actions_after(home: &mut RemoteLayer, said: impl IntoIterator<Item = Across>) -> Vec<Do> {
    let mut out = Vec::new();
    said.into_iter().for_each(|said| home.on_message(said, &mut out));
    out
}
fn part_of(ticket: Ticket, last: bool) -> Across {
    let (link, part) = (LINK, bytes(9));
    Across::Output(Output::Offer { ticket, link, part, last, total: None, reliable: true })
}

#[test]
fn late_shard_gets_link_state() {
    let mut owner = layer_owner(1);
    let mut late = RemoteLayer::new(1, core::iter::empty());
    let up = || Output::PeerUp { link: LINK, claimed: Some("ipn:9.0".into()), proven: None, node: None };
    for said in [up(), ready(true)] {
        let mut out = Vec::new();
        let _own = owner.on_output(said, &mut out);
        let to_late = out.into_iter().filter(|(to, _)| *to == 2).map(|(_, what)| what);
        assert!(actions_after(&mut late, to_late).is_empty(), "it does not know the link");
    }
    let asks = |owner: &LayerOwner, late: &mut RemoteLayer| {
        let mut back = Vec::new();
        owner.repeat(LINK, &mut back);
        actions_after(late, back)
    };
    assert!(late.add(LINK) && !late.add(LINK));
    let out = asks(&owner, &mut late);
    let [Do::Emit(Output::PeerUp { claimed, .. }), Do::Emit(Output::Ready { ready: true, .. })] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(claimed.as_deref(), Some("ipn:9.0"));
    // The neighbour has come and gone, so nothing changes at a shard that adds the link now.
    sent_after(&mut owner, ready(false));
    sent_after(&mut owner, Output::PeerDown { link: LINK });
    let mut later = RemoteLayer::new(1, [LINK].into_iter());
    assert!(asks(&owner, &mut later).is_empty());
    owner.observe(&Input::RemoveLink { link: LINK }, &mut Vec::new());
    assert!(asks(&owner, &mut late).is_empty(), "there is none any more");
}

#[test]
fn removed_link_clears_pending_account() {
    for last_arrives_first in [false, true] {
        let mut owner = layer_owner(1);
        let mut home = RemoteLayer::new(1, [LINK].into_iter());
        let offer = |owner: &mut LayerOwner, last| drop(owner.part((TICKET, false), bytes(9), last, |_, _| Some(true)));
        offer(&mut owner, false);
        actions_after(&mut home, [part_of(TICKET, false)]);
        offer(&mut owner, true);
        // Both parts, of 9 bytes each, are counted once the last has come.
        assert_eq!(owner.away(), 18);
        // The last part and the removal cross on their way, in either order.
        if last_arrives_first {
            actions_after(&mut home, [part_of(TICKET, true)]);
        }
        let mut out = Vec::new();
        home.on_input(Input::RemoveLink { link: LINK }, &mut out);
        let verdict = out.into_iter().find_map(|what| match what {
            Do::Owner(Across::Input(input)) => Some(input),
            _ => None,
        });
        match verdict {
            Some(verdict) => assert_eq!(take(&mut owner, 0, verdict), (true, Vec::new())),
            // The bundle is complete at the remote layer, so its verdict is still to come.
            None => {
                let mut out = Vec::new();
                home.on_input(Input::Accepted { ticket: TICKET }, &mut out);
                let [Do::Owner(Across::Input(verdict))] = &out[..] else { panic!("{out:?}") };
                take(&mut owner, 0, verdict.clone());
            }
        }
        assert_eq!((owner.away(), owner.knows(TICKET)), (0, false));
        assert!(last_arrives_first || actions_after(&mut home, [part_of(TICKET, true)]).is_empty());
        assert_eq!(actions_after(&mut home, [part_of(TICKET, true)]).len(), 1, "its number may come again");
    }
}

#[test]
fn layer_bound_starves_no_link() {
    let links = || (0..20).map(LinkId);
    let mut home = RemoteLayer::new(1, links());
    actions_after(&mut home, links().map(|link| Across::Output(Output::Ready { link, ready: true })));
    let mut id = 0;
    let mut give = |home: &mut RemoteLayer, link, len| {
        let mut out = Vec::new();
        id += 1;
        home.on_input(Input::send(link, SendId(id), bytes(len), true), &mut out);
        out
    };
    let reported = |out: &[Do]| -> Vec<(u32, bool)> {
        let ready = |what: &Do| match what {
            Do::Emit(Output::Ready { link, ready }) => Some((link.0, *ready)),
            _ => None,
        };
        out.iter().filter_map(ready).collect()
    };
    // Half of a link's bound, for each of sixteen links, reaches the bound of the layer.
    let mut last = Vec::new();
    for link in 0..16 {
        assert!(reported(&last).is_empty());
        last = give(&mut home, LinkId(link), 2 << 20);
    }
    assert_eq!(reported(&last), (0..16).map(|link| (link, false)).collect::<Vec<_>>(), "who has one gets no more");
    assert_eq!(reported(&give(&mut home, LinkId(17), 10)), [(17, false)], "who has none gets one");
    // Hysteresis: the layer counts as full until half of the bound was taken.
    let taken =
        |home: &mut RemoteLayer, link| actions_after(home, [Across::Taken { link, bundles: 1, bytes: 2 << 20 }]);
    for link in 0..8 {
        assert_eq!(reported(&taken(&mut home, LinkId(link))), [(link, true)], "it has none now");
    }
    let all = reported(&taken(&mut home, LinkId(8)));
    assert!(all.contains(&(17, true)) && all.contains(&(15, true)) && !all.contains(&(3, true)), "{all:?}");
    // A removed link frees its share, and later reports about it do not count.
    for link in 9..16 {
        home.on_input(Input::RemoveLink { link: LinkId(link) }, &mut Vec::new());
        assert!(taken(&mut home, LinkId(link)).is_empty());
    }
    for link in 0..8 {
        assert!(reported(&give(&mut home, LinkId(link), 3 << 20)).is_empty(), "there is room for {link}");
    }
}

#[test]
fn endless_heads_refused_once() {
    let mut owner = layer_owner(1);
    let part = |owner: &mut LayerOwner, ticket, last| {
        owner.part((Ticket(ticket), false), Payload::fill(1, 60 << 10), last, |_, _| None)
    };
    let kept = (0..2000).take_while(|ticket| matches!(part(&mut owner, *ticket, false), Part::Kept)).count() as u64;
    // The default budget of heads is 8 MiB.
    assert_eq!(kept, (8 << 20) / (60 << 10));
    assert!(owner.knows(Ticket(kept)), "the one that was too much");
    assert!(
        matches!(part(&mut owner, kept, false), Part::Dropped) && matches!(part(&mut owner, kept, true), Part::Dropped)
    );
    owner.observe(&Input::Refused { ticket: Ticket(kept), reason: Refusal::NoResources }, &mut Vec::new());
    assert!(!owner.knows(Ticket(kept)));
    // A head's memory is freed when its offer is aborted or refused, or its shard is known.
    sent_after(&mut owner, Output::OfferAborted { ticket: Ticket(0) });
    assert!(matches!(part(&mut owner, 5000, false), Part::Kept));
    assert!(matches!(part(&mut owner, 5001, false), Part::Refused));
    assert!(matches!(part(&mut owner, 1, true), Part::Here { .. }));
    assert!(matches!(part(&mut owner, 5002, false), Part::Kept));
    owner.observe(&Input::Refused { ticket: Ticket(2), reason: Refusal::NoResources }, &mut Vec::new());
    assert!(matches!(part(&mut owner, 5003, false), Part::Kept));
    assert!(matches!(part(&mut owner, 5004, false), Part::Refused));
}

#[test]
fn layer_answers_reach_sending_shard() {
    let id = SendId(77);
    let answers = |id| {
        [
            Output::Want { link: LINK, id, from: 5, len: 6 },
            Output::SentInPart { link: LINK, id, bytes: 9 },
            Output::SendFailed { link: LINK, id, refused: Some(Refusal::TooLarge) },
            Output::Sent { link: LINK, id },
        ]
    };
    let mut owner = layer_owner(1);
    for (answer, wanted) in answers(tagged(2, id)).into_iter().zip(answers(id)) {
        let mut out = Vec::new();
        assert!(owner.on_output(answer, &mut out).is_none(), "the owner's agent did not send it");
        let [(2, Across::Output(came))] = &out[..] else { panic!("{out:?}") };
        assert_eq!(alloc::format!("{came:?}"), alloc::format!("{wanted:?}"));
    }
    for own in answers(id) {
        let mut out = Vec::new();
        assert!(owner.on_output(own, &mut out).is_some() && out.is_empty(), "its own are its own");
    }
    // At the remote layer, `Sent` ends the transmission.
    let mut home = RemoteLayer::new(1, [LINK].into_iter());
    home.on_input(send(77, 1), &mut Vec::new());
    for (answer, says) in answers(id).into_iter().zip([1, 1, 1, 0]) {
        assert_eq!(actions_after(&mut home, [Across::Output(answer)]).len(), says);
    }
}

#[test]
fn agent_requests_keep_transmission_ids() {
    let (mut home, mut owner) = (RemoteLayer::new(1, [LINK].into_iter()), layer_owner(1));
    let id = SendId(77);
    home.on_input(send(77, 1), &mut Vec::new());
    let said = [
        Input::SendMore { link: LINK, id, from: 1, part: bytes(3) },
        Input::SendBroken { link: LINK, id },
        Input::CancelSend { link: LINK, id },
    ];
    for input in said.clone() {
        let mut out = Vec::new();
        home.on_input(input, &mut out);
        let [Do::Owner(Across::Input(input))] = &out[..] else { panic!("{out:?}") };
        let given = owner.take(2, input.clone(), &mut Vec::new());
        let Some(
            Input::SendMore { id: given, .. }
            | Input::SendBroken { id: given, .. }
            | Input::CancelSend { id: given, .. },
        ) = given
        else {
            panic!("{given:?}")
        };
        assert_eq!(untagged(given), Some((2, id)));
    }
    actions_after(&mut home, [Across::Output(Output::Sent { id, link: LINK })]);
    for input in said {
        let mut out = Vec::new();
        home.on_input(input, &mut out);
        assert!(out.is_empty(), "it was answered");
    }
}

#[test]
fn abandoned_remote_offer_clears_account() {
    for ended in [false, true] {
        let mut owner = layer_owner(1);
        drop(owner.part((TICKET, false), bytes(9), ended, |_, _| Some(true)));
        let kept = Input::Kept { ticket: TICKET, bytes: 4 };
        for input in [Input::Hold { ticket: TICKET }, Input::Resume { ticket: TICKET }, kept] {
            assert_eq!(take(&mut owner, 0, input), (true, Vec::new()));
        }
        assert_eq!(owner.away(), if ended { 9 } else { 0 });
        assert_eq!(sent_after(&mut owner, Output::OfferAborted { ticket: TICKET }), [(0, "aborted")]);
        assert_eq!((owner.away(), owner.knows(TICKET)), (0, false));
    }
}

#[test]
fn verdict_ends_remote_offer() {
    for verdict in [Input::Accepted { ticket: TICKET }, Input::Refused { ticket: TICKET, reason: Refusal::Duplicate }] {
        let mut home = RemoteLayer::new(1, [LINK].into_iter());
        actions_after(&mut home, [part_of(TICKET, true)]);
        let mut out = Vec::new();
        home.on_input(verdict, &mut out);
        assert_eq!(out.len(), 1);
        assert_eq!(actions_after(&mut home, [part_of(TICKET, true)]).len(), 1, "its number may come again");
    }
}

#[test]
fn departed_inbound_neighbour_leaves_all_shards() {
    let link = LinkId(LinkId::DYNAMIC | 5);
    let mut owner = layer_owner(1);
    let mut home = RemoteLayer::new(1, core::iter::empty());
    let mut say = |said: Output| {
        let mut out = Vec::new();
        let _own = owner.on_output(said, &mut out);
        assert_eq!(out.iter().filter(|(to, _)| *to == 0).count(), 1);
        assert_eq!(out.len(), 2, "all others hear of it");
        actions_after(&mut home, out.into_iter().filter(|(to, _)| *to == 0).map(|(_, what)| what)).len()
    };
    assert_eq!(say(Output::PeerUp { link, claimed: None, proven: None, node: None }), 1);
    assert_eq!(say(Output::Ready { link, ready: true }), 1);
    assert_eq!(say(Output::PeerDown { link }), 1);
    assert_eq!(say(Output::PeerDown { link }), 0, "once");
    let mut out = Vec::new();
    home.on_input(Input::send(link, SendId(1), bytes(1), true), &mut out);
    assert!(matches!(&out[..], [Do::Emit(Output::SendFailed { .. })]), "there is no such link");
    assert_eq!(
        take(&mut owner, 0, Input::send(link, SendId(1), bytes(1), true)),
        (false, Vec::from(["taken", "failed"]))
    );
}

#[test]
fn inbound_neighbour_announced_in_any_order() {
    let link = LinkId(LinkId::DYNAMIC | 5);
    let introduced = || Output::PeerUp { link, claimed: None, proven: None, node: None };
    let ready = || Output::Ready { link, ready: true };
    for order in [[ready(), introduced()], [introduced(), ready()]] {
        let (mut owner, mut home) = (layer_owner(1), RemoteLayer::new(1, core::iter::empty()));
        let mut actions = Vec::new();
        for said in order {
            let mut out = Vec::new();
            let _own = owner.on_output(said, &mut out);
            let of_home = out.into_iter().filter(|(to, _)| *to == 0).map(|(_, what)| what);
            actions.extend(actions_after(&mut home, of_home));
        }
        assert_eq!(actions.len(), 2, "that it is there, and that it takes bundles");
        let mut repeated = Vec::new();
        owner.repeat(link, &mut repeated);
        let all = [introduced(), ready()].map(|said| alloc::format!("{:?}", Across::Output(said)));
        assert_eq!(repeated.iter().map(|what| alloc::format!("{what:?}")).collect::<Vec<_>>(), all, "who asks later");
        let mut out = Vec::new();
        home.on_input(Input::send(link, SendId(1), bytes(1), true), &mut out);
        let [Do::Owner(Across::Input(bundle))] = &out[..] else { panic!("{out:?}") };
        assert_eq!(take(&mut owner, 0, bundle.clone()), (false, Vec::new()));
        assert!(owner.next(0, &mut |_, _| None).is_some(), "it leaves");
    }
}

#[test]
fn ready_neighbour_gets_bundles_early() {
    // A neighbour may be ready before `PeerUp` introduces it.
    let link = LinkId(LinkId::DYNAMIC | 5);
    let (mut owner, mut home) = (layer_owner(1), RemoteLayer::new(1, core::iter::empty()));
    assert_eq!(sent_after(&mut owner, Output::Ready { link, ready: true }).len(), 2);
    assert_eq!(actions_after(&mut home, [Across::Output(Output::Ready { link, ready: true })]).len(), 1);
    assert_eq!(take(&mut owner, 0, Input::send(link, SendId(1), bytes(1), true)), (false, Vec::new()));
    assert!(owner.next(0, &mut |_, _| None).is_some(), "it leaves");
}

#[test]
fn removed_link_frees_full_layer() {
    let links = || (0..20).map(LinkId);
    let mut home = RemoteLayer::new(1, links());
    actions_after(&mut home, links().map(|link| Across::Output(Output::Ready { link, ready: true })));
    for link in 0..16 {
        home.on_input(Input::send(LinkId(link), SendId(link.into()), bytes(2 << 20), true), &mut Vec::new());
    }
    let mut out = Vec::new();
    (0..9).for_each(|link| home.on_input(Input::RemoveLink { link: LinkId(link) }, &mut out));
    let ready = |what| if let Do::Emit(Output::Ready { link, ready: true }) = what { Some(link) } else { None };
    let freed: Vec<LinkId> = out.into_iter().filter_map(ready).collect();
    assert_eq!(freed, (9..16).map(LinkId).collect::<Vec<_>>(), "they take more, once half is gone");
}

#[test]
fn remote_offer_held_at_owner() {
    let mut home = RemoteLayer::new(1, [LINK].into_iter());
    let said =
        [Input::Hold { ticket: TICKET }, Input::Resume { ticket: TICKET }, Input::Kept { ticket: TICKET, bytes: 4 }];
    let begun = Across::Output(Output::InParts { ticket: TICKET, link: LINK, least: 9 });
    assert_eq!(actions_after(&mut home, [begun]).len(), 1, "it is to be kept in pieces");
    for input in said.clone() {
        let mut out = Vec::new();
        home.on_input(input.clone(), &mut out);
        let [Do::Owner(Across::Input(given))] = &out[..] else { panic!("{out:?}") };
        assert_eq!(alloc::format!("{given:?}"), alloc::format!("{input:?}"));
    }
    assert_eq!(actions_after(&mut home, [Across::Output(Output::OfferAborted { ticket: TICKET })]).len(), 1);
    for input in said {
        let mut out = Vec::new();
        home.on_input(input, &mut out);
        assert!(out.is_empty(), "there is none any more");
    }
}

#[test]
fn meeting_bundles_share_a_shard() {
    let plain = || BundleMeta {
        primary_end: 0,
        id: 1,
        source: EndpointId::ipn(8, 1),
        destination: EndpointId::ipn(9, 1),
        created_ms: 1,
        sequence: 1,
        lifetime_ms: 1000,
        payload: Payload::new(),
        facts: Facts::default(),
        version: 7,
        priority: Priority::Normal,
        duties: Default::default(),
        hop_limit: 0,
        rare: None,
        head: Box::default(),
        tail: 0,
        tail_len: 0,
        digest: 0,
    };
    let owner = LayerOwner::new(
        &super::ShardConfig::new(1, 2, Vec::new()),
        [NodeId::ipn(1), NodeId::ipn(7)].into(),
        [LINK].into_iter(),
    );
    let own = EndpointId::ipn(7, 3);
    assert!(!owner.is_central(&plain()));
    let rare = Rare { report_to: own.clone(), ..Rare::default() }.boxed();
    for (why, bundle) in [
        ("for this node", BundleMeta { destination: own.clone(), ..plain() }),
        ("of this node", BundleMeta { source: own.clone(), ..plain() }),
        ("its reports", BundleMeta { rare, ..plain() }),
        ("for a group", BundleMeta { destination: EndpointId::dtn("group", "~all"), ..plain() }),
        ("custody", BundleMeta { facts: Facts(Facts::CUSTODY), ..plain() }),
    ] {
        assert!(owner.is_central(&bundle), "{why}");
    }
}

#[test]
fn indivisible_config_is_refused() {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let owners = alloc::vec![0; config.layers.len()];
    config.shards = Some(super::ShardConfig::new(0, 2, owners));
    config.node.limits.bundles = 1 << 20;
    assert!(super::check(&config, false).is_ok());
    assert!(super::check(&config, true).is_err(), "copies");
    config.node.limits.bundles = super::SHARD_BUNDLES_MAX + 1;
    assert!(super::check(&config, false).is_err(), "bundles");
    for (own, count) in [(2, 2), (0, 0), (0, 65)] {
        config.node.limits.bundles = 1;
        config.shards = Some(super::ShardConfig::new(own, count, Vec::new()));
        assert!(super::check(&config, false).is_err(), "{own} of {count}");
    }
}

#[test]
fn shards_share_head_budget() {
    // Layers of two shards share one budget: incomplete heads of unconfigured peers at both leave half of it to
    // configured neighbours at either.
    let heads = alloc::sync::Arc::new(super::HeadBudget::new(1000));
    let new = |own| {
        let shard = super::ShardConfig { heads: heads.clone(), ..super::ShardConfig::new(own, 3, Vec::new()) };
        LayerOwner::new(&shard, [NodeId::ipn(1)].into(), [LINK].into_iter())
    };
    let (mut first, mut second) = (new(1), new(2));
    let part = |owner: &mut LayerOwner, ticket, strange| {
        matches!(owner.part((Ticket(ticket), strange), bytes(100), false, |_, _| None), Part::Kept)
    };
    let strange = (0..9).filter(|ticket| part(if ticket % 2 == 0 { &mut first } else { &mut second }, *ticket, true));
    assert_eq!((strange.count(), heads.used()), (5, 500), "strangers have half of all, not of each");
    assert!((20..25).all(|ticket| part(&mut second, ticket, false)), "neighbours have the rest");
    assert!(!part(&mut first, 30, false), "which is all there is");
    (0..9)
        .chain(20..25)
        .for_each(|ticket| drop([&mut first, &mut second].map(|owner| sent_after(owner, aborted(ticket)))));
    assert_eq!(heads.used(), 0);
    assert!(part(&mut first, 40, true));
}

fn aborted(ticket: u64) -> Output {
    Output::OfferAborted { ticket: Ticket(ticket) }
}

#[test]
fn undecided_head_owns_its_bytes() {
    // Kept parts are copied, so that they keep no larger receive buffer in memory.
    let mut owner = layer_owner(1);
    let buffer = alloc::vec![7; 1 << 20];
    let buffer = farlink_base::Payload::from(buffer);
    let part = buffer.slice(0, 50 << 10);
    let mut seen = None;
    let kept = owner.part((Ticket(1), true), part, false, |_, _| None);
    assert!(matches!(kept, Part::Kept));
    let more = owner.part((Ticket(1), true), bytes(20 << 10), false, |_, head| {
        seen = head.to_bytes();
        Some(false)
    });
    let Part::Here { part, .. } = more else { panic!("it is this shard's") };
    assert_eq!((part.len(), seen.map(|seen| seen.len())), (70 << 10, Some(64 << 10)));
    let (own, shared) = (part.slice(0, 100).to_bytes().unwrap(), buffer.to_bytes().unwrap());
    let inside = shared.as_ptr_range().contains(&own.as_ptr());
    assert!(!inside, "it has memory of its own");
}

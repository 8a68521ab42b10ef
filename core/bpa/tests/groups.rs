//! Non-singleton endpoints (RFC 9171 section 4.2.5.1.1): delivered to local members and forwarded.

use crate::support;

use crate::support::{Bundle, NOW_UTC, Node, Rule, Script, from_two, request, settings};
use farlink_base::{BundleHandle, DeleteReason, DtnTime, EndpointId, Facts, Payload, Priority, Refusal, store};
use farlink_bpa::app::{AppInput, AppOutput, DeliveryId, RegistrationId};
use farlink_bpa::{Input, Output, Reading, Settings};

fn news() -> EndpointId {
    EndpointId::dtn("any", "~news")
}
fn flood() -> Node {
    Node::routed(Script::flood())
}
fn join(node: &mut Node, member: u64) {
    node.tell(Input::App(AppInput::Register { registration: RegistrationId(member), endpoint: news(), window: 1 }));
}
fn leave(node: &mut Node, member: u64) {
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(member) }));
}
/// Deliveries so far: member, sequence number, and whether the delivery was marked as a possible repetition.
fn had(node: &Node) -> Vec<(u64, u64, bool)> {
    all(node).iter().map(|(member, _, sequence, again)| (*member, *sequence, *again)).collect()
}
fn all(node: &Node) -> Vec<(u64, DeliveryId, u64, bool)> {
    let pick = |o: &Output| match o {
        Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
            Some((registration.0, *delivery, bundle.creation.sequence, bundle.redelivered))
        }
        _ => None,
    };
    node.said.iter().filter_map(pick).collect()
}
/// Answers the last delivery to a member.
fn answer(node: &mut Node, member: u64, taken: bool) {
    let (_, delivery, ..) = *all(node).iter().rev().find(|(whose, ..)| *whose == member).expect("a delivery");
    let registration = RegistrationId(member);
    node.tell(Input::App(AppInput::DeliveryDone { registration, delivery, taken }));
}

#[test]
fn group_bundle_reaches_member_and_neighbour() {
    let mut node = flood();
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    assert_eq!((had(&node), node.sent_over(1)), (vec![(1, 1, false)], vec![1]));
    answer(&mut node, 1, true);
    node.confirm(node.sent()[0].id);
    assert_eq!(node.held(), 1, "it is carried for others");
    node.send(news(), Priority::Normal);
    assert_eq!((had(&node).len(), node.sent_over(0).len(), node.sent_over(1).len()), (2, 1, 2));
}

#[test]
fn late_member_gets_held_bundles_once() {
    // A group bundle stays for forwarding, so members that join later can still get it.
    let mut node = flood();
    join(&mut node, 1);
    join(&mut node, 2);
    node.receive(1, from_two(1, news()));
    answer(&mut node, 2, true);
    node.receive(2, from_two(2, news()).priority(Priority::Expedited));
    node.receive(3, from_two(3, EndpointId::dtn("any", "~other")));
    answer(&mut node, 1, true);
    assert_eq!(had(&node), [(1, 1, false), (2, 1, false), (2, 2, false), (1, 2, false)], "each at its own pace");
    answer(&mut node, 1, true);
    answer(&mut node, 2, true);
    join(&mut node, 3);
    assert_eq!(had(&node)[4..], [(3, 1, false)]);
    answer(&mut node, 3, true);
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(had(&node)[5..], [(3, 2, false)]);
    answer(&mut node, 3, true);
    assert_eq!((had(&node).len(), node.agent.counts().deliveries), (6, 0));
}

#[test]
fn returning_member_gets_marked_bundles() {
    // A registration has no name, so whoever joins after another left may be the same application.
    let mut node = flood();
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    answer(&mut node, 1, true);
    leave(&mut node, 1);
    node.receive(2, from_two(2, news()));
    join(&mut node, 2);
    answer(&mut node, 2, true);
    assert_eq!(had(&node)[1..], [(2, 1, true), (2, 2, false)], "nobody had the second");
    // One that left with an answer still to give may have had it as well.
    let mut node = flood();
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    leave(&mut node, 1);
    join(&mut node, 2);
    assert_eq!(had(&node), [(1, 1, false), (2, 1, true)]);
}

#[test]
fn rejoining_member_gets_no_duplicate() {
    // Few departed members are remembered. Because one of them took the bundle, the node refuses another copy of it as
    // a duplicate.
    let mut node =
        Node::with(Settings { routes: vec![("dtn://any/*".into(), EndpointId::ipn(3, 0))], ..settings() }, None);
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    node.confirm(node.sent()[0].id);
    for member in 2..500 {
        join(&mut node, member);
        answer(&mut node, member, member == 2);
        leave(&mut node, member);
        assert!(node.agent.counts().members <= 20, "{member}");
    }
    leave(&mut node, 1);
    assert_eq!((node.held(), node.agent.counts().members), (0, 0));
    node.receive(2, from_two(1, news()).labels([1, 1]));
    assert_eq!(node.verdicts().last(), Some(&(2, Err(Refusal::Duplicate))), "somebody here had it");
}

#[test]
fn group_duplicate_refused_after_delivery_too() {
    let settings = Settings { routes: vec![("dtn://any/*".into(), EndpointId::ipn(3, 0))], ..settings() };
    let mut node = Node::of(settings, None, support::NoRouter, Rule::default());
    join(&mut node, 1);
    let bundle = || from_two(1, news()).labels([1, 1]);
    node.receive(1, bundle());
    node.receive(2, bundle());
    node.confirm(node.sent()[0].id);
    assert_eq!(node.held(), 1, "who is to have it here has not taken it");
    assert!(node.waits_for().contains("the answer of the application at dtn://any/~news"), "{}", node.waits_for());
    answer(&mut node, 1, true);
    assert_eq!((node.held(), node.forgotten()), (0, vec![(1, true)]));
    node.receive(3, bundle());
    let duplicate = Err(Refusal::Duplicate);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, duplicate), (3, duplicate)]);
    assert_eq!(had(&node).len(), 1);
    leave(&mut node, 1);
    // No member took the second bundle, so another copy of it is accepted as usual.
    node.receive(4, from_two(2, news()));
    node.confirm(node.sent()[1].id);
    node.receive(5, from_two(2, news()));
    assert_eq!(node.verdicts()[3..], [(4, Ok(())), (5, Ok(()))]);
}

#[test]
fn failed_member_delivery_repeats_marked() {
    let mut node = flood();
    join(&mut node, 1);
    join(&mut node, 2);
    node.receive(1, from_two(1, news()));
    answer(&mut node, 1, false);
    assert_eq!(had(&node), [(1, 1, false), (2, 1, false), (1, 1, true)]);
    node.unreadable(Reading::Delivery(all(&node)[1].1), false);
    node.wait_ms(20_000);
    assert_eq!(had(&node)[3..], [(2, 1, false)]);
    leave(&mut node, 2);
    answer(&mut node, 1, true);
    assert_eq!((node.held(), node.agent.counts().deliveries), (1, 0));
}

#[test]
fn group_bundles_expire() {
    let mut node = flood();
    join(&mut node, 1);
    node.receive(1, from_two(1, news()).lifetime_ms(500));
    node.receive(2, from_two(2, news()).lifetime_ms(500));
    node.wait_ms(1000);
    assert_eq!((node.deleted(), node.held()), (vec![DeleteReason::Expired; 2], 0));
    assert_eq!((had(&node).len(), node.agent.counts().deliveries), (1, 0));
    node.receive(3, from_two(3, news()));
    assert_eq!(had(&node).len(), 1, "what a member had not answered is with it still");
    answer(&mut node, 1, true);
    assert_eq!(had(&node)[1..], [(1, 3, false)]);
}

/// Keeps 9171-5.4.2-2, 5050-5.4.2-2.
#[test]
fn exhausted_hop_limit_still_serves_members() {
    // The hop limit ends forwarding, not local delivery (RFC 9171 section 4.4.3).
    for taken in [true, false] {
        let mut node = flood();
        join(&mut node, 1);
        node.receive(1, from_two(1, news()).hops(3, 3));
        assert_eq!((had(&node).len(), node.sent().len(), node.held()), (1, 0, 1));
        if taken {
            answer(&mut node, 1, true)
        } else {
            leave(&mut node, 1)
        }
        let why = if taken { DeleteReason::Done } else { DeleteReason::HopLimit };
        assert_eq!((node.held(), node.deleted()), (0, vec![why]));
    }
}

#[test]
fn members_get_durable_bundles_only() {
    // A bundle delivered before it is durable could be delivered again after a crash, without the mark for repetitions.
    let mut node = flood();
    node.commit = false;
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    node.receive(2, from_two(2, news()));
    assert_eq!((had(&node).len(), node.sent().len()), (0, 2));
    let records = node.put();
    node.store_refuses(records[0]);
    node.stored(records[1]);
    assert_eq!(had(&node), [(1, 2, false)]);
    node.confirm(node.sent()[0].id);
    leave(&mut node, 1);
    assert_eq!(node.agent.counts().deliveries, 0);
}

#[test]
fn restart_repeats_group_deliveries_marked() {
    let mut node = flood();
    let (meta, hop) = from_two(1, news()).parts();
    let index = store::IndexEntry {
        priority: Priority::Normal,
        expires: None,
        stored_at: Some(DtnTime(NOW_UTC.0)),
        ran_ms: None,
        age_ms: 0,
        quota: 0,
        fingerprint: meta.id,
        flags: 0,
        digest: 0,
    };
    node.tell(Input::Recovered { bundle: BundleHandle(40), index, meta, hop });
    join(&mut node, 1);
    assert_eq!((had(&node), node.sent_over(1)), (vec![(1, 1, true)], vec![1]));
}

#[test]
fn group_delivery_reported_once() {
    // The report is about this node, not about each member.
    let settings = crate::support::reporting(true);
    let mut node = Node::of(settings, None, Script::flood(), Rule::default());
    join(&mut node, 1);
    join(&mut node, 2);
    node.receive(1, from_two(1, news()).facts(Facts::REPORT_DELIVERY).report_to(EndpointId::ipn(2, 0)));
    node.said.retain(|o| matches!(o, Output::App(_)));
    answer(&mut node, 1, true);
    answer(&mut node, 2, true);
    let about = |s: &support::Sent| s.bundle.is_administrative();
    assert_eq!(node.sent().iter().filter(|s| about(s) && s.link.0 == 0).count(), 1);
}

#[test]
fn encrypted_group_bundle_forwarded_only() {
    let mut node = flood();
    join(&mut node, 1);
    node.receive(1, from_two(1, news()).facts(Facts::SEALED));
    assert_eq!((had(&node).len(), node.sent_over(1)), (0, vec![1]));
}

#[test]
fn group_is_neither_source_nor_own_node() {
    let settings = Settings { node_ids: vec![EndpointId::dtn("mars", "")], ..settings() };
    let mut node = Node::of(settings, None, Script::flood(), Rule::default());
    let here = EndpointId::dtn("mars", "~news");
    node.ask(farlink_bpa::app::SendRequest { source: here.clone(), ..request(news(), Priority::Normal) });
    assert_eq!(node.results(), [false]);
    let register = AppInput::Register { registration: RegistrationId(1), endpoint: here.clone(), window: 1 };
    node.tell(Input::App(register));
    node.receive(1, Bundle::new(EndpointId::ipn(2, 5), here, 1).payload(Payload::fill(1, 9)));
    assert_eq!((had(&node).len(), node.sent_over(1)), (1, vec![1]));
}

#[test]
fn leaving_member_releases_its_bundles() {
    let routes = vec![("dtn://any/*".into(), EndpointId::ipn(3, 0))];
    let mut node = Node::with(Settings { routes, ..settings() }, None);
    join(&mut node, 1);
    for n in 1..=3 {
        node.receive(n, from_two(n, news()));
    }
    node.sent().iter().for_each(|sent| node.confirm(sent.id));
    assert_eq!(node.held(), 3, "one is with the member, two are in its line");
    leave(&mut node, 1);
    assert_eq!((node.held(), node.agent.counts().members), (0, 0));
}

#[test]
fn refused_group_bundle_leaves_once_sent() {
    let routes = vec![("dtn://any/*".into(), EndpointId::ipn(3, 0))];
    let mut node = Node::with(Settings { routes, ..settings() }, None);
    node.commit = false;
    join(&mut node, 1);
    node.receive(1, from_two(1, news()));
    node.store_refuses(node.put()[0]);
    assert_eq!((node.held(), node.sent().len()), (1, 1), "it is on its way");
    node.confirm(node.sent()[0].id);
    assert_eq!((node.held(), node.agent.counts().members, had(&node)), (0, 0, vec![]));
}

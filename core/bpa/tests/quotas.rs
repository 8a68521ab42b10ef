//! Operators' quotas for sources and neighbours, and their limit of lifetimes.

use crate::support;

use crate::support::{Bundle, Node};
use farlink_base::{DeleteReason, Duration, EndpointId, Facts, Payload, Priority, Refusal};
use farlink_bpa::Quota;
use farlink_bpa::app::AdminInput;

fn quota(sources: &[&str], neighbours: &[&str], bytes: u64, bundles: u64) -> Quota {
    let texts = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.to_string()).collect();
    Quota { sources: texts(sources), neighbours: texts(neighbours), bytes, bundles }
}
fn node(quotas: Vec<Quota>) -> Node {
    let mut node = Node::new();
    node.agent.set_quotas(quotas);
    node
}
fn bundle(source: u64, sequence: u64) -> Bundle {
    Bundle::new(EndpointId::ipn(source, 5), EndpointId::ipn(77, 1), sequence).payload(Payload::fill(1, 959))
}
fn verdict(node: &Node, ticket: u64) -> Result<(), Refusal> {
    node.verdicts().iter().find(|(of, _)| *of == ticket).expect("there is one").1
}
const FULL: Result<(), Refusal> = Err(Refusal::NoResources);

#[test]
fn full_quota_refuses_until_room() {
    for (quotas, most) in
        [(quota(&["ipn:2.*", "ipn:4.0"], &[], 3500, u64::MAX), 3), (quota(&["*"], &[], u64::MAX, 2), 2)]
    {
        let others = quotas.sources[0] != "*";
        let mut node = node(vec![quotas]);
        for n in 0..6 {
            node.receive(n, bundle(if n % 2 == 0 { 2 } else { 4 }, n));
            assert_eq!(verdict(&node, n), if n < most { Ok(()) } else { FULL });
        }
        node.receive(10, bundle(5, 10));
        assert_eq!(verdict(&node, 10).is_ok(), others, "others find room");
        let status = &node.agent.status(node.now).quotas[0];
        assert_eq!((status.bundles, status.refused), (most, if others { 6 - most } else { 7 - most }));
        let first = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].handle;
        node.admin(AdminInput::Cancel { bundle: first });
        node.receive(20, bundle(2, 20));
        assert_eq!(verdict(&node, 20), Ok(()), "at once");
        node.receive(21, bundle(2, 21));
        assert_eq!(verdict(&node, 21), FULL);
    }
}

#[test]
fn quota_counts_by_previous_node() {
    // Quotas of neighbours count by the previous node, whatever the source.
    let mut node = node(vec![quota(&[], &["ipn:2.0"], 1 << 20, 2), quota(&[], &["ipn:3.*"], 1 << 20, 1)]);
    for n in 0..3 {
        node.receive_over(0, n, bundle(100 + n, n));
        node.receive_over(1, 10 + n, bundle(100 + n, 10 + n));
    }
    let taken: Vec<u64> = node.verdicts().iter().filter(|(_, v)| v.is_ok()).map(|(t, _)| *t).collect();
    assert_eq!(taken, [0, 10, 1]);
    node.send(EndpointId::ipn(77, 1), Priority::Normal);
    assert_eq!(node.results(), [true], "what is made here is nobody's gift");
}

#[test]
fn proven_name_moves_quota_charge() {
    // Bundles that came over the link before the proof are charged to the proven name, too.
    let two: EndpointId = "dtn://two/".parse().unwrap();
    let mut node = node(vec![quota(&[], &["ipn:2.0"], 1 << 20, 9), quota(&[], &["dtn://two/"], 1 << 20, 3)]);
    let counts = |node: &Node| node.agent.status(node.now).quotas.iter().map(|q| q.bundles).collect::<Vec<_>>();
    node.receive_over(0, 1, bundle(100, 1));
    assert_eq!(counts(&node), [1, 0]);
    let link = farlink_base::LinkId(0);
    node.tell(farlink_bpa::Input::PeerUp { link, claimed: None, node: None, proven: Some(two) });
    assert_eq!(counts(&node), [0, 1], "what it gave before, too");
    for n in 2..8 {
        node.receive_over(0, n, bundle(100, n));
    }
    assert_eq!((counts(&node), verdict(&node, 3), verdict(&node, 4)), (vec![0, 3], Ok(()), FULL));
    let held = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 9);
    held.iter().for_each(|row| node.admin(AdminInput::Cancel { bundle: row.handle }));
    assert_eq!(counts(&node), [0, 0], "nothing is left behind");
}

#[test]
fn claimed_name_leaves_owner_quota() {
    // An unconfigured peer uses a configured name as source or as its own name.
    for quotas in [vec![quota(&["ipn:2.0"], &[], 1 << 20, 10)], vec![quota(&[], &["ipn:2.0"], 1 << 20, 10)]] {
        let mut node = node(quotas);
        let stranger = node.comes(0, EndpointId::ipn(2, 0));
        for n in 0..30 {
            node.receive_over(stranger, n, bundle(2, n));
        }
        let quota = &node.agent.status(node.now).quotas[0];
        assert_eq!((quota.bundles, quota.strangers.0), (10, 10), "a quota holds for strangers, too, apart from others");
        for n in 100..111 {
            node.receive_over(0, n, bundle(2, n));
            assert_eq!(verdict(&node, n), if n < 110 { Ok(()) } else { FULL }, "{n}");
        }
        let held = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 99);
        held.iter().for_each(|row| node.admin(AdminInput::Cancel { bundle: row.handle }));
        let quota = &node.agent.status(node.now).quotas[0];
        assert_eq!((quota.bundles, quota.strangers), (0, (0, 0)), "nothing is left behind");
    }
}

#[test]
fn name_in_bundle_gains_no_quota() {
    // The peer names itself in the previous node block from its second bundle on. Its first bundle is then charged to
    // that name, too.
    let mut node = node(vec![quota(&[], &["ipn:8.0"], 1 << 20, 3)]);
    let link = farlink_base::LinkId(farlink_base::LinkId::DYNAMIC);
    node.tell(farlink_bpa::Input::PeerUp { link, claimed: None, node: None, proven: None });
    node.receive_over(link.0, 1, bundle(100, 1));
    for n in 2..8 {
        node.receive_over(link.0, n, bundle(100, n).previous(8));
    }
    assert_eq!(node.agent.status(node.now).quotas[0].bundles, 3);
    assert_eq!((verdict(&node, 3), verdict(&node, 4)), (Ok(()), FULL));
}

#[test]
fn nameless_neighbour_counts_to_common_quota() {
    let mut node = node(vec![quota(&[], &["*"], 1 << 20, 3)]);
    let link = farlink_base::LinkId(farlink_base::LinkId::DYNAMIC);
    node.tell(farlink_bpa::Input::PeerUp { link, claimed: None, node: None, proven: None });
    for n in 1..6 {
        node.receive_over(link.0, n, bundle(100, n));
    }
    assert_eq!((verdict(&node, 3), verdict(&node, 4)), (Ok(()), FULL));
}

#[test]
fn own_node_quota_binds_applications() {
    let mut node = node(vec![quota(&["ipn:1.0"], &[], 1 << 20, 2)]);
    (0..3).for_each(|_| node.send(EndpointId::ipn(77, 1), Priority::Normal));
    assert_eq!(node.results(), [true, true, false]);
}

#[test]
fn bundle_above_quota_refused_at_head() {
    // A bundle that never fits is refused as too large, one that does not fit now for lack of resources.
    let mut node = node(vec![quota(&["ipn:2.0"], &[], 5000, u64::MAX)]);
    node.begins(0, 1, bundle(2, 1).payload(Payload::fill(1, 6000)));
    assert_eq!(verdict(&node, 1), Err(Refusal::TooLarge));
    node.receive(2, bundle(2, 2).payload(Payload::fill(1, 3000)));
    node.begins(0, 3, bundle(2, 3).payload(Payload::fill(1, 3000)));
    assert_eq!(verdict(&node, 3), FULL);
    assert_eq!(node.agent.status(node.now).quotas[0].refused, 2);
}

#[test]
fn new_quotas_count_held_bundles() {
    // Operators change quotas at run time, so counters start from the held bundles.
    for before in [vec![], vec![quota(&["ipn:9.0"], &[], 1, 1)]] {
        let mut node = node(before);
        for n in 0..4 {
            node.receive(n, bundle(2, n));
        }
        node.agent.set_quotas(vec![quota(&["ipn:2.0"], &[], u64::MAX, 5)]);
        assert_eq!(node.agent.status(node.now).quotas[0].bundles, 4);
        node.receive(10, bundle(2, 10));
        node.receive(11, bundle(2, 11));
        assert_eq!((verdict(&node, 10), verdict(&node, 11)), (Ok(()), FULL));
        node.agent.set_quotas(vec![]);
        node.receive(12, bundle(2, 12));
        assert_eq!((verdict(&node, 12), node.agent.status(node.now).quotas.len()), (Ok(()), 0));
        node.agent.set_quotas(vec![quota(&["*"], &[], u64::MAX, 6)]);
        assert_eq!(node.agent.status(node.now).quotas[0].bundles, 6);
    }
}

#[test]
fn quota_counters_return_to_zero() {
    let mut node = node(vec![quota(&["*"], &[], 20_000, 15)]);
    for round in 0..50 {
        for n in 0..20 {
            let came = bundle(2 + n % 5, 100 * round + n).created_ms(support::NOW_UTC.0 + 1000 * round);
            node.receive_over((n % 2) as u32, 100 * round + n, came.lifetime_ms(500));
        }
        node.wait(Duration::from_secs(1));
        let status = node.agent.status(node.now).quotas.remove(0);
        assert_eq!((status.bundles, status.bytes, status.refused), (0, 0, 5 * (round + 1)));
    }
}

fn short(lifetime_s: u32) -> Node {
    let mut settings = crate::support::reporting(true);
    settings.limits.lifetime_s = lifetime_s;
    Node::with(settings, None)
}

/// Keeps 9171-4.3.1-7, 9171-5.5-2.
#[test]
fn lifetime_limit_applies_locally_only() {
    let mut node = short(10);
    let long = bundle(2, 1).lifetime_ms(60_000);
    node.receive(1, long.clone().facts(Facts::REPORT_DELETION).report_to(EndpointId::ipn(77, 9)));
    node.receive(2, bundle(2, 2).lifetime_ms(5000));
    let rows = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 9);
    assert_eq!(
        rows.iter().map(|row| (row.remaining_ms, row.shortened)).collect::<Vec<_>>(),
        [(10_000, true), (5000, false)]
    );
    node.wait(Duration::from_secs(6));
    assert_eq!(node.deleted(), [DeleteReason::Expired]);
    node.wait(Duration::from_secs(5));
    assert_eq!(node.deleted()[..2], [DeleteReason::Expired, DeleteReason::TrafficPared]);
    // A bundle forwarded in time keeps the lifetime that it came with.
    let mut node = short(10);
    let mut passing = long;
    passing.meta.destination = EndpointId::ipn(3, 1);
    node.receive(1, passing);
    assert_eq!(node.sent()[0].bundle.lifetime_ms, 60_000);
    // A limit of 0 overrides no lifetime.
    let mut node = short(0);
    node.receive(1, bundle(2, 1).lifetime_ms(60_000));
    node.wait(Duration::from_secs(59));
    assert_eq!(node.held(), 1);
    node.wait(Duration::from_secs(2));
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
}

#[test]
fn lifetime_limit_spares_duplicate_memory() {
    // Copies in other nodes live for the full lifetime, so the memory of the delivery must as well.
    let mut node = short(10);
    node.send(EndpointId::ipn(77, 1), Priority::Normal);
    node.register(1);
    let mine = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(1, 1), 1).lifetime_ms(60_000);
    node.receive(1, mine.clone());
    let (id, _) = node.deliveries()[0];
    node.done(id, true);
    node.wait(Duration::from_secs(11));
    assert_eq!(node.held(), 0);
    node.receive(2, mine);
    assert_eq!(node.deliveries().len(), 1, "it is not delivered again");
}

//! Lists of held bundles, one slice at a time, while bundles come and go.

use crate::support::{Node, plan, settings};
use farlink_base::{BundleHandle, Duration, EndpointId, Priority, Refusal};
use farlink_bpa::Settings;
use farlink_bpa::app::AdminInput;
use std::collections::BTreeMap;

fn send(node: &mut Node, to: u64, count: u64) {
    (0..count).for_each(|_| node.send(EndpointId::ipn(to, 1), Priority::Normal));
}

#[test]
fn list_resumes_behind_departed_bundle() {
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..settings() }, None);
    send(&mut node, 77, 2000);
    let list = node.agent.begin_list();
    let (mut seen, mut calls) = (Vec::new(), 0);
    loop {
        let (rows, more) = node.agent.page(node.now, list, 0, 300);
        assert!(rows.len() <= 300);
        seen.extend(rows.iter().map(|row| row.handle.0));
        calls += 1;
        if !more {
            break;
        }
        // The list must continue although two bundles leave: the last one listed, and one that is not listed yet.
        let last = *seen.last().unwrap();
        node.admin(AdminInput::Cancel { bundle: BundleHandle(last) });
        node.admin(AdminInput::Cancel { bundle: BundleHandle(last + 5) });
    }
    assert!(seen.is_sorted() && seen.len() > 1980 && calls >= 7, "{} in {calls} calls", seen.len());
    node.agent.end_list(list);
    assert!(node.agent.page(node.now, list, 0, 10).0.is_empty(), "it is over");
}

#[test]
fn page_behind_forgotten_bundle_skips_older() {
    // `page` starts from a number, not from a position in the book: it must skip all bundles up to number 1000.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..settings() }, None);
    send(&mut node, 77, 1200);
    let list = node.agent.begin_list();
    let (mut rows, mut more) = node.agent.page(node.now, list, 1000, 10);
    assert!(rows.is_empty() && more, "the first slice has none of them");
    while rows.len() < 10 && more {
        let next = node.agent.page(node.now, list, 1000, 10 - rows.len());
        rows.extend(next.0);
        more = next.1;
    }
    assert_eq!(rows.iter().map(|row| row.handle.0).collect::<Vec<_>>(), (1001..=1010).collect::<Vec<u64>>());
}

#[test]
fn departures_are_listed_and_summed() {
    // Three bundles wait for different reasons: a contact, so that the time of departure is known; a route, so that it
    // is not; and the next attempt at a full neighbour.
    let mut node = Node::with(settings(), Some(plan(100, 200, 1_000_000)));
    send(&mut node, 2, 3);
    send(&mut node, 77, 2);
    node.send(EndpointId::ipn(3, 1), Priority::Normal);
    let id = node.sent()[0].id;
    node.fail(id, Some(Refusal::NoResources));
    let rows = node.agent.bundles(node.now, BundleHandle(0), 10);
    let of: BTreeMap<&str, (Option<Duration>, String)> =
        rows.iter().map(|row| (row.reason, (row.leaves.map(|at| at.since(node.now)), row.waits_for.clone()))).collect();
    assert_eq!(of["contact"], (Some(Duration::from_secs(100)), "contact with ipn:2.0 starts in 100 s".into()));
    assert_eq!(of["no route"], (None, "no route to ipn:77.0".into()));
    let (again, why) = &of["neighbour full"];
    assert!(again.is_some_and(|at| at <= Duration::from_secs(1)) && why.contains("ipn:3.0 refused it"), "{why}");
    let list = node.agent.begin_list();
    let (sums, more) = node.agent.sums(node.now, list);
    let told: Vec<(String, &str, u64)> =
        sums.iter().map(|sum| (sum.destination.to_string(), sum.reason, sum.bundles)).collect();
    assert_eq!((told.len(), more), (3, false), "{told:?}");
    for sum in
        [("ipn:2.0".into(), "contact", 3), ("ipn:77.0".into(), "no route", 2), ("ipn:3.0".into(), "neighbour full", 1)]
    {
        assert!(told.contains(&sum), "{told:?}");
    }
    assert_eq!(sums.iter().map(|sum| sum.bytes).sum::<u64>(), node.agent.status(node.now).bytes);
}

#[test]
fn ended_list_returns_nothing() {
    let mut node = Node::new();
    send(&mut node, 77, 3);
    let list = node.agent.begin_list();
    assert_eq!(node.agent.page(node.now, list, 0, 1).0.len(), 1);
    node.agent.end_list(list);
    assert!(node.agent.page(node.now, list, 0, 10).0.is_empty());
}

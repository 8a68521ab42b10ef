//! Bundles sent in pieces that must be sent again: all bytes leave again, whichever left before.

use crate::support::{Bundle, Node, Sent, from_two, link, settings};
use farlink_base::{DataVolume, Duration, EndpointId};
use farlink_bpa::{CustodySettings, LinkSettings, Settings};

/// A node whose link onward takes 400 bytes, so that a bundle of 1,000 bytes is fragmented.
fn narrow(custody: Option<CustodySettings>) -> Node {
    let links = vec![link(0), LinkSettings { largest: Some(DataVolume(400)), ..link(1) }];
    Node::with(Settings { links, custody: custody.map(Box::new), ..settings() }, None)
}
fn through() -> Bundle {
    from_two(1, EndpointId::ipn(9, 1))
}
fn pieces(node: &mut Node) -> Vec<Sent> {
    node.take_sent().into_iter().filter(|sent| !sent.bundle.is_administrative()).collect()
}
/// Whether these pieces cover each of the 1,000 bytes once.
fn is_all_of_it(sent: &[Sent]) -> bool {
    let mut ranges: Vec<_> = sent.iter().filter_map(|sent| sent.cut.clone()).collect();
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    let follow = ranges.iter().all(|range| std::mem::replace(&mut end, range.end) == range.start);
    ranges.len() == sent.len() && follow && end == 1000
}

#[test]
fn bundle_returning_amid_pieces_resent_whole() {
    let mut node = narrow(None);
    node.receive(1, through().hops(1, 5));
    let first = pieces(&mut node);
    assert!(first.len() > 2 && is_all_of_it(&first));
    node.receive_over(1, 2, through().hops(3, 5));
    assert_eq!(node.verdicts(), [(2, Ok(()))]);
    first.iter().for_each(|sent| node.confirm(sent.id));
    assert_eq!(node.held(), 1, "the confirmations are of what left before");
    node.wait_ms(1500);
    let again = pieces(&mut node);
    assert!(is_all_of_it(&again), "{:?}", again.iter().map(|sent| sent.cut.clone()).collect::<Vec<_>>());
    again.iter().for_each(|sent| node.confirm(sent.id));
    assert_eq!(node.held(), 0);
}

#[test]
fn pieces_without_signal_resent_whole() {
    let timeout = Duration::from_secs(10);
    let mut node = narrow(Some(CustodySettings { timeout, ..CustodySettings::default() }));
    node.receive(1, through().custody(2, None));
    let first = pieces(&mut node);
    assert!(first.len() > 2 && is_all_of_it(&first));
    first.iter().for_each(|sent| node.confirm(sent.id));
    node.wait(Duration::from_secs(9));
    assert!(pieces(&mut node).is_empty(), "the signal may still come");
    node.wait(Duration::from_secs(2));
    assert!(is_all_of_it(&pieces(&mut node)), "after ten seconds without one");
}

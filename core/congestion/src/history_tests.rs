//! Tests of the history, with true and false reports.

use super::*;
use crate::testing::ControlSite;
use farlink_book::Handle;

const TELLER: NodeId = NodeId(2);

fn site_at(second: u64) -> ControlSite {
    let mut site = ControlSite::new(1 << 20);
    site.now = Instant(second * 1_000_000_000);
    site
}
/// A bundle created by node 1 at second 1,000, which lives for an hour.
fn keep(site: &mut ControlSite) -> Handle {
    site.keep_with(9, 100, |_, new| new.expires = Instant(4_600_000_000_000))
}
fn counts(history: &mut History, site: &ControlSite, ages: &[u32]) -> Vec<(f64, f64)> {
    history.counted = None;
    history.count(site.now);
    ages.iter().map(|age| history.samples(*age).0[0]).map(|s| (s.seen, s.copies)).collect()
}

#[test]
fn holders_at_an_age_are_counted() {
    let (mut site, mut history) = (site_at(1000), History::new(100));
    let bundle = keep(&mut site);
    history.have(&site.node(), site.held(bundle), true);
    let id = site.held(bundle).bundle.id;
    // Node 2 had it from 150 s to 320 s, node 3 from 250 s on.
    let had = |from, until, said| Had { from, until, said };
    let holders = [(NodeId(2), had(150, 320, 320)), (NodeId(3), had(250, STILL, 250))];
    site.now = Instant(1_500_000_000_000);
    history.learn(&site.node(), (id, 1000, NodeId(1)), &holders, Some(NodeId(2)));
    assert_eq!(
        counts(&mut history, &site, &[0, 199, 200, 300, 499, 9_000]),
        [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (2.0, 2.0), (2.0, 2.0), (2.0, 2.0)]
    );
    assert_eq!(history.others(), 2.0);
    history.have(&site.node(), site.held(bundle), false);
    site.now = Instant(1_700_000_000_000);
    assert_eq!(counts(&mut history, &site, &[499, 500, 600]), [(2.0, 2.0), (2.0, 1.0), (2.0, 1.0)]);
    history.count(site.now);
    let (before, after, share) = history.samples(425);
    assert_eq!((before.len(), after[0].copies, share), (1, 1.0, 0.25));
}

#[test]
fn records_spread_once_and_newest_wins() {
    let (mut here, mut ours, mut theirs) = (site_at(1100), History::new(100), History::new(100));
    let bundle = keep(&mut here);
    ours.have(&here.node(), here.held(bundle), true);
    let there = ControlSite { now: here.now, ..ControlSite::new(9) };
    let other = Node { me: NodeId(2), ..there.node() };
    let message = ours.message(here.now, NodeId(2));
    assert_eq!(message.len(), 40 + 24);
    assert_eq!(theirs.read(&other, TELLER, &message), Some(()));
    assert_eq!((theirs.records.len(), theirs.nodes.last.len()), (1, 1));
    here.now = Instant(1_150_000_000_000);
    assert_eq!(ours.message(here.now, NodeId(2)), [], "nothing new");
    assert_eq!(ours.message(here.now, NodeId(3)).len(), 64);
    // The next message to node 2 has only the change.
    ours.have(&here.node(), here.held(bundle), false);
    let newer = ours.message(here.now, NodeId(2));
    let other = Node { now: here.now, me: NodeId(2), ..there.node() };
    for message in [&newer, &message] {
        assert_eq!(theirs.read(&other, TELLER, message), Some(()));
        let had = theirs.records.values().next().and_then(|record| record.holders.get(&NodeId(1)));
        assert_eq!(had, Some(&Had { from: 100, until: 150, said: 150 }), "the older one changes nothing");
    }
}

#[test]
fn own_and_invalid_records_are_ignored() {
    let (site, mut history) = (site_at(1000), History::new(100));
    let bundle = |said: u64, times: u64, holder: u64| {
        let mut message = Vec::new();
        [0, 7, 500, 4, 1, holder, times, said].iter().for_each(|number| put_number(&mut message, *number));
        message
    };
    // Three reports to ignore: a period of this node, one that ends before it begins, one reported before it began.
    for (said, times, holder) in [(100, 50 << 32 | 60, 1), (100, 60 << 32 | 50, 2), (40, 50 << 32 | 60, 2)] {
        assert_eq!(history.read(&site.node(), TELLER, &bundle(said, times, holder)), Some(()));
        assert!(history.records.is_empty(), "{said} {times} {holder}");
    }
    for (said, times) in [(u64::MAX, 50 << 32), (9_000, 50 << 32 | 60)] {
        let _ = history.read(&site.node(), TELLER, &bundle(said, times, 2));
        assert!(history.records.is_empty(), "reported at a later age than the bundle has");
    }
    let good = bundle(100, 50 << 32 | 60, 2);
    assert_eq!(history.read(&site.node(), TELLER, &good[..63]), None, "cut");
    assert!(history.records.is_empty());
    assert_eq!(history.read(&site.node(), TELLER, &good), Some(()));
    // A count of holders without the holders.
    let lies = bundle(100, 50 << 32 | 60, 2).iter().copied().take(32).chain(u64::MAX.to_be_bytes()).collect::<Vec<_>>();
    assert_eq!(history.read(&site.node(), TELLER, &lies), None, "the holders are missing");
}

#[test]
fn tables_are_bounded() {
    let (mut site, mut history) = (site_at(1), History::new(100));
    let had = |said| Had { from: 0, until: STILL, said };
    for id in 0..500 {
        site.now = Instant(site.now.0 + 1_000_000_000);
        let holders: Vec<(NodeId, Had)> = (0..100).map(|n| (NodeId(1_000 * id as u64 + n), had(0))).collect();
        history.learn(&site.node(), (id, 0, NodeId(1)), &holders, Some(NodeId(2)));
    }
    assert_eq!(
        (history.records.len(), history.order.len(), history.nodes.last.len()),
        (BUNDLES_MAX, BUNDLES_MAX, NODES_MAX)
    );
    assert!(history.records.values().all(|record| record.holders.len() == HOLDERS_MAX));
    assert!(history.records.contains_key(&499) && !history.records.contains_key(&0));
    assert!(history.message(site.now, NodeId(7)).len() <= MESSAGE_MAX);
    // Ages far beyond the last step must count at that step rather than extend the table.
    site.now = Instant::MAX;
    history.count(site.now);
    assert_eq!((history.samples.len(), history.samples(u32::MAX).1.len()), (BINS, SAMPLES_MAX));
}

/// Report that these nodes hold a bundle.
fn says(id: u64, holders: std::ops::Range<u64>) -> Vec<u8> {
    let mut message = Vec::new();
    [0, id, 500, 4, holders.end - holders.start].iter().for_each(|number| put_number(&mut message, *number));
    for holder in holders {
        [holder, 50 << 32 | u64::from(STILL), 100].iter().for_each(|number| put_number(&mut message, *number));
    }
    message
}

#[test]
fn invented_records_evict_the_inventors() {
    let (site, mut history, liar) = (site_at(1000), History::new(100), NodeId(3));
    for id in 0..40 {
        history.read(&site.node(), TELLER, &says(id, 10 + id..12 + id)).unwrap();
    }
    history.met(NodeId(1), site.now, NodeId(7_777));
    let others = history.others();
    for round in 0..200 {
        let message: Vec<u8> =
            (0..20).flat_map(|n| says(1_000 + 20 * round + n, 900_000 + 60 * n..900_060 + 60 * n)).collect();
        history.read(&site.node(), liar, &message).unwrap();
    }
    assert!((0..40).all(|id| history.records.contains_key(&id)), "entries of the other reporter stay");
    assert!(history.records.len() == BUNDLES_MAX && history.reporters.len() == BUNDLES_MAX);
    let known = |history: &History, node| history.nodes.last.contains_key(&NodeId(node));
    assert!((10..51).chain([7_777]).all(|node| known(&history, node)) && others == 42.0);
    for number in 0..2_000 {
        history.met(NodeId(1), site.now, NodeId(50_000 + number));
    }
    assert!(known(&history, 50_500) && known(&history, 7_777), "met nodes find space");
    assert_eq!((history.nodes.last.len(), history.nodes.reporters.len()), (NODES_MAX, 0));
}

#[test]
fn silent_nodes_are_forgotten() {
    let (mut site, mut history) = (site_at(1000), History::new(100));
    history.read(&site.node(), TELLER, &says(5, 10..40)).unwrap();
    history.met(NodeId(1), site.now, NodeId(7));
    assert_eq!(history.others(), 31.0);
    // Less than a day later all are remembered.
    site = site_at(80_000);
    history.met(NodeId(1), site.now, NodeId(8));
    history.count(site.now);
    assert_eq!(history.others(), 32.0);
    site = site_at(90_000);
    history.count(site.now);
    assert_eq!((history.others(), history.nodes.reporters.len()), (1.0, 0));
}

#[test]
fn own_observation_beats_reports() {
    let (mut site, mut history) = (site_at(2000), History::new(100));
    let bundle = keep(&mut site);
    let id = site.held(bundle).bundle.id;
    // The report claims an age of 500 s, another source, and 80 holders, more than the 64 kept from reports; this
    // node's own observation must win and still find room.
    history.read(&site.node(), TELLER, &says(id as u64, 10..90)).unwrap();
    history.have(&site.node(), site.held(bundle), true);
    let record = &history.records[&id];
    assert_eq!((record.made_s, record.source), (1000, NodeId(1)));
    assert!(record.holders.contains_key(&NodeId(1)) && record.holders.len() == HOLDERS_MAX + 1);
}

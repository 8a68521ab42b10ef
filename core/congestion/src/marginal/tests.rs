//! Tests of the whole control, and of attacks on it.

use super::*;
use crate::testing::ControlSite;
use alloc::vec;
use farlink_base::EndpointId;
use farlink_book::{Identity, Journey, Journeys, Origin};

const HOUR_S: u64 = 3600;
fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

/// Plan of nodes 1 to 9, without light time. Each contact is from, to, start and end, in seconds.
struct ContactTable(Vec<(u64, u64, u64, u64)>);
impl Journeys for ContactTable {
    fn edition(&self) -> u64 {
        1
    }
    fn nodes(&self) -> u32 {
        9
    }
    fn place(&self, node: NodeId) -> Option<u32> {
        (1..=9).contains(&node.0).then_some(node.0 as u32 - 1)
    }
    fn journey(&self, from: u32, to: u32, start: Instant, _: u64, avoid: &[u32]) -> Option<Journey> {
        if from == to {
            return Some(Journey { departs: start, departs_by: Instant::MAX, arrives: start });
        }
        let ways = self.0.iter().filter_map(|(a, b, begins, ends)| {
            let (next, departs) = (*b as u32 - 1, start.max(at(*begins)));
            let usable = *a as u32 - 1 == from && departs < at(*ends) && !avoid.contains(&next);
            let onward = usable.then(|| self.journey(next, to, departs, 0, &[avoid, &[from]].concat()))??;
            Some(Journey { departs, departs_by: at(*ends), arrives: onward.arrives })
        });
        ways.min_by_key(|way| way.arrives)
    }
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant> {
        let runs = |(a, b, begins, ends): &&(u64, u64, u64, u64)| {
            *a as u32 - 1 == from && *b as u32 - 1 == to && at(*begins) <= now && now < at(*ends)
        };
        self.0.iter().find(runs).map(|(.., end)| at(*end))
    }
}

fn control() -> MarginalUtility {
    MarginalUtility::new(&[])
}
fn of_others(site: &mut ControlSite, to: u64, size: usize) -> Handle {
    site.keep_with(to, size, |bundle, new| {
        bundle.source = EndpointId::ipn(7, 1);
        new.expires = at(HOUR_S);
    })
}
fn on_event(control: &mut MarginalUtility, node: &Node<'_>, event: PolicyEvent<'_>) -> Vec<Action> {
    let mut out = Actions::default();
    control.on(node, &event, &mut out);
    out.drain().collect()
}
fn letter(write: impl Fn(&mut Letter)) -> Vec<u8> {
    let mut letter = Letter::default();
    write(&mut letter);
    letter.0
}
/// Report of a neighbour about a delivery, which it saw itself (`seen`) or knows from others.
fn says_arrived(control: &mut MarginalUtility, site: &ControlSite, from: PeerId, id: u128, seen: bool) -> Vec<Action> {
    let bytes = letter(|letter| letter.arrived(site.now, &[KnownArrival { id, until: at(HOUR_S), seen }]));
    on_event(control, &site.node(), PolicyEvent::Heard { from, bytes: &bytes })
}
fn copy(control: &MarginalUtility, node: &Node<'_>, peer: PeerId, bundle: Handle) -> Option<CopyOffer> {
    let held = node.get(bundle).unwrap();
    control.allow(node, node.peers.get(peer).unwrap(), held, Some(CopyOffer::copy(held, 5)))
}

#[test]
fn recent_meeting_raises_copies_lower_worth() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (lately, never) = (of_others(&mut site, 9, 100), of_others(&mut site, 8, 100));
    let large = of_others(&mut site, 9, 200);
    // Node 9 was met a minute ago, node 8 never.
    let bytes = letter(|letter| letter.met(&[(NodeId(9), 60), (NodeId(4), 30_000)]));
    let peer = site.meet(2);
    on_event(&mut control, &site.node(), PolicyEvent::Heard { from: peer, bytes: &bytes });
    let worth = |site: &ControlSite, bundle| control.worth(&site.node(), site.held(bundle)).unwrap();
    assert!(worth(&site, lately) > worth(&site, never) && worth(&site, lately) > worth(&site, large));
    let before = worth(&site, lately);
    let id = site.held(lately).bundle.id as u64;
    site.peers.get_mut(peer).unwrap().note_has(id);
    assert!(worth(&site, lately) < before, "a neighbour has it");
}

#[test]
fn own_newest_protected_from_others() {
    let (mut site, mut control) = (ControlSite::new(500), control());
    let own: Vec<_> = (0..5).map(|_| site.keep_with(9, 100, |_, new| new.expires = at(HOUR_S))).collect();
    for bundle in &own {
        on_event(&mut control, &site.node(), PolicyEvent::Kept { bundle: *bundle, wire: None });
    }
    let others = |bundle: &mut farlink_base::BundleMeta, _: &mut farlink_book::New| {
        bundle.source = EndpointId::ipn(7, 1);
    };
    assert_eq!(site.victims(&control, 100, others), Some(vec![own[0]]), "beyond four fifths of the store");
    assert_eq!(site.victims(&control, 200, others), None);
    assert_eq!(site.victims(&control, 200, |_, _| {}), Some(vec![own[0], own[1]]), "made here, too");
}

#[test]
fn hearsay_devalues_destination_ack_deletes() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (own, relayed) = (site.keep(9, 100), of_others(&mut site, 9, 100));
    let (neighbour, nine) = (site.meet(2), site.meet(9));
    for bundle in [own, relayed] {
        let id = site.held(bundle).bundle.id;
        let said = says_arrived(&mut control, &site, neighbour, id, true);
        assert!(!said.iter().any(|order| matches!(order, Action::Delete { .. } | Action::Ban { .. })), "{said:?}");
        assert_eq!(control.worth(&site.node(), site.held(bundle)), Some(NOTHING), "it is evicted first");
        assert_eq!(copy(&control, &site.node(), neighbour, bundle), None, "no neighbour gets another copy");
        let direct = Some(CopyOffer::give(site.held(bundle), 0));
        assert_eq!(
            control.allow(&site.node(), site.peer(nine), site.held(bundle), direct),
            direct,
            "except its destination"
        );
        let said = says_arrived(&mut control, &site, nine, id, false);
        let deletes = |order: &Action| matches!(order, Action::Delete { .. } | Action::Ban { .. });
        assert!(!said.iter().any(deletes), "a report relayed by the destination is no proof: {said:?}");
        let said = says_arrived(&mut control, &site, nine, id, true);
        assert!(said.contains(&Action::Delete { bundle, why: Why::Acked }));
    }
}

#[test]
fn unauthenticated_neighbour_is_ignored() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let bundle = of_others(&mut site, 9, 100);
    let liar = site.peers.add(Origin::Came);
    site.peers.learn(liar, EndpointId::ipn(9, 0), Identity::Claimed);
    site.peers.get_mut(liar).unwrap().up.push(farlink_base::LinkId(40));
    let id = site.held(bundle).bundle.id;
    assert_eq!(says_arrived(&mut control, &site, liar, id, true), []);
    assert!(control.worth(&site.node(), site.held(bundle)).unwrap() > 0.0);
    let mut credulous = MarginalUtility::new(&[600.0, 16.0, 0.8, 0.9, 0.1, 0.2, 10_000.0, 1.0, 1.0]);
    let said = says_arrived(&mut credulous, &site, liar, id, true);
    assert!(!said.iter().any(|order| matches!(order, Action::Delete { .. })), "a claimed name is no proof");
}

#[test]
fn forged_floods_displace_nothing_else() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (honest, liar) = (site.meet(2), site.meet(3));
    says_arrived(&mut control, &site, honest, 77, false);
    // Half of the forged deliveries are claimed as seen.
    for round in 0..64u128 {
        let forged = (0..4096).map(|n| (round << 32) + n + 1_000_000);
        let forged: Vec<_> = forged.map(|id| KnownArrival { id, until: Instant::MAX, seen: round % 2 == 0 }).collect();
        let met: Vec<_> = (0..4096).map(|n| (NodeId((round as u64) << 32 | (n + 1)), 0)).collect();
        let bytes = letter(|letter| {
            letter.arrived(site.now, &forged);
            letter.met(&met);
        });
        on_event(&mut control, &site.node(), PolicyEvent::Heard { from: liar, bytes: &bytes });
    }
    assert_eq!(control.arrived.len(), 4096);
    assert!(control.arrived.has(77) && control.fresh.len() <= 256);
    let told = on_event(&mut control, &site.node(), PolicyEvent::Up { peer: honest });
    let Some(Action::Tell { bytes, .. }) = told.first() else { panic!("{told:?}") };
    assert!(bytes.len() < 16_384, "{}", bytes.len());
    for cut in [0, 1, 2, 3, 19, 500] {
        on_event(&mut control, &site.node(), PolicyEvent::Heard { from: liar, bytes: &bytes[..cut] });
    }
}

#[test]
fn meeting_lie_affects_liar_only() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    site.now = at(HOUR_S / 2);
    let liar = site.meet(3);
    let bundle = of_others(&mut site, 9, 100);
    on_event(&mut control, &site.node(), PolicyEvent::Up { peer: liar });
    // The neighbour claims that it meets the destination, this node and the null node at this moment.
    let bytes = letter(|letter| letter.met(&[(NodeId(9), 0), (NodeId(1), 0), (NodeId::NULL, 0)]));
    on_event(&mut control, &site.node(), PolicyEvent::Heard { from: liar, bytes: &bytes });
    let rate = control.met.rates(NodeId(9), site.now, 600.0).own;
    assert_eq!(rate, 1.0 / 1_200.0, "not as if met now");
    assert!(copy(&control, &site.node(), liar, bundle).is_some_and(|want| want.keep), "ours stays");
}

#[test]
fn learned_facts_are_relayed_once() {
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (one, two) = (site.meet(2), site.meet(3));
    assert_eq!(says_arrived(&mut control, &site, one, 5, false), [Action::Wake(at(1))]);
    assert_eq!(says_arrived(&mut control, &site, two, 6, false), [], "gathered");
    let told = on_event(&mut control, &site.node(), PolicyEvent::Wake);
    let tell = |to, id| Action::Tell {
        to,
        bytes: letter(|l| l.arrived(site.now, &[KnownArrival { id, until: at(HOUR_S), seen: false }])),
    };
    assert_eq!(told, [tell(one, 6), tell(two, 5)]);
    assert_eq!(on_event(&mut control, &site.node(), PolicyEvent::Wake), []);
    site.now = at(HOUR_S);
    let told = on_event(&mut control, &site.node(), PolicyEvent::Up { peer: one });
    let Some(Action::Tell { bytes, .. }) = told.first() else { panic!("{told:?}") };
    assert!(!parts(bytes).any(|part| matches!(part, MessagePart::Arrived(..))), "their lifetimes are over");
}

#[test]
fn planned_copies_need_independent_paths() {
    let plan = ContactTable(vec![(1, 2, 0, 100), (1, 3, 0, 100), (2, 9, 200, 300), (3, 8, 200, 300), (4, 9, 900, 950)]);
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (two, three) = (site.meet(2), site.meet(3));
    let bundle = of_others(&mut site, 9, 100);
    let node = Node { plan: Some(&plan), ..site.node() };
    let want = copy(&control, &node, two, bundle).expect("it meets the destination");
    assert_eq!(want.labels[1].theirs, 0b11, "both had it");
    assert_eq!(copy(&control, &node, three, bundle), None, "it does not meet the destination");
    let worth = |label: u32, site: &ControlSite| {
        let mut other = ControlSite::new(1000);
        let twin = of_others(&mut other, 9, 100);
        other.set_label(twin, label);
        let node = Node { plan: Some(&plan), peers: &site.peers, ..other.node() };
        control.value(&node, other.held(twin))
    };
    assert!(worth(0b1, &site) > worth(0b1000, &site), "node 4 has a copy and can deliver it, if later");
    assert_eq!(worth(0b10, &site), 0.0, "the only route leads through a carrier");
    let said = on_event(&mut control, &node, PolicyEvent::Kept { bundle, wire: Some(0b1000) });
    assert_eq!(said, [Action::Label { bundle, label: 0b1001 }]);
    let failed = PolicyEvent::Failed { bundle, to: two, gave: 0, keep: true };
    site.set_label(bundle, 0b1011);
    let node = Node { plan: Some(&plan), ..site.node() };
    assert_eq!(on_event(&mut control, &node, failed), [Action::Label { bundle, label: 0b1001 }]);
}

#[test]
fn spare_room_adds_planned_copies() {
    let plan = ContactTable(vec![(1, 2, 0, 100), (2, 9, 200, 300)]);
    let (mut site, control) = (ControlSite::new(1000), control());
    let (two, bundle) = (site.meet(2), of_others(&mut site, 9, 100));
    let allow = |site: &ControlSite, want| {
        let node = Node { plan: Some(&plan), ..site.node() };
        control.allow(&node, site.peer(two), site.held(bundle), want)
    };
    assert_eq!(allow(&site, None), None, "it reported no free space");
    // Space is compared exactly: the bundle has 100 B.
    site.says(two, 99, None);
    assert_eq!(allow(&site, None), None);
    site.says(two, 100, None);
    let wished = allow(&site, None).unwrap();
    assert!(wished.keep && wished.rank > allow(&site, Some(CopyOffer::copy(site.held(bundle), 0))).unwrap().rank);
}

#[test]
fn full_source_is_pushed_back() {
    let plan = ContactTable(vec![(1, 9, 500, 600), (1, 8, 3000, 3100)]);
    let (mut site, control) = (ControlSite::new(200), control());
    let soon = site.keep_with(9, 200, |_, new| new.expires = at(HOUR_S));
    let node = Node { plan: Some(&plan), ..site.node() };
    let newcomer = |to: u64, size| {
        let mut other = ControlSite::new(1000);
        let bundle = other.keep_with(to, size, |_, new| new.expires = at(HOUR_S));
        site.room(&control, &node, other.held(bundle))
    };
    assert_eq!(newcomer(8, 200), None, "it would wait longer");
    assert_eq!(newcomer(9, 100), Some(vec![soon]), "shorter, as soon");
    assert_eq!(newcomer(7, 10), None, "nothing leads there");
}

#[test]
fn failed_plan_loses_trust() {
    let plan = ContactTable(vec![(1, 2, 1000, 1100)]);
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (two, bundle) = (site.meet(2), of_others(&mut site, 9, 100));
    let met = letter(|letter| letter.met(&[(NodeId(9), 60)]));
    let meets = |control: &mut MarginalUtility, site: &ControlSite| {
        let node = Node { plan: Some(&plan), ..site.node() };
        on_event(control, &node, PolicyEvent::Up { peer: two });
        on_event(control, &node, PolicyEvent::Heard { from: two, bytes: &met });
        copy(control, &node, two, bundle).is_some()
    };
    site.now = at(1000);
    assert!(!meets(&mut control, &site), "in the plan no contact leads on");
    site.now = at(2000);
    assert!(meets(&mut control, &site), "this meeting was not planned either");
}

#[test]
fn booked_bundle_is_not_evicted() {
    use farlink_book::{RetentionConstraint, RetentionConstraints};
    let (mut site, control) = (ControlSite::new(200), control());
    let booked = site.keep_with(9, 200, |bundle, new| {
        bundle.source = EndpointId::ipn(7, 1);
        new.reasons = RetentionConstraints::of(&[RetentionConstraint::Route, RetentionConstraint::Queue]);
    });
    assert_eq!(control.worth(&site.node(), site.held(booked)), None);
    assert_eq!(site.fits(&control, 100), None, "not even for a bundle created here");
}

#[test]
fn repeated_ack_costs_one_action() {
    let plan = ContactTable(vec![(1, 2, 0, 100), (2, 9, 200, 300), (4, 9, 900, 950)]);
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let (liar, nine, bundle) = (site.meet(4), site.meet(9), of_others(&mut site, 9, 100));
    site.set_label(bundle, 0b1001);
    let id = site.held(bundle).bundle.id;
    let node = Node { plan: Some(&plan), ..site.node() };
    let bytes = letter(|letter| {
        (0..64).for_each(|_| letter.gone(&vec![id; 512]));
    });
    let said = on_event(&mut control, &node, PolicyEvent::Heard { from: liar, bytes: &bytes });
    assert_eq!(said, [Action::Label { bundle, label: 0b1 }], "each would offer the bundle to every neighbour again");
    let bytes = letter(|letter| {
        (0..10).for_each(|_| letter.arrived(site.now, &vec![KnownArrival { id, until: at(HOUR_S), seen: true }; 400]))
    });
    let said = on_event(&mut control, &node, PolicyEvent::Heard { from: nine, bytes: &bytes });
    assert_eq!(said, [Action::Wake(at(1)), Action::Delete { bundle, why: Why::Acked }]);
}

#[test]
fn forged_own_source_is_not_protected() {
    let (mut site, mut control) = (ControlSite::new(500), control());
    let liar = site.meet(2);
    let own: Vec<_> = (0..5).map(|_| site.keep_with(9, 100, |_, new| new.expires = at(HOUR_S))).collect();
    own.iter().for_each(|bundle| {
        drop(on_event(&mut control, &site.node(), PolicyEvent::Kept { bundle: *bundle, wire: None }))
    });
    let forged = |_: &mut farlink_base::BundleMeta, new: &mut farlink_book::New| {
        (new.from, new.expires) = (liar, at(HOUR_S));
    };
    assert_eq!(site.victims(&control, 200, forged), None, "it names this node as its source");
    let strange = |_: &mut farlink_base::BundleMeta, new: &mut farlink_book::New| {
        new.flags.set(farlink_book::Flags::STRANGE, true);
    };
    assert_eq!(
        site.victims(&control, 200, strange),
        None,
        "neither for an unconfigured neighbour, nor for one recovered after a restart"
    );
    assert_eq!(site.victims(&control, 200, |_, _| {}).map(|them| them.len()), Some(2), "made here");
    let mut other = ControlSite::new(500);
    let kept = other.keep_with(9, 100, forged);
    on_event(&mut control, &other.node(), PolicyEvent::Kept { bundle: kept, wire: None });
    assert!(control.worth(&other.node(), other.held(kept)).unwrap() < PROTECTED);
}

/// A plan that counts its searches.
struct Counting(ContactTable, core::cell::Cell<u32>);
impl Journeys for Counting {
    fn edition(&self) -> u64 {
        1
    }
    fn nodes(&self) -> u32 {
        32
    }
    fn place(&self, node: NodeId) -> Option<u32> {
        (1..=32).contains(&node.0).then_some(node.0 as u32 - 1)
    }
    fn journey(&self, from: u32, to: u32, start: Instant, size: u64, avoid: &[u32]) -> Option<Journey> {
        self.1.set(self.1.get() + 1);
        self.0.journey(from, to, start, size, avoid)
    }
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant> {
        self.0.contact_end(from, to, now)
    }
}

#[test]
fn searches_for_labels_are_limited() {
    let plan = Counting(ContactTable(vec![(1, 9, 500, 600), (1, 8, 700, 800)]), core::cell::Cell::new(0));
    let (mut site, control) = (ControlSite::new(1 << 20), control());
    let (liar, honest) = (site.meet(2), site.meet(3));
    let mut weigh = |second: u64, from, label: u32, size: usize| {
        site.now = at(second);
        let bundle = site.keep_with(9, size, |_, new| {
            (new.from, new.expires, new.labels) = (from, at(HOUR_S), [0, label]);
        });
        let node = Node { plan: Some(&plan), ..site.node() };
        let before = plan.1.get();
        let worth = control.value(&node, site.held(bundle));
        let _ = site.book.remove(bundle);
        (worth, plan.1.get() - before)
    };
    // A label with all other nodes as carriers.
    let (_, first) = weigh(0, liar, !(1 << 8), 100);
    assert!(first > 30, "a search for each of the 32 claimed carriers: {first}");
    // 16 s at half a millisecond per search, and one second more each second.
    let flood = |weigh: &mut dyn FnMut(u64, PeerId, u32, usize) -> (f64, u32), second: u64| {
        let labels = if second == 0 { 40_000u32 } else { 4_000 };
        (0..labels).map(|n| weigh(second, liar, n.wrapping_mul(0x9e37_79b9) & !(1 << 8), 1 << (n % 14)).1).sum::<u32>()
    };
    let spent = flood(&mut weigh, 0);
    assert!((20_000..40_000).contains(&spent), "{spent}");
    let spent = (flood(&mut weigh, 1), flood(&mut weigh, 2));
    assert!(spent.0 < 2_100 && spent.1 < 2_100, "{spent:?}");
    let (worth, searches) = weigh(2, honest, 0b1000, 100);
    assert!(worth > 0.0 && searches > 0, "bundles of another previous node are judged as before");
    let (worth, searches) = weigh(2, liar, 0x0f0f_0c0f, 100);
    assert!(worth >= 0.0 && searches == 0, "from memory only: {worth}");
}

#[test]
fn neighbour_distance_searched_each_second() {
    let plan = Counting(ContactTable(vec![(1, 2, 0, 10_000)]), core::cell::Cell::new(0));
    let (mut site, mut control) = (ControlSite::new(1000), control());
    let two = site.meet(2);
    for second in [10, 10, 10, 11] {
        site.now = at(second);
        says_arrived(&mut control, &site, two, u128::from(second), false);
        let node = Node { plan: Some(&plan), ..site.node() };
        on_event(&mut control, &node, PolicyEvent::Wake);
    }
    assert_eq!(plan.1.get(), 2);
}

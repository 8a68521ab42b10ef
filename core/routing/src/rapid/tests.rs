use super::*;
use crate::testing::{RouterSite, greeting};
use alloc::vec::Vec;
use farlink_base::DataRate;
use farlink_book::{Handle, numbers, put_number};

fn at(s: u64) -> Instant {
    Instant(s * 1_000_000_000)
}
/// A bundle of this size, created at second `made`, that lives for an hour.
fn keep(site: &mut RouterSite, to: u64, size: usize, made: u64) -> Handle {
    site.keep_with(to, size, |_, new| new.expires = at(made + 3600))
}
fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9 * b.abs().max(1e-9), "{a} {b}");
}
/// Hello of neighbour 2: its bytes per meeting, its mean time between meetings with 9, and its bundles for 9
/// (identity, age in s, size).
fn says(meeting_bytes: u64, mean_s: f64, held: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut put = |numbers: &[u64]| numbers.iter().for_each(|number| put_number(&mut message, *number));
    put(&[1, 0, meeting_bytes, 0, 1, 2, 0, 1, 9, mean_s.to_bits(), held.len() as u64]);
    for (id, age, size) in held {
        put(&[0, *id, 9, age * 1000, *size, 0.001f64.to_bits()]);
    }
    message
}
fn on_event(router: &mut Rapid, site: &RouterSite, event: PolicyEvent<'_>) -> Vec<Action> {
    let mut out = Actions::default();
    router.on(&site.node(), &event, &mut out);
    out.drain().collect()
}

#[test]
fn queue_ahead_sets_needed_meetings() {
    let mean = Some(&100.0);
    // One meeting carries 1,000 B.
    close(rate(mean, 0, 1000, 1000), 0.01);
    close(rate(mean, 1, 1000, 1000), 0.005);
    close(rate(mean, 2500, 500, 1000), 1.0 / 300.0);
    close(rate(mean, 0, 0, 0), 0.01);
    assert_eq!(rate(None, 0, 1, 1), 0.0);
    assert!(rate(mean, u64::MAX, u64::MAX, 0) > 0.0);
}

#[test]
fn best_delay_gain_per_byte_first() {
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[0.0, 65_536.0, 1000.0], 7));
    site.now = at(1000);
    let (nine, two) = (site.meet(9, 0), site.meet(2, 1));
    on_event(&mut router, &site, PolicyEvent::Up { peer: nine });
    site.now = at(2000);
    let [old, young, large] =
        [(400, 1000), (400, 1900), (800, 1950)].map(|(size, made)| keep(&mut site, 9, size, made));
    greeting(&mut router, &site, two);
    // Node 1 meets 9 once in 1,000 s. `old` and `young` fit one meeting; `large` needs a second.
    let own = |router: &Rapid, bundle| router.own_rate(&site.node(), site.held(bundle));
    close(own(&router, old), 0.001);
    close(own(&router, young), 0.001);
    close(own(&router, large), 0.0005);
    // Neighbour 2 meets 9 every 500 s, for 500 B; its 200 B from second 1,800 go before `young` and `large`.
    let bytes = says(500, 500.0, &[(77, 200, 200)]);
    assert_eq!(on_event(&mut router, &site, PolicyEvent::Heard { from: two, bytes: &bytes }), [Action::Reask(two)]);
    let theirs = |bundle| router.their_rate(&site.node(), site.peer(two), site.held(bundle));
    close(theirs(old), 0.002);
    close(theirs(young), 0.001);
    close(theirs(large), 0.001);
    let rank = |router: &Rapid, bundle| router.wants(&site.node(), site.peer(two), site.held(bundle)).unwrap().rank;
    // Old: 1,000 s to 333 s for 400 B: 1.67 s per byte; young: to 500 s: 1.25; large: 2,000 s to 667 s for 800 B:
    // 1.67.
    let gain = |bundle| f64::from_bits(!rank(&router, bundle));
    close(gain(old), (1000.0 - 1.0 / 0.003) / 400.0);
    close(gain(young), (1000.0 - 500.0) / 400.0);
    close(gain(large), (2000.0 - 1.0 / 0.0015) / 800.0);
    assert!(rank(&router, young) > rank(&router, large));
}

#[test]
fn deadline_metric_favours_borderline_bundles() {
    let (site, router) = (RouterSite::new(), Rapid::new(&[1.0], 7));
    let left = Duration::from_secs(1000);
    close(router.gain(0.001, 0.001, left), libm::exp(-1.0) - libm::exp(-2.0));
    assert!(router.gain(0.01, 0.001, left) < 1e-4, "it arrives in time without the copy");
    close(router.gain(0.0, 0.0, left), 0.0);
    assert_eq!(router.gain(0.001, 0.001, Duration::ZERO), 0.0, "too late");
    let mean = Rapid::new(&[0.0], 7);
    close(mean.gain(0.0, 0.001, left), DELAY_MAX - 1000.0);
    assert_eq!(mean.gain(0.0, 0.0, left), 0.0);
    let mut other = RouterSite::new();
    let (bundle, peer) = (other.keep(9, 100), other.meet(2, 0));
    let want = router.wants(&other.node(), other.peer(peer), other.held(bundle)).unwrap();
    assert_eq!((want.keep, want.rank), (true, u64::MAX), "a copy without known benefit goes last");
    assert_eq!(site.book.len(), 0);
}

#[test]
fn copies_elsewhere_lower_utility() {
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[], 7));
    site.now = at(1000);
    let (two, three) = (site.meet(2, 0), site.meet(3, 1));
    let bundle = keep(&mut site, 9, 100, 1000);
    greeting(&mut router, &site, two);
    on_event(&mut router, &site, PolicyEvent::Heard { from: two, bytes: &says(500, 500.0, &[]) });
    let known =
        |router: &Rapid, site: &RouterSite, but| router.known_rate(&site.node(), site.held(bundle), NodeId(but));
    // The only expected delivery is through neighbour 2: this node meets it once in 1,000 s, and it meets node 9 once
    // in 500 s.
    close(known(&router, &site, 0), 1.0 / 1500.0);
    on_event(&mut router, &site, PolicyEvent::Sent { bundle, to: two, gave: 0, keep: true });
    close(known(&router, &site, 0), 1.0 / 1500.0 + 0.002);
    close(known(&router, &site, 2), 1.0 / 1500.0);
    let seen = router.prospect(&site.node(), site.held(bundle), None).unwrap();
    close(seen.chance, 1.0 - libm::exp(-3600.0 * (1.0 / 1500.0 + 0.002)));
    assert_eq!(seen.arrival, at(1375));
    // The next neighbour gets a report of the copy, and another when it is gone from here.
    let first = greeting(&mut router, &site, three);
    let mut there = Rapid::new(&[], 7);
    let mut other = RouterSite::new();
    other.now = at(1000);
    let here = other.meet(1, 0);
    let receive_there = |there: &mut Rapid, other: &RouterSite, bytes: &[u8]| {
        let (node, mut out) = (Node { me: NodeId(3), ..other.node() }, Actions::default());
        there.on(&node, &PolicyEvent::Heard { from: here, bytes }, &mut out);
    };
    receive_there(&mut there, &other, &first);
    let id = site.held(bundle).bundle.id;
    let of = |there: &Rapid, but| there.replicas.rate(id, [NodeId(3), NodeId(but)]);
    close(of(&there, 0), 1.0 / 1500.0 + 0.002);
    close(of(&there, 2), 1.0 / 1500.0);
    on_event(&mut router, &site, PolicyEvent::Gone { bundle, why: Why::Overflow });
    site.book.remove(bundle);
    other.now = at(1001);
    site.now = at(1001);
    let later = greeting(&mut router, &site, three);
    receive_there(&mut there, &other, &later);
    close(of(&there, 0), 0.002);
}

#[test]
fn truncated_hello_is_harmless() {
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[0.0, 4096.0, 1000.0], 7));
    site.now = at(5000);
    for n in 0..500 {
        keep(&mut site, 9 + n % 5, 100, 4000 + n);
    }
    let peers: Vec<PeerId> = (0..200).map(|n| site.meet(100 + n, n as u32)).collect();
    assert!((0..6000).all(|id| router.acks.note(id, NodeId::NULL)));
    for id in 0..3000u64 {
        let copy = KnownCopy { holder: NodeId(2), rate: 0.1, said_ms: 0 };
        router.replicas.learn(u128::from(id), copy, NodeId(2), &mut router.change);
    }
    let hellos: Vec<Vec<u8>> = peers.iter().map(|peer| greeting(&mut router, &site, *peer)).collect();
    // The bound of the second parameter, nearly used up.
    assert!(hellos.iter().all(|hello| hello.len() <= 4096 && hello.len() > 3000));
    let mut other = RouterSite::new();
    let from = other.meet(1, 0);
    for hello in [&hellos[0], &hellos[199]] {
        for cut in (0..hello.len()).step_by(8) {
            let mut there = Rapid::new(&[], 7);
            let said = on_event(&mut there, &other, PolicyEvent::Heard { from, bytes: &hello[..cut] });
            assert_eq!(said.last(), Some(&Action::Reask(from)));
        }
    }
    // Extreme words (all ones, zero, NaN), read from every byte offset.
    let lies: Vec<u8> =
        [[u64::MAX; 40], [0; 40], [f64::NAN.to_bits(); 40]].concat().iter().flat_map(|n| n.to_be_bytes()).collect();
    for from_byte in 0..64 {
        on_event(&mut router, &other, PolicyEvent::Heard { from, bytes: &lies[from_byte..] });
    }
    on_event(&mut router, &other, PolicyEvent::Heard { from: PeerId(99), bytes: &hellos[0] });
}

#[test]
fn delivered_bundles_are_purged() {
    // Acknowledgments of third parties delete with this setting.
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[0.0, 65_536.0, 1e6, 2.0], 7));
    let (peer, bundle) = (site.meet(2, 0), site.keep(9, 100));
    let id = site.held(bundle).bundle.id;
    router.replicas.learn(id, KnownCopy { holder: NodeId(5), rate: 0.5, said_ms: 0 }, NodeId(2), &mut 0);
    let mut bytes = Vec::new();
    [1, 0, 7, 1, 0, id as u64].iter().for_each(|number| put_number(&mut bytes, *number));
    let said = on_event(&mut router, &site, PolicyEvent::Heard { from: peer, bytes: &bytes });
    assert_eq!(said, [Action::Ban { id }, Action::Delete { bundle, why: Why::Acked }, Action::Reask(peer)]);
    assert_eq!(router.replicas.len(), 0);
    on_event(&mut router, &site, PolicyEvent::Gone { bundle, why: Why::Acked });
    assert_eq!(router.replicas.len(), 0);
    let told: Vec<u64> = numbers(&greeting(&mut router, &site, peer)).skip(2).take(4).collect();
    assert_eq!(told, [1_000_000, 1, 0, id as u64], "and relayed");
}

#[test]
fn meeting_volume_is_measured() {
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[], 7));
    let peer = site.meet(2, 0);
    for (rate, seconds, mean) in [(None, 100, 1_000_000), (Some(8_000), 10, 10_000), (Some(8_000), 30, 20_000)] {
        site.peers.get_mut(peer).unwrap().rate = rate.map(DataRate);
        on_event(&mut router, &site, PolicyEvent::Up { peer });
        site.now += Duration::from_secs(seconds);
        on_event(&mut router, &site, PolicyEvent::Down { peer });
        assert_eq!(router.meeting_bytes, mean);
    }
    assert!(router.neighbours.is_empty());
}

#[test]
fn unconfirmed_state_is_sent_again() {
    let learn = |router: &mut Rapid, ids: std::ops::Range<u128>| {
        for id in ids {
            router.replicas.learn(
                id,
                KnownCopy { holder: NodeId(5), rate: 0.5, said_ms: 0 },
                NodeId(2),
                &mut router.change,
            );
        }
    };
    let (mut ours, mut theirs) = (Rapid::new(&[], 1), Rapid::new(&[], 2));
    let (mut here, mut there) = (RouterSite::new(), RouterSite::new());
    let (them, us) = (here.meet(2, 0), there.meet(1, 0));
    // Copies in a hello: its other parts take 88 bytes, with one changed row of meetings each time.
    let copies = |hello: &[u8]| (hello.len() - 88) / 40;
    let receive_one = |router: &mut Rapid, site: &RouterSite, from, bytes: &[u8]| {
        drop(on_event(router, site, PolicyEvent::Heard { from, bytes }))
    };
    learn(&mut ours, 0..10);
    assert_eq!(copies(&greeting(&mut ours, &here, them)), 10);
    let hello = greeting(&mut ours, &here, them);
    assert_eq!(copies(&hello), 10, "the first was lost");
    receive_one(&mut theirs, &there, us, &hello);
    receive_one(&mut ours, &here, them, &greeting(&mut theirs, &there, us));
    assert_eq!(copies(&greeting(&mut ours, &here, them)), 0, "it confirmed them");
    learn(&mut ours, 10..12);
    assert_eq!(copies(&greeting(&mut ours, &here, them)), 2);
    // A restart: a new counter and three of the ten copies.
    let mut ours = Rapid::new(&[], 3);
    learn(&mut ours, 0..3);
    receive_one(&mut ours, &here, them, &greeting(&mut theirs, &there, us));
    let told = copies(&greeting(&mut ours, &here, them));
    assert_eq!(told, 10, "after a restart its earlier counter is void, and it sends all ten");
}

#[test]
fn equal_age_goes_by_arrival() {
    let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[0.0, 65_536.0, 1000.0], 7));
    site.now = at(1000);
    let nine = site.meet(9, 0);
    greeting(&mut router, &site, nine);
    let both = [(); 2].map(|()| keep(&mut site, 9, 600, 1000));
    let rates = both.map(|bundle| router.own_rate(&site.node(), site.held(bundle)));
    close(rates[0], 0.001);
    close(rates[1], 0.0005);
}

#[test]
fn every_handover_is_reported_except_delivery() {
    let told = |why| {
        let (mut site, mut router) = (RouterSite::new(), Rapid::new(&[], 7));
        let bundle = keep(&mut site, 9, 100, 0);
        let before = router.change;
        on_event(&mut router, &site, PolicyEvent::Gone { bundle, why });
        router.change > before
    };
    let expired = Why::Deleted(farlink_base::DeleteReason::Expired);
    assert_eq!([Why::Overflow, expired, Why::Forwarded].map(told), [true; 3]);
    assert_eq!([Why::Acked, Why::Delivered].map(told), [false; 2]);
}

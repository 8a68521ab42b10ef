//! Tests of hostile announcements, which must cost little and harm no honest neighbour.

use crate::announce_site::{AnnounceSite, at, beacon, numbered, s, serving};
use farlink_base::Rng;
use farlink_cla::announce::{ATTEMPTS_MAX, HEARD_MAX, NAMES_MAX};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

const HONEST: &str = "10.0.0.2:3003";
const HONEST_SERVES: &str = "10.0.0.2:4556";
/// Number of node IDs that the attackers invent.
const NAMES: u64 = 130_000;

/// Makes a site with an honest neighbour that has a session and announces itself every 5 s.
fn met() -> AnnounceSite {
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.answer.insert(at(HONEST_SERVES));
    site.receive(HONEST, &beacon("ipn:2.0", 5));
    site.until(3.0);
    assert_eq!(site.names(), ["ipn:2.0"]);
    site
}
fn anywhere(rng: &mut Rng) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a01_0000 | rng.below(1 << 16) as u32), 3003))
}

#[test]
fn names_and_attempts_per_address_bounded() {
    // One address may claim four node IDs, and gets one connection attempt at a time.
    let mut site = met();
    for n in 0..NAMES {
        site.receive("10.0.0.66:3003", &beacon(&format!("ipn:{}.0", n + 100), 5));
        if n % 1000 == 0 {
            site.receive(HONEST, &beacon("ipn:2.0", 5));
            let next = site.now.0 as f64 / 1e9 + 0.5;
            site.until(next);
        }
        assert!(site.announcer.announced().count() <= NAMES_MAX + 1);
    }
    assert!(site.lost.iter().all(|lost| lost.1 != site.discovered[0].1), "the neighbour stays");
    let attempts = site.discovered.len() - 1;
    assert!((1..=4).contains(&attempts), "{attempts} in 65 s");
    // A new honest node is discovered in spite of the flood.
    site.world.answer.insert(at("10.0.0.3:4556"));
    let heard = site.now;
    for n in 0..NAMES {
        if n % 10_000 == 0 {
            site.receive("10.0.0.3:3003", &beacon("ipn:3.0", 5));
        }
        site.receive("10.0.0.66:3003", &beacon(&format!("ipn:{}.0", n + 500_000), 5));
        site.until(heard.0 as f64 / 1e9 + n as f64 / 20_000.0);
    }
    let newcomer = site.discovered.iter().find(|found| found.2 == "ipn:3.0").expect("it is found");
    assert!(newcomer.0.since(heard).as_secs_f64() < 2.0, "and soon");
}

#[test]
fn name_flood_spares_honest_neighbours() {
    // The flood comes from as many addresses as it has node IDs.
    let mut site = met();
    let mut rng = Rng::new(1);
    let begun = site.now;
    for n in 0..NAMES {
        let from = anywhere(&mut rng);
        site.receive_at(from, &beacon(&format!("ipn:{}.0", n + 100), 5));
        if n % 5_000 == 0 {
            site.receive(HONEST, &beacon("ipn:2.0", 5));
        }
        assert!(site.announcer.announced().count() <= HEARD_MAX + 32);
        site.until(begun.0 as f64 / 1e9 + n as f64 / 2_000.0);
    }
    assert!(site.lost.iter().all(|lost| lost.1 != site.discovered[0].1), "the neighbour stays");
    // At most eight attempts start in ten seconds, whatever is announced.
    let most = ATTEMPTS_MAX * (65 / 10 + 1) + 1;
    assert!(site.discovered.len() <= most && site.links() <= ATTEMPTS_MAX + 1, "{} attempts", site.discovered.len());
    site.world.answer.insert(at("10.0.0.3:4556"));
    let over = site.now;
    let second = |site: &AnnounceSite| site.now.0 as f64 / 1e9;
    while site.now.since(over).as_secs() < 60 {
        site.receive("10.0.0.3:3003", &beacon("ipn:3.0", 5));
        let next = second(&site) + 1.0;
        site.until(next);
    }
    let newcomer = site.discovered.iter().find(|found| found.2 == "ipn:3.0").expect("it is found");
    assert!(newcomer.0.since(over).as_secs() < 30, "{:?}", newcomer.0.since(over));
    assert_eq!(site.announcer.announced().filter(|(_, heard)| heard.link_id().is_some()).count(), site.links());
}

#[test]
fn connection_attempts_are_rate_limited() {
    // An attacker must not be able to direct repeated connections at a third party.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    let mut rng = Rng::new(2);
    // Beacons announce a victim's address with changing node IDs and ports.
    for n in 0..60_000u64 {
        let port = 1 + rng.below(4) as u16;
        let said = serving(&format!("ipn:{}.0", rng.below(1 << 40) + 2), 5, n as u32, &[("tcpclv4", port)]);
        site.receive("192.0.2.1:3003", &said);
        site.until(n as f64 / 100.0);
    }
    let mut knocks: BTreeMap<SocketAddr, Vec<u64>> = BTreeMap::new();
    for found in &site.discovered {
        knocks.entry(found.3).or_default().push(found.0.0 / 1_000_000_000);
    }
    assert_eq!(knocks.len(), 4);
    for (address, times) in knocks {
        let gaps: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        let doubled = gaps.iter().enumerate().all(|(n, gap)| *gap >= 10 + (10 << n.min(6)) - 1);
        assert!(doubled && times.len() <= 7, "{address}: {times:?}");
    }
}

#[test]
fn forged_name_or_address_takes_nothing() {
    // A forger gains nothing by announcing a neighbour's node ID, nor by sending from the neighbour's address.
    let mut site = met();
    // The forger sends the neighbour's node ID from elsewhere; and, as if from the neighbour's address, another node
    // ID, another port and a farewell.
    for second in 3..60 {
        site.receive("10.0.0.66:3003", &numbered("ipn:2.0", 5, 99));
        site.receive(HONEST, &beacon("ipn:77.0", 5));
        site.receive(HONEST, &serving("ipn:2.0", 5, 7, &[("tcpclv4", 666)]));
        site.receive(HONEST, &beacon("ipn:2.0", 0));
        site.until(f64::from(second));
    }
    assert!(site.lost.iter().all(|lost| lost.1 != site.discovered[0].1), "{:?}", site.lost);
    let served = site.discovered.iter().filter(|found| found.3 == at(HONEST_SERVES)).count();
    assert_eq!(served, 1, "no attempt to the address of a neighbour");
    assert!(site.discovered.iter().all(|found| found.3 != at("10.0.0.2:666")));
    let thief = site.discovered.iter().find(|found| found.3 == at("10.0.0.66:4556"));
    assert!(thief.is_some_and(|found| found.1 != site.discovered[0].1), "a neighbour of its own");
}

#[test]
fn configured_neighbour_is_never_displaced() {
    // The node can reach this neighbour without a new link, whatever is announced.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.known.insert("ipn:2.0".into());
    for second in 0..100 {
        site.receive("10.0.0.66:3003", &beacon("ipn:2.0", 5));
        site.until(f64::from(second));
    }
    assert!(site.discovered.is_empty());
}

#[test]
fn neighbour_limit_keeps_present_neighbours() {
    // At the limit on neighbours, those present keep their links.
    let mut site = AnnounceSite::new("ipn:1.0", |config| config.neighbours_max = 5);
    let address = |n: u64| format!("10.0.0.{n}:3003");
    for n in 2..7 {
        site.world.answer.insert(at(&format!("10.0.0.{n}:4556")));
    }
    for second in 0..300u64 {
        for n in 2..(if second < 60 { 7 } else { 12 }) {
            site.receive(&address(n), &beacon(&format!("ipn:{n}.0"), 5));
        }
        site.until(second as f64);
        assert!(site.links() <= 5);
    }
    assert_eq!((site.links(), site.lost.len()), (5, 0));
    // When a neighbour falls silent, a node that announced itself later gets its link.
    site.world.answer.insert(at("10.0.0.9:4556"));
    site.world.answer.remove(&at("10.0.0.4:4556"));
    for second in 300..500u64 {
        for n in (2..12).filter(|n| *n != 4) {
            site.receive(&address(n), &beacon(&format!("ipn:{n}.0"), 5));
        }
        site.until(second as f64);
    }
    assert!(site.names().contains(&"ipn:9.0") && site.links() == 5 && site.now == s(499.0));
}

#[test]
fn immediate_disconnects_increase_backoff() {
    // A peer that accepts and closes at once counts as failed, so its backoff grows.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    for tenth in 0..10_000u32 {
        site.receive("10.0.0.66:3003", &beacon("ipn:66.0", 1));
        // The peer accepts a connection, and is gone 1.5 s after the attempt.
        let there = site.discovered.last().is_some_and(|found| site.now.since(found.0).as_millis() < 1500);
        site.world.answer.clear();
        if there {
            site.world.answer.insert(at("10.0.0.66:4556"));
        }
        site.until(f64::from(tenth) / 10.0);
    }
    assert!(site.discovered.len() <= 9, "{} attempts in 1000 s", site.discovered.len());
}

#[test]
fn alternating_neighbour_backs_off() {
    // A node that alternates announcements and farewells must not cause an attempt each time.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    let mut newcomer = None;
    for n in 0..600u32 {
        // Beacons from the address of a victim, which accepts no connection.
        site.receive("192.0.2.1:3003", &numbered("ipn:66.0", 5, n));
        site.until(f64::from(n) + 0.5);
        site.receive("192.0.2.1:3003", &numbered("ipn:66.0", 0, n));
        if n == 300 {
            site.world.answer.insert(at("10.0.0.3:4556"));
            site.receive("10.0.0.3:3003", &beacon("ipn:3.0", 600));
        }
        site.until(f64::from(n) + 1.0);
        newcomer = newcomer.or_else(|| site.names().contains(&"ipn:3.0").then_some(n));
    }
    let knocks: Vec<u64> =
        site.discovered.iter().filter(|found| found.2 == "ipn:66.0").map(|found| found.0.0).collect();
    let gaps: Vec<u64> = knocks.windows(2).map(|two| (two[1] - two[0]) / 1_000_000_000).collect();
    let doubled = gaps.iter().enumerate().all(|(n, gap)| *gap >= 10 << n.min(6));
    assert!(doubled && (2..=6).contains(&knocks.len()), "{gaps:?}");
    assert_eq!(newcomer, Some(300), "nor does it delay others");
}

#[test]
fn non_host_addresses_are_never_dialled() {
    // Connecting to the unspecified address, for example, would reach this node itself.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    let nobody =
        ["0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "255.255.255.255", "224.0.0.26", "[ff02::1]", "[::ffff:224.0.0.1]"];
    for (second, address) in (0u32..).zip(nobody) {
        site.receive(&format!("{address}:3003"), &beacon("ipn:66.0", 5));
        site.until(f64::from(second));
    }
    site.until(10.0);
    assert!(site.discovered.is_empty() && site.announcer.announced().count() == 0);
    assert_eq!(site.announcer.counts().unwanted, nobody.len() as u64);
}

#[test]
fn farewell_spares_a_new_session() {
    // Anyone can forge a farewell, so it does not end a session.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.receive(HONEST, &beacon("ipn:2.0", 5));
    while site.discovered.is_empty() {
        let next = site.now.0 as f64 / 1e9 + 0.1;
        site.until(next);
    }
    site.world.answer.insert(at(HONEST_SERVES));
    site.receive(HONEST, &beacon("ipn:2.0", 0));
    let next = site.now.0 as f64 / 1e9 + 10.0;
    site.until(next);
    assert!(site.lost.is_empty() && site.links() == 1, "{:?}", site.lost);
}

//! Tests of neighbour discovery: when neighbours are found and lost, and which are excluded by policy.

use crate::announce_site::{AnnounceSite, at, beacon, layer, numbered, s, serving};
use farlink_base::Duration;
use farlink_cla::announce::{Beacon, DiscoveredId, NodeState};

const B: &str = "10.0.0.2:3003";
const B_SERVES: &str = "10.0.0.2:4556";

#[test]
fn beacons_leave_at_jittered_interval() {
    // The interval varies by 10 % in either direction, and the beacons are numbered.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.until(1000.0);
    let times: Vec<f64> = site.said.iter().map(|(at, _)| at.0 as f64 / 1e9).collect();
    assert!(times[0] <= 0.5 && (180..=222).contains(&times.len()), "{}", times.len());
    let gaps: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (4.5..=5.5).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| (gap - gaps[0]).abs() > 0.1), "not all alike");
    for (number, (_, bytes)) in site.said.iter().enumerate() {
        let beacon = Beacon::parse(bytes).unwrap();
        assert_eq!((beacon.node.to_string(), beacon.sequence), ("ipn:1.0".into(), Some(number as u32)));
        assert_eq!(beacon.period, Some(Duration::from_secs(5)));
        assert_eq!((beacon.services[0].layer, beacon.services[0].port), (layer("tcpclv4"), 4556));
    }
}

#[test]
fn first_beacon_makes_a_link() {
    // The link leads to the source address of the beacon, at the port it announces.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.answer.insert(at(B_SERVES));
    site.receive(B, &beacon("ipn:2.0", 5));
    site.until(1.0);
    assert_eq!(site.discovered.len(), 1);
    let (when, _, name, address, _) = &site.discovered[0];
    assert_eq!((*when <= s(0.2), &name[..], *address), (true, "ipn:2.0", at(B_SERVES)));
    site.receive(B, &numbered("ipn:2.0", 5, 1));
    site.until(5.0);
    assert_eq!((site.discovered.len(), site.lost.len()), (1, 0), "one is enough");
    let (name, heard) = site.announcer.announced().next().unwrap();
    assert_eq!((name.to_string(), heard.beacons, heard.sequence), ("ipn:2.0".into(), 2, Some(1)));
    assert!(matches!(heard.stands, NodeState::Linked { up: Some(_), .. }));
}

#[test]
fn node_with_lesser_name_connects() {
    // Both nodes receive each other's beacons, and one connection suffices.
    let mut greater = AnnounceSite::new("ipn:2.0", |_| {});
    greater.receive("10.0.0.1:3003", &beacon("ipn:1.0", 5));
    greater.until(1.5);
    assert!(greater.discovered.is_empty(), "it waits for the other");
    greater.world.known.insert("ipn:1.0".into());
    greater.until(10.0);
    assert!(greater.discovered.is_empty(), "the other has connected");
    greater.world.known.clear();
    greater.receive("10.0.0.1:3003", &beacon("ipn:1.0", 5));
    greater.until(12.0);
    assert_eq!(greater.names(), ["ipn:1.0"], "the other has left");
    let mut alone = AnnounceSite::new("ipn:2.0", |_| {});
    alone.receive("10.0.0.1:3003", &beacon("ipn:1.0", 5));
    alone.until(3.5);
    assert_eq!(alone.names(), ["ipn:1.0"], "the other never came");
}

#[test]
fn silence_ends_link_after_three_periods() {
    // A link ends after three periods without a beacon, or after twelve while its session has keepalives.
    let mut site = AnnounceSite::new("ipn:1.0", |config| config.reach = vec![layer("tcpclv4"), layer("mtcp")]);
    site.world.answer.extend([at(B_SERVES), at("10.0.0.3:9")]);
    site.receive(B, &beacon("ipn:2.0", 2));
    site.receive("10.0.0.3:3003", &serving("ipn:3.0", 2, 0, &[("mtcp", 9)]));
    site.until(5.9);
    assert!(site.lost.is_empty());
    site.until(7.2);
    let over_mtcp = site.discovered.iter().find(|found| found.2 == "ipn:3.0").unwrap().1;
    assert_eq!(
        site.lost.iter().map(|lost| lost.1).collect::<Vec<_>>(),
        [over_mtcp],
        "nothing asks whether it is there"
    );
    site.until(23.9);
    assert_eq!(site.lost.len(), 1);
    site.until(25.2);
    assert_eq!(site.lost[1].2, "it announces itself no more");
    assert_eq!((site.links(), site.announcer.announced().count()), (0, 0), "nothing is left");
    let next = site.announcer.next_timeout().unwrap();
    assert!(next.since(site.now) > Duration::from_secs(0), "only its own beacons wake it");
}

#[test]
fn beacon_period_is_bounded_and_adjustable() {
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.answer.insert(at("10.0.0.3:9"));
    // The period is longer than any clock can count.
    site.receive(B, &beacon("ipn:2.0", u64::MAX));
    site.until(1800.0 - 1.0);
    assert_eq!(site.announcer.announced().count(), 1);
    site.until(1802.0);
    assert_eq!(site.announcer.announced().count(), 0, "three times ten minutes");
    let begun = 2000.0;
    site.until(begun);
    site.receive(B, &beacon("ipn:2.0", 100));
    site.until(begun + 10.0);
    site.receive(B, &numbered("ipn:2.0", 1, 1));
    site.until(begun + 15.0);
    assert_eq!(site.announcer.announced().count(), 0, "the shorter period holds");
}

#[test]
fn farewell_ends_link_without_session() {
    // While the session is up the farewell is ignored, because anyone can send one.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.answer.insert(at(B_SERVES));
    site.receive(B, &beacon("ipn:2.0", 5));
    site.receive("10.0.0.3:3003", &beacon("ipn:3.0", 5));
    site.until(2.0);
    assert_eq!(site.links(), 2);
    site.receive(B, &beacon("ipn:2.0", 0));
    site.receive("10.0.0.3:3003", &beacon("ipn:3.0", 0));
    assert_eq!((site.links(), site.lost[0].2), (1, "it leaves"), "anybody can say so of another");
    site.world.answer.clear();
    site.until(4.0);
    assert_eq!((site.links(), site.announcer.announced().count()), (0, 0));
    site.receive(B, &beacon("ipn:2.0", 0));
    site.until(30.0);
    assert_eq!((site.discovered.len(), site.announcer.announced().count()), (2, 0), "a farewell introduces nobody");
}

#[test]
fn unanswered_attempts_back_off() {
    // An attempt may last ten seconds. Before the next one the node waits twice as long as the time before.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    for second in 0..2000 {
        site.receive(B, &numbered("ipn:2.0", 5, second));
        site.until(f64::from(second + 1));
    }
    let gaps: Vec<u64> = site.discovered.windows(2).map(|two| two[1].0.since(two[0].0).as_secs()).collect();
    // An attempt of ten seconds and a doubling wait; links are checked once per second.
    let wanted = [20, 30, 50, 90, 170, 330, 650];
    assert!(gaps.iter().zip(wanted).all(|(gap, wanted)| (wanted..=wanted + 3).contains(gap)), "{gaps:?}");
    assert!(site.discovered.len() >= 7 && site.lost.iter().all(|lost| lost.2 == "it does not answer"));
}

#[test]
fn lasting_session_is_redialled_at_once() {
    // A neighbour is connected to again at once after a session of ten seconds or more, and after the backoff if the
    // session was shorter.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.answer.insert(at(B_SERVES));
    let receive = |site: &mut AnnounceSite, until: u64| {
        while site.now < s(until as f64) {
            site.receive(B, &beacon("ipn:2.0", 5));
            let next = site.now.0 as f64 / 1e9 + 1.0;
            site.until(next.floor());
        }
    };
    receive(&mut site, 30);
    site.world.answer.clear();
    receive(&mut site, 33);
    assert_eq!((site.lost[0].2, site.discovered.len()), ("its session ended", 2));
    site.world.answer.insert(at(B_SERVES));
    receive(&mut site, 35);
    site.world.answer.clear();
    receive(&mut site, 40);
    assert_eq!(site.discovered.len(), 2, "that session lasted for a moment: backoff");
    receive(&mut site, 60);
    assert_eq!(site.discovered.len(), 3);
}

#[test]
fn disabled_link_stays_disabled() {
    // Announcements do not override an operator's decision about a link.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.world.off.insert(DiscoveredId(0));
    for second in 0..100 {
        site.receive(B, &beacon("ipn:2.0", 5));
        site.until(f64::from(second));
    }
    assert_eq!((site.discovered.len(), site.lost.len()), (1, 0));
}

#[test]
fn own_and_unwanted_beacons_are_ignored() {
    // Beacons that share no layer with this node are ignored, too.
    let mut site = AnnounceSite::new("ipn:1.0", |config| {
        config.node_ids.push("dtn://one/".parse().unwrap());
        config.accept = vec!["ipn:2.*".into(), "dtn://*".into()];
    });
    for name in ["ipn:1.0", "dtn://one/", "ipn:3.0", "ipn:22.0"] {
        site.receive(B, &beacon(name, 5));
    }
    site.receive(B, &serving("ipn:2.0", 5, 0, &[("mtcp", 16162)]));
    site.receive(B, b"no beacon");
    site.until(3.0);
    assert!(site.discovered.is_empty() && site.announcer.announced().count() == 0);
    let counts = site.announcer.counts();
    assert_eq!((counts.wanted, counts.unwanted, counts.unreadable), (0, 3, 1));
    site.receive(B, &beacon("ipn:2.0", 5));
    site.receive("10.0.0.3:3003", &beacon("dtn://three/", 5));
    site.until(6.0);
    let mut names = site.names();
    names.sort_unstable();
    assert_eq!(names, ["dtn://three/", "ipn:2.0"]);
}

#[test]
fn preferred_layer_is_used() {
    let mut site = AnnounceSite::new("ipn:1.0", |config| config.reach = ["ltp", "mtcp", "tcpclv4"].map(layer).to_vec());
    let all = [("tcpclv4", 1), ("mtcp", 2), ("ltp", 3)];
    site.receive("10.0.0.2:3003", &serving("ipn:2.0", 5, 0, &all));
    site.receive("10.0.0.3:3003", &serving("dtn://three/", 5, 0, &all));
    site.receive("10.0.0.4:3003", &serving("ipn:4.0", 5, 0, &all[..1]));
    site.until(3.0);
    let mut ways: Vec<_> = site.discovered.iter().map(|found| (&found.2[..], found.3.port(), found.4)).collect();
    ways.sort_unstable();
    assert_eq!(ways, [("dtn://three/", 2, 1), ("ipn:2.0", 3, 0), ("ipn:4.0", 1, 2)], "a name is no engine number");
}

#[test]
fn link_address_keeps_its_interface() {
    // A link-local IPv6 address must name its interface; an IPv4-mapped address becomes an IPv4 address.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.receive("[fe80::2%7]:3003", &beacon("ipn:2.0", 5));
    site.receive("[::ffff:10.0.0.3]:3003", &beacon("ipn:3.0", 5));
    site.until(3.0);
    let mut addresses: Vec<String> = site.discovered.iter().map(|found| found.3.to_string()).collect();
    addresses.sort();
    assert_eq!(addresses, ["10.0.0.3:4556", "[fe80::2%7]:4556"]);
}

#[test]
fn changed_port_is_tried_next() {
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.receive(B, &beacon("ipn:2.0", 5));
    for second in 1..=30 {
        site.until(f64::from(second));
        site.receive(B, &serving("ipn:2.0", 5, 1, &[("tcpclv4", 4600)]));
    }
    assert_eq!(site.discovered[1].3, at("10.0.0.2:4600"));
}

#[test]
fn shutdown_sends_one_farewell() {
    // The last beacon has period zero; nothing is sent after it.
    let mut site = AnnounceSite::new("ipn:1.0", |_| {});
    site.until(2.0);
    site.leave();
    let last = Beacon::parse(&site.said.last().unwrap().1).unwrap();
    assert_eq!(last.period, Some(Duration::ZERO));
    let said = site.said.len();
    site.until(100.0);
    assert_eq!(site.said.len(), said);
}

#[test]
fn same_seed_gives_same_outputs() {
    let run = || {
        let mut site = AnnounceSite::new("ipn:1.0", |_| {});
        for n in 0..2000u32 {
            site.receive(&format!("10.0.{}.{}:3003", n / 200, n % 200), &beacon(&format!("ipn:{}.0", n + 2), 5));
            site.until(f64::from(n) / 100.0);
        }
        (site.said, site.discovered, site.lost)
    };
    assert_eq!(run(), run());
}

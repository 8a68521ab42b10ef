//! What a scenario means: defaults, layering, contacts, addresses, plan.

use farlink_base::{DataRate, DataVolume, Duration, Instant, NodeId, Priority};
use farlink_link::{Delay, Loss, Rate};
use farlink_scenario::{ConnectSide, Layer, Pace, Scenario, StoreKind, TrafficKind};
use std::net::Ipv4Addr;

fn campaign(file: &str) -> Scenario {
    let path = format!("{}/../campaigns/iss/{file}", env!("CARGO_MANIFEST_DIR"));
    Scenario::load(path.as_ref()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn the_smoke_scenario_reads_as_meant() {
    let s = campaign("smoke.toml");
    assert_eq!((s.name.as_str(), s.seed, s.duration), ("iss-smoke", 42, Duration::from_secs(20)));
    assert_eq!(s.nodes.iter().map(|n| n.number.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(s.nodes.iter().all(|n| n.store == StoreKind::Memory && n.router.name == "sabr" && n.hop_limit == 32));
    let space = &s.links[1];
    assert_eq!(space.forward.rate, Rate::Constant(DataRate(20_000_000)));
    assert_eq!(space.reverse.rate, Rate::Constant(DataRate(2_000_000)));
    assert_eq!(space.forward.loss, Loss::Bernoulli(0.005));
    assert_eq!(space.reverse.delay, Delay::Constant(Duration::from_millis(60)), "a key of the link holds both ways");
    assert!(matches!(&space.layer, Layer::Ltp(ltp) if ltp.datagram_bytes == 1360 && ltp.window_bytes == 1 << 30));
    assert!(matches!(&s.links[0].layer, Layer::TcpclV4(t) if t.connect == ConnectSide::First));
    let t = &s.traffic[0];
    assert_eq!((t.from, t.to, t.service, t.priority), (0, 3, 1000, Priority::Bulk));
    assert_eq!(t.lifetime, Duration::from_secs(600), "the sending node's");
    let size = DataVolume(5_000_000);
    assert_eq!(t.kind, TrafficKind::File { path: None, size, bundle_size: DataVolume(100_000), pace: Pace::Flat });
}

#[test]
fn contacts_become_windows_of_the_link_and_the_routers_plan() {
    let s = campaign("smoke.toml");
    assert!(s.scheduled(1) && !s.scheduled(0));
    let spec = s.link_spec(1);
    let windows = spec.reverse.windows.unwrap();
    assert_eq!(windows.len(), 2);
    assert_eq!((windows[0].start, windows[0].end), (Instant(500_000_000), Instant(2_000_000_000)));
    assert_eq!(s.link_spec(0).forward.windows, None, "always up");
    let plan = s.contact_plan();
    assert_eq!(plan.contacts.len(), 4 + 4, "two always-up links and two contacts, both ways");
    let up: Vec<_> = plan.contacts.iter().filter(|c| c.from == NodeId(3) && c.to == NodeId(2)).collect();
    assert_eq!(up.len(), 2);
    assert_eq!((up[0].rate, up[0].one_way_delay), (DataRate(2_000_000), Duration::from_millis(60)));
    assert_eq!(up[0].link.as_deref(), Some("space"));
}

#[test]
fn addresses_follow_from_the_order_of_links() {
    let s = campaign("smoke.toml");
    let [first, second] = s.ends(1);
    assert_eq!((first.address, second.address), (Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(10, 0, 1, 2)));
    assert_eq!((first.node, first.peer, first.peer_address), (1, 2, second.address));
    assert_eq!((first.port, s.ends(0)[0].port), (1113, 4556));
    let onboard = s.ends_of(1);
    assert_eq!(onboard.iter().map(|e| e.address.to_string()).collect::<Vec<_>>(), ["10.0.0.2", "10.0.1.1"]);
}

const SMALL: &str = r#"
name = "layers"
duration = "10 s"
[link_defaults]
loss = 0.5
delay = "1 s"
[link_defaults.forward]
delay = "2 s"
[[node]]
name = "a"
id = ["ipn:7.1.0", "dtn://a/"]
[[node]]
name = "b"
id = "dtn://b/"
routes = { "ipn:9.*" = "a" }
[[link]]
name = "ab"
between = ["a", "b"]
layer = "ltp"
loss = "25 %"
[link.reverse]
loss = 0
rate = [["0 s", "1 Mbit/s"], ["5 s", "2 Mbit/s"]]
[[contact]]
link = "ab"
from = "b"
start = "6 s"
end = "7 s"
"#;

#[test]
fn a_direction_overrides_its_link_and_a_link_the_defaults() {
    let s = Scenario::parse(SMALL).unwrap_or_else(|e| panic!("{e:#?}"));
    let link = &s.links[0];
    assert_eq!(link.forward.loss, Loss::Bernoulli(0.25));
    assert_eq!(link.reverse.loss, Loss::None);
    assert_eq!(link.forward.delay, Delay::Constant(Duration::from_secs(2)));
    assert_eq!(link.reverse.delay, Delay::Constant(Duration::from_secs(1)));
    assert_eq!(s.nodes[0].number, NodeId(7 << 32 | 1));
    assert_eq!(s.nodes[1].number, NodeId::interned(1));
    assert_eq!((s.nodes[1].routes[0].to.as_str(), s.nodes[1].routes[0].via), ("ipn:9.*", 0));
}

#[test]
fn a_contact_takes_the_rate_that_holds_at_its_start_and_one_direction_only() {
    let s = Scenario::parse(SMALL).unwrap();
    let plan = s.contact_plan();
    assert_eq!(plan.contacts.len(), 1);
    assert_eq!(plan.contacts[0].rate, DataRate(2_000_000));
    assert_eq!(s.link_spec(0).forward.windows, Some(Vec::new()), "scheduled, and never up that way");
}

#[test]
fn presets_are_a_start_that_keys_change() {
    let text = SMALL.replace("layer = \"ltp\"", "layer = \"ltp\"\npreset = \"geo\"");
    let s = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(s.links[0].forward.rate, Rate::Constant(DataRate(10_000_000)));
    assert_eq!(s.links[0].forward.loss, Loss::Bernoulli(0.25));
    let wrong = Scenario::parse(&text.replace("\"geo\"", "\"gео\"")).unwrap_err();
    assert!(wrong[0].expected.contains("no preset"), "{wrong:?}");
}

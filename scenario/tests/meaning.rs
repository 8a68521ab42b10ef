//! Meaning of a scenario: defaults, layering, contacts, addresses, plan.

use farlink_base::{DataRate, DataVolume, Duration, Instant, NodeId, Priority};
use farlink_link::{Delay, Loss, Rate};
use farlink_scenario::{ConnectSide, Fidelity, Pace, Scenario, StoreKind, TrafficKind};
use std::net::Ipv4Addr;

fn campaign(file: &str) -> Scenario {
    let path = format!("{}/../campaigns/iss/{file}", env!("CARGO_MANIFEST_DIR"));
    Scenario::load(path.as_ref()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn block_types_clash_as_in_node_files() {
    let scenario = |node: &str| {
        let text = format!(
            "name = \"x\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\nstore = \"durable\"\n{node}\
             [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n"
        );
        Scenario::parse(&text).err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let custody = "custody = \"ask\"\ncompressed_reports = { request = \"*\" }\n";
    assert_eq!(scenario(custody), Vec::<String>::new());
    let found = scenario(&format!("{custody}custody_rules = {{ transfer_block = 14 }}\n"));
    assert!(found.len() == 1 && found[0].contains("14 is the type of the block"), "{found:?}");
    // Without custody, the type of custody's block is not in use, so no other block can conflict with it.
    let unused = "compressed_reports = { request = \"*\" }\n";
    assert_eq!(scenario(unused), Vec::<String>::new());
}

#[test]
fn hints_name_keys_of_the_scenario() {
    let text =
        "name = \"x\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\nstore_reserved = \"2 GB\"\n";
    let found = Scenario::parse(text).unwrap_err();
    assert!(found[0].hint.contains("`store_capacity`"), "{found:?}");
}

#[test]
fn settings_of_a_table_fall_back_one_by_one() {
    let text = "name = \"x\"\nduration = \"10 s\"\n[node_defaults.limits]\nlifetime = \"2 s\"\nbundles = 7\n\
                [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\nlimits = { bundles = 9 }\n";
    let settings = Scenario::parse(text).unwrap().nodes[0].settings();
    assert_eq!((settings.limits.bundles, settings.limits.lifetime_s), (9, 2));
}

#[test]
fn clocks_that_miss_the_plan_are_doubted() {
    let doubts = |key: &str| {
        let text = format!("name = \"x\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{key}\n");
        Scenario::parse(&text).unwrap().doubts().len()
    };
    assert_eq!(
        ["", "clock = \"untrusted\"", "clock_offset = \"-1 h\"", "clock_offset = \"-1 s\""].map(doubts),
        [0, 1, 1, 0]
    );
}

#[test]
fn smoke_scenario_reads_as_meant() {
    let s = campaign("smoke.toml");
    assert_eq!((s.name.as_str(), s.seed, s.duration), ("iss-smoke", 42, Duration::from_secs(20)));
    assert_eq!(s.nodes.iter().map(|n| n.number.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(
        s.nodes
            .iter()
            .all(|n| n.store == StoreKind::Memory && n.router.name == "sabr" && n.settings().agent.hop_limit == 64)
    );
    let space = &s.links[1];
    assert_eq!(space.forward.rate, Rate::Constant(DataRate(20_000_000)));
    assert_eq!(space.reverse.rate, Rate::Constant(DataRate(2_000_000)));
    assert_eq!(space.forward.loss, Loss::Bernoulli(0.005));
    assert_eq!(space.reverse.delay, Delay::Constant(Duration::from_millis(60)), "a key of the link holds both ways");
    assert_eq!(
        (space.layer.kind.name, space.layer.value("datagram"), space.layer.value("window")),
        ("ltp", Some(1360), Some(1 << 30))
    );
    assert_eq!((s.links[0].layer.kind.name, s.links[0].layer.connect), ("tcpclv4", ConnectSide::First));
    let t = &s.traffic[0];
    assert_eq!((t.from, t.to, t.service, t.priority), (0, 3, 1000, Priority::Bulk));
    assert_eq!(t.lifetime, Duration::from_secs(600), "the sending node's");
    let size = DataVolume(5_000_000);
    assert_eq!(t.kind, TrafficKind::File { path: None, size, bundle_size: DataVolume(100_000), pace: Pace::Flat });
}

#[test]
fn contacts_become_windows_and_plan() {
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
fn addresses_follow_link_order() {
    let s = campaign("smoke.toml");
    let [first, second] = s.ends(1);
    assert_eq!((first.address, second.address), (Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(10, 0, 1, 2)));
    assert_eq!((first.node, first.peer, first.peer_address), (1, 2, second.address));
    // Ports assigned by IANA to LTP (RFC 5326) and TCPCL (RFC 9174).
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
fn direction_overrides_link_overrides_defaults() {
    let s = Scenario::parse(SMALL).unwrap_or_else(|e| panic!("{e:#?}"));
    let link = &s.links[0];
    assert_eq!(link.forward.loss, Loss::Bernoulli(0.25));
    assert_eq!(link.reverse.loss, Loss::None);
    assert_eq!(link.forward.delay, Delay::Constant(Duration::from_secs(2)));
    assert_eq!(link.reverse.delay, Delay::Constant(Duration::from_secs(1)));
    // An ipn node ID with an allocator (RFC 9758): 7.1 is the allocator 7 and the node 1.
    assert_eq!(s.nodes[0].number, NodeId(7 << 32 | 1));
    assert!(s.nodes[1].number.is_named());
    assert_eq!((s.nodes[1].routes[0].to.as_str(), s.nodes[1].routes[0].via), ("ipn:9.*", 0));
}

#[test]
fn contact_takes_rate_at_its_start() {
    let s = Scenario::parse(SMALL).unwrap();
    let plan = s.contact_plan();
    assert_eq!(plan.contacts.len(), 1);
    // The table changes at 5 s; the contact begins at 6 s.
    assert_eq!(plan.contacts[0].rate, DataRate(2_000_000));
    assert_eq!(s.link_spec(0).forward.windows, Some(Vec::new()), "scheduled, and never up that way");
}

#[test]
fn keys_override_presets() {
    let text = SMALL.replace("layer = \"ltp\"", "layer = \"ltp\"\npreset = \"geo\"");
    let s = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(s.links[0].forward.rate, Rate::Constant(DataRate(10_000_000)));
    assert_eq!(s.links[0].forward.loss, Loss::Bernoulli(0.25));
    // The replacement has Cyrillic letters that look the same.
    let wrong = Scenario::parse(&text.replace("\"geo\"", "\"gео\"")).unwrap_err();
    assert!(wrong[0].expected.contains("no preset"), "{wrong:?}");
}

#[test]
fn default_interval_gives_thousand_samples() {
    let interval = |duration: &str, measure: &str| {
        let text =
            format!("name = \"x\"\nduration = \"{duration}\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{measure}");
        Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}")).measure.interval
    };
    // A thousandth of the year; the 20 s below would give 20 ms, under the least interval of 100 ms.
    assert_eq!(interval("365 d", ""), Duration::from_millis(31_536_000));
    assert_eq!(interval("20 s", "[measure]\nsegments = true"), Duration::from_millis(100));
    assert_eq!(interval("365 d", "[measure]\ninterval = \"1 s\""), Duration::from_secs(1));
}

#[test]
fn fidelity_defaults_to_full() {
    assert_eq!(Scenario::parse(SMALL).unwrap().fidelity, Fidelity::Full);
    let text = SMALL.replace("duration", "fidelity = \"message\"\nduration");
    assert_eq!(Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}")).fidelity, Fidelity::Message);
    let wrong = Scenario::parse(&text.replace("\"message\"", "\"massage\"")).unwrap_err();
    assert_eq!(wrong[0].path, "fidelity (line 3)");
}

/// Reads a scenario in a folder of its own, with a plan file.
fn with_plan(plan: &str) -> Result<Scenario, Vec<farlink_scenario::ConfigError>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.plan"), plan).unwrap();
    let contact = SMALL.find("[[contact]]").unwrap();
    let text = SMALL[..contact].replace("duration", "plan = \"p.plan\"\nduration").replace("ipn:7.1.0", "ipn:7.0");
    Scenario::parse_in(&text, folder.path())
}

#[test]
fn plan_files_name_nodes_and_links() {
    let s = with_plan("contact a dtn://b/ +1..+2 rate 1 Mbit/s\ncontact b 7 link=ab +3..+4 rate 2 Mbit/s delay 5 s\n")
        .unwrap();
    assert_eq!(s.contacts.iter().map(|c| c.forward).collect::<Vec<_>>(), [true, false]);
    assert_eq!(s.contacts[0].delay, None, "the link's");
    assert_eq!(s.contacts[1].delay, Some(Duration::from_secs(5)));
    assert_eq!(s.contacts[1].rate, Some(DataRate(2_000_000)));
    assert!(s.plan_file.unwrap().1.starts_with("contact a"));
    let wrong = with_plan("contact a b +1..+2 rate 1 Mbit/s\ncontact a b link=cd +3..+4 rate 1 Mbit/s\n").unwrap_err();
    assert_eq!(wrong[0].path, "p.plan (line 2)");
    assert!(
        with_plan("contact a 9 +1..+2 rate 1 Mbit/s\n").unwrap_err()[0]
            .expected
            .contains("no node of the scenario is ipn:9")
    );
    assert!(with_plan("contact a b soon rate 1 Mbit/s\n").is_err());
}

#[test]
fn wall_time_plan_sets_epoch() {
    let s = with_plan("contact a b 2026-11-20T09:00:00Z..+5 rate 1 Mbit/s\n").unwrap();
    assert_eq!(s.epoch, farlink_base::DtnTime::parse_utc("2026-11-20T09:00:00Z"));
    assert_eq!((s.contacts[0].start, s.contacts[0].end), (Duration::ZERO, Duration::from_secs(5)));
}

#[test]
fn space_station_scenario_carries_its_file() {
    let s = campaign("scenario.toml");
    let down: Vec<_> = s.contacts.iter().filter(|c| c.link == 1 && c.forward).collect();
    assert_eq!(down.len(), 3, "two gaps");
    let volume: u64 = down.iter().map(|c| c.rate.unwrap().volume_in(c.end - c.start)).sum();
    assert!(volume > 300_000_000, "{volume}");
    let Pace::Rate(made) = (match &s.traffic[0].kind {
        TrafficKind::File { pace, .. } => *pace,
        _ => unreachable!("a file"),
    }) else {
        unreachable!("at a rate")
    };
    // Each of the first passes drains the backlog of a gap of 4 s, with a fifth to spare: otherwise a testbed that is a
    // little slower moves bundles to the next pass, and means are worthless.
    let spare = down[0].rate.unwrap().0 as f64 * 0.8 - made.0 as f64;
    assert!(spare * 10.0 > made.0 as f64 * 3.0, "{spare}");
    assert!(s.duration <= Duration::from_secs(90), "at most 90 s of real time");
    assert!(s.links[1].forward.delay == Delay::Constant(Duration::from_millis(600)));
}

#[test]
fn manifest_topology_names_everything() {
    let json: serde_json::Value = serde_json::from_str(&campaign("scenario.toml").topology_json()).unwrap();
    assert_eq!(json["nodes"][1]["name"], "onboard");
    assert_eq!(json["nodes"][1]["store"], "durable");
    let space = &json["links"][1];
    assert_eq!((space["from"].as_str(), space["layer"].as_str()), (Some("onboard"), Some("ltp")));
    assert_eq!(
        (space["forward"]["rate_bit_s"].as_u64(), space["forward"]["loss"].as_f64()),
        (Some(100_000_000), Some(0.001))
    );
    assert_eq!(space["forward"]["notes"][0], "24 B of framing per packet");
    let contacts = json["contacts"].as_array().unwrap();
    assert!(contacts.iter().any(|c| c["link"] == "space" && c["from"] == "ground" && c["start_s"] == 2.0));
    assert!(contacts.iter().all(|c| c["delay_s"].is_f64()));
    let flow = &json["traffic"][0];
    assert_eq!((flow["name"].as_str(), flow["to"].as_str()), (Some("observation"), Some("center")));
    assert_eq!((flow["service"].as_u64(), flow["sender_service"].as_u64()), (Some(1000), Some(10_000)));
}

#[test]
fn same_kind_and_port_share_layer() {
    let link = |name: &str, to: &str, layer: &str| {
        format!("[[link]]\nname = \"{name}\"\nbetween = [\"a\", \"{to}\"]\nlayer = {layer}\n")
    };
    let nodes = ["a", "b", "c"].map(|n| format!("[[node]]\nname = \"{n}\"\nid = \"dtn://{n}/\"\n")).concat();
    let read = |links: String| Scenario::parse(&format!("name = \"n\"\nduration = \"1 s\"\n{nodes}{links}"));
    let links = [
        link("wire", "b", "\"tcpclv4\""),
        link("laser", "b", "\"ltp\"\nport = 2000"),
        link("radio", "c", "\"ltp\""),
        link("spare", "c", "\"ltp\"\nport = 2000"),
        link("cable", "c", "\"tcpclv4\"\nport = 4556"),
    ];
    let scenario = read(links.concat()).unwrap();
    let layers = |node| -> Vec<(String, u16, Vec<usize>)> {
        scenario.layers_of(node).into_iter().map(|layer| (layer.name, layer.port, layer.links)).collect()
    };
    let own = |name: &str, port, links: &[usize]| (name.to_string(), port, links.to_vec());
    // Registry order first: LTP precedes TCPCLv4, although the file names TCPCLv4 first.
    assert_eq!(layers(0), [own("ltp-2000", 2000, &[1, 3]), own("ltp", 1113, &[2]), own("tcpclv4", 4556, &[0, 4])]);
    assert_eq!(layers(1).iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["ltp-2000", "tcpclv4"]);
    assert_eq!(scenario.ends(1).map(|end| end.port), [2000; 2]);
    let json: serde_json::Value = serde_json::from_str(&scenario.topology_json()).unwrap();
    assert_eq!((json["links"][1]["port"].as_u64(), json["links"][2]["port"].as_u64()), (Some(2000), Some(1113)));
    // A wrong layer does not hide a wrong port of the same link.
    let errors = read(link("radio", "b", "\"pigeon\"\nport = 0")).unwrap_err();
    assert!(errors.iter().any(|error| error.path.starts_with("link[radio].port")), "{errors:#?}");
}

#[test]
fn host_tcp_defaults_to_new_reno() {
    let text = "name = \"s\"\nduration = \"1 s\"\n[node_defaults]\ntcp = { congestion = \"cubic\" }\n\
        [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
        tcp = { congestion = \"hybla\", receive_buffer = \"1 MiB\" }\n";
    let s = Scenario::parse(text).unwrap();
    let [a, b] = [0, 1].map(|node: usize| s.nodes[node].tcp);
    assert_eq!((a.control_in_linux(), a.send_buffer.bytes(), a.receive_buffer.bytes()), ("cubic", 4 << 20, 6 << 20));
    assert_eq!((b.control_in_linux(), b.receive_buffer.bytes()), ("hybla", 1 << 20));
    assert_eq!(campaign("smoke.toml").nodes[0].tcp.control_in_linux(), "reno");
    let wrong = text.replace("1 MiB", "1 kB");
    assert!(Scenario::parse(&wrong).unwrap_err()[0].to_string().contains("4096 B to 1 GiB"));
}

#[test]
fn discovered_link_is_in_no_plan() {
    let with = |more: &str| {
        let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
        let link = |layer: &str| {
            format!("[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"{layer}\"\nfound = true\n")
        };
        let layer = if more.contains("ltp") { "ltp" } else { "tcpclv4" };
        let text = format!("name = \"s\"\nduration = \"60 s\"\n{}{}{}{more}", node("a", 1), node("b", 2), link(layer));
        Scenario::parse(&text).map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())
    };
    let always = with("").unwrap();
    assert!(always.links[0].found && always.contact_plan().contacts.is_empty());
    assert_eq!(always.link_spec(0).forward.windows, None);
    let passing = with("appears = \"5 s\"\ndisappears = \"9 s\"\n").unwrap();
    let windows = passing.link_spec(0).reverse.windows.unwrap();
    assert_eq!((windows[0].start, windows[0].end), (Instant(5_000_000_000), Instant(9_000_000_000)));
    let contact = "[[contact]]\nlink = \"l\"\nstart = \"1 s\"\nend = \"2 s\"\n";
    assert!(with(contact).unwrap_err().contains("it is in no contact plan"));
    assert!(with("ltp = {}\n").unwrap_err().contains("`ltp` has no sessions"));
}

#[test]
fn traffic_requests_reports_nodes_compress_them() {
    let with = |traffic: &str, kind: &str| {
        let text = format!(
            "name = \"s\"\nduration = \"9 s\"\n[node_defaults]\ncompressed_reports = {{ request = \"ipn:2.*\", delay = \"3 s\" }}\n\
             [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\ncompressed_reports = {{}}\n\
             [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n[[traffic]]\nfrom = \"a\"\nto = \"b\"\n{traffic}\n{kind}\n"
        );
        Scenario::parse(&text).map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())
    };
    let bundles = "bundles = { count = 1, size = \"9 B\" }";
    let scenario = with("reports = [\"deletion\", \"reception\"]", bundles).unwrap();
    assert_eq!(scenario.traffic[0].report_words(), ["reception", "deletion"]);
    let [a, b] = [0, 1].map(|node: usize| scenario.nodes[node].compressed_reports.clone().unwrap());
    assert_eq!(
        (&a.request[..], a.terms.delay, a.terms.bundles),
        (&["ipn:2.*".to_string()][..], Duration::from_secs(3), 1000)
    );
    // A node's own table replaces that of the defaults, instead of being merged with it.
    assert_eq!((b.request.len(), b.terms.delay), (0, Duration::from_secs(10)), "its own table, whole");
    assert!(with("", bundles).unwrap().traffic[0].report_words().is_empty());
    assert!(with("reports = [\"arrival\"]", bundles).unwrap_err().contains("`arrival` is none of"));
    assert!(with("reports = [\"delivery\"]", "ping = {}").unwrap_err().contains("pings ask for none"));
}

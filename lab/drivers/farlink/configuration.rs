//! The node's configuration file and contact plan, from the scenario.

use super::{EVENTS, PLAN, SOCKET};
use crate::driver::NodeContext;
use farlink_base::{Duration, Rng};
use farlink_link::{Delay, DirectionSpec, Rate, UDP_IPV4_HEADERS};
use farlink_scenario::{ConnectSide, Crc, Layer, LinkEnd, Ltp, StoreKind, TcpclV4};
use std::fmt::{Display, Write};

/// The TOML file of one node.
pub fn node_toml(node: &NodeContext<'_>) -> String {
    let here = &node.scenario.nodes[node.index];
    let mut toml = Toml::default();
    toml.comment(&format!("node `{}` of scenario `{}`", here.name, node.scenario.name));
    toml.value("node_ids", list(&here.ids));
    toml.text("clock_error", "1 ms");
    toml.text(
        "crc",
        match here.crc {
            Crc::None => "none",
            Crc::Crc16 => "crc16",
            Crc::Crc32c => "crc32c",
        },
    );
    toml.value("status_reports", here.status_reports);
    toml.value("hop_limit", here.hop_limit);
    // The simulator gives its nodes the same.
    toml.value("seed", Rng::stream(node.scenario.seed, 2 << 32 | node.index as u64).next_u64());
    toml.text("shutdown_timeout", "2 s");

    toml.table("store");
    match here.store {
        StoreKind::Memory => toml.text("kind", "memory"),
        StoreKind::Durable => {
            toml.text("kind", "durable");
            toml.text("dir", "store");
        }
    }
    toml.text("capacity", &bytes(here.store_capacity.bytes()));
    links(node, &mut toml);

    if !here.routes.is_empty() {
        toml.table("routes");
        for route in &here.routes {
            toml.text(&quoted(&route.to), &node.scenario.nodes[route.via].ids[0]);
        }
    }
    toml.table("plan");
    toml.text("file", PLAN);
    toml.text("epoch", &node.epoch.to_string());
    for (table, policy) in [("router", &here.router), ("control", &here.control)] {
        toml.table(table);
        toml.text("name", &policy.name);
        for (name, value) in &policy.params {
            toml.value(name, format!("{value:?}"));
        }
    }
    toml.table("app");
    toml.text("socket", SOCKET);
    toml.table("events");
    toml.text("file", EVENTS);
    toml.value("segments", node.scenario.measure.segments);
    toml.text
}

/// The contact plan all nodes are given; its epoch is in the configuration.
pub fn contact_plan(node: &NodeContext<'_>) -> String {
    let mut plan = node.scenario.contact_plan();
    plan.epoch = None;
    // Plan files name nodes by ipn number; links of dtn nodes are always up (see `supported`).
    plan.contacts.retain(|c| c.from.interned_index().is_none() && c.to.interned_index().is_none());
    farlink_routing::contact_plan::farlink::emit(&plan, &[])
}

/// What our node cannot be told yet.
pub fn supported(node: &NodeContext<'_>) -> anyhow::Result<()> {
    let scenario = node.scenario;
    for contact in &scenario.contacts {
        let between = scenario.links[contact.link].between;
        if let Some(dtn) = between.iter().map(|n| &scenario.nodes[*n]).find(|n| n.number.interned_index().is_some()) {
            anyhow::bail!(
                "contact of link `{}`: a plan file cannot name node `{}` ({})\nhint: give it an ipn node ID, or leave its links always up",
                scenario.links[contact.link].name,
                dtn.name,
                dtn.ids[0]
            );
        }
    }
    Ok(())
}

/// The layers this node needs, then its links.
fn links(node: &NodeContext<'_>, toml: &mut Toml) {
    let ends = node.scenario.ends_of(node.index);
    let layers = ends.iter().map(|end| &node.scenario.links[end.link].layer);
    let (mut ltp, mut tcpcl) = (false, None);
    for layer in layers {
        match layer {
            Layer::Ltp(_) => ltp = true,
            Layer::TcpclV4(settings) => tcpcl = Some(settings),
        }
    }
    if ltp {
        toml.table("layer.ltp");
        toml.text("kind", "ltp");
        toml.value("listen", list(&[format!("0.0.0.0:{}", farlink_scenario::LTP_PORT)]));
    }
    if let Some(settings) = tcpcl {
        toml.table("layer.tcp");
        toml.text("kind", "tcpclv4");
        toml.value("listen", list(&[format!("0.0.0.0:{}", farlink_scenario::TCPCL_PORT)]));
        toml.text("keepalive", &duration(settings.keepalive));
    }
    ends.iter().for_each(|end| link(node, end, toml));
}

fn link(node: &NodeContext<'_>, end: &LinkEnd, toml: &mut Toml) {
    let link = &node.scenario.links[end.link];
    let own = if end.first { &link.forward } else { &link.reverse };
    toml.table(&format!("link.{}", quoted(&link.name)));
    toml.text("layer", if matches!(link.layer, Layer::Ltp(_)) { "ltp" } else { "tcp" });
    toml.text("peer", &node.scenario.nodes[end.peer].ids[0]);
    toml.text("address", &format!("{}:{}", end.peer_address, end.port));
    if let Some(rate) = first_rate(own) {
        toml.text("rate", &format!("{rate} bit/s"));
    }
    toml.text("one_way_delay", &duration(first_delay(own)));
    match &link.layer {
        Layer::Ltp(ltp) => ltp_link(ltp, own, toml),
        Layer::TcpclV4(tcpcl) => tcpcl_link(tcpcl, end.first, toml),
    }
}

fn ltp_link(ltp: &Ltp, own: &DirectionSpec, toml: &mut Toml) {
    toml.text("datagram", &bytes(ltp.datagram_bytes.into()));
    toml.text("overhead", &bytes(UDP_IPV4_HEADERS + u64::from(own.overhead)));
    toml.value("sessions", ltp.sessions);
    toml.text("window", &bytes(ltp.window_bytes));
    toml.text("aggregate", &bytes(ltp.aggregate_bytes));
    toml.text("aggregate_wait", &duration(ltp.aggregate_wait));
    toml.text("margin", &duration(ltp.margin));
    toml.value("attempts", ltp.attempts);
    toml.text("checkpoint_every", &bytes(ltp.checkpoint_every_bytes));
}

fn tcpcl_link(tcpcl: &TcpclV4, first: bool, toml: &mut Toml) {
    let connect = match tcpcl.connect {
        ConnectSide::First => first,
        ConnectSide::Second => !first,
        ConnectSide::Both => true,
    };
    toml.value("connect", connect);
    toml.text("reconnect_min", &duration(tcpcl.reconnect_min));
    toml.text("reconnect_max", &duration(tcpcl.reconnect_max));
    toml.text("segment", &bytes(tcpcl.segment_bytes));
    toml.text("window", &bytes(tcpcl.window_bytes));
}

fn first_rate(direction: &DirectionSpec) -> Option<u64> {
    match &direction.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(rate.0),
        Rate::Steps(steps) => steps.first().map(|(_, rate)| rate.0),
    }
}

fn first_delay(direction: &DirectionSpec) -> Duration {
    match &direction.delay {
        Delay::Constant(delay) => *delay,
        Delay::Table(points) => points.first().map_or(Duration::ZERO, |(_, delay)| *delay),
    }
}

/// Exact, in the largest unit that loses nothing.
pub fn duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")] {
        if ns.is_multiple_of(unit) {
            return format!("{} {name}", ns / unit);
        }
    }
    format!("{ns} ns")
}

fn bytes(bytes: u64) -> String {
    format!("{bytes} B")
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|i| quoted(i)).collect();
    format!("[{}]", items.join(", "))
}

#[derive(Default)]
struct Toml {
    text: String,
}

impl Toml {
    fn comment(&mut self, text: &str) {
        let _ = writeln!(self.text, "# {text}");
    }
    fn table(&mut self, name: &str) {
        let _ = writeln!(self.text, "\n[{name}]");
    }
    fn value(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{key} = {value}");
    }
    fn text(&mut self, key: &str, value: &str) {
        self.value(key, quoted(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;
    use farlink_scenario::Scenario;
    use std::path::Path;

    const SCENARIO: &str = r#"
        name = "two"
        duration = "10 s"
        [[node]]
        name = "a"
        id = "ipn:1.0"
        routes = { "ipn:9.*" = "b" }
        [[node]]
        name = "b"
        id = ["ipn:2.0", "dtn://b/"]
        store = "durable"
        [[link]]
        name = "space"
        between = ["a", "b"]
        layer = "ltp"
        delay = "600.5 ms"
        overhead = "24 B"
        forward = { rate = "2.5 Mbit/s" }
        [[link]]
        name = "cable"
        between = ["a", "b"]
        layer = "tcpclv4"
        [[contact]]
        link = "space"
        start = "1 s"
        end = "5 s"
    "#;

    fn context(scenario: &Scenario, index: usize) -> NodeContext<'_> {
        let epoch = DtnTime::parse_utc("2026-11-20T09:00:00.250Z").unwrap();
        NodeContext { scenario, index, folder: Path::new("/tmp"), epoch, program: Path::new("farlink") }
    }

    #[test]
    fn a_node_is_told_what_the_scenario_says() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let (a, b) = (node_toml(&context(&scenario, 0)), node_toml(&context(&scenario, 1)));
        for line in [
            "node_ids = [\"ipn:1.0\"]",
            "[link.\"space\"]",
            "address = \"10.0.0.2:1113\"",
            "rate = \"2500000 bit/s\"",
            "one_way_delay = \"600500 us\"",
            "overhead = \"52 B\"",
            "address = \"10.0.1.2:4556\"",
            "connect = true",
            "\"ipn:9.*\" = \"ipn:2.0\"",
            "epoch = \"2026-11-20T09:00:00.250Z\"",
        ] {
            assert!(a.lines().any(|l| l == line), "{line}\n{a}");
        }
        for line in ["node_ids = [\"ipn:2.0\", \"dtn://b/\"]", "dir = \"store\"", "connect = false"] {
            assert!(b.lines().any(|l| l == line), "{line}\n{b}");
        }
    }

    #[test]
    fn the_plan_holds_contacts_of_both_links() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let text = contact_plan(&context(&scenario, 0));
        let plan = farlink_routing::contact_plan::parse(&text).unwrap().plan;
        assert_eq!(plan.contacts.len(), 4, "{text}");
        assert_eq!(plan.epoch, None);
        assert!(plan.contacts.iter().any(|c| c.link.as_deref() == Some("space") && c.end.0 == 5_000_000_000));
    }

    #[test]
    fn durations_are_exact_and_text_is_quoted() {
        assert_eq!(duration(Duration::from_millis(1500)), "1500 ms");
        assert_eq!(duration(Duration::from_nanos(1_234_567)), "1234567 ns");
        assert_eq!(quoted("a\"b\\\n"), "\"a\\\"b\\\\\\u000A\"");
    }
}

//! Scenarios by which two implementations are tried against each other over one layer.

use crate::drivers::declared::LayerLimits;
use std::fmt::Write;

/// Smallest payload with an identity, bytes.
const SMALLEST: u64 = 24;
/// Payload sizes of whole bundles, bytes, with how many of each are sent.
const FEW: &[(u64, u64)] = &[(SMALLEST, 20), (1_000, 20), (60_000, 5), (1_000_000, 3)];
/// The same for [`CheckSize::Full`]: 1,000 bundles.
const MANY: &[(u64, u64)] =
    &[(SMALLEST, 167), (100, 167), (1_000, 167), (10_000, 167), (100_000, 166), (1_000_000, 166)];
/// Maximum length of a bundle without its payload, bytes.
const BESIDE_PAYLOAD: u64 = 200;
/// Length of the file that is sent and compared byte for byte, bytes.
const FILE: u64 = 300_000;
/// Maximum payload of the bundles in which the file is sent, bytes.
const PIECE: u64 = 60_000;

/// Number of bundles in the trials of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckSize {
    /// 48 each way, and 10 across each outage and restart: enough to see whether two implementations understand each
    /// other.
    Small,
    /// 1,000 of 24 bytes to 1 MB each way, and 200 across each outage and restart.
    Full,
}

/// One side of a check.
#[derive(Clone, Debug)]
pub struct CheckSide {
    /// Value of `implementation` of its node.
    pub implementation: String,
    /// Node ID, as the implementation writes it.
    pub id: String,
    /// Limits of bundles over the layer.
    pub limits: LayerLimits,
    /// Whether it answers pings.
    pub echo: bool,
    /// Whether it can be killed and started again.
    pub restarts: bool,
    /// Whether it can read blocks with a CRC.
    pub reads_crc: bool,
}

/// One trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckTrial {
    /// Subject in a few words.
    pub name: &'static str,
    /// Scenario file.
    pub scenario: String,
}

/// Trials of a pair over a layer, in order. With `may_lose` each bundle is one datagram, which the layer does not
/// repeat. Files, outages and restarts are then not tried, since lost bundles would fail them.
pub fn trials(sides: &[CheckSide; 2], layer: &str, version: u8, size: CheckSize, may_lose: bool) -> Vec<CheckTrial> {
    let mut trials = Vec::new();
    let mut add = |name, duration: u32, more: &str| {
        trials.push(CheckTrial { name, scenario: scenario(sides, (layer, version), duration, more) });
    };
    let full = size == CheckSize::Full;
    let (sizes, interval, within) = match full {
        false => (FEW, "20 ms", 60),
        // All sizes are sent at once: at most 80 % of the rate of a link on which each bundle is a datagram.
        true => (MANY, if may_lose { "300 ms" } else { "20 ms" }, 600),
    };
    if sides[0].echo && sides[1].echo {
        let pings = "ping = { count = 10, interval = \"50 ms\", size = \"64 B\" }";
        add("ping", 60, &(traffic("a", "b", "1 s", pings) + &traffic("b", "a", "1 s", pings)));
    }
    for (name, alone, from, to, [giver, taker]) in [
        ("bundles there", "one long there", "a", "b", [&sides[0], &sides[1]]),
        ("bundles back", "one long back", "b", "a", [&sides[1], &sides[0]]),
    ] {
        let most = [giver.limits.gives, taker.limits.takes].into_iter().flatten().map(|limit| limit.bytes()).min();
        let passes = |size: u64| most.is_none_or(|most| size + BESIDE_PAYLOAD < most);
        let mut all = String::new();
        for (size, count) in sizes.iter().filter(|(size, _)| passes(*size)) {
            let bundles = format!("bundles = {{ count = {count}, size = \"{size} B\", interval = \"{interval}\" }}");
            all += &traffic(from, to, "1 s", &bundles);
        }
        if !may_lose {
            let piece = most.map_or(PIECE, |most| most.saturating_sub(1_000).clamp(100, PIECE));
            let file = format!("file = {{ size = \"{FILE} B\", bundle_size = \"{piece} B\" }}");
            all += &traffic(from, to, "2 s", &file);
        }
        add(name, within, &all);
        if let Some(once) = giver.limits.once.into_iter().chain(taker.limits.once).map(|once| once.bytes()).min() {
            let size = once.saturating_sub(BESIDE_PAYLOAD).max(SMALLEST);
            add(alone, 120, &traffic(from, to, "1 s", &format!("bundles = {{ count = 1, size = \"{size} B\" }}")));
        }
    }
    if may_lose {
        return trials;
    }
    // All take 4 s, so that an outage or restart falls into their middle.
    let bundles = match full {
        false => "bundles = { count = 10, size = \"1 kB\", interval = \"400 ms\" }",
        true => "bundles = { count = 200, size = \"10 kB\", interval = \"20 ms\" }",
    };
    let down = "[[fault]]\nkind = \"link_down\"\nlink = \"l\"\nat = \"2 s\"\nlasts = \"2 s\"\n";
    add("across an outage", 90, &(traffic("a", "b", "1 s", bundles) + &traffic("b", "a", "1 s", bundles) + down));
    for (name, node, from, to, side) in
        [("b restarted", "b", "a", "b", &sides[1]), ("a restarted", "a", "b", "a", &sides[0])]
    {
        if side.restarts {
            let kill = format!("[[fault]]\nkind = \"restart\"\nnode = \"{node}\"\nat = \"3 s\"\nlasts = \"1 s\"\n");
            add(name, 90, &(traffic(from, to, "1 s", bundles) + &kill));
        }
    }
    trials
}

fn scenario(sides: &[CheckSide; 2], (layer, version): (&str, u8), duration: u32, more: &str) -> String {
    let mut text = format!("name = \"check\"\nduration = \"{duration} s\"\n");
    for (name, side) in ["a", "b"].iter().zip(sides) {
        let _ = write!(
            text,
            "\n[[node]]\nname = \"{name}\"\nid = {:?}\nimplementation = {:?}\nstore = \"durable\"\n\
             bundle_version = {version}\n",
            side.id, side.implementation
        );
    }
    let _ = write!(text, "\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = {layer:?}\n");
    // Over UDPCL, a low rate spares the default socket buffers of other implementations, and whole bundles fit a
    // datagram, since those implementations do not reassemble fragments.
    let udpcl = layer == "udpcl";
    let rate = if udpcl { 4 } else { 100 };
    let _ = write!(text, "rate = \"{rate} Mbit/s\"\ndelay = \"5 ms\"\n");
    if sides.iter().any(|side| !side.reads_crc) {
        text += "crc = \"none\"\n";
    }
    if udpcl {
        text += "mtu = \"65535 B\"\nudpcl = { datagram = \"65507 B\" }\n";
    }
    text += more;
    text
}

fn traffic(from: &str, to: &str, start: &str, kind: &str) -> String {
    format!("\n[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"{start}\"\n{kind}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataVolume;
    use farlink_scenario::{Scenario, Traffic, TrafficKind};

    fn side(implementation: &str, id: &str, limits: LayerLimits) -> CheckSide {
        let implementation = implementation.into();
        CheckSide { implementation, id: id.into(), limits, echo: true, restarts: true, reads_crc: true }
    }

    fn limits(takes: u64) -> LayerLimits {
        LayerLimits { takes: Some(DataVolume(takes)), ..LayerLimits::default() }
    }

    fn pair(limits: LayerLimits) -> [CheckSide; 2] {
        [side("farlink", "ipn:1.0", LayerLimits::default()), side("x", "ipn:2.0", limits)]
    }

    fn names(trials: &[CheckTrial]) -> Vec<&str> {
        trials.iter().map(|trial| trial.name).collect()
    }

    #[test]
    fn trials_are_valid_scenarios() {
        let trials = trials(&pair(limits(63_000)), "tcpclv4", 7, CheckSize::Small, false);
        let expected = ["ping", "bundles there", "bundles back", "across an outage", "b restarted", "a restarted"];
        assert_eq!(names(&trials), expected);
        for trial in &trials {
            let scenario = Scenario::parse(&trial.scenario).unwrap_or_else(|why| panic!("{}: {why:?}", trial.name));
            assert!(scenario.has_foreign_nodes() && scenario.needs_simulation().is_none(), "{}", trial.name);
        }
        // The largest payload exceeds the limit of the second implementation, 63 kB.
        assert!(!trials[1].scenario.contains("1000000 B") && trials[2].scenario.contains("1000000 B"));
        assert!(trials[1].scenario.contains("bundle_size = \"60000 B\""));
        let small = |takes| super::trials(&pair(limits(takes)), "mtcp", 7, CheckSize::Small, false);
        // The limits are of bundles: a payload of 60,000 B makes a bundle longer than 60,050 B.
        assert!(!small(60_050)[1].scenario.contains("60000 B\", interval"));
        assert!(Scenario::parse(&small(900)[1].scenario).is_ok() && small(900)[1].scenario.contains("= \"100 B\""));
    }

    #[test]
    fn blocks_have_crc_only_if_both_read_it() {
        let mut pair = pair(LayerLimits::default());
        for (reads_crc, count) in [(true, 0), (false, 1)] {
            pair[1].reads_crc = reads_crc;
            for trial in trials(&pair, "stcp", 7, CheckSize::Small, false) {
                assert_eq!(trial.scenario.matches("crc = \"none\"").count(), count, "{}", trial.name);
                Scenario::parse(&trial.scenario).unwrap_or_else(|why| panic!("{}: {why:?}", trial.name));
            }
        }
    }

    #[test]
    fn sender_limit_bounds_bundles_back() {
        let gives = LayerLimits { gives: Some(DataVolume(10_000)), ..LayerLimits::default() };
        let trials = trials(&pair(gives), "mtcp", 7, CheckSize::Small, false);
        assert!(trials[1].scenario.contains("1000000 B") && !trials[2].scenario.contains("60000 B"));
        assert!(trials[2].scenario.contains("bundle_size = \"9000 B\""));
    }

    #[test]
    fn long_bundle_is_sent_alone() {
        let once = LayerLimits { once: Some(DataVolume(5_000_000)), ..LayerLimits::default() };
        let trials = trials(&pair(once), "stcp", 7, CheckSize::Small, false);
        assert_eq!(names(&trials)[1..5], ["bundles there", "one long there", "bundles back", "one long back"]);
        let scenario = Scenario::parse(&trials[2].scenario).unwrap();
        assert_eq!(scenario.traffic.len(), 1);
        assert!(trials[2].scenario.contains("count = 1, size = \"4999800 B\""));
    }

    #[test]
    fn lossy_layer_has_neither_outage_nor_file() {
        let trials = trials(&pair(limits(64_000)), "udpcl", 7, CheckSize::Small, true);
        assert_eq!(names(&trials), ["ping", "bundles there", "bundles back"]);
        for trial in &trials {
            Scenario::parse(&trial.scenario).unwrap_or_else(|why| panic!("{}: {why:?}", trial.name));
            assert!(!trial.scenario.contains("file = ") && trial.scenario.contains("65507 B"));
        }
    }

    #[test]
    fn full_trials_send_a_thousand_bundles() {
        let trials = trials(&pair(limits(u64::MAX)), "ltp", 6, CheckSize::Full, false);
        for trial in &trials {
            let scenario = Scenario::parse(&trial.scenario).unwrap_or_else(|why| panic!("{}: {why:?}", trial.name));
            assert!(scenario.nodes.iter().all(|node| node.settings().bundle_version == 6));
            let count = |traffic: &Traffic| match traffic.kind {
                TrafficKind::Bundles { count, .. } => count,
                _ => 0,
            };
            let sent: u64 = scenario.traffic.iter().map(count).sum();
            let expected = match trial.name {
                "bundles there" | "bundles back" => 1_000,
                "across an outage" => 400,
                "ping" => 0,
                _ => 200,
            };
            assert_eq!(sent, expected, "{}", trial.name);
        }
    }
}

//! Scenarios by which two implementations are tried against each other over one layer.

use farlink_base::DataVolume;
use std::fmt::Write;

/// Smallest payload with an identity, bytes.
const SMALLEST: u64 = 24;
/// Payload sizes of whole bundles, bytes, with how many of each are sent.
const SIZES: [(u64, u64); 4] = [(SMALLEST, 20), (1_000, 20), (60_000, 5), (1_000_000, 3)];
/// Most bytes of a bundle beside its payload.
const BESIDE_PAYLOAD: u64 = 200;
/// File that is compared byte for byte, bytes.
const FILE: u64 = 300_000;

/// One side of a check.
#[derive(Clone, Debug)]
pub struct CheckSide {
    /// Value of `implementation` of its node.
    pub implementation: String,
    /// Node ID, as the implementation writes it.
    pub id: String,
    /// Largest bundle that it receives over the layer, if its driver names one.
    pub takes: Option<DataVolume>,
    /// Whether it answers pings.
    pub echo: bool,
    /// Whether it can be killed and started again.
    pub restarts: bool,
}

/// One trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckTrial {
    /// Subject in a few words.
    pub name: &'static str,
    /// Scenario file.
    pub scenario: String,
}

/// Trials of a pair over a layer, in order.
pub fn trials(sides: &[CheckSide; 2], layer: &str) -> Vec<CheckTrial> {
    let mut trials = Vec::new();
    let mut add = |name, duration: u32, more: &str| {
        trials.push(CheckTrial { name, scenario: scenario(sides, layer, duration, more) });
    };
    if sides[0].echo && sides[1].echo {
        let pings = "ping = { count = 10, interval = \"50 ms\", size = \"64 B\" }";
        add("ping", 60, &(traffic("a", "b", "1 s", pings) + &traffic("b", "a", "1 s", pings)));
    }
    for (name, from, to, side) in [("bundles there", "a", "b", &sides[1]), ("bundles back", "b", "a", &sides[0])] {
        let mut all = String::new();
        let takes = |size: u64| side.takes.is_none_or(|takes| size + BESIDE_PAYLOAD < takes.bytes());
        for (size, count) in SIZES.iter().filter(|(size, _)| takes(*size)) {
            let bundles = format!("bundles = {{ count = {count}, size = \"{size} B\", interval = \"20 ms\" }}");
            all += &traffic(from, to, "1 s", &bundles);
        }
        let piece = side.takes.map_or(60_000, |takes| takes.bytes().saturating_sub(1_000).clamp(100, 60_000));
        let file = format!("file = {{ size = \"{FILE} B\", bundle_size = \"{piece} B\" }}");
        add(name, 60, &(all + &traffic(from, to, "2 s", &file)));
    }
    let ten = "bundles = { count = 10, size = \"1 kB\", interval = \"400 ms\" }";
    let down = "[[fault]]\nkind = \"link_down\"\nlink = \"l\"\nat = \"2 s\"\nlasts = \"2 s\"\n";
    add("across an outage", 90, &(traffic("a", "b", "1 s", ten) + &traffic("b", "a", "1 s", ten) + down));
    for (name, node, from, to, side) in
        [("b restarted", "b", "a", "b", &sides[1]), ("a restarted", "a", "b", "a", &sides[0])]
    {
        if side.restarts {
            let kill = format!("[[fault]]\nkind = \"restart\"\nnode = \"{node}\"\nat = \"3 s\"\nlasts = \"1 s\"\n");
            add(name, 90, &(traffic(from, to, "1 s", ten) + &kill));
        }
    }
    trials
}

fn scenario(sides: &[CheckSide; 2], layer: &str, duration: u32, more: &str) -> String {
    let mut text = format!("name = \"check\"\nduration = \"{duration} s\"\n");
    for (name, side) in ["a", "b"].iter().zip(sides) {
        let _ = write!(
            text,
            "\n[[node]]\nname = \"{name}\"\nid = {:?}\nimplementation = {:?}\nstore = \"durable\"\n",
            side.id, side.implementation
        );
    }
    let _ = write!(text, "\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = {layer:?}\n");
    let _ = write!(text, "rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{more}");
    text
}

fn traffic(from: &str, to: &str, start: &str, kind: &str) -> String {
    format!("\n[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"{start}\"\n{kind}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_scenario::Scenario;

    fn side(implementation: &str, id: &str, takes: Option<u64>) -> CheckSide {
        let takes = takes.map(DataVolume);
        CheckSide { implementation: implementation.into(), id: id.into(), takes, echo: true, restarts: true }
    }

    #[test]
    fn trials_are_valid_scenarios() {
        let sides = [side("farlink", "ipn:1.0", None), side("dtn7-rs", "ipn:2.0", Some(63_000))];
        let trials = trials(&sides, "tcpclv4");
        let names: Vec<_> = trials.iter().map(|trial| trial.name).collect();
        assert_eq!(names, ["ping", "bundles there", "bundles back", "across an outage", "b restarted", "a restarted"]);
        for trial in &trials {
            let scenario = Scenario::parse(&trial.scenario).unwrap_or_else(|why| panic!("{}: {why:?}", trial.name));
            assert!(scenario.has_foreign_nodes() && scenario.needs_simulation().is_none(), "{}", trial.name);
        }
        // The largest bundle exceeds what the second takes.
        assert!(!trials[1].scenario.contains("1000000 B") && trials[2].scenario.contains("1000000 B"));
        assert!(trials[1].scenario.contains("bundle_size = \"60000 B\""));
        let small =
            |takes| super::trials(&[side("farlink", "ipn:1.0", None), side("x", "ipn:2.0", Some(takes))], "udpcl");
        // A payload of exactly that length makes a longer bundle.
        assert!(!small(60_050)[1].scenario.contains("60000 B\", interval"));
        assert!(Scenario::parse(&small(900)[1].scenario).is_ok() && small(900)[1].scenario.contains("= \"100 B\""));
    }
}

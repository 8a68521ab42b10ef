//! `docs/reference/scenario.md`, made from the table of keys.

use crate::keys::{Fallback, Key, Kind, SECTIONS, Section};
use farlink_base::Param;
use std::fmt::Write;

/// The reference of the scenario file as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in SECTIONS {
        write_section(&mut out, section);
    }
    out.push_str("## Link presets\n\n| preset | link |\n|---|---|\n");
    for (name, help) in farlink_link::PRESETS {
        let _ = writeln!(out, "| `{name}` | {} |", cell(help));
    }
    out.push_str("\nForward is towards the spacecraft: name the ground first in `between`.\n\n");
    let routers = farlink_routing::routers().iter().map(|r| (r.name, r.help, r.params));
    policies(&mut out, "Routers", routers);
    let controls = farlink_congestion::controls().iter().map(|c| (c.name, c.help, c.params));
    policies(&mut out, "Congestion controls", controls);
    out.push_str("## An example\n\n```toml\n");
    out.push_str(EXAMPLE);
    out.push_str("```\n");
    out
}

const INTRODUCTION: &str = "# The scenario file

<!-- Made from scenario/src/keys.rs. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-scenario -->

A scenario is one TOML file: nodes, links, contacts, traffic and what to measure. The simulator and
the testbed read the same file, and every random thing in it follows from `seed`.

Quantities are text with a unit: durations `\"600 ms\"`, `\"1 h 30 min\"` (ns, us, ms, s, min, h, d);
rates `\"100 Mbit/s\"`, `\"12.5 MB/s\"`; volumes `\"100 kB\"`, `\"64 MiB\"` (decimal, or binary with `i`).
A bare number is refused where a quantity is meant. Unknown keys are errors.
`farlink init scenario` writes a commented example.

";

fn write_section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "## {}\n\n{}\n", title(section.name), section.help);
    out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in section.keys {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", key.name, kind(key.kind), fallback(key), cell(key.help));
    }
    out.push('\n');
}

fn policies<'a>(out: &mut String, title: &str, list: impl Iterator<Item = (&'a str, &'a str, &'a [Param])>) {
    let _ = writeln!(out, "## {title}\n\n| name | what it does | parameters (default) |\n|---|---|---|");
    for (name, help, params) in list {
        let one = |p: &Param| {
            let unit = if p.unit.is_empty() { String::new() } else { format!(" {}", p.unit) };
            format!("`{}` ({}{unit}): {}", p.name, p.default, p.help)
        };
        let params: Vec<String> = params.iter().map(one).collect();
        let _ = writeln!(out, "| `{name}` | {} | {} |", cell(help), cell(&params.join("<br>")));
    }
    out.push('\n');
}

fn title(name: &str) -> &str {
    match name {
        "scenario" => "Top level",
        name => name,
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn words(list: &[&str]) -> String {
    list.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

fn kind(kind: Kind) -> String {
    let link = |name: &str| format!("[{name}](#{})", name.replace('.', ""));
    match kind {
        Kind::Text => "text".into(),
        Kind::Name => "name".into(),
        Kind::Node => "name of a node".into(),
        Kind::Link => "name of a link".into(),
        Kind::NodePair => "two names of nodes".into(),
        Kind::File => "file, relative to the scenario".into(),
        Kind::Duration => "duration".into(),
        Kind::Rate => "rate".into(),
        Kind::RateOverTime => "rate, or list of [time, rate]".into(),
        Kind::DelayOverTime => "duration, or list of [time, duration]".into(),
        Kind::Volume => "volume".into(),
        Kind::VolumeRange => "volume, or [smallest, largest]".into(),
        Kind::Time => "UTC time".into(),
        Kind::Count(min, max) if max >= u64::from(u32::MAX) => format!("whole number from {min}"),
        Kind::Count(min, max) => format!("whole number, {min} to {max}"),
        Kind::Share => "0 to 1, or `\"0.1 %\"`".into(),
        Kind::Flag => "`true` or `false`".into(),
        Kind::Choice(list) => format!("one of {}", words(list)),
        Kind::Choices(list) => format!("list of {}", words(list)),
        Kind::EndpointIds => "node ID, or list of them".into(),
        Kind::Params => "table of numbers or quantities".into(),
        Kind::Routes => "table: pattern = node".into(),
        Kind::Point => "[x, y], each 0 to 1".into(),
        Kind::Table(name) => format!("table {}", link(name)),
        Kind::Tables(name) => format!("tables {}", link(name)),
    }
}

fn fallback(key: &Key) -> String {
    match key.default {
        Fallback::Required => "**required**".into(),
        Fallback::Absent => "".into(),
        Fallback::Is("") => "empty".into(),
        Fallback::Is(text) => format!("`{text}`"),
    }
}

/// A commented scenario that uses most keys; `farlink init scenario` writes it.
pub const EXAMPLE: &str = include_str!("example.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use std::collections::BTreeSet;

    #[test]
    fn the_checked_in_reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/scenario.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference")).unwrap();
            std::fs::write(path, reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-scenario");
    }

    #[test]
    fn the_example_is_a_scenario() {
        let scenario = Scenario::parse(EXAMPLE).unwrap_or_else(|errors| panic!("{errors:#?}"));
        assert!(scenario.nodes.len() >= 3 && scenario.traffic.len() >= 2 && !scenario.contacts.is_empty());
    }

    #[test]
    fn every_table_that_a_key_names_is_described_once_and_no_name_repeats() {
        let names: Vec<&str> = SECTIONS.iter().map(|s| s.name).collect();
        for section in SECTIONS {
            let keys: BTreeSet<&str> = section.keys.iter().map(|k| k.name).collect();
            assert_eq!(keys.len(), section.keys.len(), "{}", section.name);
            for key in section.keys {
                if let Kind::Table(name) | Kind::Tables(name) = key.kind {
                    assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}");
                }
                assert!(key.help.ends_with('.') || key.help.ends_with(')'), "{}: a sentence", key.name);
            }
        }
    }
}

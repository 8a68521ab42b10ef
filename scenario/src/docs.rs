//! `docs/reference/scenario.md`, made from the table of keys.

use crate::keys::{
    BURST, CONTACT, CUSTODY, DIRECTION, EXPECT, LAYER_SECTIONS, LINK, MACHINE_TABLES, MEASURE, NODE, OUTAGES, QUOTA,
    REPORTS, ROW_TABLES, SCENARIO, SECURITY, TCP, TRAFFIC, TRAFFIC_BUNDLES, TRAFFIC_FILE, TRAFFIC_PING, TUNNEL,
};
use crate::keys_flow::FLOW;
use crate::keys_group::GROUP;
use crate::keys_host::{HOST, PHASE};
use crate::keys_moving::{CITY, MOBILITY, RADIO, WALKER};
use crate::parse_fault::FAULT;
use farlink_config::docs::{cell, write_policies, write_section};
use farlink_config::{Kind, Section};
use std::fmt::Write;

/// The reference of the scenario file as Markdown.
pub fn reference() -> String {
    // Sections and help come from the tables that the parser checks against, so the page cannot lag behind.
    let mut out = String::from(INTRODUCTION);
    for section in sections() {
        write_section(&mut out, title(section.name), section);
    }
    out.push_str("## Link presets\n\n| preset | link |\n|---|---|\n");
    for (name, help) in farlink_link::PRESETS {
        let _ = writeln!(out, "| `{name}` | {} |", cell(help));
    }
    out.push_str("\nForward is towards the spacecraft: name the ground first in `between`.\n\n");
    let routers = farlink_routing::routers().iter().map(|r| (r.name, r.help, r.params));
    write_policies(&mut out, "Routers", routers);
    let controls = farlink_congestion::controls().iter().map(|c| (c.name, c.help, c.params));
    write_policies(&mut out, "Congestion controls", controls);
    out.push_str("## An example\n\n```toml\n");
    out.push_str(EXAMPLE);
    out.push_str("```\n");
    out
}

/// All sections in the order of the reference.
fn sections() -> Vec<&'static Section> {
    let mut sections: Vec<&'static Section> = vec![&SCENARIO, &NODE];
    sections.extend(ROW_TABLES.iter().map(|(_, section)| section));
    sections.extend(MACHINE_TABLES.iter());
    sections.extend([&*CUSTODY, &*REPORTS, &HOST, &TCP]);
    sections.extend(LAYER_SECTIONS.iter().map(|layer| &layer.node));
    sections.extend([&*LINK, &DIRECTION, &BURST, &OUTAGES]);
    sections.extend(LAYER_SECTIONS.iter().map(|layer| &layer.link));
    sections.extend([&*GROUP, &MOBILITY, &CITY, &WALKER, &RADIO]);
    sections.extend([&CONTACT, &TRAFFIC, &TRAFFIC_FILE, &TRAFFIC_BUNDLES, &TRAFFIC_PING, &FLOW]);
    sections.extend([&*TUNNEL, &*SECURITY, &*QUOTA, &FAULT, &PHASE, &MEASURE, &EXPECT]);
    sections
}

/// Tables that have a key of this name, as a file writes them.
pub(crate) fn tables_with(key: &str) -> Vec<String> {
    let written = |section: &Section| match section.name {
        "scenario" => "the top of the file".to_string(),
        name if SCENARIO.keys.iter().any(|key| key.kind == Kind::Tables(section.name)) => format!("[[{name}]]"),
        name => format!("[{name}]"),
    };
    let sections = sections().into_iter().filter(|section| section.keys.iter().any(|known| known.name == key));
    sections.map(written).collect()
}

/// The JSON schema of the scenario file, `docs/reference/scenario.schema.json`.
pub fn schema() -> String {
    let sections = sections();
    farlink_config::schema::schema("A scenario of Farlink", &SCENARIO, &sections)
}

const INTRODUCTION: &str = "# The scenario file

<!-- Made from scenario/src/keys.rs, core/base/src/node.rs and the tables of core/cla. Change those, then: FARLINK_BLESS=1 cargo test -p farlink-scenario -->

A scenario is one TOML file: nodes, links, contacts, traffic and what to measure. The simulator and
the testbed read the same file, and every random thing in it follows from `seed`.

Quantities are text with a unit: durations `\"600 ms\"`, `\"1 h 30 min\"` (ns, us, ms, s, min, h, d);
rates `\"100 Mbit/s\"`, `\"12.5 MB/s\"`; volumes `\"100 kB\"`, `\"64 MiB\"` (decimal, or binary with `i`).
A bare number is refused where a quantity is meant. Unknown keys are errors.
`farlink init scenario` writes a commented example; [scenario.schema.json](scenario.schema.json) is for editors.

";

fn title(name: &str) -> &str {
    match name {
        "scenario" => "Top level",
        name => name,
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
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/scenario.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference")).unwrap();
            std::fs::write(path, reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-scenario");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/scenario.schema.json");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, schema()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == schema(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-scenario");
    }

    #[test]
    fn example_is_a_scenario() {
        let scenario = Scenario::parse(EXAMPLE).unwrap_or_else(|errors| panic!("{errors:#?}"));
        assert!(scenario.nodes.len() >= 3 && scenario.traffic.len() >= 2 && !scenario.contacts.is_empty());
    }

    #[test]
    fn key_tables_are_described_once() {
        let sections = sections();
        let names: Vec<&str> = sections.iter().map(|s| s.name).collect();
        for section in sections {
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

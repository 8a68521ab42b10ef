//! `cargo xtask bench sim`: what simulations of whole bundles cost, of nodes that move and meet.
//!
//! The scenarios are those in which The ONE was measured (commit c973bfb, an update every 0.1 s): people who go from
//! point to point of a plane, 50 to a square kilometre, 2.5 Mbit/s, bundles of 50 to 100 kB.

use super::exact;
use super::sky::{self, SKIES, Sky};
use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// One scenario and what it is held against.
pub struct Cell {
    pub name: &'static str,
    pub nodes: u32,
    /// Metres.
    pub range: u32,
    pub duration_s: u32,
    pub router: &'static str,
    /// kB.
    pub store: u32,
    /// Seconds between two bundles, from the least to the largest.
    pub interval: [f64; 2],
    /// Processor seconds aimed at, and those The ONE needs.
    mark_s: f64,
    one_s: Option<f64>,
    /// Share that The ONE delivers.
    one_delivered: Option<f64>,
    /// MB aimed at, and those The ONE needs.
    mark_mb: Option<f64>,
    one_mb: Option<f64>,
    /// Whether it is held against The ONE's own world besides, as it is run here.
    compared: bool,
}
impl Cell {
    /// Side of the square, in metres: 50 nodes to a square kilometre.
    pub fn side_m(&self) -> f64 {
        (f64::from(self.nodes) / 50.0).sqrt() * 1000.0
    }
}

/// A thousand nodes as measured with The ONE: a bundle in 150 s, whoever sends it.
const THOUSAND: Cell = Cell {
    name: "1000-sparse",
    nodes: 1000,
    range: 30,
    duration_s: 1200,
    router: "epidemic",
    store: 1000,
    interval: [1.0, 300.0],
    mark_s: 0.03,
    one_s: Some(5.54),
    one_delivered: None,
    mark_mb: Some(20.0),
    one_mb: None,
    compared: false,
};
const FIFTY: Cell = Cell {
    name: "saturated",
    nodes: 50,
    range: 150,
    duration_s: 43_200,
    store: 500,
    mark_s: 4.0,
    one_s: Some(65.1),
    one_delivered: Some(0.268),
    mark_mb: None,
    one_mb: Some(442.0),
    compared: true,
    ..THOUSAND
};
const CELLS: [Cell; 5] = [
    FIFTY,
    Cell {
        name: "spray",
        router: "spray-and-wait",
        mark_s: 0.15,
        one_s: Some(24.6),
        one_delivered: Some(0.991),
        one_mb: Some(178.0),
        ..FIFTY
    },
    THOUSAND,
    Cell { name: "1000-dense", range: 150, duration_s: 300, mark_s: 0.15, one_s: Some(11.71), ..THOUSAND },
    // A bundle a node every 7,500 s.
    Cell {
        name: "10000-sparse",
        nodes: 10_000,
        duration_s: 43_200,
        interval: [0.0, 1.5],
        mark_s: 45.0,
        // Half a microsecond for each node at each of its steps, as with 50 to 1,000 nodes.
        one_s: Some(2160.0),
        mark_mb: None,
        ..THOUSAND
    },
];

/// The scenario of a cell.
pub fn scenario(cell: &Cell) -> String {
    let Cell { name, nodes, range, duration_s, router, store, interval: [least, most], .. } = cell;
    let side_m = cell.side_m();
    let copies = if *router == "spray-and-wait" { "router_params = { copies = 10 }\n" } else { "" };
    format!(
        "name = \"{name}\"\nduration = \"{duration_s} s\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
         [measure]\ntables = [\"bundles\"]\n\
         [[mobility]]\nname = \"walking\"\nmodel = \"random_waypoint\"\narea = \"{side_m:.3} m\"\n\
         speed = [\"0.5 m/s\", \"1.5 m/s\"]\npause = [\"0 s\", \"2 min\"]\n\
         [[radio]]\nname = \"radio\"\nrange = \"{range} m\"\nrate = \"2.5 Mbit/s\"\ndelay = \"0 s\"\nmetadata = \"free\"\n\
         [[group]]\nname = \"n\"\ncount = {nodes}\nfirst_id = 1\nmobility = \"walking\"\nradio = \"radio\"\n\
         router = \"{router}\"\n{copies}control = \"drop-oldest\"\nstore_capacity = \"{store} kB\"\nlifetime = \"12 h\"\n\
         [[traffic]]\nname = \"message\"\nfrom = \"n\"\nto = \"n\"\n\
         bundles = {{ count = 100000, size = [\"50 kB\", \"100 kB\"], interval = [\"{least} s\", \"{most} s\"] }}\n"
    )
}

/// Measures and prints.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let only = arguments.word("--only")?;
    let seeds = arguments.number("--seeds", 5)?;
    if seeds > 6 {
        bail!("--seeds {seeds}: at most 6, all splits of which are looked at");
    }
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench sim");
    }
    let program = program()?;
    let folder = tools::target().join("bench-sim");
    std::fs::create_dir_all(&folder)?;
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let chosen: Vec<&Cell> = CELLS.iter().filter(|cell| wanted(cell.name)).collect();
    let skies: Vec<&Sky> = SKIES.iter().filter(|sky| wanted(sky.name)).collect();
    if chosen.is_empty() && skies.is_empty() {
        let names: Vec<&str> = CELLS.iter().map(|cell| cell.name).chain(SKIES.iter().map(|sky| sky.name)).collect();
        bail!("no such simulation; there are: {}", names.join(", "));
    }
    let measure = |name: &str, scenario: String| -> Result<Value> {
        let file = folder.join(format!("{name}.toml"));
        std::fs::write(&file, scenario)?;
        let text = tools::output(Command::new(&program).arg(&file))?;
        serde_json::from_str(&text).with_context(|| format!("what it said: {text}"))
    };
    if !chosen.is_empty() {
        println!("{HEAD}");
    }
    for cell in &chosen {
        println!("{}", row(cell, &measure(cell.name, scenario(cell))?));
    }
    if !skies.is_empty() {
        println!("\n{}", sky::HEAD);
    }
    for sky in skies {
        println!("{}", sky.row(&measure(sky.name, sky.scenario())?));
    }
    let compared: Vec<&&Cell> = chosen.iter().filter(|cell| cell.compared && seeds > 0).collect();
    if !compared.is_empty() {
        println!("\n{}", exact::HEAD);
    }
    for cell in compared {
        println!("{}", exact::compare(&program, &folder, cell, seeds)?);
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("FARLINK_COST") {
        return Ok(ready.into());
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-sim", "--example", "cost"];
    tools::run(tools::cargo().args(what))?;
    Ok(tools::target().join("quick/examples/cost"))
}

const HEAD: &str = "| simulation | CPU | mark | The ONE | memory | mark | The ONE | contacts | bundles sent | refused before | delivered | The ONE |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|";

fn row(cell: &Cell, measured: &Value) -> String {
    let number = |key: &str| measured[key].as_f64().unwrap_or(f64::NAN);
    let count = |key: &str| measured[key].as_u64().unwrap_or(0);
    let share = 100.0 * number("delivered") / number("created");
    let cpu = number("read_s") + number("build_s") + number("run_s");
    let seconds = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value} s"));
    let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.1} %", value * 100.0));
    let megabytes = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value} MB"));
    format!(
        "| {} | {cpu:.2} s | {} s | {} | {:.0} MB | {} | {} | {} | {} | {} | {} of {}, {share:.1} % | {} |",
        cell.name,
        cell.mark_s,
        seconds(cell.one_s),
        number("memory_mb"),
        megabytes(cell.mark_mb),
        megabytes(cell.one_mb),
        count("contacts"),
        count("sent"),
        count("refused"),
        count("delivered"),
        count("created"),
        percent(cell.one_delivered),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_what_was_measured_against_the_mark() {
        let measured = serde_json::json!({
            "read_s": 0.5, "build_s": 0.25, "run_s": 1.0, "memory_mb": 7.4, "contacts": 3, "sent": 9, "refused": 2,
            "delivered": 1, "created": 4,
        });
        assert_eq!(
            row(&FIFTY, &measured),
            "| saturated | 1.75 s | 4 s | 65.1 s | 7 MB | - | 442 MB | 3 | 9 | 2 | 1 of 4, 25.0 % | 26.8 % |"
        );
    }

    #[test]
    fn density_is_the_same_in_every_scenario() {
        for cell in &CELLS {
            let text = scenario(cell);
            let side = text.split("area = \"").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            let side: f64 = side.parse().unwrap();
            assert!((f64::from(cell.nodes) / (side * side / 1e6) - 50.0).abs() < 1e-3, "{}", cell.name);
        }
    }
}

//! Nodes above the Earth and on it: constellations, stations, and radios that need a line of sight.

use crate::keys_moving as keys;
use crate::motion::quantities::length;
use crate::motion::sky::{ALL_NEIGHBOURS, Neighbours, Sight, Walker, angle, sites};
use crate::motion::{Mobility, Model, Radio, Reach};
use farlink_config::Reader;
use std::collections::BTreeMap;

/// Reads `walker = { ... }` of a mobility.
pub fn orbit(reader: &Reader<'_>) -> Option<Model> {
    let Some(table) = reader.table("walker", &keys::WALKER) else {
        let hint =
            "add e.g. `walker = { planes = 6, per_plane = 11, inclination = \"86.4 deg\", altitude = \"780 km\" }`";
        if !reader.given("walker") {
            reader.fail("walker", "says not which orbits", hint);
        }
        return None;
    };
    let (planes, per_plane) = (table.count("planes")? as u32, table.count("per_plane")? as u32);
    let inclination = table.custom("inclination", |input| angle(input.text()?, 0.0, 180.0));
    let altitude = table.custom("altitude", |input| length(input.text()?));
    let (phasing, star) = (table.count("phasing")? as u32, table.choice("pattern")? == 1);
    if phasing >= planes {
        table.fail("phasing", "as many as there are planes, or more", "it is less than `planes`");
    }
    let (inclination, altitude) = (inclination?, altitude?);
    // Below 100 km no orbit lasts; 1,000,000 km is about the edge of the Earth's sphere of influence.
    if !(1e5..=1e9).contains(&altitude) {
        table.fail("altitude", "not between 100 km and 1000000 km", "write e.g. `altitude = \"780 km\"`");
    }
    Some(Model::Orbit(Walker { planes, per_plane, inclination, altitude, phasing, star }))
}

/// Reads `positions = [ ... ]` of a mobility.
pub fn ground(reader: &Reader<'_>) -> Option<Model> {
    if !reader.given("positions") {
        reader.fail(
            "positions",
            "says not where the stations are",
            "add e.g. `positions = [[\"52.5 N\", \"13.4 E\"]]`",
        );
        return None;
    }
    reader.custom("positions", sites).map(Model::Ground)
}

/// Line-of-sight rule of a radio; `None` if it gives no `neighbours`.
pub fn sight(reader: &Reader<'_>, range: Option<f64>) -> Option<Sight> {
    let word = reader.choice("neighbours");
    let mask = reader.custom("mask", |input| angle(input.text()?, -10.0, 90.0));
    let clearance = reader.custom("clearance", |input| length(input.text()?));
    let given = reader.given("neighbours");
    for key in ["mask", "clearance"].into_iter().filter(|key| reader.given(key) && !given) {
        let hint = "add `neighbours = \"ground\"`, or take it out";
        reader.fail(key, "of stations and satellites, and `neighbours` does not say which", hint);
    }
    if given && reader.given("contacts") {
        reader.fail("neighbours", "both `neighbours` and `contacts`", "take one of them out");
    }
    // A default of the key must not turn a radio with a range into one with sight.
    let neighbours = ALL_NEIGHBOURS.get(word?).copied().filter(|_| given)?;
    Some(Sight { neighbours, range, mask: mask?, clearance: clearance? })
}

/// Checks that each radio suits the movement of its nodes: sight for satellites and stations, ranges for a plane.
pub fn check(top: &Reader<'_>, mobilities: &[Mobility], radios: &[Radio]) {
    // After any mistake, entries are missing, and this check would report them a second time.
    if !top.errors.is_empty() {
        return;
    }
    // Models by node; nodes without mobility are reported by `Equipment::equip`.
    let mut models: BTreeMap<usize, &Mobility> = BTreeMap::new();
    for mobility in mobilities.iter().filter(|mobility| !mobility.nodes.is_empty()) {
        models.extend(mobility.nodes.iter().map(|node| (*node, mobility)));
    }
    for radio in radios {
        let path = format!("radio[{}]", radio.name);
        let moves = || radio.nodes.iter().filter_map(|node| models.get(node).copied());
        match &radio.reach {
            Reach::Sight(sight) => {
                if let Some(other) = moves().find(|other| !other.model.is_of_the_sky()) {
                    let found = format!("sees satellites and stations, and `{}` is of neither", other.name);
                    top.errors.push(path, found, "give those nodes another radio, with a `range`");
                } else if sight.neighbours == Neighbours::Ground
                    && !(moves().any(|m| matches!(m.model, Model::Ground(_)))
                        && moves().any(|m| matches!(m.model, Model::Orbit(_))))
                {
                    let found = "joins stations and satellites, and has only one of them";
                    top.errors.push(path, found, "give it to both, or write `neighbours = \"grid\"`");
                }
            }
            Reach::Range(_) => {
                if let Some(other) = moves().find(|other| other.model.is_of_the_sky()) {
                    let found = format!("has a range in a plane, and `{}` is above it", other.name);
                    top.errors.push(path, found, "add `neighbours = \"ground\"`, or another word for who sees whom");
                }
            }
            Reach::Recorded(_) => {}
        }
    }
}

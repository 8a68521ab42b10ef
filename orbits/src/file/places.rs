//! Stations, satellites and constellations of the file.

use super::keys;
use super::names::{NameTable, plain};
use crate::kepler::Elements;
use crate::network::NetworkNode;
use crate::place::{GroundSite, Trajectory};
use crate::quantity::{angle, coordinate, length_km};
use crate::satellite::Satellite;
use crate::sky::{BodyId, Sky};
use crate::tle::{HINT, Tle, read};
use crate::walker::WalkerPattern;
use farlink_base::{DtnTime, NodeId};
use farlink_config::{Input, Reader};
use std::path::Path;

/// Context in which tables are read.
pub struct Context<'a> {
    pub sky: &'a Sky,
    pub text: &'a str,
    pub folder: &'a Path,
    /// Epoch of elements that have none of their own, in nanoseconds from the start.
    pub epoch: i64,
}

/// Nanoseconds from the plan's start to a time; `None` beyond about 146 years.
pub fn from_start(sky: &Sky, time: DtnTime) -> Option<i64> {
    let ms = i128::from(time.as_millis()) - i128::from(sky.start().as_millis());
    i64::try_from(ms * 1_000_000).ok().filter(|ns| ns.abs() < i64::MAX / 2)
}

pub fn length(reader: &Reader<'_>, key: &str) -> Option<f64> {
    reader.custom(key, |input: Input<'_, '_>| length_km(input.text()?))
}
pub fn turn(reader: &Reader<'_>, key: &str) -> Option<f64> {
    reader.custom(key, |input: Input<'_, '_>| angle(input.text()?))
}
/// Reads an angle between two limits in degrees.
pub fn turn_within(reader: &Reader<'_>, key: &str, least: f64, most: f64) -> Option<f64> {
    let found = turn(reader, key)?;
    let fits = (least - 1e-9..=most + 1e-9).contains(&found.to_degrees());
    if !fits {
        reader.fail(key, format!("not between {least} and {most} degrees"), "write e.g. \"10 deg\"");
    }
    fits.then_some(found)
}

impl Context<'_> {
    fn body(&self, reader: &Reader<'_>) -> Option<BodyId> {
        reader.custom("body", |input: Input<'_, '_>| {
            let name = input.text()?;
            self.sky.find(name).ok_or_else(|| {
                let names: Vec<&str> = self.sky.names().collect();
                format!("`{name}` is none of {}", names.join(", "))
            })
        })
    }

    /// Epoch of a table's elements, in nanoseconds from the start.
    fn epoch(&self, reader: &Reader<'_>) -> Option<i64> {
        match reader.time("epoch") {
            None if reader.given("epoch") => None,
            None => Some(self.epoch),
            Some(time) => {
                let found = from_start(self.sky, time);
                if found.is_none() {
                    reader.fail("epoch", "more than a century from the plan", "");
                }
                found
            }
        }
    }

    /// Reads a `[[station]]` table.
    pub fn station(&self, reader: &Reader<'_>, names: &mut NameTable) {
        let name = names.name(reader);
        let (id, body) = (NameTable::id(reader, "id"), self.body(reader));
        let site = reader.custom("position", position);
        let mask = turn_within(reader, "mask", -10.0, 90.0);
        let (Some(name), Some(id), Some(body), Some(site), Some(mask)) = (name, id, body, site, mask) else { return };
        match Trajectory::ground(self.sky, body, site) {
            Some(place) => {
                names.add(reader, "id", NetworkNode { name, id, place, mask });
            }
            None => reader.fail("body", format!("{} has no ground", self.sky.body(body).name), "a planet or the moon"),
        }
    }

    /// Reads a `[[satellite]]` table.
    pub fn satellite(&self, reader: &Reader<'_>, names: &mut NameTable) {
        let (name, id) = (names.name(reader), NameTable::id(reader, "id"));
        let place = match (reader.given("tle"), reader.given("elements")) {
            (true, false) => self.of_catalog(reader),
            (false, true) => reader.table("elements", &keys::ELEMENTS).and_then(|inner| self.ellipse(&inner)),
            (both, _) => {
                let found = if both { "both `tle` and `elements`" } else { "neither `tle` nor `elements`" };
                reader.fail(if both { "tle" } else { "name" }, found, "exactly one of them gives its position");
                None
            }
        };
        let (Some(name), Some(id), Some(place)) = (name, id, place) else { return };
        names.add(reader, "id", NetworkNode { name, id, place, mask: 0.0 });
    }

    /// Selects the pair of two-line elements of one satellite.
    fn of_catalog(&self, reader: &Reader<'_>) -> Option<Trajectory> {
        let all = self.tle(reader)?;
        let catalog = reader.count("catalog");
        let mut meant = all.iter().filter(|tle| catalog.is_none_or(|number| tle.catalog == number));
        let first = meant.next();
        match (first, catalog) {
            (None, Some(number)) => {
                let hint = format!("there are {} satellites in it", all.len());
                reader.fail("catalog", format!("no satellite has the number {number}"), hint);
                None
            }
            (Some(_), None) if all.len() > 1 => {
                let found = format!("these are {} satellites", all.len());
                reader.fail("tle", found, "say which with `catalog = 25544`, or take all as a [[constellation]]");
                None
            }
            (first, _) => self.propagated(reader, first?),
        }
    }

    fn propagated(&self, reader: &Reader<'_>, tle: &Tle) -> Option<Trajectory> {
        match Satellite::new(tle, self.sky.start()) {
            Ok(satellite) => Trajectory::satellite(self.sky, satellite),
            Err(why) => {
                reader.fail("tle", format!("satellite {}: {why}", tle.catalog), HINT);
                None
            }
        }
    }

    /// Reads the elements of `tle`: from a file, or from the text itself.
    fn tle(&self, reader: &Reader<'_>) -> Option<Vec<Tle>> {
        let text = reader.text("tle")?;
        if text.contains('\n') {
            return match read(&text) {
                Ok(all) => Some(all),
                Err(error) => {
                    let start = reader.get("tle").map_or(0, |value| value.span().start);
                    // TOML drops a line break directly after the opening quotes.
                    let quoted = self.text.get(start..).unwrap_or("");
                    let begun = quoted.trim_start_matches(['"', '\'']).starts_with(['\n', '\r']);
                    let line = reader.errors.line(start) + usize::from(begun) + error.line.max(1) - 1;
                    let column = if error.column > 0 { format!(", column {}", error.column) } else { String::new() };
                    reader.errors.push(format!("{}.tle (line {line}{column})", reader.path()), error.message, HINT);
                    None
                }
            };
        }
        match farlink_config::read_text(&self.folder.join(&text)) {
            Ok(content) => read(&content)
                .map_err(|error| reader.errors.push(format!("{text}: {}", place_of(&error)), error.message, HINT))
                .ok(),
            Err(error) => {
                reader.fail("tle", format!("`{text}` {error}"), "the path of a file, relative to this one");
                None
            }
        }
    }

    /// Orbit of a `[[body]]`, and its parent body.
    pub fn around(&self, reader: &Reader<'_>) -> Option<(BodyId, Elements)> {
        reader
            .table("elements", &keys::ELEMENTS)
            .and_then(|inner| self.elements(&inner))
            .map(|(body, found, _)| (body, found))
    }

    fn ellipse(&self, reader: &Reader<'_>) -> Option<Trajectory> {
        let (body, elements, key) = self.elements(reader)?;
        self.orbit(reader, key, body, &elements)
    }

    /// Reads a table of elements; returns the parent body, the elements, and the key that gives the size.
    fn elements(&self, reader: &Reader<'_>) -> Option<(BodyId, Elements, &'static str)> {
        let (body, at) = (self.body(reader), self.epoch(reader));
        let eccentricity = reader.custom("eccentricity", |input: Input<'_, '_>| input.number());
        let inclination = turn_within(reader, "inclination", 0.0, 180.0);
        let angles = ["node", "periapsis", "anomaly"].map(|key| turn(reader, key));
        let (altitude, axis) = (length(reader, "altitude"), length(reader, "semi_major_axis"));
        if reader.given("altitude") == reader.given("semi_major_axis") {
            let hint = "`altitude` of a circle, or `semi_major_axis`";
            reader.fail("inclination", "it takes one of two lengths, and neither or both are given", hint);
        }
        let (body, at, eccentricity, inclination) = (body?, at?, eccentricity?, inclination?);
        let [Some(node), Some(periapsis), Some(anomaly)] = angles else { return None };
        let semi_major_km = altitude.map(|up| up + self.sky.body(body).radius_km).or(axis)?;
        let elements = Elements { semi_major_km, eccentricity, inclination, node, periapsis, anomaly, at };
        let key = if reader.given("altitude") { "altitude" } else { "semi_major_axis" };
        if altitude.is_some() && eccentricity != 0.0 {
            reader.fail("eccentricity", "an altitude is of a circle", "give `semi_major_axis` instead of `altitude`");
            return None;
        }
        Some((body, elements, key))
    }

    fn orbit(&self, reader: &Reader<'_>, key: &str, body: BodyId, elements: &Elements) -> Option<Trajectory> {
        let made = Trajectory::orbit(self.sky, body, elements);
        made.map_err(|why| reader.fail(key, why, "lengths are in km, from the body's centre or its equator")).ok()
    }

    /// Reads a `[[constellation]]` table.
    pub fn constellation(&self, reader: &Reader<'_>, names: &mut NameTable) {
        let (name, first) = (names.name(reader), NameTable::id(reader, "first_id"));
        let inner = match (reader.given("walker"), reader.given("tle")) {
            (true, false) => reader.table("walker", &keys::WALKER),
            (false, true) => None,
            (both, _) => {
                let found = if both { "both `walker` and `tle`" } else { "neither `walker` nor `tle`" };
                reader.fail(if both { "walker" } else { "name" }, found, "exactly one of them gives their positions");
                return;
            }
        };
        let walker = match inner.as_ref() {
            Some(inner) => match self.walker(inner) {
                Some(found) => Some(found),
                None => return,
            },
            None => None,
        };
        let Some(places) = (match (&inner, &walker) {
            (Some(inner), Some((body, walker))) => {
                let per_plane = walker.per_plane;
                let orbits = walker.orbits().zip(0u32..).map(|(elements, number)| {
                    let called = format!("{}-{}", number / per_plane + 1, number % per_plane + 1);
                    Some((called, self.orbit(inner, "altitude", *body, &elements)?))
                });
                orbits.collect::<Option<Vec<_>>>()
            }
            _ if reader.given("walker") => None,
            _ => self.tle(reader).and_then(|all| {
                let satellites = all.iter().map(|tle| {
                    let called = tle.name.as_deref().map_or_else(|| plain(&tle.catalog.to_string()), plain);
                    Some((called, self.propagated(reader, tle)?))
                });
                satellites.collect::<Option<Vec<_>>>()
            }),
        }) else {
            return;
        };
        let (Some(name), Some(first)) = (name, first) else { return };
        let mut nodes = Vec::with_capacity(places.len());
        let numbered = places.into_iter().zip(first.0..);
        for ((called, place), id) in numbered {
            let called = if walker.is_some() { format!("{name}-{called}") } else { called };
            // Names in a catalogue may repeat, so the node ID is appended where needed.
            let called = if walker.is_none() && names.has(&called) { format!("{called}-{id}") } else { called };
            let node = NetworkNode { name: called, id: NodeId::ipn(id), place, mask: 0.0 };
            let Some(index) = names.add(reader, "first_id", node) else { return };
            nodes.push(index);
        }
        names.group(name, nodes, walker.map(|(_, walker)| walker));
    }

    fn walker(&self, reader: &Reader<'_>) -> Option<(BodyId, WalkerPattern)> {
        let count = |key| reader.count(key).and_then(|number| u32::try_from(number).ok());
        let (planes, per_plane, phasing) = (count("planes"), count("per_plane"), count("phasing"));
        let (body, at, star) = (self.body(reader), self.epoch(reader), reader.choice("pattern"));
        let (inclination, altitude) = (turn_within(reader, "inclination", 0.0, 180.0), length(reader, "altitude"));
        let (node, anomaly) = (turn(reader, "node"), turn(reader, "anomaly"));
        let (planes, per_plane, phasing, body) = (planes?, per_plane?, phasing?, body?);
        if phasing >= planes {
            reader.fail(
                "phasing",
                format!("`{phasing}` is not less than `planes`"),
                "Walker's F goes from 0 to planes - 1",
            );
            return None;
        }
        if planes.saturating_mul(per_plane) as usize > super::names::NODES_MAX {
            let most = super::names::NODES_MAX;
            reader.fail("planes", format!("more than {most} satellites"), "fewer planes, or fewer in each");
            return None;
        }
        let walker = WalkerPattern {
            planes,
            per_plane,
            inclination: inclination?,
            radius_km: altitude? + self.sky.body(body).radius_km,
            phasing,
            star: star? == 1,
            node: node?,
            anomaly: anomaly?,
            at: at?,
        };
        Some((body, walker))
    }
}

fn place_of(error: &crate::tle::TleError) -> String {
    match (error.line, error.column) {
        (0, _) => "the file".into(),
        (line, 0) => format!("line {line}"),
        (line, column) => format!("line {line}, column {column}"),
    }
}

/// Reads latitude, longitude and optional altitude.
fn position(input: Input<'_, '_>) -> Result<GroundSite, String> {
    let items = input.items()?;
    let texts: Result<Vec<&str>, String> = items.iter().map(|item| Input::Given(item.get_ref()).text()).collect();
    let (latitude, longitude, altitude) = match texts?.as_slice() {
        [latitude, longitude] => (*latitude, *longitude, "0 m"),
        [latitude, longitude, altitude] => (*latitude, *longitude, *altitude),
        other => return Err(format!("expected latitude, longitude and perhaps altitude; found {} items", other.len())),
    };
    let altitude_km = length_km(altitude)?;
    if !(-12.0..=100.0).contains(&altitude_km) {
        return Err(format!("an altitude of {altitude_km} km is not on the ground"));
    }
    Ok(GroundSite {
        latitude: coordinate(latitude, ['N', 'S'], 90.0)?,
        longitude: coordinate(longitude, ['E', 'W'], 360.0)?,
        altitude_km,
    })
}

//! Contacts of a scenario: one source per radio, from its range and the movement of its nodes, from lines of sight, or
//! from a recording.

use super::edge::Contacts;
use super::kinetic::Kinetic;
use super::merge::Merge;
use super::sky::Ephemeris;
use super::trace::{Encounter, Recorded};
use crate::mobility::city::City;
use crate::mobility::map::{OnMap, Roads};
use crate::mobility::stationary::Stationary;
use crate::mobility::trace::{Fix, Traced};
use crate::mobility::walk::Walk;
use crate::mobility::waypoint::Waypoint;
use crate::mobility::{Mobility, Wander, stream};
use farlink_base::{ConfigError, Instant, Rng};
use farlink_scenario::Scenario;
use farlink_scenario::motion::{self, Map, Model, Reach};
use std::sync::Arc;

/// Random stream of city maps, apart from all others of a run.
const CITY: u64 = 18;

/// Contacts of all radios of a scenario in time order, computed on demand. They depend on the scenario and its seed
/// alone; `ephemeris` holds its passes; without it, radios by line of sight have no contacts.
pub fn of_scenario(scenario: &Scenario, ephemeris: Option<&Ephemeris>) -> Merge {
    let motions = Motions::new(scenario);
    let source = |(place, radio): (usize, &motion::Radio)| -> Box<dyn Contacts> {
        match &radio.reach {
            Reach::Range(range) => {
                let nodes = radio.nodes.iter().filter_map(|node| Some((*node as u32, motions.of(*node)?)));
                Box::new(Kinetic::new(place as u16, *range, nodes.collect()))
            }
            Reach::Sight(_) => match ephemeris {
                Some(ephemeris) => Box::new(ephemeris.contacts(place as u16)),
                None => Box::new(Recorded::new(place as u16, [])),
            },
            Reach::Recorded(meetings) => {
                let encounter = |meeting: &motion::encounters::Meeting| {
                    let [a, b] = meeting.nodes.map(|node| node as u32);
                    let end = meeting.end.map_or(Instant::MAX, |end| Instant::ZERO + end);
                    Encounter { a, b, start: Instant::ZERO + meeting.start, end }
                };
                Box::new(Recorded::new(place as u16, meetings.iter().map(encounter)))
            }
        }
    };
    Merge::new(scenario.radios.iter().enumerate().map(source))
}

/// Movement of all nodes with positions, with or without a radio; contacts follow from the same legs.
pub(crate) fn ways(scenario: &Scenario) -> Vec<Option<Box<dyn Mobility>>> {
    let motions = Motions::new(scenario);
    (0..scenario.nodes.len()).map(|node| motions.of(node)).collect()
}

/// Movement models of a scenario, per node.
struct Motions<'s> {
    scenario: &'s Scenario,
    /// Per node: its mobility, and its index among the nodes with that mobility.
    places: Vec<Option<(usize, usize)>>,
    /// Street map of each mobility.
    roads: Vec<Option<Arc<Roads>>>,
}

impl<'s> Motions<'s> {
    fn new(scenario: &'s Scenario) -> Motions<'s> {
        let mut places = vec![None; scenario.nodes.len()];
        for (place, mobility) in scenario.mobilities.iter().enumerate() {
            for (number, node) in mobility.nodes.iter().enumerate() {
                places[*node] = Some((place, number));
            }
        }
        let roads = |(place, mobility): (usize, &motion::Mobility)| {
            let Model::Map { map, .. } = &mobility.model else { return None };
            Some(Arc::new(match map {
                Map::File(streets) => Roads::new(streets.points.clone(), &streets.streets),
                &Map::City { columns, rows, block, bend, missing } => {
                    let seed = mobility.seed.unwrap_or(scenario.seed);
                    let mut random = Rng::stream(seed, CITY << 32 | place as u64);
                    City { columns, rows, block, bend, missing }.roads(&mut random)
                }
            }))
        };
        let roads = scenario.mobilities.iter().enumerate().map(roads).collect();
        Motions { scenario, places, roads }
    }

    fn of(&self, node: usize) -> Option<Box<dyn Mobility>> {
        // None for satellites and stations, whose positions the ephemeris computes, and for nodes without mobility.
        let (place, number) = self.places[node]?;
        let mobility = &self.scenario.mobilities[place];
        let mut random = stream(mobility.seed.unwrap_or(self.scenario.seed), node as u32);
        Some(match &mobility.model {
            Model::Stationary { points, area } => {
                let drawn = [random.unit() * area[0], random.unit() * area[1]];
                Box::new(Stationary { at: points.get(number).copied().unwrap_or(drawn) })
            }
            Model::Walk { wander, step } => Box::new(Walk::new(wander_of(wander), *step, random)),
            Model::Waypoint(wander) => Box::new(Waypoint::new(wander_of(wander), random)),
            Model::Map { speed, pause, .. } => Box::new(OnMap::new(self.roads[place].clone()?, *speed, *pause, random)),
            Model::Orbit(_) | Model::Ground(_) => return None,
            Model::Trace(tracks) => {
                let fix = |(at, position): &(f64, motion::Point)| Fix { at: *at, position: *position };
                Box::new(Traced::new(tracks.get(number)?.fixes.iter().map(fix).collect()))
            }
        })
    }
}

fn wander_of(wander: &motion::Wander) -> Wander {
    Wander { area: wander.area, speed: wander.speed, pause: wander.pause }
}

/// Edges of a scenario as lines of The ONE's connectivity report, `time CONN one other up` or `down`, with node names
/// and the radio, until the end of the run.
///
/// # Errors
/// As [`Ephemeris::of`].
pub fn as_lines(scenario: &Scenario) -> Result<impl Iterator<Item = String> + '_, ConfigError> {
    let ephemeris = Ephemeris::of(scenario)?;
    let mut contacts = of_scenario(scenario, ephemeris.as_deref());
    let end = Instant::ZERO + scenario.duration;
    Ok(std::iter::from_fn(move || {
        let edge = contacts.next(end)?;
        let name = |node: u32| &scenario.nodes[node as usize].name;
        let (whole, rest) = (edge.at.0 / 1_000_000_000, edge.at.0 % 1_000_000_000);
        let word = if edge.up { "up" } else { "down" };
        let radio = &scenario.radios[usize::from(edge.radio)].name;
        Some(format!("{whole}.{rest:09} CONN {} {} {word} {radio}", name(edge.a), name(edge.b)))
    }))
}

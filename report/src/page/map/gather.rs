//! Reduction of a run's tables to the data of its map: numbers as small as the resolution allows, and bounded so that
//! the page stays small. Omissions are listed on the page.

use super::ways::{BundlePaths, CopyStep};
use crate::column::Text;
use crate::format::Quantity;
use crate::manifest::Manifest;
use crate::run::RunReader;
use crate::schema::{BundleRow, LegRow, STORED_BYTES};
use anyhow::Result;
use std::collections::HashMap;

// Most nodes, and most turning points of their movements; with the other limits this makes a page
// of about 5 MB.
const NODES: usize = 2_000;
const KNOTS: usize = 150_000;
// Most contacts between nodes; the longest are kept.
const MEETINGS: usize = 60_000;
// Most changes of store occupancy.
const FILLS: usize = 150_000;
// Most bundles; the first are kept.
const BUNDLES: usize = 20_000;
// Resolution of times, in parts of the run, and of positions, in parts of the scene's longer side.
const TICKS: f64 = 4e9;
const PLACES: f64 = 65_000.0;

/// Index of a node that is not drawn.
pub const NOBODY: u16 = u16::MAX;

/// A turning point of a node's movement, or a change of its speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knot {
    pub tick: u32,
    pub x: u16,
    pub y: u16,
}
/// Interval during which two nodes were in radio range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    pub start: u32,
    pub end: u32,
    pub nodes: [u16; 2],
}
/// Store occupancy of a node from `tick` on, in 255ths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFill {
    pub tick: u32,
    pub share: u8,
}
/// Source, destination and times of one bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    pub created: u32,
    pub delivered: Option<u32>,
    pub from: u16,
    pub to: u16,
}

/// Data of the map of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Play {
    pub duration_s: f64,
    /// Smallest and largest coordinates, in metres: x, y, x, y.
    pub extent: [f64; 4],
    /// Names of the nodes drawn; other fields refer to nodes by index into this list.
    pub names: Vec<String>,
    pub ways: Vec<Vec<Knot>>,
    pub meetings: Vec<Meeting>,
    pub fills: Vec<Vec<StoreFill>>,
    /// Meaning of a full store, in words: its capacity, or the occupancy of the fullest one.
    pub scale: String,
    pub bundles: Vec<Trip>,
    /// Movements of the first bundles' copies.
    pub steps: Vec<Vec<CopyStep>>,
    /// Number of bundles created in the whole run.
    pub created: usize,
    /// Sentences about the data left out.
    pub left_out: Vec<String>,
}

impl Play {
    /// Gathers the data of the map; `None` if no node has a position or the run has no duration.
    pub fn read(run: &RunReader, bundles: &[BundleRow]) -> Result<Option<Play>> {
        let manifest = run.manifest();
        let mut legs: HashMap<Text, usize> = HashMap::new();
        run.legs(&mut |leg| {
            *legs.entry(leg.node).or_default() += 1;
            Ok(())
        })?;
        if legs.is_empty() || manifest.duration_s <= 0.0 {
            return Ok(None);
        }
        let mut play = Play { duration_s: manifest.duration_s, created: bundles.len(), ..Play::default() };
        let places = play.choose(manifest, &legs);
        play.gather_ways(run, &places)?;
        play.gather_meetings(run, &places)?;
        play.gather_fills(run, manifest, &places)?;
        let place = |name: &Text| places.get(name).copied().unwrap_or(NOBODY);
        for row in bundles.iter().take(BUNDLES) {
            let delivered = row.delivered_ns.map(|at| play.tick(at as f64 / 1e9));
            let created = play.tick(row.created_ns as f64 / 1e9);
            play.bundles.push(Trip { created, delivered, from: place(&row.source), to: place(&row.destination) });
        }
        let found = BundlePaths::read(run, &bundles[..play.bundles.len()], &play, &places)?;
        play.left_out.extend(found.left_out);
        play.steps = found.steps;
        if bundles.len() > BUNDLES {
            play.left_out.push(format!("Of {} bundles the first {BUNDLES} are shown.", bundles.len()));
        }
        Ok(Some(play))
    }
    /// Length of a tick in seconds.
    pub fn tick_s(&self) -> f64 {
        self.duration_s / TICKS
    }
    /// Converts a time in seconds to ticks.
    pub fn tick(&self, time_s: f64) -> u32 {
        // Negative and huge times are clamped, because the cast saturates.
        (time_s / self.tick_s()).round().min(TICKS) as u32
    }
    /// Whether the movements of bundle copies are known.
    pub fn has_ways(&self) -> bool {
        self.steps.iter().any(|steps| !steps.is_empty())
    }

    /// Chooses the nodes to draw: all that have a position or, if these are too many, every second, fourth and so on.
    fn choose(&mut self, manifest: &Manifest, legs: &HashMap<Text, usize>) -> HashMap<Text, u16> {
        let nodes = &manifest.topology.nodes;
        let all: Vec<(&str, usize)> =
            nodes.iter().filter_map(|node| Some((&*node.name, *legs.get(node.name.as_str())?))).collect();
        let drawn = |each: usize| all.iter().step_by(each).copied();
        let mut each = 1;
        while drawn(each).count() > NODES || drawn(each).map(|(_, legs)| 2 * legs).sum::<usize>() > KNOTS {
            // A map of fewer than 20 nodes shows too little, so their movements are cut instead.
            if drawn(each).count() < 20 {
                break;
            }
            // Doubling keeps the nodes of each choice a subset of the previous one.
            each *= 2;
        }
        self.names = drawn(each).map(|(name, _)| name.to_string()).collect();
        if each > 1 {
            self.left_out.push(format!("Of {} nodes one in {each} is drawn.", all.len()));
        }
        self.names.iter().enumerate().map(|(place, name)| (Text::from(name.as_str()), place as u16)).collect()
    }

    fn gather_ways(&mut self, run: &RunReader, places: &HashMap<Text, u16>) -> Result<()> {
        let share = KNOTS / self.names.len().max(1);
        let mut ways: Vec<Vec<LegRow>> = vec![Vec::new(); self.names.len()];
        let mut cut = false;
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        run.legs(&mut |leg| {
            let Some(place) = places.get(&leg.node) else { return Ok(()) };
            let way = &mut ways[usize::from(*place)];
            // One leg needs up to two knots.
            if 2 * way.len() + 2 > share.max(2) {
                cut = true;
                return Ok(());
            }
            for (x, y) in [leg.at(leg.start_s), leg.at(leg.end_s)] {
                if x.is_finite() && y.is_finite() {
                    (low, high) = ([low[0].min(x), low[1].min(y)], [high[0].max(x), high[1].max(y)]);
                }
            }
            way.push(leg);
            Ok(())
        })?;
        // All positions were infinite or NaN.
        if low[0] > high[0] {
            (low, high) = ([0.0; 2], [0.0; 2]);
        }
        self.extent = [low[0], low[1], high[0], high[1]];
        if cut {
            self.left_out.push("Nodes that turn very often are drawn for part of the run only.".into());
        }
        self.ways = ways.iter().map(|legs| self.knots(legs)).collect();
        Ok(())
    }
    /// Resolution of positions, in metres.
    pub fn place_m(&self) -> f64 {
        let [x0, y0, x1, y1] = self.extent;
        (x1 - x0).max(y1 - y0).max(1e-9) / PLACES
    }
    fn knots(&self, legs: &[LegRow]) -> Vec<Knot> {
        let place = |metres: f64, least: f64| ((metres - least) / self.place_m()).round() as u16;
        let knot = |leg: &LegRow, at: f64| {
            let (x, y) = leg.at(at);
            Knot { tick: self.tick(at), x: place(x, self.extent[0]), y: place(y, self.extent[1]) }
        };
        let mut knots: Vec<Knot> = Vec::new();
        for leg in legs {
            for knot in [knot(leg, leg.start_s), knot(leg, leg.end_s)] {
                // Most legs begin where the previous one ended.
                if knots.last() != Some(&knot) {
                    knots.push(knot);
                }
            }
        }
        knots
    }

    fn gather_meetings(&mut self, run: &RunReader, places: &HashMap<Text, u16>) -> Result<()> {
        let mut all = Vec::new();
        run.meetings(&mut |row| {
            if let (Some(a), Some(b)) = (places.get(&row.node), places.get(&row.peer)) {
                let [start, end] = [row.start_ns, row.end_ns].map(|at| self.tick(at as f64 / 1e9));
                all.push(Meeting { start, end, nodes: [*a, *b] });
            }
            Ok(())
        })?;
        let length = |meeting: &Meeting| meeting.end.saturating_sub(meeting.start);
        if let Some(more) = all.len().checked_sub(MEETINGS).filter(|more| *more > 0) {
            // Short contacts are the least visible, so they are dropped first.
            all.sort_by_key(|meeting| std::cmp::Reverse(length(meeting)));
            all.truncate(MEETINGS);
            let least = all.last().map_or(0.0, |meeting| f64::from(length(meeting)) * self.tick_s());
            let least = Quantity::Seconds.text(least);
            self.left_out.push(format!("{more} meetings of {least} and less are not drawn."));
        }
        all.sort_by_key(|meeting| (meeting.start, meeting.end, meeting.nodes));
        self.meetings = all;
        Ok(())
    }

    fn gather_fills(&mut self, run: &RunReader, manifest: &Manifest, places: &HashMap<Text, u16>) -> Result<()> {
        let mut seen: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.names.len()];
        run.samples(&mut |row| {
            let place = row.node.as_ref().and_then(|node| places.get(node));
            if let (STORED_BYTES, Some(place)) = (&*row.metric, place) {
                seen[usize::from(*place)].push((row.time_ns as f64 / 1e9, row.value));
            }
            Ok(())
        })?;
        let mut capacities = vec![0.0; self.names.len()];
        for node in &manifest.topology.nodes {
            if let Some(place) = places.get(node.name.as_str()) {
                capacities[usize::from(*place)] = node.store_capacity_bytes as f64;
            }
        }
        let most = |values: &Vec<(f64, f64)>| values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let fullest = seen.iter().map(most).fold(0.0, f64::max);
        // If no store is filled noticeably, occupancy relative to capacity would always look empty.
        let used = seen.iter().zip(&capacities).any(|(values, capacity)| most(values) > 0.1 * capacity);
        let limited = used && capacities.iter().all(|capacity| *capacity > 0.0);
        self.scale = match (limited, fullest > 0.0) {
            (true, _) => "of its capacity".into(),
            (false, true) => format!("of the fullest store, {}", Quantity::Bytes.text(fullest)),
            (false, false) => "not recorded, or always empty".into(),
        };
        let share = (FILLS / self.names.len().max(1)).max(1);
        let of_node = |(values, capacity): (&Vec<(f64, f64)>, &f64)| {
            let whole = if limited { *capacity } else { fullest.max(1.0) };
            let group = values.len().div_ceil(share).max(1);
            let mut fills: Vec<StoreFill> = Vec::new();
            for (at, value) in values.iter().step_by(group) {
                let share = (255.0 * value / whole).round().clamp(0.0, 255.0) as u8;
                if fills.last().is_none_or(|last| last.share != share) {
                    fills.push(StoreFill { tick: self.tick(*at), share });
                }
            }
            fills
        };
        self.fills = seen.iter().zip(&capacities).map(of_node).collect();
        Ok(())
    }
}

//! Where nodes are and whom they can hear, as a scenario says it: plain data, with the files it names
//! read. What follows from it is the simulator's to compute.

pub mod encounters;
pub mod positions;
pub mod quantities;
pub mod sky;
mod text;
pub mod wkt;

pub use text::{Mistake, Point};

use crate::shared::{Layer, SizeRange};
use encounters::Meeting;
use farlink_base::{DataRate, Duration};
use farlink_link::Loss;
use positions::Track;
use sky::{Sight, Site, Walker};
use std::ops::Range;
use std::path::PathBuf;
use wkt::Streets;

/// How nodes move.
#[derive(Clone, PartialEq, Debug)]
pub struct Mobility {
    /// Its name in this file.
    pub name: String,
    /// How.
    pub model: Model,
    /// Seed of the movements alone; `None`: the scenario's.
    pub seed: Option<u64>,
    /// Indices in [`crate::Scenario::nodes`] of those that move so, in their order.
    pub nodes: Vec<usize>,
}

/// Models of movement; lengths in metres, speeds in metres a second, pauses in seconds, each from the
/// least to the largest.
#[derive(Clone, PartialEq, Debug)]
pub enum Model {
    /// Nobody moves: the n-th node is at the n-th point, those beyond at random places of the area.
    Stationary {
        /// Places.
        points: Vec<Point>,
        /// Width and height; where there are points for all it may be none.
        area: Point,
    },
    /// A random direction and distance, a pause, and so on.
    Walk {
        /// Where, and how fast.
        wander: Wander,
        /// Length of a step.
        step: [f64; 2],
    },
    /// To a random point of the area, a pause, and so on.
    Waypoint(Wander),
    /// To a random crossing by the shortest way along streets, a pause, and so on.
    Map {
        /// The streets.
        map: Map,
        /// Speed on a way.
        speed: [f64; 2],
        /// Pause after it.
        pause: [f64; 2],
    },
    /// As was recorded: the n-th node goes as the n-th track.
    Trace(Vec<Track>),
    /// Around the Earth: the n-th node is the n-th satellite, plane by plane.
    Orbit(Walker),
    /// On the ground of the Earth, and turns with it: the n-th node is at the n-th place.
    Ground(Vec<Site>),
}

impl Model {
    /// Whether it is around the Earth or on it, and not in a plane.
    pub fn is_of_the_sky(&self) -> bool {
        matches!(self, Model::Orbit(_) | Model::Ground(_))
    }
}

/// What models of wandering in a rectangle have in common.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wander {
    /// Width and height.
    pub area: Point,
    /// Speed on a way.
    pub speed: [f64; 2],
    /// Pause after it.
    pub pause: [f64; 2],
}

/// Streets of a map.
#[derive(Clone, PartialEq, Debug)]
pub enum Map {
    /// Those of a file.
    File(Streets),
    /// A city made from the seed.
    City {
        /// Crossings from west to east.
        columns: u32,
        /// Crossings from south to north.
        rows: u32,
        /// Metres between two of them.
        block: f64,
        /// How crooked it is, 0 to 1.
        bend: f64,
        /// Share of the streets left out, where that cuts nobody off.
        missing: f64,
    },
}

/// A radio: two nodes that have it get a link while they hear each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Radio {
    /// Its name; its links are called after it and their nodes.
    pub name: String,
    /// Who hears whom.
    pub reach: Reach,
    /// Rate of each direction of a link; `None`: without a limit.
    pub rate: Option<DataRate>,
    /// One-way delay; `None`: that of light over the range.
    pub delay: Option<Duration>,
    /// Losses, which cost bundles only over layers that repair none.
    pub loss: Loss,
    /// The convergence layer that its links stand for.
    pub layer: Layer,
    /// How nodes share it.
    pub sharing: Sharing,
    /// Indices in [`crate::Scenario::nodes`] of those that have it, in their order.
    pub nodes: Vec<usize>,
}

/// How the links of a radio share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// Who may send while others do.
    pub turns: Turns,
    /// Whose turn it is, where several could.
    pub order: TurnOrder,
    /// How long a transfer keeps the radio.
    pub delay_mode: DelayMode,
    /// Whether what neighbours tell each other of what they hold takes its time of the radio.
    pub metadata_free: bool,
    /// Transfers end at multiples of this from the start of the run; zero: when their last bit leaves.
    pub quantum: Duration,
    /// Links that a node has at once at most; `None`: with all it hears.
    pub beams: Option<u32>,
}

/// Who may send by a radio while others do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// A node sends or receives one bundle at a time.
    Node,
    /// Each direction of each link carries one bundle at a time, whatever others do.
    Link,
}

/// Whose turn it is when a radio is free again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnOrder {
    /// Whoever sent goes on, then who received, then their neighbours.
    Sender,
    /// Whoever received goes first, then who sent, then their neighbours.
    Receiver,
    /// Who waited longest since its last turn.
    Fair,
    /// Drawn.
    Random,
}

/// How long a transfer keeps the radios of both its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayMode {
    /// Until the last bit left.
    Pipelined,
    /// Until the last bit arrived.
    StopAndWait,
}

/// Who hears whom.
#[derive(Clone, PartialEq, Debug)]
pub enum Reach {
    /// Nodes that are no farther apart, in metres.
    Range(f64),
    /// Those that were recorded to.
    Recorded(Vec<Meeting>),
    /// Satellites and stations that see each other.
    Sight(Sight),
}

impl Radio {
    /// One-way delay of its links.
    pub fn one_way_delay(&self) -> Duration {
        /// Metres a second.
        const LIGHT: f64 = 299_792_458.0;
        let light = match self.reach {
            Reach::Range(metres) => Duration::from_nanos((metres / LIGHT * 1e9).ceil() as u64),
            // Of those that see each other the light's own time, contact by contact.
            Reach::Recorded(_) | Reach::Sight(_) => Duration::ZERO,
        };
        self.delay.unwrap_or(light)
    }
}

/// Bundles among the nodes of groups, each from one drawn to another drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupTraffic {
    /// Its name; that of a bundle has a number besides.
    pub name: String,
    /// Indices of the nodes that send.
    pub from: Range<usize>,
    /// Indices of those that receive.
    pub to: Range<usize>,
    /// Service number of the receivers.
    pub service: u32,
    /// Most bundles; what would begin as the run is over is left out.
    pub count: u64,
    /// Payload of each.
    pub size: SizeRange,
    /// Time between two, in seconds, from the least to the largest.
    pub interval: [f64; 2],
    /// When the first begins, from the start of the run.
    pub start: Duration,
    /// Lifetime; `None`: that of the sender's bundles.
    pub lifetime: Option<Duration>,
    /// Class of service; `None`: that of the sender's.
    pub priority: Option<farlink_base::Priority>,
    /// Status reports that they ask for, to the sending node.
    pub reports: farlink_base::Facts,
    /// Whether what a sender's node refuses is lost, and not offered again.
    pub lost: bool,
}

/// A group of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name; its nodes are called so, with their numbers from 1.
    pub name: String,
    /// Indices of its nodes in [`crate::Scenario::nodes`].
    pub nodes: Range<usize>,
}

/// A file that a key names, and its text.
pub(crate) fn read(
    reader: &farlink_config::Reader<'_>,
    key: &str,
    folder: &std::path::Path,
) -> Option<(PathBuf, String)> {
    let file = PathBuf::from(reader.text(key)?);
    let path = folder.join(&file);
    match farlink_config::read_text(&path) {
        Ok(text) => Some((file, text)),
        Err(error) => {
            reader.fail(key, format!("`{}` {error}", path.display()), "paths are relative to the scenario");
            None
        }
    }
}

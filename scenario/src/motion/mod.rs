//! Positions and radio reach of nodes as plain data, with the content of the files that a scenario names. Movements and
//! contacts that follow from them are computed by the simulator.

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

/// A named movement model with its nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Mobility {
    /// Name in the scenario file.
    pub name: String,
    /// Model of the movement, with its parameters.
    pub model: Model,
    /// Seed of the movements alone; `None`: the scenario's.
    pub seed: Option<u64>,
    /// Indices in [`crate::Scenario::nodes`] of the nodes that follow this model, in their order.
    pub nodes: Vec<usize>,
}

/// Models of movement; lengths in metres, speeds in metres a second, pauses in seconds; ranges as smallest and largest
/// value.
#[derive(Clone, PartialEq, Debug)]
pub enum Model {
    /// No movement: the n-th node is at the n-th point, further nodes at random places of the area.
    Stationary {
        /// Places of the first nodes.
        points: Vec<Point>,
        /// Width and height; zero where all nodes have points.
        area: Point,
    },
    /// Steps of random direction and length, with a pause after each.
    Walk {
        /// Area, speed and pause.
        wander: Wander,
        /// Length of a step.
        step: [f64; 2],
    },
    /// Ways to random points of the area, with a pause after each.
    Waypoint(Wander),
    /// Shortest ways along streets to random crossings, with a pause after each.
    Map {
        /// Streets of a file or of a generated city.
        map: Map,
        /// Speed on the way to one crossing.
        speed: [f64; 2],
        /// Pause at the crossing at which a way ends.
        pause: [f64; 2],
    },
    /// Recorded positions: the n-th node follows the n-th track.
    Trace(Vec<Track>),
    /// Orbits around the Earth: the n-th node is the n-th satellite, plane by plane.
    Orbit(Walker),
    /// Places on the ground, turning with the Earth: the n-th node is at the n-th place.
    Ground(Vec<Site>),
}

impl Model {
    /// Whether its nodes are in orbit or on the Earth, instead of in a plane.
    pub fn is_of_the_sky(&self) -> bool {
        matches!(self, Model::Orbit(_) | Model::Ground(_))
    }
}

/// Parameters common to the models that wander in a rectangle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wander {
    /// Width and height of the rectangle.
    pub area: Point,
    /// Speed on one leg.
    pub speed: [f64; 2],
    /// Pause after each leg.
    pub pause: [f64; 2],
}

/// Streets of a map.
#[derive(Clone, PartialEq, Debug)]
pub enum Map {
    /// Streets of a file.
    File(Streets),
    /// A city made from the seed.
    City {
        /// Crossings from west to east.
        columns: u32,
        /// Crossings from south to north.
        rows: u32,
        /// Metres between neighbouring crossings of the grid.
        block: f64,
        /// Largest displacement of a crossing from the grid, as a share of half a block.
        bend: f64,
        /// Share of streets removed, among those that can be removed without splitting the map.
        missing: f64,
    },
}

/// A radio: two nodes that have it get a link while they are in contact.
#[derive(Clone, PartialEq, Debug)]
pub struct Radio {
    /// Name of the radio; its links are named after it and their nodes.
    pub name: String,
    /// Rule for the pairs of nodes in contact.
    pub reach: Reach,
    /// Rate of each direction of a link; `None`: without a limit.
    pub rate: Option<DataRate>,
    /// One-way delay; `None`: the default of [`Radio::one_way_delay`].
    pub delay: Option<Duration>,
    /// Packet losses; bundles are lost only over layers that do not retransmit.
    pub loss: Loss,
    /// Convergence layer whose behaviour its links imitate.
    pub layer: Layer,
    /// Rules by which its nodes share the radio.
    pub sharing: Sharing,
    /// Indices in [`crate::Scenario::nodes`] of the nodes that have it, in their order.
    pub nodes: Vec<usize>,
}

/// Sharing of a radio among its links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// Concurrency of transfers: one per node, or one per direction of a link.
    pub turns: Turns,
    /// Order of turns, where several nodes could send.
    pub order: TurnOrder,
    /// Time for which a transfer keeps the radio.
    pub delay_mode: DelayMode,
    /// Whether summaries between neighbours take no time of the radio.
    pub metadata_free: bool,
    /// Transfers end at multiples of this time from the start of the run; zero: as soon as they are complete.
    pub quantum: Duration,
    /// Most links of a node at once; `None`: one with each node that it reaches.
    pub beams: Option<u32>,
}

/// Concurrency of transfers over a radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// A node sends or receives one bundle at a time.
    Node,
    /// Each direction of each link carries one bundle at a time, whatever others do.
    Link,
}

/// Order of turns when a radio becomes free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnOrder {
    /// The sender goes on, then the receiver, then their neighbours.
    Sender,
    /// The receiver goes first, then the sender, then their neighbours.
    Receiver,
    /// The node that waited longest since its last turn goes first.
    Fair,
    /// A random order, drawn from the seed.
    Random,
}

/// Time for which a transfer keeps the radios of both its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayMode {
    /// Until the last bit left.
    Pipelined,
    /// Until the last bit arrived.
    StopAndWait,
}

/// Rule for the pairs of nodes in contact.
#[derive(Clone, PartialEq, Debug)]
pub enum Reach {
    /// Nodes that are no farther apart, in metres.
    Range(f64),
    /// Pairs with a recorded contact, while it lasts.
    Recorded(Vec<Meeting>),
    /// Satellites and stations with a line of sight.
    Sight(Sight),
}

impl Radio {
    /// One-way delay of the radio's links. By default the light time over the range; zero for recorded contacts, and
    /// for lines of sight, where each contact has its own light time.
    pub fn one_way_delay(&self) -> Duration {
        /// Speed of light in a vacuum, m/s.
        const LIGHT: f64 = 299_792_458.0;
        let light = match self.reach {
            // Light time over the whole range, because distances change while a contact lasts.
            Reach::Range(metres) => Duration::from_nanos((metres / LIGHT * 1e9).ceil() as u64),
            // With a line of sight, each contact has the light time of its own distance; records have no distances.
            Reach::Recorded(_) | Reach::Sight(_) => Duration::ZERO,
        };
        self.delay.unwrap_or(light)
    }
}

/// Bundles among the nodes of groups; the two ends of each are drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupTraffic {
    /// Name; those of its bundles have a number appended.
    pub name: String,
    /// Indices of the nodes that send.
    pub from: Range<usize>,
    /// Indices of the nodes that receive.
    pub to: Range<usize>,
    /// Service number of the receivers.
    pub service: u32,
    /// Most bundles; those that would begin after the end of the run are left out.
    pub count: u64,
    /// Payload of each bundle, drawn from the range.
    pub size: SizeRange,
    /// Shortest and longest time between two bundles, in seconds.
    pub interval: [f64; 2],
    /// Time of the first bundle, from the start of the run.
    pub start: Duration,
    /// Lifetime; `None`: the sending node's default.
    pub lifetime: Option<Duration>,
    /// Class of service; `None`: the sending node's default.
    pub priority: Option<farlink_base::Priority>,
    /// Status reports requested, to the sending node.
    pub reports: farlink_base::Facts,
    /// Whether bundles that a sender's node refuses are lost instead of offered again.
    pub lost: bool,
}

/// A group of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Name; its nodes have this name with a number from 1.
    pub name: String,
    /// Indices of its nodes in [`crate::Scenario::nodes`].
    pub nodes: Range<usize>,
}

/// Reads a file that a key names; returns its name and text. A file that cannot be read is reported.
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

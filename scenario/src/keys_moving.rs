//! Keys of nodes that move: groups, mobility, radios.

use crate::motion::sky::NEIGHBOURS;
use farlink_cla::registry::NAMES;
use farlink_config::Fallback::{Absent, Is, Required};
use farlink_config::Kind::{Choice, Count, Flag, Share};
use farlink_config::{Key, Kind, Section, key, other};

const LENGTH: Kind = other("length", "\"150 m\"");
const AREA: Kind = other("length of a square's side, or [width, height]", "[\"1 km\", \"500 m\"]");
const LENGTHS: Kind = other("length, or [least, most]", "[\"0 m\", \"50 m\"]");
const SPEEDS: Kind = other("speed, or [least, most]", "[\"0.5 m/s\", \"1.5 m/s\"]");
const PAUSES: Kind = other("duration, or [least, most]", "[\"0 s\", \"2 min\"]");
const POINTS: Kind = other("list of [x, y]", "[[\"0 m\", \"50 m\"], [\"1 km\", \"0 m\"]]");
const ANGLE: Kind = other("angle", "\"53 deg\"");
const SITES: Kind = other(
    "list of [latitude, longitude] or [latitude, longitude, altitude]",
    "[[\"78.23 N\", \"15.39 E\", \"450 m\"]]",
);
const MOBILITY_NAME: Kind = other("name of a mobility", "\"walking\"");
const RADIO_NAMES: Kind = other("name of a radio, or list of them", "\"wifi\"");

/// Keys of movement in `[[node]]`.
pub const NODE_KEYS: &[Key] = &[
    key("mobility", MOBILITY_NAME, Absent, "How it moves; a radio with a range needs to know."),
    key("radio", RADIO_NAMES, Absent, "Radios it has: it gets a link to each node with the same one that it hears."),
];

/// Words of the key `model`.
pub const MODELS: &[&str] = &["stationary", "random_walk", "random_waypoint", "map", "trace", "orbit", "ground"];

/// Keys of `[[mobility]]`.
pub const MOBILITY: Section = Section {
    name: "mobility",
    help: "A way to move, of all nodes that name it: `[[mobility]]` for each. Every node moves in straight lines at one speed; what it draws follows from the seed and its place in the file alone. Nodes begin with a pause.",
    keys: &[
        key("name", Kind::Name, Required, "Its name."),
        key(
            "model",
            Choice(MODELS),
            Required,
            "`stationary`: nobody moves. `random_walk`: a random direction and distance, a pause, and so on. `random_waypoint`: to a random point of the area, a pause, and so on. `map`: to a random crossing by the shortest way along streets, a pause, and so on. `trace`: as was recorded. `orbit`: around the Earth. `ground`: on the ground of the Earth, which turns.",
        ),
        key(
            "area",
            AREA,
            Absent,
            "Where: of all models but `map` and `trace`. Of `stationary`, where points are missing.",
        ),
        key("speed", SPEEDS, Absent, "Speed, drawn for each way: of models that move, and these need it."),
        key("pause", PAUSES, Is("0 s"), "Pause after each way, drawn each time."),
        key("step", LENGTHS, Is("50 m"), "Of `random_walk`: length of a way, drawn each time."),
        key(
            "points",
            POINTS,
            Absent,
            "Of `stationary`: where the nodes are, in their order; further ones are at random places of `area`.",
        ),
        key(
            "map",
            Kind::File,
            Absent,
            "Of `map`: file of streets, LINESTRING and MULTILINESTRING of well-known text, in metres. Lines meet where they have a point in common.",
        ),
        key("city", Kind::Table("mobility.city"), Absent, "Of `map`, in place of a file: a city made from the seed."),
        key(
            "file",
            Kind::File,
            Absent,
            "Of `trace`: file of positions, a line `time node x y` for each, in seconds and metres; the n-th node of the scenario goes as the n-th of the file, by their numbers.",
        ),
        key(
            "walker",
            Kind::Table("mobility.walker"),
            Absent,
            "Of `orbit`: a whole constellation; the n-th node is its n-th satellite, plane by plane.",
        ),
        key(
            "positions",
            SITES,
            Absent,
            "Of `ground`: where the nodes stand, in their order; geodetic, altitudes above the ellipsoid.",
        ),
        key(
            "seed",
            Count(0, u64::MAX >> 1),
            Absent,
            "Seed of the movements alone: the same ways in runs with different seeds.",
        ),
    ],
};

/// Keys of `city = { ... }`.
pub const CITY: Section = Section {
    name: "mobility.city",
    help: "A city of blocks whose crossings are a little off the grid. From each one gets to every other.",
    keys: &[
        key("columns", Count(1, 1000), Is("20"), "Crossings from west to east."),
        key("rows", Count(1, 1000), Is("20"), "Crossings from south to north."),
        key("block", LENGTH, Is("100 m"), "Distance of two crossings of the straight grid."),
        key("bend", Share, Is("0.3"), "How far crossings are moved at most, of half a block."),
        key("missing", Share, Is("0.1"), "Share of the streets left out, of those that can be."),
    ],
};

/// Keys of `walker = { ... }`.
pub const WALKER: Section = Section {
    name: "mobility.walker",
    help: "A Walker constellation around the Earth, in Walker's notation `inclination: planes * per_plane / planes / phasing`, on circles that drift with the Earth's flattening. Its first satellite is above the equator and the equinox as the run starts.",
    keys: &[
        key("planes", Count(1, 10_000), Required, "How many planes."),
        key("per_plane", Count(1, 10_000), Required, "How many satellites in each."),
        key("inclination", ANGLE, Required, "Of every plane."),
        key("altitude", LENGTH, Required, "Above the equator."),
        key(
            "phasing",
            Count(0, 9999),
            Is("0"),
            "By how many parts of a turn a plane is ahead of the one before, of as many as there are satellites; less than `planes`.",
        ),
        key(
            "pattern",
            Choice(&["delta", "star"]),
            Is("delta"),
            "Ascending nodes all around the equator, or over half of it.",
        ),
    ],
};

/// Words of the key `turns`.
pub const TURNS: &[&str] = &["node", "link"];
/// Words of the key `turn_order`.
pub const TURN_ORDERS: &[&str] = &["sender", "receiver", "fair", "random"];
/// Words of the key `delay_mode`.
pub const DELAY_MODES: &[&str] = &["pipelined", "stop_and_wait"];
/// Words of the key `metadata`.
pub const METADATA: &[&str] = &["charged", "free"];

/// Keys of `[[radio]]`.
pub const RADIO: Section = Section {
    name: "radio",
    help: "A radio, of all nodes that name it: two of them have a link while they hear each other, which is computed from their ways, or read from a file. Only in simulations, and with `fidelity = \"message\"`. Links of radios are in no contact plan, but for those of satellites (`neighbours`): use a copying router, such as `epidemic`. A `[[link]]` between two nodes is beside those of their radios: they are one neighbour with several links, which each go by their own contacts, and what one of them brought is not sent over another. Before the first byte of a bundle its receiver may refuse it, over layers that have a word for that; what is broken off as a contact ends arrives nowhere.",
    keys: &[
        key("name", Kind::Name, Required, "Its name; a link is called `wifi:a-b` by it and its two nodes."),
        key(
            "range",
            LENGTH,
            Absent,
            "Nodes hear each other that are no farther apart. All that have it need a `mobility`.",
        ),
        key(
            "contacts",
            Kind::File,
            Absent,
            "In place of a range: file of contacts, lines `time CONN node node up` and `down` as of the ONE simulator, or `node node start end`, in seconds.",
        ),
        key("contacts_from", Kind::Duration, Is("0 s"), "Of `contacts`: time in the file at which the run starts."),
        key(
            "first_number",
            Count(0, u64::MAX >> 1),
            Is("0"),
            "Of `contacts`: number in the file of the first node with this radio; the others follow. Names of nodes go before numbers.",
        ),
        key("only_known", Flag, Is("false"), "Of `contacts`: leave out nodes of the file that the scenario has not."),
        key(
            "neighbours",
            Choice(NEIGHBOURS),
            Is("ground"),
            "Given where nodes are on orbits and on the ground: who has a link while they see each other. `ground`: stations and satellites. `ring`: satellites that follow each other in a plane of a constellation; `grid`: also those beside each other in neighbouring planes. `all`: everybody, but no two stations. The router `sabr` knows these contacts beforehand. `range`, if given, is how far they see.",
        ),
        key("mask", ANGLE, Is("5 deg"), "Of `neighbours`: least elevation at which a station sees anything."),
        key(
            "clearance",
            LENGTH,
            Is("0 m"),
            "Of `neighbours`: how far above the ground the line between two satellites must pass; above the air, for instance.",
        ),
        key("rate", Kind::Rate, Absent, "Rate of each direction of a link; without it, unlimited."),
        key(
            "delay",
            Kind::Duration,
            Absent,
            "One-way delay; without it, the time of light over the range, and of satellites and stations that over their distance as a contact begins.",
        ),
        key("loss", Share, Is("0"), "Probability that a bundle is lost, over layers that repair no losses."),
        key(
            "layer",
            Choice(NAMES),
            Is("tcpclv4"),
            "Convergence layer its links stand for: what its headers weigh, and what is told of a refusal.",
        ),
        key(
            "turns",
            Choice(TURNS),
            Is("node"),
            "`node`: a node sends or receives one bundle at a time by this radio, whoever it hears. `link`: each direction of each link has the whole rate for itself.",
        ),
        key(
            "turn_order",
            Choice(TURN_ORDERS),
            Is("sender"),
            "Who goes first when both ends of a transfer are free again. `sender`: who sent, then who received, then their neighbours, each in the order in which they met. `receiver`: who received, then who sent, then their neighbours. `fair`: who waited longest since its last turn. `random`: drawn. In a saturated network this alone decides how much arrives.",
        ),
        key(
            "delay_mode",
            Choice(DELAY_MODES),
            Is("pipelined"),
            "`pipelined`: a radio is free when the last bit left. `stop_and_wait`: both ends are busy until it arrived, and the sender knows then that it did.",
        ),
        key(
            "metadata",
            Choice(METADATA),
            Is("charged"),
            "`charged`: what neighbours tell each other of what they hold takes a turn and its time at the rate, as with real nodes. `free`: it takes neither.",
        ),
        key(
            "quantum",
            Kind::Duration,
            Is("0 s"),
            "Transfers end at multiples of this from the start of the run, never before their last bit left, or with `stop_and_wait` arrived: what a simulator makes of them that steps through time.",
        ),
        key(
            "beams",
            Count(1, 100_000),
            Absent,
            "Links that a node has at once at most; without it, with all it hears. Where both have a beam free, they get a link in the order in which they began to hear each other.",
        ),
    ],
};

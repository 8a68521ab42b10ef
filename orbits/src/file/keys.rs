//! Keys of the file, from which the parser and the reference derive.

use farlink_config::{Fallback, Key, Kind, Section, key, other};

use Fallback::{Absent, Is, Required};
use Kind::{Choice, Count, Duration, Name, Rate, Table, Tables, Text, Time};

const ID: Kind = other("node ID or number", "\"ipn:1.0\"");
const LENGTH: Kind = other("length", "\"550 km\"");
const ANGLE: Kind = other("angle", "\"53 deg\"");
const BODY: Key = key(
    "body",
    Text,
    Is("earth"),
    "Body on which it stands or around which it moves: sun, mercury, venus, earth, moon, mars, jupiter, saturn, uranus, neptune, or a [[body]] of the file.",
);
const EPOCH_HELP: &str = "Epoch of the elements; without it, the file's `epoch`.";
const TLE: Kind = other("file, or the lines themselves", "\"stations.tle\"");

/// All sections, in the order of the reference.
pub const SECTIONS: [&Section; 8] = [&TOP, &STATION, &SATELLITE, &ELEMENTS, &CONSTELLATION, &WALKER, &LINK, &BODIES];

/// Keys above the first table.
pub const TOP: Section = Section {
    name: "orbits",
    help: "The top of the file, before the first table.",
    keys: &[
        key("description", Text, Is(""), "Description for people."),
        key(
            "epoch",
            Time,
            Absent,
            "Epoch of elements that have none of their own, such as \"2026-11-20T09:00:00Z\", and start of the plan without `--from`; without it, the plan's start.",
        ),
        key(
            "delay_step",
            Duration,
            Is("1 s"),
            "Largest change of the light time within a contact; a larger change starts a new contact. Each contact has its largest light time.",
        ),
        key("station", Tables("station"), Absent, "Nodes on the ground."),
        key("satellite", Tables("satellite"), Absent, "Nodes on orbits, one by one."),
        key("constellation", Tables("constellation"), Absent, "Nodes on orbits, many at once."),
        key("link", Tables("link"), Required, "Pairs of nodes that may be linked; at least one table."),
        key("body", Tables("body"), Absent, "Moons and small bodies in addition to the built-in ones."),
    ],
};

/// Keys of a `[[station]]` table: a node on the ground.
pub const STATION: Section = Section {
    name: "station",
    help: "One node on the ground: `[[station]]` for each.",
    keys: &[
        key("name", Name, Required, "Name in the plan."),
        key("id", ID, Required, "Node ID or node number."),
        key(
            "position",
            other("latitude, longitude, and perhaps altitude", "[\"78.23 N\", \"15.39 E\", \"450 m\"]"),
            Required,
            "Geodetic latitude and east longitude, and the altitude above the ellipsoid.",
        ),
        BODY,
        key("mask", ANGLE, Is("5 deg"), "Least elevation at which it communicates."),
    ],
};

/// Keys of a `[[satellite]]` table: a node on an orbit.
pub const SATELLITE: Section = Section {
    name: "satellite",
    help: "One node on an orbit: `[[satellite]]` for each, with either `tle` or `elements`.",
    keys: &[
        key("name", Name, Required, "Name in the plan."),
        key("id", ID, Required, "Node ID or node number."),
        key("tle", TLE, Absent, "Two-line elements: a file, or the two lines in `\"\"\"`."),
        key(
            "catalog",
            Count(0, 999_999_999),
            Absent,
            "Catalogue number that selects one of several satellites in the file.",
        ),
        key("elements", Table("elements"), Absent, "Elements of an ellipse."),
    ],
};

/// Keys of `elements = { }`: the mean elements of an orbit.
pub const ELEMENTS: Section = Section {
    name: "elements",
    help: "Mean elements, along the equator of the body and where that comes up through the Earth's equator (of the \
           Earth: the equinox; of the Sun: the ecliptic and equinox of J2000). The plane and the periapsis drift as \
           the body's flattening (J2) makes them.",
    keys: &[
        BODY,
        key(
            "altitude",
            LENGTH,
            Absent,
            "Altitude of a circular orbit above the body's equator; for an ellipse give `semi_major_axis`.",
        ),
        key("semi_major_axis", LENGTH, Absent, "Semi-major axis of the ellipse."),
        key("eccentricity", other("number from 0, less than 1", "0.01"), Is("0"), "Eccentricity of the ellipse."),
        key("inclination", ANGLE, Required, "Inclination to the equator."),
        key("node", ANGLE, Is("0 deg"), "Longitude or right ascension of the ascending node."),
        key("periapsis", ANGLE, Is("0 deg"), "Argument of the periapsis, from the node."),
        key("anomaly", ANGLE, Is("0 deg"), "Mean anomaly at the epoch."),
        key("epoch", Time, Absent, EPOCH_HELP),
    ],
};

/// Keys of a `[[constellation]]` table: many satellites at once.
pub const CONSTELLATION: Section = Section {
    name: "constellation",
    help: "Many nodes at once: `[[constellation]]` for each, with either `walker` or `tle`. Nodes of a `walker` are \
           named after it, with plane and slot: `leo-3-11`; nodes of a file keep the names of the file.",
    keys: &[
        key("name", Name, Required, "Name by which links refer to all of them."),
        key("first_id", ID, Required, "Node ID or number of the first; the others count up from it."),
        key("walker", Table("walker"), Absent, "Satellites evenly spread over planes."),
        key("tle", TLE, Absent, "Two-line elements of all: a file, or the lines in `\"\"\"`."),
    ],
};

/// Keys of `walker = { }`: the pattern of a constellation.
pub const WALKER: Section = Section {
    name: "walker",
    help: "A Walker constellation, in Walker's notation `inclination: planes * per_plane / planes / phasing`.",
    keys: &[
        key("planes", Count(1, 10_000), Required, "Number of planes."),
        key("per_plane", Count(1, 10_000), Required, "Number of satellites in each plane."),
        key("inclination", ANGLE, Required, "Inclination of every plane."),
        key("altitude", LENGTH, Required, "Altitude above the equator."),
        key(
            "phasing",
            Count(0, 9999),
            Is("0"),
            "Walker's F: a plane is ahead of the previous one by F / (number of satellites) of a turn; less than `planes`.",
        ),
        key(
            "pattern",
            Choice(&["delta", "star"]),
            Is("delta"),
            "Ascending nodes all around the equator, or over half of it.",
        ),
        BODY,
        key("node", ANGLE, Is("0 deg"), "Ascending node of the first plane."),
        key("anomaly", ANGLE, Is("0 deg"), "Mean anomaly of the first plane's first satellite at the epoch."),
        key("epoch", Time, Absent, EPOCH_HELP),
    ],
};

/// Keys of a `[[link]]` table: nodes that may be linked while in sight.
pub const LINK: Section = Section {
    name: "link",
    help: "Nodes that may be linked when they are in sight of each other: `[[link]]` for each kind of link.",
    keys: &[
        key("name", Name, Absent, "Name in the plan; needed where two kinds of link join the same nodes."),
        key(
            "between",
            other("two names, or lists of names", "[\"stations\", \"leo\"]"),
            Required,
            "Names of nodes or constellations, or `stations` or `satellites` for all of them.",
        ),
        key("rate", Rate, Required, "Data rate from the first to the second, and back."),
        key("rate_back", Rate, Absent, "Data rate back, if it differs."),
        key("range", LENGTH, Absent, "Greatest distance."),
        key("mask", ANGLE, Absent, "Least elevation at stations, replacing their own."),
        key(
            "clearance",
            LENGTH,
            Is("0 km"),
            "Least altitude of the line of sight above a body in between, for instance above the atmosphere.",
        ),
        key(
            "neighbours",
            Choice(&["all", "ring", "grid"]),
            Is("all"),
            "Within a Walker constellation: `ring` joins those that follow each other in a plane, `grid` also those beside each other in neighbouring planes.",
        ),
        key(
            "beams",
            other("whole number, or one for each side of `between`", "[2, 1]"),
            Absent,
            "Most simultaneous links of this kind per node. A free beam goes to the neighbour that stays in sight longest, and stays with it.",
        ),
        key("shortest", Duration, Absent, "Contacts that are shorter are left out."),
    ],
};

/// Keys of a `[[body]]` table: a moon or a small body.
pub const BODIES: Section = Section {
    name: "body",
    help: "A moon or a small body: `[[body]]` for each. It blocks lines of sight and may have satellites; stations stand on \
           the Earth, the Moon and planets only.",
    keys: &[
        key("name", Name, Required, "Name used by `body`."),
        key("radius", LENGTH, Required, "Radius of the body."),
        key(
            "gm",
            other("number", "3202.7"),
            Is("0"),
            "Gravitational parameter in km³/s²; without it, it has no satellites.",
        ),
        key("elements", Table("elements"), Required, "Orbit around the `body` named there."),
    ],
};

//! Every key of the file, once: what the parser checks against and the reference is made from.

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
    "What it stands on or goes around: sun, mercury, venus, earth, moon, mars, jupiter, saturn, uranus, neptune, or a [[body]] of the file.",
);
const EPOCH_HELP: &str = "When the elements hold; without it, the file's `epoch`.";
const TLE: Kind = other("file, or the lines themselves", "\"stations.tle\"");

/// All of them.
pub const SECTIONS: [&Section; 8] = [&TOP, &STATION, &SATELLITE, &ELEMENTS, &CONSTELLATION, &WALKER, &LINK, &BODIES];

/// Top level.
pub const TOP: Section = Section {
    name: "orbits",
    help: "The top of the file, before the first table.",
    keys: &[
        key("description", Text, Is(""), "What it is, for people."),
        key(
            "epoch",
            Time,
            Absent,
            "When elements hold that do not say so themselves, such as \"2026-11-20T09:00:00Z\", and when the plan starts without `--from`; without it, the plan's start.",
        ),
        key(
            "delay_step",
            Duration,
            Is("1 s"),
            "A contact ends, and another begins, where its light time has changed by so much; each has its longest.",
        ),
        key("station", Tables("station"), Absent, "Nodes on the ground."),
        key("satellite", Tables("satellite"), Absent, "Nodes on orbits, one by one."),
        key("constellation", Tables("constellation"), Absent, "Nodes on orbits, many at once."),
        key("link", Tables("link"), Required, "Who may be linked to whom; at least one."),
        key("body", Tables("body"), Absent, "Moons and small bodies that have no name of their own here."),
    ],
};

/// `[[station]]`.
pub const STATION: Section = Section {
    name: "station",
    help: "One node on the ground: `[[station]]` for each.",
    keys: &[
        key("name", Name, Required, "Its name in the plan."),
        key("id", ID, Required, "Its node ID, or number."),
        key(
            "position",
            other("latitude, longitude, and perhaps altitude", "[\"78.23 N\", \"15.39 E\", \"450 m\"]"),
            Required,
            "Geodetic latitude and east longitude, and the altitude above the ellipsoid.",
        ),
        BODY,
        key("mask", ANGLE, Is("5 deg"), "The least elevation at which it sees anything."),
    ],
};

/// `[[satellite]]`.
pub const SATELLITE: Section = Section {
    name: "satellite",
    help: "One node on an orbit: `[[satellite]]` for each, with either `tle` or `elements`.",
    keys: &[
        key("name", Name, Required, "Its name in the plan."),
        key("id", ID, Required, "Its node ID, or number."),
        key("tle", TLE, Absent, "Two-line elements: a file, or the two lines in `\"\"\"`."),
        key("catalog", Count(0, 999_999_999), Absent, "Which of several in the file, by its catalogue number."),
        key("elements", Table("elements"), Absent, "An ellipse."),
    ],
};

/// `elements = { }`.
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
            "Of a circle, above the equator of the body; of an ellipse say `semi_major_axis`.",
        ),
        key("semi_major_axis", LENGTH, Absent, "Half of the ellipse's long axis."),
        key("eccentricity", other("number from 0, less than 1", "0.01"), Is("0"), "How long the ellipse is."),
        key("inclination", ANGLE, Required, "Between the equator and the orbit."),
        key("node", ANGLE, Is("0 deg"), "Longitude or right ascension of the ascending node."),
        key("periapsis", ANGLE, Is("0 deg"), "From the node to where it is nearest."),
        key("anomaly", ANGLE, Is("0 deg"), "Mean anomaly at the epoch."),
        key("epoch", Time, Absent, EPOCH_HELP),
    ],
};

/// `[[constellation]]`.
pub const CONSTELLATION: Section = Section {
    name: "constellation",
    help: "Many nodes at once: `[[constellation]]` for each, with either `walker` or `tle`. Nodes of a `walker` are \
           called after it, its plane and their place there: `leo-3-11`; those of a file as the file calls them.",
    keys: &[
        key("name", Name, Required, "What links call all of them."),
        key("first_id", ID, Required, "Node ID or number of the first; the others count on from there."),
        key("walker", Table("walker"), Absent, "Evenly spread over planes."),
        key("tle", TLE, Absent, "Two-line elements of each: a file, or the lines in `\"\"\"`."),
    ],
};

/// `walker = { }`.
pub const WALKER: Section = Section {
    name: "walker",
    help: "A Walker constellation, in Walker's notation `inclination: planes * per_plane / planes / phasing`.",
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
        BODY,
        key("node", ANGLE, Is("0 deg"), "Of the first plane."),
        key("anomaly", ANGLE, Is("0 deg"), "Of the first satellite of the first plane, at the epoch."),
        key("epoch", Time, Absent, EPOCH_HELP),
    ],
};

/// `[[link]]`.
pub const LINK: Section = Section {
    name: "link",
    help: "Nodes that may be linked when they see each other: `[[link]]` for each kind of link.",
    keys: &[
        key("name", Name, Absent, "Its name in the plan; needed where two kinds join the same nodes."),
        key(
            "between",
            other("two names, or lists of names", "[\"stations\", \"leo\"]"),
            Required,
            "Names of nodes or constellations, or `stations` or `satellites` for all of them.",
        ),
        key("rate", Rate, Required, "From the first to the second, and back."),
        key("rate_back", Rate, Absent, "Back, where that is another."),
        key("range", LENGTH, Absent, "Not farther than this."),
        key("mask", ANGLE, Absent, "Least elevation at stations, instead of their own."),
        key(
            "clearance",
            LENGTH,
            Is("0 km"),
            "How far above the ground of a body in between the line must pass: above the air, for instance.",
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
            "How many such links a node may have at once. A free beam goes to what stays in sight longest, and keeps it.",
        ),
        key("shortest", Duration, Absent, "Contacts that are shorter are left out."),
    ],
};

/// `[[body]]`.
pub const BODIES: Section = Section {
    name: "body",
    help: "A moon or a small body: `[[body]]` for each. It hides what is behind it, and holds orbits; stations stand on \
           the Earth, the Moon and planets alone.",
    keys: &[
        key("name", Name, Required, "What `body` calls it."),
        key("radius", LENGTH, Required, "Its radius."),
        key(
            "gm",
            other("number", "3202.7"),
            Is("0"),
            "Gravitational parameter in km³/s²; without it, nothing goes around it.",
        ),
        key("elements", Table("elements"), Required, "Its orbit, around the `body` named there."),
    ],
};

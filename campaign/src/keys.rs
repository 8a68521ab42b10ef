//! The keys of `campaign.toml`, from which its reference is made.

use crate::metrics::NAMES;
use farlink_config::Fallback::{Absent, Is, Required};
use farlink_config::Kind::{Choice, Count, File, Name, Share, Table, Tables, Text};
use farlink_config::{Key, Kind, Section, key};

const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// Most runs of a point.
pub const REPETITIONS_MAX: u64 = 1000;
/// Words for worlds.
pub const WORLDS: &[&str] = &["sim", "lab"];
/// Words for shapes of figures.
pub const SHAPES: &[&str] = &["lines", "bars"];
/// Words for rules of claims.
pub const RULES: &[&str] = &["above", "below", "similar", "rises", "falls", "between"];

const LABELS: Kind = other("label, or list of them", "\"none\"");
const CHOSEN: Kind = other("table: axis = label", "{ buffer = \"1 MB\" }");
const SEVERAL: Kind = other("table: axis = label, or list of them", "{ control = \"afner\", router = [\"prophet\"] }");
const SETS: Kind = other("table: key of the scenario = value", "{ \"group[walker].router\" = \"epidemic\" }");

const TOP: &[Key] = &[
    key("name", Name, Required, "Its name, in folders and reports."),
    key("description", Text, Absent, "What it is about, in a sentence or two."),
    key("scenario", File, Required, "The scenario that is varied; a figure may name another."),
    key("world", Choice(WORLDS), Is("sim"), "Where cells run: in simulation, or in the testbed."),
    key(
        "repetitions",
        Count(1, REPETITIONS_MAX),
        Is("5"),
        "Runs of each point, each with a seed of its own; the same seeds for all points.",
    ),
    key("seed", Count(0, u64::MAX), Is("1"), "Seed of the first repetition; the next has the next."),
    key("axis", Tables("axis"), Absent, "What is varied."),
    key(
        "skip",
        SEVERAL,
        Absent,
        "Points left out: those at which all axes named here have one of these labels. A list of such tables, `[[skip]]`.",
    ),
    key(
        "figure",
        Tables("figure"),
        Required,
        "What is drawn; its points are what is run. Points that figures share are run once.",
    ),
    key("smoke", Table("smoke"), Absent, "The small size (`--smoke`), which ends in seconds."),
];
/// The whole file.
pub const CAMPAIGN: Section = Section {
    name: "campaign",
    help: "`campaign.toml`: a scenario, what is varied in it, how often it is repeated, and what is drawn.",
    keys: TOP,
};

const AXIS_KEYS: &[Key] = &[
    key("name", Name, Required, "Its name in this file and in tables."),
    key("title", Text, Absent, "What it is called in figures; without it, its name."),
    key(
        "keys",
        other("key of the scenario, or list of them", "\"group[walker].store_capacity\""),
        Absent,
        "What it sets: `duration`, `group[walker].router`, `link[*].delay`. A name in brackets picks one of several tables, `*` all of them, a number the n-th.",
    ),
    key(
        "values",
        other("list of values", "[\"1 MB\", \"2 MB\"]"),
        Absent,
        "The values that these keys get, one after the other.",
    ),
    key(
        "labels",
        other("list of texts", "[\"small\", \"large\"]"),
        Absent,
        "What the values are called; without it, as they are written.",
    ),
    key(
        "value",
        Tables("axis.value"),
        Absent,
        "In place of `keys` and `values`: values that each set keys of their own.",
    ),
];
/// An axis.
pub const AXIS: Section = Section {
    name: "axis",
    help: "One thing that is varied: `[[axis]]` for each. An axis that a figure does not name is left as the scenario has it.",
    keys: AXIS_KEYS,
};

const VALUE_KEYS: &[Key] = &[
    key("label", Text, Required, "What it is called."),
    key("set", SETS, Required, "What it sets in the scenario; `{}` leaves all as it is."),
];
/// A value of an axis.
pub const VALUE: Section = Section {
    name: "axis.value",
    help: "A value that sets several keys: `[[axis.value]]` for each.",
    keys: VALUE_KEYS,
};

const FIGURE_KEYS: &[Key] = &[
    key("name", Name, Required, "Its name, in files and tables."),
    key("title", Text, Absent, "What stands above it; without it, its name."),
    key("metric", Choice(NAMES), Required, "What is drawn; see below."),
    key("scenario", File, Absent, "Another scenario than the campaign's."),
    key("x", Text, Required, "The axis drawn from left to right."),
    key("series", Text, Absent, "The axis of which each value is a line, or a colour of bars."),
    key("facet", Text, Absent, "The axis of which each value has a picture of its own."),
    key("fixed", CHOSEN, Absent, "Labels at which other axes stand."),
    key("shape", Choice(SHAPES), Is("lines"), "Points joined by lines, or bars."),
    key(
        "against",
        Text,
        Absent,
        "Label of the series that the others are compared with, seed by seed; without it, the first.",
    ),
    key("claim", Tables("figure.claim"), Absent, "What somebody claims of it, with the rule by which that is judged."),
    key("paper", Tables("figure.paper"), Absent, "Values that a paper gives, drawn beside ours."),
];
/// A figure.
pub const FIGURE: Section = Section {
    name: "figure",
    help: "One figure: `[[figure]]` for each. Its points are all values of its axes, each repeated with every seed.",
    keys: FIGURE_KEYS,
};

const CLAIM_KEYS: &[Key] = &[
    key("text", Text, Required, "The claim, in the words of whoever makes it."),
    key(
        "rule",
        Choice(RULES),
        Required,
        "What would have to be so: `above` and `below`: each of `series` against each of `than`; `similar`: they differ by less than `margin`; `rises` and `falls`: from the first place of the horizontal axis to the last; `between`: within `range`.",
    ),
    key("series", LABELS, Absent, "Of which series; without it, of all but those of `than`."),
    key("than", LABELS, Absent, "The series they are compared with; without it, the one of `against`."),
    key("facet", LABELS, Absent, "In which pictures; without it, in all."),
    key(
        "at",
        LABELS,
        Absent,
        "At which places of the horizontal axis; without it, of the mean over all; `*`: at each.",
    ),
    key("margin", Share, Is("0.1"), "`similar`: how much they may differ, of the mean of the series compared with."),
    key("range", other("[least, most]", "[0.0, 0.4]"), Absent, "`between`: from where to where the mean lies."),
];
/// A claim.
pub const CLAIM: Section = Section {
    name: "figure.claim",
    help: "A claim is a set of comparisons, each of 95 % intervals of differences between runs with the same seed. It is \
        confirmed when every comparison is decided in its favour, contradicted when one is decided against it, and undecidable otherwise.",
    keys: CLAIM_KEYS,
};

const PAPER_KEYS: &[Key] = &[
    key("series", Text, Absent, "Of which series."),
    key("facet", Text, Absent, "In which picture; without it, in all."),
    key(
        "values",
        other("list of numbers", "[0.2, 0.3]"),
        Required,
        "One for each value of the horizontal axis, from the left; those beyond are not drawn.",
    ),
];
/// Values of a paper.
pub const PAPER: Section = Section { name: "figure.paper", help: "Values that a paper gives.", keys: PAPER_KEYS };

const SMOKE_KEYS: &[Key] = &[
    key("repetitions", Count(1, REPETITIONS_MAX), Is("2"), "In place of the campaign's."),
    key("set", SETS, Absent, "What is set besides, before the axes, in each scenario that has these tables."),
    key("values", SEVERAL, Absent, "Labels that are kept; other axes keep all."),
    key("figures", other("name, or list of them", "[\"ratio\"]"), Absent, "Figures that are kept; without it, all."),
];
/// The small size.
pub const SMOKE: Section = Section {
    name: "smoke",
    help: "The size of `--smoke`, for tests and for a first look: `[smoke]`.",
    keys: SMOKE_KEYS,
};

/// All sections, in the order of the reference.
pub const SECTIONS: &[&Section] = &[&CAMPAIGN, &AXIS, &VALUE, &FIGURE, &CLAIM, &PAPER, &SMOKE];

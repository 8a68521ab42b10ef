//! Keys of `campaign.toml`, from which the parser and the reference derive.

use crate::metrics::NAMES;
use farlink_config::Fallback::{Absent, Is, Required};
use farlink_config::Kind::{Choice, Count, File, Name, Share, Table, Tables, Text};
use farlink_config::{Key, Kind, Section, key};

const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// Most runs per point.
pub const REPETITIONS_MAX: u64 = 1000;
/// Names of the worlds; the first is the simulator, the second the testbed.
pub const WORLDS: &[&str] = &["sim", "lab"];
/// Names of the figure shapes.
pub const SHAPES: &[&str] = &["lines", "bars"];
/// Names of the claim rules.
pub const RULES: &[&str] = &["above", "below", "similar", "rises", "falls", "between"];

const LABELS: Kind = other("label, or list of them", "\"none\"");
const CHOSEN: Kind = other("table: axis = label", "{ buffer = \"1 MB\" }");
const SEVERAL: Kind = other("table: axis = label, or list of them", "{ control = \"afner\", router = [\"prophet\"] }");
const SETS: Kind = other("table: key of the scenario = value", "{ \"group[walker].router\" = \"epidemic\" }");

const TOP: &[Key] = &[
    key("name", Name, Required, "Name in folders and reports."),
    key("description", Text, Absent, "Description in a sentence or two."),
    key("scenario", File, Required, "The scenario that is varied; a figure may name another."),
    key("world", Choice(WORLDS), Is("sim"), "World in which cells run: simulation or testbed."),
    key(
        "repetitions",
        Count(1, REPETITIONS_MAX),
        Is("5"),
        "Runs of each point, each with a seed of its own; the same seeds for all points.",
    ),
    key("seed", Count(0, u64::MAX), Is("1"), "Seed of the first repetition; the next has the next."),
    key("axis", Tables("axis"), Absent, "Parameters that are varied."),
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
        "Figures to draw; their points are run. Points that figures share are run once.",
    ),
    key("smoke", Table("smoke"), Absent, "The small size (`--smoke`), which takes seconds."),
];
/// Keys above the first table.
pub const CAMPAIGN: Section = Section {
    name: "campaign",
    help: "`campaign.toml`: a scenario, its varied parameters, the number of repetitions, and the figures.",
    keys: TOP,
};

const AXIS_KEYS: &[Key] = &[
    key("name", Name, Required, "Name in this file and in tables."),
    key("title", Text, Absent, "Title in figures; without it, the name."),
    key(
        "keys",
        other("key of the scenario, or list of them", "\"group[walker].store_capacity\""),
        Absent,
        "Scenario keys that it sets: `duration`, `group[walker].router`, `link[*].delay`. A name in brackets picks one of several tables, `*` all of them, a number the n-th.",
    ),
    key(
        "values",
        other("list of values", "[\"1 MB\", \"2 MB\"]"),
        Absent,
        "Values assigned to these keys, one per point.",
    ),
    key(
        "labels",
        other("list of texts", "[\"small\", \"large\"]"),
        Absent,
        "Labels of the values; without it, the values as written.",
    ),
    key(
        "value",
        Tables("axis.value"),
        Absent,
        "In place of `keys` and `values`: values that each set keys of their own.",
    ),
];
/// Keys of an `[[axis]]` table.
pub const AXIS: Section = Section {
    name: "axis",
    help: "One varied parameter: `[[axis]]` for each. An axis that a figure does not name keeps the scenario's value.",
    keys: AXIS_KEYS,
};

const VALUE_KEYS: &[Key] = &[
    key("label", Text, Required, "Label in figures and tables."),
    key("set", SETS, Required, "Scenario keys with their values; `{}` changes nothing."),
];
/// Keys of an `[[axis.value]]` table.
pub const VALUE: Section = Section {
    name: "axis.value",
    help: "A value that sets several keys: `[[axis.value]]` for each.",
    keys: VALUE_KEYS,
};

const FIGURE_KEYS: &[Key] = &[
    key("name", Name, Required, "Name in files and tables."),
    key("title", Text, Absent, "Title above the figure; without it, the name."),
    key("metric", Choice(NAMES), Required, "Metric of the vertical axis; see below."),
    key("scenario", File, Absent, "Another scenario than the campaign's."),
    key("x", Text, Required, "Axis drawn horizontally."),
    key("series", Text, Absent, "Axis whose values become lines, or colours of bars."),
    key("facet", Text, Absent, "Axis whose values become separate plots."),
    key("fixed", CHOSEN, Absent, "Labels chosen for other axes."),
    key("shape", Choice(SHAPES), Is("lines"), "Points joined by lines, or bars."),
    key(
        "against",
        Text,
        Absent,
        "Label of the reference series, with which the others are compared seed by seed; without it, the first.",
    ),
    key("claim", Tables("figure.claim"), Absent, "Claims about the figure, each with the rule that judges it."),
    key("paper", Tables("figure.paper"), Absent, "Values that a paper gives, drawn beside ours."),
];
/// Keys of a `[[figure]]` table.
pub const FIGURE: Section = Section {
    name: "figure",
    help: "One figure: `[[figure]]` for each. Its points are all values of its axes, each repeated with every seed.",
    keys: FIGURE_KEYS,
};

const CLAIM_KEYS: &[Key] = &[
    key("text", Text, Required, "The claim, in the words of its author."),
    key(
        "rule",
        Choice(RULES),
        Required,
        "Condition of the claim: `above` and `below`: each of `series` against each of `than`; `similar`: they differ by less than `margin`; `rises` and `falls`: from the first position of the horizontal axis to the last; `between`: within `range`.",
    ),
    key("series", LABELS, Absent, "Series the claim is about; without it, all but those of `than`."),
    key("than", LABELS, Absent, "Series they are compared with; without it, the one of `against`."),
    key("facet", LABELS, Absent, "Plots the claim is about; without it, all."),
    key(
        "at",
        LABELS,
        Absent,
        "Positions on the horizontal axis; without it, the mean over all; `*` for each position separately.",
    ),
    key("margin", Share, Is("0.1"), "For `similar`: largest difference, as a fraction of the reference series' mean."),
    key("range", other("[least, most]", "[0.0, 0.4]"), Absent, "For `between`: least and largest value of the mean."),
];
/// Keys of a `[[figure.claim]]` table.
pub const CLAIM: Section = Section {
    name: "figure.claim",
    help: "A claim is a set of comparisons, each of 95 % intervals of differences between runs with the same seed. It is \
        confirmed when every comparison is decided in its favour, contradicted when one is decided against it, and undecidable otherwise.",
    keys: CLAIM_KEYS,
};

const PAPER_KEYS: &[Key] = &[
    key("series", Text, Absent, "Series the values belong to."),
    key("facet", Text, Absent, "Plot the values belong to; without it, all."),
    key(
        "values",
        other("list of numbers", "[0.2, 0.3]"),
        Required,
        "One for each value of the horizontal axis, from the left; surplus values are not drawn.",
    ),
];
/// Keys of a `[[figure.paper]]` table.
pub const PAPER: Section = Section { name: "figure.paper", help: "Values that a paper gives.", keys: PAPER_KEYS };

const SMOKE_KEYS: &[Key] = &[
    key("repetitions", Count(1, REPETITIONS_MAX), Is("2"), "In place of the campaign's."),
    key(
        "set",
        SETS,
        Absent,
        "Additional assignments, made before those of the axes, in each scenario that has these tables.",
    ),
    key("values", SEVERAL, Absent, "Labels that are kept; other axes keep all."),
    key("figures", other("name, or list of them", "[\"ratio\"]"), Absent, "Figures that are kept; without it, all."),
];
/// Keys of the `[smoke]` table, which defines the small size.
pub const SMOKE: Section = Section {
    name: "smoke",
    help: "The size of `--smoke`, for tests and for a first look: `[smoke]`.",
    keys: SMOKE_KEYS,
};

/// All sections, in the order of the reference.
pub const SECTIONS: &[&Section] = &[&CAMPAIGN, &AXIS, &VALUE, &FIGURE, &CLAIM, &PAPER, &SMOKE];

//! Keys of `campaign.toml`, from which the parser and the reference derive.

use crate::metrics::NAMES;
pub(crate) use crate::metrics::NAMES as NAMES_OF_METRICS;
use farlink_config::Fallback::{Absent, Is, Required};
use farlink_config::Kind::{Choice, Count, Name, Share, Table, Tables, Text};
use farlink_config::{Key, Kind, Section, key};

const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// Most runs per point.
pub const REPETITIONS_MAX: u64 = 1000;
/// Most repetitions of a disturbed cell that a campaign may ask for.
pub const RETRIES_MAX: u64 = 100;
/// Names of the worlds; the first is the simulator, the second the testbed.
pub const WORLDS: &[&str] = &["sim", "lab"];
/// Names of the figure shapes.
pub const SHAPES: &[&str] = &["lines", "bars", "ecdf", "stack", "table"];
/// Levels of intervals.
pub const INTERVALS: &[&str] = &["95 %", "99 %"];
/// Names of the claim rules.
pub const RULES: &[&str] = &["above", "below", "similar", "rises", "falls", "between"];

const SCENARIO: Kind = other("file, relative to this one", "\"scenario.toml\"");
const LABELS: Kind = other("label, or list of them", "\"none\"");
const CHOSEN: Kind = other("table: axis = label", "{ buffer = \"1 MB\" }");
const SEVERAL: Kind = other("table: axis = label, or list of them", "{ control = \"afner\", router = [\"prophet\"] }");
const SETS: Kind = other("table: key of the scenario = value", "{ \"group[walker].router\" = \"epidemic\" }");

const TOP: &[Key] = &[
    key("name", Name, Required, "Name in folders and reports."),
    key("description", Text, Absent, "Description in a sentence or two."),
    key("scenario", SCENARIO, Required, "The scenario that is varied; a figure may name another."),
    key("world", Choice(WORLDS), Is("sim"), "World in which cells run: simulation or testbed."),
    key(
        "repetitions",
        Count(1, REPETITIONS_MAX),
        Is("5"),
        "Runs of each point, each with a seed of its own; the same seeds for all points.",
    ),
    key(
        "retries",
        Count(0, RETRIES_MAX),
        Is("2"),
        "Testbed: how often a disturbed cell is run again, until a run is clean; the last run counts.",
    ),
    key("seed", Count(0, u64::MAX), Is("1"), "Seed of the first repetition; the next has the next."),
    key(
        "interval",
        Choice(INTERVALS),
        Is("95 %"),
        "Level of intervals (Student's t), and of the decisions about claims: with 99 % an interval misses the mean once in a hundred campaigns.",
    ),
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
/// Keys of the file's top level, above the first table.
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
    key(
        "metric",
        Choice(NAMES),
        Required,
        "Metric of the vertical axis, or distribution of an `ecdf`; see below. Of a stack, the whole, about which claims are.",
    ),
    key("phase", Text, Absent, "Phase of the scenario of which the metric is taken; without it, the whole run."),
    key("node", Text, Absent, "Node of the scenario at which it is taken; without it, all."),
    key("scenario", SCENARIO, Absent, "Another scenario than the campaign's."),
    key(
        "world",
        Choice(WORLDS),
        Absent,
        "The only world in which the figure means anything, such as `lab` for limits of hosts: a campaign in the other leaves it out.",
    ),
    key(
        "x",
        Text,
        Absent,
        "Axis drawn horizontally; required but for `ecdf` and `table`, which draw its values as further curves or rows.",
    ),
    key("series", Text, Absent, "Axis whose values become lines, or colours of bars."),
    key("facet", Text, Absent, "Axis whose values become separate plots."),
    key("fixed", CHOSEN, Absent, "Labels chosen for other axes."),
    key(
        "shape",
        Choice(SHAPES),
        Is("lines"),
        "`lines`: points joined by lines; `bars`; `ecdf`: distributions of values within runs, all runs of a point counting alike; `stack`: bars of parts that add up; `table`: mean, standard deviation and quartiles, of samples within runs where the metric is of samples, else of runs.",
    ),
    key(
        "part",
        Tables("figure.part"),
        Absent,
        "Parts of a stack, from the bottom, or groups of a table, in place of `metric`.",
    ),
    key(
        "reference",
        Choice(NAMES),
        Absent,
        "Metric of the whole run drawn as a dashed line over `lines` or `bars`, such as `baseline_bit_s`: at each position, the mean over the runs of all series.",
    ),
    key("interval", Choice(INTERVALS), Absent, "In place of the campaign's."),
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

const PART_KEYS: &[Key] = &[
    key("label", Text, Required, "Name in the legend or the table."),
    key("metric", Choice(NAMES), Required, "Metric of the part."),
    key("phase", Text, Absent, "Phase of which it is taken; without it, the figure's."),
    key("node", Text, Absent, "Node at which it is taken; without it, the figure's."),
];
/// Keys of a `[[figure.part]]` table.
pub const PART: Section = Section {
    name: "figure.part",
    help: "A part of a stack, or a group of a table: `[[figure.part]]` for each.",
    keys: PART_KEYS,
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
        "Positions on the horizontal axis; without it, the mean over all that the compared series share; `*` for each position separately.",
    ),
    key("quantile", Share, Is("0.5"), "In a figure of distributions: the quantile of each run that it is about."),
    key(
        "margin",
        other("0 to 1, or `\"0.1 %\"`; for `above` also more", "0.1"),
        Is("0.1"),
        "For `similar`: largest difference, as a fraction of the reference series, whose own variation counts: 10 % of each run's reference, not of the mean. For `above` and `below`: least difference, 0 unless given; `below` with 0.8 is below a fifth of the reference, `above` with 1.5 above two and a half times.",
    ),
    key(
        "range",
        other("[least, most]", "[0.0, 0.4]"),
        Absent,
        "For `between`: least and largest value of the mean. With both the same, such as `[1.0, 1.0]`, the claim is about every run: one that differs contradicts it. An end at a limit of the metric, such as a delivery ratio of 1, is not tested.",
    ),
];
/// Keys of a `[[figure.claim]]` table.
pub const CLAIM: Section = Section {
    name: "figure.claim",
    help: "A claim is a set of comparisons, each of differences between runs with the same seed, decided by Student's t at \
        the figure's level with Holm's correction for the number of comparisons. It is confirmed when every comparison is \
        decided in its favour, contradicted when one is decided against it, and undecidable otherwise. Disturbed runs decide nothing. \
        Where all runs, or differences, are equal there is no test: three or more decide (at 99 % four), fewer do not. Values count as equal up to one part in \
        10^9, which is rounding.",
    keys: CLAIM_KEYS,
};

const PAPER_KEYS: &[Key] = &[
    key("series", Text, Absent, "Series the values belong to."),
    key("facet", Text, Absent, "Plot the values belong to; without it, all."),
    key(
        "values",
        other("list of numbers", "[0.2, 0.3]"),
        Required,
        "One for each value of the horizontal axis, from the left, or one for a figure without; surplus values are not drawn.",
    ),
    key("quantile", Share, Is("0.5"), "In a figure of distributions: the quantile that the values are."),
];
/// Keys of a `[[figure.paper]]` table.
pub const PAPER: Section = Section { name: "figure.paper", help: "Values that a paper gives.", keys: PAPER_KEYS };

const SMOKE_KEYS: &[Key] = &[
    key("repetitions", Count(1, REPETITIONS_MAX), Is("2"), "In place of the campaign's."),
    key("retries", Count(0, RETRIES_MAX), Absent, "In place of the campaign's."),
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
pub const SECTIONS: &[&Section] = &[&CAMPAIGN, &AXIS, &VALUE, &FIGURE, &PART, &CLAIM, &PAPER, &SMOKE];

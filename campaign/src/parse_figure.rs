//! Parsing of figures, their claims, and the values that papers give for them.

use crate::keys;
use crate::numbers::ConfidenceLevel;
use crate::parse::{axis, chosen, file, value};
use crate::parse_measured::{check_shape, measured, parts, reference};
use crate::types::{Axis, CellWorld, Claim, ClaimPositions, ClaimRule, Figure, FigureShape, Paper};
use farlink_config::{Input, Reader};
use std::collections::BTreeSet;
use std::path::Path;

/// Reads all `[[figure]]` tables.
pub fn figures(top: &Reader<'_>, axes: &[Axis], scenario: &Path, usual: (&Path, ConfidenceLevel)) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for (path, table) in top.tables("figure") {
        let reader = Reader::checked(top.errors, &keys::FIGURE, &path, table);
        let name = reader.name("name").unwrap_or_default();
        if figures.iter().any(|figure| figure.name == name) {
            reader.fail("name", format!("a second figure called `{name}`"), "each needs its own name");
        }
        figures.extend(one(&reader, name, axes, scenario, usual));
    }
    figures
}

fn one(
    reader: &Reader<'_>,
    name: String,
    axes: &[Axis],
    scenario: &Path,
    (folder, level): (&Path, ConfidenceLevel),
) -> Option<Figure> {
    let measured = measured(reader, None);
    let shape = FigureShape::ALL[reader.choice("shape").unwrap_or(0)];
    let named = |key: &str| reader.text(key).and_then(|name| axis(reader, key, &name, axes));
    let (x, series, facet) = (named("x"), named("series"), named("facet"));
    if !reader.given("x") && shape.has_positions() {
        reader.fail("x", "missing", "name the axis that is drawn horizontally");
    }
    for (one, other, key) in [(x, series, "series"), (x, facet, "facet"), (series, facet, "facet")] {
        if one.is_some() && one == other {
            reader.fail(
                key,
                "this axis is drawn already",
                "each of `x`, `series` and `facet` needs an axis of its own",
            );
        }
    }
    let fixed = fixed(reader, axes, &[x, series, facet]);
    let named: Vec<usize> =
        [x, series, facet].into_iter().flatten().chain(fixed.iter().map(|(axis, _)| *axis)).collect();
    // Checked per figure, because axes that never meet may set the same key.
    both_set(reader, axes, &named);
    let other = if reader.given("scenario") { file(reader, "scenario", folder) } else { Some(scenario.to_path_buf()) };
    let against = against(reader, series, axes);
    let measured = measured?;
    check_shape(reader, shape, measured.metric);
    let own_level = reader.given("interval").then(|| reader.choice("interval")).flatten();
    let mut figure = Figure {
        title: reader.text("title").unwrap_or_else(|| name.clone()),
        name,
        parts: parts(reader, shape, &measured),
        reference: reference(reader, shape, &measured),
        level: own_level.map_or(level, |word| ConfidenceLevel::ALL[word]),
        measured,
        scenario: other?,
        world: reader.choice("world").map(|word| CellWorld::ALL[word]),
        x: if shape.has_positions() { Some(x?) } else { x },
        series,
        facet,
        fixed,
        shape,
        against,
        claims: Vec::new(),
        paper: Vec::new(),
        place: reader.errors.beginning(reader.path()).unwrap_or(0),
    };
    for (path, table) in reader.tables("claim") {
        let inside = Reader::checked(reader.errors, &keys::CLAIM, &path, table);
        figure.claims.extend(claim(&inside, &figure, axes));
    }
    for (path, table) in reader.tables("paper") {
        let inside = Reader::checked(reader.errors, &keys::PAPER, &path, table);
        figure.paper.extend(paper(&inside, &figure, axes));
    }
    Some(figure)
}

/// Reports axes of one figure that set the same key: the later assignment would hide the earlier one.
fn both_set(reader: &Reader<'_>, axes: &[Axis], named: &[usize]) {
    let sets = |axis: usize, key: &str| {
        axes[axis].values.iter().flat_map(|value| &value.sets).any(|(path, _)| path.to_string() == key)
    };
    for (place, one) in named.iter().enumerate() {
        let keys = axes[*one].values.iter().flat_map(|value| &value.sets).map(|(path, _)| path.to_string());
        let keys: BTreeSet<String> = keys.collect();
        for other in named[place + 1..].iter().filter(|other| *other != one) {
            if let Some(key) = keys.iter().find(|key| sets(*other, key)) {
                let what = format!("axes `{}` and `{}` both set `{key}`", axes[*one].name, axes[*other].name);
                reader.fail("x", what, "name one of them only");
            }
        }
    }
}

fn fixed(reader: &Reader<'_>, axes: &[Axis], drawn: &[Option<usize>]) -> Vec<(usize, usize)> {
    let Some((_, table)) = reader.raw_table("fixed") else { return Vec::new() };
    let mut fixed = Vec::new();
    for (axis, values) in chosen(reader, "fixed", table, axes) {
        if drawn.contains(&Some(axis)) {
            let what = format!("axis `{}` is drawn, and stands nowhere", axes[axis].name);
            reader.fail("fixed", what, "take it out");
        }
        match values[..] {
            [value] => fixed.push((axis, value)),
            _ => {
                reader.fail("fixed", format!("axis `{}` needs one label", axes[axis].name), "write `axis = \"label\"`")
            }
        }
    }
    fixed
}

fn against(reader: &Reader<'_>, series: Option<usize>, axes: &[Axis]) -> usize {
    match (reader.text("against"), series) {
        (Some(label), Some(series)) => value(reader, "against", &label, &axes[series]).unwrap_or(0),
        (Some(_), None) => {
            reader.fail(
                "against",
                "a figure without `series` compares none",
                "take it out, or name the axis of series",
            );
            0
        }
        // Without `against` the first series is the reference.
        (None, _) => 0,
    }
}

/// Finds the values of labels on an axis of the figure.
fn labels(reader: &Reader<'_>, key: &str, of: Option<usize>, axes: &[Axis]) -> Option<Vec<usize>> {
    let given = reader.texts(key)?;
    let Some(of) = of else {
        reader.fail(key, "the figure has no such axis", "take it out");
        return None;
    };
    if given.is_empty() {
        reader.fail(key, "it names none", "take it out, or name at least one");
    }
    Some(given.iter().filter_map(|label| value(reader, key, label, &axes[of])).collect())
}

fn claim(reader: &Reader<'_>, figure: &Figure, axes: &[Axis]) -> Option<Claim> {
    // A figure without series counts as one series of index 0, and one without facets as one facet of index 0.
    let all = |of: Option<usize>| of.map_or(vec![0], |axis| (0..axes[axis].values.len()).collect());
    let text = reader.text("text");
    let rule = reader.choice("rule").and_then(|word| rule(reader, keys::RULES[word], figure));
    let compares = rule.is_some_and(ClaimRule::compares_series);
    if compares && figure.series.is_none() {
        reader.fail("rule", "it compares series, and the figure has none", "choose `rises`, `falls` or `between`");
        return None;
    }
    if reader.given("than") && rule.is_some() && !compares {
        reader.fail("than", "this rule compares no series", "take it out");
    }
    // By default a claim compares with the figure's reference series.
    let than = labels(reader, "than", figure.series, axes).unwrap_or_else(|| vec![figure.against]);
    let series = labels(reader, "series", figure.series, axes).unwrap_or_else(|| {
        let others = all(figure.series).into_iter();
        if compares { others.filter(|place| !than.contains(place)).collect() } else { others.collect() }
    });
    // A difference of a series from itself is always zero.
    if compares
        && !series.is_empty()
        && !than.is_empty()
        && series.iter().all(|one| than.iter().all(|other| other == one))
    {
        reader.fail("than", "a series is compared with itself alone", "name others in `series` or `than`");
    }
    let facets = labels(reader, "facet", figure.facet, axes).unwrap_or_else(|| all(figure.facet));
    let at = match reader.texts("at").as_deref() {
        None => ClaimPositions::Mean,
        Some([star]) if star == "*" && figure.x.is_some() => ClaimPositions::Each(all(figure.x)),
        Some(_) => ClaimPositions::Each(labels(reader, "at", figure.x, axes)?),
    };
    let trend = matches!(rule, Some(ClaimRule::Rises | ClaimRule::Falls));
    if trend && figure.x.is_none() {
        reader.fail("rule", "it compares positions of `x`, and the figure has none", "choose another, or add `x`");
    }
    // These rules already name the positions they compare.
    if trend && at != ClaimPositions::Mean {
        reader.fail("at", "`rises` and `falls` are from the first place to the last", "take it out");
    }
    Some(Claim { text: text?, rule: rule?, series, than, facets, at, quantile: quantile(reader, figure) })
}

/// Reads a quantile, which only distributions have.
fn quantile(reader: &Reader<'_>, figure: &Figure) -> f64 {
    if reader.given("quantile") && !figure.measured.metric.is_sample() {
        let what = format!("`{}` is no distribution", figure.measured.metric.name);
        reader.fail("quantile", what, "take it out");
    }
    reader.share("quantile").unwrap_or(0.5)
}

/// Reads a margin: a share, for `above` also a larger number or percentage.
fn margin(input: Input<'_, '_>, word: &str) -> Result<f64, String> {
    let percent =
        || input.text().ok()?.trim().strip_suffix('%')?.trim().parse::<f64>().ok().map(|number| number / 100.0);
    let more = || input.number().ok().or_else(percent).filter(|number| word == "above" && *number > 1.0);
    input.share().or_else(|why| more().filter(|number| number.is_finite()).ok_or(why))
}

fn rule(reader: &Reader<'_>, word: &str, figure: &Figure) -> Option<ClaimRule> {
    if reader.given("range") && word != "between" {
        reader.fail("range", format!("a key of `between`, not of `{word}`"), "take it out");
    }
    if reader.given("margin") && !matches!(word, "above" | "below" | "similar") {
        reader.fail("margin", format!("a key of `above`, `below` and `similar`, not of `{word}`"), "take it out");
    }
    let margin = reader.custom("margin", |input| margin(input, word))?;
    if word == "below" && margin >= 1.0 {
        reader.fail("margin", "nothing is below none of its reference", "write e.g. 0.8: below a fifth of it");
    }
    let least = if reader.given("margin") { margin } else { 0.0 };
    Some(match word {
        "above" => ClaimRule::Above(least),
        "below" => ClaimRule::Below(least),
        "similar" => ClaimRule::Similar(margin),
        "rises" => ClaimRule::Rises,
        "falls" => ClaimRule::Falls,
        _ => {
            if !reader.given("range") {
                reader.fail("range", "missing", "add `range = [0.0, 0.4]`");
            }
            let ends = reader.custom("range", numbers)?;
            match ends[..] {
                [least, most] if least <= most => {
                    let metric = figure.measured.metric;
                    let (lowest, highest) = metric.limits();
                    if least <= lowest && most >= highest {
                        let what = format!("`{}` is always in this range", metric.name);
                        reader.fail("range", what, "a claim must be able to fail: write a narrower one");
                    }
                    ClaimRule::Between(least, most)
                }
                _ => {
                    reader.fail("range", "expected two numbers, the smaller first", "write e.g. `range = [0.0, 0.4]`");
                    return None;
                }
            }
        }
    })
}

fn numbers(input: Input<'_, '_>) -> Result<Vec<f64>, String> {
    input.items()?.iter().map(|item| Input::Given(item.get_ref()).number()).collect()
}

fn paper(reader: &Reader<'_>, figure: &Figure, axes: &[Axis]) -> Option<Paper> {
    let one = |key: &str, of: Option<usize>| -> Option<Option<usize>> {
        match (reader.text(key), of) {
            (None, _) => Some(None),
            (Some(label), Some(of)) => value(reader, key, &label, &axes[of]).map(Some),
            (Some(_), None) => {
                reader.fail(key, "the figure has no such axis", "take it out");
                None
            }
        }
    };
    let (series, facet) = (one("series", figure.series)?, one("facet", figure.facet)?);
    if series.is_none() && figure.series.is_some() {
        reader.fail("series", "missing", "say of which series the values are");
    }
    let quantile = quantile(reader, figure);
    Some(Paper { series: series.unwrap_or(0), facet, values: reader.custom("values", numbers)?, quantile })
}

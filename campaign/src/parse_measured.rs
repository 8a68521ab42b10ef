//! Parsing of what a figure shows: metrics with their phases and nodes, parts and reference.

use crate::keys::{self, NAMES_OF_METRICS};
use crate::measure::Measured;
use crate::metrics::{Metric, MetricScope, metric};
use crate::types::{FigurePart, FigureShape};
use farlink_config::Reader;

/// Reads the metric of a table with its phase and node. A phase or node that the table lacks is that of `of_figure`.
pub fn measured(reader: &Reader<'_>, of_figure: Option<&Measured>) -> Option<Measured> {
    let metric = chosen(reader, "metric")?;
    let own = |key: &str, other: Option<&String>| reader.text(key).or_else(|| other.cloned());
    let phase = own("phase", of_figure.and_then(|figure| figure.phase.as_ref()));
    let node = own("node", of_figure.and_then(|figure| figure.node.as_ref()));
    let name = metric.name;
    if phase.is_some() && metric.scope == MetricScope::Run {
        let key = if reader.given("phase") { "phase" } else { "metric" };
        reader.fail(key, format!("`{name}` is of the whole run"), "take `phase` out, or choose another metric");
    }
    if node.is_some() && metric.scope != MetricScope::Node {
        let key = if reader.given("node") { "node" } else { "metric" };
        reader.fail(key, format!("`{name}` is not of one node"), "take `node` out, or choose another metric");
    }
    Some(Measured { metric, phase, node })
}

fn chosen(reader: &Reader<'_>, key: &str) -> Option<&'static Metric> {
    reader.choice(key).and_then(|word| metric(NAMES_OF_METRICS[word]))
}

/// Reports a metric that the shape of a figure cannot show.
pub fn check_shape(reader: &Reader<'_>, shape: FigureShape, metric: &Metric) {
    let name = metric.name;
    match (shape, metric.is_sample()) {
        (FigureShape::Ecdf, false) => {
            let hint = "choose one of the distributions, such as `rtt_s`";
            reader.fail("metric", format!("`{name}` is one number of a run, and no distribution"), hint);
        }
        (FigureShape::Lines | FigureShape::Bars | FigureShape::Stack, true) => {
            let hint = "write `shape = \"ecdf\"`, or choose a number such as `rtt_median_s`";
            reader.fail("metric", format!("`{name}` is a distribution"), hint);
        }
        _ => {}
    }
}

/// Reads the parts of a stack or a table.
pub fn parts(reader: &Reader<'_>, shape: FigureShape, whole: &Measured) -> Vec<FigurePart> {
    let mut parts: Vec<FigurePart> = Vec::new();
    for (path, table) in reader.tables("part") {
        let inside = Reader::checked(reader.errors, &keys::PART, &path, table);
        let (Some(label), Some(measured)) = (inside.text("label"), measured(&inside, Some(whole))) else { continue };
        if parts.iter().any(|part| part.label == label) {
            inside.fail("label", format!("a second part called `{label}`"), "each needs its own label");
        }
        if shape == FigureShape::Stack {
            check_shape(&inside, shape, measured.metric);
        }
        if measured.metric.quantity != whole.metric.quantity {
            let what = format!("`{}` has another unit than `{}`", measured.metric.name, whole.metric.name);
            inside.fail("metric", what, "a figure has one unit");
        }
        parts.push(FigurePart { label, measured });
    }
    match shape {
        FigureShape::Stack if parts.len() < 2 && reader.errors.is_empty() => {
            reader.fail("shape", "a stack of fewer than two parts", "add `[[figure.part]]` tables");
        }
        FigureShape::Stack | FigureShape::Table => {}
        _ if !parts.is_empty() => {
            reader.fail("part", "only stacks and tables have parts", "take it out, or change `shape`");
        }
        _ => {}
    }
    parts
}

/// Reads the reference line.
pub fn reference(reader: &Reader<'_>, shape: FigureShape, whole: &Measured) -> Option<Measured> {
    if !reader.given("reference") {
        return None;
    }
    let metric = chosen(reader, "reference")?;
    if !matches!(shape, FigureShape::Lines | FigureShape::Bars) {
        reader.fail("reference", "only `lines` and `bars` have a reference", "take it out");
    }
    if metric.is_sample() || metric.quantity != whole.metric.quantity {
        let what = format!("`{}` does not fit an axis of `{}`", metric.name, whole.metric.name);
        reader.fail("reference", what, "choose a metric with the same unit");
    }
    Some(Measured { metric, phase: None, node: None })
}

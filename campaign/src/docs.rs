//! Generator of `docs/reference/campaign.md` from the tables of keys and metrics.

use crate::keys::SECTIONS;
use crate::metrics::{METRICS, Metric, SAMPLES};
use farlink_config::docs::{cell, write_section};
use std::fmt::Write;

const INTRODUCTION: &str = "# The campaign file

<!-- Made from campaign/src/keys.rs and metrics.rs. Change those, then: FARLINK_BLESS=1 cargo test -p farlink-campaign -->

A campaign is a folder with a `campaign.toml`: a scenario, axes along which it is varied, repetitions, and the
figures that come of it. Its points are those of its figures; each is run once with every seed. [How to run
one](../how-to/run-a-campaign.md) begins with an example.

Everything random in a cell follows from its seed and a purpose: how nodes move, what they send and what links lose is the
same for all series, so that differences are taken seed by seed.

";

/// Renders the reference of the campaign file as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in SECTIONS {
        write_section(&mut out, if section.name == "campaign" { "Top level" } else { section.name }, section);
    }
    write_metrics(&mut out, "## Metrics\n\nOne number of a run, or of one of its phases or nodes.", METRICS);
    write_metrics(&mut out, "## Distributions\n\nValues within a run, for `ecdf` and `table`.", SAMPLES);
    out.truncate(out.trim_end().len() + 1);
    out
}

fn write_metrics(out: &mut String, head: &str, metrics: &[Metric]) {
    let _ = write!(out, "{head}\n\n| metric | unit | of | meaning |\n|---|---|---|---|\n");
    for metric in metrics {
        let (unit, scope) = (metric.quantity.unit(), metric.scope.word());
        let _ = writeln!(out, "| `{}` | {unit} | {scope} | {} |", metric.name, cell(metric.help));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    #[test]
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/campaign.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, super::reference()).unwrap();
        }
        // A missing page counts as outdated.
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == super::reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-campaign");
    }
}

//! The HTML report of one run, or of two side by side: one self-contained file, without scripts except for the map
//! (`map/`).

mod axis;
mod bars;
mod canvas;
mod chart;
mod curves;
mod data;
pub mod distribution;
pub mod drawing;
mod findings;
mod map;
mod network;
mod pdf;
mod phases;
mod plain_flows;
pub mod plot;
mod retention;
mod sections;
pub mod stack;
mod svg;
mod timeline;

use crate::compare::Comparison;
use crate::run::RunReader;
use anyhow::{Result, ensure};
use data::RunData;
use std::fmt::Write;
use std::path::Path;
pub use svg::escape;

// Start of every report, and the text before the version of farlink that wrote it; together they identify a report.
const START: &str = "<!doctype html>";
const MADE_BY: &str = "<footer><p>Made by farlink ";

/// Renders the report of one run, or of two side by side, as one HTML document.
///
/// # Errors
/// When a table cannot be read, or `runs` holds neither one nor two runs.
pub fn html(runs: &[&RunReader]) -> Result<String> {
    ensure!((1..=2).contains(&runs.len()), "a report shows one run or two, not {}", runs.len());
    // One time axis for both runs, so that their charts can be compared by eye.
    let span = runs.iter().map(|r| r.manifest().duration_s).fold(0.0, f64::max);
    let mut data = Vec::new();
    for run in runs {
        data.push(RunData::read(run, span)?);
    }
    tell_apart(&mut data);
    let comparison =
        Comparison::of(&data.iter().map(|r| (r.folder.clone(), &r.manifest, &r.statistics)).collect::<Vec<_>>());
    Ok(page(&data, &comparison, span))
}

/// Appends 1 and 2 to the labels of two runs whose labels are equal.
fn tell_apart(runs: &mut [RunData]) {
    let [first, second] = runs else { return };
    if first.label != second.label {
        return;
    }
    for (run, number) in [(first, 1), (second, 2)] {
        run.label = format!("{} {number}", run.label);
    }
}

/// Whether a file is a report made by [`html`].
pub fn is_report(file: &Path) -> bool {
    // An unreadable file counts as no report, and is then not overwritten.
    let text = std::fs::read(file).unwrap_or_default();
    text.starts_with(START.as_bytes()) && text.windows(MADE_BY.len()).any(|part| part == MADE_BY.as_bytes())
}

fn page(runs: &[RunData], comparison: &Comparison, span: f64) -> String {
    let mut out = String::with_capacity(200_000);
    header(&mut out, runs);
    out.push_str("<main>\n");
    let page = sections::ReportPage { runs, comparison, span };
    page.findings(&mut out);
    page.numbers(&mut out);
    page.network(&mut out);
    let maps: Vec<_> = runs.iter().filter_map(|run| Some((run.label.as_str(), run.map.as_ref()?))).collect();
    map::draw(&mut out, &maps);
    page.contacts(&mut out);
    page.goodput(&mut out);
    page.stored(&mut out);
    page.latency(&mut out);
    page.steps(&mut out);
    page.links(&mut out);
    page.plain_flows(&mut out);
    page.processes(&mut out);
    page.phases(&mut out);
    page.validity(&mut out);
    page.repeat(&mut out);
    out.push_str("</main>\n");
    let folders: Vec<String> = runs.iter().map(|r| format!("<code>{}</code>", escape(&r.folder))).collect();
    let from = format!("{}. Point at lines, bars and nodes for their values.", folders.join(" and "));
    shell(&runs[0].manifest.scenario, &out, &from)
}

/// Wraps a header and main part, both HTML, into a report; `from` describes the source of the data, as HTML.
pub fn shell(title: &str, body: &str, from: &str) -> String {
    let (title, style, version) = (escape(title), include_str!("style.css"), env!("CARGO_PKG_VERSION"));
    format!(
        "{START}\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}: report</title><style>{style}</style></head><body>\n{body}\
         {MADE_BY}{version} from the tables in {from}</p></footer>\n</body></html>\n"
    )
}

fn header(out: &mut String, runs: &[RunData]) {
    let m = &runs[0].manifest;
    let _ = write!(out, "<header><h1>{}</h1>", escape(&m.scenario));
    if !m.description.is_empty() {
        let _ = write!(out, "<p class=\"lead\">{}</p>", escape(&m.description));
    }
    out.push_str("<ul class=\"facts\">");
    for run in runs {
        let m = &run.manifest;
        let seconds = |s: f64| crate::format::Quantity::Seconds.text(s);
        let _ = write!(
            out,
            "<li><b>{}</b>: {} of network time in {} of real time, seed {}</li>",
            escape(&run.label),
            seconds(m.duration_s),
            seconds(m.wall_s),
            m.seed
        );
    }
    out.push_str("</ul></header>\n");
}

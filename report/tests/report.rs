//! Report pages: complete, self-contained, and safe against hostile names.

use crate::common;

use crate::common::Flavour;
use farlink_report::{EventRow, Manifest, RunReader, RunWorld, RunWriter, SampleRow, html, schema};
use std::path::PathBuf;

/// Folder in which the pages stay for inspection.
fn kept(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn report_pages_are_self_contained() {
    let folder = kept("pages");
    let sim = common::write(&folder.join("iss-sim"), &Flavour::new(RunWorld::Sim));
    let lab = common::write(&folder.join("iss-lab"), &Flavour { seed: 43, ..Flavour::new(RunWorld::Lab) });
    let one = html(&[&sim]).unwrap();
    let two = html(&[&sim, &lab]).unwrap();
    std::fs::write(folder.join("one.html"), &one).unwrap();
    std::fs::write(folder.join("two.html"), &two).unwrap();
    for page in [&one, &two] {
        for outside in ["http://", "https://", "<script", "@import", "url(", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains(">inf"), "a number went wrong");
        assert!(page.len() < 600_000, "{} bytes", page.len());
        for heading in ["What happened?", "where did the time go?", "can it be trusted?"] {
            assert!(page.contains(heading), "{heading}");
        }
    }
    assert!(two.contains("Simulation: all 800 bundles arrived"));
    assert!(two.contains("Mean latency") && two.contains("checksums are equal") && !one.contains("<th>difference"));
}

#[test]
fn names_cannot_escape_page() {
    let folder = tempfile::tempdir().unwrap();
    let evil = Flavour { suffix: "<script>alert(1)</script>\"'&", bundles: 20, ..Flavour::new(RunWorld::Lab) };
    let run = common::write(&folder.path().join("x"), &evil);
    let page = html(&[&run]).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
}

#[test]
fn empty_run_makes_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = common::write(folder.path(), &Flavour { bundles: 0, ..Flavour::new(RunWorld::Sim) });
    let page = html(&[&run]).unwrap();
    assert!(page.contains("No bundles were created") && !page.contains("NaN"));
}

/// Figures in their wide form, each with the text up to the next.
fn drawings(page: &str) -> Vec<(&str, &str)> {
    page.split("<div class=\"wide\">").skip(1).filter_map(|part| part.split_once("</svg>")).collect()
}

#[test]
fn every_line_chart_has_table() {
    let folder = tempfile::tempdir().unwrap();
    let sim = common::write(&folder.path().join("sim"), &Flavour::new(RunWorld::Sim));
    let lab = common::write(&folder.path().join("lab"), &Flavour { seed: 43, ..Flavour::new(RunWorld::Lab) });
    for runs in [&[&sim][..], &[&sim, &lab]] {
        let page = html(runs).unwrap();
        let charts: Vec<_> = drawings(&page).into_iter().filter(|(svg, _)| svg.contains("class=\"line ")).collect();
        assert!(charts.len() >= 3, "goodput, stored, latency: {}", charts.len());
        for (svg, after) in charts {
            let table = after.split_once("<summary>The same as a table</summary>");
            let (_, table) = table.unwrap_or_else(|| panic!("no table follows {}", &svg[..200]));
            let (head, rows) = table.split_once("</thead>").unwrap();
            let (rows, _) = rows.split_once("</table>").unwrap();
            assert_eq!(
                head.matches("<th>").count(),
                1 + svg.matches("<path class=\"line ").count(),
                "a column a line: {head}"
            );
            assert!(rows.matches("<tr>").count() >= 3 && rows.contains("<td>"), "{rows}");
        }
    }
}

#[test]
fn second_curve_differs_beyond_colour() {
    let folder = tempfile::tempdir().unwrap();
    let sim = common::write(&folder.path().join("sim"), &Flavour::new(RunWorld::Sim));
    // Both runs have equal values, so that their curves coincide.
    let lab = common::write(&folder.path().join("lab"), &Flavour::new(RunWorld::Lab));
    let page = html(&[&sim, &lab]).unwrap();
    let style = page.split_once("svg .line.b {").unwrap().1;
    assert!(style.split_once('}').unwrap().0.contains("stroke-dasharray"), "the gaps show the line below");
    for (svg, _) in drawings(&page).into_iter().filter(|(svg, _)| svg.contains("class=\"line ")) {
        let [first, second] = ["line a", "line b"].map(|class| svg.find(&format!("<path class=\"{class}\"")));
        assert!(first.is_some() && first < second, "the dashed one is drawn above: {}", &svg[..200]);
        assert!(!svg.contains("class=\"area"), "nothing is filled over the other");
    }
    assert!(page.contains("<span class=\"key a\">") && page.contains("<span class=\"key b\">"));
}

#[test]
fn missing_bundles_are_explained_first() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Manifest { duration_s: 9.0, ..Manifest::new(RunWorld::Sim, "gap", "name = \"gap\"\n", None) };
    let mut writer = RunWriter::create(folder.path(), manifest).unwrap();
    for (time_ns, name, reason) in [(1, "created", None), (2, "waiting", None), (5, "deleted", Some("expired"))] {
        let mut row = EventRow::new(time_ns * 1_000_000_000, "a".into(), name);
        (row.source, row.service, row.creation_ms, row.sequence) = (Some("a".into()), Some(1), Some(1), Some(0));
        (row.destination, row.destination_service, row.size) = (Some("b".into()), Some(2), Some(100));
        row.reason = reason.map(Into::into);
        writer.event(&row).unwrap();
    }
    writer.finish().unwrap();
    let page = html(&[&RunReader::open(folder.path()).unwrap()]).unwrap();
    let (first, _) = page.split_once("</section>").unwrap();
    assert!(first.contains("0 of 1 bundle arrived (0\u{a0}%)."), "{first}");
    assert!(first.contains("Missing: 1 expired (at a)."), "{first}");
    assert!(!page.contains("where did the time go?"), "no bundle took any");
}

#[test]
fn only_fullest_of_many_stores_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Manifest { duration_s: 100.0, ..Manifest::new(RunWorld::Sim, "crowd", "name = \"crowd\"\n", None) };
    let mut writer = RunWriter::create(folder.path(), manifest).unwrap();
    // The first 10 of 3,000 nodes stay empty; the others hold more the higher their number.
    for (second, number) in (0..10).flat_map(|second| (0..3000).map(move |number| (second, number))) {
        let value = if number < 10 || second < 5 { 0.0 } else { 5000.0 + f64::from(number) };
        let node = Some(format!("n{number}").into());
        let (time_ns, metric) = (second * 10_000_000_000, schema::STORED_BYTES.into());
        writer.sample(&SampleRow { time_ns, node, link: None, metric, value, phase: None }).unwrap();
    }
    writer.finish().unwrap();
    let page = html(&[&RunReader::open(folder.path()).unwrap()]).unwrap();
    let charts: Vec<_> = drawings(&page).into_iter().filter(|(svg, _)| svg.contains("Store occupancy")).collect();
    assert_eq!(charts.len(), 1, "one for all");
    let drawn = |number: u32| charts[0].0.contains(&format!("<title>n{number}</title>"));
    assert!((2950..3000).all(drawn) && !(0..2950).any(drawn), "the fifty fullest");
    assert!(page.contains("Not drawn: at most 7.95 kB at each of 2940 nodes, nothing at 10."), "and what is not");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

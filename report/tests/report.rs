//! The report of runs: readable, self-contained, and closed against what names may contain.

mod common;

use common::Flavour;
use farlink_report::{World, html};
use std::path::PathBuf;

/// Where the pages stay, to be looked at.
fn kept(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn one_run_and_two_runs_make_a_page_without_anything_from_elsewhere() {
    let folder = kept("pages");
    let sim = common::write(&folder.join("iss-sim"), &Flavour::new(World::Sim));
    let lab = common::write(&folder.join("iss-lab"), &Flavour { seed: 43, ..Flavour::new(World::Lab) });
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
        for heading in ["What happened?", "Where did the time go?", "Can it be trusted?"] {
            assert!(page.contains(heading), "{heading}");
        }
    }
    assert!(two.contains("Simulation: all 800 bundles arrived"));
    assert!(two.contains("Mean latency") && two.contains("checksums are equal") && !one.contains("<th>difference"));
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let evil = Flavour { suffix: "<script>alert(1)</script>\"'&", bundles: 20, ..Flavour::new(World::Lab) };
    let run = common::write(&folder.path().join("x"), &evil);
    let page = html(&[&run]).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
}

#[test]
fn an_empty_run_makes_a_page_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = common::write(folder.path(), &Flavour { bundles: 0, ..Flavour::new(World::Sim) });
    let page = html(&[&run]).unwrap();
    assert!(page.contains("No bundles were created") && !page.contains("NaN"));
}

/// Drawings in their wide form, each with what follows up to the next.
fn drawings(page: &str) -> Vec<(&str, &str)> {
    page.split("<div class=\"wide\">").skip(1).filter_map(|part| part.split_once("</svg>")).collect()
}

#[test]
fn every_line_chart_is_there_as_a_table_too() {
    let folder = tempfile::tempdir().unwrap();
    let sim = common::write(&folder.path().join("sim"), &Flavour::new(World::Sim));
    let lab = common::write(&folder.path().join("lab"), &Flavour { seed: 43, ..Flavour::new(World::Lab) });
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
fn the_curve_of_the_second_run_is_told_apart_by_more_than_its_colour() {
    let folder = tempfile::tempdir().unwrap();
    let sim = common::write(&folder.path().join("sim"), &Flavour::new(World::Sim));
    // The same numbers: the curves lie on each other.
    let lab = common::write(&folder.path().join("lab"), &Flavour::new(World::Lab));
    let page = html(&[&sim, &lab]).unwrap();
    let style = page.split_once("svg .line.b {").unwrap().1;
    assert!(style.split_once('}').unwrap().0.contains("stroke-dasharray"), "what lies below shows through the gaps");
    for (svg, _) in drawings(&page).into_iter().filter(|(svg, _)| svg.contains("class=\"line ")) {
        let [first, second] = ["line a", "line b"].map(|class| svg.find(&format!("<path class=\"{class}\"")));
        assert!(first.is_some() && first < second, "the dashed one is drawn above: {}", &svg[..200]);
        assert!(!svg.contains("class=\"area"), "nothing is filled over the other");
    }
    assert!(page.contains("<span class=\"key a\">") && page.contains("<span class=\"key b\">"));
}

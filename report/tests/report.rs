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

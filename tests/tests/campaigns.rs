//! The small size of each study reproduces the results checked in beside it, to the letter. `FARLINK_BLESS=1` writes
//! them.

use crate::node_support;

use std::fs;
use std::path::Path;

/// Studies that have a small size.
const STUDIES: &[&str] = &["congestion", "crossing", "hdtn", "jaxa", "silva", "unseen", "vtt"];

#[test]
fn studies_match_checked_in_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    for name in STUDIES {
        let folder = tempfile::tempdir().expect("a folder");
        let (study, out) = (root.join("campaigns").join(name), folder.path().join("out"));
        let (study_text, out_text) = (study.display().to_string(), out.display().to_string());
        let output = node_support::run(&["campaign", "run", &study_text, "--smoke", "--out", &out_text]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let found = fs::read_to_string(out.join("results.txt")).expect("results");
        let file = study.join("expected.txt");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            fs::write(&file, &found).expect("it is written");
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == expected,
            "{} is old: FARLINK_BLESS=1 cargo test -p farlink-tests --test all campaigns writes it\n{found}",
            file.display()
        );
    }
}

#[test]
fn every_study_can_be_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut found = 0;
    for entry in fs::read_dir(root.join("campaigns")).expect("the studies") {
        let folder = entry.expect("an entry").path();
        if !folder.join("campaign.toml").exists() {
            continue;
        }
        let campaign = farlink_campaign::Campaign::load(&folder).unwrap_or_else(|list| panic!("{list:#?}"));
        // Planning reads every scenario and every axis at full size, without running a cell.
        let figures = campaign.figures.len();
        let plan = farlink_campaign::CampaignPlan::new(campaign).unwrap_or_else(|list| panic!("{list:#?}"));
        assert!(plan.configurations.len() >= figures && folder.join("README.md").exists(), "{}", folder.display());
        found += 1;
    }
    assert!(found >= 1);
}

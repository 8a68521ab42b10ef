//! Checks of the documentation: files that pages show are valid, and links of pages resolve.

use crate::node_support;

use farlink_node::config::NodeConfig;
use farlink_routing::contact_plan;
use farlink_scenario::Scenario;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Every page below `docs/`, and those at the root.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join("docs")];
    let mut files: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|file| root().join(file)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read_to_string(file).expect("a page"))).collect()
}

/// Code blocks of this language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let mut inside = false;
    let mut start = 0;
    let (mut at, mut found) = (0, Vec::new());
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with("```") {
            if inside && start > 0 {
                found.push(&text[start..at - line.len()]);
            }
            start = if !inside && line == fence { at } else { 0 };
            inside = !inside;
        }
    }
    found
}

#[test]
fn how_to_files_are_valid() {
    let mut read = 0;
    for (file, text) in pages().iter().filter(|(file, _)| file.starts_with(root().join("docs/how-to"))) {
        let name = file.display();
        for block in blocks(text, "toml") {
            match block.lines().next() {
                Some("# node.toml") => {
                    let config = NodeConfig::parse(block, Path::new("node.toml"));
                    assert!(config.is_ok(), "{name}: {:#?}\n{block}", config.err());
                }
                Some("# scenario.toml") => {
                    let scenario = Scenario::parse(block).unwrap_or_else(|why| panic!("{name}: {why:#?}\n{block}"));
                    assert!(scenario.doubts().is_empty(), "{name}: {:?}", scenario.doubts());
                }
                // Other blocks are parts of files, or files of other programs.
                _ => continue,
            }
            read += 1;
        }
        for block in blocks(text, "plan") {
            let parsed = contact_plan::parse(block).unwrap_or_else(|why| panic!("{name}: {why}\n{block}"));
            assert!(parsed.warnings.is_empty(), "{name}: {:?}", parsed.warnings);
            assert!(contact_plan::check(&parsed.plan).iter().all(|finding| !finding.error), "{name}: {block}");
            read += 1;
        }
    }
    // A changed fence or first line must not leave the test without blocks.
    assert!(read >= 6, "only {read} blocks were found");
}

/// Checks a configuration by `farlink node --check`: no mistake and no warning.
fn checked(text: &str, name: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("node.toml");
    std::fs::write(&file, text).expect("it is written");
    let output = node_support::run(&["node", "--check", "--config", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("warning: "), "{name}: {said}\n{text}");
}

#[test]
fn interop_node_files_are_valid() {
    let text = std::fs::read_to_string(root().join("docs/how-to/interoperate.md")).expect("the page");
    let ours = |heading: &str| {
        let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("a section");
        blocks(section, "toml").concat()
    };
    let ion = ours("ION, over LTP");
    checked(&ion, "ION");
    // The page describes our file for HDTN as the file for ION with another link and its route.
    let (common, _) = ion.split_once("[link.ion]").expect("its link");
    checked(&format!("{common}{}", ours("HDTN, over LTP")), "HDTN");
    let (common, _) = ion.split_once("[layer.ltp]").expect("its layer");
    checked(&format!("{common}{}", ours("Hardy, over TCPCLv4")), "Hardy");
    // For dtn7-rs the page starts from `farlink init two-nodes` and replaces numbers by names.
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().display().to_string();
    assert!(node_support::run(&["init", "two-nodes", "--dir", &folder]).status.success());
    let file = std::fs::read_to_string(dir.path().join("node-a.toml")).expect("what init wrote");
    checked(&file, "two nodes");
    let page = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut named = file;
    for (number, name) in [
        ("node_ids = [\"ipn:1.0\"]", "node_ids = [\"dtn://farlink/\"]"),
        ("peer = \"ipn:2.0\"", "peer = \"dtn://peer/\""),
        ("\"ipn:2.*\" = \"ipn:2.0\"", "\"dtn://peer/*\" = \"dtn://peer/\""),
    ] {
        assert!(named.contains(number) && page.contains(name), "{number} becomes {name}");
        named = named.replace(number, name);
    }
    assert!(page.contains("`engine = 1`"));
    named = named.replace("kind = \"ltp\"", "kind = \"ltp\"\nengine = 1");
    checked(&named, "dtn7-rs");
}

#[test]
fn ion_plans_are_the_same() {
    let text = std::fs::read_to_string(root().join("docs/how-to/coming-from-ion.md")).expect("the page");
    let plans: Vec<_> = blocks(&text, "plan").iter().map(|b| contact_plan::parse(b).expect("a plan").plan).collect();
    assert_eq!(plans.len(), 2);
    assert_eq!(plans[0], plans[1]);
}

#[test]
fn one_page_scenario_delivers() {
    let text = std::fs::read_to_string(root().join("docs/how-to/coming-from-the-one.md")).expect("the page");
    let scenario = Scenario::parse(blocks(&text, "toml")[0]).expect("a scenario");
    let (outcome, _) = farlink_sim::World::new(&scenario, farlink_sim::Silent).expect("a world").run();
    assert_eq!((outcome.traffic[0].created, outcome.traffic[0].delivered), (10, 10));
}

#[test]
fn page_links_resolve() {
    let mut reached = Vec::new();
    for (file, text) in pages() {
        let folder = file.parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let path = link.split('#').next().unwrap_or("");
            // Anchors and other sites are not checked.
            if path.is_empty() || link.contains("://") || link.contains(' ') {
                continue;
            }
            let target = folder.join(path);
            assert!(target.exists(), "{}: there is no {link}", file.display());
            if file == root().join("README.md") {
                reached.push(target.canonicalize().expect("a path"));
            }
        }
    }
    for (page, _) in pages() {
        let decision = page.starts_with(root().join("docs/decisions"));
        let page = page.canonicalize().expect("a path");
        let linked = reached.iter().any(|target| page == *target || (decision && page.starts_with(target)));
        // Decisions are reached through their folder; every other page needs a link of its own.
        assert!(linked || page.ends_with("README.md"), "README.md does not lead to {}", page.display());
    }
}

//! Every scenario file of the repository is valid in the simulator, and real nodes accept the files that the testbed
//! makes of it.

use crate::node_support;

use farlink_lab::driver::{Driver, NodeContext};
use farlink_lab::drivers::farlink::{CONFIGURATION, Farlink};
use farlink_node::config::NodeConfig;
use farlink_scenario::Scenario;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}
fn files() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["campaigns", "tests/parity", "python/notebooks", "scenario/src"].map(|folder| root().join(folder)).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "toml") && !path.ends_with("campaign.toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Checks the node files that the testbed writes, keys included; returns their number.
fn nodes_read(scenario: &Scenario, name: &str) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    for (index, node) in scenario.nodes.iter().enumerate() {
        let folder = folder.path().join(&node.name);
        std::fs::create_dir(&folder).expect("a folder");
        let epoch = farlink_base::DtnTime(800_000_000_000);
        let program = node_support::farlink();
        let context = NodeContext { scenario, index, folder: &folder, epoch, program, real_time: true };
        Farlink::default().prepare(&context).unwrap_or_else(|why| panic!("{name}: {why:#}"));
        let file = folder.join(CONFIGURATION);
        let text = std::fs::read_to_string(&file).expect("what was written");
        let config = NodeConfig::parse(&text, &file);
        assert!(config.is_ok(), "{name}: {:#?}\n{text}", config.err());
    }
    scenario.nodes.len()
}

#[test]
fn both_worlds_read_scenario_files() {
    let (mut read, mut secured, mut nodes) = (0, 0, 0);
    for file in files() {
        let name = file.display().to_string();
        let scenario = Scenario::load(&file).unwrap_or_else(|why| panic!("{name}: {why:#?}"));
        read += 1;
        secured += usize::from(scenario.nodes.iter().any(|node| !node.security.is_empty()));
        // This campaign runs every scenario in both worlds.
        if name.contains("campaigns/agreement") {
            let world = farlink_sim::World::new(&scenario, farlink_sim::Silent);
            assert!(world.is_ok(), "{name}: {:?}", world.err());
            nodes += nodes_read(&scenario, &name);
        }
    }
    assert!(
        // A moved folder must not leave the test without files.
        read >= 50 && secured >= 2 && nodes >= 60,
        "{read} files, {secured} with rules for security, {nodes} nodes"
    );
}

#[test]
fn both_worlds_read_security_rules() {
    let page = std::fs::read_to_string(root().join("docs/how-to/secure-bundles.md")).expect("the page");
    let mut read = 0;
    for block in page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        if !block.contains("[[security]]") {
            continue;
        }
        let node = |name: &str, id: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{id}.0\"\n");
        let text = format!(
            "name = \"page\"\nduration = \"1 s\"\n{}{}[[link]]\nname = \"l\"\nbetween = [\"probe\", \"ground\"]\n\
             layer = \"ltp\"\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"\n{block}",
            node("probe", 1),
            node("ground", 3)
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|why| panic!("{why:#?}\n{text}"));
        assert!(scenario.nodes.iter().all(|node| node.security.len() == 1));
        read += nodes_read(&scenario, "the page");
    }
    assert_eq!(read, 2);
}

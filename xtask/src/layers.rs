//! `cargo xtask layers`: checks the dependencies between crates.
//!
//! The structure of the tree lasts only while its dependencies are checked: a convergence layer that could see a bundle
//! would one day parse one; a testbed that linked our node would give it a home advantage.

use crate::{Chore, sources, tools};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

pub const CHORE: Chore =
    Chore { name: "layers", usage: "", help: "Checks who may use whom, and the laws of core/.", run: |_| run() };

/// Dependencies that a folder may have.
struct LayerRule {
    folder: &'static str,
    may_use: &'static [&'static str],
    /// Further dependencies allowed in tests.
    tests_may_use: &'static [&'static str],
    /// Explanation in the error about a forbidden dependency.
    because: &'static str,
}

/// Folders of the engine's crates.
const CORE: &[&str] = &[
    "core/base",
    "core/bundle",
    "core/cla",
    "core/link",
    "core/book",
    "core/routing",
    "core/congestion",
    "core/storage",
    "core/bpa",
    "core/stack",
];

/// Wildcard for all folders.
const EVERYTHING: &[&str] = &["*"];
/// Wildcard for the folders of [`CORE`].
const ENGINE: &str = "core/*";

/// Rules of all folders.
const RULES: &[LayerRule] = &[
    rule("core/base", &[], "base is what everything else stands on"),
    rule("core/bundle", &["core/base"], "the codec knows bytes and endpoint IDs, not who carries or keeps them"),
    LayerRule {
        tests_may_use: &["core/link"],
        ..rule("core/cla", &["core/base"], "a convergence layer carries opaque bytes: it never parses a bundle")
    },
    rule("core/link", &["core/base"], "the link model carries opaque bytes"),
    LayerRule {
        tests_may_use: &["core/link"],
        ..rule("core/storage", &["core/base"], "a store keeps bytes and a small index entry: it never parses a bundle")
    },
    rule("core/book", &["core/base"], "the book is where policies and agent look bundles up: it knows neither"),
    rule(
        "core/routing",
        &["core/base", "core/book"],
        "a router sees what the book tells of a bundle, never the bundle; it meets congestion only in bpa",
    ),
    rule(
        "core/congestion",
        &["core/base", "core/book"],
        "a control sees what the book tells of a bundle, never the bundle; it meets routing only in bpa",
    ),
    rule(
        "core/bpa",
        &["core/base", "core/book", "core/routing", "core/congestion"],
        "the agent knows layers and stores by their contracts in base and wire formats by its Edge, never a concrete \
         one",
    ),
    rule("core/stack", &[ENGINE], "the stack is the engine joined, and nothing of its drivers"),
    rule("os", &[], "os wraps system calls and holds no protocol"),
    rule("aap2", &["core/base"], "the wire between a node and its applications: both speak it, so it knows neither"),
    rule("config", &["core/base"], "it reads any file by its table of keys, and so knows no key"),
    rule(
        "orbits",
        &["config", "core/base", "core/routing"],
        "from orbits to a contact plan: it knows no node, no simulator and no scenario, so that each may ask it",
    ),
    rule("events", &["core/base"], "the names of events, for whoever writes or reads them: it keeps and draws nothing"),
    rule(
        "node",
        &[ENGINE, "os", "aap2", "config", "events"],
        "the real node knows no simulator, no testbed and no client of its own",
    ),
    rule(
        "apps",
        &["core/base", "os", "aap2"],
        "applications and clients speak to a node over AAP2 and HTTP, as anyone's would, and link nothing of it",
    ),
    rule(
        "sim",
        &[ENGINE, "scenario", "report", "orbits"],
        "the simulator makes no system call and links no node: it drives stacks",
    ),
    rule("one", &["core/base"], "another simulator's world, an oracle: it holds nothing of the engine nor of sim"),
    rule(
        "lab",
        &[
            "scenario",
            "config",
            "report",
            "events",
            "os",
            "core/base",
            "core/bundle",
            "core/routing",
            "core/link",
            "core/cla",
        ],
        "the testbed starts our node as a binary, like any implementation: no home advantage",
    ),
    rule(
        "scenario",
        &["config", "core/base", "core/routing", "core/congestion", "core/link", "core/cla"],
        "a scenario is read the same by every world, so it knows none of them (of cla it uses the tables of \
         parameters, so that a parameter is said once, next to the layer it belongs to)",
    ),
    rule(
        "report",
        &["events", "core/base", "core/routing", "core/congestion", "core/link"],
        "every world writes the same run, so the schema knows none of them",
    ),
    rule(
        "watch",
        &["core/base", "core/bpa", "events", "scenario", "report", "sim"],
        "it draws what the simulator says, and simulates nothing",
    ),
    rule(
        "campaign",
        &["config", "scenario", "report", "core/base"],
        "a campaign knows no world: whoever calls it says how a cell is run",
    ),
    rule("cli", EVERYTHING, ""),
    rule("python", EVERYTHING, ""),
    rule("tests", EVERYTHING, ""),
    LayerRule {
        // The example `cost` measures both worlds of simulation.
        tests_may_use: &["one", "scenario", "sim"],
        ..rule(
            "trials",
            &["aap2", "apps"],
            "what tries the node starts it as a program, and attaches as any application does",
        )
    },
    rule("xtask", &["trials"], "chores start what they need as programs"),
];

const fn rule(folder: &'static str, may_use: &'static [&'static str], because: &'static str) -> LayerRule {
    LayerRule { folder, may_use, tests_may_use: &[], because }
}

impl LayerRule {
    fn allows(&self, used: &str, in_tests: bool) -> bool {
        // An entry is a folder, the engine as a whole, or everything.
        let in_list = |list: &[&str]| {
            list.iter().any(|entry| *entry == "*" || *entry == used || (*entry == ENGINE && CORE.contains(&used)))
        };
        in_list(self.may_use) || (in_tests && in_list(self.tests_may_use))
    }
}

/// A dependency between two crates of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Edge {
    user: String,
    used: String,
    in_tests: bool,
}

fn run() -> Result<()> {
    let edges = check(&tools::root())?;
    println!("layers: {edges} edges between our crates, all allowed; core/ keeps its laws");
    Ok(())
}

/// Checks the workspace at `root`; returns the number of its dependencies.
///
/// # Errors
/// All violations, each with its rule.
pub fn check(root: &Path) -> Result<usize> {
    let edges = edges(&tools::metadata(root)?)?;
    let mut violations = violations(&edges);
    for folder in CORE {
        violations.extend(sources::opening(root, folder)?);
    }
    // Unlike the attributes above, tests are checked for every crate with a rule.
    for rule in RULES {
        violations.extend(sources::unbuilt_tests(root, rule.folder)?);
    }
    violations.extend(sources::wire_words_in_bpa(root)?);
    violations.extend(sources::agent_in_owners(root)?);
    violations.extend(sources::unsafe_outside_os(root)?);
    if violations.is_empty() {
        return Ok(edges.len());
    }
    bail!("{} layering violations:\n  {}", violations.len(), violations.join("\n  "));
}

fn edges(metadata: &serde_json::Value) -> Result<Vec<Edge>> {
    let root = metadata["workspace_root"].as_str().context("cargo metadata gives no workspace root")?;
    let packages = metadata["packages"].as_array().context("cargo metadata gives no packages")?;
    let folder_of = |manifest: &str| {
        let folder = Path::new(manifest).parent().and_then(|path| path.strip_prefix(root).ok());
        folder.map(|path| path.to_string_lossy().into_owned())
    };
    let mut folders: BTreeMap<&str, String> = BTreeMap::new();
    for package in packages {
        let (Some(name), Some(manifest)) = (package["name"].as_str(), package["manifest_path"].as_str()) else {
            continue;
        };
        folders.extend(folder_of(manifest).map(|folder| (name, folder)));
    }
    let mut edges = Vec::new();
    for package in packages {
        // Crates from a registry have no folder in the workspace.
        let Some(user) = package["name"].as_str().and_then(|name| folders.get(name)) else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(used) = dependency["name"].as_str().and_then(|name| folders.get(name)) else { continue };
            let in_tests = dependency["kind"].as_str() == Some("dev");
            // A crate may depend on itself to enable features for its tests.
            if used == user {
                continue;
            }
            edges.push(Edge { user: user.clone(), used: used.clone(), in_tests });
        }
    }
    Ok(edges)
}

fn violations(edges: &[Edge]) -> Vec<String> {
    let mut violations = Vec::new();
    for edge in edges {
        // A new crate must state its rule: no rule is no permission.
        let Some(rule) = RULES.iter().find(|rule| rule.folder == edge.user) else {
            violations.push(format!("{} has no rule: say in xtask/src/layers.rs whom it may use", edge.user));
            continue;
        };
        if !rule.allows(&edge.used, edge.in_tests) {
            let tests = if edge.in_tests { " in tests" } else { "" };
            let allowed = if rule.may_use.is_empty() { "nothing of ours".into() } else { rule.may_use.join(", ") };
            violations
                .push(format!("{} uses {}{tests}, but may use only {allowed}: {}", edge.user, edge.used, rule.because));
        }
    }
    // A dependency may be listed more than once, such as for two targets.
    violations.dedup();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(user: &str, used: &str, in_tests: bool) -> Edge {
        Edge { user: user.into(), used: used.into(), in_tests }
    }

    #[test]
    fn this_tree_keeps_its_layers() {
        let found = check(&tools::root()).unwrap_or_else(|error| panic!("{error}"));
        assert!(found > 20, "{found}");
    }

    #[test]
    fn added_edge_names_its_rule() {
        let mut edges = edges(&tools::metadata(&tools::root()).unwrap()).unwrap();
        assert_eq!(violations(&edges), Vec::<String>::new());
        for (user, used, because) in [
            ("core/cla", "core/bundle", "never parses a bundle"),
            ("core/routing", "core/congestion", "only in bpa"),
            ("core/congestion", "core/routing", "only in bpa"),
            ("core/book", "core/routing", "knows neither"),
            ("core/bpa", "core/storage", "never a concrete one"),
            ("core/bpa", "core/bundle", "wire formats by its Edge"),
            ("core/base", "core/bundle", "stands on"),
            ("lab", "node", "home advantage"),
            ("sim", "os", "no system call"),
            ("sim", "one", "no system call"),
            ("one", "sim", "an oracle"),
            ("trials", "node", "as a program"),
            ("node", "scenario", "no testbed"),
            ("apps", "node", "as anyone's would"),
            ("node", "apps", "no client of its own"),
        ] {
            edges.push(edge(user, used, false));
            let found = violations(&edges);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{user} uses {used}")) && found[0].contains(because), "{found:?}");
            edges.pop();
        }
    }

    #[test]
    fn dev_edges_follow_the_table() {
        assert!(violations(&[edge("core/cla", "core/link", true), edge("core/storage", "core/link", true)]).is_empty());
        assert_eq!(violations(&[edge("core/cla", "core/link", false)]).len(), 1);
        assert_eq!(violations(&[edge("core/routing", "core/link", true)]).len(), 1);
        assert_eq!(violations(&[edge("attic", "core/base", false)]).len(), 1, "a folder without a rule");
    }

    #[test]
    fn edges_come_from_cargo_metadata() {
        let package = |name: &str, dependency: &str| {
            serde_json::json!({
                "name": name, "manifest_path": format!("/x/core/{name}/Cargo.toml"),
                "dependencies": [{"name": dependency, "kind": "dev"}, {"name": "bytes", "kind": null}],
            })
        };
        let packages = [package("a", "b"), package("b", "c"), package("b", "b")];
        let metadata = serde_json::json!({"workspace_root": "/x", "packages": packages});
        assert_eq!(edges(&metadata).unwrap(), [edge("core/a", "core/b", true)]);
    }
}

//! Follows `docs/tutorials/add-a-router.md` word for word in a copy of this workspace, and registers the files of
//! `cargo xtask new` in the same copy.
//!
//! The copy and its build stay in `target/tutorial`, so that only the first time is slow. In place of `farlink`, which
//! would take minutes to build, a small program simulates the scenario.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Command of the text that runs the scenario, and its replacement here.
const RUN: (&str, &str) =
    ("cargo run -p farlink -- run lowest.toml --in sim", "cargo run -p farlink-sim --example tryout -- lowest.toml");

const TRYOUT: &str = r#"//! Simulates a scenario; says what arrived, and what each node still holds.
use farlink_base::{Instant, store::Usage};
use farlink_scenario::Scenario;

struct Stores(Vec<u64>);
impl farlink_sim::Observer for Stores {
    fn node_sample(&mut self, _at: Instant, node: usize, usage: &Usage) {
        self.0[node] = usage.bundles;
    }
}

fn main() {
    let file = std::env::args().nth(1).expect("a scenario");
    let scenario = Scenario::load(file.as_ref()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let stores = Stores(vec![0; scenario.nodes.len()]);
    let world = farlink_sim::World::new(&scenario, stores).unwrap_or_else(|why| panic!("{why}"));
    let (outcome, stores) = world.run();
    let sum = |what: fn(&farlink_sim::TrafficOutcome) -> u64| outcome.traffic.iter().map(what).sum::<u64>();
    println!("delivered  {} of {} bundles", sum(|t| t.delivered), sum(|t| t.created));
    for (node, held) in scenario.nodes.iter().zip(stores.0) {
        println!("{} holds {held}", node.name);
    }
}
"#;

/// Files by path below the root.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A step of the tutorial.
#[derive(Debug)]
enum Step {
    /// Writes a new file.
    Write(PathBuf, String),
    /// Adds lines to a file.
    Insert(PathBuf, Place, String),
    /// Runs a command.
    Run(String),
}

/// Place of an insertion: before or after the first line with this text.
#[derive(Debug)]
enum Place {
    Before(String),
    After(String),
}

fn steps(text: &str) -> Vec<Step> {
    // The paragraph before a code block names the file and place for it: "New file `...`", or "In `...`" with "before
    // `...`" or "after `...`". Blocks of `sh` are commands.
    let (mut steps, mut paragraph, mut blank) = (Vec::new(), String::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            if std::mem::replace(&mut blank, line.is_empty()) && !line.is_empty() {
                paragraph.clear();
            }
            paragraph.push_str(line);
            paragraph.push(' ');
            continue;
        };
        let block: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        if language == "sh" {
            steps.extend(block.lines().map(|command| Step::Run(command.into())));
            continue;
        }
        let quoted = |after: &str| paragraph.split_once(after)?.1.split_once('`').map(|(word, _)| word.to_string());
        steps.push(match (quoted("New file `"), quoted("In `"), quoted("before `"), quoted("after `")) {
            (Some(file), None, None, None) => Step::Write(file.into(), block),
            (None, Some(file), Some(line), None) => Step::Insert(file.into(), Place::Before(line), block),
            (None, Some(file), None, Some(line)) => Step::Insert(file.into(), Place::After(line), block),
            what => panic!("it does not say where this goes: {what:?}\n{block}"),
        });
    }
    steps
}

/// Adds lines before or after the first line equal to the anchor.
fn insert(tree: &mut Tree, file: &Path, place: &Place, block: &str) {
    let old = String::from_utf8(tree.remove(file).unwrap_or_else(|| panic!("no {}", file.display()))).expect("text");
    let (Place::Before(anchor) | Place::After(anchor)) = place;
    let mut lines: Vec<&str> = old.lines().collect();
    let found = lines.iter().position(|line| line.trim() == anchor);
    let at = found.unwrap_or_else(|| panic!("{} has no line `{anchor}`", file.display()));
    lines.insert(at + usize::from(matches!(place, Place::After(_))), block.trim_end());
    tree.insert(file.into(), (lines.join("\n") + "\n").into_bytes());
}

/// Reads all files of this workspace except build output.
fn read_tree(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), folder.join(entry.file_name()));
        let kind = entry.file_type().expect("a kind");
        if name.starts_with("target") || name.starts_with('.') || name == "runs" {
            continue;
        } else if kind.is_dir() {
            read_tree(root, &path, tree);
        } else if kind.is_file() {
            let content = fs::read(entry.path()).unwrap_or_else(|why| panic!("{}: {why}", entry.path().display()));
            tree.insert(path, content);
        }
    }
}

/// Makes a folder equal to the tree. Equal files keep their time, so that cargo does not build them again.
fn write_tree(folder: &Path, tree: &Tree) {
    let mut there = Tree::new();
    fs::create_dir_all(folder).expect("a folder");
    read_tree(folder, Path::new(""), &mut there);
    for old in there.keys().filter(|old| !tree.contains_key(*old)) {
        fs::remove_file(folder.join(old)).expect("an old file goes");
    }
    for (path, content) in tree.iter().filter(|(path, content)| there.get(*path) != Some(content)) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
}

/// The copy of the workspace, with the additions of the text and the templates.
struct Workshop {
    folder: PathBuf,
    commands: Vec<String>,
    /// Names of the tests in the text.
    tests: Vec<String>,
    /// Held until this run is done: another run of the tests uses the same folder.
    _lock: File,
}

static WORKSHOP: LazyLock<Workshop> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tutorial");
    fs::create_dir_all(&folder).expect("a folder");
    let lock = File::create(folder.join("lock")).expect("a lock");
    lock.lock().expect("the lock");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut tree = Tree::new();
    read_tree(root, Path::new(""), &mut tree);
    let (mut commands, mut tests) = (Vec::new(), Vec::new());
    for step in steps(&text(&tree, "docs/tutorials/add-a-router.md")) {
        match step {
            Step::Run(command) => commands.push(command),
            Step::Insert(file, place, block) => insert(&mut tree, &file, &place, &block),
            Step::Write(file, block) => {
                let module = file.file_stem().expect("a name").to_string_lossy().into_owned();
                // `cargo test` must list these names, so that a test left out of the module is noticed.
                let names = block.split("#[test]\n").skip(1).filter_map(|rest| rest.split_once("()"));
                tests.extend(
                    names.map(|(name, _)| format!("{module}::tests::{}", name.trim().trim_start_matches("fn "))),
                );
                let before = tree.insert(file.clone(), block.into_bytes());
                assert!(before.is_none(), "{} is not new", file.display());
            }
        }
    }
    add_template(&mut tree, "router", "routing", "|setup| Box::new(TriedOut::new(setup.params))");
    add_template(&mut tree, "control", "congestion", "|params, _| Box::new(TriedOut::new(params))");
    tree.insert("sim/examples/tryout.rs".into(), TRYOUT.into());
    write_tree(&folder.join("tree"), &tree);
    Workshop { folder, commands, tests, _lock: lock }
});

fn text(tree: &Tree, file: &str) -> String {
    String::from_utf8(tree[Path::new(file)].clone()).expect("text")
}

/// Fills in a template as `cargo xtask new` does for `tried-out`, and registers it as that command advises.
fn add_template(tree: &mut Tree, kind: &str, folder: &str, make: &str) {
    let source = PathBuf::from(format!("core/{folder}/src"));
    let template = text(tree, &format!("xtask/src/new/{kind}.rs.txt"));
    tree.insert(source.join("tried_out.rs"), template.replace("TYPE", "TriedOut").replace("NAME", "tried-out").into());
    let info = if kind == "router" { "RouterInfo" } else { "ControlInfo" };
    let entry = format!(
        "    {info} {{\n        name: \"tried-out\",\n        help: \"As the template says.\",\n        \
         params: TriedOut::PARAMS,\n        oracle: false,\n        make: {make},\n    }},\n"
    );
    let (library, registry) = (source.join("lib.rs"), source.join("registry.rs"));
    insert(tree, &library, &Place::After("mod registry;".into()), "mod tried_out;\n");
    insert(tree, &registry, &Place::Before("use alloc::boxed::Box;".into()), "use crate::tried_out::TriedOut;\n");
    insert(tree, &registry, &Place::Before("];".into()), &entry);
}

impl Workshop {
    /// Runs a command in the copy, offline; returns its output.
    fn run(&self, command: &str) -> String {
        let arguments = command.strip_prefix("cargo ").unwrap_or_else(|| panic!("`{command}` is not cargo"));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(cargo);
        // The program runs for a moment, so building is the cost: no optimization and no debug information.
        let quick = ["--config", "profile.dev.debug=false", "--config", "profile.dev.package.'*'.opt-level=0"];
        cargo.arg("--offline").args(quick).args(arguments.split(' ')).current_dir(self.folder.join("tree"));
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target")).env("CARGO_INCREMENTAL", "0");
        let output = cargo.output().expect("cargo starts");
        let [said, talk] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "`{command}` in {}\n{said}\n{talk}", self.folder.join("tree").display());
        // A reader's first build must not begin with warnings.
        let warned = ["lowest", "tried_out"].iter().any(|module| talk.contains(&format!("src/{module}")));
        assert!(!warned, "`{command}` warns of what the text or a template has\n{talk}");
        said
    }
    fn passes(&self, command: &str, tests: &[String]) {
        let said = self.run(command);
        for test in tests {
            assert!(said.contains(&format!("test {test} ... ok")), "`{command}` does not run {test}\n{said}");
        }
    }
}

#[test]
fn router_tutorial_can_be_followed() {
    let (program, tests) = (&*WORKSHOP, &WORKSHOP.tests);
    assert_eq!(tests.len(), 4, "{tests:?}");
    let [test, run] = &program.commands[..] else { panic!("other commands: {:?}", program.commands) };
    assert_eq!(run, RUN.0);
    program.passes(test, tests);
    // The orbiter may still hold bundles when the last one has arrived, so its line is not compared.
    let [all, none] = ["delivered  10 of 10 bundles\nstation holds 0\n", "rover holds 0\n"];
    let said = program.run(RUN.1);
    assert!(said.starts_with(all) && said.ends_with(none), "with `lowest`\n{said}");
    let scenario = program.folder.join("tree/lowest.toml");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    fs::write(&scenario, text.replace("router = \"lowest\"", "router = \"lowest-copies\"")).expect("the scenario");
    let said = program.run(RUN.1);
    assert!(said.starts_with(all) && said.ends_with("rover holds 10\n"), "with `lowest-copies`\n{said}");
    // The copy stays as the tutorial leaves it, so that the next run finds nothing to build.
    fs::write(&scenario, text).expect("the scenario");
}

#[test]
fn templates_compile_and_pass_tests() {
    let tests = ["tried_out::tests::neighbour_up_gets_its_bundles", "tried_out::tests::oldest_makes_room"];
    let registries = ["every_registered_router_is_made", "every_registered_control_is_made"];
    let registries = registries.map(|name| format!("registry::tests::{name}"));
    let tests: Vec<String> = tests.map(String::from).into_iter().chain(registries).collect();
    WORKSHOP.passes("cargo test -p farlink-routing -p farlink-congestion --lib", &tests);
}

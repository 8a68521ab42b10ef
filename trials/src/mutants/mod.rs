//! `cargo xtask mutants`: plants mistakes one by one; the tests must notice each.
//!
//! A mutation replaces a text of a file in a copy of the tree, `target/mutants`, which has builds of its own. Its tests
//! run there until one fails: the mutation is killed. A durable mutation would lose bundles silently, so it must not
//! survive. A text that is not found exactly once is an error, so that the table follows the code.

mod agent;
pub mod every;
mod identity;
mod layers;
mod networks;
mod promises;
mod storage;
mod system;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The chore `cargo xtask mutants`.
pub const CHORE: Chore = Chore {
    name: "mutants",
    usage: "[every ...] [--only WORDS] [--durable] [--list]",
    help: "Plants mistakes one by one and says which of them no test notices.\n\n\
           Builds in target/mutants, or where CARGO_TARGET_DIR says: there what is built before need not be built again.\n\
           --only: those with these words in their name. --durable: those that would lose what was acknowledged.\n\n\
           `mutants every` plants one at each call, condition or number, as chosen; see `cargo xtask mutants every --help`.",
    run,
};

/// Test name that stands for `cargo xtask crash --forgetting`.
const FORGETTING: &str = "forgetting";
/// Number of power cuts in each run of [`FORGETTING`].
const STATES: &str = "45";
/// Time after which a test counts as hung, and its mutation as killed.
const TEST_MAX: Duration = Duration::from_secs(600);

/// A mistake to be planted in one file.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Description of the defect.
    name: &'static str,
    file: &'static str,
    /// Original text, which must occur exactly once.
    text: &'static str,
    replacement: &'static str,
    /// Arguments of `cargo test`, or [`FORGETTING`]: tests that must notice.
    tests: &'static [&'static str],
    /// Whether the defect would lose acknowledged bundles.
    durable: bool,
}
const fn plain(
    name: &'static str,
    file: &'static str,
    text: &'static str,
    replacement: &'static str,
    tests: &'static [&'static str],
) -> Mutant {
    Mutant { name, file, text, replacement, tests, durable: false }
}
const fn durable(
    name: &'static str,
    file: &'static str,
    text: &'static str,
    replacement: &'static str,
    tests: &'static [&'static str],
) -> Mutant {
    Mutant { durable: true, ..plain(name, file, text, replacement, tests) }
}

fn all() -> impl Iterator<Item = &'static Mutant> {
    [storage::TABLE, system::TABLE, agent::TABLE, identity::TABLE, promises::TABLE, layers::TABLE, networks::TABLE]
        .into_iter()
        .flatten()
}

/// The mutation of this name.
pub fn named(name: &str) -> Option<&'static Mutant> {
    all().find(|mutant| mutant.name == name)
}

/// Names of the mutations that confuse bundles of equal identity.
pub fn of_identity() -> impl Iterator<Item = &'static str> {
    identity::TABLE.iter().map(|mutant| mutant.name)
}
/// Names of the mutations that random networks must find.
#[cfg(test)]
pub fn networks() -> impl Iterator<Item = &'static str> {
    networks::TABLE.iter().map(|mutant| mutant.name)
}

fn run(arguments: &[String]) -> Result<()> {
    if let Some(("every", rest)) = arguments.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        return every::run(rest);
    }
    let mut arguments = tools::Arguments::new(arguments);
    let (only, durable, list) =
        (arguments.word("--only")?.unwrap_or(""), arguments.flag("--durable"), arguments.flag("--list"));
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an option of mutants");
    }
    let mut chosen: Vec<&Mutant> =
        all().filter(|mutant| mutant.name.contains(only) && (mutant.durable || !durable)).collect();
    // The forgetting disk takes longest, so its mutations come last.
    chosen.sort_by_key(|mutant| mutant.tests == [FORGETTING]);
    if list {
        chosen.iter().for_each(|mutant| println!("{:<60} {}", mutant.name, mutant.file));
        return Ok(());
    }
    let root = tools::root();
    // All texts are checked before the first build.
    for mutant in &chosen {
        mutant.planted(&root)?;
    }
    let tree = Tree::new(&root)?;
    let (mut survived, mut lost) = (0, Vec::new());
    for mutant in &chosen {
        let begun = Instant::now();
        let outcome = tree.try_one(mutant)?;
        if outcome != MutantOutcome::Killed {
            survived += 1;
            // A mutation that does not compile proves nothing: its row of the table must be corrected.
            lost.extend((mutant.durable || outcome == MutantOutcome::Unbuilt).then_some(mutant.name));
        }
        println!("{:<10} {:<60} {} ({:.0} s)", outcome.word(), mutant.name, mutant.file, begun.elapsed().as_secs_f64());
    }
    println!("\n{} mutations, {} noticed, {survived} not", chosen.len(), chosen.len() - survived);
    if lost.is_empty() { Ok(()) } else { bail!("nobody notices: {}", lost.join("; ")) }
}

impl Mutant {
    /// Text of the file with the mistake in it.
    fn planted(&self, root: &Path) -> Result<String> {
        let file = root.join(self.file);
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        match text.matches(self.text).count() {
            1 => Ok(text.replacen(self.text, self.replacement, 1)),
            found => bail!(
                "`{}`: its text is {found} times in {}\nhint: the code changed; change the table in trials/src/mutants",
                self.name,
                self.file
            ),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MutantOutcome {
    Killed,
    /// The mutant does not compile, so nothing was proved.
    Unbuilt,
    Survived,
}
impl MutantOutcome {
    fn word(self) -> &'static str {
        match self {
            MutantOutcome::Killed => "killed",
            MutantOutcome::Unbuilt => "UNBUILT",
            MutantOutcome::Survived => "SURVIVED",
        }
    }
}

fn copied(from: &Path, root: &Path, changed: &BTreeMap<String, String>) -> Result<()> {
    // Untracked files are copied, too: a new module may not be committed yet.
    let listed = Command::new("git")
        .current_dir(from)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("git ls-files")?;
    let listed = String::from_utf8(listed.stdout)?;
    let names: BTreeSet<&str> = listed.split_terminator('\0').chain(changed.keys().map(String::as_str)).collect();
    for name in names {
        let (source, target) = (from.join(name), root.join(name));
        let bytes = match changed.get(name) {
            Some(text) => text.clone().into_bytes(),
            None => match std::fs::read(&source) {
                Ok(bytes) => bytes,
                Err(_) => continue,
            },
        };
        // Unchanged files keep their times, so that builds continue where they were.
        if std::fs::read(&target).is_ok_and(|there| there == bytes) {
            continue;
        }
        std::fs::create_dir_all(target.parent().unwrap_or(root))?;
        // Cargo compares times: a file written now is newer than its build.
        std::fs::write(&target, bytes)?;
        if let Ok(about) = std::fs::metadata(&source) {
            std::fs::set_permissions(&target, about.permissions())?;
        }
    }
    Ok(())
}

/// A copy of the tree with builds of its own.
pub struct Tree {
    root: PathBuf,
}
impl Tree {
    /// Brings the copy up to date.
    pub fn new(from: &Path) -> Result<Tree> {
        let root = tools::target().join("mutants/tree");
        copied(from, &root, &BTreeMap::new())?;
        Ok(Tree { root })
    }
    fn try_one(&self, mutant: &Mutant) -> Result<MutantOutcome> {
        self.with(mutant, |tree| tree.tests(mutant))
    }
    /// Runs `something` while the mistake is in the copy.
    pub fn with<T>(&self, mutant: &Mutant, something: impl FnOnce(&Tree) -> Result<T>) -> Result<T> {
        let file = self.root.join(mutant.file);
        let (before, planted) = (std::fs::read_to_string(&file)?, mutant.planted(&self.root)?);
        std::fs::write(&file, planted)?;
        let outcome = something(self);
        // Restored even after an error: the next mutation starts from clean sources.
        std::fs::write(&file, before)?;
        outcome
    }
    /// Target folder of the copy's builds.
    pub fn target(&self) -> PathBuf {
        let own = || self.root.parent().unwrap_or(&self.root).join("target");
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(own, PathBuf::from)
    }
    fn tests(&self, mutant: &Mutant) -> Result<MutantOutcome> {
        for test in mutant.tests {
            let (build, run): (Vec<&str>, Vec<&str>) = match *test {
                FORGETTING => (
                    vec!["build", "-p", "farlink", "-p", "xtask"],
                    vec!["run", "-p", "xtask", "--", "crash", "--forgetting", "--states", STATES, "--seed", "7"],
                ),
                test => {
                    let words: Vec<&str> = test.split_whitespace().collect();
                    let build = [&["test", "--no-run"][..], &words].concat();
                    (build, [&["test"][..], &words].concat())
                }
            };
            // Tests across crates start the program, so it is built with the mistake, too.
            if !self.cargo(&["build", "-p", "farlink"], test.contains("farlink-tests"))? || !self.cargo(&build, true)? {
                return Ok(MutantOutcome::Unbuilt);
            }
            if !self.cargo(&run, true)? {
                return Ok(MutantOutcome::Killed);
            }
        }
        Ok(MutantOutcome::Survived)
    }
    /// Runs cargo, and returns whether it succeeded; true at once if not `needed`. A test that hangs is ended and has
    /// failed.
    pub fn cargo(&self, arguments: &[&str], needed: bool) -> Result<bool> {
        if !needed {
            return Ok(true);
        }
        let target = self.target();
        let mut child = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &target)
            .env("FARLINK_BIN", target.join("debug/farlink"))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own, so that the test that cargo starts can be ended, too.
            .process_group(0)
            .spawn()
            .context("starting cargo")?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status.success());
            }
            // Only tests have a time limit; builds have none.
            if begun.elapsed() > TEST_MAX && arguments[0] != "build" && !arguments.contains(&"--no-run") {
                rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL)?;
                child.wait()?;
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutation_applies_exactly_once() {
        let (root, mut names) = (tools::root(), BTreeSet::new());
        // All misses at once: after a change of the engine several rows are wrong.
        let misses: Vec<String> =
            all().filter_map(|mutant| mutant.planted(&root).err()).map(|why| format!("{why:#}")).collect();
        assert!(misses.is_empty(), "{}", misses.join("\n"));
        for mutant in all() {
            let planted = mutant.planted(&root).unwrap();
            assert_ne!(planted, std::fs::read_to_string(root.join(mutant.file)).unwrap(), "{}", mutant.name);
            assert!(names.insert(mutant.name), "{}", mutant.name);
            assert!(!mutant.tests.is_empty(), "{}", mutant.name);
        }
        assert!(names.len() >= 60 && all().filter(|mutant| mutant.durable).count() >= 30);
    }
}

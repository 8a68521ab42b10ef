//! `cargo xtask ci`: everything that `make test` runs, in the order in which failures are cheapest.

use crate::{Chore, conformance, layers, tools};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub const CHORE: Chore = Chore {
    name: "ci",
    usage: "[--self-check]",
    help: "Format, layers, conformance, lints, bare-metal build, tests, simfuzz --check, interop --smoke; --self-check proves that the laws bite.",
    run,
};

/// Crates under core/, which share the clippy configuration of that folder.
const CORE: [&str; 10] = ["base", "bundle", "cla", "link", "book", "routing", "congestion", "storage", "bpa", "stack"];
/// A target without an operating system; core is built for it where it is installed.
const BARE_METAL: &str = "thumbv7em-none-eabihf";

type CiStep = (&'static str, fn() -> Result<()>);

const STEPS: &[CiStep] = &[
    ("format", format),
    ("layers", || layers::check(&tools::root()).map(|edges| println!("{edges} edges, all allowed"))),
    ("conformance", || conformance::check(&tools::root())),
    ("lints of core/", || clippy(&tools::root())),
    ("core/ without an operating system", bare_metal),
    ("tests", || tools::run(tools::cargo().args(["test", "--workspace"]))),
    ("random networks with faults", farlink_trials::simfuzz_check),
    ("bundles to and from others", interop),
];

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let self_check = arguments.flag("--self-check");
    arguments.rest()?;
    if self_check {
        return prove();
    }
    let began = Instant::now();
    for (number, (title, step)) in STEPS.iter().enumerate() {
        println!("\n== {}/{} {title}", number + 1, STEPS.len());
        let start = Instant::now();
        step().with_context(|| format!("ci stopped at: {title}"))?;
        println!("== {title}: {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("\nci: all {} steps passed in {:.0} s", STEPS.len(), began.elapsed().as_secs_f64());
    Ok(())
}

fn interop() -> Result<()> {
    // `/proc/self/exe` is this program, even if the build of the tests has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command.args(["interop", "--smoke"]);
    if std::env::var_os("FARLINK_BIN").is_none() {
        // The program that the tests built: building it alone would select other features and rebuild everything.
        command.env("FARLINK_BIN", std::path::absolute(tools::target().join("debug/farlink"))?);
    }
    tools::run(&mut command)
}

fn format() -> Result<()> {
    tools::run(tools::cargo().args(["fmt", "--all", "--check"])).context("hint: run `cargo fmt`")
}

fn clippy(root: &Path) -> Result<()> {
    // `CLIPPY_CONF_DIR` selects the engine's own configuration: no clocks, threads or `HashMap`.
    tools::run(&mut clippy_command(root, &CORE))
}

fn clippy_command(root: &Path, crates: &[&str]) -> Command {
    let mut command = tools::cargo();
    command.current_dir(root).env("CLIPPY_CONF_DIR", root.join("core")).arg("clippy");
    for name in crates {
        command.args(["-p", &format!("farlink-{name}")]);
    }
    command.args(["--", "-D", "warnings"]);
    command
}

fn bare_metal() -> Result<()> {
    // A crate that builds without `std` cannot depend on it by accident.
    let installed = tools::output(Command::new("rustc").current_dir(tools::root()).args(["--print", "sysroot"]))?;
    let library = Path::new(installed.trim()).join("lib/rustlib").join(BARE_METAL);
    if !library.exists() {
        // The target is optional: not every machine may install it.
        println!("left out: `rustup target add {BARE_METAL}` adds this check");
        return Ok(());
    }
    let mut command = tools::cargo();
    command.args(["check", "--quiet", "--target", BARE_METAL]);
    for name in CORE {
        command.args(["-p", &format!("farlink-{name}")]);
    }
    tools::run(&mut command)
}

/// Breaks each rule of core in a copy of the tree, and checks that the violation is reported with its advice.
fn prove() -> Result<()> {
    let copy = tools::root().join("target/self-check/tree");
    copy_tree(&copy)?;
    println!("copied the tree to {}", copy.display());

    let library = copy.join("core/base/src/lib.rs");
    // Clippy refuses a clock in the engine only if it finds the configuration of core/ and the crate's attributes.
    let clean = std::fs::read_to_string(&library)?;
    let late = "\n/// Breaks the law.\n#[cfg(clippy)]\npub fn late() -> std::time::Instant {\n    std::time::Instant::now()\n}\n";
    std::fs::write(&library, format!("{clean}{late}"))?;
    let mut command = clippy_command(&copy, &["base"]);
    // The copy gets builds of its own, so that it does not invalidate those of the tree.
    command.env("CARGO_TARGET_DIR", copy.with_file_name("target"));
    let output = command.output().context("cannot run clippy")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "a clock read under core/ went unnoticed");
    ensure!(said.contains("core is sans-I/O: take `now"), "clippy failed without the advice:\n{said}");
    println!("a clock read under core/ fails, and is told: core is sans-I/O: take `now` as an argument");
    std::fs::write(&library, clean)?;

    // The compiler accepts the next two violations; only `layers`, with its checks of sources, finds them.
    let manifest = copy.join("core/cla/Cargo.toml");
    let text = std::fs::read_to_string(&manifest)?;
    let bent = text.replacen("[dependencies]\n", "[dependencies]\nfarlink-bundle.workspace = true\n", 1);
    ensure!(bent != text, "core/cla/Cargo.toml has no [dependencies]");
    std::fs::write(&manifest, bent)?;
    let agent = copy.join("core/bpa/src/agent.rs");
    let clean = std::fs::read_to_string(&agent)?;
    std::fs::write(&agent, format!("{clean}\n/// Breaks the law.\nstruct Knows(Option<Primary>);\n"))?;
    let error = layers::check(&copy).err().context("broken layers went unnoticed")?.to_string();
    ensure!(error.contains("core/cla uses core/bundle"), "an edge from core/cla to core/bundle went unnoticed");
    ensure!(error.contains("names `Primary` of the wire"), "a wire structure in core/bpa went unnoticed");
    println!("{error}");
    std::fs::remove_dir_all(&copy)?;
    println!("self-check: the laws bite");
    Ok(())
}

/// Copies tracked files, and new ones that git does not ignore.
fn copy_tree(to: &Path) -> Result<()> {
    let root = tools::root();
    let listed = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let files = tools::output(Command::new("git").current_dir(&root).args(listed))?;
    // Files of an earlier copy may have been deleted since.
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let (source, target) = (root.join(file), to.join(file));
        if !source.is_file() {
            continue; // deleted, not yet committed
        }
        std::fs::create_dir_all(target.parent().context("a file without a folder")?)?;
        std::fs::copy(&source, &target).with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clippy_applies_core_lints() {
        let command = clippy_command(Path::new("/x"), &["base"]);
        let law = command.get_envs().find(|(key, _)| *key == "CLIPPY_CONF_DIR").and_then(|(_, value)| value);
        assert_eq!(law, Some("/x/core".as_ref()));
        assert!(tools::shown(&command).ends_with("clippy -p farlink-base -- -D warnings"));
        let law = std::fs::read_to_string(tools::root().join("core/clippy.toml")).unwrap();
        for path in ["std::time::Instant::now", "std::thread::spawn", "std::collections::HashMap"] {
            assert!(law.contains(&format!("\"{path}\"")), "{path}");
        }
    }

    #[test]
    fn every_core_crate_is_linted() {
        let folders = std::fs::read_dir(tools::root().join("core")).unwrap();
        let crates = folders.filter_map(|entry| {
            let path = entry.unwrap().path();
            path.join("Cargo.toml").exists().then(|| path.file_name().unwrap().to_string_lossy().into_owned())
        });
        for name in crates {
            assert!(CORE.contains(&name.as_str()), "core/{name} is not in the list of ci");
        }
    }
}

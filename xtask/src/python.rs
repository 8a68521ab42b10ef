//! `cargo xtask python`: builds the Python package as a wheel, installs it into a clean environment, and tests it
//! there.

use crate::{Chore, tools};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CHORE: Chore = Chore {
    name: "python",
    usage: "[--ray] [--wheel]",
    help: "The Python package: its wheel, in an environment of its own, with tests and notebooks.

  --ray      the tests of campaigns over a Ray cluster too; Ray is 70 MB to download
  --wheel    only the wheel, into target/python/wheels

Checks the crate's format and lints, builds the wheel with maturin, installs it with what its tests need, types its sources with mypy, and runs
python/tests, which run the notebooks. Everything lies in target/python; the first run needs the network.
FARLINK_PYTHON names another python3 (3.9 or newer).",
    run,
};

/// Packages that the tests need besides the wheel.
const TESTS: [&str; 4] = ["pytest", "pandas", "polars", "mypy"];

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (ray, only_wheel) = (arguments.flag("--ray"), arguments.flag("--wheel"));
    arguments.rest()?;
    let place = tools::target().join("python");
    // The cheapest checks come first.
    lints()?;
    let wheel = wheel(&place)?;
    println!("{}", wheel.display());
    if only_wheel {
        return Ok(());
    }
    // A clean environment each time: packages installed by hand or by an older wheel would hide missing dependencies.
    let clean = place.join("clean");
    let _ = fs::remove_dir_all(&clean);
    let python = environment(&clean, &TESTS)?;
    let mut install = pip(&python);
    install.arg(&wheel);
    tools::run(install.args(ray.then_some("ray")))?;
    // Run outside of python/, whose sources have no compiled engine beside them.
    let package = tools::root().join("python");
    let mut types = Command::new(&python);
    tools::run(
        types.args(["-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "farlink"]).current_dir(&place),
    )?;
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(package.join("tests")).current_dir(&place);
    tools::run(tests.env("FARLINK_RAY", if ray { "1" } else { "0" }))
}

fn lints() -> Result<()> {
    // The crate has a workspace of its own, so the checks of the root do not reach it.
    let cargo = || {
        let mut cargo = tools::cargo();
        cargo.current_dir(tools::root().join("python"));
        cargo
    };
    tools::run(cargo().args(["fmt", "--check"])).context("hint: run `cargo fmt` in python/")?;
    tools::run(cargo().args(["clippy", "--quiet", "--locked", "--all-targets", "--", "-D", "warnings"]))
}

/// Builds the wheel with maturin in an environment of its own.
fn wheel(place: &Path) -> Result<PathBuf> {
    let python = environment(&place.join("build"), &["maturin>=1.7,<2"])?;
    // Only the wheel built now may be found.
    let wheels = place.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut build = Command::new(&python);
    build.args(["-m", "maturin", "build", "--profile", "quick", "--locked", "--manifest-path"]);
    build
        .arg(tools::root().join("python/Cargo.toml"))
        .arg("--target-dir")
        .arg(tools::target())
        .arg("--out")
        .arg(&wheels);
    tools::run(&mut build)?;
    let found: Vec<PathBuf> = fs::read_dir(&wheels)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    ensure!(found.len() == 1, "maturin left {} files in {}", found.len(), wheels.display());
    found.into_iter().next().context("a wheel")
}

/// Python of a virtual environment with these packages, created if absent.
fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    if !python.exists() {
        let outside = std::env::var_os("FARLINK_PYTHON").unwrap_or_else(|| "python3".into());
        tools::run(Command::new(outside).args(["-m", "venv"]).arg(folder))
            .context("hint: on Debian and Ubuntu, apt-get install python3-venv")?;
        tools::run(pip(&python).args(packages)).context("hint: the first time this needs the network")?;
    }
    Ok(python)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

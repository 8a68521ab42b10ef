//! Installation of peers from registries, each once, into a folder below `target/interop`.

use crate::tools;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const UD3TN_UTILS: &str = "0.15.2";
pub const DTN7: &str = "0.21.0";
/// Version of hardy-tcpclv4 in `tests/peers/hardy/Cargo.toml`.
pub const HARDY: &str = "0.4.0";

pub fn cache() -> Result<PathBuf> {
    let cache = tools::root().join("target/interop");
    fs::create_dir_all(&cache)?;
    Ok(cache)
}

/// Folder with Python, the tools of µD3TN and pyD3TN, in a virtual environment.
pub fn ud3tn_utils(cache: &Path) -> Result<PathBuf> {
    let environment = cache.join(format!("ud3tn-utils-{UD3TN_UTILS}"));
    // The file `complete` is written last, so that an interrupted installation is repeated.
    let (bin, complete) = (environment.join("bin"), environment.join("complete"));
    if complete.exists() {
        return Ok(bin);
    }
    println!("installing ud3tn-utils {UD3TN_UTILS} into {}", environment.display());
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure!(there, "python3 is not installed\nhint: apt-get install python3 python3-venv, or --only dtn7,hardy");
    let made = tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
    made.context("cannot make a Python environment with pip\nhint: apt-get install python3-venv python3-pip")?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).arg(format!("ud3tn-utils=={UD3TN_UTILS}"));
    tools::run(&mut pip).context("cannot install ud3tn-utils\nhint: pip needs the network (or PIP_INDEX_URL)")?;
    File::create(complete)?;
    Ok(bin)
}

/// Folder with dtnd, dtnsend and dtnrecv.
pub fn dtn7(cache: &Path) -> Result<PathBuf> {
    if let Some(bin) = dtn7_there(cache) {
        return Ok(bin);
    }
    let place = cache.join(format!("dtn7-{DTN7}"));
    println!("installing dtn7 {DTN7} into {}; this takes minutes", place.display());
    tools::run(&mut dtn7_install(&place))
        .context("cannot install dtn7\nhint: cargo needs the network, or leave it out with --only")?;
    // Only the programs are needed.
    fs::remove_dir_all(place.join("build"))?;
    Ok(place.join("bin"))
}

fn dtn7_install(place: &Path) -> Command {
    let mut cargo = tools::cargo();
    // With dtn7's own lock file, since newer dependencies do not compile.
    cargo.args(["install", "--quiet", "--locked", "dtn7", "--version", DTN7, "--root"]).arg(place);
    cargo.env("CARGO_TARGET_DIR", place.join("build"));
    cargo
}

/// Folder with the programs of dtn7-rs; `None` if they were not installed before.
pub fn dtn7_there(cache: &Path) -> Option<PathBuf> {
    let bin = cache.join(format!("dtn7-{DTN7}/bin"));
    ["dtnd", "dtnsend", "dtnrecv"].iter().all(|tool| bin.join(tool).exists()).then_some(bin)
}

/// Builds the peer on Hardy's crates from `tests/peers/hardy`.
pub fn hardy(cache: &Path) -> Result<PathBuf> {
    let program = hardy_program(cache);
    let source = tools::root().join("tests/peers/hardy");
    if !program.exists() {
        println!("building {}; this takes minutes", source.display());
    }
    // Cargo rebuilds only after changes.
    let mut cargo = tools::cargo();
    cargo.current_dir(&source).args(["build", "--quiet", "--locked", "--release"]);
    cargo.env("CARGO_TARGET_DIR", cache.join("hardy"));
    tools::run(&mut cargo)
        .context("cannot build the peer\nhint: cargo needs the network, or leave it out with --only")?;
    Ok(program)
}

/// Path of Hardy's program; `None` if it was not built before.
pub fn hardy_there(cache: &Path) -> Option<PathBuf> {
    Some(hardy_program(cache)).filter(|program| program.exists())
}

fn hardy_program(cache: &Path) -> PathBuf {
    cache.join("hardy/release/farlink-hardy-peer")
}

/// Path of a program found on the PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardy_version_matches_its_peer() {
        let manifest = fs::read_to_string(tools::root().join("tests/peers/hardy/Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("hardy-tcpclv4 = \"={HARDY}\"")), "{manifest}");
        assert!(tools::root().join("tests/peers/hardy/Cargo.lock").exists());
    }

    #[test]
    fn dtn7_uses_its_lock_file() {
        let install = dtn7_install(Path::new("/somewhere"));
        let words: Vec<_> = install.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.contains(&"--locked".into()) && words.contains(&DTN7.into()), "{words:?}");
    }

    #[test]
    fn programs_are_searched_on_path() {
        assert!(on_path("sh").is_some() && on_path("no-such-program-here").is_none());
    }
}

//! The program `farlink` that trials start: named by FARLINK_BIN, or built now.

use crate::tools;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Builds `farlink` as `cargo build` does; returns its path.
///
/// # Errors
/// When the program cannot be built.
pub fn build() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("FARLINK_BIN") {
        return Ok(binary.into());
    }
    // Cargo reports the path: it depends on target folder and platform.
    let arguments = ["build", "--quiet", "-p", "farlink", "--bin", "farlink", "--message-format", "json"];
    let output = tools::output(tools::cargo().args(arguments)).context("building farlink")?;
    let messages = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let executables: Vec<String> =
        messages.filter_map(|message| message["executable"].as_str().map(String::from)).collect();
    executables.last().map(PathBuf::from).context("cargo built no farlink")
}

/// The program beside the running test, of the same profile; built if absent.
///
/// # Errors
/// When the program cannot be built.
pub fn beside_tests() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("FARLINK_BIN") {
        return Ok(given.into());
    }
    let mut folder = std::env::current_exe().context("this test has no path")?;
    folder.pop();
    // Test binaries stand in `deps`, programs one folder above.
    if folder.ends_with("deps") {
        folder.pop();
    }
    let binary = folder.join("farlink");
    if !binary.exists() {
        let mut build = tools::cargo();
        build.args(["build", "--quiet", "--package", "farlink"]);
        match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => {}
            Some(profile) => drop(build.args(["--profile", profile])),
        }
        if !build.status()?.success() {
            bail!("`{}` failed", tools::shown(&build));
        }
    }
    Ok(binary)
}

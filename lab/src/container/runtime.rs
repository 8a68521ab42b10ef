//! OCI runtime of this machine.

use anyhow::{Result, bail};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// OCI runtime `crun`, found in `PATH`. Other runtimes cannot start a program without creating control groups.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Path of the program.
    pub path: PathBuf,
    version: String,
}

impl Runtime {
    /// Finds `crun` in `PATH` and asks its version.
    ///
    /// # Errors
    /// If `crun` is not installed.
    pub fn find() -> Result<Runtime> {
        let Some(path) = program("crun") else {
            bail!(
                "containers need the program `crun`\nhint: `apt install crun`, `dnf install crun`; `farlink doctor` tries it"
            );
        };
        let output = Command::new(&path).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let version = text.lines().next().unwrap_or_default().trim_start_matches("crun version ").to_string();
        Ok(Runtime { path, version })
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crun {}", self.version)
    }
}

/// Path of the first program with this name in `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |folder: PathBuf| Some(folder.join(name)).filter(|path: &PathBuf| Path::is_file(path));
    std::env::split_paths(&paths).find_map(found)
}

//! Type of a chore that `cargo xtask NAME` runs.

use anyhow::Result;

/// A chore of `cargo xtask`.
pub struct Chore {
    /// Name on the command line.
    pub name: &'static str,
    /// Arguments, for people.
    pub usage: &'static str,
    /// First line: one sentence about its purpose. Further lines appear with `--help` only.
    pub help: &'static str,
    /// Runs the chore with the arguments after its name.
    pub run: fn(&[String]) -> Result<()>,
}

//! What `cargo xtask NAME` runs.

use anyhow::Result;

/// One chore.
pub struct Chore {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its arguments, for people.
    pub usage: &'static str,
    /// One sentence: what it does; further lines are shown by `--help` only.
    pub help: &'static str,
    /// Does it.
    pub run: fn(&[String]) -> Result<()>,
}

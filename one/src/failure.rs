//! Errors that end a run.

use crate::settings::Mistake;
use std::path::PathBuf;

/// Reason why a run ends without its reports.
#[derive(Debug)]
pub enum Failure {
    /// Error in the settings or in a file that they name.
    Mistake(Mistake),
    /// A report that cannot be written.
    Write(PathBuf, std::io::Error),
}

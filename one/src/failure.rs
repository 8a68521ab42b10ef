//! How runs fail.

use crate::settings::Mistake;
use std::path::PathBuf;

/// How a run ends without its reports.
#[derive(Debug)]
pub enum Failure {
    /// Something in a file that settings name.
    Mistake(Mistake),
    /// A report that cannot be written.
    Write(PathBuf, std::io::Error),
}

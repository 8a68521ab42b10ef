//! Errors in settings files, with their place and a hint.

use std::fmt;
use std::path::{Path, PathBuf};

/// Error in a settings file, or in a file that one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// File and line, if known; line 0 means the whole file.
    pub place: Option<(PathBuf, usize)>,
    /// Description of the error.
    pub what: String,
    /// Suggestion for the user.
    pub hint: String,
}

impl Mistake {
    /// Makes an error without a place.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: None, what: what.into(), hint: hint.into() }
    }
    /// Makes an error for a line of a file.
    pub fn at(file: &Path, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: Some((file.to_path_buf(), line)), ..Mistake::new(what, hint) }
    }
    /// Makes the error for an unreadable file.
    pub fn unreadable(file: &Path, why: &std::io::Error) -> Mistake {
        Mistake::at(file, 0, format!("cannot be read: {why}"), "check its name, and that you may read it")
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((file, 0)) => write!(f, "{}: ", file.display())?,
            Some((file, line)) => write!(f, "{}:{line}: ", file.display())?,
            None => {}
        }
        write!(f, "{}\nhint: {}", self.what, self.hint)
    }
}

impl std::error::Error for Mistake {}

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
    /// Whether the settings are fine, but ask for something that is not imitated.
    pub uncovered: bool,
}

impl Mistake {
    /// Makes an error without a place.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: None, what: what.into(), hint: hint.into(), uncovered: false }
    }
    /// Makes an error for a line of a file.
    pub fn at(file: &Path, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: Some((file.to_path_buf(), line)), ..Mistake::new(what, hint) }
    }
    /// Marks the error as one of settings that ask for something that is not imitated.
    pub fn of_uncovered(self) -> Mistake {
        Mistake { uncovered: true, ..self }
    }
    /// Makes the error for an unreadable file.
    pub fn unreadable(file: &Path, why: &std::io::Error) -> Mistake {
        Mistake::at(file, 0, format!("cannot be read: {why}"), "check its name, and that you may read it")
    }
}

impl Mistake {
    /// Place and description on one line, without the hint.
    pub fn told(&self) -> String {
        match &self.place {
            Some((file, 0)) => format!("{}: {}", file.display(), self.what),
            Some((file, line)) => format!("{}:{line}: {}", file.display(), self.what),
            None => self.what.clone(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.told(), self.hint)
    }
}

impl std::error::Error for Mistake {}

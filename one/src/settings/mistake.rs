//! What is wrong with a settings file, where, and what to try.

use std::fmt;
use std::path::{Path, PathBuf};

/// Something in a settings file, or in a file that one names, that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// File and line, where there is one; line 0: the whole file.
    pub place: Option<(PathBuf, usize)>,
    /// What is wrong.
    pub what: String,
    /// What to try.
    pub hint: String,
}

impl Mistake {
    /// Of no file.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: None, what: what.into(), hint: hint.into() }
    }
    /// Of a line of a file.
    pub fn at(file: &Path, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { place: Some((file.to_path_buf(), line)), ..Mistake::new(what, hint) }
    }
    /// A file that cannot be read.
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

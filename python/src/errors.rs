//! Exceptions for errors of the engine, with the same text and hints.

use farlink_base::ConfigError as Mistake;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(farlink, ConfigError, PyValueError, "A scenario, a campaign or an argument that cannot be used.");
create_exception!(farlink, RunError, PyRuntimeError, "A run that failed.");

/// Creates the exception for all mistakes of a file: it has a line for each with its hint, and the attribute `errors`
/// with their paths, texts and hints. `what` names the file.
pub fn mistakes(py: Python<'_>, what: &str, list: &[Mistake]) -> PyErr {
    let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
    let error = ConfigError::new_err(format!("{what} cannot be run\n{}", lines.join("\n")));
    let parts: Vec<(&str, &str, &str)> =
        list.iter().map(|e| (e.path.as_str(), e.expected.as_str(), e.hint.as_str())).collect();
    // An exception of the conversion itself is raised in place of the error.
    match error.value(py).setattr("errors", parts) {
        Ok(()) => error,
        Err(why) => why,
    }
}

/// Creates the exception for one mistake.
pub fn mistake(text: impl Into<String>) -> PyErr {
    ConfigError::new_err(text.into())
}

/// Creates the exception for a failed run; a mistake in the run's input becomes a `ConfigError`.
pub fn failure(error: anyhow::Error) -> PyErr {
    match error.downcast::<Mistake>() {
        Ok(found) => mistake(found.to_string()),
        Err(error) => RunError::new_err(format!("{error:#}")),
    }
}

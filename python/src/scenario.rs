//! Scenarios in Python: the text, and the folder to which paths are relative.

use crate::errors::{mistake, mistakes};
use farlink_campaign::KeyPath;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Scenario as text, which is checked by `check` and when it is run.
#[pyclass(module = "farlink._engine", subclass)]
#[derive(Clone)]
pub struct Scenario {
    text: String,
    folder: PathBuf,
    /// Name of the scenario in errors.
    source: String,
}

impl Scenario {
    /// Parses and checks the text.
    ///
    /// # Errors
    /// If there are mistakes; the exception has all of them.
    pub fn parsed(&self, py: Python<'_>) -> PyResult<farlink_scenario::Scenario> {
        farlink_scenario::Scenario::parse_in(&self.text, &self.folder).map_err(|list| mistakes(py, &self.source, &list))
    }

    fn table(&self) -> PyResult<Table> {
        self.text.parse().map_err(|why| mistake(format!("{} is not TOML: {why}", self.source)))
    }
    fn keep(&mut self, table: &Table) -> PyResult<()> {
        let text = toml::to_string(table).map_err(|why| mistake(why.to_string()))?;
        // Scenario files have this bound, which must hold for a text that grows by `add`, too.
        if text.len() as u64 > farlink_config::FILE_MAX {
            return Err(mistake("no scenario is longer than 256 MiB"));
        }
        self.text = text;
        Ok(())
    }
}

/// Converts a value from JSON, as the Python side writes it, to TOML.
fn value_of(json: &str) -> PyResult<Value> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|why| mistake(format!("no value of a scenario: {why}\nhint: whole numbers are of 64 bits")))?;
    Value::try_from(value)
        .map_err(|why| mistake(format!("no value of a scenario: {why}\nhint: None has no place in one")))
}

#[pymethods]
impl Scenario {
    #[new]
    #[pyo3(signature = (text, folder = String::new()))]
    fn new(text: String, folder: String) -> Scenario {
        Scenario { text, folder: folder.into(), source: "the scenario".into() }
    }
    /// Reads a file; paths in it are relative to its folder.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Scenario> {
        let source = path.display().to_string();
        let read = farlink_scenario::Scenario::load(&path).map_err(|list| mistakes(py, &source, &list))?;
        Ok(Scenario { text: read.text, folder: path.parent().unwrap_or(Path::new("")).to_path_buf(), source })
    }
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }
    #[getter]
    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
    #[getter]
    fn name(&self) -> PyResult<Option<String>> {
        Ok(self.table()?.get("name").and_then(Value::as_str).map(str::to_string))
    }
    /// Checks the scenario: raises all mistakes as one exception, and returns sentences about doubtful settings.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.parsed(py)?.doubts())
    }
    /// Names of the scenario's nodes, those of groups included.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.parsed(py)?.nodes.into_iter().map(|node| node.name).collect())
    }
    /// Sets the key at a path to a value given as JSON.
    fn set_json(&mut self, path: &str, json: &str) -> PyResult<()> {
        let mut table = self.table()?;
        let value = value_of(json)?;
        KeyPath::parse(path).and_then(|path| path.set(&mut table, &value)).map_err(mistake)?;
        self.keep(&table)
    }
    /// Adds a table, given as JSON, to the list of tables with this name.
    fn add_json(&mut self, name: &str, json: &str) -> PyResult<()> {
        let mut table = self.table()?;
        let value = value_of(json)?;
        match table.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(items) => items.push(value),
            _ => return Err(mistake(format!("`{name}` is no list of tables\nhint: `set` sets a key"))),
        }
        self.keep(&table)
    }
    fn copy(&self) -> Scenario {
        self.clone()
    }
}

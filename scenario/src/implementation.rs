//! Implementation of each node, which the testbed runs: ours, or another one that it has a driver for.

use crate::types::Scenario;
use farlink_config::{Fallback, Input, Key, Kind, Reader, key, other};
use std::path::PathBuf;

/// Name of our own implementation.
pub const FARLINK: &str = "farlink";

const PARAMETERS: Kind = other("table of texts, numbers and flags", "{ routing = \"epidemic\" }");

/// Keys of `[[node]]` for its implementation.
pub const NODE_KEYS: &[Key] = &[
    key(
        "implementation",
        Kind::Text,
        Fallback::Is(FARLINK),
        "The implementation that the testbed runs as this node: `farlink`, or the name of a driver (`farlink lab drivers` lists them). `NAME@FOLDER` takes its programs from that folder, a path from the scenario's, so that two builds can be compared. A simulation runs our node in its place.",
    ),
    key(
        "parameters",
        PARAMETERS,
        Fallback::Absent,
        "Parameters that the driver of the implementation declares, by name.",
    ),
];

/// Implementation of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Implementation {
    /// Name of its driver.
    pub name: String,
    /// Folder with its programs; `None` to search for them.
    pub programs: Option<PathBuf>,
    /// Parameters for the driver: names and values as text.
    pub parameters: Vec<(String, String)>,
}

impl Default for Implementation {
    fn default() -> Self {
        Implementation { name: FARLINK.into(), programs: None, parameters: Vec::new() }
    }
}

impl Implementation {
    /// Whether the node runs Farlink.
    pub fn is_farlink(&self) -> bool {
        self.name == FARLINK
    }
}

impl Scenario {
    /// Whether some node is of another implementation than ours.
    pub fn has_foreign_nodes(&self) -> bool {
        self.nodes.iter().any(|node| !node.implementation.is_farlink())
    }

    /// Whether bundles are counted by their applications, which all implementations and machines outside the testbed
    /// allow, instead of the events of our nodes.
    pub fn counts_by_applications(&self) -> bool {
        self.has_foreign_nodes() || self.nodes.iter().any(|node| node.host.is_outside())
    }
}

/// Reads the implementation of a node.
pub fn implementation(reader: &Reader<'_>) -> Implementation {
    let text = reader.text("implementation").unwrap_or_default();
    let (name, programs) = match text.split_once('@') {
        Some((name, folder)) => (name, Some(folder)),
        None => (text.as_str(), None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // The name becomes part of a path.
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name) {
        reader.fail("implementation", format!("`{name}` names no driver"), "e.g. implementation = \"dtn7-rs\"");
    }
    if programs.is_some_and(|folder| folder.is_empty() || folder.contains(char::is_control)) {
        reader.fail("implementation", "no folder after `@`", "e.g. implementation = \"ion@/opt/ion-4.1.3/bin\"");
    }
    let parameters = reader.custom("parameters", parameters).unwrap_or_default();
    if name == FARLINK && !parameters.is_empty() && reader.given_here("parameters") {
        let hint = "its settings are keys of [[node]], [node.limits] and [node.layer]";
        reader.fail("parameters", "our own node takes no such parameters", hint);
    }
    Implementation { name: name.into(), programs: programs.map(PathBuf::from), parameters }
}

fn parameters(input: Input<'_, '_>) -> Result<Vec<(String, String)>, String> {
    use toml::de::DeValue;
    let mut list = Vec::new();
    for (name, value) in input.table()? {
        let name = name.get_ref().to_string();
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Integer(_) | DeValue::Float(_) => {
                Input::Given(value.get_ref()).number().map_err(|why| format!("`{name}`: {why}"))?.to_string()
            }
            other => return Err(format!("`{name}`: expected text, a number or a flag, found a {}", other.type_str())),
        };
        // Values stand in configuration files, where a line break would begin another command.
        if text.contains(char::is_control) {
            return Err(format!("`{name}`: control characters"));
        }
        list.push((name, text));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(keys: &str) -> Result<Implementation, String> {
        let text = format!("name = \"x\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{keys}\n");
        Scenario::parse(&text)
            .map(|scenario| scenario.nodes[0].implementation.clone())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn implementation_has_name_folder_and_parameters() {
        assert_eq!(parse("").unwrap(), Implementation::default());
        let text = "implementation = \"ion@/opt/ion/bin\"\n\
                    parameters = { flags = 1, words = 2.5, fast = true, mode = \"x y\" }";
        let ion = parse(text).unwrap();
        assert_eq!((ion.name.as_str(), ion.programs), ("ion", Some(PathBuf::from("/opt/ion/bin"))));
        let mut parameters = ion.parameters;
        parameters.sort();
        let expected = [("fast", "true"), ("flags", "1"), ("mode", "x y"), ("words", "2.5")];
        assert_eq!(parameters, expected.map(|(name, value)| (name.to_string(), value.to_string())));
    }

    #[test]
    fn impossible_implementations_are_errors() {
        for (keys, said) in [
            ("implementation = \"\"", "names no driver"),
            ("implementation = \"../x\"", "names no driver"),
            ("implementation = \"a/b\"", "names no driver"),
            ("implementation = \"ion@\"", "no folder after"),
            ("implementation = \"ion\"\nparameters = { a = [1] }", "found a"),
            ("implementation = \"ion\"\nparameters = { a = \"1\\nr rm\" }", "control characters"),
            ("parameters = { a = 1 }", "takes no such parameters"),
        ] {
            let found = parse(keys).unwrap_err();
            assert!(found.contains(said), "{keys}: {found}");
        }
    }

    #[test]
    fn simulation_notes_foreign_implementation() {
        let text = "name = \"x\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
                    implementation = \"ion\"\n";
        let notes = Scenario::parse(text).unwrap().notes_of_simulation();
        assert_eq!(notes, ["Node a is simulated by our node, not ion."]);
    }
}

//! Writer of one event, as a JSON object or a log line.

use crate::names::{self, EventNames};
use farlink_base::{BundleKey, NodeId};
use std::fmt::{Display, Write};

/// Collects the fields of one event.
pub struct FieldWriter<'a> {
    text: String,
    is_json: bool,
    pub(crate) names: &'a EventNames,
}

impl<'a> FieldWriter<'a> {
    pub fn json(names: &'a EventNames) -> Self {
        // Holds most events without growing.
        let mut text = String::with_capacity(256);
        text.push('{');
        FieldWriter { text, is_json: true, names }
    }
    pub fn sentence(names: &'a EventNames, beginning: &str) -> Self {
        FieldWriter { text: beginning.into(), is_json: false, names }
    }
    pub fn is_json(&self) -> bool {
        self.is_json
    }
    pub fn raw(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = match (self.is_json, self.text.len()) {
            // Length 1: only the opening brace, so no comma.
            (true, 1) => write!(self.text, "\"{name}\":{value}"),
            (true, _) => write!(self.text, ",\"{name}\":{value}"),
            (false, _) => write!(self.text, " {name}={value}"),
        };
    }
    pub fn number(&mut self, name: &str, value: u64) {
        self.raw(name, value);
    }
    pub fn text(&mut self, name: &str, value: &str) {
        // JSON quoting also keeps a log line parseable.
        if self.is_json || value.contains([' ', '"']) {
            self.raw(name, serde_json::Value::from(value));
        } else {
            self.raw(name, value);
        }
    }
    pub fn endpoint(&mut self, name: &str, node: NodeId, service: u64) {
        self.text(name, &names::endpoint(node, service));
    }
    pub fn finish(mut self) -> String {
        if self.is_json {
            self.text.push('}');
        }
        self.text
    }
}

/// Identity of a bundle as one word: source, creation time, sequence number and fragment.
pub fn identity(key: &BundleKey) -> String {
    let fragment = key.fragment.map(|(offset, length)| format!("/{offset}+{length}")).unwrap_or_default();
    format!("{}/{}/{}{fragment}", names::endpoint(key.source, key.service), key.time, key.sequence)
}

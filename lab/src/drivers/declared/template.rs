//! Placeholders of driver files: `{{ node.number }}` and other minijinja expressions. An unknown placeholder is an
//! error when the driver is read, a missing value when a node is prepared.

use super::file::{DRIVER_FILE, DriverFile, DriverMistake, Word, line_at};
use anyhow::{Result, anyhow};
use farlink_config::nearest;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;
use std::collections::BTreeSet;

/// Placeholders for the node itself, known in every text.
const NODE: &[&str] = &["node", "node.name", "node.number", "node.id", "node.folder", "node.bundle_version"];
/// Further placeholders of an argument that is repeated for each layer.
const LAYER: &[&str] = &["layer.name", "layer.word", "layer.port"];
/// Further placeholders of an argument that is repeated for each link.
const LINK: &[&str] = &[
    "link.name",
    "link.layer",
    "link.word",
    "link.port",
    "link.address",
    "link.connects",
    "link.rate_bit_s",
    "link.delay_s",
    "link.delay_whole_s",
    "link.delay_ms",
    "link.peer.name",
    "link.peer.number",
    "link.peer.id",
    "link.peer.address",
    "link.peer.port",
];
/// Further placeholders of an argument that is repeated for each node beyond the neighbours.
const ROUTE: &[&str] =
    &["route.name", "route.number", "route.id", "route.via.name", "route.via.number", "route.via.id"];
/// Placeholders of application commands, each with its replacement in the node's file, which `farlink app` fills in
/// later.
pub const APP: &[(&str, &str)] = &[
    ("app.file", "{file}"),
    ("app.source", "{source}"),
    ("app.destination", "{to}"),
    ("app.endpoint", "{endpoint}"),
    ("app.count", "{count}"),
    ("app.size_bytes", "{size}"),
    ("app.lifetime_s", "{lifetime_s}"),
];
/// Placeholders that only files may have: lists for loops, and the text of the contact plan.
const LISTS: &[&str] = &["links", "layers", "services", "routes", "contacts"];

/// Context of a text, which decides what its placeholders may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Command of the node.
    Node,
    /// Argument repeated for each layer.
    Layer,
    /// Argument repeated for each link.
    Link,
    /// Argument repeated for each service with an application.
    Service,
    /// Argument repeated for each node beyond the neighbours.
    Route,
    /// File, with loops over layers and links.
    File,
    /// Command of an application.
    App,
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Texts go into configuration files of all kinds, none of which is HTML.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment
}

/// Fills in the placeholders of a text.
///
/// # Errors
/// A placeholder without a value, or a mistake of the template, with the line within the text.
pub fn render(text: &str, values: &Value) -> Result<String> {
    // The engine drops one line break at the end.
    let whole = if text.ends_with('\n') { format!("{text}\n") } else { text.to_string() };
    environment().render_str(&whole, minijinja::value::Serde(values)).map_err(|why| {
        let number = why.line().unwrap_or(1);
        let line = text.lines().nth(number.saturating_sub(1)).unwrap_or_default();
        anyhow!("`{}` in line {number}: {}", line.trim(), describe(&why))
    })
}

/// Line, from 0, of the first placeholder or loop with a filter.
fn filtered(text: &str) -> Option<usize> {
    let is_filtered = |(at, _): &(usize, &str)| {
        let end = if text[*at..].starts_with("{{") { "}}" } else { "%}" };
        text[*at..].split(end).next().is_some_and(|inside| inside.contains('|'))
    };
    let begins = text.match_indices("{{").chain(text.match_indices("{%"));
    begins.filter(is_filtered).map(|(at, _)| text[..at].matches('\n').count()).min()
}

fn describe(why: &minijinja::Error) -> String {
    match (why.kind(), why.detail()) {
        (ErrorKind::UndefinedError, detail) => format!("a value is missing{}", suffix(detail)),
        (_, Some(detail)) => detail.to_string(),
        (kind, None) => kind.to_string(),
    }
}

fn suffix(detail: Option<&str>) -> String {
    detail.map(|detail| format!(" ({detail})")).unwrap_or_default()
}

/// Checks of all texts of a driver, which also collect the values that the texts use.
pub struct Checks<'a> {
    /// Text of the driver file, for line numbers.
    text: &'a str,
    ports: BTreeSet<String>,
    parameters: BTreeSet<String>,
    used: BTreeSet<String>,
    mistakes: Vec<DriverMistake>,
}

impl<'a> Checks<'a> {
    /// Begins the checks of a driver file.
    pub fn new(text: &'a str, file: &DriverFile) -> Checks<'a> {
        let ports = file.start.ports.iter().map(|port| format!("port.{}", port.get_ref())).collect();
        let parameters = file.parameter.keys().map(|name| format!("parameter.{name}")).collect();
        Checks { text, ports, parameters, used: BTreeSet::new(), mistakes: Vec::new() }
    }

    /// Checks words of the driver file.
    pub fn words<'w>(&mut self, place: Place, words: impl IntoIterator<Item = &'w Word>) {
        for word in words {
            let line = line_at(self.text, word.span().start);
            self.check(place, DRIVER_FILE, line, word.get_ref());
        }
    }

    /// Checks a text that begins at a line of a file of the driver's folder.
    pub fn check(&mut self, place: Place, file: &str, line: usize, text: &str) {
        if let Some(within) = filtered(text) {
            let hint = "templates have no filters: write the value as it is";
            return self.fail(file, line + within, "a placeholder with a filter (`|`)".into(), hint);
        }
        let environment = environment();
        let template = match environment.template_from_str(text) {
            Ok(template) => template,
            Err(why) => {
                let within = why.line().unwrap_or(1).saturating_sub(1);
                let hint = "placeholders are written {{ node.number }}, loops {% for link in links %} ... {% endfor %}";
                return self.fail(file, line + within, describe(&why), hint);
            }
        };
        for name in template.undeclared_variables(true) {
            self.used.insert(name.clone());
            if self.is_known(place, &name) {
                continue;
            }
            let within = text.lines().position(|line| line.contains(&name)).unwrap_or(0);
            let hint = match nearest(&name, self.known(place)) {
                Some(near) => format!("did you mean {{{{ {near} }}}}?"),
                None => "docs/reference/driver.md lists the placeholders of each place".to_string(),
            };
            self.fail(file, line + within, format!("unknown placeholder `{name}`"), &hint);
        }
        // A loop chooses the name of its variable, so its use of these values is found by a search of the text.
        for name in ["peer.address", "peer.port", "layer.port", "link.port"] {
            if text.contains(name) {
                self.used.insert(name.to_string());
            }
        }
    }

    fn is_known(&self, place: Place, name: &str) -> bool {
        self.known(place).any(|known| known == name)
    }

    fn known(&self, place: Place) -> impl Iterator<Item = &str> {
        let more: &[&str] = match place {
            Place::Layer => LAYER,
            Place::Link => LINK,
            Place::File => LISTS,
            Place::Service => &["app.service"],
            Place::Route => ROUTE,
            Place::Node | Place::App => &[],
        };
        let app = APP.iter().map(|(name, _)| *name).filter(move |_| place == Place::App);
        let own = self.ports.iter().chain(&self.parameters).map(String::as_str);
        NODE.iter().chain(more).copied().chain(app).chain(own)
    }

    /// Records a mistake.
    pub fn fail(&mut self, file: &str, line: usize, problem: String, hint: &str) {
        self.mistakes.push(DriverMistake { file: file.into(), line, problem, hint: hint.into() });
    }

    /// Ends with checks of the whole driver: its texts must use every declared port and parameter, the node's port, the
    /// neighbours' addresses and, with several versions of the Bundle Protocol, the version.
    ///
    /// # Errors
    /// All mistakes, in the order of lines.
    pub fn finish(mut self, file: &DriverFile) -> Result<(), Vec<DriverMistake>> {
        for port in &file.start.ports {
            if self.used.contains(&format!("port.{}", port.get_ref())) {
                continue;
            }
            let (line, name) = (line_at(self.text, port.span().start), port.get_ref());
            let hint = format!("write {{{{ port.{name} }}}} where the program takes it, or take the port out");
            self.fail(DRIVER_FILE, line, format!("nothing uses port `{name}`"), &hint);
        }
        for (name, parameter) in &file.parameter {
            if !self.used.contains(&format!("parameter.{name}")) {
                let line = line_at(self.text, parameter.span().start);
                let hint = format!("write {{{{ parameter.{name} }}}} where the program takes it");
                self.fail(DRIVER_FILE, line, format!("nothing uses parameter `{name}`"), &hint);
            }
        }
        let line = line_at(self.text, file.start.run.span().start);
        let uses = |names: &[&str]| names.iter().any(|name| self.used.contains(*name));
        let mut missing = Vec::new();
        if !uses(&["layer.port", "link.port"]) {
            missing.push(("layer.port", "the node would listen where nobody looks"));
        }
        if !uses(&["link.peer.address", "peer.address"]) {
            missing.push(("link.peer.address", "the node would not know its neighbours"));
        }
        for (name, why) in missing {
            let hint = format!("use {{{{ {name} }}}} in start.run, start.each or a file");
            self.fail(DRIVER_FILE, line, format!("nothing uses `{name}`: {why}"), &hint);
        }
        if file.bundles.get_ref().len() > 1 && !self.used.contains("node.bundle_version") {
            let line = line_at(self.text, file.bundles.span().start);
            let hint = "write {{ node.bundle_version }} where the program takes it, or one version in `bundles`";
            self.fail(DRIVER_FILE, line, "nothing uses `node.bundle_version`".into(), hint);
        }
        self.mistakes.sort_by_key(|mistake| (mistake.file != DRIVER_FILE, mistake.line));
        if self.mistakes.is_empty() { Ok(()) } else { Err(self.mistakes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders_take_values() {
        let values = json!({ "node": { "number": 7 }, "links": [{ "name": "a" }, { "name": "b" }] });
        assert_eq!(render("ipn:{{ node.number }}.0", &values).unwrap(), "ipn:7.0");
        let list = "{% for link in links %}a plan {{ link.name }} <&>\n{% endfor %}";
        assert_eq!(render(list, &values).unwrap(), "a plan a <&>\na plan b <&>\n");
        assert_eq!(render("kept {file} as it is\n", &values).unwrap(), "kept {file} as it is\n");
    }

    #[test]
    fn missing_value_is_error_with_line() {
        let values = json!({ "links": [{ "name": "a" }] });
        let why = render("x\n{% for link in links %}{{ link.prot }}{% endfor %}", &values).unwrap_err().to_string();
        assert!(why.contains("{{ link.prot }}") && why.contains("in line 2") && why.contains("missing"), "{why}");
        assert!(render("{{ node.number }}", &values).is_err());
    }
}

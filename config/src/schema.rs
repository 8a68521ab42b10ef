//! Generator of JSON schemas from declared keys, for editors that complete and check TOML files.

use crate::keys::{Fallback, Key, Kind, Section};
use farlink_base::{Setting, Unit};
use std::fmt::Write;

/// JSON schema of a file: its top table, and the sections to which keys refer. Sections with equal names are
/// alternatives.
pub fn schema(title: &str, top: &Section, sections: &[&Section]) -> String {
    let mut out = format!(
        "{{\n\"$schema\": \"http://json-schema.org/draft-07/schema#\",\n\"title\": {},\n{},\n\"definitions\": {{",
        quoted(title),
        members(top)
    );
    let mut names: Vec<&str> = sections.iter().map(|section| section.name).collect();
    // Several layers share a section name: `dedup` needs equal names side by side.
    names.sort_unstable();
    names.dedup();
    for (place, name) in names.iter().enumerate() {
        let same = sections.iter().filter(|section| section.name == *name);
        let tables: Vec<String> = same.map(|section| format!("{{{}}}", members(section))).collect();
        let table =
            if let [one] = &tables[..] { one.clone() } else { format!("{{\"anyOf\": [{}]}}", tables.join(",\n")) };
        let _ = write!(out, "{}\n{}: {table}", if place > 0 { "," } else { "" }, quoted(name));
    }
    out + "\n}\n}\n"
}

/// Members of the JSON object that describes a table.
fn members(section: &Section) -> String {
    let keys: Vec<String> = section.keys.iter().map(|key| format!("{}: {}", quoted(key.name), value(key))).collect();
    let required = section.keys.iter().filter(|key| key.default == Fallback::Required);
    let required: Vec<String> = required.map(|key| quoted(key.name)).collect();
    // A policy's parameters stand beside its name, and depend on it, so any other key is allowed.
    let others = matches!(section.name, "router" | "control");
    format!(
        "\"type\": \"object\", \"description\": {}, \"additionalProperties\": {others}, \"required\": [{}], \
         \"properties\": {{\n{}\n}}",
        quoted(section.help),
        required.join(", "),
        keys.join(",\n")
    )
}

fn value(key: &Key) -> String {
    let default = match key.default {
        Fallback::Is(text) if is_bare(key.kind) => format!(", \"default\": {text}"),
        Fallback::Is(text) => format!(", \"default\": {}", quoted(text)),
        _ => String::new(),
    };
    let kind = kind(key.kind);
    let separator = if kind.is_empty() { "" } else { ", " };
    format!("{{{kind}{separator}\"description\": {}{default}}}", quoted(key.help))
}

/// Whether a value of this kind is written without quotes in JSON.
fn is_bare(kind: Kind) -> bool {
    match kind {
        Kind::Count(..) | Kind::Flag | Kind::Share => true,
        Kind::Setting(setting) => !setting.unit.is_quoted(),
        _ => false,
    }
}

fn kind(kind: Kind) -> String {
    let table = |name: &str| format!("\"$ref\": {}", quoted(&format!("#/definitions/{name}")));
    match kind {
        Kind::Text | Kind::Name | Kind::File | Kind::Duration | Kind::Rate | Kind::Volume => text(),
        Kind::Count(min, max) => count(min, max),
        // A percentage is a string.
        Kind::Share => "\"type\": [\"number\", \"string\"]".into(),
        Kind::Flag => flag(),
        Kind::Choice(words) => choice(words),
        Kind::Choices(words) => format!("\"type\": \"array\", \"items\": {{{}}}", choice(words)),
        Kind::Setting(setting) => of_setting(&setting),
        Kind::Table(name) => format!("\"allOf\": [{{{}}}]", table(name)),
        // An array of tables, or tables by name such as `[link.NAME]` of node files.
        Kind::Tables(name) => format!(
            "\"anyOf\": [{{\"type\": \"array\", \"items\": {{{0}}}}}, {{\"type\": \"object\", \"additionalProperties\": {{{0}}}}}]",
            table(name)
        ),
        // TOML has a type for times, and readers interpret the other kinds: any value is accepted.
        Kind::Time | Kind::Other { .. } => String::new(),
    }
}

fn of_setting(setting: &Setting) -> String {
    match setting.unit {
        Unit::Count => count(setting.min, setting.max),
        Unit::Flag => flag(),
        Unit::Choice(words) => choice(words),
        Unit::Bytes | Unit::Nanoseconds | Unit::Offset => text(),
    }
}

fn text() -> String {
    "\"type\": \"string\"".into()
}
fn flag() -> String {
    "\"type\": \"boolean\"".into()
}
fn count(min: u64, max: u64) -> String {
    format!("\"type\": \"integer\", \"minimum\": {min}, \"maximum\": {max}")
}
fn choice(words: &[&str]) -> String {
    format!("\"enum\": [{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::key;

    #[test]
    fn keys_become_properties_of_a_schema() {
        const INNER: Section = Section { name: "inner", help: "A \"table\".", keys: &[] };
        const TOP: Section = Section {
            name: "top",
            help: "All.",
            keys: &[
                key("on", Kind::Flag, Fallback::Is("true"), "Whether."),
                key("size", Kind::Volume, Fallback::Required, "How much."),
                key("inner", Kind::Table("inner"), Fallback::Absent, "More."),
                key("many", Kind::Count(1, 9), Fallback::Is("3"), "How many."),
            ],
        };
        let made = schema("File", &TOP, &[&INNER]);
        for line in [
            "\"on\": {\"type\": \"boolean\", \"description\": \"Whether.\", \"default\": true},",
            "\"size\": {\"type\": \"string\", \"description\": \"How much.\"},",
            "\"inner\": {\"allOf\": [{\"$ref\": \"#/definitions/inner\"}], \"description\": \"More.\"},",
            "\"many\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9, \"description\": \"How many.\", \"default\": 3}",
        ] {
            assert!(made.lines().any(|made| made == line), "{line}\n{made}");
        }
        assert!(
            made.contains("\"required\": [\"size\"]") && made.contains("\"inner\": {\"type\": \"object\""),
            "{made}"
        );
        assert!(made.contains("A \\\"table\\\"."));
    }
}

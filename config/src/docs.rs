//! Generator of reference pages from declared keys.

use crate::input::{example, list};
use crate::keys::{Fallback, Key, Kind, Section};
use farlink_base::{Param, Setting, Unit};
use std::fmt::Write;

/// Writes a section as Markdown: its help, and a table of its keys.
pub fn write_section(out: &mut String, title: &str, section: &Section) {
    let _ = writeln!(out, "## {title}\n\n{}\n", section.help);
    out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in section.keys {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", key.name, kind(key.kind), fallback(key), cell(key.help));
    }
    out.push('\n');
}

/// Writes routers or controls with their parameters as Markdown.
pub fn write_policies<'a>(
    out: &mut String,
    title: &str,
    policies: impl Iterator<Item = (&'a str, &'a str, &'a [Param])>,
) {
    let _ = writeln!(out, "## {title}\n\n| name | what it does | parameters (default) |\n|---|---|---|");
    for (name, help, params) in policies {
        let one = |p: &Param| {
            let unit = if p.unit.is_empty() { String::new() } else { format!(" {}", p.unit) };
            format!("`{}` ({}{unit}): {}", p.name, p.default, p.help)
        };
        let params: Vec<String> = params.iter().map(one).collect();
        let _ = writeln!(out, "| `{name}` | {} | {} |", cell(help), cell(&params.join("<br>")));
    }
    out.push('\n');
}

/// Writes keys as lines of TOML, each with its default or an example, and its help.
pub fn write_toml(out: &mut String, keys: &[Key]) {
    for key in keys {
        let value = match (key.kind, key.default) {
            // Nested tables have sections of their own.
            (Kind::Table(_) | Kind::Tables(_), _) => continue,
            (kind, Fallback::Is(text)) if quoted(kind) => format!("\"{text}\""),
            (_, Fallback::Is(text)) => text.to_string(),
            (kind, _) => example(kind),
        };
        // Unlike the Markdown table, TOML has no column for required keys.
        let required = if key.default == Fallback::Required { "Required. " } else { "" };
        let words = words(key.kind).map_or(String::new(), |words| format!(" One of: {}.", words.join(", ")));
        let _ = writeln!(out, "{:<33} # {required}{}{words}", format!("{} = {value}", key.name), key.help);
    }
}

/// Words that are allowed as the value; `None` if other values are allowed, too.
fn words(kind: Kind) -> Option<&'static [&'static str]> {
    match kind {
        Kind::Choice(words) => Some(words),
        Kind::Setting(Setting { unit: Unit::Choice(words), .. }) => Some(words),
        _ => None,
    }
}

fn quoted(kind: Kind) -> bool {
    match kind {
        Kind::Count(..) | Kind::Share | Kind::Flag | Kind::Choices(_) => false,
        Kind::Setting(setting) => setting.unit.is_quoted(),
        Kind::Other { example, .. } => example.starts_with('"'),
        _ => true,
    }
}

/// Escapes text for a cell of a Markdown table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn kind(kind: Kind) -> String {
    // The anchor of a heading has no dots.
    let link = |name: &str| format!("[{name}](#{})", name.replace('.', ""));
    match kind {
        Kind::Text => "text".into(),
        Kind::Name => "name".into(),
        Kind::File => "file, relative to this one".into(),
        Kind::Duration => "duration".into(),
        Kind::Rate => "rate".into(),
        Kind::Volume => "volume".into(),
        Kind::Time => "UTC time".into(),
        Kind::Count(min, max) => count(min, max),
        Kind::Share => "0 to 1, or `\"0.1 %\"`".into(),
        Kind::Flag => "`true` or `false`".into(),
        Kind::Choice(words) => format!("one of {}", list(words)),
        Kind::Choices(words) => format!("list of {}", list(words)),
        Kind::Setting(setting) => setting_kind(&setting),
        Kind::Table(name) => format!("table {}", link(name)),
        Kind::Tables(name) => format!("tables {}", link(name)),
        Kind::Other { what, .. } => what.into(),
    }
}

fn setting_kind(setting: &Setting) -> String {
    match setting.unit {
        Unit::Count => count(setting.min, setting.max),
        Unit::Bytes => "volume".into(),
        Unit::Nanoseconds => "duration".into(),
        Unit::Offset => "duration, with its sign".into(),
        Unit::Flag => "`true` or `false`".into(),
        Unit::Choice(words) => format!("one of {}", list(words)),
    }
}

fn count(min: u64, max: u64) -> String {
    // Upper bounds this large are technical, of no interest to a reader.
    if max >= u64::from(u32::MAX) {
        format!("whole number from {min}")
    } else {
        format!("whole number, {min} to {max}")
    }
}

fn fallback(key: &Key) -> String {
    match key.default {
        Fallback::Required => "**required**".into(),
        Fallback::Absent => "".into(),
        // An empty text between backquotes would not be shown.
        Fallback::Is("") => "empty".into(),
        Fallback::Is(text) => format!("`{text}`"),
    }
}

/// Replaces the text between two markers (`<!-- keys:begin -->`, `<!-- keys:end -->`) of a page; `None` if the page
/// lacks them.
pub fn replace_between(page: &str, marker: &str, with: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {marker}:begin -->\n"), format!("<!-- {marker}:end -->"));
    let from = page.find(&begin)? + begin.len();
    let to = from + page.get(from..)?.find(&end)?;
    Some(format!("{}{with}{}", &page[..from], &page[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::key;

    const KEYS: &[Key] = &[
        key("id", Kind::Other { what: "a number", example: "7" }, Fallback::Required, "Which."),
        key("wait", Kind::Duration, Fallback::Is("2 ms"), "How long."),
        key("on", Kind::Flag, Fallback::Is("true"), "Whether a|b."),
        key("more", Kind::Table("more"), Fallback::Absent, "A table."),
    ];

    #[test]
    fn keys_become_markdown_and_toml() {
        let mut page = String::new();
        write_section(&mut page, "Top", &Section { name: "top", help: "Help.", keys: KEYS });
        for line in [
            "| `id` | a number | **required** | Which. |",
            "| `wait` | duration | `2 ms` | How long. |",
            "| `on` | `true` or `false` | `true` | Whether a\\|b. |",
            "| `more` | table [more](#more) |  | A table. |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        let mut toml = String::new();
        write_toml(&mut toml, KEYS);
        let squeezed: Vec<String> = toml.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(squeezed, ["id = 7 # Required. Which.", "wait = \"2 ms\" # How long.", "on = true # Whether a|b."]);
    }

    #[test]
    fn only_text_between_markers_changes() {
        let page = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n";
        let replaced = replace_between(page, "x", "new\n").unwrap();
        assert_eq!(replaced, "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb\n");
        assert_eq!(replace_between(page, "y", ""), None);
    }
}

//! Marks of standards' rules in Rust files: comments with the numbers of rules, at the code that keeps them.

use crate::sources;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Places that keep rules, by the rules' numbers.
pub type Marks = BTreeMap<String, Kept>;

/// Places that keep one rule.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Places in code.
    pub code: Vec<Place>,
    /// Tests of the rule.
    pub tests: Vec<Place>,
}

/// A place in the code. It has no line number, since that changes with every edit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// File, relative to the repository's root.
    pub file: String,
    /// Innermost item, if any.
    pub item: String,
}

/// Reads the marks of all Rust files of the tree; malformed ones are added to `wrong`.
///
/// # Errors
/// When a file cannot be read.
pub fn read_all(root: &Path, wrong: &mut Vec<String>) -> Result<Marks> {
    let mut marks = Marks::new();
    let enter = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // The tools keep no rule of a standard, but their tests contain examples of marks.
        let tools = ["xtask", "trials"];
        !(name.starts_with('.') || name.starts_with("target") || tools.iter().any(|tool| name == *tool))
    };
    sources::each_source(root, &enter, &mut |path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        read(&text, &file, &mut marks, wrong);
        Ok(())
    })?;
    for kept in marks.values_mut() {
        for places in [&mut kept.code, &mut kept.tests] {
            places.sort();
            places.dedup();
        }
    }
    Ok(marks)
}

fn read(text: &str, file: &str, marks: &mut Marks, wrong: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (at, line) in lines.iter().enumerate() {
        let (list, test) = match (line.strip_prefix("/// Keeps "), line.strip_prefix("// ")) {
            (Some(list), _) => (list, true),
            (None, Some(list)) => (list, false),
            (None, None) => continue,
        };
        let Some(ids) = ids(list) else {
            if test && list.split(' ').any(|word| is_id(word.trim_end_matches(['.', ',']))) {
                // Only lines that begin like a list of rules are marks; others are prose.
                wrong.push(format!("{file}:{}: what a test keeps are numbers of rules joined by commas", at + 1));
            }
            continue;
        };
        let item = if test { test_after(&lines, at) } else { Some(item_of(&lines, at)) };
        let Some(item) = item else {
            wrong.push(format!("{file}:{}: no test follows what it says it keeps", at + 1));
            continue;
        };
        for id in ids {
            let kept = marks.entry(id.to_string()).or_default();
            let places = if test { &mut kept.tests } else { &mut kept.code };
            places.push(Place { file: file.to_string(), item: item.clone() });
        }
    }
}

/// Numbers of rules from a list joined by commas; `None` if it contains anything else.
pub fn ids(list: &str) -> Option<Vec<&str>> {
    let ids: Vec<&str> = list.trim_end_matches(['.', ',']).split(", ").collect();
    ids.iter().all(|id| is_id(id)).then_some(ids)
}

/// Whether a line is empty, a comment or an attribute, and thus belongs to the next item.
pub fn is_about_items(line: &str) -> bool {
    line.is_empty() || line.starts_with("//") || line.starts_with("#[")
}

/// Name of the test after a line of its doc comment.
fn test_after(lines: &[&str], at: usize) -> Option<String> {
    let mut behind = lines[at + 1..].iter();
    let mut tested = false;
    behind
        .by_ref()
        .find_map(|line| {
            tested |= line.starts_with("#[test]");
            (!is_about_items(line)).then(|| item(line).filter(|(word, _)| tested && *word == "fn"))
        })?
        .map(|(_, name)| name.to_string())
}

/// Name of the item that follows a mark or, inside a body, of the enclosing item; empty outside of items.
fn item_of(lines: &[&str], at: usize) -> String {
    // A mark inside a body stands before a statement: the nearest item above is the one around it.
    let next = lines[at + 1..].iter().find(|line| !is_about_items(line));
    let around = || lines[..at].iter().rev().find_map(|line| item(line));
    next.and_then(|line| item(line)).or_else(around).map(|(_, name)| name.to_string()).unwrap_or_default()
}

/// Kind and name of the item that a line begins.
fn item(line: &str) -> Option<(&str, &str)> {
    const BEFORE: [&str; 5] = ["pub", "const", "async", "unsafe", "extern"];
    const ITEMS: [&str; 6] = ["fn", "struct", "enum", "trait", "static", "const"];
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once(' ')?;
        let opens = BEFORE.contains(&word) || word.starts_with("pub(");
        let name = after.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().filter(|name| !name.is_empty());
        // `const fn` is a function, `const NAME:` a constant.
        if ITEMS.contains(&word) && !(opens && name == Some("fn")) {
            return name.map(|name| (word, name));
        }
        if !opens {
            return None;
        }
        rest = after;
    }
}

/// Whether this is a rule's number: standard, section, and position within it.
pub fn is_id(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Four digits: the number of an RFC.
    let mut parts = text.split('-');
    let (rfc, section, number) = (parts.next(), parts.next(), parts.next());
    rfc.is_some_and(|rfc| rfc.len() == 4 && digits(rfc))
        && section.is_some_and(|section| section.split('.').all(digits))
        && number.is_some_and(digits)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rule_numbers_are_ids() {
        assert!(["9171-4-1", "5326-3.2.2-10"].into_iter().all(is_id));
        let others = ["2026-11", "9171-4.1", "9171-4..1-1", "171-4-1", "9171-4-1-1", "9171-4-x", "", "9171--1"];
        assert!(!others.into_iter().any(is_id));
    }

    fn marks(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut marks, mut wrong) = (Marks::new(), Vec::new());
        read(text, "a.rs", &mut marks, &mut wrong);
        let shown = |id: &String, test: bool, place: &Place| {
            format!("{id} {} {}", if test { "test" } else { "code" }, place.item)
        };
        let all = marks.iter().flat_map(|(id, kept)| {
            let code = kept.code.iter().map(move |place| shown(id, false, place));
            code.chain(kept.tests.iter().map(move |place| shown(id, true, place)))
        });
        (all.collect(), wrong)
    }

    #[test]
    fn mark_belongs_to_nearest_item() {
        let before =
            "/// Doc.\n // 9171-1-1\n#[inline]\npub(super) const fn one<T>() {\n    // 9171-1-2\n    let a = 1;\n}";
        assert_eq!(marks(before).0, ["9171-1-1 code one", "9171-1-2 code one"]);
        let field =
            "pub struct Two {\n    /// Doc.\n    // 9171-1-1\n    pub field: u8,\n}\n// 9171-1-2\nconst X: u8 = 1;";
        assert_eq!(marks(field).0, ["9171-1-1 code Two", "9171-1-2 code X"]);
        assert_eq!(marks("// 9171-1-1\n").0, ["9171-1-1 code "]);
        assert_eq!(marks("// 9171-1-1,\n// 9171-1-2\npub enum E {}").0, ["9171-1-1 code E", "9171-1-2 code E"]);
    }

    #[test]
    fn only_keeps_lines_mark_tests() {
        let test = "/// A sentence.\n/// Keeps 9171-1-1, 9171-1-2.\n#[test]\n#[ignore = \"long\"]\nfn it_holds() {}";
        assert_eq!(marks(test), (vec!["9171-1-1 test it_holds".into(), "9171-1-2 test it_holds".into()], vec![]));
        for text in ["// RFC 9171 4.1-2\nfn a() {}", "// 9171-1-1 is kept\nfn a() {}", "/// Keeps his word.\nfn a() {}"]
        {
            assert_eq!(marks(text), (vec![], vec![]), "{text}");
        }
        let (kept, wrong) = marks("/// Keeps 9171-1-1.\nfn a() {}\n/// Keeps 9171-1-2.\nstruct B;");
        assert_eq!((kept.len(), wrong.len()), (0, 2));
        for list in ["9171-1-1 and 9171-1-2.", "9171-1-1, 9171-1.2.", "rule 9171-1-1."] {
            let (kept, wrong) = marks(&format!("/// Keeps {list}\n#[test]\nfn a() {{}}"));
            assert_eq!((kept.len(), wrong.len()), (0, 1), "{list}");
        }
    }
}

//! Mutants that may survive, with reasons.

use super::sites::Site;
use anyhow::{Context, Result};

/// A mutant that may survive.
#[derive(Debug)]
pub struct Accepted {
    kind: String,
    /// Suffix of the item's path.
    item: String,
    /// Code of the mutated statement.
    text: String,
    /// Reason why the mutant may survive.
    pub why: String,
}
impl Accepted {
    /// Whether this entry describes `site`.
    pub fn is_of(&self, site: &Site) -> bool {
        let item = site.item.strip_suffix(self.item.as_str());
        site.kind.word() == self.kind
            // A suffix matches whole segments of the path only.
            && site.text == self.text
            && item.is_some_and(|before| before.is_empty() || before.ends_with("::"))
    }
}

/// All entries of the list.
///
/// # Errors
/// When the list is not TOML, or an entry lacks a key.
pub fn all() -> Result<Vec<Accepted>> {
    let parsed: toml::Table = include_str!("accepted.toml").parse()?;
    let rows = parsed.get("accepted").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let row = |row: &toml::Value| {
        let word = |name: &str| row.get(name).and_then(toml::Value::as_str).map(String::from);
        let needed = |name: &str| word(name).with_context(|| format!("a row of accepted.toml has no `{name}`: {row}"));
        Ok(Accepted {
            kind: word("kind").unwrap_or_else(|| "calls".into()),
            item: needed("item")?,
            text: needed("text")?,
            why: needed("why")?,
        })
    };
    rows.iter().map(row).collect()
}

//! Tables of rules, one file for each standard.

use anyhow::{Context, Result, bail, ensure};
use farlink_trials::marks::is_id;
use std::collections::BTreeSet;
use std::path::Path;

/// Most words of a quote.
const QUOTE_WORDS: usize = 14;

/// The rules of one standard.
#[derive(Debug)]
pub struct Table {
    /// Number of the RFC.
    pub rfc: u32,
    /// Subject of the standard, for headings.
    pub title: String,
    /// Rules in the order of the standard's sections.
    pub rules: Vec<Rule>,
}

/// A rule of a standard.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Standard, section, and number within the section: `9171-4.1-2`.
    pub id: String,
    /// Strength in the standard's own word; `procedure` for a step of a procedure.
    pub level: String,
    /// A few words of the standard's own sentence.
    pub quote: Option<String>,
    /// The rule in our words.
    pub says: String,
    /// Configuration key on which the rule depends, with the key's default.
    pub setting: Option<String>,
    /// Behaviour of the node, and its reason, where the rule is advice (SHOULD, RECOMMENDED).
    pub does: Option<String>,
    /// Reason why the rule's tests cannot notice any mutant of the marked code.
    pub no_mutant: Option<String>,
    /// Reason why the rule is not kept, or does not concern a node.
    pub except: Option<String>,
    /// Whether the rule is to be kept later.
    pub later: bool,
}

/// Reads all tables of a folder, sorted by RFC number.
///
/// # Errors
/// The file that is not a table, and the reason.
pub fn read_all(folder: &Path) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        // `--mutants` writes this file; it is no table of rules.
        if path.file_name().is_some_and(|name| name == "mutants.toml") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some(rfc) = name.strip_prefix("rfc").and_then(|number| number.parse().ok()) else {
            bail!("{}: a table is called rfc<number>.toml", path.display());
        };
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        tables.push(parse(rfc, &text).with_context(|| path.display().to_string())?);
    }
    tables.sort_by_key(|table| table.rfc);
    Ok(tables)
}

fn parse(rfc: u32, text: &str) -> Result<Table> {
    let mut table: toml::Table = text.parse()?;
    let title = word(&mut table, "title")?;
    let Some(toml::Value::Array(rows)) = table.remove("rules") else { bail!("it has no `rules`") };
    let (mut rules, mut ids) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let toml::Value::Table(mut row) = row else { bail!("a rule is a table") };
        let (id, level, says) = (word(&mut row, "id")?, word(&mut row, "level")?, word(&mut row, "says")?);
        let except = optional(&mut row, "except")?;
        let (quote, setting) = (optional(&mut row, "quote")?, optional(&mut row, "setting")?);
        let (does, no_mutant) = (optional(&mut row, "does")?, optional(&mut row, "no_mutant")?);
        let later = row.remove("later").is_some_and(|later| later.as_bool() == Some(true));
        // Unknown keys are errors: a misspelt `except` would go unnoticed.
        ensure!(row.is_empty(), "{id}: `{}` is no key of a rule", row.keys().next().unwrap_or(&id));
        ensure!(is_id(&id) && id.starts_with(&format!("{rfc}-")), "`{id}` is no number of a rule of RFC {rfc}");
        ensure!(ids.insert(id.clone()), "{id} is there twice");
        let words = quote.as_deref().map_or(0, |quote| quote.split_whitespace().count());
        // Short quotes only: the text belongs to the standard.
        ensure!(words <= QUOTE_WORDS, "{id}: a quote has at most {QUOTE_WORDS} words");
        ensure!(does.is_none() || is_advice(&level), "{id}: only advice has `does`: what is done and why");
        rules.push(Rule { id, level, quote, says, setting, does, no_mutant, except, later });
    }
    ensure!(table.is_empty(), "`{}` is no key of a table of rules", table.keys().next().unwrap_or(&title));
    Ok(Table { rfc, title, rules })
}

/// Whether a level is advice: such a rule may have `does` instead of marks.
fn is_advice(level: &str) -> bool {
    ["SHOULD", "RECOMMENDED", "should", "recommended"].iter().any(|word| level.starts_with(word))
}

fn optional(table: &mut toml::Table, key: &str) -> Result<Option<String>> {
    if table.contains_key(key) { word(table, key).map(Some) } else { Ok(None) }
}

fn word(table: &mut toml::Table, key: &str) -> Result<String> {
    match table.remove(key) {
        Some(toml::Value::String(text)) if !text.trim().is_empty() => Ok(text),
        _ => bail!("`{key}` is missing or no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_errors_are_reported() {
        let rule = |fields: &str| format!("title = \"t\"\nrules = [{{ {fields} }}]");
        let good = "id = \"9171-1-1\", level = \"MUST\", says = \"Do.\"";
        assert_eq!(parse(9171, &rule(good)).unwrap().rules[0].says, "Do.");
        for (text, why) in [
            (rule("id = \"9171-1-1\", level = \"MUST\""), "`says` is missing"),
            (rule(&good.replace("9171-1", "9172-1")), "no number of a rule of RFC 9171"),
            (rule(&format!("{good}, expect = \"x\"")), "`expect` is no key"),
            (rule(&format!("{good} }}, {{ {good}")), "is there twice"),
            (rule(&format!("{good}, does = \"It does.\"")), "only advice has `does`"),
            (rule(&format!("{good}, quote = \"{}\"", "word ".repeat(15))), "a quote has at most 14 words"),
            (format!("{}\nmore = 1", rule(good)), "`more` is no key"),
            ("title = \"t\"".into(), "it has no `rules`"),
        ] {
            let error = parse(9171, &text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

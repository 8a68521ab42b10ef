//! `cargo xtask conformance`: maps each rule of the standards to the code that keeps it and the tests that show this.
//!
//! The rules of a standard are a table, `docs/conformance/rfc<number>.toml`, in words of our own. Code refers to a rule
//! by a comment that is nothing but numbers of rules (`// 9171-4.1-2, 9171-4.1-3`), before the item or the line that
//! keeps them; a test by a line of its doc comment (`/// Keeps 9171-4.1-2.`). Both together make the page
//! `docs/reference/conformance.md`.

mod mutants;
mod page;
mod quotes;
mod table;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail, ensure};
use farlink_trials::marks;
use std::path::Path;

pub const CHORE: Chore = Chore {
    name: "conformance",
    usage: "[--check] [--rfc FOLDER] [--mutants [--only RULE]]",
    help: "Writes docs/reference/conformance.md: each rule of the standards, who keeps it, and its tests.\n\
        --check compares instead. Rules are in docs/conformance; code and tests name them in comments.\n\
        --mutants plants mutants under the marks of each rule, of which its tests must notice one, and writes down which;\n\
        --only RULE those of one rule, or of those whose numbers begin so.\n\
        --rfc FOLDER looks each quote up in the standards' texts, FOLDER/rfc9171.txt and so on, where they are.",
    run,
};

const PAGE: &str = "docs/reference/conformance.md";
/// Least share of kept rules that have a test, percent.
const TESTED_PERCENT: usize = 80;

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let compare = arguments.flag("--check");
    let texts = arguments.word("--rfc")?;
    let (planted, only) = (arguments.flag("--mutants"), arguments.word("--only")?);
    arguments.rest()?;
    if planted {
        return mutants::run(&tools::root(), only.unwrap_or_default());
    }
    if let Some(folder) = texts {
        return quotes::check(&tools::root(), Path::new(folder));
    }
    if compare { check(&tools::root()) } else { write(&tools::root()) }
}

/// Writes the page from tables and marks.
///
/// # Errors
/// All disagreements between tables and marks.
pub fn write(root: &Path) -> Result<()> {
    std::fs::write(root.join(PAGE), made(root)?).with_context(|| format!("cannot write {PAGE}"))?;
    println!("{PAGE} is up to date");
    Ok(())
}

/// Checks that tables and marks agree, and that the page is up to date.
///
/// # Errors
/// All disagreements, or a page that differs.
pub fn check(root: &Path) -> Result<()> {
    let made = made(root)?;
    let there = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    ensure!(made == there, "{PAGE} is not up to date\nhint: run `cargo xtask conformance`");
    println!("every rule is kept, excepted or put off, and {PAGE} says so");
    Ok(())
}

fn made(root: &Path) -> Result<String> {
    let tables = table::read_all(&root.join("docs/conformance"))?;
    let mut wrong = Vec::new();
    let marks = marks::read_all(root, &mut wrong)?;
    let standings = standings(&tables, &marks, &mut wrong);
    // All errors are reported at once: a table is corrected in one go.
    if !wrong.is_empty() {
        let mut text = String::from("the tables in docs/conformance and the marks in code do not agree:");
        wrong.iter().for_each(|line| text += &format!("\n  {line}"));
        bail!("{text}");
    }
    let all: Vec<&Standing> = standings.iter().flatten().map(|(_, standing)| standing).collect();
    let kept = all.iter().filter(|standing| matches!(standing, Standing::Kept(_))).count();
    let tested = all.iter().filter(|standing| standing.is_tested()).count();
    ensure!(
        tested * 100 >= kept * TESTED_PERCENT,
        "of {kept} rules that are kept only {tested} have a test\nhint: {TESTED_PERCENT} of a hundred must"
    );
    Ok(page::render(&tables, &standings, &mutants::noticed(root)?))
}

/// Status of a rule.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// Marked code keeps the rule; its list of tests may be empty.
    Kept(marks::Kept),
    /// Not kept, for this reason.
    Excepted(String),
    /// Advice, with the node's behaviour and the reason.
    Advice(String),
    /// Not kept yet: no code keeps the rule, and no reason excuses that.
    Later,
}
impl Standing {
    /// Whether the rule is kept and a test shows it.
    fn is_tested(&self) -> bool {
        matches!(self, Standing::Kept(kept) if !kept.tests.is_empty())
    }
}

/// Rules of each table in order, with their status; disagreements are added to `wrong`.
fn standings<'a>(
    tables: &'a [table::Table],
    marks: &marks::Marks,
    wrong: &mut Vec<String>,
) -> Vec<Vec<(&'a table::Rule, Standing)>> {
    // A mark without a rule is usually a typing error.
    let known = |id: &String| tables.iter().any(|table| table.rules.iter().any(|rule| rule.id == *id));
    for (id, kept) in marks.iter().filter(|(id, _)| !known(id)) {
        let place = kept.code.iter().chain(&kept.tests).next();
        wrong.push(format!("{}: no table has a rule {id}", place.map_or("?", |place| place.file.as_str())));
    }
    tables.iter().map(|table| table.rules.iter().map(|rule| (rule, standing(rule, marks, wrong))).collect()).collect()
}

fn standing(rule: &table::Rule, marks: &marks::Marks, wrong: &mut Vec<String>) -> Standing {
    let id = &rule.id;
    let kept = marks.get(id);
    if let Some(does) = &rule.does {
        if rule.except.is_some() || rule.later {
            wrong.push(format!("{id} is advice: `does` says what is done about it, without `except` and `later`"));
        }
        return Standing::Advice(does.clone());
    }
    // A rule has exactly one status.
    match (&rule.except, rule.later, kept) {
        (Some(_), true, _) => wrong.push(format!("{id} has an exception and is put off: one of both")),
        (Some(_), _, Some(_)) => wrong.push(format!("{id} has an exception and marks: one of both")),
        (_, true, Some(_)) => wrong.push(format!("{id} has marks: it is not put off any more, take `later` away")),
        (None, false, None) => wrong.push(format!("{id} has no mark: {}", rule.says)),
        (None, false, Some(kept)) if kept.code.is_empty() => wrong.push(format!("{id} has a test but no code")),
        _ => {}
    }
    match (&rule.except, kept) {
        (Some(reason), _) => Standing::Excepted(reason.clone()),
        (None, Some(kept)) => Standing::Kept(kept.clone()),
        (None, None) => Standing::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "title = \"A layer\"\nrules = [\n\
        { id = \"9999-1-1\", level = \"MUST\", says = \"One.\" },\n\
        { id = \"9999-1-2\", level = \"must not\", says = \"Two.\", except = \"Advice.\" },\n\
        { id = \"9999-1-3\", level = \"SHOULD\", quote = \"it SHOULD\", says = \"Be so.\", does = \"Is so.\" },\n\
        { id = \"9999-1-10\", level = \"SHALL\", says = \"Ten | eleven.\", later = true },\n]\n";
    const CODE: &str = "/// A thing.\n// 9999-1-1\n#[inline]\npub(crate) const fn thing() {}\n";
    const TEST: &str = "/// A sentence.\n/// Keeps 9999-1-1.\n#[test]\nfn it_is_so() {}\n";

    fn tree(table: &str, code: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("docs/conformance/rfc9999.toml", table), ("core/x/src/lib.rs", code)] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("docs/reference")).unwrap();
        folder
    }
    fn refused(table: &str, code: &str) -> String {
        check(tree(table, code).path()).unwrap_err().to_string()
    }

    #[test]
    fn page_is_rendered_and_checked() {
        let folder = tree(TABLE, &[CODE, TEST].concat());
        assert!(check(folder.path()).unwrap_err().to_string().contains("not up to date"), "there is none yet");
        write(folder.path()).unwrap();
        check(folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join(PAGE)).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        let place = "../../core/x/src/lib.rs";
        assert!(rows.contains(&"| [RFC 9999](#rfc-9999-a-layer) | 3 | 1 | 0 | 1 | 1 | 1 |"), "{page}");
        let kept = format!("| 1-1 MUST | One. | [thing]({place}) | [it_is_so]({place}) | |");
        assert!(rows.contains(&kept.as_str()), "{page}");
        assert!(rows.contains(&"| 1-2 must not | Two. | exception: Advice. | | |"), "{page}");
        assert!(rows.contains(&"| 1-3 SHOULD | Be so. *\"it SHOULD\"* | Is so. |"), "{page}");
        assert!(rows.contains(&"| 1-10 SHALL | Ten \\| eleven. | not yet | | |"), "{page}");
    }

    #[test]
    fn all_disagreements_are_reported_together() {
        let unknown = refused(TABLE, "// 9999-1-1, 9999-7-7\nfn a() {}\n// 8888-1-1\nfn b() {}\n");
        assert!(unknown.contains("no table has a rule 9999-7-7") && unknown.contains("rule 8888-1-1"), "{unknown}");
        assert!(refused(TABLE, "fn a() {}\n").contains("9999-1-1 has no mark: One."));
        assert!(refused(TABLE, TEST).contains("9999-1-1 has a test but no code"));
        assert!(refused(TABLE, "// 9999-1-1, 9999-1-2\nfn a() {}").contains("9999-1-2 has an exception and marks"));
        assert!(refused(TABLE, "// 9999-1-1, 9999-1-10\nfn a() {}").contains("take `later` away"));
        let untested = refused(TABLE, CODE);
        assert!(untested.contains("of 1 rules that are kept only 0 have a test"), "{untested}");
        let lost = refused(TABLE, &[CODE, "/// Keeps 9999-1-1.\nfn helper() {}\n"].concat());
        assert!(lost.contains("core/x/src/lib.rs:5: no test follows"), "{lost}");
    }

    #[test]
    fn tables_and_marks_agree() {
        made(&tools::root()).unwrap();
    }
}

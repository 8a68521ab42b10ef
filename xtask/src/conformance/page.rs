//! Renders the page `docs/reference/conformance.md`.

use super::mutants::Noticed;
use super::table::{Rule, Table};
use super::{PAGE, Standing};
use farlink_trials::marks::Place;
use std::collections::BTreeMap;

const INTRODUCTION: &str = "# Conformance

Each rule of the standards that this node speaks, in our own words: where it is kept, and the tests that show it. Made by
`cargo xtask conformance` from the tables in [docs/conformance](../conformance) and from comments in code and tests, which
name a rule by the number of its standard, its section, and a number of ours within the section: `9171-4.1-2`.

Rules are those the standards say with MUST, SHALL or REQUIRED, and in RFC 5326 and RFC 5050, which have few capitals, also
those they say in small letters and the steps of their procedures. An exception is a rule that binds somebody else than a
node, or one that this node does not keep, with the reason. Advice (SHOULD, RECOMMENDED) stands behind the rules of each
standard, with what this node does about it and why. The words in quotation marks are the standard's; `--rfc FOLDER` looks
them up in its text. A mutant is a change of the marked code that the tests in its row notice: `--mutants` plants each, and
writes down which. A setting is named where a rule depends on one, with its default.
";

/// Number of rules by status.
#[derive(Default)]
struct Count {
    tested: usize,
    untested: usize,
    excepted: usize,
    advice: usize,
    later: usize,
}
impl Count {
    fn of(rules: &[(&Rule, Standing)]) -> Count {
        let mut count = Count::default();
        for (_, standing) in rules {
            *match standing {
                Standing::Kept(_) if standing.is_tested() => &mut count.tested,
                Standing::Kept(_) => &mut count.untested,
                Standing::Excepted(_) => &mut count.excepted,
                Standing::Advice(_) => &mut count.advice,
                Standing::Later => &mut count.later,
            } += 1;
        }
        count
    }
    fn add(&mut self, other: &Count) {
        self.tested += other.tested;
        self.untested += other.untested;
        self.excepted += other.excepted;
        self.advice += other.advice;
        self.later += other.later;
    }
    fn row(&self, name: &str) -> String {
        let Count { tested, untested, excepted, advice, later } = self;
        // Advice binds nobody, so it does not count as a rule.
        let all = tested + untested + excepted + later;
        format!("| {name} | {all} | {tested} | {untested} | {excepted} | {later} | {advice} |\n")
    }
}

/// Renders the whole page.
pub fn render(tables: &[Table], standings: &[Vec<(&Rule, Standing)>], mutants: &BTreeMap<String, Noticed>) -> String {
    let mut page = String::from(INTRODUCTION);
    page += "\n| standard | rules | kept, with a test | kept | exceptions | not yet | advice |\n|---|---|---|---|---|---|---|\n";
    let mut total = Count::default();
    for (table, rules) in tables.iter().zip(standings) {
        let count = Count::of(rules);
        page += &count.row(&format!("[RFC {}](#{})", table.rfc, anchor(table)));
        total.add(&count);
    }
    page += &total.row("all");
    for (table, rules) in tables.iter().zip(standings) {
        page += &format!("\n## RFC {}: {}\n", table.rfc, table.title);
        section(
            &mut page,
            rules,
            "| rule | says | where | tests | mutant |\n|---|---|---|---|---|",
            |rule, standing| {
                let (place, tests) = match standing {
                    Standing::Kept(kept) => (links(&kept.code), links(&kept.tests)),
                    Standing::Excepted(reason) => (format!("exception: {}", cell(reason)), String::new()),
                    Standing::Later => ("not yet".into(), String::new()),
                    Standing::Advice(_) => return None,
                };
                let mutant = match (mutants.get(&rule.id), &rule.no_mutant) {
                    (_, Some(why)) => format!("none: {}", cell(why)),
                    (Some(noticed), _) => changed(noticed),
                    (None, None) => String::new(),
                };
                Some(format!("{} | {place} | {tests} | {mutant} |", says(rule)))
            },
        );
        section(&mut page, rules, "| advice | says | what this node does |\n|---|---|---|", |rule, standing| {
            let Standing::Advice(does) = standing else { return None };
            Some(format!("{} | {} |", says(rule), cell(does)))
        });
    }
    page
}

/// Adds a table of the rules for which `row` returns a line; nothing if no rule gets a line.
fn section(
    page: &mut String,
    rules: &[(&Rule, Standing)],
    head: &str,
    row: impl Fn(&Rule, &Standing) -> Option<String>,
) {
    let rows: Vec<String> = rules.iter().filter_map(|(rule, standing)| row(rule, standing)).collect();
    if rows.is_empty() {
        return;
    }
    *page += &format!("\n{head}\n");
    for row in rows {
        // An empty cell is written as one space. Adjacent empty cells share a bar, so a second pass is needed.
        *page += &row.replace("|  |", "| |").replace("|  |", "| |");
        page.push('\n');
    }
}

/// Mutation in a few words; the full text is in `docs/conformance/mutants.toml`.
fn changed(noticed: &Noticed) -> String {
    let (before, code) = noticed.mutant.split_once(": ").unwrap_or(("", &noticed.mutant));
    // A backquote in the text would end the code span, so it is left out.
    let kind = before.split(' ').next().unwrap_or_default();
    let short: String = code.chars().take(40).filter(|c| *c != '`').collect();
    let more = if code.chars().count() > 40 { " …" } else { "" };
    format!("{}: `{}{more}`", kind.trim_end_matches('s'), short.replace('|', "\\|"))
}

/// Beginning of a row: number and level, our words, the standard's, and the setting.
fn says(rule: &Rule) -> String {
    let number = rule.id.split_once('-').map_or(rule.id.as_str(), |(_, number)| number);
    let quote = rule.quote.as_ref().map(|quote| format!(" *\"{}\"*", cell(quote))).unwrap_or_default();
    let setting = rule.setting.as_ref().map(|setting| format!(" Setting: {}", cell(setting))).unwrap_or_default();
    format!("| {number} {} | {}{quote}{setting}", rule.level, cell(&rule.says))
}

/// Anchor of a table's heading in links.
fn anchor(table: &Table) -> String {
    // GitHub's rule: lower case, without punctuation, hyphens for spaces.
    let heading = format!("rfc {} {}", table.rfc, table.title.to_lowercase());
    heading.chars().filter(|c| c.is_alphanumeric() || *c == ' ').map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}

fn links(places: &[Place]) -> String {
    // Links are relative to the folder of the page.
    let up = "../".repeat(PAGE.matches('/').count());
    let link = |place: &Place| {
        let name = if place.item.is_empty() { place.file.rsplit('/').next().unwrap_or_default() } else { &place.item };
        format!("[{name}]({up}{})", place.file)
    };
    places.iter().map(link).collect::<Vec<_>>().join(", ")
}

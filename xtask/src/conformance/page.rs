//! The page that people read.

use super::marks::Place;
use super::table::{Rule, Table};
use super::{PAGE, Standing};

const INTRODUCTION: &str = "# Conformance

Each rule of the standards that this node speaks, in our own words: where it is kept, and the tests that show it. Made by
`cargo xtask conformance` from the tables in [docs/conformance](../conformance) and from comments in code and tests, which
name a rule by the number of its standard, its section, and a number of ours within the section: `9171-4.1-2`.

Rules are those the standards say with MUST, SHALL or REQUIRED, and in RFC 5326 and RFC 5050, which have few capitals, also
those they say in small letters and the steps of their procedures. An exception is a rule that binds somebody else than a
node, or one that this node does not keep, with the reason.
";

/// How many rules stand which way.
#[derive(Default)]
struct Count {
    tested: usize,
    untested: usize,
    excepted: usize,
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
                Standing::Later => &mut count.later,
            } += 1;
        }
        count
    }
    fn add(&mut self, other: &Count) {
        self.tested += other.tested;
        self.untested += other.untested;
        self.excepted += other.excepted;
        self.later += other.later;
    }
    fn row(&self, name: &str) -> String {
        let Count { tested, untested, excepted, later } = self;
        let all = tested + untested + excepted + later;
        format!("| {name} | {all} | {tested} | {untested} | {excepted} | {later} |\n")
    }
}

/// The page.
pub fn render(tables: &[Table], standings: &[Vec<(&Rule, Standing)>]) -> String {
    let mut page = String::from(INTRODUCTION);
    page += "\n| standard | rules | kept, with a test | kept | exceptions | not yet |\n|---|---|---|---|---|---|\n";
    let mut total = Count::default();
    for (table, rules) in tables.iter().zip(standings) {
        let count = Count::of(rules);
        page += &count.row(&format!("[RFC {}](#{})", table.rfc, anchor(table)));
        total.add(&count);
    }
    page += &total.row("all");
    for (table, rules) in tables.iter().zip(standings) {
        page +=
            &format!("\n## RFC {}: {}\n\n| rule | says | where | tests |\n|---|---|---|---|\n", table.rfc, table.title);
        for (rule, standing) in rules {
            let number = rule.id.split_once('-').map_or(rule.id.as_str(), |(_, number)| number);
            let (place, tests) = match standing {
                Standing::Kept(kept) => (links(&kept.code), links(&kept.tests)),
                Standing::Excepted(reason) => (format!("exception: {}", cell(reason)), String::new()),
                Standing::Later => ("not yet".into(), String::new()),
            };
            let row = format!("| {number} {} | {} | {place} | {tests} |", rule.level, cell(&rule.says));
            page += &row.replace("|  |", "| |");
            page.push('\n');
        }
    }
    page
}

/// What a heading is called in links.
fn anchor(table: &Table) -> String {
    let heading = format!("rfc {} {}", table.rfc, table.title.to_lowercase());
    heading.chars().filter(|c| c.is_alphanumeric() || *c == ' ').map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn links(places: &[Place]) -> String {
    let up = "../".repeat(PAGE.matches('/').count());
    let link = |place: &Place| {
        let name = if place.item.is_empty() { place.file.rsplit('/').next().unwrap_or_default() } else { &place.item };
        format!("[{name}]({up}{})", place.file)
    };
    places.iter().map(link).collect::<Vec<_>>().join(", ")
}

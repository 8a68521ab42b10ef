//! Result of an attack: a row of the table, the marks (bounds) that it missed, and the page.

use super::honest::Account;
use super::stage::BUDGET_MIB;
use crate::tools;
use anyhow::{Result, bail};
use std::fmt::Write;
use std::time::Duration;

/// Peak memory allowed, as a share of the budget.
const MEMORY_MAX: f64 = 1.05;
/// Honest goodput required in each direction, as a share of the goodput before the attack.
const GOODPUT_MIN: f64 = 0.8;
/// Least share of the offered bundles that arrives before the attack if the machine is otherwise idle.
const UNDISTURBED_MIN: f64 = 0.9;
/// Bytes an attack may add to the log: each message appears once per peer and minute.
const LOG_MAX: u64 = 1_000_000;
/// Page with the table.
const PAGE: &str = "docs/explanation/attacks.md";
const BEGIN: &str = "<!-- attacks:begin -->";
const END: &str = "<!-- attacks:end -->";

/// Result of one case.
#[derive(Default)]
pub struct Row {
    pub name: &'static str,
    /// Peak memory during and after the attack, bytes.
    pub peak: u64,
    /// Share of the offered bundles that arrived before the attack, in the worst direction.
    pub undisturbed: f64,
    /// Goodput during the attack as a share of that before it, by direction.
    pub shares: Vec<f64>,
    /// Fate of the honest bundles.
    pub account: Account,
    /// Most descriptors during the attack.
    pub descriptors_most: usize,
    /// Descriptors that stayed open after the attack.
    pub descriptors_gained: i64,
    /// Bytes logged during the attack.
    pub logged: u64,
    /// Slowest answer to `farlink node status`.
    pub status_slowest: Duration,
    /// Status queries without an answer within five seconds.
    pub status_unanswered: u64,
    /// The attacker's actions and their amounts, in words.
    pub did: String,
    /// Forbidden effect that the attacker achieved, if any.
    pub broke: Option<String>,
    /// Number of tries; the row shows the last.
    pub tries: u32,
}

impl Row {
    /// Row of a case that could not be judged.
    pub fn failed(name: &'static str, why: String) -> Row {
        Row { name, broke: Some(why), ..Row::default() }
    }
    fn of_budget(&self) -> f64 {
        self.peak as f64 / (BUDGET_MIB << 20) as f64
    }
    fn least_share(&self) -> f64 {
        self.shares.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }
    /// Whether only the goodput of some direction missed its mark.
    pub fn misses_goodput_only(&self) -> bool {
        !self.shares.is_empty() && self.missed().len() == 1 && self.least_share() < GOODPUT_MIN
    }
    /// Missed marks, one sentence each.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut mark = |holds: bool, why: String| {
            if !holds {
                missed.push(why);
            }
        };
        mark(self.of_budget() <= MEMORY_MAX, format!("memory {:.0} % of the budget", 100.0 * self.of_budget()));
        mark(self.least_share() >= GOODPUT_MIN, format!("honest goodput {:.0} %", 100.0 * self.least_share()));
        mark(self.account.missing == 0, format!("{} honest bundles lost", self.account.missing));
        mark(self.account.corrupt == 0, format!("{} honest bundles corrupt", self.account.corrupt));
        mark(self.logged <= LOG_MAX, format!("{:.1} MB logged", self.logged as f64 / 1e6));
        mark(self.status_unanswered == 0, format!("{} questions for the status unanswered", self.status_unanswered));
        // Each case may have a mark of its own besides the common ones.
        mark(self.broke.is_none(), self.broke.clone().unwrap_or_default());
        missed
    }
    /// Line of the table.
    pub fn line(&self) -> String {
        let shares: Vec<String> = self.shares.iter().map(|share| format!("{:.0}", 100.0 * share)).collect();
        let status = match self.status_unanswered {
            0 => format!("{:.2} s", self.status_slowest.as_secs_f64()),
            unanswered => format!("{unanswered} unanswered"),
        };
        let again = if self.tries > 1 { ", second try" } else { "" };
        // A busy machine explains a missed goodput, so the row shows it.
        let disturbed = if self.undisturbed < UNDISTURBED_MIN { ", disturbed" } else { "" };
        let verdict = if self.missed().is_empty() { "held" } else { "**missed**" };
        format!(
            "| {} | {} | {:.0} MiB | {:.0} % | {} | {} | {:+} ({}) | {:.1} kB | {status} | {verdict}{again}{disturbed} |",
            self.name,
            self.did,
            self.peak as f64 / f64::from(1 << 20),
            100.0 * self.of_budget(),
            shares.join(" "),
            self.account.missing,
            self.descriptors_gained,
            self.descriptors_most,
            self.logged as f64 / 1e3,
        )
    }
}

/// Results of all cases with one number of shards.
pub struct Table {
    /// Shards of the node under attack.
    pub shards: u8,
    /// One row for each case.
    pub rows: Vec<Row>,
    /// Cases that this number of shards does not support.
    pub left_out: Vec<&'static str>,
}

impl Table {
    /// Missed marks of all rows.
    pub fn missed(&self) -> Vec<String> {
        let shards = if self.shards > 1 { format!(" (shards = {})", self.shards) } else { String::new() };
        let of =
            |row: &Row| row.missed().into_iter().map(|why| format!("{}{shards}: {why}", row.name)).collect::<Vec<_>>();
        self.rows.iter().flat_map(of).collect()
    }
    /// Text of the table, with the settings of its run and the missed marks.
    pub fn text(&self, lasts: Duration, rate: u64) -> String {
        let rows = &self.rows;
        let mut text = match self.shards {
            1 => String::new(),
            shards => format!("With `shards = {shards}`:\n\n"),
        };
        text += "| case | attack | peak memory | of budget | goodput, % of undisturbed | lost | descriptors gained (most) \
                 | logged | slowest status | |\n|---|---|---|---|---|---|---|---|---|---|\n";
        for row in rows {
            let _ = writeln!(text, "{}", row.line());
        }
        let held = rows.iter().filter(|row| row.missed().is_empty()).count();
        let measured = rows.iter().filter(|row| !row.shares.is_empty());
        // The worst direction of all cases shows how idle the machine was.
        let undisturbed = measured.map(|row| row.undisturbed).fold(1.0, f64::min);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let _ = writeln!(
            text,
            "\n{held} of {} held. Budget {BUDGET_MIB} MiB; {} s undisturbed and {} s under attack; each direction (TCPCL \
             out, in, LTP out, in) offers {rate} bundles of 5 kB a second, of which at least {:.0} % arrived \
             undisturbed; {processors} processors, shared with the attacker. `cargo xtask attack \
             --shards 1,2,4 --write` measures and writes this.",
            rows.len(),
            lasts.as_secs(),
            lasts.as_secs(),
            100.0 * undisturbed,
        );
        if !self.left_out.is_empty() {
            let _ = writeln!(text, "\nNot with shards: {}.", self.left_out.join(", "));
        }
        for row in rows {
            for why in row.missed() {
                let _ = write!(text, "\n- {}: {}", row.name, why.lines().next().unwrap_or_default());
            }
        }
        if held < rows.len() {
            text.push('\n');
        }
        text
    }
}

/// Writes the tables into their page.
///
/// # Errors
/// When the page has no marks, or cannot be written.
pub fn write(tables: &[Table], lasts: Duration, rate: u64) -> Result<()> {
    let page = tools::root().join(PAGE);
    let text = std::fs::read_to_string(&page)?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        bail!("{PAGE} has no `{BEGIN}` and `{END}`");
    };
    let tables: Vec<String> = tables.iter().map(|table| table.text(lasts, rate)).collect();
    let tables = tables.join("\n");
    std::fs::write(&page, format!("{}{BEGIN}\n{tables}{}", &text[..begin], &text[end..]))?;
    eprintln!("wrote the tables of {PAGE}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Row {
        Row { name: "a", peak: 200 << 20, undisturbed: 1.0, shares: vec![1.0, 0.9], ..Row::default() }
    }

    #[test]
    fn each_mark_can_be_missed() {
        assert!(held().missed().is_empty());
        let missed = |row: Row| row.missed().join(" ");
        assert_eq!(missed(Row { peak: 270 << 20, ..held() }), "memory 105 % of the budget");
        assert_eq!(missed(Row { shares: vec![1.0, 0.79], ..held() }), "honest goodput 79 %");
        assert_eq!(
            missed(Row { account: Account { missing: 2, ..Account::default() }, ..held() }),
            "2 honest bundles lost"
        );
        assert_eq!(missed(Row { broke: Some("taken".into()), ..held() }), "taken");
        assert_eq!(missed(Row { logged: 11_500_000, ..held() }), "11.5 MB logged");
        assert_eq!(missed(Row { status_unanswered: 1, ..held() }), "1 questions for the status unanswered");
        let slow = Row { shares: vec![0.5], ..held() };
        assert!(slow.misses_goodput_only() && !held().misses_goodput_only());
        assert!(!Row { logged: 2_000_000, ..slow }.misses_goodput_only());
        assert!(missed(Row::failed("a", "no start".into())).contains("no start"));
    }

    #[test]
    fn table_lists_cases_and_misses() {
        let rows = [held(), Row { peak: 2 << 30, name: "b", ..held() }];
        let table = Table { shards: 2, rows: rows.into(), left_out: vec!["c"] };
        assert_eq!(table.missed(), ["b (shards = 2): memory 800 % of the budget"]);
        let table = table.text(Duration::from_secs(6), 200);
        assert!(table.contains("| a |") && table.contains("1 of 2 held"), "{table}");
        assert!(table.starts_with("With `shards = 2`:") && table.contains("Not with shards: c."), "{table}");
        assert!(held().line().ends_with("| held |"));
        assert!(Row { undisturbed: 0.5, tries: 2, ..held() }.line().ends_with("| held, second try, disturbed |"));
        assert!(table.contains("- b: memory 800 % of the budget"), "{table}");
    }
}

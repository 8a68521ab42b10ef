//! Table of verdicts.

use super::accepted;
use super::sites::Site;
use super::trial::Verdict;
use crate::tools;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of mutants by verdict.
#[derive(Clone, Copy, Default)]
struct VerdictCounts {
    killed: usize,
    hung: usize,
    survived: usize,
    unreached: usize,
    accepted: usize,
}
impl VerdictCounts {
    fn row(&self, name: &str) -> String {
        let VerdictCounts { killed, hung, survived, unreached, accepted } = self;
        let all = killed + hung + survived + unreached + accepted;
        format!("| {name} | {all} | {killed} | {hung} | {survived} | {unreached} | {accepted} |\n")
    }
}

/// Writes `target/mutants/every.md` and prints the sums.
///
/// # Errors
/// When a mutant survives that is not accepted, or the table cannot be written.
pub fn write(chosen: &[Site], verdicts: &BTreeMap<u32, Verdict>, unguardable: usize) -> Result<()> {
    let accepted = accepted::all()?;
    let (mut files, mut total): (BTreeMap<&str, VerdictCounts>, VerdictCounts) =
        (BTreeMap::new(), VerdictCounts::default());
    let (mut details, mut survivors) = (String::new(), 0);
    for site in chosen {
        let Some(verdict) = verdicts.get(&site.number) else { continue };
        let why = accepted.iter().find(|row| row.is_of(site)).filter(|_| !verdict.is_noticed());
        // The last row of the table is the sum over all files.
        for counts in [files.entry(&site.file).or_default(), &mut total] {
            match (verdict, why) {
                (Verdict::Killed(_), _) => counts.killed += 1,
                (Verdict::Hung(_), _) => counts.hung += 1,
                (_, Some(_)) => counts.accepted += 1,
                (Verdict::Survived, None) => counts.survived += 1,
                (Verdict::Unreached, None) => counts.unreached += 1,
            }
        }
        let word = why.map_or(verdict.word(), |_| "accepted");
        let by = why.map_or(verdict.by(), |row| row.why.as_str());
        survivors += usize::from(!verdict.is_noticed() && why.is_none());
        let text = site.anchor().replace('|', "\\|");
        writeln!(details, "| {word} | {}:{} | `{text}` | {by} |", site.file, site.lines.0)?;
    }
    let head = "| file | mutants | killed | hung | survived | unreached | accepted |\n|---|---|---|---|---|---|---|\n";
    let table: String = files.iter().map(|(file, counts)| counts.row(file)).collect();
    let sums = head.to_string() + &table + &total.row("all");
    let text = format!(
        "{sums}\n{unguardable} are left out, as they do not compile.\n\n| verdict | where | mutant | test or reason |\n|---|---|---|---|\n{details}"
    );
    let file = tools::target().join("mutants/every.md");
    std::fs::write(&file, text)?;
    println!("{sums}\ntable: {}", file.display());
    if survivors > 0 {
        bail!(
            "{survivors} mutants are noticed by no test\nhint: write one that says what the call is for, or a row of accepted.toml that says why it may go"
        );
    }
    Ok(())
}

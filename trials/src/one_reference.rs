//! `cargo xtask one-reference`: compares reports of `farlink one` with those of The ONE, for a folder of its settings
//! and reports, or by running it.

mod make;
mod rows;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use rows::{ANCHORS, Expected};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The chore `cargo xtask one-reference`.
pub const CHORE: Chore = Chore {
    name: "one-reference",
    usage: "--make CHECKOUT [FILE...] | --reference DIR [--only WORD]",
    help: "Runs settings of The ONE and compares reports with those it wrote, byte for byte.\n\
           \n\
           --make runs the settings of one/tests/data/logs in a checkout of The ONE, which needs a JDK, and writes the\n\
           SHA-256 of each report beside them; the tests of one/ compare ours with those. FILEs are compared only.\n\
           \n\
           DIR holds settings/, events/, maps/, out/anchors/ (reports, compared byte for byte) and out/*_runs.csv\n\
           (figures of MessageStatsReport, a run a row). --only keeps rows whose file and label have WORD in them.\n\
           Builds with `--profile quick` first; FARLINK_BIN names a ready binary instead.",
    run,
};

/// Results of the rows of one label.
#[derive(Default)]
struct Tally {
    equal: usize,
    differ: Vec<String>,
    skipped: Option<&'static str>,
}

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    if let Some(checkout) = arguments.word("--make")? {
        return make::make(checkout, &arguments.rest()?);
    }
    let reference = arguments.word("--reference")?.context("--reference DIR is missing: the folder of references")?;
    let reference = Path::new(reference).canonicalize().with_context(|| format!("{reference} is no folder"))?;
    let only = arguments.word("--only")?.unwrap_or_default();
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of one-reference");
    }
    let work = ReferenceWork {
        farlink: tools::farlink()?.canonicalize()?,
        reference,
        out: tools::target().join("one-reference"),
    };
    let mut tallies = BTreeMap::new();
    for (name, files, sets) in ANCHORS.iter().filter(|(name, ..)| format!("anchors:{name}").contains(only)) {
        // Anchors are compared to the byte, rows by their figures.
        tallies.insert(("anchors".to_string(), name.to_string()), work.anchor(name, files, sets)?);
    }
    for (file, expected) in rows::read(&work.reference)? {
        if format!("{file}:{}", expected.label).contains(only) {
            let tally: &mut Tally = tallies.entry((file.clone(), expected.label.clone())).or_default();
            work.row(&file, &expected, tally).with_context(|| format!("{file}: {}", expected.label))?;
        }
    }
    print(&tallies)
}

fn print(tallies: &BTreeMap<(String, String), Tally>) -> Result<()> {
    println!("| file | what | equal | differs |\n|---|---|---|---|");
    let (mut equal, mut differ, mut skipped) = (0, 0, 0);
    for ((file, label), tally) in tallies {
        if let Some(why) = tally.skipped {
            skipped += 1;
            println!("| {file} | {label} | not run: {why} | |");
            continue;
        }
        (equal, differ) = (equal + tally.equal, differ + tally.differ.len());
        println!("| {file} | {label} | {} | {} |", tally.equal, tally.differ.join("; "));
    }
    println!("\n{equal} equal, {differ} differ; {skipped} kinds of rows not run");
    if differ > 0 { bail!("{differ} of {} differ", equal + differ) } else { Ok(()) }
}

struct ReferenceWork {
    farlink: PathBuf,
    reference: PathBuf,
    out: PathBuf,
}

impl ReferenceWork {
    fn one(&self, files: &[&str], sets: &[String]) -> Result<()> {
        // Settings name files relative to the reference folder.
        let mut command = Command::new(&self.farlink);
        command.current_dir(&self.reference).arg("one").args(files).arg("--out").arg(&self.out);
        for set in sets {
            command.args(["--set", set]);
        }
        tools::run(command.stdout(Stdio::null()))
    }

    fn anchor(&self, name: &str, files: &[&str], sets: &[&str]) -> Result<Tally> {
        let sets = [format!("Scenario.name={name}")].into_iter().chain(sets.iter().map(ToString::to_string));
        self.one(files, &sets.collect::<Vec<_>>())?;
        let mut tally = Tally::default();
        for report in ["EventLogReport", "MessageStatsReport"] {
            let file = format!("{name}_{report}.txt");
            let theirs = std::fs::read(self.reference.join("out/anchors").join(&file)).with_context(|| file.clone())?;
            let ours = std::fs::read(self.out.join(&file)).with_context(|| file.clone())?;
            if ours == theirs { tally.equal += 1 } else { tally.differ.push(difference(report, &ours, &theirs)) }
        }
        Ok(tally)
    }

    fn row(&self, file: &str, expected: &Expected, tally: &mut Tally) -> Result<()> {
        let (files, sets) = match rows::settings(file, &expected.label) {
            Ok(settings) => settings,
            Err(why) => {
                tally.skipped = Some(why);
                return Ok(());
            }
        };
        // The reference runs prefixed the names of messages with a letter: A for seed 1.
        let run = expected.seed.checked_sub(1).context("seeds begin with 1")?;
        let letter = char::from(b"ABCDEFGHIJ"[run % 10]);
        let seeds = [format!("MovementModel.rngSeed={}", expected.seed), format!("Events1.prefix={letter}")];
        let sets = sets.into_iter().chain(seeds).chain(["Scenario.name=row".to_string()]);
        self.one(&files, &sets.collect::<Vec<_>>())?;
        let report = std::fs::read_to_string(self.out.join("row_MessageStatsReport.txt"))?;
        match expected.missed(&report) {
            None => tally.equal += 1,
            Some(missed) => tally.differ.push(format!("seed {}: {missed}", expected.seed)),
        }
        Ok(())
    }
}

/// Number of the first line that differs, as a message.
fn difference(report: &str, ours: &[u8], theirs: &[u8]) -> String {
    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let line = ours[..same].iter().filter(|&&byte| byte == b'\n').count() + 1;
    format!("{report} from line {line} on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_has_line_number() {
        assert_eq!(difference("X", b"a\nb\nc\n", b"a\nb\nd\n"), "X from line 3 on");
        assert_eq!(difference("X", b"a\n", b"a\nb\n"), "X from line 2 on");
    }
}

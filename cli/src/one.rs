//! `farlink one`: settings files of The ONE, run as that simulator runs them.

use crate::one_fast::{self, Translation};
use crate::progress::RunProgress;
use crate::{Failure, values};
use clap::ValueEnum;
use farlink_one::settings::keys;
use farlink_one::{Mistake, Outcome, Setup, Values};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file that The ONE always reads first.
const DEFAULTS: &str = "default_settings.txt";
/// Most warnings of keys that nobody reads.
const MOST_WARNINGS: usize = 10;

/// Arguments of `farlink one`.
#[derive(clap::Args)]
#[command(
    after_help = "Settings files of The ONE 1.6 run as they are, and the reports come out byte for byte the same: \
    Epidemic, spray and wait, PRoPHET (first in, first out); random waypoint, random walk, shortest paths on maps, \
    contacts from files. What is not covered is refused by name. default_settings.txt is read first where there is one.\n\n\
    Examples:\n\
    \x20 farlink one my_settings.txt\n\
    \x20 farlink one base.txt overlay.txt -b 5 --out reports\n\
    \x20 farlink one base.txt -b 2:4                       # runs 2, 3 and 4 of a batch\n\
    \x20 farlink one base.txt --set Group.router=SprayAndWaitRouter --set 'Scenario.name=snw-%%MovementModel.rngSeed%%'\n\
    \x20 farlink one base.txt --json | jq '.runs[0].delivery_prob'\n\
    \x20 farlink one base.txt --mode fast --out here       # a scenario of Farlink's own, and its run\n\n\
    Every key: docs/reference/one.md. Exit status: 0 done, 1 a report cannot be written, 2 bad input."
)]
pub struct Args {
    /// Settings files; a later one overrides an earlier one.
    #[arg(value_name = "SETTINGS", required = true)]
    settings: Vec<PathBuf>,
    /// How many runs, or which, as 2:4: each takes the next of `[a; b; c]` in values.
    #[arg(short, long, value_name = "RUNS", default_value = "1", value_parser = runs)]
    batch: Range<u64>,
    /// How it is run.
    #[arg(long, value_name = "MODE", default_value = "exact")]
    mode: Mode,
    /// Set a key, over what the files say; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Folder of the reports, in place of `Report.reportDir`.
    #[arg(long, alias = "report-dir", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document: `runs` with the figures of MessageStatsReport, or in mode fast those of `farlink run`.
    #[arg(long)]
    json: bool,
}

/// How settings are run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// In The ONE's steps and order: the same reports, byte for byte.
    Exact,
    /// In Farlink's own simulator: the settings become a scenario, which is run.
    Fast,
}

/// Runs from 0: so many, or from one to another, as The ONE counts them from 1.
fn runs(text: &str) -> Result<Range<u64>, String> {
    let (first, last) = match text.split_once(':') {
        Some((first, last)) => (values::some(first)?, values::some(last)?),
        None => (1, values::some(text)?),
    };
    match last.checked_sub(first) {
        None => Err(format!("run {last} comes before run {first}\nhint: write the smaller number first")),
        Some(0..100_000) if last <= 1_000_000_000 => Ok(first - 1..last),
        Some(_) => Err("more than 100000 runs\nhint: write fewer".into()),
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut files = args.settings.clone();
    let defaults = PathBuf::from(DEFAULTS);
    if defaults.is_file() && !files.contains(&defaults) {
        eprintln!("{DEFAULTS} of this folder is read first");
        files.insert(0, defaults);
    }
    let read = Values::read(&files, &args.overrides).map_err(bad)?;
    warn_of_unknown(&read);
    // All are looked at before the first is run: a mistake in the last should not cost the others' time.
    let setups: Vec<Setup> = (args.batch.clone())
        .map(|run| read.of_run(run as usize))
        .map(|values| Setup::of(&if args.mode == Mode::Fast { values.translated() } else { values }))
        .collect::<Result<_, Mistake>>()
        .map_err(bad)?;
    warn_of_same_names(&setups, args.batch.start, args.mode);
    if args.mode == Mode::Fast {
        return in_our_world(&setups, &args);
    }
    let mut shown = Vec::new();
    for (number, setup) in setups.iter().enumerate() {
        let outcome = simulate(setup, args.out.as_deref(), number, setups.len())?;
        if args.json {
            shown.push(document(setup, &outcome));
        } else {
            tell(setup, &outcome)?;
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&json!({ "runs": shown })).map_err(anyhow::Error::from)?;
        writeln!(std::io::stdout(), "{text}")?;
    }
    Ok(())
}

/// Runs the scenarios that settings become.
fn in_our_world(setups: &[Setup], args: &Args) -> Result<(), Failure> {
    // As with settings: a mistake in the last should not cost the others' time.
    let translations: Vec<_> = setups.iter().map(one_fast::translate).collect::<Result<_, Failure>>()?;
    let mut shown = Vec::new();
    let mut judged = Ok(());
    for (number, (setup, translation)) in setups.iter().zip(&translations).enumerate() {
        let scenario = write_scenario(setup, translation, args)?;
        if number == 0 {
            eprintln!(
                "{}: the same hosts, ways, contacts and messages in kind; not the same world:",
                scenario.display()
            );
            eprint!("{}", one_fast::differences());
            one_fast::left_out(setup).iter().for_each(|key| eprintln!("warning: {key} has no effect here"));
        }
        let run = crate::run::Args::of_file(scenario.clone(), scenario.with_extension(""));
        if !args.json {
            crate::run::run(run)?;
            continue;
        }
        let (mut document, ended) = crate::run::document(&crate::run::into_folder(&run)?)?;
        document["name"] = setup.name.clone().into();
        shown.push(document);
        judged = ended;
        if judged.is_err() {
            break;
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&json!({ "runs": shown })).map_err(anyhow::Error::from)?;
        writeln!(std::io::stdout(), "{text}")?;
    }
    judged
}

/// Writes a scenario, with the contacts it names, over none but one of its kind.
fn write_scenario(setup: &Setup, translation: &Translation, args: &Args) -> Result<PathBuf, Failure> {
    let folder = args.out.clone().unwrap_or_else(|| setup.reporting.folder.clone());
    crate::make_folder(&folder, "--out")?;
    let name = one_fast::name(&setup.name);
    let scenario = folder.join(format!("{name}.toml"));
    let contacts = folder.join(one_fast::contacts_file(&name));
    let ours = std::fs::read(&scenario).is_ok_and(|text| text.starts_with(one_fast::HEAD.as_bytes()));
    let files = [Some(&scenario), translation.contacts.as_ref().map(|_| &contacts)];
    if let Some(file) = files.into_iter().flatten().find(|file| !ours && file.exists()) {
        return Err(Failure::Input(format!(
            "{} is there, and not made of settings of The ONE\nhint: --out names another folder",
            file.display()
        )));
    }
    let write =
        |file: &Path, text: &str| std::fs::write(file, text).map_err(|why| crate::cannot_write(file, &why, "--out"));
    if let Some(text) = &translation.contacts {
        write(&contacts, text)?;
    }
    write(&scenario, &translation.scenario)?;
    Ok(scenario)
}

fn bad(mistake: Mistake) -> Failure {
    Failure::Input(mistake.to_string())
}

fn warn_of_unknown(values: &Values) {
    let unknown: Vec<(&str, String)> = values.unread(keys::is_known).collect();
    for (key, place) in unknown.iter().take(MOST_WARNINGS) {
        let near = keys::nearest(key).map_or(String::new(), |near| format!("\nhint: did you mean `{near}`?"));
        eprintln!("warning: {place} is no key that is read{near}");
    }
    if unknown.len() > MOST_WARNINGS {
        eprintln!("warning: and {} more", unknown.len() - MOST_WARNINGS);
    }
    for (part, count) in values.beyond().into_iter().take(MOST_WARNINGS) {
        eprintln!("warning: {part} is not read: {} is {}", count.key, count.text);
    }
}

fn warn_of_same_names(setups: &[Setup], before: u64, mode: Mode) {
    let mut seen = BTreeMap::new();
    for (number, setup) in (before + 1..).zip(setups) {
        let name = if mode == Mode::Fast { one_fast::name(&setup.name) } else { setup.name.clone() };
        if let Some(first) = seen.insert((name, &setup.reporting.folder), number) {
            eprintln!(
                "warning: runs {} and {} are both named {}, so the later one's reports replace the earlier one's\n\
                 hint: put a key that differs into Scenario.name, such as %%MovementModel.rngSeed%%",
                first, number, setup.name
            );
            return;
        }
    }
}

fn simulate(setup: &Setup, folder: Option<&Path>, number: usize, count: usize) -> Result<Outcome, Failure> {
    let length = Duration::try_from_secs_f64(setup.end).unwrap_or(Duration::MAX);
    let mut progress = RunProgress::new(length, "simulating");
    let what = if count > 1 { format!("run {} of {count}, {}", number + 1, setup.name) } else { setup.name.clone() };
    let outcome = farlink_one::run(setup, folder, &mut |at_s| progress.show(at_s, &what));
    progress.finish();
    outcome.map_err(|failure| match failure {
        farlink_one::Failure::Mistake(mistake) => bad(mistake),
        farlink_one::Failure::Write(file, why) if why.kind() == std::io::ErrorKind::StorageFull => {
            Failure::Run(anyhow::Error::from(why).context(format!("{} cannot be written", file.display())))
        }
        farlink_one::Failure::Write(file, why) => crate::cannot_write(&file, &why, "--out"),
    })
}

fn document(setup: &Setup, outcome: &Outcome) -> Value {
    let mut fields = Map::new();
    fields.insert("name".into(), setup.name.clone().into());
    // What is not a number (a mean of nothing) is null.
    fields.extend(outcome.figures.values().map(|(name, value)| (name.to_string(), json!(value))));
    let files: Vec<String> = outcome.files.iter().map(|file| file.display().to_string()).collect();
    fields.insert("reports".into(), files.into());
    Value::Object(fields)
}

fn tell(setup: &Setup, outcome: &Outcome) -> std::io::Result<()> {
    let value = |name: &str| outcome.figures.values().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, v)| v);
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{}: {} of {} messages delivered, {} transfers",
        setup.name,
        value("delivered"),
        value("created"),
        value("relayed")
    )?;
    outcome.files.iter().try_for_each(|file| writeln!(out, "  {}", file.display()))
}

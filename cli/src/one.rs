//! `farlink one`: runs settings files of the simulator The ONE.

use crate::one_fast::{self, Translation};
use crate::progress::RunProgress;
use crate::{CliError, values};
use clap::ValueEnum;
use farlink_one::settings::keys;
use farlink_one::{Mistake, Outcome, Setup, Values};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// File that The ONE reads before all others.
const DEFAULTS: &str = "default_settings.txt";
/// Most warnings about keys without effect.
const MOST_WARNINGS: usize = 10;

/// Arguments of `farlink one`.
#[derive(clap::Args)]
#[command(
    after_help = "Runs settings files of The ONE 1.6 unchanged. Mode exact imitates that simulator: the reports are byte \
    for byte the same. It covers epidemic, spray and wait, PRoPHET (first in, first out), direct delivery, first \
    contact; random waypoint, random walk, clusters, maps with routes and points of interest; contacts from files. \
    Other settings run in mode fast, and a line says why. An existing default_settings.txt is read first.\n\n\
    Examples:\n\
    \x20 farlink one my_settings.txt\n\
    \x20 farlink one base.txt overlay.txt -b 5 --out reports\n\
    \x20 farlink one base.txt -b 2:4                       # runs 2, 3 and 4 of a batch\n\
    \x20 farlink one base.txt --set Group.router=SprayAndWaitRouter --set 'Scenario.name=snw-%%MovementModel.rngSeed%%'\n\
    \x20 farlink one base.txt --json | jq '.runs[0].delivery_prob'\n\
    \x20 farlink one base.txt --mode fast --out here       # converts to a Farlink scenario and runs it\n\n\
    Every key: docs/reference/one.md. Exit status: 0 done, 1 a report cannot be written, or Control-C came first, 2 bad input."
)]
pub struct Args {
    /// Settings files; a later one overrides an earlier one.
    #[arg(value_name = "SETTINGS", required = true)]
    settings: Vec<PathBuf>,
    /// Number of runs, or a range such as 2:4; run n uses the n-th value of each `[a; b; c]`.
    #[arg(short, long, value_name = "RUNS", default_value = "1", value_parser = runs)]
    batch: Range<u64>,
    /// Simulator to run the settings in.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: Mode,
    /// Set a key, overriding the files; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Folder of the reports, instead of `Report.reportDir`.
    #[arg(long, alias = "report-dir", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document: `mode`, and `runs` with the figures of MessageStatsReport, or with those of `farlink run`
    /// in mode fast.
    #[arg(long)]
    json: bool,
}

/// Simulators that can run settings.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Exact, or fast if the settings ask for something that is not imitated.
    Auto,
    /// In the time steps and order of The ONE: the same reports, byte for byte.
    Exact,
    /// In Farlink's own simulator: the settings are converted to a scenario, which is run.
    Fast,
}

/// Parses `--batch` into runs counted from 0; the text counts them from 1, as The ONE does.
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

pub fn run(args: Args) -> Result<(), CliError> {
    let mut files = args.settings.clone();
    // As The ONE does, relative to the working directory.
    let defaults = PathBuf::from(DEFAULTS);
    let added = defaults.is_file() && !files.contains(&defaults);
    if added {
        eprintln!("reading {DEFAULTS} of this folder first");
        files.insert(0, defaults);
    }
    let read = Values::read(&files, &args.overrides).map_err(bad)?;
    warn_of_unknown(&read, added);
    let (setups, mode) = setups(&read, &args).inspect_err(|_| mention_defaults(&files))?;
    warn_of_same_names(&setups, args.batch.start, mode);
    if mode == Mode::Fast {
        return in_our_world(&setups, &args);
    }
    warn_of_missing_reports(&setups);
    let mut shown = Vec::new();
    let at = end_on_signal(args.batch.clone())?;
    for (number, setup) in setups.iter().enumerate() {
        let outcome = simulate(setup, args.out.as_deref(), number, setups.len(), &at)?;
        if args.json {
            shown.push(document(setup, &outcome));
        } else {
            tell(setup, &outcome)?;
        }
    }
    if args.json {
        let text =
            serde_json::to_string_pretty(&json!({ "mode": "exact", "runs": shown })).map_err(anyhow::Error::from)?;
        writeln!(std::io::stdout(), "{text}")?;
    }
    Ok(())
}

/// Settings of all runs, checked, and the mode in which they run: exact or fast.
fn setups(read: &Values, args: &Args) -> Result<(Vec<Setup>, Mode), CliError> {
    // Every run is checked before the first one starts: a mistake in the last must not cost the time of the others.
    let of = |mode: Mode| {
        let runs = args.batch.clone().map(|run| read.of_run(run as usize));
        let setup = |values: Values| Setup::of(&if mode == Mode::Fast { values.translated() } else { values });
        runs.map(setup).collect::<Result<Vec<Setup>, Mistake>>()
    };
    let mode = if args.mode == Mode::Auto { Mode::Exact } else { args.mode };
    match of(mode) {
        Ok(setups) => Ok((setups, mode)),
        Err(mistake) if args.mode == Mode::Auto && mistake.uncovered => match of(Mode::Fast) {
            Ok(setups) => {
                let why = mistake.told();
                eprintln!("{why}\nruns in Farlink's own simulator instead, as with --mode fast");
                Ok((setups, Mode::Fast))
            }
            // Neither mode covers it; a mistake that only the other mode came to is told.
            Err(other) => Err(bad(if other.uncovered { mistake } else { other })),
        },
        Err(mistake) => Err(bad(mistake)),
    }
}

/// Says that defaults beside or above the settings were not read, as keys may be missing for that reason.
fn mention_defaults(files: &[PathBuf]) {
    let folders = files.iter().filter_map(|file| file.parent()).flat_map(|folder| [folder.join(""), folder.join("..")]);
    let read: Vec<_> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let mut found =
        folders.map(|folder| folder.join(DEFAULTS)).filter_map(|file| Some((file.canonicalize().ok()?, file)));
    if let Some((_, file)) = found.find(|(whole, _)| !read.contains(whole)) {
        eprintln!("{} was not read; The ONE reads it when started in its folder: name it first", file.display());
    }
}

fn warn_of_missing_reports(setups: &[Setup]) {
    let Some(left_out) = setups.first().map(|setup| &setup.reporting.left_out).filter(|names| !names.is_empty()) else {
        return;
    };
    eprintln!("warning: not written: {}\nhint: written are {}", left_out.join(", "), farlink_one::settings::written());
}

/// Converts the settings to scenarios and runs them in Farlink's simulator.
fn in_our_world(setups: &[Setup], args: &Args) -> Result<(), CliError> {
    // As above: every conversion is checked before the first run.
    let translations: Vec<_> = setups.iter().map(one_fast::translate).collect::<Result<_, CliError>>()?;
    let mut shown = Vec::new();
    let mut judged = Ok(());
    for (number, (setup, translation)) in setups.iter().zip(&translations).enumerate() {
        let scenario = write_scenario(setup, translation, args)?;
        if number == 0 {
            eprintln!(
                "{}: equivalent hosts, movement, contacts and messages; the simulators differ:",
                scenario.display()
            );
            eprint!("{}", one_fast::differences());
            one_fast::left_out(setup).iter().for_each(|line| eprintln!("warning: {line}"));
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
        // As with exact runs, the first failure ends the batch.
        if judged.is_err() {
            break;
        }
    }
    if args.json {
        let text =
            serde_json::to_string_pretty(&json!({ "mode": "fast", "runs": shown })).map_err(anyhow::Error::from)?;
        writeln!(std::io::stdout(), "{text}")?;
    }
    judged
}

/// Writes a scenario and its contacts file. Existing files are replaced only if they were converted from settings, too.
fn write_scenario(setup: &Setup, translation: &Translation, args: &Args) -> Result<PathBuf, CliError> {
    let folder = args.out.clone().unwrap_or_else(|| setup.reporting.folder.clone());
    crate::make_folder(&folder, "--out")?;
    let name = one_fast::name(&setup.name);
    let scenario = folder.join(format!("{name}.toml"));
    // A converted scenario begins with this comment; a file written by hand does not.
    let ours = std::fs::read(&scenario).is_ok_and(|text| text.starts_with(one_fast::HEAD.as_bytes()));
    let others: Vec<_> = translation.files.iter().map(|(name, text)| (folder.join(name), text)).collect();
    let files = std::iter::once(&scenario).chain(others.iter().map(|(file, _)| file));
    if let Some(file) = files.into_iter().find(|file| !ours && file.exists()) {
        return Err(CliError::Input(format!(
            "{} exists and was not converted from settings of The ONE\nhint: --out names another folder",
            file.display()
        )));
    }
    let write =
        |file: &Path, text: &str| std::fs::write(file, text).map_err(|why| crate::cannot_write(file, &why, "--out"));
    others.iter().try_for_each(|(file, text)| write(file, text))?;
    write(&scenario, &translation.scenario)?;
    Ok(scenario)
}

fn bad(mistake: Mistake) -> CliError {
    CliError::Input(mistake.to_string())
}

fn warn_of_unknown(values: &Values, defaults: bool) {
    let foreign = keys::foreign_spaces(values);
    let is_foreign = |key: &str| key.split_once('.').is_some_and(|(space, _)| foreign.iter().any(|name| name == space));
    let unknown: Vec<(&str, String)> = values.unread(|key| keys::is_known(key) || is_foreign(key)).collect();
    for (key, place) in unknown.iter().take(MOST_WARNINGS) {
        let near = keys::nearest(key).map_or(String::new(), |near| format!("\nhint: did you mean `{near}`?"));
        eprintln!("warning: {place} is not a known key{near}");
    }
    if unknown.len() > MOST_WARNINGS {
        // A settings file for another version may have hundreds.
        eprintln!("warning: and {} more", unknown.len() - MOST_WARNINGS);
    }
    for (part, count) in values.beyond(defaults.then_some(Path::new(DEFAULTS))).into_iter().take(MOST_WARNINGS) {
        eprintln!("warning: {part} has no effect: {} is {}", count.key, count.text);
    }
}

fn warn_of_same_names(setups: &[Setup], before: u64, mode: Mode) {
    let mut seen = BTreeMap::new();
    // Numbered from 1, as The ONE counts runs.
    for (number, setup) in (before + 1..).zip(setups) {
        let name = if mode == Mode::Fast { one_fast::name(&setup.name) } else { setup.name.clone() };
        if let Some(first) = seen.insert((name, &setup.reporting.folder), number) {
            eprintln!(
                "warning: runs {} and {} are both named {}, so the later one's reports replace the earlier one's\n\
                 hint: put a key that differs into Scenario.name, such as %%MovementModel.rngSeed%%",
                first, number, setup.name
            );
            // One warning suffices: the hint solves all collisions.
            return;
        }
    }
}

/// Place in a batch of runs: complete runs, and simulated seconds of the one that goes on.
#[derive(Default)]
struct BatchPlace {
    complete: AtomicU64,
    at_s: AtomicU64,
}

/// Ends the program with a summary on Control-C: a simulation has no way to end early. Returns the place to keep.
fn end_on_signal(batch: Range<u64>) -> std::io::Result<Arc<BatchPlace>> {
    let (stop, place) = (farlink_os::process::watch_termination()?, Arc::new(BatchPlace::default()));
    let kept = place.clone();
    std::thread::Builder::new().name("stop".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let (complete, at_s) = (place.complete.load(Ordering::Relaxed), place.at_s.load(Ordering::Relaxed));
        let (count, next) = (batch.end - batch.start, batch.start + complete + 1);
        crate::complain(&format!(
            "stopped in run {next} after {at_s} s of it; {complete} of {count} runs are complete\n\
             hint: reports of the others are missing or cut short; `-b {next}:{}` makes them",
            batch.end
        ));
        std::process::exit(1);
    })?;
    Ok(kept)
}

fn simulate(
    setup: &Setup,
    folder: Option<&Path>,
    number: usize,
    count: usize,
    place: &BatchPlace,
) -> Result<Outcome, CliError> {
    let length = Duration::try_from_secs_f64(setup.end).unwrap_or(Duration::MAX);
    let mut progress = RunProgress::new(length, "simulating");
    let what = if count > 1 { format!("run {} of {count}, {}", number + 1, setup.name) } else { setup.name.clone() };
    place.at_s.store(0, Ordering::Relaxed);
    let outcome = farlink_one::run(setup, folder, &mut |at_s| {
        place.at_s.store(at_s as u64, Ordering::Relaxed);
        progress.show(at_s, &what);
    });
    progress.finish();
    place.complete.fetch_add(1, Ordering::Relaxed);
    outcome.map_err(|failure| match failure {
        farlink_one::Failure::Mistake(mistake) => bad(mistake),
        // A full disk is a failure at run time; any other error means that --report-dir was wrong.
        farlink_one::Failure::Write(file, why) if why.kind() == std::io::ErrorKind::StorageFull => {
            CliError::Run(anyhow::Error::from(why).context(format!("{} cannot be written", file.display())))
        }
        farlink_one::Failure::Write(file, why) => crate::cannot_write(&file, &why, "--report-dir"),
    })
}

fn document(setup: &Setup, outcome: &Outcome) -> Value {
    let mut fields = Map::new();
    // The name comes first, for human readers of the document.
    fields.insert("name".into(), setup.name.clone().into());
    // NaN, such as the mean of no values, becomes null.
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

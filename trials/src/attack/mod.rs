//! `cargo xtask attack`: hostile peers, applications and web pages against a real node with honest neighbours and
//! applications.
//!
//! It contains no code of the node: attackers, applications and measurements use only sockets and `/proc`. Read
//! [`cases::CASES`] and [`judge`] first.

mod cases;
pub mod honest;
pub mod setting;
pub mod stage;
mod verdict;
mod wire;

use crate::harness::Node;
use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use cases::{CASES, Case, Outcome, Target};
use honest::Honest;
use setting::Setting;
use stage::{Abilities, Stage};
use std::path::Path;
use std::time::{Duration, Instant};
use verdict::{Row, Table};
pub use wire::raise_descriptor_limit;

/// The chore `cargo xtask attack`.
pub const CHORE: Chore = Chore {
    name: "attack",
    usage: "[--only NAME] [--shards N] [--list] [--write]",
    help: "Attacks a node that has honest neighbours: memory, their goodput, what is lost.\n\
           \n\
           Each case gets fresh nodes: goodput of honest applications undisturbed, then under attack, then all \
           that was acknowledged must arrive. --limit-time is how long both take each (default 6 s), --rate \
           how many bundles a second each of the four honest directions offers (200), --only names one case, or \
           several with commas, --list tells them all, --shards gives the node so many owner threads, 1, 2 or 4 (the \
           table once for each of several with commas; what no shards may have is left out, and said), --write puts the \
           tables into docs/explanation/attacks.md. \
           A case that misses nothing but goodput is tried once more. Builds with `--profile quick` first; \
           FARLINK_BIN names a ready binary instead. Exit 1 when a mark is missed.",
    run,
};

/// Longest wait after an attack for acknowledged bundles to arrive.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Longest wait after an attack for its descriptors to be closed.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Interval of an operator's status queries.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the status.
const STATUS_MAX: Duration = Duration::from_secs(5);

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (list, write) = (arguments.flag("--list"), arguments.flag("--write"));
    let only = arguments.word("--only")?;
    let shards = shards_of(arguments.word("--shards")?.unwrap_or("1"))?;
    let lasts = Duration::from_secs(arguments.number("--limit-time", 6)?.max(1));
    let rate = arguments.number("--rate", 200)?.max(1);
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an argument of attack");
    }
    let chosen = choose(only)?;
    if list {
        chosen.iter().for_each(|case| println!("{:<26}{}", case.name, case.what));
        return Ok(());
    }
    raise_descriptor_limit();
    let binary = std::path::absolute(tools::farlink()?)?;
    let dir = std::env::temp_dir().join(format!("farlink-attack-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let abilities = Abilities::of(&binary, &dir)?;
    if !abilities.budget {
        eprintln!("this node knows no `[limits] memory`: the bounds it has get shares of {} MiB", stage::BUDGET_MIB);
    }
    let mut tables = Vec::new();
    for shards in shards {
        let possible = |case: &&&Case| Setting::of(case.name, shards).is_possible();
        let mut rows = Vec::new();
        for case in chosen.iter().filter(possible) {
            eprintln!("{}: {}", case.name, case.what);
            let folder = dir.join(format!("{}-{shards}", case.name));
            rows.push(judge_twice(&folder, case.name, |folder| {
                judge(case, Setting::of(case.name, shards), &binary, folder, abilities, (lasts, rate))
            })?);
        }
        let left_out = chosen.iter().filter(|case| !possible(case)).map(|case| case.name).collect();
        let table = Table { shards, rows, left_out };
        print!("{}", table.text(lasts, rate));
        tables.push(table);
    }
    if write {
        verdict::write(&tables, lasts, rate)?;
    }
    let missed: Vec<String> = tables.iter().flat_map(Table::missed).collect();
    if missed.is_empty() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(());
    }
    bail!("{} marks missed:\n{}\nconfigurations and logs are in {}", missed.len(), missed.join("\n"), dir.display())
}

/// Judges a case in a folder, and once more if only its goodput was too low. The folder is kept if a bound was missed.
fn judge_twice(folder: &Path, name: &'static str, judge: impl Fn(&Path) -> Result<Row>) -> Result<Row> {
    let attempt = |tries| -> Result<Row> {
        // The folder may hold the logs of a first try.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder)?;
        let row = judge(folder).unwrap_or_else(|why| Row::failed(name, format!("{why:#}")));
        let row = Row { tries, ..row };
        eprintln!("  {}", row.line());
        Ok(row)
    };
    let mut row = attempt(1)?;
    // Other load on the machine can only reduce goodput: one more try, which the table shows.
    if row.misses_goodput_only() {
        row = attempt(2)?;
    }
    if row.missed().is_empty() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(row)
}

/// Parses numbers of shards, separated by commas.
fn shards_of(words: &str) -> Result<Vec<u8>> {
    let one = |word: &str| match word.parse() {
        Ok(shards @ (1 | 2 | 4)) => Ok(shards),
        _ => bail!("--shards: `{word}` is none of 1, 2 and 4"),
    };
    words.split(',').map(one).collect()
}

/// The named cases, or all of them.
fn choose(only: Option<&str>) -> Result<Vec<&'static Case>> {
    let Some(names) = only else { return Ok(CASES.iter().collect()) };
    let named = |name: &str| CASES.iter().find(|case| case.name == name);
    names
        .split(',')
        .map(|name| {
            named(name).with_context(|| format!("no case `{name}`\nhint: `cargo xtask attack --list` names them"))
        })
        .collect()
}

/// Runs one case on fresh nodes: first undisturbed, then under attack.
fn judge(
    case: &Case,
    setting: Setting,
    binary: &Path,
    dir: &Path,
    abilities: Abilities,
    (lasts, rate): (Duration, u64),
) -> Result<Row> {
    let mut stage = Stage::start(binary, dir, abilities, setting)?;
    let honest = Honest::start(&stage, [rate; 4]);
    let row = measure(case, &mut stage, &honest, lasts, rate);
    let ended = stage.end();
    // Applications block on their nodes, so they end after them.
    honest.end();
    let mut row = row?;
    if let Err(why) = ended {
        row.broke.get_or_insert(format!("{why:#}"));
    }
    Ok(row)
}

fn measure(case: &Case, stage: &mut Stage, honest: &Honest, lasts: Duration, rate: u64) -> Result<Row> {
    honest.wait_flowing()?;
    let mut before = AttackWatch::default();
    let undisturbed = before.during(stage, honest, lasts)?;
    // The undisturbed part has opened descriptors and written to the log, too: only growth beyond it counts.
    let (descriptors, logged) = (stage.attacked().descriptors(), stage.attacked().logged());
    stage.attacked().forget_peak()?;
    let target = Target {
        tcpcl: stage.tcpcl,
        ltp: stage.ltp,
        tls: stage.tls,
        old: stage.old,
        stcp: stage.stcp,
        mtcp: stage.mtcp,
        udpcl: stage.udpcl,
        announcements: stage.announcements,
        api: stage.api,
        applications: stage.socket(1),
        neighbours_applications: stage.socket(2),
        begun: Instant::now(),
        lasts,
    };
    let run = case.run;
    let attack = std::thread::spawn(move || run(&target));
    let mut watch = AttackWatch::default();
    let attacked = watch.during(stage, honest, lasts)?;
    let most_descriptors = watch.descriptors;
    let outcome = attack.join().unwrap_or_else(|_| bail!("the attacker panicked"));
    // An attack that the node ends early has failed; it is not an error.
    let outcome = outcome.unwrap_or_else(|why| Outcome::of(format!("ended: {why:#}")));
    let account = honest.drain(DRAIN_MAX);
    let settling = Instant::now();
    // Closing connections takes the node a moment.
    while stage.attacked().descriptors() > descriptors && settling.elapsed() < SETTLE_MAX {
        std::thread::sleep(Duration::from_millis(50));
    }
    let node = stage.attacked();
    let offered = rate as f64 * lasts.as_secs_f64();
    let shares = attacked.iter().zip(&undisturbed).map(|(here, there)| *here as f64 / (*there).max(1) as f64);
    Ok(Row {
        name: case.name,
        peak: node.peak(),
        undisturbed: undisturbed.iter().map(|arrived| *arrived as f64 / offered).fold(1.0, f64::min),
        shares: shares.collect(),
        account,
        descriptors_most: most_descriptors,
        descriptors_gained: node.descriptors() as i64 - descriptors as i64,
        logged: node.logged() - logged,
        status_slowest: watch.status_slowest,
        status_unanswered: watch.status_unanswered,
        did: outcome.did,
        tries: 1,
        broke: if node.alive() { outcome.broke } else { Some(format!("the node ended:\n{}", node.log_tail())) },
    })
}

/// An operator's observations over some seconds.
#[derive(Default)]
struct AttackWatch {
    descriptors: usize,
    status_slowest: Duration,
    status_unanswered: u64,
}

impl AttackWatch {
    /// Observes for `lasts`; returns the honest bundles delivered meanwhile, by direction.
    fn during(&mut self, stage: &mut Stage, honest: &Honest, lasts: Duration) -> Result<Vec<u64>> {
        let (begun, before) = (Instant::now(), honest.delivered());
        // A query may outlast the time, so deliveries are counted before joining its thread.
        let answers = std::thread::scope(|scope| {
            let node = &stage.nodes[0];
            let asking = scope.spawn(move || ask_every_second(node, begun + lasts));
            while begun.elapsed() < lasts {
                self.descriptors = self.descriptors.max(node.descriptors());
                std::thread::sleep((lasts - begun.elapsed().min(lasts)).min(Duration::from_millis(50)));
            }
            let delivered = honest.delivered();
            asking.join().map(|answers| (answers, delivered))
        });
        let Ok((answers, delivered)) = answers else { bail!("asking for the status failed") };
        for answer in answers? {
            match answer {
                Some(took) => self.status_slowest = self.status_slowest.max(took),
                None => self.status_unanswered += 1,
            }
        }
        Ok(delivered.iter().zip(&before).map(|(after, before)| after - before).collect())
    }
}

fn ask_every_second(node: &Node, until: Instant) -> Result<Vec<Option<Duration>>> {
    let mut answers = Vec::new();
    while Instant::now() < until {
        let next = Instant::now() + STATUS_EVERY;
        // Queries fall in the middle of intervals, so that the attack is under way at the first and the last one, too.
        std::thread::sleep(STATUS_EVERY.min(until.saturating_duration_since(Instant::now())) / 2);
        answers.push(node.ask("status", STATUS_MAX)?.map(|(took, _)| took));
        std::thread::sleep(next.min(until).saturating_duration_since(Instant::now()));
    }
    Ok(answers)
}

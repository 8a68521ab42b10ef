//! Observers do not affect a run: events, their order and the tables are the same.

use farlink_base::{Event, EventClass, Instant};
use farlink_scenario::Scenario;
use farlink_sim::contacts::ContactEdge;
use farlink_sim::{Nodes, Observer, Options, Outcome};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Observer that reads everything.
#[derive(Default)]
struct Curious {
    reached: Vec<Instant>,
    events: u64,
    contacts: u64,
    most: u64,
    held: usize,
    reasons: u64,
    /// Time at which the observer ends the run, and the flag that ends it.
    until: Option<(Instant, Arc<AtomicBool>)>,
}
impl Observer for Curious {
    fn wants(&self, class: EventClass) -> bool {
        class != EventClass::Segment
    }
    fn event(&mut self, at: Instant, _: usize, _: &Event) {
        self.events += 1;
        assert!(at == Instant::ZERO || self.reached.last() == Some(&at), "first it is reached");
    }
    fn contact(&mut self, _: &ContactEdge) {
        self.contacts += 1;
    }
    fn reach(&mut self, at: Instant, nodes: &Nodes<'_>) {
        assert!(self.reached.last().is_none_or(|last| *last <= at));
        self.reached.push(at);
        self.most = self.most.max(nodes.usage(0).bytes);
        // Listing bundles walks all that a node holds, so it happens in every 256th call.
        let limit = if self.reached.len().is_multiple_of(256) { 7 } else { 0 };
        let rows = if limit > 0 { nodes.bundles(0, at, limit) } else { Vec::new() };
        self.held = self.held.max(rows.len());
        self.reasons += rows.iter().filter(|row| !row.waits_for.is_empty()).count() as u64;
        assert!(nodes.bundles(9999, at, 7).is_empty() && nodes.is_down(9999) && !nodes.is_down(0));
        if let Some((until, stop)) = &self.until {
            stop.store(at >= *until, Ordering::Relaxed);
        }
    }
}

fn load(file: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../campaigns").join(file);
    let mut scenario = Scenario::load(&path).unwrap_or_else(|errors| panic!("{errors:#?}"));
    // Packet-level scenarios have many events: 20 s suffice.
    let most_s = if scenario.radios.is_empty() { 20 } else { 2000 };
    scenario.duration = scenario.duration.min(farlink_base::Duration::from_secs(most_s));
    scenario
}

fn tables(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn watched_run_is_unchanged() {
    for file in ["town/scenario.toml", "congestion/town.toml", "iss/scenario.toml"] {
        let scenario = load(file);
        let folder = tempfile::tempdir().unwrap();
        let options = |name: &str| Options { folder: folder.path().join(name), ..Options::default() };
        let (alone, before): (_, Outcome) = farlink_sim::run(&scenario, &options("alone"), &mut |_| {}).unwrap();
        let mut curious = Curious::default();
        let (watched, after) = farlink_sim::run_watched(&scenario, &options("watched"), &mut curious).unwrap();
        assert_eq!(before, after, "{file}");
        assert!(tables(&alone) == tables(&watched), "{file}: every byte of the tables");
        assert!(curious.reached.len() as u64 >= before.happenings && curious.events > 0, "{file}");
        assert!(curious.most > 0 && curious.held > 0 && curious.reasons > 0, "{file}: it saw what is held, and why");
        assert_eq!(curious.contacts > 0, !scenario.radios.is_empty(), "{file}");
    }
}

#[test]
fn run_ended_by_watcher_is_written() {
    let scenario = load("town/scenario.toml");
    let folder = tempfile::tempdir().unwrap();
    let options = Options { folder: folder.path().join("run"), ..Options::default() };
    let until = Some((Instant(500_000_000_000), options.stop.clone()));
    let (_, outcome) =
        farlink_sim::run_watched(&scenario, &options, &mut Curious { until, ..Curious::default() }).unwrap();
    assert!(outcome.stopped && (500.0..600.0).contains(&outcome.ended.as_secs_f64()), "{outcome:?}");
    let run = farlink_report::RunReader::open(&options.folder).unwrap();
    assert!(!run.manifest().finished && run.manifest().duration_s == outcome.ended.as_secs_f64());
    let mut last = 0f64;
    run.legs(&mut |leg| {
        last = last.max(leg.end_s);
        Ok(())
    })
    .unwrap();
    assert_eq!(last, outcome.ended.as_secs_f64(), "ways lead to where the run ended");
}

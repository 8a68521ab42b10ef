//! A campaign in a temporary folder, and a runner that answers at once.

#![allow(dead_code, reason = "each test file uses part of it")]

use anyhow::{Result, bail};
use farlink_base::ConfigError;
use farlink_campaign::{
    Campaign, CampaignFolder, CampaignOptions, CampaignPlan, CellEnd, CellJob, Results, Runner, Summary,
};
use farlink_report::{EventRow, Manifest, RunWorld, RunWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub const SCENARIO: &str = "name = \"pair\"\nduration = \"20 s\"\n\
    [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
    [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\ndelay = \"1 s\"\nrate = \"1 Mbit/s\"\n\
    [[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 10, size = \"1 kB\", interval = \"1 s\" }\n";

pub const CAMPAIGN: &str = "name = \"pair\"\nscenario = \"scenario.toml\"\nrepetitions = 3\nseed = 10\n\
    [[axis]]\nname = \"delay\"\nkeys = \"link[l].delay\"\nvalues = [\"1 s\", \"2 s\", \"3 s\"]\n\
    [[axis]]\nname = \"size\"\nkeys = [\"node[*].store_capacity\"]\nvalues = [\"1 MB\", \"2 MB\"]\nlabels = [\"small\", \"large\"]\n\
    [[figure]]\nname = \"ratio\"\nmetric = \"delivery_ratio\"\nx = \"delay\"\nseries = \"size\"\n\
    [[figure.claim]]\ntext = \"More room, more delivered.\"\nrule = \"above\"\n\
    [[figure]]\nname = \"latency\"\nmetric = \"latency_mean_s\"\nx = \"delay\"\nfixed = { size = \"small\" }\n\
    [[figure.claim]]\ntext = \"It grows.\"\nrule = \"rises\"\n";

pub fn folder(campaign: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.toml"), SCENARIO).unwrap();
    std::fs::write(folder.path().join("campaign.toml"), campaign).unwrap();
    folder
}

pub fn plan(folder: &Path) -> Result<CampaignPlan, Vec<ConfigError>> {
    CampaignPlan::new(Campaign::load(folder)?)
}

/// Event at a time in ns of the bundle of 1000 B with this sequence number, from service 1 of `a` to service 2 of `b`.
pub fn event(sequence: u64, at: u64, name: &'static str) -> EventRow {
    EventRow {
        source: Some("a".into()),
        service: Some(1),
        creation_ms: Some(1),
        sequence: Some(sequence),
        destination: Some("b".into()),
        destination_service: Some(2),
        size: Some(1000),
        ..EventRow::new(at, "a".into(), name)
    }
}

/// A runner whose larger stores deliver more, whose longer delays deliver later, and whose seeds differ a little; it
/// can fail, panic or stop at a given cell.
#[derive(Default)]
pub struct Pretend {
    pub count: AtomicUsize,
    pub fail: Option<&'static str>,
    pub panic: Option<&'static str>,
    pub stop_after: Option<usize>,
    /// Part of a cell's name, and how many of its runs are disturbed.
    pub disturb: Option<(&'static str, usize)>,
    pub disturbed: AtomicUsize,
    /// Part of the name of a cell that fails when it is run after a disturbed run.
    pub fail_again: Option<&'static str>,
}
impl Runner for Pretend {
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd> {
        let name = job.plan.name(job.cell);
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        if self.stop_after.is_some_and(|most| number >= most) {
            job.stop.store(true, Ordering::SeqCst);
            // A killed process leaves half a run.
            std::fs::write(job.folder.join("manifest.json"), "{").unwrap();
            return Ok(CellEnd::Stopped);
        }
        let again = self.disturbed.load(Ordering::SeqCst) > 0;
        if self.fail.is_some_and(|what| name.contains(what))
            || again && self.fail_again.is_some_and(|what| name.contains(what))
        {
            std::fs::write(job.folder.join("manifest.json"), "{").unwrap();
            bail!("no room on the moon");
        }
        assert!(!self.panic.is_some_and(|what| name.contains(what)), "a mistake of ours");
        let scenario = job.plan.scenario(job.cell).unwrap();
        let large = scenario.nodes[0].settings().store.capacity.bytes() > 1_000_000;
        let delay = job.plan.configurations[job.cell.configuration].values[0].1 as u64 + 1;
        let mut run = RunWriter::create(job.folder, Manifest::new(RunWorld::Sim, "pair", "", None)).unwrap();
        for sequence in 0..10 {
            run.event(&event(sequence, sequence, "created")).unwrap();
            if sequence < 5 + 3 * u64::from(large) + scenario.seed % 2 {
                run.event(&event(sequence, sequence + delay * 1_000_000_000, "delivered")).unwrap();
            }
        }
        if let Some((what, times)) = self.disturb.filter(|(what, _)| name.contains(what))
            && self.disturbed.fetch_add(1, Ordering::SeqCst) < times
        {
            assert_eq!(
                std::fs::read_dir(job.folder).unwrap().filter(|f| f.as_ref().unwrap().path().is_dir()).count(),
                0
            );
            run.manifest().validity.disturbances.push(format!("Machine: {what} was loud."));
        }
        run.finish().unwrap();
        Ok(CellEnd::Done)
    }
}

pub fn run(plan: &CampaignPlan, folder: &CampaignFolder, jobs: usize, runner: &Pretend) -> Result<Summary> {
    let stop = AtomicBool::new(false);
    let options = CampaignOptions { jobs, stop: &stop, version: "test" };
    farlink_campaign::run(plan, folder, options, runner, &mut |_| {})
}

/// Contents of all result files, by name.
pub fn written(plan: &CampaignPlan, folder: &CampaignFolder) -> Vec<(String, Vec<u8>)> {
    let results = Results::new(plan, folder.records(plan).unwrap());
    results.write(folder).unwrap();
    let files = ["results.txt", "cells.csv", "points.csv", "cells.parquet", "points.parquet", "figures/ratio.svg"];
    files.iter().map(|file| (file.to_string(), std::fs::read(folder.path().join(file)).unwrap())).collect()
}

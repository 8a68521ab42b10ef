//! Execution of a plan's cells, several at once; cells that ended survive any interruption.

use crate::folder::{CampaignFolder, CellRecord, DisturbedTry};
use crate::measure::{self, CellNumbers};
use crate::plan::{CampaignPlan, PlanCell};
use crate::queue::CellQueue;
use anyhow::Result;
use farlink_report::RunReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Input of a runner: the cell to run, and its folder.
#[derive(Clone, Copy, Debug)]
pub struct CellJob<'a> {
    /// Plan that the cell belongs to.
    pub plan: &'a CampaignPlan,
    /// Cell to run.
    pub cell: PlanCell,
    /// Empty folder for the run directory.
    pub folder: &'a Path,
    /// Set from outside when the cell should stop.
    pub stop: &'a AtomicBool,
}

/// Outcome of a cell that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellEnd {
    /// The run finished; its folder is complete.
    Done,
    /// The run was stopped early.
    Stopped,
}

/// Runs one cell, in this process or as a child process.
pub trait Runner: Sync {
    /// Runs the cell and writes its run directory.
    ///
    /// # Errors
    /// The reason of the failure; the campaign continues with other cells.
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd>;
}

/// Options of [`run`].
#[derive(Clone, Copy, Debug)]
pub struct CampaignOptions<'a> {
    /// Number of cells at once, at least 1.
    pub jobs: usize,
    /// Set from outside to stop: finished cells stay, running ones are discarded.
    pub stop: &'a AtomicBool,
    /// Version of this program, stored with the records.
    pub version: &'a str,
}

/// Progress of a running campaign.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CampaignProgress {
    /// Number of cells that ended, earlier ones included.
    pub done: usize,
    /// Number of cells that failed.
    pub failed: usize,
    /// Number of all cells.
    pub total: usize,
    /// Estimated seconds until all cells have ended; `None` until the first cell is measured, and while a running cell
    /// takes longer than estimated.
    pub left_s: Option<f64>,
}

/// Result of [`run`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Number of cells that ended, earlier ones included.
    pub done: usize,
    /// Number of cells that ended during this call.
    pub ran: usize,
    /// Names of failed cells, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Number of cells that were stopped or never started.
    pub left: usize,
}

/// Runs the cells that have no record in the folder yet, and those whose records lack a distribution that a figure shows.
///
/// # Errors
/// When another process holds the folder's lock, or the folder cannot be read.
pub fn run(
    plan: &CampaignPlan,
    folder: &CampaignFolder,
    options: CampaignOptions<'_>,
    runner: &dyn Runner,
    progress: &mut dyn FnMut(&CampaignProgress),
) -> Result<Summary> {
    let _lock = folder.lock()?;
    folder.clean()?;
    let mut queue = CellQueue::default();
    let mut summary = Summary::default();
    let samples = plan.campaign.samples();
    for cell in plan.cells() {
        // A figure that is added later may show a distribution that earlier runs did not keep.
        match folder.record(&plan.name(cell))?.filter(|record| record.numbers.has_all(&samples)) {
            Some(record) => {
                // Times of earlier cells give an estimate from the start.
                queue.took(cell, record.wall_s);
                summary.done += 1;
            }
            None => queue.push(cell),
        }
    }
    let total = plan.cells().len();
    // More threads than cells would have nothing to do.
    let jobs = options.jobs.clamp(1, queue.len().max(1));
    let queue = Mutex::new(queue);
    let (tell, hear) = channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (tell, queue) = (tell.clone(), &queue);
            scope.spawn(move || work(plan, folder, options, runner, queue, &tell));
        }
        // The channel must disconnect when the last worker ends.
        drop(tell);
        loop {
            // The timeout bounds the delay of progress reports while cells take long.
            match hear.recv_timeout(Duration::from_millis(200)) {
                Ok((_, Ok(CellEnd::Done))) => {
                    summary.done += 1;
                    summary.ran += 1;
                }
                Ok((_, Ok(CellEnd::Stopped))) => {}
                Ok((name, Err(why))) => summary.failed.push((name, why)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let left_s = guarded(&queue).left_s(jobs, Instant::now());
            progress(&CampaignProgress { done: summary.done, failed: summary.failed.len(), total, left_s });
        }
    });
    summary.failed.sort();
    summary.left = total - summary.done - summary.failed.len();
    Ok(summary)
}

/// Locks the queue. It changes in single steps, so a panic of another thread leaves it consistent.
fn guarded(queue: &Mutex<CellQueue>) -> MutexGuard<'_, CellQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

type CellOutcome = (String, std::result::Result<CellEnd, String>);

fn work(
    plan: &CampaignPlan,
    folder: &CampaignFolder,
    options: CampaignOptions<'_>,
    runner: &dyn Runner,
    queue: &Mutex<CellQueue>,
    tell: &Sender<CellOutcome>,
) {
    while !options.stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let Some(cell) = guarded(queue).pop(begun) else { return };
        let name = plan.name(cell);
        // A panic is contained: it fails its cell only.
        let ended = catch_unwind(AssertUnwindSafe(|| one(plan, folder, options, runner, cell)));
        let ended = ended.unwrap_or_else(|panic| Err(anyhow::anyhow!("it panicked: {}", words(&*panic))));
        let ended = ended.map_err(|why| {
            let why = format!("{why:#}");
            folder.fail(&name, &why);
            why
        });
        let mut queue = guarded(queue);
        queue.ended(cell);
        if ended == Ok(CellEnd::Done) {
            queue.took(cell, begun.elapsed().as_secs_f64());
        }
        drop(queue);
        let _ = tell.send((name, ended));
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn one(
    plan: &CampaignPlan,
    folder: &CampaignFolder,
    options: CampaignOptions<'_>,
    runner: &dyn Runner,
    cell: PlanCell,
) -> Result<CellEnd> {
    let name = plan.name(cell);
    let running = folder.begin(&name)?;
    let scenario = plan
        .scenario(cell)
        .map_err(|list| anyhow::anyhow!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let samples = plan.campaign.samples();
    let (mut tries, mut numbers_before): (Vec<DisturbedTry>, _) = (Vec::new(), CellNumbers::default());
    loop {
        let begun = Instant::now();
        let ended = runner.run(&CellJob { plan, cell, folder: &running, stop: options.stop });
        // If the repetition of a disturbed run fails, the disturbed run is the result of the cell.
        if let Err(why) = &ended
            && let Some(DisturbedTry { mut disturbances, wall_s, .. }) = tries.pop()
        {
            folder.take_back(&running, &name, tries.len() + 1)?;
            let why = format!("{why:#}");
            disturbances.push(format!("Machine: a repetition failed: {}.", why.lines().next().unwrap_or_default()));
            let record = CellRecord::of(plan, cell, numbers_before, wall_s, options.version);
            folder.end_again(&running, &CellRecord { disturbances, tries, ..record })?;
            return Ok(CellEnd::Done);
        }
        // The folder of an unfinished run is removed, so that a later call starts it again.
        if !matches!(ended, Ok(CellEnd::Done)) {
            folder.drop_cell(&running);
            return ended;
        }
        let numbers = measure::cell_numbers(&scenario, &running, &samples)?;
        let disturbances = RunReader::open(&running)?.manifest().validity.disturbances.clone();
        let wall_s = begun.elapsed().as_secs_f64();
        if !disturbances.is_empty() && (tries.len() as u64) < plan.campaign.retries {
            tries.push(DisturbedTry { disturbances, metrics: numbers.metrics.clone(), wall_s });
            numbers_before = numbers;
            folder.set_aside(&running, &name, tries.len())?;
            continue;
        }
        let record = CellRecord::of(plan, cell, numbers, wall_s, options.version);
        folder.end_again(&running, &CellRecord { disturbances, tries, ..record })?;
        return Ok(CellEnd::Done);
    }
}

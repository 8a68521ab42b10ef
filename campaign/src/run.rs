//! Runs the cells of a plan, several at once, and leaves those that ended whatever happens.

use crate::folder::{Folder, Record};
use crate::metrics;
use crate::plan::{Cell, Plan};
use crate::queue::Queue;
use anyhow::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How one cell is run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The cell.
    pub cell: Cell,
    /// An empty folder, for its run.
    pub folder: &'a Path,
    /// Set from outside: it is to end now.
    pub stop: &'a AtomicBool,
}

/// How a cell ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Its run is in its folder, whole.
    Done,
    /// It was stopped.
    Stopped,
}

/// Runs one cell: in this process, or as a child.
pub trait Runner: Sync {
    /// Runs it and writes its run directory.
    ///
    /// # Errors
    /// Why it failed; the campaign goes on without it.
    fn run(&self, job: &Job<'_>) -> Result<Ended>;
}

/// How to run a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Cells at once; at least one.
    pub jobs: usize,
    /// Set from outside: cells that ended stay, the others are thrown away.
    pub stop: &'a AtomicBool,
    /// This program, with its version.
    pub version: &'a str,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Cells that ended, before and now.
    pub done: usize,
    /// Cells that failed.
    pub failed: usize,
    /// All cells.
    pub total: usize,
    /// Seconds that the rest takes, as far as is known.
    pub left_s: Option<f64>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Cells that ended, before and now.
    pub done: usize,
    /// Cells that ended now.
    pub ran: usize,
    /// Cells that failed, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Cells that were not run, or stopped.
    pub left: usize,
}

/// Runs what is still to be run. What is in the folder already is done.
///
/// # Errors
/// When another process is at work in the folder, or the folder cannot be read.
pub fn run(
    plan: &Plan,
    folder: &Folder,
    options: Options<'_>,
    runner: &dyn Runner,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary> {
    let _lock = folder.lock()?;
    folder.clean()?;
    let mut queue = Queue::default();
    let mut summary = Summary::default();
    for cell in plan.cells() {
        match folder.record(&plan.name(cell))? {
            Some(record) => {
                queue.took(cell, record.wall_s);
                summary.done += 1;
            }
            None => queue.push(cell),
        }
    }
    let total = plan.cells().len();
    let jobs = options.jobs.clamp(1, queue.len().max(1));
    let queue = Mutex::new(queue);
    let (tell, hear) = channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (tell, queue) = (tell.clone(), &queue);
            scope.spawn(move || work(plan, folder, options, runner, queue, &tell));
        }
        drop(tell);
        loop {
            match hear.recv_timeout(Duration::from_millis(200)) {
                Ok((_, Ok(Ended::Done))) => {
                    summary.done += 1;
                    summary.ran += 1;
                }
                Ok((_, Ok(Ended::Stopped))) => {}
                Ok((name, Err(why))) => summary.failed.push((name, why)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let left_s = guarded(&queue).work_s().map(|work| work / jobs as f64);
            progress(&Progress { done: summary.done, failed: summary.failed.len(), total, left_s });
        }
    });
    summary.failed.sort();
    summary.left = total - summary.done - summary.failed.len();
    Ok(summary)
}

/// A thread that panicked left the queue as good as it was: it is changed in one step.
fn guarded(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

type Told = (String, std::result::Result<Ended, String>);

fn work(
    plan: &Plan,
    folder: &Folder,
    options: Options<'_>,
    runner: &dyn Runner,
    queue: &Mutex<Queue>,
    tell: &Sender<Told>,
) {
    while !options.stop.load(Ordering::Relaxed) {
        let Some(cell) = guarded(queue).pop() else { return };
        let (name, begun) = (plan.name(cell), Instant::now());
        // A cell that panics is one that fails: the others have nothing to do with it.
        let ended = catch_unwind(AssertUnwindSafe(|| one(plan, folder, options, runner, cell)));
        let ended = ended.unwrap_or_else(|panic| Err(anyhow::anyhow!("it panicked: {}", words(&*panic))));
        let ended = ended.map_err(|why| {
            let why = format!("{why:#}");
            folder.fail(&name, &why);
            why
        });
        if ended == Ok(Ended::Done) {
            guarded(queue).took(cell, begun.elapsed().as_secs_f64());
        }
        let _ = tell.send((name, ended));
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn one(plan: &Plan, folder: &Folder, options: Options<'_>, runner: &dyn Runner, cell: Cell) -> Result<Ended> {
    let (name, begun) = (plan.name(cell), Instant::now());
    let running = folder.begin(&name)?;
    let ended = runner.run(&Job { plan, cell, folder: &running, stop: options.stop });
    if !matches!(ended, Ok(Ended::Done)) {
        folder.drop_cell(&running);
        return ended;
    }
    let scenario = plan
        .scenario(cell)
        .map_err(|list| anyhow::anyhow!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let numbers = metrics::measure(&scenario, &running)?;
    let record = Record::of(plan, cell, numbers, begun.elapsed().as_secs_f64(), options.version);
    folder.end(&running, &record)?;
    Ok(Ended::Done)
}

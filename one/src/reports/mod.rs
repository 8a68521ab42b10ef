//! Report files in The ONE's formats, written from the events of a run.

mod connectivity;
mod contacts;
mod log;
mod messages;
mod statistics;

pub use messages::MessageKind;
pub use statistics::{Figures, Statistics};

use super::settings::{ReportClass, ReportSetup, Setup};
use crate::failure::Failure;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Message that was created.
#[derive(Debug)]
pub struct Message {
    /// Name of the message.
    pub id: String,
    /// Number of the sending host.
    pub from: u32,
    /// Number of the receiving host.
    pub to: u32,
    /// Length in bytes.
    pub size: i32,
    /// Creation time, seconds.
    pub created: f64,
    /// Lifetime, minutes; `None` if the message does not expire.
    pub lifetime: Option<i32>,
}

impl Message {
    /// Whole minutes until the message expires; `None` if it does not.
    pub fn minutes_left(&self, now: f64) -> Option<i32> {
        // Integer division truncates: a message expires up to one minute early, as in The ONE.
        self.lifetime.map(|minutes| ((f64::from(minutes) * 60.0 - (now - self.created)) / 60.0) as i32)
    }
}

/// Names of hosts and messages, by number.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of all hosts.
    pub hosts: Vec<String>,
    /// Messages in the order of creation.
    pub messages: Vec<Message>,
    /// Paths of copies: each entry is a host, and the entry of the host before it; its own for the first host.
    pub paths: Vec<[u32; 2]>,
}

impl Names {
    /// Numbers of the hosts on a path, the last one first.
    pub fn backwards(&self, path: u32) -> impl Iterator<Item = u32> {
        let entry = |path: u32| self.paths.get(path as usize).map(|&[host, before]| (host, path, before));
        let step = move |&(_, path, before): &(u32, u32, u32)| (before != path).then(|| entry(before)).flatten();
        std::iter::successors(entry(path), step).map(|(host, ..)| host)
    }
    fn path(&self, path: u32) -> Vec<&str> {
        let mut hosts: Vec<&str> = self.backwards(path).map(|host| self.hosts[host as usize].as_str()).collect();
        hosts.reverse();
        hosts
    }
}

/// Events of a run; hosts and messages by number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Happened {
    /// Host `a` noticed that it meets, or no longer meets, `b`.
    Contact { a: u32, b: u32, up: bool },
    /// A message was made.
    Created { message: u32, from: u32 },
    /// A host began a transfer.
    Started { from: u32, to: u32, message: u32 },
    /// A transfer completed; `last` if the receiver is the message's destination, `first` if the message is there for
    /// the first time.
    Done { from: u32, to: u32, message: u32, hops: u32, path: u32, last: bool, first: bool },
    /// A transfer was aborted.
    Aborted { from: u32, to: u32, message: u32 },
    /// A host removed a message: expired or evicted (`dropped`), otherwise delivered.
    Deleted { host: u32, message: u32, received: f64, dropped: bool },
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// Report that is written line by line.
trait Lines {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, names: &Names) -> std::io::Result<()>;
    /// Writes what is known at the end only.
    fn end(&mut self, _: &mut Out, _now: f64) -> std::io::Result<()> {
        Ok(())
    }
}

enum ReportKind {
    Statistics,
    Lines(Box<dyn Lines + Send>),
}

struct Report {
    kind: ReportKind,
    out: Out,
    /// First error of writing this report.
    written: std::io::Result<()>,
}

/// Reports of a run, and the figures of `MessageStatsReport`, which are always computed.
pub struct Reports {
    reports: Vec<Report>,
    statistics: Statistics,
    name: String,
    precision: usize,
}

/// Creates the report files of a run.
///
/// # Errors
/// Fails if a file cannot be created.
pub fn open(setup: &Setup, folder: &Path) -> Result<(Reports, Vec<PathBuf>), Failure> {
    let mut outs: Vec<Box<dyn Write + Send>> = Vec::new();
    let mut files = Vec::new();
    if !setup.reporting.reports.is_empty() {
        std::fs::create_dir_all(folder).map_err(|why| Failure::Write(folder.to_path_buf(), why))?;
    }
    for report in &setup.reporting.reports {
        let file = folder.join(format!("{}_{}.txt", setup.name, report.name));
        outs.push(Box::new(File::create(&file).map_err(|why| Failure::Write(file.clone(), why))?));
        files.push(file);
    }
    Ok((Reports::new(setup, outs), files))
}

impl Reports {
    /// Makes the reports of a run, which write to `outs` in the order of the settings.
    pub fn new(setup: &Setup, outs: Vec<Box<dyn Write + Send>>) -> Reports {
        let lines = |lines: Box<dyn Lines + Send>| ReportKind::Lines(lines);
        let kind = |report: &ReportSetup| match report.class {
            ReportClass::Statistics => ReportKind::Statistics,
            ReportClass::EventLog => lines(Box::new(log::EventLog::default())),
            ReportClass::Connectivity => lines(Box::new(connectivity::Connectivity::new(report.warmup))),
            ReportClass::Contacts { between } => {
                lines(Box::new(contacts::ContactTimes::new(between, report.granularity, report.warmup)))
            }
            ReportClass::Messages(kind) => {
                lines(Box::new(messages::Messages::new(kind, report.precision, report.warmup)))
            }
        };
        let reports = setup.reporting.reports.iter().zip(outs).map(|(report, out)| {
            let out = BufWriter::with_capacity(1 << 16, out);
            Report { kind: kind(report), out, written: Ok(()) }
        });
        Reports {
            reports: reports.collect(),
            statistics: Statistics::new(setup.reporting.figures.warmup),
            name: setup.name.clone(),
            precision: setup.reporting.figures.precision,
        }
    }
    /// Passes an event to all reports.
    pub fn record(&mut self, now: f64, happened: &Happened, names: &Names) {
        self.statistics.record(now, happened, names);
        for report in &mut self.reports {
            // After an error the report is abandoned; `finish` returns it.
            if let (ReportKind::Lines(lines), Ok(())) = (&mut report.kind, &report.written) {
                report.written = lines.line(&mut report.out, now, happened, names);
            }
        }
    }
    /// Ends the run and writes the statistics.
    ///
    /// # Errors
    /// Fails if a report could not be written.
    pub fn finish(&mut self, now: f64, files: &[PathBuf]) -> Result<Figures, Failure> {
        let figures = self.statistics.figures(now);
        for (place, report) in self.reports.iter_mut().enumerate() {
            let mut written = std::mem::replace(&mut report.written, Ok(()));
            written = written.and_then(|()| match &mut report.kind {
                ReportKind::Statistics => figures.write(&mut report.out, &self.name, self.precision),
                ReportKind::Lines(lines) => lines.end(&mut report.out, now),
            });
            let file = || files.get(place).cloned().unwrap_or_default();
            written.and_then(|()| report.out.flush()).map_err(|why| Failure::Write(file(), why))?;
        }
        Ok(figures)
    }
}

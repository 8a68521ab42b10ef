//! Report files in The ONE's formats, written from the events of a run.

mod connectivity;
mod log;
mod statistics;

pub use statistics::{Figures, Statistics};

use super::settings::{ReportClass, Setup};
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
    /// Creation time, seconds.
    pub created: f64,
    /// Lifetime, minutes; `None` if the message does not expire.
    pub lifetime: Option<i32>,
}

/// Names of hosts and messages, by number.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of all hosts.
    pub hosts: Vec<String>,
    /// Messages in the order of creation.
    pub messages: Vec<Message>,
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
    Done { from: u32, to: u32, message: u32, hops: u32, last: bool, first: bool },
    /// A transfer was aborted.
    Aborted { from: u32, to: u32, message: u32 },
    /// A host removed a message: expired or evicted (`dropped`), otherwise delivered.
    Deleted { host: u32, message: u32, received: f64, dropped: bool },
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// Report that is written line by line.
trait Lines {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, names: &Names) -> std::io::Result<()>;
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
    if !setup.reporting.classes.is_empty() {
        std::fs::create_dir_all(folder).map_err(|why| Failure::Write(folder.to_path_buf(), why))?;
    }
    for (name, _) in &setup.reporting.classes {
        let file = folder.join(format!("{}_{name}.txt", setup.name));
        outs.push(Box::new(File::create(&file).map_err(|why| Failure::Write(file.clone(), why))?));
        files.push(file);
    }
    Ok((Reports::new(setup, outs), files))
}

impl Reports {
    /// Makes the reports of a run, which write to `outs` in the order of the settings.
    pub fn new(setup: &Setup, outs: Vec<Box<dyn Write + Send>>) -> Reports {
        let kind = |class: ReportClass| match class {
            ReportClass::Statistics => ReportKind::Statistics,
            ReportClass::EventLog => ReportKind::Lines(Box::new(log::EventLog::default())),
            ReportClass::Connectivity => ReportKind::Lines(Box::new(connectivity::Connectivity)),
        };
        let classes = setup.reporting.classes.iter().zip(outs);
        let reports = classes.map(|(&(_, class), out)| {
            let out = BufWriter::with_capacity(1 << 16, out);
            Report { kind: kind(class), out, written: Ok(()) }
        });
        Reports {
            reports: reports.collect(),
            statistics: Statistics::new(setup.reporting.warmup),
            name: setup.name.clone(),
            precision: setup.reporting.precision,
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
            if let ReportKind::Statistics = report.kind {
                written = written.and_then(|()| figures.write(&mut report.out, &self.name, self.precision));
            }
            let file = || files.get(place).cloned().unwrap_or_default();
            written.and_then(|()| report.out.flush()).map_err(|why| Failure::Write(file(), why))?;
        }
        Ok(figures)
    }
}

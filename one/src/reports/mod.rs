//! Reports: what happened, as files in The ONE's formats.

mod connectivity;
mod log;
mod statistics;

pub use statistics::{Figures, Statistics};

use super::settings::{ReportClass, Setup};
use crate::failure::Failure;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A message that was made.
#[derive(Debug)]
pub struct Message {
    /// Its name.
    pub id: String,
    /// Who sends it.
    pub from: u32,
    /// Who receives it.
    pub to: u32,
    /// When it was made, seconds.
    pub created: f64,
    /// Minutes that it lives.
    pub lifetime: Option<i32>,
}

/// Names by number.
#[derive(Debug, Default)]
pub struct Names {
    /// Of hosts.
    pub hosts: Vec<String>,
    /// Messages, in the order they were made.
    pub messages: Vec<Message>,
}

/// What happened; hosts and messages by number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Happened {
    /// `a` noticed that it meets, or no longer meets, `b`.
    Contact { a: u32, b: u32, up: bool },
    /// A message was made.
    Created { message: u32, from: u32 },
    /// A transfer began.
    Started { from: u32, to: u32, message: u32 },
    /// A transfer ended well: at the receiver (`last`), there for the first time.
    Done { from: u32, to: u32, message: u32, hops: u32, last: bool, first: bool },
    /// A transfer was cut.
    Aborted { from: u32, to: u32, message: u32 },
    /// A host no longer holds a message: it was too old or in the way (`dropped`), or is not needed.
    Deleted { host: u32, message: u32, received: f64, dropped: bool },
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// One report that is written line by line.
trait Lines {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, names: &Names) -> std::io::Result<()>;
}

enum Kind {
    Statistics,
    Lines(Box<dyn Lines + Send>),
}

struct Report {
    kind: Kind,
    out: Out,
    /// The first thing that went wrong.
    written: std::io::Result<()>,
}

/// All reports of a run, and the figures of `MessageStatsReport`, which are always taken.
pub struct Reports {
    reports: Vec<Report>,
    statistics: Statistics,
    /// Name of the run.
    name: String,
    precision: usize,
}

/// Makes the files of a run's reports.
///
/// # Errors
/// One that cannot be made.
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
    /// Of a run, into as many outputs as it has reports.
    pub fn new(setup: &Setup, outs: Vec<Box<dyn Write + Send>>) -> Reports {
        let kind = |class: ReportClass| match class {
            ReportClass::Statistics => Kind::Statistics,
            ReportClass::EventLog => Kind::Lines(Box::new(log::EventLog::default())),
            ReportClass::Connectivity => Kind::Lines(Box::new(connectivity::Connectivity)),
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
    /// Something happened.
    pub fn tell(&mut self, now: f64, happened: &Happened, names: &Names) {
        self.statistics.tell(now, happened, names);
        for report in &mut self.reports {
            if let (Kind::Lines(lines), Ok(())) = (&mut report.kind, &report.written) {
                report.written = lines.line(&mut report.out, now, happened, names);
            }
        }
    }
    /// The run is over: writes what remains.
    ///
    /// # Errors
    /// A report that could not be written.
    pub fn finish(&mut self, now: f64, files: &[PathBuf]) -> Result<Figures, Failure> {
        let figures = self.statistics.figures(now);
        for (place, report) in self.reports.iter_mut().enumerate() {
            let mut written = std::mem::replace(&mut report.written, Ok(()));
            if let Kind::Statistics = report.kind {
                written = written.and_then(|()| figures.write(&mut report.out, &self.name, self.precision));
            }
            let file = || files.get(place).cloned().unwrap_or_default();
            written.and_then(|()| report.out.flush()).map_err(|why| Failure::Write(file(), why))?;
        }
        Ok(figures)
    }
}

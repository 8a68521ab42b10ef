//! Run directories: `manifest.json`, and one Parquet file for each table.

use crate::custody::CustodyUse;
use crate::flow::Flows;
use crate::journey::Journeys;
use crate::manifest::{Manifest, SCHEMA_VERSION};
use crate::schema::{BundleRow, EventRow, LegRow, LinkRow, MeetingRow, ProcessRow, SampleRow, TABLES};
use crate::table::{TableWriter, is_whole, read_table};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";

/// Writes a run directory. Memory is bounded, except for one small record per bundle.
pub struct RunWriter {
    folder: PathBuf,
    manifest: Manifest,
    journeys: Journeys,
    keep_events: bool,
    events: TableWriter<EventRow>,
    samples: TableWriter<SampleRow>,
    /// Tables that most runs lack; created with their first row.
    legs: Option<TableWriter<LegRow>>,
    meetings: Option<TableWriter<MeetingRow>>,
    links: Vec<LinkRow>,
    processes: Vec<ProcessRow>,
    last_ns: u64,
}

impl RunWriter {
    /// Creates the directory if needed, deletes the tables of an earlier run there, and writes a first manifest in
    /// which `finished` is false.
    pub fn create(folder: &Path, mut manifest: Manifest) -> Result<RunWriter> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        manifest.finished = false;
        // Tables left by the run being replaced would be taken for this run's if it were
        // interrupted.
        for table in TABLES {
            let _ = std::fs::remove_file(folder.join(format!("{}.parquet", table.name)));
        }
        write_manifest(folder, &manifest)?;
        Ok(RunWriter {
            events: TableWriter::create(folder)?,
            samples: TableWriter::create(folder)?,
            folder: folder.to_path_buf(),
            manifest,
            journeys: Journeys::default(),
            keep_events: true,
            legs: None,
            meetings: None,
            links: Vec::new(),
            processes: Vec::new(),
            last_ns: 0,
        })
    }
    /// Path of the run directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// The manifest, open for changes until [`RunWriter::finish`] writes it.
    pub fn manifest(&mut self) -> &mut Manifest {
        &mut self.manifest
    }
    /// Leaves the events table empty; the bundles table is still aggregated from the events.
    pub fn without_events(&mut self) {
        self.keep_events = false;
    }
    /// Appends an event and updates the bundles table. Events of different nodes may come in any order.
    pub fn event(&mut self, row: &EventRow) -> Result<()> {
        self.last_ns = self.last_ns.max(row.time_ns);
        // The bundles table needs the events even if their own table is left out.
        self.journeys.observe(row);
        CustodyUse::count(&mut self.manifest.custody, &row.event);
        // `done` is the reason of a copy that was delivered or forwarded, not given up.
        if let (true, Some(reason)) = (&*row.event == "deleted", row.reason.as_deref().filter(|why| *why != "done")) {
            count(&mut self.manifest.given_up, reason);
        }
        if self.keep_events { self.events.push(row) } else { Ok(()) }
    }
    /// Appends one sample of a metric. A sample without a phase gets the manifest's phase at its time.
    pub fn sample(&mut self, row: &SampleRow) -> Result<()> {
        self.last_ns = self.last_ns.max(row.time_ns);
        let phase = self.manifest.phases.iter().find(|phase| phase.holds(row.time_ns));
        match phase.filter(|_| row.phase.is_none()) {
            Some(phase) => self.samples.push(&SampleRow { phase: Some(phase.name.as_str().into()), ..row.clone() }),
            None => self.samples.push(row),
        }
    }
    /// Appends one straight piece of a node's movement.
    pub fn leg(&mut self, row: &LegRow) -> Result<()> {
        push(&mut self.legs, &self.folder, row)
    }
    /// Appends an interval during which two nodes were in radio range.
    pub fn meeting(&mut self, row: &MeetingRow) -> Result<()> {
        push(&mut self.meetings, &self.folder, row)
    }
    /// Adds the totals of one direction of a link. An `up_ns` of 0 is computed from the contact plan at the end.
    pub fn link(&mut self, row: LinkRow) {
        self.links.push(row);
    }
    /// Adds the resources used by a process.
    pub fn process(&mut self, row: ProcessRow) {
        self.processes.push(row);
    }
    /// Writes all tables, marks the run as finished, and returns its directory. A `duration_s` of 0 is replaced with
    /// the time of the last event or sample.
    pub fn finish(self) -> Result<PathBuf> {
        self.end(true)
    }
    /// Writes all tables of a run that stopped early; `finished` stays false.
    pub fn interrupted(self) -> Result<PathBuf> {
        self.end(false)
    }
    fn end(mut self, finished: bool) -> Result<PathBuf> {
        if self.manifest.duration_s == 0.0 {
            self.manifest.duration_s = self.last_ns as f64 / 1e9;
        }
        self.events.finish()?;
        self.samples.finish()?;
        self.legs.map_or(Ok(0), TableWriter::finish)?;
        self.meetings.map_or(Ok(0), TableWriter::finish)?;
        // Bundles, links and processes are known only at the end, so these tables are written in
        // one go.
        write_rows(&self.folder, self.journeys.rows(&Flows::of(&self.manifest.topology.traffic)))?;
        let times = self.manifest.topology.up_times(self.manifest.duration_s);
        for link in &mut self.links {
            if link.up_ns == 0 {
                link.up_ns = (times.up_s(&link.link, &link.from_node) * 1e9) as u64;
            }
        }
        write_rows(&self.folder, self.links)?;
        write_rows(&self.folder, self.processes)?;
        self.manifest.finished = finished;
        self.manifest.validity.verdict = Some(self.manifest.validity.judge());
        write_manifest(&self.folder, &self.manifest)?;
        Ok(self.folder)
    }
}

/// Increments the counter of a reason, allocating its name once.
fn count(given_up: &mut BTreeMap<String, u64>, reason: &str) {
    match given_up.get_mut(reason) {
        Some(counted) => *counted += 1,
        None => drop(given_up.insert(reason.to_string(), 1)),
    }
}

/// Appends a row to a table that is created with its first row.
fn push<R: crate::schema::TableRow>(table: &mut Option<TableWriter<R>>, folder: &Path, row: &R) -> Result<()> {
    match table {
        Some(table) => table.push(row),
        None => {
            let mut made = TableWriter::create(folder)?;
            made.push(row)?;
            *table = Some(made);
            Ok(())
        }
    }
}

fn write_rows<R: crate::schema::TableRow>(folder: &Path, rows: Vec<R>) -> Result<()> {
    let mut table = TableWriter::create(folder)?;
    for row in &rows {
        table.push(row)?;
    }
    table.finish()?;
    Ok(())
}

/// Writes the manifest atomically: to a temporary file, which is then renamed.
fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<()> {
    let (path, beside) = (folder.join(MANIFEST), folder.join("manifest.json.new"));
    let text = serde_json::to_string_pretty(manifest)?;
    let write = || -> std::io::Result<()> {
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, &path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Checks that a run may be written to this directory: it is missing or empty, or it holds a run and `replace` is set.
/// Anything but a run is never overwritten.
///
/// # Errors
/// Names the content of the directory and how to proceed.
pub fn free_for_run(folder: &Path, replace: bool) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        bail!("{} is a file\nhint: --out names a directory", folder.display());
    }
    let taken = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if !taken {
        return Ok(());
    }
    match RunReader::open(folder) {
        Ok(_) if replace => Ok(()),
        Ok(run) => bail!(
            "{} holds another run: {}\nhint: --force replaces it, or choose another --out",
            folder.display(),
            run.manifest.title()
        ),
        // Unknown content is never deleted, not even with --force.
        Err(_) => bail!(
            "{} is not empty and holds no run\nhint: choose another --out; --force replaces runs only, nothing else",
            folder.display()
        ),
    }
}

/// Reads a run directory.
#[derive(Debug)]
pub struct RunReader {
    folder: PathBuf,
    manifest: Manifest,
}

impl RunReader {
    /// Opens a run directory.
    ///
    /// # Errors
    /// When the directory holds no run, or one written with a newer schema.
    pub fn open(folder: &Path) -> Result<RunReader> {
        let path = folder.join(MANIFEST);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => bail!(
                "{} is not a run: {MANIFEST} cannot be read: {error}\nhint: `farlink run SCENARIO --in sim --out DIR` makes one",
                folder.display()
            ),
        };
        let damaged = |why: serde_json::Error| {
            anyhow::anyhow!(
                "the run {} is damaged: {MANIFEST}: {why}\nhint: make the run again, or take it from a copy",
                folder.display()
            )
        };
        // The schema version is read on its own: a newer manifest may not parse as ours.
        let value: serde_json::Value = serde_json::from_str(&text).map_err(damaged)?;
        let schema = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
        // Manifests of older schemas stay readable, because added fields have defaults.
        if schema > u64::from(SCHEMA_VERSION) {
            bail!(
                "{} has schema {schema}, newer than this version's {SCHEMA_VERSION}\nhint: use a newer farlink",
                path.display()
            );
        }
        let manifest = serde_json::from_value(value).map_err(|why| {
            anyhow::anyhow!(
                "{} is not a run: {MANIFEST} is not the manifest of one: {why}\n\
                 hint: `farlink run SCENARIO --in sim --out DIR` makes one",
                folder.display()
            )
        })?;
        Ok(RunReader { folder: folder.to_path_buf(), manifest })
    }
    /// Path of the run directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Manifest of the run; if the run was killed, the one written at its start.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    /// Calls `each` with every event, in file order.
    pub fn events(&self, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        self.table(each)
    }
    /// Calls `each` with every sample, in file order.
    pub fn samples(&self, each: &mut dyn FnMut(SampleRow) -> Result<()>) -> Result<()> {
        self.table(each)
    }
    /// Reads all bundles, in order of creation.
    pub fn bundles(&self) -> Result<Vec<BundleRow>> {
        self.all()
    }
    /// Calls `each` with every piece of the nodes' movements; those of one node come in order of time.
    pub fn legs(&self, each: &mut dyn FnMut(LegRow) -> Result<()>) -> Result<()> {
        self.table(each)
    }
    /// Calls `each` with every interval of radio contact, in order of the intervals' ends.
    pub fn meetings(&self, each: &mut dyn FnMut(MeetingRow) -> Result<()>) -> Result<()> {
        self.table(each)
    }
    /// Reads the totals of all link directions.
    pub fn links(&self) -> Result<Vec<LinkRow>> {
        self.all()
    }
    /// Reads the resource use of all processes.
    pub fn processes(&self) -> Result<Vec<ProcessRow>> {
        self.all()
    }
    /// Reads a table. Tables of a killed run lack a footer and are treated as empty.
    fn table<R: crate::schema::TableRow>(&self, each: &mut dyn FnMut(R) -> Result<()>) -> Result<()> {
        if !self.manifest.finished && !is_whole::<R>(&self.folder) {
            return Ok(());
        }
        read_table(&self.folder, each).map_err(|why| {
            anyhow::anyhow!(
                "the run {} cannot be read: {why:#}\nhint: `{}` makes it again",
                self.folder.display(),
                self.manifest.command
            )
        })
    }
    fn all<R: crate::schema::TableRow>(&self) -> Result<Vec<R>> {
        let mut rows = Vec::new();
        self.table(&mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_counted_by_reason() {
        let mut given_up = BTreeMap::new();
        ["expired", "no_route", "expired"].into_iter().for_each(|reason| count(&mut given_up, reason));
        assert_eq!(given_up, BTreeMap::from([("expired".to_string(), 2), ("no_route".to_string(), 1)]));
    }
}

//! Reads ropes (payloads as lists of chunks) back from disk in bounded reads, with every chunk checked. The files of
//! all records that a load refers to are pinned from the request on, wherever the live records move meanwhile. Short
//! records requested one after the other are read together if they lie close together.

use super::record::{CHUNK, Loc, Meta, RECORD_HEADER, RecordHeader, chunks_match};
use super::{BundleState, LogStore, Op};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use farlink_base::store::{DiskAction, DiskError, Output};
use farlink_base::{BundleHandle, Chunk, Extent, Payload, Refusal, Sink};

/// Maximum number of loads read at once; loads that share a read count as one. Others wait.
const JOBS: usize = 8;
/// Longest record that is read together with others, bytes.
const SHORT: u64 = 64 << 10;
/// Maximum length of a shared read, bytes.
const TOGETHER: u64 = 256 << 10;
/// Longest gap between two records that is read along rather than skipped, bytes.
const GAP: u64 = 16 << 10;
/// Maximum bytes of the ropes being read; a longer rope is read alone.
const JOB_BYTES: u64 = 64 << 20;
/// Bytes per read of a long payload.
const WINDOW: u64 = 16 * CHUNK;
/// Longest record that is read with one operation: a spilled megabyte and its header.
const WHOLE: u64 = 4 * CHUNK + 4096;

/// Loads requested and under way.
#[derive(Debug, Default)]
pub(super) struct Loads {
    waiting: VecDeque<LoadJob>,
    jobs: BTreeMap<u64, LoadJob>,
    /// Bytes of the ropes in `jobs`.
    bytes: u64,
    /// Jobs that count against [`JOBS`].
    leads: usize,
    next: u64,
}

impl Loads {
    pub fn rest(&mut self) {
        self.waiting.shrink_to_fit();
    }
}

#[derive(Debug)]
struct LoadJob {
    load: u64,
    /// Length of the rope.
    len: u64,
    todo: VecDeque<LoadStep>,
    rope: Payload,
    /// Files that must stay until the job ends.
    pins: Vec<u32>,
    /// Whether the job counts against [`JOBS`]: one that shares the read of an earlier job does not.
    leads: bool,
}
impl LoadJob {
    /// The short record with which the job begins: file, start and end; `None` if it begins with anything else.
    fn short(&self) -> Option<(u32, u64, u64)> {
        match self.todo.front() {
            Some(LoadStep::Record { loc, .. }) if loc.size() <= SHORT => {
                Some((loc.file, loc.offset, loc.offset + loc.size()))
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
enum LoadStep {
    /// Bytes already in memory.
    Ready(Payload),
    /// Read this range of a record's data.
    Record { record: u64, loc: Loc, from: u64, to: u64 },
    /// Read this range of a record whose checksums are known.
    Data { loc: Loc, crcs: Arc<[u32]>, from: u64, to: u64 },
}
impl LoadStep {
    /// File, offset and length of the read that the step needs; `None` for bytes in memory.
    fn read(&self) -> Option<(u32, u64, u64)> {
        match self {
            LoadStep::Ready(_) => None,
            LoadStep::Record { loc, .. } => {
                let len = if loc.size() <= WHOLE { loc.size() } else { RECORD_HEADER + u64::from(loc.meta) };
                Some((loc.file, loc.offset, len))
            }
            LoadStep::Data { loc, from, to, .. } => {
                let (start, len) = window(loc, *from, *to);
                Some((loc.file, loc.data_offset() + start, len))
            }
        }
    }
    fn loc(&self) -> Option<Loc> {
        match self {
            LoadStep::Ready(_) => None,
            LoadStep::Record { loc, .. } | LoadStep::Data { loc, .. } => Some(*loc),
        }
    }
}
/// Start and length of the next whole chunks for a range of data.
fn window(loc: &Loc, from: u64, to: u64) -> (u64, u64) {
    // Checksums cover whole chunks, so reads begin and end at their bounds.
    let start = from / CHUNK * CHUNK;
    let end = (to.div_ceil(CHUNK) * CHUNK).min(loc.data).min(start + WINDOW);
    (start, end - start)
}
/// Steps for a range of a record's data, given the bytes behind its meta part in the same read. `None` if the data
/// are damaged.
fn range(store: &LogStore, loc: Loc, crcs: &Arc<[u32]>, after: &Bytes, from: u64, to: u64) -> Option<LoadStep> {
    if to > loc.data {
        return None;
    }
    if (after.len() as u64) < loc.data {
        return Some(LoadStep::Data { loc, crcs: crcs.clone(), from, to });
    }
    let data = after.slice(..loc.data as usize);
    chunks_match(&store.config.accel, &data, crcs)
        .then(|| LoadStep::Ready(Payload::from(data.slice(from as usize..to as usize))))
}

impl LogStore {
    /// Queues a load of a rope.
    pub(super) fn load(&mut self, load: u64, payload: &Payload, out: &mut impl Sink<Output>) {
        match self.steps(payload) {
            Ok(todo) => {
                let (len, rope) = (payload.len(), Payload::new());
                let mut job = LoadJob { load, len, todo: VecDeque::new(), rope, pins: Vec::new(), leads: false };
                self.enlist(&mut job, todo);
                self.loads.waiting.push_back(job);
            }
            Err(reason) => out.push(Output::Loaded { load, result: Err(reason) }),
        }
    }
    /// Starts waiting loads while there is room.
    pub(super) fn start_loads(&mut self, out: &mut impl Sink<Output>) {
        while self.loads.leads < JOBS {
            let Some(job) = self.loads.waiting.front() else { return };
            // A single long rope may exceed the bound, or it could never be read.
            if !self.loads.jobs.is_empty() && self.loads.bytes + job.len > JOB_BYTES {
                return;
            }
            let Some(mut job) = self.loads.waiting.pop_front() else { return };
            job.leads = true;
            self.loads.leads += 1;
            let record = job.short();
            let number = self.begin(&job);
            match record.filter(|record| self.follows(*record, record.2).is_some()) {
                Some(record) => self.read_together(record, number, job, out),
                None => self.run(number, job, out),
            }
        }
    }
    fn begin(&mut self, job: &LoadJob) -> u64 {
        self.loads.bytes += job.len;
        self.loads.next += 1;
        self.loads.next
    }
    /// End of the next waiting load's record, if that is short, in the same file close behind `end`, and within the
    /// bounds of a shared read.
    fn follows(&self, (file, start, _): (u32, u64, u64), end: u64) -> Option<u64> {
        let next = self.loads.waiting.front()?;
        let (of, from, to) = next.short()?;
        let near = of == file && from >= end && from - end <= GAP && to - start <= TOGETHER;
        (near && self.loads.bytes + next.len <= JOB_BYTES).then_some(to)
    }
    /// Reads a record and those of the loads that wait behind it with one operation, as far as `follows` allows.
    fn read_together(&mut self, record: (u32, u64, u64), number: u64, job: LoadJob, out: &mut impl Sink<Output>) {
        let (file, start, mut end) = record;
        self.loads.jobs.insert(number, job);
        let mut jobs = Vec::from([number]);
        while let Some(to) = self.follows(record, end)
            && let Some(job) = self.loads.waiting.pop_front()
        {
            let number = self.begin(&job);
            self.loads.jobs.insert(number, job);
            jobs.push(number);
            end = to;
        }
        let action = DiskAction::Read { file, offset: start, len: end - start };
        self.disk(Op::LoadRead { jobs, file, start }, action, out);
    }
    /// Lists the steps for each chunk of the rope.
    fn steps(&self, payload: &Payload) -> Result<VecDeque<LoadStep>, Refusal> {
        let mut todo = VecDeque::new();
        for chunk in payload.chunks() {
            match chunk {
                Chunk::Stored { extent, len } if extent.record & Extent::SPILL != 0 => {
                    self.spill_steps(extent.record, extent.offset, *len, &mut todo)?;
                }
                Chunk::Stored { extent: Extent { record, offset }, len } => {
                    let BundleState::Disk(loc) = self.kept.get(&BundleHandle(*record)).ok_or(Refusal::Unknown)?.state
                    else {
                        return Err(Refusal::Unknown);
                    };
                    // The agent's extents are trusted only as far as the record reaches.
                    let to = offset.checked_add(*len).filter(|to| *to <= loc.data).ok_or(Refusal::Unknown)?;
                    todo.push_back(LoadStep::Record { record: *record, loc, from: *offset, to });
                }
                here => {
                    let mut rope = Payload::new();
                    rope.push(here.clone());
                    todo.push_back(LoadStep::Ready(rope));
                }
            }
        }
        Ok(todo)
    }
    fn spill_steps(&self, record: u64, offset: u64, len: u64, todo: &mut VecDeque<LoadStep>) -> Result<(), Refusal> {
        let spill = self.spills.get(record & !Extent::SPILL).ok_or(Refusal::Unknown)?;
        for part in spill.parts(offset, len).ok_or(Refusal::Damaged)? {
            let from = offset.max(part.start) - part.start;
            let to = (offset + len - part.start).min(part.loc.data);
            todo.push_back(LoadStep::Record { record, loc: part.loc, from, to });
        }
        Ok(())
    }
    /// Puts steps in front of the job and pins their files.
    fn enlist(&mut self, job: &mut LoadJob, steps: VecDeque<LoadStep>) {
        for step in steps.into_iter().rev() {
            if let Some(loc) = step.loc() {
                self.segments.begin(loc.file);
                job.pins.push(loc.file);
            }
            job.todo.push_front(step);
        }
    }
    /// Runs the steps of a job until one needs a read or the payload is complete.
    fn run(&mut self, number: u64, mut job: LoadJob, out: &mut impl Sink<Output>) {
        loop {
            match job.todo.front_mut() {
                None => return self.finish_load(job, Ok(()), out),
                Some(LoadStep::Ready(rope)) => {
                    job.rope.append(core::mem::take(rope));
                    job.todo.pop_front();
                }
                Some(step) => {
                    let Some((file, offset, len)) = step.read() else { return };
                    self.loads.jobs.insert(number, job);
                    let op = Op::LoadRead { jobs: Vec::from([number]), file, start: offset };
                    self.disk(op, DiskAction::Read { file, offset, len }, out);
                    return;
                }
            }
        }
    }
    fn finish_load(&mut self, job: LoadJob, result: Result<(), Refusal>, out: &mut impl Sink<Output>) {
        for file in job.pins {
            self.segments.end(file);
        }
        self.loads.bytes -= job.len;
        self.loads.leads -= usize::from(job.leads);
        out.push(Output::Loaded { load: job.load, result: result.map(|()| job.rope) });
    }

    /// Distributes a finished read to its jobs.
    pub(super) fn load_read(
        &mut self,
        jobs: &[u64],
        (file, start): (u32, u64),
        result: Result<Bytes, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        if let [job] = jobs {
            return self.one_read(*job, file, result, out);
        }
        for number in jobs {
            let Some(job) = self.loads.jobs.get(number) else { continue };
            match (&result, job.todo.front().and_then(LoadStep::read)) {
                (Ok(bytes), Some((_, offset, len))) => {
                    let from = (offset.saturating_sub(start) as usize).min(bytes.len());
                    let to = (from + len as usize).min(bytes.len());
                    // Each job gets a copy: a rope that the agent keeps must not keep the bytes of the whole read in
                    // memory.
                    self.one_read(*number, file, Ok(Bytes::copy_from_slice(&bytes[from..to])), out);
                }
                // The shared read failed or was short: each job reads on its own.
                _ => {
                    if let Some(job) = self.loads.jobs.remove(number) {
                        self.run(*number, job, out);
                    }
                }
            }
        }
    }
    fn one_read(&mut self, number: u64, file: u32, result: Result<Bytes, DiskError>, out: &mut impl Sink<Output>) {
        let Some(mut job) = self.loads.jobs.remove(&number) else { return };
        let Some(step) = job.todo.pop_front() else { return };
        // An I/O error may pass, unlike damage, so the two are refused differently.
        let Ok(bytes) = result else {
            self.report_failure(file, out);
            return self.finish_load(job, Err(Refusal::StoreFailed), out);
        };
        match self.advance(&step, &bytes) {
            Some(steps) => {
                self.enlist(&mut job, steps);
                self.run(number, job, out);
            }
            None => {
                if let Some(loc) = step.loc() {
                    self.report_damage(loc.file, loc.offset, loc.size(), out);
                }
                self.finish_load(job, Err(Refusal::Damaged), out);
            }
        }
    }
    /// Steps that follow from the bytes read; `None` if the bytes are damaged.
    fn advance(&self, step: &LoadStep, bytes: &Bytes) -> Option<VecDeque<LoadStep>> {
        let mut todo = VecDeque::new();
        match step {
            LoadStep::Ready(_) => {}
            LoadStep::Record { record, loc, from, to } => {
                let (meta, after) = self.open_record(loc, bytes)?;
                // The record must name the bundle or spill asked for: a number may have been used again.
                let crcs: Arc<[u32]> = match meta {
                    Meta::Bundle(meta) if meta.bundle.0 == *record => meta.crcs.into(),
                    Meta::Spill(meta) if meta.spill | Extent::SPILL == *record => meta.crcs.into(),
                    _ => return None,
                };
                todo.push_back(range(self, *loc, &crcs, &after, *from, *to)?);
            }
            LoadStep::Data { loc, crcs, from, to } => {
                let (start, len) = window(loc, *from, *to);
                let first = (start / CHUNK) as usize;
                let sums = crcs.get(first..first + len.div_ceil(CHUNK) as usize)?;
                if bytes.len() as u64 != len || !chunks_match(&self.config.accel, bytes, sums) {
                    return None;
                }
                let end = (*to).min(start + len);
                let wanted = bytes.slice((from - start) as usize..(end - start) as usize);
                todo.push_back(LoadStep::Ready(Payload::from(wanted)));
                if end < *to {
                    todo.push_back(LoadStep::Data { loc: *loc, crcs: crcs.clone(), from: end, to: *to });
                }
            }
        }
        Some(todo)
    }
    /// Checks a record's header and meta part. Returns the meta part and the bytes behind it.
    fn open_record(&self, loc: &Loc, bytes: &Bytes) -> Option<(Meta, Bytes)> {
        let accel = &self.config.accel;
        let header = RecordHeader::decode(accel, Some(self.salt_of(loc.file)), loc.file, bytes)?;
        let meta_end = (RECORD_HEADER + u64::from(loc.meta)) as usize;
        if header.loc(loc.file, loc.offset) != *loc || bytes.len() < meta_end {
            return None;
        }
        let meta = Meta::decode(accel, &header, &bytes[RECORD_HEADER as usize..])?;
        Some((meta, bytes.slice(meta_end..)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn loads_at_rest_take_no_memory() {
        let mut store = LogStore::new(Config::new(1 << 30));
        for load in 0..100 {
            store.load(load, &Payload::from(&b"here"[..]), &mut Vec::new());
        }
        store.start_loads(&mut Vec::new());
        assert!(store.loads.waiting.is_empty() && store.loads.waiting.capacity() > 0);
        store.rest();
        assert_eq!(store.loads.waiting.capacity(), 0);
    }

    #[test]
    fn windows_are_bounded_whole_chunks() {
        let loc = Loc { file: 1, offset: 0, meta: 100, data: 10 * WINDOW + 5 };
        assert_eq!(window(&loc, 1, 2), (0, CHUNK));
        assert_eq!(window(&loc, CHUNK, loc.data), (CHUNK, WINDOW));
        assert_eq!(window(&loc, 10 * WINDOW + 1, loc.data), (10 * WINDOW, 5));
        // Two bytes across a boundary need both chunks.
        assert_eq!(window(&loc, CHUNK - 1, CHUNK + 1), (0, 2 * CHUNK));
    }
}

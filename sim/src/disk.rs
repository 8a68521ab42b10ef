//! In-memory disk with the latency of a real one. It stores chunks of payloads, so that length-only payloads cost
//! nothing.
//!
//! If a fault may kill its node, it records the previous content of each write not yet synced, and loses data like a
//! machine without power: everything since the last completed sync.

use farlink_base::store::{DiskAction, DiskAnswer, DiskDone, DiskOp};
use farlink_base::{Bytes, Duration, Instant, Payload};
use std::collections::{BTreeMap, VecDeque};

/// Latency of an operation, before the time that its bytes take; syncs and reservations do not have it.
const OPERATION: Duration = Duration::from_micros(20);
/// Latency of a sync: 4,950 calls of 4 KiB fdatasync a second on the machine of the measurements in `docs/`.
const SYNC: Duration = Duration::from_micros(200);
/// Throughput of reads and writes, bytes a second (sequential write with fsync on the same machine: 1.9 GB/s).
const BANDWIDTH: u64 = 1_900_000_000;

/// File content as pieces by offset, which do not overlap.
#[derive(Default)]
struct File {
    pieces: BTreeMap<u64, Payload>,
    len: u64,
}

impl File {
    fn write(&mut self, offset: u64, data: Payload) {
        let end = offset + data.len();
        self.cut(offset, end);
        self.len = self.len.max(end);
        if !data.is_empty() {
            self.pieces.insert(offset, data);
        }
    }
    fn pieces_of(&self, start: u64, end: u64) -> Vec<(u64, Payload)> {
        // A piece that begins before `start` may reach into the range: the search begins one earlier.
        let first = self.pieces.range(..start).next_back().filter(|(at, p)| *at + p.len() > start);
        let from = first.map_or(start, |(at, _)| *at);
        let part = |(at, piece): (&u64, &Payload)| {
            let (skip, stop) = (start.saturating_sub(*at), (end - *at).min(piece.len()));
            (*at + skip, piece.slice(skip, stop - skip))
        };
        self.pieces.range(from..end).map(part).collect()
    }
    fn cut(&mut self, start: u64, end: u64) {
        // A piece that straddles an end of the range keeps its part outside: a write replaces only its own bytes.
        let first = self.pieces.range(..start).next_back().filter(|(at, p)| *at + p.len() > start);
        let from = first.map_or(start, |(at, _)| *at);
        let hit: Vec<u64> = self.pieces.range(from..end).map(|(at, _)| *at).collect();
        for at in hit {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            if at < start {
                self.pieces.insert(at, piece.slice(0, start - at));
            }
            if at + piece.len() > end {
                self.pieces.insert(end, piece.slice(end - at, u64::MAX));
            }
        }
    }
    fn read(&self, offset: u64, len: u64) -> Bytes {
        // Returns at most `len` bytes; gaps are read as zeros.
        let end = (offset + len).min(self.len);
        let mut out = vec![0u8; end.saturating_sub(offset) as usize];
        // The piece before the offset may reach into the range.
        let first = self.pieces.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
        for (at, piece) in self.pieces.range(first..end) {
            let skip = offset.saturating_sub(*at);
            if skip < piece.len() {
                let to = (at + skip - offset) as usize;
                piece.copy_to(skip, &mut out[to..]);
            }
        }
        out.into()
    }
}

/// Content of a file before an unsynced change.
struct Undo {
    file: u32,
    offset: u64,
    before: Vec<(u64, Payload)>,
    /// End of the change, and the previous length of the file.
    end: u64,
    len: u64,
    /// Time at which a sync makes the change durable; `None` before a sync.
    lasts_from: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Disk {
    files: BTreeMap<u32, File>,
    free_at: Instant,
    /// Unsynced changes in order; `None` if no fault kills the node.
    undo: Option<VecDeque<Undo>>,
}

impl Disk {
    /// Enables the loss of unsynced changes.
    pub fn may_forget(&mut self) {
        self.undo.get_or_insert_default();
    }

    /// Reverts every change that is not durable at `now`, as a power failure would.
    pub fn forget(&mut self, now: Instant) {
        self.free_at = now;
        // Newest first, so that overlapping writes are undone in the right order.
        while let Some(undo) = self.undo.as_mut().and_then(VecDeque::pop_back) {
            if undo.lasts_from.is_some_and(|at| at <= now) {
                continue;
            }
            let Some(file) = self.files.get_mut(&undo.file) else { continue };
            file.cut(undo.offset, undo.end);
            file.pieces.extend(undo.before);
            file.len = undo.len;
        }
    }

    fn remember(&mut self, file: u32, offset: u64, end: u64) {
        // A power failure reverts the change, so its old content is kept until a sync.
        let (Some(undo), Some(there)) = (&mut self.undo, self.files.get(&file)) else { return };
        undo.push_back(Undo {
            file,
            offset,
            end,
            before: there.pieces_of(offset, end),
            len: there.len,
            lasts_from: None,
        });
    }

    fn settled(&mut self, file: u32) {
        // Creation and removal are durable at once, so earlier changes need no undo.
        if let Some(undo) = &mut self.undo {
            undo.retain(|undo| undo.file != file);
        }
    }

    fn synced(&mut self, now: Instant, file: u32, from: Instant) {
        // Changes before the sync become durable at its end; entries that are durable by now can go.
        let Some(undo) = &mut self.undo else { return };
        let open = undo.iter_mut().filter(|undo| undo.file == file && undo.lasts_from.is_none());
        open.for_each(|undo| undo.lasts_from = Some(from));
        while undo.front().is_some_and(|undo| undo.lasts_from.is_some_and(|at| at <= now)) {
            undo.pop_front();
        }
    }

    /// Performs an operation and returns its completion time. Operations are sequential.
    pub fn perform(&mut self, now: Instant, op: DiskOp) -> (Instant, DiskDone) {
        let synced = match op.action {
            DiskAction::Sync { file } | DiskAction::Settle { file } => Some(file),
            _ => None,
        };
        let (latency, answer) = self.act(op.action);
        self.free_at = self.free_at.max(now) + latency;
        if let Some(file) = synced {
            self.synced(now, file, self.free_at);
        }
        (self.free_at, DiskDone { id: op.id, result: Ok(answer) })
    }

    fn act(&mut self, action: DiskAction) -> (Duration, DiskAnswer) {
        let transfer = |bytes: u64| OPERATION + Duration::from_nanos(bytes * 1_000_000_000 / BANDWIDTH);
        match action {
            DiskAction::List => {
                let files = self.files.iter().map(|(number, file)| (*number, file.len)).collect();
                (OPERATION, DiskAnswer::Files(files))
            }
            DiskAction::Create { file, .. } => {
                self.settled(file);
                self.files.insert(file, File::default());
                (OPERATION, DiskAnswer::Done)
            }
            DiskAction::Write { file, offset, data } => {
                let latency = transfer(data.len());
                self.remember(file, offset, offset + data.len());
                self.files.entry(file).or_default().write(offset, data);
                (latency, DiskAnswer::Done)
            }
            DiskAction::Sync { .. } | DiskAction::Settle { .. } => (SYNC, DiskAnswer::Done),
            DiskAction::Read { file, offset, len } => {
                let data = self.files.get(&file).map(|f| f.read(offset, len)).unwrap_or_default();
                (transfer(data.len() as u64), DiskAnswer::Data(data))
            }
            DiskAction::Truncate { file, len } => {
                self.remember(file, len, u64::MAX);
                if let Some(file) = self.files.get_mut(&file) {
                    file.cut(len, u64::MAX);
                    file.len = len;
                }
                (OPERATION, DiskAnswer::Done)
            }
            DiskAction::Remove { file, .. } => {
                self.settled(file);
                self.files.remove(&file);
                (OPERATION, DiskAnswer::Done)
            }
            // The simulated disk never fills.
            DiskAction::Reserve { .. } => (Duration::ZERO, DiskAnswer::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_ranges_read_back() {
        // A plain array is the reference for pieces that overlap, touch or lie apart.
        let mut file = File::default();
        let mut model = [0u8; 100];
        for (offset, text) in [(0u64, &b"0123456789"[..]), (20, b"abcdefghij"), (5, b"XXXXXXXXXXXXXXXXXX"), (8, b"y")] {
            file.write(offset, Payload::from(Bytes::from(text.to_vec())));
            model[offset as usize..offset as usize + text.len()].copy_from_slice(text);
        }
        assert_eq!(file.len, 30);
        for start in 0..30 {
            for len in 0..40u64 {
                let end = (start as u64 + len).min(30) as usize;
                assert_eq!(file.read(start as u64, len), &model[start..end], "{start} {len}");
            }
        }
        file.write(30, Payload::fill(7, 8));
        assert_eq!(file.read(30, 8), Payload::fill(7, 8).to_bytes().unwrap());
    }

    #[test]
    fn crash_loses_only_unsynced_writes() {
        let mut random = farlink_base::Rng::new(3);
        for round in 0..300 {
            let mut disk = Disk::default();
            disk.may_forget();
            let (mut now, mut op) = (Instant(0), 0);
            let mut perform = |disk: &mut Disk, now, action| {
                op += 1;
                disk.perform(now, DiskOp { id: op, action }).0
            };
            now = perform(&mut disk, now, DiskAction::Create { file: 1, of: None });
            // Content of the file at each sync, with the time of its completion.
            let mut kept: Vec<(Instant, Bytes)> = vec![(Instant(0), Bytes::new())];
            for _ in 0..random.below(20) {
                let done = match random.below(4) {
                    0 => perform(&mut disk, now, DiskAction::Truncate { file: 1, len: random.below(40) }),
                    1 => {
                        let content = disk.files[&1].read(0, 1000);
                        let done = perform(&mut disk, now, DiskAction::Sync { file: 1 });
                        kept.push((done, content));
                        done
                    }
                    _ => {
                        let data = Payload::fill(random.next_u64(), 1 + random.below(20));
                        perform(&mut disk, now, DiskAction::Write { file: 1, offset: random.below(40), data })
                    }
                };
                // The test waits for about half of the operations.
                now = if random.chance(0.5) { done } else { now + Duration::from_nanos(random.below(1000)) };
            }
            disk.forget(now);
            let last = kept.iter().rfind(|(at, _)| *at <= now).map(|(_, content)| content);
            assert_eq!(Some(&disk.files[&1].read(0, 1000)), last, "round {round}");
            let again = disk.files[&1].read(0, 1000);
            disk.forget(now);
            assert_eq!(disk.files[&1].read(0, 1000), again, "it forgets once");
        }
    }

    #[test]
    fn operations_take_turns() {
        let mut disk = Disk::default();
        let op = |id, action| DiskOp { id, action };
        let (first, _) = disk.perform(Instant(0), op(1, DiskAction::Create { file: 3, of: None }));
        let data = Payload::fill(0, 1_900_000);
        let (second, _) = disk.perform(Instant(0), op(2, DiskAction::Write { file: 3, offset: 0, data }));
        let (third, done) = disk.perform(Instant(0), op(3, DiskAction::Sync { file: 3 }));
        assert_eq!((first.0, second.0, third.0), (20_000, 1_040_000, 1_240_000));
        assert_eq!(done.id, 3);
        let (_, done) = disk.perform(third, op(4, DiskAction::Truncate { file: 3, len: 9 }));
        assert_eq!(done.result, Ok(DiskAnswer::Done));
        let (_, done) = disk.perform(third, op(5, DiskAction::List));
        assert_eq!(done.result, Ok(DiskAnswer::Files(vec![(3, 9)])));
    }
}

//! A disk in memory with the latency of a real one. It keeps ropes, so that length-only payloads
//! cost nothing.

use farlink_base::store::{DiskAction, DiskAnswer, DiskDone, DiskOp};
use farlink_base::{Bytes, Duration, Instant, Payload};
use std::collections::BTreeMap;

/// Starting any operation.
const OPERATION: Duration = Duration::from_micros(20);
/// Making data durable: 4 KiB fdatasync, 4,950 a second on the machine of the measurements in
/// `docs/`.
const SYNC: Duration = Duration::from_micros(200);
/// Bytes a second, read or written (sequential write with fsync on the same machine: 1.9 GB/s).
const BANDWIDTH: u64 = 1_900_000_000;

/// Written pieces by offset; they do not overlap.
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
    /// Removes what lies in `start..end`.
    fn cut(&mut self, start: u64, end: u64) {
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
    /// Up to `len` bytes; gaps read as zeros.
    fn read(&self, offset: u64, len: u64) -> Bytes {
        let end = (offset + len).min(self.len);
        let mut out = vec![0u8; end.saturating_sub(offset) as usize];
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

/// The disk of one node.
#[derive(Default)]
pub(crate) struct Disk {
    files: BTreeMap<u32, File>,
    free_at: Instant,
}

impl Disk {
    /// Does an operation; the answer comes at the returned time. Operations take their turns.
    pub fn perform(&mut self, now: Instant, op: DiskOp) -> (Instant, DiskDone) {
        let (latency, answer) = self.act(op.action);
        self.free_at = self.free_at.max(now) + latency;
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
                self.files.insert(file, File::default());
                (OPERATION, DiskAnswer::Done)
            }
            DiskAction::Write { file, offset, data } => {
                let latency = transfer(data.len());
                self.files.entry(file).or_default().write(offset, data);
                (latency, DiskAnswer::Done)
            }
            DiskAction::Sync { .. } => (SYNC, DiskAnswer::Done),
            DiskAction::Read { file, offset, len } => {
                let data = self.files.get(&file).map(|f| f.read(offset, len)).unwrap_or_default();
                (transfer(data.len() as u64), DiskAnswer::Data(data))
            }
            DiskAction::Truncate { file, len } => {
                if let Some(file) = self.files.get_mut(&file) {
                    file.cut(len, u64::MAX);
                    file.len = len;
                }
                (OPERATION, DiskAnswer::Done)
            }
            DiskAction::Remove { file, .. } => {
                self.files.remove(&file);
                (OPERATION, DiskAnswer::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_was_written_over_what_was_written_before() {
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
    fn operations_take_their_turns() {
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

//! Writing again what an earlier run wrote last.
//!
//! A sync that failed is told once, to the run that asked; after it the cache shows, as clean, what may never have
//! reached the disk. So the records of files that may not be durable are read back, written again where they are, and
//! synced, once every file has been read and before anything of them is told.

use super::super::{LogStore, Op, Phase, data};
use alloc::vec::Vec;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{Instant, Payload, Sink};

/// What is written again next.
#[derive(Debug)]
pub(super) struct Again {
    /// Files to come, and where their last records end.
    files: Vec<(u32, u64)>,
    /// Offset in the last of them.
    at: u64,
}

impl LogStore {
    /// Reads the next part back, or ends recovery.
    pub(super) fn write_again(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let window = self.config.read_bytes;
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        recovery.scan = None;
        let mut settled = || core::mem::take(&mut recovery.settled).into_iter().filter(|(_, end)| *end > 0).collect();
        let again = recovery.again.get_or_insert_with(|| Again { files: settled(), at: 0 });
        let Some(&(file, end)) = again.files.last() else { return self.finish_recovery(now, out) };
        if again.at < end {
            let action = DiskAction::Read { file, offset: again.at, len: window.min(end - again.at) };
            self.disk(Op::RecoveryRead, action, out);
        } else {
            self.disk(Op::RecoverySync, DiskAction::Sync { file }, out);
        }
    }
    /// It is in memory.
    pub(super) fn read_back(
        &mut self,
        now: Instant,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        let Some((again, &(file, _))) = recovery.again.as_mut().and_then(|again| {
            let file = again.files.last()?;
            Some((&mut again.at, file))
        }) else {
            return;
        };
        match data(result) {
            Ok(bytes) if !bytes.is_empty() => {
                let offset = *again;
                *again += bytes.len() as u64;
                self.disk(Op::RecoveryWrite, DiskAction::Write { file, offset, data: Payload::from(bytes) }, out);
            }
            Ok(_) => self.next_again(now, out),
            Err(_) => self.ask_again(now, file, out),
        }
    }
    /// It is written, or synced. A device that fails is tried again, from the beginning of the file. A full one must be opened
    /// to become less full: the file is in doubt there, and copied first.
    pub(in super::super) fn written_again(
        &mut self,
        now: Instant,
        result: Result<DiskAnswer, DiskError>,
        synced: bool,
        out: &mut impl Sink<Output>,
    ) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        let Some(again) = &mut recovery.again else { return };
        let Some(&(file, _)) = again.files.last() else { return };
        if result == Err(DiskError::Io) {
            again.at = 0;
            return self.ask_again(now, file, out);
        }
        if result.is_err() {
            if let Some(segment) = self.segments.get_mut(file) {
                segment.suspect = true;
            }
            self.report_failure(file, out);
        }
        if synced || result.is_err() { self.next_again(now, out) } else { self.write_again(now, out) }
    }
    fn next_again(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        if let Phase::Recovering(recovery) = &mut self.phase
            && let Some(again) = &mut recovery.again
        {
            again.files.pop();
            again.at = 0;
        }
        self.write_again(now, out);
    }
}

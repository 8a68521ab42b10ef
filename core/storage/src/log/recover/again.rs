//! Rewrites records that an earlier run may not have made durable.
//!
//! A failed sync is reported once, to the run that asked; afterwards the cache shows pages as clean that may never
//! have reached the disk. So records of files that may not be durable are read back, written in place and synced,
//! after every file was read and before any of them is reported.

use super::super::{LogStore, Op, StorePhase, data};
use alloc::vec::Vec;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{Instant, Payload, Sink};

/// Position of the rewrite.
#[derive(Debug)]
pub(super) struct Again {
    /// Files left to rewrite, each with the end of its last record.
    files: Vec<(u32, u64)>,
    /// Offset in the last file of the list.
    at: u64,
}

impl LogStore {
    /// Reads the next window back; at the end of a file, syncs it; without files left, ends recovery.
    pub(super) fn write_again(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let window = self.config.read_bytes;
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        recovery.scan = None;
        // A settled file in which no record was found has nothing to rewrite.
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
    /// Writes a window that was read back to the place it came from.
    pub(super) fn read_back(
        &mut self,
        now: Instant,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
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
            // The file became shorter: nothing more to rewrite in it.
            Ok(_) => self.next_again(now, out),
            Err(_) => self.ask_again(now, file, out),
        }
    }
    /// Handles the result of a write or sync. After an I/O error the file is rewritten from its start. A full disk
    /// must not keep the store closed, because only an open store can free space: the file is marked suspect instead,
    /// so that compaction copies it first.
    pub(in super::super) fn written_again(
        &mut self,
        now: Instant,
        result: Result<DiskAnswer, DiskError>,
        synced: bool,
        out: &mut impl Sink<Output>,
    ) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        let Some(again) = &mut recovery.again else { return };
        let Some(&(file, _)) = again.files.last() else { return };
        // It is unknown which pages an I/O error concerned, so the file starts over.
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
        if let StorePhase::Recovering(recovery) = &mut self.phase
            && let Some(again) = &mut recovery.again
        {
            again.files.pop();
            again.at = 0;
        }
        self.write_again(now, out);
    }
}

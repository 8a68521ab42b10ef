//! The bounds of a store.

use super::header::{LONG_HEADER, SHORT_HEADER};
use super::record::{DELETE_RECORD, Encoder};
use bytes::BytesMut;
use farlink_base::{Accel, Duration};

/// Bounds and delays of a [`super::LogStore`]; [`Config::new`] gives working values.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum bytes of all files, garbage included. An eighth of it is kept for compaction.
    pub capacity: u64,
    /// Length at which a file is closed and the next is begun. At most a 32nd of the capacity.
    pub segment_bytes: u64,
    /// Maximum number of emptied files kept to be written over; none while the store is more than half full.
    pub spares: usize,
    /// Bytes of disk reserved for delete records while the disk is full: whole blocks of 4 KiB, at most half a file. A
    /// value below 4 KiB reserves nothing, and a full disk may then stay full. A file takes no more bundles than the
    /// reserve has room to delete.
    pub reserve_bytes: u64,
    /// Maximum bytes of bundles that each quota key may keep.
    pub quota_bytes: u64,
    /// Maximum number of deliveries remembered.
    pub remembered: usize,
    /// Time that a lone bundle waits for more before a commit. Bundles that arrive during a commit share the next one
    /// in any case, so 0 is fine.
    pub commit_wait: Duration,
    /// Maximum time that a delete record waits for a commit of other records.
    pub delete_wait: Duration,
    /// Maximum bytes written in one commit.
    pub group_bytes: u64,
    /// Bytes that must wait before a second commit begins while one is under way: fewer are not worth a sync of their
    /// own.
    pub second_group: u64,
    /// Maximum bytes per read of recovery and compaction; a compacted record may be longer.
    pub read_bytes: u64,
    /// First pause after a disk error; doubles up to 16 times this value.
    pub retry: Duration,
    /// Seed of a new store's salt; unpredictable on a real node.
    pub seed: u64,
    /// Accelerated functions, checked by the driver.
    pub accel: Accel,
}
impl Config {
    /// Working values for a store of `capacity` bytes.
    pub fn new(capacity: u64) -> Config {
        Config {
            capacity,
            segment_bytes: 64 << 20,
            spares: 4,
            reserve_bytes: 8 << 20,
            quota_bytes: u64::MAX,
            remembered: 1_000_000,
            commit_wait: Duration::ZERO,
            delete_wait: Duration::from_millis(50),
            group_bytes: 16 << 20,
            second_group: 256 << 10,
            read_bytes: 1 << 20,
            retry: Duration::from_millis(100),
            seed: 0,
            accel: Accel::default(),
        }
    }
    /// Clamps every value to its working range.
    pub(super) fn bounded(mut self) -> Config {
        // The reserve is rounded down to blocks of 4 KiB. It takes at most half of a file's length, since a file is
        // made of it when the disk is full.
        self.segment_bytes = self.segment_bytes.min(self.capacity / 32).max(1024);
        self.reserve_bytes = self.reserve_bytes.min(self.segment_bytes / 2) / 4096 * 4096;
        // A group may begin with a file header, so it must be longer than one.
        self.group_bytes = self.group_bytes.max(2 * LONG_HEADER);
        self.read_bytes = self.read_bytes.max(4096);
        self
    }
    /// Maximum number of bundles and spills in one file: the reserve must hold the delete records of all of them.
    pub(super) fn bundles_max(&self) -> u64 {
        // The last quarter of the reserve is for records moved out of other files (`fits_reserved`).
        let room = (self.reserve_bytes / 4 * 3).saturating_sub(self.file_header());
        if self.reserve_bytes == 0 { u64::MAX } else { (room / DELETE_RECORD).max(1) }
    }
    /// Length of a file's header: the long one if it is at most a 64th of a full file.
    pub(super) fn file_header(&self) -> u64 {
        if self.segment_bytes >= 64 * LONG_HEADER { LONG_HEADER } else { SHORT_HEADER }
    }
    /// Encoder of records for a file with this salt.
    pub(super) fn encoder<'a>(&'a self, salt: u64, file: u32, out: &'a mut BytesMut) -> Encoder<'a> {
        Encoder { accel: &self.accel, salt, file, out }
    }
    /// Maximum bytes of live records.
    pub(super) fn live_max(&self) -> u64 {
        // An eighth of the capacity stays free, so that compaction can write before it removes.
        self.capacity / 8 * 7
    }
    /// Total file bytes at which the store stops writing bundles.
    pub(super) fn files_max(&self) -> u64 {
        self.capacity.saturating_sub(self.segment_bytes)
    }
}

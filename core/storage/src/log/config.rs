//! The bounds of a store.

use super::header::{LONG_HEADER, SHORT_HEADER};
use super::record::{DELETE_RECORD, Encoder};
use bytes::BytesMut;
use farlink_base::{Accel, Duration};

/// How a [`super::LogStore`] behaves; [`Config::new`] gives working values.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most bytes of files, garbage included. An eighth of it is kept for compaction.
    pub capacity: u64,
    /// Length of a file before the next is begun. At most a 32nd of the capacity.
    pub segment_bytes: u64,
    /// Files kept to be written over once all in them is gone; none from half of the capacity on.
    pub spares: usize,
    /// Bytes of disk kept for records of deletions where the disk is full: whole blocks of 4 KiB, at most half a file. None
    /// are, and a full disk may stay full, where this is less. A file takes no more bundles than can be deleted so.
    pub reserve_bytes: u64,
    /// Most bytes of bundles each quota key may keep.
    pub quota_bytes: u64,
    /// Most deliveries remembered.
    pub remembered: usize,
    /// How long a lone bundle waits for company before a commit (0: not at all; what arrives during
    /// a commit shares the next one anyway).
    pub commit_wait: Duration,
    /// How long a delete record waits for a commit to go along with.
    pub delete_wait: Duration,
    /// Most bytes written in one commit.
    pub group_bytes: u64,
    /// A commit begins while another is under way once so many bytes wait: fewer are not worth a sync of their own.
    pub second_group: u64,
    /// Most bytes read at once by recovery and compaction (a compacted record may be longer).
    pub read_bytes: u64,
    /// First pause after a disk error; doubles up to 16 times this.
    pub retry: Duration,
    /// Seed of the salt a new store gets; unpredictable on a real node.
    pub seed: u64,
    /// Faster functions, checked by the driver.
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
    /// The same with every value in its working range.
    pub(super) fn bounded(mut self) -> Config {
        self.segment_bytes = self.segment_bytes.min(self.capacity / 32).max(1024);
        self.reserve_bytes = self.reserve_bytes.min(self.segment_bytes / 2) / 4096 * 4096;
        // Longer than a file's header, which the first group of a file begins with.
        self.group_bytes = self.group_bytes.max(2 * LONG_HEADER);
        self.read_bytes = self.read_bytes.max(4096);
        self
    }
    /// Bundles and spills in one file, at most: the records of their deletions find room in what is kept for a full disk.
    pub(super) fn bundles_max(&self) -> u64 {
        let room = (self.reserve_bytes / 4 * 3).saturating_sub(self.file_header());
        if self.reserve_bytes == 0 { u64::MAX } else { (room / DELETE_RECORD).max(1) }
    }
    /// Length of a file's header: a small part of the file.
    pub(super) fn file_header(&self) -> u64 {
        if self.segment_bytes >= 64 * LONG_HEADER { LONG_HEADER } else { SHORT_HEADER }
    }
    /// Writes records for a file of the store with this salt.
    pub(super) fn encoder<'a>(&'a self, salt: u64, file: u32, out: &'a mut BytesMut) -> Encoder<'a> {
        Encoder { accel: &self.accel, salt, file, out }
    }
    /// Most bytes of live records.
    pub(super) fn live_max(&self) -> u64 {
        self.capacity / 8 * 7
    }
    /// Most bytes of files at which bundles are still written.
    pub(super) fn files_max(&self) -> u64 {
        self.capacity.saturating_sub(self.segment_bytes)
    }
}

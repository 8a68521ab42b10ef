//! Contract of bundle stores: state machines over disk operations that keep opaque bytes and a small index entry for
//! each bundle.
//!
//! In a durable store, a bundle that [`Output::Stored`] reported survives `kill -9` and power loss. The driver may
//! perform operations in any order unless a [`DiskOp::Sync`] separates them; each is answered by one [`DiskDone`].

use crate::error::Refusal;
use crate::event::Event;
use crate::id::BundleHandle;
use crate::payload::Payload;
use crate::priority::Priority;
use crate::sink::Sink;
use crate::time::{DtnTime, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;

/// Index entry of a bundle, which is known without reading the bundle's bytes.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    pub priority: Priority,
    /// Wall time at which the bundle expires, if known; compaction may drop the bundle afterwards.
    pub expires: Option<DtnTime>,
    /// Wall time at which the bundle was stored, if known; its time in this node, including downtime, is counted from
    /// then.
    pub stored_at: Option<DtnTime>,
    /// Operating time of the node when the bundle was stored, ms, if no wall time was known; the bundle's time in this
    /// node is then counted from it.
    pub ran_ms: Option<u64>,
    /// Age of the bundle when it was stored, ms.
    pub age_ms: u64,
    /// Account that the bundle is charged to: the number of its source node.
    pub quota: u64,
    /// Fingerprint of the bundle's identity.
    pub fingerprint: u128,
    /// Flags of the agent, returned unchanged on recovery.
    pub flags: u32,
    /// Digest of the payload ([`BundleMeta::digest`](crate::BundleMeta::digest)); 0: not known.
    pub digest: u64,
}

/// Record of a delivered bundle, so that the bundle is not delivered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Fingerprint of the bundle's identity.
    pub fingerprint: u128,
    /// Wall time until which the record must be kept.
    pub until: DtnTime,
    /// Digest of the content, and whether a link vouched for it, as the agent encodes them; 0: not known.
    pub content: u64,
}

/// Operation on the files of a store. Files are numbered; the driver maps numbers to names.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOp {
    /// Number returned in [`DiskDone`].
    pub id: u64,
    pub action: DiskAction,
}

/// Kind of a disk operation, on the file of number `file`.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug, PartialEq)]
pub enum DiskAction {
    /// List all files with their lengths.
    List,
    /// Create a file, which is durable (with its directory entry) after its next `Sync`. The file is empty, or takes
    /// over the bytes of a recycled file ([`DiskAction::Remove`]), which then no longer exists.
    Create {
        file: u32,
        /// Recycled file to take over, because overwriting allocated blocks costs the disk less than growing a file.
        /// Ignored if it does not exist.
        of: Option<u32>,
    },
    /// Write a rope at an offset; the file grows if necessary.
    Write {
        file: u32,
        offset: u64,
        /// Bytes to write, without `Stored` chunks.
        data: Payload,
    },
    /// Make earlier writes to the file durable. Later operations may begin before this one ends.
    Sync { file: u32 },
    /// Make the writes of an earlier run durable, so that later reads return the disk's contents. After a `Sync` that
    /// failed, the system's page cache may show bytes that never reached the disk, and no further `Sync` would write
    /// them.
    Settle { file: u32 },
    /// Read `len` bytes, or fewer at the end of the file.
    Read { file: u32, offset: u64, len: u64 },
    /// Truncate the file to a length.
    Truncate { file: u32, len: u64 },
    /// Delete the file, or recycle it. Succeeds if the file does not exist.
    Remove {
        /// Number of the file, which may be a recycled one.
        file: u32,
        /// Whether the file is kept, for a later `Create` of this run, instead of being deleted.
        keep: bool,
    },
    /// Preallocate a recycled file for a later `Create` of this run, so that its space is guaranteed. Answered by
    /// [`DiskAnswer::Kept`], or by `Done` if the disk never fills.
    Reserve {
        /// Number of the recycled file.
        file: u32,
        bytes: u64,
    },
}

/// Answer to a [`DiskOp`].
#[derive(Clone, Debug, PartialEq)]
pub struct DiskDone {
    /// Number of the operation.
    pub id: u64,
    /// Answer, or the reason of the failure.
    pub result: Result<DiskAnswer, DiskError>,
}

/// Result of a successful disk operation.
#[derive(Clone, Debug, PartialEq)]
pub enum DiskAnswer {
    /// Success without a value.
    Done,
    /// A file was made from a recycled one, or was recycled; its length in bytes.
    Kept(u64),
    /// Bytes read from the file.
    Data(Bytes),
    /// Numbers and lengths of all files.
    Files(Vec<(u32, u64)>),
}

/// Error of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space left on the device.
    Full,
    /// The device or file system failed (EIO, EROFS, ...).
    Io,
}

/// Input of a store.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Input {
    /// Open the store and recover the bundles of earlier runs.
    Open,
    /// A deadline may have passed.
    Wake,
    /// Store a bundle.
    Put {
        bundle: BundleHandle,
        index: Box<IndexEntry>,
        /// Encoded bytes before the payload.
        head: Bytes,
        /// Payload bytes; may contain extents from `Spilled`.
        payload: Payload,
        /// Encoded bytes after the payload.
        tail: Bytes,
    },
    /// Store bytes of a bundle that is still arriving; each answered by `Spilled`, in order. After a restart they are
    /// garbage unless a `Put` took them over.
    Spill {
        /// Number of the arrival, chosen by the agent.
        spill: u64,
        /// Account that is charged for the bytes until a `Put` takes them over ([`IndexEntry::quota`]).
        quota: u64,
        data: Payload,
    },
    /// Discard spilled bytes that no `Put` took over; also required after a refusal. No more answers follow for the
    /// number, which may be used again.
    DropSpill { spill: u64 },
    /// Delete a bundle. With `remember`, its identity is recorded as delivered in the same commit.
    Delete {
        bundle: BundleHandle,
        /// Identity of a delivered bundle.
        remember: Option<Remembered>,
    },
    /// Load a rope, or a slice of one, into memory. The records it refers to stay readable until the answer, even if
    /// they are deleted meanwhile.
    Load {
        /// Number returned in `Loaded`.
        load: u64,
        /// Rope to load: extents of any records in any order, bytes and patterns.
        payload: Payload,
    },
    /// Make the bound of reserved sequence numbers (of creation timestamps) durable.
    SetCounter { value: u64 },
    /// A disk operation finished.
    DiskDone(DiskDone),
}

/// Output of a store.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Output {
    /// The bundle is stored. `payload`, if given, is the payload as extents, by which the agent may replace the bytes
    /// to free memory.
    Stored { bundle: BundleHandle, payload: Option<Payload> },
    /// The bundle was refused.
    Refused { bundle: BundleHandle, reason: Refusal },
    /// The spilled bytes are durable as this rope of extents (or stay in memory if the store has no disk). A refusal is
    /// the last answer for the spill: its bytes are freed, and further input before `DropSpill` is ignored.
    Spilled {
        spill: u64,
        /// Rope of extents, or the reason of refusal.
        result: Result<Payload, Refusal>,
    },
    /// The deletion of the bundle is committed, with the record of its delivery if there is one.
    Deleted { bundle: BundleHandle },
    /// The requested rope is in memory and was verified, or could not be loaded.
    Loaded {
        load: u64,
        /// Rope without extents. [`Refusal::StoreFailed`] may be temporary; [`Refusal::Damaged`] and
        /// [`Refusal::Unknown`] (no such record, or one lost to damage) are permanent.
        result: Result<Payload, Refusal>,
    },
    /// A bundle of an earlier run was recovered.
    Recovered {
        /// Number of the bundle, as in the earlier run; new bundles get higher ones.
        bundle: BundleHandle,
        index: Box<IndexEntry>,
        /// Encoded bytes before the payload.
        head: Bytes,
        /// Payload, as extents.
        payload: Payload,
        /// Encoded bytes after the payload.
        tail: Bytes,
    },
    /// A delivery record of an earlier run was recovered.
    RecoveredDelivery(Remembered),
    /// The bound of reserved sequence numbers is durable.
    CounterSet { value: u64 },
    /// Recovery is complete.
    Opened {
        /// Last bound of reserved sequence numbers that earlier runs made durable; 0 at first.
        counter: u64,
        /// Largest bundle number used by earlier runs.
        last_bundle: u64,
        /// Secret of the store, drawn at random when it was created and constant since; 0: none.
        secret: u64,
    },
    /// Disk operation for the driver.
    Disk(DiskOp),
    /// Event for logs and metrics.
    Event(Event),
}

/// Fill level of a store, for admission and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Number of bundles stored.
    pub bundles: u64,
    /// Encoded length of all stored bundles, bytes.
    pub bytes: u64,
    /// Length of all files on disk (or memory in use), bytes.
    pub file_bytes: u64,
    /// Capacity, bytes.
    pub capacity: u64,
    /// Number of commits started in this run, and of those that overlapped another.
    pub commits: (u64, u64),
    /// Number of recycled files that were used again in this run.
    pub written_over: u64,
}

/// State machine of a bundle store.
pub trait BundleStore: Send {
    /// Processes one input at `now` and pushes the resulting outputs.
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>);
    /// Time by which [`Input::Wake`] must follow; `None` if no timer runs. Takes constant time.
    fn next_timeout(&self) -> Option<Instant>;
    /// Current fill level.
    fn usage(&self) -> Usage;
}

//! The contract of bundle stores: a state machine over disk operations, keeping opaque bytes and a
//! small index entry per bundle.
//!
//! What [`Output::Stored`] has said is kept through `kill -9` and power loss (durable stores).
//! Operations the driver performs may be done in any order unless a [`DiskOp::Sync`] separates
//! them; each is answered by one [`DiskDone`].

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

/// What the store knows of a bundle without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// Class of service.
    pub priority: Priority,
    /// Wall time at which it expires, when that is known; compaction may drop it after.
    pub expires: Option<DtnTime>,
    /// Wall time of storing, when known: residence through downtime is counted from it.
    pub stored_at: Option<DtnTime>,
    /// Operating time of the node at storing, ms, where it knew no wall time: then residence is counted from it.
    pub ran_ms: Option<u64>,
    /// Age of the bundle when it was stored, ms.
    pub age_ms: u64,
    /// Whose quota it counts to (a hash of the source node).
    pub quota: u64,
    /// A fingerprint of the bundle's identity.
    pub fingerprint: u128,
    /// The agent's own flags, given back on recovery.
    pub flags: u32,
    /// Digest of the payload ([`BundleMeta::digest`](crate::BundleMeta::digest)); 0: not known.
    pub digest: u64,
}

/// Remembers a delivered bundle so that it is not delivered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Fingerprint of the bundle's identity.
    pub fingerprint: u128,
    /// May be forgotten after this wall time.
    pub until: DtnTime,
    /// What it was, and whether somebody vouched for it, as the agent keeps it; 0: not known.
    pub content: u64,
}

/// One operation on the files of a store. Files are numbered; the driver maps number to name.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOp {
    /// Given back in [`DiskDone`].
    pub id: u64,
    /// What to do.
    pub action: DiskAction,
}

/// What to do with a file.
#[derive(Clone, Debug, PartialEq)]
pub enum DiskAction {
    /// Names and lengths of all files.
    List,
    /// Make a file; durable (directory entry included) after the next `Sync` of it. It is empty, or has the bytes of
    /// a file that was kept ([`DiskAction::Remove`]), which is no longer there then.
    Create {
        /// File number.
        file: u32,
        /// The kept file whose bytes it may have: where they are written over, the disk has less to do than where a
        /// file grows. One that is not there is as good as none.
        of: Option<u32>,
    },
    /// Write the rope at this offset, past the end if need be.
    Write {
        /// File number.
        file: u32,
        /// Where.
        offset: u64,
        /// What; `Stored` chunks do not occur.
        data: Payload,
    },
    /// Make everything written to the file before durable. What comes after may be done meanwhile.
    Sync {
        /// File number.
        file: u32,
    },
    /// The same of what an earlier run wrote; what is read from then on is what the disk holds. Where an earlier `Sync`
    /// failed, the memory of the system may show bytes that never reached the disk, and no `Sync` takes them there.
    Settle {
        /// File number.
        file: u32,
    },
    /// Read up to `len` bytes (fewer at the end of the file).
    Read {
        /// File number.
        file: u32,
        /// From where.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Cut the file to this length.
    Truncate {
        /// File number.
        file: u32,
        /// New length.
        len: u64,
    },
    /// Delete the file; when done it stays deleted, whatever happens. A file that does not exist is
    /// deleted already.
    Remove {
        /// File number; also of one that was kept.
        file: u32,
        /// Whether its bytes may lie ready, under no number, for a `Create` of this run.
        keep: bool,
    },
    /// Make a file of so many bytes that is kept at once, for a `Create` of this run: bytes that the disk has promised,
    /// whatever fills it later. Answered by [`DiskAnswer::Kept`], or by `Done` where a disk never fills.
    Reserve {
        /// Its number as a kept file.
        file: u32,
        /// How many.
        bytes: u64,
    },
}

/// The answer to a [`DiskOp`].
#[derive(Clone, Debug, PartialEq)]
pub struct DiskDone {
    /// The operation's number.
    pub id: u64,
    /// What came of it.
    pub result: Result<DiskAnswer, DiskError>,
}

/// What a disk operation gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum DiskAnswer {
    /// Done.
    Done,
    /// A file was made of one that was kept, or is kept, and has so many bytes.
    Kept(u64),
    /// The bytes read.
    Data(Bytes),
    /// File numbers and lengths.
    Files(Vec<(u32, u64)>),
}

/// Why a disk operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space left.
    Full,
    /// The device or file system failed (EIO, EROFS, ...).
    Io,
}

/// What a store is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin: find what earlier runs kept.
    Open,
    /// A deadline may have passed.
    Wake,
    /// Keep this bundle.
    Put {
        /// Its number.
        bundle: BundleHandle,
        /// Its index entry.
        index: Box<IndexEntry>,
        /// Everything before the payload's bytes, encoded.
        head: Bytes,
        /// The payload's bytes; may hold extents given by `Spilled`.
        payload: Payload,
        /// Everything after the payload's bytes.
        tail: Bytes,
    },
    /// Keep bytes of a bundle that is still arriving; each answered by `Spilled`, in order. They are
    /// garbage after a restart unless a `Put` took them.
    Spill {
        /// The asker's number for the arrival.
        spill: u64,
        /// Whose quota they count to until a `Put` takes them ([`IndexEntry::quota`]).
        quota: u64,
        /// The next bytes.
        data: Payload,
    },
    /// Forget spilled bytes that no `Put` took. Nothing is answered for the number any more, and it
    /// may be used again; it must be said after a refusal too.
    DropSpill {
        /// Which.
        spill: u64,
    },
    /// Forget this bundle; `remember` keeps its identity as delivered, in the same commit.
    Delete {
        /// Which.
        bundle: BundleHandle,
        /// Its identity, when it was delivered.
        remember: Option<Remembered>,
    },
    /// Read a rope (or a range of one: a slice of it) back into memory. The records it refers to stay
    /// readable until it is answered, also when they are deleted meanwhile.
    Load {
        /// Given back in `Loaded`.
        load: u64,
        /// What; extents of any records, in any order, among bytes and patterns.
        payload: Payload,
    },
    /// Keep a number through restarts (the sequence counter of a node without a clock).
    SetCounter {
        /// Its value.
        value: u64,
    },
    /// A disk operation finished.
    DiskDone(DiskDone),
}

/// What a store decides.
#[derive(Clone, Debug)]
pub enum Output {
    /// The bundle is kept. `payload`, where given, is the same payload as extents: the agent may
    /// put it in place of the bytes to free memory.
    Stored {
        /// Which.
        bundle: BundleHandle,
        /// The payload on disk.
        payload: Option<Payload>,
    },
    /// The bundle is not kept.
    Refused {
        /// Which.
        bundle: BundleHandle,
        /// Why.
        reason: Refusal,
    },
    /// The bytes are durable as this rope of extents (or stay in memory, where the store has no
    /// disk). A refusal is the last answer for the spill: all its bytes are given back, and
    /// what else was given or comes before `DropSpill` is forgotten in silence.
    Spilled {
        /// Which.
        spill: u64,
        /// Where they are, or why not.
        result: Result<Payload, Refusal>,
    },
    /// The bundle, and the memory of its delivery, are committed as gone.
    Deleted {
        /// Which.
        bundle: BundleHandle,
    },
    /// What was asked for is in memory, checked.
    Loaded {
        /// Which.
        load: u64,
        /// The same rope without extents. [`Refusal::StoreFailed`]: it could not be read now, which
        /// may pass. Anything else is for good: [`Refusal::Damaged`], or [`Refusal::Unknown`] (no
        /// such record, or one lost to damage before).
        result: Result<Payload, Refusal>,
    },
    /// A bundle kept by an earlier run.
    Recovered {
        /// Its number then and now; new bundles are numbered above.
        bundle: BundleHandle,
        /// Its index entry.
        index: Box<IndexEntry>,
        /// Everything before the payload's bytes.
        head: Bytes,
        /// The payload, as extents.
        payload: Payload,
        /// Everything after.
        tail: Bytes,
    },
    /// An identity delivered by an earlier run.
    RecoveredDelivery(Remembered),
    /// The counter is durable at this value.
    CounterSet {
        /// Its value.
        value: u64,
    },
    /// Recovery is complete.
    Opened {
        /// The counter kept by earlier runs (0 at first).
        counter: u64,
        /// Numbers up to and including this one were used by earlier runs.
        last_bundle: u64,
        /// A secret of the store, drawn when it was made and the same ever since; 0: it has none.
        secret: u64,
    },
    /// Do this to the disk.
    Disk(DiskOp),
    /// Something to tell.
    Event(Event),
}

/// Fill of a store, for admission and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bundles kept.
    pub bundles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of files on disk (or of memory).
    pub file_bytes: u64,
    /// Most bytes it may keep.
    pub capacity: u64,
    /// Commits begun in this run, and those of them that began while another was under way.
    pub commits: (u64, u64),
    /// Files that were written over in this run.
    pub written_over: u64,
}

/// A bundle store.
pub trait BundleStore: Send {
    /// Takes one input at `now`; pushes what follows from it.
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>);
    /// When to call with [`Input::Wake`] at the latest. O(1).
    fn next_timeout(&self) -> Option<Instant>;
    /// How full it is.
    fn usage(&self) -> Usage;
}

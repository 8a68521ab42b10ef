//! Custody (RFC 5050 5.10 to 5.12): bundles that this node keeps until another node has taken custody, their
//! retransmission, and gathered answers to other custodians.
//!
//! Owns the retention constraint `Custody`. Custody signals name a bundle by its number in this node, which survives
//! restarts and is never reused.

mod signals_in;
pub(crate) mod signals_out;

use crate::edge::Answer;
use crate::settings::CustodySettings;
use crate::state::ranges::Ranges;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use farlink_base::{BundleId, EndpointId, Instant, NodeId, PeerId, Transfer};
use farlink_book::{Book, Handle, RetentionConstraint};

/// Most neighbours remembered for one bundle: the latest ones to which it was sent.
const TO_MAX: usize = 4;
/// Most signals about fragments that are applied to one bundle, which bounds its `taken` ranges; further ones have no
/// effect.
const PIECES_MAX: u16 = 4096;
/// Most groups of gathered answers; beyond that the one that has waited longest is sent at once.
const TOLD_MAX: usize = 1024;

/// Another custodian, and the number it gave to the bundle, if any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Custodian {
    pub node: EndpointId,
    pub transfer: Option<Transfer>,
}

/// Stage of custody of one bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// This node will accept custody once the store has committed the bundle, which may not leave before.
    Promised,
    /// This node is custodian.
    Ours,
    /// The bundle is addressed to this node. Its custodian gets an answer after the commit, or after the delivery if
    /// that comes first.
    Arrives,
    /// Another node is custodian and gets an answer if this node gives the bundle up.
    Theirs,
}

/// One bundle that requests custody.
#[derive(Debug)]
pub(crate) struct Entry {
    pub bundle: Handle,
    pub stage: Stage,
    /// Custodian that the bundle named when it arrived.
    pub before: Option<Custodian>,
    /// Whether a neighbour may have received the bundle from here, so that another node may have custody of it.
    pub handed: bool,
    /// Neighbours that got the bundle last, oldest first.
    pub to: Vec<PeerId>,
    /// Time at which the bundle is sent again unless a signal comes.
    pub due: Option<Instant>,
    /// Number of times the bundle was sent again.
    pub tries: u8,
    /// Neighbour that refused custody since the bundle was last sent.
    pub refused: Option<PeerId>,
    size: u64,
    /// Identity of the original, if this is a fragment.
    original: Option<u128>,
    /// Bytes of the original's payload that other nodes have custody of.
    taken: Ranges,
    signals: u16,
}

/// Fields that answers about many bundles share, so that one signal can carry them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CustodySignalGroup {
    pub to: EndpointId,
    pub version: u8,
    pub answer: Answer,
    pub sequence: u64,
    /// Destination whose bundles the counter `sequence` numbers; null if it numbers all bundles.
    pub destination: EndpointId,
}

#[derive(Debug)]
struct PendingSignals {
    numbers: Ranges,
    count: u64,
    due: Instant,
}

/// Work that has become due.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// No other node took custody of the bundle with this number in time: send it again.
    Repeat(u64),
    /// Send a gathered answer.
    Send(CustodySignalGroup, Ranges),
}

/// A received signal that is being applied.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ReceivedCustodySignal {
    /// Neighbour that handed the signal over.
    from: PeerId,
    /// Source node of the signal.
    source: NodeId,
    /// Version of the bundle protocol of the signal and of the bundles it names.
    version: u8,
    answer: Answer,
    about: Subject,
    /// Whether the signal named a bundle that its sender cannot have custody of.
    foreign: bool,
}
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Subject {
    One(BundleId),
    /// Ranges of bundle numbers, each with its first and last number; applied from the end of the list.
    Runs(Vec<(u64, u64)>),
}

/// State of custody in this node.
#[derive(Debug)]
pub(crate) struct Custody {
    pub settings: CustodySettings,
    entries: BTreeMap<u64, Entry>,
    /// Fragments in custody: identity of the original, number of the fragment.
    pieces: BTreeSet<(u128, u64)>,
    repeats: BTreeSet<(Instant, u64)>,
    gathered: BTreeMap<CustodySignalGroup, PendingSignals>,
    by_due: BTreeSet<(Instant, CustodySignalGroup)>,
    /// Bytes of bundles in custody here, accepted or about to be.
    bytes: u64,
}

impl Custody {
    pub fn new(settings: CustodySettings) -> Self {
        Custody {
            settings,
            entries: BTreeMap::new(),
            pieces: BTreeSet::new(),
            repeats: BTreeSet::new(),
            gathered: BTreeMap::new(),
            by_due: BTreeSet::new(),
            bytes: 0,
        }
    }
    /// Whether custody of this many more bytes is allowed.
    fn has_room(&self, size: u64) -> bool {
        self.bytes.saturating_add(size) <= self.settings.bytes
    }
    /// Adds a held bundle that requests custody.
    fn enter(&mut self, book: &mut Book, bundle: Handle, stage: Stage, before: Option<Custodian>) {
        let Some(held) = book.get(bundle) else { return };
        let (number, size) = (held.number, held.size());
        let original = held.bundle.fragment().map(|_| held.bundle.original_id());
        // Bundles of other custodians take no share of this node's bound.
        if matches!(stage, Stage::Promised | Stage::Ours) {
            self.bytes = self.bytes.saturating_add(size);
            self.pieces.extend(original.map(|original| (original, number)));
        }
        let entry = Entry {
            bundle,
            stage,
            before,
            // Only a recovered bundle enters as `Ours`: a neighbour may have received it before the restart.
            handed: stage == Stage::Ours,
            to: Vec::new(),
            due: None,
            tries: 0,
            refused: None,
            size,
            original,
            taken: Ranges::default(),
            signals: 0,
        };
        self.entries.insert(number, entry);
        if stage == Stage::Ours {
            book.hold(bundle, RetentionConstraint::Custody);
        }
    }
    /// Completes accepted custody after the commit and returns the former custodian, if there was one; `None` if
    /// custody was not to be accepted.
    // 5050-5.10-1, 5050-5.10.1-1
    fn take(&mut self, book: &mut Book, number: u64) -> Option<Option<Custodian>> {
        let entry = self.entries.get_mut(&number).filter(|entry| entry.stage == Stage::Promised)?;
        entry.stage = Stage::Ours;
        book.hold(entry.bundle, RetentionConstraint::Custody);
        Some(entry.before.clone())
    }
    /// Removes a bundle from the tables. The caller releases the retention constraint.
    // 5050-5.10.2-1
    fn forget(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if matches!(entry.stage, Stage::Promised | Stage::Ours) {
            self.bytes = self.bytes.saturating_sub(entry.size);
        }
        if let Some(due) = entry.due {
            self.repeats.remove(&(due, number));
        }
        if let Some(original) = entry.original {
            self.pieces.remove(&(original, number));
        }
        Some(entry)
    }
    fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }
    fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&number)
    }
    pub fn is(&self, number: u64, stage: Stage) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.stage == stage)
    }
    /// Lowest number in the range whose bundle requests custody.
    fn first_in(&self, first: u64, last: u64) -> Option<u64> {
        self.entries.range(first..=last.max(first)).next().map(|(number, _)| *number)
    }
    /// Numbers of at most 64 fragments in custody that belong to this original.
    fn pieces_of(&self, original: u128) -> impl Iterator<Item = u64> + '_ {
        self.pieces.range((original, 0)..=(original, u64::MAX)).map(|(_, number)| *number).take(64)
    }
    /// Notes that a bundle in custody was sent to a neighbour; a scheduled retransmission is cancelled.
    fn handed(&mut self, number: u64, to: PeerId) {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.stage == Stage::Ours) else { return };
        if let Some(due) = entry.due.take() {
            self.repeats.remove(&(due, number));
        }
        entry.handed = true;
        entry.to.retain(|peer| *peer != to);
        if entry.to.len() >= TO_MAX {
            entry.to.remove(0);
        }
        entry.to.push(to);
    }
    /// Schedules a retransmission, unless one is scheduled for an earlier time.
    fn repeat_at(&mut self, number: u64, at: Instant) {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.stage == Stage::Ours) else { return };
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = entry.due.replace(at) {
            self.repeats.remove(&(due, number));
        }
        self.repeats.insert((at, number));
    }
    /// Time to wait for a signal, beyond the round-trip time, after the bundle was sent again `tries` times.
    fn patience(&self, tries: u8) -> Duration {
        // 20 doublings are a millionfold timeout; the cap keeps the shift within 32 bits.
        let doubled = self.settings.timeout.saturating_mul(1 << u32::from(tries.min(20)));
        doubled.min(self.settings.timeout_max.max(self.settings.timeout))
    }
    /// Notes that another node has custody of the payload range `piece`. Returns whether this bundle's range `own` is
    /// now covered.
    fn take_piece(&mut self, number: u64, piece: Range<u64>, own: Range<u64>) -> bool {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.signals < PIECES_MAX) else {
            return false;
        };
        entry.signals += 1;
        entry.taken.insert(piece.start.max(own.start)..piece.end.min(own.end));
        entry.taken.covers(&own)
    }
    /// Adds a bundle's number to the gathered answer of `group`, which is sent after `signal_delay` or once it has
    /// `signal_bundles` numbers.
    fn gather(&mut self, now: Instant, group: CustodySignalGroup, number: u64) {
        let due = now + self.settings.signal_delay;
        let most = self.settings.signal_bundles;
        let gathered = self.gathered.entry(group.clone()).or_insert_with(|| {
            self.by_due.insert((due, group.clone()));
            PendingSignals { numbers: Ranges::default(), count: 0, due }
        });
        gathered.numbers.insert(number..number.saturating_add(1));
        gathered.count += 1;
        if gathered.count >= most {
            let before = core::mem::replace(&mut gathered.due, now);
            self.by_due.remove(&(before, group.clone()));
            self.by_due.insert((now, group));
        } else if self.gathered.len() > TOLD_MAX {
            self.hurry(now);
        }
    }
    fn hurry(&mut self, now: Instant) {
        // Bounds the table of groups: the answer that waits longest leaves at once.
        let Some((_, group)) = self.by_due.pop_first() else { return };
        if let Some(gathered) = self.gathered.get_mut(&group) {
            gathered.due = now;
        }
        self.by_due.insert((now, group));
    }
    /// Time at which the next answer or retransmission is due.
    pub fn next(&self) -> Option<Instant> {
        let repeat = self.repeats.first().map(|(at, _)| *at);
        Instant::earliest([repeat, self.by_due.first().map(|(at, _)| *at)])
    }
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        // Answers go first: they release bundles at other nodes.
        if let Some((at, group)) = self.by_due.pop_first() {
            if at <= now {
                let numbers = self.gathered.remove(&group).map(|gathered| gathered.numbers).unwrap_or_default();
                return Some(Due::Send(group, numbers));
            }
            self.by_due.insert((at, group));
        }
        let (at, number) = self.repeats.first().copied().filter(|(at, _)| *at <= now)?;
        self.repeats.remove(&(at, number));
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.due = None;
        }
        Some(Due::Repeat(number))
    }
    /// Whether a retransmission of the bundle is scheduled.
    #[cfg(feature = "audit")]
    pub fn awaits(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.due.is_some())
    }
    /// Number of bundles that request custody, and of groups of gathered answers.
    #[cfg(feature = "audit")]
    pub fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.gathered.len())
    }
    /// Checks the tables against each other.
    ///
    /// # Panics
    /// If the tables do not agree.
    #[cfg(feature = "audit")]
    pub fn audit(&self, book: &Book) {
        let mut bytes = 0;
        for (number, entry) in &self.entries {
            let held = book.get(entry.bundle);
            assert!(held.is_some_and(|held| held.number == *number), "bundle {number} that asks for custody is held");
            assert_eq!(entry.due.is_some(), entry.due.is_some_and(|due| self.repeats.contains(&(due, *number))));
            assert!(entry.due.is_none() || entry.stage == Stage::Ours, "only what is in custody is repeated");
            bytes += if matches!(entry.stage, Stage::Promised | Stage::Ours) { entry.size } else { 0 };
        }
        assert_eq!(self.bytes, bytes, "bytes in custody");
        assert_eq!(self.repeats.len(), self.entries.values().filter(|entry| entry.due.is_some()).count());
        assert_eq!(self.by_due.len(), self.gathered.len(), "everything gathered is told once");
        assert!(self.pieces.iter().all(|(_, number)| self.entries.contains_key(number)), "pieces are held");
    }
}

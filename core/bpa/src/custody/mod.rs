//! Custody (RFC 5050 5.10 to 5.12): bundles this node keeps until another one has taken custody of them, when each is
//! sent again, and what is gathered to be told to other custodians.
//!
//! Owns the reason `Custody`. A bundle's number in this node is the number that signals name it by: it outlives
//! restarts and is never used again.

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

/// Neighbours remembered of one bundle as those it was handed to.
const TO_MAX: usize = 4;
/// Signals about pieces of one bundle that are counted.
const PIECES_MAX: u16 = 4096;
/// Others that something is gathered for; beyond that the oldest is told at once.
const TOLD_MAX: usize = 1024;

/// Who has custody elsewhere, and how it knows the bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Custodian {
    pub node: EndpointId,
    pub transfer: Option<Transfer>,
}

/// How far custody of a bundle is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It is taken once the store has the bundle, which leaves no sooner.
    Promised,
    /// This node has it.
    Ours,
    /// The bundle is for this node: its custodian is told when it is kept, or delivered where nothing is kept.
    Arrives,
    /// Another has it, who is told when the bundle is given up here.
    Theirs,
}

/// One bundle that asks for custody.
#[derive(Debug)]
pub(crate) struct Entry {
    pub bundle: Handle,
    pub stage: Stage,
    /// Who had custody when it came.
    pub before: Option<Custodian>,
    /// Whether anybody was given it since, as far as is known: somebody else may have custody of it by now.
    pub handed: bool,
    /// Who was given it last.
    pub to: Vec<PeerId>,
    /// When it is sent again.
    pub due: Option<Instant>,
    /// How often it was.
    pub tries: u8,
    /// Who refused custody since.
    pub refused: Option<PeerId>,
    size: u64,
    /// The bundle it is a piece of.
    original: Option<u128>,
    /// Bytes of the original payload that others have custody of.
    taken: Ranges,
    signals: u16,
}

/// Whom the same can be told of many bundles.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Told {
    pub to: EndpointId,
    pub version: u8,
    pub answer: Answer,
    pub sequence: u64,
    /// Null unless its counter is for this destination only.
    pub destination: EndpointId,
}

#[derive(Debug)]
struct Gathered {
    numbers: Ranges,
    count: u64,
    due: Instant,
}

/// What is due.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// No signal came about this one.
    Repeat(u64),
    /// What was gathered is told.
    Say(Told, Ranges),
}

/// A signal that is worked off.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Heard {
    /// Who brought it.
    from: PeerId,
    /// Who says so.
    source: NodeId,
    /// In which version of the bundle protocol: what it names is of that version too.
    version: u8,
    answer: Answer,
    about: Subject,
    /// Whether it named something that is none of its sender's business.
    foreign: bool,
}
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Subject {
    One(BundleId),
    /// First and last; the last one is next.
    Runs(Vec<(u64, u64)>),
}

/// Everything about custody.
#[derive(Debug)]
pub(crate) struct Custody {
    pub settings: CustodySettings,
    entries: BTreeMap<u64, Entry>,
    /// Pieces, by what they are pieces of.
    pieces: BTreeSet<(u128, u64)>,
    repeats: BTreeSet<(Instant, u64)>,
    gathered: BTreeMap<Told, Gathered>,
    sayings: BTreeSet<(Instant, Told)>,
    /// Bytes of bundles in custody, or promised to be.
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
            sayings: BTreeSet::new(),
            bytes: 0,
        }
    }
    /// Whether custody of so many more bytes may be taken.
    fn has_room(&self, size: u64) -> bool {
        self.bytes.saturating_add(size) <= self.settings.bytes
    }
    /// A held bundle asks for custody.
    fn enter(&mut self, book: &mut Book, bundle: Handle, stage: Stage, before: Option<Custodian>) {
        let Some(held) = book.get(bundle) else { return };
        let (number, size) = (held.number, held.size());
        let original = held.bundle.fragment().map(|_| held.bundle.original_id());
        if matches!(stage, Stage::Promised | Stage::Ours) {
            self.bytes = self.bytes.saturating_add(size);
            self.pieces.extend(original.map(|original| (original, number)));
        }
        let entry = Entry {
            bundle,
            stage,
            before,
            // Nobody knows what happened before a restart.
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
    /// What was promised is kept: this node has custody now. Who had it before; `None`: nothing was promised.
    // 5050-5.10-1, 5050-5.10.1-1
    fn take(&mut self, book: &mut Book, number: u64) -> Option<Option<Custodian>> {
        let entry = self.entries.get_mut(&number).filter(|entry| entry.stage == Stage::Promised)?;
        entry.stage = Stage::Ours;
        book.hold(entry.bundle, RetentionConstraint::Custody);
        Some(entry.before.clone())
    }
    /// Forgets a bundle.
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
    /// The first bundle of these numbers that asks for custody.
    fn first_in(&self, first: u64, last: u64) -> Option<u64> {
        self.entries.range(first..=last.max(first)).next().map(|(number, _)| *number)
    }
    /// Bundles in custody that are pieces of this one; the first few.
    fn pieces_of(&self, original: u128) -> impl Iterator<Item = u64> + '_ {
        self.pieces.range((original, 0)..=(original, u64::MAX)).map(|(_, number)| *number).take(64)
    }
    /// A neighbour is given a bundle in custody.
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
    /// It is sent again when there is no signal by then, or earlier where that was agreed.
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
    /// How long a signal is waited for after so many repetitions, beyond the time of the way.
    fn patience(&self, tries: u8) -> Duration {
        let doubled = self.settings.timeout.saturating_mul(1 << u32::from(tries.min(20)));
        doubled.min(self.settings.timeout_max.max(self.settings.timeout))
    }
    /// A node took custody of a piece of the original payload; whether all of this bundle's `own` part is taken now.
    fn take_piece(&mut self, number: u64, piece: Range<u64>, own: Range<u64>) -> bool {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.signals < PIECES_MAX) else {
            return false;
        };
        entry.signals += 1;
        entry.taken.insert(piece.start.max(own.start)..piece.end.min(own.end));
        entry.taken.covers(&own)
    }
    /// A number more to be told of; it leaves with others after a while.
    fn gather(&mut self, now: Instant, told: Told, number: u64) {
        let due = now + self.settings.signal_delay;
        let most = self.settings.signal_bundles;
        let gathered = self.gathered.entry(told.clone()).or_insert_with(|| {
            self.sayings.insert((due, told.clone()));
            Gathered { numbers: Ranges::default(), count: 0, due }
        });
        gathered.numbers.insert(number..number.saturating_add(1));
        gathered.count += 1;
        if gathered.count >= most {
            let before = core::mem::replace(&mut gathered.due, now);
            self.sayings.remove(&(before, told.clone()));
            self.sayings.insert((now, told));
        } else if self.gathered.len() > TOLD_MAX {
            self.hurry(now);
        }
    }
    /// What waits longest is told at once.
    fn hurry(&mut self, now: Instant) {
        let Some((_, told)) = self.sayings.pop_first() else { return };
        if let Some(gathered) = self.gathered.get_mut(&told) {
            gathered.due = now;
        }
        self.sayings.insert((now, told));
    }
    /// When something is due.
    pub fn next(&self) -> Option<Instant> {
        let repeat = self.repeats.first().map(|(at, _)| *at);
        Instant::earliest([repeat, self.sayings.first().map(|(at, _)| *at)])
    }
    /// Takes something that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        if let Some((at, told)) = self.sayings.pop_first() {
            if at <= now {
                let numbers = self.gathered.remove(&told).map(|gathered| gathered.numbers).unwrap_or_default();
                return Some(Due::Say(told, numbers));
            }
            self.sayings.insert((at, told));
        }
        let (at, number) = self.repeats.first().copied().filter(|(at, _)| *at <= now)?;
        self.repeats.remove(&(at, number));
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.due = None;
        }
        Some(Due::Repeat(number))
    }
    /// Whether a signal is waited for.
    #[cfg(feature = "audit")]
    pub fn awaits(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.due.is_some())
    }
    /// Bundles that ask for custody, and others that something is gathered for.
    #[cfg(feature = "audit")]
    pub fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.gathered.len())
    }
    /// Checks the tables against each other.
    ///
    /// # Panics
    /// When something does not agree.
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
        assert_eq!(self.sayings.len(), self.gathered.len(), "everything gathered is told once");
        assert!(self.pieces.iter().all(|(_, number)| self.entries.contains_key(number)), "pieces are held");
    }
}

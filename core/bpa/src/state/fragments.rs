//! Fragments for this node, grouped by their original (RFC 9171 5.9).
//!
//! Owns the retention constraints `Fragment` and `Whole`. A reassembled bundle is an entry of the book without a record
//! in the store: it refers to its parts, which stay until it is delivered. Pieces of arriving bundles are held as
//! parts, too.

use crate::io::OfferToken;
use crate::state::arriving::Arriving;
use crate::state::ranges::Ranges;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Empty, FragmentInfo, Instant, Lazy, NodeId, Payload};
use farlink_book::{Book, Flags, Handle, Held, RetentionConstraint};

/// Waiting fragments that agree in content, so that they may be joined.
#[derive(Debug)]
struct Joining {
    have: Ranges,
    /// Whether a part has left, so that `have` must be computed again before use.
    stale: bool,
    /// Fragments by offset and length.
    parts: BTreeMap<(u64, u64), Handle>,
    /// Length of the longest fragment so far.
    longest: u64,
}

impl Joining {
    fn refresh(&mut self) {
        if core::mem::take(&mut self.stale) {
            // Parts may overlap, so the bytes of a departed part may still be covered by others: the ranges are built
            // again.
            self.have = Ranges::default();
            self.parts.keys().for_each(|(offset, len)| self.have.insert(*offset..offset + len));
        }
    }
}

/// Result of adding a fragment.
#[derive(Debug)]
pub(crate) enum Joined {
    /// Other fragments are missing.
    Waiting,
    /// The fragment adds no bytes or is invalid, so the caller drops it.
    Redundant,
    /// The original is complete.
    Complete {
        /// Fragment with the first byte.
        first: Handle,
        /// Payload of the original, composed from the parts.
        payload: Payload,
        /// Earliest expiry among the parts.
        expires: Instant,
        /// All parts, by offset.
        parts: Vec<Handle>,
    },
}

/// Key of one content: identity of the original; its total length, since a false one must not spoil the others; whether
/// no link vouches for the fragments, since these are never joined with vouched ones; and the number of the content
/// among several.
type Original = (u128, u64, bool, u32);

/// Most contents of one identity that collect fragments. Fragments acknowledged earlier are kept even beyond it.
const CONTENTS_MAX: usize = 8;

/// Account that a fragment is charged to: its source, or `None` for all fragments that no link vouches for, because the
/// source they name proves nothing.
type FragmentCounts = Option<NodeId>;

fn counts_to(source: NodeId, strange: bool) -> FragmentCounts {
    (!strange).then_some(source)
}

/// Fragments by original, reassembled bundles, and pieces. Most nodes never receive a fragment addressed to them.
#[derive(Debug)]
struct Pieces {
    joining: BTreeMap<Original, Joining>,
    wholes: BTreeMap<Handle, Vec<Handle>>,
    /// Reassembled bundle of each part.
    whole_of: BTreeMap<Handle, Handle>,
    /// Waiting fragments by account.
    shares: BTreeMap<FragmentCounts, usize>,
    /// Pieces of arriving bundles.
    arriving: Arriving,
}
impl Pieces {
    const fn new() -> Self {
        Pieces {
            joining: BTreeMap::new(),
            wholes: BTreeMap::new(),
            whole_of: BTreeMap::new(),
            shares: BTreeMap::new(),
            arriving: Arriving::new(),
        }
    }
    fn leaves(&mut self, share: FragmentCounts) {
        if let Some(count) = self.shares.get_mut(&share) {
            *count -= 1;
            if *count == 0 {
                self.shares.remove(&share);
            }
        }
    }
}
impl Empty for Pieces {
    type From = ();
    const EMPTY: &'static Self = &Pieces::new();
    fn make((): ()) -> Self {
        Pieces::new()
    }
}

/// All waiting fragments, reassembled bundles and pieces of arriving bundles.
#[derive(Debug)]
pub(crate) struct Fragments {
    pieces: Lazy<Pieces>,
    waiting: usize,
    most: usize,
}

/// Whether two fragments agree on their original's lifetime, destination and report-to endpoint.
fn same_original(a: &BundleMeta, b: &BundleMeta) -> bool {
    (a.lifetime_ms, &a.destination, a.report_to()) == (b.lifetime_ms, &b.destination, b.report_to())
}

fn place(held: &Held) -> Option<FragmentInfo> {
    held.bundle.fragment()
}

impl Fragments {
    pub fn new(most: usize) -> Self {
        Fragments { pieces: Lazy::default(), waiting: 0, most }
    }
    /// Whether the account of a new fragment is full; fragments that already wait are never dropped for it. An account
    /// is full once it has three times as many fragments as there are free places, so that incomplete bundles leave
    /// room for others. The account of fragments that no link vouches for gets at most half of all places.
    pub fn are_full(&self, new: &Held) -> bool {
        let strange = new.flags.has(Flags::STRANGE);
        let share = counts_to(new.bundle.source.node(), strange);
        let taken = self.pieces.shares.get(&share).copied().unwrap_or(0);
        // The more fragments wait altogether, the smaller each account's bound becomes.
        let free = self.most.saturating_sub(self.waiting);
        taken >= free.saturating_mul(3) || (strange && taken >= self.most.div_ceil(2))
    }
    /// Adds a fragment addressed to this node. The fragment is then held by `Fragment`, or, once its original is
    /// complete, by `Whole`.
    // 9171-5.7-2, 5050-5.7-2
    pub fn add(&mut self, book: &mut Book, bundle: Handle) -> Joined {
        let Some((held, at)) = book.get(bundle).and_then(|held| Some((held, place(held)?))) else {
            return Joined::Redundant;
        };
        let len = held.bundle.payload.len();
        let source = held.bundle.source.node();
        let range = at.offset..at.offset.saturating_add(len);
        let original = self.content_of(book, held, at).unwrap_or_else(|| self.another(held, at));
        let joining = self.pieces.joining.entry(original).or_insert_with(|| Joining {
            have: Ranges::default(),
            stale: false,
            parts: BTreeMap::new(),
            longest: 0,
        });
        joining.refresh();
        // A fragment that ends beyond the total length is invalid; one whose bytes are all here adds nothing.
        if range.end > at.total || joining.have.covers(&range) {
            if joining.parts.is_empty() {
                self.pieces.joining.remove(&original);
            }
            return Joined::Redundant;
        }
        joining.have.insert(range);
        joining.parts.insert((at.offset, len), bundle);
        joining.longest = joining.longest.max(len);
        let complete = joining.have.covers(&(0..at.total));
        self.waiting += 1;
        *self.pieces.shares.entry(counts_to(source, original.2)).or_insert(0) += 1;
        book.hold(bundle, RetentionConstraint::Fragment);
        if complete { self.complete(book, original) } else { Joined::Waiting }
    }
    /// Whether a fragment belongs to a waiting content, or may begin a new one because fewer than [`CONTENTS_MAX`]
    /// wait. Contents that no link vouches for are counted apart.
    pub fn have_room_for(&self, book: &Book, new: &Held) -> bool {
        let Some(at) = place(new) else { return true };
        let contents = || self.contents(new.bundle.original_id(), at.total, new.flags.has(Flags::STRANGE));
        contents().nth(CONTENTS_MAX - 1).is_none() || self.content_of(book, new, at).is_some()
    }
    /// Incomplete originals with this identity and total length; several if their fragments disagree. `strange`: those
    /// whose fragments no link vouches for, else the vouched ones.
    fn contents(&self, id: u128, total: u64, strange: bool) -> impl Iterator<Item = (&Original, &Joining)> {
        self.pieces.joining.range((id, total, strange, 0)..=(id, total, strange, u32::MAX))
    }
    /// Key of a new content, with the lowest free number.
    fn another(&self, held: &Held, at: FragmentInfo) -> Original {
        let (id, strange) = (held.bundle.original_id(), held.flags.has(Flags::STRANGE));
        let taken = (0..).zip(self.contents(id, at.total, strange));
        let first = taken.take_while(|(number, (content, _))| content.3 == *number).count();
        (id, at.total, strange, first as u32)
    }
    /// Key of the waiting fragments that this fragment may join: the fields of the original agree with its own, and so
    /// do overlapping bytes as far as they are in memory. `None` if there are none.
    fn content_of(&self, book: &Book, held: &Held, at: FragmentInfo) -> Option<Original> {
        let (id, strange) = (held.bundle.original_id(), held.flags.has(Flags::STRANGE));
        let agrees = |joining: &Joining| {
            let end = at.offset.saturating_add(held.bundle.payload.len());
            // Only fragments that begin less than the longest fragment's length before this one can overlap it.
            let first = joining.parts.values().next().and_then(|part| book.get(*part));
            let before = joining.parts.range(..(end, 0)).rev();
            let beside = before.take_while(|((offset, _), _)| offset.saturating_add(joining.longest) > at.offset);
            first.is_none_or(|first| same_original(&held.bundle, &first.bundle))
                && beside.into_iter().all(|((offset, len), part)| {
                    let (start, end) = (at.offset.max(*offset), end.min(offset.saturating_add(*len)));
                    let Some(other) = book.get(*part).filter(|_| start < end) else { return true };
                    let mine = held.bundle.payload.slice(start - at.offset, end - start);
                    mine.same(&other.bundle.payload.slice(start - offset, end - start)) != Some(false)
                })
        };
        self.contents(id, at.total, strange).find(|(_, joining)| agrees(joining)).map(|(content, _)| *content)
    }
    /// Content to which a waiting fragment was added.
    fn joined_to(&self, held: &Held) -> Option<Original> {
        let at = place(held)?;
        let key = (at.offset, held.bundle.payload.len());
        let (id, strange) = (held.bundle.original_id(), held.flags.has(Flags::STRANGE));
        let mut contents = [strange, !strange].into_iter().flat_map(|strange| self.contents(id, at.total, strange));
        let joined = contents.find(|(_, joining)| joining.parts.get(&key) == Some(&held.handle()));
        joined.map(|(content, _)| *content)
    }
    // 9171-5.9-2, 5050-5.9-2
    fn complete(&mut self, book: &mut Book, original: Original) -> Joined {
        let Some(joining) = self.pieces.joining.remove(&original) else { return Joined::Waiting };
        self.waiting -= joining.parts.len();
        let (mut payload, mut expires) = (Payload::new(), Instant::MAX);
        for ((offset, len), part) in &joining.parts {
            let Some(held) = book.get(*part) else { continue };
            self.pieces.leaves(counts_to(held.bundle.source.node(), original.2));
            let have = payload.len();
            // Overlapping bytes are taken from the earlier fragment only.
            if offset + len > have {
                payload.append(held.bundle.payload.slice(have - offset, len - (have - offset)));
            }
            expires = expires.min(held.expires);
        }
        let parts: Vec<Handle> = joining.parts.into_values().collect();
        for part in &parts {
            // Held by `Whole` first, so that each part is held throughout.
            book.hold(*part, RetentionConstraint::Whole);
            let last = book.release(*part, RetentionConstraint::Fragment);
            debug_assert!(!last, "it is part of a whole");
        }
        match parts.first().copied() {
            Some(first) => Joined::Complete { first, payload, expires, parts },
            None => Joined::Waiting,
        }
    }
    /// Waiting fragments of this original, of all its contents.
    pub fn of(&self, original: u128) -> Vec<Handle> {
        let joining = self.pieces.joining.range((original, 0, false, 0)..=(original, u64::MAX, true, u32::MAX));
        joining.flat_map(|(_, joining)| joining.parts.values().copied()).collect()
    }
    /// Progress of a waiting fragment's content: number of fragments, bytes that are here, total length.
    pub fn have(&self, held: &Held) -> Option<(usize, u64, u64)> {
        let at = place(held)?;
        let joining = self.pieces.joining.get(&self.joined_to(held)?)?;
        Some((joining.parts.len(), joining.have.len(), at.total))
    }
    /// Records the parts of a reassembled bundle.
    pub fn refer(&mut self, whole: Handle, parts: Vec<Handle>) {
        self.pieces.whole_of.extend(parts.iter().map(|part| (*part, whole)));
        self.pieces.wholes.insert(whole, parts);
    }
    /// Parts of a reassembled bundle.
    pub fn parts(&self, whole: Handle) -> &[Handle] {
        self.pieces.wholes.get(&whole).map_or(&[], Vec::as_slice)
    }
    /// Reassembled bundle that a part belongs to.
    pub fn whole_of(&self, part: Handle) -> Option<Handle> {
        self.pieces.whole_of.get(&part).copied()
    }
    /// Dissolves a reassembled bundle. Returns its parts, which are to be dispatched, so that they wait for reassembly
    /// again.
    pub fn dissolve(&mut self, book: &mut Book, whole: Handle) -> Vec<Handle> {
        let parts = self.take_parts(whole);
        for part in &parts {
            book.hold(*part, RetentionConstraint::Route);
            let last = book.release(*part, RetentionConstraint::Whole);
            debug_assert!(!last, "it is to be joined");
        }
        parts
    }
    /// Mutable access to the pieces of arriving bundles; `None` if there never were any fragments or pieces.
    pub fn arriving(&mut self) -> Option<&mut Arriving> {
        self.pieces.made().map(|pieces| &mut pieces.arriving)
    }
    /// Adds a piece of an arriving bundle, which `Whole` alone holds.
    pub fn begin_piece(&mut self, token: OfferToken, piece: Handle, bytes: u64) {
        self.pieces.arriving.add(token, piece, bytes);
    }
    /// Begins to track an arriving bundle whose pieces were held before.
    pub fn begin_arriving(&mut self, token: OfferToken) {
        self.pieces.arriving.begin(token);
    }
    /// Bytes of all pieces of arriving bundles.
    pub fn arriving_bytes(&self) -> u64 {
        self.pieces.arriving.bytes()
    }
    /// Whether a bundle is a piece of an arriving one.
    pub fn is_arriving(&self, piece: Handle) -> bool {
        self.pieces.arriving.has(piece)
    }
    /// Forgets a reassembled bundle that departs. Returns its parts, which depart with it.
    // 9171-5.9-2, 5050-5.9-2
    pub fn take_parts(&mut self, whole: Handle) -> Vec<Handle> {
        let Some(pieces) = self.pieces.made() else { return Vec::new() };
        let parts = pieces.wholes.remove(&whole).unwrap_or_default();
        for part in &parts {
            pieces.whole_of.remove(part);
        }
        parts
    }
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        let waiting = self.pieces.joining.values().map(|joining| joining.parts.len()).sum();
        assert_eq!(self.waiting, waiting, "fragments that wait");
        assert_eq!(self.waiting, self.pieces.shares.values().sum::<usize>(), "fragments by share");
        assert!(self.pieces.shares.values().all(|count| *count > 0), "who has no fragments has no share");
        assert_eq!(
            self.pieces.whole_of.len(),
            self.pieces.wholes.values().map(Vec::len).sum::<usize>(),
            "parts of wholes"
        );
        self.pieces.joining.len() + self.pieces.wholes.len() + self.pieces.arriving.len()
    }
    /// Whether a fragment is among the waiting ones.
    #[cfg(feature = "audit")]
    pub fn is_joining(&self, held: &Held) -> bool {
        self.joined_to(held).is_some()
    }
    /// Removes a waiting fragment that departs.
    pub fn forget(&mut self, held: &Held) {
        let Some(at) = place(held).filter(|_| held.has(RetentionConstraint::Fragment)) else { return };
        let Some(original) = self.joined_to(held) else { return };
        let Some(joining) = self.pieces.joining.get_mut(&original) else { return };
        let key = (at.offset, held.bundle.payload.len());
        if joining.parts.get(&key) != Some(&held.handle()) {
            return;
        }
        joining.parts.remove(&key);
        self.waiting -= 1;
        joining.stale = true;
        if joining.parts.is_empty() {
            self.pieces.joining.remove(&original);
        }
        self.pieces.leaves(counts_to(held.bundle.source.node(), original.2));
    }
}

//! Offers to neighbours that are up: for each neighbour a cursor through the book and the best candidates so far. A
//! candidate is taken only when a link has room for it, so that no bundle is queued for a link that then goes down.

use alloc::collections::{BTreeMap, VecDeque};
use farlink_base::{Empty, Instant, PeerId, TimerKey};
use farlink_book::{Book, CursorId, Handle};

/// Most candidates kept for each neighbour; those of lower rank are found by another walk once these are used up.
const BEST: usize = 256;

#[derive(Debug)]
struct Offer {
    cursor: CursorId,
    /// Candidates by rank, then by number, which is the order in which most are added.
    best: VecDeque<(u64, u64, Handle)>,
    /// Whether candidates were dropped, so that the book is walked again once `best` is used up.
    more: bool,
    /// Whether the cursor reached the newest bundle.
    seen_all: bool,
    /// Deadline of the neighbour's summary; no bundle is copied before the summary or the deadline.
    awaits: Option<Instant>,
    /// Timer of the deadline of the neighbour's summary.
    timer: Option<TimerKey>,
    /// Whether the neighbour stands in line for a walk.
    busy: bool,
}

impl Offer {
    /// Joins the line for a walk, unless a summary is awaited.
    fn line_up(&mut self, peer: PeerId, line: &mut VecDeque<PeerId>) {
        if self.awaits.is_none() && !core::mem::replace(&mut self.busy, true) {
            line.push_back(peer);
        }
    }
}

/// Next step for one neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Consider this bundle and those after it for this neighbour, and move the cursor to the last one considered.
    Look(PeerId, Handle, CursorId),
    /// All bundles were considered for this neighbour, so its links may take some.
    Ready(PeerId),
}

/// Offers to all neighbours.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    peers: BTreeMap<PeerId, Offer>,
    /// Line of neighbours that have bundles to consider; a neighbour stands in it at most once.
    busy: VecDeque<PeerId>,
}

// Allocated on first use: the policies of most nodes offer no copies.
impl Empty for Offers {
    type From = ();
    const EMPTY: &'static Self = &Offers { peers: BTreeMap::new(), busy: VecDeque::new() };
    fn make((): ()) -> Self {
        Offers::default()
    }
}

impl Offers {
    /// Begins the offer to a neighbour that came up. `awaits`: the time until which the neighbour's summary is awaited;
    /// `None`: no summary is awaited.
    pub fn begin(&mut self, book: &mut Book, peer: PeerId, awaits: Option<Instant>) {
        debug_assert!(!self.peers.contains_key(&peer), "it was down");
        let cursor = book.open_cursor();
        let best = VecDeque::new();
        let offer = Offer { cursor, best, more: false, seen_all: false, awaits, timer: None, busy: false };
        self.peers.insert(peer, offer);
        self.wake(peer);
    }
    /// Notes the timer of the deadline of a neighbour's summary.
    pub fn set_timer(&mut self, peer: PeerId, timer: TimerKey) {
        if let Some(offer) = self.peers.get_mut(&peer) {
            offer.timer = Some(timer);
        }
    }
    /// Ends the offer to a neighbour that went down. Returns the timer of the wait for its summary, to be cancelled.
    pub fn end(&mut self, book: &mut Book, peer: PeerId) -> Option<TimerKey> {
        let offer = self.peers.remove(&peer)?;
        book.close_cursor(offer.cursor);
        if offer.busy {
            self.busy.retain(|p| *p != peer);
        }
        offer.timer
    }
    /// Ends the wait for a neighbour's summary. Returns the timer of the wait, to be cancelled.
    pub fn end_summary_wait(&mut self, peer: PeerId) -> Option<TimerKey> {
        let timer = self.peers.get_mut(&peer).and_then(|offer| {
            offer.awaits = None;
            offer.timer.take()
        });
        self.wake(peer);
        timer
    }
    /// Deadline of the neighbour's summary; `None` if none is awaited.
    pub fn awaits(&self, peer: PeerId) -> Option<Instant> {
        self.peers.get(&peer)?.awaits
    }
    /// Considers all bundles again for this neighbour.
    pub fn reask(&mut self, book: &mut Book, peer: PeerId) {
        if let Some(offer) = self.peers.get_mut(&peer) {
            book.rewind(offer.cursor);
            offer.best.clear();
            offer.more = false;
            offer.seen_all = false;
        }
        self.wake(peer);
    }
    fn wake(&mut self, peer: PeerId) {
        if let Some(offer) = self.peers.get_mut(&peer) {
            offer.line_up(peer, &mut self.busy);
        }
    }
    /// Queues all neighbours, so that newly arrived bundles are considered for them.
    pub(super) fn wake_all(&mut self) {
        for (peer, offer) in &mut self.peers {
            if offer.seen_all && offer.awaits.is_none() {
                offer.seen_all = false;
                offer.line_up(*peer, &mut self.busy);
            }
        }
    }
    /// Neighbours with an offer.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.keys().copied()
    }
    /// Whether no neighbour has bundles to consider.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }
    /// Next step for the neighbour at the front of the line.
    pub fn turn(&mut self, book: &Book) -> Option<Turn> {
        let peer = *self.busy.front()?;
        // A neighbour whose offer ended has left the line.
        let offer = self.peers.get_mut(&peer)?;
        match book.ahead(offer.cursor) {
            Some(bundle) => Some(Turn::Look(peer, bundle, offer.cursor)),
            None => {
                (offer.seen_all, offer.busy) = (true, false);
                self.busy.pop_front();
                Some(Turn::Ready(peer))
            }
        }
    }
    /// Adds a bundle to a neighbour's candidates.
    pub fn want(&mut self, peer: PeerId, rank: u64, number: u64, bundle: Handle) {
        let Some(offer) = self.peers.get_mut(&peer) else { return };
        // Candidates are sorted by rank and number, so that equal ranks keep the order of arrival.
        let place = offer.best.partition_point(|(r, n, _)| (*r, *n) < (rank, number));
        match offer.best.get_mut(place) {
            Some(known) if (known.0, known.1) == (rank, number) => known.2 = bundle,
            _ => offer.best.insert(place, (rank, number, bundle)),
        }
        if offer.best.len() > BEST {
            offer.best.pop_back();
            offer.more = true;
        }
    }
    /// Takes the best candidate for a neighbour. `None` without a candidate, and while bundles are still to be
    /// considered.
    pub fn best(&mut self, book: &mut Book, peer: PeerId) -> Option<Handle> {
        let offer = self.peers.get_mut(&peer)?;
        if offer.awaits.is_some() || !offer.seen_all {
            return None;
        }
        match offer.best.pop_front() {
            Some((_, _, bundle)) => Some(bundle),
            None if offer.more => {
                self.reask(book, peer);
                None
            }
            None => None,
        }
    }
    /// Whether a neighbour may have candidates.
    pub fn has(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|o| o.awaits.is_none() && (!o.best.is_empty() || o.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use alloc::vec::Vec;
    use farlink_base::Priority;

    fn look(offers: &mut Offers, book: &mut Book, rank: impl Fn(u64) -> u64) {
        while let Some(turn) = offers.turn(book) {
            if let Turn::Look(peer, bundle, cursor) = turn {
                let number = book.get(bundle).unwrap().number;
                offers.want(peer, rank(number), number, bundle);
                book.stand(cursor, bundle);
            }
        }
    }

    #[test]
    fn every_bundle_is_offered_once() {
        let (mut book, handles) = book_with(&[Priority::Normal; 600]);
        let mut offers = Offers::default();
        offers.begin(&mut book, PeerId(1), None);
        assert_eq!(offers.best(&mut book, PeerId(1)), None, "not everything was looked at");
        let mut got = Vec::new();
        for _ in 0..600 {
            // Descending ranks: the newest bundle is best.
            look(&mut offers, &mut book, |number| 1000 - number);
            assert!(offers.peers[&PeerId(1)].best.len() <= BEST);
            let Some(bundle) = offers.best(&mut book, PeerId(1)) else { continue };
            got.push(book.get(bundle).unwrap().number);
            let _ = book.remove(bundle);
        }
        look(&mut offers, &mut book, |number| 1000 - number);
        while let Some(bundle) = offers.best(&mut book, PeerId(1)) {
            got.push(book.get(bundle).unwrap().number);
            let _ = book.remove(bundle);
            look(&mut offers, &mut book, |number| 1000 - number);
        }
        // The best 256 come first; the others follow after further walks.
        assert_eq!(got[..256], (345..=600).rev().collect::<Vec<u64>>()[..]);
        assert_eq!((got.len(), handles.len()), (600 - book.len(), 600));
    }

    #[test]
    fn ended_offer_leaves_no_cursor() {
        let (mut book, _) = book_with(&[Priority::Normal; 3]);
        let mut offers = Offers::default();
        offers.begin(&mut book, PeerId(1), Some(Instant(9)));
        look(&mut offers, &mut book, |number| number);
        assert_eq!((offers.best(&mut book, PeerId(1)), offers.awaits(PeerId(1))), (None, Some(Instant(9))));
        let _ = offers.end_summary_wait(PeerId(1));
        look(&mut offers, &mut book, |number| number);
        assert!(offers.has(PeerId(1)) && offers.best(&mut book, PeerId(1)).is_some());
        offers.end(&mut book, PeerId(1));
        assert!(offers.best(&mut book, PeerId(1)).is_none() && offers.is_idle());
    }

    #[test]
    fn woken_neighbours_take_turns_once() {
        let (mut book, handles) = book_with(&[Priority::Normal; 1]);
        let (one, two, three) = (PeerId(1), PeerId(2), PeerId(3));
        // Neighbour and bundle of each step; no bundle once all were considered.
        let next = |offers: &mut Offers, book: &mut Book| {
            Some(match offers.turn(book)? {
                Turn::Look(peer, bundle, cursor) => {
                    book.stand(cursor, bundle);
                    (peer, Some(bundle))
                }
                Turn::Ready(peer) => (peer, None),
            })
        };
        let turns =
            |offers: &mut Offers, book: &mut Book| core::iter::from_fn(|| next(offers, book)).collect::<Vec<_>>();
        let each =
            |peers: &[PeerId]| peers.iter().flat_map(|p| [(*p, Some(handles[0])), (*p, None)]).collect::<Vec<_>>();
        let mut offers = Offers::default();
        offers.begin(&mut book, two, None);
        offers.begin(&mut book, one, None);
        offers.begin(&mut book, three, None);
        offers.reask(&mut book, two);
        let _ = offers.end_summary_wait(one);
        assert_eq!(turns(&mut offers, &mut book), each(&[two, one, three]));
        offers.wake_all();
        offers.end(&mut book, two);
        offers.begin(&mut book, two, None);
        offers.reask(&mut book, one);
        assert_eq!(next(&mut offers, &mut book), Some((one, Some(handles[0]))));
        offers.end(&mut book, one);
        assert_eq!(turns(&mut offers, &mut book), [&[(three, None)], &each(&[two])[..]].concat());
        assert!(offers.is_idle());
    }
}

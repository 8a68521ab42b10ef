//! What neighbours that are up are offered of the bundles carried here: per neighbour a cursor
//! through the book and the best wants found so far. Pulled when one of its links has room, so
//! that nothing strands on a link that goes down.

use alloc::collections::{BTreeMap, VecDeque};
use farlink_base::{Empty, Instant, PeerId, TimerKey};
use farlink_book::{Book, CursorId, Handle};

/// Wants kept per neighbour; those that rank behind are found again when these are used up.
const BEST: usize = 256;

#[derive(Debug)]
struct Offer {
    cursor: CursorId,
    /// By rank, then arrival: most come in this order.
    best: VecDeque<(u64, u64, Handle)>,
    /// Something that fell out, or was never in: look again when `best` is used up.
    more: bool,
    /// Whether the cursor reached the newest bundle.
    seen_all: bool,
    /// Nothing is copied before: its summary is awaited until then.
    awaits: Option<Instant>,
    /// Ends that wait.
    timer: Option<TimerKey>,
    /// Whether it is in line to look at something.
    busy: bool,
}

impl Offer {
    /// It has something to look at, once its summary is not waited for.
    fn line_up(&mut self, peer: PeerId, line: &mut VecDeque<PeerId>) {
        if self.awaits.is_none() && !core::mem::replace(&mut self.busy, true) {
            line.push_back(peer);
        }
    }
}

/// One neighbour's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Look at this bundle for this neighbour, and at those that came after it; this cursor is to stand on the last.
    Look(PeerId, Handle, CursorId),
    /// This neighbour has been shown everything: its links may be pumped.
    Ready(PeerId),
}

/// All offers.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    peers: BTreeMap<PeerId, Offer>,
    /// Neighbours that have something to look at, each once.
    busy: VecDeque<PeerId>,
}

/// Most nodes carry nothing that neighbours choose from.
impl Empty for Offers {
    type From = ();
    const EMPTY: &'static Self = &Offers { peers: BTreeMap::new(), busy: VecDeque::new() };
    fn make((): ()) -> Self {
        Offers::default()
    }
}

impl Offers {
    /// A neighbour came up. Until `awaits` its summary is waited for.
    pub fn begin(&mut self, book: &mut Book, peer: PeerId, awaits: Option<Instant>) {
        debug_assert!(!self.peers.contains_key(&peer), "it was down");
        let cursor = book.open_cursor();
        let best = VecDeque::new();
        let offer = Offer { cursor, best, more: false, seen_all: false, awaits, timer: None, busy: false };
        self.peers.insert(peer, offer);
        self.wake(peer);
    }
    /// Notes the timer that ends the wait for a summary.
    pub fn set_timer(&mut self, peer: PeerId, timer: TimerKey) {
        if let Some(offer) = self.peers.get_mut(&peer) {
            offer.timer = Some(timer);
        }
    }
    /// A neighbour went down; gives a timer no longer needed.
    pub fn end(&mut self, book: &mut Book, peer: PeerId) -> Option<TimerKey> {
        let offer = self.peers.remove(&peer)?;
        book.close_cursor(offer.cursor);
        if offer.busy {
            self.busy.retain(|p| *p != peer);
        }
        offer.timer
    }
    /// Its summary is here, or was waited for long enough; gives a timer no longer needed.
    pub fn heard(&mut self, peer: PeerId) -> Option<TimerKey> {
        let timer = self.peers.get_mut(&peer).and_then(|offer| {
            offer.awaits = None;
            offer.timer.take()
        });
        self.wake(peer);
        timer
    }
    /// Whether a neighbour's summary is still waited for.
    pub fn awaits(&self, peer: PeerId) -> Option<Instant> {
        self.peers.get(&peer)?.awaits
    }
    /// Looks at everything again for this neighbour.
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
    /// New bundles came: every neighbour is to see them.
    pub(super) fn wake_all(&mut self) {
        for (peer, offer) in &mut self.peers {
            if offer.seen_all && offer.awaits.is_none() {
                offer.seen_all = false;
                offer.line_up(*peer, &mut self.busy);
            }
        }
    }
    /// Neighbours offered to.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.keys().copied()
    }
    /// Whether there is none.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }
    /// The next thing to do.
    pub fn turn(&mut self, book: &Book) -> Option<Turn> {
        let peer = *self.busy.front()?;
        // Whoever ends leaves the line.
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
    /// Notes that a neighbour should get a bundle.
    pub fn want(&mut self, peer: PeerId, rank: u64, number: u64, bundle: Handle) {
        let Some(offer) = self.peers.get_mut(&peer) else { return };
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
    /// The best of what a neighbour should get; `None` also while not everything was looked at.
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
    /// Whether a neighbour may have something to get.
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
    fn offers_best_first_beyond_cache() {
        let (mut book, handles) = book_with(&[Priority::Normal; 600]);
        let mut offers = Offers::default();
        offers.begin(&mut book, PeerId(1), None);
        assert_eq!(offers.best(&mut book, PeerId(1)), None, "not everything was looked at");
        let mut got = Vec::new();
        for _ in 0..600 {
            // The last come first.
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
        assert_eq!(got[..256], (345..=600).rev().collect::<Vec<u64>>()[..]);
        assert_eq!((got.len(), handles.len()), (600 - book.len(), 600));
    }

    #[test]
    fn offer_awaits_summary_and_ends_clean() {
        let (mut book, _) = book_with(&[Priority::Normal; 3]);
        let mut offers = Offers::default();
        offers.begin(&mut book, PeerId(1), Some(Instant(9)));
        look(&mut offers, &mut book, |number| number);
        assert_eq!((offers.best(&mut book, PeerId(1)), offers.awaits(PeerId(1))), (None, Some(Instant(9))));
        let _ = offers.heard(PeerId(1));
        look(&mut offers, &mut book, |number| number);
        assert!(offers.has(PeerId(1)) && offers.best(&mut book, PeerId(1)).is_some());
        offers.end(&mut book, PeerId(1));
        assert!(offers.best(&mut book, PeerId(1)).is_none() && offers.is_idle());
    }

    #[test]
    fn woken_neighbours_take_turns() {
        let (mut book, handles) = book_with(&[Priority::Normal; 1]);
        let (one, two, three) = (PeerId(1), PeerId(2), PeerId(3));
        // Who looks at what, or has seen all.
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
        let _ = offers.heard(one);
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

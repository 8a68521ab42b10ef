//! The book against a plain list as a model: random operations, with a full comparison and audit after every step.

mod parts;

use farlink_base::{BundleMeta, Duration, EndpointId, Instant, NodeId, Rng};
use farlink_book::{Book, CursorId, Handle, RetentionConstraint, RetentionConstraints};
use parts::new;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest delay with which an expired bundle is found.
const BUCKET: Duration = Duration::from_nanos(1 << 24);

/// A bundle with this identity and destination; identities ending in 7 are anonymous.
fn bundle(id: u128, to: u64) -> Arc<BundleMeta> {
    let source = if id % 10 == 7 { EndpointId::Null } else { EndpointId::ipn(1, 1) };
    Arc::new(BundleMeta { source, head: vec![0; (id % 50) as usize].into(), ..parts::bundle(id, to) })
}

/// A bundle as the model knows it.
#[derive(Clone)]
struct ModelBundle {
    handle: Handle,
    number: u64,
    bundle: Arc<BundleMeta>,
    expires: Instant,
    /// Whether the bundle is in the order of expiries.
    armed: bool,
    reasons: Vec<RetentionConstraint>,
}

#[derive(Default)]
struct BookModel {
    /// Bundles in order of arrival.
    held: Vec<ModelBundle>,
    last: u64,
    /// Number of the last bundle that each cursor returned.
    cursors: BTreeMap<u32, u64>,
    gone: Vec<Handle>,
}

/// One operation; numbers select among existing objects.
#[derive(Clone, Debug)]
enum Op {
    Keep { id: u8, to: u8, expires_ms: u16, skips: u8 },
    Remove(u16),
    RemoveNewest,
    Expire { now_ms: u16, again: Option<u16> },
    Rearm(u16, u16),
    Open,
    Close(u8),
    Rewind(u8),
    Advance(u8, u8),
    Hold(u16, u8),
    Release(u16, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let keep = (any::<u8>(), 0..6u8, 0..2000u16, 0..3u8);
    prop_oneof![
        10 => keep.prop_map(|(id, to, expires_ms, skips)| Op::Keep { id, to, expires_ms, skips }),
        5 => any::<u16>().prop_map(Op::Remove),
        2 => Just(Op::RemoveNewest),
        1 => (1..2100u16, prop::option::of(0..2000u16)).prop_map(|(now_ms, again)| Op::Expire { now_ms, again }),
        1 => (any::<u16>(), 0..2000u16).prop_map(|(i, ms)| Op::Rearm(i, ms)),
        1 => Just(Op::Open),
        1 => any::<u8>().prop_map(Op::Close),
        1 => any::<u8>().prop_map(Op::Rewind),
        5 => (any::<u8>(), 1..20u8).prop_map(|(i, n)| Op::Advance(i, n)),
        1 => (any::<u16>(), 0..3u8).prop_map(|(i, r)| Op::Hold(i, r)),
        1 => (any::<u16>(), 0..3u8).prop_map(|(i, r)| Op::Release(i, r)),
    ]
}

fn reason(number: u8) -> RetentionConstraint {
    [RetentionConstraint::Route, RetentionConstraint::Send, RetentionConstraint::Custody][number as usize]
}
/// Expiry of a test bundle: 0 is never, and multiples of 100 are years apart.
fn instant(ms: u16) -> Instant {
    match u64::from(ms) {
        0 => Instant::MAX,
        ms if ms % 100 == 0 => Instant::from_nanos(ms << 50),
        ms => Instant::from_nanos(ms * 1_000_000),
    }
}

impl BookModel {
    fn pick(&self, chosen: u16) -> Option<usize> {
        (!self.held.is_empty()).then(|| chosen as usize % self.held.len())
    }
    fn cursor(&self, chosen: u8) -> Option<u32> {
        self.cursors.keys().nth(chosen as usize % self.cursors.len().max(1)).copied()
    }
    fn remove(&mut self, book: &mut Book, i: usize) {
        let known = self.held.remove(i);
        let held = book.remove(known.handle).expect("it is held");
        assert_eq!((held.number, held.bundle.id), (known.number, known.bundle.id));
        // A handle of a departed bundle must miss.
        assert!(book.remove(known.handle).is_none());
        self.gone.push(known.handle);
    }
    fn keep(&mut self, book: &mut Book, id: u8, to: u8, expires: Instant, skips: u8) {
        let bundle = bundle(u128::from(id) << 70 | u128::from(id), u64::from(to));
        // The caller of `keep` guarantees that the identity is not held.
        if !bundle.is_anonymous() && self.held.iter().any(|known| known.bundle.id == bundle.id) {
            return;
        }
        // Recovered bundles bring numbers with gaps.
        let number = (skips > 0).then(|| self.last + u64::from(skips));
        self.last = number.unwrap_or(self.last + 1);
        let handle = book.keep(new(bundle.clone(), number, expires));
        let (armed, number) = (expires != Instant::MAX, self.last);
        self.held.push(ModelBundle {
            handle,
            number,
            bundle,
            expires,
            armed,
            reasons: vec![RetentionConstraint::Route],
        });
    }
    fn expire(&mut self, book: &mut Book, now: Instant, again: Option<Instant>) {
        while let Some(handle) = book.pop_expired(now) {
            let known = self.held.iter_mut().find(|known| known.handle == handle).expect("it is held");
            assert!(known.armed && known.expires <= now, "expired bundles only");
            let earliest = known.expires;
            known.armed = false;
            if let Some(at) = again.filter(|at| *at > now) {
                (known.expires, known.armed) = (at, at != Instant::MAX);
                book.rearm(handle, at);
            }
            // Within a bucket any order is fine.
            let before = self.held.iter().any(|known| known.armed && known.expires.saturating_add(BUCKET) <= earliest);
            assert!(!before, "bucket by bucket");
        }
        assert!(!self.held.iter().any(|known| known.armed && known.expires.saturating_add(BUCKET) <= now), "late");
    }
    fn advance(&mut self, book: &mut Book, cursor: u32, steps: u8) {
        for _ in 0..steps {
            let at = self.cursors[&cursor];
            let next = self.held.iter().find(|known| known.number > at);
            assert_eq!(book.advance(CursorId(cursor)), next.map(|known| known.handle));
            self.cursors.insert(cursor, next.map_or(at, |known| known.number));
        }
    }
    fn step(&mut self, book: &mut Book, op: Op) {
        match op {
            Op::Keep { id, to, expires_ms, skips } => self.keep(book, id, to, instant(expires_ms), skips),
            Op::Remove(i) => self.pick(i).into_iter().for_each(|i| self.remove(book, i)),
            Op::RemoveNewest => self.held.len().checked_sub(1).into_iter().for_each(|i| self.remove(book, i)),
            Op::Expire { now_ms, again } => {
                self.expire(book, instant(now_ms), again.map(instant));
            }
            Op::Rearm(i, ms) => {
                if let Some(i) = self.pick(i) {
                    let known = &mut self.held[i];
                    (known.expires, known.armed) = (instant(ms), ms != 0);
                    book.rearm(known.handle, known.expires);
                }
            }
            Op::Open => assert_eq!(self.cursors.insert(book.open_cursor().0, 0), None),
            Op::Close(i) => {
                if let Some(cursor) = self.cursor(i) {
                    self.cursors.remove(&cursor);
                    book.close_cursor(CursorId(cursor));
                    assert_eq!(book.advance(CursorId(cursor)), None);
                }
            }
            Op::Rewind(i) => {
                if let Some(cursor) = self.cursor(i) {
                    self.cursors.insert(cursor, 0);
                    book.rewind(CursorId(cursor));
                }
            }
            Op::Advance(i, steps) => self.cursor(i).into_iter().for_each(|c| self.advance(book, c, steps)),
            Op::Hold(i, r) => self.reasons(book, i, reason(r), true),
            Op::Release(i, r) => self.reasons(book, i, reason(r), false),
        }
    }
    fn reasons(&mut self, book: &mut Book, i: u16, reason: RetentionConstraint, hold: bool) {
        let Some(i) = self.pick(i) else { return };
        let known = &mut self.held[i];
        let had = known.reasons.contains(&reason);
        known.reasons.retain(|other| *other != reason);
        if hold {
            known.reasons.push(reason);
            book.hold(known.handle, reason);
        } else {
            assert_eq!(book.release(known.handle, reason), had && known.reasons.is_empty());
        }
    }
    /// Compares every query of the book with the model.
    fn compare(&self, book: &Book, rng: &mut Rng) {
        book.audit();
        assert_eq!(
            (book.len(), book.is_empty(), book.last_number()),
            (self.held.len(), self.held.is_empty(), self.last)
        );
        assert_eq!(book.bytes(), self.held.iter().map(|known| known.bundle.size()).sum::<u64>());
        let numbers =
            |known: &mut dyn Iterator<Item = &ModelBundle>| known.map(|known| known.number).collect::<Vec<_>>();
        assert_eq!(book.all().map(|held| held.number).collect::<Vec<_>>(), numbers(&mut self.held.iter()));
        for to in 0..7 {
            let theirs = |known: &&ModelBundle| known.bundle.destination_node() == NodeId::ipn(to);
            let there: Vec<u64> = book.to(NodeId::ipn(to)).map(|held| held.number).collect();
            assert_eq!(there, numbers(&mut self.held.iter().filter(theirs)));
        }
        for known in &self.held {
            let held = book.get(known.handle).expect("it is held");
            assert_eq!((held.number, held.expires, held.handle()), (known.number, known.expires, known.handle));
            assert_eq!(held.reasons(), RetentionConstraints::of(&known.reasons));
            // Anonymous bundles have no identity to be found by.
            let found = book.find(known.bundle.id).map(|held| held.number);
            assert_eq!(found, (!known.bundle.is_anonymous()).then_some(known.number));
        }
        assert!(self.gone.iter().all(|handle| book.get(*handle).is_none()), "a stale handle misses");
        assert!(book.find(1 << 100).is_none());
        assert_eq!(book.draw(rng).is_none(), self.held.is_empty());
        let earliest = self.held.iter().filter(|known| known.armed).map(|known| known.expires).min();
        match (book.next_expiry(), earliest) {
            (Some(next), Some(earliest)) => assert!(earliest <= next && next < earliest.saturating_add(BUCKET)),
            (next, earliest) => assert_eq!(next, earliest),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn book_matches_plain_list_model(seed: u64, ops in prop::collection::vec(op(), 1..300)) {
        let (mut book, mut model, mut rng) = (Book::new(seed), BookModel::default(), Rng::new(seed));
        for op in ops {
            model.step(&mut book, op);
            book.rest();
            model.compare(&book, &mut rng);
        }
    }
}

#[test]
fn a_large_book_agrees_with_itself() {
    // The book is large enough for several page sizes, runs of the calendar and splits of buckets.
    let (mut book, mut rng, mut held) = (Book::new(5), Rng::new(5), Vec::new());
    let cursors: Vec<CursorId> = (0..50).map(|_| book.open_cursor()).collect();
    for step in 0..30_000u128 {
        let expires = Instant::from_nanos(rng.below(1 << 40));
        let digits = rng.below(14);
        held.push(book.keep(new(bundle(step << 64 | step, rng.below(1 << digits)), None, expires)));
        if rng.chance(0.4) {
            book.remove(held.swap_remove(rng.below(held.len() as u64) as usize));
        }
        for _ in 0..2 {
            book.advance(cursors[rng.below(50) as usize]);
        }
        if step % 3_000 == 0 {
            book.audit();
        }
    }
    let mut popped = 0;
    while let Some(handle) = book.pop_expired(Instant::from_nanos(1 << 39)) {
        assert!(book.remove(handle).unwrap().expires.as_nanos() < 1 << 39);
        popped += 1;
        if popped % 3_000 == 0 {
            book.audit();
        }
    }
    assert!(popped > 6_000 && book.all().all(|held| held.expires.as_nanos() >= 1 << 39));
    let rest: Vec<Handle> = book.all().map(|held| held.handle()).collect();
    rest.into_iter().for_each(|handle| _ = book.remove(handle));
    book.audit();
    assert!(book.next_expiry().is_none() && cursors.iter().all(|cursor| book.advance(*cursor).is_none()));
}

#[test]
fn draw_reaches_bundles_after_shrinking() {
    let (mut book, mut rng) = (Book::new(1), Rng::new(1));
    let handles: Vec<Handle> = (0..20_000).map(|id| book.keep(new(bundle(id * 10, 1), None, Instant::MAX))).collect();
    for left in [20_000, 200, 20] {
        for handle in &handles[..handles.len() - left] {
            book.remove(*handle);
        }
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        (0..left * 20).for_each(|_| *counts.entry(book.draw(&mut rng).unwrap().number).or_default() += 1);
        assert!(counts.len() == left && counts.values().all(|count| *count <= 60), "{left}: {counts:?}");
    }
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "it is held already"))]
fn an_identity_kept_twice_corrupts_nothing() {
    // `keep` must not get an identity that is held already, and debug builds panic. In other builds both bundles stay
    // held, each under its own handle.
    let mut book = Book::new(1);
    let first = book.keep(new(bundle(1, 1), None, Instant::MAX));
    let second = book.keep(new(bundle(1, 2), None, Instant::MAX));
    book.audit();
    assert!(book.find(1).is_some() && book.get(first).is_some() && book.get(second).is_some());
    book.remove(second);
    book.audit();
    assert_eq!(book.find(1).map(|held| held.handle()), Some(first));
    book.remove(first);
    book.audit();
    assert!(book.find(1).is_none());
}

//! Admission (RFC 9171 5.6, 5.2): bounds first, then the congestion control, which may make room by
//! giving up what is worth less than the newcomer. Nothing is given up in vain.

use crate::agent::Agent;
use crate::app::SendRequest;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::{OfferToken, Output};
use crate::state::fair_share::{FairShare, Fill};
use crate::state::quotas::Quota;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use farlink_base::{CreationTimestamp, DtnTime, Empty, Instant, PeerId, Priority, Refusal, Sink};
use farlink_book::{Flags, Handle, Held, Why};

/// Bundles one newcomer may push out.
const VICTIMS_MAX: usize = 1024;

impl Agent {
    /// May this newcomer in? Makes room for it where the control says so.
    pub(super) fn make_room<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, new: &Held) -> Result<(), Refusal> {
        // What never fits is told so, also while there is no room for anything.
        let privileged = self.is_privileged(new);
        let reserved = if privileged { 0 } else { self.settings.limits.reserved_bytes };
        let capacity = self.settings.capacity_bytes.saturating_sub(reserved);
        let empty = Fill { bundles: 0, bytes: 0, ..self.fullness() };
        let fits = privileged || self.leaves_room(FairShare::EMPTY, new, empty);
        if new.size() > capacity.min(self.settings.limits.bundle_bytes) || !fits {
            return Err(Refusal::TooLarge);
        }
        if self.book.len() as u64 >= self.settings.limits.bundles || self.room.memory.refuses(new) {
            return Err(Refusal::NoResources);
        }
        self.room.fair_share.admit(new, &self.settings.limits)?;
        if self.room.fair_share.quotas.counts() {
            let previous_node = self.previous_name(new.from);
            self.room.fair_share.quotas.admit(new, &previous_node)?;
        }
        let own = self.policies.admit(self.seen(cx.now), new)?;
        let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity);
        if missing == 0 {
            let leaves = privileged || self.leaves_room(&self.room.fair_share, new, self.fullness());
            return if leaves { Ok(()) } else { Err(Refusal::NoResources) };
        }
        let (victims, moves, freed) = self.victims(cx.now, own, missing);
        for (bundle, to) in moves {
            self.migrate(bundle, to, cx.out);
        }
        if freed < missing {
            return Err(Refusal::NoResources);
        }
        // Reports about them do not take the room again.
        self.room.newcomer = new.size();
        for bundle in victims {
            self.depart(cx, bundle, Why::Overflow, None);
        }
        self.room.newcomer = 0;
        Ok(())
    }

    /// Room is promised to what is arriving: it counts to shares as if it were here, so that nobody keeps room from
    /// others with what it begins and does not end.
    pub(super) fn promise_room(&mut self, token: OfferToken, new: Held) {
        let limits = &self.settings.limits;
        let counts = self.room.fair_share.counts(&new, limits);
        if counts {
            let previous_node = self.previous_name(new.from);
            self.room.fair_share.come(&new, limits, &previous_node);
        }
        self.room.reservations.make(token, new.size(), counts.then(|| Box::new(new)));
    }
    /// What was arriving is here, or will not be.
    pub(crate) fn promise_ends(&mut self, token: OfferToken) {
        if let Some(counted) = self.room.reservations.end(token) {
            self.room.fair_share.go(&counted);
        }
    }

    /// Other quotas from now on.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        if quotas.is_empty() && self.room.fair_share.made().is_none() {
            return;
        }
        if self.room.fair_share.quotas.set(quotas) {
            // The first ones: what is held was not counted. What is counted for nobody leaves uncounted, too.
            let here = self.book.all().filter(|held| !self.fragments.is_arriving(held.handle()));
            for held in here.chain(self.room.reservations.counted()).filter(|held| FairShare::is_anyones(held)) {
                let previous_node = self.previous_name(held.from);
                self.room.fair_share.quotas.come(held, &previous_node);
            }
        }
    }
    /// Whether room is kept free for bundles like this one: urgent ones, those that applications here wait for, and
    /// what this node tells others and is told, for they take room away.
    fn is_privileged(&self, new: &Held) -> bool {
        let (administrative, for_us) = (new.bundle.is_administrative(), self.is_for_us(&new.bundle));
        // A stranger beyond those that are neighbours is nobody, either.
        new.bundle.priority == Priority::Expedited
            || administrative && (for_us || new.is_own())
            || for_us && self.is_awaited(new)
    }
    /// Whether its giver leaves room for others. Where the congestion control gives bundles up, nobody is locked out.
    fn leaves_room(&self, shares: &FairShare, new: &Held, fill: Fill) -> bool {
        !self.policies.ask_for_room_only() || shares.leaves_room(new, fill, self.settings.limits.reserved_bytes)
    }
    fn fullness(&self) -> Fill {
        Fill {
            bundles: self.book.len() as u64,
            bundles_max: self.settings.limits.bundles,
            bytes: self.taken(),
            capacity: self.settings.capacity_bytes,
        }
    }
    /// Bytes that a newcomer may have, where nothing else decides whether it may in; `None` where the
    /// congestion control or a disk has a say.
    pub fn room(&self) -> Option<u64> {
        if self.settings.durable || !self.policies.ask_for_room_only() {
            return None;
        }
        if self.book.len() as u64 >= self.settings.limits.bundles {
            return Some(0);
        }
        Some(self.settings.capacity_bytes.saturating_sub(self.taken()))
    }
    /// Bytes that are held, or promised to what is arriving, whose pieces are among them; those of its records where there
    /// is a disk.
    pub(crate) fn taken(&self) -> u64 {
        // What is around other bundles takes no room of its own.
        let (bundles, bytes) = self.around();
        let records =
            u64::from(self.settings.record_bytes).saturating_mul((self.book.len() as u64).saturating_sub(bundles));
        let held = self.book.bytes().saturating_sub(bytes).saturating_sub(self.fragments.arriving_bytes());
        held.saturating_add(records).saturating_add(self.room.reservations.bytes())
    }

    /// Bytes of room that a bundle made of this request needs at least: with less it is refused. `None`
    /// where it is not room that decides.
    pub fn needs(&self, now: Instant, wanted: SendRequest, edge: &mut dyn Edge) -> Option<u64> {
        self.room()?;
        let source = self.local_endpoint(&wanted.source)?;
        let time = self.wall_clock.utc_at(now).unwrap_or(DtnTime::UNKNOWN);
        let (draft, payload) = self.draft(source, wanted);
        let made = edge.make(draft, CreationTimestamp { time, sequence: 0 }, payload);
        made.ok().map(|meta| meta.size())
    }

    /// What would have to go: to be deleted, to be moved (which frees nothing yet), and the bytes
    /// the former give.
    fn victims(&mut self, now: Instant, own: f64, missing: u64) -> (Vec<Handle>, Vec<(Handle, PeerId)>, u64) {
        let (mut planned, mut victims, mut moves) = (BTreeSet::new(), Vec::new(), Vec::new());
        let (mut freed, mut moving) = (0, 0);
        let (seen, mut rng) = (self.seen(now), self.rng.clone());
        let worth = |held: &Held| {
            let candidate = held.is_removable() && held.flags.has(Flags::DURABLE);
            let candidate = candidate && !self.is_for_us(&held.bundle);
            let worth = candidate.then(|| self.policies.worth(seen, held)).flatten();
            worth.filter(|worth| *worth < own)
        };
        // What each is worth is asked once; of many some are drawn for each victim.
        let mut ranking = match self.policies.keep_newest() {
            true => self.book.ranking_of_newest(&worth),
            false => self.book.ranking(&worth),
        };
        while freed + moving < missing && planned.len() < VICTIMS_MAX {
            let least = match &mut ranking {
                Some(ranking) => ranking.next(),
                None => self.book.least(&mut rng, |held| worth(held).filter(|_| !planned.contains(&held.handle()))),
            };
            let Some(bundle) = least else { break };
            planned.insert(bundle);
            let Some(held) = self.book.get(bundle) else { break };
            match self.policies.rehome(seen, held) {
                Some(to) => {
                    moving += held.size();
                    moves.push((bundle, to));
                }
                None => {
                    freed += held.size();
                    victims.push(bundle);
                }
            }
        }
        drop(ranking);
        self.rng = rng;
        (victims, moves, freed)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::book_with;
    use alloc::vec::Vec;
    use core::cell::Cell;
    use farlink_base::Priority;
    use farlink_book::{Book, Handle, Held};

    /// The two that are worth least, by both rankings, and at how many bundles the shorter one looked.
    fn least(book: &Book) -> ([Vec<Handle>; 2], usize) {
        let looks = Cell::new(0);
        let worth = |held: &Held| {
            looks.set(looks.get() + 1);
            Some(f64::from(held.bundle.priority.number()) * 1e9 + held.number as f64)
        };
        let all = book.ranking(worth).into_iter().flatten().take(2).collect();
        looks.set(0);
        let newest = book.ranking_of_newest(worth).into_iter().flatten().take(2).collect();
        ([all, newest], looks.get())
    }

    #[test]
    fn single_class_finds_oldest_directly() {
        let (mut book, handles) = book_with(&[Priority::Normal; 9]);
        assert_eq!(least(&book), ([handles[..2].to_vec(), handles[..2].to_vec()], 2));
        let _ = book.remove(handles[0]);
        assert_eq!(least(&book).0[1], handles[1..3]);
        book.audit();
    }

    #[test]
    fn several_classes_keep_eviction_order() {
        let mut priorities = [Priority::Normal; 9];
        (priorities[4], priorities[6]) = (Priority::Bulk, Priority::Expedited);
        let (mut book, handles) = book_with(&priorities);
        let wanted = Vec::from([handles[4], handles[0]]);
        assert_eq!(least(&book), ([wanted.clone(), wanted], 9));
        // One class again.
        let _ = (book.remove(handles[4]), book.remove(handles[6]));
        assert_eq!(least(&book), ([handles[..2].to_vec(), handles[..2].to_vec()], 2));
        book.audit();
    }
}

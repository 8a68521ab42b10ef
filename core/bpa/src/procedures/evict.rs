//! Admission (RFC 9171 5.6, 5.2): bounds are checked first, then the congestion control is asked, which may evict
//! bundles of less worth than the new one. No bundle is evicted unless the new one then fits.

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

/// Most bundles evicted for one new bundle, which bounds the work of one admission.
const VICTIMS_MAX: usize = 1024;

impl Agent {
    /// Admits or refuses a new bundle; evicts others if that is needed and the congestion control agrees.
    pub(super) fn make_room<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, new: &Held) -> Result<(), Refusal> {
        // A bundle that can never fit gets `TooLarge`, even while there is no room at all.
        let privileged = self.is_privileged(new);
        let reserved = if privileged { 0 } else { self.settings.limits.reserved_bytes };
        let capacity = self.settings.capacity_bytes.saturating_sub(reserved);
        let empty = Fill { bundles: 0, bytes: 0, ..self.fullness() };
        let fits = privileged || self.leaves_room(FairShare::EMPTY, new, empty);
        if new.size() > capacity.min(self.settings.limits.bundle_bytes) || !fits {
            return Err(Refusal::TooLarge);
        }
        if self.book.len() as u64 >= self.settings.limits.bundles || self.bounds.memory.refuses(new) {
            return Err(Refusal::NoResources);
        }
        self.bounds.fair_share.admit(new, &self.settings.limits)?;
        if self.bounds.fair_share.quotas.counts() {
            let previous_node = self.previous_name(new.from);
            self.bounds.fair_share.quotas.admit(new, &previous_node)?;
        }
        let own = self.policies.admit(self.seen(cx.now), new)?;
        let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity);
        if missing == 0 {
            let leaves = privileged || self.leaves_room(&self.bounds.fair_share, new, self.fullness());
            return if leaves { Ok(()) } else { Err(Refusal::NoResources) };
        }
        let (victims, moves, freed) = self.victims(cx.now, own, missing);
        for (bundle, to) in moves {
            self.migrate(bundle, to, cx.out);
        }
        if freed < missing {
            return Err(Refusal::NoResources);
        }
        // Reports about evicted bundles must not take the freed room.
        self.bounds.newcomer = new.size();
        for bundle in victims {
            self.depart(cx, bundle, Why::Overflow, None);
        }
        self.bounds.newcomer = 0;
        Ok(())
    }

    /// Reserves room for an arriving bundle. The bundle is charged to its shares from now on: otherwise unfinished
    /// transfers would take room without being charged for it.
    pub(super) fn reserve_room(&mut self, token: OfferToken, new: Held) {
        let limits = &self.settings.limits;
        let counts = self.bounds.fair_share.counts(&new, limits);
        if counts {
            let previous_node = self.previous_name(new.from);
            self.bounds.fair_share.come(&new, limits, &previous_node);
        }
        self.bounds.reservations.make(token, new.size(), counts.then(|| Box::new(new)));
    }
    /// Ends a reservation, because the bundle is here or will not come.
    pub(crate) fn release_reservation(&mut self, token: OfferToken) {
        if let Some(counted) = self.bounds.reservations.end(token) {
            self.bounds.fair_share.go(&counted);
        }
    }

    /// Replaces all quotas; a held bundle is never deleted because of a new quota.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        if quotas.is_empty() && self.bounds.fair_share.made().is_none() {
            return;
        }
        if self.bounds.fair_share.quotas.set(quotas) {
            // Counting begins with the first quotas, so bundles held by then are added now. Bundles that are charged to
            // no share are never counted.
            let here = self.book.all().filter(|held| !self.fragments.is_arriving(held.handle()));
            for held in here.chain(self.bounds.reservations.counted()).filter(|held| FairShare::is_anyones(held)) {
                let previous_node = self.previous_name(held.from);
                self.bounds.fair_share.quotas.come(held, &previous_node);
            }
        }
    }
    /// Whether a bundle may use reserved room: it is expedited, an application here waits for it, or it is an
    /// administrative record from or for this node, which frees room in turn.
    fn is_privileged(&self, new: &Held) -> bool {
        let (administrative, for_us) = (new.bundle.is_administrative(), self.is_for_us(&new.bundle));
        // A bundle from an unauthenticated neighbour does not count as this node's own.
        new.bundle.priority == Priority::Expedited
            || administrative && (for_us || new.is_own())
            || for_us && self.is_awaited(new)
    }
    /// Whether the previous node leaves room for others. Always true if the congestion control evicts, since then no
    /// neighbour is locked out.
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
    /// Free bytes for a new bundle; `None` if more than room decides about it: the congestion control, or a disk.
    pub fn room(&self) -> Option<u64> {
        if self.settings.durable || !self.policies.ask_for_room_only() {
            return None;
        }
        if self.book.len() as u64 >= self.settings.limits.bundles {
            return Some(0);
        }
        Some(self.settings.capacity_bytes.saturating_sub(self.taken()))
    }
    /// Bytes of the store that are taken: bundles held, room reserved for arriving bundles (which includes their
    /// pieces), and records on disk, if any.
    pub(crate) fn taken(&self) -> u64 {
        // The outer bundle of a tunnel shares its payload with the inner one.
        let (bundles, bytes) = self.around();
        let records =
            u64::from(self.settings.record_bytes).saturating_mul((self.book.len() as u64).saturating_sub(bundles));
        let held = self.book.bytes().saturating_sub(bytes).saturating_sub(self.fragments.arriving_bytes());
        held.saturating_add(records).saturating_add(self.bounds.reservations.bytes())
    }

    /// Room, in bytes, that the bundle of this request needs. `None` if more than room decides about it, or if the
    /// bundle cannot be made.
    pub fn needs(&self, now: Instant, wanted: SendRequest, edge: &mut dyn Edge) -> Option<u64> {
        self.room()?;
        let source = self.local_endpoint(&wanted.source)?;
        let time = self.wall_clock.utc_at(now).unwrap_or(DtnTime::UNKNOWN);
        let (draft, payload) = self.draft(source, wanted);
        let made = edge.make(draft, CreationTimestamp { time, sequence: 0 }, payload);
        made.ok().map(|meta| meta.size())
    }

    /// Eviction plan: bundles to delete, bundles to move (which frees no room yet), and the bytes that deletion frees.
    fn victims(&mut self, now: Instant, own: f64, missing: u64) -> (Vec<Handle>, Vec<(Handle, PeerId)>, u64) {
        let (mut planned, mut victims, mut moves) = (BTreeSet::new(), Vec::new(), Vec::new());
        let (mut freed, mut moving) = (0, 0);
        // The generator is cloned because `worth` borrows this agent; it is stored back at the end.
        let (seen, mut rng) = (self.seen(now), self.rng.clone());
        let worth = |held: &Held| {
            let candidate = held.is_removable() && held.flags.has(Flags::DURABLE);
            let candidate = candidate && !self.is_for_us(&held.bundle);
            let worth = candidate.then(|| self.policies.worth(seen, held)).flatten();
            worth.filter(|worth| *worth < own)
        };
        // Worth is computed once for each bundle; in a large book a sample is drawn for each victim.
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

    /// The two bundles of least worth by both rankings, and the number of bundles that the shorter ranking examined.
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
    fn single_class_victim_is_oldest() {
        // Within one class the oldest has least worth, so the rest is not examined.
        let (mut book, handles) = book_with(&[Priority::Normal; 9]);
        assert_eq!(least(&book), ([handles[..2].to_vec(), handles[..2].to_vec()], 2));
        let _ = book.remove(handles[0]);
        assert_eq!(least(&book).0[1], handles[1..3]);
        book.audit();
    }

    #[test]
    fn victims_of_all_classes_are_ordered() {
        // With several classes every bundle is examined, and both rankings agree.
        let mut priorities = [Priority::Normal; 9];
        (priorities[4], priorities[6]) = (Priority::Bulk, Priority::Expedited);
        let (mut book, handles) = book_with(&priorities);
        let wanted = Vec::from([handles[4], handles[0]]);
        assert_eq!(least(&book), ([wanted.clone(), wanted], 9));
        // Once the other classes are gone, the rest need not be examined again.
        let _ = (book.remove(handles[4]), book.remove(handles[6]));
        assert_eq!(least(&book), ([handles[..2].to_vec(), handles[..2].to_vec()], 2));
        book.audit();
    }
}

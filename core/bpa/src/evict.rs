//! Admission (RFC 9171 5.6, 5.2): bounds first, then the congestion control, which may make room by
//! giving up what is worth less than the newcomer. Nothing is given up in vain.

use crate::agent::Agent;
use crate::app::SendRequest;
use crate::edge::Edge;
use crate::io::Output;
use crate::shares::is_privileged;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use farlink_base::{CreationTimestamp, DtnTime, Instant, PeerId, Refusal, Sink};
use farlink_book::{Flags, Handle, Held, Why};

/// Bundles one newcomer may push out.
const VICTIMS_MAX: usize = 1024;

impl Agent {
    /// May this newcomer in? Makes room for it where the control says so.
    pub(crate) fn make_room<S: Sink<Output>>(
        &mut self,
        now: Instant,
        new: &Held,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> Result<(), Refusal> {
        // What never fits is told so, also while there is no room for anything.
        let capacity = self.capacity_for(new);
        if new.size() > capacity.min(self.settings.limits.bundle_bytes) {
            return Err(Refusal::TooLarge);
        }
        if self.book.len() as u64 >= self.settings.limits.bundles || self.memory.refuses(new) {
            return Err(Refusal::NoResources);
        }
        self.shares.admit(new, &self.settings.limits)?;
        let own = self.policies.admit(self.seen(now), new)?;
        let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity);
        if missing == 0 {
            return Ok(());
        }
        let (victims, moves, freed) = self.victims(now, own, missing);
        for (bundle, to) in moves {
            self.migrate(bundle, to, out);
        }
        if freed < missing {
            return Err(Refusal::NoResources);
        }
        // Reports about them do not take the room again.
        self.newcomer = new.size();
        for bundle in victims {
            self.depart(now, bundle, Why::Overflow, None, edge, out);
        }
        self.newcomer = 0;
        Ok(())
    }

    /// What of the store bundles like this one may fill.
    fn capacity_for(&self, new: &Held) -> u64 {
        let reserved = if is_privileged(new) { 0 } else { self.settings.limits.reserved_bytes };
        self.settings.capacity_bytes.saturating_sub(reserved)
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
    /// Bytes that are held, or promised to what is arriving.
    pub(crate) fn taken(&self) -> u64 {
        self.book.bytes().saturating_add(self.promises.bytes())
    }

    /// Bytes of room that a bundle made of this request needs at least: with less it is refused. `None`
    /// where it is not room that decides.
    pub fn needs(&self, now: Instant, wanted: SendRequest, edge: &mut dyn Edge) -> Option<u64> {
        self.room()?;
        let source = self.local_endpoint(&wanted.source)?;
        let time = self.wall.utc_at(now).unwrap_or(DtnTime::UNKNOWN);
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
        let mut ranking = self.book.ranking(worth);
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
        self.rng = rng;
        (victims, moves, freed)
    }
}

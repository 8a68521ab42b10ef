//! Guests: senders whose identity cannot be known. They are peers without a configured link, and sockets of a
//! neighbour's host other than the neighbour's own. All guests together get a quarter of the sessions and of the
//! memory. One address gets a quarter of that quarter, but not less memory than `SHARE_MIN` if there is as much.

use super::engine::{Ltp, Sessions};
use super::span::LtpSpan;
use alloc::boxed::Box;
use core::net::SocketAddr;
use farlink_base::layer::Output;
use farlink_base::{Event, EventClass, LinkId, Map, Sink, map};

/// Divisor of the limits: all guests together get a quarter, one guest a quarter of that quarter.
const PART: u64 = 4;
/// Least memory of one guest, bytes, if the share of all guests allows as much: room for the first bytes kept of a
/// bundle (64 KiB) and for some parts of it.
const SHARE_MIN: u64 = 192 << 10;

/// Most bytes that one guest may hold, given the memory limit for all sessions.
pub(super) fn guest_share(memory: u64) -> u64 {
    (memory / PART / PART).max(SHARE_MIN).min(memory / PART)
}

/// Resources held by guests.
#[derive(Debug)]
pub(super) struct Guests {
    /// Guests by source address.
    by_address: Map<SocketAddr, Guest>,
    sessions: u32,
    bytes: u64,
}
/// Resources held by one guest.
#[derive(Default, Debug)]
struct Guest {
    sessions: u32,
    bytes: u64,
}

impl Sessions {
    /// Whether a guest at this address may begin a session, given the limit for all sessions.
    fn may_begin(&self, from: SocketAddr, sessions: u32) -> bool {
        let share = (u64::from(sessions) / PART).max(1);
        self.guests.as_ref().is_none_or(|guests| {
            let one = guests.by_address.get(&from).map_or(0, |guest| guest.sessions);
            u64::from(guests.sessions) < share && u64::from(one) < (share / PART).max(1)
        })
    }
    /// Whether guests hold at least half of the sessions available to them, given the limit for all sessions.
    pub(super) fn guests_press(&self, sessions: u32) -> bool {
        let share = (u64::from(sessions) / PART).max(1);
        self.guests.as_ref().is_some_and(|guests| u64::from(guests.sessions) * 2 >= share)
    }
    /// Counts a new session of a guest.
    pub(super) fn guest_came(&mut self, from: SocketAddr, seed: u64) {
        let new = || Box::new(Guests { by_address: map(seed), sessions: 0, bytes: 0 });
        let guests = self.guests.get_or_insert_with(new);
        guests.sessions += 1;
        guests.by_address.entry(from).or_default().sessions += 1;
    }
    /// Counts the end of a guest's session.
    pub(super) fn guest_left(&mut self, from: SocketAddr) {
        let Some(guests) = &mut self.guests else { return };
        guests.sessions -= 1;
        if let Some(guest) = guests.by_address.get_mut(&from) {
            guest.sessions -= 1;
            if guest.sessions == 0 {
                guests.by_address.remove(&from);
            }
        }
        if guests.sessions == 0 {
            self.guests = None;
        }
    }
    /// Replaces the weight of a guest's session, bytes.
    pub(super) fn guest_weighs(&mut self, from: SocketAddr, before: u64, after: u64) {
        guest_weighs(&mut self.guests, from, before, after);
    }
    /// Whether a guest at this address may hold `bytes` more, given the memory limit for all sessions.
    pub(super) fn guest_may_hold(&self, from: SocketAddr, bytes: u64, memory: u64) -> bool {
        self.guests.as_ref().is_none_or(|guests| {
            let one = guests.by_address.get(&from).map_or(0, |guest| guest.bytes);
            guests.bytes + bytes <= memory / PART && one + bytes <= guest_share(memory)
        })
    }
}

/// Like [`Sessions::guest_weighs`], for callers that have borrowed another table of the sessions.
pub(super) fn guest_weighs(guests: &mut Option<Box<Guests>>, from: SocketAddr, before: u64, after: u64) {
    let Some(guests) = guests else { return };
    guests.bytes = guests.bytes + after - before;
    if let Some(guest) = guests.by_address.get_mut(&from) {
        guest.bytes = guest.bytes + after - before;
    }
}

impl Ltp {
    /// Sets the address of a link's peer. Only segments from there count as the peer's own.
    pub(super) fn peer_is_at(&mut self, link: LinkId, address: SocketAddr) {
        if let Some(&index) = self.by_link.get(&link) {
            self.spans[index].home = Some(Box::new(address));
        }
    }
    /// Span over which an engine may send from this address; one that is up comes first. `None` if the engine is
    /// unknown, or known at other addresses only.
    pub(super) fn span_from(&self, engine: u64, from: SocketAddr) -> Option<usize> {
        let mut found = None;
        let mut at = self.by_engine.get(&engine).copied();
        while let Some(index) = at {
            let span = &self.spans[index];
            // A dynamic peer without sessions may have changed its address.
            let moved = span.link.is_dynamic() && span.is_unused();
            if span.is_at(from) || moved {
                if span.state.transmit && span.state.receive {
                    return Some(index);
                }
                found = found.or(Some(index));
            }
            at = span.sibling;
        }
        found
    }
    /// Decides whether a new session from this address may begin. `None` if not, otherwise whether it counts as a
    /// guest's.
    pub(super) fn admits(&self, known: Option<usize>, from: SocketAddr) -> Option<bool> {
        if self.sessions.imports.len() >= self.config.sessions as usize {
            return None;
        }
        let guest = known.is_none_or(|index| is_guest(&self.spans[index], from));
        (!guest || self.sessions.may_begin(from, self.config.sessions)).then_some(guest)
    }
    /// Reports a segment that claims a peer's engine from an address that is not the peer's; it is not answered.
    pub(super) fn not_from_there(&self, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let reason = "LTP segment of a peer from an address that is not its own";
            out.push(Output::Event(Event::Malformed { link: None, offset: 0, reason }));
        }
    }
}

/// Whether segments from this address cannot be attributed to the span's peer. Anyone may claim an engine number, and
/// other programs on the peer's host have sockets, too.
fn is_guest(span: &LtpSpan, from: SocketAddr) -> bool {
    span.link.is_dynamic() || span.home.as_ref().is_some_and(|home| **home != from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use farlink_base::Empty;

    #[test]
    fn guests_share_a_quarter_of_memory() {
        let mut sessions = Sessions::make(1);
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut came = Vec::new();
        for port in 1..100 {
            for _ in 0..100 {
                if sessions.may_begin(at(port), 160) {
                    sessions.guest_came(at(port), 1);
                    came.push(port);
                }
            }
        }
        assert_eq!(came.len(), 40);
        assert_eq!(came.iter().filter(|port| **port == 1).count(), 10);
        // One address reaches its own limit, and four of them that of all guests.
        let (memory, share) = (16 << 20, 1 << 20);
        sessions.guest_weighs(at(1), 0, share);
        assert!(sessions.guest_may_hold(at(1), 0, memory) && !sessions.guest_may_hold(at(1), 1, memory));
        assert!(sessions.guest_may_hold(at(2), share, memory));
        (2..5).for_each(|port| sessions.guest_weighs(at(port), 0, share));
        assert!(sessions.guest_may_hold(at(9), 0, memory) && !sessions.guest_may_hold(at(9), 1, memory));
        assert_eq!([1 << 20, 1 << 18].map(guest_share), [192 << 10, 1 << 16], "little memory");
        came.into_iter().for_each(|port| sessions.guest_left(at(port)));
        assert!(sessions.guests.is_none());
    }
}

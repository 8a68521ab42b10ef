//! Admission of incoming sessions. Neighbours are identified by address, not by the node IDs that they claim. The
//! number of other peers is limited, so that each neighbour can connect.

use super::layer::TcpclV4;
use super::peers::Unwelcome;
use super::wire::term;
use crate::streams::links::configured;
use alloc::collections::BTreeSet;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::Output;
use farlink_base::{Instant, LinkId, Sink, StreamId};

impl TcpclV4 {
    /// Sets the addresses of a configured link's peer.
    pub(super) fn on_located(&mut self, link: LinkId, addresses: &[SocketAddr]) {
        if let Some(link) = self.links.get_mut(&link) {
            link.locate(addresses);
        }
    }

    /// Checks whether an incoming session may serve the link whose node ID it claims without proof. It must come from
    /// an address of the neighbour, unless the neighbour roams or has no known address. No live session from another
    /// address may serve the link: a neighbour that moved waits until the old session is dead.
    pub(super) fn judge_claim(&self, stream: StreamId, link: LinkId) -> Result<(), Unwelcome> {
        let (Some(session), Some(link)) = (self.sessions.get(&stream), self.links.get(&link)) else { return Ok(()) };
        if !session.passive {
            return Ok(());
        }
        if !link.may_be_at(session.from) {
            return Err((term::CONTACT_FAILURE, "a neighbour's node ID, claimed from another address"));
        }
        let living = link.by.sessions.iter().filter_map(|other| self.sessions.get(other));
        if living.into_iter().any(|other| other.from != session.from && !other.is_ending()) {
            return Err((term::CONTACT_FAILURE, "its link is served by a session with another address"));
        }
        Ok(())
    }

    /// Number of sessions on dynamic links.
    pub(super) fn dynamic_sessions(&self) -> usize {
        let met = self.links.values().filter(|link| !link.configured);
        met.map(|link| link.by.sessions.len()).sum()
    }

    /// Makes room for one more incoming session from address `from`; returns whether there is room. At the limit on
    /// sessions, the oldest incoming one without a link is dropped, those from no neighbour's address first. If all
    /// have links, each configured neighbour may still go beyond the limit.
    pub(super) fn make_room(&mut self, now: Instant, from: IpAddr, out: &mut impl Sink<Output>) -> bool {
        if self.sessions.len() < self.config.sessions as usize {
            return true;
        }
        let known: BTreeSet<IpAddr> =
            self.links.values().flat_map(|link| link.addresses.iter().flatten()).copied().collect();
        let is_neighbour = |from: IpAddr| known.contains(&from);
        let silent = self.sessions.values().filter(|session| session.passive && session.link.is_none());
        let oldest = silent.min_by_key(|session| (session.from.is_some_and(is_neighbour), session.since));
        // A session from a neighbour's address is dropped, too: it may come from a program there that never introduces
        // itself.
        match oldest.map(|session| session.stream) {
            Some(stream) => {
                self.abort(now, stream, out);
                true
            }
            // Even at the session limit, each configured neighbour may still connect once.
            None => is_neighbour(from) && self.sessions.len() < self.config.sessions as usize + configured(&self.links),
        }
    }
}

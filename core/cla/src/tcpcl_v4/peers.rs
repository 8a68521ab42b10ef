//! Links found or made for peers that introduce themselves, and links added and removed at run time.

use super::LinkParams;
use super::contact::same_node;
use super::layer::TcpclV4;
use super::links::TcpclLink;
use super::session::SessionPhase;
use super::wire::{SessionInit, term};
use crate::streams::links::{dynamic_link, dynamic_max};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::Output;
use farlink_base::socket;
use farlink_base::{Instant, LinkId, Refusal, Sink, StreamId};

/// Code sent to a rejected peer (RFC 9174 6.1), and the reason for the log.
pub(super) type Unwelcome = (u8, &'static str);

impl TcpclV4 {
    /// Handles the introduction of a peer: checks its identity, finds or makes its link, and establishes the session
    /// (RFC 9174 4.6).
    // 9174-4.4.4.3-2, 9174-4.6-6
    pub(super) fn introduce(
        &mut self,
        now: Instant,
        stream: StreamId,
        peer: &SessionInit,
        out: &mut impl Sink<Output>,
    ) -> Result<(), Unwelcome> {
        let Some(session) = self.sessions.get_mut(&stream) else { return Ok(()) };
        if !session.authenticate(&peer.node_id) {
            return Err((term::CONTACT_FAILURE, "the peer's certificate proves another node ID than it claims"));
        }
        let name = session.proven.clone().unwrap_or_else(|| peer.node_id.clone());
        let (proven, from) = (session.proven.is_some(), session.from);
        if self.shutdown {
            return Err((term::UNKNOWN, "the node is shutting down"));
        }
        // 9174-4.7-1
        if peer.segment_mru == 0 {
            return Err((term::CONTACT_FAILURE, "the peer's segment limit is zero"));
        }
        let known = session.link.or_else(|| self.link_of(&name, from));
        let link_id = match known {
            Some(link) => {
                self.judge_link(stream, link, &name, proven)?;
                link
            }
            // Made after all checks, because a dynamic link is removed only with its last session.
            None => self.meet(&name)?,
        };
        let primary = self.links.get(&link_id).and_then(|link| link.primary());
        let was_proven = self.is_proven(primary);
        let (Some(session), Some(link)) = (self.sessions.get_mut(&stream), self.links.get_mut(&link_id)) else {
            return Err((term::UNKNOWN, "its link is gone"));
        };
        session.establish(now, link_id, peer, &link.config, &self.config);
        if session.is_unacknowledged() {
            out.push(Output::Socket(socket::Output::Confirm { stream }));
        }
        if link.by.opening == Some(stream) {
            link.by.opening = None;
        }
        // The first session with a proven node ID ends the sessions of the link that only claimed it.
        let claimers = if proven && !was_proven { link.by.sessions.clone() } else { Vec::new() };
        link.by.sessions.push(stream);
        if primary.is_none() || (proven && !was_proven) {
            let claimed = (!peer.node_id.is_empty()).then(|| peer.node_id.to_string());
            let proven = session.proven.clone();
            out.push(Output::PeerUp { link: link_id, claimed, proven, node: None });
        }
        if let Some(older) = primary {
            self.hand_over(older, stream, link_id, out);
        }
        self.end(now, &claimers, out);
        Ok(())
    }

    /// Whether a session has a proven identity.
    fn is_proven(&self, session: Option<StreamId>) -> bool {
        session.and_then(|stream| self.sessions.get(&stream)).is_some_and(|session| session.proven.is_some())
    }

    /// Checks whether a session may serve an existing link as node `name`.
    fn judge_link(&self, stream: StreamId, link_id: LinkId, name: &str, proven: bool) -> Result<(), Unwelcome> {
        // A peer with a proven identity may come from any address.
        if !proven {
            self.judge_claim(stream, link_id)?;
        }
        let (Some(session), Some(link)) = (self.sessions.get(&stream), self.links.get(&link_id)) else {
            return Err((term::UNKNOWN, "its link is gone"));
        };
        let expected = &link.config.node_id;
        if !session.passive && !expected.is_empty() && !name.is_empty() && !same_node(expected, name) {
            return Err((term::CONTACT_FAILURE, "the peer is not the node this link leads to"));
        }
        if link.closed {
            return Err((term::UNKNOWN, "its link is disabled"));
        }
        // A claim without proof must not displace a proven identity.
        if !proven && self.is_proven(link.primary()) {
            return Err((term::CONTACT_FAILURE, "a session with a proven identity serves its link"));
        }
        Ok(())
    }

    /// Link of a peer that connected: a configured or dynamic link of its node ID.
    // 9174-4.6-3
    fn link_of(&self, node_id: &str, from: Option<IpAddr>) -> Option<LinkId> {
        let known = |link: &TcpclLink| {
            let there = !link.config.hearsay || from.is_some_and(|from| link.is_at(from));
            there && !node_id.is_empty() && same_node(&link.config.node_id, node_id)
        };
        // Of several links to one node, prefer one that allows the address, then one that is enabled.
        let fit = |link: &TcpclLink| (!link.may_be_at(from), link.closed);
        let known = self.links.iter().filter(|(_, link)| known(link)).min_by_key(|(id, link)| (fit(link), **id));
        known.map(|(id, _)| *id)
    }
    /// Makes a dynamic link for a peer without a link.
    fn meet(&mut self, node_id: &str) -> Result<LinkId, Unwelcome> {
        if !self.config.accept_unknown {
            return Err((term::CONTACT_FAILURE, "an unknown node"));
        }
        if self.dynamic_sessions() >= dynamic_max(&self.links, self.config.sessions) {
            return Err((term::BUSY, "no room for more unknown nodes"));
        }
        let link = dynamic_link(&self.links, self.config.layer, &mut self.next_dynamic);
        let config = LinkParams { link, node_id: String::from(node_id), connect: false, ..LinkParams::default() };
        self.links.insert(link, Box::new(TcpclLink::met(config)));
        Ok(link)
    }

    /// Whether a session with a peer of this node ID at this address is established.
    pub fn serves(&self, node_id: &str, at: IpAddr) -> bool {
        let named = self.links.values().filter(|link| same_node(&link.config.node_id, node_id));
        let mut sessions = named.flat_map(|link| &link.by.sessions).filter_map(|stream| self.sessions.get(stream));
        sessions.any(|session| session.from == Some(at))
    }

    /// Moves the bundles that have not begun to leave from one session of a link to another.
    fn hand_over(&mut self, from: StreamId, to: StreamId, link: LinkId, out: &mut impl Sink<Output>) {
        let waiting = self.sessions.get_mut(&from).map(|session| session.outgoing.take_waiting()).unwrap_or_default();
        let Some(session) = self.sessions.get_mut(&to) else { return };
        for bundle in waiting {
            let id = bundle.send;
            if !session.outgoing.push(bundle) {
                out.push(Output::SendFailed { id, link, refused: Some(Refusal::TooLarge) });
            }
        }
    }

    /// Terminates established sessions in order, so that transfers in progress are finished.
    fn end(&mut self, now: Instant, streams: &[StreamId], out: &mut impl Sink<Output>) {
        for stream in streams {
            if let Some(session) = self.sessions.get_mut(stream) {
                session.terminate(now, term::UNKNOWN);
                self.flush(now, *stream, out);
            }
        }
    }

    /// Adds a neighbour; its link starts down. Sessions with that node ID on dynamic links are terminated, so that the
    /// peer connects again, unless the node ID is known from announcements only. Returns false if the link number is
    /// taken, or is that of a dynamic link.
    #[must_use]
    pub fn add_span(&mut self, now: Instant, span: LinkParams, out: &mut impl Sink<Output>) -> bool {
        if self.links.contains_key(&span.link) || span.link.is_dynamic() {
            return false;
        }
        let met =
            |link: &TcpclLink| !link.configured && !span.hearsay && same_node(&link.config.node_id, &span.node_id);
        let streams: Vec<StreamId> =
            self.links.values().filter(|link| met(link)).flat_map(|link| link.by.sessions.clone()).collect();
        self.links.insert(span.link, Box::new(TcpclLink::configured(span)));
        self.end(now, &streams, out);
        true
    }

    /// Removes a link: its sessions are terminated, and unsent bundles return to the agent.
    pub(super) fn remove_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.configured = true;
        self.close_link(now, link_id, out);
        self.links.remove(&link_id);
    }

    /// Disables a configured link: its sessions are terminated, and unsent bundles return to the agent. A dynamic link
    /// keeps its session, because without a session it would be removed, and made again as enabled.
    pub(super) fn close_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id).filter(|link| link.configured) else { return };
        link.turn_off(&mut self.timers);
        for stream in link.by.opening.into_iter().chain(link.by.sessions.clone()) {
            match self.sessions.get(&stream).map(|session| session.phase) {
                Some(SessionPhase::Established) => self.leave(now, stream, term::UNKNOWN, out),
                Some(_) => self.abort(now, stream, out),
                None => {}
            }
        }
    }
}

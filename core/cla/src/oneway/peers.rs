//! Links found or made for peers that connect, and links added and removed at run time.

use super::LinkParams;
use super::layer::OneWay;
use super::links::OneWayLink;
use super::receiving::ReceivingStream;
use super::sending::StreamPhase;
use crate::streams::links;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::Output;
use farlink_base::{Instant, LinkId, Sink, StreamId};

impl OneWay {
    /// Configured link of the neighbour at an address. If several match, enabled links come first, then those with the
    /// fewest streams: nothing else distinguishes neighbours at one address.
    pub(super) fn link_at(&self, from: IpAddr) -> Option<LinkId> {
        let there = self.links.iter().filter(|(_, link)| link.configured && link.is_at(from));
        there.min_by_key(|(id, link)| (link.closed, link.by.receiving.len(), **id)).map(|(id, _)| *id)
    }
    /// Makes a link for a peer whose address is no neighbour's.
    pub(super) fn dynamic_link(&mut self) -> LinkId {
        let link = links::dynamic_link(&self.links, self.config.layer, &mut self.next_dynamic);
        let config = LinkParams { link, connect: false, ..LinkParams::default() };
        self.links.insert(link, Box::new(OneWayLink::met(config)));
        link
    }
    /// Reports to the agent that a neighbour came up or went down: it is up while this side has an open stream to it. A
    /// dynamic link is never reported, because no stream leads to its peer, and bundles for it would wait forever; the
    /// link is removed with its last stream.
    pub(super) fn note_peer(&mut self, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if !link.configured {
            if link.by.receiving.is_empty() {
                self.links.remove(&link_id);
            }
            return;
        }
        let open =
            |stream: StreamId| self.sending.get(&stream).is_some_and(|found| found.phase != StreamPhase::Opening);
        let up = link.by.sending.is_some_and(open);
        if up == link.by.up {
            return;
        }
        link.by.up = up;
        out.push(match up {
            // These protocols convey no node ID.
            true => Output::PeerUp { link: link_id, claimed: None, proven: None, node: None },
            false => Output::PeerDown { link: link_id },
        });
    }

    /// Sets the addresses of a configured link's peer. Streams accepted from there before move to the link at their
    /// next bundle.
    pub(super) fn on_located(
        &mut self,
        now: Instant,
        link_id: LinkId,
        addresses: &[SocketAddr],
        out: &mut impl Sink<Output>,
    ) {
        let Some(link) = self.links.get_mut(&link_id).filter(|link| link.configured) else { return };
        link.locate(addresses);
        if link.closed {
            return;
        }
        let met = |found: &ReceivingStream| found.link.is_dynamic() && link.is_at(found.from);
        let streams: Vec<StreamId> =
            self.receiving.values().filter(|found| met(found)).map(|found| found.stream).collect();
        for stream in streams {
            if let Some(receiving) = self.receiving.get_mut(&stream) {
                receiving.moves_to = Some(link_id);
            }
            self.settle_receiving(now, stream, out);
        }
    }
    /// Moves a peer's stream to another link, unless that is disabled.
    pub(super) fn move_to(&mut self, stream: StreamId, to: LinkId, out: &mut impl Sink<Output>) {
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        receiving.moves_to = None;
        let Some(link) = self.links.get_mut(&to).filter(|link| !link.closed) else { return };
        link.by.receiving.push(stream);
        let from = core::mem::replace(&mut receiving.link, to);
        if let Some(link) = self.links.get_mut(&from) {
            link.by.receiving.retain(|other| *other != stream);
        }
        self.note_peer(from, out);
        self.note_peer(to, out);
    }

    /// Adds a neighbour. Its link starts down, and serves streams from the neighbour's address once that is known.
    /// Returns false if the link number is taken, or is that of a dynamic link.
    #[must_use]
    pub fn add_span(&mut self, _now: Instant, span: LinkParams, _out: &mut impl Sink<Output>) -> bool {
        if self.links.contains_key(&span.link) || span.link.is_dynamic() {
            return false;
        }
        self.links.insert(span.link, Box::new(OneWayLink::configured(span)));
        true
    }
    /// Removes a link: its streams end, and unsent bundles return to the agent.
    pub(super) fn remove_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.configured = true;
        self.close_link(now, link_id, out);
        self.links.remove(&link_id);
    }
    /// Disables a configured link: its streams end, and unsent bundles return to the agent. A dynamic link keeps its
    /// stream, because without a stream it would be removed, and made again as enabled.
    pub(super) fn close_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id).filter(|link| link.configured) else { return };
        link.turn_off(&mut self.timers);
        let (sending, receiving) = (link.by.sending, link.by.receiving.clone());
        if let Some(stream) = sending {
            // A stream that is open is closed in order, so that written bytes still reach the peer.
            let abort = self.sending.get(&stream).is_some_and(|sending| sending.phase == StreamPhase::Opening);
            self.leave(now, stream, abort, out);
        }
        for stream in receiving {
            self.turn_away(now, stream, out);
            self.forget(stream, out);
        }
    }
}

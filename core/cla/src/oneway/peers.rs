//! Who is at the other end: links found or made for peers that connect, and links that come and go while the node runs.

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
    /// The configured link of the neighbour at an address: of several, one that is not turned off, and with the fewest
    /// streams. Who of several at one address it is nobody can tell.
    pub(super) fn link_at(&self, from: IpAddr) -> Option<LinkId> {
        let there = self.links.iter().filter(|(_, link)| link.configured && link.is_at(from));
        there.min_by_key(|(id, link)| (link.closed, link.by.receiving.len(), **id)).map(|(id, _)| *id)
    }
    /// A link for a peer at no neighbour's address.
    pub(super) fn dynamic_link(&mut self) -> LinkId {
        let link = links::dynamic_link(&self.links, self.config.layer, &mut self.next_dynamic);
        let config = LinkParams { link, connect: false, ..LinkParams::default() };
        self.links.insert(link, Box::new(OneWayLink::met(config)));
        link
    }
    /// Says that a neighbour is there or gone: it is there while a stream leads to it, for it is what bundles leave by.
    /// Of a stranger nothing is said, for none leads to it: bundles for the node that it names would wait for ever. Its
    /// link goes with its stream.
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
            // There is no word for a name.
            true => Output::PeerUp { link: link_id, claimed: None, proven: None, node: None },
            false => Output::PeerDown { link: link_id },
        });
    }

    /// Where the peer of a configured link is. Who came from there before this was known is that neighbour from its
    /// next bundle on.
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
    /// A peer's stream is another link's from now on.
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

    /// Adds a neighbour. Its link is down until told otherwise, and serves streams from its address once that is
    /// known. False when the link number is taken, or dynamic.
    #[must_use]
    pub fn add_span(&mut self, _now: Instant, span: LinkParams, _out: &mut impl Sink<Output>) -> bool {
        if self.links.contains_key(&span.link) || span.link.is_dynamic() {
            return false;
        }
        self.links.insert(span.link, Box::new(OneWayLink::configured(span)));
        true
    }
    /// The link exists no more: its streams end, what they carried is given back.
    pub(super) fn remove_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.configured = true;
        self.close_link(now, link_id, out);
        self.links.remove(&link_id);
    }
    /// The link is turned off: its streams end, what they carried is given back. That of a dynamic link stays: with it
    /// the link would go, and come back turned on.
    pub(super) fn close_link(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id).filter(|link| link.configured) else { return };
        link.turn_off(&mut self.timers);
        let (sending, receiving) = (link.by.sending, link.by.receiving.clone());
        if let Some(stream) = sending {
            // What is written leaves; half a bundle is none.
            let abort = self.sending.get(&stream).is_some_and(|sending| sending.phase == StreamPhase::Opening);
            self.leave(now, stream, abort, out);
        }
        for stream in receiving {
            self.turn_away(now, stream, out);
            self.forget(stream, out);
        }
    }
}

//! Attribution of datagrams to links by address, and links added and removed at run time.

use super::LinkParams;
use super::entity::Udpcl;
use super::span::UdpclSpan;
use crate::tcpcl_v4::contact::same_node;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::{Destination, LinkState, Output};
use farlink_base::{Instant, LinkId, Sink};

/// Attribution of a datagram to a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// Link that the datagram came over; `None` for an unknown address.
    pub link: Option<LinkId>,
    /// Whether a configured link leads to the source address, or to its host.
    pub known: bool,
    /// Whether the source address is not exactly that of a neighbour, so that others may have sent the datagram.
    pub unauthenticated: bool,
}

/// Addresses of the peers of links.
#[derive(Debug)]
pub(super) struct Homes {
    homes: BTreeSet<(IpAddr, u16, LinkId)>,
}
impl Homes {
    pub(super) const fn new() -> Homes {
        Homes { homes: BTreeSet::new() }
    }
    pub(super) fn insert(&mut self, home: SocketAddr, link: LinkId) {
        self.homes.insert((home.ip(), home.port(), link));
    }
    pub(super) fn remove(&mut self, home: SocketAddr, link: LinkId) {
        self.homes.remove(&(home.ip(), home.port(), link));
    }
    /// Links whose peer has this address.
    fn at(&self, address: SocketAddr) -> impl Iterator<Item = LinkId> {
        let place = |link| (address.ip(), address.port(), link);
        self.homes.range(place(LinkId(0))..=place(LinkId(u32::MAX))).map(|(_, _, link)| *link)
    }
    /// The link that leads to this host; `None` if there is no link, or more than one.
    fn on(&self, host: IpAddr) -> Option<LinkId> {
        let mut links = self.homes.range((host, 0, LinkId(0))..=(host, u16::MAX, LinkId(u32::MAX)));
        let first = links.next()?.2;
        links.next().is_none().then_some(first)
    }
}

impl Udpcl {
    /// Attributes a datagram by its source address. Some peers send from another port than they listen on; they are
    /// recognised by their host, if a single link leads there.
    pub(super) fn who(&self, from: SocketAddr) -> Who {
        // Several links may share an address; prefer one that can receive now.
        let is_up = |link: &LinkId| self.by_link.get(link).is_some_and(|index| self.spans[*index].state.receive);
        let home = self.homes.at(from).find(is_up).or_else(|| self.homes.at(from).next());
        if home.is_some() {
            return Who { link: home, known: true, unauthenticated: false };
        }
        let link = self.homes.on(from.ip());
        Who { link: link.or_else(|| self.dynamic.link_at(from)), known: link.is_some(), unauthenticated: true }
    }
    /// Index of the configured link that a datagram came over; `None` for a dynamic link or an unknown address.
    pub(super) fn configured(&self, who: Who) -> Option<usize> {
        who.link.filter(|link| !link.is_dynamic()).and_then(|link| self.by_link.get(&link).copied())
    }

    /// Adds a neighbour; its link starts down. Returns false if the link number is taken, or is that of a dynamic link.
    #[must_use]
    pub fn add_span(&mut self, now: Instant, span: LinkParams, out: &mut impl Sink<Output>) -> bool {
        if self.by_link.contains_key(&span.link) || span.link.is_dynamic() {
            return false;
        }
        self.place_configured(span);
        self.settle(now, out);
        true
    }
    pub(super) fn place_configured(&mut self, span: LinkParams) -> usize {
        let to = Destination::Link(span.link);
        self.place(UdpclSpan::new(span, to))
    }
    pub(super) fn place(&mut self, mut span: UdpclSpan) -> usize {
        let index = self.vacant.pop().unwrap_or(self.spans.len());
        self.by_link.insert(span.config.link, index);
        match self.spans.get_mut(index) {
            Some(place) => {
                span.touched = place.touched;
                *place = span;
            }
            None => self.spans.push(span),
        }
        index
    }
    /// Sets the address of a link's peer, or removes it; datagrams from there are attributed to the link.
    pub(super) fn peer_is_at(&mut self, link: LinkId, address: Option<SocketAddr>, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        if let Some(before) = core::mem::replace(&mut self.spans[index].home, address) {
            self.homes.remove(before, link);
        }
        let Some(home) = address else { return };
        self.homes.insert(home, link);
        // A dynamic peer at this address becomes the configured neighbour, so its dynamic link is removed.
        if let Some(met) = self.dynamic.link_at(home) {
            self.remove_link(met, out);
        }
    }
    /// Handles a change of the link's state.
    pub(super) fn link(&mut self, now: Instant, link: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        self.spans[index].set_state(now, state);
        if self.closing {
            self.spans[index].alive_at = None;
        }
        if !state.transmit {
            // The bundles return to the agent at once: a transfer that resumes much later would have timed out at the
            // receiver, and the agent may have other routes.
            self.give_back(index, out);
        }
        self.touch(index);
    }
    /// Checks a node ID that a neighbour announced: it must come from the exact address, and be the configured one, or
    /// the first one announced if none is configured.
    pub(super) fn claims(&mut self, index: usize, name: &str, who: Who, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        let expected = span.claimed.as_deref().unwrap_or(&span.config.node_id);
        if who.unauthenticated || !(expected.is_empty() || same_node(expected, name)) {
            return self.malformed(who, "a node ID other than the configured one", out);
        }
        if span.claimed.is_none() && !name.is_empty() {
            span.claimed = Some(Box::from(name));
            let (link, claimed) = (span.config.link, Some(name.into()));
            out.push(Output::PeerUp { link, claimed, proven: None, node: None });
        }
    }
    /// Removes a link: unsent bundles return to the agent, and transfers from its address are dropped.
    pub(super) fn remove_link(&mut self, link: LinkId, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        let span = &mut self.spans[index];
        if core::mem::take(&mut span.ready) {
            out.push(Output::Ready { link, ready: false });
        }
        let (home, to, introduced, armed) = (span.home, span.to, span.claimed.is_some(), span.armed);
        self.give_back(index, out);
        if introduced {
            out.push(Output::PeerDown { link });
        }
        if let Some(key) = armed {
            self.agenda.cancel(key);
        }
        self.by_link.remove(&link);
        // Transfers from a neighbour's address are dropped only if no other link leads there.
        let left = match (home, to) {
            (Some(home), _) => {
                self.homes.remove(home, link);
                self.homes.at(home).next().is_none().then_some(home)
            }
            (None, Destination::Address(met)) => {
                self.dynamic.forget(met);
                Some(met)
            }
            (None, Destination::Link(_)) => None,
        };
        left.into_iter().for_each(|address| self.transfers.forget(address));
        // The entry keeps its `touched` flag, because its index may still be in the list of marked spans.
        let mut nobody = UdpclSpan::new(LinkParams::default(), Destination::Link(LinkId(0)));
        nobody.touched = self.spans[index].touched;
        self.spans[index] = nobody;
        self.vacant.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    #[test]
    fn links_match_address_then_unique_host() {
        let mut homes = Homes::new();
        homes.insert(at(1, 4556), LinkId(3));
        homes.insert(at(1, 4556), LinkId(2));
        homes.insert(at(2, 4556), LinkId(4));
        assert_eq!(homes.at(at(1, 4556)).collect::<alloc::vec::Vec<_>>(), [LinkId(2), LinkId(3)]);
        assert_eq!(
            (homes.on(at(1, 0).ip()), homes.on(at(2, 0).ip()), homes.on(at(3, 0).ip())),
            (None, Some(LinkId(4)), None)
        );
        homes.remove(at(1, 4556), LinkId(2));
        assert_eq!(homes.on(at(1, 9).ip()), Some(LinkId(3)));
        assert_eq!(homes.at(at(1, 4557)).next(), None);
    }
}

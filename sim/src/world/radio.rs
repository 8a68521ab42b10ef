//! Links of radio contacts: nodes get a link when a contact starts and lose it when it ends. Bundles in transfer then
//! fail, and their senders are notified.
//!
//! Bundles are sent in turns (`radio/turns.rs`). If the convergence layer supports early refusal, the receiver accepts
//! or refuses a bundle before its first byte.

use super::World;
use crate::contacts::ContactEdge;
use crate::observe::Observer;
use crate::radio::radios::{Link, RadioOutcome, Radios};
use farlink_base::{EndpointId, LinkTerms, Rng};
use farlink_stack::LinkConfig;

impl<O: Observer> World<O> {
    /// Handles the start or the end of a contact by radio.
    pub(super) fn edge(&mut self, edge: ContactEdge) {
        self.happenings += 1;
        let pair = u64::from(edge.a) << 32 | u64::from(edge.b);
        self.trace.add(&[self.now.0, 4, pair, u64::from(edge.radio) << 1 | u64::from(edge.up)]);
        if !self.heeds(&edge) {
            return;
        }
        if edge.up { self.meet(edge) } else { self.part(edge) }
    }

    pub(super) fn meet(&mut self, edge: ContactEdge) {
        self.observer.contact(&edge);
        let radios = &mut self.radios;
        let kind = &radios.kinds[usize::from(edge.radio)];
        let seats = [edge.a, edge.b].map(|node| kind.seat(node));
        let nodes = [edge.a, edge.b];
        let delay = match radios.ephemeris.as_ref().filter(|_| kind.sees) {
            Some(ephemeris) => ephemeris.light(nodes, edge.at),
            None => kind.delay,
        };
        let link = Link { radio: edge.radio, nodes, delay, there: None, losses: Rng::new(0), transfers: Vec::new() };
        // Indices are reused: links that come and go for a whole run must not fill memory.
        let place = radios.vacant.pop().unwrap_or(radios.links.len() as u32);
        match radios.links.get_mut(place as usize) {
            // The removed link's empty list of transfers is kept for its allocation.
            Some(before) => *before = Link { transfers: std::mem::take(&mut before.transfers), ..link },
            None => radios.links.push(link),
        }
        if radios.table.meet(place, edge.radio, seats) {
            self.join(place);
        }
    }

    fn join(&mut self, place: u32) {
        // Both nodes have a beam for each other and get a link.
        let nodes = self.radios.links[place as usize].nodes.map(|node| node as usize);
        let cable = self.radios.cables + place as usize;
        let ids = [0, 1].map(|end| self.nodes[nodes[end]].number(cable, end));
        let Radios { kinds, names, links, .. } = &mut self.radios;
        let link = &mut links[place as usize];
        let kind = &mut kinds[usize::from(link.radio)];
        kind.outcome.contacts += 1;
        link.there = Some((ids, self.now));
        if kind.loss > 0.0 {
            // Each contact has its own random losses, independent of other contacts.
            link.losses = Rng::stream(kind.seed, kind.outcome.contacts);
        }
        let [one, other] = nodes.map(|node| &names[node]);
        let delay = link.delay;
        let name = format!("{}:{}-{}", kind.outcome.name, one.0, other.0);
        let config = |peer: &EndpointId| LinkConfig {
            name: name.clone(),
            peer: peer.clone(),
            layer: 0,
            rate: kind.rate,
            one_way_delay: delay,
            terms: LinkTerms::default(),
            params: kind.params.clone(),
        };
        let (configs, free_hellos) = ([config(&other.1), config(&one.1)], kind.metadata_free);
        for (end, config) in configs.into_iter().enumerate() {
            self.observer.link_named(nodes[end], ids[end], &config.name);
            self.at_node(nodes[end], |node, now, said| {
                let added = node.meet(now, ids[end], (&config, free_hellos), said);
                debug_assert!(added.is_ok(), "its number and its name are new: {added:?}");
            });
        }
    }

    pub(super) fn part(&mut self, edge: ContactEdge) {
        let nodes = [edge.a, edge.b];
        let seat = self.radios.kinds[usize::from(edge.radio)].seat(edge.a);
        let of_pair = |place: &&u32| self.radios.links[**place as usize].nodes == nodes;
        let Some(place) = self.radios.table.links_of(seat).iter().find(of_pair).copied() else { return };
        self.observer.contact(&edge);
        // Senders must learn of failed transfers before their link disappears.
        while let Some(number) = self.radios.links[place as usize].transfers.last().copied() {
            self.break_off(number);
        }
        self.drain();
        if let Some((ids, since)) = self.radios.links[place as usize].there.take() {
            for (node, id) in nodes.into_iter().zip(ids) {
                self.at_node(node as usize, |node, now, said| {
                    node.remove_link(now, id, said);
                    node.forget(id);
                });
            }
            self.radios.kind_of(place).outcome.up += self.now.since(since);
        }
        let mut joined = std::mem::take(&mut self.radios.joined);
        self.radios.table.part(place, &mut joined);
        self.radios.vacant.push(place);
        joined.drain(..).for_each(|place| self.join(place));
        self.radios.joined = joined;
    }

    /// Results of all radios; open links count up to now.
    pub(super) fn radio_outcomes(&self) -> Vec<RadioOutcome> {
        let mut outcomes: Vec<RadioOutcome> = self.radios.kinds.iter().map(|kind| kind.outcome.clone()).collect();
        for link in &self.radios.links {
            if let Some((_, since)) = link.there {
                outcomes[usize::from(link.radio)].up += self.now.since(since);
            }
        }
        outcomes
    }
}

//! Links of radios: two nodes get one as they begin to hear each other, and lose it as they cease to.
//! What is on its way over it then arrives nowhere, and its sender knows.
//!
//! Bundles cross in turns (`radio/turns.rs`). Before the first byte the receiver says whether it would take
//! one, over layers that have a word for it.

use super::World;
use crate::build::{message_span, node_id, weight};
use crate::contacts::merge::Merge;
use crate::contacts::sky::Heavens;
use crate::contacts::{ContactEdge, Contacts, of_scenario};
use crate::messages::Framing;
use crate::observe::Observer;
use crate::radio::transfers::{Stage, Transfer, Transfers};
use crate::radio::turns::{End, Sharing, Table};
use farlink_base::layer::SendId;
use farlink_base::{BundleMeta, ConfigError, DataRate, Duration, EndpointId, HopState, Instant, LinkId, Refusal, Rng};
use farlink_link::{Loss, Statistics};
use farlink_scenario::motion::{DelayMode, Reach};
use farlink_scenario::{LayerInfo, Scenario};
use farlink_stack::{LinkConfig, LinkParams};
use std::sync::Arc;

/// Apart from every other purpose that a run draws for.
const LOSSES: u64 = 19;
const TURNS: u64 = 20;

/// What became of a radio.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RadioOutcome {
    /// Its name.
    pub name: String,
    /// Links that nodes had by it.
    pub contacts: u64,
    /// How long they lasted until they or the run ended, all together.
    pub up: Duration,
    /// Of all its links, both ways.
    pub counted: Statistics,
    /// Bundles that their receivers refused before the first byte.
    pub refused: u64,
}

/// One radio of the scenario.
pub(super) struct Kind {
    pub layer: &'static LayerInfo,
    /// Whether a receiver can refuse what has not come yet.
    pub asks: bool,
    pub framing: Framing,
    pub loss: f64,
    pub rate: Option<DataRate>,
    pub delay: Duration,
    /// Whether light takes as long as the way of each contact is, and not `delay`.
    pub sees: bool,
    pub quantum: Duration,
    pub waits_for_arrival: bool,
    pub metadata_free: bool,
    pub params: LinkParams,
    pub seed: u64,
    /// Nodes with it, in order, and the seat of the first.
    pub nodes: Vec<usize>,
    pub first_seat: u32,
    pub outcome: RadioOutcome,
}

impl Kind {
    fn seat(&self, node: u32) -> u32 {
        let node = node as usize;
        // Most radios are those of a group, whose nodes are in a row.
        let in_row = node.wrapping_sub(self.nodes.first().copied().unwrap_or(0));
        let place = match self.nodes.get(in_row) {
            Some(there) if *there == node => in_row,
            _ => self.nodes.binary_search(&node).unwrap_or(0),
        };
        self.first_seat + place as u32
    }
}

/// Two nodes that hear each other.
pub(super) struct Link {
    pub radio: u16,
    pub nodes: [u32; 2],
    /// One-way delay.
    pub delay: Duration,
    /// Its numbers at its two nodes, and since when: none while they have no beam for each other.
    pub there: Option<([LinkId; 2], Instant)>,
    pub losses: Rng,
    /// What is on its way over it.
    pub transfers: Vec<u64>,
}

/// All radios of a world.
pub(super) struct Radios {
    pub contacts: Merge,
    /// Where satellites and stations are.
    heavens: Option<Arc<Heavens>>,
    pub kinds: Vec<Kind>,
    pub table: Table,
    pub links: Vec<Link>,
    /// Places of links that are no more.
    pub vacant: Vec<u32>,
    pub transfers: Transfers,
    /// Links of cables, whose places come first.
    pub cables: usize,
    /// Whose turn it is, and what it wants to send.
    pub asked: Option<End>,
    /// See `asked`.
    pub offered: Option<Offered>,
    /// What nodes are called: the name in the scenario, and the node ID.
    pub names: Vec<(String, EndpointId)>,
    /// Kept for its memory.
    pub joined: Vec<u32>,
}

/// A bundle that a node would send.
pub(super) struct Offered {
    pub end: End,
    pub id: SendId,
    pub bundle: Arc<BundleMeta>,
    pub hop: Box<HopState>,
    pub size: u64,
}

impl Radios {
    /// Those of a scenario.
    ///
    /// # Errors
    /// A node ID that is none.
    pub fn new(scenario: &Scenario, heavens: Option<Arc<Heavens>>) -> Result<Radios, ConfigError> {
        let (mut kinds, mut seats) = (Vec::new(), 0);
        for (index, radio) in scenario.radios.iter().enumerate() {
            let framing = weight(&radio.layer, false);
            let mut nodes = radio.nodes.clone();
            nodes.sort_unstable();
            let loss = if let Loss::Bernoulli(loss) = radio.loss { loss } else { 0.0 };
            kinds.push(Kind {
                layer: radio.layer.kind,
                asks: radio.layer.kind.told(Refusal::NoResources).is_err(),
                framing,
                loss: if framing.losses { loss } else { 0.0 },
                rate: radio.rate,
                delay: radio.one_way_delay(),
                sees: matches!(radio.reach, Reach::Sight(_)) && radio.delay.is_none(),
                quantum: radio.sharing.quantum,
                waits_for_arrival: radio.sharing.delay_mode == DelayMode::StopAndWait,
                metadata_free: radio.sharing.metadata_free,
                params: message_span(&framing, 0),
                seed: Rng::stream(scenario.seed, LOSSES << 32 | index as u64).next_u64(),
                first_seat: seats as u32,
                outcome: RadioOutcome { name: radio.name.clone(), ..RadioOutcome::default() },
                nodes,
            });
            seats += radio.nodes.len();
        }
        let shared = scenario.radios.iter().enumerate().map(|(index, radio)| {
            let own = &radio.sharing;
            let sharing = Sharing { turns: own.turns, order: own.order, beams: own.beams.unwrap_or(u32::MAX) };
            (sharing, Rng::stream(scenario.seed, TURNS << 32 | index as u64))
        });
        let table = Table::new(shared.collect(), seats);
        let names: Vec<(String, EndpointId)> = match scenario.radios.is_empty() {
            true => Vec::new(),
            false => {
                let name = |node: &farlink_scenario::Node| Ok((node.name.clone(), node_id(node)?));
                scenario.nodes.iter().map(name).collect::<Result<_, ConfigError>>()?
            }
        };
        Ok(Radios {
            contacts: of_scenario(scenario, heavens.as_deref()),
            heavens,
            kinds,
            table,
            links: Vec::new(),
            vacant: Vec::new(),
            transfers: Transfers::default(),
            cables: scenario.links.len(),
            asked: None,
            offered: None,
            names,
            joined: Vec::new(),
        })
    }

    /// The next edge that is not later.
    pub fn next_edge(&mut self, until: Instant) -> Option<ContactEdge> {
        self.contacts.next(until)
    }
    /// The place among the links of radios that a link of a node has; none: it is one of a cable.
    pub fn place(&self, cable: usize) -> Option<u32> {
        Some(cable.checked_sub(self.cables)? as u32)
    }
    pub fn kind_of(&mut self, place: u32) -> &mut Kind {
        &mut self.kinds[usize::from(self.links[place as usize].radio)]
    }
    /// Node and link of an end.
    pub fn at(&self, (place, side): End) -> Option<(usize, LinkId)> {
        let link = &self.links[place as usize];
        let (ids, _) = link.there?;
        Some((link.nodes[usize::from(side)] as usize, ids[usize::from(side)]))
    }
    /// Ends a transfer, whatever became of it; its radios are free unless they were before.
    pub fn end(&mut self, now: Instant, number: u64) -> Option<Transfer> {
        let transfer = self.transfers.end(number)?;
        self.links[transfer.end.0 as usize].transfers.retain(|other| *other != number);
        if transfer.stage == Stage::Sending {
            self.free(now, transfer.end, transfer.began);
        }
        Some(transfer)
    }
    /// What began to leave then keeps its radios no longer.
    pub fn free(&mut self, now: Instant, end: End, began: Instant) {
        self.kind_of(end.0).outcome.counted.busy += now.since(began);
        self.table.release(end);
    }
}

impl<O: Observer> World<O> {
    /// Two nodes begin to hear each other, or cease to.
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
        let delay = match radios.heavens.as_ref().filter(|_| kind.sees) {
            Some(heavens) => heavens.light(nodes, edge.at),
            None => kind.delay,
        };
        let link = Link { radio: edge.radio, nodes, delay, there: None, losses: Rng::new(0), transfers: Vec::new() };
        let place = radios.vacant.pop().unwrap_or(radios.links.len() as u32);
        match radios.links.get_mut(place as usize) {
            // Its list keeps its memory.
            Some(before) => *before = Link { transfers: std::mem::take(&mut before.transfers), ..link },
            None => radios.links.push(link),
        }
        if radios.table.meet(place, edge.radio, seats) {
            self.join(place);
        }
    }

    /// Two nodes that hear each other get a link.
    fn join(&mut self, place: u32) {
        let nodes = self.radios.links[place as usize].nodes.map(|node| node as usize);
        let cable = self.radios.cables + place as usize;
        let ids = [0, 1].map(|end| self.nodes[nodes[end]].number(cable, end));
        let Radios { kinds, names, links, .. } = &mut self.radios;
        let link = &mut links[place as usize];
        let kind = &mut kinds[usize::from(link.radio)];
        kind.outcome.contacts += 1;
        link.there = Some((ids, self.now));
        if kind.loss > 0.0 {
            // Each contact has losses of its own, whatever was sent in others.
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

    /// What became of each radio; links that are still there count as far as they came.
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

//! All radios of a world, and the links that nodes have by them.

use super::transfers::{Stage, Transfer, Transfers};
use super::turns::{End, Sharing, Table};
use crate::contacts::merge::Merge;
use crate::contacts::sky::Ephemeris;
use crate::contacts::{ContactEdge, Contacts, of_scenario};
use crate::messages::Framing;
use crate::naming::node_id;
use crate::weights::{message_span, weight};
use farlink_base::layer::SendId;
use farlink_base::{BundleMeta, ConfigError, DataRate, Duration, EndpointId, HopState, Instant, LinkId, Refusal, Rng};
use farlink_link::{Loss, Statistics};
use farlink_scenario::motion::{DelayMode, Reach};
use farlink_scenario::{LayerInfo, Scenario};
use farlink_stack::LinkParams;
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
pub(crate) struct Kind {
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
    /// The seat of a node at this radio.
    pub fn seat(&self, node: u32) -> u32 {
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
pub(crate) struct Link {
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
pub(crate) struct Radios {
    pub contacts: Merge,
    /// Where satellites and stations are.
    pub ephemeris: Option<Arc<Ephemeris>>,
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
pub(crate) struct Offered {
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
    pub fn new(scenario: &Scenario, ephemeris: Option<Arc<Ephemeris>>) -> Result<Radios, ConfigError> {
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
            contacts: of_scenario(scenario, ephemeris.as_deref()),
            ephemeris,
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

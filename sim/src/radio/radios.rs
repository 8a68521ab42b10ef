//! All radios of a simulation, and the links that nodes have by them.

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

/// Random streams of losses and turns, apart from all others of a run.
const LOSSES: u64 = 19;
const TURNS: u64 = 20;

/// Result of a radio.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RadioOutcome {
    /// Name of the radio in the scenario.
    pub name: String,
    /// Number of contacts that became links.
    pub contacts: u64,
    /// Total duration of the radio's links, until they or the run ended.
    pub up: Duration,
    /// Counters of all links of the radio, both ways.
    pub counted: Statistics,
    /// Bundles that receivers refused before the first byte.
    pub refused: u64,
}

/// Radio of the scenario, with its rules, its nodes and its results so far.
pub(crate) struct Kind {
    pub layer: &'static LayerInfo,
    /// Whether a receiver can refuse a bundle before the first byte.
    pub asks: bool,
    pub framing: Framing,
    pub loss: f64,
    pub rate: Option<DataRate>,
    pub delay: Duration,
    /// Whether the delay follows from the distance of each contact, instead of `delay`.
    pub sees: bool,
    pub quantum: Duration,
    pub waits_for_arrival: bool,
    pub metadata_free: bool,
    pub params: LinkParams,
    pub seed: u64,
    /// Nodes with this radio in ascending order; their seats (`turns.rs`) are consecutive from `first_seat`.
    pub nodes: Vec<usize>,
    pub first_seat: u32,
    pub outcome: RadioOutcome,
}

impl Kind {
    pub fn seat(&self, node: u32) -> u32 {
        let node = node as usize;
        // Most radios belong to a group, whose nodes have consecutive indices.
        let in_row = node.wrapping_sub(self.nodes.first().copied().unwrap_or(0));
        let place = match self.nodes.get(in_row) {
            Some(there) if *there == node => in_row,
            _ => self.nodes.binary_search(&node).unwrap_or(0),
        };
        self.first_seat + place as u32
    }
}

/// Contact of two nodes by a radio, and the link that they get from it.
pub(crate) struct Link {
    pub radio: u16,
    pub nodes: [u32; 2],
    pub delay: Duration,
    /// Link numbers at both nodes, and the start of the link; `None` while they have no beam for each other.
    pub there: Option<([LinkId; 2], Instant)>,
    pub losses: Rng,
    /// Transfers in progress.
    pub transfers: Vec<u64>,
}

/// All radios of a simulation.
pub(crate) struct Radios {
    pub contacts: Merge,
    /// Positions of satellites and ground stations.
    pub ephemeris: Option<Arc<Ephemeris>>,
    pub kinds: Vec<Kind>,
    pub table: Table,
    pub links: Vec<Link>,
    /// Indices of removed links, free for reuse.
    pub vacant: Vec<u32>,
    pub transfers: Transfers,
    /// Number of cables, whose indices precede those of radio links.
    pub cables: usize,
    /// End whose turn it is, while its node is asked for a bundle.
    pub asked: Option<End>,
    /// Bundle that the asked end offers.
    pub offered: Option<Offered>,
    /// Name and node ID of each node; empty without radios.
    pub names: Vec<(String, EndpointId)>,
    /// Buffer for the links that get a beam when another link ends; kept for reuse.
    pub joined: Vec<u32>,
}

/// Bundle offered for transfer by a node.
pub(crate) struct Offered {
    pub end: End,
    pub id: SendId,
    pub bundle: Arc<BundleMeta>,
    pub hop: Box<HopState>,
    pub size: u64,
}

impl Radios {
    /// Makes the radios of a scenario.
    ///
    /// # Errors
    /// Fails on an invalid node ID.
    pub fn new(scenario: &Scenario, ephemeris: Option<Arc<Ephemeris>>) -> Result<Radios, ConfigError> {
        let (mut kinds, mut seats) = (Vec::new(), 0);
        for (index, radio) in scenario.radios.iter().enumerate() {
            let framing = weight(&radio.layer, false);
            let mut nodes = radio.nodes.clone();
            nodes.sort_unstable();
            // Only independent losses exist at message level.
            let loss = if let Loss::Bernoulli(loss) = radio.loss { loss } else { 0.0 };
            kinds.push(Kind {
                layer: radio.layer.kind,
                asks: radio.layer.kind.sender_result(Refusal::NoResources).is_err(),
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

    pub fn next_edge(&mut self, until: Instant) -> Option<ContactEdge> {
        self.contacts.next(until)
    }
    /// Index among the radio links; `None` for a cable.
    pub fn place(&self, cable: usize) -> Option<u32> {
        Some(cable.checked_sub(self.cables)? as u32)
    }
    pub fn kind_of(&mut self, place: u32) -> &mut Kind {
        &mut self.kinds[usize::from(self.links[place as usize].radio)]
    }
    pub fn at(&self, (place, side): End) -> Option<(usize, LinkId)> {
        let link = &self.links[place as usize];
        let (ids, _) = link.there?;
        Some((link.nodes[usize::from(side)] as usize, ids[usize::from(side)]))
    }
    /// Ends a transfer with any result and frees its radios, if they are still in use.
    pub fn end(&mut self, now: Instant, number: u64) -> Option<Transfer> {
        let transfer = self.transfers.end(number)?;
        self.links[transfer.end.0 as usize].transfers.retain(|other| *other != number);
        if transfer.stage == Stage::Sending {
            self.free(now, transfer.end, transfer.began);
        }
        Some(transfer)
    }
    /// Frees the radios of a transfer that began at `began`, and counts the time since as busy.
    pub fn free(&mut self, now: Instant, end: End, began: Instant) {
        self.kind_of(end.0).outcome.counted.busy += now.since(began);
        self.table.release(end);
    }
}

//! Links of radios: two nodes get one as they begin to hear each other, and lose it as they cease to.
//! What is on its way over it then is lost, and its sender knows.

use super::World;
use crate::build::{message_span, node_id, weight};
use crate::contacts::merge::Merge;
use crate::contacts::{ContactEdge, Contacts, of_scenario};
use crate::messages::Framing;
use crate::observe::Observer;
use farlink_base::{ConfigError, DataRate, Duration, EndpointId, Instant, LinkId, Rng};
use farlink_link::{Delay, DirectionSpec, LinkDirection, Rate, Statistics};
use farlink_scenario::{LayerInfo, Scenario};
use farlink_stack::{LinkConfig, SpanConfig};
use std::collections::HashMap;

/// Apart from every other purpose that a run draws for.
const LOSSES: u64 = 19;

/// What became of a radio.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RadioOutcome {
    /// Its name.
    pub name: String,
    /// Contacts that began.
    pub contacts: u64,
    /// How long they lasted until they or the run ended, all together.
    pub up: Duration,
    /// Of all its links, both ways.
    pub counted: Statistics,
}

/// One radio of the scenario.
struct Kind {
    layer: &'static LayerInfo,
    framing: Framing,
    spec: DirectionSpec,
    rate: Option<DataRate>,
    one_way_delay: Duration,
    span: SpanConfig,
    seed: u64,
    outcome: RadioOutcome,
}

/// A link that is there.
struct Link {
    place: usize,
    /// Its numbers at its two nodes.
    ids: [LinkId; 2],
    since: Instant,
}

/// All radios of a world.
pub(super) struct Radios {
    contacts: Merge,
    kinds: Vec<Kind>,
    /// By radio and nodes; never walked.
    links: HashMap<(u16, u32, u32), Link>,
    /// Places of links that are no more.
    free: Vec<usize>,
    /// The place after all.
    places: usize,
    /// What nodes are called: the name in the scenario, and the node ID.
    names: Vec<(String, EndpointId)>,
}

impl Radios {
    /// Those of a scenario.
    ///
    /// # Errors
    /// A node ID that is none.
    pub fn new(scenario: &Scenario) -> Result<Radios, ConfigError> {
        let kind = |(index, radio): (usize, &farlink_scenario::motion::Radio)| {
            let framing = weight(&radio.layer, false);
            let one_way_delay = radio.one_way_delay();
            let spec = DirectionSpec {
                rate: radio.rate.map_or(Rate::Unlimited, Rate::Constant),
                delay: Delay::Constant(one_way_delay),
                loss: radio.loss,
                ..DirectionSpec::default()
            };
            Kind {
                layer: radio.layer.kind,
                framing,
                spec,
                rate: radio.rate,
                one_way_delay,
                span: message_span(&framing, 0),
                seed: Rng::stream(scenario.seed, LOSSES << 32 | index as u64).next_u64(),
                outcome: RadioOutcome { name: radio.name.clone(), ..RadioOutcome::default() },
            }
        };
        let names: Vec<(String, EndpointId)> = match scenario.radios.is_empty() {
            true => Vec::new(),
            false => {
                let name = |node: &farlink_scenario::Node| Ok((node.name.clone(), node_id(node)?));
                scenario.nodes.iter().map(name).collect::<Result<_, ConfigError>>()?
            }
        };
        Ok(Radios {
            contacts: of_scenario(scenario),
            kinds: scenario.radios.iter().enumerate().map(kind).collect(),
            links: HashMap::new(),
            free: Vec::new(),
            places: scenario.links.len(),
            names,
        })
    }

    /// The next edge that is not later.
    pub fn next_edge(&mut self, until: Instant) -> Option<ContactEdge> {
        self.contacts.next(until)
    }

    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        })
    }
}

impl<O: Observer> World<O> {
    /// Two nodes begin to hear each other, or cease to.
    pub(super) fn edge(&mut self, edge: ContactEdge) {
        self.happenings += 1;
        let pair = u64::from(edge.a) << 32 | u64::from(edge.b);
        self.trace.add(&[self.now.0, 4, pair, u64::from(edge.radio) << 1 | u64::from(edge.up)]);
        if edge.up { self.meet(edge) } else { self.part(edge) }
    }

    fn meet(&mut self, edge: ContactEdge) {
        let nodes = [edge.a, edge.b].map(|node| node as usize);
        let place = self.radios.place();
        let ids = [0, 1].map(|end| self.nodes[nodes[end]].number(place, end));
        let link = Link { place, ids, since: self.now };
        self.radios.links.insert((edge.radio, edge.a, edge.b), link);
        let Radios { kinds, names, .. } = &mut self.radios;
        let kind = &mut kinds[usize::from(edge.radio)];
        kind.outcome.contacts += 1;
        let [one, other] = nodes.map(|node| &names[node]);
        let name = format!("{}:{}-{}", kind.outcome.name, one.0, other.0);
        let config = |peer: &EndpointId| LinkConfig {
            name: name.clone(),
            peer: peer.clone(),
            layer: 0,
            rate: kind.rate,
            one_way_delay: kind.one_way_delay,
            span: kind.span.clone(),
        };
        let configs = [config(&other.1), config(&one.1)];
        if let Some(crossings) = &mut self.crossings {
            // Each contact has losses of its own, whatever was sent in others.
            let mut seeds = Rng::stream(kind.seed, kind.outcome.contacts);
            let directions = [(); 2].map(|()| LinkDirection::new(kind.spec.clone(), seeds.next_u64()));
            let ends = [0, 1].map(|end| (nodes[end], ids[end]));
            crossings.put(place, ends, kind.layer, directions, kind.framing);
        }
        for (end, config) in configs.into_iter().enumerate() {
            self.observer.link_named(nodes[end], ids[end], &config.name);
            self.at_node(nodes[end], |node, now, segments, said| {
                let added = node.add_link(now, ids[end], &config, segments, said);
                debug_assert!(added.is_ok(), "its number and its name are new: {added:?}");
            });
        }
        if let Some(crossings) = &mut self.crossings {
            crossings.begin(self.now, place, &mut self.queue, &mut self.todo);
        }
    }

    fn part(&mut self, edge: ContactEdge) {
        let Some(link) = self.radios.links.remove(&(edge.radio, edge.a, edge.b)) else { return };
        let nodes = [edge.a, edge.b].map(|node| node as usize);
        if let Some(crossings) = &mut self.crossings {
            crossings.part(self.now, link.place, &mut self.queue, &mut self.todo);
            self.drain();
        }
        for (node, id) in nodes.into_iter().zip(link.ids) {
            self.at_node(node, |node, now, segments, said| {
                node.remove_link(now, id, segments, said);
                node.forget(id);
            });
        }
        let counted = self.statistics_of(&link);
        let outcome = &mut self.radios.kinds[usize::from(edge.radio)].outcome;
        outcome.up += self.now.since(link.since);
        outcome.counted += counted;
        self.radios.free.push(link.place);
    }

    fn statistics_of(&self, link: &Link) -> Statistics {
        let [mut all, reverse] = self.crossings.as_ref().map_or_else(Default::default, |c| c.statistics(link.place));
        all += reverse;
        all
    }

    /// What became of each radio; links that are still there count as far as they came.
    pub(super) fn radio_outcomes(&self) -> Vec<RadioOutcome> {
        let mut outcomes: Vec<RadioOutcome> = self.radios.kinds.iter().map(|kind| kind.outcome.clone()).collect();
        // Sums do not hang on the order.
        for ((radio, ..), link) in &self.radios.links {
            let outcome = &mut outcomes[usize::from(*radio)];
            outcome.up += self.now.since(link.since);
            outcome.counted += self.statistics_of(link);
        }
        outcomes
    }
}

//! Invariants of forwarding with computed routes: over a permanent link no bundle leaves while a more urgent one of at
//! most its size waits for it; and no bundle exceeds its hop limit.

use farlink_base::{BundleHandle, BundleKey, Event, LinkId, Priority};
use farlink_scenario::{Medium, Scenario};
use std::collections::{BTreeSet, HashMap};

/// Bundle in the queue of a link.
#[derive(Clone, Copy)]
struct Queued {
    link: LinkId,
    priority: Priority,
    size: u64,
}

#[derive(Default)]
struct RoutedNode {
    number: u64,
    /// Hop limit of the node's bundles, if it sets one.
    hop_limit: Option<u32>,
    /// Links without planned contacts that accept bundles of any length.
    steady: BTreeSet<u32>,
    sizes: HashMap<BundleHandle, (BundleKey, Priority, u64)>,
    queued: HashMap<BundleHandle, Queued>,
}

/// Observer of bundles on their way.
#[derive(Default)]
pub struct Ways {
    nodes: Vec<RoutedNode>,
    /// Fewest hops by which a bundle, or a fragment of it, can have reached a node.
    hops: HashMap<(u64, BundleKey), u32>,
}

fn whole(key: &BundleKey) -> BundleKey {
    // The hops of any fragment bound those of the bundle reassembled from it.
    BundleKey { fragment: None, ..*key }
}

impl Ways {
    pub fn new(scenario: &Scenario) -> Ways {
        // Hops inside tunnels are not counted, and copies have no order.
        let known = scenario.nodes.iter().all(|node| node.tunnels.is_empty());
        let queues = |node: &farlink_scenario::Node| known && node.router.name == "sabr" && node.control.name == "none";
        let node = |(index, node): (usize, &farlink_scenario::Node)| {
            let told = node.settings();
            RoutedNode {
                number: node.number.0,
                hop_limit: (known && told.agent.hop_limit > 0 && told.bundle_version == 7)
                    .then_some(told.agent.hop_limit.into()),
                steady: if queues(node) { steady(scenario, index) } else { BTreeSet::new() },
                ..RoutedNode::default()
            }
        };
        Ways { nodes: scenario.nodes.iter().enumerate().map(node).collect(), ..Ways::default() }
    }

    /// Handles an event of a node; returns a violation.
    pub fn event(&mut self, node: usize, event: &Event) -> Option<String> {
        let here = &mut self.nodes[node];
        match event {
            Event::Seen { bundle, key, priority, size, .. } => {
                here.sizes.insert(*bundle, (*key, *priority, *size));
            }
            Event::Created { bundle } => {
                let (key, ..) = here.sizes.get(bundle)?;
                self.hops.insert((here.number, whole(key)), 0);
            }
            Event::Received { bundle, from, .. } => drop(self.received(node, *bundle, from.0)),
            // A node that receives a bundle over its limit deletes it.
            Event::Delivered { bundle } => return self.too_far(node, *bundle),
            Event::Routed { bundle, link, .. } => {
                let (_, priority, size) = *here.sizes.get(bundle)?;
                here.queued.remove(bundle);
                if here.steady.contains(&link.0) {
                    here.queued.insert(*bundle, Queued { link: *link, priority, size });
                }
            }
            Event::Transmitting { bundle, link } => return self.transmitting(node, *bundle, *link),
            Event::Deleted { bundle, .. } => {
                here.queued.remove(bundle);
                here.sizes.remove(bundle);
            }
            Event::Waiting { bundle } | Event::ForwardFailed { bundle, .. } | Event::CustodyReleased { bundle } => {
                here.queued.remove(bundle);
            }
            Event::Fault { what: "node down", .. } => here.queued.clear(),
            _ => {}
        }
        None
    }

    fn received(&mut self, node: usize, bundle: BundleHandle, from: u64) -> Option<u32> {
        let (key, ..) = self.nodes[node].sizes.get(&bundle)?;
        let (key, number) = (whole(key), self.nodes[node].number);
        let hops = self.hops.get(&(from, key))? + 1;
        let fewest = self.hops.entry((number, key)).or_insert(hops);
        *fewest = hops.min(*fewest);
        Some(*fewest)
    }

    fn too_far(&self, node: usize, bundle: BundleHandle) -> Option<String> {
        let (key, ..) = self.nodes[node].sizes.get(&bundle)?;
        let key = whole(key);
        let fewest = self.hops.get(&(self.nodes[node].number, key))?;
        let source = self.nodes.iter().find(|node| node.number == key.source.0)?;
        let most = source.hop_limit.filter(|most| fewest > most)?;
        Some(format!("{key:?} made {fewest} hops of at most {most}"))
    }

    fn transmitting(&mut self, node: usize, bundle: BundleHandle, link: LinkId) -> Option<String> {
        let queued = &mut self.nodes[node].queued;
        let it = queued.remove(&bundle).filter(|it| it.link == link)?;
        let overtaken = |other: &&Queued| other.link == link && other.priority > it.priority && other.size <= it.size;
        let other = queued.values().filter(overtaken).map(|other| other.priority).max()?;
        let own = it.priority;
        Some(format!(
            "a bundle left that is {own:?}, while one that is {other:?}, and no longer, waited for the same link"
        ))
    }
}

fn steady(scenario: &Scenario, node: usize) -> BTreeSet<u32> {
    // Only on such links do all waiting bundles share one queue. Faults are unknown to the nodes and change nothing.
    let is_planned = |link: usize| scenario.contacts.iter().any(|contact| contact.link == link);
    let any = |link: usize| {
        let layer = scenario.links[link].layer.kind;
        layer.medium == Medium::Streams || layer.name == "ltp"
    };
    let ends = scenario.ends_of(node).into_iter().enumerate();
    ends.filter(|(_, end)| !is_planned(end.link) && any(end.link)).map(|(place, _)| place as u32).collect()
}

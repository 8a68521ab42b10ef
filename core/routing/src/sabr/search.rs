//! The search: Dijkstra over (node, hops) labels, with each bundle's volume and what is booked
//! taken into account.
//!
//! Waiting is always allowed, so leaving a node's contact never gets earlier by reaching the node
//! later: the earliest arrival at each node is enough to find the earliest arrival at the
//! destination, but not to find it with the fewest hops (a later arrival over fewer hops may catch
//! the same onward contact). So a node keeps one label for every smaller number of hops, the Pareto
//! front of arrival and hops. Labels leave the heap by arrival, hops, later termination, smaller
//! entry node: the tie-breaks of CCSDS 734.3-B-1.

use super::booking::Booked;
use super::graph::{Edge, Graph, Group};
use super::profile::Profile;
use crate::contact_plan::nanoseconds;
use crate::{ContactPlan, PlanTime};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, NodeId, Priority};

/// What to find a route for.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Where the bundle is.
    pub from: NodeId,
    /// Where it shall go.
    pub to: NodeId,
    /// From when on.
    pub at: PlanTime,
    /// Size of the encoded bundle, bytes.
    pub size: u64,
    /// It must arrive by then.
    pub expires: PlanTime,
    /// Class of service.
    pub priority: Priority,
    /// Neighbours not to be used as first hop.
    pub excluded: &'a [NodeId],
    /// Overhead and margins.
    pub profile: Profile,
}
impl Query<'_> {
    /// A query without deadline, at normal priority, in the exact profile.
    pub fn new(from: NodeId, to: NodeId, at: PlanTime, size: u64) -> Self {
        Query {
            from,
            to,
            at,
            size,
            expires: PlanTime::MAX,
            priority: Priority::Normal,
            excluded: &[],
            profile: Profile::Exact,
        }
    }
}

/// One hop of a route.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    /// Index of the contact in the plan; `None` is a link outside the plan.
    pub contact: Option<u32>,
    /// Transmitting node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// The first byte leaves.
    pub start: PlanTime,
    /// The last byte arrives.
    pub arrival: PlanTime,
}

/// A route for one bundle.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// The hops in order; none when the bundle is where it shall go.
    pub path: Vec<Hop>,
    /// When the whole bundle has arrived.
    pub arrival: PlanTime,
    /// End of the contact of the route that ends first.
    pub until: PlanTime,
    /// Bytes it takes of every contact.
    pub volume: u64,
}
impl Route {
    /// Number of hops.
    pub fn hops(&self) -> usize {
        self.path.len()
    }
    /// The first contact, when the first hop is one of the plan.
    pub fn first_contact(&self) -> Option<u32> {
        self.path.first()?.contact
    }
    /// The neighbour it begins with (the entry node).
    pub fn next_hop(&self) -> Option<NodeId> {
        self.path.first().map(|hop| hop.to)
    }
}

/// A link outside the plan, up now: the first hop may use it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutsideLink {
    /// The neighbour.
    pub peer: NodeId,
    /// How fast, where known.
    pub rate: Option<DataRate>,
    /// Until when, where known.
    pub until: PlanTime,
}

/// Where a search begins.
pub struct Origin<'a> {
    /// All identifiers of this node.
    pub nodes: &'a [NodeId],
    /// Whether this node can use its contact with this index.
    pub usable: &'a dyn Fn(u32) -> bool,
    /// Links outside the plan.
    pub outside: &'a [OutsideLink],
}

/// Finds the best route, or none. Indexes the plan anew: to ask often, keep a [`Planner`].
pub fn find_route(plan: &ContactPlan, query: &Query<'_>, booked: &Booked) -> Option<Route> {
    Planner::new(plan).route(query, booked)
}

const NO_LABEL: u32 = u32::MAX;

/// A way to reach a node.
#[derive(Clone, Copy)]
struct Label {
    arrival: u64,
    start: u64,
    until: u64,
    entry: NodeId,
    node: u32,
    hops: u32,
    contact: Option<u32>,
    parent: u32,
}

type Key = Reverse<(u64, u32, Reverse<u64>, NodeId, u32)>;

/// An indexed plan and the working memory of searches over it.
#[derive(Default)]
pub struct Planner {
    graph: Graph,
    labels: Vec<Label>,
    heap: BinaryHeap<Key>,
    /// Fewest hops over which each node has been reached so far.
    settled: Vec<u32>,
    /// Best (arrival, hops) on the heap for each node.
    tentative: Vec<(u64, u32)>,
}

/// The bundle at hand.
struct Load<'a> {
    volume: u64,
    latest: u64,
    priority: Priority,
    profile: Profile,
    booked: &'a Booked,
    /// Rate and transmission time of the contact looked at last: neighbours often share it.
    cached: core::cell::Cell<(u64, u64)>,
}

impl Load<'_> {
    fn transmission_ns(&self, rate: DataRate) -> u64 {
        let (cached, time) = self.cached.get();
        if cached == rate.0 {
            return time;
        }
        let time = nanoseconds(rate.time_for(self.volume));
        self.cached.set((rate.0, time));
        time
    }
    /// First byte out and last byte in over a contact, for a bundle that is ready at `ready`; the
    /// last byte may leave exactly at the end.
    fn over(&self, edge: &Edge, ready: u64) -> Option<(u64, u64)> {
        let taken = self.booked.bytes(edge.contact, self.priority);
        let mut first = ready.max(edge.start);
        let mut last = first.saturating_add(self.transmission_ns(edge.rate));
        if taken > 0 {
            let free = edge.start.saturating_add(nanoseconds(edge.rate.time_for(taken)));
            if free >= first {
                let both = edge.rate.time_for(taken.saturating_add(self.volume));
                (first, last) = (free, edge.start.saturating_add(nanoseconds(both)));
            }
        }
        (first < edge.end && last <= edge.end)
            .then(|| (first, last.saturating_add(self.profile.delay_ns(core::time::Duration::from_nanos(edge.delay)))))
    }
}

impl Planner {
    /// Indexes a plan.
    pub fn new(plan: &ContactPlan) -> Self {
        Planner { graph: Graph::new(plan), ..Planner::default() }
    }

    /// The best route from `query.from` over any of its contacts.
    pub fn route(&mut self, query: &Query<'_>, booked: &Booked) -> Option<Route> {
        let origin = Origin { nodes: &[query.from], usable: &|_| true, outside: &[] };
        self.route_from(&origin, query, booked)
    }

    /// The best route from `origin` (`query.from` is not looked at): smallest arrival, then fewest
    /// hops, then latest termination, then smallest entry node. A contact is never waited for
    /// merely because it ends later.
    pub fn route_from(&mut self, origin: &Origin<'_>, query: &Query<'_>, booked: &Booked) -> Option<Route> {
        let load = Load {
            volume: query.profile.volume(query.size),
            latest: query.expires.0,
            priority: query.priority,
            profile: query.profile,
            booked,
            cached: core::cell::Cell::new((0, u64::MAX)),
        };
        if origin.nodes.contains(&query.to) {
            return Some(Route { path: Vec::new(), arrival: query.at, until: PlanTime::MAX, volume: load.volume });
        }
        self.clear();
        let direct = self.begin(origin, query, &load);
        let found = match self.graph.place(query.to) {
            Some(to) => self.search(to, origin, query, &load),
            None => None,
        };
        let through = found.map(|label| self.unwind(label, load.volume, origin.nodes));
        match (direct, through) {
            (Some(direct), Some(route)) if route.arrival < direct.arrival => Some(route),
            (Some(direct), _) => Some(direct),
            (None, through) => through,
        }
    }

    fn clear(&mut self) {
        self.labels.clear();
        self.heap.clear();
        self.settled.clear();
        self.settled.resize(self.graph.nodes.len(), u32::MAX);
        self.tentative.clear();
        self.tentative.resize(self.graph.nodes.len(), (u64::MAX, u32::MAX));
    }

    /// Puts the first labels on the heap; gives the best route straight over a link outside the
    /// plan.
    fn begin(&mut self, origin: &Origin<'_>, query: &Query<'_>, load: &Load<'_>) -> Option<Route> {
        let at = query.at.0;
        for &node in origin.nodes {
            if let Some(node) = self.graph.place(node) {
                let until = u64::MAX;
                let entry = NodeId::NULL;
                let (contact, parent) = (None, NO_LABEL);
                self.push(Label { arrival: at, start: at, until, entry, node, hops: 0, contact, parent });
            }
        }
        let mut direct: Option<Route> = None;
        for link in origin.outside.iter().filter(|link| !query.excluded.contains(&link.peer)) {
            let time = link.rate.map_or(0, |rate| load.transmission_ns(rate));
            let arrival = at.saturating_add(time);
            if arrival > link.until.0 || arrival > load.latest {
                continue;
            }
            let (contact, parent) = (None, NO_LABEL);
            let (entry, until) = (link.peer, link.until.0);
            if link.peer == query.to && direct.as_ref().is_none_or(|d| arrival < d.arrival.0) {
                let from = origin.nodes.first().copied().unwrap_or_default();
                let arrival = PlanTime(arrival);
                let path = alloc::vec![Hop { contact, from, to: link.peer, start: query.at, arrival }];
                direct = Some(Route { path, arrival, until: link.until, volume: load.volume });
            } else if let Some(node) = self.graph.place(link.peer) {
                self.push(Label { arrival, start: at, until, entry, node, hops: 1, contact, parent });
            }
        }
        direct
    }

    fn push(&mut self, label: Label) {
        let node = label.node as usize;
        let best = &mut self.tentative[node];
        // Behind something already waiting that is strictly better in both: it can never be needed.
        if (best.0 < label.arrival && best.1 <= label.hops) || (best.0 <= label.arrival && best.1 < label.hops) {
            return;
        }
        if (label.arrival, label.hops) < *best {
            *best = (label.arrival, label.hops);
        }
        let index = self.labels.len() as u32;
        self.heap.push(Reverse((label.arrival, label.hops, Reverse(label.until), label.entry, index)));
        self.labels.push(label);
    }

    fn search(&mut self, to: u32, origin: &Origin<'_>, query: &Query<'_>, load: &Load<'_>) -> Option<u32> {
        while let Some(Reverse((_, hops, _, _, index))) = self.heap.pop() {
            let label = self.labels[index as usize];
            if hops >= self.settled[label.node as usize] {
                continue; // reached no later over no more hops before
            }
            self.settled[label.node as usize] = hops;
            if label.node == to {
                return Some(index);
            }
            for group in 0..self.graph.groups(label.node).len() {
                let group = self.graph.groups(label.node)[group].clone();
                if self.settled[group.to as usize] <= hops + 1 {
                    continue;
                }
                let entry = if hops == 0 { self.graph.nodes[group.to as usize] } else { label.entry };
                if hops == 0 && query.excluded.contains(&entry) {
                    continue;
                }
                if let Some((edge, start, arrival)) = self.best_contact(&group, &label, origin, load) {
                    let until = label.until.min(edge.end);
                    let contact = Some(edge.contact);
                    let (node, hops) = (group.to, hops + 1);
                    self.push(Label { arrival, start, until, entry, node, hops, contact, parent: index });
                }
            }
        }
        None
    }

    /// The contact of a group that brings the bundle over first; of equals, the one that ends last.
    /// A later contact may win by a shorter light time or a higher rate.
    fn best_contact(
        &self,
        group: &Group,
        label: &Label,
        origin: &Origin<'_>,
        load: &Load<'_>,
    ) -> Option<(Edge, u64, u64)> {
        let mut best: Option<(Edge, u64, u64)> = None;
        for edge in self.graph.edges_after(group, label.arrival) {
            let bound = best.as_ref().map_or(load.latest, |(_, _, arrival)| *arrival);
            if edge.start.saturating_add(group.delay_min) > bound {
                break;
            }
            if label.hops == 0 && !(origin.usable)(edge.contact) {
                continue;
            }
            let Some((start, arrival)) = load.over(edge, label.arrival) else { continue };
            let better = match &best {
                None => arrival <= load.latest,
                Some((held, _, best)) => arrival < *best || (arrival == *best && edge.end > held.end),
            };
            if better {
                best = Some((*edge, start, arrival));
            }
        }
        best
    }

    fn unwind(&self, last: u32, volume: u64, local: &[NodeId]) -> Route {
        let end = self.labels[last as usize];
        let mut path = Vec::with_capacity(end.hops as usize);
        let mut label = end;
        while label.hops > 0 {
            let parent = self.labels.get(label.parent as usize);
            let outside = || local.first().copied().unwrap_or_default();
            let from = parent.map_or_else(outside, |p| self.graph.nodes[p.node as usize]);
            path.push(Hop {
                contact: label.contact,
                from,
                to: self.graph.nodes[label.node as usize],
                start: PlanTime(label.start),
                arrival: PlanTime(label.arrival),
            });
            let Some(parent) = parent else { break };
            label = *parent;
        }
        path.reverse();
        Route { path, arrival: PlanTime(end.arrival), until: PlanTime(end.until), volume }
    }
}

//! The search: Dijkstra over (node, hops) labels, with each bundle's volume and what is booked
//! taken into account.
//!
//! Waiting is always allowed, so leaving a node's contact never gets earlier by reaching the node
//! later: the earliest arrival at each node is enough to find the earliest arrival at the
//! destination, but not to find it with the fewest hops (a later arrival over fewer hops may catch
//! the same onward contact). So a node keeps one label for every smaller number of hops, the Pareto
//! front of arrival and hops. Contacts of a node are looked at in order of time, and those that begin
//! after the destination is reached not at all. Labels leave the heap by arrival, hops, later termination, smaller
//! entry node: the tie-breaks of CCSDS 734.3-B-1; and where all of these are alike by the last contact's place in the
//! plan, links outside it first. A node keeps at most one label for a number of hops, so that this order has no ties:
//! a route depends on the question, the plan and what is booked, and not on the way the search went.

use super::booking::Booked;
use super::bounds::Bounds;
use super::profile::Profile;
use super::question::{Hop, Origin, OutsideLink, Query, Route};
use crate::PlanTime;
use crate::contact_plan::nanoseconds;
use crate::plan_index::{Edge, Passing, PlanIndex};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, LinkId, Priority};

/// Finds the best route, or none. To ask often, keep a [`Planner`].
pub fn find_route(index: &PlanIndex, query: &Query<'_>, booked: &Booked) -> Option<Route> {
    Planner::default().route(index, query, booked)
}

const NO_LABEL: u32 = u32::MAX;

/// A way to reach a node.
#[derive(Clone, Copy, Debug)]
struct Label {
    arrival: u64,
    start: u64,
    until: u64,
    /// Place of the entry node; of nodes without one any.
    entry: u32,
    node: u32,
    hops: u32,
    by: By,
    parent: u32,
}

/// What a label was reached over.
#[derive(Clone, Copy, Debug)]
enum By {
    Nothing,
    Contact(u32),
    Outside(LinkId),
}
impl By {
    /// Its place where everything else is alike. Links outside the plan are put on the heap in their order.
    fn place(self) -> u32 {
        match self {
            By::Nothing | By::Outside(_) => 0,
            By::Contact(contact) => contact.saturating_add(1),
        }
    }
}

/// Contacts of a node that was reached, to be looked at from one on.
#[derive(Clone, Copy, Debug)]
struct Scan {
    label: u32,
    lane: u32,
    at: u32,
}

/// Places on the heap from here on are those of scans: there are fewer labels.
const FIRST_SCAN: u32 = 1 << 31;

/// Arrival (with what is left to go at least, where that is known), hops, later termination, smaller entry node, what it
/// was reached over, and the place of the label. Nodes are in the order of their places.
type Key = Reverse<(u64, u32, Reverse<u64>, u32, u32, u32)>;

/// What is known of a node during a search.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Best (arrival, hops) on the heap.
    arrival: u64,
    hops: u32,
    /// Fewest hops over which it has been reached so far.
    settled: u32,
}
impl Reached {
    /// Whether something that waits already is strictly better than what comes then, over so many hops: it can never be
    /// needed.
    fn beats(&self, arrival: u64, hops: u32) -> bool {
        (self.arrival < arrival && self.hops <= hops) || (self.arrival <= arrival && self.hops < hops)
    }
}
const UNREACHED: Reached = Reached { arrival: u64::MAX, hops: u32::MAX, settled: u32::MAX };

/// Working memory kept between searches at most, in bytes. A search over many nodes clears and
/// fills more than that anyway, so taking it anew costs nothing that can be measured, and a
/// thousand nodes in one process do not each keep tens of kilobytes.
const KEPT_MAX: usize = 4096;

/// The working memory of searches. It knows no plan: one can serve many nodes.
#[derive(Debug)]
pub struct Planner {
    labels: Vec<Label>,
    scans: Vec<Scan>,
    heap: BinaryHeap<Key>,
    reached: Vec<Reached>,
    /// Bytes kept between searches at most.
    kept: usize,
}
impl Default for Planner {
    fn default() -> Self {
        Planner { labels: Vec::new(), scans: Vec::new(), heap: BinaryHeap::new(), reached: Vec::new(), kept: KEPT_MAX }
    }
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
    /// The best route from `query.from` over any of its contacts.
    pub fn route(&mut self, index: &PlanIndex, query: &Query<'_>, booked: &Booked) -> Option<Route> {
        let origin = Origin { nodes: &[query.from], usable: &|_| Some(PlanTime(0)), outside: &[] };
        self.route_from(index, &origin, query, booked)
    }

    /// The best route from `origin` (`query.from` is not looked at): smallest arrival, then fewest
    /// hops, then latest termination, then smallest entry node, then the first of the plan's contacts.
    /// A contact is never waited for merely because it ends later.
    pub fn route_from(
        &mut self,
        index: &PlanIndex,
        origin: &Origin<'_>,
        query: &Query<'_>,
        booked: &Booked,
    ) -> Option<Route> {
        self.route_guided(index, origin, query, booked, None)
    }

    /// The same, with bounds that lead the search; they must serve the query.
    pub(super) fn route_guided(
        &mut self,
        index: &PlanIndex,
        origin: &Origin<'_>,
        query: &Query<'_>,
        booked: &Booked,
        bounds: Option<&Bounds>,
    ) -> Option<Route> {
        let volume = query.profile.volume(query.size);
        if origin.nodes.contains(&query.to) {
            let (arrival, until) = (query.at, PlanTime::MAX);
            return Some(Route { path: Vec::new(), arrival, until, volume, outside: None });
        }
        let load = Load {
            volume,
            latest: query.expires.0,
            priority: query.priority,
            profile: query.profile,
            booked,
            cached: core::cell::Cell::new((0, u64::MAX)),
        };
        let mut search = Search { index, origin, query, load, bounds, memory: self };
        let mut route = search.run();
        if let Some(bounds) = bounds
            && route.as_ref().is_none_or(|route| route.arrival.0 >= bounds.until())
        {
            search.bounds = None;
            route = search.run();
        }
        if self.memory() > self.kept {
            *self = Planner::default();
        }
        route
    }

    /// One that keeps all its memory: for many nodes, one after the other.
    pub(super) fn shared() -> Planner {
        Planner { kept: usize::MAX, ..Planner::default() }
    }

    /// Bytes of working memory kept.
    pub fn memory(&self) -> usize {
        self.labels.capacity() * size_of::<Label>()
            + self.scans.capacity() * size_of::<Scan>()
            + self.heap.capacity() * size_of::<Key>()
            + self.reached.capacity() * size_of::<Reached>()
    }

    fn clear(&mut self, nodes: usize) {
        self.labels.clear();
        self.scans.clear();
        self.heap.clear();
        self.labels.reserve(nodes);
        self.heap.reserve(nodes);
        self.reached.clear();
        self.reached.resize(nodes, UNREACHED);
    }

    /// Goes on with a scan when everything before this key has been reached.
    fn later(&mut self, time: u64, scan: Scan, place: Option<u32>) {
        let place = match place {
            Some(place) => {
                self.scans[place as usize] = scan;
                place
            }
            None => {
                self.scans.push(scan);
                self.scans.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((time, 0, Reverse(u64::MAX), 0, 0, FIRST_SCAN + place)));
    }

    /// Notes a way to a node that has so much left to go at least.
    fn push(&mut self, label: Label, left: u64) {
        if left == u64::MAX {
            return; // it leads nowhere in time
        }
        let best = &mut self.reached[label.node as usize];
        if best.beats(label.arrival, label.hops) {
            return;
        }
        if (label.arrival, label.hops) < (best.arrival, best.hops) {
            (best.arrival, best.hops) = (label.arrival, label.hops);
        }
        let place = self.labels.len() as u32;
        let whole = label.arrival.saturating_add(left);
        self.heap.push(Reverse((whole, label.hops, Reverse(label.until), label.entry, label.by.place(), place)));
        self.labels.push(label);
    }
}

/// One search.
struct Search<'a> {
    index: &'a PlanIndex,
    origin: &'a Origin<'a>,
    query: &'a Query<'a>,
    load: Load<'a>,
    bounds: Option<&'a Bounds>,
    memory: &'a mut Planner,
}

impl Search<'_> {
    fn run(&mut self) -> Option<Route> {
        self.memory.clear(self.index.nodes.len());
        let direct = self.begin();
        let found = self.index.place(self.query.to).and_then(|to| self.reach(to));
        match (direct, found.map(|label| self.unwind(label))) {
            (Some(direct), Some(route)) if route.arrival < direct.arrival => Some(route),
            (Some(direct), _) => Some(direct),
            (None, through) => through,
        }
    }

    /// What a node has left to go at least.
    fn left(&self, place: u32) -> u64 {
        self.bounds.map_or(0, |bounds| bounds.left(place))
    }

    /// Puts the first labels on the heap; gives the best route straight over a link outside the
    /// plan.
    fn begin(&mut self) -> Option<Route> {
        let (index, origin, query) = (self.index, self.origin, self.query);
        let at = query.at.0;
        for node in origin.nodes.iter().filter_map(|node| index.place(*node)) {
            let (until, entry, by, parent) = (u64::MAX, 0, By::Nothing, NO_LABEL);
            let left = self.left(node);
            self.memory.push(Label { arrival: at, start: at, until, entry, node, hops: 0, by, parent }, left);
        }
        let mut direct: Option<Route> = None;
        for link in origin.outside.iter().filter(|link| !query.excluded.contains(&link.peer)) {
            let time = link.rate.map_or(0, |rate| self.load.transmission_ns(rate));
            let arrival = at.saturating_add(time);
            if arrival > link.until.0 || arrival > self.load.latest {
                continue;
            }
            if link.peer != query.to {
                let Some(node) = index.place(link.peer) else { continue };
                let (entry, until, by) = (node, link.until.0, By::Outside(link.link));
                let left = self.left(node);
                self.memory.push(Label { arrival, start: at, until, entry, node, hops: 1, by, parent: NO_LABEL }, left);
            } else if direct.as_ref().is_none_or(|d| arrival < d.arrival.0) {
                direct = Some(self.straight(link, PlanTime(arrival)));
            }
        }
        direct
    }

    fn straight(&self, link: &OutsideLink, arrival: PlanTime) -> Route {
        let from = self.origin.nodes.first().copied().unwrap_or_default();
        let path = alloc::vec![Hop { contact: None, from, to: link.peer, start: self.query.at, arrival }];
        Route { path, arrival, until: link.until, volume: self.load.volume, outside: Some(link.link) }
    }

    fn reach(&mut self, to: u32) -> Option<u32> {
        while let Some(Reverse((_, hops, _, _, _, place))) = self.memory.heap.pop() {
            if let Some(place) = place.checked_sub(FIRST_SCAN) {
                self.scan(self.memory.scans[place as usize], Some(place), to as usize);
                continue;
            }
            let label = self.memory.labels[place as usize];
            let reached = &mut self.memory.reached[label.node as usize];
            if hops >= reached.settled {
                continue; // reached no later over no more hops before
            }
            reached.settled = hops;
            if label.node == to {
                return Some(place);
            }
            self.expand(place, &label, to as usize);
        }
        None
    }

    /// Begins to look at the contacts of a node that was reached.
    fn expand(&mut self, place: u32, label: &Label, to: usize) {
        for lane in self.index.lanes(label.node) {
            let at = self.index.begin(lane, label.arrival);
            self.scan(Scan { label: place, lane, at }, None, to);
        }
    }

    /// Looks at contacts in order of time: those that bring a bundle over before anything else that is known, and goes
    /// on when their time has come, in the same place of memory.
    fn scan(&mut self, mut scan: Scan, place: Option<u32>, to: usize) {
        let (index, label) = (self.index, self.memory.labels[scan.label as usize]);
        let (lane, contacts) = index.lane(scan.lane);
        let left = self.bounds.map(|bounds| (bounds.left(label.node), bounds.until()));
        while let Some(passing) = contacts.get(scan.at as usize) {
            // What comes later than the destination is reached leads nowhere.
            let latest = self.load.latest.min(self.memory.reached.get(to).map_or(u64::MAX, |reached| reached.arrival));
            let soonest = label.arrival.max(passing.start).saturating_add(lane.delay_min);
            if soonest > latest {
                return;
            }
            // With a guide light times are in what is left.
            let key = left.map_or(soonest, |(left, _)| label.arrival.max(passing.start).saturating_add(left));
            if left.is_some_and(|(_, until)| passing.start >= until) {
                return;
            }
            if self.memory.heap.peek().is_some_and(|Reverse((first, ..))| *first < key) {
                return self.memory.later(key, scan, place);
            }
            scan.at += 1;
            self.take(scan.label, &label, passing, soonest, latest);
        }
    }

    /// Reaches the other end of a contact, unless that is no use.
    fn take(&mut self, place: u32, label: &Label, passing: &Passing, soonest: u64, latest: u64) {
        let index = self.index;
        let reached = &self.memory.reached[passing.to as usize];
        if reached.settled <= label.hops + 1 || reached.beats(soonest, label.hops + 1) {
            return;
        }
        let mut entry = label.entry;
        if label.hops == 0 {
            entry = passing.to;
            let from = (self.origin.usable)(passing.group());
            let excluded = || self.query.excluded.contains(&index.nodes[entry as usize]);
            if from.is_none_or(|from| passing.start < from.0) || excluded() {
                return;
            }
        }
        let edge = index.edge(passing);
        let Some((start, arrival)) = self.load.over(edge, label.arrival) else { return };
        if arrival <= latest {
            let (until, by) = (label.until.min(edge.end), By::Contact(edge.contact));
            let (node, hops) = (passing.to, label.hops + 1);
            let left = self.left(node);
            self.memory.push(Label { arrival, start, until, entry, node, hops, by, parent: place }, left);
        }
    }

    fn unwind(&self, last: u32) -> Route {
        let labels = &self.memory.labels;
        let end = labels[last as usize];
        let (mut path, mut outside) = (Vec::with_capacity(end.hops as usize), None);
        let mut label = end;
        while label.hops > 0 {
            let parent = labels.get(label.parent as usize);
            let here = || self.origin.nodes.first().copied().unwrap_or_default();
            let from = parent.map_or_else(here, |p| self.index.nodes[p.node as usize]);
            let contact = match label.by {
                By::Contact(contact) => Some(contact),
                By::Outside(link) => {
                    outside = Some(link);
                    None
                }
                By::Nothing => None,
            };
            let to = self.index.nodes[label.node as usize];
            path.push(Hop { contact, from, to, start: PlanTime(label.start), arrival: PlanTime(label.arrival) });
            let Some(parent) = parent else { break };
            label = *parent;
        }
        path.reverse();
        let (arrival, until) = (PlanTime(end.arrival), PlanTime(end.until));
        Route { path, arrival, until, volume: self.load.volume, outside }
    }
}

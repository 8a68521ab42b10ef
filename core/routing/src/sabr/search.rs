//! Search for routes: Dijkstra over (node, hops) labels, with each bundle's volume and the bookings taken into
//! account.
//!
//! Waiting is always allowed, so a later arrival at a node never departs earlier: the earliest arrival at each node
//! suffices for the earliest arrival at the destination, but not for the fewest hops (a later arrival over fewer hops
//! may catch the same onward contact). So a node keeps one label for every smaller number of hops, the Pareto front
//! of arrival and hops. Contacts of a node are examined in order of time, and those that begin after the destination
//! is reached are not examined at all. Labels leave the heap by arrival, hops, later termination and smaller entry
//! node, the tie-breaks of CCSDS 734.3-B-1, and if all of these are equal by the last contact's index in the plan,
//! links outside it first. A node keeps at most one label per number of hops, so this order has no ties: a route
//! depends on the request, the plan and the bookings, and not on the course of the search.

use super::booking::Booked;
use super::bounds::SearchBounds;
use super::profile::Profile;
use super::question::{Hop, Origin, OutsideLink, Query, Route};
use crate::PlanTime;
use crate::contact_plan::nanoseconds;
use crate::plan_index::{Passing, PlacedContact, PlanIndex};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, LinkId, Priority};

/// Finds the best route, if any. For many requests, keep a [`Planner`].
pub fn find_route(index: &PlanIndex, query: &Query<'_>, booked: &Booked) -> Option<Route> {
    Planner::default().route(index, query, booked)
}

const NO_LABEL: u32 = u32::MAX;

/// A path to a node.
#[derive(Clone, Copy, Debug)]
struct Label {
    arrival: u64,
    start: u64,
    until: u64,
    /// Index of the entry node; any value for paths without one.
    entry: u32,
    node: u32,
    hops: u32,
    by: By,
    parent: u32,
}

/// Last step of a path.
#[derive(Clone, Copy, Debug)]
enum By {
    Nothing,
    Contact(u32),
    Outside(LinkId),
}
impl By {
    /// Rank among otherwise equal labels. Links outside the plan enter the heap in their own order.
    fn place(self) -> u32 {
        match self {
            By::Nothing | By::Outside(_) => 0,
            By::Contact(contact) => contact.saturating_add(1),
        }
    }
}

/// Position in the contacts of a node that was reached.
#[derive(Clone, Copy, Debug)]
struct Scan {
    label: u32,
    lane: u32,
    at: u32,
}

/// Heap entries from this index on are scans; labels have smaller indices.
const FIRST_SCAN: u32 = 1 << 31;

/// Arrival (plus the bound of the remaining time, if known), hops, later termination, smaller entry node, last step,
/// and index of the label. Entry nodes are ordered by index.
type SearchKey = Reverse<(u64, u32, Reverse<u64>, u32, u32, u32)>;

/// State of a node during a search.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Best (arrival, hops) on the heap.
    arrival: u64,
    hops: u32,
    /// Fewest hops over which it was reached so far.
    settled: u32,
}
impl Reached {
    /// Whether a waiting label is strictly better than an arrival with this number of hops, so that the latter can
    /// never be needed.
    fn beats(&self, arrival: u64, hops: u32) -> bool {
        (self.arrival < arrival && self.hops <= hops) || (self.arrival <= arrival && self.hops < hops)
    }
}
const UNREACHED: Reached = Reached { arrival: u64::MAX, hops: u32::MAX, settled: u32::MAX };

/// Maximum working memory kept between searches, bytes. A search over many nodes clears and fills more than that
/// anyway, so allocating it again costs nothing measurable, and a thousand nodes in one process do not keep tens of
/// kilobytes each.
const KEPT_MAX: usize = 4096;

/// Working memory of searches. It is independent of the plan, so one can serve many nodes.
#[derive(Debug)]
pub struct Planner {
    labels: Vec<Label>,
    scans: Vec<Scan>,
    heap: BinaryHeap<SearchKey>,
    reached: Vec<Reached>,
    /// Maximum bytes kept between searches.
    kept: usize,
}
impl Default for Planner {
    fn default() -> Self {
        Planner { labels: Vec::new(), scans: Vec::new(), heap: BinaryHeap::new(), reached: Vec::new(), kept: KEPT_MAX }
    }
}

/// The bundle of a search.
struct SearchLoad<'a> {
    volume: u64,
    latest: u64,
    priority: Priority,
    profile: Profile,
    booked: &'a Booked,
    /// Rate and transmission time of the last contact examined: contacts in a row often share a rate.
    cached: core::cell::Cell<(u64, u64)>,
}

impl SearchLoad<'_> {
    fn transmission_ns(&self, rate: DataRate) -> u64 {
        let (cached, time) = self.cached.get();
        if cached == rate.0 {
            return time;
        }
        let time = nanoseconds(rate.time_for(self.volume));
        self.cached.set((rate.0, time));
        time
    }
    /// Departure of the first byte and arrival of the last over a contact, for a bundle ready at `ready`. The last
    /// byte may leave exactly at the end.
    fn over(&self, edge: &PlacedContact, ready: u64) -> Option<(u64, u64)> {
        let taken = self.booked.bytes(edge.contact, self.priority);
        let mut first = ready.max(edge.start);
        let mut last = first.saturating_add(self.transmission_ns(edge.rate));
        if taken > 0 {
            let free = edge.start.saturating_add(nanoseconds(edge.rate.time_for(taken)));
            if free >= first {
                // Rounded once for both volumes, as one transmission.
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

    /// The best route from `origin` (`query.from` is ignored): earliest arrival, then fewest hops, latest
    /// termination, smallest entry node, and first contact of the plan. A contact is never waited for merely because
    /// it ends later.
    pub fn route_from(
        &mut self,
        index: &PlanIndex,
        origin: &Origin<'_>,
        query: &Query<'_>,
        booked: &Booked,
    ) -> Option<Route> {
        self.route_guided(index, origin, query, booked, None)
    }

    /// Like [`Planner::route_from`], guided by bounds that must serve the request.
    pub(super) fn route_guided(
        &mut self,
        index: &PlanIndex,
        origin: &Origin<'_>,
        query: &Query<'_>,
        booked: &Booked,
        bounds: Option<&SearchBounds>,
    ) -> Option<Route> {
        let volume = query.profile.volume(query.size);
        if origin.nodes.contains(&query.to) {
            let (arrival, until) = (query.at, PlanTime::MAX);
            return Some(Route { path: Vec::new(), arrival, until, volume, outside: None });
        }
        let load = SearchLoad {
            volume,
            latest: query.expires.0,
            priority: query.priority,
            profile: query.profile,
            booked,
            cached: core::cell::Cell::new((0, u64::MAX)),
        };
        let mut search = Search { index, origin, query, load, bounds, memory: self };
        let mut route = search.run();
        // Beyond the window the bounds do not cover all contacts.
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

    /// Planner that keeps all of its memory, for many nodes in turn.
    pub(super) fn shared() -> Planner {
        Planner { kept: usize::MAX, ..Planner::default() }
    }

    /// Bytes of working memory kept.
    pub fn memory(&self) -> usize {
        self.labels.capacity() * size_of::<Label>()
            + self.scans.capacity() * size_of::<Scan>()
            + self.heap.capacity() * size_of::<SearchKey>()
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

    /// Puts a scan on the heap, to continue once everything before this time was examined.
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

    /// Adds a path to a node whose remaining time is at least `left`.
    fn push(&mut self, label: Label, left: u64) {
        if left == u64::MAX {
            return; // no path within the window
        }
        let best = &mut self.reached[label.node as usize];
        if best.beats(label.arrival, label.hops) {
            return;
        }
        if (label.arrival, label.hops) < (best.arrival, best.hops) {
            (best.arrival, best.hops) = (label.arrival, label.hops);
        }
        let place = self.labels.len() as u32;
        // With bounds the heap is ordered by the earliest possible arrival at the destination.
        let whole = label.arrival.saturating_add(left);
        self.heap.push(Reverse((whole, label.hops, Reverse(label.until), label.entry, label.by.place(), place)));
        self.labels.push(label);
    }
}

/// State of one search.
struct Search<'a> {
    index: &'a PlanIndex,
    origin: &'a Origin<'a>,
    query: &'a Query<'a>,
    load: SearchLoad<'a>,
    bounds: Option<&'a SearchBounds>,
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

    /// Lower bound of a node's remaining time to the destination, ns; 0 without bounds.
    fn left(&self, place: u32) -> u64 {
        self.bounds.map_or(0, |bounds| bounds.left(place))
    }

    /// Puts the first labels on the heap. Returns the best direct route over a link outside the plan.
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
                continue; // already reached no later over no more hops
            }
            reached.settled = hops;
            if label.node == to {
                return Some(place);
            }
            self.expand(place, &label, to as usize);
        }
        None
    }

    /// Starts the scans of a node that was reached.
    fn expand(&mut self, place: u32, label: &Label, to: usize) {
        for lane in self.index.lanes(label.node) {
            let at = self.index.begin(lane, label.arrival);
            self.scan(Scan { label: place, lane, at }, None, to);
        }
    }

    /// Examines contacts in order of time, up to the first that must wait for something earlier on the heap; then the
    /// scan goes back to the heap.
    fn scan(&mut self, mut scan: Scan, place: Option<u32>, to: usize) {
        let (index, label) = (self.index, self.memory.labels[scan.label as usize]);
        let (lane, contacts) = index.lane(scan.lane);
        let left = self.bounds.map(|bounds| (bounds.left(label.node), bounds.until()));
        while let Some(passing) = contacts.get(scan.at as usize) {
            // Contacts after the earliest known arrival at the destination lead nowhere.
            let latest = self.load.latest.min(self.memory.reached.get(to).map_or(u64::MAX, |reached| reached.arrival));
            let soonest = label.arrival.max(passing.start).saturating_add(lane.delay_min);
            if soonest > latest {
                return;
            }
            // With bounds, light times are part of the remaining time.
            let key = left.map_or(soonest, |(left, _)| label.arrival.max(passing.start).saturating_add(left));
            if left.is_some_and(|(_, until)| passing.start >= until) {
                return;
            }
            if self.memory.heap.peek().is_some_and(|Reverse((first, ..))| *first < key) {
                // Labels must leave the heap in order, so the scan continues after the earlier one.
                return self.memory.later(key, scan, place);
            }
            scan.at += 1;
            self.take(scan.label, &label, passing, soonest, latest);
        }
    }

    /// Follows a contact to its receiver, unless that cannot help.
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

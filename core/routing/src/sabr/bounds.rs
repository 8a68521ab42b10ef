//! Lower bounds of the remaining time to a destination, which guide searches of large plans (A*; Hart, Nilsson,
//! Raphael 1968).
//!
//! A search examines all nodes that are reached before the destination. With a bound on the remaining time of each
//! node it examines those on the way first, and finds the same route: all labels of one node have the same bound and
//! keep their order. The bound of a node is the light and transmission time of the shortest path over contacts that
//! run at any time of a window, whether or not they follow each other. An arrival within the window cannot have used
//! contacts that begin after it, so such a route is the best of all; without one, the search is repeated without
//! bounds.

use super::Planner;
use crate::PlanTime;
use crate::contact_plan::nanoseconds;
use crate::plan_index::PlanIndex;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, NodeId};

/// Plans with fewer nodes are searched as fast without bounds.
const NODES_MIN: usize = 500;
/// Time for which a window serves, ns: longer windows give looser bounds, shorter ones are computed more often.
const SERVES: u64 = 120_000_000_000;
/// Length of a window beyond [`SERVES`], ns: a route that begins at the end of that time has this long to arrive within
/// the window.
const BEYOND: u64 = 10_000_000_000;
/// Maximum bytes of bounds kept; beyond that they are dropped and computed again on demand.
const KEPT_MAX: usize = 256 << 20;

/// Lower bounds to one destination, for each node of a plan.
#[derive(Debug)]
pub struct SearchBounds {
    index: Arc<PlanIndex>,
    to: NodeId,
    /// Start and end of the window, in nanoseconds of plan time.
    from: u64,
    until: u64,
    /// Smallest volume of a bundle for which the bounds hold, bytes.
    volume: u64,
    /// Remaining time by node index, ns; `u64::MAX` for nodes without a path in the window.
    left: Vec<u64>,
}

impl SearchBounds {
    /// Whether the bounds hold for a bundle of this volume to this node from this time on.
    pub(super) fn serves(&self, index: &PlanIndex, to: NodeId, at: PlanTime, volume: u64) -> bool {
        let here = core::ptr::eq(&*self.index, index) && self.to == to;
        here && (self.from..self.until).contains(&at.0) && volume >= self.volume
    }
    /// End of the window: later contacts and arrivals are not covered.
    pub(super) fn until(&self) -> u64 {
        self.until
    }
    /// Bound of the node with this index, ns.
    pub(super) fn left(&self, place: u32) -> u64 {
        self.left.get(place as usize).copied().unwrap_or(0)
    }
}

/// A contact of a window: transmitter, light time and rate.
#[derive(Clone, Copy, Debug)]
struct Into {
    from: u32,
    delay: u64,
    rate: DataRate,
}

/// Contacts that run at some time of a window, by receiver.
#[derive(Debug)]
struct BoundsWindow {
    index: Arc<PlanIndex>,
    from: u64,
    until: u64,
    /// Contacts into node `i` are `first[i]..first[i + 1]`.
    first: Vec<u32>,
    into: Vec<Into>,
    found: BTreeMap<(NodeId, u64), Arc<SearchBounds>>,
}

impl BoundsWindow {
    fn new(index: &Arc<PlanIndex>, from: u64, until: u64) -> BoundsWindow {
        let mut all: Vec<(u32, Into)> = Vec::new();
        for place in 0..index.nodes.len() as u32 {
            for lane in index.lanes(place) {
                let contacts = &index.lane(lane).1[index.begin(lane, from) as usize..];
                for passing in contacts.iter().take_while(|passing| passing.start < until) {
                    let edge = index.edge(passing);
                    if edge.end > from {
                        all.push((passing.to, Into { from: place, delay: edge.delay, rate: edge.rate }));
                    }
                }
            }
        }
        // The backward search asks for the contacts into a node.
        all.sort_by_key(|(to, _)| *to);
        let place = |node: usize| all.partition_point(|(to, _)| (*to as usize) < node) as u32;
        let first = (0..=index.nodes.len()).map(place).collect();
        let into = all.into_iter().map(|(_, into)| into).collect();
        BoundsWindow { index: index.clone(), from, until, first, into, found: BTreeMap::new() }
    }

    /// Dijkstra from the destination backwards.
    fn bounds(&self, to: NodeId, volume: u64) -> SearchBounds {
        let mut left = alloc::vec![u64::MAX; self.index.nodes.len()];
        let mut heap = BinaryHeap::with_capacity(left.len());
        if let Some(place) = self.index.place(to) {
            left[place as usize] = 0;
            heap.push(Reverse((0, place)));
        }
        // Contacts in a row often share a rate.
        let mut cached = (DataRate(0), 0);
        while let Some(Reverse((after, place))) = heap.pop() {
            // Entries are not removed when a shorter path is found, so outdated ones are skipped here.
            if after > left[place as usize] {
                continue;
            }
            let into = self.first[place as usize] as usize..self.first[place as usize + 1] as usize;
            for &Into { from, delay, rate } in &self.into[into] {
                if cached.0 != rate {
                    // The end of a booking is rounded up, so a transmission behind it may take a nanosecond less.
                    cached = (rate, nanoseconds(rate.time_for(volume)).saturating_sub(1));
                }
                let whole = after.saturating_add(delay).saturating_add(cached.1);
                if whole < left[from as usize] {
                    left[from as usize] = whole;
                    heap.push(Reverse((whole, from)));
                }
            }
        }
        SearchBounds { index: self.index.clone(), to, from: self.from, until: self.until, volume, left }
    }
}

/// State shared by all searches of a plan: bounds, computed on demand, and working memory.
#[derive(Debug)]
pub struct Guide {
    window: Option<BoundsWindow>,
    planner: Planner,
}
impl Default for Guide {
    fn default() -> Self {
        Guide { window: None, planner: Planner::shared() }
    }
}

impl Guide {
    /// Working memory for the next search.
    pub(super) fn planner(&mut self) -> &mut Planner {
        &mut self.planner
    }
    /// Bounds for a bundle of this volume to this node from this time on; `None` if the plan is small enough to be
    /// searched without bounds, or lacks the node.
    pub fn bounds(
        &mut self,
        index: &Arc<PlanIndex>,
        to: NodeId,
        at: PlanTime,
        volume: u64,
    ) -> Option<Arc<SearchBounds>> {
        if index.nodes.len() < NODES_MIN {
            return None;
        }
        index.place(to)?;
        let serves = |window: &BoundsWindow| {
            Arc::ptr_eq(&window.index, index) && (window.from..=window.from.saturating_add(SERVES)).contains(&at.0)
        };
        if !self.window.as_ref().is_some_and(serves) {
            self.window = Some(BoundsWindow::new(index, at.0, at.0.saturating_add(SERVES + BEYOND)));
        }
        let window = self.window.as_mut()?;
        // Sizes of headers differ by some bytes: a slightly lower volume serves many bundles.
        let volume = volume & !(u64::MAX >> 4).checked_shr(volume.leading_zeros()).unwrap_or(0);
        if let Some(known) = window.found.get(&(to, volume)) {
            return Some(known.clone());
        }
        if (window.found.len() + 1) * index.nodes.len() * size_of::<u64>() > KEPT_MAX {
            window.found.clear();
        }
        let bounds = Arc::new(window.bounds(to, volume));
        window.found.insert((to, volume), bounds.clone());
        Some(bounds)
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;

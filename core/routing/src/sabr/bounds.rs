//! How much is left to a destination at least: what guides searches of large plans (A*; Hart, Nilsson, Raphael 1968).
//!
//! A search looks at all nodes that are reached before the destination is. With a bound of what each has left to go it
//! looks first at those that lead there, and finds the same route: all ways to one node wait in the same order, and have
//! as much left. The bound of a node is the light time and the time of transmission of the shortest way over contacts
//! that run at some time of a window, whether they run one after the other or not. What arrives within the window
//! cannot have gone over contacts that begin after it, so that a route which does is the best of all; where none does,
//! the search is made anew without a guide.

use super::Planner;
use crate::PlanTime;
use crate::contact_plan::nanoseconds;
use crate::plan_index::PlanIndex;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, NodeId};

/// Plans with fewer nodes are searched as fast without.
const NODES_MIN: usize = 500;
/// How long a window serves, in nanoseconds: bounds for a longer one are looser, for a shorter one made more often.
const SERVES: u64 = 120_000_000_000;
/// How much longer it is: what begins at its end arrives within it.
const BEYOND: u64 = 10_000_000_000;
/// Most bytes of bounds kept; with more they are forgotten, and found anew as they are asked for.
const KEPT_MAX: usize = 256 << 20;

/// What is left to one destination at least, for each node of a plan.
#[derive(Debug)]
pub struct Bounds {
    index: Arc<PlanIndex>,
    to: NodeId,
    /// The window, in nanoseconds of plan time.
    from: u64,
    until: u64,
    /// For bundles of at least so many bytes.
    volume: u64,
    /// Nanoseconds by place; `u64::MAX`: no way leads there in the window.
    left: Vec<u64>,
}

impl Bounds {
    /// Whether it holds for a bundle that takes this volume of each contact, to this node, from this time on.
    pub(super) fn serves(&self, index: &PlanIndex, to: NodeId, at: PlanTime, volume: u64) -> bool {
        let here = core::ptr::eq(&*self.index, index) && self.to == to;
        here && (self.from..self.until).contains(&at.0) && volume >= self.volume
    }
    /// What begins then or arrives then is beyond what the bounds are made of.
    pub(super) fn until(&self) -> u64 {
        self.until
    }
    /// Of the node at a place.
    pub(super) fn left(&self, place: u32) -> u64 {
        self.left.get(place as usize).copied().unwrap_or(0)
    }
}

/// A contact of a window: who transmits, light time, and how fast.
#[derive(Clone, Copy, Debug)]
struct Into {
    from: u32,
    delay: u64,
    rate: DataRate,
}

/// The contacts that run at some time of a window, by receiver.
#[derive(Debug)]
struct Window {
    index: Arc<PlanIndex>,
    from: u64,
    until: u64,
    /// Those into the node at place `i` are `first[i]..first[i + 1]`.
    first: Vec<u32>,
    into: Vec<Into>,
    found: BTreeMap<(NodeId, u64), Arc<Bounds>>,
}

impl Window {
    fn new(index: &Arc<PlanIndex>, from: u64, until: u64) -> Window {
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
        all.sort_by_key(|(to, _)| *to);
        let place = |node: usize| all.partition_point(|(to, _)| (*to as usize) < node) as u32;
        let first = (0..=index.nodes.len()).map(place).collect();
        let into = all.into_iter().map(|(_, into)| into).collect();
        Window { index: index.clone(), from, until, first, into, found: BTreeMap::new() }
    }

    /// Dijkstra, from the destination backwards.
    fn bounds(&self, to: NodeId, volume: u64) -> Bounds {
        let mut left = alloc::vec![u64::MAX; self.index.nodes.len()];
        let mut heap = BinaryHeap::with_capacity(left.len());
        if let Some(place) = self.index.place(to) {
            left[place as usize] = 0;
            heap.push(Reverse((0, place)));
        }
        // Neighbours often share a rate.
        let mut cached = (DataRate(0), 0);
        while let Some(Reverse((after, place))) = heap.pop() {
            if after > left[place as usize] {
                continue;
            }
            let into = self.first[place as usize] as usize..self.first[place as usize + 1] as usize;
            for &Into { from, delay, rate } in &self.into[into] {
                if cached.0 != rate {
                    // Bookings round their ends up, so that behind one it may be less by a nanosecond.
                    cached = (rate, nanoseconds(rate.time_for(volume)).saturating_sub(1));
                }
                let whole = after.saturating_add(delay).saturating_add(cached.1);
                if whole < left[from as usize] {
                    left[from as usize] = whole;
                    heap.push(Reverse((whole, from)));
                }
            }
        }
        Bounds { index: self.index.clone(), to, from: self.from, until: self.until, volume, left }
    }
}

/// What all who search a plan have together: bounds, made as they are asked for, and the memory of their searches.
#[derive(Debug)]
pub struct Guide {
    window: Option<Window>,
    planner: Planner,
}
impl Default for Guide {
    fn default() -> Self {
        Guide { window: None, planner: Planner::shared() }
    }
}

impl Guide {
    /// For the next search.
    pub(super) fn planner(&mut self) -> &mut Planner {
        &mut self.planner
    }
    /// Bounds for a bundle to this node, from this time on, that takes this volume of each contact; `None`: the plan is
    /// small enough to be searched without, or does not have the node.
    pub fn bounds(&mut self, index: &Arc<PlanIndex>, to: NodeId, at: PlanTime, volume: u64) -> Option<Arc<Bounds>> {
        if index.nodes.len() < NODES_MIN {
            return None;
        }
        index.place(to)?;
        let serves = |window: &Window| {
            Arc::ptr_eq(&window.index, index) && (window.from..=window.from.saturating_add(SERVES)).contains(&at.0)
        };
        if !self.window.as_ref().is_some_and(serves) {
            self.window = Some(Window::new(index, at.0, at.0.saturating_add(SERVES + BEYOND)));
        }
        let window = self.window.as_mut()?;
        // Headers differ by some bytes: a little less serves many.
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

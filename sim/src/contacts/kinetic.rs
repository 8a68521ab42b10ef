//! Contacts of moving nodes: two are in contact while their distance is at most the radio's range. Start and end follow
//! from their two legs as roots of a quadratic equation, without time steps.
//!
//! One queue holds all future events: per node the end of its leg or the border of its cell, whichever is first; and
//! edges that are certain because they precede the end of both legs, so that none is ever withdrawn. A node that enters
//! a cell examines the three cells that are newly adjacent; one that begins a leg examines all nine, and its present
//! contacts. Every decision depends on the legs alone, and ties are broken by node index: the edges are the same for
//! every cell size.

use super::edge::{ContactEdge, Contacts, instant};
use super::grid::{Cell, Grid};
use crate::mobility::{Leg, Mobility, Point, advance};
use farlink_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Kinds of queued events, in their order at equal times.
const MOTION: u8 = 0;
const DOWN: u8 = 1;
const UP: u8 = 2;

/// Data of a node that computations for other nodes read; aligned to one cache line.
#[repr(align(64))]
struct Member {
    leg: Leg,
    cell: Cell,
    /// Index of the node in the scenario.
    node: u32,
}

/// Contacts of the nodes that share a radio.
pub struct Kinetic {
    radio: u16,
    /// Squared range, square metres.
    reach: f64,
    members: Vec<Member>,
    /// Per member its mobility, and the members in contact with it.
    motions: Vec<Box<dyn Mobility>>,
    hears: Vec<Vec<u32>>,
    grid: Grid,
    queue: BinaryHeap<Reverse<u128>>,
    /// Time of the last event taken from the queue.
    now: Instant,
}

impl Kinetic {
    /// Creates the contacts of nodes that share radio number `radio`, with a range in metres. `nodes`: each node's
    /// index in the scenario, and its mobility. Cells are as wide as the range, or wider if there are few nodes.
    pub fn new(radio: u16, range: f64, nodes: Vec<(u32, Box<dyn Mobility>)>) -> Kinetic {
        Kinetic::with_cells(radio, range, nodes, 0.0)
    }

    /// As [`Kinetic::new`], with cells of at least this width in metres, which affects only the computing time.
    pub fn with_cells(radio: u16, range: f64, mut nodes: Vec<(u32, Box<dyn Mobility>)>, cell: f64) -> Kinetic {
        // Ordered by node index, which breaks ties and lets `position` search.
        nodes.sort_by_key(|(node, _)| *node);
        nodes.dedup_by_key(|(node, _)| *node);
        let bounds = nodes.iter().map(|(_, motion)| motion.bounds());
        let grid = Grid::new(bounds, nodes.len(), range.max(cell));
        let member = |(node, mut motion): (u32, Box<dyn Mobility>)| {
            let leg = motion.first_leg();
            (Member { node, leg, cell: grid.cell_of(leg.from) }, motion)
        };
        let (members, motions): (Vec<Member>, Vec<_>) = nodes.into_iter().map(member).unzip();
        let (hears, queue, now) = (vec![Vec::new(); members.len()], BinaryHeap::new(), Instant::ZERO);
        let mut kinetic = Kinetic { radio, reach: range * range, members, motions, hears, grid, queue, now };
        for member in 0..kinetic.members.len() as u32 {
            kinetic.grid.enter(member, kinetic.members[member as usize].cell);
            kinetic.await_motion(member, 0.0);
        }
        for member in 0..kinetic.members.len() as u32 {
            kinetic.look(member, 0.0, kinetic.members[member as usize].cell.around());
        }
        kinetic
    }

    /// Position of a node at a time in seconds between the last edge taken and the next; `None` for a node without this
    /// radio.
    pub fn position(&self, node: u32, time_s: f64) -> Option<Point> {
        let place = self.members.binary_search_by_key(&node, |member| member.node).ok()?;
        Some(self.members[place].leg.at(time_s))
    }

    fn push(&mut self, time: f64, kind: u8, lower: u32, higher: u32) {
        // Rounding may place an event that is due now slightly in the past.
        let at = instant(time).max(self.now);
        if at < Instant::MAX {
            // One integer orders the queue: time (64 bits), kind (2), lower node (31), higher node (31).
            let nodes = u128::from(lower) << 31 | u128::from(higher);
            self.queue.push(Reverse(u128::from(at.0) << 64 | u128::from(kind) << 62 | nodes));
        }
    }

    fn push_edge(&mut self, time: f64, kind: u8, a: u32, b: u32) {
        self.push(time, kind, a.min(b), a.max(b));
    }

    fn motion(&self, member: u32) -> (f64, Option<Cell>) {
        // End of the leg, or earlier the border of the cell and the cell entered there.
        let Member { leg, cell, .. } = &self.members[member as usize];
        self.grid.exit(leg, *cell)
    }

    fn await_motion(&mut self, member: u32, now: f64) {
        let (time, _) = self.motion(member);
        self.push(time.max(now), MOTION, 0, member);
    }

    fn on_motion(&mut self, member: u32) {
        // `entered` is `None` if the leg ended, else the cell across the border.
        let (time, entered) = self.motion(member);
        let now = time.max(self.members[member as usize].leg.start);
        let here = self.members[member as usize].cell;
        if let Some(cell) = entered {
            self.grid.leave(member, here);
            self.grid.enter(member, cell);
            self.members[member as usize].cell = cell;
            self.await_motion(member, now);
            self.look(member, now, cell.news_from(here));
            return;
        }
        let own = &mut self.members[member as usize];
        own.leg = advance(self.motions[member as usize].as_mut(), &own.leg);
        own.cell = self.grid.cell_of(own.leg.from);
        let (leg, cell) = (own.leg, own.cell);
        if cell != here {
            self.grid.leave(member, here);
            self.grid.enter(member, cell);
        }
        self.await_motion(member, leg.start);
        for place in 0..self.hears[member as usize].len() {
            let other = self.hears[member as usize][place];
            self.await_end(member, other, leg.start);
        }
        self.look(member, leg.start, cell.around());
    }

    fn range(&self, one: u32, other: u32) -> Option<(f64, f64)> {
        // Interval in which two members are in range, as if their legs had no ends; none if they never are, or only for
        // an instant. The origin is the start of the later leg, the same for both callers, and the roots use the form
        // without cancellation.
        let (a, b) = (&self.members[one.min(other) as usize].leg, &self.members[one.max(other) as usize].leg);
        let origin = a.start.max(b.start);
        let (p, q) = (a.at(origin), b.at(origin));
        let (x, y) = (q[0] - p[0], q[1] - p[1]);
        let (u, v) = (b.velocity[0] - a.velocity[0], b.velocity[1] - a.velocity[1]);
        // |(x, y) + t (u, v)|^2 = reach, written as w t^2 + 2 h t + c = 0.
        let (w, h, c) = (u * u + v * v, x * u + y * v, x * x + y * y - self.reach);
        // Equal velocities keep the distance constant.
        if w == 0.0 {
            return (c <= 0.0).then_some((f64::NEG_INFINITY, f64::INFINITY));
        }
        // Outside the range and not approaching.
        if c > 0.0 && h >= 0.0 {
            return None;
        }
        let discriminant = h * h - w * c;
        if discriminant <= 0.0 {
            return None;
        }
        let root = discriminant.sqrt();
        let (enters, leaves) =
            if h < 0.0 { (c / (root - h), (root - h) / w) } else { ((-h - root) / w, -c / (h + root)) };
        Some((origin + enters, origin + leaves))
    }

    fn certain_until(&self, one: u32, other: u32) -> f64 {
        // Events before the end of the earlier leg are certain.
        self.members[one as usize].leg.end.min(self.members[other as usize].leg.end)
    }

    fn look(&mut self, member: u32, now: f64, cells: [Cell; 9]) {
        // Only starts before the end of both legs are queued, so that none is ever withdrawn.
        for cell in cells.into_iter().filter(|cell| *cell != Cell::NONE) {
            let mut next = self.grid.first(cell);
            while let Some(other) = next {
                next = self.grid.after(other);
                let range = self.range(member, other).filter(|_| other != member);
                let Some((enters, leaves)) = range else { continue };
                let time = enters.max(now);
                let certain = time < self.certain_until(member, other) && leaves > time;
                if certain && !self.hears[member as usize].contains(&other) {
                    self.push_edge(time, UP, member, other);
                }
            }
        }
    }

    fn await_end(&mut self, one: u32, other: u32, now: f64) {
        // An uncertain end is not queued: the node whose leg ends first examines its contacts again.
        let time = self.range(one, other).map_or(now, |(_, leaves)| leaves.max(now));
        if time < self.certain_until(one, other) {
            self.push_edge(time, DOWN, one, other);
        }
    }

    fn on_edge(&mut self, at: Instant, up: bool, a: u32, b: u32) -> bool {
        // Check a queued edge again: legs that ended at this very nanosecond have been replaced, and their new edges
        // are queued separately.
        if self.hears[a as usize].contains(&b) == up {
            return false;
        }
        let range = self.range(a, b);
        let left = range.is_none_or(|(_, leaves)| instant(leaves) <= at);
        if up {
            if left || range.is_some_and(|(enters, _)| instant(enters) > at) {
                return false;
            }
            self.hears[a as usize].push(b);
            self.hears[b as usize].push(a);
            self.await_end(a, b, 0.0);
        } else {
            if !left {
                return false;
            }
            self.hears[a as usize].retain(|other| *other != b);
            self.hears[b as usize].retain(|other| *other != a);
        }
        true
    }
}

impl Contacts for Kinetic {
    fn next(&mut self, until: Instant) -> Option<ContactEdge> {
        loop {
            let &Reverse(key) = self.queue.peek()?;
            let at = Instant((key >> 64) as u64);
            if at > until {
                return None;
            }
            self.queue.pop();
            self.now = at;
            let (kind, a, b) = ((key >> 62) as u8 & 3, (key >> 31) as u32 & 0x7fff_ffff, key as u32 & 0x7fff_ffff);
            if kind == MOTION {
                self.on_motion(b);
            } else if self.on_edge(at, kind == UP, a, b) {
                let [a, b] = [a, b].map(|member| self.members[member as usize].node);
                return Some(ContactEdge { at, a, b, radio: self.radio, up: kind == UP });
            }
        }
    }
}

#[cfg(test)]
#[path = "kinetic_tests.rs"]
mod tests;

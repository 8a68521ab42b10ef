//! Contacts of nodes that move: two hear each other while they are no farther apart than the radio
//! reaches. When that begins and ends follows from their two legs, by the roots of a quadratic
//! equation; nothing is stepped through.
//!
//! One queue holds all that is to come: for each node the end of its leg or the border of its cell,
//! whichever is first; and edges that are certain, for they come before either leg ends, so that none
//! is ever taken back. Who enters a cell looks at the three cells it is new next to; who begins a leg
//! looks at all nine around it and at whom it hears. Everything that decides is computed from the legs
//! alone, and ties are broken by the nodes: the edges are the same for every size of the cells.

use super::edge::{ContactEdge, Contacts, instant};
use super::grid::{Cell, Grid};
use crate::mobility::{Leg, Mobility, Point, advance};
use farlink_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is to come, in the order of its kinds at one time.
const MOTION: u8 = 0;
const DOWN: u8 = 1;
const UP: u8 = 2;

/// One node, as far as others look at it: a line of the cache.
#[repr(align(64))]
struct Member {
    leg: Leg,
    cell: Cell,
    /// Its place in the scenario.
    node: u32,
}

/// The contacts of the nodes that have one radio.
pub struct Kinetic {
    radio: u16,
    /// The range, squared, in square metres.
    reach: f64,
    members: Vec<Member>,
    /// Per member what moves it, and the members it hears.
    motions: Vec<Box<dyn Mobility>>,
    hears: Vec<Vec<u32>>,
    grid: Grid,
    queue: BinaryHeap<Reverse<u128>>,
    /// The time of what was taken from it last.
    now: Instant,
}

impl Kinetic {
    /// The nodes that have a radio of this range (metres), each with its place in the scenario, and how
    /// they move. Cells are as wide as the range, or wider where there are few nodes.
    pub fn new(radio: u16, range: f64, nodes: Vec<(u32, Box<dyn Mobility>)>) -> Kinetic {
        Kinetic::with_cells(radio, range, nodes, 0.0)
    }

    /// The same with cells of at least this width (metres): it changes how long the work takes, and
    /// nothing else.
    pub fn with_cells(radio: u16, range: f64, mut nodes: Vec<(u32, Box<dyn Mobility>)>, cell: f64) -> Kinetic {
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

    /// Where a node is at a time in seconds, which lies between the last edge that was asked for and the next.
    pub fn position(&self, node: u32, time_s: f64) -> Option<Point> {
        let place = self.members.binary_search_by_key(&node, |member| member.node).ok()?;
        Some(self.members[place].leg.at(time_s))
    }

    fn push(&mut self, time: f64, kind: u8, lower: u32, higher: u32) {
        // Rounding may put what is due now a little before it.
        let at = instant(time).max(self.now);
        if at < Instant::MAX {
            let nodes = u128::from(lower) << 31 | u128::from(higher);
            self.queue.push(Reverse(u128::from(at.0) << 64 | u128::from(kind) << 62 | nodes));
        }
    }

    fn push_edge(&mut self, time: f64, kind: u8, a: u32, b: u32) {
        self.push(time, kind, a.min(b), a.max(b));
    }

    /// When a member's leg ends, or, before that, it enters another cell; and which.
    fn motion(&self, member: u32) -> (f64, Option<Cell>) {
        let Member { leg, cell, .. } = &self.members[member as usize];
        self.grid.exit(leg, *cell)
    }

    fn await_motion(&mut self, member: u32, now: f64) {
        let (time, _) = self.motion(member);
        self.push(time.max(now), MOTION, 0, member);
    }

    /// A member's leg ended, or it comes to the border of its cell.
    fn on_motion(&mut self, member: u32) {
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

    /// When two members are in range, by their legs as if those had no ends: from and until. None: never,
    /// or no longer than a moment.
    ///
    /// The roots are taken from the moment at which the later of the two legs starts, which is the same
    /// whoever asks, and in the form in which nothing cancels out.
    fn range(&self, one: u32, other: u32) -> Option<(f64, f64)> {
        let (a, b) = (&self.members[one.min(other) as usize].leg, &self.members[one.max(other) as usize].leg);
        let origin = a.start.max(b.start);
        let (p, q) = (a.at(origin), b.at(origin));
        let (x, y) = (q[0] - p[0], q[1] - p[1]);
        let (u, v) = (b.velocity[0] - a.velocity[0], b.velocity[1] - a.velocity[1]);
        // |(x, y) + t (u, v)|^2 = reach, as w t^2 + 2 h t + c = 0.
        let (w, h, c) = (u * u + v * v, x * u + y * v, x * x + y * y - self.reach);
        if w == 0.0 {
            return (c <= 0.0).then_some((f64::NEG_INFINITY, f64::INFINITY));
        }
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

    /// The time at which the first leg of two ends: what comes before it is certain.
    fn certain_until(&self, one: u32, other: u32) -> f64 {
        self.members[one as usize].leg.end.min(self.members[other as usize].leg.end)
    }

    /// Looks for members in some cells that a member will hear.
    fn look(&mut self, member: u32, now: f64, cells: [Cell; 9]) {
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

    /// Waits for the time at which two that hear each other do no longer.
    fn await_end(&mut self, one: u32, other: u32, now: f64) {
        let time = self.range(one, other).map_or(now, |(_, leaves)| leaves.max(now));
        if time < self.certain_until(one, other) {
            self.push_edge(time, DOWN, one, other);
        }
    }

    /// An edge that was certain is there: whether it still is one. Legs that ended at this very
    /// nanosecond have gone on by now; what their next ones bring is in the queue by itself.
    fn on_edge(&mut self, at: Instant, up: bool, a: u32, b: u32) -> bool {
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

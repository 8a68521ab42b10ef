//! Who is within whose range, found as The ONE finds it: a grid in which hosts are entered when they
//! are updated, the cells around searched in order. That search runs only for a host whose contacts
//! may have changed; [`Nearness`] says when, from the speeds.

use super::map::Point;
use std::collections::HashMap;

/// The grid of one kind of interface.
pub struct Grid {
    side: f64,
    cells: HashMap<[i32; 2], Vec<u32>>,
    /// Of each interface, its cell and the square within which it surely stays there.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    cell: [i32; 2],
    low: Point,
    high: Point,
}

impl Grid {
    /// Cells of `side` metres; nobody is in it.
    pub fn new(side: f64, interfaces: usize) -> Grid {
        let nowhere = Place { cell: [i32::MIN; 2], low: [f64::INFINITY; 2], high: [f64::NEG_INFINITY; 2] };
        Grid { side, cells: HashMap::new(), places: vec![nowhere; interfaces] }
    }
    /// Enters an interface where every one begins: in a corner outside the world.
    pub fn enter(&mut self, interface: u32) {
        self.places[interface as usize].cell = [0, 0];
        self.cells.entry([0, 0]).or_default().push(interface);
    }
    /// Notes where an interface is; into another cell it comes last.
    #[inline]
    pub fn update(&mut self, interface: u32, at: Point) {
        let place = &self.places[interface as usize];
        let inside = at[0] > place.low[0] && at[0] < place.high[0] && at[1] > place.low[1] && at[1] < place.high[1];
        if !inside {
            self.change(interface, at);
        }
    }
    fn change(&mut self, interface: u32, at: Point) {
        // Counted from 1: row and column 0 lie outside the world.
        let cell = [(at[0] / self.side) as i32 + 1, (at[1] / self.side) as i32 + 1];
        let old = self.places[interface as usize].cell;
        if old != cell {
            if let Some(list) = self.cells.get_mut(&old) {
                list.retain(|&other| other != interface);
            }
            self.cells.entry(cell).or_default().push(interface);
        }
        // A little less than the cell: at its very border the division above decides.
        let slack = self.side * 1e-9;
        let low = [0, 1].map(|axis| f64::from(cell[axis] - 1) * self.side + slack);
        let high = [0, 1].map(|axis| f64::from(cell[axis]) * self.side - slack);
        self.places[interface as usize] = Place { cell, low, high };
    }
    /// Those in the nine cells around an interface, in the order in which they are found.
    pub fn around(&self, interface: u32, found: &mut Vec<u32>) {
        found.clear();
        let [column, row] = self.places[interface as usize].cell;
        for row in row - 1..=row + 1 {
            for column in column - 1..=column + 1 {
                if let Some(list) = self.cells.get(&[column, row]) {
                    found.extend(list);
                }
            }
        }
    }
}

/// Who is near whom, so that a host far from every border of a range need not be looked at for some
/// steps. It never decides a contact.
pub struct Nearness {
    /// Steps for which the lists hold.
    holds: u64,
    /// Steps after which they are made anew.
    until: u64,
    /// What is looked for: the longest range and a margin.
    reach: f64,
    /// Metres that two come nearer in a step, at most.
    closing: f64,
    /// Of interface `i`: `near[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    near: Vec<u32>,
    /// Up to which step the contacts of each interface surely stay as they are.
    quiet: Vec<u64>,
}

impl Nearness {
    /// For interfaces of at most `range` metres, which move at most `fastest` metres a step.
    pub fn new(range: f64, fastest: f64, interfaces: usize) -> Nearness {
        let closing = 2.0 * fastest;
        let margin = (range / 2.0).max(closing * 32.0);
        let holds = if closing > 0.0 { (margin / closing) as u64 } else { u64::MAX };
        let quiet = vec![0; interfaces];
        Nearness { holds, until: 0, reach: range + margin, closing, first: Vec::new(), near: Vec::new(), quiet }
    }
    /// Whether an interface need not be looked at in this step.
    #[inline]
    pub fn is_quiet(&self, interface: u32, step: u64) -> bool {
        self.quiet[interface as usize] > step
    }
    /// From now on it must be looked at.
    pub fn wake(&mut self, interface: u32) {
        self.quiet[interface as usize] = 0;
    }
    /// Those near an interface.
    pub fn of(&self, interface: u32) -> &[u32] {
        let [begin, end] = [0, 1].map(|more| self.first[interface as usize + more] as usize);
        &self.near[begin..end]
    }
    /// The contacts of an interface are as they should be, and every border is at least `slack` metres
    /// away.
    pub fn rest(&mut self, interface: u32, step: u64, slack: f64) {
        let slack = slack.min(self.reach);
        let steps = if self.closing > 0.0 { (slack * (1.0 - 1e-6) / self.closing) as u64 } else { u64::MAX / 2 };
        self.quiet[interface as usize] = (step + steps).min(self.until).max(step + 1);
    }
    /// Makes the lists anew where they no longer hold.
    #[inline]
    pub fn begin(&mut self, step: u64, at: impl Fn(u32) -> Point) {
        if step >= self.until {
            self.list(at);
            self.until = step.saturating_add(self.holds.max(1));
            self.quiet.fill(0);
        }
    }
    fn list(&mut self, at: impl Fn(u32) -> Point) {
        let count = self.quiet.len() as u32;
        let points: Vec<Point> = (0..count).map(at).collect();
        let mut cells: HashMap<[i64; 2], Vec<u32>> = HashMap::new();
        let cell = |point: Point| point.map(|length| (length / self.reach).floor() as i64);
        for (interface, &point) in points.iter().enumerate() {
            cells.entry(cell(point)).or_default().push(interface as u32);
        }
        self.first.clear();
        self.near.clear();
        for (interface, &point) in points.iter().enumerate() {
            self.first.push(self.near.len() as u32);
            let [column, row] = cell(point);
            for around in (0..9).map(|n| [column - 1 + n % 3, row - 1 + n / 3]) {
                let Some(list) = cells.get(&around) else { continue };
                let near = |&other: &u32| {
                    let there = points[other as usize];
                    let (x, y) = (there[0] - point[0], there[1] - point[1]);
                    other != interface as u32 && x * x + y * y <= self.reach * self.reach
                };
                self.near.extend(list.iter().copied().filter(near));
            }
        }
        self.first.push(self.near.len() as u32);
    }
}

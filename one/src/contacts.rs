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
    /// Notes where an interface is; into another cell it comes last. Metres to the border of its cell.
    pub fn update(&mut self, interface: u32, at: Point) -> f64 {
        if self.border(interface, at) <= 0.0 {
            self.change(interface, at);
        }
        self.border(interface, at).max(0.0)
    }
    fn border(&self, interface: u32, at: Point) -> f64 {
        let Place { low, high, .. } = self.places[interface as usize];
        let axis = |axis: usize| (at[axis] - low[axis]).min(high[axis] - at[axis]);
        axis(0).min(axis(1))
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
    /// Step from which on they no longer do.
    until: u64,
    /// What is looked for: the longest range and a margin.
    reach: f64,
    /// Metres that one host moves in a step, at most.
    fastest: f64,
    /// Of interface `i`: `near[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    near: Vec<u32>,
}

impl Nearness {
    /// For interfaces of at most `range` metres, which move at most `fastest` metres a step.
    pub fn new(range: f64, fastest: f64) -> Nearness {
        // Wide enough to last, not so wide that everybody is near.
        let margin = (range / 2.0).max(fastest * 64.0).max((fastest * 256.0).min(range));
        // Two that come towards each other close the margin twice as fast.
        let holds = whole_steps(margin, 2.0 * fastest).max(1);
        Nearness { holds, until: 0, reach: range + margin, fastest, first: Vec::new(), near: Vec::new() }
    }
    /// Those near an interface.
    pub fn of(&self, interface: u32) -> &[u32] {
        let [begin, end] = [0, 1].map(|more| self.first[interface as usize + more] as usize);
        &self.near[begin..end]
    }
    /// The step up to which an interface need not be looked at, being `border` metres from the border of
    /// its cell and `slack` from that of a range; without a slack its contacts are not as they should be.
    pub fn quiet_until(&self, step: u64, border: f64, slack: Option<f64>) -> u64 {
        let Some(slack) = slack else { return 0 };
        let steps = whole_steps(border, self.fastest).min(whole_steps(slack, 2.0 * self.fastest)).max(1);
        step.saturating_add(steps).min(self.until)
    }
    /// Makes the lists of `count` interfaces anew where they no longer hold; whether it did.
    pub fn begin(&mut self, step: u64, count: usize, at: impl Fn(u32) -> Point) -> bool {
        let old = step >= self.until;
        if old {
            let points: Vec<Point> = (0..count as u32).map(at).collect();
            self.list(&points);
            self.until = step.saturating_add(self.holds);
        }
        old
    }
    fn list(&mut self, points: &[Point]) {
        let cell = |point: Point| point.map(|length| (length / self.reach).floor() as i64);
        let numbers = points.iter().zip(0u32..);
        let mut sorted: Vec<([i64; 2], u32)> = numbers.map(|(&point, number)| (cell(point), number)).collect();
        sorted.sort_unstable();
        self.first.clear();
        self.near.clear();
        for (number, &point) in points.iter().enumerate() {
            self.first.push(self.near.len() as u32);
            let [column, row] = cell(point);
            for column in column - 1..=column + 1 {
                let begin = sorted.partition_point(|(cell, _)| *cell < [column, row - 1]);
                let cells = sorted[begin..].iter().take_while(|(cell, _)| *cell <= [column, row + 1]);
                let near = |&other: &u32| {
                    let there = points[other as usize];
                    let (x, y) = (there[0] - point[0], there[1] - point[1]);
                    other != number as u32 && x * x + y * y <= self.reach * self.reach
                };
                self.near.extend(cells.map(|(_, other)| *other).filter(near));
            }
        }
        self.first.push(self.near.len() as u32);
    }
}

/// Steps of so many metres that surely fit into a length.
fn whole_steps(length: f64, metres: f64) -> u64 {
    if metres > 0.0 { (length * (1.0 - 1e-6) / metres) as u64 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::java::Random;

    #[test]
    fn moved_host_goes_last_in_cell() {
        let mut grid = Grid::new(100.0, 4);
        (0..4).for_each(|interface| grid.enter(interface));
        let mut found = Vec::new();
        grid.update(2, [150.0, 50.0]);
        grid.update(0, [120.0, 10.0]);
        grid.update(3, [10.0, 10.0]);
        grid.around(0, &mut found);
        // By rows, then columns, then as they came; 1 is still outside the world, a cell further.
        assert_eq!(found, [3, 2, 0]);
        grid.around(3, &mut found);
        assert_eq!(found, [1, 3, 2, 0]);
    }

    #[test]
    fn cell_border_distance_is_exact() {
        let mut grid = Grid::new(100.0, 1);
        grid.enter(0);
        assert!((grid.update(0, [150.0, 230.0]) - 30.0).abs() < 1e-3);
        assert!(grid.update(0, [200.0, 200.0]) < 1e-3);
        assert_eq!(grid.places[0].cell, [3, 3]);
    }

    /// Hosts that wander as fast as they may: nobody comes into or out of range while it is quiet.
    #[test]
    fn quiet_host_changes_nothing() {
        const RANGE: f64 = 60.0;
        let mut random = Random::new(4);
        let mut points: Vec<Point> = (0..40).map(|_| [random.unit() * 500.0, random.unit() * 500.0]).collect();
        let mut nearness = Nearness::new(RANGE, 0.5);
        let mut quiet = vec![0; points.len()];
        let mut before: Vec<Vec<bool>> = vec![Vec::new(); points.len()];
        let (mut looked, mut kept) = (0, 0);
        for step in 0..400 {
            if nearness.begin(step, points.len(), |number| points[number as usize]) {
                quiet.fill(0);
            }
            for host in 0..points.len() {
                let far = |other: usize| crate::map::distance(points[host], points[other]);
                let now: Vec<bool> = (0..points.len()).map(|other| far(other) <= RANGE).collect();
                if quiet[host] > step {
                    assert_eq!(before[host], now, "host {host} in step {step}");
                    kept += 1;
                    continue;
                }
                let near = nearness.of(host as u32);
                assert!((0..points.len()).all(|other| other == host || !now[other] || near.contains(&(other as u32))));
                let slack = near.iter().map(|&other| (far(other as usize) - RANGE).abs()).fold(f64::INFINITY, f64::min);
                quiet[host] = nearness.quiet_until(step, f64::INFINITY, Some(slack));
                before[host] = now;
                looked += 1;
            }
            for point in &mut points {
                let angle = random.unit() * 7.0;
                *point = [point[0] + 0.5 * angle.cos(), point[1] + 0.5 * angle.sin()];
            }
        }
        assert!(kept > looked, "{kept} quiet, {looked} looked at");
    }

    #[test]
    fn stationary_hosts_are_checked_once() {
        let nearness = Nearness { until: u64::MAX, ..Nearness::new(50.0, 0.0) };
        assert!(nearness.quiet_until(0, 10.0, Some(3.0)) > 1 << 60);
        assert_eq!(nearness.quiet_until(7, 10.0, None), 0);
    }
}

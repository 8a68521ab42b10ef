//! Contact detection with The ONE's grid: hosts are entered into cells as they are updated, and the nine cells around a
//! host are searched in order. A search runs only for a host whose contacts may have changed; [`Nearness`] computes
//! that from the speeds.

use super::map::Point;
use std::collections::HashMap;

/// Cell of the point (0, 0). Rows and columns are counted from 1; row 0 and column 0 lie outside the world.
const ORIGIN: [i32; 2] = [1, 1];

/// Grid of one kind of interface.
pub struct Grid {
    side: f64,
    /// Number of columns and rows of the world.
    size: [i32; 2],
    cells: HashMap<[i32; 2], Vec<u32>>,
    /// Cell of each interface, and the square inside which it certainly stays in that cell.
    places: Vec<GridPlace>,
}

#[derive(Clone, Copy)]
struct GridPlace {
    cell: [i32; 2],
    low: Point,
    high: Point,
}

impl Grid {
    /// Makes an empty grid with cells of `side` metres in a world of `area` metres.
    pub fn new(side: f64, area: Point, interfaces: usize) -> Grid {
        let nowhere = GridPlace { cell: [i32::MIN; 2], low: [f64::INFINITY; 2], high: [f64::NEG_INFINITY; 2] };
        let size = area.map(|length| (length / side) as i32 + 1);
        Grid { side, size, cells: HashMap::new(), places: vec![nowhere; interfaces] }
    }
    /// Enters an interface into the cell of the point (0, 0), where The ONE enters every interface before it places the
    /// hosts.
    pub fn enter(&mut self, interface: u32) {
        self.places[interface as usize].cell = ORIGIN;
        self.cells.entry(ORIGIN).or_default().push(interface);
    }
    /// Records an interface's position and returns the distance to its cell's border, metres. An interface that enters
    /// a cell goes to the end of the cell's list.
    pub fn update(&mut self, interface: u32, at: Point) -> f64 {
        if self.border(interface, at) <= 0.0 {
            self.change(interface, at);
        }
        self.border(interface, at).max(0.0)
    }
    fn border(&self, interface: u32, at: Point) -> f64 {
        let GridPlace { low, high, .. } = self.places[interface as usize];
        let axis = |axis: usize| (at[axis] - low[axis]).min(high[axis] - at[axis]);
        axis(0).min(axis(1))
    }
    fn change(&mut self, interface: u32, at: Point) {
        let cell = [0, 1].map(|axis| (at[axis] / self.side) as i32 + ORIGIN[axis]);
        let old = self.places[interface as usize].cell;
        if old != cell {
            // A cell lists its interfaces in order of arrival. The ONE searches them in this order, which decides who
            // connects first.
            if let Some(list) = self.cells.get_mut(&old) {
                list.retain(|&other| other != interface);
            }
            self.cells.entry(cell).or_default().push(interface);
        }
        // The square is a little smaller than the cell, so that a position at the very border is assigned by the
        // division above.
        let slack = self.side * 1e-9;
        let low = [0, 1].map(|axis| f64::from(cell[axis] - 1) * self.side + slack);
        let high = [0, 1].map(|axis| f64::from(cell[axis]) * self.side - slack);
        self.places[interface as usize] = GridPlace { cell, low, high };
    }
    /// Whether an interface is in a cell of the world; The ONE ends with an error where one is not.
    pub fn holds(&self, interface: u32) -> bool {
        let cell = self.places[interface as usize].cell;
        [0, 1].iter().all(|&axis| (ORIGIN[axis]..=self.size[axis]).contains(&cell[axis]))
    }
    /// Collects the interfaces of the nine cells around an interface, in search order.
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

/// Pairs of hosts near each other, so that a host far from every range border can skip some steps. The lists never
/// decide a contact.
pub struct Nearness {
    holds: u64,
    /// Step at which the lists expire.
    until: u64,
    /// Search radius: longest range plus margin.
    reach: f64,
    /// Longest distance a host moves in a step, metres.
    fastest: f64,
    /// Neighbours of interface `i` are `near[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    near: Vec<u32>,
}

impl Nearness {
    /// Makes empty lists for interfaces whose range is at most `range` metres and that move at most `fastest` metres a
    /// step.
    pub fn new(range: f64, fastest: f64) -> Nearness {
        // The margin is at least as long as 64 steps of the fastest host, or 256 if these fit into the range: wide
        // enough for the lists to last many steps, and narrow enough to keep them short.
        let margin = (range / 2.0).max(fastest * 64.0).max((fastest * 256.0).min(range));
        // Two hosts that approach each other close the margin at twice the speed.
        let holds = whole_steps(margin, 2.0 * fastest).max(1);
        Nearness { holds, until: 0, reach: (range + margin).max(1.0), fastest, first: Vec::new(), near: Vec::new() }
    }
    /// Interfaces that may come into range of an interface before the lists expire.
    pub fn of(&self, interface: u32) -> &[u32] {
        let [begin, end] = [0, 1].map(|more| self.first[interface as usize + more] as usize);
        &self.near[begin..end]
    }
    /// Step until which an interface can be skipped, given the distances to its cell's border (`border`) and to the
    /// nearest range border (`slack`). `None` for `slack` means that the interface's contacts are out of date; the
    /// result is then 0.
    pub fn quiet_until(&self, step: u64, border: f64, slack: Option<f64>) -> u64 {
        // An update is due at once when a contact must still be made or broken.
        let Some(slack) = slack else { return 0 };
        let steps = whole_steps(border, self.fastest).min(whole_steps(slack, 2.0 * self.fastest)).max(1);
        step.saturating_add(steps).min(self.until)
    }
    /// Rebuilds the lists of `count` interfaces if they have expired; returns whether it did.
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
        // Cells as wide as the reach: all neighbours lie in the 3 x 3 cells around a point.
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
                // Sorted by column, then row, so three cells of a column are one contiguous slice.
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

/// Number of steps of `metres` each that certainly fit into `length`.
fn whole_steps(length: f64, metres: f64) -> u64 {
    // Rounded down by a millionth, so that rounding errors never skip a step that is needed.
    if metres > 0.0 { (length * (1.0 - 1e-6) / metres) as u64 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::java::Random;

    #[test]
    fn moved_host_goes_last_in_cell() {
        let mut grid = Grid::new(100.0, [500.0; 2], 4);
        (0..4).for_each(|interface| grid.enter(interface));
        let mut found = Vec::new();
        grid.update(2, [150.0, 50.0]);
        grid.update(0, [120.0, 10.0]);
        grid.update(3, [10.0, 10.0]);
        grid.around(0, &mut found);
        // By row, then by column, then by arrival. Interface 1 was never updated, and interface 3 did not leave the
        // cell in which it began, so neither is behind the others of that cell.
        assert_eq!(found, [1, 3, 2, 0]);
        grid.update(1, [250.0, 10.0]);
        grid.update(1, [10.0, 10.0]);
        grid.around(3, &mut found);
        assert_eq!(found, [3, 1, 2, 0]);
    }

    #[test]
    fn cell_border_distance_is_exact() {
        let mut grid = Grid::new(100.0, [500.0; 2], 1);
        // 30 m below the upper border of the cell, whose borders are multiples of 100 m.
        grid.enter(0);
        assert!((grid.update(0, [150.0, 230.0]) - 30.0).abs() < 1e-3);
        assert!(grid.update(0, [200.0, 200.0]) < 1e-3);
        assert_eq!(grid.places[0].cell, [3, 3]);
    }

    #[test]
    fn grid_ends_with_its_last_whole_cell() {
        // A world of 250 m has three columns of 100 m; the cell of a point just below 0 is the first one, by rounding
        // towards 0.
        let mut grid = Grid::new(100.0, [250.0; 2], 1);
        grid.enter(0);
        for (at, holds) in [(-99.0, true), (-100.0, false), (0.0, true), (299.0, true), (300.0, false)] {
            grid.update(0, [at, 10.0]);
            assert_eq!(grid.holds(0), holds, "{at}");
        }
    }

    #[test]
    fn quiet_host_changes_nothing() {
        // Hosts wander at their highest speed; no contact of a host may change before its [`Nearness::quiet_until`].
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
        // At speed zero the number of steps is unbounded and must not overflow.
        let nearness = Nearness { until: u64::MAX, ..Nearness::new(50.0, 0.0) };
        assert!(nearness.quiet_until(0, 10.0, Some(3.0)) > 1 << 60);
        assert_eq!(nearness.quiet_until(7, 10.0, None), 0);
    }
}

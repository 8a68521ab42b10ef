//! Grid over the plane, so that a node is compared only with those near it.
//!
//! Cells are at least as wide as the range: two nodes in range are in the same or in adjacent cells. Cells at the
//! border extend without end, so that no position is outside; nodes in range are in adjacent cells there, too.

use crate::mobility::{Leg, Point};

/// Cell of the grid: column and row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell(i32, i32);

impl Cell {
    /// Placeholder in lists of cells.
    pub const NONE: Cell = Cell(-2, -2);

    /// The cell and the eight around it; some may be outside the grid.
    pub fn around(self) -> [Cell; 9] {
        std::array::from_fn(|n| Cell(self.0 + n as i32 % 3 - 1, self.1 + n as i32 / 3 - 1))
    }
    /// Cells around this one that are not around `other`; [`Cell::NONE`] in place of the rest.
    pub fn news_from(self, other: Cell) -> [Cell; 9] {
        let is_old = |cell: &Cell| (cell.0 - other.0).abs() <= 1 && (cell.1 - other.1).abs() <= 1;
        self.around().map(|cell| if is_old(&cell) { Cell::NONE } else { cell })
    }
}

/// Members of each cell.
pub(super) struct Grid {
    origin: Point,
    /// Width of a cell, metres.
    side: f64,
    columns: i32,
    rows: i32,
    /// Per cell its newest member, and per member the one before it: linked lists in two arrays that stay in the cache.
    heads: Vec<u32>,
    next: Vec<u32>,
}

const NOBODY: u32 = u32::MAX;

impl Grid {
    /// Largest number of columns and rows: bounds the number of cells, however wide the plane.
    const SIDES_MAX: f64 = 1e6;

    /// Makes a grid for nodes that move roughly within these bounds; `range` is in metres.
    pub fn new(bounds: impl Iterator<Item = [Point; 2]>, nodes: usize, range: f64) -> Grid {
        let join = |a: [Point; 2], b: [Point; 2]| {
            [[a[0][0].min(b[0][0]), a[0][1].min(b[0][1])], [a[1][0].max(b[1][0]), a[1][1].max(b[1][1])]]
        };
        let [origin, end] = bounds.reduce(join).unwrap_or_default();
        let (width, height) = (end[0] - origin[0], end[1] - origin[1]);
        // About one node per cell, and at most a million cells in a row if all stand in one line. The range is widened
        // by a millionth: nodes in range must be in adjacent cells in spite of rounding.
        let mean = (width * height / nodes.max(1) as f64).sqrt();
        let long = width.max(height);
        let side = (range * 1.000_001).max(mean).max(long / nodes.max(1) as f64).max(long / Grid::SIDES_MAX).max(1e-6);
        let count = |length: f64| ((length / side).floor() as i32).max(1);
        let (columns, rows) = (count(width), count(height));
        let heads = vec![NOBODY; columns as usize * rows as usize];
        Grid { origin, side, columns, rows, heads, next: vec![NOBODY; nodes] }
    }

    /// The cell of a position.
    pub fn cell_of(&self, place: Point) -> Cell {
        // Clamping the cell and not the position keeps the border cells unbounded.
        let cell =
            |n: usize, count: i32| (((place[n] - self.origin[n]) / self.side).floor() as i32).clamp(0, count - 1);
        Cell(cell(0, self.columns), cell(1, self.rows))
    }

    /// Time at which a leg leaves a cell, with the cell it enters; or the end of the leg, if that is earlier.
    pub fn exit(&self, leg: &Leg, cell: Cell) -> (f64, Option<Cell>) {
        let mut first = (leg.end, None);
        let mut border = |n: usize, at: i32, next: Cell| {
            let place = self.origin[n] + f64::from(at) * self.side;
            let time = leg.start + (place - leg.from[n]) / leg.velocity[n];
            if time < first.0 {
                first = (time, Some(next));
            }
        };
        let Cell(column, row) = cell;
        if leg.velocity[0] > 0.0 && column + 1 < self.columns {
            border(0, column + 1, Cell(column + 1, row));
        } else if leg.velocity[0] < 0.0 && column > 0 {
            border(0, column, Cell(column - 1, row));
        }
        if leg.velocity[1] > 0.0 && row + 1 < self.rows {
            border(1, row + 1, Cell(column, row + 1));
        } else if leg.velocity[1] < 0.0 && row > 0 {
            border(1, row, Cell(column, row - 1));
        }
        first
    }

    fn place(&self, Cell(column, row): Cell) -> Option<usize> {
        let inside = (0..self.columns).contains(&column) && (0..self.rows).contains(&row);
        inside.then(|| row as usize * self.columns as usize + column as usize)
    }
    #[cfg(test)]
    fn members(&self, cell: Cell) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.first(cell), |member| self.after(*member))
    }
    /// The newest member of a cell; `None` if the cell is empty or outside the grid.
    pub fn first(&self, cell: Cell) -> Option<u32> {
        Some(self.heads[self.place(cell)?]).filter(|member| *member != NOBODY)
    }
    /// The member that entered the same cell before this one.
    pub fn after(&self, member: u32) -> Option<u32> {
        Some(self.next[member as usize]).filter(|member| *member != NOBODY)
    }
    /// Adds a member that is in no cell yet to a cell.
    pub fn enter(&mut self, member: u32, cell: Cell) {
        if let Some(place) = self.place(cell) {
            self.next[member as usize] = std::mem::replace(&mut self.heads[place], member);
        }
    }
    /// Removes a member from a cell.
    pub fn leave(&mut self, member: u32, cell: Cell) {
        let Some(place) = self.place(cell) else { return };
        let after = self.next[member as usize];
        let mut at = self.heads[place];
        if at == member {
            self.heads[place] = after;
        }
        while at != NOBODY && at != member {
            let before = at as usize;
            at = self.next[before];
            if at == member {
                self.next[before] = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(nodes: usize, size: f64, range: f64) -> Grid {
        Grid::new([[[0.0; 2], [size, size]]].into_iter(), nodes, range)
    }

    #[test]
    fn cell_width_follows_range_and_nodes() {
        // Six whole cells of 150 m fit into 1000 m; the outermost extend beyond.
        let dense = grid(10_000, 1000.0, 150.0);
        assert!(dense.side >= 150.0 && dense.columns == 6 && dense.rows == 6);
        let sparse = grid(100, 1000.0, 1.0);
        assert_eq!((sparse.side, sparse.heads.len()), (100.0, 100), "one a node");
        assert_eq!(grid(0, 0.0, 10.0).heads.len(), 1);
        let line = Grid::new([[[0.0; 2], [1e12, 0.0]]].into_iter(), 50, 1.0);
        assert_eq!(line.heads.len(), 50, "a street of any length");
    }

    #[test]
    fn places_in_range_share_adjacent_cells() {
        let grid = grid(1000, 1000.0, 30.0);
        let places = [-1e9, -31.0, -1.0, 0.0, 29.9, 30.1, 500.0, 999.9, 1000.0, 1029.0, 1e9];
        for x in places {
            for y in places {
                let here = grid.cell_of([x, y]);
                assert!(grid.place(here).is_some());
                let there = grid.cell_of([x + 21.2, y - 21.2]);
                assert!(here.around().contains(&there), "{x} {y}");
            }
        }
    }

    #[test]
    fn straight_leg_crosses_borders_in_order() {
        let grid = grid(100, 1000.0, 1.0);
        let leg = Leg::way([50.0, 50.0], [350.0, 60.0], 0.0, 10.0);
        let mut cell = grid.cell_of(leg.from);
        let mut passed = Vec::new();
        while let (time, Some(next)) = grid.exit(&leg, cell) {
            passed.push((time.round() as u32, next));
            cell = next;
        }
        assert_eq!(passed, [(5, Cell(1, 0)), (15, Cell(2, 0)), (25, Cell(3, 0))]);
        assert_eq!(grid.exit(&leg, cell), (leg.end, None));
        let back = Leg::way([350.0, 60.0], [350.0, 460.0], 0.0, 10.0);
        assert_eq!(grid.exit(&back, cell).1, Some(Cell(3, 1)));
    }

    #[test]
    fn entered_cell_has_three_new_neighbours() {
        // A step sideways adds three cells; the other six were around before.
        let news =
            |from: Cell, to: Cell| to.news_from(from).into_iter().filter(|c| *c != Cell::NONE).collect::<Vec<_>>();
        assert_eq!(news(Cell(3, 3), Cell(4, 3)), [Cell(5, 2), Cell(5, 3), Cell(5, 4)]);
        assert_eq!(news(Cell(3, 3), Cell(3, 2)), [Cell(2, 1), Cell(3, 1), Cell(4, 1)]);
        let mut grid = grid(100, 1000.0, 1.0);
        let here = grid.cell_of([50.0; 2]);
        (1..4).for_each(|n| grid.enter(n, here));
        grid.leave(1, here);
        grid.leave(9, here);
        assert_eq!(grid.members(here).collect::<Vec<_>>(), [3, 2]);
        grid.leave(3, here);
        assert_eq!(grid.members(here).collect::<Vec<_>>(), [2]);
        assert!(grid.members(Cell(-1, 0)).next().is_none());
    }
}

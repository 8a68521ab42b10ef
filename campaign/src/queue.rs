//! Which cell is run next: first one of each point, so that it is known how long it takes, then the longest.

use crate::plan::Cell;
use std::collections::{BTreeMap, VecDeque};

/// Cells of one point.
#[derive(Default)]
struct Point {
    waiting: VecDeque<u64>,
    started: bool,
    /// Seconds and how many cells took them.
    measured: (f64, u32),
}

impl Point {
    /// Seconds that a cell takes; unknown ones take longest, and those of which one is running less.
    fn estimate(&self) -> f64 {
        match self.measured {
            (seconds, count) if count > 0 => seconds / f64::from(count),
            _ if self.started => f64::MAX,
            _ => f64::INFINITY,
        }
    }
}

/// Cells that wait.
#[derive(Default)]
pub(crate) struct Queue {
    points: BTreeMap<usize, Point>,
    waiting: usize,
}

impl Queue {
    /// A cell waits.
    pub fn push(&mut self, cell: Cell) {
        self.points.entry(cell.configuration).or_default().waiting.push_back(cell.seed);
        self.waiting += 1;
    }
    /// A cell took so long.
    pub fn took(&mut self, cell: Cell, seconds: f64) {
        let measured = &mut self.points.entry(cell.configuration).or_default().measured;
        *measured = (measured.0 + seconds, measured.1 + 1);
    }
    /// The next; of equal ones that of the first point.
    pub fn pop(&mut self) -> Option<Cell> {
        let waiting = self.points.iter_mut().filter(|(_, point)| !point.waiting.is_empty());
        let longest = waiting.rev().max_by(|(_, a), (_, b)| a.estimate().total_cmp(&b.estimate()));
        let (configuration, point) = longest?;
        point.started = true;
        self.waiting -= 1;
        point.waiting.pop_front().map(|seed| Cell { configuration: *configuration, seed })
    }
    /// Seconds of work that wait; unknown points take as long as the mean of those known. `None` where none
    /// is known.
    pub fn work_s(&self) -> Option<f64> {
        let known = self.points.values().map(|point| point.measured).filter(|(_, count)| *count > 0);
        let (seconds, count) = known.fold((0.0, 0), |(s, n), (seconds, count)| (s + seconds, n + count));
        let mean = (count > 0).then(|| seconds / f64::from(count))?;
        let of = |point: &Point| {
            point.waiting.len() as f64 * Some(point.estimate()).filter(|e| *e < f64::MAX).unwrap_or(mean)
        };
        Some(self.points.values().map(of).sum())
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_point_first_then_the_longest() {
        let mut queue = Queue::default();
        for configuration in 0..3 {
            for seed in 1..=2 {
                queue.push(Cell { configuration, seed });
            }
        }
        assert_eq!((queue.len(), queue.work_s()), (6, None));
        let mut order = Vec::new();
        while let Some(cell) = queue.pop() {
            order.push((cell.configuration, cell.seed));
            // The second point takes longest.
            queue.took(cell, [1.0, 5.0, 2.0][cell.configuration]);
        }
        assert_eq!(order, [(0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (0, 2)]);
    }

    #[test]
    fn what_is_left_is_reckoned_by_what_is_known() {
        let mut queue = Queue::default();
        (0..2).for_each(|configuration| (1..=3).for_each(|seed| queue.push(Cell { configuration, seed })));
        let first = queue.pop().unwrap();
        queue.took(first, 4.0);
        assert_eq!(queue.work_s(), Some(2.0 * 4.0 + 3.0 * 4.0));
        let second = queue.pop().unwrap();
        queue.took(second, 1.0);
        assert_eq!(queue.work_s(), Some(2.0 * 4.0 + 2.0 * 1.0));
    }
}

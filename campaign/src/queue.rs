//! Order of the cells: first one cell of each point, to measure how long it takes, then the cells of the slowest
//! points.

use crate::plan::PlanCell;
use std::collections::{BTreeMap, VecDeque};

/// Waiting cells of one point.
#[derive(Default)]
struct QueuedPoint {
    waiting: VecDeque<u64>,
    started: bool,
    /// Total seconds of the measured cells, and their number.
    measured: (f64, u32),
}

impl QueuedPoint {
    /// Estimated seconds per cell. Unmeasured points sort first; among these, points with a running cell come last.
    fn estimate(&self) -> f64 {
        match self.measured {
            (seconds, count) if count > 0 => seconds / f64::from(count),
            // The cell of this point that is running will measure it, so points of which no cell has started come
            // before.
            _ if self.started => f64::MAX,
            _ => f64::INFINITY,
        }
    }
}

/// Queue of the cells still to be run.
#[derive(Default)]
pub(crate) struct CellQueue {
    points: BTreeMap<usize, QueuedPoint>,
    waiting: usize,
}

impl CellQueue {
    pub fn push(&mut self, cell: PlanCell) {
        self.points.entry(cell.configuration).or_default().waiting.push_back(cell.seed);
        self.waiting += 1;
    }
    /// Records the time that a cell took.
    pub fn took(&mut self, cell: PlanCell, seconds: f64) {
        let measured = &mut self.points.entry(cell.configuration).or_default().measured;
        *measured = (measured.0 + seconds, measured.1 + 1);
    }
    /// Takes the next cell; of equal estimates, that of the first point.
    pub fn pop(&mut self) -> Option<PlanCell> {
        let waiting = self.points.iter_mut().filter(|(_, point)| !point.waiting.is_empty());
        // `max_by` returns the last of equal elements, so the order is reversed.
        let longest = waiting.rev().max_by(|(_, a), (_, b)| a.estimate().total_cmp(&b.estimate()));
        let (configuration, point) = longest?;
        point.started = true;
        self.waiting -= 1;
        point.waiting.pop_front().map(|seed| PlanCell { configuration: *configuration, seed })
    }
    /// Estimated seconds that the waiting cells take. A cell of an unmeasured point counts as the mean of all measured
    /// cells; `None` if no cell was measured.
    pub fn work_s(&self) -> Option<f64> {
        let known = self.points.values().map(|point| point.measured).filter(|(_, count)| *count > 0);
        let (seconds, count) = known.fold((0.0, 0), |(s, n), (seconds, count)| (s + seconds, n + count));
        let mean = (count > 0).then(|| seconds / f64::from(count))?;
        let of = |point: &QueuedPoint| {
            point.waiting.len() as f64 * Some(point.estimate()).filter(|e| *e < f64::MAX).unwrap_or(mean)
        };
        Some(self.points.values().map(of).sum())
    }
    /// Number of waiting cells.
    pub fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_starts_each_point_then_longest() {
        let mut queue = CellQueue::default();
        for configuration in 0..3 {
            for seed in 1..=2 {
                queue.push(PlanCell { configuration, seed });
            }
        }
        assert_eq!((queue.len(), queue.work_s()), (6, None));
        let mut order = Vec::new();
        while let Some(cell) = queue.pop() {
            order.push((cell.configuration, cell.seed));
            // The second point is the slowest.
            queue.took(cell, [1.0, 5.0, 2.0][cell.configuration]);
        }
        assert_eq!(order, [(0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (0, 2)]);
    }

    #[test]
    fn remaining_work_uses_measured_times() {
        let mut queue = CellQueue::default();
        (0..2).for_each(|configuration| (1..=3).for_each(|seed| queue.push(PlanCell { configuration, seed })));
        let first = queue.pop().unwrap();
        queue.took(first, 4.0);
        // Two waiting cells of the measured point and three of the other, at 4 s each.
        assert_eq!(queue.work_s(), Some(2.0 * 4.0 + 3.0 * 4.0));
        let second = queue.pop().unwrap();
        queue.took(second, 1.0);
        assert_eq!(queue.work_s(), Some(2.0 * 4.0 + 2.0 * 1.0));
    }
}

//! Order of the cells: first one cell of each point, to measure how long it takes, then the cells of the slowest
//! points.

use crate::plan::PlanCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

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

/// Queue of the cells still to be run, and the cells that run.
#[derive(Default)]
pub(crate) struct CellQueue {
    points: BTreeMap<usize, QueuedPoint>,
    waiting: usize,
    /// Cells that run, with the times at which they began.
    running: Vec<(PlanCell, Instant)>,
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
    /// Takes the next cell, which begins now; of equal estimates, that of the first point.
    pub fn pop(&mut self, now: Instant) -> Option<PlanCell> {
        let waiting = self.points.iter_mut().filter(|(_, point)| !point.waiting.is_empty());
        // `max_by` returns the last of equal elements, so the order is reversed.
        let longest = waiting.rev().max_by(|(_, a), (_, b)| a.estimate().total_cmp(&b.estimate()));
        let (configuration, point) = longest?;
        point.started = true;
        self.waiting -= 1;
        let cell = PlanCell { configuration: *configuration, seed: point.waiting.pop_front()? };
        self.running.push((cell, now));
        Some(cell)
    }
    /// Removes a cell from those that run, however it ended.
    pub fn ended(&mut self, cell: PlanCell) {
        self.running.retain(|(running, _)| *running != cell);
    }
    /// Estimated seconds until all cells have ended, `jobs` at a time. A cell of an unmeasured point counts as the mean
    /// of all measured cells. `None` if no cell was measured, or if a running cell takes longer than estimated: what is
    /// left of it is then unknown.
    pub fn left_s(&self, jobs: usize, now: Instant) -> Option<f64> {
        let known = self.points.values().map(|point| point.measured).filter(|(_, count)| *count > 0);
        let (seconds, count) = known.fold((0.0, 0), |(s, n), (seconds, count)| (s + seconds, n + count));
        let mean = (count > 0).then(|| seconds / f64::from(count))?;
        let of = |point: &QueuedPoint| Some(point.estimate()).filter(|estimate| *estimate < f64::MAX).unwrap_or(mean);
        let (mut work, mut longest) = (0.0, 0.0f64);
        for (cell, begun) in &self.running {
            let estimate = self.points.get(&cell.configuration).map_or(mean, of);
            let left = estimate - now.saturating_duration_since(*begun).as_secs_f64();
            if left <= 0.0 {
                return None;
            }
            work += left;
            longest = longest.max(left);
        }
        work += self.points.values().map(|point| point.waiting.len() as f64 * of(point)).sum::<f64>();
        // However many jobs there are, they wait for the cell that ends last.
        Some(longest.max(work / jobs.max(1) as f64))
    }
    /// Number of waiting cells.
    pub fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn queue_starts_each_point_then_longest() {
        let mut queue = CellQueue::default();
        for configuration in 0..3 {
            for seed in 1..=2 {
                queue.push(PlanCell { configuration, seed });
            }
        }
        let now = Instant::now();
        assert_eq!((queue.len(), queue.left_s(1, now)), (6, None));
        let mut order = Vec::new();
        while let Some(cell) = queue.pop(now) {
            queue.ended(cell);
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
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let first = queue.pop(begun).unwrap();
        queue.ended(first);
        queue.took(first, 4.0);
        // Two waiting cells of the measured point and three of the other, at 4 s each.
        assert_eq!(queue.left_s(1, after(4)), Some(2.0 * 4.0 + 3.0 * 4.0));
        let second = queue.pop(after(4)).unwrap();
        assert_eq!(queue.left_s(1, after(5)), Some(2.0 * 4.0 + 2.0 * 4.0 + 3.0), "3 s of the running cell are left");
        queue.ended(second);
        queue.took(second, 1.0);
        assert_eq!(queue.left_s(2, after(5)), Some((2.0 * 4.0 + 2.0 * 1.0) / 2.0));
    }

    #[test]
    fn overdue_cell_leaves_no_estimate() {
        let mut queue = CellQueue::default();
        (0..2).for_each(|configuration| queue.push(PlanCell { configuration, seed: 1 }));
        let begun = Instant::now();
        let first = queue.pop(begun).unwrap();
        queue.ended(first);
        queue.took(first, 1.0);
        // The only other cell, of a point that was never measured, takes 90 s.
        queue.pop(begun).unwrap();
        let left = |seconds| queue.left_s(8, begun + Duration::from_millis(seconds));
        assert_eq!([left(500), left(1000), left(60_000)], [Some(0.5), None, None]);
    }
}

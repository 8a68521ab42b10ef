//! Faults of a run with their times. They are in no contact plan.

use crate::types::{Fault, FaultKind, Scenario};
use farlink_base::{ConfigError, Duration, Instant};
use farlink_link::ContactWindow;

fn instant(at: Duration) -> Instant {
    Instant(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}

fn without(windows: Option<Vec<ContactWindow>>, mut holes: Vec<(Instant, Instant)>) -> Vec<ContactWindow> {
    // Windows are in order of time and do not overlap; holes may be unordered and overlap. Sorted holes let one pass
    // cut each window from left to right. Without windows the link is always up.
    holes.sort_unstable();
    let mut left = Vec::new();
    for window in windows.unwrap_or_else(|| vec![ContactWindow::new(Instant::ZERO, Instant::MAX)]) {
        let mut rest = window;
        for (from, to) in holes.iter().filter(|(_, to)| *to > window.start) {
            if *from >= rest.end {
                break;
            }
            if *from > rest.start {
                left.push(ContactWindow { end: *from, ..rest });
            }
            rest.start = rest.start.max(*to);
            if rest.start >= rest.end {
                break;
            }
        }
        if rest.start < rest.end {
            left.push(rest);
        }
    }
    left
}

impl Scenario {
    pub(crate) fn windows_left(&self, link: usize, windows: Option<Vec<ContactWindow>>) -> Option<Vec<ContactWindow>> {
        // A direction without faults keeps `None`: no windows mean always up, and are cheaper than one endless window.
        let mine = self.faults.iter().filter(|fault| fault.kind == FaultKind::LinkDown { link });
        let hole = |fault: &Fault, at: Duration| (instant(at), instant(at.saturating_add(fault.lasts)));
        let holes: Vec<_> = mine.flat_map(|fault| fault.beginnings(self.duration).map(|at| hole(fault, at))).collect();
        if holes.is_empty() { windows } else { Some(without(windows, holes)) }
    }
    /// First fault that the testbed cannot inject; it supports outages of links, and restarts of nodes that send
    /// nothing meanwhile.
    pub(crate) fn faults_need_simulation(&self) -> Option<ConfigError> {
        let why = |fault: &Fault| match fault.kind {
            FaultKind::LinkDown { .. } => None,
            FaultKind::Restart { node } => self.restart_needs_simulation(node),
            FaultKind::ClockJump { .. } | FaultKind::ClockDrift { .. } => {
                Some("the testbed has one clock, which is right".to_string())
            }
            FaultKind::Lie { .. } => Some("the testbed has nodes that say what is so".to_string()),
            FaultKind::Unheard { .. } => Some("the testbed has no radios".to_string()),
        };
        let (index, expected) = self.faults.iter().enumerate().find_map(|(index, fault)| Some((index, why(fault)?)))?;
        Some(ConfigError {
            path: format!("fault[{}]", index + 1),
            expected,
            hint: "of faults it knows `link_down` of links, and `restart` of nodes that send nothing until they are \
                   up again; or run it --in sim"
                .into(),
        })
    }
    fn restart_needs_simulation(&self, node: usize) -> Option<String> {
        // Applications that send end with their node, and the node file that the testbed wrote before the run lacks
        // links that appeared since.
        let over = self.restarts().into_iter().filter(|down| down.node == node).map(|down| down.to).max()?;
        let name = &self.nodes[node].name;
        if let Some(traffic) = self.traffic.iter().find(|traffic| traffic.from == node && traffic.start < over) {
            let sends = &traffic.name;
            return Some(format!(
                "the testbed starts no applications again that send: `{sends}` of node `{name}` does"
            ));
        }
        let changes = |link: &&crate::Link| link.between.contains(&node) && !link.lasts();
        let link = self.links.iter().find(changes)?;
        Some(format!("the testbed restarts no nodes whose links come and go: `{}` of node `{name}` does", link.name))
    }

    /// Intervals in which restarts keep nodes down, in order of time; overlapping ones of a node are joined.
    pub fn restarts(&self) -> Vec<Down> {
        let of = |fault: &Fault| match fault.kind {
            FaultKind::Restart { node } => Some((node, fault.lasts)),
            _ => None,
        };
        let each = self.faults.iter().filter_map(|fault| Some((fault, of(fault)?)));
        let mut all: Vec<Down> = each
            .flat_map(|(fault, (node, lasts))| {
                fault.beginnings(self.duration).map(move |from| Down { node, from, to: from.saturating_add(lasts) })
            })
            .collect();
        all.sort_unstable_by_key(|down| (down.node, down.from));
        // Sorted by node and beginning, overlapping intervals are neighbours.
        all.dedup_by(|later, down| {
            let same = later.node == down.node && later.from <= down.to;
            down.to = if same { down.to.max(later.to) } else { down.to };
            same
        });
        all.sort_unstable_by_key(|down| (down.from, down.node));
        all
    }
}

/// An interval in which a restart keeps a node down; times from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Down {
    /// Index of the node in [`Scenario::nodes`].
    pub node: usize,
    /// Time when the node is killed.
    pub from: Duration,
    /// Time when the node is started again.
    pub to: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_gaps_may_be_unordered() {
        // Holes inside, around and beside windows, in any order, and overlapping each other.
        let window = |(from, to): (u64, u64)| ContactWindow::new(Instant(from), Instant(to));
        let cut = |windows: Option<&[(u64, u64)]>, holes: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let holes = holes.iter().map(|(from, to)| (Instant(*from), Instant(*to))).collect();
            let left = without(windows.map(|all| all.iter().copied().map(window).collect()), holes);
            left.iter().map(|window| (window.start.0, window.end.0)).collect()
        };
        assert_eq!(cut(None, &[(30, 40), (10, 20)]), [(0, 10), (20, 30), (40, u64::MAX)]);
        assert_eq!(cut(Some(&[(5, 15), (20, 50)]), &[(10, 30), (12, 14)]), [(5, 10), (30, 50)]);
        assert_eq!(cut(Some(&[(5, 15)]), &[(5, 15)]), []);
        assert_eq!(cut(Some(&[(5, 15)]), &[(0, 5), (15, 20)]), [(5, 15)]);
        assert_eq!(cut(Some(&[(0, 100)]), &[(10, 90), (20, 30), (85, 95)]), [(0, 10), (95, 100)]);
    }

    #[test]
    fn remainders_match_count_by_seconds() {
        // Expected by definition: the link is up in a second if a window contains that second and no hole does.
        let mut random = farlink_base::Rng::new(7);
        for _ in 0..2000 {
            let mut at = 0;
            let mut windows = Vec::new();
            for _ in 0..random.below(5) {
                let start = at + random.below(10);
                at = start + 1 + random.below(10);
                windows.push(ContactWindow::new(Instant(start), Instant(at)));
            }
            let holes: Vec<_> = (0..random.below(5))
                .map(|_| (random.below(60), random.below(15)))
                .map(|(from, length)| (Instant(from), Instant(from + length)))
                .collect();
            let up = |windows: &[ContactWindow], t| windows.iter().any(|w| (w.start.0..w.end.0).contains(&t));
            let left = without(Some(windows.clone()), holes.clone());
            for t in 0..80 {
                let cut = holes.iter().any(|(from, to)| (from.0..to.0).contains(&t));
                assert_eq!(up(&left, t), up(&windows, t) && !cut, "{t}: {windows:?} without {holes:?}");
            }
        }
    }
}

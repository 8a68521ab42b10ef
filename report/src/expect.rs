//! Expectations of the scenario's author, checked against the results of a run.

use crate::format::{Quantity, counted};
use crate::manifest::{Manifest, RunWorld};
use crate::statistics::Statistics;
use serde::Serialize;

/// An expectation that a run did not meet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Missed {
    /// Key in the scenario's `[expect]`.
    pub key: &'static str,
    /// Expectation, in words.
    pub expected: String,
    /// Result of the run, in words.
    pub found: String,
}

impl Missed {
    /// Remark on an expectation that this run can neither meet nor miss, in words.
    pub fn unjudged(manifest: &Manifest, statistics: &Statistics) -> Option<&'static str> {
        // Pings through a node behind an interface are known by their answers alone.
        let pings_only = statistics.delivery_ratio.is_none() && statistics.round_trip_s.is_some();
        (pings_only && manifest.expect.delivery_ratio.is_some())
            .then_some("delivery_ratio is not judged: no bundles but pings were counted")
    }

    /// Lists every expectation of the scenario that this run did not meet.
    pub fn of(manifest: &Manifest, statistics: &Statistics) -> Vec<Missed> {
        let (s, expect) = (statistics, &manifest.expect);
        let seconds = |s: f64| Quantity::Seconds.text(s);
        let mut all = Vec::new();
        let arrived = format!("{} of {}", s.delivered, counted(s.wanted(), "bundle"));
        if let Some(wanted) = expect.delivery_ratio
            && Missed::unjudged(manifest, statistics).is_none()
            && s.delivery_ratio.is_none_or(|ratio| ratio < wanted)
        {
            let expected = format!("at least {} of the bundles delivered", Quantity::Share.text(wanted));
            let found = match s.delivery_ratio {
                Some(ratio) => format!("{arrived} ({})", Quantity::Share.text(ratio)),
                None => "no bundle that was created".to_string(),
            };
            all.push(Missed { key: "delivery_ratio", expected, found });
        }
        if let Some(limit) = expect.finished_within_s {
            let expected = format!("all bundles delivered within {}", seconds(limit));
            let found = match s.last_delivery_s {
                // An undelivered bundle misses the deadline, whenever the others were delivered.
                _ if s.delivered < s.wanted() => Some(format!("{arrived} at the end of the run")),
                Some(last) if last > limit => Some(format!("the last one after {}", seconds(last))),
                _ => None,
            };
            all.extend(found.map(|found| Missed { key: "finished_within", expected, found }));
        }
        // Real time is judged in the testbed only: a simulation runs as fast as it can.
        if let Some(limit) = expect.wall_time_lab_s.filter(|limit| manifest.world == RunWorld::Lab && s.wall_s > *limit)
        {
            let expected = format!("at most {} of real time in the testbed", seconds(limit));
            all.push(Missed { key: "wall_time_lab", expected, found: seconds(s.wall_s) });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Expected;
    use crate::statistics::tests::bundle;

    fn keys(manifest: &Manifest, statistics: &Statistics) -> Vec<&'static str> {
        Missed::of(manifest, statistics).iter().map(|missed| missed.key).collect()
    }

    #[test]
    fn only_worse_runs_miss_expectations() {
        let mut manifest = Manifest::new(RunWorld::Lab, "s", "text", None);
        let expect = |ratio, within, wall| Expected {
            delivery_ratio: Some(ratio),
            finished_within_s: Some(within),
            wall_time_lab_s: Some(wall),
        };
        let all = Statistics { wall_s: 5.0, ..Statistics::of(&[bundle(0, 1000, 0.0, Some(2.0))], &[]) };
        let rows = [bundle(0, 1000, 0.0, Some(2.0)), bundle(1, 1000, 0.0, None)];
        let half = Statistics { wall_s: 5.0, ..Statistics::of(&rows, &[]) };
        assert!(keys(&manifest, &half).is_empty(), "nothing is expected");
        manifest.expect = expect(1.0, 2.0, 5.0);
        assert!(keys(&manifest, &all).is_empty(), "as expected, to the last digit");
        assert_eq!(keys(&manifest, &half), ["delivery_ratio", "finished_within"]);
        manifest.expect = expect(0.5, 1.9, 4.9);
        assert_eq!(keys(&manifest, &all), ["finished_within", "wall_time_lab"]);
        manifest.world = RunWorld::Sim;
        assert_eq!(keys(&manifest, &all), ["finished_within"], "the real time of a simulation is not the testbed's");
        assert_eq!(keys(&manifest, &Statistics::of(&[], &[])), ["delivery_ratio"], "nothing was created at all");
    }

    #[test]
    fn uncounted_bundles_miss_no_ratio() {
        let mut manifest = Manifest::new(RunWorld::Lab, "s", "text", None);
        let pings = Statistics { round_trip_s: crate::statistics::Latency::of(vec![0.1]), ..Statistics::default() };
        assert_eq!(Missed::unjudged(&manifest, &pings), None, "nothing is expected");
        manifest.expect.delivery_ratio = Some(1.0);
        assert!(Missed::of(&manifest, &pings).is_empty());
        assert!(Missed::unjudged(&manifest, &pings).is_some_and(|text| text.contains("no bundles but pings")));
        let missed = Missed::of(&manifest, &Statistics::default()).remove(0);
        assert_eq!(missed.found, "no bundle that was created");
        assert_eq!(Missed::unjudged(&manifest, &Statistics::default()), None);
    }

    #[test]
    fn missed_expectation_has_readable_text() {
        let mut manifest = Manifest::new(RunWorld::Sim, "s", "text", None);
        manifest.expect.delivery_ratio = Some(1.0);
        let rows = [bundle(0, 1000, 0.0, Some(2.0)), bundle(1, 1000, 0.0, None)];
        let missed = Missed::of(&manifest, &Statistics::of(&rows, &[])).remove(0);
        assert_eq!(missed.expected, "at least 100 % of the bundles delivered");
        assert_eq!(missed.found, "1 of 2 bundles (50 %)");
    }
}

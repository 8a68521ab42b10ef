//! Samples of a run that metrics need: processor times and retention times.

use anyhow::Result;
use farlink_report::schema::{APPLICATION, CPU_S, RETENTION, RETENTION_PARTS};
use farlink_report::{PhaseFacts, RunReader, RunWorld, SampleRow, Text};
use std::collections::BTreeMap;

/// Samples of a run, by metric or node.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct RunSamples {
    /// Processor time of all roles since the start in s, by node and time.
    processors: BTreeMap<Text, BTreeMap<u64, f64>>,
    /// Retention times and their parts by metric and node.
    retention: BTreeMap<&'static str, TimesOfNodes>,
}

/// Time of each sample in ns with its value in s, by node.
type TimesOfNodes = BTreeMap<Option<Text>, Vec<(u64, f64)>>;

impl RunSamples {
    /// Metrics of the samples table: time until the first byte leaves a relay, time until the last byte leaves, time to
    /// parse a bundle, time to encode it.
    pub const RETENTION: [&str; 4] = [RETENTION[0], RETENTION[1], RETENTION_PARTS[0], RETENTION_PARTS[1]];

    /// Reads a run. Simulations have none of these samples.
    pub fn read(run: &RunReader) -> Result<RunSamples> {
        let mut samples = RunSamples::default();
        if run.manifest().world != RunWorld::Sim {
            run.samples(&mut |row| {
                samples.note(row);
                Ok(())
            })?;
        }
        Ok(samples)
    }

    pub(crate) fn note(&mut self, row: SampleRow) {
        if [CPU_S, APPLICATION[0]].contains(&&*row.metric) {
            let Some(node) = row.node else { return };
            *self.processors.entry(node).or_default().entry(row.time_ns).or_default() += row.value;
        } else if let Some(metric) = Self::RETENTION.into_iter().find(|metric| *metric == &*row.metric) {
            self.retention.entry(metric).or_default().entry(row.node).or_default().push((row.time_ns, row.value));
        }
    }

    /// Use of a processor in percent between successive samples, by node.
    pub fn processor_use(&self, phase: Option<&PhaseFacts>, node: Option<&str>) -> Vec<Vec<f64>> {
        let of = |times: &BTreeMap<u64, f64>| {
            let times: Vec<(u64, f64)> = times.iter().map(|(time, used)| (*time, *used)).collect();
            let percent = |pair: &[(u64, f64)]| {
                let [(before, used_before), (now, used)] = *pair else { return None };
                // The sum over all programs may fall when one ends between two readings.
                let percent = (used - used_before).max(0.0) * 1e9 / (now - before) as f64 * 100.0;
                // As in the spreads of roles, the time up to a phase's first sample counts to the phase.
                phase.is_none_or(|phase| phase.holds(now)).then_some(percent)
            };
            times.windows(2).filter_map(percent).collect()
        };
        let here = self.processors.iter().filter(|(name, _)| node.is_none_or(|node| node == &***name));
        here.map(|(_, times)| of(times)).collect()
    }

    /// Retention times, or parts of them, at a node in a phase, in s.
    pub fn retention(&self, metric: &str, phase: Option<&PhaseFacts>, node: Option<&str>) -> Vec<f64> {
        let nodes = self.retention.get(metric).into_iter().flatten();
        let here = nodes.filter(|(name, _)| node.is_none_or(|node| name.as_deref() == Some(node)));
        let all = here.flat_map(|(_, times)| times);
        let in_phase = all.filter(|(time_ns, _)| phase.is_none_or(|phase| phase.holds(*time_ns)));
        in_phase.map(|(_, seconds)| *seconds).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rows: &[(u64, &str, &str, f64)]) -> RunSamples {
        let mut samples = RunSamples::default();
        for (time_ms, node, metric, value) in rows {
            samples.note(SampleRow {
                time_ns: time_ms * 1_000_000,
                node: Some((*node).into()),
                link: None,
                metric: (*metric).into(),
                value: *value,
                phase: None,
            });
        }
        samples
    }

    #[test]
    fn roles_of_a_node_are_summed() {
        let [all, application] = [CPU_S, APPLICATION[0]];
        let samples = samples(&[
            (0, "a", all, 1.0),
            (0, "a", application, 0.5),
            (100, "a", all, 1.02),
            (100, "a", application, 0.53),
            (200, "a", all, 1.02),
            (200, "a", application, 0.53),
            (0, "b", all, 7.0),
            (100, "b", "stored_bytes", 9.0),
        ]);
        let used = samples.processor_use(None, Some("a"));
        assert_eq!(used.len(), 1);
        assert!((used[0][0] - 50.0).abs() < 1e-9 && used[0][1] == 0.0, "0.05 s of 0.1 s, then none: {used:?}");
        let phase = PhaseFacts { start_s: 0.1, end_s: 1.0, ..PhaseFacts::default() };
        let in_phase = samples.processor_use(Some(&phase), None);
        assert_eq!((in_phase[0].len(), in_phase[1].len()), (2, 0), "the sample at its start counts");
        let later = PhaseFacts { start_s: 0.15, ..phase };
        assert_eq!(samples.processor_use(Some(&later), Some("a")), [[0.0]]);
    }

    #[test]
    fn retention_is_found_by_part_and_node() {
        let [first_out, _, parse, _] = RunSamples::RETENTION;
        let samples = samples(&[(10, "r", first_out, 0.2), (10, "r", parse, 0.05), (900, "s", first_out, 0.4)]);
        assert_eq!(samples.retention(first_out, None, None), [0.2, 0.4]);
        assert_eq!(samples.retention(parse, None, Some("r")), [0.05]);
        let phase = PhaseFacts { start_s: 0.5, end_s: 1.0, ..PhaseFacts::default() };
        assert_eq!(samples.retention(first_out, Some(&phase), None), [0.4]);
    }
}

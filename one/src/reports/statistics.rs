//! `MessageStatsReport`: counts, means and medians.

use super::{Happened, Names, Out};
use crate::java::fixed;
use std::io::Write as _;

/// Counters and samples of a run.
pub struct Statistics {
    warmup: f64,
    /// Per message: whether it was created during the warm-up and is left out.
    ignored: Vec<bool>,
    counts: MessageCounts,
    latencies: Vec<f64>,
    hops: Vec<u32>,
    /// Time that each deleted copy was held, seconds.
    held: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MessageCounts {
    created: u64,
    started: u64,
    relayed: u64,
    aborted: u64,
    dropped: u64,
    removed: u64,
    delivered: u64,
}

/// Figures of the report.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Names and values in the report's order; integers are printed without decimals.
    rows: Vec<(&'static str, Number)>,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Statistics {
    /// Starts counting; messages created in the first `warmup` seconds are left out.
    pub fn new(warmup: f64) -> Statistics {
        let (ignored, latencies, hops, held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Statistics { warmup, ignored, counts: MessageCounts::default(), latencies, hops, held }
    }
    /// Counts one event.
    pub fn record(&mut self, now: f64, happened: &Happened, names: &Names) {
        let counts = &mut self.counts;
        let left_out = |message: u32| self.ignored.get(message as usize).copied().unwrap_or(false);
        match *happened {
            Happened::Contact { .. } => {}
            Happened::Created { message, .. } => {
                let ignored = now < self.warmup;
                self.ignored.resize(message as usize + 1, false);
                self.ignored[message as usize] = ignored;
                counts.created += u64::from(!ignored);
            }
            Happened::Started { message, .. } => counts.started += u64::from(!left_out(message)),
            Happened::Aborted { message, .. } => counts.aborted += u64::from(!left_out(message)),
            Happened::Deleted { message, .. } if left_out(message) => {}
            Happened::Deleted { received, dropped, .. } => {
                *(if dropped { &mut counts.dropped } else { &mut counts.removed }) += 1;
                self.held.push(now - received);
            }
            Happened::Done { message, .. } if left_out(message) => {}
            Happened::Done { message, hops, first, .. } => {
                counts.relayed += 1;
                if first {
                    counts.delivered += 1;
                    self.latencies.push(now - names.messages[message as usize].created);
                    self.hops.push(hops);
                }
            }
        }
    }
    /// Figures so far. Sorts the samples, which changes the rounding of later sums.
    pub fn figures(&mut self, now: f64) -> Figures {
        use Number::{Real, Whole};
        let c = self.counts;
        let share = if c.created > 0 { c.delivered as f64 / c.created as f64 } else { 0.0 };
        let overhead = (c.relayed as f64 - c.delivered as f64) / c.delivered as f64;
        let mut hops: Vec<f64> = self.hops.iter().copied().map(f64::from).collect();
        // Means first: sorting for the median changes the order of summation, and so the last bits.
        let means = [&self.latencies, &hops, &self.held].map(|values| mean(values));
        let [latency, middle_hops, held] =
            [&mut self.latencies, &mut hops, &mut self.held].map(|values| median(values));
        Figures {
            rows: vec![
                ("sim_time", Real(now)),
                ("created", Whole(c.created)),
                ("started", Whole(c.started)),
                ("relayed", Whole(c.relayed)),
                ("aborted", Whole(c.aborted)),
                ("dropped", Whole(c.dropped)),
                ("removed", Whole(c.removed)),
                ("delivered", Whole(c.delivered)),
                ("delivery_prob", Real(share)),
                ("response_prob", Real(0.0)),
                ("overhead_ratio", Real(if c.delivered > 0 { overhead } else { f64::NAN })),
                ("latency_avg", Real(means[0])),
                ("latency_med", Real(latency)),
                ("hopcount_avg", Real(means[1])),
                ("hopcount_med", Whole(if middle_hops.is_nan() { 0 } else { middle_hops as u64 })),
                ("buffertime_avg", Real(means[2])),
                ("buffertime_med", Real(held)),
                ("rtt_avg", Real(f64::NAN)),
                ("rtt_med", Real(f64::NAN)),
            ],
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The median; of an even number of values the upper middle one, as The ONE does.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Figures {
    /// Names and values, in order.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.rows.iter().map(|&(name, number)| match number {
            Number::Whole(whole) => (name, whole as f64),
            Number::Real(real) => (name, real),
        })
    }
    pub(super) fn write(&self, out: &mut Out, name: &str, precision: usize) -> std::io::Result<()> {
        writeln!(out, "Message stats for scenario {name}")?;
        for (name, number) in &self.rows {
            let text = match *number {
                Number::Whole(whole) => whole.to_string(),
                Number::Real(real) => fixed(real, precision),
            };
            writeln!(out, "{name}: {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::Message;

    fn names() -> Names {
        let message = |created: f64| Message { id: "A1".into(), from: 0, to: 1, size: 1, created, lifetime: None };
        Names { hosts: vec!["a0".into(), "a1".into()], messages: vec![message(10.0), message(50.0)], paths: Vec::new() }
    }
    fn of(figures: &Figures, name: &str) -> f64 {
        figures.values().find(|(known, _)| *known == name).map_or(-1.0, |(_, value)| value)
    }

    #[test]
    fn deliveries_count_once_relays_each_time() {
        let (names, mut counted) = (names(), Statistics::new(0.0));
        counted.record(10.0, &Happened::Created { message: 0, from: 0 }, &names);
        let done = |first: bool| Happened::Done { from: 0, to: 1, message: 0, hops: 2, path: 0, last: true, first };
        counted.record(30.0, &done(true), &names);
        counted.record(40.0, &done(false), &names);
        counted.record(45.0, &Happened::Deleted { host: 0, message: 0, received: 10.0, dropped: true }, &names);
        let figures = counted.figures(60.0);
        assert_eq!(
            ["relayed", "delivered", "latency_avg", "hopcount_med"].map(|name| of(&figures, name)),
            [2.0, 1.0, 20.0, 2.0]
        );
        assert_eq!([of(&figures, "overhead_ratio"), of(&figures, "buffertime_avg")], [1.0, 35.0]);
        assert_eq!([of(&figures, "dropped"), of(&figures, "removed")], [1.0, 0.0]);
    }

    #[test]
    fn warm_up_messages_stay_excluded() {
        let (names, mut counted) = (names(), Statistics::new(20.0));
        counted.record(10.0, &Happened::Created { message: 0, from: 0 }, &names);
        counted.record(50.0, &Happened::Created { message: 1, from: 0 }, &names);
        for message in [0, 1] {
            counted.record(60.0, &Happened::Started { from: 0, to: 1, message }, &names);
            counted.record(61.0, &Happened::Aborted { from: 0, to: 1, message }, &names);
            counted.record(62.0, &Happened::Deleted { host: 0, message, received: 50.0, dropped: false }, &names);
        }
        let figures = counted.figures(70.0);
        assert_eq!(["created", "started", "aborted", "removed"].map(|name| of(&figures, name)), [1.0; 4]);
        assert!(of(&figures, "latency_avg").is_nan() && of(&figures, "overhead_ratio").is_nan());
    }

    #[test]
    fn even_count_takes_upper_median() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 3.0);
        assert!(median(&mut []).is_nan());
    }
}

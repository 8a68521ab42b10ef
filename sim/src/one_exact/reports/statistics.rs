//! `MessageStatsReport`: counts, means and medians.

use super::{Happened, Names, Out};
use crate::one_exact::java::fixed;
use std::io::Write as _;

/// Counts what happens.
pub struct Statistics {
    warmup: f64,
    /// Of messages by number: made during the warm-up, so left out.
    ignored: Vec<bool>,
    counts: Counts,
    latencies: Vec<f64>,
    hops: Vec<u32>,
    /// Seconds that each deleted copy was held.
    held: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    created: u64,
    started: u64,
    relayed: u64,
    aborted: u64,
    dropped: u64,
    removed: u64,
    delivered: u64,
}

/// What the report says.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Name and value, in the report's order; whole numbers are shown as such.
    rows: Vec<(&'static str, Number)>,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Statistics {
    /// That leave out messages made in the first `warmup` seconds.
    pub fn new(warmup: f64) -> Statistics {
        let (ignored, latencies, hops, held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Statistics { warmup, ignored, counts: Counts::default(), latencies, hops, held }
    }
    /// Something happened.
    pub fn tell(&mut self, now: f64, happened: &Happened, names: &Names) {
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
    /// What was counted until now.
    pub fn figures(&self, now: f64) -> Figures {
        use Number::{Real, Whole};
        let c = self.counts;
        let share = if c.created > 0 { c.delivered as f64 / c.created as f64 } else { 0.0 };
        let overhead = (c.relayed as f64 - c.delivered as f64) / c.delivered as f64;
        let hops: Vec<f64> = self.hops.iter().copied().map(f64::from).collect();
        let middle_hops = median(&hops);
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
                ("latency_avg", Real(mean(&self.latencies))),
                ("latency_med", Real(median(&self.latencies))),
                ("hopcount_avg", Real(mean(&hops))),
                ("hopcount_med", Whole(if middle_hops.is_nan() { 0 } else { middle_hops as u64 })),
                ("buffertime_avg", Real(mean(&self.held))),
                ("buffertime_med", Real(median(&self.held))),
                ("rtt_avg", Real(f64::NAN)),
                ("rtt_med", Real(f64::NAN)),
            ],
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Figures {
    /// Names and values, in order.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.rows.iter().map(|&(name, number)| match number {
            Number::Whole(whole) => (name, whole as f64),
            Number::Real(real) => (name, real),
        })
    }
    /// Writes the report.
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

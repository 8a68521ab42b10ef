//! `ContactTimesReport` and `InterContactTimesReport`: how often contacts, and times between contacts, were how long.

use super::{Happened, Lines, Names, Out};
use crate::java::double;
use std::collections::HashMap;
use std::io::Write as _;

/// Writer of both reports.
pub struct ContactTimes {
    /// Whether times between contacts are counted, instead of contacts.
    between: bool,
    /// Seconds that a row covers.
    row: f64,
    warmup: f64,
    /// Beginning of the present contact, or pause, of two hosts. One contact of several at once counts, the last.
    open: HashMap<[u32; 2], f64>,
    counts: Vec<u64>,
}

impl ContactTimes {
    /// Begins a report with rows of `row` seconds, which leaves out what begins in the first `warmup` seconds.
    pub fn new(between: bool, row: f64, warmup: f64) -> ContactTimes {
        ContactTimes { between, row, warmup, open: HashMap::new(), counts: Vec::new() }
    }
}

impl Lines for ContactTimes {
    fn line(&mut self, _: &mut Out, now: f64, happened: &Happened, _: &Names) -> std::io::Result<()> {
        let Happened::Contact { a, b, up } = *happened else { return Ok(()) };
        let pair = [a.min(b), a.max(b)];
        if up != self.between {
            if now >= self.warmup {
                self.open.insert(pair, now);
            }
        } else if let Some(begun) = self.open.remove(&pair) {
            let place = ((now - begun) / self.row) as usize;
            if place >= self.counts.len() {
                // The last row is always empty, as in The ONE.
                self.counts.resize(place + 2, 0);
            }
            self.counts[place] += 1;
        }
        Ok(())
    }
    fn end(&mut self, out: &mut Out, _: f64) -> std::io::Result<()> {
        let mut rows = self.counts.iter().enumerate();
        rows.try_for_each(|(place, count)| writeln!(out, "{} {count}", double(place as f64 * self.row)))
    }
}

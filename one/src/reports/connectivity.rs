//! `ConnectivityONEReport`: contacts in the format of an event file.

use super::{Happened, Lines, Names, Out};
use crate::java::fixed;
use std::collections::HashSet;
use std::io::Write as _;

/// Writer of `ConnectivityONEReport`.
pub struct Connectivity {
    warmup: f64,
    /// Contacts that began in the warm-up, whose ends are left out.
    early: HashSet<[u32; 2]>,
}

impl Connectivity {
    /// Begins a report that leaves out contacts of the first `warmup` seconds.
    pub fn new(warmup: f64) -> Connectivity {
        Connectivity { warmup, early: HashSet::new() }
    }
}

impl Lines for Connectivity {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, _: &Names) -> std::io::Result<()> {
        let Happened::Contact { a, b, up } = *happened else { return Ok(()) };
        let (low, high) = (a.min(b), a.max(b));
        let warm = now < self.warmup;
        if warm && up {
            self.early.insert([low, high]);
        }
        let early = !up && self.early.remove(&[low, high]);
        if warm || early {
            return Ok(());
        }
        writeln!(out, "{} CONN {low} {high} {}", fixed(now, 2), if up { "up" } else { "down" })
    }
}

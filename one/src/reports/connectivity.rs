//! `ConnectivityONEReport`: contacts in the format of an event file.

use super::{Happened, Lines, Names, Out};
use crate::java::fixed;
use std::io::Write as _;

/// Writer of `ConnectivityONEReport`.
pub struct Connectivity;

impl Lines for Connectivity {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, _: &Names) -> std::io::Result<()> {
        let Happened::Contact { a, b, up } = *happened else { return Ok(()) };
        let (low, high) = (a.min(b), a.max(b));
        writeln!(out, "{} CONN {low} {high} {}", fixed(now, 2), if up { "up" } else { "down" })
    }
}

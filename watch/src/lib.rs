//! Live view of a simulation in a terminal: positions and contacts of nodes, or a timeline of links; store occupancy;
//! the bundles that one node holds and why; the virtual clock and its speed.
//!
//! It observes a run as a [`farlink_sim::Observer`] and affects only its duration: the simulation waits while the view
//! is slowed down or paused. Read [`RunWatch`] first, then `view/`, which draws.
#![forbid(unsafe_code)]

mod facts;
mod pace;
mod screen;
mod tally;
mod view;
mod watch;

pub use screen::{KeyCommand, Screen, TerminalScreen, hindrance};
pub use watch::RunWatch;

/// Formats a time of a run as a clock, `1 d 03:20:05`, or in seconds, `12.5 s`.
fn clock(seconds: f64, tenths: bool) -> String {
    if tenths {
        return format!("{seconds:.1} s");
    }
    // The clock never shows a time before the start.
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let days = if days > 0 { format!("{days} d ") } else { String::new() };
    format!("{days}{hours:02}:{minutes:02}:{rest:02}")
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn times_show_clock_or_seconds() {
        assert_eq!(clock(90_061.9, false), "1 d 01:01:01");
        assert_eq!((clock(12.34, true), clock(59.0, false)), ("12.3 s".into(), "00:00:59".into()));
        assert_eq!(clock(-1.0, false), "00:00:00");
    }
}

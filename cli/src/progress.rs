//! Progress of a run on stderr: a bar on a terminal, else a line every five seconds.

use farlink_report::Quantity;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between lines if stderr is not a terminal.
const LINES: Duration = Duration::from_secs(5);
/// Fraction of the run from which the remaining time is estimated; earlier estimates jump.
const FORETOLD: f64 = 0.02;

/// Progress display of one run.
pub struct RunProgress {
    doing: &'static str,
    duration_s: f64,
    begun: Instant,
    said: Instant,
    bar: Option<ProgressBar>,
}

impl RunProgress {
    /// Starts the display of a run of this (virtual) length; `doing` is a word such as `simulating`.
    pub fn new(duration: Duration, doing: &'static str) -> RunProgress {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(duration.as_millis() as u64);
            if let Ok(style) = ProgressStyle::with_template(&format!("{doing} {{wide_bar}} {{percent}} %, {{msg}}")) {
                bar.set_style(style);
            }
            // Ten updates a second look continuous and cost nothing measurable.
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            bar
        });
        RunProgress { doing, duration_s: duration.as_secs_f64(), begun: now, said: now, bar }
    }

    /// Updates the display: the run has reached `at_s` seconds. `what` is shown as further text.
    pub fn show(&mut self, at_s: f64, what: &str) {
        let left = self.left(at_s);
        if let Some(bar) = &self.bar {
            bar.set_position((at_s * 1e3) as u64);
            bar.set_message(format!("{what}{left}"));
        } else if self.said.elapsed() >= LINES {
            self.said = Instant::now();
            eprintln!("{}", line(self.doing, at_s, self.duration_s, what, &left));
        }
    }

    /// Estimate of the remaining time, from the mean speed so far rather than the current one, so that it settles.
    fn left(&self, at_s: f64) -> String {
        let left = remaining_s(self.begun.elapsed().as_secs_f64(), at_s, self.duration_s);
        // "At most": a run may also end early, once everything is delivered.
        left.map_or(String::new(), |s| format!(", at most {} to go", Quantity::Seconds.text(s.ceil())))
    }

    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(doing: &str, at_s: f64, duration_s: f64, what: &str, left: &str) -> String {
    let seconds = |s: f64| Quantity::Seconds.text(s);
    format!("{doing}: {} of {}, {what}{left}", seconds(at_s), seconds(duration_s))
}

/// Remaining seconds at the mean speed so far; `None` until [`FORETOLD`] of the run is done.
fn remaining_s(spent_s: f64, at_s: f64, duration_s: f64) -> Option<f64> {
    let done = at_s / duration_s;
    // A run of no length gives NaN, which no range contains.
    (FORETOLD..=1.0).contains(&done).then(|| spent_s * (1.0 - done) / done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_needs_progress_and_ends_zero() {
        assert_eq!(remaining_s(1.0, 0.1, 100.0), None);
        assert_eq!(remaining_s(10.0, 25.0, 100.0), Some(30.0));
        assert_eq!(remaining_s(40.0, 100.0, 100.0), Some(0.0));
        assert_eq!(remaining_s(0.0, 0.0, 0.0), None);
    }

    #[test]
    fn progress_line_shows_done_and_total() {
        let said = line("simulating", 90.0, 600.0, "7 bundles delivered", ", at most 3 s to go");
        assert_eq!(said, "simulating: 90 s of 10 min, 7 bundles delivered, at most 3 s to go");
    }
}

//! Progress of a campaign on stderr.

use farlink_campaign::CampaignProgress;
use farlink_report::Quantity;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Progress display: a bar on a terminal, else a line every ten seconds.
pub struct Bar {
    bar: Option<ProgressBar>,
    said: Instant,
}
impl Bar {
    /// Shows progress of `total` cells.
    pub fn new(total: usize) -> Bar {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            if let Ok(style) = ProgressStyle::with_template("cells {wide_bar} {human_pos}/{human_len}{msg}") {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            bar
        });
        Bar { bar, said: Instant::now() }
    }
    /// Updates the display.
    pub fn show(&mut self, progress: &CampaignProgress) {
        let words = words(progress);
        if let Some(bar) = &self.bar {
            // Failed cells count as processed, or the bar would never fill.
            bar.set_position((progress.done + progress.failed) as u64);
            bar.set_message(words);
        // No terminal, e.g. the log of a batch system: ten seconds keep it short.
        } else if self.said.elapsed() >= Duration::from_secs(10) {
            self.said = Instant::now();
            eprintln!("cells: {} of {}{words}", progress.done, progress.total);
        }
    }
    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn words(progress: &CampaignProgress) -> String {
    let failed = if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
    // No estimate once the last cell is done.
    let left = progress.left_s.filter(|_| progress.done < progress.total);
    let left = left.map_or(String::new(), |s| format!(", about {} to go", Quantity::Seconds.text(s.ceil())));
    format!("{failed}{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_failures_and_remaining_time() {
        let progress = |failed, left_s| CampaignProgress { done: 3, failed, total: 9, left_s };
        assert_eq!(words(&progress(0, None)), "");
        assert_eq!(words(&progress(2, Some(599.2))), ", 2 failed, about 10 min to go");
        assert_eq!(words(&CampaignProgress { done: 9, ..progress(0, Some(5.0)) }), "", "nothing is left");
    }
}

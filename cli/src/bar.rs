//! Progress bars on stderr, shown only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress bar over bytes; a spinner if `total` is unknown. Hidden if `quiet`, or if stderr is not a terminal.
pub fn bytes(total: Option<u64>, verb: &'static str, quiet: bool) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    bar.set_draw_target(if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    let template = match total {
        Some(_) => "{bar:30} {decimal_bytes}/{decimal_total_bytes} {msg} {decimal_bytes_per_sec} eta {eta}",
        None => "{spinner} {decimal_bytes} {msg} {decimal_bytes_per_sec}",
    };
    // A template that does not parse leaves the default style: a bar is never worth an error.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}

/// Progress bar over steps, with the estimated time that remains.
pub fn steps(total: u64, verb: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    // Five updates a second: steps take from milliseconds to minutes.
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {human_pos}/{human_len}, {eta} to go") {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}

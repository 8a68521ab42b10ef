//! Progress bars, on stderr and only for people.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over bytes; of unknown length when `total` is `None`; hidden when `quiet` or when stderr is
/// no terminal.
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
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}

/// A bar over steps, that says how long the rest takes.
pub fn steps(total: u64, verb: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {human_pos}/{human_len}, {eta} to go") {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}

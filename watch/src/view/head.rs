//! Head of the picture: clock, speed, remaining time, and counters.

use super::{Picture, fit};
use crate::clock;
use farlink_report::Quantity;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let width = usize::from(area.width);
    let lines =
        vec![title(picture, width), Line::raw(fit(&times(picture), width)), Line::raw(fit(&counters(picture), width))];
    frame.render_widget(Paragraph::new(lines), area);
}

fn title(picture: &Picture<'_>, width: usize) -> Line<'static> {
    let facts = picture.facts;
    // The word is drawn in reverse video, and the spaces give it a margin.
    let state = if picture.pace.is_paused() { " paused " } else { "" };
    let name = fit(&facts.name, width.saturating_sub(40).max(12));
    let rest = format!("  simulation by {}, seed {}  ", facts.fidelity, facts.seed);
    Line::from(vec![Span::raw(name).bold(), Span::raw(rest), Span::raw(state).reversed()])
}

/// Line with clock, progress, speed with its limit, and remaining time.
fn times(picture: &Picture<'_>) -> String {
    let (now, end, tenths) = (picture.shown.as_secs_f64(), picture.facts.end.as_secs_f64(), picture.facts.tenths());
    let done = (100.0 * now / end.max(1e-9)).floor();
    let mut text = format!("{} of {}  {done} %", clock(now, tenths), clock(end, tenths));
    let limit = picture.pace.limit();
    if picture.pace.is_paused() {
        return text;
    }
    // Until the speed is measured, the limit stands for it.
    let speed = picture.speed.or(limit);
    match (picture.speed, limit) {
        // Speed and limit are both shown if the simulation does not reach the limit.
        (Some(speed), Some(limit)) if speed < 0.8 * limit => {
            text += &format!("  {} of {} x", number(speed), number(limit));
        }
        (_, Some(limit)) => text += &format!("  {} x", number(limit)),
        (Some(speed), None) => text += &format!("  {} x, no limit", number(speed)),
        (None, None) => text += "  no limit",
    }
    if let Some(speed) = speed.filter(|speed| *speed > 0.0) {
        text += &format!("  {} left", Quantity::Seconds.text(((end - now) / speed).max(0.0).ceil()));
    }
    text
}

fn counters(picture: &Picture<'_>) -> String {
    let tally = picture.tally;
    let mut text = format!(
        "created {}  delivered {}  copies {}  sent {} ({})",
        tally.created,
        tally.delivered,
        tally.copies,
        tally.received,
        Quantity::Bytes.text(tally.received_bytes as f64),
    );
    if tally.refused > 0 {
        text += &format!("  refused {}", tally.refused);
    }
    let dropped: u64 = tally.dropped.values().sum();
    if dropped > 0 {
        let mut reasons: Vec<_> = tally.dropped.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        // The two most frequent reasons fit the line.
        let told = reasons.iter().take(2).map(|(why, count)| format!("{why} {count}")).collect::<Vec<_>>().join(", ");
        text += &format!("  dropped {dropped}: {told}");
    }
    text
}

/// Formats a speed briefly.
fn number(speed: f64) -> String {
    if speed >= 100.0 {
        format!("{speed:.0}")
    } else {
        format!("{speed:.3}").trim_end_matches('0').trim_end_matches('.').into()
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn speeds_are_short() {
        assert_eq!([720.4, 20.0, 0.5, 1.25, 3.33333].map(number), ["720", "20", "0.5", "1.25", "3.333"]);
    }
}

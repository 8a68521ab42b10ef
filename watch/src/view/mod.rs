//! The picture: clock and counters, a map or the timeline of links, store occupancy, and the bundles of the chosen
//! node.

mod fills;
mod head;
mod held;
mod map;
mod timeline;

use crate::facts::Facts;
use crate::pace::RunPace;
use crate::tally::WatchTally;
use farlink_base::Instant;
use farlink_base::store::Usage;
use farlink_bpa::app::BundleStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Columns and rows that a terminal must have for a picture to be drawn.
const LEAST: (u16, u16) = (40, 12);
/// Rows that a terminal must have for the bundles of the chosen node to be shown.
const ROOMY: u16 = 18;

/// Least occupancy drawn for a store that is not empty.
const LEAST_FILL: f64 = 0.03;

/// Everything shown in one picture.
pub struct Picture<'a> {
    pub facts: &'a Facts,
    pub tally: &'a WatchTally,
    pub theme: Theme,
    pub pace: &'a RunPace,
    /// Measured speed, virtual seconds per second.
    pub speed: Option<f64>,
    pub shown: Instant,
    /// Positions of the nodes; empty if the scenario has none.
    pub places: &'a [Option<[f64; 2]>],
    /// Smallest and largest coordinates.
    pub bounds: [[f64; 2]; 2],
    pub usage: Vec<Usage>,
    pub down: Vec<bool>,
    pub chosen: Option<usize>,
    /// The first bundles that the chosen node holds.
    pub held: &'a [BundleStatus],
}

impl Picture<'_> {
    /// Occupancy of a node's store, 0 to 1; at least [`LEAST_FILL`] if it is not empty.
    pub fn fill(&self, node: usize) -> f64 {
        let Some(usage) = self.usage.get(node) else { return 0.0 };
        let share = usage.bytes as f64 / (usage.capacity as f64).max(1.0);
        if usage.bytes > 0 { share.clamp(LEAST_FILL, 1.0) } else { 0.0 }
    }
}

/// Colours; without them, signs, bold and reversed letters distinguish things.
#[derive(Clone, Copy)]
pub struct Theme {
    pub colour: bool,
}
impl Theme {
    pub fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
    pub fn soft(self) -> Style {
        if self.colour { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
    }
    /// Style for this occupancy.
    pub fn fill(self, share: f64) -> Style {
        self.of(match share {
            share if share <= 0.02 => Color::Reset,
            share if share < 0.3 => Color::Cyan,
            share if share < 0.6 => Color::Green,
            share if share < 0.9 => Color::Yellow,
            _ => Color::Red,
        })
    }
}

/// Sign for an occupancy, readable without colour.
pub fn sign(share: f64) -> &'static str {
    match share {
        share if share <= 0.02 => "\u{25cb}",
        share if share < 0.3 => "\u{25d4}",
        share if share < 0.6 => "\u{25d1}",
        share if share < 0.9 => "\u{25d5}",
        _ => "\u{25cf}",
    }
}

/// Draws a picture that fills the frame.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "{}x{} is too small: the view needs {}x{}. q ends the run.",
            area.width, area.height, LEAST.0, LEAST.1
        );
        return frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), area);
    }
    let below = match (picture.chosen, area.height >= ROOMY) {
        (Some(_), true) => (area.height / 3).clamp(6, 16),
        _ => 0,
    };
    let rows =
        Layout::vertical([Constraint::Length(3), Constraint::Min(4), Constraint::Length(below), Constraint::Length(1)]);
    let [top, middle, bottom, keys] = rows.areas(area);
    head::draw(frame, top, picture);
    // Two fifths of the width for the stores; bars of more than 44 columns would be no easier to read.
    let across = (area.width * 2 / 5).clamp(18, 44);
    let [left, right] = Layout::horizontal([Constraint::Min(20), Constraint::Length(across)]).areas(middle);
    if picture.places.iter().any(Option::is_some) {
        map::draw(frame, left, picture);
    } else {
        timeline::draw(frame, left, picture);
    }
    fills::draw(frame, right, picture);
    if below > 0 {
        held::draw(frame, bottom, picture);
    }
    foot(frame, keys, picture);
}

fn foot(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let pause = if picture.pace.is_paused() { "go on" } else { "pause" };
    let text = format!("space {pause}  + - speed  m no limit  arrows/tab node  esc none  q end with results");
    frame.render_widget(Paragraph::new(Line::styled(text, picture.theme.soft())), area);
}

/// Cuts a text to this number of characters.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['\u{2026}']).collect()
}

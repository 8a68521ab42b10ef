//! Timeline of links with their past and planned contacts, or of contacts between nodes without positions.

use super::{Picture, fit};
use crate::tally::{PARTS, TimelineLane, part};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

pub fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let lanes = &picture.tally.lanes;
    let up = lanes.iter().filter(|lane| lane.since.is_some()).count();
    let block = Block::bordered().title(format!(" {up} of {} up ", lanes.len()));
    let inner = block.inner(area);
    let (rows, width) = (usize::from(inner.height), usize::from(inner.width));
    // Lanes of the chosen node come first.
    let of_chosen = |lane: &TimelineLane| picture.chosen.is_some_and(|node| lane.nodes.contains(&node));
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by_key(|place| !of_chosen(&lanes[*place]));
    let longest = lanes.iter().map(|lane| lane.name.chars().count()).max().unwrap_or(0);
    let names = longest.min(width / 3).max(4);
    // The last row is needed for the number of further lanes.
    let room = rows.saturating_sub(usize::from(lanes.len() > rows));
    let mut lines: Vec<Line<'_>> = order.iter().take(room).map(|place| lane(picture, *place, names, width)).collect();
    if lanes.len() > rows {
        lines.push(Line::styled(format!("and {} more", lanes.len() - room), picture.theme.soft()));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn lane<'a>(picture: &'a Picture<'_>, place: usize, names: usize, width: usize) -> Line<'a> {
    let (lane, end) = (&picture.tally.lanes[place], picture.facts.end);
    let name = fit(&lane.name, names);
    let bold = if lane.since.is_some() { Modifier::BOLD } else { Modifier::empty() };
    let mut spans = vec![Span::styled(format!("{name:names$} "), Style::new().add_modifier(bold))];
    let columns = width.saturating_sub(names + 1);
    let now = part(picture.shown, end);
    let planned = picture.facts.planned.get(place);
    for column in 0..columns {
        // At least one part per column, also on a wide screen.
        let parts = column * PARTS / columns..((column + 1) * PARTS / columns).max(column * PARTS / columns + 1);
        let reaches = |(from, to): &(farlink_base::Instant, farlink_base::Instant)| {
            part(*from, end) < parts.end && parts.start <= part(*to, end)
        };
        let (text, style) = if parts.start > now {
            match planned.is_some_and(|times| times.iter().any(reaches)) {
                true => ("\u{2591}", picture.theme.soft()),
                false => (" ", Style::new()),
            }
        } else if lane.was_up(parts.start..parts.end.min(now + 1), picture.shown, end) {
            ("\u{2588}", picture.theme.of(Color::Blue))
        } else {
            ("\u{b7}", picture.theme.soft())
        };
        let style = if parts.contains(&now) { style.add_modifier(Modifier::REVERSED) } else { style };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

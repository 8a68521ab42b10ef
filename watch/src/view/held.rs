//! Bundles that the chosen node holds, and why.

use super::{Picture, fit};
use farlink_report::Quantity;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph};

pub fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let Some(node) = picture.chosen else { return };
    let usage = picture.usage.get(node).copied().unwrap_or_default();
    let (bytes, capacity) = (Quantity::Bytes.text(usage.bytes as f64), Quantity::Bytes.text(usage.capacity as f64));
    let name = &picture.facts.nodes[node];
    let heard: Vec<&str> = picture.tally.neighbours(node).map(|other| picture.facts.nodes[other].as_str()).collect();
    let heard = if heard.is_empty() { String::new() } else { format!(", hears {}", heard.join(" ")) };
    let title = format!(" {name}: {} bundles, {bytes} of {capacity}{heard} ", usage.bundles);
    let block = Block::bordered().title(fit(&title, usize::from(area.width.saturating_sub(2))));
    let inner = block.inner(area);
    let (rows, width) = (usize::from(inner.height), usize::from(inner.width));
    let mut lines = Vec::new();
    if picture.down.get(node) == Some(&true) {
        lines.push(Line::raw("The node is down."));
    } else if picture.held.is_empty() {
        lines.push(Line::raw("The store is empty."));
    } else {
        lines.push(Line::raw(row(["source, created", "to", "size", "lifetime", "waits for"], width)).bold());
    }
    // One row for the headings, one for the number of further bundles.
    let room = rows.saturating_sub(2);
    for status in picture.held.iter().take(room) {
        let source = picture.facts.node_of(&status.id.source);
        let bundle = format!("{source} {}", picture.facts.made_at(&status.id.creation));
        let size = Quantity::Bytes.text(status.payload as f64);
        let lives = Quantity::Seconds.text((status.remaining_ms / 1000) as f64);
        let to = picture.facts.node_of(&status.destination);
        lines.push(Line::raw(row([&bundle, &to, &size, &lives, &status.waits_for], width)));
    }
    let more = usage.bundles.saturating_sub(picture.held.len().min(room) as u64);
    if more > 0 && !picture.held.is_empty() {
        lines.push(Line::styled(format!("and {more} more"), picture.theme.soft()));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn row(cells: [&str; 5], width: usize) -> String {
    let columns = [16, 12, 8, 8];
    let mut text = String::new();
    for (cell, columns) in cells.iter().zip(columns) {
        text += &format!("{:columns$} ", fit(cell, columns));
    }
    let room = width.saturating_sub(text.chars().count());
    text + &fit(cells[4], room)
}

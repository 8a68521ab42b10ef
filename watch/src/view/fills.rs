//! Store occupancy of the nodes.

use super::{Picture, fit, sign};
use farlink_report::Quantity;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

/// Columns for the amount as text.
const WORDS: usize = 8;

pub fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let count = picture.facts.nodes.len();
    let block = Block::bordered().title(format!(" {count} nodes "));
    let inner = block.inner(area);
    let (rows, width) = (usize::from(inner.height), usize::from(inner.width));
    // Keep the chosen node in the middle if not all fit.
    let first = picture.chosen.unwrap_or(0).saturating_sub(rows / 2).min(count.saturating_sub(rows));
    let names = (width / 3).clamp(4, 16);
    let line = |node: usize| {
        let share = picture.fill(node);
        let style = picture.theme.fill(share);
        let usage = picture.usage.get(node).copied().unwrap_or_default();
        let bar = width.saturating_sub(names + WORDS + 4);
        // A store that is not empty shows at least one mark.
        let full = ((share * bar as f64).round() as usize).max(usize::from(share > 0.0)).min(bar);
        let words = match picture.down.get(node) {
            Some(true) => "down".into(),
            _ => Quantity::Bytes.text(usage.bytes as f64),
        };
        let name = format!("{:names$}", fit(&picture.facts.nodes[node], names));
        let chosen = if picture.chosen == Some(node) { Modifier::REVERSED } else { Modifier::empty() };
        Line::from(vec![
            Span::styled(name, Style::new().add_modifier(chosen)),
            Span::styled(format!(" {} ", sign(share)), style),
            Span::styled("\u{2588}".repeat(full), style),
            Span::styled("\u{b7}".repeat(bar - full), picture.theme.soft()),
            Span::raw(format!("{:>WORDS$}", fit(&words, WORDS))),
        ])
    };
    let lines: Vec<Line<'_>> = (first..count.min(first + rows)).map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

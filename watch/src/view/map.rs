//! Map of the nodes, with lines between those in contact.

use super::{Picture, sign};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::Block;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

/// Number of nodes above which nodes are drawn as dots, as signs would overlap.
const CROWD: usize = 400;

pub fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let block = Block::bordered().title(format!(" {} pairs in range ", picture.tally.hears.len()));
    let (x, y) = bounds(picture, block.inner(area));
    let colour = |colour: Color| if picture.theme.colour { colour } else { Color::Reset };
    let place = |node: usize| picture.places.get(node).copied().flatten();
    let crowd: Vec<(f64, f64)> = match picture.places.len() > CROWD {
        true => picture.places.iter().flatten().map(|place| (place[0], place[1])).collect(),
        false => Vec::new(),
    };
    let canvas = Canvas::default().block(block).marker(Marker::Braille).x_bounds(x).y_bounds(y).paint(|pen| {
        for (_, a, b) in &picture.tally.hears {
            let (Some(a), Some(b)) = (place(*a as usize), place(*b as usize)) else { continue };
            pen.draw(&Stroke { x1: a[0], y1: a[1], x2: b[0], y2: b[1], color: colour(Color::DarkGray) });
        }
        // Signs of nodes must not be overwritten by lines.
        pen.layer();
        if crowd.is_empty() {
            for node in 0..picture.places.len() {
                let (Some([x, y]), share) = (place(node), picture.fill(node)) else { continue };
                let gone = picture.down.get(node) == Some(&true);
                pen.print(x, y, Line::styled(if gone { "x" } else { sign(share) }, picture.theme.fill(share)));
            }
        } else {
            pen.draw(&Points { coords: &crowd, color: colour(Color::Cyan) });
        }
        // The chosen node is drawn last, above all others.
        if let Some(([x, y], node)) = picture.chosen.and_then(|node| Some((place(node)?, node))) {
            let style = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
            let name = picture.facts.nodes.get(node).map_or("", String::as_str);
            pen.print(x, y, Line::styled(format!("{}{name}", sign(picture.fill(node))), style));
        }
    });
    frame.render_widget(canvas, area);
}

/// Bounds of the map at equal scale on both axes: a character cell is twice as high as wide.
fn bounds(picture: &Picture<'_>, area: Rect) -> ([f64; 2], [f64; 2]) {
    let [low, high] = picture.bounds;
    let middle = [(low[0] + high[0]) / 2.0, (low[1] + high[1]) / 2.0];
    let (columns, rows) = (f64::from(area.width.max(1)), 2.0 * f64::from(area.height.max(1)));
    // 4 % margin keeps nodes off the border.
    let metres = ((high[0] - low[0]) / columns).max((high[1] - low[1]) / rows).max(1e-6) * 1.04;
    let reach = |middle: f64, cells: f64| [middle - metres * cells / 2.0, middle + metres * cells / 2.0];
    (reach(middle[0], columns), reach(middle[1], rows))
}

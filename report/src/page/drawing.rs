//! Figures that can be drawn: on a page, as a file of SVG, as a page of PDF.

use super::axis::Axis;
use super::canvas::Canvas;
use super::chart::titled;
use super::pdf::Pdf;
use super::plot::{COLOURS, INKS};
use super::svg::{Svg, escape, text_width};

/// Name and colour index of a legend's entry.
pub type LegendEntry<'a> = (&'a str, usize);

/// A figure, ready to be drawn.
pub trait Drawing {
    /// Description for screen readers.
    fn label(&self) -> &str;
    /// Entries of the legend.
    fn entries(&self) -> Vec<LegendEntry<'_>>;
    /// Note beside the legend; empty for none.
    fn note(&self) -> String {
        String::new()
    }
    /// Paints everything but the legend.
    fn paint(&self, on: &mut dyn Canvas, width: f64, height: f64);

    /// Draws the figure for a page that has the report's style sheet.
    fn draw(&self, width: f64, height: f64) -> String {
        let mut svg = Svg::new(width, height, self.label());
        self.paint(&mut svg, width, height);
        svg.finish()
    }

    /// Renders the legend as HTML.
    fn legend(&self) -> String {
        let key = |(label, colour): &LegendEntry<'_>| {
            format!("<span class=\"key s{}\">{}</span>", colour % COLOURS, escape(label))
        };
        let note = match self.note() {
            note if note.is_empty() => note,
            note => format!("<span>{}</span>", escape(&note)),
        };
        format!("<div class=\"legend\">{}{note}</div>", self.entries().iter().map(key).collect::<String>())
    }

    /// Renders the standalone figure as a PDF document of one page.
    fn pdf(&self, title: &str, width: f64, height: f64) -> String {
        let above = above(self);
        let mut page = Pdf::new(width, height + above);
        head(self, &mut page, title, width);
        page.down = above;
        self.paint(&mut page, width, height);
        page.finish(title)
    }

    /// Renders a standalone SVG file, with style, title and legend.
    fn file(&self, title: &str, width: f64, height: f64) -> String {
        // The SVG element of the plot is unwrapped and placed below title and legend.
        let drawn = self.draw(width, height);
        let inside = drawn.split_once('>').map_or("", |(_, rest)| rest);
        let above = above(self);
        let mut top = Svg::new(width, above, "");
        head(self, &mut top, title, width);
        let top = top.finish();
        let top = top.split_once('>').map_or("", |(_, rest)| rest);
        let (top, inside) = (top.trim_end_matches("</svg>"), inside.trim_end_matches("</svg>"));
        let label = escape(self.label());
        let tall = height + above;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{tall}\" \
             viewBox=\"0 0 {width} {tall}\" role=\"img\" aria-label=\"{label}\"><style>{}</style>\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>{top}<g transform=\"translate(0 {above})\">{inside}</g></svg>\n",
            style()
        )
    }
}

// Columns of the legend in a standalone figure.
const COLUMNS: usize = 4;

/// Height of title and legend in a standalone figure, in pixels.
fn above<D: Drawing + ?Sized>(drawing: &D) -> f64 {
    let lines = drawing.entries().len().div_ceil(COLUMNS) + usize::from(!drawing.note().is_empty());
    26.0 + 18.0 * lines as f64
}

fn head<D: Drawing + ?Sized>(drawing: &D, on: &mut dyn Canvas, title: &str, width: f64) {
    on.text("name", (4.0, 18.0), "start", title);
    let entries = drawing.entries();
    let line = |place: usize| 38.0 + 18.0 * (place / COLUMNS) as f64;
    for (place, (label, colour)) in entries.iter().enumerate() {
        let at = (10.0 + (place % COLUMNS) as f64 * width / COLUMNS as f64, line(place));
        on.circle(&format!("mark s{}", colour % COLOURS), (at.0, at.1 - 4.0), 4.0, "");
        on.text("label", (at.0 + 9.0, at.1), "start", label);
    }
    let note = drawing.note();
    if !note.is_empty() {
        on.text("label", (6.0, line(entries.len().next_multiple_of(COLUMNS))), "start", &note);
    }
}

/// Frame of a figure whose horizontal axis has labels at equal distances.
pub(super) struct LabelFrame {
    pub left: f64,
    pub bottom: f64,
    pub top: f64,
    /// Width for each label.
    pub room: f64,
}

impl LabelFrame {
    /// Paints both axes with their titles; `below` is the height left free between the axis and its labels.
    pub fn paint(
        on: &mut dyn Canvas,
        (width, height, below): (f64, f64, f64),
        labels: &[String],
        y_axis: &Axis,
        (x_title, y_title): (&str, &str),
    ) -> LabelFrame {
        let widest = y_axis.ticks.iter().map(|(_, text)| text_width(text, 12.0)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, width - 12.0);
        let (top, bottom) = (TOP, height - BOTTOM - below);
        let room = (right - left) / labels.len().max(1) as f64;
        let frame = LabelFrame { left, bottom, top, room };
        for (value, text) in &y_axis.ticks {
            let y = frame.y(y_axis, *value);
            on.line("grid", (left, y), (right, y));
            on.text("tick", (left - 7.0, y + 4.0), "end", text);
        }
        on.line("axis", (left, bottom), (right, bottom));
        let longest = labels.iter().map(|text| text_width(text, 12.0) + 8.0).fold(1.0, f64::max);
        let every = (longest / room).ceil().max(1.0) as usize;
        for (place, text) in labels.iter().enumerate().step_by(every) {
            on.text("tick", (frame.middle(place), bottom + below + 19.0), "middle", text);
        }
        on.text("title", (4.0, 14.0), "start", &titled(y_title, &y_axis.unit));
        on.text("title", (right, bottom + below + 37.0), "end", x_title);
        frame
    }
    /// Horizontal position of a label.
    pub fn middle(&self, place: usize) -> f64 {
        self.left + self.room * (place as f64 + 0.5)
    }
    /// Vertical position of a value.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        axis.place(value.clamp(axis.from, axis.to), self.bottom, self.top)
    }
}

pub(super) const TOP: f64 = 26.0;
pub(super) const BOTTOM: f64 = 44.0;

/// Style sheet of a standalone file.
fn style() -> String {
    let mut out = String::from(
        "text{font:12px system-ui,sans-serif;fill:#1c2430}.page{fill:#fff}.name{font-size:14px;font-weight:600}\
         .tick,.title{fill:#5a6675}.grid{stroke:#e8ebef}.axis{stroke:#5a6675}.bound{stroke:#1c2430;stroke-width:1.3}.line{fill:none;stroke-width:2}\
         .paper{fill:none;stroke-width:1.6}.reference{fill:none;stroke:#5a6675;stroke-width:1.6;stroke-dasharray:6 4}\
         .part{stroke-width:0.8}",
    );
    for (number, ink) in INKS.iter().enumerate() {
        out.push_str(&format!(
            ".s{number}{{stroke:{ink}}}.mark.s{number},.bar.s{number}{{fill:{ink}}}.part.s{number}{{fill:{ink};stroke:#fff}}"
        ));
    }
    out
}

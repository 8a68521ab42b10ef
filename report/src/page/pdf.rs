//! Figures as PDF, for papers: one page of the size of the figure, with vector lines and text, and no embedded fonts.
//!
//! Text is set in Helvetica, which every reader has (ISO 32000-1, 9.6.2.2), in WinAnsi encoding; other characters
//! become `?`. Equal figures give equal bytes.

use super::canvas::Canvas;
use super::plot::INKS;
use std::fmt::Write;

// A pixel of the figures is 1/96 of an inch, as in CSS, and a point 1/72.
const POINTS: f64 = 0.75;
// Distance of the Bezier control points of a quarter circle from its ends, in radii.
const HANDLE: f64 = 0.5523;

// Advance widths of the characters from space to `~`, in thousandths of the font size: Adobe's
// metrics of Helvetica.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// Encodes a character in WinAnsi (ISO 32000-1, annex D.2).
fn winansi(letter: char) -> u8 {
    match letter {
        ' '..='~' | '\u{a1}'..='\u{ff}' => letter as u8,
        '\u{a0}' | '\u{2009}' | '\u{202f}' => b' ',
        '€' => 0x80,
        '…' => 0x85,
        '‘' => 0x91,
        '’' => 0x92,
        '“' => 0x93,
        '”' => 0x94,
        '–' => 0x96,
        '—' => 0x97,
        // WinAnsi has only the micro sign, which looks the same.
        'μ' => 0xb5,
        '−' => b'-',
        _ => b'?',
    }
}

/// Width of a text in pixels.
fn width(text: &str, size: f64) -> f64 {
    let of = |letter: char| {
        let place = usize::from(winansi(letter)).checked_sub(32);
        f64::from(place.and_then(|place| WIDTHS.get(place)).copied().unwrap_or(556))
    };
    text.chars().map(of).sum::<f64>() / 1000.0 * size
}

/// Escapes a text as a PDF literal string.
fn quoted(text: &str) -> String {
    let mut out = String::from("(");
    for byte in text.chars().map(winansi) {
        match byte {
            b'(' | b')' | b'\\' => drop(write!(out, "\\{}", char::from(byte))),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "\\{byte:03o}")),
        }
    }
    out.push(')');
    out
}

/// Encodes a text string of the document information in UTF-16 (ISO 32000-1, 7.9.2.2).
fn described(text: &str) -> String {
    let units: String = text.encode_utf16().map(|unit| format!("{unit:04X}")).collect();
    format!("<FEFF{units}>")
}

/// Converts a colour such as `#1f6fd6` to three fractions.
fn colour(hex: &str) -> String {
    let share = |from: usize| {
        let byte = hex.get(from..from + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        format!("{:.3}", f64::from(byte.unwrap_or(0)) / 255.0)
    };
    [1, 3, 5].map(share).join(" ")
}

/// Colour and line width of a class.
fn ink(class: &str) -> (&'static str, f64) {
    // `s3` is the colour of the fourth series, as in the style sheet.
    let series = class.split(' ').find_map(|word| word.strip_prefix('s')?.parse::<usize>().ok());
    let wide = match class.split(' ').next() {
        Some("line") => 2.0,
        Some("paper" | "reference") => 1.6,
        Some("bound") => 1.3,
        _ => 1.0,
    };
    let plain = match class {
        "grid" => "#e8ebef",
        "axis" | "tick" | "title" | "reference" => "#5a6675",
        _ => "#1c2430",
    };
    (series.map_or(plain, |number| INKS[number % INKS.len()]), wide)
}

/// A page being drawn, with `y` downwards as in the figures.
pub struct Pdf {
    size: (f64, f64),
    /// Vertical offset of the following shapes, in pixels.
    pub down: f64,
    page: String,
}

impl Pdf {
    /// Creates an empty page of this size in pixels.
    pub fn new(width: f64, height: f64) -> Pdf {
        Pdf { size: (width, height), down: 0.0, page: format!("{POINTS} 0 0 {POINTS} 0 0 cm\n") }
    }
    fn at(&self, (x, y): (f64, f64)) -> String {
        // PDF measures heights from the lower edge of the page.
        format!("{x:.2} {:.2}", self.size.1 - self.down - y)
    }
    fn pen(&mut self, class: &str) {
        let (hex, wide) = ink(class);
        let shares = colour(hex);
        let _ = writeln!(self.page, "{shares} RG {shares} rg {wide} w");
    }
    /// Renders the document.
    pub fn finish(self, title: &str) -> String {
        let [wide, high] = [self.size.0 * POINTS, self.size.1 * POINTS];
        let font =
            |name: &str| format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>");
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_string(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_string(),
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {wide:.2} {high:.2}] /Contents 4 0 R \
                 /Resources << /Font << /F1 5 0 R /F2 6 0 R >> >> >>"
            ),
            format!("<< /Length {} >>\nstream\n{}endstream", self.page.len(), self.page),
            font("Helvetica"),
            font("Helvetica-Bold"),
            format!("<< /Title {} /Producer (farlink) >>", described(title)),
        ];
        let mut out = String::from("%PDF-1.4\n");
        let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
        // Each entry of the cross-reference table takes 20 bytes (ISO 32000-1, 7.5.4).
        for (place, object) in objects.iter().enumerate() {
            let _ = writeln!(table, "{:010} 00000 n ", out.len());
            let _ = write!(out, "{} 0 obj\n{object}\nendobj\n", place + 1);
        }
        let (start, count) = (out.len(), objects.len() + 1);
        let _ = write!(out, "{table}trailer\n<< /Size {count} /Root 1 0 R /Info 7 0 R >>\nstartxref\n{start}\n%%EOF\n");
        out
    }
}

impl Canvas for Pdf {
    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.pen(class);
        let (from, to) = (self.at(from), self.at(to));
        let _ = writeln!(self.page, "{from} m {to} l S");
    }
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), _radius: f64, _tip: &str) {
        self.pen(class);
        let (wide, high) = (size.0.max(0.0), size.1.max(0.0));
        // PDF rectangles start at their lower left corner.
        let corner = self.at((at.0, at.1 + high));
        let _ = writeln!(self.page, "{corner} {wide:.2} {high:.2} re B");
    }
    fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        let (font, size) = if class == "name" { ("F2", 14.0) } else { ("F1", 12.0) };
        // PDF has no text anchors, so the width of the text is subtracted.
        let before = match anchor {
            "end" => width(text, size),
            "middle" => width(text, size) / 2.0,
            _ => 0.0,
        };
        let (shares, at) = (colour(ink(class).0), self.at((at.0 - before, at.1)));
        let _ = writeln!(self.page, "{shares} rg BT /{font} {size} Tf {at} Td {} Tj ET", quoted(text));
    }
    fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, _tip: &str) {
        let Some((first, rest)) = points.split_first() else { return };
        self.pen(class);
        let mut path = format!("{} m", self.at(*first));
        let mut last = *first;
        for point in rest {
            if steps {
                let _ = write!(path, " {} l", self.at((point.0, last.1)));
            }
            let _ = write!(path, " {} l", self.at(*point));
            last = *point;
        }
        // PDF keeps a pattern of dashes until it is changed, so the solid line is restored afterwards.
        let (dashes, end) = if class == "reference" { ("[4.5 3] 0 d\n", "\n[] 0 d") } else { ("", "") };
        let _ = writeln!(self.page, "{dashes}{path} S{end}");
    }
    fn circle(&mut self, class: &str, (x, y): (f64, f64), r: f64, _tip: &str) {
        self.pen(class);
        let h = r * HANDLE;
        // Clockwise from the right: bottom, left, top, each with its two control points.
        let quarters = [
            [(x + r, y + h), (x + h, y + r), (x, y + r)],
            [(x - h, y + r), (x - r, y + h), (x - r, y)],
            [(x - r, y - h), (x - h, y - r), (x, y - r)],
            [(x + h, y - r), (x + r, y - h), (x + r, y)],
        ];
        let mut path = format!("{} m", self.at((x + r, y)));
        for quarter in quarters {
            let _ = write!(path, " {} c", quarter.map(|point| self.at(point)).join(" "));
        }
        // Values from a paper are drawn as rings.
        let _ = writeln!(self.page, "{path} {}", if class.starts_with("paper") { "s" } else { "b" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdf_offsets_and_lengths_are_right() {
        let mut pdf = Pdf::new(200.0, 100.0);
        pdf.circle("mark s1", (10.0, 10.0), 4.0, "");
        // Characters that need escaping, of the WinAnsi encoding, and of neither.
        pdf.text("name", (4.0, 18.0), "start", "one (two) \\ é μ 漢");
        let text = pdf.finish("Übersicht 漢");
        let table: usize = text.rsplit_once("startxref\n").unwrap().1.lines().next().unwrap().parse().unwrap();
        let lines: Vec<&str> = text[table..].lines().collect();
        assert_eq!(lines[..2], ["xref", "0 8"]);
        for (place, line) in lines[3..10].iter().enumerate() {
            let at: usize = line[..10].parse().unwrap();
            assert!(text[at..].starts_with(&format!("{} 0 obj\n", place + 1)), "{line}");
            assert_eq!(line.len() + 1, 20, "entries are of 20 bytes (ISO 32000-1, 7.5.4)");
        }
        let (_, stream) = text.split_once("stream\n").unwrap();
        let long: usize = text.split_once("/Length ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert!(stream[long..].starts_with("endstream"));
        assert!(text.contains(r"(one \(two\) \\ \351 \265 ?) Tj") && text.contains("/Title <FEFF00DC"), "{text}");
    }

    #[test]
    fn pdf_text_anchors_are_right() {
        assert!((width("Wide 100 kB", 10.0) - 56.69).abs() < 0.01, "{}", width("Wide 100 kB", 10.0));
        let at = |anchor| {
            let mut pdf = Pdf::new(100.0, 50.0);
            pdf.text("tick", (80.0, 20.0), anchor, "iii");
            pdf.page.split_once("Tf ").unwrap().1.split(' ').next().unwrap().to_string()
        };
        // The text is three times as wide as `i`, whose width is 0.222 of the font size 12.
        assert_eq!(["start", "middle", "end"].map(at), ["80.00", "76.00", "72.01"]);
    }

    #[test]
    fn pdf_shapes_lie_upright_on_page() {
        let mut pdf = Pdf::new(100.0, 50.0);
        pdf.down = 10.0;
        pdf.rect("bar s2", (5.0, 5.0), (10.0, 20.0), 1.5, "");
        pdf.path("line s0", &[(0.0, 0.0), (10.0, 40.0)], false, "");
        assert!(pdf.page.contains("5.00 15.00 10.00 20.00 re B"), "its lower corner is 35 from the top: {}", pdf.page);
        assert!(pdf.page.contains("0.00 40.00 m 10.00 0.00 l S") && pdf.page.contains("0.851 0.451 0.051 RG"));
    }
}

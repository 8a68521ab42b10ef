//! Well-known text: points and lines of map files, routes and points of interest.

use super::map::Point;
use super::settings::Mistake;
use std::path::Path;

/// Kinds of shapes that The ONE reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeKind {
    /// `POINT`.
    Point,
    /// `LINESTRING`.
    Line,
    /// `MULTILINESTRING`.
    Lines,
}

/// Shape of a file.
#[derive(Debug)]
pub struct Shape {
    /// Kind of the shape.
    pub kind: ShapeKind,
    /// Its lines; a point is a line of one point.
    pub lines: Vec<Vec<Point>>,
    /// First line of the file, from 1.
    pub line: usize,
}

/// Shapes of a file, in order.
///
/// # Errors
/// Fails on shapes of other kinds, which The ONE skips: they would silently be missing.
pub fn shapes(file: &Path, text: &str) -> Result<Vec<Shape>, Mistake> {
    // A shape may span several lines, until its brackets close.
    let (mut shape, mut begun, mut open) = (String::new(), 0, 0i64);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if shape.is_empty() {
            if line.trim().is_empty() {
                continue;
            }
            begun = number + 1;
        }
        open += line.matches('(').count() as i64 - line.matches(')').count() as i64;
        shape += line;
        shape.push(' ');
        if open > 0 || !shape.contains('(') {
            continue;
        }
        let (kind, lines) = parse(&shape).map_err(|what| {
            let hint = "covered are POINT (X Y), LINESTRING (X Y, X Y, ...) and MULTILINESTRING ((...), (...))";
            Mistake::at(file, begun, what, hint)
        })?;
        found.push(Shape { kind, lines, line: begun });
        shape.clear();
        open = 0;
    }
    if shape.is_empty() {
        return Ok(found);
    }
    Err(Mistake::at(file, begun, "a shape that does not end", "close its brackets"))
}

fn parse(text: &str) -> Result<(ShapeKind, Vec<Vec<Point>>), String> {
    let (kind, rest) = text.split_once('(').unwrap_or((text, ""));
    let inside = rest.trim().strip_suffix(')').ok_or("brackets that do not match")?;
    match kind.trim() {
        "POINT" => Ok((ShapeKind::Point, vec![line(inside)?])),
        "LINESTRING" => Ok((ShapeKind::Line, vec![line(inside)?])),
        "MULTILINESTRING" => {
            let parts = inside.split(')').map(|part| part.trim_start_matches([',', ' ', '\t', '(']));
            let lines = parts.filter(|part| !part.trim().is_empty()).map(line).collect::<Result<_, _>>()?;
            Ok((ShapeKind::Lines, lines))
        }
        other => Err(format!("`{other}` is not covered")),
    }
}

fn line(text: &str) -> Result<Vec<Point>, String> {
    let point = |pair: &str| {
        let numbers: Vec<Option<f64>> =
            pair.split_whitespace().map(|word| word.parse::<f64>().ok().filter(|n| n.is_finite())).collect();
        // The ONE reads two numbers and ignores a third, the height.
        match numbers[..] {
            [Some(x), Some(y)] | [Some(x), Some(y), Some(_)] => Ok([x, y]),
            _ => Err(format!("`{}` is no place", pair.trim())),
        }
    };
    text.split(',').map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Shape>, Mistake> {
        shapes(Path::new("streets.wkt"), text)
    }

    #[test]
    fn invalid_shape_is_reported_with_line() {
        for (text, told) in [
            ("\n\nPOLYGON (1 2)", "streets.wkt:3: `POLYGON` is not covered"),
            ("LINESTRING (1 2, x 3)", "streets.wkt:1: `x 3` is no place"),
            ("LINESTRING (1 2, 3)", "is no place"),
            ("LINESTRING (1 2, 3 4", "does not end"),
            ("LINESTRING 1 2)", "does not end"),
            ("LINESTRING (0 0, 1e999 0)", "is no place"),
            ("POINT (0 0, 1)", "is no place"),
        ] {
            let mistake = read(text).expect_err(text).to_string();
            assert!(mistake.contains(told), "{mistake}");
        }
    }

    #[test]
    fn shapes_may_span_lines() {
        let found = read("LINESTRING (0 0,\n 1 1,\n 2 2)\n\nPOINT (3 4 5)\nMULTILINESTRING ((1 1, 2 2), (3 3, 4 4))");
        let found = found.expect("it can be read");
        let told: Vec<_> = found.iter().map(|shape| (shape.kind, shape.line, shape.lines.len())).collect();
        assert_eq!(told, [(ShapeKind::Line, 1, 1), (ShapeKind::Point, 5, 1), (ShapeKind::Lines, 6, 2)]);
        assert_eq!((found[0].lines[0].len(), found[1].lines[0][0]), (3, [3.0, 4.0]));
    }
}

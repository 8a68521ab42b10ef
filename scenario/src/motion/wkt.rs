//! Streets as well-known text: `LINESTRING (x y, x y, ...)` and `MULTILINESTRING ((...), (...))`, with
//! coordinates in metres. Points with the same coordinates are one crossing.

use super::text::{Mistake, Point, number};
use std::collections::HashMap;

/// Points and the straight streets between them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Streets {
    /// Crossings, bends and ends.
    pub points: Vec<Point>,
    /// Streets as pairs of indices in `points`.
    pub streets: Vec<(u32, u32)>,
}

impl Streets {
    /// Number of separate parts of the map, between which no street leads.
    pub fn parts(&self) -> usize {
        // Union-find over the points.
        let mut joined: Vec<u32> = (0..self.points.len() as u32).collect();
        let mut parts = self.points.len();
        for &(a, b) in &self.streets {
            let (a, b) = (root(&mut joined, a), root(&mut joined, b));
            parts -= usize::from(a != b);
            joined[a.max(b) as usize] = a.min(b);
        }
        parts
    }
}

fn root(joined: &mut [u32], mut of: u32) -> u32 {
    while joined[of as usize] != of {
        let above = joined[of as usize];
        // Path halving keeps the trees flat.
        joined[of as usize] = joined[above as usize];
        of = above;
    }
    of
}

/// Reads streets; `#` begins a comment.
///
/// # Errors
/// The first line that is no LINESTRING or MULTILINESTRING.
pub fn parse(text: &str) -> Result<Streets, Mistake> {
    let mut words = Words { rest: text, line: 1 };
    let (mut streets, mut places) = (Streets::default(), HashMap::new());
    while let Some(word) = words.word() {
        let many = match word.to_ascii_uppercase().as_str() {
            "LINESTRING" => false,
            "MULTILINESTRING" => true,
            // Some programs write separators between geometries.
            "," | ";" => continue,
            _ => return Err(words.mistake(word, "LINESTRING or MULTILINESTRING")),
        };
        if !words.opens()? {
            continue;
        }
        if !many {
            line(&mut words, &mut streets, &mut places)?;
            continue;
        }
        loop {
            if words.opens()? {
                line(&mut words, &mut streets, &mut places)?;
            }
            match words.word() {
                Some(",") => {}
                Some(")") => break,
                other => return Err(words.mistake(other.unwrap_or("the end"), "`,` or `)`")),
            }
        }
    }
    Ok(streets)
}

/// Reads the points of a line up to its closing parenthesis.
fn line(words: &mut Words<'_>, streets: &mut Streets, places: &mut HashMap<(u64, u64), u32>) -> Result<(), Mistake> {
    let mut last: Option<u32> = None;
    loop {
        let point = [words.coordinate()?, words.coordinate()?];
        // Adding 0.0 turns -0.0 into 0.0: the bits of one place must be equal.
        let key = ((point[0] + 0.0).to_bits(), (point[1] + 0.0).to_bits());
        let here = *places.entry(key).or_insert_with(|| {
            streets.points.push(point);
            streets.points.len() as u32 - 1
        });
        // A repeated point is no street of zero length.
        if let Some(last) = last.filter(|last| *last != here) {
            streets.streets.push((last, here));
        }
        last = Some(here);
        // A third coordinate is a height, which a plane does not need.
        let end = match words.word() {
            Some(word) if number(word).is_some() => words.word(),
            other => other,
        };
        match end {
            Some(",") => {}
            Some(")") => return Ok(()),
            other => return Err(words.mistake(other.unwrap_or("the end"), "`,` or `)`")),
        }
    }
}

/// Tokens of the text: words, and each sign as a word.
struct Words<'t> {
    rest: &'t str,
    line: usize,
}
impl<'t> Words<'t> {
    fn word(&mut self) -> Option<&'t str> {
        loop {
            let start = self.rest.find(|c: char| !c.is_whitespace()).unwrap_or(self.rest.len());
            self.skip(start);
            match self.rest.chars().next()? {
                '#' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
                sign @ ('(' | ')' | ',' | ';') => {
                    let (word, _) = self.rest.split_at(sign.len_utf8());
                    self.skip(word.len());
                    return Some(word);
                }
                _ => {
                    let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';' | '#');
                    let (word, _) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
                    self.skip(word.len());
                    return Some(word);
                }
            }
        }
    }
    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
    }
    /// Reads an opening parenthesis; false for `EMPTY`.
    fn opens(&mut self) -> Result<bool, Mistake> {
        match self.word() {
            Some("(") => Ok(true),
            Some(word) if word.eq_ignore_ascii_case("EMPTY") => Ok(false),
            // `Z` and `M` mark coordinates with heights and measures.
            Some(word) if ["Z", "M"].iter().any(|kind| word.eq_ignore_ascii_case(kind)) => match self.word() {
                Some("(") => Ok(true),
                other => Err(self.mistake(other.unwrap_or("the end"), "`(`")),
            },
            other => Err(self.mistake(other.unwrap_or("the end"), "`(`")),
        }
    }
    fn coordinate(&mut self) -> Result<f64, Mistake> {
        let word = self.word().unwrap_or("the end");
        number(word).ok_or_else(|| self.mistake(word, "a coordinate in metres"))
    }
    fn mistake(&self, found: &str, expected: &str) -> Mistake {
        // A file without spaces is one word: messages stay short.
        let found: String = found.chars().take(40).collect();
        Mistake::new(self.line, format!("found `{found}` where {expected} was expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossing_lines_share_a_point() {
        let text = "# a cross\nLINESTRING (0 0, 10 0, 20 -0)\nlinestring(10 10 5,10 0,\n 10 -10)\n\
                    MULTILINESTRING Z ((5 5 1, 6 6 1), EMPTY, (6 6 0, 5 5 0)); LINESTRING EMPTY";
        let streets = parse(text).unwrap();
        let points = [[0.0, 0.0], [10.0, 0.0], [20.0, 0.0], [10.0, 10.0], [10.0, -10.0], [5.0, 5.0], [6.0, 6.0]];
        assert_eq!(streets.points, points);
        assert_eq!(streets.streets, [(0, 1), (1, 2), (3, 1), (1, 4), (5, 6), (6, 5)]);
        assert_eq!((streets.parts(), parse("").unwrap().parts()), (2, 0));
    }

    #[test]
    fn bad_streets_name_their_line() {
        let said = |text: &str| parse(text).map_err(|m| (m.line, m.message)).unwrap_err();
        assert_eq!(said("\nPOINT (1 2)").0, 2);
        assert!(said("LINESTRING (1 2, 3)").1.contains("found `)` where a coordinate"));
        assert!(said("LINESTRING (1 2\n").1.contains("found `the end` where `,` or `)`"));
        assert!(said("LINESTRING 1 2").1.contains("`(`"));
        assert!(said("LINESTRING (1 2, nan 3)").1.contains("`nan`"));
        assert!(said("LINESTRING (1 2, inf 3)").1.contains("`inf`"));
        assert!(said("MULTILINESTRING ((1 2, 3 4) (").1.contains("`(`"));
        assert!(said("MULTILINESTRING (").1.contains("`(`"));
    }

    #[test]
    fn truncated_text_never_panics() {
        // Every prefix and suffix of a text with each kind of token, and a letter of two bytes.
        let text = "MULTILINESTRING ((0 0, 1 1),\n(1 1, 2 2)) # é\nLINESTRING Z (1 2 3, 4 5 6)";
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = parse(&text[..end]);
            let _ = parse(&text[end..]);
        }
    }
}

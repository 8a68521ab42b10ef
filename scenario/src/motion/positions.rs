//! Recorded positions, one line each: `time node x y`, in seconds and metres; further columns are ignored. Files of the
//! ONE simulator begin with a line of bounds (least and largest time, x, y, z), which has another number of columns;
//! its least values are then subtracted, as that simulator does.

use super::text::{Mistake, Point, lines, number};
use std::collections::HashMap;

/// Recorded positions of one node.
#[derive(Clone, PartialEq, Debug)]
pub struct Track {
    /// Name of the node in the file.
    pub id: String,
    /// Times in seconds from the start of the run, never decreasing, with positions.
    pub fixes: Vec<(f64, Point)>,
}

/// Reads tracks: by number if all names are numbers, else in the order of their first lines.
///
/// # Errors
/// The first line that is no position, or goes back in time.
pub fn parse(text: &str) -> Result<Vec<Track>, Mistake> {
    let (mut tracks, mut places): (Vec<Track>, HashMap<&str, usize>) = (Vec::new(), HashMap::new());
    let mut least = [0.0; 3];
    // A first line of six or more numbers is the line of bounds only if the second line has another number of columns.
    let below = lines(text).nth(1).map(|(_, words)| words.len());
    for (count, (line, words)) in lines(text).enumerate() {
        let stands_out = count == 0 && words.len() >= 6 && below != Some(words.len());
        if stands_out && words.iter().all(|word| number(word).is_some()) {
            let values: Vec<f64> = words.iter().filter_map(|word| number(word)).collect();
            // The values are pairs of least and largest, of the time, x and y in this order.
            least = [values[0], values[2], values[4]];
            continue;
        }
        let wrong = || Mistake::new(line, "expected `time node x y`, in seconds and metres");
        let [time, id, x, y, ..] = words[..] else { return Err(wrong()) };
        let (Some(time), Some(x), Some(y)) = (number(time), number(x), number(y)) else { return Err(wrong()) };
        let place = *places.entry(id).or_insert_with(|| {
            tracks.push(Track { id: id.to_string(), fixes: Vec::new() });
            tracks.len() - 1
        });
        let time = time - least[0];
        let fixes = &mut tracks[place].fixes;
        if fixes.last().is_some_and(|(before, _)| *before > time) {
            return Err(Mistake::new(line, format!("time goes back for node `{id}`")));
        }
        fixes.push((time, [x - least[1], y - least[2]]));
    }
    // If all names are numbers, tracks go to the group's nodes in numeric order, not in the order of first appearance.
    if tracks.iter().all(|track| track.id.parse::<u64>().is_ok()) {
        tracks.sort_by_key(|track| track.id.parse::<u64>().unwrap_or(u64::MAX));
    }
    Ok(tracks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_sort_numbers_keep_names() {
        let tracks = parse("# t id x y\n0 10 1 2\n0 9 3 4 99\n5,10,6,7\n").unwrap();
        let said: Vec<_> = tracks.iter().map(|t| (t.id.as_str(), t.fixes.clone())).collect();
        assert_eq!(said[0], ("9", vec![(0.0, [3.0, 4.0])]));
        assert_eq!(said[1], ("10", vec![(0.0, [1.0, 2.0]), (5.0, [6.0, 7.0])]));
        let names: Vec<String> = parse("0 bus 1 1\n0 10 1 1\n0 9 1 1").unwrap().into_iter().map(|t| t.id).collect();
        assert_eq!(names, ["bus", "10", "9"]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn bounds_line_shifts_to_origin() {
        let tracks = parse("100 200 10 20 5 6 0 0\n100 1 10 5\n150 1 20 6").unwrap();
        assert_eq!(tracks[0].fixes, [(0.0, [0.0, 0.0]), (50.0, [10.0, 1.0])]);
        let tracks = parse("3 1 10 5 0 0\n4 1 20 6 0 0").unwrap();
        assert_eq!(tracks[0].fixes, [(3.0, [10.0, 5.0]), (4.0, [20.0, 6.0])], "positions with further columns");
    }

    #[test]
    fn bad_position_lines_are_errors() {
        for (text, line) in [("0 1 2", 1), ("0 1 1 1\nx 1 1 1", 2), ("0 1 nan 1", 1), ("0 1 1 1e99", 1)] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
        // Times of different nodes may interleave; those of one node must not decrease.
        let back = parse("5 a 1 1\n4 b 1 1\n4 a 1 1").unwrap_err();
        assert_eq!(back, Mistake::new(3, "time goes back for node `a`"));
    }
}

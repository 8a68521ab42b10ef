//! Recorded contacts, in two kinds of lines: `time CONN one other up` and `down`, as the ONE simulator writes them
//! (StandardEventsReader, EventLogReport, ConnectivityONEReport; its other events are ignored), and tables `one other
//! start end`, as in data sets of CRAWDAD. Times are seconds; further columns are ignored.

use super::text::{Mistake, lines, number};
use farlink_base::Duration;
use std::collections::HashMap;

/// A recorded contact of two nodes, which are named as in the file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Encounter<'t> {
    /// Line of the file with its beginning, from 1.
    pub line: usize,
    /// Names of the two nodes in the file.
    pub nodes: [&'t str; 2],
    /// Beginning in seconds of the file's clock.
    pub start: f64,
    /// End in seconds of the file's clock; `None`: the file has none.
    pub end: Option<f64>,
}

/// A contact of two nodes in the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Indices of both in [`crate::Scenario::nodes`].
    pub nodes: [usize; 2],
    /// Beginning, from the start of the run.
    pub start: Duration,
    /// End, from the start of the run; `None`: it lasts until the run ends.
    pub end: Option<Duration>,
}

/// Other events of the ONE simulator, which are skipped.
const OTHERS: &[&str] = &["C", "S", "DE", "A", "DR", "R", "D"];

/// Reads encounters, in the order of the lines that end them; those without an end come last.
///
/// # Errors
/// The first line that is neither an event nor a row of a table.
pub fn parse(text: &str) -> Result<Vec<Encounter<'_>>, Mistake> {
    let mut all = Vec::new();
    // Pairs in contact now, with the line and the time of the beginning.
    let mut up: HashMap<[&str; 2], (usize, f64)> = HashMap::new();
    for (line, words) in lines(text) {
        match words[..] {
            [time, "CONN", one, other, word, ..] => {
                let time = number(time).ok_or_else(|| Mistake::new(line, format!("`{time}` is no time in seconds")))?;
                // Files name the pair in either order, and need not keep it from `up` to `down`.
                let nodes = if one <= other { [one, other] } else { [other, one] };
                match (word, up.get(&nodes).copied()) {
                    ("up", None) => {
                        up.insert(nodes, (line, time));
                    }
                    ("down", Some((begun, start))) => {
                        if time < start {
                            return Err(Mistake::new(line, "the contact ends before it starts"));
                        }
                        up.remove(&nodes);
                        all.push(Encounter { line: begun, nodes, start, end: Some(time) });
                    }
                    // A repeated event, or the end of a contact from before the file begins.
                    ("up" | "down", _) => {}
                    _ => return Err(Mistake::new(line, format!("`{word}` is neither `up` nor `down`"))),
                }
            }
            // Nodes may have names of events, such as `C`: a row of a table has two numbers behind them.
            [_, word, ref rest @ ..] if OTHERS.contains(&word) && !are_times(rest) => {}
            [one, other, start, end, ..] => {
                let (Some(start), Some(end)) = (number(start), number(end)) else { return Err(strange(line)) };
                if end < start {
                    return Err(Mistake::new(line, "the contact ends before it starts"));
                }
                all.push(Encounter { line, nodes: [one, other], start, end: Some(end) });
            }
            _ => return Err(strange(line)),
        }
    }
    let mut open: Vec<_> = up.into_iter().collect();
    // The map has no order: contacts without an end come in the order of their lines.
    open.sort_by_key(|(_, (line, _))| *line);
    all.extend(open.into_iter().map(|(nodes, (line, start))| Encounter { line, nodes, start, end: None }));
    Ok(all)
}

fn are_times(words: &[&str]) -> bool {
    // A table's row goes on with two times; an event goes on with names.
    matches!(words, [start, end, ..] if number(start).is_some() && number(end).is_some())
}

fn strange(line: usize) -> Mistake {
    Mistake::new(line, "expected `time CONN node node up`, `... down`, or `node node start end` in seconds")
}

/// Number in the name of a node in a file: 17 for `17` and for `p17`; `None` for other names.
pub fn number_of(id: &str) -> Option<u64> {
    id.trim_start_matches(|c: char| c.is_alphabetic()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<([&str; 2], f64, Option<f64>)> {
        parse(text).unwrap().into_iter().map(|e| (e.nodes, e.start, e.end)).collect()
    }

    #[test]
    fn one_events_read_either_order() {
        // A comment, two pairs, events to be skipped, a repeated `up`, and a `down` without `up`.
        let text = "# log\n1.5 CONN p1 p2 up\n2 C p1 M1\n2.5 CONN 3 4 up 0\n3 DE p1 p2 M1 D\n4.25 CONN p2 p1 down\n\
                    9 CONN p1 p2 up\n9 CONN p1 p2 up\n9 CONN p8 p9 down\n";
        let (pair, other) = (["p1", "p2"], ["3", "4"]);
        assert_eq!(said(text), [(pair, 1.5, Some(4.25)), (other, 2.5, None), (pair, 9.0, None)]);
    }

    #[test]
    fn contact_tables_allow_extra_columns() {
        assert_eq!(
            said("1 2 100 150 1 0\n\n2\t3 120 120\n"),
            [(["1", "2"], 100.0, Some(150.0)), (["2", "3"], 120.0, Some(120.0))]
        );
        // Nodes may have the names of the ONE simulator's other events.
        assert_eq!(said("B A 1 2\nA C 3 4\n"), [(["B", "A"], 1.0, Some(2.0)), (["A", "C"], 3.0, Some(4.0))]);
        assert_eq!((number_of("17"), number_of("p17"), number_of("bus")), (Some(17), Some(17), None));
    }

    #[test]
    fn bad_contact_lines_are_errors() {
        // Each text has one mistake, and the line must be the mistake's.
        let line = |text: &str| parse(text).unwrap_err().line;
        assert_eq!(line("1 CONN a b up\n2 CONN a b left"), 2);
        assert_eq!(line("x CONN a b up"), 1);
        assert_eq!(line("5 CONN a b up\n4 CONN a b down"), 2);
        assert_eq!(line("1 2 30 20"), 1);
        assert_eq!(line("1 2 3"), 1);
        assert_eq!(line("1 2 3 nan"), 1);
        assert_eq!(line("hello"), 1);
    }
}

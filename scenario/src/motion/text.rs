//! Words and numbers of recorded files, and their mistakes.

/// Metres east and north of a corner of the scene.
pub type Point = [f64; 2];

/// A line of a file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the mistake.
    pub message: String,
}
impl Mistake {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Mistake {
        Mistake { line, message: message.into() }
    }
}

/// Words of each line, with the line's number from 1; comments and empty lines are left out.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, words(line))).filter(|(_, words)| !words.is_empty())
}
fn words(line: &str) -> Vec<&str> {
    // `#` begins a comment; commas separate like spaces, for CSV files.
    let told = line.split('#').next().unwrap_or(line);
    told.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect()
}

/// Parses a finite number of at most 1e12, so that sums and products stay finite and exact enough; `None` for others.
pub(crate) fn number(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|number| number.abs() <= 1e12)
}

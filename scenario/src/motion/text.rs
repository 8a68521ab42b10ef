//! Words and numbers of files of places and ways, and what is wrong in them.

/// Metres east and north of a corner of the scene.
pub type Point = [f64; 2];

/// A line of a file that says nothing we know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}
impl Mistake {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Mistake {
        Mistake { line, message: message.into() }
    }
}

/// Lines of a table of words with their numbers; without comments, empty ones left out.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, words(line))).filter(|(_, words)| !words.is_empty())
}
fn words(line: &str) -> Vec<&str> {
    let told = line.split('#').next().unwrap_or(line);
    told.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect()
}

/// A number that can be reckoned with.
pub(crate) fn number(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|number| number.abs() <= 1e12)
}

//! Collector of mistakes and warnings, with their places in the file.

use farlink_base::ConfigError;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::Spanned;
use toml::de::DeTable;

/// Collector of the mistakes and warnings in one text.
#[derive(Debug)]
pub struct Errors<'a> {
    file: Option<&'a str>,
    text: &'a str,
    /// Offset of each line's first byte.
    lines: Vec<usize>,
    /// Mistakes with the byte offsets by which they are sorted: 0 for a mistake without an offset, and `usize::MAX` for
    /// one that is not at a place in the text ([`Errors::push`]).
    list: RefCell<Vec<(usize, ConfigError)>>,
    warnings: RefCell<Vec<(usize, ConfigError)>>,
    /// Offsets of the tables read, by path.
    places: RefCell<HashMap<String, usize>>,
    work: Cell<u64>,
}

impl<'a> Errors<'a> {
    /// Creates a collector for a text. With a `file`, mistakes name it: `node.toml:7: link.x.rate`; otherwise only the
    /// line: `link[x].rate (line 7)`.
    pub fn new(file: Option<&'a str>, text: &'a str) -> Self {
        // Computed once, since each mistake needs its line.
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        Errors {
            file,
            text,
            lines,
            list: RefCell::default(),
            warnings: RefCell::default(),
            places: RefCell::default(),
            work: Cell::default(),
        }
    }
    /// Parses the text; `None` if it is not TOML or too long, which is recorded as a mistake.
    pub fn parse(&self) -> Option<Spanned<DeTable<'a>>> {
        if self.text.len() as u64 > FILE_MAX {
            self.push(self.file.unwrap_or("line 1"), "the file is longer than 256 MiB, the limit", "");
            return None;
        }
        // TOML cannot begin with a brace, but JSON does.
        if self.text.trim_start().starts_with('{') {
            let hint = "keys are written `name = value`, tables `[name]`; `farlink init` writes working files";
            self.push(self.file.unwrap_or("line 1"), "the file is JSON, TOML is expected", hint);
            return None;
        }
        let (root, syntax) = DeTable::parse_recoverable(self.text);
        // The parser goes on behind a mistake and misreads what follows: only the first mistake is certain.
        let first = syntax.iter().min_by_key(|error| error.span().map_or(0, |span| span.start));
        if let Some(error) = first {
            self.not_toml(error);
        }
        // The rest of a broken text would cause misleading mistakes.
        first.is_none().then_some(root)
    }
    /// Adds a mistake of syntax, with the text that it is about.
    fn not_toml(&self, error: &toml::de::Error) {
        let span = error.span().unwrap_or(0..0);
        let line = self.line(span.start);
        let (what, hint) = match (error.message().trim(), self.text.get(span.clone())) {
            ("duplicate key", Some(key)) => (
                format!("`{}` is there twice", key.trim()),
                "keep one of them; tables of one kind need names of their own, as in [link.a] and [link.b]",
            ),
            (why, _) => (
                // Without the line itself: it may hold a secret.
                format!("not TOML: {why}"),
                "look for a missing `\"`, `]` or `=`, here or in the line before; text values and quantities need double \
                 quotes; tables are `[name]`, lists of tables `[[name]]`",
            ),
        };
        let place = self.file.map_or_else(|| format!("line {line}"), |file| format!("{file}:{line}"));
        self.add(span.start, place, what, hint);
    }
    /// Adds a mistake without a line: it has no place in the text, or `path` names its place.
    pub fn push(&self, path: impl Into<String>, expected: impl Into<String>, hint: impl Into<String>) {
        self.add(usize::MAX, path, expected, hint);
    }
    fn add(&self, at: usize, path: impl Into<String>, expected: impl Into<String>, hint: impl Into<String>) {
        let mut list = self.list.borrow_mut();
        let (at, path, expected, hint) = match list.len().cmp(&MISTAKES_MAX) {
            Ordering::Less => (at, path.into(), expected.into(), hint.into()),
            // The last entry states that the list was cut.
            Ordering::Equal => {
                let first = self.file.unwrap_or("the text").into();
                (usize::MAX, first, format!("there are more than {MISTAKES_MAX} mistakes"), String::new())
            }
            Ordering::Greater => return,
        };
        let error = ConfigError { path: printable(path), expected: printable(expected), hint: printable(hint) };
        // A key for both directions of a link is read twice, so its mistake may be among the latest.
        if !list.iter().rev().take(64).any(|(_, known)| *known == error) {
            list.push((at, error));
        }
    }
    /// Adds a mistake about a key, with its line if `offset` is given.
    pub fn at(&self, path: &str, offset: Option<usize>, expected: impl Into<String>, hint: impl Into<String>) {
        self.add(offset.unwrap_or(0), self.place(path, offset), expected, hint);
    }
    /// Adds a warning about a key that is valid but probably not intended.
    pub fn warn(&self, path: &str, offset: Option<usize>, what: impl Into<String>, hint: impl Into<String>) {
        let warning = ConfigError {
            path: printable(self.place(path, offset)),
            expected: printable(what.into()),
            hint: printable(hint.into()),
        };
        self.warnings.borrow_mut().push((offset.unwrap_or(0), warning));
    }
    fn place(&self, path: &str, offset: Option<usize>) -> String {
        match (self.file, offset) {
            (Some(file), Some(offset)) => format!("{file}:{}: {path}", self.line(offset)),
            (Some(file), None) => format!("{file}: {path}"),
            (None, Some(offset)) => format!("{path} (line {})", self.line(offset)),
            (None, None) => path.to_string(),
        }
    }
    /// Records the offset of a table, which is the place of keys missing in it.
    pub(crate) fn begins(&self, path: &str, offset: usize) {
        self.places.borrow_mut().insert(path.into(), offset);
    }
    /// Offset of the table with this path, if it was recorded.
    pub fn beginning(&self, path: &str) -> Option<usize> {
        self.places.borrow().get(path).copied()
    }
    /// Line of the byte at an offset, counted from 1.
    pub fn line(&self, offset: usize) -> usize {
        // By bisection, since a file may have millions of mistakes.
        self.lines.partition_point(|start| {
            self.count();
            *start <= offset
        })
    }
    /// Returns the mistakes, sorted by line.
    pub fn into_list(self) -> Vec<ConfigError> {
        self.into_findings().0
    }
    /// Returns the mistakes and the warnings, each sorted by line.
    pub fn into_findings(self) -> (Vec<ConfigError>, Vec<ConfigError>) {
        (by_line(self.list.into_inner()), by_line(self.warnings.into_inner()))
    }
    /// Whether no mistake was found so far.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }
    /// Number of steps taken to find keys and lines, which tests compare with the size of the file.
    pub fn work(&self) -> u64 {
        self.work.get()
    }
    pub(crate) fn count(&self) {
        self.work.set(self.work.get() + 1);
    }
}

fn by_line(mut list: Vec<(usize, ConfigError)>) -> Vec<ConfigError> {
    list.sort_by_key(|(at, _)| *at);
    list.into_iter().map(|(_, error)| error).collect()
}

/// Longest file that is read, in bytes: an endless device, or another kind of file, is refused before it fills memory.
pub const FILE_MAX: u64 = 1 << 28;

/// Reads a text file such as a scenario, a contact plan or a map.
///
/// # Errors
/// If the file is unreadable, longer than 256 MiB, or not UTF-8. The error text is a predicate, such as `is not UTF-8
/// text`, for the caller to put after the file's name.
pub fn read_text(path: &Path) -> Result<String, String> {
    read_at_most(path, FILE_MAX)
}

fn read_at_most(path: &Path, most: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the file is longer.
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|why| format!("cannot be read: {why}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("is longer than {most} bytes, the limit"));
    }
    utf8(bytes)
}

/// Maximum number of mistakes reported for a file: one that is not a configuration file may have millions.
const MISTAKES_MAX: usize = 200;

/// Longest message, in characters; a longer message loses its middle.
const MESSAGE_MAX: usize = 2000;

/// Makes a message safe for a terminal: text quoted from a file cannot move the cursor, change the direction of text,
/// or fill the screen.
fn printable(message: String) -> String {
    // Unicode's bidirectional control characters change the direction of text.
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let unfit = |c: char| (c.is_control() && c != '\n') || turns(c);
    if message.len() <= MESSAGE_MAX && !message.contains(unfit) {
        return message;
    }
    let length = message.chars().count();
    let (head, tail) =
        if length <= MESSAGE_MAX { (length, length) } else { (MESSAGE_MAX / 2, length - MESSAGE_MAX / 2) };
    let mut out = String::new();
    for (at, c) in message.chars().enumerate().filter(|(at, _)| *at < head || *at >= tail) {
        if at == tail {
            out.push_str(" ... ");
        }
        if unfit(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Converts the bytes of a file to text.
///
/// # Errors
/// If a byte is not UTF-8; the text has the offset and line of the first.
pub fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        let line = why.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 text: byte {at}, in line {line}")
    })
}

/// Returns the most similar of these words, if it is similar enough to suggest.
pub fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words
        .map(|w| (strsim::damerau_levenshtein(&word.to_lowercase(), &w.to_lowercase()), w))
        // At most a third of the letters may differ.
        .filter(|(distance, w)| *distance <= w.len().max(word.len()) / 3 && *distance < w.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, w)| w)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_error_lists_are_cut() {
        let text = "a\n".repeat(100_000);
        let errors = Errors::new(Some("a.toml"), &text);
        for at in 0..100_000 {
            errors.at(&format!("key{at}"), Some(2 * at), "wrong", "");
        }
        let list = errors.into_list();
        assert_eq!((list.len(), &list[0].path[..]), (MISTAKES_MAX + 1, "a.toml:1: key0"));
        assert_eq!(list[MISTAKES_MAX].to_string().trim(), "a.toml: there are more than 200 mistakes");
    }

    #[test]
    fn lines_are_found_in_logarithmic_steps() {
        let text = "a = 1\n".repeat(10_000);
        let errors = Errors::new(None, &text);
        for (offset, line) in [(0, 1), (5, 1), (6, 2), (59_999, 10_000), (70_000, 10_001)] {
            assert_eq!(errors.line(offset), line);
        }
        // log2 of 10,000 lines is 13.3.
        assert!(errors.work() < 5 * 16, "{}", errors.work());
        assert_eq!(Errors::new(None, "").line(0), 1);
    }

    #[test]
    fn endless_device_is_refused() {
        let error = read_at_most(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error, "is longer than 1000 bytes, the limit");
        assert!(read_text(Path::new("/")).unwrap_err().starts_with("cannot be read: "));
    }

    #[test]
    fn messages_cannot_steer_the_terminal() {
        let errors = Errors::new(None, "a = 1");
        errors.push("name", "`x\u{1b}[31m\u{202e}y`", "");
        errors.push("long", format!("`{}` is too long", "x".repeat(1 << 20)), "");
        let list = errors.into_list();
        assert_eq!(list[0].expected, "`x\\u{1b}[31m\\u{202e}y`");
        assert!(list[1].expected.len() < 2100 && list[1].expected.ends_with("xxx` is too long"));
    }

    #[test]
    fn json_file_is_recognized() {
        let errors = Errors::new(Some("n.toml"), "\n{\"node_ids\": []}");
        assert!(errors.parse().is_none());
        let said: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "said once");
        assert!(said[0].starts_with("n.toml: the file is JSON, TOML is expected\nhint: "), "{said:?}");
    }

    #[test]
    fn broken_syntax_is_one_mistake() {
        let said = |text: &str| {
            let errors = Errors::new(Some("n.toml"), text);
            assert!(errors.parse().is_none());
            let said: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), 1, "{said:?}");
            said[0].clone()
        };
        let more = "a = \"x\"\nb = [1, 2]\n[link.b]\nc = \"d\"\n";
        for (text, line) in [
            (format!("id = 1\n[store\n{more}"), "n.toml:2: not TOML: "),
            (format!("id = 1\nlisten = [\"x:1\", \"x:2\"\n{more}"), "n.toml:"),
            (format!("id = 1\nname = \"x\n{more}"), "n.toml:2: not TOML: "),
        ] {
            let said = said(&text);
            assert!(said.starts_with(line) && said.contains("\nhint: look for a missing"), "{said}");
        }
        assert_eq!(said("[store]\ndir = \"a\"\ndir = \"b\"\n").lines().next(), Some("n.toml:3: `dir` is there twice"));
        let table = said("[link.b]\nx = 1\n[link.b]\ny = 1\n");
        assert!(table.starts_with("n.toml:3: `b` is there twice\nhint: "), "{table}");
    }

    #[test]
    fn suggestions_must_resemble_the_word() {
        for (word, near) in
            [("rte", Some("rate")), ("crc-32", Some("crc32c")), ("loop", None), ("id", None), ("node", None)]
        {
            assert_eq!(nearest(word, ["rate", "crc32c", "log", "idle", "seed"].into_iter()), near, "{word}");
        }
    }

    #[test]
    fn invalid_utf8_names_its_line() {
        assert_eq!(utf8(b"a\nb\xff".to_vec()), Err("is not UTF-8 text: byte 3, in line 2".into()));
        assert_eq!(utf8(b"a\n".to_vec()), Ok("a\n".into()));
    }

    #[test]
    fn findings_are_sorted_by_line() {
        let errors = Errors::new(None, "a = 1\nb = 2\n");
        errors.push("plan", "wrong", "");
        errors.at("b", Some(6), "wrong", "");
        errors.at("a", Some(0), "wrong", "");
        errors.warn("b", Some(6), "odd", "");
        let (mistakes, warnings) = errors.into_findings();
        let paths = |list: Vec<ConfigError>| list.into_iter().map(|found| found.path).collect::<Vec<_>>();
        assert_eq!(paths(mistakes), ["a (line 1)", "b (line 2)", "plan"]);
        assert_eq!(paths(warnings), ["b (line 2)"]);
    }

    #[test]
    fn places_name_their_file() {
        let said = |file, offset| {
            let errors = Errors::new(file, "a = 1\nb = 2\n");
            errors.at("b", offset, "wrong", "");
            errors.at("b", offset, "wrong", "");
            errors.into_list().iter().map(|e| e.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(said(Some("n.toml"), Some(6)), ["n.toml:2: b"], "said once");
        assert_eq!(said(Some("n.toml"), None), ["n.toml: b"]);
        assert_eq!(said(None, Some(6)), ["b (line 2)"]);
        assert_eq!(said(None, None), ["b"]);
    }
}

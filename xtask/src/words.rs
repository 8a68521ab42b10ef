//! `cargo xtask words`: measures how plainly the code reads, and keeps it from getting worse.
//!
//! Each rule is a row of [`RULES`]: a number counted over all Rust files, and its bound. Rules for people, with
//! examples, are in CONTRIBUTING.md; these are the ones that a program can check.

use anyhow::{Context, Result, bail};
use farlink_trials::{Chore, sources, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub const CHORE: Chore = Chore {
    name: "words",
    usage: "[--list RULE] [FOLDER ...]",
    help: "Measures comments and names, and lists the places that break a rule.\n\
           \n\
           Examples:\n\
           \x20 cargo xtask words\n\
           \x20 cargo xtask words core/bpa --list openings\n\
           \n\
           Without a folder all of the repository is measured and each rule must hold. RULE is one of: openings,\n\
           what, told, short, types, tests.",
    run,
};

/// A measured number and its bound.
struct WordRule {
    /// Word for `--list`; empty where there are no places to list.
    list: &'static str,
    title: &'static str,
    unit: &'static str,
    measure: fn(&WordCounts) -> f64,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const RULES: [WordRule; 7] = [
    WordRule {
        list: "openings",
        title: "doc comments that open with What, Whether, Who, Of or That",
        unit: "%",
        measure: |counts| share(counts.places("openings"), counts.docs, 100.0),
        bound: Bound::AtMost(6.0),
    },
    WordRule {
        list: "what",
        title: "\"what\" in comments",
        unit: "in 10,000 words",
        measure: |counts| share(counts.what, counts.words, 10_000.0),
        bound: Bound::AtMost(20.0),
    },
    WordRule {
        list: "told",
        title: "told, tells, says, said, hears, heard in comments",
        unit: "in 10,000 words",
        measure: |counts| share(counts.told, counts.words, 10_000.0),
        bound: Bound::AtMost(5.0),
    },
    WordRule {
        list: "short",
        title: "doc comments of three words or fewer",
        unit: "%",
        measure: |counts| share(counts.places("short"), counts.docs, 100.0),
        bound: Bound::AtMost(8.0),
    },
    WordRule {
        list: "types",
        title: "types whose name is defined in three files or more",
        unit: "%",
        measure: |counts| share(counts.places("types"), counts.types, 100.0),
        bound: Bound::AtMost(15.0),
    },
    WordRule {
        list: "tests",
        title: "words in the name of a test, median",
        unit: "words",
        measure: |counts| counts.median_test() as f64,
        bound: Bound::AtMost(6.0),
    },
    WordRule {
        list: "",
        title: "inline comments per 100 lines of code",
        unit: "lines",
        measure: |counts| share(counts.inline, counts.code, 100.0),
        bound: Bound::AtLeast(3.0),
    },
];

/// Words of a test's name beyond which `--list tests` shows it.
const LONG_TEST: usize = 8;
/// Words that describe behaviour as speech.
const TOLD: [&str; 6] = ["told", "tells", "says", "said", "hears", "heard"];

/// Everything counted over a set of files.
#[derive(Default)]
struct WordCounts {
    docs: u64,
    words: u64,
    what: u64,
    told: u64,
    types: u64,
    inline: u64,
    code: u64,
    /// Words in the name of each test.
    tests: Vec<usize>,
    /// Places to list, by rule.
    found: BTreeMap<&'static str, Vec<String>>,
}

impl WordCounts {
    fn places(&self, rule: &str) -> u64 {
        self.found.get(rule).map_or(0, |places| places.len() as u64)
    }
    fn median_test(&self) -> usize {
        let mut tests = self.tests.clone();
        tests.sort_unstable();
        tests.get(tests.len() / 2).copied().unwrap_or_default()
    }
    fn find(&mut self, rule: &'static str, place: &str, text: &str) {
        self.found.entry(rule).or_default().push(format!("{place}: {text}"));
    }
    /// Counts the words of one comment.
    fn speak(&mut self, place: &str, text: &str) {
        let lower = text.to_lowercase();
        let words = lower.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        let (mut what, mut told) = (0, 0);
        for word in words {
            self.words += 1;
            what += u64::from(word == "what");
            told += u64::from(TOLD.contains(&word));
        }
        if what > 0 {
            self.find("what", place, text);
        }
        if told > 0 {
            self.find("told", place, text);
        }
        (self.what, self.told) = (self.what + what, self.told + told);
    }
    /// Counts a block of doc comments before the line `item`.
    fn document(&mut self, place: &str, text: &str, item: &str) {
        let letters = |letter: char| letter.is_alphanumeric() || "_'`-".contains(letter);
        let words: Vec<_> = text.split(|letter| !letters(letter)).filter(|word| !word.is_empty()).collect();
        let Some(first) = words.first() else { return };
        self.docs += 1;
        // "Whether" is the usual opening for a bool.
        let is_riddle = match *first {
            "What" | "Who" | "Of" | "That" => true,
            "Whether" => !item.contains("bool"),
            _ => false,
        };
        if is_riddle {
            self.find("openings", place, text);
        }
        if words.len() <= 3 {
            self.find("short", place, text);
        }
        self.speak(place, text);
    }
    /// Counts one file; `repeated` are names of types defined in three files or more.
    fn file(&mut self, name: &str, text: &str, repeated: &BTreeSet<String>) {
        let (mut doc, mut began, mut in_test) = (String::new(), 0, false);
        // The empty line at the end closes a doc comment that ends the file.
        for (number, line) in text.lines().chain([""]).enumerate() {
            let line_of_code = line.trim();
            let place = |number: usize| format!("{name}:{}", number + 1);
            // Lines of a doc comment are joined: rules apply to the whole block.
            if let Some(words) = doc_text(line_of_code) {
                if doc.is_empty() {
                    began = number;
                }
                doc += words;
                doc.push(' ');
                continue;
            }
            if !doc.is_empty() {
                self.document(&place(began), doc.trim(), line_of_code);
                doc.clear();
            }
            if line_of_code.starts_with("//") {
                self.inline += 1;
                self.speak(&place(number), line_of_code);
                continue;
            }
            self.code += u64::from(!line_of_code.is_empty());
            if let Some(defined) = type_defined(line) {
                self.types += 1;
                if repeated.contains(defined) {
                    self.find("types", &place(number), defined);
                }
            }
            // Other attributes may stand between `#[test]` and the function.
            in_test |= line_of_code.starts_with("#[test]");
            if in_test && let Some(test) = line_of_code.strip_prefix("fn ") {
                let test = test.split('(').next().unwrap_or_default();
                let words = test.split('_').filter(|word| !word.is_empty()).count();
                self.tests.push(words);
                if words > LONG_TEST {
                    self.find("tests", &place(number), test);
                }
                in_test = false;
            }
        }
    }
}

fn share(part: u64, of: u64, times: f64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 * times / of as f64 }
}

fn doc_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    // Four slashes are an ordinary comment.
    (!text.starts_with('/')).then(|| text.trim())
}

/// Name of the type that a line defines; associated types are not definitions.
fn type_defined(line: &str) -> Option<&str> {
    let code = line.trim();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => code,
    };
    let (kind, rest) = code.strip_prefix("unsafe ").unwrap_or(code).split_once(' ')?;
    // An indented `type` is an associated type or a local alias.
    let is_inside = line.starts_with(' ');
    if !matches!(kind, "struct" | "enum" | "trait" | "type" | "union") || kind == "type" && is_inside {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    rest.starts_with(|first: char| first.is_ascii_uppercase()).then(|| &rest[..end])
}

/// All Rust files of the repository with their texts, sorted by path.
fn read_all(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    // Build outputs and hidden folders hold code of others.
    let is_ours = |folder: &Path| {
        folder.file_name().is_some_and(|name| name != "target" && !name.to_string_lossy().starts_with('.'))
    };
    sources::each_source(root, &is_ours, &mut |path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        files.push((path.strip_prefix(root).unwrap_or(path).to_path_buf(), text));
        Ok(())
    })?;
    files.sort();
    Ok(files)
}

/// Names of types that are defined in three files or more.
fn repeated(files: &[(PathBuf, String)]) -> BTreeSet<String> {
    let mut places: BTreeMap<&str, BTreeSet<&Path>> = BTreeMap::new();
    for (path, text) in files {
        for defined in text.lines().filter_map(type_defined) {
            places.entry(defined).or_default().insert(path);
        }
    }
    places.into_iter().filter(|(_, files)| files.len() >= 3).map(|(name, _)| name.to_string()).collect()
}

/// Counts the files below `folders`, or all files.
fn count(root: &Path, folders: &[&str]) -> Result<WordCounts> {
    let files = read_all(root)?;
    let repeated = repeated(&files);
    let mut counts = WordCounts::default();
    for (path, text) in &files {
        if folders.is_empty() || folders.iter().any(|folder| path.starts_with(folder)) {
            counts.file(&path.to_string_lossy(), text, &repeated);
        }
    }
    Ok(counts)
}

/// The measured table, and the number of broken rules, which are marked.
fn table(counts: &WordCounts) -> (String, usize) {
    let mut text = String::new();
    let mut broken = 0;
    for rule in &RULES {
        let value = (rule.measure)(counts);
        let (word, bound, holds) = match rule.bound {
            Bound::AtMost(bound) => ("at most", bound, value <= bound),
            Bound::AtLeast(bound) => ("at least", bound, value >= bound),
        };
        broken += usize::from(!holds);
        let mark = if holds { " " } else { "!" };
        text += &format!("{mark} {:<60} {value:>6.1} {:<16} {word} {bound}\n", rule.title, rule.unit);
    }
    (text, broken)
}

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let list = arguments.word("--list")?;
    let folders = arguments.rest()?;
    let counts = count(&tools::root(), &folders)?;
    if let Some(rule) = list {
        let known = RULES.iter().map(|rule| rule.list).filter(|known| !known.is_empty());
        if !known.clone().any(|known| known == rule) {
            bail!("--list: `{rule}` is not one of: {}", known.collect::<Vec<_>>().join(", "));
        }
        counts.found.get(rule).into_iter().flatten().for_each(|place| println!("{place}"));
        return Ok(());
    }
    let (text, broken) = table(&counts);
    print!("{text}");
    // The bounds hold for the whole repository, not for each folder.
    if folders.is_empty() && broken > 0 {
        bail!("{broken} of {} rules do not hold\nhint: `cargo xtask words --list RULE` shows the places", RULES.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_keeps_word_rules() {
        let (text, broken) = table(&count(&tools::root(), &[]).unwrap());
        assert_eq!(broken, 0, "\n{text}");
    }

    #[test]
    fn each_kind_is_counted() {
        let text = "/// What it is.\nstruct Place;\n/// Whether it holds.\nholds: bool,\n/// Whether. Said.\nfn f();\n\
                    // what follows\n    type Item = u8;\npub(crate) enum Place {}\n#[test]\nfn a_b_c_d_e_f_g_h_i() {}\n";
        let mut counts = WordCounts::default();
        counts.file("a.rs", text, &BTreeSet::from(["Place".to_string()]));
        assert_eq!((counts.docs, counts.places("openings"), counts.places("short")), (3, 2, 3));
        assert_eq!((counts.what, counts.told, counts.types, counts.places("types")), (2, 1, 2, 2));
        assert_eq!((counts.inline, counts.code, counts.median_test()), (1, 7, 9));
        assert_eq!(counts.found["tests"], ["a.rs:11: a_b_c_d_e_f_g_h_i"]);
    }

    #[test]
    fn associated_types_are_no_definitions() {
        assert_eq!(type_defined("pub struct Held<'a> {"), Some("Held"));
        assert_eq!(type_defined("    pub(super) enum Way {"), Some("Way"));
        assert_eq!(type_defined("    type Output = u8;"), None);
        assert_eq!(type_defined("let type_of = struct_of();"), None);
    }
}

//! Reader of typed values from TOML tables, by the declared keys of a section.

use crate::errors::{Errors, nearest};
use crate::input::{Input, example, list, positive_rate};
use crate::keys::{Fallback, Key, Kind, Section};
use farlink_base::{DataRate, DataVolume, DtnTime, Duration, parse_duration, parse_offset};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Value with its span in the file.
pub type SpannedValue<'a> = Spanned<DeValue<'a>>;

/// Overlaid tables with their paths; the value of a key is that of the first table that has it.
pub type Tables<'a> = Vec<(String, &'a DeTable<'a>)>;

/// Reader of one table, or of several overlaid tables, of one section.
pub struct Reader<'a> {
    /// Collector of the mistakes that this reader finds.
    pub errors: &'a Errors<'a>,
    section: &'static Section,
    tables: Tables<'a>,
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

impl<'a> Reader<'a> {
    /// Creates a reader of overlaid tables, whose keys are not checked.
    pub fn new(errors: &'a Errors<'a>, section: &'static Section, tables: Tables<'a>) -> Self {
        Reader { errors, section, tables }
    }
    /// Creates a reader of one table, and reports its unknown keys.
    pub fn checked(errors: &'a Errors<'a>, section: &'static Section, path: &str, table: &'a DeTable<'a>) -> Self {
        Reader::check_keys(errors, path, table, &[section]);
        Reader::new(errors, section, vec![(path.into(), table)])
    }

    /// Reports keys of `table` that no section declares.
    pub fn check_keys(errors: &Errors<'_>, path: &str, table: &DeTable<'_>, sections: &[&'static Section]) {
        let known = || sections.iter().flat_map(|s| s.keys).map(|k| k.name);
        for key in table.keys() {
            errors.count();
            let name: &str = key.get_ref();
            if known().any(|k| k == name) {
                continue;
            }
            let hint = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", list(&known().collect::<Vec<_>>())),
            };
            errors.at(&joined(path, name), Some(key.span().start), "unknown key", hint);
        }
    }

    /// Path of the first table, for mistakes about the table as a whole.
    pub fn path(&self) -> &str {
        self.tables.first().map_or("", |(path, _)| path)
    }
    /// Finds the value of a key, and the path of the table that has it.
    fn find(&self, name: &str) -> Option<(&str, &'a SpannedValue<'a>)> {
        self.errors.count();
        self.tables.iter().find_map(|(path, table)| table.get(name).map(|value| (path.as_str(), value)))
    }
    /// Value of a key in the file, without its default; `None` if it is not given.
    pub fn get(&self, name: &str) -> Option<&'a SpannedValue<'a>> {
        self.find(name).map(|(_, value)| value)
    }
    /// Whether any of the overlaid tables has a key.
    pub fn given(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
    /// Whether the first of the overlaid tables has a key.
    pub fn given_here(&self, name: &str) -> bool {
        self.tables.first().is_some_and(|(_, table)| table.contains_key(name))
    }
    /// Reports a mistake in a key, or about a missing key at the place of its table.
    pub fn fail(&self, name: &str, expected: impl Into<String>, hint: impl Into<String>) {
        match self.find(name) {
            Some((path, value)) => self.errors.at(&joined(path, name), Some(value.span().start), expected, hint),
            // A missing key has no place, but the table that lacks it has.
            None => self.errors.at(&joined(self.path(), name), self.errors.beginning(self.path()), expected, hint),
        }
    }

    /// Reports a warning about a key.
    pub fn warn(&self, name: &str, what: impl Into<String>, hint: impl Into<String>) {
        match self.find(name) {
            Some((path, value)) => self.errors.warn(&joined(path, name), Some(value.span().start), what, hint),
            None => self.errors.warn(&joined(self.path(), name), self.errors.beginning(self.path()), what, hint),
        }
    }

    /// Converts the value of a key with `read`, or its default if the key is absent. `None` if the conversion fails or
    /// a required key is absent, both of which are reported, or if there is no default. All methods below do the same.
    fn value<T>(&self, name: &str, read: impl Fn(Input<'_, 'a>, &Key) -> Result<T, String>) -> Option<T> {
        let key = self.section.key(name);
        let result = match (self.get(name), key.default) {
            (Some(value), _) => read(Input::Given(value.get_ref()), key),
            (None, Fallback::Required) => {
                self.fail(name, "missing", format!("add `{name} = {}`: {}", example(key.kind), key.help));
                return None;
            }
            (None, Fallback::Absent) => return None,
            (None, Fallback::Is(text)) => read(Input::Default(text), key),
        };
        let report = |expected: &String| {
            // A suggestion is more useful as the hint than an example.
            if let Some((found, near)) = expected.split_once("; did you mean ") {
                return self.fail(name, found, format!("did you mean {near}"));
            }
            // Errors about quantities end with an example; the hint has an example with the key instead.
            let found = expected.split("; write e.g.").next().unwrap_or(expected);
            self.fail(name, found, format!("write e.g. `{name} = {}`", example(key.kind)));
        };
        result.inspect_err(report).ok()
    }

    /// Reads a text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name, |input, _| input.text().map(str::to_string))
    }
    /// Reads a text, or a list of texts.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        self.value(name, |input, _| input.texts())
    }
    /// Reads a name of 1 to 64 letters, digits, `-`, `_` and `.`; others are reported.
    pub fn name(&self, name: &str) -> Option<String> {
        self.value(name, |input, _| {
            let text = input.text()?;
            let fine = !text.is_empty()
                // Names become parts of file names.
                && text.len() <= 64
                && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
            // Letters of any script: names are shown to people.
            let why = "must be 1 to 64 letters, digits, `-`, `_` or `.`";
            if fine { Ok(text.to_string()) } else { Err(format!("`{text}` {why}")) }
        })
    }
    /// Reads a duration with its unit.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.value(name, |input, _| parse_duration(input.text()?))
    }
    /// Reads a duration with an optional sign, such as `-1 h`; returns it in ns.
    pub fn offset(&self, name: &str) -> Option<i64> {
        self.value(name, |input, _| parse_offset(input.text()?))
    }
    /// Reads a data rate above zero.
    pub fn rate(&self, name: &str) -> Option<DataRate> {
        self.value(name, |input, _| positive_rate(input.text()?))
    }
    /// Reads a data volume with its unit.
    pub fn volume(&self, name: &str) -> Option<DataVolume> {
        self.value(name, |input, _| input.volume())
    }
    /// Reads a data volume that fits into 32 bits, in bytes.
    pub fn volume_u32(&self, name: &str) -> Option<u32> {
        self.value(name, |input, _| {
            let volume = input.volume()?;
            u32::try_from(volume.0).map_err(|_| format!("{volume} is more than {}", DataVolume(u64::from(u32::MAX))))
        })
    }
    /// Reads a point in time, UTC.
    pub fn time(&self, name: &str) -> Option<DtnTime> {
        self.value(name, |input, _| input.time())
    }
    /// Reads a whole number, within the bounds of its key.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.value(name, |input, key| {
            // Reader and declaration are both part of the program, so a mismatch is a bug.
            let Kind::Count(min, max) = key.kind else { panic!("{name} is not a count") };
            let number = input.integer_in(min, max)?;
            let fits = (min..=max).contains(&number);
            if fits { Ok(number) } else { Err(format!("{number} is not between {min} and {max}")) }
        })
    }
    /// Reads a number from 0 to 1, or a percentage.
    pub fn share(&self, name: &str) -> Option<f64> {
        self.value(name, |input, _| input.share())
    }
    /// Reads a flag, `true` or `false`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name, |input, _| input.flag())
    }
    /// Reads one of the key's words; returns its index.
    pub fn choice(&self, name: &str) -> Option<usize> {
        self.value(name, |input, key| {
            let Kind::Choice(words) = key.kind else { panic!("{name} is not a choice") };
            input.word(words)
        })
    }
    /// Reads a list of the key's words; returns their indexes.
    pub fn choices(&self, name: &str) -> Option<Vec<usize>> {
        self.value(name, |input, key| {
            let Kind::Choices(words) = key.kind else { panic!("{name} is not a list of choices") };
            input.items()?.iter().map(|v| Input::Given(v.get_ref()).word(words)).collect()
        })
    }
    /// Reads a setting if it is given; unlike other methods, returns `None` rather than a default.
    pub fn setting(&self, name: &str) -> Option<u64> {
        let read = |input: Input<'_, 'a>, key: &Key| match &key.kind {
            Kind::Setting(setting) => input.setting(setting),
            _ => Err("not a setting".into()),
        };
        if self.given(name) { self.value(name, read) } else { None }
    }
    /// Names and values of the settings of the section that are given.
    pub fn settings(&self) -> Vec<(&'static str, u64)> {
        let settings = self.section.keys.iter().filter(|key| matches!(key.kind, Kind::Setting(_)));
        settings.filter_map(|key| Some((key.name, self.setting(key.name)?))).collect()
    }
    /// Reports a mistake if the setting `least` exceeds the setting `most`; a setting that is not given has its
    /// default.
    pub fn ascending(&self, least: &str, most: &str) {
        let value = |name: &str| {
            let key = self.section.keys.iter().find(|key| key.name == name)?;
            let Kind::Setting(setting) = key.kind else { return None };
            let given = self.get(name).map(|value| Input::Given(value.get_ref()).setting(&setting));
            // A value that cannot be read was reported already.
            given.unwrap_or(Ok(setting.default)).ok().map(|value| (value, setting.text(value)))
        };
        let (Some((low, low_text)), Some((high, high_text))) = (value(least), value(most)) else { return };
        if low > high {
            let (name, what) = match self.given(least) {
                true => (least, format!("{low_text} is above `{most}`, which is {high_text}")),
                false => (most, format!("{high_text} is below `{least}`, which is {low_text}")),
            };
            self.fail(name, what, format!("write `{least}` and `{most}` so that the first is not above the second"));
        }
    }
    /// Reads any other value, which `read` converts.
    pub fn custom<T>(&self, name: &str, read: impl Fn(Input<'_, 'a>) -> Result<T, String>) -> Option<T> {
        self.value(name, |input, _| read(input))
    }

    /// Reader of a nested table, whose unknown keys are reported; `None` if it is absent.
    pub fn table(&self, name: &str, section: &'static Section) -> Option<Reader<'a>> {
        let (path, table) = self.raw_table(name)?;
        Some(Reader::checked(self.errors, section, &path, table))
    }
    /// Reader of the nested tables of this name in all overlaid tables, which are overlaid in the same order.
    pub fn overlaid(&self, name: &str, section: &'static Section) -> Reader<'a> {
        let tables = self.tables.iter().map(|table| Reader::new(self.errors, self.section, vec![table.clone()]));
        let nested = tables.filter_map(|outer| outer.table(name, section)).flat_map(|reader| reader.tables);
        Reader::new(self.errors, section, nested.collect())
    }
    /// Reader of a nested table, or of an empty one if it is absent.
    pub fn table_or_empty(&self, name: &str, section: &'static Section) -> Reader<'a> {
        // Without a table every key has its default, and required keys are reported.
        let empty = || Reader::new(self.errors, section, Vec::new());
        self.table(name, section).unwrap_or_else(empty)
    }
    /// Nested table with its path; `None` if it is absent, or is not a table, which is reported.
    pub fn raw_table(&self, name: &str) -> Option<(String, &'a DeTable<'a>)> {
        self.table_written(name, "")
    }
    /// As [`Reader::raw_table`]; the hint for a value of another type has `more` after the name.
    fn table_written(&self, name: &str, more: &str) -> Option<(String, &'a DeTable<'a>)> {
        self.section.key(name);
        let (path, value) = self.find(name)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                let path = joined(path, name);
                self.errors.begins(&path, value.span().start);
                Some((path, table))
            }
            other => {
                let found = match other {
                    // Most likely `[[name]]` was written for `[name]`.
                    DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => "an array of tables",
                    other => other.type_str(),
                };
                let hint = format!("write `[{}{more}]`", joined(path, name));
                self.fail(name, format!("expected a table, found {found}"), hint);
                None
            }
        }
    }
    /// Tables inside the table `name`, each with its name and path, in the order of the file.
    pub fn named_tables(&self, name: &str) -> Vec<(String, String, &'a DeTable<'a>)> {
        let Some((path, outer)) = self.table_written(name, ".NAME") else { return Vec::new() };
        let mut found = Vec::new();
        for (name, value) in outer {
            self.errors.count();
            let (path, start) = (joined(&path, name.get_ref()), name.span().start);
            match value.get_ref() {
                DeValue::Table(table) => {
                    self.errors.begins(&path, start);
                    found.push((start, name.get_ref().to_string(), path, table));
                }
                other => {
                    let expected = format!("expected a table, found {}", other.type_str());
                    self.errors.at(&path, Some(start), expected, format!("write `[{path}]`"));
                }
            }
        }
        // The parser sorts by name, not by place.
        found.sort_by_key(|(start, ..)| *start);
        found.into_iter().map(|(_, name, path, table)| (name, path, table)).collect()
    }

    /// Tables of an array of tables, with the paths that mistakes show: `link[space]`, or `link[2]` without a name.
    pub fn tables(&self, name: &str) -> Tables<'a> {
        self.section.key(name);
        let Some((outer, value)) = self.find(name) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            let expected = format!("expected tables `[[{name}]]`, found {}", value.get_ref().type_str());
            self.fail(name, expected, format!("write `[[{name}]]`"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, item) in array.iter().enumerate() {
            self.errors.count();
            match item.get_ref() {
                DeValue::Table(table) => {
                    // People find a table faster by its name than by counting.
                    let label = table.get("name").and_then(|v| v.get_ref().as_str().map(str::to_string));
                    let place = format!("{name}[{}]", label.unwrap_or_else(|| (index + 1).to_string()));
                    let path = joined(outer, &place);
                    self.errors.begins(&path, item.span().start);
                    tables.push((path, table));
                }
                other => self.fail(name, format!("expected a table, found {}", other.type_str()), ""),
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{key, setting_keys};
    use farlink_base::{Setting, Unit};
    use std::sync::LazyLock;

    const WAIT: Setting = Setting {
        name: "wait",
        help: "How long.",
        unit: Unit::Nanoseconds,
        default: 2_000_000,
        min: 1000,
        max: 60_000_000_000,
    };
    static INNER: LazyLock<Section> =
        LazyLock::new(|| Section { name: "inner", help: "", keys: setting_keys(&[WAIT]).leak() });
    const TOP: Section = Section {
        name: "top",
        help: "",
        keys: &[
            key("name", Kind::Name, Fallback::Required, "A name."),
            key("count", Kind::Count(1, 9), Fallback::Is("3"), "A number."),
            key("mode", Kind::Choice(&["fast", "safe"]), Fallback::Is("safe"), "A word."),
            key("inner", Kind::Table("inner"), Fallback::Absent, "A table."),
            key("thing", Kind::Tables("inner"), Fallback::Absent, "Tables."),
        ],
    };

    fn read<T>(text: &str, read: impl Fn(&Reader<'_>) -> T) -> (T, Vec<String>) {
        let errors = Errors::new(Some("f.toml"), text);
        let root = errors.parse().unwrap();
        let value = read(&Reader::checked(&errors, &TOP, "", root.get_ref()));
        drop(root);
        let list = errors.into_list();
        (value, list.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_defaults_and_settings_are_read() {
        let (values, said) = read("name = \"a-1\"\n[inner]\nwait = \"5 ms\"\n", |top| {
            let inner = top.table("inner", &INNER).unwrap();
            (top.name("name"), top.count("count"), top.choice("mode"), inner.settings())
        });
        assert_eq!(values, (Some("a-1".into()), Some(3), Some(1), vec![("wait", 5_000_000)]));
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn errors_give_place_problem_and_hint() {
        let text = "nam = \"x\"\ncount = 10\nmode = \"fats\"\n[inner]\nwait = \"2 min\"\n[inner.more]\n";
        let (_, said) = read(text, |top| {
            let inner = top.table("inner", &INNER).map(|inner| inner.settings());
            (top.name("name"), top.count("count"), top.choice("mode"), inner)
        });
        for part in [
            "f.toml:1: nam: unknown key\nhint: did you mean `name`?",
            "f.toml: name: missing\nhint: add `name = \"words\"`: A name.",
            "f.toml:2: count: 10 is not between 1 and 9",
            "f.toml:3: mode: `fats` is none of `fast`, `safe`\nhint: did you mean `fast`?",
            "f.toml:5: inner.wait: 2 min is not between 1 us and 1 min\nhint: write e.g. `wait = \"2 ms\"`",
            "f.toml:6: inner.more: unknown key",
        ] {
            assert!(said.iter().any(|s| s.starts_with(part)), "{part}\n{said:#?}");
        }
        assert_eq!(said.len(), 6);
    }

    #[test]
    fn range_errors_quote_range_and_input() {
        let (_, said) = read("name = \"a\"\ncount = 99999999999999999999999\n", |top| top.count("count"));
        assert!(said[0].contains("`99999999999999999999999` is not a whole number from 1 to 9"), "{said:?}");
        for (given, wanted) in
            [("\"110 %\"", "`110 %` is not between 0 % and 100 %"), ("3", "3 is not between 0 and 1")]
        {
            let text = format!("name = \"a\"\ncount = {given}\n");
            let (_, said) = read(&text, |top| top.share("count"));
            assert!(said[0].starts_with(&format!("f.toml:2: count: {wanted}")), "{said:?}");
        }
    }

    #[test]
    fn missing_key_points_at_its_table() {
        let text = "name = \"a\"\n\n[inner]\n[thing.a]\n[thing.b]\n";
        let (_, said) = read(text, |top| {
            top.table("inner", &INNER).unwrap().fail("wait", "missing", "");
            for (_, path, table) in top.named_tables("thing") {
                Reader::new(top.errors, &INNER, vec![(path, table)]).fail("wait", "missing", "");
            }
        });
        let wanted =
            ["f.toml:3: inner.wait: missing", "f.toml:4: thing.a.wait: missing", "f.toml:5: thing.b.wait: missing"];
        for wanted in wanted {
            assert!(said.contains(&wanted.to_string()), "{wanted}: {said:?}");
        }
    }

    #[test]
    fn tables_keep_file_order() {
        let text = "name = \"a\"\n[thing.zebra]\n[thing.ant]\n[thing]\nbee = 1\n";
        let (names, said) = read(text, |top| top.named_tables("thing").into_iter().map(|t| t.1).collect::<Vec<_>>());
        assert_eq!(names, ["thing.zebra", "thing.ant"]);
        assert!(said[0].starts_with("f.toml:5: thing.bee: expected a table, found integer"), "{said:?}");
        let (paths, _) = read("name = \"a\"\n[inner]\n[[inner.wait]]\n", |top| {
            let (path, inner) = top.raw_table("inner").unwrap();
            let inner = Reader::new(top.errors, &INNER, vec![(path, inner)]);
            inner
                .tables("wait")
                .into_iter()
                .map(|(path, _)| top.errors.beginning(&path).map(|_| path))
                .collect::<Vec<_>>()
        });
        assert_eq!(paths, [Some("inner.wait[1]".to_string())], "its whole path, and where it begins");
        let (count, said) = read("name = \"a\"\nthing = 3\n", |top| top.tables("thing").len());
        assert_eq!((count, said.len()), (0, 1));
    }
}

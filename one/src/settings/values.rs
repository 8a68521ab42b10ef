//! Values of keys: run lists, numbers with suffixes, and names with other keys inserted.

use super::mistake::Mistake;
use super::properties;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest settings file, bytes.
const LONGEST: u64 = 16 << 20;

/// Value as written in a file or on the command line.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    /// File; empty for the command line.
    file: PathBuf,
    line: usize,
}

/// Keys of all files of one run; later files override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Values {
    written: BTreeMap<String, Written>,
    /// Index of the run in a batch; it selects from `[a; b; c]`.
    run: usize,
    /// Whether the run is Farlink's own, which supports more routers and needs no reports of The ONE.
    pub(super) translated: bool,
    /// Folders in which files named by values are searched.
    folders: Vec<PathBuf>,
}

/// Value of a key, with its place.
#[derive(Clone, Debug)]
pub struct Value {
    /// Full key, with the namespace in which it was found.
    pub key: String,
    /// Text of the value for this run.
    pub text: String,
    place: Option<(PathBuf, usize)>,
}

impl Values {
    /// Reads files in order, then `overrides` (`key=value`).
    ///
    /// # Errors
    /// Fails on a file that cannot be read or parsed, and on an override without `=`.
    pub fn read(files: &[PathBuf], overrides: &[String]) -> Result<Values, Mistake> {
        let mut values = Values { folders: vec![PathBuf::new()], ..Values::default() };
        for file in files {
            values.add(file)?;
        }
        for pair in overrides {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
                return Err(Mistake::new(
                    format!("`{pair}` is not key=value"),
                    "write for instance --set Scenario.endTime=3600",
                ));
            };
            let text = value.trim().to_string();
            values.written.insert(key.trim().to_string(), Written { text, file: PathBuf::new(), line: 0 });
        }
        Ok(values)
    }
    fn add(&mut self, file: &Path) -> Result<(), Mistake> {
        let bytes = read_bounded(file, LONGEST)?;
        // The ONE would treat the mark as part of the first key and so ignore that key.
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(Mistake::at(file, 1, "begins with a byte order mark", "save it without one"));
        }
        // Java's properties are in ISO 8859-1: seeds follow from names, so each byte must be one character here, too.
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let read = properties::parse(&text).map_err(|line| {
            Mistake::at(file, line, "`\\u` without four digits", "write \\\\ for a backslash, or / between folders")
        })?;
        for property in read {
            let written = Written { text: property.value, file: file.to_path_buf(), line: property.line };
            self.written.insert(property.key, written);
        }
        // Files named by a value are searched in the working directory, then beside and above the settings.
        let beside = file.parent().unwrap_or(Path::new(""));
        self.folders.extend([beside.to_path_buf(), beside.join("..")]);
        Ok(())
    }
    /// Settings for another run of the batch.
    pub fn of_run(&self, run: usize) -> Values {
        Values { run, ..self.clone() }
    }
    /// Settings for a run in Farlink's own world.
    pub fn translated(self) -> Values {
        Values { translated: true, ..self }
    }
    /// Keys that `is_known` rejects, with place and name.
    pub fn unread(&self, is_known: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, String)> {
        let unknown = self.written.iter().filter(move |(key, _)| !is_known(key));
        unknown.map(|(key, written)| match written.line {
            0 => (key.as_str(), key.clone()),
            line => (key.as_str(), format!("{}:{line}: {key}", written.file.display())),
        })
    }
    /// Groups, events and reports whose number exceeds the configured count, each with the key of that count; they have
    /// no effect. Those of the file `defaults` are left out: others override its counts on purpose.
    pub fn beyond(&self, defaults: Option<&Path>) -> Vec<(String, Value)> {
        let counts = [
            ("Group", "Scenario", "nrofHostGroups"),
            ("Events", "Events", "nrof"),
            ("Report.report", "Report", "nrofReports"),
        ];
        let mut found = BTreeMap::new();
        for (stem, space, name) in counts {
            let Some(count) = self.find(&[space], name) else { continue };
            let Ok(most) = count.count() else { continue };
            for (key, _) in self.written.iter().filter(|(_, written)| Some(written.file.as_path()) != defaults) {
                let part = if stem.contains('.') { key } else { key.split('.').next().unwrap_or_default() };
                let number = part.strip_prefix(stem).and_then(|digits| digits.parse::<u32>().ok());
                if number.is_some_and(|number| number > most) {
                    found.insert(part.to_string(), count.clone());
                }
            }
        }
        found.into_iter().collect()
    }
    /// All values of this run that are not empty, by key.
    pub fn all(&self) -> impl Iterator<Item = Value> {
        let values = self.written.iter().map(|(key, written)| self.value(key, written));
        values.filter(|value| !value.text.is_empty())
    }
    fn value(&self, key: &str, written: &Written) -> Value {
        let place = (!written.file.as_os_str().is_empty()).then(|| (written.file.clone(), written.line));
        Value { key: key.into(), text: of_run(&written.text, self.run).into(), place }
    }
    /// Value of `key` in the first of the namespaces that has it; an empty value counts as none.
    pub fn find(&self, spaces: &[&str], key: &str) -> Option<Value> {
        let value = |space: &&str| {
            let key = format!("{space}.{key}");
            self.written.get(&key).map(|written| self.value(&key, written))
        };
        spaces.iter().filter_map(value).find(|value| !value.text.is_empty())
    }
    /// Value of a required key.
    ///
    /// # Errors
    /// Fails if no namespace has the key.
    pub fn need(&self, spaces: &[&str], key: &str) -> Result<Value, Mistake> {
        self.find(spaces, key).ok_or_else(|| {
            let first = spaces.last().copied().unwrap_or_default();
            Mistake::new(
                format!("{first}.{key} is missing"),
                format!("add a line `{first}.{key} = ...`, or --set {first}.{key}=..."),
            )
        })
    }
    /// Text of a value with every `%%Space.key%%` replaced by that key's value in this run.
    ///
    /// # Errors
    /// Fails if a named key is missing.
    pub fn filled(&self, value: &Value) -> Result<String, Mistake> {
        let mut out = String::new();
        let mut rest = value.text.as_str();
        while let Some((before, after)) = rest.split_once("%%") {
            out += before;
            let Some((key, after)) = after.split_once("%%") else {
                out += "%%";
                rest = after;
                continue;
            };
            let written = self.written.get(key).ok_or_else(|| {
                value.wrong(format!("names %%{key}%%, which is not set"), "name a key of the settings, in full")
            })?;
            out += of_run(&written.text, self.run);
            rest = after;
        }
        Ok(out + rest)
    }
    /// Path and content of the file that a value names.
    ///
    /// # Errors
    /// Fails if the file is missing, unreadable or longer than `longest` bytes.
    pub fn file(&self, value: &Value, longest: u64) -> Result<(PathBuf, Vec<u8>), Mistake> {
        let tried = self.folders.iter().map(|folder| folder.join(&value.text));
        match tried.into_iter().find(|file| file.is_file()) {
            Some(file) => {
                let bytes = read_bounded(&file, longest)?;
                Ok((file, bytes))
            }
            None => Err(value.wrong(
                format!("names {}, which is no file here nor beside the settings", value.text),
                "start where the file's name leads from, or write its whole path",
            )),
        }
    }
}

fn read_bounded(file: &Path, longest: u64) -> Result<Vec<u8>, Mistake> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(|why| Mistake::unreadable(file, &why))?;
    // One byte more than allowed shows that the file is too long, whatever its metadata claims.
    opened.take(longest + 1).read_to_end(&mut bytes).map_err(|why| Mistake::unreadable(file, &why))?;
    if bytes.len() as u64 > longest {
        let what = format!("longer than {} MiB", longest >> 20);
        return Err(Mistake::at(file, 0, what, "check that it is the right file"));
    }
    Ok(bytes)
}

/// Element of `[a; b; c]` for a run; any other text applies to all runs.
fn of_run(text: &str, run: usize) -> &str {
    let list = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|list| !list.is_empty());
    let Some(list) = list else { return text };
    // Java leaves out empty elements at the end.
    let list = list.trim_end_matches(';');
    let length = list.split(';').count();
    // The list wraps around: of three elements, the run with index 4 takes the second.
    list.split(';').nth(run % length).unwrap_or_default().trim()
}

impl Value {
    /// Makes an error at this value's place.
    pub fn wrong(&self, what: impl std::fmt::Display, hint: impl Into<String>) -> Mistake {
        let what = format!("{} = {}: {what}", self.key, self.text);
        Mistake { place: self.place.clone(), ..Mistake::new(what, hint) }
    }
    /// The first of values separated by commas.
    pub fn first(&self) -> Value {
        let text = self.text.split(',').next().unwrap_or_default().trim().to_string();
        Value { text, ..self.clone() }
    }
    fn number_of(&self, text: &str) -> Result<f64, Mistake> {
        let text = text.trim();
        let (digits, factor) = [("kiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0)]
            .into_iter()
            .chain([("k", 1e3), ("M", 1e6), ("G", 1e9)])
            .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))
            .unwrap_or((text, 1.0));
        let number = digits.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number
            .map(|number| number * factor)
            .ok_or_else(|| self.wrong("not a number", "write a number, perhaps with k, M, G, kiB, MiB or GiB"))
    }
    /// Parses a number with an optional suffix.
    ///
    /// # Errors
    /// Fails if the text is no finite number.
    pub fn number(&self) -> Result<f64, Mistake> {
        self.number_of(&self.text)
    }
    /// Parses a number of at least zero.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn positive(&self) -> Result<f64, Mistake> {
        self.number().and_then(|number| self.not_negative(number))
    }
    fn not_negative(&self, number: f64) -> Result<f64, Mistake> {
        if number < 0.0 { Err(self.wrong("less than 0", "write 0 or more")) } else { Ok(number) }
    }
    /// Parses a 32-bit integer.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn whole(&self) -> Result<i32, Mistake> {
        self.number().and_then(|number| self.to_whole(number))
    }
    fn to_whole(&self, number: f64) -> Result<i32, Mistake> {
        let fits = number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
        if fits { Ok(number as i32) } else { Err(self.wrong("not a whole number of 32 bits", "write one")) }
    }
    /// Parses an integer from 0 to 2^53.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn long(&self) -> Result<i64, Mistake> {
        let number = self.positive()?;
        // Up to 2^53 every integer is exact in a double.
        let fits = number.fract() == 0.0 && number <= (1u64 << 53) as f64;
        if fits { Ok(number as i64) } else { Err(self.wrong("not a whole number", "write one from 0")) }
    }
    /// Parses an integer from 0 to 2^31 - 1.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn count(&self) -> Result<u32, Mistake> {
        u32::try_from(self.whole()?).map_err(|_| self.wrong("less than 0", "write 0 or more"))
    }
    /// Parses `true` or `false`.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn truth(&self) -> Result<bool, Mistake> {
        match self.text.as_str() {
            "1" => Ok(true),
            "0" => Ok(false),
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.wrong("neither true nor false", "write true or false")),
        }
    }
    /// Parses two non-negative numbers separated by a comma; one number counts twice.
    ///
    /// # Errors
    /// Fails on anything else, or if the second is less than the first.
    pub fn range(&self) -> Result<[f64; 2], Mistake> {
        let [low, high] = self.pair()?;
        self.not_negative(low)?;
        if high < low {
            return Err(self.wrong("its end is before its beginning", "write the smaller number first"));
        }
        Ok([low, high])
    }
    /// Parses a range of 32-bit integers.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn whole_range(&self) -> Result<[i32; 2], Mistake> {
        let [low, high] = self.range()?;
        Ok([self.to_whole(low)?, self.to_whole(high)?])
    }
    /// Parses numbers separated by commas.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn numbers(&self) -> Result<Vec<f64>, Mistake> {
        self.text.split(',').map(|part| self.number_of(part)).collect()
    }
    /// Parses 32-bit integers separated by commas.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn wholes(&self) -> Result<Vec<i32>, Mistake> {
        self.numbers()?.into_iter().map(|number| self.to_whole(number)).collect()
    }
    /// Parses two numbers separated by a comma; one number counts twice.
    ///
    /// # Errors
    /// Fails on anything else.
    pub fn pair(&self) -> Result<[f64; 2], Mistake> {
        match self.numbers()?[..] {
            [one] => Ok([one, one]),
            [low, high] => Ok([low, high]),
            _ => Err(self.wrong("not two numbers", "write two numbers with a comma between")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[&str]) -> Values {
        let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        Values::read(&[], &pairs).expect("they can be read")
    }
    fn value(text: &str) -> Value {
        values(&[&format!("A.b={text}")]).need(&["A"], "b").expect("it is there")
    }

    #[test]
    fn run_lists_wrap_around() {
        let values = values(&["A.b=[1; 2;3]", "A.c=x", "A.d=[]", "A.e=[4;5;;]"]);
        let of = |run: usize, key: &str| values.of_run(run).need(&["A"], key).expect("it is there").text;
        assert_eq!([of(0, "b"), of(1, "b"), of(2, "b"), of(4, "b")], ["1", "2", "3", "2"]);
        assert_eq!([of(3, "c"), of(3, "d"), of(3, "e")], ["x", "[]", "5"]);
    }

    #[test]
    fn group_falls_back_and_names_expand() {
        let values =
            values(&["Group.router=E", "Group2.router=S", "Scenario.name=a-%%Group.router%%-%%Group2.router%%!"]);
        let router = |space: &str| values.need(&[space, "Group"], "router").expect("it is there").text;
        assert_eq!((router("Group1"), router("Group2")), ("E".to_string(), "S".to_string()));
        let name = values.need(&["Scenario"], "name").expect("it is there");
        assert_eq!(values.filled(&name).as_deref(), Ok("a-E-S!"));
        let missing = values.need(&["Group1", "Group"], "speed").expect_err("nobody set it");
        assert_eq!(missing.what, "Group.speed is missing");
    }

    #[test]
    fn numbers_above_count_are_reported() {
        let all = ["Scenario.nrofHostGroups=2", "Group.a=1", "Group2.a=1", "Group3.a=1", "Group3.b=1", "Events.nrof=0"];
        let values = values(&[&all[..], &["Events1.class=x", "Report.nrofReports=1", "Report.report2=y"]].concat());
        let found: Vec<_> = values.beyond(None).into_iter().map(|(part, count)| (part, count.key)).collect();
        let told = [
            ("Events1", "Events.nrof"),
            ("Group3", "Scenario.nrofHostGroups"),
            ("Report.report2", "Report.nrofReports"),
        ];
        assert_eq!(found, told.map(|(part, count)| (part.to_string(), count.to_string())));
    }

    #[test]
    fn number_suffixes_and_hints() {
        assert_eq!(value("312.5k").whole(), Ok(312_500));
        assert_eq!(value("4 MiB").whole(), Ok(4 << 20));
        assert_eq!(value("50k,100k").whole_range(), Ok([50_000, 100_000]));
        assert_eq!(value("7").range(), Ok([7.0, 7.0]));
        assert_eq!(value("4G").long(), Ok(4_000_000_000));
        assert!(value("0.5").long().is_err() && value("1e30").long().is_err() && value("-1").long().is_err());
        for text in ["x", "1.5", "3G", "1e99", "NaN", "inf", "1,"] {
            let mistake = value(text).whole().expect_err(text);
            assert!(!mistake.hint.is_empty() && mistake.what.starts_with("A.b = "), "{mistake}");
        }
        assert!(value("5,1").range().is_err() && value("-1,1").range().is_err() && value("1,2,3").pair().is_err());
        assert!(value("yes").truth().is_err() && value("-1").count().is_err() && value("-1").positive().is_err());
    }

    #[test]
    fn unknown_value_is_reported_with_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.txt");
        std::fs::write(&file, "# x\nScenario.name = %%No.key%%\nA.file = none.txt\n").expect("it is written");
        let values = Values::read(std::slice::from_ref(&file), &[]).expect("it can be read");
        let name = values.need(&["Scenario"], "name").expect("it is there");
        let told = values.filled(&name).expect_err("no such key").to_string();
        assert!(told.starts_with(&format!("{}:2: Scenario.name", file.display())) && told.contains("hint: "), "{told}");
        let named = values.need(&["A"], "file").expect("it is there");
        assert!(values.file(&named, 100).is_err());
        std::fs::write(folder.path().join("none.txt"), "12345").expect("it is written");
        assert_eq!(values.file(&named, 5).expect("beside the settings").1, b"12345");
        assert!(values.file(&named, 4).expect_err("too long").what.contains("longer"));
        assert!(Values::read(&[folder.path().join("gone")], &[]).is_err());
        assert!(Values::read(&[], &["novalue".into()]).is_err());
    }
}

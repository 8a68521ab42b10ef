//! Key paths into a scenario, `group[walker].router` or `link[*].delay`, and assignments to them.

use farlink_config::{FILE_MAX, nearest};
use std::fmt;
use toml::{Table, Value};

// Longest path in bytes. Errors repeat the path, and the time to nest tables grows with the square of their depth.
const PATH_MAX: usize = 1000;

/// Selection among the tables of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pick {
    All,
    Named(String),
}

/// One component of a path: a key, with a selection if the key is an array of tables.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PathComponent {
    key: String,
    pick: Option<Pick>,
}

/// Parsed path of a scenario key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPath {
    steps: Vec<PathComponent>,
    text: String,
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl KeyPath {
    /// Parses a path.
    ///
    /// # Errors
    /// A message if the text is no key path, or names a key that cannot be set.
    pub fn parse(text: &str) -> Result<KeyPath, String> {
        if text.len() > PATH_MAX {
            return Err(format!("a key path is at most {PATH_MAX} bytes long"));
        }
        let wrong = || format!("`{text}` is not a key path; write e.g. `duration` or `group[walker].router`");
        let name = |text: &str| {
            let fine = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
            fine.then(|| text.to_string()).ok_or_else(wrong)
        };
        let (mut steps, mut rest) = (Vec::new(), text);
        loop {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let key = name(&rest[..end])?;
            rest = &rest[end..];
            let mut pick = None;
            if let Some(inside) = rest.strip_prefix('[') {
                let (chosen, after) = inside.split_once(']').ok_or_else(wrong)?;
                let named = || if chosen.is_empty() { Err(wrong()) } else { Ok(Pick::Named(chosen.to_string())) };
                pick = Some(if chosen == "*" { Pick::All } else { named()? });
                rest = after;
            }
            steps.push(PathComponent { key, pick });
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => break,
                None => return Err(wrong()),
            }
        }
        // The seed distinguishes repetitions, so an axis over it would defeat pairing by seed.
        if text == "seed" {
            return Err(
                "`seed` belongs to each repetition: set `seed` and `repetitions` of the campaign instead".into()
            );
        }
        if steps.last().is_some_and(|step| step.pick.is_some()) {
            return Err(format!("`{text}` names tables and no key in them; write e.g. `{text}.delay`"));
        }
        Ok(KeyPath { steps, text: text.to_string() })
    }

    /// Sets the key in a scenario. Missing intermediate tables are created, but tables of an array must exist.
    ///
    /// # Errors
    /// The component of the path that cannot be followed, and the alternatives.
    pub fn set(&self, root: &mut Table, value: &Value) -> Result<(), String> {
        let mut tables = vec![root];
        let Some((last, before)) = self.steps.split_last() else { return Ok(()) };
        for step in before {
            let mut found = Vec::new();
            for table in tables {
                follow(table, step, &mut found)?;
            }
            tables = found;
        }
        // A large value that is set in every table of a large array could fill memory.
        if weight(value).saturating_mul(tables.len() as u64) > FILE_MAX {
            return Err(format!("`{}` set to this is a scenario of more than 256 MiB", self.text));
        }
        for table in tables {
            // Replacing an array of tables by one value is almost certainly a mistake.
            if let Some(Value::Array(items)) = table.get(&last.key)
                && items.iter().any(Value::is_table)
                && !value.is_array()
            {
                return Err(format!("`{0}` is a list of tables: write `{0}[NAME].KEY`", last.key));
            }
            table.insert(last.key.clone(), value.clone());
        }
        Ok(())
    }
}

/// Approximate size of a value as text, in bytes.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(|item| 1 + weight(item)).sum(),
        Value::Table(inside) => inside.iter().map(|(key, item)| key.len() as u64 + weight(item)).sum(),
        _ => 8,
    }
}

/// Collects the tables selected by one component.
fn follow<'t>(table: &'t mut Table, step: &PathComponent, found: &mut Vec<&'t mut Table>) -> Result<(), String> {
    let key = &step.key;
    let Some(pick) = &step.pick else {
        let entry = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
        return match entry {
            Value::Table(inside) => {
                found.push(inside);
                Ok(())
            }
            Value::Array(_) => Err(format!("`{key}` is a list of tables: write `{key}[NAME]`, or `{key}[*]` for all")),
            other => Err(format!("`{key}` is no table, but {}", other.type_str())),
        };
    };
    let Some(Value::Array(items)) = table.get_mut(key) else {
        return Err(format!("the scenario has no `[[{key}]]`"));
    };
    let names: Vec<String> = items.iter().map(name_of).collect();
    // Tables without a name, such as contacts, are selected by their number from 1.
    let numbered =
        |wanted: &str| wanted.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < names.len());
    let chosen = match pick {
        Pick::All => None,
        Pick::Named(wanted) => match names.iter().position(|name| name == wanted).or_else(|| numbered(wanted)) {
            Some(place) => Some(place),
            None => {
                let known = names.iter().map(String::as_str).filter(|name| !name.is_empty());
                let there = known.clone().collect::<Vec<_>>().join(", ");
                let near = nearest(wanted, known).map(|near| format!("did you mean `{near}`?"));
                return Err(format!(
                    "the scenario has no {key} `{wanted}`; {}",
                    near.unwrap_or(format!("there are: {there}"))
                ));
            }
        },
    };
    for (place, item) in items.iter_mut().enumerate() {
        if let (true, Value::Table(inside)) = (chosen.is_none_or(|chosen| chosen == place), item) {
            found.push(inside);
        }
    }
    Ok(())
}

fn name_of(item: &Value) -> String {
    item.get("name").and_then(Value::as_str).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "duration = \"1 h\"\n[measure]\ninterval = \"1 s\"\n\
        [[link]]\nname = \"up\"\n[[link]]\nname = \"down\"\n[[contact]]\nlink = \"up\"\n[[contact]]\nlink = \"down\"\n";

    fn set(path: &str) -> Result<Table, String> {
        let mut root: Table = SCENARIO.parse().unwrap();
        KeyPath::parse(path)?.set(&mut root, &Value::Integer(7)).map(|()| root)
    }

    #[test]
    fn a_path_finds_its_tables() {
        assert_eq!(set("duration").unwrap()["duration"].as_integer(), Some(7));
        assert_eq!(set("measure.interval").unwrap()["measure"]["interval"].as_integer(), Some(7));
        assert_eq!(set("expect.x.y").unwrap()["expect"]["x"]["y"].as_integer(), Some(7), "made where it was not");
        let delays = |path: &str| {
            let root = set(path).unwrap();
            root["link"].as_array().unwrap().iter().map(|link| link.get("delay").is_some()).collect::<Vec<_>>()
        };
        assert_eq!((delays("link[down].delay"), delays("link[*].delay")), (vec![false, true], vec![true, true]));
        assert_eq!(set("contact[2].end").unwrap()["contact"][1]["end"].as_integer(), Some(7), "by its number");
        assert_eq!(set("link[up].ltp.mtu").unwrap()["link"][0]["ltp"]["mtu"].as_integer(), Some(7));
    }

    #[test]
    fn paths_and_values_are_bounded() {
        assert!(set(&format!("expect{}", ".x".repeat(400))).is_ok());
        for long in [".x", "[1]", "\u{1b}"] {
            let wrong = set(&format!("expect{}", long.repeat(200_000))).unwrap_err();
            assert_eq!(wrong, "a key path is at most 1000 bytes long");
        }
        let mut root: Table = SCENARIO.parse().unwrap();
        let long = Value::String("x".repeat(200 << 20));
        let path = |text| KeyPath::parse(text).unwrap();
        assert!(path("link[*].delay").set(&mut root, &long).unwrap_err().contains("more than 256 MiB"), "of two links");
        assert!(path("link[up].delay").set(&mut root, &long).is_ok());
    }

    #[test]
    fn bad_path_error_names_failing_part() {
        for (path, says) in [
            ("", "not a key path"),
            ("a..b", "not a key path"),
            ("link[", "not a key path"),
            ("link[]x", "not a key path"),
            ("link[up]", "names tables"),
            ("link[upp].delay", "did you mean `up`?"),
            ("link[3].delay", "there are: up, down"),
            ("node[a].router", "no `[[node]]`"),
            ("link.delay", "write `link[NAME]`"),
            ("link", "write `link[NAME].KEY`"),
            ("duration.x", "is no table, but string"),
            ("contact[0].end", "no contact `0`"),
            ("seed", "belongs to each repetition"),
        ] {
            let error = set(path).unwrap_err();
            assert!(error.contains(says), "{path}: {error}");
        }
    }
}

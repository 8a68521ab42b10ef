//! Conversion of the text of `campaign.toml` to a checked [`Campaign`].

use crate::keypath::KeyPath;
use crate::keys::{self, REPETITIONS_MAX};
use crate::metrics::METRICS;
use crate::numbers::ConfidenceLevel;
use crate::types::{Axis, AxisValue, Campaign, CellWorld, Set, Smoke};
use farlink_base::ConfigError;
use farlink_config::{Errors, Input, Reader, nearest};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table};

// Name of the campaign file in its folder.
const FILE: &str = "campaign.toml";

impl Campaign {
    /// Reads a campaign from its folder or its file, and reports all mistakes at once.
    ///
    /// # Errors
    /// Every mistake, with its line and a hint.
    pub fn load(path: &Path) -> Result<Campaign, Vec<ConfigError>> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_path_buf() };
        let text = farlink_config::read_text(&file).map_err(|expected| {
            let hint = "give the folder of a campaign, which holds a `campaign.toml`, such as campaigns/silva".into();
            vec![ConfigError { path: file.display().to_string(), expected, hint }]
        })?;
        Campaign::parse(&text, file.parent().unwrap_or(Path::new("")), &file.display().to_string())
    }

    /// Parses the text of a campaign's `file`; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// Every mistake, with its line and a hint.
    pub fn parse(text: &str, folder: &Path, file: &str) -> Result<Campaign, Vec<ConfigError>> {
        let errors = Errors::new(Some(file), text);
        let root = errors.parse();
        // The plain table keeps the values that are later written into scenarios; the spanned one
        // gives the lines of errors.
        let plain = text.parse::<Table>().unwrap_or_default();
        if plain.contains_key("node_ids") {
            return Err(vec![ConfigError {
                path: file.into(),
                expected: "is a node file, and no campaign".into(),
                hint: format!("`farlink node --config {file}` runs it"),
            }]);
        }
        if is_scenario(&plain) {
            let hint =
                format!("`farlink run {file}` runs it; `farlink campaign run` takes the folder of a campaign.toml");
            return Err(vec![ConfigError {
                path: file.into(),
                expected: "is a scenario, and no campaign".into(),
                hint,
            }]);
        }
        let campaign = root.as_ref().map(|root| read(&errors, root.get_ref(), &plain, text, (file, folder)));
        drop(root);
        let list = errors.into_list();
        match campaign {
            Some(campaign) if list.is_empty() => Ok(campaign),
            _ => Err(list),
        }
    }
}

/// Whether a file has tables that only scenarios have, and none that campaigns have.
fn is_scenario(file: &Table) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| file.contains_key(*key));
    has(&["node", "group", "link", "traffic", "duration"]) && !has(&["scenario", "axis", "figure"])
}

fn read(
    errors: &Errors<'_>,
    root: &DeTable<'_>,
    plain: &Table,
    text: &str,
    (name_of_file, folder): (&str, &Path),
) -> Campaign {
    let top = Reader::checked(errors, &keys::CAMPAIGN, "", root);
    let name = top.name("name").unwrap_or_default();
    let scenario = file(&top, "scenario", folder).unwrap_or_default();
    let axes = axes(&top, plain);
    let skips = skips(&top, &axes);
    let level = top.choice("interval").map_or_else(ConfidenceLevel::default, |word| ConfidenceLevel::ALL[word]);
    let figures = crate::parse_figure::figures(&top, &axes, &scenario, (folder, level));
    let known: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    let smoke = smoke(&top, &axes, &known, plain);
    // Earlier mistakes may be the reason for the missing figures.
    if figures.is_empty() && errors.is_empty() {
        top.fail("figure", "there is none", "add a `[[figure]]`: its points are what is run");
    }
    Campaign {
        name,
        description: top.text("description").unwrap_or_default(),
        file: PathBuf::from(name_of_file),
        folder: folder.to_path_buf(),
        world: CellWorld::ALL[top.choice("world").unwrap_or(0)],
        repetitions: top.count("repetitions").unwrap_or(1),
        retries: top.count("retries").unwrap_or(0),
        first_seed: first_seed(&top),
        set: Vec::new(),
        axes,
        skips,
        figures,
        smoke,
        small: false,
        part: false,
        left_out: Vec::new(),
        asked: String::new(),
        text: text.to_string(),
    }
}

/// Reads the path of a file that must exist.
pub fn file(reader: &Reader<'_>, key: &str, folder: &Path) -> Option<PathBuf> {
    let file = PathBuf::from(reader.text(key)?);
    if !folder.join(&file).is_file() {
        let what = format!("`{}` is no file", folder.join(&file).display());
        reader.fail(key, what, "paths are relative to the folder of the campaign");
        return None;
    }
    Some(file)
}

/// The table at position `place` of an array, without spans.
fn nth<'p>(plain: &'p Table, key: &str, place: usize) -> Option<&'p Table> {
    plain.get(key)?.as_array()?.get(place)?.as_table()
}

fn axes(top: &Reader<'_>, plain: &Table) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for (place, (path, table)) in top.tables("axis").into_iter().enumerate() {
        let reader = Reader::checked(top.errors, &keys::AXIS, &path, table);
        let empty = Table::new();
        let plain = nth(plain, "axis", place).unwrap_or(&empty);
        let name = reader.name("name").unwrap_or_default();
        let title = reader.text("title").unwrap_or_else(|| name.replace(['_', '-'], " "));
        let values = if reader.given("value") {
            for key in ["keys", "values", "labels"].into_iter().filter(|key| reader.given(key)) {
                reader.fail(key, "given besides `[[axis.value]]`", "use either");
            }
            listed(&reader, plain)
        } else {
            short(&reader, table, plain)
        };
        if values.is_empty() && top.errors.is_empty() {
            reader.fail("values", "an axis without values", "add `keys` and `values`, or `[[axis.value]]`");
        }
        for (place, value) in values.iter().enumerate() {
            // Labels name files and columns, so they must be distinct.
            if values[..place].iter().any(|before| before.label == value.label) {
                let hint = "each value needs a label of its own: `labels = [\"...\"]`";
                top.errors.at(&path, Some(value.place), format!("two values labelled `{}`", value.label), hint);
            }
        }
        // Each axis is a column of the table of cells, beside these columns.
        if ["cell", "scenario", "seed"].contains(&name.as_str()) || METRICS.iter().any(|metric| metric.name == name) {
            reader.fail("name", format!("`{name}` is another column of the tables"), "choose another name");
        }
        if axes.iter().any(|axis| axis.name == name) {
            reader.fail("name", format!("a second axis called `{name}`"), "each needs its own name");
        }
        axes.push(Axis { name, title, values });
    }
    axes
}

/// Reads the short form of an axis: its `keys`, `values` and `labels`.
fn short(reader: &Reader<'_>, table: &DeTable<'_>, plain: &Table) -> Vec<AxisValue> {
    let paths = reader
        .custom("keys", |input| input.texts()?.iter().map(|text| KeyPath::parse(text)).collect::<Result<Vec<_>, _>>());
    if !reader.given("keys") {
        reader.fail("keys", "missing", "add `keys = \"group[walker].store_capacity\"`, or `[[axis.value]]` tables");
    }
    if !reader.given("values") {
        reader.fail("values", "missing", "add `values = [\"1 MB\", \"2 MB\"]`");
    }
    reader.custom("values", |input| input.items().map(drop));
    let labels = reader.custom("labels", texts);
    let none = Vec::new();
    let values = plain.get("values").and_then(toml::Value::as_array).unwrap_or(&none);
    if let Some(labels) = labels.as_ref().filter(|labels| labels.len() != values.len()) {
        let found = format!("{} labels of {} values", labels.len(), values.len());
        reader.fail("labels", found, "give one for each value, or none at all");
    }
    let places: Vec<usize> = match table.get("values").map(Spanned::get_ref) {
        Some(DeValue::Array(items)) => items.iter().map(|item| item.span().start).collect(),
        _ => Vec::new(),
    };
    // Mismatched labels were reported above; pairing them anyway would mislead.
    let (Some(paths), true) = (paths, labels.as_ref().is_none_or(|labels| labels.len() == values.len())) else {
        return Vec::new();
    };
    let value = |(number, value): (usize, &toml::Value)| AxisValue {
        label: labels.as_ref().map_or_else(|| written(value), |labels| labels[number].clone()),
        sets: paths.iter().map(|path| (path.clone(), value.clone())).collect(),
        place: places.get(number).copied().unwrap_or(0),
        kept: true,
    };
    values.iter().enumerate().map(value).collect()
}

/// Formats a value as written, without quotes.
fn written(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Reads a list of texts; a number is taken as written.
fn texts(input: Input<'_, '_>) -> Result<Vec<String>, String> {
    let one = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::Integer(number) => Ok(number.as_str().to_string()),
        value => Input::Given(value).text().map(str::to_string),
    };
    input.items()?.iter().map(one).collect()
}

/// Reads the `[[axis.value]]` tables.
fn listed(reader: &Reader<'_>, plain: &Table) -> Vec<AxisValue> {
    let mut values = Vec::new();
    for (place, (path, table)) in reader.tables("value").into_iter().enumerate() {
        let inside = Reader::checked(reader.errors, &keys::VALUE, &path, table);
        let Some(label) = inside.text("label") else { continue };
        let sets = nth(plain, "value", place).and_then(|plain| plain.get("set"));
        let sets = sets_of(&inside, "set", sets);
        if !inside.given("set") {
            inside.fail(
                "set",
                "missing",
                "add `set = { \"group[walker].router\" = \"epidemic\" }`; `{}` changes nothing",
            );
        }
        values.push(AxisValue { label, sets, place: reader.errors.beginning(&path).unwrap_or(0), kept: true });
    }
    values
}

/// Reads a table of scenario keys with their values.
fn sets_of(reader: &Reader<'_>, key: &str, plain: Option<&toml::Value>) -> Vec<Set> {
    if reader.given(key) && plain.is_some_and(|plain| !plain.is_table()) {
        reader.fail(key, "expected a table", "write `set = { \"group[walker].router\" = \"epidemic\" }`");
    }
    let mut sets = Vec::new();
    for (name, value) in plain.and_then(toml::Value::as_table).into_iter().flatten() {
        match KeyPath::parse(name) {
            Ok(path) => sets.push((path, value.clone())),
            Err(why) => reader.fail(key, why, "keys with brackets are written in quotes"),
        }
    }
    sets
}

/// Finds an axis by name, and reports an unknown one.
pub fn axis(reader: &Reader<'_>, key: &str, name: &str, axes: &[Axis]) -> Option<usize> {
    let found = axes.iter().position(|axis| axis.name == name);
    if found.is_none() {
        let names = || axes.iter().map(|axis| axis.name.as_str());
        let there = names().collect::<Vec<_>>().join(", ");
        let hint = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
        reader.fail(key, format!("there is no axis `{name}`"), hint.unwrap_or(format!("there are: {there}")));
    }
    found
}

/// Finds a value by label, and reports an unknown one.
pub fn value(reader: &Reader<'_>, key: &str, label: &str, axis: &Axis) -> Option<usize> {
    let found = axis.value(label);
    if found.is_none() {
        let labels = || axis.values.iter().map(|value| value.label.as_str());
        let there = labels().collect::<Vec<_>>().join(", ");
        let hint = nearest(label, labels()).map(|near| format!("did you mean `{near}`?"));
        let what = format!("axis `{}` has no value labelled `{label}`", axis.name);
        reader.fail(key, what, hint.unwrap_or(format!("there are: {there}")));
    }
    found
}

/// Reads labels of axes: `{ control = "afner", router = ["prophet"] }`.
pub fn chosen(reader: &Reader<'_>, key: &str, table: &DeTable<'_>, axes: &[Axis]) -> Vec<(usize, Vec<usize>)> {
    let mut chosen = Vec::new();
    for (name, labels) in table {
        let Some(axis) = axis(reader, key, name.get_ref(), axes) else { continue };
        let labels = match Input::Given(labels.get_ref()).texts() {
            Ok(labels) => labels,
            Err(why) => {
                reader.fail(key, why, "labels are texts, as `labels` of the axis or its values are written");
                continue;
            }
        };
        let values: Vec<usize> = labels.iter().filter_map(|label| value(reader, key, label, &axes[axis])).collect();
        chosen.push((axis, values));
    }
    // Points are compared by their values, so the order of axes must be fixed.
    chosen.sort_unstable();
    chosen
}

/// Seed of the first repetition; bounded so that the last seed still fits a TOML integer.
fn first_seed(top: &Reader<'_>) -> u64 {
    let seed = top.count("seed").unwrap_or(1);
    if seed > i64::MAX as u64 - REPETITIONS_MAX {
        top.fail("seed", "the last seeds would be more than 2^63", "write a smaller one");
        return 1;
    }
    seed
}

/// Reads `[[skip]]`: a list of tables, or one table.
fn skips(top: &Reader<'_>, axes: &[Axis]) -> Vec<Vec<(usize, Vec<usize>)>> {
    let Some(value) = top.get("skip") else { return Vec::new() };
    let tables: Option<Vec<&DeTable<'_>>> = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| item.get_ref().as_table()).collect(),
        DeValue::Table(table) => Some(vec![table]),
        _ => None,
    };
    let tables = tables.unwrap_or_default();
    if tables.is_empty() || tables.iter().any(|table| table.is_empty()) {
        top.fail("skip", "no points are named", "write `[[skip]]` and below it `control = \"afner\"`");
        return Vec::new();
    }
    tables.into_iter().map(|table| chosen(top, "skip", table, axes)).collect()
}

fn smoke(top: &Reader<'_>, axes: &[Axis], figures: &[&str], plain: &Table) -> Option<Smoke> {
    let reader = top.table("smoke", &keys::SMOKE)?;
    let plain = plain.get("smoke").and_then(|smoke| smoke.get("set"));
    let values = match reader.raw_table("values") {
        Some((_, table)) => chosen(&reader, "values", table, axes),
        None => Vec::new(),
    };
    for (axis, _) in values.iter().filter(|(_, kept)| kept.is_empty()) {
        let what = format!("no value of axis `{}` is kept", axes[*axis].name);
        reader.fail("values", what, "name some, or leave the axis out: it keeps all");
    }
    let wanted = reader.texts("figures").unwrap_or_default();
    for name in wanted.iter().filter(|name| !figures.contains(&name.as_str())) {
        let there = format!("there are: {}", figures.join(", "));
        let hint = nearest(name, figures.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        reader.fail("figures", format!("there is no figure `{name}`"), hint.unwrap_or(there));
    }
    Some(Smoke {
        repetitions: reader.count("repetitions").unwrap_or(2),
        retries: reader.count("retries"),
        set: sets_of(&reader, "set", plain),
        values,
        figures: wanted,
    })
}

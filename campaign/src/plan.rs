//! What is run: the points of all figures, each once, and the scenario of each.

use crate::types::{Campaign, Figure, Set, World};
use farlink_base::ConfigError;
use farlink_config::Errors;
use farlink_scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Table;

/// Most cells of a campaign.
const CELLS_MAX: usize = 100_000;

/// A point: a scenario, and the values at which axes stand. All repetitions of it are of one text.
#[derive(Clone, PartialEq, Debug)]
pub struct Configuration {
    /// The scenario's file, relative to the campaign's folder.
    pub scenario: PathBuf,
    /// Axes and their values, by their places, in the order of axes.
    pub values: Vec<(usize, usize)>,
    /// A name for folders.
    pub name: String,
    /// The scenario's text with everything set.
    pub text: String,
    /// FNV-1a of the text and of the files it names.
    pub hash: u64,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Its place in [`Plan::configurations`].
    pub configuration: usize,
    /// Its seed.
    pub seed: u64,
}

/// Everything that is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The campaign.
    pub campaign: Campaign,
    /// Its points.
    pub configurations: Vec<Configuration>,
    places: BTreeMap<Point, usize>,
}

/// A scenario, and axes with their values.
type Point = (PathBuf, Vec<(usize, usize)>);

impl Plan {
    /// Of a campaign; every scenario that comes of it is read and checked.
    ///
    /// # Errors
    /// What is wrong: in a scenario itself, or in what an axis sets in it, at the value's line.
    pub fn new(campaign: Campaign) -> Result<Plan, Vec<ConfigError>> {
        let text = campaign.text.clone();
        let file = campaign.file.display().to_string();
        let errors = Errors::new(Some(&file), &text);
        let mut points: BTreeMap<Point, usize> = BTreeMap::new();
        for figure in &campaign.figures {
            let count = campaign.count(figure);
            if points.len().saturating_add(count) > CELLS_MAX / campaign.repetitions.max(1) as usize {
                let hint = "fewer values, or fewer repetitions";
                errors.at(&format!("figure[{}]", figure.name), Some(figure.place), "more than 100,000 runs", hint);
                return Err(errors.into_list());
            }
            let of_figure = campaign.points(figure);
            // Of the small size a figure may be left out so.
            if of_figure.is_empty() && !campaign.small {
                errors.at(
                    &format!("figure[{}]", figure.name),
                    Some(figure.place),
                    "all its points are skipped",
                    "see `[[skip]]`",
                );
            }
            points.extend(of_figure.into_iter().map(|point| (point, figure.place)));
        }
        if points.is_empty() && errors.is_empty() {
            errors.at(
                "skip",
                None,
                "no point of any figure is left",
                "see `[[skip]]`, and `[smoke]` for the small size",
            );
        }
        if !errors.is_empty() {
            return Err(errors.into_list());
        }
        let bases = bases(&campaign, points.keys().map(|(scenario, _)| scenario.as_path()))?;
        let (mut configurations, mut places, mut names) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (point, place) in points {
            let sets = sets_of(&campaign, &point.1);
            match text_of(&bases[&point.0], sets).and_then(|text| check(&text, &campaign).map(|()| text)) {
                Ok(text) => {
                    let hash = hash(&text, &campaign.folder);
                    let mut name = name(&campaign, &point);
                    // Long labels are cut, and may then be those of another point with the same text.
                    if !names.insert((name.clone(), hash as u32)) {
                        let _ = write!(name, "-{}", configurations.len());
                    }
                    places.insert(point.clone(), configurations.len());
                    configurations.push(Configuration { scenario: point.0, values: point.1, name, text, hash });
                }
                Err(why) => blame(&campaign, &bases[&point.0], (&point.1, place), why, &errors),
            }
        }
        if errors.is_empty() { Ok(Plan { campaign, configurations, places }) } else { Err(errors.into_list()) }
    }

    /// The configuration of a point of a figure, where it is part of this size.
    pub fn at(&self, figure: &Figure, x: usize, series: Option<usize>, facet: Option<usize>) -> Option<usize> {
        let point = (figure.scenario.clone(), self.campaign.values_at(figure, x, series, facet));
        self.places.get(&point).copied()
    }
    /// All cells.
    pub fn cells(&self) -> Vec<Cell> {
        let seeds = self.campaign.seeds();
        let of = |configuration| seeds.iter().map(move |seed| Cell { configuration, seed: *seed });
        (0..self.configurations.len()).flat_map(of).collect()
    }
    /// The name of a cell: of its folder. Another scenario text is another name.
    pub fn name(&self, cell: Cell) -> String {
        let configuration = &self.configurations[cell.configuration];
        format!("{}_s{}_{:08x}", configuration.name, cell.seed, configuration.hash as u32)
    }
    /// The files that the scenario of a cell names, as it names them: relative to the campaign's folder.
    pub fn files(&self, cell: Cell) -> Vec<String> {
        files_of(&self.configurations[cell.configuration].text, &self.campaign.folder)
    }
    /// The scenario of a cell.
    ///
    /// # Errors
    /// What is wrong with it, where a file it names has changed since the plan was made.
    pub fn scenario(&self, cell: Cell) -> Result<Scenario, Vec<ConfigError>> {
        let text = &self.configurations[cell.configuration].text;
        let mut scenario = Scenario::parse_in(text, &self.campaign.folder)?;
        scenario.set_seed(cell.seed);
        Ok(scenario)
    }
}

impl Campaign {
    /// Where the axes of a point of a figure stand.
    fn values_at(&self, figure: &Figure, x: usize, series: Option<usize>, facet: Option<usize>) -> Vec<(usize, usize)> {
        let mut values = figure.fixed.clone();
        values.push((figure.x, x));
        values.extend(figure.series.zip(series));
        values.extend(figure.facet.zip(facet));
        values.sort_unstable();
        values
    }
    /// How many points a figure has at most.
    fn count(&self, figure: &Figure) -> usize {
        let of = |axis: Option<usize>| axis.map_or(1, |axis| self.axes[axis].kept().count());
        of(Some(figure.x)).saturating_mul(of(figure.series)).saturating_mul(of(figure.facet))
    }
    fn points(&self, figure: &Figure) -> Vec<Point> {
        let of = |axis: Option<usize>| -> Vec<Option<usize>> {
            axis.map_or(vec![None], |axis| self.axes[axis].kept().map(Some).collect())
        };
        let (series, facets) = (of(figure.series), of(figure.facet));
        let mut points = Vec::new();
        for x in self.axes[figure.x].kept() {
            for series in &series {
                for facet in &facets {
                    let values = self.values_at(figure, x, *series, *facet);
                    if !self.skipped(&values) {
                        points.push((figure.scenario.clone(), values));
                    }
                }
            }
        }
        points
    }
    fn skipped(&self, values: &[(usize, usize)]) -> bool {
        let stands =
            |(axis, at): &(usize, Vec<usize>)| values.iter().any(|(known, value)| known == axis && at.contains(value));
        self.skips.iter().any(|skip| skip.iter().all(stands))
    }
    /// A point in words.
    pub fn point_text(&self, values: &[(usize, usize)]) -> String {
        let one = |(axis, value): &(usize, usize)| {
            format!("{} {}", self.axes[*axis].name, self.axes[*axis].values[*value].label)
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The scenarios named, read and found good as they are.
fn bases<'p>(
    campaign: &Campaign,
    files: impl Iterator<Item = &'p Path>,
) -> Result<BTreeMap<PathBuf, Table>, Vec<ConfigError>> {
    let mut bases = BTreeMap::new();
    let mut sets = campaign.set.clone();
    for file in files {
        if bases.contains_key(file) {
            continue;
        }
        let path = campaign.folder.join(file);
        let named = |error: ConfigError| ConfigError { path: format!("{}: {}", path.display(), error.path), ..error };
        let scenario = Scenario::load(&path).map_err(|list| list.into_iter().map(named).collect::<Vec<_>>())?;
        let mut base: Table = scenario.text.parse().unwrap_or_default();
        // One that does not have the table is left as it is.
        sets.retain(|(path, value)| path.set(&mut base, value).is_err());
        for (path, value) in &campaign.set {
            let _ = path.set(&mut base, value);
        }
        bases.insert(file.to_path_buf(), base);
    }
    // Of figures that are left out there may be other scenarios.
    if sets.is_empty() || campaign.part {
        return Ok(bases);
    }
    let unused = |(path, _): Set| ConfigError {
        path: "smoke.set".into(),
        expected: format!("no scenario has `{path}`"),
        hint: "name tables that one has, as in axes".into(),
    };
    Err(sets.into_iter().map(unused).collect())
}

/// A point whose scenario is none: told of the values that are wrong by themselves, each at its line; where
/// none is, of the point, at its figure's.
fn blame(
    campaign: &Campaign,
    base: &Table,
    (values, place): (&[(usize, usize)], usize),
    why: ConfigError,
    errors: &Errors<'_>,
) {
    // One that cannot be run whatever the axes say is told once.
    if let Err(why) = text_of(base, Vec::new()).and_then(|text| check(&text, campaign)) {
        return errors.at("scenario", None, why.expected, why.hint);
    }
    let mut found = false;
    for (axis, value) in values {
        let (named, of) = (&campaign.axes[*axis], &campaign.axes[*axis].values[*value]);
        let sets = of.sets.iter().collect();
        if let Err(why) = text_of(base, sets).and_then(|text| check(&text, campaign)) {
            let what = format!("`{}`: {}", of.label, why.expected);
            errors.at(&format!("axis[{}]", named.name), Some(of.place), what, why.hint);
            found = true;
        }
    }
    if !found {
        let what = format!("its point {}: {}", campaign.point_text(values), why.expected);
        errors.at("figure", Some(place), what, why.hint);
    }
}

fn sets_of<'c>(campaign: &'c Campaign, values: &[(usize, usize)]) -> Vec<&'c Set> {
    values.iter().flat_map(|(axis, value)| &campaign.axes[*axis].values[*value].sets).collect()
}

fn text_of(base: &Table, sets: Vec<&Set>) -> Result<String, ConfigError> {
    let mut table = base.clone();
    let failed =
        |why: String| ConfigError { path: String::new(), expected: why, hint: "mend the axis, or the scenario".into() };
    for (path, value) in sets {
        path.set(&mut table, value).map_err(failed)?;
    }
    toml::to_string(&table).map_err(|why| failed(why.to_string()))
}

/// The first mistake of a scenario, with its path and without the line, which is of a text nobody sees; or why the
/// campaign's world cannot run it.
fn check(text: &str, campaign: &Campaign) -> Result<(), ConfigError> {
    let scenario = Scenario::parse_in(text, &campaign.folder).map_err(|list| {
        list.into_iter().next().unwrap_or_else(|| ConfigError {
            path: String::new(),
            expected: "it is no scenario".into(),
            hint: String::new(),
        })
    });
    let (other, hint) = match campaign.world {
        World::Sim => (scenario.as_ref().ok().and_then(Scenario::needs_messages), "write fidelity = \"message\" in it"),
        World::Lab => (scenario.as_ref().ok().and_then(Scenario::needs_simulation), "run it in simulation: `--in sim`"),
    };
    let other = other.map(|why| ConfigError { hint: hint.into(), ..why });
    match scenario.err().or(other) {
        None => Ok(()),
        Some(error) => {
            let path = error.path.split(" (line").next().unwrap_or_default().to_string();
            let expected = if path.is_empty() { error.expected } else { format!("{path}: {}", error.expected) };
            Err(ConfigError { expected, path, hint: error.hint })
        }
    }
}

/// A name for folders: the scenario's, and the labels.
fn name(campaign: &Campaign, (scenario, values): &Point) -> String {
    /// Longer ones are cut: the hash tells them apart.
    const LONGEST: usize = 100;
    let stem = scenario.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let labels = values.iter().map(|(axis, value)| campaign.axes[*axis].values[*value].label.clone());
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '-' };
    let parts: Vec<String> =
        std::iter::once(stem).chain(labels).map(|part| part.chars().map(plain).collect()).collect();
    let name: String = parts.join("_").chars().take(LONGEST).collect();
    name.trim_start_matches('.').to_string()
}

/// The files that a scenario's text names, as it names them, of those that are there.
fn files_of(text: &str, folder: &Path) -> Vec<String> {
    fn named(value: &toml::Value, found: &mut Vec<String>) {
        match value {
            toml::Value::String(text) if text.len() < 256 => found.push(text.clone()),
            toml::Value::Array(items) => items.iter().for_each(|item| named(item, found)),
            toml::Value::Table(table) => table.values().for_each(|item| named(item, found)),
            _ => {}
        }
    }
    let mut files = Vec::new();
    text.parse::<Table>().unwrap_or_default().values().for_each(|value| named(value, &mut files));
    files.retain(|file| folder.join(file).is_file());
    files
}

/// FNV-1a, 64 bits, of a text and of the files beside the campaign that it names.
fn hash(text: &str, folder: &Path) -> u64 {
    let files = files_of(text, folder);
    let contents = files.iter().filter_map(|file| std::fs::read(folder.join(file)).ok());
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for bytes in std::iter::once(text.as_bytes().to_vec()).chain(contents) {
        for byte in bytes.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

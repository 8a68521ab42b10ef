//! Plans of campaigns: the points of all figures, each once, with their scenarios.

use crate::measure::Measured;
use crate::types::{Campaign, CellWorld, Figure, Set};
use farlink_base::ConfigError;
use farlink_config::{Errors, nearest};
use farlink_scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Table;

// Most cells of a campaign.
const CELLS_MAX: usize = 100_000;

/// A point: a scenario with a value for each axis. All its repetitions share one scenario text.
#[derive(Clone, PartialEq, Debug)]
pub struct Configuration {
    /// Path of the scenario file, relative to the campaign's folder.
    pub scenario: PathBuf,
    /// Pairs of axis and value indices, in the order of axes.
    pub values: Vec<(usize, usize)>,
    /// Name for folders, made of the scenario's name and the labels.
    pub name: String,
    /// Scenario text with all assignments applied.
    pub text: String,
    /// FNV-1a of the text and of the contents of the files that it names.
    pub hash: u64,
}

/// One run: a point with a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanCell {
    /// Index into [`CampaignPlan::configurations`].
    pub configuration: usize,
    /// Seed of the run.
    pub seed: u64,
}

/// All cells of a campaign, with their checked scenarios.
#[derive(Clone, PartialEq, Debug)]
pub struct CampaignPlan {
    /// The campaign that is planned.
    pub campaign: Campaign,
    /// Points of all figures, each once.
    pub configurations: Vec<Configuration>,
    /// Names of figures of the other world, which are left out.
    pub left_out: Vec<String>,
    places: BTreeMap<PointKey, usize>,
}

/// Key of a point: the scenario file, and pairs of axis and value indices.
type PointKey = (PathBuf, Vec<(usize, usize)>);

impl CampaignPlan {
    /// Plans a campaign; every resulting scenario is parsed and checked.
    ///
    /// # Errors
    /// The mistakes in scenarios, and in the values of axes with their lines.
    pub fn new(mut campaign: Campaign) -> Result<CampaignPlan, Vec<ConfigError>> {
        let text = campaign.text.clone();
        let file = campaign.file.display().to_string();
        let errors = Errors::new(Some(&file), &text);
        let left_out = campaign.leave_out_other_world();
        let names_left_out: Vec<String> = left_out.iter().map(|figure| figure.name.clone()).collect();
        if campaign.figures.is_empty()
            && let Some((first, other)) = left_out.first().and_then(|figure| Some((figure, figure.world?)))
        {
            let (here, other, word) = (campaign.world.noun(), other.noun(), other.name());
            let what = format!("no figure is left for the {here}: only the {other} has {}", names_left_out.join(", "));
            let hint = format!("`--in {word}` runs them");
            errors.at(&format!("figure[{}]", first.name), Some(first.place), what, hint);
            return Err(errors.into_list());
        }
        let mut points: BTreeMap<PointKey, usize> = BTreeMap::new();
        for figure in &campaign.figures {
            let count = campaign.count(figure);
            if points.len().saturating_add(count) > CELLS_MAX / campaign.repetitions.max(1) as usize {
                let hint = "fewer values, or fewer repetitions";
                errors.at(&format!("figure[{}]", figure.name), Some(figure.place), "more than 100,000 runs", hint);
                return Err(errors.into_list());
            }
            let of_figure = campaign.points(figure);
            // The values kept by the small size may leave a figure without points.
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
        // Reported only if nothing else is wrong, because any other mistake may be the cause.
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
        for figure in campaign.figures.iter().chain(&left_out) {
            check_names(figure, &campaign.folder, &errors);
        }
        if !errors.is_empty() {
            return Err(errors.into_list());
        }
        let (mut configurations, mut places, mut names) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (point, place) in points {
            let sets = sets_of(&campaign, &point.1);
            match text_of(&bases[&point.0], sets)
                .and_then(|text| check(&text, &folder_of(&campaign, &point.0), &campaign).map(|()| text))
            {
                Ok(text) => {
                    // The hash makes cells of a changed scenario distinct, so that stale results
                    // are not reused.
                    let hash = hash(&text, &folder_of(&campaign, &point.0));
                    let mut name = name(&campaign, &point);
                    // Long labels are cut, so two points with the same text could get the same
                    // name.
                    if !names.insert((name.clone(), hash as u32)) {
                        let _ = write!(name, "-{}", configurations.len());
                    }
                    places.insert(point.clone(), configurations.len());
                    configurations.push(Configuration { scenario: point.0, values: point.1, name, text, hash });
                }
                Err(why) => {
                    let base = (&bases[&point.0], folder_of(&campaign, &point.0));
                    blame(&campaign, (base.0, &base.1), (&point.1, place), why, &errors);
                }
            }
        }
        if errors.is_empty() {
            Ok(CampaignPlan { campaign, configurations, left_out: names_left_out, places })
        } else {
            Err(errors.into_list())
        }
    }

    /// Index of the configuration at a point of a figure; `None` if the campaign leaves the point out, such as in its
    /// small size.
    pub fn at(&self, figure: &Figure, x: Option<usize>, series: Option<usize>, facet: Option<usize>) -> Option<usize> {
        let point = (figure.scenario.clone(), self.campaign.values_at(figure, x, series, facet));
        self.places.get(&point).copied()
    }
    /// All cells: every configuration with every seed.
    pub fn cells(&self) -> Vec<PlanCell> {
        let seeds = self.campaign.seeds();
        let of = |configuration| seeds.iter().map(move |seed| PlanCell { configuration, seed: *seed });
        (0..self.configurations.len()).flat_map(of).collect()
    }
    /// Name of a cell's folder. A changed scenario text or file changes the name.
    pub fn name(&self, cell: PlanCell) -> String {
        let configuration = &self.configurations[cell.configuration];
        format!("{}_s{}_{:08x}", configuration.name, cell.seed, configuration.hash as u32)
    }
    /// Folder of a cell's scenario file, to which paths in it are relative.
    pub fn folder(&self, cell: PlanCell) -> PathBuf {
        folder_of(&self.campaign, &self.configurations[cell.configuration].scenario)
    }
    /// Paths of the files that a cell's scenario names, relative to [`CampaignPlan::folder`].
    pub fn files(&self, cell: PlanCell) -> Vec<String> {
        files_of(&self.configurations[cell.configuration].text, &self.folder(cell))
    }
    /// Parses the scenario of a cell and sets its seed.
    ///
    /// # Errors
    /// The mistakes, if a file that the scenario names has changed since the plan was made.
    pub fn scenario(&self, cell: PlanCell) -> Result<Scenario, Vec<ConfigError>> {
        let text = &self.configurations[cell.configuration].text;
        let mut scenario = Scenario::parse_in(text, &self.folder(cell))?;
        scenario.set_seed(cell.seed);
        Ok(scenario)
    }
}

impl Campaign {
    /// Axis values of a point of a figure.
    fn values_at(
        &self,
        figure: &Figure,
        x: Option<usize>,
        series: Option<usize>,
        facet: Option<usize>,
    ) -> Vec<(usize, usize)> {
        let mut values = figure.fixed.clone();
        values.extend(figure.x.zip(x));
        values.extend(figure.series.zip(series));
        values.extend(figure.facet.zip(facet));
        // Figures that share a point must produce equal keys.
        values.sort_unstable();
        values
    }
    /// Upper bound of the number of points of a figure.
    fn count(&self, figure: &Figure) -> usize {
        let of = |axis: Option<usize>| axis.map_or(1, |axis| self.axes[axis].kept().count());
        of(figure.x).saturating_mul(of(figure.series)).saturating_mul(of(figure.facet))
    }
    fn points(&self, figure: &Figure) -> Vec<PointKey> {
        let of = |axis: Option<usize>| -> Vec<Option<usize>> {
            axis.map_or(vec![None], |axis| self.axes[axis].kept().map(Some).collect())
        };
        let (xs, series, facets) = (of(figure.x), of(figure.series), of(figure.facet));
        let mut points = Vec::new();
        for x in xs {
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
        self.skip_at(values).is_some()
    }
    /// The `[[skip]]` that leaves a point out, as pairs of an axis and its values.
    fn skip_at(&self, values: &[(usize, usize)]) -> Option<&Vec<(usize, Vec<usize>)>> {
        let stands =
            |(axis, at): &(usize, Vec<usize>)| values.iter().any(|(known, value)| known == axis && at.contains(value));
        self.skips.iter().find(|skip| skip.iter().all(stands))
    }
    /// Describes the `[[skip]]` that leaves a point of a figure out.
    pub(crate) fn skip_of(
        &self,
        figure: &Figure,
        x: Option<usize>,
        series: Option<usize>,
        facet: Option<usize>,
    ) -> Option<String> {
        let skip = self.skip_at(&self.values_at(figure, x, series, facet))?;
        let one = |(axis, values): &(usize, Vec<usize>)| {
            let labels = values.iter().map(|value| self.axes[*axis].values[*value].label.as_str());
            format!("{} {}", self.axes[*axis].name, labels.collect::<Vec<_>>().join(" or "))
        };
        Some(skip.iter().map(one).collect::<Vec<_>>().join(", "))
    }
    /// Describes a point by its axes and labels.
    pub fn point_text(&self, values: &[(usize, usize)]) -> String {
        let one = |(axis, value): &(usize, usize)| {
            format!("{} {}", self.axes[*axis].name, self.axes[*axis].values[*value].label)
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Reads and checks the scenarios `files`, then applies the small size's assignments to them.
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
        // An assignment stays in `sets` until a scenario has its table; scenarios without the table are not changed.
        sets.retain(|(path, value)| path.set(&mut base, value).is_err());
        for (path, value) in &campaign.set {
            let _ = path.set(&mut base, value);
        }
        bases.insert(file.to_path_buf(), base);
    }
    // Tables that are missing are no mistake in a part of the campaign: scenarios of the other figures, which are not
    // read here, may have them.
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

/// Reports phases and nodes of a figure that its scenario lacks.
fn check_names(figure: &Figure, folder: &Path, errors: &Errors<'_>) {
    if figure.shown().all(Measured::is_whole) {
        return;
    }
    // Mistakes of the scenario itself were reported before.
    let Ok(scenario) = Scenario::load(&folder.join(&figure.scenario)) else { return };
    let phases: Vec<&str> = scenario.phases.iter().map(|phase| phase.name.as_str()).collect();
    let nodes: Vec<&str> = scenario.nodes.iter().map(|node| node.name.as_str()).collect();
    for shown in figure.shown() {
        for (kind, name, known) in [("phase", &shown.phase, &phases), ("node", &shown.node, &nodes)] {
            if let Some(name) = name.as_deref().filter(|name| !known.contains(name)) {
                let there = format!("there are: {}", known.join(", "));
                let hint = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                let hint = hint.unwrap_or(if known.is_empty() { format!("it has no {kind}s") } else { there });
                let path = format!("figure[{}]", figure.name);
                errors.at(&path, Some(figure.place), format!("the scenario has no {kind} `{name}`"), hint);
            }
        }
    }
}

/// Reports the mistake of a point's scenario at the values that cause it on their own, each at its line; if none does,
/// at the figure.
fn blame(
    campaign: &Campaign,
    (base, folder): (&Table, &Path),
    (values, place): (&[(usize, usize)], usize),
    why: ConfigError,
    errors: &Errors<'_>,
) {
    // A scenario that fails without any axis value is reported once.
    if let Err(why) = text_of(base, Vec::new()).and_then(|text| check(&text, folder, campaign)) {
        return errors.at("scenario", None, why.expected, why.hint);
    }
    let mut found = false;
    for (axis, value) in values {
        let (named, of) = (&campaign.axes[*axis], &campaign.axes[*axis].values[*value]);
        let sets = of.sets.iter().collect();
        if let Err(why) = text_of(base, sets).and_then(|text| check(&text, folder, campaign)) {
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

/// Folder of a scenario file, which is named relative to the campaign's.
fn folder_of(campaign: &Campaign, scenario: &Path) -> PathBuf {
    campaign.folder.join(scenario).parent().map_or_else(|| campaign.folder.clone(), Path::to_path_buf)
}

/// Checks a scenario and that the campaign's world can run it. Returns the first mistake with its key path but without
/// its line, which would refer to a generated text.
fn check(text: &str, folder: &Path, campaign: &Campaign) -> Result<(), ConfigError> {
    let scenario = Scenario::parse_in(text, folder).map_err(|list| {
        list.into_iter().next().unwrap_or_else(|| ConfigError {
            path: String::new(),
            expected: "it is no scenario".into(),
            hint: String::new(),
        })
    });
    let (other, hint) = match campaign.world {
        CellWorld::Sim => {
            (scenario.as_ref().ok().and_then(Scenario::needs_messages), "write fidelity = \"message\" in it")
        }
        CellWorld::Lab => {
            (scenario.as_ref().ok().and_then(Scenario::needs_simulation), "run it in simulation: `--in sim`")
        }
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

/// Name for folders, made of the scenario's name and the labels.
fn name(campaign: &Campaign, (scenario, values): &PointKey) -> String {
    // Longer names are cut; the hash keeps them distinct.
    const LONGEST: usize = 100;
    let stem = scenario.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let labels = values.iter().map(|(axis, value)| campaign.axes[*axis].values[*value].label.clone());
    // Other characters are unsafe or awkward in file names.
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '-' };
    let parts: Vec<String> =
        std::iter::once(stem).chain(labels).map(|part| part.chars().map(plain).collect()).collect();
    let name: String = parts.join("_").chars().take(LONGEST).collect();
    name.trim_start_matches('.').to_string()
}

/// Existing files named anywhere in a scenario's text, as they are named.
fn files_of(text: &str, folder: &Path) -> Vec<String> {
    fn named(value: &toml::Value, found: &mut Vec<String>) {
        match value {
            // Any string may be a path; the file system decides.
            toml::Value::String(text) if text.len() < 256 => found.push(text.clone()),
            toml::Value::Array(items) => items.iter().for_each(|item| named(item, found)),
            toml::Value::Table(table) => table.values().for_each(|item| named(item, found)),
            _ => {}
        }
    }
    let mut files = Vec::new();
    text.parse::<Table>().unwrap_or_default().values().for_each(|value| named(value, &mut files));
    // Strings that name no file are ordinary values.
    files.retain(|file| folder.join(file).is_file());
    files
}

/// FNV-1a, 64 bits, of a text and of the contents of the files it names.
fn hash(text: &str, folder: &Path) -> u64 {
    let files = files_of(text, folder);
    let contents = files.iter().filter_map(|file| std::fs::read(folder.join(file)).ok());
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for bytes in std::iter::once(text.as_bytes().to_vec()).chain(contents) {
        // A byte that UTF-8 text cannot contain separates text and files.
        for byte in bytes.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

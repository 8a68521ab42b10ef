//! Reference results of The ONE: runs compared byte by byte (anchors) and rows of figures, with the settings of each.

use anyhow::{Context, Result};
use std::path::Path;

const TERRESTRIAL: &str = "settings/terrestrial_base.txt";
const TINY: &str = "settings/anchor_tiny.txt";
const STREETS: &str = "settings/map_selfmade.txt";
const PLANETS: &str = "settings/ipn_base.txt";
/// Columns without figures.
const NAMES: [&str; 2] = ["label", "seed"];

/// Name, settings files, and further keys.
type Anchor = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Runs whose reports are compared to the byte.
pub const ANCHORS: &[Anchor] = &[
    ("ipn-epi", &[PLANETS], &["Scenario.updateInterval=1.0", "Report.nrofReports=2", "Report.report2=EventLogReport"]),
    ("tiny-epi-rwp", &[TERRESTRIAL, TINY], &[]),
    ("tiny-epi-fifo-rwp", &[TERRESTRIAL, TINY], &["Group.sendQueue=2"]),
    ("tiny-epi-ui01", &[TERRESTRIAL, TINY], &["Scenario.updateInterval=0.1"]),
    ("tiny-snw-rwp", &[TERRESTRIAL, TINY], &["Group.router=SprayAndWaitRouter"]),
    ("tiny-epi-map", &[TERRESTRIAL, TINY, STREETS], &["radio.transmitRange=800", "Group.speed=5,15"]),
];

/// Expected result of a run, from a row of the reference.
#[derive(Debug)]
pub struct Expected {
    /// Label of the row, which describes how its settings differ from the settings file.
    pub label: String,
    /// Seed of the run, from 1.
    pub seed: usize,
    /// Figures by name, as text.
    pub figures: Vec<(String, String)>,
}

impl Expected {
    /// Message about the first figure that differs in a `MessageStatsReport`; `None` if all agree.
    pub fn missed(&self, report: &str) -> Option<String> {
        self.figures.iter().find_map(|(name, theirs)| {
            let ours = report.lines().find_map(|line| line.strip_prefix(name.as_str())?.strip_prefix(": "));
            (!ours.is_some_and(|ours| same(ours, theirs)))
                .then(|| format!("{name} {} for {theirs}", ours.unwrap_or("-")))
        })
    }
}

fn same(ours: &str, theirs: &str) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        // The ONE writes NaN for the mean of nothing: equal on both sides.
        (Ok(ours), Ok(theirs)) => ours == theirs || (ours.is_nan() && theirs.is_nan()),
        _ => false,
    }
}

/// All rows of `out/*_runs.csv`, with the name of their file.
pub fn read(reference: &Path) -> Result<Vec<(String, Expected)>> {
    let folder = reference.join("out");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<String>>>()?;
    files.retain(|file| file.ends_with("_runs.csv"));
    // The table is printed in this order.
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(folder.join(&file))?;
        rows.extend(parse(&text).with_context(|| file.clone())?.into_iter().map(|row| (file.clone(), row)));
    }
    Ok(rows)
}

fn parse(text: &str) -> Result<Vec<Expected>> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().context("the file is empty")?.split(',').collect();
    let row = |line: &str| {
        let cell = |name: &str| {
            let place = columns.iter().position(|column| *column == name).with_context(|| format!("no {name}"))?;
            line.split(',').nth(place).with_context(|| format!("`{line}` has no {name}"))
        };
        let figures = columns
            .iter()
            .filter(|name| !NAMES.contains(name))
            .map(|name| cell(name).map(|text| (name.to_string(), text.to_string())));
        Ok(Expected {
            label: cell("label")?.into(),
            seed: cell("seed")?.parse()?,
            figures: figures.collect::<Result<_>>()?,
        })
    };
    lines.filter(|line| !line.is_empty()).map(row).collect()
}

/// Settings files and further keys.
type RowSettings = (Vec<&'static str>, Vec<String>);

/// Settings that a label describes, or the reason why it is not run.
pub fn settings(file: &str, label: &str) -> Result<RowSettings, &'static str> {
    if file.contains("_saw_") {
        return Err("a delay that The ONE has not");
    }
    if label.contains("SPMBMhel") {
        return Err("a map that may not be passed on");
    }
    let mut sets = vec![format!("Scenario.updateInterval={}", if label.contains("u01") { "0.1" } else { "1.0" })];
    let routers = ["Epidemic", "SprayAndWait", "Prophet"];
    let router = routers.into_iter().find(|router| label.contains(router)).ok_or("a router that is not covered")?;
    // Prophet without FIFO sorts messages by Java's identity hash codes, which no other program has.
    match (router, label.contains("Fifo")) {
        ("Prophet", false) => return Err("the order of equals is that of Java's memory"),
        ("Prophet", true) => sets.push("Group.sendQueue=2".into()),
        _ => {}
    }
    sets.push(format!("Group.router={router}Router"));
    let mut files = vec![if file.starts_with("ipn") { PLANETS } else { TERRESTRIAL }];
    for part in label.split('-').skip(1) {
        let (letter, rest) = part.split_at(1.min(part.len()));
        let number = rest.trim_end_matches('k').bytes().all(|byte| byte.is_ascii_digit()) && !rest.is_empty();
        match (letter, part) {
            ("b", _) if number => sets.push(format!("Group.bufferSize={rest}")),
            ("i", _) if number => sets.push(format!("Events1.interval=1,{rest}")),
            ("r", _) if number => sets.push(format!("radio.transmitRange={rest}")),
            (_, "SPMBMself") => files.push(STREETS),
            (_, "nowait") => sets.push("Group.waitTime=0,0".into()),
            (_, "RandomWalk" | "RandomWaypoint") => sets.push(format!("Group.movementModel={part}")),
            _ if part.starts_with("contact") || part.starts_with("duration") => {
                sets.push(format!("Events2.filePath=events/{part}.txt"));
            }
            _ => {}
        }
    }
    if label.starts_with("any2any") {
        sets.extend(["Events1.hosts=0,5", "Events1.tohosts=0,5"].map(String::from));
    }
    Ok((files, sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_settings() {
        let (files, sets) =
            settings("terr_u1c_runs.csv", "EpidemicRouter-RandomWalk-nowait-b500k-i300-u1").expect("run");
        assert_eq!(files, [TERRESTRIAL]);
        let told = ["Group.router=EpidemicRouter", "Group.movementModel=RandomWalk", "Group.waitTime=0,0"];
        let told = told.into_iter().chain(["Group.bufferSize=500k", "Events1.interval=1,300"]);
        assert!(told.into_iter().all(|set| sets.iter().any(|given| given == set)), "{sets:?}");
        let (files, sets) = settings("ipn_zero_runs.csv", "fig7-SprayAndWaitRouter-duration3").expect("run");
        assert_eq!(files, [PLANETS]);
        assert!(sets.contains(&"Events2.filePath=events/duration3.txt".into()), "{sets:?}");
        assert!(settings("x", "ProphetRouter-RandomWalk-u1").is_err() && settings("ipn_saw_runs.csv", "x").is_err());
        assert!(settings("fifo_u1_runs.csv", "ProphetFifo").expect("run").1.contains(&"Group.sendQueue=2".into()));
    }

    #[test]
    fn rows_are_compared_as_numbers() {
        let rows = parse("label,seed,created,overhead_ratio\nx,2,276.0,nan\n").expect("it can be read");
        assert_eq!((rows[0].label.as_str(), rows[0].seed), ("x", 2));
        assert_eq!(rows[0].missed("sim_time: 1\ncreated: 276\noverhead_ratio: NaN\n"), None);
        assert_eq!(rows[0].missed("created: 275\noverhead_ratio: NaN\n").as_deref(), Some("created 275 for 276.0"));
        assert_eq!(rows[0].missed("created: 276\n").as_deref(), Some("overhead_ratio - for nan"));
        assert!(parse("").is_err() && parse("label,seed\nx\n").is_err());
    }
}

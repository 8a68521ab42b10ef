//! The interoperability matrix: results of checks by pair and layer.

use super::CheckedPair;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

/// Text of the page before the table.
const PAGE: &str = "\
# Interoperability matrix

Written by `farlink lab check --matrix FILE`, from the runs whose results FILE keeps; pairs and layers that a call
does not try keep theirs. Each cell counts the trials that passed: bundles of several sizes and a file each way, pings
where both answer them, across an outage of the link, and across a `kill -9` of each side that keeps its bundles on
disk. The two run on a link of 100 Mbit/s and 5 ms, or of 4 Mbit/s where a bundle is a datagram. Rates of so few
bundles measure nothing; `--full` sends 1,000 bundles each way and 200 across each outage and restart, instead of 48
and 10. Columns of BPv6 are of bundles of version 6. Limits that the drivers state are kept: an empty cell was not
tried, or is a layer that one of the two lacks. Of a pair, `a` is the first, and `there` leads from it to the second.
The notes of a driver, which `farlink lab driver NAME` prints, say why a trial fails.

";
/// Headings of the sections that follow the table.
const FAILURES: &str = "\n## Failures\n\n";
const TRIALS: &str = "\n## Trials\n\n";

/// Results of a pair over one layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MatrixCell {
    /// The two implementations, with the versions that they print.
    pub pair: [String; 2],
    /// Convergence layer, by its name in scenarios.
    pub layer: String,
    /// Version of the Bundle Protocol.
    #[serde(default = "usual_version", skip_serializing_if = "is_usual_version")]
    pub bundle_version: u8,
    /// Day of the check, YYYY-MM-DD.
    pub date: String,
    /// Trials and their results; an error begins with `failed: `.
    pub trials: BTreeMap<String, String>,
}

const fn usual_version() -> u8 {
    7
}
fn is_usual_version(version: &u8) -> bool {
    *version == usual_version()
}

impl MatrixCell {
    /// Cells of one check, a cell for each layer and version of the Bundle Protocol.
    pub fn of(checked: &CheckedPair, date: &str) -> Vec<MatrixCell> {
        let CheckedPair { names: pair, lines } = checked;
        let mut cells: BTreeMap<(&str, u8), MatrixCell> = BTreeMap::new();
        for line in lines {
            let Some((layer, bundle_version)) = &line.layer else { continue };
            let cell = cells.entry((layer, *bundle_version)).or_insert_with(|| MatrixCell {
                pair: pair.clone(),
                layer: layer.clone(),
                bundle_version: *bundle_version,
                date: date.into(),
                trials: BTreeMap::new(),
            });
            let first = |why: &String| format!("failed: {}", why.lines().next().unwrap_or_default());
            cell.trials.insert(line.subject.clone(), line.outcome.as_ref().map_or_else(first, String::clone));
        }
        cells.into_values().collect()
    }

    /// Layer in the table, with the version of the Bundle Protocol unless it is 7.
    fn column(&self) -> String {
        if is_usual_version(&self.bundle_version) { self.layer.clone() } else { format!("{}, BPv6", self.layer) }
    }

    fn passed(&self) -> usize {
        self.trials.values().filter(|result| !result.starts_with("failed: ")).count()
    }
}

/// Cells of two checks; newer ones replace those of the same pair, layer and version.
pub fn merged(known: Vec<MatrixCell>, newer: Vec<MatrixCell>) -> Vec<MatrixCell> {
    let key = |cell: &MatrixCell| (cell.pair.clone(), cell.layer.clone(), Reverse(cell.bundle_version));
    let cells: BTreeMap<_, _> = known.into_iter().chain(newer).map(|cell| (key(&cell), cell)).collect();
    cells.into_values().collect()
}

/// Merges cells into a file of results, and writes the page beside it, which has the same name with the end `.md`.
///
/// # Errors
/// A file that holds something else, or cannot be written.
pub fn update(path: &Path, newer: Vec<MatrixCell>) -> Result<()> {
    let named = path.extension().is_some_and(|end| end == "json");
    ensure!(named, "{} does not end with .json\nhint: the page is written beside it", path.display());
    let known = match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is no matrix", path.display()))?,
        Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let cells = merged(known, newer);
    for (path, text) in
        [(path.to_path_buf(), serde_json::to_string_pretty(&cells)? + "\n"), (path.with_extension("md"), page(&cells))]
    {
        // The rename replaces the file at once: another check never reads half of it.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Page of the matrix: the table, the failures, and the result of each trial.
pub fn page(cells: &[MatrixCell]) -> String {
    let all = table(cells);
    let (table, failures) = all.split_once("\n\n").unwrap_or((&all, ""));
    let mut text = format!("{PAGE}{}\n", table.trim_end());
    if !failures.is_empty() {
        text += FAILURES;
        text += failures;
    }
    text += TRIALS;
    text += "| pair | layer | trial | result |\n|---|---|---|---|\n";
    for cell in cells {
        for (trial, result) in &cell.trials {
            let result = result.replace('|', "/");
            let column = cell.column();
            let _ = writeln!(text, "| {} and {} | {column} | {trial} | {result} |", cell.pair[0], cell.pair[1]);
        }
    }
    text
}

/// Markdown of the matrix: a row for each pair, a column for each layer, then the failures.
pub fn table(cells: &[MatrixCell]) -> String {
    let layers: BTreeSet<String> = cells.iter().map(MatrixCell::column).collect();
    let pairs: BTreeSet<&[String; 2]> = cells.iter().map(|cell| &cell.pair).collect();
    let mut text = String::from("| pair |");
    layers.iter().for_each(|layer| text += &format!(" {layer} |"));
    text += "\n|---|";
    layers.iter().for_each(|_| text += "---|");
    text.push('\n');
    let mut failures = String::new();
    for pair in pairs {
        let _ = write!(text, "| {} and {} |", pair[0], pair[1]);
        for layer in &layers {
            let cell = cells.iter().find(|cell| &cell.pair == pair && cell.column() == *layer);
            match cell {
                None => text += " |",
                Some(cell) => {
                    let _ = write!(text, " {} of {}, {} |", cell.passed(), cell.trials.len(), cell.date);
                    for (trial, result) in &cell.trials {
                        if let Some(why) = result.strip_prefix("failed: ") {
                            let _ = writeln!(failures, "- {} and {}, {layer}, {trial}: {why}", pair[0], pair[1]);
                        }
                    }
                }
            }
        }
        text.push('\n');
    }
    if !failures.is_empty() {
        text += &format!("\n{failures}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::CheckLine;
    use super::*;

    fn line(layer: Option<&str>, subject: &str, outcome: Result<&str, &str>) -> CheckLine {
        let outcome = outcome.map(String::from).map_err(String::from);
        CheckLine { layer: layer.map(|layer| (layer.into(), 7)), subject: subject.into(), outcome, seconds: 1.0 }
    }

    fn checked(names: [&str; 2], lines: Vec<CheckLine>) -> CheckedPair {
        CheckedPair { names: names.map(String::from), lines }
    }

    fn cells() -> Vec<MatrixCell> {
        let lines = vec![
            line(None, "dtn7-rs: driver, programs", Ok("version 0.21.0")),
            line(Some("mtcp"), "bundles there", Ok("48 bundles arrived")),
            line(Some("mtcp"), "bundles back", Err("3 of 48 bundles arrived\nhint: x")),
            line(Some("tcpclv4"), "ping", Ok("10 pings answered")),
        ];
        MatrixCell::of(&checked(["farlink", "dtn7-rs 0.21.0"], lines), "2026-11-27")
    }

    #[test]
    fn matrix_counts_trials_and_lists_failures() {
        let text = table(&cells());
        assert!(text.starts_with("| pair | mtcp | tcpclv4 |\n|---|---|---|\n"), "{text}");
        assert!(text.contains("| farlink and dtn7-rs 0.21.0 | 1 of 2, 2026-11-27 | 1 of 1, 2026-11-27 |"), "{text}");
        assert!(
            text.ends_with("- farlink and dtn7-rs 0.21.0, mtcp, bundles back: 3 of 48 bundles arrived\n"),
            "{text}"
        );
    }

    #[test]
    fn newer_cells_replace_older_ones() {
        let lines = vec![line(Some("mtcp"), "bundles there", Ok("all"))];
        let newer = MatrixCell::of(&checked(["farlink", "dtn7-rs 0.21.0"], lines), "2026-11-28");
        let other = vec![line(Some("stcp"), "ping", Ok("all"))];
        let other = MatrixCell::of(&checked(["farlink", "ion 4.1.3"], other), "2026-11-28");
        let all = merged(cells(), [newer.clone(), other.clone()].concat());
        assert_eq!(all, [&newer[..], &cells()[1..], &other].concat());
    }

    #[test]
    fn versions_have_columns_of_their_own() {
        let mut old = line(Some("ltp"), "ping", Ok("all"));
        old.layer = Some(("ltp".into(), 6));
        let both =
            MatrixCell::of(&checked(["farlink", "hdtn"], vec![line(Some("ltp"), "ping", Err("none")), old]), "day");
        let text = table(&merged(both.clone(), both.clone()));
        assert!(text.starts_with("| pair | ltp | ltp, BPv6 |\n"), "{text}");
        assert!(text.contains("| farlink and hdtn | 0 of 1, day | 1 of 1, day |"), "{text}");
        let kept = serde_json::to_string(&both).unwrap();
        assert_eq!(kept.matches("bundle_version").count(), 1, "version 7 is not written");
        assert_eq!(serde_json::from_str::<Vec<MatrixCell>>(&kept).unwrap(), both);
    }

    #[test]
    fn page_is_written_beside_results() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("matrix.json");
        update(&path, cells()).unwrap();
        update(&path, Vec::new()).unwrap();
        let page = std::fs::read_to_string(dir.path().join("matrix.md")).unwrap();
        assert_eq!(page, super::page(&cells()));
        assert!(page.contains("\n## Failures\n\n- farlink and dtn7-rs 0.21.0, mtcp, bundles back: 3 of 48"), "{page}");
        assert!(page.contains("| farlink and dtn7-rs 0.21.0 | tcpclv4 | ping | 10 pings answered |"), "{page}");
        std::fs::write(&path, "{}").unwrap();
        assert!(update(&path, Vec::new()).unwrap_err().to_string().contains("is no matrix"));
        assert!(update(&dir.path().join("x.md"), Vec::new()).unwrap_err().to_string().contains("hint: "));
    }

    #[test]
    fn kept_page_matches_its_results() {
        let page = include_str!("../../../docs/reference/matrix.md");
        let results = include_str!("../../../docs/reference/matrix.json");
        assert_eq!(page, super::page(&serde_json::from_str::<Vec<MatrixCell>>(results).unwrap()));
    }
}

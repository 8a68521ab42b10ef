//! The interoperability matrix: results of checks by pair and layer.

use super::CheckLine;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Results of a pair over one layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MatrixCell {
    /// The two implementations, each `NAME` or `NAME@FOLDER`.
    pub pair: [String; 2],
    /// Convergence layer, by its name in scenarios.
    pub layer: String,
    /// Day of the check, YYYY-MM-DD.
    pub date: String,
    /// Trials and their results; an error begins with `failed: `.
    pub trials: BTreeMap<String, String>,
}

impl MatrixCell {
    /// Cells of one check, a cell for each layer.
    pub fn of(pair: &[String; 2], date: &str, lines: &[CheckLine]) -> Vec<MatrixCell> {
        let mut cells: BTreeMap<&str, MatrixCell> = BTreeMap::new();
        for line in lines {
            let Some(layer) = &line.layer else { continue };
            let cell = cells.entry(layer).or_insert_with(|| MatrixCell {
                pair: pair.clone(),
                layer: layer.clone(),
                date: date.into(),
                trials: BTreeMap::new(),
            });
            let first = |why: &String| format!("failed: {}", why.lines().next().unwrap_or_default());
            cell.trials.insert(line.subject.clone(), line.outcome.as_ref().map_or_else(first, String::clone));
        }
        cells.into_values().collect()
    }

    fn passed(&self) -> usize {
        self.trials.values().filter(|result| !result.starts_with("failed: ")).count()
    }
}

/// Markdown of the matrix: a row for each pair, a column for each layer, then the failures.
pub fn table(cells: &[MatrixCell]) -> String {
    let layers: BTreeSet<&str> = cells.iter().map(|cell| cell.layer.as_str()).collect();
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
            let cell = cells.iter().find(|cell| &cell.pair == pair && cell.layer == *layer);
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
    use super::*;

    fn line(layer: Option<&str>, subject: &str, outcome: Result<&str, &str>) -> CheckLine {
        let outcome = outcome.map(String::from).map_err(String::from);
        CheckLine { layer: layer.map(String::from), subject: subject.into(), outcome, seconds: 1.0 }
    }

    #[test]
    fn matrix_counts_trials_and_lists_failures() {
        let lines = [
            line(None, "dtn7-rs: driver, programs", Ok("version 0.21.0")),
            line(Some("mtcp"), "bundles there", Ok("48 bundles arrived")),
            line(Some("mtcp"), "bundles back", Err("3 of 48 bundles arrived\nhint: x")),
            line(Some("tcpclv4"), "ping", Ok("10 pings answered")),
        ];
        let cells = MatrixCell::of(&["farlink".into(), "dtn7-rs".into()], "2026-11-27", &lines);
        let text = table(&cells);
        assert!(text.starts_with("| pair | mtcp | tcpclv4 |\n|---|---|---|\n"), "{text}");
        assert!(text.contains("| farlink and dtn7-rs | 1 of 2, 2026-11-27 | 1 of 1, 2026-11-27 |"), "{text}");
        assert!(text.ends_with("- farlink and dtn7-rs, mtcp, bundles back: 3 of 48 bundles arrived\n"), "{text}");
        let again: Vec<MatrixCell> = serde_json::from_str(&serde_json::to_string(&cells).unwrap()).unwrap();
        assert_eq!(again, cells);
    }
}

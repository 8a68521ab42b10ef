//! Table of results, for the terminal and for the page.

use crate::tools;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;

const PAGE: &str = "docs/reference/interop.md";
const BEGIN: &str = "<!-- matrix:begin -->";
const END: &str = "<!-- matrix:end -->";

/// Result of one trial with one peer over one layer.
pub struct Row {
    /// Name and version of the peer.
    pub peer: String,
    pub layer: String,
    pub trial: String,
    /// Number of bundles, and payload bytes of the smallest and the largest.
    pub bundles: usize,
    pub sizes: (usize, usize),
    /// Bundles that did not arrive.
    pub lost: usize,
    pub notes: Vec<String>,
    /// Reason of a failure.
    pub failed: Option<String>,
    /// Whether the trial was skipped; the notes give the reason.
    pub left_out: bool,
}

impl Row {
    /// Row of a peer that was not tried, with the reason.
    pub fn left_out(peer: &str, layer: &str, why: impl Into<String>) -> Row {
        let (peer, layer, notes) = (peer.into(), layer.into(), vec![why.into()]);
        Row { peer, layer, trial: "-".into(), bundles: 0, sizes: (0, 0), lost: 0, notes, failed: None, left_out: true }
    }
    fn cells(&self) -> [String; 7] {
        let (smallest, largest) = (size(self.sizes.0), size(self.sizes.1));
        let sizes = if smallest == largest { smallest } else { format!("{smallest} to {largest}") };
        let verdict = match (&self.failed, self.left_out) {
            (Some(why), _) => format!("FAILED: {}", why.lines().next().unwrap_or_default()),
            (None, true) => "left out".into(),
            (None, false) => "ok".into(),
        };
        let told: Vec<&str> = std::iter::once(verdict.as_str()).chain(self.notes.iter().map(String::as_str)).collect();
        let [bundles, sizes, lost] = if self.left_out {
            ["-"; 3].map(String::from)
        } else {
            [self.bundles.to_string(), sizes, self.lost.to_string()]
        };
        [self.peer.clone(), self.layer.clone(), self.trial.clone(), bundles, sizes, lost, told.join("; ")]
    }
}

/// Size for people, in the largest unit without rounding.
fn size(bytes: usize) -> String {
    match bytes {
        1_000_000.. if bytes.is_multiple_of(100_000) => format!("{} MB", bytes as f64 / 1e6),
        1_000.. if bytes.is_multiple_of(100) => format!("{} kB", bytes as f64 / 1e3),
        _ => format!("{bytes} B"),
    }
}

const HEADS: [&str; 7] = ["peer", "layer", "trial", "bundles", "payload", "lost", "result"];

/// Table with aligned columns for a terminal.
pub fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 7]> = std::iter::once(HEADS.map(String::from)).chain(rows.iter().map(Row::cells)).collect();
    let mut text = String::new();
    for line in &cells {
        for (at, cell) in line.iter().enumerate() {
            // Characters, not bytes: names such as µD3TN are not ASCII.
            let width = cells.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
            let _ = if at + 1 < line.len() { write!(text, "{cell:<width$}  ") } else { writeln!(text, "{cell}") };
        }
    }
    text
}

/// Table of the page: rows of peers and layers tried now replace those in `before`.
fn merged(before: &str, rows: &[Row], date: &str) -> String {
    // Rows are matched by the peer's name without its version, which may have changed.
    let name = |cell: &str| cell.split(' ').next().unwrap_or_default().to_string();
    let tried: Vec<(String, &str)> = rows.iter().map(|row| (name(&row.peer), row.layer.as_str())).collect();
    let mut lines: Vec<String> = Vec::new();
    for line in before.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let mut cells = line.trim_start_matches("| ").split(" | ");
        let (peer, layer) = (name(cells.next().unwrap_or_default()), cells.next().unwrap_or_default());
        if !tried.contains(&(peer, layer)) {
            lines.push(line.to_string());
        }
    }
    lines.extend(
        // A `|` in a cell would begin another cell.
        rows.iter().map(|row| format!("| {} | {date} |", row.cells().map(|cell| cell.replace('|', "/")).join(" | "))),
    );
    lines.sort_by_key(|line| name(line.trim_start_matches("| ")));
    let heads = format!("| {} | date |", HEADS.join(" | "));
    format!("{heads}\n|{}\n{}\n", "---|".repeat(HEADS.len() + 1), lines.join("\n"))
}

/// Writes the rows into the page.
pub fn write(rows: &[Row]) -> Result<()> {
    let page = tools::root().join(PAGE);
    let text = std::fs::read_to_string(&page)?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        bail!("{PAGE} has no `{BEGIN}` and `{END}`");
    };
    // The standard library has no calendar.
    let date = tools::output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"])).context("no date")?;
    let table = merged(&text[begin..end], rows, date.trim());
    std::fs::write(&page, format!("{}{BEGIN}\n{table}{}", &text[..begin], &text[end..]))?;
    println!("wrote the table of {PAGE}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_named_on_page_exist() {
        let page = std::fs::read_to_string(tools::root().join("docs/reference/interop.md")).unwrap();
        let (_, faults) = page.split_once("## What breaks in them").unwrap();
        let named: Vec<String> =
            faults.split('`').filter(|word| word.matches('_').count() > 2).map(|name| format!("fn {name}()")).collect();
        assert!(named.len() >= 12, "{named:?}");
        let mut missing = named;
        let mut folders: Vec<std::path::PathBuf> = ["core", "node", "os", "sim", "tests", "trials", "xtask"]
            .iter()
            .map(|folder| tools::root().join(folder))
            .collect();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    missing.retain(|name| !text.contains(name.as_str()));
                }
            }
        }
        assert!(missing.is_empty(), "{missing:?}");
    }

    fn row(peer: &str, trial: &str) -> Row {
        Row {
            peer: peer.into(),
            trial: trial.into(),
            left_out: false,
            bundles: 10,
            sizes: (1, 60_000),
            ..Row::left_out("", "TCPCLv4", "40 reports")
        }
    }

    #[test]
    fn table_shows_failure_reasons() {
        let failed = Row { failed: Some("nothing came\nand more".into()), ..row("a longer one 1", "back") };
        let text = table(&[row("dtn7-rs 0.21.0", "there"), failed]);
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: usize, word: &str| lines[line].find(word).unwrap();
        assert_eq!(column(0, "result"), column(1, "ok; 40 reports"));
        assert_eq!(column(1, "ok"), column(2, "FAILED: nothing came"));
        assert!(lines[1].contains("1 B to 60 kB") && lines.len() == 3, "{text}");
    }

    #[test]
    fn untried_rows_are_kept() {
        let first = merged("", &[row("dtn7-rs 0.20", "there"), row("hardy 0.4", "there")], "2026-01-01");
        let second = merged(&first, &[row("dtn7-rs 0.21", "back")], "2026-01-02");
        let lines: Vec<&str> = second.lines().collect();
        assert_eq!(lines.len(), 4, "{second}");
        assert!(lines[2].starts_with("| dtn7-rs 0.21 | TCPCLv4 | back | 10 |") && lines[2].ends_with("| 2026-01-02 |"));
        assert!(lines[3].starts_with("| hardy 0.4 |") && lines[3].ends_with("| 2026-01-01 |"));
        let third = merged(&second, &[Row { layer: "MTCP".into(), ..row("dtn7-rs 0.21", "back") }], "2026-01-03");
        assert_eq!(third.lines().count(), 5, "another layer is beside it: {third}");
    }

    #[test]
    fn sizes_use_round_units() {
        assert_eq!([1, 64_000, 1_000_000, 50_000_000, 65_507].map(size), ["1 B", "64 kB", "1 MB", "50 MB", "65507 B"]);
    }
}

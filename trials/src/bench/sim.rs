//! `cargo xtask bench sim`: one table of simulation costs, beside the values aimed at and those of The ONE.

use super::cells::{CELLS, Cell, scenario};
use super::exact;
use super::sky::{SKIES, Sky};
use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Processor seconds after which a row is given up.
const LIMIT_S: u64 = 300;

/// A row of the table.
enum CostRow {
    /// Walkers in Farlink's own world.
    Cell(&'static Cell),
    /// The same walkers in The ONE's own world.
    Exact(&'static Cell),
    Sky(&'static Sky),
}

/// Reference values of a row: targets, and results of The ONE.
#[derive(Default)]
struct Marks {
    cpu_s: [Option<f64>; 2],
    memory_mb: [Option<f64>; 2],
    delivered: Option<f64>,
}

impl CostRow {
    fn all() -> impl Iterator<Item = CostRow> {
        let exact = CELLS.iter().filter(|cell| cell.exact_s.is_some()).map(CostRow::Exact);
        CELLS.iter().map(CostRow::Cell).chain(SKIES.iter().map(CostRow::Sky)).chain(exact)
    }
    fn name(&self) -> String {
        match self {
            CostRow::Cell(cell) => cell.name.into(),
            CostRow::Exact(cell) => format!("exact-{}", cell.name),
            CostRow::Sky(sky) => sky.name.into(),
        }
    }
    fn long(&self) -> bool {
        match self {
            CostRow::Cell(cell) => cell.long,
            CostRow::Sky(sky) => sky.long,
            CostRow::Exact(_) => false,
        }
    }
    /// Whether the program runs without huge pages, whose unused parts would dominate the memory of a small scenario.
    fn small(&self) -> bool {
        match self {
            CostRow::Cell(cell) | CostRow::Exact(cell) => cell.nodes <= 1000,
            CostRow::Sky(_) => false,
        }
    }
    fn title(&self) -> String {
        match self {
            CostRow::Cell(cell) => {
                let Cell { name, nodes, range, duration_s, router, .. } = cell;
                format!("{name}: {nodes} nodes, {range} m, {router}, {duration_s} s")
            }
            CostRow::Exact(cell) => format!("exact-{}: the same in The ONE's own world", cell.name),
            CostRow::Sky(sky) => {
                let Sky { name, duration_s, flows, .. } = sky;
                format!("{name}: {} satellites, {flows} flows, {duration_s} s", sky.planes * sky.per_plane)
            }
        }
    }
    fn marks(&self) -> Marks {
        match self {
            CostRow::Cell(cell) => Marks {
                cpu_s: [Some(cell.mark_s), cell.one_s],
                memory_mb: [cell.mark_mb, cell.one_mb],
                delivered: cell.one_delivered,
            },
            CostRow::Exact(cell) => Marks {
                cpu_s: [cell.exact_s, cell.one_s],
                memory_mb: [None, cell.one_mb],
                delivered: cell.one_delivered,
            },
            CostRow::Sky(sky) => Marks { cpu_s: [sky.mark_s, None], ..Marks::default() },
        }
    }
    /// Writes the scenario's input file; returns its path and the program's arguments before the path.
    fn write(&self, folder: &Path) -> Result<(PathBuf, &'static [&'static str])> {
        let (ending, text, before): (_, _, &[&str]) = match self {
            CostRow::Cell(cell) => ("toml", scenario(cell), &[]),
            CostRow::Sky(sky) => ("toml", sky.scenario(), &[]),
            CostRow::Exact(cell) => ("txt", exact::settings(cell), &["--one", "1"]),
        };
        let file = folder.join(format!("{}.{ending}", self.name()));
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok((file, before))
    }
    /// Row of [`HEAD`] with the measured values, or with the reason why they are missing.
    fn printed(&self, measured: Result<&Value, &str>) -> String {
        let Marks { cpu_s: [mark, one], memory_mb: [mark_mb, one_mb], delivered } = self.marks();
        let unit = |value: Option<f64>, unit: &str| value.map_or("-".into(), |value| format!("{value} {unit}"));
        let percent = delivered.map_or("-".into(), |value| format!("{:.1} %", value * 100.0));
        let (mark, one, mark_mb, one_mb) = (unit(mark, "s"), unit(one, "s"), unit(mark_mb, "MB"), unit(one_mb, "MB"));
        // A row without values keeps all columns, so that tables can be compared by position.
        let measured = match measured {
            Ok(measured) => measured,
            Err(why) => {
                return format!(
                    "| {} | {why} | {mark} | {one} | - | {mark_mb} | {one_mb} | - | - | - | - | {percent} |",
                    self.title()
                );
            }
        };
        let number = |key: &str| measured[key].as_f64();
        let count = |key: &str| measured[key].as_u64().map_or("-".into(), |count| count.to_string());
        let whole = |key: &str| number(key).unwrap_or(0.0);
        let cpu = whole("read_s") + whole("build_s") + whole("run_s");
        let share = 100.0 * whole("delivered") / whole("created");
        format!(
            "| {} | {cpu:.2} s | {mark} | {one} | {:.0} MB | {mark_mb} | {one_mb} | {} | {} | {} | {} of {}, {share:.1} % | {percent} |",
            self.title(),
            whole("memory_mb"),
            count("contacts"),
            count("sent"),
            count("refused"),
            whole("delivered"),
            whole("created"),
        )
    }
}

/// Runs the program and parses the line that it prints; `None` if it exceeded its processor time.
fn measure(program: &Path, before: &[&str], file: &Path, small: bool, limit_s: u64) -> Result<Option<Value>> {
    let mut command = Command::new("sh");
    // Keeps the allocator mimalloc from using transparent huge pages.
    if small {
        command.env("MIMALLOC_ALLOW_THP", "0");
    }
    command.args(["-c", "ulimit -t \"$0\" && exec \"$@\"", &limit_s.to_string()]);
    command.arg(program).args(before).arg(file);
    let output = command.output().with_context(|| format!("cannot run `{}`", tools::shown(&command)))?;
    // The kernel sends SIGXCPU at the soft limit and SIGKILL at the hard one; `ulimit -t` sets both.
    const CPU_TIME: i32 = 24;
    const KILLED: i32 = 9;
    if output.status.signal().is_some_and(|signal| [CPU_TIME, KILLED].contains(&signal)) {
        return Ok(None);
    }
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("`{}` failed: {}", tools::shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(Some(serde_json::from_str(&text).with_context(|| format!("what it said: {text}"))?))
}

/// Measures the chosen rows and prints the table.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let only = arguments.word("--only")?;
    let seeds = arguments.number("--seeds", 5)?;
    let limit_s = arguments.number("--limit", LIMIT_S)?;
    let all = arguments.flag("--all");
    // The permutation test walks all 2^12 bit patterns for two lists of 6 values.
    if seeds > 6 {
        bail!("--seeds {seeds}: at most 6, all splits of which are looked at");
    }
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench sim");
    }
    let rows: Vec<CostRow> = CostRow::all().filter(|row| only.is_none_or(|only| only == row.name())).collect();
    if rows.is_empty() {
        bail!("no such simulation; there are: {}", CostRow::all().map(|row| row.name()).collect::<Vec<_>>().join(", "));
    }
    let program = program()?;
    let folder = tools::target().join("bench-sim");
    std::fs::create_dir_all(&folder)?;
    println!("{HEAD}");
    for row in &rows {
        if row.long() && !all && only.is_none() {
            println!("{}", row.printed(Err("with --all")));
            continue;
        }
        let (file, before) = row.write(&folder)?;
        let measured = measure(&program, before, &file, row.small(), limit_s)?;
        println!("{}", row.printed(measured.as_ref().ok_or(&format!("more than {limit_s} s"))));
        // Rows take minutes: each is shown at once.
        std::io::stdout().flush()?;
    }
    let cells = rows.iter().filter_map(|row| if let CostRow::Cell(cell) = row { Some(cell) } else { None });
    let compared: Vec<&&Cell> = cells.filter(|cell| cell.compared && seeds > 0).collect();
    if !compared.is_empty() {
        println!("\n{}", exact::HEAD);
    }
    for cell in compared {
        println!("{}", exact::compare(&program, &folder, cell, seeds)?);
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("FARLINK_COST") {
        return Ok(ready.into());
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-trials", "--example", "cost"];
    tools::run(tools::cargo().args(what))?;
    Ok(tools::target().join("quick/examples/cost"))
}

const HEAD: &str = "| simulation | CPU | mark | The ONE | memory | mark | The ONE | contacts | bundles sent | refused before | delivered | The ONE |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn row(name: &str) -> CostRow {
        CostRow::all().find(|row| row.name() == name).unwrap()
    }

    #[test]
    fn row_compares_measurement_with_mark() {
        let measured = serde_json::json!({
            "read_s": 0.5, "build_s": 0.25, "run_s": 1.0, "memory_mb": 7.4, "contacts": 3, "sent": 9, "refused": 2,
            "delivered": 1, "created": 4,
        });
        assert_eq!(
            row("saturated").printed(Ok(&measured)),
            "| saturated: 50 nodes, 150 m, epidemic, 43200 s | 1.75 s | 4 s | 65.1 s | 7 MB | - | 442 MB | 3 | 9 | 2 \
             | 1 of 4, 25.0 % | 26.8 % |"
        );
        let measured = serde_json::json!({"run_s": 1.0, "memory_mb": 7.4, "arrived": 9, "delivered": 1, "created": 4});
        assert_eq!(
            row("exact-spray").printed(Ok(&measured)),
            "| exact-spray: the same in The ONE's own world | 1.00 s | 0.5 s | 24.6 s | 7 MB | - | 178 MB | - | - | - \
             | 1 of 4, 25.0 % | 99.1 % |"
        );
    }

    #[test]
    fn skipped_row_has_all_columns() {
        let columns = HEAD.lines().next().unwrap().matches('|').count();
        for row in CostRow::all() {
            let printed = row.printed(Err("with --all"));
            assert!(printed.contains("| with --all |") && printed.matches('|').count() == columns, "{printed}");
        }
        assert!(row("20000-day").printed(Err("more than 1 s")).contains("| more than 1 s | 60 s | - |"));
    }

    #[test]
    fn slow_program_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let endless = program("endless", "#!/bin/sh\nwhile :; do :; done\n");
        assert_eq!(measure(&endless, &[], Path::new("-"), true, 1).unwrap(), None);
        let says = program("says", "#!/bin/sh\necho \"[\\\"$1\\\", \\\"$2\\\"]\"\n");
        let said = measure(&says, &["--one"], Path::new("file"), true, 5).unwrap();
        assert_eq!(said, Some(serde_json::json!(["--one", "file"])));
        let fails = program("fails", "#!/bin/sh\necho broken >&2\nexit 3\n");
        assert!(measure(&fails, &[], Path::new("-"), false, 5).unwrap_err().to_string().ends_with("broken"));
    }
}

//! `farlink bench suite`: all benchmarks as one table, or compared with another version of `farlink`.

use super::against;
use super::rows::{BenchRow, ROWS, RowFigures};
use super::stats::Runs;
use crate::{CliError, bar, values};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Marks in a file between which the table is written.
const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// Arguments of `farlink bench suite`.
#[derive(clap::Args)]
pub struct Args {
    /// Runs per row; the median is shown with minimum and maximum.
    #[arg(long, default_value = "3", value_parser = values::some)]
    runs: u64,
    /// Seconds that each run sends.
    #[arg(long, default_value = "4")]
    seconds: f64,
    /// Only rows whose name contains this text.
    #[arg(long)]
    rows: Option<String>,
    /// Alternate each row with the nodes of this other farlink, and show differences beyond the spread.
    #[arg(long, conflicts_with = "write")]
    against: Option<PathBuf>,
    /// Write the table to this file, between `<!-- bench:begin -->` and `<!-- bench:end -->`.
    #[arg(long, conflicts_with = "rows")]
    write: Option<PathBuf>,
    /// Print one JSON document with the results of every run.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let wanted: Vec<&BenchRow> =
        ROWS.iter().filter(|row| args.rows.as_ref().is_none_or(|rows| row.title().contains(rows.as_str()))).collect();
    if wanted.is_empty() {
        let names: Vec<String> = ROWS.iter().map(BenchRow::title).collect();
        return Err(CliError::Input(format!(
            "--rows: no row has this in its name\nhint: the rows are: {}",
            names.join("; ")
        )));
    }
    // Checked before minutes are spent: the file must exist and have its marks.
    args.write.as_deref().map(|file| rewritten(file, "")).transpose()?;
    let ours = std::env::current_exe()?;
    let theirs = args.against.as_deref().map(other).transpose()?;
    let stop = farlink_os::process::watch_termination()?;
    let programs = 1 + u64::from(theirs.is_some());
    let bar = bar::steps(wanted.len() as u64 * args.runs * programs, "measuring");
    let (mut lines, mut all, mut worse) = (Vec::new(), Vec::new(), 0);
    for row in wanted {
        let (mut mine, mut other) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            for (program, runs) in
                theirs.as_ref().map(|theirs| (theirs, &mut other)).into_iter().chain([(&ours, &mut mine)])
            {
                // Checked before each run, so that Control-C costs at most one more run.
                if stop.load(Ordering::Relaxed) {
                    return Err(CliError::Run(anyhow::anyhow!("stopped")));
                }
                bar.set_message(row.title());
                runs.push(row.measure(args.seconds, program, theirs.is_none())?);
                bar.inc(1);
            }
        }
        let (line, json) = match theirs.is_some() {
            true => {
                let (line, json, is_worse) = against::compare(row, &mine, &other);
                worse += u64::from(is_worse);
                (line, json)
            }
            false => (line(row, &mine), json!({ "name": row.name, "bundles_of": row.size, "runs": mine })),
        };
        if !args.json {
            // The bar is on the same terminal: it must not cut a line of the table.
            bar.suspend(|| println!("{line}"));
        }
        lines.push(line);
        all.push(json);
    }
    bar.finish_and_clear();
    if args.json {
        println!("{}", json!({ "machine": machine(), "rows": all }));
    } else if theirs.is_some() {
        println!("{worse} of {} rows are worse by more than the spread of their runs plus 5 %", lines.len());
    }
    if let Some(file) = &args.write {
        std::fs::write(file, rewritten(file, &table(&lines, args.runs))?)?;
        eprintln!("wrote the table of {}", file.display());
    }
    Ok(())
}

/// Path of the other program; refused if it does not run or is not `farlink`.
fn other(program: &Path) -> Result<PathBuf, CliError> {
    let failed =
        |why: String| CliError::Input(format!("--against: {}: {why}\nhint: name a farlink program", program.display()));
    let path = std::fs::canonicalize(program).map_err(|why| failed(why.to_string()))?;
    let version = std::process::Command::new(&path).arg("--version").output().map_err(|why| failed(why.to_string()))?;
    match version.stdout.starts_with(b"farlink ") {
        true => Ok(path),
        false => Err(failed("its --version does not begin with farlink".into())),
    }
}

/// One line of the table.
fn line(row: &BenchRow, runs: &[Value]) -> String {
    let figures: Vec<RowFigures> = runs.iter().map(|run| row.figures(run)).collect();
    let of = |figure: fn(&RowFigures) -> f64| Runs::new(figures.iter().map(figure));
    let unit = row.unit();
    let arrow = if unit.more_is_better { "↑" } else { "↓" };
    let cost = [of(|figures| figures.cost[0]), of(|figures| figures.cost[1])];
    let speed = [of(|figures| figures.speed[0]), of(|figures| figures.speed[1])];
    // A row without a baseline divides by NaN.
    let times = |[ours, base]: [Runs; 2], arrow: &str| match (ours.median / base.median).is_finite() {
        true => format!("{:.2} {arrow}", ours.median / base.median),
        false => "-".into(),
    };
    let with = |speed: Runs| match speed.median.is_nan() {
        true => "-".into(),
        false => format!("{} {} {arrow}", speed.text(unit.digits), unit.name),
    };
    let memory = of(|figures| figures.memory).median / 1e6;
    let memory = if memory.is_nan() { "-".into() } else { format!("{memory:.0}") };
    let baseline = runs.first().map_or_else(String::new, |run| row.baseline(run));
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {memory} | {baseline} |",
        row.name,
        row.size,
        cost[0].text(2),
        cost[1].text(2),
        times(cost, "↓"),
        with(speed[0]),
        with(speed[1]),
        times(speed, arrow),
    )
}

/// Number and model of this machine's processors.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // Absent on processors other than x86.
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']).trim();
    format!("{processors} processors{}", if model.is_empty() { String::new() } else { format!(" ({model})") })
}

fn table(lines: &[String], runs: u64) -> String {
    let head = "| path | bundles of | processor s/GB ↓ | of the baseline ↓ | times the baseline's ↓ | speed | of the \
                baseline | times the baseline's | memory, MB ↓ | baseline, in the same run |\n\
                |---|---|---|---|---|---|---|---|---|---|\n";
    let mut text = format!("{head}{}\n", lines.join("\n"));
    let _ = writeln!(
        text,
        "\nMedians of {runs} runs over loopback on {}, in parentheses the minimum and the maximum. ↑: more is better, ↓: less \
         is better.\n\n\
         - **Processor s/GB**: seconds that all processors together spend, kernel included, for each gigabyte of payload; \
         with bundles of 1 kB that is also microseconds a bundle. Node to node: of both nodes; forward: of the node \
         between; round trip: of both nodes, for a payload that goes and comes; to an application: of node and \
         application while all is taken.\n\
         - **Baseline**: the fastest this machine does something of the same kind without a protocol, measured in each run \
         before or after the nodes, with the same offloads and on the same processors. Streams are copied with the fastest \
         of three buffer sizes (the name is the first run's), datagrams have the length of those in the row. Its cost is \
         of the threads that stand for the nodes.\n\
         - **Memory**: the most that one node had at once.\n\n\
         `farlink bench suite --write README.md` measures and writes this; docs/explanation/performance.md says where the \
         time goes.",
        machine()
    );
    text
}

/// Text of the file with the part between the marks replaced.
fn rewritten(file: &Path, table: &str) -> Result<String, CliError> {
    let failed = |why: String| CliError::Input(format!("--write: {}: {why}", file.display()));
    replace(&std::fs::read_to_string(file).map_err(|why| failed(why.to_string()))?, table).map_err(failed)
}

fn replace(text: &str, table: &str) -> Result<String, String> {
    match (text.find(BEGIN), text.find(END)) {
        // `end` is where the end mark begins, so the mark stays behind the table.
        (Some(begin), Some(end)) if begin < end => Ok(format!("{}{BEGIN}\n{table}{}", &text[..begin], &text[end..])),
        _ => Err(format!("it has no `{BEGIN}` before `{END}`\nhint: write both where the table is to be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_marks_changes() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replace(&text, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replace("nothing", "new").is_err() && replace(&format!("{END}{BEGIN}"), "new").is_err());
    }

    #[test]
    fn line_shows_cost_spread_and_direction() {
        let run = |cost: f64| {
            json!({ "cpu_s_per_gb": cost, "baseline_cpu_s_per_gb": 0.5, "goodput_bit_s": 3e9, "baseline_bit_s": 6e9,
                "rss_bytes_node": 5_000_000, "baseline": "a copy" })
        };
        assert_eq!(
            line(&ROWS[0], &[run(1.0), run(3.0), run(2.0)]),
            "| forward, TCPCLv4 | 100 kB | 2.00 (1.00..3.00) | 0.50 (0.50..0.50) | 4.00 ↓ | 3.00 (3.00..3.00) Gbit/s ↑ | \
             6.00 (6.00..6.00) Gbit/s ↑ | 0.50 ↑ | 5 | a copy |"
        );
    }

    #[test]
    fn lines_match_header_columns() {
        for row in &ROWS {
            let lines = [line(row, &[json!({})])];
            let table = table(&lines, 3);
            let columns: Vec<usize> = table.lines().take(3).map(|line| line.matches('|').count()).collect();
            assert_eq!(columns, [11; 3], "{}", row.title());
        }
    }
}

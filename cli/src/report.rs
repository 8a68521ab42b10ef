//! `farlink report`: writes the HTML report of a run.

use crate::CliError;
use crate::compare::open;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `farlink report`.
#[derive(clap::Args)]
#[command(after_help = "The report is one self-contained file: mail it, or put it on any web server.\n\n\
    Examples:\n\
    \x20 farlink report runs/iss-sim --open\n\
    \x20 farlink report runs/iss-sim runs/iss-lab --out iss.html")]
pub struct Args {
    /// Run directory, or two to compare.
    #[arg(value_name = "RUN", required = true, num_args = 1..=2)]
    runs: Vec<PathBuf>,
    /// File of the report; default: `report.html` in the first run.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file that is not a report.
    #[arg(long)]
    force: bool,
    /// Open the report in the browser.
    #[arg(long)]
    open: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let path = args.out.unwrap_or_else(|| args.runs[0].join("report.html"));
    if path.exists() && !args.force && !farlink_report::is_report(&path) {
        return Err(CliError::Input(format!(
            "{} exists and is not a report\nhint: choose another --out, or --force replaces it",
            path.display()
        )));
    }
    // Checked before the runs are read, which may take seconds.
    let readers = args.runs.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let page = farlink_report::html(&readers.iter().collect::<Vec<_>>())?;
    std::fs::write(&path, page).map_err(|why| crate::cannot_write(&path, &why, "--out"))?;
    if args.json {
        println!("{:#}", serde_json::json!({ "report": path.display().to_string() }));
    } else {
        println!("{}", path.display());
    }
    if args.open && !show(&path) {
        eprintln!("no browser could be started; open {} in one", path.display());
    }
    Ok(())
}

/// Opens a file in the desktop's browser; returns whether a program could be started.
pub fn show(path: &Path) -> bool {
    let openers: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "sensible-browser"] };
    openers.iter().any(|opener| {
        // The browser's messages do not belong in this terminal.
        let quiet =
            Command::new(opener).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        quiet.is_ok()
    })
}

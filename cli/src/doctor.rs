//! `farlink doctor`: checks which kinds of isolation, emulation and measurement this machine supports.

use crate::CliError;
use anyhow::Context;
use farlink_lab::doctor::{CheckOutcome, Findings, examine};
use farlink_lab::hybla;
use std::path::PathBuf;

/// Arguments of `farlink doctor`.
#[derive(clap::Args)]
#[command(after_help = "\
Tries everything as the current user, in about a second, and leaves nothing behind.

Examples:
  farlink doctor
  farlink doctor --json
  sudo farlink doctor            # what root could do here
  farlink doctor --dir /data     # measure the disk that stores will use
  sudo farlink doctor --install hybla

--install registers a TCP congestion control that this kernel lacks, as a BPF object, for the whole machine; runs in the
testbed whose hosts have `tcp = { congestion = \"hybla\" }` use it. It stays until --remove, or until the machine is started
anew.")]
pub struct Args {
    /// Print the findings as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Directory whose disk is measured; default: the current one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Register TCP Hybla with the kernel; needs root and the program `bpftool`.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["json", "dir", "remove"])]
    install: Option<Installable>,
    /// Remove what --install registered.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["json", "dir"])]
    remove: Option<Installable>,
}

/// Additions to the kernel.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Installable {
    /// TCP Hybla.
    Hybla,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let change = match (args.install, args.remove) {
        (Some(Installable::Hybla), _) => Some(hybla::install()),
        (None, Some(Installable::Hybla)) => Some(hybla::remove()),
        (None, None) => None,
    };
    if let Some(told) = change {
        println!("{}", told.map_err(CliError::Run)?);
        return Ok(());
    }
    // Some checks start this program again inside a namespace.
    let program = std::env::current_exe().context("the path of this program")?;
    let findings = examine(&program, &args.dir.unwrap_or_else(|| ".".into()));
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings).context("the findings as JSON")?);
    } else {
        print(&findings);
    }
    Ok(())
}

fn print(findings: &Findings) {
    println!("Linux {}, checked as {}\n", findings.kernel, findings.user);
    for check in &findings.checks {
        let mark = match check.outcome {
            // Padded to equal width; failures stand out in capitals.
            CheckOutcome::Yes => "yes   ",
            CheckOutcome::Partly => "partly",
            CheckOutcome::No => "NO    ",
        };
        println!("  {mark}  {:<22}{}", check.name, check.found);
        if let Some(hint) = &check.hint {
            println!("{:>10}{:<22}hint: {hint}", "", "");
        }
    }
    println!();
    if findings.lab {
        println!("`farlink run SCENARIO --in lab` and `farlink emulate` work here for this user.");
    } else {
        println!("`farlink run SCENARIO --in lab` does not work here for this user; `--in sim` does.");
    }
}

//! The `farlink` command: one file per subcommand, nothing but argument reading and printing here.
//!
//! stdout is data, stderr is talk; exit 0 done, 1 failed at run time, 2 bad input or usage.

mod bar;
mod bench;
mod bundle;
mod bundle_custody;
mod bundle_security;
mod bundle_tunnel;
mod bundle_v6;
mod campaign;
mod campaign_bar;
mod campaign_cell;
mod campaign_ray;
mod certs;
mod compare;
mod completions;
mod doctor;
mod echo;
mod emulate;
mod init;
mod meetings;
mod node;
mod node_store;
mod one;
mod one_fast;
mod perf;
mod ping;
mod plan;
mod plan_forecast;
mod plan_orbits;
mod progress;
mod recv;
mod report;
mod run;
mod send;
mod socket;
mod values;

use clap::{Parser, Subcommand};
use farlink_os::allocator::Counting;
use std::process::ExitCode;

/// Buffers of bundles come and go by the thousand: the system's allocator gives their pages back to
/// the kernel and takes them again. Counted, so that a node knows what it uses.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// The version, with the commit it was built of.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FARLINK_COMMIT"), ")");

/// Delay- and disruption-tolerant networking: one engine as a real node, in a testbed and in a
/// simulation.
#[derive(Parser)]
#[command(name = "farlink", version = VERSION, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain one bundle.
    Bundle(bundle::Args),
    /// Contact plans: route, show, check, from orbits.
    Plan(plan::Args),
    /// Run a scenario in simulation or in the testbed.
    Run(run::Args),
    /// Studies: a scenario varied and repeated, and the figures that come of it.
    Campaign(campaign::Args),
    /// Lay runs side by side.
    Compare(compare::Args),
    /// Write the HTML report of a run.
    Report(report::Args),
    /// Run a DTN node, or ask and change a running one.
    Node(node::Args),
    /// Run settings files of The ONE, and write its reports.
    One(one::Args),
    /// Write commented working files.
    Init(init::Args),
    /// Send bundles to an echo service and time the answers.
    Ping(ping::Args),
    /// Answer pings.
    Echo(echo::Args),
    /// Send a file or text.
    Send(send::Args),
    /// Receive bundles.
    Recv(recv::Args),
    /// Measure goodput between two nodes.
    Perf(perf::Args),
    /// Benchmarks with a baseline measured beside them.
    Bench(bench::Args),
    /// The link emulator by itself.
    Emulate(emulate::Args),
    /// What this machine can isolate, emulate and measure.
    Doctor(doctor::Args),
    /// Shell completion scripts.
    Completions(completions::Args),
}

/// How a subcommand fails.
#[derive(Debug)]
pub enum CliError {
    /// Bad input or usage (exit 2): what, where, and a `hint:` line.
    Input(String),
    /// Failed at run time (exit 1).
    Run(anyhow::Error),
}
impl CliError {
    /// Mistakes of a file, the first twenty of them: one at the top of a file may make many below.
    fn mistakes(path: &std::path::Path, list: &[farlink_base::ConfigError]) -> CliError {
        const SHOWN: usize = 20;
        let mut text = format!("{} cannot be run", path.display());
        for mistake in list.iter().take(SHOWN) {
            text += &format!("\n{mistake}");
        }
        if let Some(more) = list.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            text += &format!("\nand {more} more");
        }
        CliError::Input(text)
    }
}
impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        CliError::Run(error)
    }
}
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        CliError::Run(error.into())
    }
}

/// Bad input: a destination that is none.
fn not_an_endpoint(text: &str) -> CliError {
    CliError::Input(format!(
        "`{text}` is not an endpoint\nhint: write ipn:NODE.SERVICE, e.g. ipn:2.64, or dtn://NODE/NAME"
    ))
}

/// Makes a folder that an option names, with those it lies in.
fn make_folder(folder: &std::path::Path, option: &str) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(|why| {
        let why = if folder.exists() { "is not a folder".into() } else { format!("cannot be made: {why}") };
        CliError::Input(format!(
            "{} {why}\nhint: {option} names a folder that is there or can be made",
            folder.display()
        ))
    })
}

/// Bad input: a file that cannot be written where an option says.
fn cannot_write(file: &std::path::Path, why: &std::io::Error, option: &str) -> CliError {
    CliError::Input(format!(
        "{} cannot be written: {why}\nhint: {option} names a place that you may write to",
        file.display()
    ))
}

/// Refuses what is no endpoint ID, before a node is asked.
fn check_endpoint(text: &str) -> Result<(), CliError> {
    text.parse::<farlink_base::EndpointId>().map(drop).map_err(|_| not_an_endpoint(text))
}

fn main() -> ExitCode {
    // Before anything else: the testbed's supervisor is this program, started again, without threads.
    if let Some(code) = farlink_lab::supervisor::run_if_asked() {
        return code;
    }
    end_quietly_when_nobody_reads();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Bundle(args) => bundle::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Node(args) => node::run(args),
        Command::One(args) => one::run(args),
        Command::Init(args) => init::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Echo(args) => echo::run(args),
        Command::Send(args) => send::run(args),
        Command::Recv(args) => recv::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Emulate(args) => emulate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::Input(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(CliError::Run(error)) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `farlink ... | head` closes our standard output early; that is the reader's good right, no panic. Nor is a terminal
/// that is gone, where only nobody reads how it ended.
fn end_quietly_when_nobody_reads() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
            std::process::exit(0);
        }
        // Linux's EIO.
        if message.starts_with("failed printing to std") && message.contains("os error 5)") {
            std::process::exit(1);
        }
        report(panic);
    }));
}

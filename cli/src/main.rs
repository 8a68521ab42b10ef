//! The `farlink` command: one file per subcommand, limited to reading arguments and printing results.
//!
//! stdout carries data, stderr messages; exit 0 success, 1 failure at run time, 2 bad input or usage.

// Before the modules that use its macros.
#[macro_use]
mod print;

mod app;
mod app_run;
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
mod flow;
mod init;
mod lab;
mod lab_bisect;
mod manuals;
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

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use farlink_os::allocator::Counting;
use std::io::Write;
use std::process::ExitCode;

/// mimalloc keeps freed pages, where the system's allocator would return the pages of bundle buffers to the kernel and
/// fault them in again. Counted, so that a node knows its memory use.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// Version and commit.
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
    /// Explain a bundle block by block.
    Bundle(bundle::Args),
    /// Contact plans: find routes, show, check, convert, forecast, or compute from orbits.
    Plan(plan::Args),
    /// Run a scenario, simulated or in the testbed.
    Run(run::Args),
    /// Studies: a scenario with varied parameters and repetitions, evaluated in figures.
    Campaign(campaign::Args),
    /// Implementations that the testbed runs: their drivers and files, checks, and bisection.
    Lab(lab::Args),
    /// Compare runs side by side.
    Compare(compare::Args),
    /// Write the HTML report of a run.
    Report(report::Args),
    /// Run a DTN node, or query and change a running one.
    Node(node::Args),
    /// Run settings files of The ONE and write its reports.
    One(one::Args),
    /// Write commented example files that work as they are.
    Init(init::Args),
    /// Send bundles to an echo service and measure round-trip times.
    Ping(ping::Args),
    /// Answer pings from other nodes.
    Echo(echo::Args),
    /// Applications of any implementation of DTN: send, receive, ping and echo over its own interface.
    App(app::Args),
    /// Send a file or text.
    Send(send::Args),
    /// Receive files and bundles.
    Recv(recv::Args),
    /// Measure goodput between two applications.
    Perf(perf::Args),
    /// Benchmarks, each with a baseline measured in the same run.
    Bench(bench::Args),
    /// Emulate a link without nodes.
    Emulate(emulate::Args),
    /// Send or receive a plain TCP or UDP flow.
    Flow(flow::Args),
    /// Check which testbed features this machine supports.
    Doctor(doctor::Args),
    /// Print a shell completion script.
    Completions(completions::Args),
    /// Write the man pages of all commands, for the installation.
    #[command(hide = true)]
    Manuals(manuals::Args),
}

/// Error of a subcommand.
#[derive(Debug)]
pub enum CliError {
    /// Bad input or usage (exit 2): the problem, its place, and a `hint:` line.
    Input(String),
    /// Failure at run time (exit 1).
    Run(anyhow::Error),
}
impl CliError {
    /// Lists the first twenty mistakes of a file: one mistake at its top may cause many below.
    fn mistakes(path: &std::path::Path, list: &[farlink_base::ConfigError]) -> CliError {
        // About a screen.
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
        use farlink_apps::BadInput;
        let inner = |error: &std::io::Error| error.get_ref().is_some_and(|inner| inner.is::<BadInput>());
        match error.is::<BadInput>() || error.downcast_ref().is_some_and(inner) {
            true => CliError::Input(error.to_string()),
            false => CliError::Run(error),
        }
    }
}
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        CliError::Run(error.into())
    }
}

/// Bad input: not an endpoint ID.
fn not_an_endpoint(text: &str) -> CliError {
    CliError::Input(format!(
        "`{text}` is not an endpoint\nhint: write ipn:NODE.SERVICE, e.g. ipn:2.64, or dtn://NODE/NAME"
    ))
}

/// Creates a folder that an option names, with its parents.
fn make_folder(folder: &std::path::Path, option: &str) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(|why| {
        // `create_dir_all` fails on a file of that name with a misleading error.
        let why = if folder.exists() { "is not a folder".into() } else { format!("cannot be created: {why}") };
        CliError::Input(format!(
            "{} {why}\nhint: {option} names a folder that exists or can be created",
            folder.display()
        ))
    })
}

/// Bad input: a file cannot be written at the place an option names.
fn cannot_write(file: &std::path::Path, why: &std::io::Error, option: &str) -> CliError {
    CliError::Input(format!("{} cannot be written: {why}\nhint: {option} must name a writable place", file.display()))
}

/// Checks an endpoint ID before any connection to a node.
fn check_endpoint(text: &str) -> Result<(), CliError> {
    text.parse::<farlink_base::EndpointId>().map(drop).map_err(|_| not_an_endpoint(text))
}

/// Checks the endpoint ID of a destination; bundles to nobody would be dropped.
fn check_destination(text: &str) -> Result<(), CliError> {
    check_endpoint(text)?;
    match text.parse::<farlink_base::EndpointId>() {
        Ok(id) if id.is_null() => {
            Err(CliError::Input(format!("`{text}` is nobody\nhint: write the endpoint of a receiver, e.g. ipn:2.64")))
        }
        _ => Ok(()),
    }
}

/// Page that has the exit statuses of all commands.
const EXITS: &str = "docs/reference/exit-codes.md";

/// Definition of the command line: each command's help names its exit statuses and their page.
fn command() -> clap::Command {
    with_exits(Cli::command())
}
fn with_exits(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|of| of.get_name().to_string()).collect();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let usual = if help.contains("Exit status: ") { "" } else { "Exit status: 0 done, 1 failed, 2 bad input. " };
    let break_ = if help.is_empty() {
        ""
    } else if usual.is_empty() {
        "\n"
    } else {
        "\n\n"
    };
    let command = command.after_help(format!("{help}{break_}{usual}All of them: {EXITS}."));
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_exits))
}

fn main() -> ExitCode {
    // First of all: the testbed starts this program again as its supervisor, which forks and must have no threads.
    if let Some(code) = farlink_lab::supervisor::run_if_asked() {
        return code;
    }
    end_without_panic_when_nobody_reads();
    let cli = match command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Help and versions are data; mistakes go to standard error, and keep their status where that takes nothing.
        Err(why) => match why.print().and_then(|()| std::io::stdout().flush()) {
            Err(failed) if !why.use_stderr() => print::stdout_failed(&failed),
            _ => return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2)),
        },
    };
    let result = match cli.command {
        Command::Bundle(args) => bundle::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Node(args) => node::run(args),
        Command::One(args) => one::run(args),
        Command::Init(args) => init::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Echo(args) => echo::run(args),
        Command::App(args) => app::run(args),
        Command::Send(args) => send::run(args),
        Command::Recv(args) => recv::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Emulate(args) => emulate::run(args),
        Command::Flow(args) => flow::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Manuals(args) => manuals::run(&args),
    };
    match result {
        // The end of the output may have no line break, and is then still buffered.
        Ok(()) => match std::io::stdout().flush() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => print::stdout_failed(&why),
        },
        Err(CliError::Input(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
        Err(CliError::Run(error)) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints an error.
fn complain(message: &str) {
    eprintln!("error: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with the words and the definition of each command that has no subcommands.
    fn leaves(of: &clap::Command, words: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
        if of.get_subcommands().next().is_none() {
            visit(words, of);
        }
        for inner in of.get_subcommands() {
            leaves(inner, &format!("{words} {}", inner.get_name()), visit);
        }
    }

    #[test]
    fn exit_codes_are_in_help_and_page() {
        let page = include_str!("../../docs/reference/exit-codes.md");
        leaves(&command(), "farlink", &mut |words, leaf| {
            let help = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Exit status: 0 ") && help.ends_with(&format!("{EXITS}.")), "{words}: {help}");
            let own =
                help.split_once("Exit status: ").and_then(|(_, status)| status.split_once("\n")).map(|(own, _)| own);
            // The page has the statuses of a command word for word, unless they are the usual ones.
            if let Some(own) = own {
                let row =
                    format!("| `{}` | {} |", &words["farlink ".len()..], own.trim_end_matches('.').replace("; ", ", "));
                assert!(page.contains(&row), "missing in docs/reference/exit-codes.md:\n{row}");
            }
        });
    }
}

/// Exits without a panic message if a library prints to a standard error that takes nothing (this program's own messages:
/// [`print`]).
fn end_without_panic_when_nobody_reads() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        // The text of the standard library's panic in `println!` and `eprintln!`.
        if message.starts_with("failed printing to std") {
            std::process::exit(1);
        }
        report(panic);
    }));
}

//! `farlink bench peer`: another implementation and Farlink, measured alternately as the node between the same
//! generator and sink.

use super::nodes::{self, BenchFolder};
use super::peers;
use super::stats::median;
use crate::{CliError, bar, values};
use farlink_apps::bench::forward::{self, Farlink};
use farlink_apps::bench::{Middle, Ports};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `farlink bench peer`.
#[derive(clap::Args)]
#[command(after_long_help = "Any other program is started by --start, which names its ports and folder:\n  \
    farlink bench peer other --start 'mynode --listen {listen} --sink {sink} --dir {folder}'\n\n\
    The program is node ipn:3.0, listens at {listen} and forwards bundles for ipn:2.* to the sink at {sink}, all on\n\
    127.0.0.1. The generator (ipn:1.0) and the sink (ipn:2.0) are Farlink nodes in both cases. Results:\n\
    docs/explanation/performance.md.")]
pub struct Args {
    /// Implementation to compare with.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(peers::NAMES))]
    peer: String,
    /// Program of that implementation; default: searched on the PATH.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Command that starts `other`.
    #[arg(long, required_if_eq("peer", "other"))]
    start: Option<String>,
    /// Runs of each program, alternating; medians are shown.
    #[arg(long, default_value = "3", value_parser = values::some)]
    runs: u64,
    #[command(flatten)]
    nodes: nodes::Args,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let mut peer = peers::named(&args.peer, args.program.clone(), args.start.clone())?;
    // An unsupported option is refused before any time is spent on measuring.
    let trial = BenchFolder::new(None)?;
    peer.prepare(&args.nodes.options(trial.path())?, &Ports::free()?, trial.path())
        .map_err(|why| CliError::Input(format!("{why:#}")))?;
    let bar = bar::steps(args.runs * 2, "measuring");
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for run in 1..=args.runs {
        // Alternating runs spread changes of the machine's load over both programs.
        for (middle, results) in [(&mut *peer, &mut theirs), (&mut Farlink as &mut dyn Middle, &mut ours)] {
            let name = format!("{}-{run}", middle.name());
            let folder = BenchFolder::new(args.nodes.keep.as_ref().map(|keep| keep.join(name)).as_ref())?;
            bar.set_message(middle.name());
            results.push(forward::forward(&args.nodes.options(folder.path())?, middle)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if args.nodes.json {
        println!("{}", json!({ "theirs": theirs, "ours": ours }));
        return Ok(());
    }
    println!(
        "{} bundles over {} through a node between the same generator and sink, medians of {} alternating runs",
        args.nodes.bundle_size, args.nodes.cla, args.runs
    );
    println!(
        "{:<10} {:>12} {:>11} {:>11} {:>11} {:>9} {:>9}",
        "node", "goodput", "bundles/s", "CPU s/GB", "us/bundle", "memory", "lost"
    );
    for (name, runs) in [(peer.name(), &theirs), ("farlink".into(), &ours)] {
        println!("{}", line(&name, runs));
    }
    let of = |runs: &[Value], key: &str| median_of(runs, key);
    let ratio = |key: &str| of(&ours, key) / of(&theirs, key);
    let cost = match ratio("cpu_us_per_bundle") {
        ratio if ratio.is_finite() => format!("{ratio:.2} times the processor time per bundle"),
        // Only the started process is counted: a launcher script uses no processor time itself, its children do.
        _ => "processor time not comparable: none was counted for the other program".into(),
    };
    println!("farlink: {:.2} times the goodput with {cost}", ratio("goodput_bit_s"));
    Ok(())
}

fn line(name: &str, runs: &[Value]) -> String {
    let of = |key: &str| median_of(runs, key);
    let goodput = format!("{:.2} Gbit/s", of("goodput_bit_s") / 1e9);
    let memory = format!("{:.0} MB", of("rss_bytes_node") / 1e6);
    format!(
        "{name:<10} {goodput:>12} {:>11.0} {:>11.2} {:>11.1} {memory:>9} {:>9.0}",
        of("bundles_s"),
        of("cpu_s_per_gb"),
        of("cpu_us_per_bundle"),
        of("sent") - of("received"),
    )
}

fn median_of(runs: &[Value], key: &str) -> f64 {
    median(&runs.iter().filter_map(|run| run[key].as_f64()).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_medians_and_losses() {
        let run = |goodput: f64| json!({ "goodput_bit_s": goodput, "sent": 10, "received": 8, "bundles_s": 5.0 });
        let line = line("x", &[run(1e9), run(3e9), run(2e9)]);
        assert!(line.contains("2.00 Gbit/s") && line.ends_with(" 2"), "{line}");
    }
}

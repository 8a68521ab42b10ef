//! `farlink bench delivery`: how fast one application takes bundles from its node over the application socket.

use super::nodes::BenchFolder;
use crate::{CliError, values};
use farlink_apps::bench::delivery::{self, DeliveryOptions};
use farlink_base::{DataRate, DataVolume};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Arguments of `farlink bench delivery`.
#[derive(clap::Args)]
pub struct Args {
    /// Payload of each bundle.
    #[arg(long, default_value = "5 kB")]
    bundle_size: DataVolume,
    /// Bundles that wait in the store; default: 400 MB in total, 1,000 to 100,000 bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    bundles: Option<u64>,
    /// Deliveries taken before the first is acknowledged.
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: u32,
    /// Write payloads to files, as `farlink recv --out` does.
    #[arg(long)]
    files: bool,
    /// Kill the node and restart it before delivery: payloads are then read from disk.
    #[arg(long)]
    restart: bool,
    /// Keep configuration, log, store and files here; default: a temporary folder.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Measures with the defaults of the command line; the node's files go into `folder`.
pub fn measure(bundle_size: u64, files: bool, folder: &Path, program: &Path, baseline: bool) -> anyhow::Result<Value> {
    let program = program.to_path_buf();
    let folder = folder.to_path_buf();
    delivery::delivery(&DeliveryOptions {
        bundle_size,
        bundles: None,
        window: 256,
        files,
        // A restarted node reads every payload back from disk, which is a measurement of its own.
        restart: false,
        folder,
        baseline,
        program,
    })
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = BenchFolder::new(args.keep.as_ref())?;
    let options = DeliveryOptions {
        bundle_size: args.bundle_size.0,
        bundles: args.bundles,
        window: args.window,
        files: args.files,
        restart: args.restart,
        folder: folder.path().to_path_buf(),
        baseline: true,
        program: std::env::current_exe()?,
    };
    eprintln!("filling the node, then receiving every bundle ...");
    let result = delivery::delivery(&options)?;
    if args.json {
        println!("{result}");
        return Ok(());
    }
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!(
        "{} bundles of {} {}, window {}",
        number("bundles"),
        args.bundle_size,
        if args.files { "into files" } else { "discarded" },
        args.window
    );
    println!("  goodput   {:.0} bundles/s   {}", number("bundles_s"), DataRate(number("goodput_bit_s") as u64));
    println!("  marked    {:.0} as possibly delivered before", number("redelivered"));
    println!(
        "  CPU       {:.2} s in the node during delivery; {:.2} s per GB including the application",
        number("cpu_s_node"),
        number("cpu_s_per_gb")
    );
    super::nodes::print_baseline(&result);
    Ok(())
}

//! `farlink bench shards`: a node whose links are spread over several shards.

use super::nodes::{self, BenchFolder};
use crate::CliError;
use farlink_apps::bench::shards::{self, Shards};
use farlink_base::{DataRate, DataVolume};
use serde_json::Value;

/// Arguments of `farlink bench shards`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    nodes: nodes::Args,
    /// Shards of the forwarding node, each with one generator and one sink.
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(1..=32))]
    shards: u32,
    /// Make every bundle leave by another shard than it arrived at.
    #[arg(long)]
    cross: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = BenchFolder::new(args.nodes.keep.as_ref())?;
    let options = args.nodes.options(folder.path())?;
    // Certificates are made for three nodes only.
    if args.nodes.tls {
        return Err(CliError::Input("--tls: not measured here\nhint: farlink bench forward --tls".into()));
    }
    let wanted = Shards { shards: args.shards, cross: args.cross };
    eprintln!("measuring plain copies, then {} pairs for {} s, twice ...", args.shards, args.nodes.seconds);
    let result = shards::shards(&options, wanted)?;
    match args.nodes.json {
        true => println!("{result}"),
        false => print(&result),
    }
    Ok(())
}

/// Prints a result as text.
fn print(result: &Value) {
    let text = |key: &str| result[key].as_str().unwrap_or("").to_string();
    let size = DataVolume(result["bundle_size"].as_u64().unwrap_or(0));
    let crossing = if result["cross"] == true { ", each bundle from one shard to another" } else { "" };
    println!("{} pairs over {} with {size} bundles, {} store{crossing}", result["pairs"], text("cla"), text("store"));
    // One shard first, as the reference of the speedup.
    for key in ["one", "more"] {
        let run = &result[key];
        let number = |key: &str| run[key].as_f64().unwrap_or(0.0);
        println!(
            "  {:>2} shards {}   {:.0} bundles/s   {:.2} us of CPU per bundle, {:.2} us in the busiest owner thread   {}",
            run["shards"],
            DataRate(number("goodput_bit_s") as u64),
            number("bundles_s"),
            number("cpu_us_per_bundle"),
            number("busiest_owner_us_per_bundle"),
            DataVolume(number("rss_bytes_node") as u64)
        );
    }
    let ratio = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!(
        "  speedup   {:.2} measured, {:.2} by the processor time of the owner threads",
        ratio("speedup"),
        ratio("owners_speedup")
    );
    // Layers over datagrams are measured without plain copies as a baseline.
    if let Some(copies) = result["copies_bit_s"].as_f64() {
        let alone = result["copy_bit_s"].as_f64().unwrap_or(0.0);
        println!(
            "  copies    {} alone, {} all at once: speedup {:.2}",
            DataRate(alone as u64),
            DataRate(copies as u64),
            result["copies_speedup"].as_f64().unwrap_or(0.0)
        );
    }
}

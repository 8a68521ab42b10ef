//! `farlink bench loopback`: two nodes on this machine, beside the fastest plain copy.

use super::nodes::{self, BenchFolder};
use crate::CliError;
use farlink_apps::bench::loopback;
use farlink_base::{DataRate, DataVolume};
use serde_json::Value;

/// Arguments of `farlink bench loopback`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    nodes: nodes::Args,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = BenchFolder::new(args.nodes.keep.as_ref())?;
    let options = args.nodes.options(folder.path())?;
    eprintln!("measuring plain copies, then two nodes for {} s ...", args.nodes.seconds);
    let result = loopback::loopback(&options)?;
    match args.nodes.json {
        true => println!("{result}"),
        false => print(&result),
    }
    Ok(())
}

fn print(result: &Value) {
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    let rate = |key: &str| DataRate(number(key) as u64);
    println!(
        "{} with {} bundles, {} store",
        result["cla"].as_str().unwrap_or(""),
        DataVolume(number("bundle_size") as u64),
        result["store"].as_str().unwrap_or("")
    );
    println!("  goodput   {}   {:.0} bundles/s", rate("goodput_bit_s"), number("bundles_s"));
    println!("  CPU       sender {:.2} s, receiver {:.2} s", number("cpu_s_sender"), number("cpu_s_receiver"));
    let volume = |key: &str| DataVolume(number(key) as u64);
    println!("  memory    sender {}, receiver {}", volume("rss_bytes_sender"), volume("rss_bytes_receiver"));
    println!("  cost      {:.2} s of processor time per GB", number("cpu_s_per_gb"));
    nodes::print_baseline(result);
}

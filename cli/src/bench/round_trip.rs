//! `farlink bench round-trip`: pings between two nodes.

use super::nodes::{self, BenchFolder};
use crate::{CliError, values};
use farlink_apps::bench::round_trip;
use farlink_base::DataVolume;

/// Arguments of `farlink bench round-trip`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of pings.
    #[arg(long, default_value = "1000", allow_hyphen_values = true, value_parser = values::some)]
    count: u64,
    /// Payload of each ping.
    #[arg(long, default_value = "1 kB")]
    bundle_size: DataVolume,
    /// Convergence layer between the nodes.
    #[arg(long, default_value = "tcpclv4", value_parser = clap::builder::PossibleValuesParser::new(farlink_cla::registry::NAMES))]
    cla: String,
    /// Store of the nodes: in memory or on disk.
    #[arg(long, default_value = "memory", value_parser = ["memory", "durable"])]
    store: String,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = BenchFolder::new(None)?;
    // Duration and rate are those of a generator, which this benchmark does not start.
    let nodes = nodes::Args {
        cla: args.cla.clone(),
        bundle_size: args.bundle_size,
        seconds: 1.0,
        store: args.store.clone(),
        mtu: 1360,
        rate: None,
        tls: false,
        keep: None,
        json: args.json,
    };
    let options = nodes.options(folder.path())?;
    eprintln!("measuring plain sockets, then {} pings ...", args.count);
    let result = round_trip::round_trip(&options, args.count)?;
    if args.json {
        println!("{result}");
        return Ok(());
    }
    let times = |of: &str| {
        let time = |which: &str| result[of][which].as_f64().unwrap_or(0.0);
        format!("p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms", time("p50"), time("p99"), time("max"))
    };
    println!("{} pings of {} over {}, {} store", args.count, args.bundle_size, args.cla, args.store);
    println!("  round trip  {}", times("rtt_ms"));
    println!("  sockets     {} ({})", times("floor_ms"), result["baseline"].as_str().unwrap_or(""));
    println!(
        "  CPU         {:.1} us per ping in both nodes",
        // s/GB times bytes per ping gives ns: a thousandth of that is us.
        result["cpu_s_per_gb"].as_f64().unwrap_or(0.0) * args.bundle_size.0 as f64 / 1e3
    );
    println!("  ratio       {:.2}", result["ratio"].as_f64().unwrap_or(0.0));
    println!("  every 3 ms  {}", times("rtt_paced_ms"));
    println!("  sockets     {}", times("floor_paced_ms"));
    Ok(())
}

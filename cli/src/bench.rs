//! `farlink bench`: benchmarks, each with a baseline measured beside it.

use crate::Failure;
use anyhow::Context;
use farlink_apps::bench::{self, Options};
use farlink_base::{DataRate, DataVolume};
use farlink_cla::registry::{LayerInfo, NAMES};
use farlink_node::tls::certificate;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Arguments of `farlink bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Two nodes on this machine, load inside them, and a plain socket copy beside them.
    #[command(after_help = "Examples:\n  farlink bench loopback --cla tcpclv4 --bundle-size '100 kB'\n  \
        farlink bench loopback --cla ltp --bundle-size '100 kB' --mtu 1360 --seconds 10 --json\n  \
        farlink bench loopback --cla tcpclv4 --bundle-size '1 kB' --store durable\n  \
        farlink bench loopback --cla tcpclv4 --tls")]
    Loopback(Loopback),
    /// A node with a durable store, and an application that takes all that waits there.
    #[command(after_help = "Examples:\n  farlink bench delivery --bundle-size '5 kB'\n  \
        farlink bench delivery --bundle-size '100 kB' --files\n  \
        farlink bench delivery --window 1 --bundles 5000 --json")]
    Delivery(crate::bench_delivery::Args),
}

#[derive(clap::Args)]
struct Loopback {
    /// Convergence layer.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    cla: String,
    /// Payload of each bundle.
    #[arg(long, default_value = "100 kB")]
    bundle_size: DataVolume,
    /// How long to send.
    #[arg(long, default_value = "5", allow_hyphen_values = true)]
    seconds: f64,
    /// Where bundles are kept.
    #[arg(long, default_value = "memory", value_parser = ["memory", "durable"])]
    store: String,
    /// Bytes of one LTP datagram.
    #[arg(long, default_value = "1360")]
    mtu: u32,
    /// Payload rate of the generator; default: as fast as it goes.
    #[arg(long, allow_hyphen_values = true)]
    rate: Option<DataRate>,
    /// Secure the session with TLS, certificates made for it.
    #[arg(long)]
    tls: bool,
    /// Keep configuration, logs and store here; default: a temporary folder.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Certificates for both nodes, and the lines of their layers.
fn secured(layer: &str, folder: &Path) -> Result<[String; 2], Failure> {
    let day = std::time::Duration::from_secs(86_400);
    if !LayerInfo::named(layer).is_some_and(|layer| layer.settings().iter().any(|setting| setting.name == "tls")) {
        return Err(Failure::Input(format!("--tls: sessions of {layer} cannot be secured\nhint: --cla tcpclv4")));
    }
    let authority = certificate::authority(day).context("an authority cannot be made")?;
    std::fs::write(folder.join("authority.pem"), &authority.certificate)?;
    let mut lines = [String::new(), String::new()];
    for (node, lines) in (1..).zip(&mut lines) {
        let made = certificate::of_node(&authority, &[format!("ipn:{node}.0")], &[], day)?;
        std::fs::write(folder.join(format!("node-{node}.pem")), made.certificate)?;
        std::fs::write(folder.join(format!("node-{node}.key")), made.key)?;
        *lines = format!(
            "tls = \"require\"\ncertificate = \"node-{node}.pem\"\nkey = \"node-{node}.key\"\n\
             authorities = \"authority.pem\"\n"
        );
    }
    Ok(lines)
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    let args = match args.command {
        Command::Loopback(args) => args,
        Command::Delivery(args) => return crate::bench_delivery::run(args),
    };
    if !(0.1..=3600.0).contains(&args.seconds) {
        return Err(Failure::Input("--seconds: expected 0.1 to 3600\nhint: 5 is enough for a stable figure".into()));
    }
    let temporary = tempfile::tempdir()?;
    let folder = args.keep.clone().unwrap_or_else(|| temporary.path().to_path_buf());
    std::fs::create_dir_all(&folder)?;
    let layer = LayerInfo::named(&args.cla).ok_or_else(|| Failure::Input(format!("--cla: no layer `{}`", args.cla)))?;
    let layer_lines = if args.tls { secured(&args.cla, &folder)? } else { Default::default() };
    let options = Options {
        layer_lines,
        layer: layer.name,
        medium: layer.medium,
        bundle_size: args.bundle_size.0,
        seconds: args.seconds,
        durable: args.store == "durable",
        mtu: args.mtu,
        rate: args.rate,
        folder,
        program: std::env::current_exe()?,
    };
    eprintln!("measuring the plain copy, then two nodes for {} s ...", args.seconds);
    let result = bench::loopback(&options)?;
    if args.json {
        println!("{result}");
    } else {
        print(&result);
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
    println!("  baseline  {} ({})", rate("baseline_bit_s"), result["baseline"].as_str().unwrap_or(""));
    if result.get("baseline_offload_bit_s").is_some() {
        println!(
            "            {} (the same datagrams with segmentation offload and coalescing)",
            rate("baseline_offload_bit_s")
        );
    }
    println!("  ratio     {:.2}", number("ratio"));
}

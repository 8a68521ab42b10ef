//! `farlink bench forward`: a node that forwards from a generator to a sink.

use super::nodes::{self, BenchFolder};
use crate::CliError;
use farlink_apps::bench::forward::{self, Farlink};
use farlink_apps::bench::{BenchOptions, Middle};
use farlink_base::{DataRate, DataVolume};
use serde_json::Value;

/// Arguments of `farlink bench forward`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    nodes: nodes::Args,
    /// Have the forwarding node encrypt each payload (BCB-AES-GCM), and the sink decrypt it.
    #[arg(long)]
    encipher: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = BenchFolder::new(args.nodes.keep.as_ref())?;
    // Nodes 2 (the sink) and 3 (between) get security rules; the generator sends plain bundles.
    let mut options = args.nodes.options(folder.path())?;
    if args.encipher {
        encipher(&mut options)?;
    }
    eprintln!("measuring plain copies, then three nodes for {} s ...", args.nodes.seconds);
    let result = forward::forward(&options, &mut Farlink as &mut dyn Middle)?;
    match args.nodes.json {
        true => println!("{result}"),
        false => print(&result),
    }
    Ok(())
}

/// Configures the forwarding node as security source and the sink as acceptor of confidentiality.
pub fn encipher(options: &mut BenchOptions) -> Result<(), CliError> {
    use std::os::unix::fs::OpenOptionsExt;
    options.enciphers = true;
    let file = options.folder.join("security.keys");
    // Four random words of 64 bits: an AES-256 key.
    let secret: String = (0..4).map(|_| format!("{:016x}", farlink_apps::random())).collect();
    let key = format!("[[key]]\nname = \"bench\"\nsecret = \"{secret}\"\n");
    // Mode 0600 from the start: no other user may read the key.
    let mut open = std::fs::OpenOptions::new();
    std::io::Write::write_all(
        &mut open.write(true).create(true).truncate(true).mode(0o600).open(file)?,
        key.as_bytes(),
    )?;
    for (node, role) in [(2, "acceptor"), (3, "source")] {
        options.tables[node - 1] = format!(
            "[security]\nkeys = \"security.keys\"\nstarts = \"starts-{node}\"\n\n[[security.rule]]\nrole = \"{role}\"\n\
             service = \"confidentiality\"\nfrom = \"*\"\nto = \"ipn:2.*\"\nkey = \"bench\"\n\n"
        );
    }
    Ok(())
}

/// Prints a result as text.
pub fn print(result: &Value) {
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    let rate = |key: &str| DataRate(number(key) as u64);
    println!(
        "{} over {} with {} bundles, {} store",
        result["node"].as_str().unwrap_or(""),
        result["cla"].as_str().unwrap_or(""),
        DataVolume(number("bundle_size") as u64),
        result["store"].as_str().unwrap_or("")
    );
    println!("  goodput   {}   {:.0} bundles/s", rate("goodput_bit_s"), number("bundles_s"));
    println!("  received  {:.0} of {:.0}", number("received"), number("sent"));
    println!(
        "  CPU       {:.2} s per GB, {:.1} us per bundle, in the forwarding node",
        number("cpu_s_per_gb"),
        number("cpu_us_per_bundle")
    );
    println!("  memory    {}", DataVolume(number("rss_bytes_node") as u64));
    nodes::print_baseline(result);
}

//! Options and temporary folder that the benchmarks of nodes share.

use crate::CliError;
use anyhow::Context;
use farlink_apps::bench::BenchOptions;
use farlink_base::{DataRate, DataVolume};
use farlink_cla::registry::{LayerInfo, NAMES};
use farlink_node::tls::certificate;
use std::path::{Path, PathBuf};

/// Arguments of benchmarks with nodes.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "nodes")]
pub struct Args {
    /// Convergence layer between the nodes.
    #[arg(long, default_value = "tcpclv4", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    pub cla: String,
    /// Payload of each bundle.
    #[arg(long, default_value = "100 kB", value_parser = crate::values::some_bytes)]
    pub bundle_size: DataVolume,
    /// Seconds to send.
    #[arg(long, default_value = "5", allow_hyphen_values = true)]
    pub seconds: f64,
    /// Store of the nodes: in memory or on disk.
    #[arg(long, default_value = "memory", value_parser = ["memory", "durable"])]
    pub store: String,
    /// Bytes per LTP datagram.
    #[arg(long, default_value = "1360")]
    pub mtu: u32,
    /// Payload rate of the generator; default: unlimited.
    #[arg(long, allow_hyphen_values = true)]
    pub rate: Option<DataRate>,
    /// Secure the sessions with TLS; certificates are made for the run.
    #[arg(long)]
    pub tls: bool,
    /// Folder that keeps configuration, logs and store; default: a temporary one.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Folder of a run: the one named, or a temporary one that is removed on drop.
pub struct BenchFolder {
    temporary: Option<tempfile::TempDir>,
    kept: PathBuf,
}
impl BenchFolder {
    /// Creates the folder, or a temporary one if none is named.
    pub fn new(keep: Option<&PathBuf>) -> Result<BenchFolder, CliError> {
        match keep {
            Some(folder) => {
                // Files would be overwritten, and the store would still hold bundles of the earlier run.
                if std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()) {
                    return Err(CliError::Input(format!(
                        "--keep: {} is not empty\nhint: name a folder that is empty or does not exist",
                        folder.display()
                    )));
                }
                crate::make_folder(folder, "--keep")?;
                Ok(BenchFolder { temporary: None, kept: folder.clone() })
            }
            None => {
                let temporary = tempfile::tempdir()?;
                Ok(BenchFolder { kept: temporary.path().to_path_buf(), temporary: Some(temporary) })
            }
        }
    }
    pub fn path(&self) -> &Path {
        self.temporary.as_ref().map_or(&self.kept, |folder| folder.path())
    }
}

impl Args {
    /// Options of the benchmark, with its files in `folder`.
    pub fn options(&self, folder: &Path) -> Result<BenchOptions, CliError> {
        if !(0.1..=3600.0).contains(&self.seconds) {
            return Err(CliError::Input("--seconds: expected 0.1 to 3600\nhint: 5 s give a stable figure".into()));
        }
        let layer =
            LayerInfo::named(&self.cla).ok_or_else(|| CliError::Input(format!("--cla: no layer `{}`", self.cla)))?;
        Ok(BenchOptions {
            layer_lines: if self.tls { secured(layer, folder)? } else { Default::default() },
            tables: Default::default(),
            tls: self.tls.then(|| ["node-1.pem", "node-1.key", "authority.pem"].map(|name| folder.join(name))),
            enciphers: false,
            baseline: true,
            layer: layer.name,
            medium: layer.medium,
            bundle_size: self.bundle_size.0,
            seconds: self.seconds,
            durable: self.store == "durable",
            mtu: self.mtu,
            rate: self.rate,
            folder: folder.to_path_buf(),
            program: std::env::current_exe()?,
        })
    }
}

/// Writes certificates for all three nodes; returns the TLS lines of their layer tables.
fn secured(layer: &LayerInfo, folder: &Path) -> Result<[String; 3], CliError> {
    // Valid for one day: a benchmark ends long before that.
    let day = std::time::Duration::from_secs(86_400);
    if !layer.settings().iter().any(|setting| setting.name == "tls") {
        let name = layer.name;
        return Err(CliError::Input(format!("--tls: sessions of {name} cannot be secured\nhint: --cla tcpclv4")));
    }
    let authority = certificate::authority(day).context("an authority cannot be made")?;
    std::fs::write(folder.join("authority.pem"), &authority.certificate)?;
    let mut lines: [String; 3] = Default::default();
    for (node, lines) in (1..).zip(&mut lines) {
        let made = certificate::of_node(&authority, &[format!("ipn:{node}.0")], &["localhost".into()], day)?;
        std::fs::write(folder.join(format!("node-{node}.pem")), made.certificate)?;
        std::fs::write(folder.join(format!("node-{node}.key")), made.key)?;
        // `require`: a session without TLS would be measured unnoticed.
        *lines = format!(
            "tls = \"require\"\ncertificate = \"node-{node}.pem\"\nkey = \"node-{node}.key\"\n\
             authorities = \"authority.pem\"\n"
        );
    }
    Ok(lines)
}

/// Prints the baseline of a result.
pub fn print_baseline(result: &serde_json::Value) {
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!(
        "  baseline  {} at {:.2} s per GB ({})",
        DataRate(number("baseline_bit_s") as u64),
        number("baseline_cpu_s_per_gb"),
        result["baseline"].as_str().unwrap_or("")
    );
    println!("  ratio     {:.2}", number("ratio"));
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Options as the defaults of the command line give them.
    pub fn some() -> BenchOptions {
        let Ok(options) = args().options(Path::new("/there")) else { panic!("they are right") };
        options
    }

    fn args() -> Args {
        Args {
            cla: "tcpclv4".into(),
            bundle_size: DataVolume(1000),
            seconds: 1.0,
            store: "memory".into(),
            mtu: 1360,
            rate: None,
            tls: false,
            keep: None,
            json: false,
        }
    }

    #[test]
    fn tls_needs_support_and_seconds_bounds() {
        let refused = |change: fn(&mut Args)| {
            let mut nodes = Args { cla: "stcp".into(), ..args() };
            change(&mut nodes);
            matches!(nodes.options(Path::new("/there")), Err(CliError::Input(_)))
        };
        // No range contains NaN, so a check with `contains` refuses it; a comparison with a bound would let it pass.
        assert!(refused(|nodes| nodes.tls = true) && refused(|nodes| nodes.seconds = f64::NAN));
        assert!(!refused(|_| {}));
    }
}

//! `farlink recv`: receive files and bundles.

use crate::Failure;
use crate::bar;
use farlink_apps::file::{self, ReceiveOptions, Received};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `farlink recv`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink recv --service 64 --out inbox --at farlink.sock\n  \
    farlink recv --service 64 --files 1 --out inbox --json\n  \
    farlink recv --service 64 --count 1 > payload\n\n\
    Files sent by `farlink send` are put together in --out, verified by SHA-256 and their digest printed.\n\
    Other payloads go to standard output, or to --out as bundle-N. Progress of unfinished files is kept in\n\
    --out across restarts; bundles delivered again after a crash are dropped.")]
pub struct Args {
    /// The node's application socket: a path, or host:port.
    #[arg(long = "at", value_name = "SOCKET", default_value = "farlink.sock")]
    at: String,
    /// Service number (or demux) to receive at, or a group to be a member of: `dtn://NAME/~DEMUX`.
    #[arg(long, default_value = "64")]
    service: String,
    /// Folder for what is received.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Stop after so many bundles.
    #[arg(long)]
    count: Option<u64>,
    /// Stop after so many whole files.
    #[arg(long)]
    files: Option<u64>,
    /// Stop when nothing came for so long.
    #[arg(long, value_parser = farlink_base::parse_duration)]
    timeout: Option<Duration>,
    /// Secret shared with other connections at the same endpoint.
    #[arg(long, default_value = "farlink")]
    secret: String,
    /// Print one JSON document per file or bundle.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    let options = ReceiveOptions {
        service: args.service,
        out: args.out,
        count: args.count,
        files: args.files,
        timeout: args.timeout,
        secret: args.secret,
    };
    let bar = bar::bytes(None, "received", args.json);
    let mut bad = 0;
    let mut stdout = std::io::stdout().lock();
    let done = file::receive(&args.at, &options, |event| -> std::io::Result<()> {
        match event {
            Received::Progress { bytes } => bar.set_position(bytes),
            Received::File { name, path, bytes, sha256, verified, seconds } => {
                bad += u64::from(!verified);
                let goodput = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
                if args.json {
                    let path = path.display().to_string();
                    writeln!(
                        stdout,
                        "{}",
                        json!({ "name": name, "path": path, "bytes": bytes, "sha256": sha256, "verified": verified,
                                "seconds": seconds, "goodput_bit_s": goodput })
                    )?;
                } else {
                    let verdict = if verified { "verified" } else { "DAMAGED: the digest differs" };
                    bar.suspend(|| eprintln!("{}: {bytes} B in {seconds:.1} s, {verdict}", path.display()));
                    writeln!(stdout, "{sha256}  {}", path.display())?;
                }
            }
            Received::Bundle { source, payload, path } => match (path, args.json) {
                (path, true) => {
                    let path = path.map(|path| path.display().to_string());
                    writeln!(stdout, "{}", json!({ "source": source, "bytes": payload.len(), "path": path }))?;
                }
                (None, false) => {
                    stdout.write_all(&payload)?;
                    stdout.flush()?;
                }
                (Some(path), false) => bar.suspend(|| eprintln!("{} from {source}", path.display())),
            },
        }
        Ok(())
    });
    bar.finish_and_clear();
    done?;
    if bad > 0 {
        return Err(Failure::Run(anyhow::anyhow!("{bad} files arrived damaged")));
    }
    Ok(())
}

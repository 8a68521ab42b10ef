//! `farlink recv`: receive files and bundles.

use crate::{CliError, bar, socket, values};
use farlink_apps::file::{self, ReceiveOptions, Received, ReceivedCounts};
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
    --out across restarts; bundles delivered again after a crash are dropped.\n\n\
    Exit status: 0 done, 1 fewer came than --count or --files says or a file is damaged, 2 bad input.")]
pub struct Args {
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Service number (or demux) to receive at, or a group to be a member of: `dtn://NAME/~DEMUX`.
    #[arg(long, default_value = "64")]
    service: String,
    /// Folder for what is received.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Throw payloads away; with --json each bundle is told of.
    #[arg(long, conflicts_with = "out")]
    discard: bool,
    /// Stop after so many bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    count: Option<u64>,
    /// Stop after so many whole files, put together in --out.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    files: Option<u64>,
    /// Stop when nothing came for so long.
    #[arg(long, allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    timeout: Option<Duration>,
    /// Secret shared with other connections at the same endpoint.
    #[arg(long, default_value = "farlink")]
    secret: String,
    /// Print one JSON document per file or bundle; without --out whether it may have been printed before (`redelivered`), and without --discard its payload, as `text`, or `hex` where it is none.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), CliError> {
    if args.files.is_some() && args.out.is_none() {
        return Err(CliError::Input(
            "--files needs --out\nhint: --out DIR is the folder that files are put together in; --count counts bundles"
                .into(),
        ));
    }
    if let Some(folder) = &args.out {
        crate::make_folder(folder, "--out")?;
    }
    let options = ReceiveOptions {
        service: args.service,
        out: args.out,
        count: args.count,
        files: args.files,
        timeout: args.timeout,
        secret: args.secret,
    };
    let bar = bar::bytes(None, "received", args.json);
    let (mut bad, mut told, mut said) = (0, false, false);
    let mut stdout = std::io::stdout().lock();
    let came = file::receive(&args.at.find()?, &options, |event| -> std::io::Result<()> {
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
            Received::Bundle { source, bytes, payload, path, piece_of, redelivered } => match (path, args.json) {
                (Some(path), true) => {
                    let path = path.display().to_string();
                    writeln!(stdout, "{}", json!({ "source": source, "bytes": bytes, "path": path }))?;
                }
                (None, true) if args.discard => {
                    let document =
                        json!({ "source": source, "bytes": bytes, "path": null, "redelivered": redelivered });
                    writeln!(stdout, "{document}")?;
                }
                (None, false) if args.discard => {}
                (None, true) => writeln!(stdout, "{}", whole(&source, bytes, payload, redelivered))?,
                (None, false) => {
                    if redelivered && !std::mem::replace(&mut said, true) {
                        bar.suspend(|| eprintln!("{AGAIN}"));
                    }
                    if let Some(name) = piece_of.filter(|_| !std::mem::replace(&mut told, true)) {
                        bar.suspend(|| eprintln!("{}", unverified(&name)));
                    }
                    stdout.write_all(&payload)?;
                    stdout.flush()?;
                }
                (Some(path), false) => bar.suspend(|| eprintln!("{} from {source}", path.display())),
            },
        }
        Ok(())
    });
    bar.finish_and_clear();
    let came = came?;
    if bad > 0 {
        return Err(CliError::Run(anyhow::anyhow!("{bad} files arrived damaged")));
    }
    enough(came, &options)
}

/// What is said where payloads are printed that a run before may have printed.
const AGAIN: &str = "warning: the node delivers again what no run answered for: some may have been printed before\n\
                     hint: --json says of each bundle whether it may be one of those; with --out each is kept once";

/// A bundle with its payload: `text`, or `hex` where it is none.
fn whole(source: &str, bytes: u64, payload: Vec<u8>, redelivered: bool) -> serde_json::Value {
    let (key, payload) = match String::from_utf8(payload) {
        Ok(text) => ("text", text),
        Err(other) => ("hex", file::hex(other.as_bytes())),
    };
    json!({ "source": source, "bytes": bytes, "path": null, "redelivered": redelivered, key: payload })
}

/// What is said of a file that there is no folder for.
fn unverified(name: &str) -> String {
    let name = name.replace(char::is_control, "_");
    format!(
        "warning: this is a piece of the file `{name}`: pieces are printed as they come, and not verified\n\
         hint: --out DIR puts files together and verifies them"
    )
}

/// Fails when nothing came for the time given before all was there.
fn enough(came: ReceivedCounts, options: &ReceiveOptions) -> Result<(), CliError> {
    let wanted = [(options.count, came.bundles, "bundles"), (options.files, came.files, "files")];
    let short =
        |(limit, came, what): (Option<u64>, u64, &'static str)| Some((limit.filter(|n| came < *n)?, came, what));
    let reached = wanted.iter().any(|(limit, came, _)| limit.is_some_and(|limit| *came >= limit));
    let Some((limit, came, what)) = wanted.into_iter().find_map(short).filter(|_| !reached) else { return Ok(()) };
    let waited = options.timeout.unwrap_or_default().as_secs_f64();
    Err(CliError::Run(anyhow::anyhow!(
        "{came} of {limit} {what} came, then nothing for {waited} s\n\
         hint: a longer --timeout waits on; `farlink node bundles` at the sending node says what waits there"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_whole_bundle() {
        let text = whole("ipn:2.1", 3, b"a\"b".to_vec(), true);
        let document = json!({ "source": "ipn:2.1", "bytes": 3, "path": null, "redelivered": true, "text": "a\"b" });
        assert_eq!(text, document);
        assert_eq!(whole("ipn:2.1", 2, vec![0xff, 0x0a], false)["hex"], "ff0a");
        assert_eq!(whole("ipn:2.1", 0, Vec::new(), false)["text"], "");
    }

    #[test]
    fn too_few_bundles_is_counted_failure() {
        let options = |count, files| ReceiveOptions {
            service: "64".into(),
            out: None,
            count,
            files,
            timeout: Some(Duration::from_millis(1500)),
            secret: "s".into(),
        };
        let came = ReceivedCounts { bundles: 3, files: 1 };
        for (count, files) in [(None, None), (Some(3), None), (None, Some(1)), (Some(3), Some(9))] {
            assert!(enough(came, &options(count, files)).is_ok(), "{count:?} {files:?}");
        }
        let said = |count, files| match enough(came, &options(count, files)) {
            Err(CliError::Run(why)) => why.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(said(Some(4), None).starts_with("3 of 4 bundles came, then nothing for 1.5 s\nhint: "));
        assert!(said(None, Some(2)).starts_with("1 of 2 files came, "));
    }
}

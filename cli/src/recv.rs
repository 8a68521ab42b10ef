//! `farlink recv`: receives files and bundles.

use crate::{CliError, bar, socket, values};
use farlink_apps::file::{self, ReceiveOptions, Received, ReceivedCounts};
use farlink_base::DataVolume;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Arguments of `farlink recv`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink recv --service 64 --out inbox --at farlink.sock\n  \
    farlink recv --service 64 --files 1 --out inbox --json\n  \
    farlink recv --service 64 --count 1 > payload\n\n\
    Files sent by `farlink send` are reassembled in --out and verified by SHA-256; the digest is printed.\n\
    Other payloads go to standard output, or to --out as bundle-N. Unfinished files in --out are continued\n\
    after a restart; bundles delivered again after a crash are dropped.\n\n\
    Control-C ends it, with a summary.\n\n\
    Exit status: 0 done, 1 fewer arrived than --count or --files asks for, or a file is damaged, 2 bad input.")]
pub struct Args {
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Service number (or demux) to register, or a group to join: `dtn://NAME/~DEMUX`.
    #[arg(long, default_value = "64")]
    service: String,
    /// Folder for received files and bundles.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Discard payloads; with --json each bundle is still reported.
    #[arg(long, conflicts_with = "out")]
    discard: bool,
    /// Stop after this many bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    count: Option<u64>,
    /// Stop after this many complete files in --out.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    files: Option<u64>,
    /// Stop if nothing arrives for this time.
    #[arg(long, allow_hyphen_values = true, value_parser = values::wait)]
    timeout: Option<Duration>,
    /// Secret that connections to the same endpoint must share.
    #[arg(long, default_value = "farlink")]
    secret: String,
    /// Print one JSON document per file or bundle. Without --out it has `redelivered`, true if the bundle may have been
    /// printed before; without --discard it has the payload, as `text` if UTF-8, else as `hex`.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    // Without a folder, pieces are not reassembled: no file would ever be complete.
    if args.files.is_some() && args.out.is_none() {
        return Err(CliError::Input(
            "--files needs --out\nhint: --out DIR names the folder for the files; --count counts bundles".into(),
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
    // Each of the two warnings, about pieces and about repeated deliveries, is printed once.
    let (mut bad, mut told, mut said) = (0, false, false);
    let mut stdout = std::io::stdout().lock();
    let at = args.at.find()?;
    let stop = farlink_os::process::watch_termination()?;
    let mut bytes_received = 0;
    let mut print = |event| -> std::io::Result<()> {
        match event {
            Received::Progress { bytes } => {
                bytes_received = bytes;
                bar.set_position(bytes);
            }
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
                    let text = format!("{}: {bytes} B in {seconds:.1} s, {verdict}", path.display());
                    bar.suspend(|| warn(&text));
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
                        bar.suspend(|| warn(AGAIN));
                    }
                    // Printed once, not for every piece.
                    if let Some(name) = piece_of.filter(|_| !std::mem::replace(&mut told, true)) {
                        bar.suspend(|| warn(&unverified(&name)));
                    }
                    stdout.write_all(&payload)?;
                    // A pipe's reader gets each payload at once, not when a buffer is full.
                    stdout.flush()?;
                }
                (Some(path), false) => bar.suspend(|| warn(&format!("{} from {source}", path.display()))),
            },
        }
        Ok(())
    };
    let came =
        file::receive(&at, &options, &stop, |event| print(event).or_else(|why| crate::print::stdout_failed(&why)));
    bar.finish_and_clear();
    // The bar is removed first: an error must start on a line of its own.
    let came = came?;
    let stopped = stop.load(Ordering::Relaxed);
    if stopped {
        let (bundles, files) = (values::counted(came.bundles, "bundle"), values::counted(came.files, "whole file"));
        warn(&format!("stopped: {bundles} received, {}, {files}", DataVolume(bytes_received)));
    }
    if bad > 0 {
        return Err(CliError::Run(anyhow::anyhow!("{} arrived damaged", values::counted(bad, "file"))));
    }
    enough(came, &options, stopped)
}

/// Prints a message. A full disk behind standard error must not end the receiver: what arrives may still have room.
fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Warning about payloads that an earlier run may have printed.
const AGAIN: &str = "warning: the node repeats deliveries that were not acknowledged: some may have been printed before\n\
hint: --json marks each such bundle; with --out each bundle is kept once";

/// Bundle with its payload as JSON: `text` if UTF-8, else `hex`.
fn whole(source: &str, bytes: u64, payload: Vec<u8>, redelivered: bool) -> serde_json::Value {
    let (key, payload) = match String::from_utf8(payload) {
        Ok(text) => ("text", text),
        Err(other) => ("hex", file::hex(other.as_bytes())),
    };
    json!({ "source": source, "bytes": bytes, "path": null, "redelivered": redelivered, key: payload })
}

/// Warning about a piece of a file that is received without --out.
fn unverified(name: &str) -> String {
    // The name is the sender's choice: it must not steer the terminal.
    let name = name.replace(char::is_control, "_");
    format!(
        "warning: this is a piece of the file `{name}`: pieces are printed in order of arrival, without verification\n\
        hint: --out DIR reassembles and verifies files"
    )
}

/// Fails if the timeout passed, or Control-C came, before the requested number arrived.
fn enough(came: ReceivedCounts, options: &ReceiveOptions, stopped: bool) -> Result<(), CliError> {
    let wanted = [(options.count, came.bundles, "bundle"), (options.files, came.files, "file")];
    let short =
        |(limit, came, what): (Option<u64>, u64, &'static str)| Some((limit.filter(|n| came < *n)?, came, what));
    // The first limit that is reached ends the reception; falling short of the other is then no failure.
    let reached = wanted.iter().any(|(limit, came, _)| limit.is_some_and(|limit| *came >= limit));
    let Some((limit, came, what)) = wanted.into_iter().find_map(short).filter(|_| !reached) else { return Ok(()) };
    if stopped {
        return Err(CliError::Run(anyhow::anyhow!(
            "stopped with {came} of {} received\n\
             hint: the rest stays in the node's store; `farlink recv` with the same options goes on",
            values::counted(limit, what)
        )));
    }
    let waited = options.timeout.unwrap_or_default().as_secs_f64();
    Err(CliError::Run(anyhow::anyhow!(
        "{came} of {} received, then nothing for {waited} s\n\
        hint: use a longer --timeout; `farlink node bundles` at the sending node lists the bundles that wait there",
        values::counted(limit, what)
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
            assert!(enough(came, &options(count, files), false).is_ok(), "{count:?} {files:?}");
        }
        let said = |count, files, stopped| match enough(came, &options(count, files), stopped) {
            Err(CliError::Run(why)) => why.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(said(Some(4), None, false).starts_with("3 of 4 bundles received, then nothing for 1.5 s\nhint: "));
        assert!(said(None, Some(2), false).starts_with("1 of 2 files received, "));
        let none = enough(ReceivedCounts::default(), &options(Some(1), None), false);
        assert!(matches!(none, Err(CliError::Run(why)) if why.to_string().starts_with("0 of 1 bundle received, ")));
        assert!(said(Some(4), None, true).starts_with("stopped with 3 of 4 bundles received\nhint: "));
    }
}

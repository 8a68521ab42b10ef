//! Delivery benchmark: one application fills the durable store of a node, another receives all bundles over the
//! application socket.

use super::baseline;
use super::nodes::NodeProcess;
use crate::answers::Answers;
use crate::client::Client;
use crate::file::{self, ReceiveOptions};
use crate::http;
use anyhow::{Context, bail, ensure};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Endpoint of the receiving application.
const ENDPOINT: &str = "ipn:1.9";
/// Default volume of the bundles that wait in the node, in bytes.
const BACKLOG: u64 = 400_000_000;
/// Minimum and maximum number of bundles that wait by default.
const BUNDLES: (u64, u64) = (1_000, 100_000);
/// Silence after which the receiver assumes that a bundle is lost.
const SILENCE: Duration = Duration::from_secs(20);

/// Parameters of the delivery benchmark.
#[derive(Clone, Debug)]
pub struct DeliveryOptions {
    /// Payload length of each bundle, in bytes.
    pub bundle_size: u64,
    /// Number of bundles that wait when the receiver connects; `None` for 400 MB of them, within bounds.
    pub bundles: Option<u64>,
    /// Number of deliveries received before the first is acknowledged.
    pub window: u32,
    /// Whether payloads are written to files, as `farlink recv --out` does.
    pub files: bool,
    /// Whether the node is killed and restarted before delivery: payloads are then read from disk.
    pub restart: bool,
    /// Folder of configuration, log, store and received files.
    pub folder: PathBuf,
    /// Whether to measure the baseline, too.
    pub baseline: bool,
    /// Path of the `farlink` binary.
    pub program: PathBuf,
}

/// Runs the benchmark; returns the result as JSON.
///
/// # Errors
/// If the node cannot be started, or a bundle is lost or delivered twice.
pub fn delivery(options: &DeliveryOptions) -> anyhow::Result<Value> {
    let bundles = options.bundles.unwrap_or((BACKLOG / options.bundle_size.max(1)).clamp(BUNDLES.0, BUNDLES.1));
    // Twice the volume, with 1000 B of headers per bundle, so that the store never refuses one.
    let capacity = (bundles * (options.bundle_size + 1000) * 2).max(1 << 30);
    // A generous memory budget: the benchmark measures delivery, not refusals.
    let text = format!(
        "node_ids = [\"ipn:1.0\"]\n\n[store]\nkind = \"durable\"\ndir = \"store\"\ncapacity = \"{capacity} B\"\nreserved = \
         \"0 B\"\n\n[app]\nsocket = \"app.sock\"\necho = false\nwindow = {}\n\n[limits]\nmemory = \"8 GiB\"\n\n[log]\nlevel = \
         \"warn\"\n",
        options.window.max(1)
    );
    let file = options.folder.join("node.toml");
    std::fs::write(&file, text)?;
    let mut node = Filled::start(options, &file)?;
    fill(&node.at, options.bundle_size, bundles)?;
    if options.restart {
        // Dropping the process kills it.
        drop(node);
        node = Filled::start(options, &file)?;
    }
    let (begun, before) = (Instant::now(), (node.process.cpu_s(), own_cpu_s()));
    let redelivered = match options.files {
        true => take_as_files(&node.at, &options.folder.join("inbox"), bundles)?,
        false => take(&node.at, options, bundles)?,
    };
    let (seconds, taking) = (begun.elapsed().as_secs_f64(), own_cpu_s() - before.1);
    let Filled { process, control, .. } = &mut node;
    process.until("the store is empty", || {
        // Deleting delivered bundles is part of the node's work.
        let status = http::request("GET", control, "/status", "").map(|(_, status)| status);
        Ok(status.is_ok_and(|status| status.contains("\"bundles\":0,")))
    })?;
    // Only the time of the delivery counts, not that of filling the store.
    let cpu_s = node.process.cpu_s() - before.0;
    let bytes = (bundles * options.bundle_size) as f64;
    let mut result = json!({
        "bundle_size": options.bundle_size,
        "bundles": bundles,
        "window": options.window,
        "files": options.files,
        "restart": options.restart,
        "seconds": seconds,
        "bundles_s": bundles as f64 / seconds,
        "goodput_bit_s": bytes * 8.0 / seconds,
        "redelivered": redelivered,
        "cpu_s_node": cpu_s,
        "cpu_s_per_gb": (cpu_s + taking) * 1e9 / bytes,
        "rss_bytes_node": node.process.memory(),
    });
    drop(node);
    if options.baseline {
        let copied = match options.files {
            true => baseline::files(&options.folder.join("copy"), options.bundle_size, bundles, options.window)?,
            false => baseline::to_an_application()?,
        };
        copied.write(&mut result);
    }
    Ok(result)
}

/// Processor time of this process, which is the receiving application, in s.
fn own_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Sends `bundles` bundles, and waits until the node has accepted each.
fn fill(at: &str, size: u64, bundles: u64) -> anyhow::Result<()> {
    let mut client = crate::connect(at)?;
    // A window of 0 registers a sender.
    client.configure("ipn:1.1", "bench", 0)?;
    let (mut sender, mut answers) = client.split()?;
    let payload = vec![0x5a; usize::try_from(size)?];
    // Sending and reading answers overlap: one thread would deadlock once both socket buffers are full.
    let sending = std::thread::spawn(move || {
        let adu = BundleAdu { dst_eid: ENDPOINT.into(), lifetime_ms: 3_600_000, ..Default::default() };
        (0..bundles).try_for_each(|_| sender.send(adu.clone(), &payload))
    });
    for n in 0..bundles {
        let status = answers.response()?.response_status();
        ensure!(status == AapStatus::Success, "bundle {n} of {bundles} is refused: {}", crate::refusal(status));
    }
    sending.join().map_err(|_| anyhow::anyhow!("the sender ended"))??;
    Ok(())
}

/// Receives and discards all bundles; returns the number that were marked as possibly delivered before.
fn take(at: &str, options: &DeliveryOptions, bundles: u64) -> anyhow::Result<u64> {
    let mut client = crate::connect(at)?;
    client.configure(ENDPOINT, "bench", options.window.max(1))?;
    client.set_read_timeout(Some(SILENCE))?;
    let (mut seen, mut marked, mut answers) = (HashSet::new(), 0, Answers::new(options.window));
    while (seen.len() as u64) < bundles {
        let delivered = client.delivery().with_context(|| format!("after {} of {bundles} bundles", seen.len()))?;
        ensure!(delivered.payload.len() as u64 == options.bundle_size, "a bundle of another length");
        let adu = &delivered.adu;
        // All bundles have the same source: the timestamp identifies them.
        if !seen.insert((adu.creation_timestamp_ms, adu.sequence_number)) {
            bail!("a bundle came twice");
        }
        marked += u64::from(delivered.redelivered());
        if answers.add(&client)? {
            answers.give(&mut client)?;
        }
    }
    answers.give(&mut client)?;
    Ok(marked)
}

/// Receives all bundles into files, as `farlink recv` does. Always returns 0: deliveries marked as repeated are not
/// counted.
fn take_as_files(at: &str, inbox: &Path, bundles: u64) -> anyhow::Result<u64> {
    let options = ReceiveOptions {
        service: ENDPOINT.into(),
        out: Some(inbox.to_path_buf()),
        count: Some(bundles),
        files: None,
        timeout: Some(SILENCE),
        secret: "bench".into(),
    };
    file::receive(at, &options, &Default::default(), |_| Ok(()))?;
    let files = std::fs::read_dir(inbox)?.filter_map(Result::ok);
    let files = files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"bundle-")).count() as u64;
    // A delivery recognised as a repetition is counted, but makes no file: then files are missing.
    ensure!(files == bundles, "{files} files of {bundles} bundles");
    Ok(0)
}

/// Node under test, with its sockets.
struct Filled {
    process: NodeProcess,
    at: String,
    control: String,
}
impl Filled {
    fn start(options: &DeliveryOptions, file: &Path) -> anyhow::Result<Filled> {
        let mut command = Command::new(&options.program);
        command.args(["node", "--config"]).arg(file);
        let place = |name: &str| options.folder.join(name).display().to_string();
        let (at, control) = (place("app.sock"), place("node.control.sock"));
        let mut process = NodeProcess::start(command, &options.folder, "node")?;
        process.until("the node starts", || Ok(Client::connect(&at).is_ok()))?;
        Ok(Filled { process, at, control })
    }
}

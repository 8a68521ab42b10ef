//! Plain copies on loopback, as baselines: the fastest ways to move the same bytes without a protocol, with the system
//! calls that a node uses.

mod datagrams;
mod durable;
mod round_trips;
mod streams;

pub use durable::files;
pub use round_trips::chain;
pub use streams::{two_hops, unix};

use super::BenchOptions;
use anyhow::Context;
use farlink_base::layer::Medium;
use serde_json::Value;
use std::thread::JoinHandle;
use std::time::Duration;

/// Buffer sizes that are tried for streams, in bytes; the fastest depends on the machine's caches.
const BUFFERS: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Numbers of bytes that are tried for one write and sync to disk.
const GROUPS: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];

/// Result of a copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Description of the copy.
    pub name: String,
    /// Rate of the copy, in bit/s.
    pub bit_s: f64,
    /// Processor time in s per GB: of both ends, or of the forwarding thread only.
    pub cpu_s_per_gb: f64,
}
impl Copied {
    fn new(name: String, bytes: u64, seconds: f64, cpu: Duration) -> Copied {
        let bytes = bytes as f64;
        Copied { name, bit_s: bytes * 8.0 / seconds, cpu_s_per_gb: cpu.as_secs_f64() * 1e9 / bytes }
    }
    /// Adds the baseline to a result, with the ratio of the result's goodput to the baseline's rate.
    pub(super) fn write(&self, result: &mut Value) {
        let goodput = result["goodput_bit_s"].as_f64().unwrap_or(0.0);
        result["baseline"] = self.name.clone().into();
        result["baseline_bit_s"] = self.bit_s.into();
        result["baseline_cpu_s_per_gb"] = self.cpu_s_per_gb.into();
        result["ratio"] = (if self.bit_s > 0.0 { goodput / self.bit_s } else { 0.0 }).into();
    }
}

/// Measures the fastest copy from one thread to another. Streams are synced to disk if the nodes are durable, or else
/// use TLS if the nodes do; datagrams do neither.
///
/// # Errors
/// If sockets or files cannot be opened.
pub fn one_hop(options: &BenchOptions) -> anyhow::Result<Copied> {
    let time = share(options.seconds);
    match (options.medium, options.durable, &options.tls) {
        (Medium::Datagrams, ..) => {
            datagrams::copy(options.datagram(), options.window(), false, share(options.seconds * 3.0))
        }
        (Medium::Streams, true, _) => fastest(GROUPS, |group| durable::copy(&options.folder, group, time)),
        (Medium::Streams, false, Some(files)) => fastest(BUFFERS, |buffer| streams::tls(files, buffer, time)),
        (Medium::Streams, false, None) => fastest(BUFFERS, |buffer| streams::tcp(buffer, time)),
    }
}

/// Measures the fastest copy by a forwarding thread between two others.
///
/// # Errors
/// If sockets cannot be opened.
pub fn between(options: &BenchOptions) -> anyhow::Result<Copied> {
    let time = share(options.seconds);
    match (options.medium, options.enciphers) {
        (Medium::Datagrams, _) => {
            datagrams::copy(options.datagram(), options.window(), true, share(options.seconds * 3.0))
        }
        (Medium::Streams, false) => fastest(BUFFERS, |buffer| two_hops(buffer, false, time)),
        (Medium::Streams, true) => {
            // One encryption per payload, as in the node.
            fastest([usize::try_from(options.bundle_size)?], |buffer| two_hops(buffer, true, time))
        }
    }
}

/// Makes a copy for each of these parameters, and returns the fastest.
pub(super) fn fastest<const N: usize>(
    of: [usize; N],
    mut copy: impl FnMut(usize) -> anyhow::Result<Copied>,
) -> anyhow::Result<Copied> {
    let copies = of.into_iter().map(&mut copy).collect::<anyhow::Result<Vec<Copied>>>()?;
    copies.into_iter().max_by(|a, b| a.bit_s.total_cmp(&b.bit_s)).context("nothing to copy")
}

/// Measures the fastest copy through a Unix socket.
pub(super) fn to_an_application() -> anyhow::Result<Copied> {
    fastest(BUFFERS, |buffer| unix(buffer, Duration::from_millis(500)))
}

/// Duration of one of the three copies of a stream that [`fastest`] compares: a third of the benchmark's, but 0.1 to 1
/// s.
fn share(seconds: f64) -> Duration {
    Duration::from_secs_f64((seconds / 3.0).clamp(0.1, 1.0))
}

fn joined<T>(thread: JoinHandle<std::io::Result<T>>) -> anyhow::Result<T> {
    Ok(thread.join().map_err(|_| anyhow::anyhow!("a thread of the copy panicked"))??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_copy_is_taken() {
        let copy = |n: usize| Ok(Copied::new(n.to_string(), n as u64, 1.0, Duration::from_secs(1)));
        assert_eq!(fastest([2, 9, 4], copy).unwrap().name, "9");
    }

    #[test]
    fn copy_gives_rate_and_cost() {
        let copied = Copied::new("a copy".into(), 2_000_000_000, 4.0, Duration::from_secs(3));
        let mut result = serde_json::json!({ "goodput_bit_s": 1e9 });
        copied.write(&mut result);
        assert_eq!((copied.bit_s, copied.cpu_s_per_gb), (4e9, 1.5));
        assert_eq!((result["baseline_bit_s"].as_f64(), result["ratio"].as_f64()), (Some(4e9), Some(0.25)));
    }
}

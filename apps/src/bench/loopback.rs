//! Loopback benchmark: two node processes that generate and count bundles themselves. The baseline is the fastest plain
//! copy.

use super::baseline;
use super::nodes::{BenchOptions, DRAIN, GENERATOR, Ports, SINK};
use serde_json::{Value, json};
use std::time::Duration;

/// Runs the benchmark; returns the result as JSON.
///
/// # Errors
/// If a node cannot be started or gives no report.
pub fn loopback(options: &BenchOptions) -> anyhow::Result<Value> {
    let copied = options.baseline.then(|| baseline::one_hop(options)).transpose()?;
    let ports = Ports::free()?;
    let receiver = options.sink(&options.write(SINK, &ports, &[(GENERATOR, false)])?)?;
    // The receiver must listen before the sender's first attempt to connect, or the retry delay would count.
    std::thread::sleep(Duration::from_millis(300));
    let mut sender = options.generator(&options.write(GENERATOR, &ports, &[(SINK, true)])?)?;
    sender.wait(Duration::from_secs_f64(options.seconds) + DRAIN)?;
    let sent = sender.finish()?;
    let got = receiver.finish()?;
    let mut result = result(options, &sent, &got);
    if let Some(copied) = copied {
        copied.write(&mut result);
    }
    Ok(result)
}

fn result(options: &BenchOptions, sent: &Value, got: &Value) -> Value {
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or(0.0);
    // Only bundles that arrived count, while all processor time does.
    let gigabytes = number(got, "received") * options.bundle_size as f64 / 1e9;
    let cpu_s = number(sent, "cpu_s") + number(got, "cpu_s");
    json!({
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "mtu": options.mtu,
        "store": if options.durable { "durable" } else { "memory" },
        "goodput_bit_s": number(got, "goodput_bit_s"),
        "bundles_s": got["bundles_s"],
        "sent": sent["sent"],
        "received": got["received"],
        "cpu_s_sender": sent["cpu_s"],
        "cpu_s_receiver": got["cpu_s"],
        "cpu_s_per_gb": if gigabytes > 0.0 { cpu_s / gigabytes } else { 0.0 },
        "rss_bytes_sender": sent["rss_bytes"],
        "rss_bytes_receiver": got["rss_bytes"],
    })
}

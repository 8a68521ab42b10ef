//! The loopback benchmark: two node processes, load inside them, and plain socket copies measured in the same call.

use super::baseline::{self, Baselines};
use super::nodes::{DRAIN, GENERATOR, Options, Ports, SINK};
use serde_json::{Value, json};
use std::time::Duration;

/// Runs the benchmark.
///
/// # Errors
/// When a node cannot be started or says nothing.
pub fn loopback(options: &Options) -> anyhow::Result<Value> {
    let baselines = baseline::measure(options)?;
    let ports = Ports::free()?;
    let receiver = options.sink(&options.write(SINK, &ports, &[(GENERATOR, false)])?)?;
    std::thread::sleep(Duration::from_millis(300));
    let mut sender = options.generator(&options.write(GENERATOR, &ports, &[(SINK, true)])?)?;
    sender.wait(Duration::from_secs_f64(options.seconds) + DRAIN)?;
    let sent = sender.finish()?;
    let got = receiver.finish()?;
    Ok(result(options, &baselines, &sent, &got))
}

fn result(options: &Options, baselines: &Baselines, sent: &Value, got: &Value) -> Value {
    let goodput = got["goodput_bit_s"].as_f64().unwrap_or(0.0);
    let mut result = json!({
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "store": if options.durable { "durable" } else { "memory" },
        "goodput_bit_s": goodput,
        "bundles_s": got["bundles_s"],
        "sent": sent["sent"],
        "received": got["received"],
        "cpu_s_sender": sent["cpu_s"],
        "cpu_s_receiver": got["cpu_s"],
        "rss_bytes_sender": sent["rss_bytes"],
        "rss_bytes_receiver": got["rss_bytes"],
        "baseline": baselines.name,
        "baseline_bit_s": baselines.plain_bit_s,
        "ratio": if baselines.plain_bit_s > 0.0 { goodput / baselines.plain_bit_s } else { 0.0 },
    });
    if let Some(offload) = baselines.offload_bit_s {
        result["baseline_offload_bit_s"] = offload.into();
        result["mtu"] = options.mtu.into();
    }
    result
}

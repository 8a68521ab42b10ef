//! Echo service as an application: replies to each bundle with a bundle of the same payload.

use crate::{connect, random};
use farlink_aap2::proto::{BundleAdu, adu_flag};
use std::time::{Duration, Instant};

/// Replies at these services, at most `rate` times per second at each, until the node closes the connection.
///
/// # Errors
/// If the node is not reachable, or a service is in use, e.g. by the node's own echo service.
pub fn run(at: &str, services: &[String], rate: u32) -> anyhow::Result<()> {
    let mut threads = Vec::new();
    for service in services {
        let mut receiver = connect(at)?;
        let endpoint = receiver.endpoint(service);
        let secret = random().to_string();
        receiver.configure(&endpoint, &secret, 1)?;
        // AAP2 connections are one-way: replies need a second one, at the same endpoint.
        let mut sender = connect(at)?;
        sender.configure(&endpoint, &secret, 0)?;
        eprintln!("answering at {endpoint}");
        // Bounds the traffic that a flood of pings can cause.
        let gap = Duration::from_secs(1) / rate.max(1);
        threads.push(std::thread::spawn(move || -> std::io::Result<()> {
            let mut next = Instant::now();
            loop {
                let delivered = receiver.delivery()?;
                // No reply to anonymous bundles, which have no source, nor to status reports, since it could cause
                // another.
                let report = delivered.adu.adu_flags.contains(&adu_flag::STATUS_REPORT);
                if !report && !matches!(delivered.adu.src_eid.as_str(), "" | "dtn:none" | "ipn:0.0") {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    next = Instant::now() + gap;
                    let adu = BundleAdu {
                        dst_eid: delivered.adu.src_eid,
                        lifetime_ms: delivered.adu.lifetime_ms,
                        ..Default::default()
                    };
                    sender.send(adu, &delivered.payload)?;
                    // Accepted only after the reply: a crash in between repeats the delivery.
                    sender.response()?;
                }
                receiver.taken(true)?;
            }
        }));
    }
    for thread in threads {
        if let Ok(Err(why)) = thread.join() {
            anyhow::bail!("the node closed the connection: {why}");
        }
    }
    Ok(())
}

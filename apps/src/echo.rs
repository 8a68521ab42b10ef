//! Echo as an application: one reply per bundle, new timestamp, same payload.

use crate::{connect, random};
use farlink_aap2::proto::{BundleAdu, adu_flag};
use std::time::{Duration, Instant};

/// Answers at the given services until the node closes the connection.
///
/// # Errors
/// When the node is not there, or a service is taken (by the node's own echo service).
pub fn run(at: &str, services: &[String], rate: u32) -> anyhow::Result<()> {
    let mut threads = Vec::new();
    for service in services {
        let mut receiver = connect(at)?;
        let endpoint = receiver.endpoint(service);
        let secret = random().to_string();
        receiver.configure(&endpoint, &secret, 1)?;
        let mut sender = connect(at)?;
        sender.configure(&endpoint, &secret, 0)?;
        eprintln!("answering at {endpoint}");
        let gap = Duration::from_secs(1) / rate.max(1);
        threads.push(std::thread::spawn(move || -> std::io::Result<()> {
            let mut next = Instant::now();
            loop {
                let delivered = receiver.delivery()?;
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

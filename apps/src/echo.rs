//! Echo service as an application: replies to each bundle with a bundle of the same payload.

use crate::stop::{StopWatch, sleep};
use crate::{connect, random};
use farlink_aap2::proto::{BundleAdu, adu_flag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Replies at these services, at most `rate` times per second at each, until `stop` is set; returns the number of
/// replies.
///
/// # Errors
/// If the node is not reachable or closes the connection, or a service is in use, e.g. by the node's own echo service.
pub fn run(at: &str, services: &[String], rate: u32, stop: &Arc<AtomicBool>) -> anyhow::Result<u64> {
    let replies = Arc::new(AtomicU64::new(0));
    let (mut threads, mut watches) = (Vec::new(), Vec::new());
    for service in services {
        let mut receiver = connect(at)?;
        let endpoint = receiver.endpoint(service);
        let secret = random().to_string();
        receiver.configure(&endpoint, &secret, 1)?;
        // AAP2 connections are one-way: replies need a second one, at the same endpoint.
        let mut sender = connect(at)?;
        sender.configure(&endpoint, &secret, 0)?;
        watches.push(StopWatch::new(stop, Duration::ZERO, &[&receiver, &sender])?);
        crate::tell(&format!("answering at {endpoint}"));
        let (replies, stop) = (replies.clone(), stop.clone());
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
                    sleep(next.saturating_duration_since(Instant::now()), &stop);
                    next = Instant::now() + gap;
                    let adu = BundleAdu {
                        dst_eid: delivered.adu.src_eid,
                        lifetime_ms: delivered.adu.lifetime_ms,
                        ..Default::default()
                    };
                    sender.send(adu, &delivered.payload)?;
                    // Accepted only after the reply: a crash in between repeats the delivery.
                    sender.response()?;
                    replies.fetch_add(1, Ordering::Relaxed);
                }
                receiver.taken(true)?;
            }
        }));
    }
    for thread in threads {
        if let Ok(Err(why)) = thread.join()
            && !stop.load(Ordering::Relaxed)
        {
            anyhow::bail!("{why}\n{}", crate::ENDED);
        }
    }
    Ok(replies.load(Ordering::Relaxed))
}

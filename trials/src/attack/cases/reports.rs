//! Status reports to a victim that never asked for them.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::{ALL_REPORTS, Bundle};
use crate::harness::client::attach_with;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const CASE: Case = Case {
    name: "reports",
    what: "Bundles of one byte that ask for every report, to be sent to an application of the neighbour.",
    run,
};

/// Bytes of reports allowed for each byte received.
const AMPLIFICATION_MAX: f64 = 1.0;

fn run(target: &Target) -> Result<Outcome> {
    let received = received_by_victim(target)?;
    let (sent, bytes) = target.offer(30_000, |number| {
        let mut bundle = Bundle::new("ipn:404.1", number);
        bundle.flags = ALL_REPORTS;
        bundle.report_to = "ipn:2.99".into();
        // The lifetime ends soon: a deletion is reported, too.
        bundle.lifetime = Duration::from_secs(1);
        bundle.with(b"x")
    });
    Ok(amplified(sent, bytes, &received))
}

/// Counts the bytes of reports that reach an application of a neighbour, which asked for none.
///
/// # Errors
/// When the application cannot attach.
pub fn received_by_victim(target: &Target) -> Result<Arc<AtomicU64>> {
    // The reader thread ends with its node.
    let received = Arc::new(AtomicU64::new(0));
    let counted = received.clone();
    let mut victim = attach_with(&target.neighbours_applications, "ipn:2.99", "victim", 64)?;
    std::thread::spawn(move || -> std::io::Result<()> {
        victim.set_read_timeout(Some(Duration::from_secs(3600)))?;
        loop {
            // Size of the report on the wire, about: a bundle of the attacker's own encoder with the same payload.
            let report = Bundle::new("ipn:2.99", 0).with(&victim.delivery()?.payload);
            counted.fetch_add(report.len() as u64, Ordering::Relaxed);
            victim.taken(true)?;
        }
    });
    Ok(received)
}
/// Outcome for a number of bundles and their bytes.
pub fn amplified(bundles: u64, bytes: u64, received: &AtomicU64) -> Outcome {
    let ratio = received.load(Ordering::Relaxed) as f64 / bytes.max(1) as f64;
    Outcome::of(format!("{bundles} bundles, {ratio:.2} bytes of reports per byte"))
        .unless(ratio <= AMPLIFICATION_MAX, || format!("{ratio:.2} bytes of reports per byte"))
}

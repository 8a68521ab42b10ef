//! Receiving bundles or a file: `farlink app receive`.

use super::event::AppEvent;
use super::file::PiecedFile;
use super::ranges::Ranges;
use super::stamp::Stamp;
use super::{ATTENTION, BundleReceiver};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most flows whose repetitions are recognized.
const FLOWS_MAX: usize = 1024;

/// Limits of [`receive`].
#[derive(Default)]
pub struct ReceivePlan {
    /// End after this many different bundles.
    pub count: Option<u64>,
    /// End when this file is complete.
    pub file: Option<PiecedFile>,
    /// End if nothing arrives for this time.
    pub timeout: Option<Duration>,
}

/// Receives until a limit is reached or `stop` is set; `say` gets an event for each bundle.
///
/// # Errors
/// If the node is gone, or a piece of the file cannot be used, or the time was over before the count or the file was
/// complete.
pub fn receive(
    receiver: &mut dyn BundleReceiver,
    plan: &mut ReceivePlan,
    stop: &AtomicBool,
    say: &mut dyn FnMut(AppEvent),
) -> Result<()> {
    let (mut seen, mut bundles, mut latest) = (SeenBundles::default(), 0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let complete = plan.file.as_ref().is_some_and(PiecedFile::is_complete);
        if complete || plan.count.is_some_and(|count| bundles >= count) {
            return Ok(());
        }
        if plan.timeout.is_some_and(|timeout| latest.elapsed() >= timeout) {
            return plan.timed_out(bundles);
        }
        let left = plan.timeout.map_or(ATTENTION, |timeout| timeout.saturating_sub(latest.elapsed()));
        let Some(delivered) = receiver.receive(left.min(ATTENTION))? else { continue };
        latest = Instant::now();
        let stamp = Stamp::read(&delivered.bytes);
        let again = stamp.is_some_and(|stamp| !seen.add(stamp));
        let bytes = delivered.bytes.len() as u64;
        say(AppEvent::Delivered { stamp, at_ns: delivered.at_ns, bytes, again });
        bundles += u64::from(!again);
        if let Some(file) = &mut plan.file {
            file.add(&delivered.bytes)?;
        }
    }
    Ok(())
}

impl ReceivePlan {
    fn timed_out(&self, bundles: u64) -> Result<()> {
        let waited = self.timeout.unwrap_or_default().as_secs_f64();
        match self.count {
            Some(count) => bail!(
                "{bundles} of {count} bundles received, then nothing for {waited} s\nhint: use a longer --timeout"
            ),
            None if self.file.is_some() => bail!(
                "the file is incomplete after {bundles} bundles, then nothing for {waited} s\n\
                 hint: use a longer --timeout"
            ),
            None => Ok(()),
        }
    }
}

/// Bundles received so far, by flow and number.
#[derive(Default)]
struct SeenBundles {
    flows: BTreeMap<u64, Ranges>,
}

impl SeenBundles {
    /// Adds a bundle; returns whether it is new. Bundles of too many flows all count as new.
    fn add(&mut self, stamp: Stamp) -> bool {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&stamp.flow) {
            return true;
        }
        // For the number `u64::MAX` the range is empty, so that it counts as known; no sender gets that far.
        self.flows.entry(stamp.flow).or_default().add(stamp.number..stamp.number.saturating_add(1)) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeliveredPayload;
    use super::super::send::tests::Kept;
    use super::super::send::{SendLoad, SendPlan, send};
    use super::super::stamp::filler;
    use super::*;
    use crate::file::SendPace;

    /// Receiver that returns these payloads, one for each call.
    struct Given(std::vec::IntoIter<Vec<u8>>);
    impl BundleReceiver for Given {
        fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
            let payload = self.0.next();
            if payload.is_none() {
                std::thread::sleep(wait);
            }
            Ok(payload.map(|bytes| DeliveredPayload::now(None, bytes)))
        }
    }

    fn payloads(flow: u64, load: SendLoad) -> Vec<Vec<u8>> {
        let mut sender = Kept::default();
        let plan = SendPlan { to: "ipn:2.1".into(), flow, load, pace: SendPace::Flat };
        send(&mut sender, &plan, &AtomicBool::new(false), &mut drop).unwrap();
        sender.payloads.lock().unwrap().clone()
    }

    fn received(payloads: Vec<Vec<u8>>, mut plan: ReceivePlan) -> (Result<()>, Vec<AppEvent>) {
        let mut events = Vec::new();
        let mut receiver = Given(payloads.into_iter());
        let result = receive(&mut receiver, &mut plan, &AtomicBool::new(false), &mut |event| events.push(event));
        (result, events)
    }

    #[test]
    fn identity_survives_the_round_trip() {
        let mut all = payloads(3, SendLoad::Count { count: 3, size: 100 });
        all.extend([all[1].clone(), b"no stamp".to_vec()]);
        all.extend(payloads(4, SendLoad::Count { count: 1, size: 100 }));
        let (result, events) = received(all, ReceivePlan { count: Some(5), ..ReceivePlan::default() });
        result.unwrap();
        let told: Vec<(Option<(u64, u64)>, bool)> = events
            .iter()
            .map(|event| match event {
                AppEvent::Delivered { stamp, at_ns, again, .. } => {
                    assert!(stamp.is_none_or(|stamp| stamp.sent_ns <= *at_ns));
                    (stamp.map(|stamp| (stamp.flow, stamp.number)), *again)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [(Some((3, 0)), false), (Some((3, 1)), false), (Some((3, 2)), false), (Some((3, 1)), true)];
        assert_eq!(told[..4], expected);
        assert_eq!(told[4..], [(None, false), (Some((4, 0)), false)]);
    }

    #[test]
    fn file_ends_the_reception() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, filler(5000)).unwrap();
        let mut pieces = payloads(1, SendLoad::file(&from, 1000).unwrap());
        pieces.reverse();
        pieces.insert(2, pieces[0].clone());
        let file = Some(PiecedFile::create(&to, 5000).unwrap());
        let (result, events) = received(pieces.clone(), ReceivePlan { file, ..ReceivePlan::default() });
        result.unwrap();
        assert_eq!((events.len(), std::fs::read(&to).unwrap()), (7, filler(5000)));
        pieces.pop();
        let file = Some(PiecedFile::create(&to, 5000).unwrap());
        let plan = ReceivePlan { file, timeout: Some(Duration::from_millis(20)), ..ReceivePlan::default() };
        let why = received(pieces, plan).0.unwrap_err().to_string();
        assert!(why.contains("incomplete after 5 bundles, then nothing for 0.02 s\nhint: "), "{why}");
    }

    #[test]
    fn timeout_without_limits_is_success() {
        let timeout = Some(Duration::from_millis(20));
        let (result, events) = received(vec![vec![1]], ReceivePlan { timeout, ..ReceivePlan::default() });
        assert!(result.is_ok() && events.len() == 1);
        let plan = ReceivePlan { timeout, count: Some(2), ..ReceivePlan::default() };
        let why = received(vec![vec![1]], plan).0.unwrap_err().to_string();
        assert!(why.starts_with("1 of 2 bundles received, then nothing for 0.02 s\nhint: "), "{why}");
    }

    #[test]
    fn flows_beyond_the_bound_are_new() {
        let mut seen = SeenBundles::default();
        for flow in 0..FLOWS_MAX as u64 + 9 {
            assert!(seen.add(Stamp { flow, number: 0, sent_ns: 0 }));
        }
        assert_eq!(seen.flows.len(), FLOWS_MAX);
        assert!(!seen.add(Stamp { flow: 5, number: 0, sent_ns: 0 }));
        assert!(seen.add(Stamp { flow: FLOWS_MAX as u64 + 5, number: 0, sent_ns: 0 }));
    }
}

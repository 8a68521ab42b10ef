//! Sending bundles or a file: `farlink app send`.

use super::event::AppEvent;
use super::stamp::{PIECE_STAMP, Stamp, filler, write_offset};
use super::{ATTENTION, BundleSender};
use crate::file::SendPace;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Payloads to send.
#[derive(Debug)]
pub enum SendLoad {
    /// Bundles with payloads of these lengths, bytes.
    Sizes(Vec<u64>),
    /// Bundles of one length.
    Count {
        /// Number of bundles.
        count: u64,
        /// Payload bytes of each.
        size: u64,
    },
    /// A file in pieces.
    File {
        /// The file, opened.
        file: File,
        /// Its length, bytes.
        length: u64,
        /// Payload bytes of each bundle; the first [`PIECE_STAMP`] are stamp and offset, the others are bytes of the
        /// file.
        bundle: u64,
    },
}

impl SendLoad {
    /// Opens a file to send.
    ///
    /// # Errors
    /// If it is not a file that can be read.
    pub fn file(path: &Path, bundle: u64) -> std::io::Result<SendLoad> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("is not a file"));
        }
        Ok(SendLoad::File { file, length: metadata.len(), bundle })
    }
    /// Number of bundles.
    pub fn bundles(&self) -> u64 {
        match self {
            SendLoad::Sizes(sizes) => sizes.len() as u64,
            SendLoad::Count { count, .. } => *count,
            // An empty file takes one bundle, too.
            SendLoad::File { length, .. } => length.div_ceil(self.piece()).max(1),
        }
    }
    /// Bytes of a file in each bundle.
    fn piece(&self) -> u64 {
        match self {
            SendLoad::File { bundle, .. } => bundle.saturating_sub(PIECE_STAMP as u64).max(1),
            _ => 0,
        }
    }
    /// Payload of a bundle, without its stamp.
    fn payload(&self, number: u64, pattern: &mut Vec<u8>) -> Result<Vec<u8>> {
        let size = match self {
            SendLoad::Sizes(sizes) => *sizes.get(number as usize).context("no size for this bundle")?,
            SendLoad::Count { size, .. } => *size,
            SendLoad::File { file, length, .. } => {
                let offset = number * self.piece();
                let mut payload = vec![0; PIECE_STAMP + self.piece().min(length.saturating_sub(offset)) as usize];
                write_offset(&mut payload, offset);
                file.read_exact_at(&mut payload[PIECE_STAMP..], offset).context("the file became shorter")?;
                return Ok(payload);
            }
        };
        let size = usize::try_from(size)?;
        // The filler is computed once, as computing it for each bundle would slow the sender down.
        if pattern.len() < size {
            *pattern = filler(size);
        }
        Ok(pattern[..size].to_vec())
    }
}

/// Parameters of [`send`].
#[derive(Debug)]
pub struct SendPlan {
    /// Destination endpoint ID.
    pub to: String,
    /// Number of the flow, in the stamps.
    pub flow: u64,
    /// Payloads.
    pub load: SendLoad,
    /// Pace of handing over.
    pub pace: SendPace,
}

/// Sends everything; `say` gets an event for each bundle handed over, and one at the end.
///
/// # Errors
/// If the node refuses a bundle or is gone, or `stop` was set before the end.
pub fn send(
    sender: &mut dyn BundleSender,
    plan: &SendPlan,
    stop: &AtomicBool,
    say: &mut dyn FnMut(AppEvent),
) -> Result<()> {
    let (mut bytes, mut pattern, bundles) = (0, Vec::new(), plan.load.bundles());
    let begun = Instant::now();
    for number in 0..bundles {
        let mut payload = plan.load.payload(number, &mut pattern)?;
        wait_until(begun + plan.pace.due(number, bytes).min(FOREVER), stop);
        ensure!(!stop.load(Ordering::Relaxed), "stopped after {number} of {bundles} bundles");
        sender.room()?;
        let (length, at_ns) = (payload.len() as u64, farlink_os::monotonic_ns());
        Stamp { flow: plan.flow, number, sent_ns: at_ns }.write(&mut payload);
        sender.hand_over(&plan.to, payload).with_context(|| format!("bundle {number} of {length} B"))?;
        say(AppEvent::Created { flow: plan.flow, number, at_ns, bytes: length });
        bytes += length;
    }
    sender.finish()?;
    say(AppEvent::Sent { bundles, bytes, own: false });
    Ok(())
}

/// Bound of durations added to an `Instant`, against overflow.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// Waits until a time, or until `stop` is set.
pub(super) fn wait_until(due: Instant, stop: &AtomicBool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(ATTENTION));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use farlink_base::DataRate;
    use std::sync::{Arc, Mutex};

    /// Sender that keeps all payloads, and refuses the bundle with index `refuses`.
    #[derive(Default)]
    pub struct Kept {
        pub payloads: Arc<Mutex<Vec<Vec<u8>>>>,
        pub refuses: Option<usize>,
    }
    impl BundleSender for Kept {
        fn room(&mut self) -> Result<()> {
            Ok(())
        }
        fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
            let mut payloads = self.payloads.lock().unwrap();
            ensure!(self.refuses != Some(payloads.len()), "{to} is unknown");
            payloads.push(payload);
            Ok(())
        }
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn sent(load: SendLoad, sender: &mut Kept, pace: SendPace) -> (Result<()>, Vec<AppEvent>) {
        let plan = SendPlan { to: "ipn:2.1".into(), flow: 9, load, pace };
        let mut events = Vec::new();
        let result = send(sender, &plan, &AtomicBool::new(false), &mut |event| events.push(event));
        (result, events)
    }

    #[test]
    fn bundles_carry_flow_number_time() {
        let mut sender = Kept::default();
        let (result, events) = sent(SendLoad::Sizes(vec![24, 1, 1000]), &mut sender, SendPace::Flat);
        result.unwrap();
        let payloads = sender.payloads.lock().unwrap();
        assert_eq!(payloads.iter().map(Vec::len).collect::<Vec<_>>(), [24, 1, 1000]);
        assert_eq!(events.len(), 4);
        for (number, payload) in payloads.iter().enumerate() {
            let AppEvent::Created { flow: 9, number: told, at_ns, bytes } = events[number] else {
                panic!("{events:?}")
            };
            assert_eq!((told, bytes), (number as u64, payload.len() as u64));
            let stamp = Stamp { flow: 9, number: told, sent_ns: at_ns };
            assert_eq!(Stamp::read(payload), (payload.len() >= 24).then_some(stamp));
        }
        assert_eq!(events[3], AppEvent::Sent { bundles: 3, bytes: 1025, own: false });
    }

    #[test]
    fn file_is_cut_into_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (length, bundles) in [(0, 1), (68, 1), (69, 2), (500, 8)] {
            std::fs::write(&path, filler(length)).unwrap();
            let mut sender = Kept::default();
            let (result, events) = sent(SendLoad::file(&path, 100).unwrap(), &mut sender, SendPace::Flat);
            result.unwrap();
            assert_eq!(events.len(), bundles + 1);
            let mut joined = vec![0; length];
            for payload in sender.payloads.lock().unwrap().iter() {
                assert!(payload.len() <= 100);
                let (offset, piece) = super::super::stamp::read_piece(payload).unwrap();
                joined[offset as usize..][..piece.len()].copy_from_slice(piece);
            }
            assert_eq!(joined, filler(length));
        }
        assert!(SendLoad::file(folder.path(), 100).is_err() && SendLoad::file(&path.join("x"), 100).is_err());
    }

    #[test]
    fn refusals_name_the_bundle() {
        let mut sender = Kept { refuses: Some(1), ..Kept::default() };
        let (result, events) = sent(SendLoad::Count { count: 3, size: 30 }, &mut sender, SendPace::Flat);
        assert_eq!(format!("{:#}", result.unwrap_err()), "bundle 1 of 30 B: ipn:2.1 is unknown");
        assert_eq!(events.len(), 1);
    }

    #[test]
    fn pace_spreads_the_bundles() {
        let paces = [SendPace::Rate(DataRate(80_000)), SendPace::Interval(Duration::from_millis(10))];
        for pace in paces {
            let mut sender = Kept::default();
            // 100 B at 80 kbit/s: 10 ms each.
            let (result, events) = sent(SendLoad::Count { count: 6, size: 100 }, &mut sender, pace);
            result.unwrap();
            let times: Vec<u64> = events
                .iter()
                .filter_map(|event| match event {
                    AppEvent::Created { at_ns, .. } => Some(*at_ns),
                    _ => None,
                })
                .collect();
            assert!(times[5] - times[0] >= 49_000_000, "{pace:?} {times:?}");
        }
    }

    #[test]
    fn stop_ends_a_paced_sender() {
        let plan = SendPlan {
            to: "ipn:2.1".into(),
            flow: 1,
            load: SendLoad::Count { count: 2, size: 100 },
            pace: SendPace::Interval(Duration::MAX),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopper = Arc::clone(&stop);
        let mut say = |_| stopper.store(true, Ordering::Relaxed);
        let why = send(&mut Kept::default(), &plan, &stop, &mut say).unwrap_err().to_string();
        assert_eq!(why, "stopped after 1 of 2 bundles");
    }
}

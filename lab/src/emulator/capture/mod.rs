//! Captures of links: every frame that either host sends or receives, in a pcapng file. An ordinary thread writes all
//! files, behind bounded queues, so that a capture never delays a link; frames that find no room are counted.

mod pcapng;

use super::frame_queue::{FrameReader, FrameWriter, frame_queue};
use super::observer::FrameObserver;
use farlink_os::packet::VNET_HEADER;
use farlink_os::{monotonic_ns, realtime_ns};
use farlink_scenario::CAPTURES_MAX;
use pcapng::{PacketSide, PcapngWriter};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

// Most bytes of all queues together, and of one queue. A scenario has no more captures than leave each queue room for
// several super-packets (64 KiB).
const QUEUES: usize = 256 << 20;
const QUEUE: usize = 8 << 20;
const _: () = assert!(QUEUES / (4 * CAPTURES_MAX) >= 256 << 10);
// Pause of the writer, which polls: waking it would be work for the link's thread.
const PAUSE: Duration = Duration::from_millis(5);
// Time for which a frame waits for earlier frames of other queues.
const PATIENCE_NS: u64 = 50_000_000;

/// Link to capture, and the file for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureSetup {
    /// Number of the link.
    pub link: usize,
    /// File to write.
    pub path: PathBuf,
    /// Names of the link's two interfaces: that of the first host, then that of the second.
    pub interfaces: [String; 2],
}

/// Result of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// Number of the link.
    pub link: usize,
    /// Number of frames written.
    pub frames: u64,
    /// Number of frames that found no room in a queue, or that could not be written.
    pub missed: u64,
    /// Failure that ended the capture early.
    pub failure: Option<String>,
}

impl CaptureSummary {
    /// Warning about frames that the capture lacks; `None` if it is complete.
    pub fn doubt(&self) -> Option<String> {
        let all = self.frames + self.missed;
        match &self.failure {
            Some(failure) => Some(format!("its capture ended early, after {} of {all} frames: {failure}", self.frames)),
            None if self.missed > 0 => Some(format!("its capture lacks {} of {all} frames", self.missed)),
            None => None,
        }
    }
}

/// All captures of an emulator, and the thread that writes them.
#[derive(Debug)]
pub struct Captures {
    files: Vec<CaptureFile>,
    queue_bytes: usize,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<CaptureSummary>>>,
}

impl Captures {
    /// Prepares for `count` captures, among whose queues the memory is divided.
    pub fn new(count: usize) -> Captures {
        // Each capture has four queues: both directions, at both ends. A queue's length is a power of two.
        let share = (QUEUES / (count.max(1) * 4)).min(QUEUE);
        let queue_bytes = 1 << share.checked_ilog2().unwrap_or(0);
        Captures { files: Vec::new(), queue_bytes, ending: Arc::default(), thread: None }
    }

    /// Adds a link; returns the observers of its forward and its reverse direction.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn add(&mut self, setup: &CaptureSetup) -> io::Result<[Box<dyn FrameObserver>; 2]> {
        let (file, observers) = CaptureFile::create(setup, self.queue_bytes)?;
        self.files.push(file);
        Ok(observers.map(|observer| Box::new(observer) as Box<dyn FrameObserver>))
    }

    /// Starts the writing thread, unless there is nothing to capture.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let (mut files, ending) = (std::mem::take(&mut self.files), Arc::clone(&self.ending));
        let write = move || {
            loop {
                // Read before the queues are emptied for the last time, so that no frame stays in one.
                let last = ending.load(Ordering::Acquire);
                let until = if last { u64::MAX } else { monotonic_ns().saturating_sub(PATIENCE_NS) };
                files.iter_mut().for_each(|file| file.write_until(until));
                if last {
                    return files.into_iter().map(CaptureFile::end).collect();
                }
                std::thread::sleep(PAUSE);
            }
        };
        self.thread = Some(std::thread::Builder::new().name("captures".into()).spawn(write)?);
        Ok(())
    }

    /// Writes the remaining frames and returns the results. Call it after the links have stopped.
    pub fn finish(&mut self) -> Vec<CaptureSummary> {
        self.ending.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Observer that copies the frames of one direction into the queues of its capture.
struct CaptureObserver {
    sent: FrameWriter,
    handed_over: FrameWriter,
}

impl FrameObserver for CaptureObserver {
    fn sent(&mut self, at_ns: u64, frame: &[u8]) {
        self.sent.push(at_ns, &frame[VNET_HEADER.min(frame.len())..]);
    }
    fn handed_over(&mut self, begin_ns: u64, _: u64, frame: &[u8]) {
        // The begin of the hand-over, since an acknowledgment may leave the host before the kernel returns.
        self.handed_over.push(begin_ns, &frame[VNET_HEADER.min(frame.len())..]);
    }
}

/// Capture file being written.
#[derive(Debug)]
struct CaptureFile {
    link: usize,
    writer: PcapngWriter<BufWriter<File>>,
    /// Queues, each in order of time, with the interface and side of their frames.
    queues: [(FrameReader, u32, PacketSide); 4],
    /// Unix time at monotonic time 0, in ns.
    unix_ns: u64,
    frame: Vec<u8>,
    /// Number of frames written for each interface.
    frames: [u64; 2],
    unwritten: u64,
    failure: Option<String>,
}

impl CaptureFile {
    fn create(setup: &CaptureSetup, queue_bytes: usize) -> io::Result<(CaptureFile, [CaptureObserver; 2])> {
        let here = |error: io::Error| farlink_os::context(error, &format!("capturing to {}", setup.path.display()));
        let folder = setup.path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = folder.and_then(|()| File::create(&setup.path)).map_err(here)?;
        let comment = format!("link between {} and {}", setup.interfaces[0], setup.interfaces[1]);
        let writer = PcapngWriter::new(BufWriter::with_capacity(1 << 20, file), &comment, &setup.interfaces);
        let queue = || frame_queue(queue_bytes);
        let [(sent_0, out_0), (sent_1, out_1), (got_0, in_0), (got_1, in_1)] = std::array::from_fn(|_| queue());
        let queues = [
            (out_0, 0, PacketSide::Outbound),
            (out_1, 1, PacketSide::Outbound),
            (in_0, 0, PacketSide::Inbound),
            (in_1, 1, PacketSide::Inbound),
        ];
        // The forward direction ends at the second host.
        let forward = CaptureObserver { sent: sent_0, handed_over: got_1 };
        let reverse = CaptureObserver { sent: sent_1, handed_over: got_0 };
        let file = CaptureFile {
            link: setup.link,
            writer: writer.map_err(here)?,
            queues,
            unix_ns: realtime_ns().saturating_sub(monotonic_ns()),
            frame: Vec::new(),
            frames: [0; 2],
            unwritten: 0,
            failure: None,
        };
        Ok((file, [forward, reverse]))
    }

    /// Writes frames in order of time. While all four queues have a frame, the earliest is written. Once a queue is
    /// empty, only frames before `until` (monotonic, ns) are written: an earlier frame may still come in that queue.
    fn write_until(&mut self, until: u64) {
        loop {
            let waits = self.queues.iter().map(|(queue, ..)| queue.next_at());
            let all = waits.clone().all(|at| at.is_some());
            let first = waits.enumerate().filter_map(|(index, at)| Some((at?, index))).min();
            let Some((at, index)) = first.filter(|(at, _)| all || *at < until) else { return };
            let (queue, interface, side) = &mut self.queues[index];
            queue.pop(&mut self.frame);
            if self.failure.is_some() {
                self.unwritten += 1;
                continue;
            }
            match self.writer.packet(*interface, self.unix_ns.saturating_add(at), *side, &self.frame) {
                Ok(()) => self.frames[*interface as usize] += 1,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    self.unwritten += 1;
                }
            }
        }
    }

    fn end(mut self) -> CaptureSummary {
        let missed_at = |interface: u32| {
            let here = self.queues.iter().filter(|queue| queue.1 == interface);
            here.map(|(queue, ..)| queue.missed()).sum::<u64>()
        };
        let missed = [0, 1].map(missed_at);
        let now = self.unix_ns + monotonic_ns();
        let mut ended = Ok(());
        for interface in [0, 1] {
            let at = interface as usize;
            let seen = self.frames[at] + missed[at];
            ended = ended.and_then(|()| self.writer.statistics(interface, now, seen, missed[at]));
        }
        let ended = ended.and_then(|()| self.writer.flush());
        CaptureSummary {
            link: self.link,
            frames: self.frames.iter().sum(),
            missed: missed.iter().sum::<u64>() + self.unwritten,
            failure: self.failure.or(ended.err().map(|error| error.to_string())),
        }
    }
}

/// Path of a link's capture in a run's folder.
pub fn file_in(run: &Path, name: &str) -> PathBuf {
    run.join("captures").join(format!("{name}.pcapng"))
}

#[cfg(test)]
mod tests {
    use super::pcapng::tests::packets;
    use super::*;

    fn setup(path: PathBuf) -> CaptureSetup {
        CaptureSetup { link: 3, path, interfaces: ["a".into(), "b".into()] }
    }

    fn frame(number: u8) -> Vec<u8> {
        let mut frame = vec![0xff; VNET_HEADER];
        frame.extend([number; 60]);
        frame
    }

    #[test]
    fn capture_orders_both_directions_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l.pcapng");
        let mut captures = Captures::new(1);
        let [mut forward, mut reverse] = captures.add(&setup(path.clone())).unwrap();
        forward.sent(1000, &frame(1));
        forward.handed_over(5000, 5500, &frame(1));
        reverse.sent(2000, &frame(2));
        reverse.handed_over(6000, 6500, &frame(2));
        forward.sent(3000, &frame(3));
        captures.begin().unwrap();
        let expected = CaptureSummary { link: 3, frames: 5, missed: 0, failure: None };
        assert_eq!(captures.finish(), [expected]);
        let packets = packets(&std::fs::read(path).unwrap());
        let seen: Vec<_> = packets.iter().map(|p| (p.0, p.2, p.3[0], p.1 - packets[0].1)).collect();
        assert_eq!(seen, [(0, 2, 1, 0), (1, 2, 2, 1000), (0, 2, 3, 2000), (1, 1, 1, 4000), (0, 1, 2, 5000)]);
        assert!(packets.iter().all(|packet| packet.3.len() == 60), "without the virtio-net header");
    }

    #[test]
    fn queues_stay_within_their_memory() {
        for count in [1, 8, 9, 33, 255, CAPTURES_MAX, 300, 100_000] {
            // `frame_queue` rounds up to a power of two.
            let queue = Captures::new(count).queue_bytes.next_power_of_two();
            assert!(4 * count * queue <= QUEUES && queue > 0, "{count} captures with queues of {queue} B");
        }
    }

    #[test]
    fn full_queue_is_counted_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut captures = Captures::new(CAPTURES_MAX);
        let [mut forward, _reverse] = captures.add(&setup(folder.path().join("l.pcapng"))).unwrap();
        // The writer does not run yet, as if it never got a processor.
        let sent = 2 * captures.queue_bytes / frame(0).len();
        (0..sent).for_each(|number| forward.sent(number as u64, &frame(number as u8)));
        captures.begin().unwrap();
        let summary = &captures.finish()[0];
        assert_eq!(summary.frames + summary.missed, sent as u64);
        assert!(summary.missed > 0 && summary.failure.is_none(), "{summary:?}");
    }

    #[test]
    fn full_disk_ends_the_capture_only() {
        let mut captures = Captures::new(1);
        let Ok([mut forward, _reverse]) = captures.add(&setup("/dev/full".into())) else {
            println!("skipped: no /dev/full");
            return;
        };
        captures.begin().unwrap();
        (0..40_000).for_each(|number| forward.sent(number, &frame(1)));
        let summary = &captures.finish()[0];
        assert!(summary.failure.is_some() && summary.missed > 0, "{summary:?}");
    }
}

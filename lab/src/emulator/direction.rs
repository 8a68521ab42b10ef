//! One direction of a link: a thread that receives frames at one port, passes each wire packet to the link model, and
//! hands them over at the other port when they are due.

use super::frame::{self, Frame};
use super::lateness::Lateness;
use super::pending::{DueFrame, Pending};
use super::port::{Intake, Port};
use farlink_base::Instant;
use farlink_link::{DirectionSpec, LinkDirection, PacketFate, Statistics};
use farlink_os::packet::BATCH;
use farlink_os::{monotonic_ns, schedule};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

// Wire packets of one super-packet that arrive within this time are delivered together. It matches
// the emulator's own precision, and the behaviour of interfaces that coalesce.
const GRAIN_NS: u64 = 200_000;
// Waits shorter than this are spun, because sleeping would take longer.
const SPIN_NS: u64 = 3_000;
// Wait after the host's interface had no room.
const RETRY_NS: u64 = 20_000;
// Wait after the host's interface was found to be down.
const DOWN_WAIT: Duration = Duration::from_millis(2);
/// Real-time priority: above ordinary programs, below the kernel's own threads.
pub const PRIORITY: i32 = 50;

/// Parameters of a direction.
#[derive(Clone, Debug)]
pub struct DirectionSetup {
    /// Number of the link, for samples.
    pub link: usize,
    /// Whether this is the link's forward direction.
    pub forward: bool,
    /// Parameters of the link model.
    pub spec: DirectionSpec,
    /// Seed of the link model's random decisions.
    pub seed: u64,
    /// Time between samples.
    pub interval: Duration,
}

/// Counters of one direction at one time.
#[derive(Clone, Debug)]
pub struct DirectionSample {
    /// Number of the link.
    pub link: usize,
    /// Whether this is the link's forward direction.
    pub forward: bool,
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Whether the direction may transmit.
    pub up: bool,
    /// Counters of the link model.
    pub statistics: Statistics,
    /// Bytes waiting for transmission.
    pub queued_bytes: u64,
    /// Bytes handed over to the far host, IP headers included.
    pub handed_over_bytes: u64,
    /// Number of frames ignored because they are not unicast IP.
    pub ignored: u64,
    /// Packets lost by the emulator, not by the link model, plus link openings that it missed.
    pub own_losses: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Delay of all frames beyond their due time.
    pub lateness: Lateness,
    /// Processor time of the thread.
    pub cpu: Duration,
    /// Whether the thread has real-time scheduling.
    pub real_time: bool,
}

/// State of a direction that other threads read without a lock.
#[derive(Debug)]
pub struct DirectionState {
    /// Whether the direction may transmit now or within the notice time.
    pub up: AtomicBool,
    /// Monotonic nanoseconds at which everything in flight has arrived.
    pub drained_ns: AtomicU64,
    /// Monotonic nanoseconds of the next opening, or of the last one if it is open.
    pub opens_ns: AtomicU64,
    /// Openings at which the carrier came too late; the host dropped packets sent before it.
    pub missed: AtomicU64,
}

impl DirectionState {
    /// State of a direction that is up from the start.
    pub fn new() -> DirectionState {
        DirectionState {
            up: AtomicBool::new(true),
            drained_ns: AtomicU64::new(0),
            opens_ns: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }
    /// Records that the carrier is up from now on, and counts an opening it missed.
    pub fn carrier_up(&self, now_ns: u64) {
        let late = self.up.load(Ordering::Relaxed) && now_ns > self.opens_ns.load(Ordering::Relaxed);
        self.missed.fetch_add(u64::from(late), Ordering::Relaxed);
    }
}

// Notice before a link opens, so that the carrier is up in time.
const NOTICE: Duration = Duration::from_millis(50);

pub struct Direction {
    setup: DirectionSetup,
    /// Monotonic nanoseconds of the run's start; packets sent earlier wait for it.
    start_ns: u64,
    link: LinkDirection,
    from: Arc<Port>,
    to: Arc<Port>,
    pending: Pending,
    due: Vec<DueFrame>,
    verdicts: Vec<PacketFate>,
    lateness: Lateness,
    shared: Arc<DirectionState>,
    ignored: u64,
    own_losses: u64,
    handed_over_bytes: u64,
    corruptions: u64,
    real_time: bool,
    /// Model time up to which all packets were taken; it never goes back.
    model_now: Instant,
}

impl Direction {
    pub fn new(setup: DirectionSetup, from: Arc<Port>, to: Arc<Port>, shared: Arc<DirectionState>) -> io::Result<Self> {
        let (capacity, populated) = memory_for(&setup.spec);
        Ok(Direction {
            link: LinkDirection::new(setup.spec.clone(), setup.seed),
            pending: Pending::new(capacity, populated)?,
            setup,
            start_ns: 0,
            from,
            to,
            due: Vec::with_capacity(BATCH),
            verdicts: Vec::with_capacity(64),
            lateness: Lateness::default(),
            shared,
            ignored: 0,
            own_losses: 0,
            handed_over_bytes: 0,
            corruptions: 0,
            real_time: false,
            model_now: Instant::ZERO,
        })
    }

    /// Runs until `stop`, with model time 0 at `start_ns`. Drops `starting` once it receives packets. A sample goes to
    /// `samples` each interval and at the end.
    pub fn run(
        mut self,
        start_ns: u64,
        starting: Sender<Infallible>,
        stop: &AtomicBool,
        samples: &Sender<DirectionSample>,
    ) -> io::Result<()> {
        self.start_ns = start_ns;
        let _ = schedule::set_timer_slack(1);
        self.real_time = schedule::set_real_time(PRIORITY).is_ok();
        if !self.real_time {
            let _ = schedule::set_nice(-10);
        }
        let mut intake = Intake::default();
        let interval = self.setup.interval.as_nanos() as u64;
        let mut next_sample = self.start_ns;
        drop(starting);
        while !stop.load(Ordering::Relaxed) {
            let retry = self.hand_over()?;
            let from = Arc::clone(&self.from);
            let before = monotonic_ns();
            let taken = match intake.receive(&from, |bytes, sent_ns| self.take(sent_ns, bytes)) {
                Ok(taken) => taken,
                Err(e) if interface_down(&e) => {
                    // A socket of an interface that is down is readable at once, so polling would
                    // spin.
                    std::thread::sleep(DOWN_WAIT);
                    0
                }
                Err(e) => return Err(e),
            };
            // A partial batch means that everything sent before has been taken, so model time may
            // advance.
            if taken < BATCH {
                self.model_now = self.model_now.max(self.instant(before));
            }
            let now = monotonic_ns();
            if now >= next_sample {
                next_sample += interval * ((now - next_sample) / interval + 1);
                self.publish();
                let _ = samples.send(self.sample(now));
            }
            if taken == 0 {
                self.sleep(next_sample, retry)?;
            }
        }
        let _ = samples.send(self.sample(monotonic_ns()));
        Ok(())
    }

    /// Converts monotonic time to model time: nanoseconds since the start, never negative.
    fn instant(&self, ns: u64) -> Instant {
        Instant(ns.saturating_sub(self.start_ns))
    }

    /// Passes each wire packet of a frame to the model, and stores those that arrive until they are due. The model gets
    /// the time at which the frame was sent, not read: a read delay below the link's delay has no effect.
    fn take(&mut self, sent_ns: u64, bytes: &[u8]) {
        self.model_now = self.model_now.max(self.instant(sent_ns));
        let now = self.model_now;
        // Frames other than unicast IP neither use the link nor count as losses.
        let Some(frame) = Frame::read(bytes) else {
            self.ignored += 1;
            return;
        };
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        self.link.transmit_segments(now, frame.packet_bytes(), |verdict| verdicts.push(verdict));
        let mut first = 0;
        while first < verdicts.len() {
            let last = run_end(&verdicts, first);
            for delivery in verdicts[last - 1].deliveries() {
                self.keep(&frame, first, last, delivery.at.0, delivery.corrupted);
            }
            first = last;
        }
        self.verdicts = verdicts;
    }

    fn keep(&mut self, frame: &Frame<'_>, first: usize, last: usize, at: u64, corrupted: bool) {
        let at = at.saturating_add(self.start_ns);
        self.corruptions += u64::from(corrupted);
        let choice = self.corruptions.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let kept = self.pending.push(at, frame.run_length(first, last), |out| {
            frame.write_run(first, last, out);
            if corrupted {
                frame::corrupt(out, choice);
            }
        });
        if !kept {
            // A lack of memory must not look like a loss of the link model.
            self.own_losses += (last - first) as u64;
        }
    }

    /// Hands over frames that are due; returns whether the host's interface had no room.
    fn hand_over(&mut self) -> io::Result<bool> {
        loop {
            let now = monotonic_ns();
            self.pending.take_due(now, BATCH, &mut self.due);
            // Nothing is due yet, so the host had room for everything.
            if self.due.is_empty() {
                return Ok(false);
            }
            let mut frames = [&[][..]; BATCH];
            for (slot, due) in frames.iter_mut().zip(&self.due) {
                *slot = self.pending.bytes_of(*due);
            }
            let sent = match self.to.send(&frames[..self.due.len()]) {
                Ok(sent) => sent,
                Err(e) if no_room(&e) => return Ok(true),
                Err(e) if interface_down(&e) || e.kind() == io::ErrorKind::InvalidInput => {
                    self.own_losses += 1;
                    self.finish(1);
                    continue;
                }
                Err(e) => return Err(e),
            };
            for due in &self.due[..sent] {
                self.lateness.add(now.saturating_sub(due.at));
            }
            self.handed_over_bytes +=
                frames[..sent].iter().map(|f| f.len().saturating_sub(super::FRAME_OVERHEAD) as u64).sum::<u64>();
            self.finish(sent);
        }
    }

    fn finish(&mut self, count: usize) {
        for due in self.due.drain(..count) {
            self.pending.release(due);
        }
    }

    fn sleep(&self, next_sample: u64, retry: bool) -> io::Result<()> {
        let now = monotonic_ns();
        let due = if retry { Some(now + RETRY_NS) } else { self.pending.next().map(|d| d.at) };
        let until = due.unwrap_or(u64::MAX).min(next_sample);
        if until > now + SPIN_NS {
            schedule::wait_readable(&[self.from.fd()], Some(until))?;
        }
        Ok(())
    }

    fn publish(&mut self) {
        let now = self.model_now;
        let opens = if self.link.is_up(now) { now } else { self.link.next_change(now) };
        let up = opens <= now + NOTICE + self.setup.interval;
        if up && !self.shared.up.load(Ordering::Relaxed) {
            self.shared.opens_ns.store(opens.0.saturating_add(self.start_ns), Ordering::Relaxed);
        }
        // Released after `opens_ns`, which the polling thread compares.
        self.shared.up.store(up, Ordering::Release);
        let drained = self.link.last_arrival().0.saturating_add(self.start_ns);
        self.shared.drained_ns.store(drained, Ordering::Relaxed);
    }

    fn sample(&mut self, now_ns: u64) -> DirectionSample {
        self.own_losses += self.from.take_drops() + self.shared.missed.swap(0, Ordering::Relaxed);
        let now = self.model_now;
        DirectionSample {
            link: self.setup.link,
            forward: self.setup.forward,
            at_ns: self.instant(now_ns).0,
            up: self.link.is_up(now),
            statistics: *self.link.statistics(),
            queued_bytes: self.link.queued_bytes(now),
            handed_over_bytes: self.handed_over_bytes,
            ignored: self.ignored,
            own_losses: self.own_losses,
            in_flight_bytes: self.pending.bytes() as u64,
            lateness: self.lateness.clone(),
            cpu: farlink_os::process::thread_cpu(),
            real_time: self.real_time,
        }
    }
}

/// End of the run of wire packets from `first` on that share their fate: all lost, or all arriving undamaged, once, in
/// order and nearly at once. A run arrives with its last packet.
fn run_end(verdicts: &[PacketFate], first: usize) -> usize {
    let plain = |v: &PacketFate| match v {
        PacketFate::Arrives(d) if !d.corrupted => Some(d.at.0),
        _ => None,
    };
    let Some(start) = plain(&verdicts[first]) else { return first + 1 };
    let mut before = start;
    let rest = verdicts[first + 1..].iter().take_while(|v| match plain(v) {
        Some(at) if at >= before && at - start <= GRAIN_NS => {
            before = at;
            true
        }
        _ => false,
    });
    first + 1 + rest.count()
}

/// Memory for packets in flight, and the part of it to have ready, in bytes. Rate times delay is ready; queue and
/// headers get memory when they need it. Bounded, because a laser link to Mars would need more memory than any machine
/// has.
fn memory_for(spec: &DirectionSpec) -> (usize, usize) {
    const LEAST: u64 = 16 << 20;
    const MOST: u64 = 2 << 30;
    const READY: u64 = 128 << 20;
    // Without a rate limit the bytes in flight are unknown, so the size is fixed.
    let Some(rate) = highest_rate(spec) else { return (256 << 20, LEAST as usize) };
    // Reordered and jittered packets stay in flight longer.
    let detour = spec.reorder.map_or(Duration::ZERO, |r| r.gap);
    let flight = spec.longest_delay() + spec.jitter.map_or(Duration::ZERO, |j| j.most) + detour;
    let flying = u64::try_from(u128::from(rate) * flight.as_nanos() / 8_000_000_000).unwrap_or(MOST);
    let bytes = flying.saturating_add(spec.queue_bytes());
    // Each packet needs 24 bytes of bookkeeping, which counts for small ones.
    let capacity = bytes.saturating_add(bytes / 2).clamp(LEAST, MOST);
    (capacity as usize, flying.min(READY) as usize)
}

fn highest_rate(spec: &DirectionSpec) -> Option<u64> {
    use farlink_link::Rate;
    let own = match &spec.rate {
        Rate::Unlimited => return None,
        Rate::Constant(rate) => rate.0,
        Rate::Steps(steps) => steps.iter().map(|(_, r)| r.0).max()?,
    };
    spec.windows.iter().flatten().filter_map(|w| w.rate).map(|r| r.0).chain([own]).max()
}

fn no_room(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS)
}

/// Whether the host's interface is down or gone: TAP reports EIO, packet sockets ENETDOWN or ENXIO.
fn interface_down(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EIO | ENXIO | ENETDOWN | EBADFD))
}

// Linux error numbers (asm-generic/errno.h).
const EIO: i32 = 5;
const ENXIO: i32 = 6;
const EBADFD: i32 = 77;
const ENETDOWN: i32 = 100;
const ENOBUFS: i32 = 105;

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataRate;
    use farlink_link::{DropReason, PacketArrival};

    fn at(ns: u64) -> PacketFate {
        PacketFate::Arrives(PacketArrival { at: Instant(ns), corrupted: false })
    }

    #[test]
    fn packet_runs_end_at_losses() {
        let lost = PacketFate::Dropped(DropReason::Loss);
        assert_eq!(run_end(&[at(1), at(1), at(1)], 0), 3);
        assert_eq!(run_end(&[at(1), lost, at(1)], 0), 1);
        assert_eq!(run_end(&[at(1), lost, at(1)], 1), 2);
        assert_eq!(run_end(&[at(1), at(GRAIN_NS), at(GRAIN_NS + 2)], 0), 2);
        assert_eq!(run_end(&[at(9), at(8)], 0), 1);
        let bad = PacketFate::Arrives(PacketArrival { at: Instant(1), corrupted: true });
        assert_eq!(run_end(&[at(1), bad, at(1)], 0), 1);
        assert_eq!(run_end(&[at(1), bad, at(1)], 1), 2);
    }

    #[test]
    fn late_carrier_counts_missed_opening() {
        let shared = DirectionState::new();
        let missed = || shared.missed.swap(0, Ordering::Relaxed);
        shared.opens_ns.store(1000, Ordering::Relaxed);
        shared.carrier_up(900);
        assert_eq!(missed(), 0, "in time");
        shared.carrier_up(1001);
        assert_eq!(missed(), 1);
        shared.up.store(false, Ordering::Relaxed);
        shared.carrier_up(1001);
        assert_eq!(missed(), 0, "the other direction opens");
    }

    #[test]
    fn memory_follows_rate_times_delay() {
        let spec = |rate, seconds| DirectionSpec::new(DataRate(rate), Duration::from_secs(seconds));
        assert_eq!(memory_for(&spec(1000, 1)), (16 << 20, 125), "only memory for packets in flight is ready");
        let (capacity, ready) = memory_for(&spec(1_000_000_000, 2));
        assert!(capacity > 250_000_000 && ready <= capacity, "{capacity} {ready}");
        assert_eq!(memory_for(&spec(100_000_000_000, 1000)).0, 2 << 30);
    }
}

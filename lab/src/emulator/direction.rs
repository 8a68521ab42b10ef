//! One direction of a link: receives frames at one port, passes each wire packet to the link model, and hands the
//! packets over at the other port when they are due. Each thread ([`super::worker`]) runs many directions.

use super::carrier::{CarrierSchedule, DirectionState};
use super::frame::{self, Frame};
use super::lateness::Lateness;
use super::observer::FrameObserver;
use super::pending::{DueFrame, Pending};
use super::port::{Intake, Port, Received};
use super::train::{self, TRAIN_MOST, TrainHead};
use farlink_base::{DataVolume, Instant};
use farlink_link::{Delay, DirectionSpec, LinkDirection, PacketFate, Statistics, Transmitter};
use farlink_os::monotonic_ns;
use farlink_os::packet::{BATCH, FrameBatch};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

// Wire packets of one super-packet that arrive within this time are delivered together. It matches
// the emulator's own precision, and the behaviour of interfaces that coalesce.
const GRAIN_NS: u64 = 200_000;
// Longest time for which due frames wait for more, so that one system call hands over many.
const QUANTUM_NS: u64 = 200_000;
// The wait is at most the link's shortest delay divided by this, so that it lengthens the delay by at most 2 %.
const QUANTUM_PART: u32 = 50;
// After a hand-over of more frames than this, the next hand-over waits for more frames.
const QUANTUM_FRAMES: usize = 8;
// Time until the next attempt to hand over frames if the host's interface had no room.
const RETRY_NS: u64 = 20_000;
// Longest time for which frames may stay in the ring's last block, which the kernel has not yet passed on.
const RING_LAG_NS: u64 = 3_000_000;

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
    /// Time between two samples of the direction.
    pub interval: Duration,
    /// Whether each wire packet is handed over alone at its exact due time, which costs more processor time.
    pub exact: bool,
    /// Number of the bottleneck whose transmitter the direction shares; `None` for a transmitter of its own.
    pub bottleneck: Option<usize>,
}

/// Counters of one direction at one moment.
#[derive(Clone, Debug)]
pub struct DirectionSample {
    /// Number of the link.
    pub link: usize,
    /// Whether this is the link's forward direction.
    pub forward: bool,
    /// Time of the sample, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Whether the direction may transmit.
    pub up: bool,
    /// Counters of the link model.
    pub statistics: Statistics,
    /// Bytes that wait for transmission.
    pub queued_bytes: u64,
    /// Bytes handed over to the far host, IP headers included.
    pub handed_over_bytes: u64,
    /// Number of frames ignored because they are not unicast IP.
    pub ignored: u64,
    /// Packets lost by the emulator, not by the link model, plus openings and closings of the link for which the
    /// carrier was late.
    pub own_losses: u64,
    /// Packets lost at the interface of a machine outside the testbed, which was down, gone or without a carrier, or
    /// took no packets of their size.
    pub interface_losses: u64,
    /// Whether the machine outside that sends in this direction has changed its hardware address.
    pub other_hardware: bool,
    /// Bytes of the frames in flight.
    pub in_flight_bytes: u64,
    /// Distribution of the frames' delays beyond their due times.
    pub lateness: Lateness,
    /// Whether the direction's thread has real-time scheduling.
    pub real_time: bool,
}

/// One direction of a link with its frames in flight.
pub struct Direction {
    setup: DirectionSetup,
    /// Monotonic time of the run's start, in ns; packets sent earlier count as sent then.
    start_ns: u64,
    /// Time for which a frame is under way after its hand-over.
    ahead_ns: u64,
    link: LinkDirection,
    carrier: CarrierSchedule,
    from: Arc<Port>,
    intake: Intake,
    to: Arc<Port>,
    pending: Pending,
    due: Vec<DueFrame>,
    /// Number of due frames in each message of the next hand-over, and the headers of the messages that join several.
    trains: Vec<usize>,
    heads: Vec<Option<TrainHead>>,
    joins: bool,
    quantum_ns: u64,
    /// Whether the last hand-over had many frames.
    busy: bool,
    retry_at: Option<u64>,
    sample_at: u64,
    verdicts: Vec<PacketFate>,
    lateness: Lateness,
    shared: Arc<DirectionState>,
    ignored: u64,
    own_losses: u64,
    interface_losses: u64,
    handed_over_bytes: u64,
    corruptions: u64,
    observers: Vec<Box<dyn FrameObserver>>,
    /// Model time before which all packets have been passed to the model; never decreases.
    model_now: Instant,
}

impl Direction {
    pub fn new(setup: DirectionSetup, from: Arc<Port>, to: Arc<Port>, shared: Arc<DirectionState>) -> io::Result<Self> {
        let quantum = shortest_delay(&setup.spec) / QUANTUM_PART;
        let link = LinkDirection::new(setup.spec.clone(), setup.seed);
        Ok(Direction {
            carrier: CarrierSchedule::new(link.clone()),
            link,
            pending: Pending::new(memory_for(&setup.spec))?,
            joins: !setup.exact,
            quantum_ns: if setup.exact { 0 } else { QUANTUM_NS.min(quantum.as_nanos() as u64) },
            setup,
            start_ns: 0,
            ahead_ns: to.ahead_ns(),
            intake: from.intake(),
            from,
            to,
            due: Vec::new(),
            trains: Vec::new(),
            heads: Vec::new(),
            busy: false,
            retry_at: None,
            sample_at: 0,
            verdicts: Vec::with_capacity(64),
            lateness: Lateness::default(),
            shared,
            ignored: 0,
            own_losses: 0,
            interface_losses: 0,
            handed_over_bytes: 0,
            corruptions: 0,
            observers: Vec::new(),
            model_now: Instant::ZERO,
        })
    }

    /// Parameters of the link model.
    pub fn spec(&self) -> &DirectionSpec {
        &self.setup.spec
    }

    /// Makes this direction share the transmitter and the queue of a bottleneck. Call it before any frame.
    pub fn share(&mut self, bottleneck: usize, queue: DataVolume) -> io::Result<()> {
        self.setup.bottleneck = Some(bottleneck);
        // This direction's frames may fill the whole shared queue, which may be longer than its own.
        self.setup.spec.queue = Some(queue);
        self.pending = Pending::new(memory_for(&self.setup.spec))?;
        Ok(())
    }

    /// Adds an observer of the direction's frames.
    pub fn observe(&mut self, observer: Box<dyn FrameObserver>) {
        self.observers.push(observer);
    }

    /// Sets the monotonic times of model time 0 and of the first sample, in ns.
    pub fn begin(&mut self, start_ns: u64, sample_at: u64) {
        (self.start_ns, self.sample_at) = (start_ns, sample_at);
        self.carrier.begin(start_ns);
    }

    /// Port at which frames arrive.
    pub fn from(&self) -> &Port {
        &self.from
    }

    /// Monotonic time, in ns, at which [`Direction::wake`] must be called next, unless frames arrive first.
    pub fn wake_at(&self) -> u64 {
        self.hand_over_at().unwrap_or(u64::MAX).min(self.sample_at).min(self.carrier.next_ns())
    }

    fn hand_over_at(&self) -> Option<u64> {
        // Frames that the last hand-over left in `due` go first.
        let left = || self.due.first().map(|due| due.at);
        let next = || self.pending.next().map(|due| due.at + if self.busy { self.quantum_ns } else { 0 });
        self.retry_at.or_else(left).or_else(next)
    }

    /// Monotonic time at which the next frame in flight is due.
    #[cfg(test)]
    pub fn next_due(&self) -> Option<u64> {
        self.pending.next().map(|due| due.at)
    }

    /// Number of the bottleneck whose transmitter this direction shares, if any.
    pub fn bottleneck(&self) -> Option<usize> {
        self.setup.bottleneck
    }

    /// Hands over the frames that are due, updates the carrier's state, and returns a sample if it is time for one.
    /// `shared` is the transmitter of the direction's bottleneck, if any.
    pub fn wake(
        &mut self,
        now: u64,
        real_time: bool,
        shared: Option<&mut Transmitter>,
    ) -> io::Result<Option<DirectionSample>> {
        if self.hand_over_at().is_some_and(|at| at <= now) {
            self.hand_over()?;
        }
        if now >= self.carrier.next_ns() {
            self.carrier.publish(now, &self.shared);
        }
        if now < self.sample_at {
            return Ok(None);
        }
        let interval = (self.setup.interval.as_nanos() as u64).max(1);
        self.sample_at += interval * ((now - self.sample_at) / interval + 1);
        Ok(Some(self.sample(now, real_time, shared)))
    }

    /// Receives some frames and passes them to the model; returns whether there may be more.
    pub fn receive(&mut self, batch: &mut FrameBatch) -> io::Result<bool> {
        let before = monotonic_ns();
        let (from, mut intake) = (Arc::clone(&self.from), std::mem::take(&mut self.intake));
        let received = intake.receive(&from, batch, |bytes, sent_ns| self.take(sent_ns, bytes, None));
        self.intake = intake;
        let more = self.received(received)?;
        if !more {
            self.all_taken(before);
        }
        Ok(more)
    }

    /// Receives some frames without passing them to the model, and calls `each` with every frame and the monotonic
    /// time, in ns, at which the host sent it; returns whether there may be more.
    pub fn collect(&mut self, batch: &mut FrameBatch, each: impl FnMut(&[u8], u64)) -> io::Result<bool> {
        let received = self.intake.receive(&self.from, batch, each);
        self.received(received)
    }

    /// Advances model time to `before` (monotonic, ns), less the lag of a receive ring and the time for which frames of
    /// another machine are under way to here. The caller must have passed every frame sent before that to
    /// [`Direction::take`].
    pub fn all_taken(&mut self, before: u64) {
        let lag = self.from.ahead_ns() + if self.intake.has_ring() { RING_LAG_NS } else { 0 };
        self.model_now = self.model_now.max(self.instant(before.saturating_sub(lag)));
    }

    /// Counts the losses of a receive at the port; returns whether there may be more frames.
    fn received(&mut self, received: io::Result<Received>) -> io::Result<bool> {
        let received = match received {
            Ok(received) => received,
            // Reading the error of an interface that went down clears it.
            Err(e) if interface_down(&e) => return Ok(true),
            Err(e) => return Err(e),
        };
        self.own_losses += received.lost as u64;
        Ok(received.more)
    }

    /// Converts monotonic time to model time: nanoseconds since the start, never negative.
    fn instant(&self, ns: u64) -> Instant {
        Instant(ns.saturating_sub(self.start_ns))
    }

    /// Passes each wire packet of a frame to the model, and keeps the packets that will arrive until they are due. The
    /// model counts from the time at which the host sent the frame, so a late read has no effect unless it comes after
    /// the due time.
    pub fn take(&mut self, sent_ns: u64, bytes: &[u8], shared: Option<&mut Transmitter>) {
        self.model_now = self.model_now.max(self.instant(sent_ns));
        let now = self.model_now;
        // Frames other than unicast IP neither use the link nor count as losses.
        let Some(frame) = Frame::read(bytes) else {
            self.ignored += 1;
            return;
        };
        for observer in &mut self.observers {
            observer.sent(sent_ns, bytes);
        }
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        let mut transmit =
            |link: &mut LinkDirection| link.transmit_segments(now, frame.packet_bytes(), |fate| verdicts.push(fate));
        match shared {
            Some(shared) => self.link.with_transmitter(shared, transmit),
            None => transmit(&mut self.link),
        }
        let mut first = 0;
        while first < verdicts.len() {
            let last = run_end(&verdicts, first, if self.setup.exact { 0 } else { GRAIN_NS });
            for delivery in verdicts[last - 1].deliveries() {
                self.keep(&frame, first, last, delivery.at.0, delivery.corrupted);
            }
            first = last;
        }
        self.verdicts = verdicts;
        let drained = self.link.last_arrival().0.saturating_add(self.start_ns);
        self.shared.drained_ns.store(drained, Ordering::Relaxed);
    }

    fn keep(&mut self, frame: &Frame<'_>, first: usize, last: usize, at: u64, corrupted: bool) {
        // A frame for another machine leaves earlier by the delay of the real network.
        let at = at.saturating_add(self.start_ns).saturating_sub(self.ahead_ns);
        self.corruptions += u64::from(corrupted);
        let choice = self.corruptions.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let kept = self.pending.push(at, frame.run_length(first, last), |out| {
            frame.write_run(first, last, out);
            if corrupted {
                frame::corrupt(out, choice);
            }
        });
        if !kept {
            // Lack of memory must not look like a loss of the link model.
            self.own_losses += (last - first) as u64;
        }
    }

    /// Hands over frames that are due, in one system call; the others stay in `due`.
    fn hand_over(&mut self) -> io::Result<()> {
        let now = monotonic_ns();
        self.retry_at = None;
        self.pending.take_due(now, BATCH * TRAIN_MOST, &mut self.due);
        self.form_trains();
        let sent = match self.send() {
            Ok(sent) => sent,
            Err(e) if no_room(&e) && !self.to.is_unplugged() => {
                self.retry_at = Some(now + RETRY_NS);
                return Ok(());
            }
            // Kernels before 6.2 take no super-packets of datagrams.
            Err(_) if self.trains.first().is_some_and(|count| *count > 1) => {
                self.joins = false;
                return Ok(());
            }
            Err(e) if no_room(&e) || interface_down(&e) || refuses_frame(&e) => {
                match self.from.is_outside() || self.to.is_outside() {
                    true => self.interface_losses += 1,
                    false => self.own_losses += 1,
                }
                self.finish(1);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let frames: usize = self.trains[..sent].iter().sum();
        for due in &self.due[..frames] {
            self.lateness.add(now.saturating_sub(due.at));
            self.handed_over_bytes += due.length().saturating_sub(super::FRAME_OVERHEAD) as u64;
        }
        if !self.observers.is_empty() {
            self.show(frames, now, monotonic_ns());
        }
        self.busy = frames > QUANTUM_FRAMES;
        self.finish(frames);
        Ok(())
    }

    /// Shows the observers the first `frames` due frames, which were handed over between `begin` and `end` (monotonic,
    /// ns).
    fn show(&mut self, frames: usize, begin: u64, end: u64) {
        let all = end.saturating_sub(begin);
        for (place, due) in (0..).zip(&self.due[..frames]) {
            // The kernel passes the frames to the host's sockets one after another before it returns.
            let [from, to] = [place, place + 1].map(|place| begin + all * place / frames as u64);
            for observer in &mut self.observers {
                observer.handed_over(from, to, self.pending.bytes_of(*due));
            }
        }
    }

    /// Groups the due frames into trains that leave as one message each.
    fn form_trains(&mut self) {
        self.trains.clear();
        self.heads.clear();
        let mut first = 0;
        while first < self.due.len() && self.trains.len() < BATCH {
            let bytes = |due: &DueFrame| self.pending.bytes_of(*due);
            let most = if self.joins { train::length(self.due[first..].iter().map(bytes)) } else { 1 };
            let frames = &self.due[first..first + most];
            let head = (most > 1).then(|| {
                let headers = TrainHead::new(bytes(&frames[0]), 0).map_or(0, |head| head.bytes().len());
                let payload = frames.iter().map(|due| due.length() - headers).sum();
                TrainHead::new(bytes(&frames[0]), payload)
            });
            self.trains.push(most);
            self.heads.push(head.flatten());
            first += most;
        }
    }

    /// Sends the trains; returns the number of trains that the kernel took.
    fn send(&self) -> io::Result<usize> {
        let mut pieces = Vec::with_capacity(self.due.len() + self.trains.len());
        let mut ends = [0; BATCH];
        let mut frames = self.due.iter().map(|due| self.pending.bytes_of(*due));
        for ((count, head), end) in self.trains.iter().zip(&self.heads).zip(&mut ends) {
            let of_train = frames.by_ref().take(*count);
            match head {
                None => pieces.extend(of_train.map(IoSlice::new)),
                Some(head) => {
                    pieces.push(IoSlice::new(head.bytes()));
                    pieces.extend(of_train.map(|frame| IoSlice::new(head.payload(frame))));
                }
            }
            *end = pieces.len();
        }
        let mut messages = [&[][..]; BATCH];
        let mut start = 0;
        for (message, end) in messages.iter_mut().zip(&ends[..self.trains.len()]) {
            *message = &pieces[start..*end];
            start = *end;
        }
        self.to.send(&messages[..self.trains.len()])
    }

    fn finish(&mut self, count: usize) {
        for due in self.due.drain(..count) {
            self.pending.release(due);
        }
    }

    /// Takes a sample of the direction's counters.
    pub fn sample(&mut self, now_ns: u64, real_time: bool, shared: Option<&mut Transmitter>) -> DirectionSample {
        self.own_losses += self.from.take_drops() + self.shared.missed.swap(0, Ordering::Relaxed);
        let now = self.model_now;
        let queued_bytes = match shared {
            Some(shared) => self.link.with_transmitter(shared, |link| link.queued_bytes(now)),
            None => self.link.queued_bytes(now),
        };
        DirectionSample {
            link: self.setup.link,
            forward: self.setup.forward,
            at_ns: self.instant(now_ns).0,
            up: self.link.is_up(now),
            statistics: *self.link.statistics(),
            queued_bytes,
            handed_over_bytes: self.handed_over_bytes,
            ignored: self.ignored,
            own_losses: self.own_losses,
            interface_losses: self.interface_losses,
            other_hardware: self.from.has_other_hardware(),
            in_flight_bytes: self.pending.bytes() as u64,
            lateness: self.lateness.clone(),
            real_time,
        }
    }
}

/// End (exclusive) of the run of wire packets that begins at `first` and is handed over together: packets that arrive
/// undamaged, once each, in order and within `grain_ns`. Any other packet is a run of its own. A run arrives with its
/// last packet.
fn run_end(verdicts: &[PacketFate], first: usize, grain_ns: u64) -> usize {
    let plain = |v: &PacketFate| match v {
        PacketFate::Arrives(d) if !d.corrupted => Some(d.at.0),
        _ => None,
    };
    let Some(start) = plain(&verdicts[first]) else { return first + 1 };
    let mut before = start;
    let rest = verdicts[first + 1..].iter().take_while(|v| match plain(v) {
        Some(at) if at >= before && at - start <= grain_ns => {
            before = at;
            true
        }
        _ => false,
    });
    first + 1 + rest.count()
}

/// Maximum memory for packets in flight, in bytes. Bounded, because a laser link to Mars would need more memory than
/// any machine has.
fn memory_for(spec: &DirectionSpec) -> usize {
    const LEAST: u64 = 16 << 20;
    const MOST: u64 = 2 << 30;
    // Without a rate limit the bytes in flight are unknown, so the size is fixed.
    let Some(rate) = highest_rate(spec) else { return 256 << 20 };
    // Reordering and jitter keep packets in flight longer.
    let detour = spec.reorder.map_or(Duration::ZERO, |r| r.gap);
    let flight = spec.longest_delay() + spec.jitter.map_or(Duration::ZERO, |j| j.most) + detour;
    let flying = u64::try_from(u128::from(rate) * flight.as_nanos() / 8_000_000_000).unwrap_or(MOST);
    let bytes = flying.saturating_add(spec.queue_bytes());
    // Half as much again, because each packet needs 24 bytes of bookkeeping, a large share if packets are small.
    bytes.saturating_add(bytes / 2).clamp(LEAST, MOST) as usize
}

/// Shortest possible one-way delay.
pub fn shortest_delay(spec: &DirectionSpec) -> Duration {
    let own = match &spec.delay {
        Delay::Constant(delay) => *delay,
        Delay::Table(points) => points.iter().map(|(_, delay)| *delay).min().unwrap_or_default(),
    };
    spec.windows.iter().flatten().filter_map(|w| w.delay).fold(own, Duration::min)
}

/// Highest rate of the direction at any time, in bit/s; `None` without a limit.
pub fn highest_rate(spec: &DirectionSpec) -> Option<u64> {
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

/// Whether the interface is down or gone.
fn interface_down(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENXIO | ENODEV | ENETDOWN))
}

/// Whether the interface refuses the frame: it is malformed, or larger than the MTU, which only machines outside the
/// testbed send.
fn refuses_frame(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(EMSGSIZE)
}

// Linux error numbers (asm-generic/errno.h).
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;
const EMSGSIZE: i32 = 90;
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
        let end = |verdicts: &[PacketFate], first| run_end(verdicts, first, GRAIN_NS);
        assert_eq!(end(&[at(1), at(1), at(1)], 0), 3);
        assert_eq!(end(&[at(1), lost, at(1)], 0), 1);
        assert_eq!(end(&[at(1), lost, at(1)], 1), 2);
        assert_eq!(end(&[at(1), at(GRAIN_NS), at(GRAIN_NS + 2)], 0), 2);
        assert_eq!(run_end(&[at(1), at(1), at(2)], 0, 0), 2, "exact");
        assert_eq!(end(&[at(9), at(8)], 0), 1);
        let bad = PacketFate::Arrives(PacketArrival { at: Instant(1), corrupted: true });
        assert_eq!(end(&[at(1), bad, at(1)], 0), 1);
        assert_eq!(end(&[at(1), bad, at(1)], 1), 2);
    }

    #[test]
    fn memory_follows_rate_times_delay() {
        let spec = |rate, seconds| DirectionSpec::new(DataRate(rate), Duration::from_secs(seconds));
        assert_eq!(memory_for(&spec(1000, 1)), 16 << 20);
        let capacity = memory_for(&spec(1_000_000_000, 2));
        assert!((250_000_000..650_000_000).contains(&capacity), "{capacity}");
        assert_eq!(memory_for(&spec(100_000_000_000, 1000)), 2 << 30);
    }
}

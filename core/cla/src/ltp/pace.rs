//! Congestion control for links without a configured rate. Reports show how much data arrives per round trip, and the
//! sending rate follows the fastest of the last rounds: random loss costs nothing, and an overrunning socket buffer is
//! noticed. Periodic probes at a higher rate find more capacity; during the start the rate doubles each round.

use farlink_base::{DataRate, Duration, Instant};

/// Window before the first report, and constant part of every later window, bytes; small, because some receive buffers
/// hold no more.
const WINDOW_LEAST: u64 = 64 << 10;
/// Limits of the queue that the window allows beyond two round trips, as bytes and as time. Without loss, only growing
/// answer times reveal a queue, and other traffic of the peer waits behind it.
const QUEUE_BYTES: u64 = 8 << 20;
const QUEUE_TIME: Duration = Duration::from_millis(20);
/// Time over which the first window is spread.
const START: Duration = Duration::from_millis(10);
/// Lowest and highest rate, bytes per second. A slower link must have a configured rate.
const RATE: core::ops::RangeInclusive<u64> = 32_000..=100_000_000_000;
/// Number of latest rounds whose fastest arrival rate sets the sending rate; once in this many rounds, a round tries a
/// higher rate.
const ROUNDS: usize = 8;
/// Number of rounds in a row without growth by a quarter after which the start phase ends.
const FLAT: u8 = 3;
/// Fewest reported bytes in a round for its loss to be significant.
const ENOUGH: u64 = 40_000;
/// Unit of loss: the value if all data was lost.
const WHOLE: u64 = 1 << 16;

/// State at the transmission of a checkpoint, to be compared with the report on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Time at which the checkpoint left the transmitter.
    pub(super) left: Instant,
    /// Red bytes that the session had sent up to and including the checkpoint, retransmissions counted.
    pub(super) sent: u64,
    /// Bytes of all sessions known to have arrived by then, and [`PaceControl::since`] at that time.
    delivered: u64,
    since: Instant,
}

impl Mark {
    /// Mark for a span with a known rate, of which only the time is used.
    pub(super) const fn at(left: Instant) -> Mark {
        Mark { left, sent: 0, delivered: 0, since: left }
    }
}

/// A round, which lasts from a checkpoint to the report on it.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    /// Highest measured arrival rate, bytes per second.
    fastest: u64,
    /// Lost fraction of the reported data, in units of 1 / [`WHOLE`].
    loss: u64,
}

/// Congestion control of one span.
#[derive(Debug)]
pub(super) struct PaceControl {
    rounds: [Round; ROUNDS],
    round: usize,
    /// Bytes known to have arrived since the beginning.
    delivered: u64,
    /// Time of the last arrival, or, on an idle link, when the data in flight began to leave.
    since: Instant,
    /// Number of arrived bytes at which the round began. A report on a checkpoint sent since then ends the round.
    round_from: u64,
    covered: u64,
    lost: u64,
    /// Bytes in flight: sent, and not covered by a report.
    out: u64,
    /// Time from a checkpoint to its report: smoothed, and the lowest since the link was last idle.
    trip: Duration,
    least: Duration,
    /// Whether the data in flight was sent on an idle link, so that its report waits behind no other data.
    alone: bool,
    /// Bytes in flight above which no block begins.
    window: u64,
    /// Highest arrival rate so far during the start; 0 after the start.
    reached: u64,
    flat: u8,
    /// Whether the rate or the window limited the sender in this round.
    limited: bool,
    /// Time of the last report, or of the last reduction for silence.
    heard: Instant,
}

impl PaceControl {
    pub(super) const fn new() -> PaceControl {
        PaceControl {
            rounds: [Round { fastest: 0, loss: WHOLE }; ROUNDS],
            round: 0,
            delivered: 0,
            since: Instant::ZERO,
            round_from: 0,
            covered: 0,
            lost: 0,
            out: 0,
            trip: Duration::ZERO,
            least: Duration::ZERO,
            alone: false,
            window: WINDOW_LEAST,
            reached: 1,
            flat: 0,
            limited: false,
            heard: Instant::ZERO,
        }
    }
    fn fastest(&self) -> u64 {
        self.rounds.iter().map(|round| round.fastest).max().unwrap_or(0)
    }
    /// Loss that does not depend on the rate: the lowest of the last rounds.
    fn loss(&self) -> u64 {
        self.rounds.iter().map(|round| round.loss).min().filter(|loss| *loss < WHOLE).unwrap_or(0).min(WHOLE / 2)
    }
    pub(super) fn rate(&self) -> DataRate {
        let fastest = self.fastest();
        let bytes = if fastest == 0 {
            WINDOW_LEAST * 1_000_000_000 / START.as_nanos() as u64
        } else {
            // Gains: 2 during the start. After it, one round at 5/4 probes, one at 3/4 drains the queue of the probe,
            // others have 1.
            let quarters = match (self.reached > 0, self.round) {
                (true, _) => 8,
                (false, 0) => 5,
                (false, 1) => 3,
                (false, _) => 4,
            };
            let bytes = u128::from(fastest) * u128::from(WHOLE * quarters) / u128::from(4 * (WHOLE - self.loss()));
            bytes as u64
        };
        DataRate(bytes.clamp(*RATE.start(), *RATE.end()) * 8)
    }
    /// Recomputes the window: the data of two round trips, in which time spent in queues counts up to a bound.
    fn widen(&mut self) {
        let fastest = u128::from(self.fastest());
        let in_time = |time: Duration| u64::try_from(fastest * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX / 4);
        let queue = in_time(QUEUE_TIME).min(QUEUE_BYTES);
        self.window = WINDOW_LEAST + in_time(self.trip * 2).min(in_time(self.least * 2) + queue);
    }
    /// Whether another block may begin to leave.
    pub(super) fn is_open(&self) -> bool {
        self.out < self.window
    }
    /// Bytes after which a block asks for a report, so that reports arrive before the whole window has left.
    pub(super) fn checkpoint_every(&self) -> u64 {
        (self.window / 4).max(4 * WINDOW_LEAST)
    }
    /// Forgets the lowest round trip, because the link has changed.
    pub(super) fn moved(&mut self) {
        self.least = Duration::ZERO;
    }
    /// Records that the rate or the window limited the sender.
    pub(super) fn hold(&mut self) {
        self.limited = true;
    }
    /// Records that red data leaves the transmitter by `left`.
    pub(super) fn sent(&mut self, bytes: u64, left: Instant) {
        if self.out == 0 {
            (self.since, self.alone) = (left, true);
            self.heard = self.heard.max(left);
        }
        self.out += bytes;
    }
    /// Mark for a checkpoint that leaves the transmitter at `left`.
    pub(super) fn mark(&self, left: Instant) -> Mark {
        Mark { left, sent: 0, delivered: self.delivered, since: self.since }
    }
    /// Subtracts bytes from those in flight: a report covered them, or none will because the session ended.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.out -= bytes.min(self.out);
    }
    /// Handles the report on a checkpoint: of the `covered` bytes, `lost` did not arrive.
    pub(super) fn report(&mut self, now: Instant, mark: &Mark, covered: u64, lost: u64) {
        self.forget(covered);
        self.heard = now;
        self.since = now;
        self.delivered += covered - lost.min(covered);
        (self.covered, self.lost) = (self.covered + covered, self.lost + lost.min(covered));
        let elapsed = (now - mark.left).max(Duration::from_micros(20));
        self.trip = if self.trip == Duration::ZERO { elapsed } else { (self.trip * 7 + elapsed) / 8 };
        let alone = core::mem::take(&mut self.alone);
        self.least = if alone || self.least == Duration::ZERO { elapsed } else { self.least.min(elapsed) };
        let arrived = u128::from(self.delivered - mark.delivered.min(self.delivered));
        let speed = (arrived * 1_000_000_000 / elapsed.max(now - mark.since).as_nanos()) as u64;
        let round = &mut self.rounds[self.round];
        round.fastest = round.fastest.max(speed);
        if mark.delivered >= self.round_from {
            self.end_round();
        }
        self.widen();
    }
    fn end_round(&mut self) {
        self.round_from = self.delivered;
        let enough = self.covered >= ENOUGH;
        if !enough && !self.limited {
            return;
        }
        if enough {
            self.rounds[self.round].loss = self.lost * WHOLE / self.covered;
        }
        let much = enough && self.rounds[self.round].loss > self.loss() + WHOLE / 8;
        (self.covered, self.lost) = (0, 0);
        // A round in which the application sent less reveals no capacity.
        if !core::mem::take(&mut self.limited) {
            return;
        }
        let fastest = self.fastest();
        let before = self.rounds.iter().enumerate().filter(|(at, _)| *at != self.round);
        let before = before.map(|(_, round)| round.fastest).max().unwrap_or(0);
        if self.reached == 0 && enough && fastest > before + before / 8 && !much {
            // Delivered more than an eighth faster than in all other recent rounds, without much loss: capacity grew,
            // so double per round again.
            (self.reached, self.flat) = (fastest, 0);
        } else if self.reached > 0 {
            let grew = fastest > self.reached + self.reached / 4;
            self.flat = if grew { 0 } else { self.flat + 1 };
            self.reached = if self.flat >= FLAT || (much && !grew) { 0 } else { fastest.max(1) };
        }
        self.round = (self.round + 1) % ROUNDS;
        self.rounds[self.round] = Round { fastest: 0, loss: WHOLE };
    }
    /// Halves the rate, and ends the start, after the peer cancelled a session.
    pub(super) fn slow(&mut self) {
        self.reached = 0;
        self.halve();
    }
    fn halve(&mut self) {
        self.rounds.iter_mut().for_each(|round| round.fastest /= 2);
        self.widen();
    }
    /// Handles an unanswered checkpoint. A single one indicates loss and does not change the rate. If no report at all
    /// arrived for two answer times, the rate is halved, once per two answer times.
    pub(super) fn unanswered(&mut self, now: Instant, in_time: Duration) {
        if now - self.heard > in_time * 2 {
            self.heard = now;
            self.reached /= 2;
            self.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use farlink_base::Rng;

    /// A link: rate in bytes per second, round trip, loss, and buffer in bytes.
    struct BottleneckLink {
        rate: f64,
        trip: f64,
        loss: f64,
        buffer: f64,
    }
    /// Sends at the controlled rate for some seconds, in blocks of 20 kB. Returns the arrival rate in the last half,
    /// and the fraction of the data that overran the buffer.
    fn run(link: &BottleneckLink, seconds: f64) -> (f64, f64) {
        let (mut pace, mut rng) = (PaceControl::new(), Rng::new(1));
        let mut reports: VecDeque<(f64, Mark, u64, u64)> = VecDeque::new();
        let (mut now, mut free_at, mut arrived, mut sent, mut overrun) = (0.0f64, 0.0f64, 0.0, 0.0, 0.0);
        let at = |seconds: f64| Instant((seconds * 1e9) as u64 + 1_000_000_000);
        while now < seconds {
            while reports.front().is_some_and(|report| report.0 <= now) {
                let (when, mark, covered, lost) = reports.pop_front().unwrap();
                pace.report(at(when), &mark, covered, lost);
            }
            if !pace.is_open() {
                pace.hold();
                now = reports.front().unwrap().0;
                continue;
            }
            let (mut lost, mut left) = (0, 0.0);
            for _ in 0..20 {
                now += 8000.0 / pace.rate().0 as f64;
                pace.sent(1000, at(now));
                sent += 1000.0;
                let full = (free_at - now) * link.rate > link.buffer;
                if full || rng.chance(link.loss) {
                    lost += 1000;
                    overrun += if full { 1000.0 } else { 0.0 };
                } else {
                    free_at = free_at.max(now) + 1000.0 / link.rate;
                    left = free_at;
                    arrived += if now > seconds / 2.0 { 1000.0 } else { 0.0 };
                }
            }
            pace.hold();
            let mark = pace.mark(at(now));
            let back = f64::max(left, now) + link.trip;
            reports.push_back((back, mark, 20_000, lost));
        }
        (arrived / (seconds / 2.0), overrun / sent)
    }

    #[test]
    fn clean_link_fills_quickly() {
        for trip in [0.0005, 0.02, 0.5] {
            let link = BottleneckLink { rate: 50e6, trip, loss: 0.0, buffer: 50e6 * trip + 200e3 };
            let (rate, overrun) = run(&link, 40.0 * trip + 0.5);
            assert!(rate > 0.8 * link.rate, "round trip {trip}: {rate}");
            assert!(overrun < 0.15, "round trip {trip}: {overrun}");
        }
    }

    #[test]
    fn random_loss_keeps_pace() {
        for loss in [0.01, 0.1, 0.3] {
            let link = BottleneckLink { rate: 10e6, trip: 0.1, loss, buffer: 1e6 };
            let (rate, _) = run(&link, 10.0);
            assert!(rate > 0.6 * link.rate * (1.0 - loss), "loss {loss}: {rate}");
        }
    }

    #[test]
    fn small_buffer_overrun_is_brief() {
        // The probes for more bandwidth overrun the buffer now and then.
        let link = BottleneckLink { rate: 5e6, trip: 0.05, loss: 0.0, buffer: 64e3 };
        let (rate, overrun) = run(&link, 20.0);
        assert!(rate > 0.6 * link.rate && overrun < 0.1, "{rate} {overrun}");
    }

    /// A slow receiver shows no loss; the queue in front of it must stay bounded all the same.
    #[test]
    fn lossless_queue_stays_short() {
        for (rate, trip) in [(50e6, 0.0005), (1e9, 0.0001), (50e6, 0.1)] {
            let mut pace = PaceControl::new();
            let (mut now, mut free_at, mut most) = (1.0f64, 1.0f64, 0);
            let mut reports: VecDeque<(f64, Mark)> = VecDeque::new();
            let at = |seconds: f64| Instant((seconds * 1e9) as u64);
            for turn in 0..100_000 {
                while reports.front().is_some_and(|report| report.0 <= now) {
                    let (when, mark) = reports.pop_front().unwrap();
                    pace.report(at(when), &mark, 100_000, 0);
                }
                pace.hold();
                if pace.is_open() {
                    now += 100_000.0 * 8.0 / pace.rate().0 as f64;
                    pace.sent(100_000, at(now));
                    // The rate found while the receiver is twice as fast is too high afterwards.
                    let speed = if turn % 50 < 5 { 2.0 * rate } else { rate };
                    free_at = free_at.max(now) + 100_000.0 / speed;
                    let back = free_at + trip;
                    reports.push_back((back, pace.mark(at(now))));
                    most = most.max(pace.out);
                } else {
                    now = now.max(reports.front().unwrap().0);
                }
            }
            let bound = 4.0 * rate * trip + f64::min(2.0 * rate * 0.02, 8.4e6) + 200e3;
            assert!((most as f64) < bound, "{rate} {trip}: {most} of {bound}");
        }
    }

    #[test]
    fn silence_and_cancels_halve_the_rate() {
        let mut pace = PaceControl::new();
        pace.sent(100_000, Instant(0));
        let mark = pace.mark(Instant(0));
        pace.report(Instant(10_000_000), &mark, 100_000, 0);
        pace.slow();
        let (rate, second) = (pace.rate().0, Duration::from_millis(500));
        pace.unanswered(Instant(500_000_000), second);
        assert_eq!(pace.rate().0, rate, "a report has just arrived");
        for _ in 0..5 {
            pace.unanswered(Instant(2_000_000_000), second);
        }
        assert!(pace.rate().0.abs_diff(rate / 2) < 100);
    }
}

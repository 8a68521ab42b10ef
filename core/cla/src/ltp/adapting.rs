//! What a span learns of its peer: how long answers take, how fast data arrives, and how much it bears
//! before it gives up.

use super::pace::{Mark, PaceControl};
use super::span::LtpSpan;
use alloc::boxed::Box;
use farlink_base::{DataRate, Duration, Instant};

/// Shortest time answers are given beyond the way there and back, where the configured is not shorter.
const MARGIN_LEAST: Duration = Duration::from_millis(50);
/// Timers are doubled this often at most while no answer comes in time.
const PATIENCE_MAX: u8 = 4;
/// How careful a peer that gives up on sessions makes us at most.
const CAUTION_MAX: u8 = 7;
/// Sessions that may be open however careful we are.
const SESSIONS_LEAST: u32 = 8;
/// Sessions that must complete for a step back from it.
const TRUST: u8 = 32;
/// Most answers in the time of one that are told apart.
const SHARES: u64 = 256;
/// Longest wait for further reports before what is missing is sent again.
const GATHER: Duration = Duration::from_millis(20);

impl LtpSpan {
    /// The rate to send at: that of the link, or the pace found out; slower for a peer that gives up.
    pub(super) fn rate(&self) -> DataRate {
        let found = || self.traffic.pace.as_ref().map_or_else(|| PaceControl::new().rate(), |pace| pace.rate());
        let rate = self.state.rate.unwrap_or_else(found);
        DataRate((rate.0 / (1 + u64::from(self.traffic.caution))).max(1))
    }
    /// The congestion control, where no rate is named.
    pub(super) fn pace(&mut self) -> Option<&mut PaceControl> {
        match self.state.rate {
            Some(_) => None,
            None => Some(self.traffic.pace.get_or_insert_with(|| Box::new(PaceControl::new()))),
        }
    }
    /// After how many bytes a block asks for a report; 0 for only at its end.
    pub(super) fn checkpoint_every(&mut self) -> u64 {
        let (every, careful) = (self.rules.checkpoint_every, self.traffic.caution > 0);
        let paced = self.pace().map_or(0, |pace| pace.checkpoint_every());
        match (every, careful) {
            (0, _) => paced,
            (_, true) => paced.max(every * 4),
            (_, false) => every,
        }
    }
    /// Times each checkpoint and report leaves at once.
    pub(super) fn copies(&self) -> u32 {
        if self.traffic.caution > 0 { 1 } else { u32::from(self.rules.copies).clamp(1, 8) }
    }
    /// How long to wait for further reports before what is missing is sent again.
    pub(super) fn gather(&self) -> Duration {
        let answer = self.mean();
        let trip = self.state.delay_out + self.state.delay_in + answer;
        (trip / 4).min(GATHER) * (1 + u32::from(self.traffic.caution))
    }
    /// What answers took lately beyond the way there and back.
    fn mean(&self) -> Duration {
        self.traffic.answer.map_or(Duration::ZERO, |(mean, _)| Duration::from_nanos(mean))
    }
    /// What answers are given beyond the way there and back: the configured margin is only the start.
    pub(super) fn margin(&self) -> Duration {
        let (traffic, given) = (&*self.traffic, self.rules.margin);
        // Where much is lost, that is why no answer came.
        let patience = if self.is_lossy() { 0 } else { traffic.patience };
        let patient = given * (1 << patience);
        let margin = match traffic.answer {
            None => patient,
            Some((mean, varies)) => {
                let measured = Duration::from_nanos(mean + 4 * varies).max(MARGIN_LEAST.min(given));
                // ... and late answers are answers sent again, by the peer's timers.
                let measured = if self.is_lossy() { measured.min(patient) } else { measured };
                if patience > 0 { measured.max(patient) } else { measured }
            }
        };
        margin * (1 + u32::from(traffic.caution))
    }
    /// An answer came to what left only once, at `left` (RFC 6298, of what is beyond the way). Of many in the time of one
    /// each counts for its share (RFC 7323 G), and one that is late for all of them.
    pub(super) fn answered(&mut self, now: Instant, left: Instant) {
        let way = self.state.delay_out + self.state.delay_in;
        let beyond = (now - left).saturating_sub(way);
        let near = self.asks_once();
        let share = match beyond > self.margin() || !near {
            true => 1,
            false => u64::from(self.exports.max(self.imports)).clamp(1, SHARES),
        };
        let beyond = beyond.as_nanos().min(1 << 42) as u64;
        let traffic = &mut *self.traffic;
        traffic.patience = match near {
            false => traffic.patience.saturating_sub(1),
            // What left before says nothing of how long answers take now (RFC 6298 5.7).
            true if left < traffic.patient_at => traffic.patience,
            true => 0,
        };
        traffic.answered_at = now;
        traffic.answer = Some(match traffic.answer {
            None => (beyond, beyond / 2),
            Some((mean, varies)) => {
                let mix = |old: u64, new: u64, parts: u64| (old * (parts - 1) + new) / parts;
                (mix(mean, beyond, 8 * share), mix(varies, mean.abs_diff(beyond), 4 * share))
            }
        });
    }
    /// A report came to a checkpoint that left at `left` first, `once` or more often: to which of them it answers then
    /// nobody can tell (Karn). As long as only such come, twice as many may leave again in the time of an answer as before.
    pub(super) fn reported_on(&mut self, now: Instant, left: Instant, once: bool) {
        if once {
            self.answered(now, left);
        }
        let traffic = &mut *self.traffic;
        traffic.news_of = traffic.news_of.max(left);
        traffic.asks_max = if once { 1 } else { traffic.asks_max.saturating_mul(2) };
    }
    /// Whether silence means a slow peer rather than loss, and costs little to find out.
    fn asks_once(&self) -> bool {
        !self.is_lossy() && (self.state.delay_out + self.state.delay_in) * 2 <= self.rules.margin
    }
    /// Whether a checkpoint that left at `left` and was not answered in time is to leave again. Where what left later was answered, it
    /// is lost. Else the peer may be slow or silent, and one question in the time of an answer is enough for all: to ask
    /// for each would make a slow peer slower. Over a long way that would take long, and loss is more likely.
    pub(super) fn asks_again(&mut self, now: Instant, left: Instant) -> bool {
        if !self.asks_once() || left < self.traffic.news_of {
            return true;
        }
        let margin = self.margin();
        let traffic = &mut *self.traffic;
        if now - traffic.asked_at >= margin {
            (traffic.asked_at, traffic.asked) = (now, 0);
        }
        traffic.asked = traffic.asked.saturating_add(1);
        traffic.asked <= traffic.asks_max
    }
    /// No answer came in time: all timers are longer until one does.
    pub(super) fn unanswered(&mut self, now: Instant) {
        let in_time = self.state.delay_out + self.state.delay_in + self.margin();
        if now - self.traffic.patient_at >= in_time {
            self.traffic.patient_at = now;
            self.traffic.patience = (self.traffic.patience + 1).min(PATIENCE_MAX);
        }
        if let Some(pace) = self.pace() {
            pace.unanswered(now, in_time);
        }
    }
    /// The peer gave up on a session: fewer checkpoints, longer timers and a slower pace for the next.
    pub(super) fn gave_up(&mut self) {
        self.traffic.caution = (self.traffic.caution + 1).min(CAUTION_MAX);
        self.traffic.trust = 0;
        if let Some(pace) = self.pace() {
            pace.slow();
        }
    }
    /// We gave up on a session, in vain asked for a report as often as may be. A peer that answered in the meantime
    /// is there, and was sent more than it takes; one that is silent may be away. All that end at once count once.
    pub(super) fn overtaxed(&mut self, now: Instant) {
        let traffic = &*self.traffic;
        let in_time = self.state.delay_out + self.state.delay_in + self.margin();
        let there = traffic.answer.is_some() && now - traffic.answered_at <= in_time * self.rules.attempts();
        if there && now - traffic.overtaxed_at >= in_time {
            self.traffic.overtaxed_at = now;
            self.gave_up();
        }
    }
    /// How many sessions may be open: fewer with each step of carefulness. ION, for one, overlooks new ones while it
    /// has as many as it was configured for.
    pub(super) fn sessions_max(&self) -> u32 {
        (self.rules.sessions >> (2 * u32::from(self.traffic.caution))).max(self.rules.sessions.min(SESSIONS_LEAST))
    }
    /// A session of ours completed.
    pub(super) fn completed(&mut self) {
        if self.traffic.caution == 0 {
            return;
        }
        self.traffic.trust += 1;
        if self.traffic.trust >= TRUST {
            (self.traffic.caution, self.traffic.trust) = (self.traffic.caution - 1, 0);
        }
    }
    /// A report came to a checkpoint as marked: of `told` bytes `lost` did not arrive.
    pub(super) fn told(&mut self, now: Instant, mark: &Mark, told: u64, lost: u64) {
        if let Some(pace) = self.pace() {
            pace.report(now, mark, told, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpanConfig;
    use super::*;
    use farlink_base::LinkId;
    use farlink_base::layer::{Destination, LinkState};

    fn span() -> LtpSpan {
        let state = LinkState { delay_out: Duration::from_millis(100), ..LinkState::UP };
        LtpSpan::new(&SpanConfig::default(), &[], Destination::Link(LinkId(1)), state, 1)
    }
    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn timers_follow_round_trips_both_ways() {
        let mut span = span();
        assert_eq!(span.margin(), Duration::from_millis(200), "the start");
        (0..50).for_each(|n| span.answered(at(n * 1000 + 103), at(n * 1000)));
        assert_eq!(span.margin(), MARGIN_LEAST, "3 ms beyond the way");
        (0..50).for_each(|n| span.answered(at(n * 5000 + 2100), at(n * 5000)));
        assert!((1990..2100).contains(&span.margin().as_millis()), "{:?}", span.margin());
    }

    #[test]
    fn timers_grow_without_answers_and_recover() {
        let mut span = span();
        (0..100).for_each(|n| span.unanswered(at(n * 10_000)));
        assert_eq!(span.margin(), Duration::from_millis(200 << PATIENCE_MAX));
        (0..20).for_each(|n| span.answered(at(n * 10_000 + 110), at(n * 10_000)));
        assert_eq!(span.margin(), Duration::from_millis(200 << PATIENCE_MAX), "what left before says nothing");
        (100..120).for_each(|n| span.answered(at(n * 10_000 + 110), at(n * 10_000)));
        assert_eq!(span.margin(), MARGIN_LEAST);
    }

    #[test]
    fn only_live_peers_cancels_cause_caution() {
        let mut span = span();
        span.state.rate = Some(DataRate(8_000_000));
        (0..100).for_each(|n| span.overtaxed(at(n * 1000)));
        assert_eq!((span.rate().0, span.sessions_max()), (8_000_000, span.rules.sessions), "it may be away");
        span.answered(at(200_110), at(200_000));
        (0..100).for_each(|_| span.overtaxed(at(200_200)));
        assert_eq!((span.rate().0, span.sessions_max()), (4_000_000, span.rules.sessions / 4), "one step for all");
        (0..100).for_each(|n| {
            span.answered(at(300_110 + n * 5000), at(300_000 + n * 5000));
            span.overtaxed(at(300_200 + n * 5000));
        });
        assert_eq!((span.rate().0, span.sessions_max()), (1_000_000, SESSIONS_LEAST));
    }

    #[test]
    fn cancelling_peer_gets_smaller_window_until_trusted() {
        let mut span = span();
        span.state.rate = Some(DataRate(8_000_000));
        let (rate, margin, gather) = (span.rate().0, span.margin(), span.gather());
        span.gave_up();
        assert!(span.rate().0 <= rate / 2 && span.margin() >= margin * 2 && span.gather() >= gather * 2);
        assert_eq!(span.copies(), 1);
        (0..TRUST).for_each(|_| span.completed());
        assert_eq!((span.rate().0, span.margin()), (rate, margin));
    }
}

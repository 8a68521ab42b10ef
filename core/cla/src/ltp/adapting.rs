//! Adaptation of a span to its peer: answer times, data rate, and the load that makes the peer cancel sessions.

use super::pace::{Mark, PaceControl};
use super::span::LtpSpan;
use alloc::boxed::Box;
use farlink_base::{DataRate, Duration, Instant};

/// Least time allowed for an answer beyond the propagation delay once answer times are measured; less if the configured
/// margin is shorter.
const MARGIN_LEAST: Duration = Duration::from_millis(50);
/// Maximum number of doublings of the timers while no answer arrives in time.
const PATIENCE_MAX: u8 = 4;
/// Highest level of caution: each level means a lower rate and fewer sessions for a peer that cancels sessions.
const CAUTION_MAX: u8 = 7;
/// Number of sessions that may be open even at the highest level of caution, if the configured limit allows as many.
const SESSIONS_LEAST: u32 = 8;
/// Number of completed sessions after which the caution falls by one level.
const TRUST: u8 = 32;
/// Maximum number of answers per round trip in the weighting of [`LtpSpan::answered`].
const SHARES: u64 = 256;
/// Longest wait for further reports before gaps are retransmitted.
const GATHER: Duration = Duration::from_millis(20);

impl LtpSpan {
    /// Sending rate: that of the link, or the rate found by congestion control; lower for a peer that cancels sessions.
    pub(super) fn rate(&self) -> DataRate {
        let found = || self.traffic.pace.as_ref().map_or_else(|| PaceControl::new().rate(), |pace| pace.rate());
        let rate = self.state.rate.unwrap_or_else(found);
        DataRate((rate.0 / (1 + u64::from(self.traffic.caution))).max(1))
    }
    /// Congestion control; `None` if the link has a known rate.
    pub(super) fn pace(&mut self) -> Option<&mut PaceControl> {
        match self.state.rate {
            Some(_) => None,
            None => Some(self.traffic.pace.get_or_insert_with(|| Box::new(PaceControl::new()))),
        }
    }
    /// Bytes of a block after which a checkpoint asks for a report; 0: only at the block's end.
    pub(super) fn checkpoint_every(&mut self) -> u64 {
        let (every, careful) = (self.rules.checkpoint_every, self.traffic.caution > 0);
        let paced = self.pace().map_or(0, |pace| pace.checkpoint_every());
        match (every, careful) {
            (0, _) => paced,
            (_, true) => paced.max(every * 4),
            (_, false) => every,
        }
    }
    /// Number of copies in which each checkpoint and report is sent.
    pub(super) fn copies(&self) -> u32 {
        if self.traffic.caution > 0 { 1 } else { u32::from(self.rules.copies).clamp(1, 8) }
    }
    /// Time to wait for further reports before gaps are retransmitted.
    pub(super) fn gather(&self) -> Duration {
        let answer = self.mean();
        let trip = self.state.delay_out + self.state.delay_in + answer;
        (trip / 4).min(GATHER) * (1 + u32::from(self.traffic.caution))
    }
    /// Smoothed answer time beyond the propagation delay.
    fn mean(&self) -> Duration {
        self.traffic.answer.map_or(Duration::ZERO, |(mean, _)| Duration::from_nanos(mean))
    }
    /// Time allowed for an answer beyond the propagation delay: the configured margin until an answer was measured,
    /// then mean plus four deviations. Missing answers and the level of caution lengthen it.
    pub(super) fn margin(&self) -> Duration {
        let (traffic, given) = (&*self.traffic, self.rules.margin);
        // Missing answers on a lossy link are explained by loss, not by a slow peer.
        let patience = if self.is_lossy() { 0 } else { traffic.patience };
        let patient = given * (1 << patience);
        let margin = match traffic.answer {
            None => patient,
            Some((mean, varies)) => {
                // Mean plus four deviations, as in RFC 6298 2.
                let measured = Duration::from_nanos(mean + 4 * varies).max(MARGIN_LEAST.min(given));
                // On a lossy link, late answers are mostly repetitions by the peer's timers, and would inflate the
                // margin.
                let measured = if self.is_lossy() { measured.min(patient) } else { measured };
                if patience > 0 { measured.max(patient) } else { measured }
            }
        };
        margin * (1 + u32::from(traffic.caution))
    }
    /// Updates the answer time by an answer to a segment that was sent once, at `left` (RFC 6298, applied to the time
    /// beyond the propagation delay). Several answers per round trip are weighted in proportion (RFC 7323 appendix G).
    /// Late answers, and all answers over lossy or long links, count in full.
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
            // An answer to a segment sent before the timers were raised does not lower them (RFC 6298 5).
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
    /// Handles a report on a checkpoint first sent at `left`. Only a checkpoint sent `once` measures the answer time:
    /// otherwise the report may answer any of the transmissions (Karn's algorithm). Each report on a repeated
    /// checkpoint doubles the number of checkpoints that may be repeated per answer time; a report on a checkpoint sent
    /// `once` resets that number to 1.
    pub(super) fn reported_on(&mut self, now: Instant, left: Instant, once: bool) {
        if once {
            self.answered(now, left);
        }
        let traffic = &mut *self.traffic;
        traffic.news_of = traffic.news_of.max(left);
        traffic.asks_max = if once { 1 } else { traffic.asks_max.saturating_mul(2) };
    }
    /// Whether a missing answer suggests a slow peer rather than loss, and the propagation delay is short enough to
    /// wait.
    fn asks_once(&self) -> bool {
        !self.is_lossy() && (self.state.delay_out + self.state.delay_in) * 2 <= self.rules.margin
    }
    /// Whether to repeat a checkpoint sent at `left` that was not answered in time. If a later checkpoint was answered,
    /// this one is lost. Otherwise the peer may be slow or silent: one repeated checkpoint per answer time serves for
    /// all, because repeating each would slow a slow peer further. Over a long propagation delay every checkpoint is
    /// repeated, because loss is more likely and waiting would take long.
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
    /// Handles a missing answer: all timers grow, up to a limit, until an answer arrives in time.
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
    /// Handles a session that the peer cancelled: later ones have fewer checkpoints, longer timers and a lower rate.
    pub(super) fn gave_up(&mut self) {
        self.traffic.caution = (self.traffic.caution + 1).min(CAUTION_MAX);
        self.traffic.trust = 0;
        if let Some(pace) = self.pace() {
            pace.slow();
        }
    }
    /// Handles a session given up at its retransmission limit. If the peer answered other sessions meanwhile, it is
    /// treated as overloaded, once for all sessions that end at about the same time. If it was silent it may be absent,
    /// and nothing changes.
    pub(super) fn overtaxed(&mut self, now: Instant) {
        let traffic = &*self.traffic;
        let in_time = self.state.delay_out + self.state.delay_in + self.margin();
        let there = traffic.answer.is_some() && now - traffic.answered_at <= in_time * self.rules.attempts();
        if there && now - traffic.overtaxed_at >= in_time {
            self.traffic.overtaxed_at = now;
            self.gave_up();
        }
    }
    /// Maximum number of open sessions, divided by four for each level of caution: some peers, ION among them, ignore
    /// new sessions once their configured number is open.
    pub(super) fn sessions_max(&self) -> u32 {
        // Each level of caution shifts by two bits, which divides by four.
        (self.rules.sessions >> (2 * u32::from(self.traffic.caution))).max(self.rules.sessions.min(SESSIONS_LEAST))
    }
    /// Counts a completed session; after [`TRUST`] of them, the caution falls by one level.
    pub(super) fn completed(&mut self) {
        if self.traffic.caution == 0 {
            return;
        }
        self.traffic.trust += 1;
        if self.traffic.trust >= TRUST {
            (self.traffic.caution, self.traffic.trust) = (self.traffic.caution - 1, 0);
        }
    }
    /// Passes the report on the checkpoint of `mark` to congestion control: of the `covered` bytes, `lost` did not
    /// arrive.
    pub(super) fn on_checkpoint_report(&mut self, now: Instant, mark: &Mark, covered: u64, lost: u64) {
        if let Some(pace) = self.pace() {
            pace.report(now, mark, covered, lost);
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
        assert_eq!(span.margin(), Duration::from_millis(200), "the configured margin");
        (0..50).for_each(|n| span.answered(at(n * 1000 + 103), at(n * 1000)));
        assert_eq!(span.margin(), MARGIN_LEAST, "3 ms beyond the propagation delay");
        (0..50).for_each(|n| span.answered(at(n * 5000 + 2100), at(n * 5000)));
        assert!((1990..2100).contains(&span.margin().as_millis()), "{:?}", span.margin());
    }

    #[test]
    fn timers_grow_without_answers_and_recover() {
        let mut span = span();
        (0..100).for_each(|n| span.unanswered(at(n * 10_000)));
        assert_eq!(span.margin(), Duration::from_millis(200 << PATIENCE_MAX));
        (0..20).for_each(|n| span.answered(at(n * 10_000 + 110), at(n * 10_000)));
        assert_eq!(span.margin(), Duration::from_millis(200 << PATIENCE_MAX), "segments sent earlier do not count");
        (100..120).for_each(|n| span.answered(at(n * 10_000 + 110), at(n * 10_000)));
        assert_eq!(span.margin(), MARGIN_LEAST);
    }

    #[test]
    fn only_live_peers_cancels_cause_caution() {
        // A silent peer may be absent: fewer sessions would not help it.
        let mut span = span();
        span.state.rate = Some(DataRate(8_000_000));
        (0..100).for_each(|n| span.overtaxed(at(n * 1000)));
        assert_eq!((span.rate().0, span.sessions_max()), (8_000_000, span.rules.sessions), "the peer may be absent");
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
    fn cancels_raise_caution_until_trust() {
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

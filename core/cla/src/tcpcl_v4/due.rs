//! Timeouts of a session: keepalives, silence, missing progress, idleness (RFC 9174 5.1.1, 6.2).

use super::Config;
use super::session::{SessionPhase, TcpclSession};
use crate::streams::timing::Deadlines;
use farlink_base::{Duration, Instant};

/// Result of checking the deadlines of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionDue {
    /// Check again at this time; `None`: no deadline.
    Later(Option<Instant>),
    Keepalive,
    /// Terminate in order, because the idle time passed without a transfer.
    Idle,
    /// Close the stream: the peer is silent or makes no progress, or did not open or end the session in time.
    Dead,
}

/// Times of the peer's latest progress in each activity that this side may wait for. Progress in one does not extend
/// the timeout of another.
#[derive(Clone, Copy, Debug)]
pub struct PeerProgress {
    /// Latest progress in sending the rest of a transfer.
    pub data: Instant,
    /// Latest progress in acknowledging transfers.
    pub answers: Instant,
    /// Latest progress in reading from the stream.
    pub reading: Instant,
}
impl PeerProgress {
    /// Starts with all progress at `now`.
    pub const fn at(now: Instant) -> Self {
        PeerProgress { data: now, answers: now, reading: now }
    }
}

impl TcpclSession {
    /// Activities of the peer in the order of [`PeerProgress`]: whether this side waits for each, and its latest
    /// progress. While this side does not read, it waits only for the peer to read.
    fn debts(&self) -> [(bool, Instant); 3] {
        let heard = !self.paused;
        let PeerProgress { data, answers, reading } = self.progress;
        [
            (heard && self.incoming.is_arriving(), data),
            (heard && self.outgoing.is_unanswered(), answers),
            (self.unread() > 0, reading),
        ]
    }
    /// Restarts the timers of the activities that this side does not wait for.
    pub fn note_debts(&mut self, now: Instant) {
        let [data, answers, reading] = self.debts().map(|(owed, since)| if owed { since } else { now });
        self.progress = PeerProgress { data, answers, reading };
    }

    /// Next action due. `sends` and `hears`: whether the link carries bytes out, and in.
    pub fn due(&self, now: Instant, config: &Config, sends: bool, hears: bool) -> SessionDue {
        let mut deadlines = Deadlines::at(now);
        let mut at = |deadline: Instant| deadlines.passed(deadline);
        match self.phase {
            SessionPhase::Connecting => {}
            // 9174-4.1-7
            SessionPhase::Contact
            | SessionPhase::Securing
            | SessionPhase::Init
            | SessionPhase::Answering
            | SessionPhase::Closing => {
                if at(self.since + config.contact_timeout) {
                    return SessionDue::Dead;
                }
            }
            SessionPhase::Established => {
                let silent = if self.keepalive > Duration::ZERO { self.keepalive * 2 } else { Duration::ZERO };
                // 9174-5.1.1-2
                // RFC 9174 5.1.1: the peer is gone after twice the keepalive interval without a message.
                if hears && !self.paused && silent > Duration::ZERO && at(self.last_received + silent) {
                    return SessionDue::Dead;
                }
                // Keepalives alone are no progress of a transfer.
                let stuck = self.debts().into_iter().filter_map(|(owed, since)| owed.then_some(since)).min();
                let stuck = stuck.filter(|_| hears && sends && config.progress > Duration::ZERO);
                if stuck.is_some_and(|since| at(since + config.progress)) {
                    return SessionDue::Dead;
                }
                // In an ending session, any input counts while transfers are in progress; without transfers, keepalives
                // do not delay the end.
                let heard = if self.has_unfinished() { self.last_received } else { self.last_used };
                let lingers = self.last_used.max(heard) + config.contact_timeout;
                if self.is_ending() && at(lingers) {
                    return SessionDue::Dead;
                }
                if !self.is_ending() && config.idle > Duration::ZERO && !self.has_unfinished() {
                    // RFC 9174 6.2 leaves it to each node whether and when idle sessions end.
                    if at(self.last_used + config.idle) {
                        return SessionDue::Idle;
                    }
                }
                // 9174-5.1.1-1
                if sends && silent > Duration::ZERO && !self.is_mute() && at(self.last_sent + self.keepalive) {
                    // Without room in the socket a keepalive would only queue up.
                    if self.room > 0 {
                        return SessionDue::Keepalive;
                    }
                    return SessionDue::Later(Some(now + self.keepalive));
                }
            }
        }
        SessionDue::Later(deadlines.next)
    }
}

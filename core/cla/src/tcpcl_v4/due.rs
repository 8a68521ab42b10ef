//! What time demands of a session: keepalives, silence, idleness (RFC 9174 5.1.1, 6.2).

use super::Config;
use super::session::{SessionPhase, TcpclSession};
use crate::streams::timing::Deadlines;
use farlink_base::{Duration, Instant};

/// What time demands of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionDue {
    /// Look again then; `None`: nothing to wait for.
    Later(Option<Instant>),
    /// Say that this side lives.
    Keepalive,
    /// Nothing was transferred for long: end it in good order.
    Idle,
    /// The peer is gone, or did not introduce itself or end the session in time.
    Dead,
}

/// When a peer last brought on what it owes, each kind apart: one does not stand for another.
#[derive(Clone, Copy, Debug)]
pub struct PeerProgress {
    /// The rest of a transfer.
    pub data: Instant,
    /// Acknowledgments.
    pub answers: Instant,
    /// To read what it was sent.
    pub reading: Instant,
}
impl PeerProgress {
    /// All at this moment.
    pub const fn at(now: Instant) -> Self {
        PeerProgress { data: now, answers: now, reading: now }
    }
}

impl TcpclSession {
    /// What the peer owes, and since when it has done nothing for it. Of one that is not read from, only reading is
    /// expected.
    fn debts(&self) -> [(bool, Instant); 3] {
        let heard = !self.paused;
        let PeerProgress { data, answers, reading } = self.progress;
        [
            (heard && self.incoming.is_arriving(), data),
            (heard && self.outgoing.is_unanswered(), answers),
            (self.unread() > 0, reading),
        ]
    }
    /// What is not owed now will be owed from now on at the earliest.
    pub fn note_debts(&mut self, now: Instant) {
        let [data, answers, reading] = self.debts().map(|(owed, since)| if owed { since } else { now });
        self.progress = PeerProgress { data, answers, reading };
    }

    /// What is due at `now`. `sends` and `hears`: whether the link carries bytes out and in.
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
                // RFC 9174 5.1.1: no message for twice the keepalive interval.
                if hears && !self.paused && silent > Duration::ZERO && at(self.last_received + silent) {
                    return SessionDue::Dead;
                }
                // Keepalives alone do not bring a transfer on.
                let stuck = self.debts().into_iter().filter_map(|(owed, since)| owed.then_some(since)).min();
                let stuck = stuck.filter(|_| hears && sends && config.progress > Duration::ZERO);
                if stuck.is_some_and(|since| at(since + config.progress)) {
                    return SessionDue::Dead;
                }
                // Signs of life are enough for what is under way, not for a goodbye that is not answered.
                let heard = if self.has_unfinished() { self.last_received } else { self.last_used };
                let lingers = self.last_used.max(heard) + config.contact_timeout;
                if self.is_ending() && at(lingers) {
                    return SessionDue::Dead;
                }
                if !self.is_ending() && config.idle > Duration::ZERO && !self.has_unfinished() {
                    // RFC 9174 6.2.
                    if at(self.last_used + config.idle) {
                        return SessionDue::Idle;
                    }
                }
                // 9174-5.1.1-1
                if sends && silent > Duration::ZERO && !self.is_mute() && at(self.last_sent + self.keepalive) {
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

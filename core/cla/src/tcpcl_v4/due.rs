//! What time demands of a session: keepalives, silence, idleness (RFC 9174 5.1.1, 6.2).

use super::Config;
use super::session::{Phase, Session};
use farlink_base::{Duration, Instant};

/// What time demands of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Look again then; `None`: nothing to wait for.
    Later(Option<Instant>),
    /// Say that this side lives.
    Keepalive,
    /// Nothing was transferred for long: end it in good order.
    Idle,
    /// The peer is gone, or did not introduce itself or end the session in time.
    Dead,
}

impl Session {
    /// What is due at `now`. `sends` and `hears`: whether the link carries bytes out and in.
    pub fn due(&self, now: Instant, config: &Config, sends: bool, hears: bool) -> Due {
        let mut next: Option<Instant> = None;
        let mut at = |deadline: Instant| {
            next = Some(next.map_or(deadline, |next| next.min(deadline)));
            deadline <= now
        };
        match self.phase {
            Phase::Connecting => {}
            Phase::Contact | Phase::Securing | Phase::Init | Phase::Closing => {
                if at(self.since + config.contact_timeout) {
                    return Due::Dead;
                }
            }
            Phase::Established => {
                let silent = if self.keepalive > Duration::ZERO { self.keepalive * 2 } else { Duration::ZERO };
                // RFC 9174 5.1.1: no message for twice the keepalive interval.
                if hears && !self.paused && silent > Duration::ZERO && at(self.last_received + silent) {
                    return Due::Dead;
                }
                // Keepalives alone do not bring a transfer on.
                let stuck = config.progress > Duration::ZERO && self.owes();
                if hears && sends && stuck && at(self.last_progress + config.progress) {
                    return Due::Dead;
                }
                let lingers = self.last_used.max(self.last_received) + config.contact_timeout;
                if self.is_ending() && at(lingers) {
                    return Due::Dead;
                }
                if !self.is_ending() && config.idle > Duration::ZERO && !self.has_unfinished() {
                    // RFC 9174 6.2.
                    if at(self.last_used + config.idle) {
                        return Due::Idle;
                    }
                }
                if sends && silent > Duration::ZERO && at(self.last_sent + self.keepalive) {
                    if self.room > 0 {
                        return Due::Keepalive;
                    }
                    return Due::Later(Some(now + self.keepalive));
                }
            }
        }
        Due::Later(next)
    }
}

//! Outcomes of sessions, with texts for logs and events.

use super::segment::reason;

/// Outcome of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionEnd {
    /// Everything arrived; or, of a green block, everything was sent.
    Complete,
    /// This engine cancelled the session, for this reason (RFC 5326 3.2.4).
    Here(u8),
    /// The peer cancelled the session, for this reason.
    Peer(u8),
    /// The session was dropped without a cancel segment, because it was idle or had not begun.
    Silent,
}
impl SessionEnd {
    /// Whether the session failed.
    pub(super) fn is_in_vain(self) -> bool {
        self != SessionEnd::Complete
    }
    pub(super) fn words(self) -> &'static str {
        match self {
            SessionEnd::Complete => "completed",
            SessionEnd::Silent => "dropped",
            SessionEnd::Here(reason::USER) => "cancelled here: USR_CNCLD (not wanted)",
            SessionEnd::Here(reason::UNREACHABLE) => "cancelled here: UNREACH (client service unknown)",
            SessionEnd::Here(reason::LIMIT) => "cancelled here: RLEXC (retransmission limit)",
            SessionEnd::Here(reason::MISCOLORED) => "cancelled here: MISCOLORED",
            SessionEnd::Here(reason::SYSTEM) => "cancelled here: SYS_CNCLD (no room, or starting anew)",
            SessionEnd::Here(reason::CYCLES) => "cancelled here: RXMTCYCEXC (retransmission cycles)",
            SessionEnd::Here(_) => "cancelled here",
            SessionEnd::Peer(reason::USER) => "cancelled by the peer: USR_CNCLD (not wanted)",
            SessionEnd::Peer(reason::UNREACHABLE) => "cancelled by the peer: UNREACH (client service unknown)",
            SessionEnd::Peer(reason::LIMIT) => "cancelled by the peer: RLEXC (retransmission limit)",
            SessionEnd::Peer(reason::MISCOLORED) => "cancelled by the peer: MISCOLORED",
            SessionEnd::Peer(reason::SYSTEM) => "cancelled by the peer: SYS_CNCLD (no room, or starting anew)",
            SessionEnd::Peer(reason::CYCLES) => "cancelled by the peer: RXMTCYCEXC (retransmission cycles)",
            SessionEnd::Peer(_) => "cancelled by the peer for a reason RFC 5326 does not name",
        }
    }
}

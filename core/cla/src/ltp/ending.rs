//! How a session ended, in words for logs and events.

use super::segment::reason;

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// All of it arrived, or, of a green block, has left.
    Complete,
    /// This engine cancelled it, for this reason (RFC 5326 3.2.4).
    Here(u8),
    /// The peer cancelled it, for this reason.
    Peer(u8),
    /// It ended without a word: nothing came of it any more, or it had not begun.
    Silent,
}
impl End {
    /// Whether it ended in vain.
    pub(super) fn is_in_vain(self) -> bool {
        self != End::Complete
    }
    /// What a log says.
    pub(super) fn words(self) -> &'static str {
        match self {
            End::Complete => "completed",
            End::Silent => "dropped",
            End::Here(reason::USER) => "cancelled here: USR_CNCLD (not wanted)",
            End::Here(reason::UNREACHABLE) => "cancelled here: UNREACH (client service unknown)",
            End::Here(reason::LIMIT) => "cancelled here: RLEXC (retransmission limit)",
            End::Here(reason::MISCOLORED) => "cancelled here: MISCOLORED",
            End::Here(reason::SYSTEM) => "cancelled here: SYS_CNCLD (no room, or starting anew)",
            End::Here(reason::CYCLES) => "cancelled here: RXMTCYCEXC (retransmission cycles)",
            End::Here(_) => "cancelled here",
            End::Peer(reason::USER) => "cancelled by the peer: USR_CNCLD (not wanted)",
            End::Peer(reason::UNREACHABLE) => "cancelled by the peer: UNREACH (client service unknown)",
            End::Peer(reason::LIMIT) => "cancelled by the peer: RLEXC (retransmission limit)",
            End::Peer(reason::MISCOLORED) => "cancelled by the peer: MISCOLORED",
            End::Peer(reason::SYSTEM) => "cancelled by the peer: SYS_CNCLD (no room, or starting anew)",
            End::Peer(reason::CYCLES) => "cancelled by the peer: RXMTCYCEXC (retransmission cycles)",
            End::Peer(_) => "cancelled by the peer for a reason RFC 5326 does not name",
        }
    }
}

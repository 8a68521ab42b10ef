//! Mutations of convergence layers.

use super::{Mutant, durable, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    // The final XFER_ACK is the promise that the bundle is kept.
    durable(
        "the last acknowledgment does not wait",
        "core/cla/src/tcpcl_v4/incoming.rs",
        "if !accepted && (flags & END != 0 || (parts && bytes > transfer.kept)) {",
        "if !accepted && parts && bytes > transfer.kept {",
        &["-p farlink-cla"],
    ),
    durable(
        "a refusal is a confirmation",
        "core/cla/src/tcpcl_v4/incoming.rs",
        "if let Some(Err(code)) = transfer.verdict {",
        "if let Some(Err(code)) = transfer.verdict.filter(|_| !transfer.complete) {",
        &["-p farlink-cla"],
    ),
    // The transfer MRU is what this node announced in SESS_INIT.
    plain(
        "any length is taken",
        "core/cla/src/tcpcl_v4/incoming.rs",
        "if end > transfer_mru || self.total",
        "if self.total",
        &["-p farlink-cla"],
    ),
    // The Transfer Length extension must match the data (RFC 9174 section 5.2.5.1).
    plain(
        "an announced length is not held to",
        "core/cla/src/tcpcl_v4/incoming.rs",
        "(last && end != total)",
        "(last && end > total)",
        &["-p farlink-cla"],
    ),
    // The peer would refuse the transfer, or end the session.
    plain(
        "the limit of the peer is not obeyed",
        "core/cla/src/tcpcl_v4/outgoing.rs",
        "let fits = bundle.total <= self.transfer_limit && ",
        "let fits = ",
        &["-p farlink-cla"],
    ),
    plain(
        "an acknowledgment in order need not grow",
        "core/cla/src/tcpcl_v4/outgoing.rs",
        "if acked <= flight.acked {",
        "if acked < flight.acked {",
        &["-p farlink-cla"],
    ),
    plain(
        "a refusal of either of two bundles means one",
        "core/cla/src/tcpcl_v4/outgoing.rs",
        "Some(_) if self.crossing > 0 => Err(Nonsense::Miscounted),",
        "",
        &["-p farlink-cla"],
    ),
    // Transfers in progress may finish before SESS_TERM closes the session (RFC 9174 section 6.1).
    plain(
        "a goodbye does not wait",
        "core/cla/src/tcpcl_v4/session.rs",
        "} else if self.phase == SessionPhase::Established && !self.has_unfinished() {",
        "} else if self.phase == SessionPhase::Established {",
        &["-p farlink-cla"],
    ),
    plain(
        "zeros that keep an address are a segment",
        "core/cla/src/ltp/receiving.rs",
        "if total == 4 && head == [0; 4] {",
        "if total == 5 && head == [0; 4] {",
        &["-p farlink-cla"],
    ),
    plain(
        "a block has no bound",
        "core/cla/src/ltp/receiving.rs",
        "if data.end() > self.config.block_bytes || ",
        "if ",
        &["-p farlink-cla"],
    ),
    plain(
        "arriving blocks have no bound",
        "core/cla/src/ltp/receiving.rs",
        "if (!share || self.arriving_bytes + data.length > limit) && !holds_much {",
        "if (!share || self.arriving_bytes == u64::MAX && limit == 0) && !holds_much {",
        &["-p farlink-cla"],
    ),
    plain(
        "ranges join what does not touch",
        "core/cla/src/ltp/ranges.rs",
        "self.runs.partition_point(|run| run.1 < position)",
        "self.runs.partition_point(|run| run.1 + 1 < position)",
        &["-p farlink-cla"],
    ),
    plain(
        "an empty range is in no set",
        "core/cla/src/ltp/ranges.rs",
        "start >= end || self.runs",
        "start > end || self.runs",
        &["-p farlink-cla"],
    ),
    plain(
        "segments that overlap are joined",
        "core/cla/src/udpcl/transfers.rs",
        "before.is_some_and(|(_, ends)| ends > offset) || ",
        "",
        &["-p farlink-cla"],
    ),
    // A late datagram would start a transfer that can never complete.
    plain(
        "a transfer that is over begins anew",
        "core/cla/src/udpcl/transfers.rs",
        "if segment.data.is_empty() || finished.contains(&id) {",
        "if segment.data.is_empty() {",
        &["-p farlink-cla"],
    ),
    // A spoofed address would receive bundles: the nonce proves the way back.
    plain(
        "strangers are sent bundles wherever they say to be",
        "core/cla/src/udpcl/dynamic.rs",
        ".filter(|asked| asked.nonce == nonce)",
        ".filter(|_| nonce > 0)",
        &["-p farlink-cla"],
    ),
    plain(
        "idle time is saved up for datagrams",
        "core/cla/src/udpcl/span.rs",
        "if self.was_idle { Duration::ZERO } else { BURST }",
        "BURST",
        &["-p farlink-cla"],
    ),
];

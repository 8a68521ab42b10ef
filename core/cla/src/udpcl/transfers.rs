//! Transfers being received (draft-ietf-dtn-udpcl-04, section 3.6.2). An incomplete transfer is dropped some time after
//! its last new segment; nothing is retransmitted.

use super::finished::{Finished, TransferId};
use super::packet::{MessageKind, TransferSegment};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use farlink_base::{Duration, Instant, Map, Payload, Refusal, TimerKey, TimerQueue, map};

/// Memory that each transfer costs besides its data, and that each run of its data costs, bytes.
const TRANSFER_BYTES: u64 = 256;
const RUN_BYTES: u64 = 192;
/// Divisors of the bounds: for the share of all peers without a configured link together, for the share of one such
/// peer within that, and for the share of one neighbour.
const UNAUTHENTICATED_PART: u64 = 4;
const UNAUTHENTICATED_PEER_PART: u64 = 4;
const NEIGHBOUR_PART: u64 = 2;

/// Bounds on transfers being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferBounds {
    /// Most transfers at once.
    pub transfers: u64,
    /// Most bytes of all transfers together, including the memory that their fragmentation costs.
    pub memory: u64,
    /// Most bytes of one transfer.
    pub longest: u64,
    /// Time without a new segment after which a transfer is dropped.
    pub idle: Duration,
}

/// Outcome of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SegmentOutcome {
    /// The transfer is still incomplete, or the segment repeats known data.
    Nothing,
    /// The transfer is complete; this is its bundle.
    Whole(Payload),
    /// The segment violates a rule, for this reason.
    Malformed(&'static str),
    /// The segment or its transfer exceeds a bound.
    Refused(Refusal),
}

#[derive(Debug)]
struct PartialTransfer {
    total: u64,
    /// Contiguous runs of data, by offset.
    runs: BTreeMap<u64, Payload>,
    have: u64,
    weight: u64,
    unauthenticated: bool,
    dies: Instant,
    timer: TimerKey,
}
impl PartialTransfer {
    /// Adds data of a segment; returns false, and adds nothing, if some of it is there already.
    fn add(&mut self, offset: u64, data: &Payload) -> bool {
        let end = offset + data.len();
        let before = self.runs.range(..=offset).next_back().map(|(start, run)| (*start, start + run.len()));
        let after = self.runs.range(offset..).next().map(|(start, _)| *start);
        if before.is_some_and(|(_, ends)| ends > offset) || after.is_some_and(|start| start < end) {
            return false;
        }
        self.have += data.len();
        // Copy the data, because the receive buffer that holds it may be much larger.
        let data = data.own();
        // Append data only to the run that it follows. Joining it with the run after it as well would copy repeatedly;
        // the runs that stay separate are charged for.
        let start = before.filter(|(_, ends)| *ends == offset).map_or(offset, |(start, _)| start);
        self.runs.entry(start).or_default().gather(data);
        true
    }
    /// Joins all runs, in order, into one rope of few chunks.
    fn join(self) -> Payload {
        let many = self.runs.len() > 1;
        let mut whole = Payload::new();
        self.runs.into_values().for_each(|run| whole.append(run));
        if many { whole.own() } else { whole }
    }
    fn weight(&self) -> u64 {
        TRANSFER_BYTES + self.have + self.runs.len() as u64 * RUN_BYTES
    }
}

/// Number of transfers and of bytes held by one group of senders.
#[derive(Clone, Copy, Default, Debug)]
struct TransferShare {
    transfers: u64,
    bytes: u64,
}
impl TransferShare {
    fn may(&self, transfers: u64, bytes: u64, bounds: &TransferBounds, part: u64) -> bool {
        self.transfers + transfers <= (bounds.transfers / part).max(1) && self.bytes + bytes <= bounds.memory / part
    }
    fn take(&mut self, transfers: u64, bytes: u64) {
        self.transfers += transfers;
        self.bytes += bytes;
    }
    fn give(&mut self, transfers: u64, bytes: u64) {
        self.transfers -= transfers;
        self.bytes -= bytes;
    }
}

/// All transfers being received, with the shares of the groups of senders.
#[derive(Debug)]
pub(super) struct Transfers {
    bounds: TransferBounds,
    open: Map<TransferId, PartialTransfer>,
    of: Map<SocketAddr, TransferShare>,
    all: TransferShare,
    dynamic: TransferShare,
    /// Timers of idle transfers.
    timers: TimerQueue<TransferId>,
    /// Finished transfers of neighbours, and of other peers; kept apart so that neither group evicts those of the
    /// other.
    finished: [Finished; 2],
}

impl Transfers {
    pub(super) const fn new(bounds: TransferBounds, seed: u64) -> Transfers {
        Transfers {
            bounds,
            open: map(seed),
            of: map(seed),
            all: TransferShare { transfers: 0, bytes: 0 },
            dynamic: TransferShare { transfers: 0, bytes: 0 },
            timers: TimerQueue::new(),
            finished: [Finished::new(seed), Finished::new(seed)],
        }
    }
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
    /// Bytes held, including the memory that fragmentation costs.
    pub(super) fn bytes(&self) -> u64 {
        self.all.bytes
    }
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let [neighbours, others] = &self.finished;
        Instant::earliest([self.timers.next_deadline(), neighbours.due(), others.due()])
    }
    /// Drops transfers that were idle for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        self.finished.iter_mut().for_each(|finished| finished.expire(now));
        while let Some((_, id)) = self.timers.pop_due(now) {
            match self.open.get_mut(&id) {
                // A segment only moves `dies`; the timer is armed again here, at most once per timeout.
                Some(transfer) if transfer.dies > now => transfer.timer = self.timers.arm(transfer.dies, id),
                _ => drop(self.close(id)),
            }
        }
        if self.open.is_empty() {
            self.open.shrink_to_fit();
            self.of.shrink_to_fit();
        }
    }
    /// Handles a segment.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        from: SocketAddr,
        unauthenticated: bool,
        segment: TransferSegment,
    ) -> SegmentOutcome {
        let id = (from, segment.id);
        let finished = &mut self.finished[usize::from(unauthenticated)];
        finished.expire(now);
        // Ignore late or repeated segments of a finished transfer.
        if segment.data.is_empty() || finished.contains(&id) {
            return SegmentOutcome::Nothing;
        }
        let Some(total) = segment.total else {
            // This segment is a whole transfer, so an open one with the same number contradicts it.
            let known = self.open.contains_key(&id);
            if known {
                return self.malformed(now, id, "a transfer in one segment that has others");
            }
            finished.insert(now, id);
            return whole(segment.data);
        };
        // Checked before the transfer is looked up, so that a segment with a forged offset does not end a genuine
        // transfer.
        if segment.offset.checked_add(segment.data.len()).is_none_or(|end| end > total) {
            return SegmentOutcome::Malformed("a segment beyond the end of its transfer");
        }
        match self.open.get(&id).map(|transfer| transfer.total) {
            Some(before) if before != total => {
                return self.malformed(now, id, "segments that differ in the length of their transfer");
            }
            Some(_) => {}
            None if total > self.bounds.longest => return SegmentOutcome::Refused(Refusal::TooLarge),
            None => {
                if !self.may(&id, unauthenticated, 1, TRANSFER_BYTES + RUN_BYTES + segment.data.len()) {
                    return SegmentOutcome::Refused(Refusal::NoResources);
                }
                self.begin(now, id, total, unauthenticated);
            }
        }
        self.add(now, id, &segment)
    }
    fn may(&self, id: &TransferId, unauthenticated: bool, transfers: u64, bytes: u64) -> bool {
        let one = self.of.get(&id.0).copied().unwrap_or_default();
        let part = if unauthenticated { UNAUTHENTICATED_PART * UNAUTHENTICATED_PEER_PART } else { NEIGHBOUR_PART };
        one.may(transfers, bytes, &self.bounds, part)
            && self.all.may(transfers, bytes, &self.bounds, 1)
            && (!unauthenticated || self.dynamic.may(transfers, bytes, &self.bounds, UNAUTHENTICATED_PART))
    }
    fn begin(&mut self, now: Instant, id: TransferId, total: u64, unauthenticated: bool) {
        let dies = now + self.bounds.idle;
        let weight = TRANSFER_BYTES;
        let transfer = PartialTransfer {
            total,
            runs: BTreeMap::new(),
            have: 0,
            weight,
            unauthenticated,
            dies,
            timer: self.timers.arm(dies, id),
        };
        self.open.insert(id, transfer);
        self.all.take(1, weight);
        self.of.entry(id.0).or_default().take(1, weight);
        if unauthenticated {
            self.dynamic.take(1, weight);
        }
    }
    fn add(&mut self, now: Instant, id: TransferId, segment: &TransferSegment) -> SegmentOutcome {
        let Some(unauthenticated) = self.open.get(&id).map(|transfer| transfer.unauthenticated) else {
            return SegmentOutcome::Nothing;
        };
        if !self.may(&id, unauthenticated, 0, RUN_BYTES + segment.data.len()) {
            return SegmentOutcome::Refused(Refusal::NoResources);
        }
        let Some(transfer) = self.open.get_mut(&id) else { return SegmentOutcome::Nothing };
        if !transfer.add(segment.offset, &segment.data) {
            // Overlapping data is ignored (draft-ietf-dtn-udpcl section 3.6.2); repeated segments overlap, too.
            return SegmentOutcome::Nothing;
        }
        transfer.dies = now + self.bounds.idle;
        let complete = transfer.have == transfer.total;
        let (before, after) = (transfer.weight, transfer.weight());
        transfer.weight = after;
        let shares = [Some(&mut self.all), self.of.get_mut(&id.0), unauthenticated.then_some(&mut self.dynamic)];
        for share in shares.into_iter().flatten() {
            share.bytes = share.bytes + after - before;
        }
        if !complete {
            return SegmentOutcome::Nothing;
        }
        self.finished[usize::from(unauthenticated)].insert(now, id);
        let bundle = self.close(id).map(PartialTransfer::join);
        bundle.map_or(SegmentOutcome::Nothing, whole)
    }
    /// Ends a transfer that broke a rule; later segments of it are ignored.
    fn malformed(&mut self, now: Instant, id: TransferId, why: &'static str) -> SegmentOutcome {
        if let Some(transfer) = self.close(id) {
            self.finished[usize::from(transfer.unauthenticated)].insert(now, id);
        }
        SegmentOutcome::Malformed(why)
    }
    fn close(&mut self, id: TransferId) -> Option<PartialTransfer> {
        let transfer = self.open.remove(&id)?;
        self.timers.cancel(transfer.timer);
        self.all.give(1, transfer.weight);
        if transfer.unauthenticated {
            self.dynamic.give(1, transfer.weight);
        }
        if let Some(one) = self.of.get_mut(&id.0) {
            one.give(1, transfer.weight);
            if one.transfers == 0 {
                self.of.remove(&id.0);
            }
        }
        Some(transfer)
    }
    /// Drops the incomplete transfers from an address that is no longer a peer's.
    pub(super) fn forget(&mut self, from: SocketAddr) {
        if self.of.contains_key(&from) {
            let of_it: Vec<TransferId> = self.open.keys().filter(|id| id.0 == from).copied().collect();
            of_it.into_iter().for_each(|id| drop(self.close(id)));
        }
    }
}

/// Checks that a completed transfer starts like a bundle.
fn whole(bundle: Payload) -> SegmentOutcome {
    match bundle.reader().read_u8().map(MessageKind::of) {
        Some(MessageKind::Bundle) => SegmentOutcome::Whole(bundle),
        _ => SegmentOutcome::Malformed("a transfer that is not a bundle"),
    }
}

#[cfg(test)]
#[path = "transfers_tests.rs"]
mod tests;

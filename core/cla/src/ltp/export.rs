//! Export session: the sender of one block (RFC 5326 6.7, 6.12, 6.13, 8.1). Chooses the next segment and handles
//! reports. It is state only; the engine owns timers and queues.

use super::block_bundles::BlockBundles;
use super::cookies::Cookies;
use super::pace::Mark;
use super::ranges::RangeSet;
use super::segment::{Data, SERVICE_BUNDLE, SessionId, kind};
use super::source::BlockSource;
use crate::sdnv;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::SendId;
use farlink_base::{Instant, Payload};

/// Most report serial numbers remembered per session, by which repeated reports are recognised.
const REPORTS_REMEMBERED: usize = 256;
/// Largest step between serial numbers of reports, which count up. A number further away comes from a receiver that
/// restarted and lost the data that it had claimed.
const SERIALS_NEAR: u64 = 64;
/// Distance below the lowest known serial number within which a report still counts as overtaken by others.
const OVERTAKEN: u64 = 16;
/// Most reports on a session; after more, it is given up as flooded or without progress.
const REPORTS_MAX: u32 = 20_000;
/// Most retransmissions of each byte, on average; after more, the session is given up.
const RESENDS_MAX: u64 = 256;

/// A checkpoint not answered yet.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    data: Data,
    attempts: u32,
    /// Number of timeouts that did not lead to a retransmission.
    waited: u32,
    /// State at the first transmission of the checkpoint (`None` before), and time of its latest transmission.
    mark: Option<Mark>,
    left: Instant,
}

/// A queued retransmission.
#[derive(Debug)]
enum ResendJob {
    /// Gaps that reports showed; the last segment of the retransmission is a checkpoint that answers `report`.
    Gaps { gaps: VecDeque<(u64, u64)>, report: u64 },
    /// An unchanged checkpoint, because its timer expired, or as a precautionary `copy`.
    Checkpoint { serial: u64, copy: bool },
}

/// A segment to send now.
#[derive(Debug)]
pub(super) struct CutSegment {
    pub(super) data: Data,
    /// Whether the segment repeats an earlier one unchanged: after a timeout, or as a copy.
    pub(super) resend: bool,
}

/// Outcome of a report.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Reported {
    /// The report claims data that was never sent, so it is forged or damaged; it is not answered.
    Invalid,
    /// The report was handled before; it is only acknowledged.
    Repeated,
    /// Data is missing; its retransmission is queued, or will be when reports have been gathered.
    Gaps,
    Nothing,
    /// The whole red part has been received.
    Complete,
    /// More reports or retransmissions than a working channel needs; the session must be given up.
    TooMany,
}

/// A session in which this engine sends a block.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) span: usize,
    pub(super) bundles: BlockBundles,
    pub(super) source: BlockSource,
    /// Length of the red part, which comes first, bytes.
    red: u64,
    /// Client service of the block.
    pub(super) service: u64,
    /// Cookies that all segments of the session carry.
    pub(super) cookies: Option<Box<Cookies>>,
    /// Whether the session is in the span's queue of new data.
    pub(super) in_fresh: bool,
    /// Whether the session is in the span's queue of retransmissions.
    pub(super) in_resends: bool,
    /// Number of stalls in a row. In a stall no open checkpoint and no queued retransmission could bring a report, so
    /// unclaimed data is sent again.
    pub(super) stalls: u32,
    /// Number of bytes sent at least once; the next field has the length of the last segment of new data.
    sent: u64,
    last: u64,
    /// Number of red bytes sent, retransmissions included, and number of these that reports have covered.
    left: u64,
    reported: u64,
    /// Red bytes sent since the last checkpoint.
    silent: u64,
    /// Length of the header fields that all data segments have, bytes.
    base: usize,
    datagram: u64,
    copies: u32,
    next_serial: u64,
    checkpoints: Vec<Checkpoint>,
    jobs: VecDeque<ResendJob>,
    /// Gaps in recent reports that are not queued for retransmission yet. The next field has the lower bound and the
    /// serial number of that report among them whose scope begins first.
    gathered: RangeSet,
    gathered_by: (u64, u64),
    resent: u64,
    claimed: RangeSet,
    reports: u32,
    seen: VecDeque<u64>,
    /// Lowest and highest serial number among the receiver's reports, since it last restarted.
    serials: Option<(u64, u64)>,
}

/// Segmentation parameters of a span, for its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutting {
    pub(super) datagram_bytes: u32,
    pub(super) copies: u32,
}

impl Export {
    pub(super) fn new(
        id: SessionId,
        span: usize,
        (bundles, source): (BlockBundles, BlockSource),
        red: u64,
        first_serial: u64,
        cutting: Cutting,
    ) -> Export {
        let block_bytes = source.len();
        Export {
            span,
            bundles,
            source,
            red: red.min(block_bytes),
            service: SERVICE_BUNDLE,
            cookies: None,
            in_fresh: false,
            in_resends: false,
            stalls: 0,
            sent: 0,
            last: 0,
            left: 0,
            reported: 0,
            silent: 0,
            base: 2 + sdnv::len(id.engine) + sdnv::len(id.number) + sdnv::len(SERVICE_BUNDLE),
            datagram: u64::from(cutting.datagram_bytes),
            copies: cutting.copies.clamp(1, 8),
            next_serial: first_serial,
            checkpoints: Vec::new(),
            jobs: VecDeque::new(),
            gathered: RangeSet::new(),
            gathered_by: (0, 0),
            resent: 0,
            claimed: RangeSet::new(),
            reports: 0,
            seen: VecDeque::new(),
            serials: None,
        }
    }
    /// Number of bytes of the block that were never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.source.len() - self.sent
    }
    /// Whether the next segment may contain bundles that have not begun to leave.
    pub(super) fn begins_next(&self) -> bool {
        self.bundles.are_to_begin() && self.source.end() < self.sent + self.datagram
    }
    /// Begins the bundles in the next segment, which leaves at `now`: updates their age. Expired bundles are removed and
    /// returned.
    pub(super) fn begin(&mut self, now: Instant) -> Vec<SendId> {
        // The age updates lengthen the block; that must not turn the end of a red block green.
        let all_red = self.red == self.source.len();
        let late = self.bundles.begin(now, self.sent + self.datagram, &mut self.source);
        self.red = if all_red { self.source.len() } else { self.red.min(self.source.len()) };
        if self.unsent() == 0 && self.begun() {
            // The last segment sent has become the end of the block, and is sent again with that mark.
            self.sent -= self.last;
            self.silent = self.silent.saturating_sub(self.last);
        }
        late
    }
    pub(super) fn begun(&self) -> bool {
        self.sent > 0
    }
    pub(super) fn has_resends(&self) -> bool {
        !self.jobs.is_empty()
    }
    /// Whether nothing is open or queued that could bring a report on the red part.
    pub(super) fn is_stalled(&self) -> bool {
        let idle = self.checkpoints.is_empty() && self.jobs.is_empty() && self.gathered.is_empty();
        self.has_red() && idle && self.unsent() == 0
    }
    /// Whether the block has a red part.
    pub(super) fn has_red(&self) -> bool {
        self.red > 0
    }
    /// Whether the next new data is red.
    pub(super) fn is_red_next(&self) -> bool {
        self.sent < self.red
    }
    /// Whether the session is complete: everything was sent and the red part claimed.
    // 5326-6.12-1
    pub(super) fn is_over(&self) -> bool {
        self.unsent() == 0 && self.claimed.covers(0, self.red)
    }
    /// Number of bytes of cookies in each datagram.
    fn cookie_bytes(&self) -> u64 {
        self.cookies.as_ref().map_or(0, |cookies| cookies.bytes())
    }
    /// Whether the next segment is the first after a checkpoint, or of the block.
    pub(super) fn is_between_checkpoints(&self) -> bool {
        self.silent == 0
    }
    /// Number of red bytes sent and not covered by a report.
    pub(super) fn out(&self) -> u64 {
        self.left - self.reported
    }
    /// Records the transmission of red data. A checkpoint keeps its mark, to be compared with the report on it.
    pub(super) fn leaves(&mut self, data: &Data, mut mark: Mark) {
        self.left += data.length;
        if !data.is_checkpoint() {
            return;
        }
        if let Some(open) = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == data.checkpoint) {
            mark.sent = self.left;
            open.left = mark.left;
            // Keep the mark of the first transmission.
            open.mark.get_or_insert(mark);
        }
    }
    /// Mark of an open checkpoint, and whether it was sent once only; `None` if it is not open or has not left.
    pub(super) fn mark(&self, checkpoint: u64) -> Option<(Mark, bool)> {
        let open = self.checkpoints.iter().find(|c| c.data.checkpoint == checkpoint)?;
        Some((open.mark?, open.attempts == 1))
    }
    /// Time at which an open checkpoint left last; `None` if it is not open.
    pub(super) fn left_at(&self, checkpoint: u64) -> Option<Instant> {
        self.checkpoints.iter().find(|c| c.data.checkpoint == checkpoint).map(|open| open.left)
    }
    /// Number of bytes sent up to this checkpoint that no earlier report covered; they count as covered from now on.
    pub(super) fn newly_covered(&mut self, mark: &Mark) -> u64 {
        let fresh = mark.sent.saturating_sub(self.reported);
        self.reported += fresh;
        fresh
    }
    /// Serial numbers of open checkpoints.
    pub(super) fn open_checkpoints(&self) -> impl Iterator<Item = u64> + '_ {
        self.checkpoints.iter().map(|c| c.data.checkpoint)
    }

    /// Longest data that fits a datagram, given `extra` bytes of serial numbers.
    fn room(&self, offset: u64, extra: usize) -> u64 {
        let head = (self.base + sdnv::len(offset) + extra) as u64 + self.cookie_bytes();
        let left = self.datagram.saturating_sub(head);
        // The length field has 1 to 5 bytes itself, depending on the length.
        (1..=5)
            .map(|n| left.saturating_sub(n))
            .find(|l| head + sdnv::len(*l) as u64 + l <= self.datagram)
            .unwrap_or(0)
            .max(1)
    }
    // 5326-3.2.1-4
    fn checkpoint(&mut self, kind: u8, offset: u64, length: u64, report: u64) -> Data {
        let data = Data { kind, service: SERVICE_BUNDLE, offset, length, checkpoint: self.next_serial, report };
        self.next_serial += 1;
        self.checkpoints.push(Checkpoint { data, attempts: 1, waited: 0, mark: None, left: Instant::ZERO });
        data
    }
    fn plain(kind: u8, offset: u64, length: u64) -> Data {
        Data { kind, service: SERVICE_BUNDLE, offset, length, checkpoint: 0, report: 0 }
    }
    fn serials(&self, report: u64) -> usize {
        sdnv::len(self.next_serial) + sdnv::len(report)
    }
    /// Cuts the next segment of `start..end`. The last one is a checkpoint that answers `report`.
    // 5326-2-2, 5326-3.2.1-7, 5326-4.1-3, 5326-4.1-5
    fn cut_closing(&mut self, start: u64, end: u64, report: u64) -> Data {
        if end - start <= self.room(start, self.serials(report)) {
            let kind = match end {
                _ if end == self.source.len() => kind::BLOCK_END,
                _ if end == self.red => kind::RED_END,
                _ => kind::CHECKPOINT,
            };
            return self.checkpoint(kind, start, end - start, report);
        }
        // Leave at least one byte for the checkpoint.
        Self::plain(kind::RED, start, self.room(start, 0).min(end - start - 1))
    }

    /// Queues the copies of a checkpoint, if copies are configured, before everything else.
    pub(super) fn copy_checkpoint(&mut self, serial: u64) {
        for _ in 1..self.copies {
            self.jobs.push_front(ResendJob::Checkpoint { serial, copy: true });
        }
    }

    /// Next segment of new data; it is a checkpoint if `every` bytes would leave without one. `None` if all has been
    /// sent.
    // 5326-3.2.1-8, 5326-4.1-3, 5326-4.1-4
    pub(super) fn next_fresh(&mut self, every: u64) -> Option<CutSegment> {
        let (start, end) = (self.sent, self.source.len());
        if start == end {
            return None;
        }
        let data = if start >= self.red {
            let length = self.room(start, 0).min(end - start);
            Self::plain(if start + length == end { kind::GREEN_END } else { kind::GREEN }, start, length)
        } else {
            let room = self.room(start, self.serials(0));
            if every > 0 && self.silent + room >= every && start + room < self.red {
                self.checkpoint(kind::CHECKPOINT, start, room, 0)
            } else {
                self.cut_closing(start, self.red, 0)
            }
        };
        (self.sent, self.last) = (data.end(), data.length);
        self.silent = if data.is_checkpoint() || !data.is_red() { 0 } else { self.silent + data.length };
        Some(CutSegment { data, resend: false })
    }
    /// Whether the bytes of the next segment (`again`: of the next retransmission) are in memory; true if there is
    /// none.
    pub(super) fn is_at_hand(&self, again: bool) -> bool {
        if self.source.send().is_none() {
            return true;
        }
        match again {
            false => self.source.has(self.sent, self.datagram.min(self.unsent())),
            true => self.next_again().is_none_or(|(from, end)| self.source.has(from, self.datagram.min(end - from))),
        }
    }
    /// Start of the next retransmission, and end of the range that it belongs to; `None` without retransmissions.
    fn next_again(&self) -> Option<(u64, u64)> {
        self.jobs.iter().find_map(|job| match job {
            ResendJob::Gaps { gaps, .. } => gaps.front().copied(),
            ResendJob::Checkpoint { serial, .. } => {
                let open = self.checkpoints.iter().find(|c| c.data.checkpoint == *serial)?;
                Some((open.data.offset, open.data.end()))
            }
        })
    }
    /// Range to request from the agent for the next segments, which with `again` are retransmissions; `None` if it is
    /// in memory or requested already.
    pub(super) fn want(&mut self, again: bool) -> Option<(u64, u64)> {
        if !again {
            return self.source.want_ahead(self.sent);
        }
        let (from, end) = self.next_again()?;
        // One request covers all gaps of a job that are near each other.
        let last = self.jobs.iter().find_map(|job| match job {
            ResendJob::Gaps { gaps, .. } if gaps.front() == Some(&(from, end)) => gaps.back().map(|gap| gap.1),
            _ => None,
        });
        self.source.want_again(from, last.unwrap_or(end))
    }
    /// Next segment to retransmit; `None` if nothing has to be retransmitted.
    // 5326-3.2.1-5, 5326-3.2.1-7, 5326-6.13-4
    pub(super) fn next_resend(&mut self) -> Option<CutSegment> {
        loop {
            match self.jobs.front_mut()? {
                ResendJob::Checkpoint { serial, copy } => {
                    let (serial, copy) = (*serial, *copy);
                    self.jobs.pop_front();
                    if let Some(open) = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == serial) {
                        // A copy is no further attempt: it belongs to the transmission that it repeats.
                        open.attempts += u32::from(!copy);
                        return Some(CutSegment { data: open.data, resend: true });
                    }
                }
                ResendJob::Gaps { gaps, report } => {
                    let report = *report;
                    let last = gaps.len() == 1;
                    let Some((start, end)) = gaps.pop_front() else {
                        self.jobs.pop_front();
                        continue;
                    };
                    let data = if last {
                        self.cut_closing(start, end, report)
                    } else {
                        Self::plain(kind::RED, start, self.room(start, 0).min(end - start))
                    };
                    match self.jobs.front_mut() {
                        Some(ResendJob::Gaps { gaps, .. }) if data.end() < end => gaps.push_front((data.end(), end)),
                        _ if last => drop(self.jobs.pop_front()),
                        _ => {}
                    }
                    self.resent += data.length;
                    if data.is_checkpoint() {
                        self.copy_checkpoint(data.checkpoint);
                    }
                    return Some(CutSegment { data, resend: false });
                }
            }
        }
    }
    /// Appends the bytes of `data` to `out`.
    pub(super) fn copy(&mut self, data: &Data, out: &mut Payload) {
        self.source.copy(data.offset, data.length, out);
    }

    /// Handles the timeout of a checkpoint. `None` if it was answered, `Some(true)` if it is queued again,
    /// `Some(false)` if `limit` timeouts have passed.
    // 5326-3.2.1-5
    pub(super) fn checkpoint_expired(&mut self, serial: u64, limit: u32) -> Option<bool> {
        let open = self.checkpoints.iter().find(|c| c.data.checkpoint == serial)?;
        let again = open.attempts + open.waited < limit;
        if again {
            (1..self.copies).for_each(|_| self.jobs.push_front(ResendJob::Checkpoint { serial, copy: true }));
            self.jobs.push_front(ResendJob::Checkpoint { serial, copy: false });
        }
        Some(again)
    }
    /// Counts a timeout of a checkpoint that is not repeated, because another one is. `None` if it was answered,
    /// otherwise whether `limit` allows a further timeout.
    pub(super) fn checkpoint_waits(&mut self, serial: u64, limit: u32) -> Option<bool> {
        let open = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == serial)?;
        open.waited += 1;
        Some(open.attempts + open.waited <= limit)
    }
    /// Queues all unclaimed data after a stall: every checkpoint was answered but reports are missing, because segments
    /// of a split report were lost or the receiver restarted.
    pub(super) fn ask_again(&mut self) {
        let gaps: VecDeque<_> = self.claimed.gaps(0, self.red).collect();
        if !gaps.is_empty() {
            self.stalls += 1;
            self.jobs.push_back(ResendJob::Gaps { gaps, report: 0 });
        }
    }

    /// Handles a report (RFC 5326 6.13). Within its scope its claims replace earlier claims, because a receiver may
    /// have lost data.
    // 5326-2-1, 5326-6.12-1, 5326-6.13-2
    pub(super) fn report(
        &mut self,
        serial: u64,
        checkpoint: u64,
        (lower, upper): (u64, u64),
        claims: impl Iterator<Item = (u64, u64)>,
    ) -> Reported {
        if upper > self.sent.min(self.red) {
            return Reported::Invalid;
        }
        if self.seen.contains(&serial) {
            return Reported::Repeated;
        }
        let late =
            self.serials.is_some_and(|(least, greatest)| (least.saturating_sub(OVERTAKEN)..greatest).contains(&serial));
        self.remember(serial);
        self.reports += 1;
        self.stalls = 0;
        self.checkpoints.retain(|c| c.data.checkpoint != checkpoint);
        let mut missing = RangeSet::new();
        missing.insert(lower, upper);
        for (start, end) in claims {
            self.claimed.insert(start, end);
            missing.remove(start, end);
            self.gathered.remove(start, end);
        }
        if late {
            // A report overtaken by later ones withdraws no claims: the receiver may have got the missing data since.
            self.claimed.runs().iter().for_each(|(start, end)| missing.remove(*start, *end));
        } else {
            missing.runs().iter().for_each(|(start, end)| self.claimed.remove(*start, *end));
        }
        if self.is_over() {
            return Reported::Complete;
        }
        if self.reports > REPORTS_MAX || self.resent > self.source.len().saturating_mul(RESENDS_MAX) {
            return Reported::TooMany;
        }
        self.gather(missing, (lower, serial))
    }
    fn remember(&mut self, serial: u64) {
        if self.seen.len() == REPORTS_REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(serial);
        let (least, greatest) = self.serials.unwrap_or((serial, serial));
        let near = least.saturating_sub(SERIALS_NEAR)..=greatest.saturating_add(SERIALS_NEAR);
        if near.contains(&serial) {
            self.serials = Some((least.min(serial), greatest.max(serial)));
        } else {
            // A receiver that restarted has lost the data claimed before.
            self.claimed = RangeSet::new();
            self.serials = Some((serial, serial));
        }
    }
    /// Collects gaps from all recent reports, unless they are queued already. The checkpoint after them answers the
    /// report whose scope begins first, so that the next report starts there (RFC 5326 6.11).
    // 5326-6.13-4
    fn gather(&mut self, mut missing: RangeSet, by: (u64, u64)) -> Reported {
        for job in &self.jobs {
            if let ResendJob::Gaps { gaps, .. } = job {
                gaps.iter().for_each(|(start, end)| missing.remove(*start, *end));
            }
        }
        if missing.is_empty() {
            let waits = !self.jobs.is_empty() || !self.gathered.is_empty();
            return if waits { Reported::Gaps } else { Reported::Nothing };
        }
        if self.gathered.is_empty() || by.0 < self.gathered_by.0 {
            self.gathered_by = by;
        }
        missing.runs().iter().for_each(|(start, end)| self.gathered.insert(*start, *end));
        Reported::Gaps
    }
    /// Queues the collected gaps as one retransmission, with a single checkpoint at its end.
    pub(super) fn resend_gathered(&mut self) {
        let gathered = core::mem::take(&mut self.gathered);
        if !gathered.is_empty() {
            let gaps = gathered.runs().iter().copied().collect();
            self.jobs.push_back(ResendJob::Gaps { gaps, report: self.gathered_by.1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::HeaderBuffer;
    use super::*;
    use proptest::prelude::*;

    const ID: SessionId = SessionId { engine: 17, number: 5_000_000 };
    fn export(len: u64, datagram_bytes: u32) -> Export {
        let block = (BlockBundles::new(Vec::new(), false), BlockSource::whole(Payload::fill(1, len)));
        Export::new(ID, 0, block, u64::MAX, 100, Cutting { datagram_bytes, copies: 1 })
    }
    fn drain(export: &mut Export) -> Vec<Data> {
        drain_with(export, 0)
    }
    fn drain_with(export: &mut Export, every: u64) -> Vec<Data> {
        export.resend_gathered();
        core::iter::from_fn(|| export.next_fresh(every).or_else(|| export.next_resend())).map(|cut| cut.data).collect()
    }
    fn size(data: &Data) -> u64 {
        HeaderBuffer::data(ID, data).bytes().len() as u64 + data.length
    }

    proptest! {
        /// Keeps 5326-2-2, 5326-4.1-3, 5326-4.1-5.
        #[test]
        fn all_but_last_segment_fill_datagrams(
            len in 1u64..200_000, datagram in prop_oneof![64u32..126, 300u32..9000], every in prop_oneof![Just(0u64), 1000u64..50_000],
        ) {
            let mut export = export(len, datagram);
            let segments = drain_with(&mut export, every);
            let mut at = 0;
            for (i, data) in segments.iter().enumerate() {
                prop_assert_eq!(data.offset, at);
                at = data.end();
                // The segment before the last may be shorter than a datagram, so that a byte remains for the last one.
                let full = size(data) == u64::from(datagram);
                prop_assert!(full || i + 2 >= segments.len(), "segment {} of {}: {:?}", i, segments.len(), data);
                prop_assert!(size(data) <= u64::from(datagram));
                prop_assert_eq!(data.is_checkpoint() && data.ends_block(), at == len);
            }
            prop_assert_eq!(at, len);
        }

        /// Keeps 5326-2-1, 5326-2-2, 5326-3.2.1-4, 5326-3.2.1-7, 5326-6.12-1, 5326-6.13-2, 5326-6.13-4.
        #[test]
        fn gaps_are_resent_ending_in_checkpoint(
            runs in proptest::collection::vec((0u64..50_000, 1u64..9000), 1..12),
        ) {
            let mut export = export(60_000, 1360);
            drain(&mut export);
            let mut claims = RangeSet::new();
            runs.iter().for_each(|(at, len)| claims.insert(*at, at + len));
            let want: Vec<_> = claims.gaps(0, 60_000).collect();
            prop_assert_eq!(export.report(7, 100, (0, 60_000), claims.runs().iter().copied()), Reported::Gaps);
            prop_assert_eq!(export.report(7, 100, (0, 60_000), claims.runs().iter().copied()), Reported::Repeated);
            prop_assert_eq!(export.report(8, 0, (0, 60_000), claims.runs().iter().copied()), Reported::Gaps, "queued already");
            let segments = drain(&mut export);
            let mut resent = RangeSet::new();
            segments.iter().for_each(|d| { assert!(!resent.contains(d.offset)); resent.insert(d.offset, d.end()) });
            prop_assert_eq!(resent.runs(), &want[..]);
            for (i, data) in segments.iter().enumerate() {
                let last = i + 1 == segments.len();
                prop_assert_eq!((data.is_checkpoint(), data.checkpoint, data.report), (last, 101 * u64::from(last), 7 * u64::from(last)));
            }
            prop_assert_eq!(export.report(9, 101, (0, 60_000), [(0, 60_000)].into_iter()), Reported::Complete);
        }
    }

    #[test]
    fn later_report_claiming_less_is_believed() {
        let mut export = export(10_000, 1360);
        drain_with(&mut export, 5000);
        assert_eq!(export.report(500, 100, (0, 5000), [(0, 5000)].into_iter()), Reported::Nothing);
        // A receiver that restarted: its first report begins at 0 and claims only the tail.
        assert_eq!(export.report(3, 101, (0, 10_000), [(6000, 10_000)].into_iter()), Reported::Gaps);
        assert_eq!(drain(&mut export)[0].offset, 0);
    }

    #[test]
    fn overtaken_report_retracts_nothing() {
        // The receiver may have completed the session since.
        let mut export = export(10_000, 1360);
        drain_with(&mut export, 5000);
        assert_eq!(export.report(500, 0, (0, 2000), [(1000, 2000)].into_iter()), Reported::Gaps);
        drain(&mut export);
        assert_eq!(export.report(502, 100, (0, 5000), [(0, 5000)].into_iter()), Reported::Nothing);
        assert_eq!(export.report(501, 0, (0, 3000), [(1500, 3000)].into_iter()), Reported::Nothing);
        assert_eq!(export.report(503, 101, (5000, 10_000), [(5000, 10_000)].into_iter()), Reported::Complete);
    }

    #[test]
    fn claims_before_receiver_restart_are_dropped() {
        let mut export = export(10_000, 1360);
        drain_with(&mut export, 5000);
        assert_eq!(export.report(500, 101, (5000, 10_000), [(5000, 10_000)].into_iter()), Reported::Nothing);
        assert_eq!(export.report(9000, 100, (0, 6000), [(0, 6000)].into_iter()), Reported::Nothing);
        assert!(export.is_stalled(), "not complete: the claims of the tail are void");
        export.ask_again();
        assert_eq!(drain(&mut export)[0].offset, 6000);
    }

    /// Keeps 5326-6.13-4.
    #[test]
    fn simultaneous_reports_share_one_checkpoint() {
        let mut export = export(60_000, 1360);
        drain(&mut export);
        // A report in two segments, as ION splits reports with more than 20 claims.
        assert_eq!(export.report(7, 100, (30_000, 60_000), [(40_000, 60_000)].into_iter()), Reported::Gaps);
        assert!(!export.has_resends() && !export.is_stalled(), "further reports may follow");
        assert_eq!(export.report(6, 100, (0, 30_000), [(5000, 30_000)].into_iter()), Reported::Gaps);
        assert_eq!(export.report(8, 0, (0, 3000), [(0, 3000)].into_iter()), Reported::Gaps);
        let again = drain(&mut export);
        assert_eq!((again[0].offset, again.last().unwrap().end()), (3000, 40_000));
        let checkpoints: Vec<_> = again.iter().filter(|d| d.is_checkpoint()).map(|d| d.report).collect();
        assert_eq!(checkpoints, [6], "the next report starts at its lower bound");
        assert!(again.iter().all(|d| d.end() <= 5000 || d.offset >= 30_000));
    }

    #[test]
    fn claims_beyond_sent_data_are_forged() {
        let mut export = export(10_000, 1360);
        export.next_fresh(0);
        assert_eq!(export.report(5, 0, (0, 10_000), [(0, 10_000)].into_iter()), Reported::Invalid);
    }

    /// Keeps 5326-6.13-5.
    #[test]
    fn report_flood_ends_session() {
        let mut export = export(10_000, 1360);
        drain(&mut export);
        let mut last = Reported::Nothing;
        for serial in 1..=u64::from(REPORTS_MAX) + 1 {
            last = export.report(serial, 0, (0, 10_000), [(0, 1)].into_iter());
            assert!(
                export.jobs.is_empty() && export.gathered.runs().len() <= 1 && export.seen.len() <= REPORTS_REMEMBERED
            );
        }
        assert_eq!(last, Reported::TooMany);
    }

    #[test]
    fn checkpoints_are_doubled_after_loss() {
        // A lost checkpoint costs a round trip, a copy only a datagram.
        let block = (BlockBundles::new(Vec::new(), false), BlockSource::whole(Payload::fill(1, 5000)));
        let cutting = Cutting { datagram_bytes: 1360, copies: 2 };
        let mut export = Export::new(ID, 0, block, u64::MAX, 100, cutting);
        assert_eq!(drain(&mut export).iter().filter(|d| d.is_checkpoint()).count(), 1);
        export.report(7, 100, (0, 5000), [(1000, 5000)].into_iter());
        let again = drain(&mut export);
        assert_eq!(again.len(), 2);
        assert_eq!(again[0], again[1]);
    }

    /// Keeps 5326-3.2.1-5, 5326-6.2-1, 5326-6.7-1.
    #[test]
    fn expired_checkpoint_is_resent_until_limit() {
        let mut export = export(100, 1360);
        let first = export.next_fresh(0).unwrap().data;
        for _ in 0..2 {
            assert_eq!(export.checkpoint_expired(100, 3), Some(true));
            let again = export.next_resend().unwrap();
            assert!(again.resend && again.data == first);
        }
        assert_eq!(export.checkpoint_expired(100, 3), Some(false));
        assert_eq!(export.checkpoint_expired(99, 3), None);
    }
}

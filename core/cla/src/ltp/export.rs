//! One session as its sender sees it (RFC 5326 6.7, 6.12, 6.13, 8.1): which segment comes next, and
//! what a report changes. Pure state: the engine around it owns timers and queues.

use super::cookies::Cookies;
use super::pace::Mark;
use super::ranges::RangeSet;
use super::riders::Riders;
use super::segment::{Data, SERVICE_BUNDLE, SessionId, kind};
use super::source::BlockSource;
use crate::sdnv;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::SendId;
use farlink_base::{Instant, Payload};

/// Reports whose serial numbers are remembered to know repeated ones.
const REPORTS_REMEMBERED: usize = 256;
/// Serial numbers of reports count up. One this far from those of before comes from a receiver that
/// started anew, and what its predecessor claimed is lost.
const SERIALS_NEAR: u64 = 64;
/// So far below the least serial number known a report is an older one that was overtaken.
const OVERTAKEN: u64 = 16;
/// Reports a peer may send in one session before it is given up (a flood, or no progress).
const REPORTS_MAX: u32 = 20_000;
/// Each byte may be sent this many times on average before the session is given up.
const RESENDS_MAX: u64 = 256;

/// A checkpoint without an answer yet.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    data: Data,
    attempts: u32,
    /// Times it was not answered in time and did not leave again.
    waited: u32,
    /// How it left for the first time, and when for the last.
    mark: Option<Mark>,
    left: Instant,
}

/// What must be sent again, oldest request first.
#[derive(Debug)]
enum ResendJob {
    /// What a report did not claim; the last segment is a checkpoint for that report.
    Gaps { gaps: VecDeque<(u64, u64)>, report: u64 },
    /// A checkpoint as it was: its timer ran out, or it is copied against loss.
    Checkpoint { serial: u64, copy: bool },
}

/// A segment to send now.
#[derive(Debug)]
pub(super) struct CutSegment {
    pub(super) data: Data,
    /// Whether a timer caused it.
    pub(super) resend: bool,
}

/// What a report led to.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Reported {
    /// It claims what was never sent: forged or damaged; say nothing.
    Invalid,
    /// It was seen before: acknowledge only.
    Repeated,
    /// Something must be sent again (or is queued already).
    Gaps,
    /// Nothing to do but wait.
    Nothing,
    /// All of the red part is there.
    Complete,
    /// More reports or retransmissions than any real channel needs.
    TooMany,
}

/// A session of ours.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) span: usize,
    pub(super) riders: Riders,
    pub(super) source: BlockSource,
    /// Bytes of the block that are red: those before the others.
    red: u64,
    /// Client service of the block.
    pub(super) service: u64,
    /// Cookies that all segments carry.
    pub(super) cookies: Option<Box<Cookies>>,
    /// Whether it waits in the span's queue of new data, of resends.
    pub(super) in_fresh: bool,
    pub(super) in_resends: bool,
    /// Times the session was asked for progress without an answer.
    pub(super) stalls: u32,
    /// Bytes sent at least once, and those of them in the last segment.
    sent: u64,
    last: u64,
    /// Bytes of red data that left, each as often as it did, and those of them a report told about.
    left: u64,
    told: u64,
    /// Bytes sent since the last checkpoint.
    silent: u64,
    /// Length of all header fields that are the same in each segment.
    base: usize,
    datagram: u64,
    copies: u32,
    next_serial: u64,
    checkpoints: Vec<Checkpoint>,
    jobs: VecDeque<ResendJob>,
    /// What reports of the last moments miss, and the one of them whose scope begins first: its lower
    /// bound and serial number.
    gathered: RangeSet,
    gathered_by: (u64, u64),
    resent: u64,
    claimed: RangeSet,
    reports: u32,
    seen: VecDeque<u64>,
    /// Least and greatest serial number of this receiver's reports.
    serials: Option<(u64, u64)>,
}

/// How blocks of a span are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutting {
    pub(super) datagram_bytes: u32,
    pub(super) copies: u32,
}

impl Export {
    pub(super) fn new(
        id: SessionId,
        span: usize,
        (riders, source): (Riders, BlockSource),
        red: u64,
        first_serial: u64,
        cutting: Cutting,
    ) -> Export {
        let block_bytes = source.len();
        Export {
            span,
            riders,
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
            told: 0,
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
    /// Bytes of the block that were not sent once.
    pub(super) fn unsent(&self) -> u64 {
        self.source.len() - self.sent
    }
    /// Whether the next segment may hold bytes of bundles that have not begun.
    pub(super) fn begins_next(&self) -> bool {
        self.riders.are_to_begin() && self.source.end() < self.sent + self.datagram
    }
    /// The bundles of the next segment get the age they leave with at `now`; those that expired are left out, and given.
    pub(super) fn begin(&mut self, now: Instant) -> Vec<SendId> {
        let all_red = self.red == self.source.len();
        let late = self.riders.begin(now, self.sent + self.datagram, &mut self.source);
        self.red = if all_red { self.source.len() } else { self.red.min(self.source.len()) };
        if self.unsent() == 0 && self.begun() {
            // What left last is the end of the block now, and leaves again to say so.
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
    /// Whether nothing is on its way that could bring news: no checkpoint out, nothing to send.
    pub(super) fn is_stalled(&self) -> bool {
        let idle = self.checkpoints.is_empty() && self.jobs.is_empty() && self.gathered.is_empty();
        self.has_red() && idle && self.unsent() == 0
    }
    /// Whether any of it is repaired.
    pub(super) fn has_red(&self) -> bool {
        self.red > 0
    }
    /// Whether what was never sent begins with such.
    pub(super) fn is_red_next(&self) -> bool {
        self.sent < self.red
    }
    /// Whether nothing more is to come of it: all was sent, and what is red of it is there.
    // 5326-6.12-1
    pub(super) fn is_over(&self) -> bool {
        self.unsent() == 0 && self.claimed.covers(0, self.red)
    }
    /// Bytes that cookies take of each datagram.
    fn cookie_bytes(&self) -> u64 {
        self.cookies.as_ref().map_or(0, |cookies| cookies.bytes())
    }
    /// Whether a block begins with the next segment, or a part of one whose end is its own checkpoint.
    pub(super) fn is_between_checkpoints(&self) -> bool {
        self.silent == 0
    }
    /// Bytes that are out and of which no report told.
    pub(super) fn out(&self) -> u64 {
        self.left - self.told
    }
    /// A segment of red data leaves; a checkpoint is marked, for its report to be compared with.
    pub(super) fn leaves(&mut self, data: &Data, mut mark: Mark) {
        self.left += data.length;
        if !data.is_checkpoint() {
            return;
        }
        if let Some(open) = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == data.checkpoint) {
            mark.sent = self.left;
            open.left = mark.left;
            open.mark.get_or_insert(mark);
        }
    }
    /// The mark of a checkpoint without an answer, and whether it left once only.
    pub(super) fn mark(&self, checkpoint: u64) -> Option<(Mark, bool)> {
        let open = self.checkpoints.iter().find(|c| c.data.checkpoint == checkpoint)?;
        Some((open.mark?, open.attempts == 1))
    }
    /// When a checkpoint without an answer left last.
    pub(super) fn left_at(&self, checkpoint: u64) -> Option<Instant> {
        self.checkpoints.iter().find(|c| c.data.checkpoint == checkpoint).map(|open| open.left)
    }
    /// The bytes that the report on a checkpoint with this mark is the first to tell about.
    pub(super) fn tells(&mut self, mark: &Mark) -> u64 {
        let news = mark.sent.saturating_sub(self.told);
        self.told += news;
        news
    }
    /// The serial numbers of checkpoints without an answer.
    pub(super) fn open_checkpoints(&self) -> impl Iterator<Item = u64> + '_ {
        self.checkpoints.iter().map(|c| c.data.checkpoint)
    }

    /// The most data that makes the segment exactly a datagram, with `extra` bytes of serials.
    fn room(&self, offset: u64, extra: usize) -> u64 {
        let head = (self.base + sdnv::len(offset) + extra) as u64 + self.cookie_bytes();
        let left = self.datagram.saturating_sub(head);
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
    /// Cuts the next segment off `start..end`, whose last one is to be a checkpoint for `report`.
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
        // At least one byte stays for the checkpoint.
        Self::plain(kind::RED, start, self.room(start, 0).min(end - start - 1))
    }

    /// Queues copies of a checkpoint, to leave next.
    pub(super) fn copy_checkpoint(&mut self, serial: u64) {
        for _ in 1..self.copies {
            self.jobs.push_front(ResendJob::Checkpoint { serial, copy: true });
        }
    }

    /// The next segment of data never sent before; it is a checkpoint when `every` bytes went without.
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
    /// Whether the bytes of the next segment are here (or there is none).
    pub(super) fn is_at_hand(&self, again: bool) -> bool {
        if self.source.send().is_none() {
            return true;
        }
        match again {
            false => self.source.has(self.sent, self.datagram.min(self.unsent())),
            true => self.next_again().is_none_or(|(from, end)| self.source.has(from, self.datagram.min(end - from))),
        }
    }
    /// Where the next segment to send again begins, and where the data it belongs to end.
    fn next_again(&self) -> Option<(u64, u64)> {
        self.jobs.iter().find_map(|job| match job {
            ResendJob::Gaps { gaps, .. } => gaps.front().copied(),
            ResendJob::Checkpoint { serial, .. } => {
                let open = self.checkpoints.iter().find(|c| c.data.checkpoint == *serial)?;
                Some((open.data.offset, open.data.end()))
            }
        })
    }
    /// A range to ask for so that the next segments can leave; `None` while it is on its way.
    pub(super) fn want(&mut self, again: bool) -> Option<(u64, u64)> {
        if !again {
            return self.source.want_ahead(self.sent);
        }
        let (from, end) = self.next_again()?;
        // One range for all gaps near.
        let last = self.jobs.iter().find_map(|job| match job {
            ResendJob::Gaps { gaps, .. } if gaps.front() == Some(&(from, end)) => gaps.back().map(|gap| gap.1),
            _ => None,
        });
        self.source.want_again(from, last.unwrap_or(end))
    }
    /// The next segment to send again.
    // 5326-3.2.1-5, 5326-3.2.1-7, 5326-6.13-4
    pub(super) fn next_resend(&mut self) -> Option<CutSegment> {
        loop {
            match self.jobs.front_mut()? {
                ResendJob::Checkpoint { serial, copy } => {
                    let (serial, copy) = (*serial, *copy);
                    self.jobs.pop_front();
                    if let Some(open) = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == serial) {
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

    /// A checkpoint's timer ran out. `None`: it was answered meanwhile. `Some(false)`: it was sent
    /// `limit` times in vain. `Some(true)`: it will be sent again.
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
    /// The same of one that waits on: others were asked for.
    pub(super) fn checkpoint_waits(&mut self, serial: u64, limit: u32) -> Option<bool> {
        let open = self.checkpoints.iter_mut().find(|c| c.data.checkpoint == serial)?;
        open.waited += 1;
        Some(open.attempts + open.waited <= limit)
    }
    /// Nothing was heard although all checkpoints were answered (reports of a split report lost, or
    /// a peer that started anew): send what is not claimed again.
    pub(super) fn ask_again(&mut self) {
        let gaps: VecDeque<_> = self.claimed.gaps(0, self.red).collect();
        if !gaps.is_empty() {
            self.stalls += 1;
            self.jobs.push_back(ResendJob::Gaps { gaps, report: 0 });
        }
    }

    /// A report arrived (6.13). The claims of the latest report replace what was claimed in its
    /// scope before: a receiver that lost its memory is believed, not the one it was.
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
            // One that was overtaken takes nothing back: its receiver may be done with the session by now.
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
            self.claimed = RangeSet::new();
            self.serials = Some((serial, serial));
        }
    }
    /// Gathers what is missing and not queued yet, however many reports ask for it. The checkpoint that
    /// will follow answers the report whose scope begins first, and so is reported on from there (6.11).
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
    /// Queues what was gathered: one checkpoint for all of it.
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
        let block = (Riders::new(Vec::new(), false), BlockSource::whole(Payload::fill(1, len)));
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
                // The one before the last may be short by the serials: a byte must stay for the last.
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
        // The receiver started anew: its first report begins at 0 and knows only the tail.
        assert_eq!(export.report(3, 101, (0, 10_000), [(6000, 10_000)].into_iter()), Reported::Gaps);
        assert_eq!(drain(&mut export)[0].offset, 0);
    }

    #[test]
    fn overtaken_report_retracts_nothing() {
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
        assert!(export.is_stalled(), "not complete: the one that claimed the tail is gone");
        export.ask_again();
        assert_eq!(drain(&mut export)[0].offset, 6000);
    }

    /// Keeps 5326-6.13-4.
    #[test]
    fn simultaneous_reports_share_one_checkpoint() {
        let mut export = export(60_000, 1360);
        drain(&mut export);
        // A report in two segments: ION splits those with more than 20 claims.
        assert_eq!(export.report(7, 100, (30_000, 60_000), [(40_000, 60_000)].into_iter()), Reported::Gaps);
        assert!(!export.has_resends() && !export.is_stalled(), "there may be more to come");
        assert_eq!(export.report(6, 100, (0, 30_000), [(5000, 30_000)].into_iter()), Reported::Gaps);
        assert_eq!(export.report(8, 0, (0, 3000), [(0, 3000)].into_iter()), Reported::Gaps);
        let again = drain(&mut export);
        assert_eq!((again[0].offset, again.last().unwrap().end()), (3000, 40_000));
        let checkpoints: Vec<_> = again.iter().filter(|d| d.is_checkpoint()).map(|d| d.report).collect();
        assert_eq!(checkpoints, [6], "from its lower bound on the next report tells");
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
    fn report_flood_ends_session_with_bounded_queue() {
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
        let block = (Riders::new(Vec::new(), false), BlockSource::whole(Payload::fill(1, 5000)));
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

//! Import session: the receiver of one block (RFC 5326 6.8, 6.9, 6.11, 6.14, 8.2). Records received data and reports,
//! and withholds reports until the agent keeps the bundles. It is state only; the engine owns timers and queues.

use super::assembly::Assembly;
use super::cookies::Cookies;
use super::offering::Offering;
use super::ranges::RangeSet;
use super::report;
use super::segment::{Data, SERVICE_AGGREGATE, SegmentBody, SegmentContent, SessionId, kind, parse};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::Ticket;
use farlink_base::{Instant, Payload, Refusal, TimerKey};

/// Most unacknowledged reports; with that many, checkpoints are answered only when they are repeated.
pub(super) const REPORTS_OPEN_MAX: usize = 256;
/// Most answered checkpoints, and most issued reports, that are remembered per session.
const REMEMBERED: usize = 1024;
/// Most report segments made at once; the others follow as these are acknowledged, so that the cost of a checkpoint
/// does not depend on the number of gaps.
const SEGMENTS_MAX: usize = 16;

/// Progress of the red part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RedStage {
    Receiving,
    /// Complete and offered; the report that would complete the session is withheld.
    Offered,
    /// Kept by the agent: everything may be claimed.
    Accepted,
}

/// Reason why a data segment ends its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegmentFault {
    /// Red data after green data, or green before red (RFC 5326 6.21).
    Miscolored,
    /// Contradicts the known end of the red part, or of the block.
    Inconsistent,
}

/// A request for a report: by a checkpoint, or asynchronous if `checkpoint` is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportRequest {
    pub(super) checkpoint: u64,
    pub(super) report: u64,
    pub(super) upper: u64,
}

/// A report not acknowledged yet.
#[derive(Debug)]
pub(super) struct OpenReport {
    pub(super) serial: u64,
    pub(super) checkpoint: u64,
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) bytes: Bytes,
    pub(super) attempts: u32,
    /// Time of the report's first transmission; `None` before.
    pub(super) left: Option<Instant>,
    /// Whether the report waits in the span's queue.
    pub(super) queued: bool,
}

/// A bundle offered to the agent.
#[derive(Debug)]
pub(super) struct OfferedBundle {
    pub(super) ticket: Ticket,
    pub(super) verdict: Option<Result<(), Refusal>>,
}

#[derive(Default, Debug)]
struct Green {
    start: u64,
    end: Option<u64>,
    assembly: Assembly,
    delivered: bool,
}

/// A session in which this engine receives a block.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) span: usize,
    pub(super) from: SocketAddr,
    /// Whether the session counts against the limits of guests (module `guests`).
    pub(super) guest: bool,
    pub(super) active_at: Instant,
    pub(super) idle: TimerKey,
    pub(super) stage: RedStage,
    pub(super) offered: Vec<OfferedBundle>,
    pub(super) offering: Offering,
    /// Cookies that all segments of the session carry.
    pub(super) cookies: Option<Box<Cookies>>,
    /// Whether the red part ends before the block does.
    green_follows: bool,
    /// Length of the contiguous start of the red part that was taken out for offering, bytes.
    taken: u64,
    /// Whether the agent paused the bundle that is arriving.
    held: bool,
    red: Assembly,
    red_end: Option<u64>,
    green: Option<Box<Green>>,
    open: Vec<OpenReport>,
    /// Serial number and lower bound of issued reports; a secondary report starts at the lower bound of the report that
    /// its checkpoint answers.
    issued: Vec<(u64, u64)>,
    answered: Vec<u64>,
    withheld: Vec<ReportRequest>,
    /// A report that was too long for one answer: position at which it continues, and the request.
    owed: Option<(u64, ReportRequest)>,
    first_serial: u64,
    next_serial: u64,
    primary_upper: u64,
    /// Data whose claims the peer has acknowledged.
    told: RangeSet,
}

fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() == REMEMBERED {
        // Drop half at once, because dropping one by one would cost O(n) each time.
        list.drain(..REMEMBERED / 2);
    }
    list.push(item);
}

impl Import {
    pub(super) fn new(span: usize, from: SocketAddr, now: Instant, idle: TimerKey, first_serial: u64) -> Import {
        Import {
            span,
            from,
            guest: false,
            active_at: now,
            idle,
            stage: RedStage::Receiving,
            offered: Vec::new(),
            offering: Offering::default(),
            cookies: None,
            green_follows: false,
            taken: 0,
            held: false,
            red: Assembly::default(),
            red_end: None,
            green: None,
            open: Vec::new(),
            issued: Vec::new(),
            answered: Vec::new(),
            withheld: Vec::new(),
            owed: None,
            first_serial,
            next_serial: first_serial,
            primary_upper: 0,
            told: RangeSet::new(),
        }
    }
    /// Sets the client service number of the block, which determines whether its bundles are marked.
    pub(super) fn serve(&mut self, service: u64) {
        if service == SERVICE_AGGREGATE {
            self.offering = Offering::marked();
        }
    }
    /// Records that a report was issued before the session existed, to request a cookie; the sender's checkpoints may
    /// name that report.
    pub(super) fn reported_before(&mut self) {
        self.next_serial = self.first_serial + 1;
    }
    /// Approximate memory use, bytes, which counts against the engine's limit.
    pub(super) fn weight(&self) -> u64 {
        let green = self.green.as_ref().map_or(0, |green| green.assembly.weight());
        self.red.weight() + self.offering.held() + green
    }
    /// Copies held bytes out of the receive buffers.
    pub(super) fn unshare(&mut self) {
        self.red.unshare();
        self.offering.unshare();
        if let Some(green) = &mut self.green {
            green.assembly.unshare();
        }
    }
    /// Whether this data extends the contiguous start of the red part, so that bytes held can be offered.
    pub(super) fn is_next(&self, data: &Data) -> bool {
        data.is_red() && !self.held && data.offset <= self.red.received().prefix()
    }
    /// Number of bytes of the red part that are in memory and not taken out for offering.
    pub(super) fn held(&self) -> u64 {
        self.red.held()
    }
    /// Whether this engine issued a report with this serial number; true for 0, which stands for no report.
    pub(super) fn knows_report(&self, serial: u64) -> bool {
        serial == 0 || (self.first_serial..self.next_serial).contains(&serial)
    }
    /// Whether red data was received. An idle session with red data is cancelled, one without is dropped silently.
    pub(super) fn has_red(&self) -> bool {
        !self.red.received().is_empty()
    }

    /// Whether a report on the range up to `upper` has anything to claim.
    pub(super) fn has_any_below(&self, upper: u64) -> bool {
        self.red.received().runs().first().is_some_and(|run| run.0 < upper)
    }

    /// Takes the bytes of a data segment; returns whether it changed anything: new bytes, or the end of the red part.
    pub(super) fn data(&mut self, data: &Data, bytes: Payload) -> Result<bool, SegmentFault> {
        if data.is_red() { self.red_data(data, bytes) } else { self.green_data(data, bytes) }
    }
    // 5326-6.21-1
    fn red_data(&mut self, data: &Data, bytes: Payload) -> Result<bool, SegmentFault> {
        let end = data.end();
        if self.green.as_ref().is_some_and(|green| end > green.start) {
            return Err(SegmentFault::Miscolored);
        }
        let limit = self.red_end.unwrap_or(u64::MAX);
        if end > limit
            || (data.ends_red() && (end < self.red.received().end() || self.red_end.is_some_and(|e| e != end)))
        {
            return Err(SegmentFault::Inconsistent);
        }
        let ends = data.ends_red() && self.red_end.replace(end).is_none();
        self.green_follows |= data.kind == kind::RED_END;
        Ok(self.stage == RedStage::Receiving && (self.red.insert(data.offset, bytes) > 0 || ends))
    }
    // 5326-6.21-1
    fn green_data(&mut self, data: &Data, bytes: Payload) -> Result<bool, SegmentFault> {
        if data.offset < self.red.received().end().max(self.red_end.unwrap_or(0)) {
            return Err(SegmentFault::Miscolored);
        }
        let green = self.green.get_or_insert_with(|| Box::new(Green { start: u64::MAX, ..Green::default() }));
        let end = data.end();
        let ends = data.ends_block();
        if green.end.is_some_and(|e| end > e || (ends && e != end)) || (ends && end < green.assembly.received().end()) {
            return Err(SegmentFault::Inconsistent);
        }
        if ends {
            green.end = Some(end);
        }
        green.start = green.start.min(data.offset);
        Ok(!green.delivered && green.assembly.insert(data.offset, bytes) > 0)
    }

    /// Takes the rest of the red part once all of it is received; from then on reports are withheld. `None` if the red
    /// part is incomplete or was taken before, or if the agent paused the bundle.
    // 5326-6.9-1
    pub(super) fn take_red(&mut self) -> Option<Payload> {
        let welcome = self.stage == RedStage::Receiving && !self.held;
        let end = self.red_end.filter(|end| welcome && self.red.received().covers(0, *end))?;
        self.stage = RedStage::Offered;
        Some(self.red.take(core::mem::replace(&mut self.taken, end), end))
    }
    /// Takes the contiguous start of an incomplete red part, if that has at least `least` bytes not taken yet.
    pub(super) fn take_ahead(&mut self, least: u64) -> Option<Payload> {
        let end = self.red.received().prefix();
        if self.stage != RedStage::Receiving || self.held || end - self.taken < least {
            return None;
        }
        Some(self.red.take(core::mem::replace(&mut self.taken, end), end))
    }
    /// Pauses or resumes the bundle that is arriving under this ticket; returns whether that changed anything.
    pub(super) fn hold(&mut self, ticket: Ticket, held: bool) -> bool {
        self.offering.open() == Some(ticket) && core::mem::replace(&mut self.held, held) != held
    }
    /// Whether the agent refused the bundle, so that offering further parts of it is useless.
    pub(super) fn is_refused(&self, ticket: Ticket) -> bool {
        self.offered.iter().any(|o| o.ticket == ticket && matches!(o.verdict, Some(Err(_))))
    }
    /// Ticket of the bundle that was offered in part and has no verdict.
    pub(super) fn unfinished(&self) -> Option<Ticket> {
        self.offering.open().filter(|ticket| self.offered.iter().any(|o| o.ticket == *ticket && o.verdict.is_none()))
    }
    /// Takes the green part once it is complete: it must begin at the end of the red part, or at 0 if nothing red was
    /// received.
    pub(super) fn take_green(&mut self) -> Option<Payload> {
        let start = self.red_end.unwrap_or(0);
        // A bundle that begins in the red part needs the red part first.
        if self.stage == RedStage::Receiving && (self.red_end.is_some() || self.has_red()) {
            return None;
        }
        let green = self.green.as_mut().filter(|green| !green.delivered && green.start == start)?;
        let end = green.end.filter(|end| green.assembly.received().covers(start, *end))?;
        green.delivered = true;
        Some(green.assembly.take(start, end))
    }

    /// Handles a checkpoint; returns true if it must be answered now by [`Import::issue`]. False if it was answered
    /// before (see [`Import::repeat`]), if its answer is withheld, or if `most` reports are open.
    pub(super) fn asks(&mut self, asked: ReportRequest, most: usize) -> bool {
        if self.answered.contains(&asked.checkpoint) {
            return false;
        }
        let complete = self.red_end.is_some_and(|end| self.red.received().covers(0, end));
        if self.stage == RedStage::Offered || (self.stage == RedStage::Receiving && complete) {
            if self.withheld.len() < REPORTS_OPEN_MAX && self.withheld.iter().all(|w| w.checkpoint != asked.checkpoint)
            {
                self.withheld.push(asked);
            }
            return false;
        }
        self.open.len() < most
    }
    /// Open reports that answered this checkpoint, which arrived again (RFC 5326 6.8), unless they are queued.
    // 5326-3.2.2-3
    pub(super) fn repeat(&mut self, checkpoint: u64) -> impl Iterator<Item = &mut OpenReport> {
        self.open.iter_mut().filter(move |report| report.checkpoint == checkpoint && !report.queued)
    }
    /// Whether the requesting checkpoint shows loss: data before its end is missing, or it answers a report and so ends
    /// a retransmission.
    pub(super) fn saw_loss(&self, asked: ReportRequest) -> bool {
        asked.report != 0 || !self.red.received().covers(0, asked.upper)
    }
    /// Makes the reports that answer a request (RFC 5326 6.11); they are open and queued from now on.
    // 5326-6.11-1, 5326-6.11-2, 5326-6.11-3, 5326-6.11-5
    pub(super) fn issue(&mut self, id: SessionId, asked: ReportRequest, datagram_bytes: u32) -> &[OpenReport] {
        let lower = if asked.report != 0 {
            // If the report was forgotten, start at the beginning of the block.
            self.issued.iter().find(|(serial, _)| *serial == asked.report).map_or(0, |(_, lower)| *lower)
        } else {
            self.primary_upper
        };
        // RFC 5326 6.11 forbids an empty scope and leaves the lower bound to the receiver. Bound 0 for a late
        // discretionary checkpoint is better than letting the sender give up. The same holds if nothing in the scope
        // can be claimed because memory was full.
        // 5326-6.11-6
        let any = lower < asked.upper && self.red.received().within(lower, asked.upper).next().is_some();
        let lower = if any { lower } else { 0 };
        if asked.report == 0 {
            self.primary_upper = self.primary_upper.max(asked.upper);
        }
        if asked.checkpoint != 0 {
            push_bounded(&mut self.answered, asked.checkpoint);
        }
        self.build_reports(id, lower, asked, datagram_bytes)
    }
    /// Continues a report that was too long for one answer, once most of its earlier segments are acknowledged.
    pub(super) fn go_on(&mut self, id: SessionId, datagram_bytes: u32) -> &[OpenReport] {
        match self.owed.take_if(|_| self.open.len() <= SEGMENTS_MAX) {
            Some((lower, asked)) => self.build_reports(id, lower, asked, datagram_bytes),
            None => &[],
        }
    }
    // 5326-3.2.2-2, 5326-6.11-7
    fn build_reports(&mut self, id: SessionId, lower: u64, asked: ReportRequest, datagram_bytes: u32) -> &[OpenReport] {
        let first = self.open.len();
        let scope = (lower, asked.upper);
        let limits = (datagram_bytes, SEGMENTS_MAX);
        let mut reached = lower;
        for segment in report::build(id, self.next_serial, asked.checkpoint, scope, self.red.received(), limits) {
            let bytes = segment.emit();
            let SegmentBody::Report { serial, checkpoint, lower, upper, .. } = segment.body else { continue };
            reached = upper;
            push_bounded(&mut self.issued, (serial, scope.0));
            self.open.push(OpenReport {
                serial,
                checkpoint,
                lower,
                upper,
                bytes,
                attempts: 1,
                left: None,
                queued: true,
            });
            self.next_serial = serial + 1;
        }
        if reached < asked.upper {
            let (from, upper) = self.owed.map_or((reached, 0), |(from, other)| (from.min(reached), other.upper));
            self.owed = Some((from, ReportRequest { upper: asked.upper.max(upper), ..asked }));
        }
        &self.open[first..]
    }
    /// Request for a report that no checkpoint asked for, due if there is a gap, the end is unknown, and at least
    /// `every` bytes arrived since the last report (RFC 5326 6.11 "asynchronous").
    // 5326-3.2.2-5, 5326-6.11-4
    pub(super) fn wants_asynchronous(&self, every: u64) -> Option<ReportRequest> {
        let upper = self.red.received().end();
        let due = every > 0 && self.red_end.is_none() && upper - self.primary_upper.min(upper) >= every;
        (due && self.open.len() < REPORTS_OPEN_MAX && !self.red.received().covers(self.primary_upper, upper))
            .then_some(ReportRequest { checkpoint: 0, report: 0, upper })
    }

    /// Records the agent's verdict on one bundle; returns the result of [`Import::judge`], or `None` if the ticket is
    /// unknown.
    pub(super) fn verdict(
        &mut self,
        ticket: Ticket,
        verdict: Result<(), Refusal>,
    ) -> Option<Result<Vec<ReportRequest>, bool>> {
        let offered = self.offered.iter_mut().find(|o| o.ticket == ticket)?;
        offered.verdict = Some(verdict);
        self.held &= self.offering.open() != Some(ticket);
        self.judge()
    }
    /// Outcome of the verdicts; `None` while they leave it open. `Ok`: the agent keeps the red part, and these
    /// checkpoints can be answered. `Err`: the session must be cancelled; true if a retry could help.
    pub(super) fn judge(&mut self) -> Option<Result<Vec<ReportRequest>, bool>> {
        let kept = |v: &Result<(), Refusal>| v.is_ok() || v.is_err_and(is_as_good_as_kept);
        let final_ = |v: &Result<(), Refusal>| v.is_err_and(is_final);
        // A bundle that continues in the green part does not delay the red part.
        let open = self.offering.open().filter(|_| self.goes_on_green());
        let decided = self.offered.iter().all(|o| o.verdict.is_some() || Some(o.ticket) == open);
        let receiving = self.stage == RedStage::Receiving;
        if self.stage == RedStage::Accepted {
            return None;
        }
        if !decided && !receiving {
            return None;
        }
        // One bundle that the sender should offer again later makes the sender repeat the whole block, so receiving
        // more of it is useless.
        let verdicts = || self.offered.iter().filter_map(|o| o.verdict.as_ref());
        if verdicts().any(|v| !kept(v) && !final_(v)) {
            return Some(Err(true));
        }
        // A malformed bundle among others may be dropped, but one too large for this node must stay with its sender.
        let large = |v: &Result<(), Refusal>| *v == Err(Refusal::TooLarge);
        let none = verdicts().next().is_some() && verdicts().all(final_);
        if decided && (none || verdicts().any(large)) {
            return Some(Err(false));
        }
        if self.stage != RedStage::Offered {
            return None;
        }
        self.stage = RedStage::Accepted;
        self.offered.retain(|o| Some(o.ticket) == open);
        Some(Ok(core::mem::take(&mut self.withheld)))
    }

    /// Handles the acknowledgment of a report (RFC 5326 6.14); returns whether the report was open.
    pub(super) fn acknowledged(&mut self, serial: u64) -> bool {
        let Some(at) = self.open.iter().position(|report| report.serial == serial) else { return false };
        let report = self.open.swap_remove(at);
        if let Ok(view) = parse(&report.bytes, report.bytes.len() as u64)
            && let SegmentContent::Report { claims, .. } = view.content
        {
            claims.runs().for_each(|(start, end)| self.told.insert(start, end));
        }
        true
    }
    pub(super) fn open_report(&mut self, serial: u64) -> Option<&mut OpenReport> {
        self.open.iter_mut().find(|report| report.serial == serial)
    }
    /// The open report with this serial number, if there is one, and the session's cookies.
    pub(super) fn report_with_cookies(&mut self, serial: u64) -> (Option<&mut OpenReport>, Option<&Cookies>) {
        (self.open.iter_mut().find(|report| report.serial == serial), self.cookies.as_deref())
    }
    pub(super) fn open_reports(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().map(|report| report.serial)
    }
    /// Whether the session is complete: the agent keeps the red part, the peer has acknowledged its claims, and the
    /// green part was delivered.
    // 5326-6.14-1
    pub(super) fn is_done(&self) -> bool {
        let red_done = match self.red_end {
            Some(end) => self.stage == RedStage::Accepted && self.open.is_empty() && self.told.covers(0, end),
            None => !self.has_red(),
        };
        red_done && self.green.as_ref().map_or(!self.goes_on_green(), |green| green.delivered)
    }
    /// Whether only green data is missing, which the peer does not send again.
    pub(super) fn waits_for_green(&self) -> bool {
        let told = self.red_end.is_some_and(|end| self.told.covers(0, end));
        self.goes_on_green() && self.stage == RedStage::Accepted && self.open.is_empty() && told && !self.is_done()
    }
    /// Whether a green part follows the red one.
    pub(super) fn goes_on_green(&self) -> bool {
        self.green_follows
    }
    pub(super) fn clear(&mut self) {
        self.offering = Offering::default();
        self.red.clear();
        self.green = None;
    }
}

/// Whether the sender need not keep a bundle that was refused for this reason.
pub(super) fn is_as_good_as_kept(reason: Refusal) -> bool {
    matches!(reason, Refusal::Duplicate | Refusal::Expired)
}
/// Whether trying again is useless for a bundle refused for this reason.
pub(super) fn is_final(reason: Refusal) -> bool {
    matches!(reason, Refusal::NotAcceptable | Refusal::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::super::segment::{SERVICE_BUNDLE, kind};
    use super::*;
    use farlink_base::TimerQueue;

    const ID: SessionId = SessionId { engine: 2, number: 9 };
    fn import() -> Import {
        let key = TimerQueue::new().arm(Instant(1), ());
        Import::new(0, SocketAddr::from(([10, 0, 0, 1], 1113)), Instant(0), key, 50)
    }
    fn data(kind: u8, offset: u64, length: u64) -> Data {
        Data { kind, service: SERVICE_BUNDLE, offset, length, checkpoint: 0, report: 0 }
    }
    fn put(import: &mut Import, kind: u8, offset: u64, length: u64) -> Result<bool, SegmentFault> {
        import.data(&data(kind, offset, length), Payload::fill(1, offset + length).slice(offset, length))
    }
    fn asked(checkpoint: u64, report: u64, upper: u64) -> ReportRequest {
        ReportRequest { checkpoint, report, upper }
    }
    fn scopes(reports: &[OpenReport]) -> Vec<(u64, u64, u64)> {
        reports.iter().map(|r| (r.serial, r.lower, r.upper)).collect()
    }

    /// Keeps 5326-6.11-2, 5326-6.11-3, 5326-6.11-6.
    #[test]
    fn primary_secondary_and_late_report_bounds() {
        let mut import = import();
        put(&mut import, kind::RED, 0, 10).unwrap();
        put(&mut import, kind::CHECKPOINT, 20, 10).unwrap();
        assert!(import.asks(asked(5, 0, 30), REPORTS_OPEN_MAX));
        assert_eq!(scopes(import.issue(ID, asked(5, 0, 30), 1360)), [(50, 0, 30)]);
        assert!(!import.asks(asked(5, 0, 30), REPORTS_OPEN_MAX), "answered");
        assert_eq!(import.repeat(5).count(), 0, "still queued");
        put(&mut import, kind::RED, 40, 10).unwrap();
        assert_eq!(scopes(import.issue(ID, asked(6, 0, 50), 1360)), [(51, 30, 50)]);
        assert_eq!(scopes(import.issue(ID, asked(7, 50, 20), 1360)), [(52, 0, 20)], "secondary: as report 50");
        assert_eq!(scopes(import.issue(ID, asked(8, 999, 20), 1360)), [(53, 0, 20)], "forgotten report: from 0");
        assert!(import.knows_report(0) && import.knows_report(53) && !import.knows_report(54));
        assert_eq!(scopes(import.issue(ID, asked(9, 0, 25), 1360)), [(54, 0, 25)], "late: from 0, never empty");
    }

    /// Keeps 5326-6.9-1, 5326-6.14-1.
    #[test]
    fn completing_report_waits_for_verdict() {
        let mut import = import();
        put(&mut import, kind::BLOCK_END, 10, 10).unwrap();
        assert!(import.take_red().is_none());
        put(&mut import, kind::RED, 0, 10).unwrap();
        assert_eq!(import.take_red().unwrap().len(), 20);
        assert!(import.take_red().is_none(), "delivered once");
        import.offered.push(OfferedBundle { ticket: Ticket(1), verdict: None });
        import.offered.push(OfferedBundle { ticket: Ticket(2), verdict: None });
        assert!(!import.asks(asked(5, 0, 20), REPORTS_OPEN_MAX));
        assert!(import.verdict(Ticket(1), Ok(())).is_none());
        let released = import.verdict(Ticket(2), Err(Refusal::Duplicate)).unwrap().unwrap();
        assert_eq!(released.len(), 1);
        import.issue(ID, released[0], 1360);
        assert!(!import.is_done());
        assert!(import.acknowledged(50) && !import.acknowledged(50));
        assert!(import.is_done());
        assert!(!put(&mut import, kind::RED, 0, 10).unwrap(), "late data is not kept");
    }

    #[test]
    fn refusals_cancel_unless_part_was_kept() {
        // A malformed bundle among kept ones may be dropped; one too large for this node must stay with its sender.
        for (verdicts, want) in [
            ([Ok(()), Err(Refusal::NoResources)], Some(true)),
            ([Err(Refusal::NotAcceptable), Err(Refusal::TooLarge)], Some(false)),
            ([Ok(()), Err(Refusal::TooLarge)], Some(false)),
            ([Ok(()), Err(Refusal::NotAcceptable)], None),
            ([Err(Refusal::Duplicate), Err(Refusal::Duplicate)], None),
        ] {
            let mut import = import();
            put(&mut import, kind::BLOCK_END, 0, 10).unwrap();
            import.take_red().unwrap();
            for ticket in [Ticket(1), Ticket(2)] {
                import.offered.push(OfferedBundle { ticket, verdict: None });
            }
            assert!(import.verdict(Ticket(1), verdicts[0]).is_none());
            assert_eq!(import.verdict(Ticket(2), verdicts[1]).unwrap().err(), want);
        }
    }

    /// Keeps 5326-6.21-1.
    #[test]
    fn contradicting_colours_and_ends_are_faults() {
        let mut import = import();
        put(&mut import, kind::GREEN, 50, 10).unwrap();
        assert_eq!(put(&mut import, kind::RED, 45, 10), Err(SegmentFault::Miscolored));
        put(&mut import, kind::RED_END, 40, 10).unwrap();
        assert_eq!(put(&mut import, kind::GREEN, 45, 1), Err(SegmentFault::Miscolored));
        assert_eq!(put(&mut import, kind::RED_END, 30, 10), Err(SegmentFault::Inconsistent));
        put(&mut import, kind::GREEN_END, 60, 5).unwrap();
        assert_eq!(put(&mut import, kind::GREEN, 60, 6), Err(SegmentFault::Inconsistent));
        assert!(import.take_green().is_none(), "the red part comes first");
        put(&mut import, kind::RED, 0, 40).unwrap();
        assert_eq!((import.take_red().unwrap().len(), import.take_green().unwrap().len()), (50, 15));
    }

    /// Keeps 5326-3.2.2-5, 5326-6.11-4, 5326-6.11-5.
    #[test]
    fn gaps_draw_rate_limited_unasked_reports() {
        let mut import = import();
        put(&mut import, kind::RED, 0, 100).unwrap();
        assert!(import.wants_asynchronous(100).is_none(), "no gap");
        put(&mut import, kind::RED, 200, 100).unwrap();
        let asked = import.wants_asynchronous(100).unwrap();
        assert_eq!((asked.checkpoint, asked.upper), (0, 300));
        import.issue(ID, asked, 1360);
        put(&mut import, kind::RED, 350, 50).unwrap();
        assert!(import.wants_asynchronous(101).is_none());
        assert!(import.wants_asynchronous(0).is_none(), "off");
    }
}

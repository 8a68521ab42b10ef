//! Receiving part of the engine: datagrams, import sessions, reports, verdicts (RFC 5326 6.8 to 6.11, 6.14, 6.17, 6.21,
//! 6.22).

use super::cookies::{Cookies, echoing, with_cookies};
use super::ending::SessionEnd;
use super::engine::{Ltp, Sessions};
use super::extension::Extensions;
use super::guests::{guest_share, guest_weighs};
use super::import::{Import, OpenReport, REPORTS_OPEN_MAX, RedStage, ReportRequest, SegmentFault};
use super::offers::Offers;
use super::reported::ReceivedReport;
use super::segment::{
    Data, SERVICE_AGGREGATE, SERVICE_BUNDLE, Segment, SegmentBody, SegmentContent, SessionId, View, kind, parse, reason,
};
use super::sending::blank_event;
use super::span::{ControlSegment, LtpSpan, push_event};
use super::timers::Wait;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{DatagramBatch, Output, Ticket};
use farlink_base::{Chunk, Event, EventClass, Instant, Malformed, Payload, Refusal, Sink};

/// Most bytes copied to parse the header of a datagram that is in several pieces of memory; the header of a data
/// segment has at most 72 bytes besides extensions.
const HEAD_BYTES: u64 = 512;
/// Number of contiguous bytes that must have arrived before they are offered, while the red part is incomplete.
const PART_BYTES: u64 = 1 << 20;
/// Most unacknowledged reports to a peer whose address may be forged.
const UNPROVEN_REPORTS: usize = 2;

/// A data segment of a session that may not exist yet.
struct FirstSegment<'a> {
    from: SocketAddr,
    id: SessionId,
    data: &'a Data,
    header: Extensions<'a>,
    /// Length of the datagram, bytes.
    total: u64,
}

/// [`PART_BYTES`], or an eighth of the memory of one session if that is less, given the memory limit for all sessions.
fn part_bytes(memory: u64, guest: bool) -> u64 {
    // A guest with a full share could send nothing more, so its data must be offered before the share is full.
    PART_BYTES.min(if guest { guest_share(memory) } else { memory } / 8)
}

impl Ltp {
    /// Handles the datagrams of a batch; a malformed one affects no other.
    pub(super) fn datagrams(
        &mut self,
        now: Instant,
        from: SocketAddr,
        train: &DatagramBatch,
        out: &mut impl Sink<Output>,
    ) {
        if let [Chunk::Bytes(all)] = train.data.chunks() {
            let stride = train.stride.max(1) as usize;
            let mut at = 0;
            while at < all.len() {
                let end = all.len().min(at + stride);
                let body = |from: usize, len: u64| Payload::from(all.slice(at + from..at + from + len as usize));
                self.datagram(now, from, &all[at..end], (end - at) as u64, body, out);
                at = end;
            }
            return;
        }
        for datagram in train.datagrams() {
            let total = datagram.len();
            let body = |from: usize, len: u64| datagram.slice(from as u64, len);
            let mut copied = Vec::new();
            let mut head = match datagram.chunks() {
                [Chunk::Bytes(first), ..] => &first[..],
                _ => &[],
            };
            // Parsing fails if the header spans chunks, or extensions follow the data; then copy. A fill is copied only
            // as far as necessary.
            let shorter = if datagram.is_fill() { total.min(HEAD_BYTES) } else { total };
            for length in [shorter, total] {
                if copied.len() as u64 != length && parse(head, total).is_err() {
                    copied.resize(length as usize, 0);
                    datagram.copy_to(0, &mut copied);
                    head = &copied;
                }
            }
            self.datagram(now, from, head, total, body, out);
        }
    }
    // 5326-5-2, 7122-3.3-1, 5326-6-1
    fn datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &[u8],
        total: u64,
        body: impl FnOnce(usize, u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        // Four zero bytes are a keepalive for address translators (RFC 7122).
        if total == 4 && head == [0; 4] {
            return;
        }
        match parse(head, total) {
            Ok(view) => {
                if let Err(reason) = self.is_believed(from, &view, (head, total)) {
                    return self.malformed(from, &Malformed { offset: 0, reason }, out);
                }
                if !self.cookies_are_good(from, &view) {
                    let reason = "LTP segment without the cookie of its session";
                    return self.malformed(from, &Malformed { offset: 0, reason }, out);
                }
                if view.trailing > 0 {
                    let reason = "bytes after an LTP segment, which was read all the same";
                    self.malformed(from, &Malformed { offset: total - view.trailing, reason }, out);
                }
                self.segment(now, from, (&view, total), body, out);
            }
            Err(why) => self.malformed(from, &why, out),
        }
    }
    fn malformed(&self, from: SocketAddr, why: &Malformed, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let link = self.span_at(from).map(|index| self.spans[index].link);
            out.push(Output::Event(Event::Malformed { link, offset: why.offset, reason: why.reason }));
        }
    }
    fn segment(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (view, total): (&View<'_>, u64),
        body: impl FnOnce(usize, u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        let id = view.session;
        let ours = id.engine == self.config.engine;
        match view.content {
            SegmentContent::Data { data, at } => {
                let first = FirstSegment { from, id, data: &data, header: view.header, total };
                self.data(now, &first, |len| body(at, len), out);
            }
            SegmentContent::ReportAck { serial } => self.report_acknowledged(now, from, id, serial, out),
            SegmentContent::Report { serial, checkpoint, lower, upper, claims } if ours => {
                if let Some(index) = self.sessions.exports.get(&id.number).map(|e| e.span) {
                    let mut event = self.spans[index].event(false, id, view.kind);
                    (event.offset, event.length) = (lower, upper - lower);
                    (event.checkpoint, event.report) = (checkpoint, serial);
                    push_event(out.wants(EventClass::Segment), event, out);
                }
                let report = ReceivedReport { serial, checkpoint, scope: (lower, upper), claims, header: view.header };
                self.reported(now, from, id.number, &report, out);
            }
            SegmentContent::Cancel { by_sender, reason } if by_sender || ours => {
                self.cancel_arrived((from, &view.header), id, by_sender, reason, out);
            }
            SegmentContent::CancelAck { by_sender } if !by_sender || ours => self.cancel_acknowledged(from, id),
            // A report or cancel segment for a session of another engine is ignored.
            _ => {}
        }
    }

    fn data(
        &mut self,
        now: Instant,
        first: &FirstSegment<'_>,
        body: impl FnOnce(u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        let FirstSegment { from, id, data, .. } = *first;
        if !self.sessions.imports.contains_key(&id) && !self.open_import(now, first, out) {
            return;
        }
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        let (index, guest, began) = (import.span, import.guest, import.from);
        if !self.spans[index].is_at(from) {
            return self.not_from_there(out);
        }
        if out.wants(EventClass::Segment) {
            let mut event = self.spans[index].event(false, id, data.kind);
            (event.offset, event.length) = (data.offset, data.length);
            (event.checkpoint, event.report) = (data.checkpoint, data.report);
            push_event(true, event, out);
        }
        // A segment that can never fit ends the session; green data must fit into memory, because it is offered as a
        // whole. A segment that does not fit now is dropped without a claim, so the peer sends it again if it is red.
        let memory = self.config.memory_bytes;
        if data.end() > self.config.block_bytes || (!data.is_red() && data.end() > memory) {
            return self.refuse_session(id, reason::SYSTEM, out);
        }
        if !import.knows_report(data.report) {
            // This engine answered the session before it restarted. It has lost the data claimed then, and only a
            // cancel segment conveys that (RFC 5326 6.22).
            return self.refuse_session(id, reason::SYSTEM, out);
        }
        let asked = ReportRequest { checkpoint: data.checkpoint, report: data.report, upper: data.end() };
        // A quarter of the memory is reserved for data that extends a block's contiguous start. Otherwise blocks could
        // wait for each other forever.
        let next = import.is_next(data);
        let limit = if next { memory } else { memory / 4 * 3 };
        let holds_much = next && import.held() >= 2 * part_bytes(memory, guest);
        let share = !guest || self.sessions.guest_may_hold(began, data.length, limit);
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        if (!share || self.arriving_bytes + data.length > limit) && !holds_much {
            // The data is dropped for lack of memory. Its checkpoint is answered nevertheless, because without a report
            // the sender would give up.
            if data.is_checkpoint() && import.has_any_below(data.end()) {
                import.active_at = now;
                self.checkpoint(id, asked, out);
            }
            return;
        }
        import.active_at = now;
        let before = import.weight();
        let taken = import.data(data, body(data.length));
        let after = import.weight();
        self.arriving_bytes = self.arriving_bytes + after - before;
        let unasked = import.wants_asynchronous(self.spans[index].rules.report_every);
        if guest {
            self.sessions.guest_weighs(began, before, after);
        }
        match taken {
            // 5326-6.21-1
            Err(SegmentFault::Miscolored) => return self.refuse_session(id, reason::MISCOLORED, out),
            Err(SegmentFault::Inconsistent) => return self.refuse_session(id, reason::SYSTEM, out),
            Ok(true) => self.offer_parts(id, out),
            Ok(false) => {}
        }
        if data.is_checkpoint() {
            self.checkpoint(id, asked, out);
        } else if let Some(asked) = unasked {
            self.issue_reports(id, asked);
        }
        if !data.is_red() {
            self.close_if_done(id, out);
        }
    }
    /// Opens a session for its first segment. Returns false if it is not accepted; the peer then may get an answer.
    fn open_import(&mut self, now: Instant, first: &FirstSegment<'_>, out: &mut impl Sink<Output>) -> bool {
        let FirstSegment { from, id, data, ref header, total } = *first;
        // Late data must not reopen a session that is being cancelled.
        if self.closing || self.sessions.cancelled.contains_key(&id) {
            return false;
        }
        if self.sessions.closed.contains(id) {
            if data.is_checkpoint() {
                self.refuse_closed(from, id, header);
            }
            return false;
        }
        let known = self.span_from(id.engine, from);
        if known.is_none() && self.by_engine.contains_key(&id.engine) {
            self.not_from_there(out);
            return false;
        }
        let Some(guest) = self.admits(known, from) else { return false };
        // A peer that authenticates needs no cookie.
        let unknown = guest && known.is_none_or(|index| self.spans[index].rules.seal().is_none());
        let shows = unknown && self.shows_cookie(now, from, id, header);
        if unknown && !shows && self.asks_cookies() && (known.is_some() || self.may_meet(now, id.engine)) {
            self.ask_cookie(now, from, id, (data, total), out);
            return false;
        }
        let mut cookies = None;
        if !Cookies::take(&mut cookies, header) {
            return false;
        }
        self.had_cookies |= cookies.is_some();
        let Some(index) = known.or_else(|| self.make_dynamic(now, id.engine, from, out)) else { return false };
        self.note_address(index, from);
        // 5326-6-2
        if !matches!(data.service, SERVICE_BUNDLE | SERVICE_AGGREGATE) {
            self.sessions.closed.insert(id);
            self.send_cancel(index, (id, cookies.as_deref()), false, reason::UNREACHABLE);
            return false;
        }
        let idle = self.sessions.idle.arm(now + self.spans[index].idle_limit(data.is_red()), id);
        let mut import = Import::new(index, from, now, idle, self.first_serial(id));
        import.guest = guest;
        import.cookies = cookies;
        import.serve(data.service);
        if shows {
            // The report that requested the cookie used a serial number, which the sender's checkpoints may name.
            import.reported_before();
        }
        if guest {
            self.sessions.guest_came(from, self.config.seed);
        }
        self.sessions.imports.insert(id, import);
        self.spans[index].imports += 1;
        true
    }

    /// Answers a checkpoint of a closed session with a cancel segment. Its sender may have restarted and used the
    /// number again, and would repeat the checkpoint up to its limit. The cancel harms no other sender (RFC 5326 6.19):
    /// a completed session was closed only when reports on all of it were acknowledged, so for its sender it was over
    /// as well, and the cancel has no effect (6.17).
    // 5327-2.2-2
    fn refuse_closed(&mut self, from: SocketAddr, id: SessionId, header: &Extensions<'_>) {
        if let Some(index) = self.span_from(id.engine, from).filter(|index| self.spans[*index].is_at(from)) {
            let mut cookies = None;
            Cookies::take(&mut cookies, header);
            self.cancel_closed(index, (id, cookies.as_deref()));
        }
    }

    /// Offers complete bundles of a block to the agent, and the contiguous start of a long red part.
    fn offer_parts(&mut self, id: SessionId, out: &mut impl Sink<Output>) {
        let Sessions { imports, tickets, guests, .. } = &mut *self.sessions;
        let Some(import) = imports.get_mut(&id) else { return };
        let before = import.weight();
        let (red, complete) = match import.take_red() {
            Some(red) => (Some(red), true),
            None => (import.take_ahead(part_bytes(self.config.memory_bytes, import.guest)), false),
        };
        let next = &mut self.next_ticket;
        let mut offers = Offers { id, link: self.spans[import.span].link, split: self.config.split, next };
        let green = import.take_green();
        if let Some(red) = red {
            import.offering.push(red);
            // The last bundle may continue in the green part.
            offers.red(import, complete && !import.goes_on_green(), tickets, out);
        }
        if let Some(green) = green {
            import.offering.push(green);
            offers.green(import, out);
        }
        let after = import.weight();
        self.arriving_bytes = self.arriving_bytes + after - before;
        if import.guest {
            guest_weighs(guests, import.from, before, after);
        }
        // The agent may have decided on the last bundle before its end arrived.
        if complete && let Some(outcome) = import.judge() {
            self.judged(id, outcome, out);
        }
    }
    /// Pauses or resumes the offering of an arriving bundle. Meanwhile its data is kept here, within the memory limit.
    pub(super) fn hold(&mut self, ticket: Ticket, held: bool, out: &mut impl Sink<Output>) {
        let Some(id) = self.sessions.tickets.get(&ticket).copied() else { return };
        if self.sessions.imports.get_mut(&id).is_some_and(|import| import.hold(ticket, held)) && !held {
            self.offer_parts(id, out);
        }
    }
    /// Copies bytes held in all sessions out of the receive buffers.
    pub(super) fn unshare(&mut self) {
        let Some(Sessions { imports, guests, .. }) = self.sessions.made() else { return };
        for import in imports.values_mut() {
            let before = import.weight();
            import.unshare();
            let after = import.weight();
            self.arriving_bytes = self.arriving_bytes + after - before;
            if import.guest {
                guest_weighs(guests, import.from, before, after);
            }
        }
    }
    /// Handles the agent's verdict on a bundle of a red part.
    pub(super) fn verdict(
        &mut self,
        _now: Instant,
        ticket: Ticket,
        verdict: Result<(), Refusal>,
        out: &mut impl Sink<Output>,
    ) {
        let Some(id) = self.sessions.tickets.remove(&ticket) else { return };
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        let outcome = import.verdict(ticket, verdict);
        let resumes = import.stage == RedStage::Receiving && outcome.is_none();
        if let Some(outcome) = outcome {
            self.judged(id, outcome, out);
        } else if resumes {
            self.offer_parts(id, out);
        }
    }
    /// Acts on the outcome of the verdicts on a block's bundles.
    fn judged(&mut self, id: SessionId, outcome: Result<Vec<ReportRequest>, bool>, out: &mut impl Sink<Output>) {
        match outcome {
            Err(again) => self.refuse_session(id, if again { reason::SYSTEM } else { reason::USER }, out),
            Ok(released) => {
                released.into_iter().for_each(|asked| self.issue_reports(id, asked));
                self.close_if_done(id, out);
            }
        }
    }

    // 5326-6.8-1, 5326-6.11-1
    fn checkpoint(&mut self, id: SessionId, asked: ReportRequest, out: &mut impl Sink<Output>) {
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        let most = if self.spans[import.span].is_unproven() { UNPROVEN_REPORTS } else { REPORTS_OPEN_MAX };
        if import.asks(asked, most) {
            self.issue_reports(id, asked);
            return;
        }
        let index = import.span;
        let span = &mut self.spans[index];
        let (limit, mut given_up) = (span.rules.attempts(), false);
        let cookies = import.cookies.take();
        for report in import.repeat(asked.checkpoint) {
            // Sending a report again counts as a retransmission (RFC 5326 6.8).
            given_up |= report.attempts >= limit;
            report.attempts += 1;
            report.queued = true;
            span.timers.stop(Wait::Report { session: id, serial: report.serial });
            let control = report_control(span, id, (report, cookies.as_deref()), true);
            span.traffic.control.push_back(control);
        }
        import.cookies = cookies;
        self.touch(index);
        if given_up {
            self.refuse_session(id, reason::LIMIT, out);
        }
    }
    fn issue_reports(&mut self, id: SessionId, asked: ReportRequest) {
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        let index = import.span;
        let span = &mut self.spans[index];
        let copies = if import.saw_loss(asked) { span.copies() } else { 1 };
        let cookies = import.cookies.take();
        for report in import.issue(id, asked, report_bytes(span, cookies.as_deref())) {
            for copy in 0..copies {
                let control = report_control(span, id, (report, cookies.as_deref()), copy > 0);
                span.traffic.control.push_back(control);
            }
        }
        import.cookies = cookies;
        self.touch(index);
    }
    // 5326-3.2.2-3, 5326-6.8-1, 5327-2.2-9
    pub(super) fn report_expired(&mut self, now: Instant, id: SessionId, serial: u64, out: &mut impl Sink<Output>) {
        let Some(import) = self.sessions.imports.get_mut(&id) else { return };
        let index = import.span;
        let span = &mut self.spans[index];
        let (report, cookies) = import.report_with_cookies(serial);
        let Some(report) = report else { return };
        // A peer whose address is not proven gets one answer to each transmission of its checkpoints, and no
        // repetitions.
        if span.is_unproven() {
            return;
        }
        span.unanswered(now);
        if report.attempts >= span.rules.attempts() {
            return self.refuse_session(id, reason::LIMIT, out);
        }
        report.attempts += 1;
        if !core::mem::replace(&mut report.queued, true) {
            for _ in 0..span.copies() {
                let control = report_control(span, id, (report, cookies), true);
                span.traffic.control.push_back(control);
            }
        }
        self.touch(index);
    }
    // 5326-6.14-1
    fn report_acknowledged(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: SessionId,
        serial: u64,
        out: &mut impl Sink<Output>,
    ) {
        let Sessions { imports, idle, .. } = &mut *self.sessions;
        let Some(import) = imports.get_mut(&id) else { return };
        let index = import.span;
        if !self.spans[index].is_at(from) {
            return self.not_from_there(out);
        }
        let left = import.open_report(serial).filter(|report| report.attempts == 1).and_then(|report| report.left);
        let mut event = self.spans[index].event(false, id, kind::REPORT_ACK);
        event.report = serial;
        push_event(out.wants(EventClass::Segment), event, out);
        if import.acknowledged(serial) {
            let span = &mut self.spans[index];
            // The acknowledgment proves the address: only a receiver of the report knows its serial number.
            span.traffic.proven = true;
            if let Some(left) = left {
                span.answered(now, left);
            }
            let cookies = import.cookies.take();
            for report in import.go_on(id, report_bytes(span, cookies.as_deref())) {
                let control = report_control(span, id, (report, cookies.as_deref()), false);
                span.traffic.control.push_back(control);
            }
            import.cookies = cookies;
            if import.waits_for_green() {
                idle.cancel(import.idle);
                import.idle = idle.arm(now + self.spans[index].idle_limit(false), id);
            }
            self.spans[index].timers.stop(Wait::Report { session: id, serial });
            self.touch(index);
            self.close_if_done(id, out);
        }
    }

    fn close_if_done(&mut self, id: SessionId, out: &mut impl Sink<Output>) {
        if self.sessions.imports.get(&id).is_some_and(Import::is_done) {
            self.close_import(id, SessionEnd::Complete, out);
            self.sessions.closed.insert(id);
        }
    }
    /// Removes an import session, with its timers. Bundles offered completely stay with the agent; an incomplete one is
    /// aborted.
    // 5326-6.19-1, 5326-6.20-1
    pub(super) fn close_import(
        &mut self,
        id: SessionId,
        end: SessionEnd,
        out: &mut impl Sink<Output>,
    ) -> Option<usize> {
        let mut import = self.sessions.imports.remove(&id)?;
        if let Some(ticket) = import.unfinished() {
            out.push(Output::OfferAborted { ticket });
        }
        let before = import.weight();
        import.clear();
        self.arriving_bytes -= before;
        if import.guest {
            self.sessions.guest_weighs(import.from, before, 0);
            self.sessions.guest_left(import.from);
        }
        let index = import.span;
        self.sessions.idle.cancel(import.idle);
        self.spans[index].imports -= 1;
        for serial in import.open_reports() {
            self.spans[index].timers.stop(Wait::Report { session: id, serial });
        }
        for offered in &import.offered {
            self.sessions.tickets.remove(&offered.ticket);
        }
        self.session_end(index, id, end, out);
        self.touch(index);
        Some(index)
    }
    /// Cancels an import session for a reason (RFC 5326 6.19), if it exists.
    // 5326-4.2-3, 5326-6.22-1
    fn refuse_session(&mut self, id: SessionId, why: u8, out: &mut impl Sink<Output>) {
        let cookies = self.sessions.imports.get_mut(&id).and_then(|import| import.cookies.take());
        if let Some(index) = self.close_import(id, SessionEnd::Here(why), out) {
            self.sessions.closed.insert(id);
            self.send_cancel(index, (id, cookies.as_deref()), false, why);
        }
    }
    /// Ends an import session that was idle for too long, or arms its timer again.
    pub(super) fn idle_check(&mut self, now: Instant, id: SessionId, out: &mut impl Sink<Output>) {
        let Sessions { imports, idle, .. } = &mut *self.sessions;
        let Some(import) = imports.get_mut(&id) else { return };
        let span = &self.spans[import.span];
        let awaits_red = import.has_red() && !import.waits_for_green();
        let limit = span.idle_limit(awaits_red);
        // While the link does not receive, missing red data does not show that the peer is gone.
        let since = if span.state.receive || !awaits_red { import.active_at } else { now };
        if since + limit > now || import.stage == RedStage::Offered {
            import.idle = idle.arm((since + limit).max(now + limit / 2), id);
        } else if import.stage == RedStage::Receiving && import.has_red() {
            self.refuse_session(id, reason::SYSTEM, out);
        } else {
            // Later green data must not open the session again.
            if import.has_red() {
                self.sessions.closed.insert(id);
            }
            self.close_import(id, SessionEnd::Silent, out);
        }
    }

    /// Handles a cancel segment (RFC 5326 6.17), which must come from the host of the session's peer, and acknowledges
    /// it.
    // 5326-6.17-1, 5326-6.17-2
    fn cancel_arrived(
        &mut self,
        (from, header): (SocketAddr, &Extensions<'_>),
        id: SessionId,
        by_sender: bool,
        why: u8,
        out: &mut impl Sink<Output>,
    ) {
        let (span, peer) = if by_sender {
            let import = self.sessions.imports.get(&id);
            (import.map(|i| i.span).or_else(|| self.span_to(id.engine)), import.map(|i| i.from))
        } else {
            let span = self.sessions.exports.get(&id.number).map(|export| export.span);
            (span.or_else(|| self.span_at(from)), span.and_then(|index| self.spans[index].traffic.heard))
        };
        let elsewhere = span.is_some_and(|index| !self.spans[index].is_at(from));
        if elsewhere || peer.is_some_and(|peer| peer.ip() != from.ip()) {
            return self.not_from_there(out);
        }
        if let Some(index) = span {
            let event =
                self.spans[index].event(false, id, if by_sender { kind::CANCEL_SENDER } else { kind::CANCEL_RECEIVER });
            push_event(out.wants(EventClass::Segment), event, out);
        }
        let body = SegmentBody::CancelAck { by_sender };
        let segment = Segment { session: id, body };
        let control = |span: Option<&LtpSpan>| ControlSegment {
            event: blank_event(span, id, segment.kind()),
            bytes: echoing(segment.emit(), header),
            after: None,
        };
        self.reply(span, from, control, out);
        if by_sender {
            if self.close_import(id, SessionEnd::Peer(why), out).is_some() {
                self.sessions.closed.insert(id);
            }
        } else {
            self.cancelled_by_receiver(id.number, why, out);
        }
    }
}

/// Longest report segment, in bytes without the session's cookies, that fits into a datagram beside them; at least 64.
fn report_bytes(span: &LtpSpan, cookies: Option<&Cookies>) -> u32 {
    let cookies = cookies.map_or(0, |cookies| cookies.bytes() as u32);
    // At least one claim must fit.
    span.rules.segment_bytes().saturating_sub(cookies).max(64)
}

// 5327-2.2-2, 5327-2.2-9
fn report_control(
    span: &LtpSpan,
    id: SessionId,
    (report, cookies): (&OpenReport, Option<&Cookies>),
    resend: bool,
) -> ControlSegment {
    let mut event = span.event(true, id, kind::REPORT);
    (event.offset, event.length) = (report.lower, report.upper - report.lower);
    (event.checkpoint, event.report, event.resend) = (report.checkpoint, report.serial, resend);
    let bytes: Bytes = with_cookies(report.bytes.clone(), cookies);
    ControlSegment { bytes, after: Some(Wait::Report { session: id, serial: report.serial }), event }
}

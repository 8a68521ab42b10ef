//! The receiver's half of the engine: datagrams, sessions of peers, reports, verdicts (RFC 5326 6.8
//! to 6.11, 6.14, 6.17, 6.21, 6.22).

use super::engine::Ltp;
use super::import::{Asked, Import, Offered, Stage};
use super::segment::{Body, Content, Data, SERVICE_BUNDLE, Segment, SessionId, View, kind, parse, reason};
use super::sending::{Report, blank_event};
use super::span::{Control, Span, tell};
use super::timers::Wait;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{Output, Ticket, Train};
use farlink_base::{Chunk, Event, EventClass, Instant, Malformed, Payload, Refusal, Sink};

/// Bytes looked at to read the header of a datagram that does not lie in one piece of memory; a
/// data header is 72 bytes and its extensions.
const HEAD_BYTES: u64 = 512;

impl Ltp {
    /// Takes the datagrams of a train; a malformed one affects no other.
    pub(super) fn datagrams(&mut self, now: Instant, from: SocketAddr, train: &Train, out: &mut impl Sink<Output>) {
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
            if parse(head, total).is_err() {
                // The header lies across pieces; a pattern is only written out as far as needed.
                let length = if datagram.is_fill() { total.min(HEAD_BYTES) } else { total };
                copied.resize(length as usize, 0);
                datagram.copy_to(0, &mut copied);
                head = &copied;
            }
            self.datagram(now, from, head, total, body, out);
        }
    }
    fn datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &[u8],
        total: u64,
        body: impl FnOnce(usize, u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        // Four zero bytes keep an address translator awake (RFC 7122).
        if total == 4 && head == [0; 4] {
            return;
        }
        match parse(head, total) {
            Ok(view) => self.segment(now, from, &view, body, out),
            Err(Malformed { offset, reason }) if out.wants(EventClass::Link) => {
                let link = self.span_at(from).map(|index| self.spans[index].config.link);
                out.push(Output::Event(Event::Malformed { link, offset, reason }));
            }
            Err(_) => {}
        }
    }
    fn segment(
        &mut self,
        now: Instant,
        from: SocketAddr,
        view: &View<'_>,
        body: impl FnOnce(usize, u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        let id = view.session;
        let ours = id.engine == self.config.engine;
        match view.content {
            Content::Data { data, at } => self.data(now, from, id, &data, |len| body(at, len), out),
            Content::ReportAck { serial } => self.report_acknowledged(id, serial, out),
            Content::Report { serial, checkpoint, lower, upper, claims } if ours => {
                if let Some(index) = self.exports.get(&id.number).map(|e| e.span) {
                    let mut event = self.spans[index].event(false, id, view.kind);
                    (event.offset, event.length) = (lower, upper - lower);
                    (event.checkpoint, event.report) = (checkpoint, serial);
                    tell(out.wants(EventClass::Segment), event, out);
                }
                let report = Report { serial, checkpoint, scope: (lower, upper), claims };
                self.reported(now, from, id.number, &report, out);
            }
            Content::Cancel { by_sender, reason } if by_sender || ours => {
                self.cancel_arrived(from, id, by_sender, reason, out);
            }
            Content::CancelAck { by_sender } if !by_sender || ours => self.cancel_acknowledged(id),
            // A report or cancel of a session that is not ours.
            _ => {}
        }
    }

    fn data(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: SessionId,
        data: &Data,
        body: impl FnOnce(u64) -> Payload,
        out: &mut impl Sink<Output>,
    ) {
        if !self.imports.contains_key(&id) && !self.open_import(now, from, id, data, out) {
            return;
        }
        let Some(import) = self.imports.get_mut(&id) else { return };
        let index = import.span;
        if out.wants(EventClass::Segment) {
            let mut event = self.spans[index].event(false, id, data.kind);
            (event.offset, event.length) = (data.offset, data.length);
            (event.checkpoint, event.report) = (data.checkpoint, data.report);
            tell(true, event, out);
        }
        // A block that can never fit is refused; one that does not fit now is not taken, so not
        // claimed, and comes again.
        if data.end() > self.config.memory_bytes {
            return self.refuse_session(id, reason::SYSTEM, out);
        }
        if self.arriving_bytes + data.length > self.config.memory_bytes {
            return;
        }
        import.active_at = now;
        if !import.knows_report(data.report) {
            // We answered this session before we started anew; what was claimed then is lost, which
            // only cancelling can tell (6.22).
            return self.refuse_session(id, reason::SYSTEM, out);
        }
        let before = import.weight();
        let taken = import.data(data, body(data.length));
        self.arriving_bytes = self.arriving_bytes + import.weight() - before;
        let unasked = import.wants_asynchronous(self.spans[index].config.report_every);
        match taken {
            Err(_) => return self.refuse_session(id, reason::MISCOLORED, out),
            Ok(true) => self.offer_whole_parts(id, out),
            Ok(false) => {}
        }
        if data.is_checkpoint() {
            let asked = Asked { checkpoint: data.checkpoint, report: data.report, upper: data.end() };
            self.checkpoint(id, asked);
        } else if let Some(asked) = unasked {
            self.issue_reports(id, asked);
        }
        if !data.is_red() {
            self.close_if_done(id, out);
        }
    }
    /// Opens a session for a first segment; false when it is not wanted.
    fn open_import(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: SessionId,
        data: &Data,
        out: &mut impl Sink<Output>,
    ) -> bool {
        if self.closing || self.closed.contains(id) || self.cancelled.contains_key(&id) {
            return false;
        }
        if self.imports.len() >= self.config.sessions as usize {
            return false;
        }
        let known = self.span_to(id.engine);
        let dynamic = known.is_none_or(|index| self.spans[index].config.link.is_dynamic());
        // Strangers share a quarter of the sessions, and one of them has at most a sixteenth.
        let limit = if dynamic { self.config.sessions / 16 } else { self.config.sessions };
        let share = self.config.sessions as usize / 4 * 3;
        if known.is_some_and(|index| self.spans[index].imports >= limit) || (dynamic && self.imports.len() >= share) {
            return false;
        }
        let Some(index) = known.or_else(|| self.make_dynamic(id.engine, from, out)) else { return false };
        self.hear(index, from);
        if data.service != SERVICE_BUNDLE {
            self.closed.insert(id);
            self.send_cancel(index, id, false, reason::UNREACHABLE);
            return false;
        }
        let idle = self.idle.arm(now + self.spans[index].idle_limit(data.is_red()), id);
        let import = Import::new(index, from, now, idle, self.first_serial(id));
        self.imports.insert(id, import);
        self.spans[index].imports += 1;
        true
    }

    /// Hands complete parts of a block to the agent, bundle by bundle.
    fn offer_whole_parts(&mut self, id: SessionId, out: &mut impl Sink<Output>) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        let link = self.spans[import.span].config.link;
        let before = import.weight();
        let (red, green) = (import.take_red(), import.take_green());
        self.arriving_bytes = self.arriving_bytes + import.weight() - before;
        for (part, reliable) in [(red, true), (green, false)] {
            let Some(mut block) = part else { continue };
            while !block.is_empty() {
                let len = match (self.config.split)(&block) {
                    Ok(Some(n)) if n > 0 => n.min(block.len()),
                    _ => block.len(),
                };
                let bundle = if len == block.len() { core::mem::take(&mut block) } else { block.split_to(len) };
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                if reliable {
                    import.offered.push(Offered { ticket, verdict: None });
                    self.tickets.insert(ticket, id);
                }
                out.push(Output::Offer { ticket, link, part: bundle, last: true, total: Some(len), reliable });
            }
        }
    }
    /// The agent's verdict on a bundle of a red part.
    pub(super) fn verdict(
        &mut self,
        _now: Instant,
        ticket: Ticket,
        verdict: Result<(), Refusal>,
        out: &mut impl Sink<Output>,
    ) {
        let Some(id) = self.tickets.remove(&ticket) else { return };
        let Some(import) = self.imports.get_mut(&id) else { return };
        match import.verdict(ticket, verdict) {
            None => {}
            Some(Err(again)) => self.refuse_session(id, if again { reason::SYSTEM } else { reason::USER }, out),
            Some(Ok(released)) => {
                released.into_iter().for_each(|asked| self.issue_reports(id, asked));
                self.close_if_done(id, out);
            }
        }
    }

    fn checkpoint(&mut self, id: SessionId, asked: Asked) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        if import.asks(asked) {
            self.issue_reports(id, asked);
            return;
        }
        let index = import.span;
        let span = &mut self.spans[index];
        for report in import.repeat(asked.checkpoint) {
            report.queued = true;
            span.timers.stop(Wait::Report { session: id, serial: report.serial });
            span.control.push_back(report_control(span, id, report, true));
        }
        self.touch(index);
    }
    fn issue_reports(&mut self, id: SessionId, asked: Asked) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        let index = import.span;
        let span = &mut self.spans[index];
        let copies = if import.saw_loss(asked) { span.config.copies.clamp(1, 8) } else { 1 };
        for report in import.issue(id, asked, span.config.datagram_bytes) {
            for copy in 0..copies {
                let control = report_control(span, id, report, copy > 0);
                span.control.push_back(control);
            }
        }
        self.touch(index);
    }
    pub(super) fn report_expired(&mut self, _now: Instant, id: SessionId, serial: u64, out: &mut impl Sink<Output>) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        let index = import.span;
        let span = &mut self.spans[index];
        let Some(report) = import.open_report(serial) else { return };
        if report.attempts >= span.config.attempts {
            return self.refuse_session(id, reason::LIMIT, out);
        }
        report.attempts += 1;
        if !core::mem::replace(&mut report.queued, true) {
            for _ in 0..span.config.copies.clamp(1, 8) {
                let control = report_control(span, id, report, true);
                span.control.push_back(control);
            }
        }
        self.touch(index);
    }
    fn report_acknowledged(&mut self, id: SessionId, serial: u64, out: &mut impl Sink<Output>) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        let index = import.span;
        let mut event = self.spans[index].event(false, id, kind::REPORT_ACK);
        event.report = serial;
        tell(out.wants(EventClass::Segment), event, out);
        if import.acknowledged(serial) {
            self.spans[index].timers.stop(Wait::Report { session: id, serial });
            self.touch(index);
            self.close_if_done(id, out);
        }
    }

    fn close_if_done(&mut self, id: SessionId, out: &mut impl Sink<Output>) {
        if self.imports.get(&id).is_some_and(Import::is_done) {
            self.close_import(id, false, out);
            self.closed.insert(id);
        }
    }
    /// Forgets a session; its timers stop. Bundles offered whole stay with the agent.
    fn close_import(&mut self, id: SessionId, cancelled: bool, out: &mut impl Sink<Output>) -> Option<usize> {
        let mut import = self.imports.remove(&id)?;
        let before = import.weight();
        import.clear();
        self.arriving_bytes -= before;
        let index = import.span;
        self.idle.cancel(import.idle);
        self.spans[index].imports -= 1;
        for serial in import.open_reports() {
            self.spans[index].timers.stop(Wait::Report { session: id, serial });
        }
        for offered in &import.offered {
            self.tickets.remove(&offered.ticket);
        }
        self.session_end(index, id, cancelled, out);
        self.touch(index);
        Some(index)
    }
    /// Cancels a session of a peer (6.19).
    fn refuse_session(&mut self, id: SessionId, why: u8, out: &mut impl Sink<Output>) {
        if let Some(index) = self.close_import(id, true, out) {
            self.closed.insert(id);
            self.send_cancel(index, id, false, why);
        }
    }
    /// An import's idle time may be over.
    pub(super) fn idle_check(&mut self, now: Instant, id: SessionId, out: &mut impl Sink<Output>) {
        let Some(import) = self.imports.get_mut(&id) else { return };
        let span = &self.spans[import.span];
        let limit = span.idle_limit(import.has_red());
        // While the peer may not transmit, its silence means nothing.
        let since = if span.state.receive || !import.has_red() { import.active_at } else { now };
        if since + limit > now || import.stage == Stage::Offered {
            import.idle = self.idle.arm((since + limit).max(now + limit / 2), id);
        } else if import.stage == Stage::Receiving && import.has_red() {
            self.refuse_session(id, reason::SYSTEM, out);
        } else {
            self.close_import(id, true, out);
        }
    }

    /// A cancel segment arrived (6.17). It must come from where the session's peer is.
    fn cancel_arrived(
        &mut self,
        from: SocketAddr,
        id: SessionId,
        by_sender: bool,
        why: u8,
        out: &mut impl Sink<Output>,
    ) {
        let (span, peer) = if by_sender {
            let import = self.imports.get(&id);
            (import.map(|i| i.span).or_else(|| self.span_to(id.engine)), import.map(|i| i.from))
        } else {
            let span = self.exports.get(&id.number).map(|export| export.span);
            (span.or_else(|| self.span_at(from)), span.and_then(|index| self.spans[index].heard))
        };
        if peer.is_some_and(|peer| peer.ip() != from.ip()) {
            return;
        }
        if let Some(index) = span {
            let event =
                self.spans[index].event(false, id, if by_sender { kind::CANCEL_SENDER } else { kind::CANCEL_RECEIVER });
            tell(out.wants(EventClass::Segment), event, out);
        }
        let body = Body::CancelAck { by_sender };
        let segment = Segment { session: id, body };
        let control = |span: Option<&Span>| Control {
            event: blank_event(span, id, segment.kind()),
            bytes: segment.emit(),
            after: None,
        };
        self.reply(span, from, control, out);
        if by_sender {
            if self.close_import(id, true, out).is_some() {
                self.closed.insert(id);
            }
        } else {
            self.cancelled_by_receiver(id.number, why, out);
        }
    }
}

fn report_control(span: &Span, id: SessionId, report: &super::import::OpenReport, resend: bool) -> Control {
    let mut event = span.event(true, id, kind::REPORT);
    (event.offset, event.length) = (report.lower, report.upper - report.lower);
    (event.checkpoint, event.report, event.resend) = (report.checkpoint, report.serial, resend);
    let bytes: Bytes = report.bytes.clone();
    Control { bytes, after: Some(Wait::Report { session: id, serial: report.serial }), event }
}

//! Sending part of the engine: blocks, transmission, timeouts, cancelling (RFC 5326 6.1 to 6.7, 6.12, 6.13, 6.15 to
//! 6.19).

use super::authentication::Seal;
use super::block_bundles::{BlockBundle, BlockBundles, MARK};
use super::cookies::{Cookies, with_cookies};
use super::ending::SessionEnd;
use super::engine::{Cancelled, Ltp};
use super::export::{Cutting, Export};
use super::import::{is_as_good_as_kept, is_final};
use super::pace::Mark;
use super::segment::{Data, HeaderBuffer, SERVICE_AGGREGATE, SERVICE_BUNDLE, Segment, SegmentBody, SessionId, reason};
use super::source::{BlockSource, Given};
use super::span::{ControlSegment, LtpSpan, Pending, push_event};
use super::timers::Wait;
use crate::batches::BatchBuilder;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{Output, SendId};
use farlink_base::{EventClass, Instant, LinkId, Payload, Refusal, Rng, Sink};

/// Most batches sent by one call, so that the driver can read in between.
const BATCHES_PER_CALL: u32 = 16;
/// Most cancelled sessions that await an acknowledgment; further sessions end without a cancel segment.
const CANCELLED_MAX: usize = 4096;
/// Largest session number, of 32 bits (CCSDS 734.1).
const SESSION_MAX: u64 = u32::MAX as u64;

/// Refusal reason that corresponds to the peer's reason for cancelling; `None` if that reason does not mean a refused
/// bundle.
fn refusal(cancel_reason: u8) -> Option<Refusal> {
    match cancel_reason {
        reason::SYSTEM => Some(Refusal::NoResources),
        reason::USER => Some(Refusal::NotAcceptable),
        // The client service does not exist at the peer (RFC 5326 3.2.4).
        reason::UNREACHABLE => Some(Refusal::Unknown),
        _ => None,
    }
}

/// Result that the sender sees when its bundle is refused for this reason; `Ok` if it may treat the bundle as kept.
/// Cancel segments have few codes, so reasons lose detail.
pub fn sender_result(why: Refusal) -> Result<(), Refusal> {
    if is_as_good_as_kept(why) {
        return Ok(());
    }
    refusal(if is_final(why) { reason::USER } else { reason::SYSTEM }).map_or(Ok(()), Err)
}

impl Ltp {
    /// Takes a bundle to send: into a block of its own, or into one that gathers bundles.
    pub(super) fn send(
        &mut self,
        now: Instant,
        link: LinkId,
        (bundle, total): (BlockBundle, u64),
        reliable: bool,
        out: &mut impl Sink<Output>,
    ) {
        let (id, len) = (bundle.id, bundle.bytes.len());
        let good = !self.closing && len > 0 && !bundle.bytes.is_stored() && len <= total;
        let Some(index) = self.by_link.get(&link).copied().filter(|_| good) else {
            out.push(Output::SendFailed { id, link, refused: None });
            return;
        };
        self.touch(index);
        let limit = self.spans[index].rules.aggregate_bytes;
        // A bundle with a green part needs its own block.
        let all_red = reliable && self.spans[index].rules.red_of(u64::MAX) == u64::MAX;
        if len < total || !all_red || len >= limit {
            self.close_block(index);
            self.open_export(index, (Vec::from([bundle]), total), reliable, SERVICE_BUNDLE);
            return;
        }
        if self.spans[index].traffic.pending.bytes + len > limit {
            self.close_block(index);
        }
        let span = &mut self.spans[index];
        span.traffic.pending.bytes += len;
        span.traffic.pending.bundles.push(bundle);
        span.traffic.pending.until.get_or_insert(now + span.rules.aggregate_wait);
        if span.traffic.pending.bytes >= limit {
            self.close_block(index);
        }
    }
    /// Closes the block that gathers bundles, if it has any, and opens a session for it.
    pub(super) fn close_block(&mut self, index: usize) {
        let Some(traffic) = self.spans[index].traffic.made() else { return };
        let Pending { bundles, bytes, .. } = core::mem::take(&mut traffic.pending);
        if bundles.is_empty() {
            return;
        }
        let marked = bundles.len() > 1 && self.spans[index].rules.is_marked();
        let service = if marked { SERVICE_AGGREGATE } else { SERVICE_BUNDLE };
        let marks = if marked { bundles.len() * MARK.len() } else { 0 };
        self.open_export(index, (bundles, bytes + marks as u64), true, service);
    }
    // 5326-4.1-1, 5326-4.1-2
    fn open_export(&mut self, index: usize, (bundles, len): (Vec<BlockBundle>, u64), reliable: bool, service: u64) {
        let streamed = bundles.first().filter(|first| bundles.len() == 1 && first.bytes.len() < len);
        let source = BlockSource::new(len, streamed.map(|first| first.id));
        let block = (BlockBundles::new(bundles, service == SERVICE_AGGREGATE), source);
        let number = self.session_number(index);
        let session = SessionId { engine: self.config.engine, number };
        let serial = self.first_serial(session);
        let span = &mut self.spans[index];
        let cutting = Cutting { datagram_bytes: span.rules.segment_bytes(), copies: span.copies() };
        let red = if reliable { span.rules.red_of(block.1.len()) } else { 0 };
        span.exports += 1;
        self.in_flight_bytes += block.1.weight();
        span.traffic.in_flight += block.1.len();
        span.traffic.unsent += block.1.len();
        span.traffic.fresh.push_back(number);
        let mut export = Export::new(session, index, block, red, serial, cutting);
        export.in_fresh = true;
        export.service = service;
        self.sessions.by_send.extend(export.bundles.ids().map(|id| (id, number)));
        self.sessions.exports.insert(number, export);
    }
    /// Next free session number. Numbers count up from a start that only the span's peer knows, so that other peers
    /// cannot predict them.
    // 5326-3.1-2, 5326-9.3-3
    fn session_number(&mut self, index: usize) -> u64 {
        let span = &mut self.spans[index];
        if span.traffic.next_session == 0 {
            let seed = self.config.seed ^ self.config.engine.rotate_left(40);
            self.numbered += 1;
            // 31 random bits, so that after a restart few numbers match those that peers remember.
            span.traffic.next_session = 1 + Rng::stream(seed, self.numbered).below(1 << 31);
        }
        loop {
            let number = span.traffic.next_session;
            span.traffic.next_session = if number >= SESSION_MAX { 1 } else { number + 1 };
            if !self.sessions.exports.contains_key(&number) {
                return number;
            }
        }
    }
    /// Removes an export session, with its timers.
    // 5326-6.19-1, 5326-6.20-1
    fn remove_export(&mut self, number: u64, end: SessionEnd, out: &mut impl Sink<Output>) -> Option<Export> {
        let export = self.sessions.exports.remove(&number)?;
        for id in export.bundles.ids() {
            self.sessions.by_send.remove(&id);
        }
        let span = &mut self.spans[export.span];
        span.exports -= 1;
        self.in_flight_bytes -= export.source.weight();
        span.traffic.in_flight -= export.source.len();
        span.traffic.unsent -= export.unsent();
        for serial in export.open_checkpoints() {
            span.timers.stop(Wait::Checkpoint { session: number, serial });
        }
        span.timers.stop(Wait::Progress { session: number });
        span.timers.stop(Wait::Gather { session: number });
        if let Some(pace) = span.pace() {
            pace.forget(export.out());
        }
        let session = SessionId { engine: self.config.engine, number };
        self.session_end(export.span, session, end, out);
        self.touch(export.span);
        Some(export)
    }
    // 5326-6.12-1
    pub(super) fn complete_export(&mut self, number: u64, out: &mut impl Sink<Output>) {
        let Some(export) = self.remove_export(number, SessionEnd::Complete, out) else { return };
        self.spans[export.span].completed();
        let link = self.spans[export.span].link;
        for id in export.bundles.ids() {
            out.push(Output::Sent { id, link });
        }
    }
    pub(super) fn fail_export(
        &mut self,
        number: u64,
        (refused, end): (Option<Refusal>, SessionEnd),
        out: &mut impl Sink<Output>,
    ) -> Option<usize> {
        let export = self.remove_export(number, end, out)?;
        let link = self.spans[export.span].link;
        for id in export.bundles.ids() {
            out.push(Output::SendFailed { id, link, refused });
        }
        Some(export.span)
    }

    /// Takes further bytes of a bundle given in parts; its session continues.
    pub(super) fn send_more(&mut self, id: SendId, from: u64, part: Payload) {
        let Some(&number) = self.sessions.by_send.get(&id) else { return };
        let Some(export) = self.sessions.exports.get_mut(&number) else { return };
        let index = export.span;
        match export.source.give(from, part) {
            Given::Nothing => {}
            Given::Again => self.queue_resends(number),
            Given::Fresh => {
                if export.unsent() > 0 && !core::mem::replace(&mut export.in_fresh, true) {
                    self.spans[index].traffic.fresh.push_front(number);
                }
            }
        }
        self.touch(index);
    }
    /// Cancels the session of a bundle that cannot be read (RFC 5326 6.15).
    pub(super) fn send_broken(&mut self, id: SendId, out: &mut impl Sink<Output>) {
        if let Some(number) = self.sessions.by_send.get(&id).copied() {
            self.cancel_export(number, reason::SYSTEM, out);
        }
    }
    /// Requests the bytes that a session must have next; `again`: for its retransmissions.
    fn ask(&mut self, number: u64, again: bool, out: &mut impl Sink<Output>) {
        let Some(export) = self.sessions.exports.get_mut(&number) else { return };
        let Some(id) = export.source.send() else { return };
        let link = self.spans[export.span].link;
        while let Some((from, len)) = export.want(again) {
            out.push(Output::Want { link, id, from, len });
        }
    }

    /// Sends as much as the rate allows: control segments first, then retransmissions, then new data.
    // 5326-6.1-1, 5326-6.4-1
    pub(super) fn transmit(&mut self, index: usize, now: Instant, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        if !span.state.transmit || !span.has_work() || span.next_burst() > now {
            return;
        }
        // Asked once per burst, not for each segment.
        let wanted = out.wants(EventClass::Segment);
        let horizon = span.begin_burst(now);
        let mut batches = BatchBuilder::new(span.to);
        let mut left: Vec<u64> = Vec::new();
        while batches.flushed < BATCHES_PER_CALL && self.spans[index].traffic.busy_until <= horizon {
            if let Some(control) = self.spans[index].traffic.control.pop_front() {
                self.transmit_control(index, now, control, &mut batches, wanted, out);
            } else if !self.transmit_data(index, now, &mut batches, &mut left, wanted, out) {
                break;
            }
        }
        batches.flush(out);
        self.spans[index].end_burst(horizon);
        for number in left {
            self.complete_export(number, out);
        }
        self.touch(index);
    }
    // 5326-5-2, 7122-3.3-1, 5326-6.3-1, 5326-6.15-1, 5326-6.19-1
    fn transmit_control(
        &mut self,
        index: usize,
        now: Instant,
        control: ControlSegment,
        batches: &mut BatchBuilder,
        wanted: bool,
        out: &mut impl Sink<Output>,
    ) {
        // A report or cancel segment is not sent if its session, or the report, is over.
        let stale = match control.after {
            Some(Wait::Report { session, serial }) => {
                let left = self.spans[index].traffic.busy_until.max(now);
                match self.sessions.imports.get_mut(&session).and_then(|i| i.open_report(serial)) {
                    Some(report) => {
                        report.queued = false;
                        report.left.get_or_insert(left);
                        false
                    }
                    None => true,
                }
            }
            Some(Wait::Cancel { session }) => !self.sessions.cancelled.contains_key(&session),
            _ => false,
        };
        if stale {
            return;
        }
        let span = &mut self.spans[index];
        // 5327-2.1-2, 5327-2.1-6
        let bytes = span.rules.seal().map_or(control.bytes.clone(), |seal| seal.seal(&control.bytes).into());
        let len = bytes.len() as u64;
        batches.begin(len, out);
        batches.rope.push_bytes(bytes);
        span.charge(len, 0);
        if let Some(wait) = control.after {
            span.wait(now, wait);
        }
        push_event(wanted, control.event, out);
    }
    /// Updates the age of the bundles that leave next. Expired ones fail; if no bundle is left, the session ends.
    fn begin(&mut self, now: Instant, number: u64, out: &mut impl Sink<Output>) {
        let Some(export) = self.sessions.exports.get_mut(&number) else { return };
        let counts = |export: &Export| [export.source.weight(), export.source.len(), export.unsent()];
        let before = counts(export);
        let late = export.begin(now);
        let (after, span) = (counts(export), &mut self.spans[export.span]);
        let (link, empty, traffic) = (span.link, export.source.len() == 0, &mut *span.traffic);
        let counted = [&mut self.in_flight_bytes, &mut traffic.in_flight, &mut traffic.unsent];
        for (count, (before, after)) in counted.into_iter().zip(before.into_iter().zip(after)) {
            *count = *count - before + after;
        }
        for id in late {
            self.sessions.by_send.remove(&id);
            out.push(Output::SendFailed { id, link, refused: None });
        }
        if empty {
            self.remove_export(number, SessionEnd::Silent, out);
        }
    }
    /// Sends the next data segment of the span, or prepares for it; returns false if nothing can be sent.
    // 5326-5-2, 7122-3.3-1, 5326-6.2-1
    fn transmit_data(
        &mut self,
        index: usize,
        now: Instant,
        batches: &mut BatchBuilder,
        left: &mut Vec<u64>,
        wanted: bool,
        out: &mut impl Sink<Output>,
    ) -> bool {
        let span = &mut self.spans[index];
        let again = !span.traffic.resends.is_empty();
        let queue =
            |span: &LtpSpan| if again { span.traffic.resends.front() } else { span.traffic.fresh.front() }.copied();
        let pop = |span: &mut LtpSpan| {
            (if again { &mut span.traffic.resends } else { &mut span.traffic.fresh }).pop_front();
        };
        let Some(number) = queue(span) else { return false };
        let Some(export) = self.sessions.exports.get_mut(&number) else {
            pop(span);
            return true;
        };
        if !again && export.is_red_next() && export.is_between_checkpoints() && span.holds_back() {
            return false;
        }
        if !again && export.begins_next() {
            self.begin(now, number, out);
            return true;
        }
        if !export.is_at_hand(again) {
            // The session is queued again when the bytes arrive.
            pop(span);
            *(if again { &mut export.in_resends } else { &mut export.in_fresh }) = false;
            self.ask(number, again, out);
            return true;
        }
        let every = span.checkpoint_every();
        let Some(mut cut) = (if again { export.next_resend() } else { export.next_fresh(every) }) else {
            pop(span);
            *(if again { &mut export.in_resends } else { &mut export.in_fresh }) = false;
            return true;
        };
        let session = SessionId { engine: self.config.engine, number };
        cut.data.service = export.service;
        let head = HeaderBuffer::data(session, &cut.data);
        let len = match span.rules.seal() {
            None if export.cookies.is_none() => {
                let len = head.bytes().len() as u64 + cut.data.length;
                batches.begin(len, out);
                batches.head(head.bytes());
                export.copy(&cut.data, &mut batches.rope);
                len
            }
            seal => extended(seal, export, (head.bytes(), &cut.data), batches, out),
        };
        span.charge(len, cut.data.length);
        if cut.data.is_red() {
            let left = span.traffic.busy_until.max(now);
            let mark = span.pace().map_or(Mark::at(left), |pace| {
                pace.sent(cut.data.length, left);
                pace.mark(left)
            });
            export.leaves(&cut.data, mark);
        }
        if !again {
            span.traffic.unsent -= cut.data.length;
            export.source.passed(cut.data.end());
        }
        if cut.data.is_checkpoint() {
            span.wait(now, Wait::Checkpoint { session: number, serial: cut.data.checkpoint });
            if !again && span.is_lossy() {
                export.copy_checkpoint(cut.data.checkpoint);
            }
        }
        if wanted {
            let mut event = span.event(true, session, cut.data.kind);
            (event.offset, event.length) = (cut.data.offset, cut.data.length);
            (event.checkpoint, event.report) = (cut.data.checkpoint, cut.data.report);
            event.resend = cut.resend;
            push_event(true, event, out);
        }
        // The session is complete if it has no red part, or if reports claimed all of it before its last segment left.
        // Otherwise its last report completes it.
        if !again && export.is_over() {
            left.push(number);
        }
        let streamed = export.source.send().is_some();
        if !again && export.has_resends() {
            self.queue_resends(number);
        }
        if !again && streamed {
            self.ask(number, false, out);
        }
        true
    }
    pub(super) fn queue_resends(&mut self, number: u64) {
        if let Some(export) = self.sessions.exports.get_mut(&number)
            && export.has_resends()
            && !core::mem::replace(&mut export.in_resends, true)
        {
            let index = export.span;
            self.spans[index].traffic.resends.push_back(number);
            self.touch(index);
        }
    }

    // 5326-6.7-1
    pub(super) fn checkpoint_expired(&mut self, now: Instant, number: u64, serial: u64, out: &mut impl Sink<Output>) {
        let Some(export) = self.sessions.exports.get_mut(&number) else { return };
        let Some(left) = export.left_at(serial) else { return };
        let span = &mut self.spans[export.span];
        let (limit, asks) = (span.rules.attempts(), span.asks_again(now, left));
        span.unanswered(now);
        let goes_on =
            if asks { export.checkpoint_expired(serial, limit) } else { export.checkpoint_waits(serial, limit) };
        match goes_on {
            Some(true) if asks => self.queue_resends(number),
            Some(true) => span.wait(now, Wait::Checkpoint { session: number, serial }),
            Some(false) => self.give_up(now, number, out),
            None => {}
        }
    }
    pub(super) fn progress_expired(&mut self, now: Instant, number: u64, out: &mut impl Sink<Output>) {
        let Some(export) = self.sessions.exports.get_mut(&number).filter(|e| e.is_stalled()) else { return };
        if export.stalls >= self.spans[export.span].rules.attempts() {
            return self.give_up(now, number, out);
        }
        export.ask_again();
        self.queue_resends(number);
    }
    /// Gives up an export session at its limit. If the peer answers other sessions, it counts as overloaded.
    // 5326-6.7-1
    fn give_up(&mut self, now: Instant, number: u64, out: &mut impl Sink<Output>) {
        if let Some(export) = self.sessions.exports.get(&number) {
            self.spans[export.span].overtaxed(now);
        }
        self.cancel_export(number, reason::LIMIT, out);
    }
    // 5326-4.2-2
    pub(super) fn cancel_export(&mut self, number: u64, why: u8, out: &mut impl Sink<Output>) {
        let cookies = self.sessions.exports.get_mut(&number).and_then(|export| export.cookies.take());
        if let Some(index) = self.fail_export(number, (None, SessionEnd::Here(why)), out) {
            let session = SessionId { engine: self.config.engine, number };
            self.send_cancel(index, (session, cookies.as_deref()), true, why);
        }
    }
    /// Sends a cancel segment, repeatedly until it is acknowledged (RFC 5326 6.15, 6.16).
    pub(super) fn send_cancel(
        &mut self,
        index: usize,
        session: (SessionId, Option<&Cookies>),
        by_sender: bool,
        why: u8,
    ) {
        self.cancel(index, session, (by_sender, why), 1);
    }
    /// Cancels an import session that is closed already. The segment is sent once per answer time, because the peer
    /// repeats its checkpoint. Half of the table is reserved for other cancels.
    pub(super) fn cancel_closed(&mut self, index: usize, session: (SessionId, Option<&Cookies>)) {
        if self.sessions.cancelled.len() < CANCELLED_MAX / 2 {
            let last = self.spans[index].attempts();
            self.cancel(index, session, (false, reason::SYSTEM), last);
        }
    }
    fn cancel(
        &mut self,
        index: usize,
        (session, cookies): (SessionId, Option<&Cookies>),
        (by_sender, why): (bool, u8),
        attempts: u32,
    ) {
        let bytes =
            with_cookies(Segment { session, body: SegmentBody::Cancel { by_sender, reason: why } }.emit(), cookies);
        self.cancel_with(index, session, bytes, attempts);
    }
    /// Sends this cancel segment, repeatedly until it is acknowledged or `attempts` reaches the limit.
    pub(super) fn cancel_with(&mut self, index: usize, session: SessionId, bytes: Bytes, attempts: u32) {
        if self.sessions.cancelled.len() >= CANCELLED_MAX || self.sessions.cancelled.contains_key(&session) {
            return;
        }
        self.sessions.cancelled.insert(session, Cancelled { span: index, bytes: bytes.clone(), attempts });
        self.queue_cancel(index, session, bytes, false);
    }
    fn queue_cancel(&mut self, index: usize, session: SessionId, bytes: Bytes, resend: bool) {
        let kind = bytes.first().map_or(0, |control| control & 0x0f);
        let mut event = self.spans[index].event(true, session, kind);
        event.resend = resend;
        self.spans[index].traffic.control.push_back(ControlSegment {
            bytes,
            after: Some(Wait::Cancel { session }),
            event,
        });
        self.touch(index);
    }
    // 5326-6.16-1
    pub(super) fn cancel_expired(&mut self, session: SessionId) {
        let Some(cancelled) = self.sessions.cancelled.get_mut(&session) else { return };
        let index = cancelled.span;
        if cancelled.attempts >= self.spans[index].attempts() {
            self.sessions.cancelled.remove(&session);
            return;
        }
        cancelled.attempts += 1;
        let bytes = cancelled.bytes.clone();
        self.queue_cancel(index, session, bytes, true);
    }
    /// Handles the acknowledgment of a cancel segment (RFC 5326 6.18).
    // 5326-6.18-1
    pub(super) fn cancel_acknowledged(&mut self, from: SocketAddr, session: SessionId) {
        let cancelled = self.sessions.cancelled.get(&session);
        if cancelled.is_none_or(|cancelled| !self.spans[cancelled.span].is_at(from)) {
            return;
        }
        if let Some(cancelled) = self.sessions.cancelled.remove(&session) {
            self.spans[cancelled.span].timers.stop(Wait::Cancel { session });
            self.touch(cancelled.span);
        }
    }
    /// Handles a cancellation by the receiver. The bundles of a shared block are sent again, each in its own session,
    /// so that each gets its own verdict; a single bundle returns to the agent.
    // 5326-6.17-2
    pub(super) fn cancelled_by_receiver(&mut self, number: u64, why: u8, out: &mut impl Sink<Output>) {
        let Some(index) = self.sessions.exports.get(&number).map(|export| export.span) else { return };
        if why == reason::LIMIT {
            self.spans[index].gave_up();
        }
        let Some(parts) = self.apart(number) else {
            self.fail_export(number, (refusal(why), SessionEnd::Peer(why)), out);
            return;
        };
        let Some(export) = self.remove_export(number, SessionEnd::Peer(why), out) else { return };
        let link = self.spans[export.span].link;
        let kept = |id: &SendId| parts.iter().any(|part| part.id == *id);
        for id in export.bundles.ids().filter(|id| !kept(id)) {
            out.push(Output::SendFailed { id, link, refused: None });
        }
        for part in parts {
            let len = part.bytes.len();
            self.open_export(export.span, (Vec::from([part]), len), true, SERVICE_BUNDLE);
        }
        self.touch(export.span);
    }
    /// Separates the bundles of a block; `None` for a single bundle, or if they cannot be separated.
    fn apart(&self, number: u64) -> Option<Vec<BlockBundle>> {
        let export = self.sessions.exports.get(&number).filter(|export| export.bundles.len() > 1 && !self.closing)?;
        export.bundles.apart(export.source.block()?, |block| (self.config.split)(block).ok().flatten())
    }

    /// Withdraws a bundle. If it waits to share a block it is just removed. The session of a single bundle is
    /// cancelled, with a cancel segment if it has begun (RFC 5326 6.19). In a shared block, a bundle whose first byte
    /// has left stays until no bundle of the block is wanted.
    // 5326-4.2-1, 5326-4.2-2
    pub(super) fn take_back(&mut self, index: usize, id: SendId, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        if let Some(at) = span.traffic.pending.bundles.iter().position(|other| other.id == id) {
            span.traffic.pending.bytes -= span.traffic.pending.bundles.remove(at).bytes.len();
            if span.traffic.pending.bundles.is_empty() {
                span.traffic.pending.until = None;
            }
            out.push(Output::SendFailed { id, link: span.link, refused: None });
            self.touch(index);
            return;
        }
        let Some(number) = self.sessions.by_send.get(&id).copied() else { return };
        let Some(export) = self.sessions.exports.get_mut(&number).filter(|export| export.span == index) else { return };
        if export.bundles.take_back(id) {
            return;
        }
        match export.begun() {
            true => self.cancel_export(number, reason::USER, out),
            false => drop(self.fail_export(number, (None, SessionEnd::Silent), out)),
        }
    }
    /// Fails all sessions of a span that have not begun to leave.
    pub(super) fn abandon_unsent(&mut self, index: usize, out: &mut impl Sink<Output>) {
        self.close_block(index);
        let unsent: Vec<u64> = self.spans[index].traffic.fresh.iter().copied().collect();
        for number in unsent {
            if self.sessions.exports.get(&number).is_some_and(|export| !export.begun()) {
                self.fail_export(number, (None, SessionEnd::Silent), out);
            }
        }
    }
}

/// Appends a data segment with its extensions to a batch; returns the segment's length, bytes.
// 5327-2.1-2, 5327-2.1-6, 5327-2.2-2, 5327-2.2-9
fn extended(
    seal: Option<&Seal>,
    export: &mut Export,
    (head, data): (&[u8], &Data),
    batches: &mut BatchBuilder,
    out: &mut impl Sink<Output>,
) -> u64 {
    let mut head = with_cookies(Bytes::copy_from_slice(head), export.cookies.as_deref());
    let (mut rope, mut end) = (Payload::new(), Vec::new());
    export.copy(data, &mut rope);
    if let Some(seal) = seal {
        head = seal.begin(&head).into();
        end = seal.end(&head, &rope);
    }
    let len = head.len() as u64 + data.length + end.len() as u64;
    batches.begin(len, out);
    batches.head(&head);
    batches.rope.append(rope);
    batches.rope.push_bytes(end.into());
    len
}

/// Event about a segment being sent; without a span, its link is `u32::MAX`.
pub(super) fn blank_event(span: Option<&LtpSpan>, session: SessionId, kind: u8) -> farlink_base::LtpSegmentEvent {
    match span {
        Some(span) => span.event(true, session, kind),
        None => farlink_base::LtpSegmentEvent {
            link: LinkId(u32::MAX),
            sent: true,
            engine: session.engine,
            session: session.number,
            kind,
            offset: 0,
            length: 0,
            checkpoint: 0,
            report: 0,
            resend: false,
        },
    }
}

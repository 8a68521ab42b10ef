//! Handling of reports by the sender of a block (RFC 5326 6.12, 6.13).

use super::cookies::echoing;
use super::engine::Ltp;
use super::export::Reported;
use super::extension::Extensions;
use super::segment::{Claims, Segment, SegmentBody, SessionId, kind, reason};
use super::sending::blank_event;
use super::span::{ControlSegment, LtpSpan};
use super::timers::Wait;
use core::net::SocketAddr;
use farlink_base::layer::Output;
use farlink_base::{Duration, Instant, Sink};

/// A received report on a session of this engine.
pub(super) struct ReceivedReport<'a> {
    pub(super) serial: u64,
    pub(super) checkpoint: u64,
    pub(super) scope: (u64, u64),
    pub(super) claims: Claims<'a>,
    pub(super) header: Extensions<'a>,
}
impl ReceivedReport<'_> {
    fn claimed(&self) -> u64 {
        self.claims.runs().map(|(start, end)| end - start).sum()
    }
}

impl Ltp {
    /// Handles a report on an export session, open or closed (RFC 5326 6.13), and acknowledges it.
    // 5326-6.13-1
    pub(super) fn reported(
        &mut self,
        now: Instant,
        from: SocketAddr,
        number: u64,
        report: &ReceivedReport<'_>,
        out: &mut impl Sink<Output>,
    ) {
        let session = SessionId { engine: self.config.engine, number };
        let Some(export) = self.sessions.exports.get_mut(&number) else {
            self.acknowledge_report(self.span_at(from), from, session, report, true, out);
            return;
        };
        let index = export.span;
        if !self.spans[index].is_at(from) {
            return self.not_from_there(out);
        }
        let marked = export.mark(report.checkpoint);
        let outcome = export.report(report.serial, report.checkpoint, report.scope, report.claims.runs());
        let news = !matches!(outcome, Reported::Repeated | Reported::Invalid);
        let marked = marked.filter(|_| news).map(|(mark, once)| (mark, once, export.newly_covered(&mark)));
        let stalled = export.is_stalled();
        self.note_address(index, from);
        if news {
            let span = &mut self.spans[index];
            let (claimed, scope) = (report.claimed(), report.scope.1 - report.scope.0);
            span.note_loss(claimed, scope);
            // The report proves the address: only a receiver of the block's segments knows the session number.
            span.traffic.proven = true;
            if let Some((mark, once, covered)) = marked {
                span.reported_on(now, mark.left, once);
                span.on_checkpoint_report(now, &mark, covered, scope - claimed.min(scope));
            }
        }
        self.acknowledge_report(Some(index), from, session, report, outcome == Reported::Repeated, out);
        let span = &mut self.spans[index];
        if news {
            // 5326-6.13-3
            span.timers.stop(Wait::Checkpoint { session: number, serial: report.checkpoint });
            span.timers.stop(Wait::Progress { session: number });
        }
        match outcome {
            Reported::Complete => self.complete_export(number, out),
            // 5326-6.13-5, 5326-6.22-2
            Reported::TooMany => self.cancel_export(number, reason::CYCLES, out),
            Reported::Invalid => {}
            Reported::Gaps => self.gather(now, number),
            _ if stalled => span.wait(now, Wait::Progress { session: number }),
            _ => {}
        }
    }
    /// Schedules the retransmission after a short wait: further reports may arrive, and one checkpoint serves for all
    /// of them.
    fn gather(&mut self, now: Instant, number: u64) {
        let Some(index) = self.sessions.exports.get(&number).map(|export| export.span) else { return };
        let (span, wait) = (&mut self.spans[index], Wait::Gather { session: number });
        let until = span.gather();
        if until == Duration::ZERO {
            self.gathered(number);
        } else if !span.timers.is_waiting(wait) {
            span.timers.start(wait, now + until, Duration::ZERO);
            self.touch(index);
        }
    }
    pub(super) fn gathered(&mut self, number: u64) {
        if let Some(export) = self.sessions.exports.get_mut(&number) {
            export.resend_gathered();
            self.queue_resends(number);
        }
    }
    // 5326-6.13-1
    fn acknowledge_report(
        &mut self,
        span: Option<usize>,
        from: SocketAddr,
        session: SessionId,
        report: &ReceivedReport<'_>,
        repeated: bool,
        out: &mut impl Sink<Output>,
    ) {
        let serial = report.serial;
        let bytes = echoing(Segment { session, body: SegmentBody::ReportAck { serial } }.emit(), &report.header);
        let control = |span: Option<&LtpSpan>| {
            let mut event = blank_event(span, session, kind::REPORT_ACK);
            (event.report, event.resend) = (serial, repeated);
            ControlSegment { bytes, after: None, event }
        };
        self.reply(span, from, control, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, SpanConfig};
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, SendId};
    use farlink_base::{LinkId, Payload, socket};

    #[test]
    fn reports_beyond_sent_data_are_ignored() {
        let link = LinkId(1);
        let mut ltp = Ltp::new(
            Config { engine: 1, ..Config::default() },
            vec![SpanConfig { link, engine: 2, ..SpanConfig::default() }],
        );
        let up = Input::Link { link, state: LinkState::UP };
        for input in [up, Input::send(link, SendId(1), Payload::fill(1, 5000), true), Input::Wake] {
            ltp.handle(Instant(1), input, &mut Vec::new());
        }
        let (number, export) = ltp.sessions.exports.iter().next().expect("it was sent");
        let (number, checkpoint) = (*number, export.open_checkpoints().next().expect("with a checkpoint"));
        for (serial, upper, out) in [(1, 9000, 5000), (2, 5000, 0)] {
            let body = SegmentBody::Report { serial, checkpoint, lower: 0, upper, claims: vec![(0, 10)] };
            let train =
                DatagramBatch::single(Payload::from(Segment { session: SessionId { engine: 1, number }, body }.emit()));
            let from = SocketAddr::from(([10, 0, 0, 2], 1113));
            ltp.handle(Instant(2), Input::Socket(socket::Input::Datagrams { from, train }), &mut Vec::new());
            assert_eq!(ltp.sessions.exports[&number].out(), out);
        }
    }
}

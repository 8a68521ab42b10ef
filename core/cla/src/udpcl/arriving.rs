//! Receiver: parses datagrams, attributes them to links, and offers bundles.

use super::dynamic::AnswerBudget;
use super::entity::Udpcl;
use super::packet::{Extensions, MessageKind};
use super::peers::Who;
use super::transfers::SegmentOutcome;
use core::net::SocketAddr;
use farlink_base::layer::{DatagramBatch, Output};
use farlink_base::{Event, EventClass, Instant, Payload, Refusal, Sink};

/// Most messages read from one datagram; more than even the shortest bundles fill.
const MESSAGES_MAX: usize = 512;
/// Most extension maps read from one datagram. One map has room for every item, so genuine datagrams have few.
const MAPS_MAX: usize = 16;

impl Udpcl {
    /// Handles the datagrams of a batch; a malformed one affects no other.
    pub(super) fn datagrams(
        &mut self,
        now: Instant,
        from: SocketAddr,
        train: &DatagramBatch,
        out: &mut impl Sink<Output>,
    ) {
        if self.closing {
            return;
        }
        let who = self.who(from);
        for datagram in train.datagrams() {
            if !who.known && !self.config.accept_unknown {
                self.malformed(who, "a datagram from an address without a link", out);
                continue;
            }
            self.packet(now, who, from, datagram, out);
        }
    }
    pub(super) fn malformed(&self, who: Who, reason: &'static str, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            out.push(Output::Event(Event::Malformed { link: who.link, offset: 0, reason }));
        }
    }
    /// Reads the messages of one datagram (draft-ietf-dtn-udpcl sections 3.3 and 3.4).
    fn packet(&mut self, now: Instant, who: Who, from: SocketAddr, datagram: Payload, out: &mut impl Sink<Output>) {
        let mut room = AnswerBudget::new(datagram.len());
        let mut rest = datagram;
        let mut maps = 0;
        for _ in 0..MESSAGES_MAX {
            let Some(first) = rest.reader().read_u8() else { return };
            match MessageKind::of(first) {
                // Padding extends to the end of the packet. Four zeros alone are a keepalive (RFC 7122 3.4).
                // 7122-3.4-1
                MessageKind::Padding => return,
                MessageKind::Bundle => {
                    // RFC 7122 3.2 allows one bundle per datagram, but some implementations send several.
                    let bundle = match (self.config.split)(&rest) {
                        Ok(Some(end)) if end > 0 && end < rest.len() => rest.split_to(end),
                        _ => core::mem::take(&mut rest),
                    };
                    self.offer(who, bundle, out);
                }
                MessageKind::Map if maps == MAPS_MAX => break,
                MessageKind::Map => {
                    maps += 1;
                    let mut reader = rest.reader();
                    match Extensions::read(&mut reader) {
                        Ok(extensions) => {
                            let used = reader.position();
                            rest = rest.slice(used, u64::MAX);
                            self.extensions(now, (who, from), extensions, &mut room, out);
                        }
                        Err(reason) => return self.malformed(who, reason, out),
                    }
                }
                MessageKind::Dtls => {
                    return self.malformed(who, "a DTLS record, which this node does not support", out);
                }
                MessageKind::Unused => return self.malformed(who, "not a UDPCL message", out),
            }
        }
        if !rest.is_empty() {
            self.malformed(who, "too many messages in a datagram", out);
        }
    }
    /// Handles the items of an extension map. `room` limits the answers to the packet that has the map.
    fn extensions(
        &mut self,
        now: Instant,
        (who, from): (Who, SocketAddr),
        extensions: Extensions,
        room: &mut AnswerBudget,
        out: &mut impl Sink<Output>,
    ) {
        let Extensions { transfer, listens_ms, node_id, probe, confirmation } = extensions;
        if let Some(probe) = probe {
            self.probed(from, probe, room, out);
        }
        match self.configured(who) {
            Some(index) => {
                if let Some(name) = node_id {
                    self.claims(index, &name, who, out);
                }
            }
            None => self.introduces(now, from, (listens_ms, node_id, confirmation), room, out),
        }
        let Some(segment) = transfer else { return };
        match self.transfers.on_segment(now, from, who.unauthenticated, segment) {
            SegmentOutcome::Nothing => {}
            SegmentOutcome::Whole(bundle) => self.offer(who, bundle, out),
            SegmentOutcome::Malformed(reason) => self.malformed(who, reason, out),
            SegmentOutcome::Refused(reason) => self.lost(who, reason, out),
        }
    }
    fn lost(&self, who: Who, reason: Refusal, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Bundle) {
            out.push(Output::Event(Event::Refused { link: who.link, key: None, reason }));
        }
    }
    fn offer(&mut self, who: Who, bundle: Payload, out: &mut impl Sink<Output>) {
        let (ticket, total) = (self.ticket(), Some(bundle.len()));
        let link = who.link.unwrap_or(self.dynamic.nobody());
        out.push(Output::Offer { ticket, link, part: bundle, last: true, total, reliable: false });
    }
}

//! Sender: bundles as single datagrams or in segments, and keepalives.

use super::DATAGRAM_MAX;
use super::entity::Udpcl;
use super::packet::{KEEPALIVE, announcement, segment_head};
use super::span::OutgoingBundle;
use crate::batches::BatchBuilder;
use alloc::vec::Vec;
use farlink_base::layer::{DatagramBatch, Output, SendId};
use farlink_base::{Bytes, Instant, Leaving, LinkId, Payload, Refusal, Sink, socket};

/// Most batches sent by one call, so that the driver can read in between.
const BATCHES_PER_CALL: u32 = 16;

impl Udpcl {
    /// Queues a bundle for sending, or reports that it failed.
    pub(super) fn send(
        &mut self,
        link: LinkId,
        (id, total, leaving): (SendId, u64, Leaving),
        part: Payload,
        out: &mut impl Sink<Output>,
    ) {
        let good = !self.closing && !part.is_empty() && !part.is_stored() && part.len() <= total;
        let index = self.by_link.get(&link).copied().filter(|index| good && self.spans[*index].state.transmit);
        let Some(index) = index else {
            return out.push(Output::SendFailed { id, link, refused: None });
        };
        let span = &mut self.spans[index];
        if !span.in_segments(total) && total > DATAGRAM_MAX {
            return out.push(Output::SendFailed { id, link, refused: Some(Refusal::TooLarge) });
        }
        span.unsent += total;
        span.queue.push_back(OutgoingBundle::new(id, total, part, leaving));
        self.ask(index, out);
        self.touch(index);
    }
    /// Requests missing bytes of the first bundle in the queue, if few are left.
    fn ask(&mut self, index: usize, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        let link = span.config.link;
        if let Some(job) = span.queue.front_mut()
            && let Some((from, len)) = job.want()
        {
            out.push(Output::Want { link, id: job.id, from, len });
        }
    }
    /// Takes further bytes of a bundle from the agent.
    pub(super) fn send_more(
        &mut self,
        link: LinkId,
        id: SendId,
        from: u64,
        part: Payload,
        out: &mut impl Sink<Output>,
    ) {
        let Some(&index) = self.by_link.get(&link) else { return };
        if let Some(job) = self.spans[index].queue.iter_mut().find(|job| job.id == id) {
            job.give(from, part);
            self.ask(index, out);
        }
        self.touch(index);
    }
    /// Withdraws a bundle. If some of its segments have left, the receiver drops the transfer after its timeout.
    pub(super) fn take_back(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        if self.spans[index].take_back(id).is_some() {
            out.push(Output::SendFailed { id, link, refused: None });
            self.ask(index, out);
        }
        self.touch(index);
    }
    /// Returns all queued bundles to the agent.
    pub(super) fn give_back(&mut self, index: usize, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        span.unsent = 0;
        let link = span.config.link;
        for job in core::mem::take(&mut span.queue) {
            out.push(Output::SendFailed { id: job.id, link, refused: None });
        }
    }

    /// Sends as much as the rate allows now.
    pub(super) fn transmit(&mut self, index: usize, now: Instant, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        if !span.may_send() || !span.has_work() || span.busy_until > now {
            return;
        }
        let horizon = span.begin_burst(now);
        let mut batches = BatchBuilder::new(span.to);
        let mut left: Vec<SendId> = Vec::new();
        while batches.flushed < BATCHES_PER_CALL && self.spans[index].busy_until <= horizon {
            self.begin(index, now, out);
            if !self.spans[index].has_work() {
                break;
            }
            self.transmit_one(index, &mut batches, &mut left, out);
            self.ask(index, out);
        }
        batches.flush(out);
        let span = &mut self.spans[index];
        span.end_burst();
        let link = span.config.link;
        // There are no acknowledgments, so a bundle that has left is reported as sent.
        left.into_iter().for_each(|id| out.push(Output::Sent { id, link }));
        self.touch(index);
    }
    /// Updates the age of the first bundle, if none of it has left; bundles that expired or became too long fail.
    fn begin(&mut self, index: usize, now: Instant, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        let link = span.config.link;
        while let Some(job) = span.queue.front_mut().filter(|job| job.at == 0) {
            let (id, before, leaves) = (job.id, job.total, job.begin(now));
            let total = job.total;
            let fits = total <= DATAGRAM_MAX || span.in_segments(total);
            span.unsent = span.unsent - before + total;
            if leaves && fits {
                return;
            }
            span.queue.pop_front();
            span.unsent -= total;
            out.push(Output::SendFailed { id, link, refused: leaves.then_some(Refusal::TooLarge) });
        }
    }
    /// Sends the next datagram of the first bundle; its bytes are in memory.
    // 7122-3.2-1
    fn transmit_one(
        &mut self,
        index: usize,
        batches: &mut BatchBuilder,
        left: &mut Vec<SendId>,
        out: &mut impl Sink<Output>,
    ) {
        let span = &mut self.spans[index];
        let room = u64::from(span.config.datagram_bytes);
        let Some(total) = span.queue.front().map(|job| job.total) else { return };
        let in_segments = span.in_segments(total);
        let Some(job) = span.queue.front_mut() else { return };
        let (head, len) = if in_segments {
            let number = *job.transfer.get_or_insert_with(|| {
                self.next_transfer = self.next_transfer.wrapping_add(1);
                self.next_transfer
            });
            segment_head(number, total, job.at, room)
        } else {
            (Vec::new(), total)
        };
        let data = job.take(len);
        let done = job.is_done();
        let datagram = head.len() as u64 + len;
        batches.begin(datagram, out);
        if !head.is_empty() {
            batches.head(&head);
        }
        batches.rope.append(data);
        if done {
            left.extend(span.queue.pop_front().map(|job| job.id));
        }
        span.unsent -= len;
        span.charge(datagram);
    }

    /// Sends a keepalive to a neighbour if one is due (RFC 7122 3.4); with version 2, an announcement of this node's ID
    /// and listening time (draft-ietf-dtn-udpcl section 3.5.3).
    pub(super) fn say_alive(&mut self, index: usize, now: Instant, out: &mut impl Sink<Output>) {
        let span = &mut self.spans[index];
        if !span.may_send() || span.alive_at.is_none_or(|at| at > now) {
            return;
        }
        let every = span.alive_every();
        let packet = if span.announces() {
            Bytes::from(announcement(every.as_millis() as u64, &self.config.node_id))
        } else {
            Bytes::from_static(&KEEPALIVE)
        };
        // Keepalives count against the rate, as data does.
        span.busy_until = span.busy_until.max(now);
        span.charge(packet.len() as u64);
        span.alive_at = Some(now + every);
        let train = DatagramBatch::single(Payload::from(packet));
        out.push(Output::Socket(socket::Output::Datagrams { to: span.to, train }));
    }
}

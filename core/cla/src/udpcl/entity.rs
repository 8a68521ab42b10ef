//! The entity's state machine: timers of links, and dispatch of inputs.

use super::dynamic::DynamicPeers;
use super::peers::Homes;
use super::span::UdpclSpan;
use super::transfers::{TransferBounds, Transfers};
use super::{Config, LinkParams};
use alloc::vec::Vec;
use farlink_base::layer::{ConvergenceLayer, Input, Output, Ticket};
use farlink_base::socket;
use farlink_base::{Few, Instant, LinkId, Rng, Sink, TimerQueue};

/// Resources that an entity holds now. All but `dynamic` are zero when it is idle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Incomplete transfers being received.
    pub transfers: usize,
    /// Bytes of incomplete transfers, including the memory that their fragmentation costs.
    pub arriving_bytes: u64,
    /// Bundles waiting to be sent.
    pub queued: usize,
    /// Bytes of waiting bundles that have not been sent, in memory or not.
    pub queued_bytes: u64,
    /// Dynamic links: peers without a configured link that confirmed their address.
    pub dynamic: usize,
}

/// The UDPCL entity of one node.
#[derive(Debug)]
pub struct Udpcl {
    pub(super) config: Config,
    pub(super) spans: Vec<UdpclSpan>,
    /// Index into `spans`, by link number.
    pub(super) by_link: Few<LinkId, usize>,
    /// Unused indices of `spans`.
    pub(super) vacant: Vec<usize>,
    pub(super) homes: Homes,
    pub(super) dynamic: DynamicPeers,
    pub(super) transfers: Transfers,
    pub(super) agenda: TimerQueue<usize>,
    pub(super) next_transfer: u64,
    next_ticket: u64,
    pub(super) closing: bool,
    touched: Vec<usize>,
}

impl Udpcl {
    /// Creates an entity with links to these neighbours; the links start down.
    pub fn new(config: Config, spans: Vec<LinkParams>) -> Udpcl {
        let bounds = TransferBounds {
            transfers: config.transfers.into(),
            memory: config.memory_bytes,
            longest: config.transfer_bytes,
            idle: config.idle,
        };
        let mut entity = Udpcl {
            spans: Vec::with_capacity(spans.len()),
            by_link: Few::new(),
            vacant: Vec::new(),
            homes: Homes::new(),
            dynamic: DynamicPeers::new(config.layer, config.seed),
            transfers: Transfers::new(bounds, config.seed),
            agenda: TimerQueue::new(),
            // Start at random, so that after a restart few numbers match those that peers remember.
            next_transfer: Rng::stream(config.seed, 0x0d9c).below(1 << 31),
            next_ticket: 1,
            closing: false,
            touched: Vec::new(),
            config,
        };
        for span in spans {
            entity.place_configured(span);
        }
        entity
    }
    /// Resources held now.
    pub fn usage(&self) -> Usage {
        Usage {
            transfers: self.transfers.len(),
            arriving_bytes: self.transfers.bytes(),
            queued: self.spans.iter().map(|span| span.queue.len()).sum(),
            queued_bytes: self.spans.iter().map(|span| span.unsent).sum(),
            dynamic: self.dynamic.met(),
        }
    }
    /// Size of the link table, including unused entries.
    pub fn places(&self) -> usize {
        debug_assert_eq!(self.by_link.len() + self.vacant.len(), self.spans.len());
        self.spans.len()
    }
    pub(super) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket - 1)
    }

    /// Marks a span whose deadline or readiness may have changed, for [`Self::settle`].
    pub(super) fn touch(&mut self, index: usize) {
        if !core::mem::replace(&mut self.spans[index].touched, true) {
            self.touched.push(index);
        }
    }
    fn wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let mut due = Vec::new();
        while let Some((_, index)) = self.agenda.pop_due(now) {
            self.spans[index].armed = None;
            due.push(index);
        }
        for index in due {
            self.touch(index);
            if self.spans[index].until.is_some_and(|until| until <= now) {
                // The dynamic peer has not announced itself in time.
                self.remove_link(self.spans[index].config.link, out);
                continue;
            }
            self.say_alive(index, now, out);
            self.transmit(index, now, out);
        }
        self.transfers.expire(now);
        self.dynamic.expire(now);
    }
    fn shutdown(&mut self, out: &mut impl Sink<Output>) {
        self.closing = true;
        for index in 0..self.spans.len() {
            self.spans[index].alive_at = None;
            self.give_back(index, out);
            self.touch(index);
        }
    }
    /// Updates the deadline and the readiness of every marked span.
    pub(super) fn settle(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        while let Some(index) = self.touched.pop() {
            let span = &mut self.spans[index];
            span.touched = false;
            let ready = !self.closing && span.wants_more();
            if ready != span.ready {
                span.ready = ready;
                out.push(Output::Ready { link: span.config.link, ready });
            }
            let deadline = span.deadline(now);
            if deadline != span.armed.map(|key| key.deadline()) {
                if let Some(key) = span.armed.take() {
                    self.agenda.cancel(key);
                }
                span.armed = deadline.map(|deadline| self.agenda.arm(deadline, index));
            }
        }
        // Release the memory of a burst over many links.
        if self.touched.capacity() > 64 {
            self.touched = Vec::new();
        }
    }
}

impl ConvergenceLayer for Udpcl {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.wake(now, out),
            Input::Socket(socket::Input::Datagrams { from, train }) => self.datagrams(now, from, &train, out),
            Input::Socket(socket::Input::Located { link, addresses }) => {
                self.peer_is_at(link, addresses.first().copied(), out);
            }
            Input::Link { link, state } => self.link(now, link, state, out),
            Input::Send { link, id, total, part, reliable: _, leaving } => {
                self.send(link, (id, total, leaving), part, out);
            }
            Input::SendMore { link, id, from, part } => self.send_more(link, id, from, part, out),
            Input::SendBroken { link, id } | Input::CancelSend { link, id } => self.take_back(link, id, out),
            Input::RemoveLink { link } => self.remove_link(link, out),
            Input::Shutdown => self.shutdown(out),
            // UDPCL conveys no verdicts and offers complete bundles only. It has no sessions, and its incomplete
            // transfers own their memory.
            Input::Accepted { .. }
            | Input::Refused { .. }
            | Input::Hold { .. }
            | Input::Resume { .. }
            | Input::CloseLink { .. }
            | Input::Kept { .. }
            | Input::Unshare
            | Input::Socket(_) => {}
        }
        self.settle(now, out);
    }
    fn next_timeout(&self) -> Option<Instant> {
        Instant::earliest([self.agenda.next_deadline(), self.transfers.next_timeout(), self.dynamic.next_timeout()])
    }
}

//! Transfers and eviction: a host takes part in at most one transfer, which its sender begins and ends.

use super::buffer::Held;
use super::reports::Happened;
use super::settings::{Mistake, Router};
use super::world::{Link, World};

/// Connection between two hosts.
pub(super) struct Wire {
    /// Transfer speed, bytes a second.
    speed: i32,
    up: bool,
    flight: Option<TransferFlight>,
}

/// Message in transfer.
#[derive(Clone, Copy)]
struct TransferFlight {
    held: Held,
    from: u32,
    to: u32,
    /// Time at which the last byte arrives, seconds.
    done: f64,
}

/// Answer of a host to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The transfer has begun.
    Accepted,
    /// The host is busy: no other offer would succeed.
    Later,
    /// The host refuses this message.
    Denied,
}

/// Seconds between searches for expired messages.
const CHECK_INTERVAL: f64 = 60.0;

impl World<'_> {
    pub(super) fn new_wire(&mut self, speed: i32) -> u32 {
        let wire = Wire { speed, up: true, flight: None };
        if let Some(free) = self.free_wires.pop() {
            self.wires[free as usize] = wire;
            return free;
        }
        self.wires.push(wire);
        self.wires.len() as u32 - 1
    }

    pub(super) fn cut(&mut self, number: u32) {
        // The contact ended. A transfer in progress ends when its sender is next updated; until then both ends are
        // free.
        let wire = &mut self.wires[number as usize];
        wire.up = false;
        match wire.flight {
            Some(flight) => {
                self.pulses[flight.from as usize].engaged -= 1;
                self.pulses[flight.to as usize].engaged -= 1;
            }
            None => self.free_wires.push(number),
        }
    }

    pub(super) fn update_router(&mut self, host: u32) {
        // Every update checks the transfer in progress and expired messages, before the router may begin another
        // transfer.
        if self.pulses[host as usize].engaged > 0 {
            if let Some(wire) = self.sending[host as usize] {
                self.look_at_transfer(host, wire);
            }
        }
        let pulse = &mut self.pulses[host as usize];
        if self.clock - pulse.checked >= CHECK_INTERVAL && self.sending[host as usize].is_none() {
            pulse.checked = self.clock;
            self.drop_expired(host);
        }
        // Idle hosts sleep until something changes: most updates end here.
        let pulse = &self.pulses[host as usize];
        if pulse.awake && pulse.engaged == 0 && !self.buffers[host as usize].held().is_empty() {
            self.route(host);
        }
    }

    fn look_at_transfer(&mut self, host: u32, number: u32) {
        let wire = &self.wires[number as usize];
        let Some(flight) = wire.flight else { return };
        let (speed, up) = (f64::from(wire.speed), wire.up);
        // Truncated to whole bytes; this decides the step in which a transfer ends.
        let remaining = ((flight.done - self.clock) * speed) as i32;
        let done = remaining <= 0;
        if !done && up {
            return;
        }
        self.wires[number as usize].flight = None;
        self.sending[host as usize] = None;
        // `engaged` counts one unit for sending, which remains when the connection is cut, and one at each end of the
        // connection while it exists.
        self.pulses[host as usize].engaged -= 1;
        if up {
            self.pulses[host as usize].engaged -= 1;
            self.pulses[flight.to as usize].engaged -= 1;
        } else {
            self.free_wires.push(number);
        }
        self.touch(host);
        self.touch(flight.to);
        if done {
            self.sent(host, flight.held.message);
            self.receive(flight);
        } else {
            self.record(Happened::Aborted { from: host, to: flight.to, message: flight.held.message });
        }
        // A message created during the transfer may have overfilled the buffer.
        if self.buffers[host as usize].free() < 0 {
            self.make_room(host, 0);
        }
    }

    fn sent(&mut self, host: u32, message: u32) {
        if self.setup.router == Router::FirstContact {
            self.delete(host, message, false);
        }
        // Spray and wait: the sender keeps the larger half of the copies, or all but one.
        if let Router::Spray { binary, .. } = self.setup.router {
            let held = self.buffers[host as usize].held_mut().iter_mut().find(|held| held.message == message);
            if let Some(held) = held {
                held.copies = if binary { held.copies.div_ceil(2) } else { held.copies.saturating_sub(1) };
            }
        }
    }

    fn receive(&mut self, flight: TransferFlight) {
        let TransferFlight { mut held, from, to, .. } = flight;
        held.received = self.clock;
        if let Router::Spray { binary, .. } = self.setup.router {
            held.copies = if binary { held.copies / 2 } else { 1 };
        }
        // A destination keeps no copy, only the knowledge that it received the message.
        let last = held.to == to;
        let first = last && !self.known.has(to, held.message);
        if !last {
            self.buffers[to as usize].put(held);
        }
        self.known.set(to, held.message, true);
        self.record(Happened::Done { from, to, message: held.message, hops: held.hops, path: held.path, last, first });
    }

    /// Adds a new message of the host's own, even if there is no room.
    pub(super) fn create(&mut self, host: u32, mut held: Held) {
        if let Router::Spray { copies, .. } = self.setup.router {
            held.copies = copies;
        }
        self.make_room(host, held.size);
        self.buffers[host as usize].put(held);
        self.known.set(host, held.message, true);
        self.touch(host);
        self.record(Happened::Created { message: held.message, from: host });
    }

    /// Offers a copy that `from` holds to the host at the other end of a link.
    pub(super) fn offer(&mut self, from: u32, held: Held, link: Link) -> Answer {
        let to = link.peer;
        if self.pulses[to as usize].engaged > 0 || self.pulses[from as usize].engaged > 0 {
            return Answer::Later;
        }
        // Acceptance tests in The ONE's order: known, expired, then room.
        if self.known.has(to, held.message) {
            if self.rules[from as usize].delete_delivered && held.to == to {
                self.delete(from, held.message, false);
            }
            return Answer::Denied;
        }
        if (held.to != to && self.minutes_left(&held) <= 0) || !self.make_room(to, held.size) {
            return Answer::Denied;
        }
        // Asked last, when room was made already, as in The ONE.
        if self.setup.router == Router::FirstContact && self.names.backwards(held.path).any(|host| host == to) {
            return Answer::Denied;
        }
        let path = self.longer_path(to, Some(held.path));
        let wire = &mut self.wires[link.wire as usize];
        let done = self.clock + f64::from(held.size) / f64::from(wire.speed);
        wire.flight = Some(TransferFlight { held: Held { hops: held.hops + 1, path, ..held }, from, to, done });
        self.sending[from as usize] = Some(link.wire);
        // Two units for the sender (sending, and its end of the connection), one for the receiver.
        self.pulses[from as usize].engaged += 2;
        self.pulses[to as usize].engaged += 1;
        self.record(Happened::Started { from, to, message: held.message });
        Answer::Accepted
    }

    fn make_room(&mut self, host: u32, size: i32) -> bool {
        // Oldest first, as in The ONE; never the message being sent, which the transfer still needs.
        if !self.buffers[host as usize].could_hold(size) {
            return false;
        }
        let sent = self.sending[host as usize].and_then(|wire| self.wires[wire as usize].flight);
        let sent = sent.map(|flight| flight.held.message);
        while self.buffers[host as usize].free() < i64::from(size) {
            let Some(place) = self.buffers[host as usize].oldest(sent) else { return false };
            self.delete_at(host, place, true);
        }
        true
    }

    fn delete(&mut self, host: u32, message: u32, dropped: bool) {
        match self.buffers[host as usize].place(message) {
            Some(place) => self.delete_at(host, place, dropped),
            // Two contacts with the destination, over two interfaces: each asks to delete the message.
            None => {
                let (host, id) = (&self.names.hosts[host as usize], &self.names.messages[message as usize].id);
                let what =
                    format!("host {host} deletes {id} twice at {} s, where The ONE ends with an error", self.clock);
                self.failed = Some(Mistake::new(what, "leave deleteDelivered out, or give hosts one interface each"));
            }
        }
    }

    fn delete_at(&mut self, host: u32, place: usize, dropped: bool) {
        let held = self.buffers[host as usize].remove(place);
        self.known.set(host, held.message, false);
        self.touch(host);
        self.record(Happened::Deleted { host, message: held.message, received: held.received, dropped });
    }

    fn drop_expired(&mut self, host: u32) {
        let expired = |world: &World, held: &Held| world.minutes_left(held) <= 0;
        let old: Vec<u32> = self.buffers[host as usize]
            .held()
            .iter()
            .filter(|held| expired(self, held))
            .map(|held| held.message)
            .collect();
        old.into_iter().for_each(|message| self.delete(host, message, true));
    }

    fn minutes_left(&self, held: &Held) -> i32 {
        self.names.messages[held.message as usize].minutes_left(self.clock).unwrap_or(i32::MAX)
    }
}

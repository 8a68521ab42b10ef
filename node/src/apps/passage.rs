//! Payloads entering and leaving the node: admission, spooling to disk, reading from disk.

use super::connection::{Connection, Spool};
use super::{Apps, Owner};
use farlink_base::{Instant, Payload, Refusal};
use farlink_bpa::app::{DeliveryId, RequestId};
use farlink_stack::Input;
use std::collections::VecDeque;

impl Apps {
    /// Lets the unfinished bundle of a connection arrive if there is memory for it; else the connection waits.
    pub(super) fn let_on(&mut self, serial: u64, now: Instant) {
        self.reckon(serial);
        let Some(length) = self.connections.get(&serial).and_then(Connection::asks_for) else { return };
        if self.fits(length) {
            self.waiting.retain(|waiting| *waiting != serial);
            self.admit(serial, now);
        } else if !self.waiting.contains(&serial) {
            self.waiting.push_back(serial);
        }
    }
    /// Spools the next part of a bundle too long for memory.
    pub(super) fn spool(&mut self, serial: u64, inputs: &mut VecDeque<Input>) {
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        let Some(part) = connection.spooled_part() else { return };
        let next = &mut self.next;
        let spool = connection.spool.get_or_insert_with(|| {
            *next += 1;
            // A client without an endpoint is refused, but AAP2 can answer only after its bundle.
            let refused = connection.endpoint.is_none().then_some(Refusal::NotAcceptable);
            Spool { request: RequestId(*next), flying: 0, refused }
        });
        if spool.refused.is_some() {
            return;
        }
        let (request, source) = (spool.request, connection.canonical.node());
        spool.flying += part.len();
        self.requests.insert(request, Owner::Connection(serial));
        inputs.push_back(Input::Spool { request, source, part });
    }
    /// Records bytes of a payload that are on disk.
    pub fn spooled(&mut self, request: RequestId, bytes: u64, inputs: &mut VecDeque<Input>) {
        self.copy_spooled(request, bytes, inputs);
        let Some(Owner::Connection(serial)) = self.requests.get(&request) else { return };
        let Some(connection) = self.connections.get_mut(serial) else { return };
        if let Some(spool) = connection.spool.as_mut().filter(|spool| spool.request == request) {
            spool.flying = spool.flying.saturating_sub(bytes);
            self.active.push(*serial);
        }
    }
    /// Handles a read of a delivery from disk.
    pub fn read(&mut self, delivery: DeliveryId, result: Result<Payload, Refusal>, inputs: &mut VecDeque<Input>) {
        if self.copy_read(delivery, &result, inputs) {
            return;
        }
        let reads = |(_, connection): &(&u64, &mut Connection)| connection.reads(delivery);
        let Some((&serial, connection)) = self.connections.iter_mut().find(reads) else { return };
        match result {
            Ok(part) => connection.stored_came(&part),
            // Nothing was sent: the bundle is gone or will be delivered again. A partial delivery cannot be withdrawn,
            // so the connection ends.
            Err(_) if connection.stored_failed() => {}
            Err(why) => {
                tracing::warn!("application connection closed: a delivery cannot be read from the store ({why})");
                self.close(serial, inputs);
            }
        }
    }
    fn fits(&self, length: u64) -> bool {
        self.sending == 0 || self.sending + length <= self.sending_max
    }
    /// Connection that has waited longest, if its bundle fits now.
    pub(super) fn may_go_on(&self) -> Option<u64> {
        let serial = *self.waiting.front()?;
        let length = self.connections.get(&serial).and_then(Connection::asks_for).unwrap_or(0);
        self.fits(length).then_some(serial)
    }
    pub(super) fn admit(&mut self, serial: u64, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.admit(now);
        }
        self.reckon(serial);
    }
    /// Updates the share of a connection in the applications' memory.
    pub(super) fn reckon(&mut self, serial: u64) {
        if let Some(connection) = self.connections.get_mut(&serial) {
            let held = connection.held_bytes();
            self.sending = self.sending - std::mem::replace(&mut connection.counted, held) + held;
        }
    }
}

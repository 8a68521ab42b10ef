//! Verdicts of the agent on received bundles (accepted, rejected, no room), and repeated offers of bundles without
//! room.

use super::kept::CopyMemory;
use super::receiving::{ArrivalState, ReceivingStream, Whole};
use super::wants_room;
use alloc::vec::Vec;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{Duration, Instant, Refusal, Sink};

/// Time from its first refusal until a bundle that blocks reading is dropped, if a bundle offered later was accepted:
/// the node has room, but not for this bundle. While nothing is accepted, all refused bundles wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Upper bound of the bytes in both hosts' socket buffers: if more of a bundle than this is missing, its end has not
/// been confirmed to the sender.
const BUFFERS: u64 = 16 << 20;

impl ReceivingStream {
    /// Pauses or resumes the bundle that arrives under this ticket; other tickets are ignored.
    pub fn hold(&mut self, ticket: Ticket, held: bool) {
        let arriving = self.arrival.as_ref().is_some_and(|arrival| arrival.state == ArrivalState::Offered(ticket));
        if arriving {
            self.held = held;
        }
    }
    /// Handles a verdict of the agent.
    ///
    /// # Errors
    ///
    /// The reason why the stream must end.
    pub fn on_verdict(
        &mut self,
        now: Instant,
        ticket: Ticket,
        verdict: Result<(), Refusal>,
        room: &mut CopyMemory,
    ) -> Result<(), &'static str> {
        if let Some(arrival) = self.arrival.as_mut().filter(|arrival| arrival.state == ArrivalState::Offered(ticket)) {
            self.held = false;
            // Accepted, or rejected for good: the rest of the bundle is only skipped.
            if !verdict.is_err_and(wants_room) {
                arrival.copy.forget(room);
                arrival.state = ArrivalState::Unwanted;
                return Ok(());
            }
            if arrival.copy.whole().is_none() {
                arrival.state = ArrivalState::Unwanted;
                // If the end of the bundle cannot be confirmed yet, a reset shows the sender that the bundle is lost.
                // Otherwise later bundles may be in the buffers already, and the reset would lose them.
                let left = arrival.total - arrival.received;
                return if left > BUFFERS { Err("no room for a bundle that is arriving") } else { Ok(()) };
            }
            arrival.refused.get_or_insert(now);
            arrival.copy.unshare();
            arrival.state = ArrivalState::Refused;
            self.rest.begin(now);
            return Ok(());
        }
        let Some(at) = self.undecided.iter().position(|(other, _)| *other == ticket) else { return Ok(()) };
        let Some((_, mut whole)) = self.undecided.remove(at) else { return Ok(()) };
        self.undecided_bytes -= whole.total;
        if verdict.is_err_and(wants_room) {
            if whole.refused.is_none() {
                self.press(whole.total);
            }
            whole.refused.get_or_insert(now);
            whole.copy.unshare();
            self.keep(whole);
            self.give_up(now, room);
            self.rest.begin(now);
        } else {
            if verdict.is_ok() {
                // Shows that the node has room for other bundles, see `give_up`.
                self.newest_taken = self.newest_taken.max(Some(whole.offered));
            }
            if whole.refused.is_some() {
                self.release(whole.total);
                if verdict.is_ok() {
                    // There is room again, so the next wait is short.
                    self.rest.reset();
                }
            }
            whole.copy.forget(room);
        }
        Ok(())
    }
    /// If refused bundles block reading, drops those that were first refused [`PATIENCE`] ago or earlier, if a bundle
    /// offered after their refusal was accepted.
    fn give_up(&mut self, now: Instant, room: &mut CopyMemory) {
        if !self.is_pressed(0) {
            return;
        }
        let newest = self.newest_taken;
        let overtaken = |since: Instant| since + PATIENCE <= now && newest.is_some_and(|newest| newest > since);
        for whole in self.refused.iter_mut().filter(|whole| whole.refused.is_some_and(overtaken)) {
            whole.copy.forget(room);
        }
        let gone = |whole: &Whole| whole.copy.whole().is_none();
        let bytes: Vec<u64> = self.refused.iter().filter(|whole| gone(whole)).map(|whole| whole.total).collect();
        bytes.into_iter().for_each(|bytes| self.release(bytes));
        self.refused.retain(|whole| !gone(whole));
    }
    /// Offers the refused bundles again, the arriving one first.
    pub fn offer_again(&mut self, room: &CopyMemory, out: &mut impl Sink<Output>) {
        self.rest.until = None;
        self.probing = room.has_some();
        if self.arrival.as_ref().is_some_and(|arrival| arrival.state == ArrivalState::Refused) {
            let ticket = self.ticket();
            if let Some(arrival) = &mut self.arrival {
                arrival.state = ArrivalState::Offered(ticket);
                let (part, total) = (arrival.copy.whole().cloned().unwrap_or_default(), arrival.total);
                out.push(self.offer(ticket, part, false, total));
            }
        }
        for whole in core::mem::take(&mut self.refused) {
            let ticket = self.ticket();
            let (part, total) = (whole.copy.whole().cloned().unwrap_or_default(), whole.total);
            out.push(self.offer(ticket, part, true, total));
            self.decide(ticket, whole);
        }
    }
}

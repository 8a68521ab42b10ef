//! Transfers by radio: polling of the end whose turn it is, acceptance by the receiver, and the result.

use super::World;
use crate::observe::Observer;
use crate::radio::radios::Offered;
use crate::radio::transfers::{Stage, Transfer};
use crate::radio::turns::End;
use crate::sim_event::SimEvent;
use farlink_base::layer::{SendId, Ticket};
use farlink_base::{Duration, Instant, Refusal};
use farlink_link::DropReason;
use farlink_stack::{Input, MessageInput};

impl<O: Observer> World<O> {
    /// Asks the next end in turn for a bundle; returns false if no end has a turn.
    pub(super) fn take_turn(&mut self) -> bool {
        let Some(end) = self.radios.table.next() else { return false };
        let Some((node, link)) = self.radios.at(end) else { return true };
        self.radios.asked = Some(end);
        self.input(node, Input::Message(MessageInput::Turn { link }));
        self.radios.asked = None;
        if let Some(offered) = self.radios.offered.take() {
            self.ask(offered);
        }
        true
    }

    /// Takes the offer of a node; outside its turn the offer fails at once.
    pub(super) fn offer(&mut self, node: usize, offered: Offered) {
        if self.radios.asked == Some(offered.end) && self.radios.offered.is_none() {
            self.radios.offered = Some(offered);
        } else {
            self.todo.push_back((node, Input::Message(MessageInput::Done { id: offered.id, result: Err(None) })));
        }
    }

    /// Delivers a hello that takes neither time nor a turn.
    pub(super) fn deliver_hello(&mut self, end: End, content: Vec<u8>) {
        if let Some((to, link)) = self.radios.at((end.0, 1 - end.1)) {
            self.todo.push_back((to, Input::Message(MessageInput::Hello { link, content })));
        }
    }

    fn ask(&mut self, offered: Offered) {
        // A receiver that can refuse in advance is asked first, so that a duplicate or a full store costs no
        // transmission.
        let Offered { end, id, bundle, hop, size } = offered;
        let (Some((from, _)), Some((to, link))) = (self.radios.at(end), self.radios.at((end.0, 1 - end.1))) else {
            return;
        };
        let kind = self.radios.kind_of(end.0);
        let (asks, wire_bytes) = (kind.asks, kind.framing.wire_bytes(size, 0));
        let transfer =
            Transfer { end, id, bundle: bundle.clone(), hop: None, wire_bytes, began: self.now, stage: Stage::Asking };
        let number = self.radios.transfers.add(transfer);
        self.radios.links[end.0 as usize].transfers.push(number);
        if asks {
            self.input(
                to,
                Input::Message(MessageInput::Begun { link, ticket: Ticket(number), bundle, hop: hop.clone() }),
            );
        }
        let Some(transfer) = self.radios.transfers.get(number) else { return };
        if let Stage::Refused(why) = transfer.stage {
            self.radios.end(self.now, number);
            self.radios.kind_of(end.0).outcome.refused += 1;
            self.todo.push_back((from, Input::Message(MessageInput::Done { id, result: Err(Some(why)) })));
            return self.radios.table.go_on(end);
        }
        (transfer.stage, transfer.hop) = (Stage::Sending, Some(hop));
        self.radios.table.take(end);
        let now = self.now;
        let delay = self.radios.links[end.0 as usize].delay;
        let kind = self.radios.kind_of(end.0);
        kind.outcome.counted.sent += 1;
        kind.outcome.counted.sent_bytes += wire_bytes;
        // A radio without a rate limit sends in no time.
        let lasts = kind.rate.map_or(Duration::ZERO, |rate| rate.time_for(wire_bytes));
        let way = if kind.waits_for_arrival { delay } else { Duration::ZERO };
        // The quantum imitates simulators with fixed time steps.
        let until = rounded_up(now.saturating_add(lasts).saturating_add(way), kind.quantum);
        self.trace.add(&[now.0, 5, u64::from(end.0) << 1 | u64::from(end.1), until.0]);
        self.queue.arm(until, SimEvent::Transfer(number));
    }

    /// Handles the departure of the last bit; under stop-and-wait the bundle has arrived.
    pub(super) fn left(&mut self, number: u64) {
        let Some(transfer) = self.radios.transfers.get(number) else { return };
        let (end, id) = (transfer.end, transfer.id);
        let link = &mut self.radios.links[end.0 as usize];
        let kind = &self.radios.kinds[usize::from(link.radio)];
        let (waits, delay) = (kind.waits_for_arrival, link.delay);
        if kind.loss > 0.0 && link.losses.chance(kind.loss) {
            // The loss is unknown to the sender.
            self.let_go(number, DropReason::Loss);
            let from = self.radios.links[end.0 as usize].nodes[usize::from(end.1)];
            return self.todo.push_back((from as usize, Input::Message(MessageInput::Done { id, result: Ok(()) })));
        }
        if waits || delay.is_zero() {
            return self.arrive(number);
        }
        let Some(transfer) = self.radios.transfers.get(number) else { return };
        transfer.stage = Stage::Flying;
        let began = transfer.began;
        self.radios.free(self.now, end, began);
        self.queue.arm(self.now.saturating_add(delay), SimEvent::Arrival(number));
    }

    /// Handles the arrival of a bundle.
    pub(super) fn arrive(&mut self, number: u64) {
        let Some(transfer) = self.radios.transfers.get(number) else { return };
        let before = std::mem::replace(&mut transfer.stage, Stage::There);
        let (end, began, wire_bytes) = (transfer.end, transfer.began, transfer.wire_bytes);
        let Some(hop) = transfer.hop.take() else { return };
        let bundle = transfer.bundle.clone();
        let counted = &mut self.radios.kind_of(end.0).outcome.counted;
        counted.delivered += 1;
        counted.delivered_bytes += wire_bytes;
        if let Some((to, link)) = self.radios.at((end.0, 1 - end.1)) {
            self.input(to, Input::Message(MessageInput::Arrived { link, ticket: Ticket(number), bundle, hop }));
        }
        if before == Stage::Sending {
            self.radios.free(self.now, end, began);
        }
    }

    /// Handles a receiver's verdict, before or after the transfer.
    pub(super) fn judged(&mut self, number: u64, result: Result<(), Refusal>) {
        let Some(transfer) = self.radios.transfers.get(number) else { return };
        let end = transfer.end;
        let layer = self.radios.kinds[usize::from(self.radios.links[end.0 as usize].radio)].layer;
        // The verdict is translated into the codes of the layer; a refusal as a duplicate stays one, with its labels.
        let told = result.or_else(|why| if why == Refusal::Duplicate { Err(why) } else { layer.sender_result(why) });
        match transfer.stage {
            Stage::Asking => {
                if let Err(why) = told {
                    transfer.stage = Stage::Refused(why);
                }
            }
            Stage::There => {
                self.trace.add(&[self.now.0, 6, number, u64::from(result.is_ok())]);
                let delay = self.radios.links[end.0 as usize].delay;
                let kind = self.radios.kind_of(end.0);
                let back = if kind.waits_for_arrival { Duration::ZERO } else { delay };
                if back.is_zero() {
                    return self.answer(number, told);
                }
                if let Some(transfer) = self.radios.transfers.get(number) {
                    transfer.stage = Stage::Judged(told);
                }
                self.queue.arm(self.now.saturating_add(back), SimEvent::Answer(number));
            }
            _ => {}
        }
    }
    /// Handles the return of a verdict to the sender.
    pub(super) fn answered(&mut self, number: u64) {
        if let Some(Stage::Judged(told)) = self.radios.transfers.get(number).map(|transfer| transfer.stage) {
            self.answer(number, told);
        }
    }
    fn answer(&mut self, number: u64, told: Result<(), Refusal>) {
        let Some(Transfer { end, id, .. }) = self.radios.end(self.now, number) else { return };
        let from = self.radios.links[end.0 as usize].nodes[usize::from(end.1)];
        self.todo.push_back((from as usize, Input::Message(MessageInput::Done { id, result: told.map_err(Some) })));
    }

    /// Cancels a transmission, if the layer can.
    pub(super) fn take_back(&mut self, end: End, id: SendId) {
        if !self.radios.kind_of(end.0).layer.stops {
            return;
        }
        let transfers = &mut self.radios.transfers;
        let of_it = |number: &&u64| {
            transfers.get(**number).is_some_and(|t| t.end == end && t.id == id && t.stage == Stage::Sending)
        };
        if let Some(number) = self.radios.links[end.0 as usize].transfers.iter().find(of_it).copied() {
            self.break_off(number);
        }
    }
    /// Aborts a transfer; the sender is notified, and a receiver that accepted it in advance.
    pub(super) fn break_off(&mut self, number: u64) {
        let Some(transfer) = self.let_go(number, DropReason::WindowEnd) else { return };
        let Transfer { end, id, .. } = transfer;
        let from = self.radios.links[end.0 as usize].nodes[usize::from(end.1)];
        self.todo.push_back((from as usize, Input::Message(MessageInput::Done { id, result: Err(None) })));
    }
    fn let_go(&mut self, number: u64, why: DropReason) -> Option<Transfer> {
        // Only a transfer under way counts as dropped; a receiver that accepted in advance must be released.
        let transfer = self.radios.end(self.now, number)?;
        if matches!(transfer.stage, Stage::Sending | Stage::Flying) {
            let end = transfer.end;
            let kind = self.radios.kind_of(end.0);
            let asked = kind.asks;
            kind.outcome.counted.dropped[why as usize] += 1;
            kind.outcome.counted.dropped_bytes += transfer.wire_bytes;
            if let Some((to, link)) = self.radios.at((end.0, 1 - end.1)).filter(|_| asked) {
                self.todo.push_back((to, Input::Message(MessageInput::Abandoned { link, ticket: Ticket(number) })));
            }
        }
        Some(transfer)
    }
}

fn rounded_up(at: Instant, quantum: Duration) -> Instant {
    // Zero means no rounding, and must not become a divisor.
    let quantum = u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX);
    if quantum == 0 { at } else { Instant(at.0.div_ceil(quantum).saturating_mul(quantum)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_end_at_quantum_multiples() {
        let rounded = |at, quantum| rounded_up(Instant(at), Duration::from_nanos(quantum)).0;
        assert_eq!([rounded(7, 0), rounded(7, 5), rounded(10, 5), rounded(0, 5)], [7, 10, 10, 0]);
        assert_eq!(rounded(u64::MAX, 2), u64::MAX, "never is never");
    }
}

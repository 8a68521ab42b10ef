//! Simulation events, their queue, and the link ends that they refer to; a base for all modules that schedule events.

use crate::flows::FlowPacket;
use crate::messages::{Place, Token};
use farlink_base::{LinkId, TimerQueue};
use farlink_link::stream::Segment;
use farlink_stack::Input;
use std::net::SocketAddr;

/// Event of the simulation.
pub(crate) enum SimEvent {
    /// Deadline of a node.
    Wake(usize),
    /// Input for a node, such as datagrams; boxed, so that the many small events stay small.
    Tell(usize, Box<Input>),
    /// Result of a node's request, dropped if the node has restarted since.
    Reply { node: u32, life: u32, says: Box<Input> },
    /// Start or end of a fault.
    Fault { index: usize, ends: bool },
    /// Arrival of a stream segment at one end of a connection.
    Segment(usize, usize, Box<Segment>),
    /// Deadline of one end of a connection.
    StreamWake(usize, usize),
    /// Deadline of one end of a message-level link.
    MessageWake(Place),
    /// Arrival of a whole bundle at one end of a link.
    Message(Place, Token),
    /// Departure of the last bit of a bundle by radio.
    Transfer(u64),
    /// Arrival of a bundle by radio.
    Arrival(u64),
    /// Return of the receiver's verdict on a radio transfer.
    Answer(u64),
    /// Possible change of a link's carrier.
    Carrier(usize),
    /// Appearance or removal of a link.
    Change(usize),
    /// Time at which an application may send.
    Traffic(usize),
    /// Time at which the sender of a plain flow may send.
    FlowTurn(usize),
    /// Deadline of one end of a flow's connection.
    FlowWake(usize, usize),
    /// Arrival of a flow's packet at the end of a link.
    FlowPacket(Box<FlowPacket>),
    /// Time to sample stores and links.
    Sample,
}

/// Event queue, ordered by time, then insertion.
pub(crate) type Queue = TimerQueue<SimEvent>;

/// Address from which a peer's datagrams and connections come.
pub(crate) type Address = SocketAddr;

/// End of a link as its node knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Index of the node in the scenario.
    pub node: usize,
    /// Number of the link at that node.
    pub link: LinkId,
    pub address: Address,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_small() {
        assert!(size_of::<SimEvent>() <= 32, "{} B", size_of::<SimEvent>());
    }
}

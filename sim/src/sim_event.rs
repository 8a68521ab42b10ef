//! What can happen in a simulation, the queue of it, and the ends of links that it names: below all who fill the queue.

use crate::messages::{Place, Token};
use farlink_base::{LinkId, TimerQueue};
use farlink_link::stream::Segment;
use farlink_stack::Input;
use std::net::SocketAddr;

/// What can happen next.
pub(crate) enum SimEvent {
    /// A node's own deadline.
    Wake(usize),
    /// A node is told something (datagrams). In a box, so that the many small happenings are
    /// small.
    Tell(usize, Box<Input>),
    /// What a node asked for is done, if it still lives the life in which it asked.
    Reply { node: u32, life: u32, says: Box<Input> },
    /// A fault of the scenario begins, or ends.
    Fault { index: usize, ends: bool },
    /// A stream segment reaches one end of a connection.
    Segment(usize, usize, Box<Segment>),
    /// A deadline of one end of a connection.
    StreamWake(usize, usize),
    /// A deadline of one end of a link of messages.
    MessageWake(Place),
    /// A whole bundle reaches one end of a link.
    Message(Place, Token),
    /// The last bit of a bundle leaves by radio.
    Transfer(u64),
    /// It is there.
    Arrival(u64),
    /// What its receiver said of it is back.
    Answer(u64),
    /// A link may have come up or gone down.
    Carrier(usize),
    /// Two nodes get a link or lose it.
    Change(usize),
    /// An application may have something to send.
    Traffic(usize),
    /// Time to look at stores and links.
    Sample,
}

/// The event queue: (time, insertion) order.
pub(crate) type Queue = TimerQueue<SimEvent>;

/// The address a peer's datagrams and connections come from.
pub(crate) type Address = SocketAddr;

/// One end of a link as its node knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Index of the node.
    pub node: usize,
    /// The link's number in that node.
    pub link: LinkId,
    /// Its address on this link.
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

//! What goes into a stack and what comes out.

use crate::shards::Across;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer::{SendId, Ticket};
use farlink_base::socket;
use farlink_base::store::{DiskDone, DiskOp};
use farlink_base::{BundleMeta, Clock, Event, HopState, LayerId, LinkId, NodeId, Payload, Refusal};
use farlink_bpa::Pressure;
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, DeliveryId, RequestId};

/// Everything a driver can tell a stack.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline ([`crate::Stack::next_timeout`]) may have passed.
    Wake,
    /// The wall clock: once at start, then on every step.
    Clock(Clock),
    /// The sockets of a layer say something.
    Socket(LayerId, socket::Input),
    /// How scarce the memory of this process is from now on; said again, once a second, while it stays
    /// scarce.
    Pressure(Pressure),
    /// Another shard of this node says something about a layer.
    Across {
        /// Which shard.
        from: u8,
        /// About which layer.
        layer: LayerId,
        /// What.
        what: Box<Across>,
    },
    /// A disk operation finished.
    DiskDone(DiskDone),
    /// The medium under a link works (carrier). Links start up.
    LinkUp {
        /// Which.
        link: LinkId,
    },
    /// The medium under a link does not work.
    LinkDown {
        /// Which.
        link: LinkId,
    },
    /// An application says something.
    App(AppInput),
    /// The next bytes of the payload of a request to send that follows, once it is whole, with the last of them. They go
    /// to the store as they come, so that payloads may be longer than memory: answered by [`Output::Spooled`], or by
    /// the refusal of the request. Only where the store is durable.
    Spool {
        /// The number the request will have.
        request: RequestId,
        /// Whose it is: the node of its source.
        source: NodeId,
        /// The bytes.
        part: Payload,
    },
    /// That request does not come.
    Unspool {
        /// Its number.
        request: RequestId,
    },
    /// The driver wants these bytes, which are on disk, of a delivery's payload. Answered by [`Output::Read`].
    Read {
        /// Which delivery.
        delivery: DeliveryId,
        /// A part of its payload as it was given.
        part: Payload,
    },
    /// An operator says something.
    Admin(AdminInput),
    /// Message-level simulation: whole bundles, without codec or convergence layer.
    Message(MessageInput),
}

/// Everything a stack can tell its driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// A layer asks something of its sockets.
    Socket(LayerId, socket::Output),
    /// Tell another shard of this node.
    Across {
        /// Which shard.
        to: u8,
        /// About which layer.
        layer: LayerId,
        /// What.
        what: Box<Across>,
    },
    /// Do this to the store's files.
    Disk(DiskOp),
    /// Tell an application. A payload on disk that is longer than 16 MiB and than all that may be read from there at
    /// once (`limits.memory_bytes`), or one beyond 64 KiB where applications left those or 4 MiB unanswered, is given as it lies
    /// there: [`Input::Read`] gets its bytes.
    App(AppOutput),
    /// So many more bytes given with [`Input::Spool`] are on disk.
    Spooled {
        /// Of which request.
        request: RequestId,
        /// Bytes.
        bytes: u64,
    },
    /// Bytes of a delivery's payload, or why they cannot be read; the delivery is over then, and made again later.
    Read {
        /// Which delivery.
        delivery: DeliveryId,
        /// The bytes wanted.
        result: Result<Payload, Refusal>,
    },
    /// Something happened.
    Event(Event),
    /// Message-level simulation: whole bundles, without codec or convergence layer.
    Message(MessageOutput),
}

/// Everything a message-level driver can tell a stack.
#[derive(Clone, Debug)]
pub enum MessageInput {
    /// A whole bundle from a neighbour. Answered by [`MessageOutput::Verdict`].
    Arrived {
        /// Over which link.
        link: LinkId,
        /// The driver's number for it.
        ticket: Ticket,
        /// The bundle, shared with whoever else holds it.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<HopState>,
    },
    /// A bundle is about to come as [`MessageInput::Arrived`] with this ticket: where it would be refused,
    /// [`MessageOutput::Verdict`] says so now, and it need not come; else room is promised to it.
    Begun {
        /// Over which link.
        link: LinkId,
        /// The driver's number for it.
        ticket: Ticket,
        /// The bundle.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<HopState>,
    },
    /// A bundle that was about to come does not.
    Abandoned {
        /// Over which link.
        link: LinkId,
        /// The driver's number for it.
        ticket: Ticket,
    },
    /// A neighbour says of itself what its [`MessageOutput::Hello`] holds.
    Hello {
        /// Over which link.
        link: LinkId,
        /// What.
        content: Vec<u8>,
    },
    /// It is the turn of a link that [`Stack::add_met_link`](crate::Stack::add_met_link) added, which shares a
    /// radio with others: it takes one bundle in this call, or none. It takes bundles in no other way.
    Turn {
        /// Whose.
        link: LinkId,
    },
    /// A message layer's link takes one more bundle, or none. Whoever says so says it for every bundle.
    Ready {
        /// Which.
        link: LinkId,
        /// Whether it can.
        ready: bool,
    },
    /// What became of a bundle sent with [`MessageOutput::Send`].
    Done {
        /// Which.
        id: SendId,
        /// Whether the neighbour has it; else what it said, if it refused.
        result: Result<(), Option<Refusal>>,
    },
}

/// Everything a stack can tell a message-level driver.
#[derive(Clone, Debug)]
pub enum MessageOutput {
    /// A whole bundle for a neighbour, over a message layer's link. Answered by
    /// [`MessageInput::Done`].
    Send {
        /// Over which link.
        link: LinkId,
        /// The agent's number for it.
        id: SendId,
        /// The bundle.
        bundle: Arc<BundleMeta>,
        /// What changes on this hop.
        hop: Box<HopState>,
        /// Its encoded length.
        size: u64,
    },
    /// A bundle sent with [`MessageOutput::Send`] is not wanted any more. It is answered all the same.
    Cancel {
        /// Over which link.
        link: LinkId,
        /// Which.
        id: SendId,
    },
    /// What a neighbour is to be told of this node, where that is free, as [`MessageInput::Hello`].
    Hello {
        /// Over which link.
        link: LinkId,
        /// What.
        content: Vec<u8>,
    },
    /// Something may leave over a link that takes turns, and it is not its turn; said once for each.
    Waits {
        /// Which.
        link: LinkId,
    },
    /// What became of a bundle given with [`MessageInput::Arrived`].
    Verdict {
        /// Which.
        ticket: Ticket,
        /// Kept or not.
        result: Result<(), Refusal>,
    },
}

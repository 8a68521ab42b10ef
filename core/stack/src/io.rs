//! Inputs and outputs of a stack.

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

/// Input of a driver for a stack.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline ([`crate::Stack::next_timeout`]) may have passed.
    Wake,
    /// The wall clock: sent once at start, then whenever it is stepped.
    Clock(Clock),
    /// Input from the sockets of a layer.
    Socket(LayerId, socket::Input),
    /// Memory pressure of this process from now on; repeated once a second while it lasts.
    Pressure(Pressure),
    /// Message of another shard of this node about a layer.
    Across {
        /// The sending shard.
        from: u8,
        /// The layer concerned.
        layer: LayerId,
        /// The message itself.
        what: Box<Across>,
    },
    /// A disk operation finished.
    DiskDone(DiskDone),
    /// The medium under a link works (carrier). It is taken to work at start.
    LinkUp {
        /// The link concerned.
        link: LinkId,
    },
    /// The medium under a link does not work.
    LinkDown {
        /// The link concerned.
        link: LinkId,
    },
    /// Request of an application.
    App(AppInput),
    /// Next bytes of the payload of a request to send. The request follows as [`Input::App`], with the last bytes. The
    /// bytes go to the store as they come, so that payloads may be longer than memory. Answered by [`Output::Spooled`],
    /// or by the refusal of the request. Only for a durable store.
    Spool {
        /// The number that the request will have.
        request: RequestId,
        /// The node of the request's source, whose quota is charged.
        source: NodeId,
        /// Bytes of this part.
        part: Payload,
    },
    /// Cancels a request whose payload was begun by [`Input::Spool`].
    Unspool {
        /// Number of that request.
        request: RequestId,
    },
    /// The driver asks for bytes of a delivery's payload that are on disk. Answered by [`Output::Read`].
    Read {
        /// Number of the delivery.
        delivery: DeliveryId,
        /// Part of the payload as it was delivered.
        part: Payload,
    },
    /// Request of an operator.
    Admin(AdminInput),
    /// Message-level simulation: whole bundles, without codec or convergence layer.
    Message(MessageInput),
}

/// Output of a stack for its driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// A request of a layer to its sockets.
    Socket(LayerId, socket::Output),
    /// Message for another shard of this node.
    Across {
        /// The receiving shard.
        to: u8,
        /// The layer concerned.
        layer: LayerId,
        /// The message itself.
        what: Box<Across>,
    },
    /// Operation on the store's files.
    Disk(DiskOp),
    /// Message for an application. A payload stays on disk, to be fetched with [`Input::Read`], if it exceeds both 16
    /// MiB and `limits.memory_bytes`, or if it exceeds 64 KiB while applications left more than `limits.memory_bytes`
    /// (at least 4 MiB) unanswered.
    App(AppOutput),
    /// This many more of the bytes given with [`Input::Spool`] are on disk.
    Spooled {
        /// Number of the request.
        request: RequestId,
        /// Bytes newly on disk.
        bytes: u64,
    },
    /// Bytes of a delivery's payload, or why they cannot be read; the delivery has then ended, and is repeated
    /// later.
    Read {
        /// Number of the delivery.
        delivery: DeliveryId,
        /// The bytes asked for, or the reason why they cannot be read.
        result: Result<Payload, Refusal>,
    },
    /// Event for logs and statistics.
    Event(Event),
    /// Message-level simulation: whole bundles, without codec or convergence layer.
    Message(MessageOutput),
}

/// Input of a message-level driver for a stack.
#[derive(Clone, Debug)]
pub enum MessageInput {
    /// A whole bundle from a neighbour. Answered by [`MessageOutput::Verdict`].
    Arrived {
        /// The link that the bundle came over.
        link: LinkId,
        /// The driver's number for the bundle.
        ticket: Ticket,
        /// The bundle, shared with all other holders.
        bundle: Arc<BundleMeta>,
        /// Hop state of the bundle on this hop.
        hop: Box<HopState>,
    },
    /// A bundle is about to come as [`MessageInput::Arrived`] with this ticket. If it would be refused,
    /// [`MessageOutput::Verdict`] follows now, and it need not come; else room is reserved for it.
    Begun {
        /// The link that the bundle will come over.
        link: LinkId,
        /// The driver's number for the bundle.
        ticket: Ticket,
        /// The announced bundle.
        bundle: Arc<BundleMeta>,
        /// Hop state of the bundle on this hop.
        hop: Box<HopState>,
    },
    /// An announced bundle does not come.
    Abandoned {
        /// The link that the bundle was announced for.
        link: LinkId,
        /// The driver's number for the bundle.
        ticket: Ticket,
    },
    /// Content of a neighbour's [`MessageOutput::Hello`].
    Hello {
        /// The link that the hello came over.
        link: LinkId,
        /// Encoded content of the hello.
        content: Vec<u8>,
    },
    /// The turn of a link that [`Stack::add_met_link`](crate::Stack::add_met_link) added, which shares a radio with
    /// others: the link takes one bundle in this call, or none. Such a link takes bundles in its turns only.
    Turn {
        /// The link whose turn it is.
        link: LinkId,
    },
    /// Whether a message layer's link takes another bundle. A driver that sends this input once must send it after
    /// every bundle.
    Ready {
        /// The link concerned.
        link: LinkId,
        /// Whether the link takes a bundle.
        ready: bool,
    },
    /// Outcome of a bundle sent with [`MessageOutput::Send`].
    Done {
        /// The agent's number for the transmission.
        id: SendId,
        /// Success if the neighbour has the bundle; else the neighbour's refusal, if it sent one.
        result: Result<(), Option<Refusal>>,
    },
}

/// Output of a stack for a message-level driver.
#[derive(Clone, Debug)]
pub enum MessageOutput {
    /// A whole bundle for a neighbour, over a message layer's link. Answered by
    /// [`MessageInput::Done`].
    Send {
        /// The link to send over.
        link: LinkId,
        /// The agent's number for the transmission.
        id: SendId,
        /// The bundle to send.
        bundle: Arc<BundleMeta>,
        /// Hop state of the bundle on this hop.
        hop: Box<HopState>,
        /// Encoded length in bytes.
        size: u64,
    },
    /// A transmission of [`MessageOutput::Send`] is cancelled; [`MessageInput::Done`] must answer it all the same.
    Cancel {
        /// The link of the transmission.
        link: LinkId,
        /// The agent's number for the transmission.
        id: SendId,
    },
    /// Hello for a neighbour where hellos cost nothing; the neighbour gets it as [`MessageInput::Hello`].
    Hello {
        /// The link to send over.
        link: LinkId,
        /// Encoded content of the hello.
        content: Vec<u8>,
    },
    /// A link that takes turns has something to send while it is not its turn; emitted once for each turn.
    Waits {
        /// The link concerned.
        link: LinkId,
    },
    /// Verdict on a bundle given with [`MessageInput::Arrived`].
    Verdict {
        /// The driver's number for the bundle.
        ticket: Ticket,
        /// Accepted, or the reason of the refusal.
        result: Result<(), Refusal>,
    },
}

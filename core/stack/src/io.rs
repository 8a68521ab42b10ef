//! What goes into a stack and what comes out.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use farlink_base::layer::{Destination, SendId, Ticket, Train};
use farlink_base::store::{DiskDone, DiskOp};
use farlink_base::{BundleMeta, Clock, Event, Hop, LayerId, LinkId, Payload, Refusal, StreamId};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput};

/// Everything a driver can tell a stack.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline ([`crate::Stack::next_timeout`]) may have passed.
    Wake,
    /// The wall clock: once at start, then on every step.
    Clock(Clock),
    /// Datagrams arrived on a layer's socket.
    Datagrams {
        /// The layer that owns the socket.
        layer: LayerId,
        /// From where.
        from: SocketAddr,
        /// The datagrams.
        train: Train,
    },
    /// A stream is open: one asked for with `StreamConnect`, or accepted on a layer's socket.
    StreamOpened {
        /// The layer that owns the socket.
        layer: LayerId,
        /// Which.
        stream: StreamId,
        /// The peer's address.
        from: SocketAddr,
    },
    /// Bytes arrived on a stream.
    StreamData {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// A stream can take this many more bytes in total.
    StreamWritable {
        /// Which.
        stream: StreamId,
        /// Bytes it can take now.
        room: u64,
    },
    /// TLS asked for with `StartTls` is in place.
    Secured {
        /// Which.
        stream: StreamId,
        /// The node IDs the peer's certificate proves.
        proven: Vec<String>,
    },
    /// A stream ended or could not be opened.
    StreamClosed {
        /// Which.
        stream: StreamId,
        /// Whether by an error.
        error: bool,
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
    /// An operator says something.
    Admin(AdminInput),
    /// A whole bundle from a neighbour, without codec or convergence layer (message-level
    /// simulation, shards of one node). Answered by [`Output::MessageVerdict`].
    Message {
        /// Over which link.
        link: LinkId,
        /// The driver's number for it.
        ticket: Ticket,
        /// The bundle, shared with whoever else holds it.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<Hop>,
    },
    /// A message layer's link takes one more bundle, or none. Whoever says so says it for every bundle.
    MessageReady {
        /// Which.
        link: LinkId,
        /// Whether it can.
        ready: bool,
    },
    /// What became of a bundle sent with [`Output::Message`].
    MessageDone {
        /// Which.
        id: SendId,
        /// Whether the neighbour has it; else what it said, if it refused.
        result: Result<(), Option<Refusal>>,
    },
}

/// Everything a stack can tell its driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send datagrams from a layer's socket.
    Datagrams {
        /// The layer that owns the socket.
        layer: LayerId,
        /// To where.
        to: Destination,
        /// The datagrams.
        train: Train,
    },
    /// Open a stream to a link's configured address.
    StreamConnect {
        /// For which layer.
        layer: LayerId,
        /// The new stream's number.
        stream: StreamId,
        /// To which link's peer.
        link: LinkId,
    },
    /// Write bytes to a stream.
    StreamWrite {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// End a stream.
    StreamClose {
        /// Which.
        stream: StreamId,
        /// Whether to drop what has not left.
        abort: bool,
    },
    /// Begin TLS on a stream; answered by `Secured`, or by `StreamClosed` where that fails or there is
    /// none.
    StartTls {
        /// Which.
        stream: StreamId,
        /// Whether this side answers the handshake.
        server: bool,
        /// Whom to ask for and to check; `None`: the host of the link's address.
        name: Option<String>,
    },
    /// Stop reading from a stream.
    PauseRead {
        /// Which.
        stream: StreamId,
    },
    /// Read from it again.
    ResumeRead {
        /// Which.
        stream: StreamId,
    },
    /// Do this to the store's files.
    Disk(DiskOp),
    /// Tell an application.
    App(AppOutput),
    /// Something happened.
    Event(Event),
    /// A whole bundle for a neighbour, over a message layer's link. Answered by
    /// [`Input::MessageDone`].
    Message {
        /// Over which link.
        link: LinkId,
        /// The agent's number for it.
        id: SendId,
        /// The bundle.
        bundle: Arc<BundleMeta>,
        /// What changes on this hop.
        hop: Box<Hop>,
        /// Its encoded length.
        size: u64,
    },
    /// A bundle sent with [`Output::Message`] is not wanted any more. It is answered all the same.
    MessageCancel {
        /// Over which link.
        link: LinkId,
        /// Which.
        id: SendId,
    },
    /// What became of a bundle given with [`Input::Message`].
    MessageVerdict {
        /// Which.
        ticket: Ticket,
        /// Kept or not.
        result: Result<(), Refusal>,
    },
}

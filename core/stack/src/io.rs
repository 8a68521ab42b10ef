//! What goes into a stack and what comes out.

use core::net::SocketAddr;
use farlink_base::layer::{Destination, Train};
use farlink_base::store::{DiskDone, DiskOp};
use farlink_base::{Clock, Event, LayerId, LinkId, Payload, StreamId};
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
    /// A whole bundle from a neighbour without codec and convergence layer (message-level
    /// simulation only).
    Message {
        /// Over which link.
        link: LinkId,
        /// The bundle.
        bundle: alloc::sync::Arc<farlink_bundle::Bundle>,
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
    /// A whole bundle for a neighbour (message-level simulation only).
    Message {
        /// Over which link.
        link: LinkId,
        /// The bundle.
        bundle: alloc::sync::Arc<farlink_bundle::Bundle>,
    },
}

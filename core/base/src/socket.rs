//! What the sockets of a layer tell it and what it asks of them: said between a driver and a stack, with
//! the layer, and between the stack and that layer.

use crate::id::{LinkId, StreamId};
use crate::layer::{DatagramBatch, Destination};
use crate::payload::Payload;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// What sockets tell a layer.
#[derive(Clone, Debug)]
pub enum Input {
    /// Datagrams arrived.
    Datagrams {
        /// From where.
        from: SocketAddr,
        /// The datagrams.
        train: DatagramBatch,
    },
    /// A stream is open: one asked for with [`Output::Connect`], or accepted from a peer.
    Opened {
        /// Which.
        stream: StreamId,
        /// The peer's address.
        from: SocketAddr,
    },
    /// Where the peer of a configured link is: all its addresses, resolved; of datagrams, the one they go to.
    /// What is said in the peer's name from another host is not heard. Said before the first session and when they
    /// change; a link of which nothing is said has no address.
    Located {
        /// Which.
        link: LinkId,
        /// Its addresses; none where its name is unknown at the moment.
        addresses: Vec<SocketAddr>,
    },
    /// Bytes arrived on a stream, in order.
    Data {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// A stream can take this many more bytes in total; [`Output::Write`] never exceeds it.
    Writable {
        /// Which.
        stream: StreamId,
        /// Bytes it can take now (replaces what was said before).
        room: u64,
    },
    /// The peer's host has acknowledged so many bytes of a stream, counted since it opened; its node need not have read
    /// them. Said of streams that [`Output::Confirm`] asked for, whenever it is more; never after [`Input::Closed`].
    Confirmed {
        /// Which.
        stream: StreamId,
        /// Bytes.
        bytes: u64,
    },
    /// A stream ended, or could not be opened. In order, its peer says nothing more but may still read: what is
    /// written leaves, until [`Output::Close`]. By an error it is gone.
    Closed {
        /// Which.
        stream: StreamId,
        /// Whether by an error (reset, refused, timed out) rather than an orderly end.
        error: bool,
    },
    /// The TLS handshake asked for with [`Output::StartTls`] succeeded: bytes of this stream are
    /// what was inside. A handshake that failed closes the stream ([`Input::Closed`]).
    Secured {
        /// Which.
        stream: StreamId,
        /// The node IDs the peer's certificate proves, as text; a node with several names proves
        /// each. Empty where the certificate names no node.
        proven: Vec<String>,
        /// Whether the certificate names no node, and another host than the peer's.
        contradicts: bool,
    },
}

/// What a layer asks of its sockets.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send datagrams.
    Datagrams {
        /// To where.
        to: Destination,
        /// The datagrams.
        train: DatagramBatch,
    },
    /// Open a stream to the address of a link; answered by [`Input::Opened`] or [`Input::Closed`].
    Connect {
        /// The new stream's number, chosen by the layer (below [`StreamId::PASSIVE`]; the layer's
        /// identifier in bits 48..62 keeps layers apart).
        stream: StreamId,
        /// To which link's peer.
        link: LinkId,
    },
    /// Write bytes, within the room that was given.
    Write {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// Tell from now on how much of what is written to an open stream the peer's host has
    /// ([`Input::Confirmed`]): what lies in this host's buffers is lost when the stream breaks.
    Confirm {
        /// Which.
        stream: StreamId,
    },
    /// End a stream: after what was written has left, or at once.
    Close {
        /// Which.
        stream: StreamId,
        /// Whether to drop what has not left (reset).
        abort: bool,
    },
    /// Begin TLS on a stream once everything written to it has left; answered by [`Input::Secured`], or
    /// by [`Input::Closed`] when the handshake fails. Until then the layer neither writes nor is given
    /// bytes; a driver that has no TLS closes the stream.
    StartTls {
        /// Which.
        stream: StreamId,
        /// Whether this side answers the handshake (it accepted the stream).
        server: bool,
        /// Whom to ask for and to check (server name); `None`: the host of the link's address.
        name: Option<String>,
    },
    /// Stop reading from a stream (push-back), until [`Output::Resume`].
    Pause {
        /// Which.
        stream: StreamId,
    },
    /// Read from a stream again.
    Resume {
        /// Which.
        stream: StreamId,
    },
}

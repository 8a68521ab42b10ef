//! Contract between a layer and its sockets: events and requests. Between driver and stack they carry the layer's
//! number; the stack passes them to and from that layer.

use crate::id::{LinkId, StreamId};
use crate::layer::{DatagramBatch, Destination};
use crate::payload::Payload;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Socket event. In every variant, `stream` is the stream and `link` the link concerned.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Input {
    /// Datagrams arrived.
    Datagrams {
        /// Source address.
        from: SocketAddr,
        train: DatagramBatch,
    },
    /// A stream opened: either one requested with [`Output::Connect`], or one that a peer opened.
    Opened {
        stream: StreamId,
        /// Address of the peer.
        from: SocketAddr,
    },
    /// Addresses of a configured link's peer: all that were resolved; for datagrams, the one they are sent to. Traffic
    /// in the peer's name from other hosts is ignored. Sent before the first session and on every change; a link for
    /// which this never came has no address.
    Located {
        link: LinkId,
        /// Resolved addresses; empty while the name does not resolve.
        addresses: Vec<SocketAddr>,
    },
    /// Bytes arrived on a stream, in order.
    Data { stream: StreamId, data: Payload },
    /// Total room of a stream, which [`Output::Write`] never exceeds.
    Writable {
        stream: StreamId,
        /// Number of bytes accepted now; replaces the previous value.
        room: u64,
    },
    /// Number of bytes of a stream that the peer's host has acknowledged since the stream opened; the peer's
    /// application need not have read them. Sent for streams with [`Output::Confirm`] on every increase, never after
    /// [`Input::Closed`].
    Confirmed { stream: StreamId, bytes: u64 },
    /// A stream ended, or could not be opened. After an orderly end the peer sends nothing more but may still read:
    /// bytes that were written leave until [`Output::Close`]. After an error the stream is gone.
    Closed {
        stream: StreamId,
        /// Whether the stream failed (reset, refused, timed out) instead of ending in order.
        error: bool,
    },
    /// The TLS handshake of [`Output::StartTls`] succeeded: from now on, the bytes of this stream are plaintext. A
    /// failed handshake closes the stream ([`Input::Closed`]).
    Secured {
        stream: StreamId,
        /// Node IDs that the peer's certificate proves, as text; empty if the certificate names no node.
        proven: Vec<String>,
        /// Whether the certificate names no node, and its host names do not include the peer's host.
        contradicts: bool,
    },
}

/// Socket request. In every variant, `stream` is the stream and `link` the link concerned.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Output {
    /// Send datagrams.
    Datagrams {
        /// Destination of the datagrams.
        to: Destination,
        train: DatagramBatch,
    },
    /// Open a stream to the address of a link; answered by [`Input::Opened`] or [`Input::Closed`].
    Connect {
        /// Number of the new stream, chosen by the layer below [`StreamId::PASSIVE`]; the layer's index in bits 48..62
        /// keeps the streams of layers apart.
        stream: StreamId,
        link: LinkId,
    },
    /// Write bytes, within the room of [`Input::Writable`].
    Write { stream: StreamId, data: Payload },
    /// Report from now on how many bytes the peer's host has acknowledged ([`Input::Confirmed`]); bytes in this host's
    /// buffers are lost if the stream breaks.
    Confirm { stream: StreamId },
    /// End a stream: after all written bytes have left, or, with `abort`, at once.
    Close {
        stream: StreamId,
        /// Whether unsent bytes are discarded. The peer sees a regular end in either case (RFC 9174 section 4.1).
        abort: bool,
    },
    /// Start TLS on a stream once all written bytes have left. Answered by [`Input::Secured`], or by [`Input::Closed`]
    /// if the handshake fails; until then the layer neither writes nor receives bytes. A driver without TLS closes the
    /// stream.
    StartTls {
        stream: StreamId,
        /// Whether this side is the TLS server, since it accepted the stream.
        server: bool,
        /// Server name to request and to verify; `None`: the host in the link's address.
        name: Option<String>,
    },
    /// Stop reading from a stream, to push back on the peer, until [`Output::Resume`].
    Pause { stream: StreamId },
    /// Resume reading from a stream.
    Resume { stream: StreamId },
}

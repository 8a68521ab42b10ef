//! The contract of convergence layers: each is a state machine over opaque bytes.
//!
//! A layer never parses a bundle, reads a clock or opens a socket. It gets [`Input`]s with the time
//! they happened and pushes [`Output`]s; [`ConvergenceLayer::next_timeout`] tells when it must be
//! called with [`Input::Wake`] at the latest.
//!
//! **Accepting has two steps.** What arrives is pushed as [`Output::Offer`]s; only when
//! [`Input::Accepted`] comes back may the layer acknowledge the last byte to the peer.

use crate::error::Refusal;
use crate::event::Event;
use crate::id::{LayerId, LinkId, NodeId, StreamId};
use crate::payload::Payload;
use crate::sink::Sink;
use crate::time::Instant;
use crate::units::DataRate;
use core::net::SocketAddr;
use core::time::Duration;

/// A bundle on its way out, as the agent numbered it for this transmission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SendId(pub u64);

/// A bundle on its way in, as the layer numbered it; unique within the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Several datagrams to or from one place, laid end to end: all are `stride` bytes but the last,
/// which may be shorter. Segmentation offload and receive coalescing fall out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    /// Length of each datagram but the last.
    pub stride: u32,
    /// The datagrams' bytes.
    pub data: Payload,
}
impl Train {
    /// A train of one datagram.
    pub fn single(data: Payload) -> Train {
        Train { stride: u32::try_from(data.len()).unwrap_or(u32::MAX), data }
    }
    /// How many datagrams it holds.
    pub fn count(&self) -> u64 {
        self.data.len().div_ceil(u64::from(self.stride.max(1)))
    }
    /// The datagrams in order.
    pub fn datagrams(&self) -> impl Iterator<Item = Payload> + '_ {
        let stride = u64::from(self.stride.max(1));
        let mut reader = self.data.reader();
        core::iter::from_fn(move || {
            let n = reader.remaining().min(stride);
            if n == 0 { None } else { reader.take(n) }
        })
    }
}

/// Where datagrams go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To the configured address of this link; the driver knows it and resolves it again when a
    /// host name moves.
    Link(LinkId),
    /// Back to where something came from (an unconfigured peer).
    Address(SocketAddr),
}

/// What a link can do right now, from the contact plan and the driver together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Whether this node may transmit.
    pub transmit: bool,
    /// Whether the peer may transmit to this node; timers waiting for its answer stop while not.
    pub receive: bool,
    /// Rate to obey when transmitting, bits per second at the link (headers counted); `None`: as
    /// fast as it goes.
    pub rate: Option<DataRate>,
    /// One-way light time towards the peer.
    pub delay_out: Duration,
    /// One-way light time from the peer.
    pub delay_in: Duration,
}
impl LinkState {
    /// A link that is down both ways.
    pub const DOWN: LinkState =
        LinkState { transmit: false, receive: false, rate: None, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
    /// A terrestrial link: up both ways, no rate to obey, no delay worth counting.
    pub const UP: LinkState =
        LinkState { transmit: true, receive: true, rate: None, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
}

/// What a layer is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// Datagrams arrived.
    Datagrams {
        /// From where.
        from: SocketAddr,
        /// The datagrams.
        train: Train,
    },
    /// A stream is open: one asked for with [`Output::StreamConnect`], or accepted from a peer.
    StreamOpened {
        /// Which.
        stream: StreamId,
        /// The peer's address.
        from: SocketAddr,
    },
    /// Bytes arrived on a stream, in order.
    StreamData {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// A stream can take this many more bytes in total; `StreamWrite` never exceeds it.
    StreamWritable {
        /// Which.
        stream: StreamId,
        /// Bytes it can take now (replaces what was said before).
        room: u64,
    },
    /// A stream ended, or could not be opened.
    StreamClosed {
        /// Which.
        stream: StreamId,
        /// Whether by an error (reset, refused, timed out) rather than an orderly end.
        error: bool,
    },
    /// What a link can do changed.
    Link {
        /// Which.
        link: LinkId,
        /// Its state from now on.
        state: LinkState,
    },
    /// Send this bundle. Only given while the layer has said [`Output::Ready`] for the link.
    Send {
        /// Over which link.
        link: LinkId,
        /// The agent's number for it.
        id: SendId,
        /// The encoded bundle, in memory or fill.
        bundle: Payload,
        /// Whether it must arrive (LTP red) or may be lost (LTP green).
        reliable: bool,
    },
    /// Forget a bundle given with `Send` if it has not left yet; answered by `SendFailed` or `Sent`.
    CancelSend {
        /// Over which link.
        link: LinkId,
        /// Which.
        id: SendId,
    },
    /// What was offered is kept: acknowledge it.
    Accepted {
        /// Which.
        ticket: Ticket,
    },
    /// What was offered is not kept: tell the peer.
    Refused {
        /// Which.
        ticket: Ticket,
        /// Why.
        reason: Refusal,
    },
    /// End all sessions in good order, start none.
    Shutdown,
}

/// What a layer decides.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send datagrams.
    Datagrams {
        /// To where.
        to: Destination,
        /// The datagrams.
        train: Train,
    },
    /// Open a stream to the configured address of a link; answered by `StreamOpened` or
    /// `StreamClosed`.
    StreamConnect {
        /// The new stream's number, chosen by the layer (below [`StreamId::PASSIVE`]; the layer's
        /// identifier in bits 48..62 keeps layers apart).
        stream: StreamId,
        /// To which link's peer.
        link: LinkId,
    },
    /// Write bytes, within the room that was given.
    StreamWrite {
        /// Which.
        stream: StreamId,
        /// The bytes.
        data: Payload,
    },
    /// End a stream: after what was written has left, or at once.
    StreamClose {
        /// Which.
        stream: StreamId,
        /// Whether to drop what has not left (reset).
        abort: bool,
    },
    /// Stop reading from a stream (push-back), until `ResumeRead`.
    PauseRead {
        /// Which.
        stream: StreamId,
    },
    /// Read from a stream again.
    ResumeRead {
        /// Which.
        stream: StreamId,
    },
    /// Bytes of an arriving bundle. The first part with a ticket begins it, `last` ends it; a small
    /// bundle is one part. The agent's verdict comes as `Accepted` or `Refused`, and may come
    /// before the last part (a refusal then stops the transfer).
    Offer {
        /// The layer's number for it.
        ticket: Ticket,
        /// Over which link.
        link: LinkId,
        /// The next bytes.
        part: Payload,
        /// Whether these are the last.
        last: bool,
        /// Length of the whole bundle, where the peer announced it.
        total: Option<u64>,
        /// Whether the peer is told the verdict (false: green data, nothing to acknowledge; the
        /// agent still answers).
        reliable: bool,
    },
    /// An arriving bundle was abandoned (session lost, cancelled); its parts are worthless and no
    /// verdict is wanted.
    OfferAborted {
        /// Which.
        ticket: Ticket,
    },
    /// The peer confirmed a bundle, or it left and the layer cannot know more.
    Sent {
        /// Which.
        id: SendId,
        /// Over which link.
        link: LinkId,
    },
    /// A bundle did not go through; the agent routes it again.
    SendFailed {
        /// Which.
        id: SendId,
        /// Over which link.
        link: LinkId,
        /// What the peer said, if it refused.
        refused: Option<Refusal>,
    },
    /// Whether the link can take another bundle. Not ready until said so. A layer says `false` when
    /// its own queue holds about as much as it can use, so that priorities are decided in the
    /// agent.
    Ready {
        /// Which.
        link: LinkId,
        /// Whether `Send` is welcome.
        ready: bool,
    },
    /// A peer introduced itself: on a configured link, or on a dynamic one
    /// ([`LinkId::is_dynamic`]) that exists from now on.
    PeerUp {
        /// Which.
        link: LinkId,
        /// The node ID it gave, as text (TCPCL), when it gave one.
        node_id: Option<alloc::string::String>,
        /// The node its engine number stands for (LTP), when it has one.
        node: Option<NodeId>,
    },
    /// The peer is gone (session ended); a dynamic link no longer exists.
    PeerDown {
        /// Which.
        link: LinkId,
    },
    /// Something to tell.
    Event(Event),
}

/// A convergence layer: one instance serves all links of one node that use it.
pub trait ConvergenceLayer: Send {
    /// Takes one input at `now`; pushes what follows from it.
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>);
    /// When to call with [`Input::Wake`] at the latest. O(1).
    fn next_timeout(&self) -> Option<Instant>;
}

/// The stream number space of a layer (bits 48..62).
pub const fn stream_base(layer: LayerId) -> u64 {
    (layer.0 as u64) << 48
}
/// The first dynamic link number of a layer.
pub const fn dynamic_link_base(layer: LayerId) -> u32 {
    LinkId::DYNAMIC | ((layer.0 as u32) & 0x7f) << 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_train_falls_apart_into_its_datagrams() {
        let train = Train { stride: 4, data: Payload::from(&b"aaaabbbbcc"[..]) };
        assert_eq!(train.count(), 3);
        let parts: Vec<_> = train.datagrams().map(|d| d.to_bytes().unwrap()).collect();
        assert_eq!(parts, [&b"aaaa"[..], b"bbbb", b"cc"]);
        assert_eq!(Train { stride: 0, data: Payload::new() }.count(), 0);
    }
}

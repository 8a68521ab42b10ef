//! Contract of convergence layers: each is a state machine over opaque bytes.
//!
//! A layer never parses a bundle, reads a clock or opens a socket. It gets [`Input`]s with the time they happened and
//! pushes [`Output`]s. [`ConvergenceLayer::next_timeout`] bounds the time until the next [`Input::Wake`].
//!
//! **Accepting has two steps.** Arriving bytes are pushed as [`Output::Offer`]s; only after [`Input::Accepted`] may the
//! layer acknowledge the last byte to the peer.
//!
//! **Long bundles pass in parts.** [`Input::Send`] carries the first bytes. If that is not the whole bundle, the layer
//! requests more when it can use it ([`Output::Want`]), and may request a range again. Arriving parts are pushed as
//! they come; [`Input::Hold`] makes the layer push back on the peer.

use crate::error::Refusal;
use crate::event::Event;
use crate::id::{LayerId, LinkId, NodeId};
use crate::leaving::Leaving;
use crate::payload::Payload;
use crate::sink::Sink;
use crate::socket;
use crate::time::Instant;
use crate::units::DataRate;
use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;

/// Outgoing transmission of a bundle, numbered by the agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SendId(pub u64);

/// Incoming transfer of a bundle, numbered by the layer; unique within the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Datagrams to or from one address, laid end to end: all are `stride` bytes but the last, which may be shorter. It
/// maps directly to segmentation offload and receive coalescing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramBatch {
    /// Length of each datagram but the last, bytes.
    pub stride: u32,
    /// Bytes of all datagrams, concatenated.
    pub data: Payload,
}
impl DatagramBatch {
    /// Batch of one datagram.
    pub fn single(data: Payload) -> DatagramBatch {
        // A payload above 4 GiB would never be sent as one datagram.
        DatagramBatch { stride: u32::try_from(data.len()).unwrap_or(u32::MAX), data }
    }
    /// Number of datagrams.
    pub fn count(&self) -> u64 {
        self.data.len().div_ceil(u64::from(self.stride.max(1)))
    }
    /// Datagrams in order, as slices of the batch.
    pub fn datagrams(&self) -> impl Iterator<Item = Payload> + '_ {
        // A stride of 0 would never end: an empty batch counts as one of single bytes.
        let stride = u64::from(self.stride.max(1));
        let mut reader = self.data.reader();
        core::iter::from_fn(move || {
            let n = reader.remaining().min(stride);
            if n == 0 { None } else { reader.take(n) }
        })
    }
}

/// Destination of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Configured address of a link, which the driver resolves again when a host name moves.
    Link(LinkId),
    /// Source address of an earlier datagram (an unconfigured peer).
    Address(SocketAddr),
}

/// State of a link, from contact plan and driver together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Whether this node may transmit.
    pub transmit: bool,
    /// Whether the peer may transmit to this node. While it may not, timers that wait for its answer stop.
    pub receive: bool,
    /// Transmission rate limit, bits per second at the link (headers counted); `None`: no limit.
    pub rate: Option<DataRate>,
    /// One-way light time towards the peer.
    pub delay_out: Duration,
    /// One-way light time from the peer.
    pub delay_in: Duration,
}
impl LinkState {
    /// Down both ways.
    pub const DOWN: LinkState =
        LinkState { transmit: false, receive: false, rate: None, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
    /// Terrestrial link: up both ways, no rate limit, negligible delay.
    pub const UP: LinkState =
        LinkState { transmit: true, receive: true, rate: None, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
}

/// Transport below a layer: the kind of socket a driver opens for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Datagram socket (UDP).
    Datagrams,
    /// Byte stream sockets (TCP).
    Streams,
}

/// Longest range of one [`Output::Want`], bytes.
pub const WINDOW: u64 = 1 << 20;

/// Input of a layer. In every variant, `link` is the link concerned, `id` the outgoing transmission and `ticket` the
/// incoming transfer.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// Event of one of the layer's sockets.
    Socket(socket::Input),
    /// The state of a link changed.
    Link { link: LinkId, state: LinkState },
    /// Send this bundle. Given only while the last [`Output::Ready`] of the link is true.
    Send {
        link: LinkId,
        id: SendId,
        /// Length of the encoded bundle, bytes.
        total: u64,
        /// First bytes, in memory or a fill pattern; at least one, usually all.
        part: Payload,
        /// Whether it must arrive (LTP red) or may be lost (LTP green).
        reliable: bool,
        /// Ageing while it waits in the layer, which stamps the age as the first byte leaves. A bundle that expires
        /// before that does not leave and is answered by `SendFailed`.
        leaving: Leaving,
    },
    /// Complete range requested by [`Output::Want`]. Ranges of one bundle come in the order of the requests; offsets
    /// count in the bundle as given, before its stamp grew it. Ignored after `Sent` or `SendFailed`.
    SendMore {
        link: LinkId,
        id: SendId,
        /// Offset in the encoded bundle.
        from: u64,
        /// Requested bytes, in memory or a fill pattern.
        part: Payload,
    },
    /// The requested bytes cannot be read. The layer ends the transfer so that the peer does not take it for complete,
    /// and answers `SendFailed`.
    SendBroken { link: LinkId, id: SendId },
    /// Cancels a transmission. One not begun is forgotten at once; one under way stops if the protocol can cancel, and
    /// else runs to its end. Answered exactly once, now or later: `SendFailed` without refusal, or `Sent` if the peer
    /// confirmed it. Without effect if already answered. Until the answer, ranges are requested as before.
    CancelSend { link: LinkId, id: SendId },
    /// An operator disabled a configured link. Its sessions end in good order, transfers under way are answered by
    /// `SendFailed` and `OfferAborted`, and no session is accepted until the link's state is up again. Layers without
    /// sessions have nothing to do: [`Input::Link`] already reported the link down.
    CloseLink { link: LinkId },
    /// A link was removed. Before this call returns, `Ready` is withdrawn, every open transmission is answered by
    /// `SendFailed`, every incoming transfer by `OfferAborted`, and `PeerUp` is followed by `PeerDown`; sessions end in
    /// good order. The layer emits nothing more for the link, whose number may be reused through the layer's own
    /// `add_span`.
    RemoveLink { link: LinkId },
    /// An offered bundle is stored: acknowledge it.
    Accepted { ticket: Ticket },
    /// An offered bundle is refused: inform the peer.
    Refused { ticket: Ticket, reason: Refusal },
    /// Pause an incoming transfer by pushing back on the peer. A few more parts may still be pushed.
    Hold { ticket: Ticket },
    /// Resume a paused incoming transfer.
    Resume { ticket: Ticket },
    /// The first bytes of a transfer announced by [`Output::InParts`] are stored, whatever becomes of the rest:
    /// acknowledgments may cover them.
    Kept {
        ticket: Ticket,
        /// Bytes of the encoded bundle, from its start.
        bytes: u64,
    },
    /// Memory is scarce: copy received data that waits in the layer out of shared receive buffers ([`Payload::own`]).
    Unshare,
    /// End all sessions in good order and start no new ones.
    Shutdown,
}
impl Input {
    /// [`Input::Send`] of a bundle entirely in memory that is not aged.
    pub fn send(link: LinkId, id: SendId, bundle: Payload, reliable: bool) -> Input {
        Input::Send { link, id, total: bundle.len(), part: bundle, reliable, leaving: Leaving::AS_IT_IS }
    }
}

/// Output of a layer. In every variant, `link` is the link concerned, `id` the outgoing transmission and `ticket` the
/// incoming transfer.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Output {
    /// Request to one of the layer's sockets.
    Socket(socket::Output),
    /// Bytes of an arriving bundle. The first part with a ticket begins it, `last` ends it; a small bundle is one part.
    /// The agent's verdict comes as `Accepted` or `Refused`, possibly before the last part (a refusal then stops the
    /// transfer).
    Offer {
        ticket: Ticket,
        link: LinkId,
        part: Payload,
        /// Whether the bundle ends with this part.
        last: bool,
        /// Length of the whole bundle, if the peer announced it.
        total: Option<u64>,
        /// Whether the verdict is sent to the peer. False for LTP green data, which has no acknowledgment; the agent
        /// still answers.
        reliable: bool,
    },
    /// Announces, before the first part, a peer that regards acknowledged bytes as held here if the transfer breaks.
    /// The bundle should be stored piecewise while it arrives; [`Input::Kept`] reports the progress.
    InParts {
        ticket: Ticket,
        link: LinkId,
        /// Fewest payload bytes worth a fragment of their own.
        least: u64,
    },
    /// An incoming transfer was abandoned (session lost, cancelled). Its parts are worthless; no verdict is expected.
    OfferAborted { ticket: Ticket },
    /// Request for more of a bundle; answered by `SendMore` or `SendBroken`. A range may be requested again, for
    /// retransmission.
    Want {
        link: LinkId,
        id: SendId,
        /// Offset of the range.
        from: u64,
        /// Length of the range, at most [`WINDOW`], never beyond the end.
        len: u64,
    },
    /// The peer confirmed a bundle, or it left over a protocol without confirmation.
    Sent { id: SendId, link: LinkId },
    /// A transfer broke, and the peer keeps the bytes it acknowledged. `SendFailed` follows; only the rest must be sent
    /// again.
    SentInPart {
        id: SendId,
        link: LinkId,
        /// Bytes of the encoded bundle kept by the peer, from its start.
        bytes: u64,
    },
    /// A transmission failed; the agent routes the bundle again.
    SendFailed {
        id: SendId,
        link: LinkId,
        /// The peer's reason, if it refused.
        refused: Option<Refusal>,
    },
    /// The link can or cannot take another bundle; initially it cannot. A layer withdraws readiness when its queue
    /// holds about as much as it can use, so that priorities are decided in the agent.
    Ready {
        link: LinkId,
        /// Whether `Send` may follow.
        ready: bool,
    },
    /// A peer identified itself, on a configured link or on a dynamic one ([`LinkId::is_dynamic`]), which exists from
    /// now on. Repeated when a peer proves a node ID that it had only claimed.
    PeerUp {
        link: LinkId,
        /// Claimed node ID, as text (TCPCL: SESS_INIT), if given. Anyone can claim any.
        claimed: Option<String>,
        /// Node ID proven by its certificate; never another than the claimed one.
        proven: Option<String>,
        /// Node of its engine number (LTP), if any.
        node: Option<NodeId>,
    },
    /// The session with the peer ended; a dynamic link no longer exists.
    PeerDown { link: LinkId },
    /// Event for logs and metrics.
    Event(Event),
}

/// Convergence layer. One instance serves all links of a node that use it.
pub trait ConvergenceLayer: Send {
    /// Processes one input at `now` and pushes the resulting outputs.
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>);
    /// Latest time of the next [`Input::Wake`]; `None` if no timer runs. O(1).
    fn next_timeout(&self) -> Option<Instant>;
}

/// Most layers of one node: their index is 7 bits of a dynamic link number.
pub const LAYERS_MAX: usize = 128;

/// First stream number of a layer (its index in bits 48..62).
pub const fn stream_base(layer: LayerId) -> u64 {
    (layer.0 as u64) << 48
}
/// First dynamic link number of a layer (its index in bits 24..31).
pub const fn dynamic_link_base(layer: LayerId) -> u32 {
    LinkId::DYNAMIC | ((layer.0 as u32) & 0x7f) << 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::StreamId;
    use alloc::vec::Vec;

    #[test]
    fn layer_identifier_ranges_do_not_overlap() {
        for layer in 0..LAYERS_MAX as u16 {
            // The largest numbers within the range of one layer.
            let (last_stream, last_link) = ((1 << 48) - 1, 0x00ff_ffff);
            let (stream, link) = (stream_base(LayerId(layer)), dynamic_link_base(LayerId(layer)));
            assert!(stream + last_stream < stream_base(LayerId(layer + 1)));
            assert!(!StreamId(stream + last_stream).is_passive());
            assert!(LinkId(link).is_dynamic() && LinkId(link + last_link).is_dynamic());
            let next = u64::from(link) + u64::from(last_link) + 1;
            assert!(next == u64::from(dynamic_link_base(LayerId(layer + 1))) || usize::from(layer) + 1 == LAYERS_MAX);
        }
    }

    #[test]
    fn batch_splits_into_datagrams() {
        let train = DatagramBatch { stride: 4, data: Payload::from(&b"aaaabbbbcc"[..]) };
        assert_eq!(train.count(), 3);
        let parts: Vec<_> = train.datagrams().map(|d| d.to_bytes().unwrap()).collect();
        assert_eq!(parts, [&b"aaaa"[..], b"bbbb", b"cc"]);
        // A stride of 0 must neither divide by zero nor loop.
        assert_eq!(DatagramBatch { stride: 0, data: Payload::new() }.count(), 0);
    }
}

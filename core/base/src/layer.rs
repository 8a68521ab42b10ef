//! Contract of convergence layers: each is a state machine over opaque bytes.
//!
//! A layer never parses a bundle, reads a clock or opens a socket. It gets [`Input`]s with the time at which they
//! happened and pushes [`Output`]s. [`ConvergenceLayer::next_timeout`] bounds the time until the next [`Input::Wake`].
//!
//! **Accepting has two steps.** The layer pushes arriving bytes as [`Output::Offer`]s; only after [`Input::Accepted`]
//! may it acknowledge the last byte to the peer.
//!
//! **Long bundles pass in parts.** [`Input::Send`] carries the first bytes of a bundle. If these are not all, the layer
//! requests more when it can use them ([`Output::Want`]), and may request a range again. Arriving parts are pushed as
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

/// Datagrams to or from one address, laid end to end: all have `stride` bytes except the last, which may be shorter.
/// This is the form of segmentation offload and receive coalescing.
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
        // A payload above 4 GiB is never sent as one datagram.
        DatagramBatch { stride: u32::try_from(data.len()).unwrap_or(u32::MAX), data }
    }
    /// Number of datagrams.
    pub fn count(&self) -> u64 {
        self.data.len().div_ceil(u64::from(self.stride.max(1)))
    }
    /// Datagrams in order, as slices of the batch.
    pub fn datagrams(&self) -> impl Iterator<Item = Payload> + '_ {
        // A stride of 0 would never end, so it counts as 1.
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
    /// Configured address of a link. The driver resolves it again when a host name moves.
    Link(LinkId),
    /// Source address of an earlier datagram (an unconfigured peer).
    Address(SocketAddr),
}

/// State of a link, as the contact plan and the driver determine it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Whether this node may transmit.
    pub transmit: bool,
    /// Whether the peer may transmit to this node. While it may not, timers that wait for the peer's answer stop.
    pub receive: bool,
    /// Transmission rate limit, bits per second at the link (headers counted); `None`: no limit.
    pub rate: Option<DataRate>,
    /// One-way light time towards the peer.
    pub delay_out: Duration,
    /// One-way light time from the peer.
    pub delay_in: Duration,
}
impl LinkState {
    /// State of a link that is down in both directions.
    pub const DOWN: LinkState =
        LinkState { transmit: false, receive: false, rate: None, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
    /// State of a terrestrial link: up in both directions, no rate limit, negligible delay.
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
    /// Send a bundle. Given only while the last [`Output::Ready`] of the link is true.
    Send {
        link: LinkId,
        id: SendId,
        /// Length of the encoded bundle, bytes.
        total: u64,
        /// First bytes of the bundle, in memory or a fill pattern; at least one byte, usually all.
        part: Payload,
        /// Whether the bundle must arrive (LTP red); if false, it may be lost (LTP green).
        reliable: bool,
        /// Age of the bundle while it waits in the layer, which writes the age when the first byte leaves. A bundle
        /// that expires before that does not leave and is answered by `SendFailed`.
        leaving: Leaving,
    },
    /// All bytes of a range that [`Output::Want`] requested. Ranges of one bundle come in the order of the requests.
    /// Offsets count in the bundle as it was given, before writing its age lengthened it. Ignored after `Sent` or
    /// `SendFailed`.
    SendMore {
        link: LinkId,
        id: SendId,
        /// Offset in the encoded bundle.
        from: u64,
        /// Requested bytes, in memory or a fill pattern.
        part: Payload,
    },
    /// The requested bytes cannot be read. The layer ends the transfer in such a way that the peer does not take it for
    /// complete, and answers `SendFailed`.
    SendBroken { link: LinkId, id: SendId },
    /// Cancel a transmission. A transmission that has not begun is forgotten at once; one under way stops if the
    /// protocol can cancel it, and else runs to its end. The layer answers exactly once, now or later: `SendFailed`
    /// without a refusal, or `Sent` if the peer confirmed. No effect if it has answered already. Until the answer,
    /// ranges are requested as before.
    CancelSend { link: LinkId, id: SendId },
    /// End the sessions of a configured link that an operator disabled. They end in good order, transfers under way are
    /// answered by `SendFailed` and `OfferAborted`, and no session is accepted until the link's state is up again.
    /// Layers without sessions have nothing to do: [`Input::Link`] has already reported the link down.
    CloseLink { link: LinkId },
    /// Remove a link. Before this call returns, `Ready` is withdrawn, every open transmission is answered by
    /// `SendFailed`, every incoming transfer by `OfferAborted`, and `PeerUp` is followed by `PeerDown`; sessions end in
    /// good order. The layer emits nothing more for the link. Its number may be used again for a link that is added
    /// later.
    RemoveLink { link: LinkId },
    /// Acknowledge an offered bundle, which is stored.
    Accepted { ticket: Ticket },
    /// Inform the peer that an offered bundle is refused.
    Refused { ticket: Ticket, reason: Refusal },
    /// Pause an incoming transfer by pushing back on the peer. The layer may still push a few more parts.
    Hold { ticket: Ticket },
    /// Resume a paused incoming transfer.
    Resume { ticket: Ticket },
    /// The first bytes of a transfer that [`Output::InParts`] announced are stored, whatever becomes of the rest:
    /// acknowledgments may cover them.
    Kept {
        ticket: Ticket,
        /// Number of these bytes, counted from the start of the encoded bundle.
        bytes: u64,
    },
    /// Memory is scarce: copy received data that waits in the layer out of shared receive buffers ([`Payload::own`]).
    Unshare,
    /// End all sessions in good order and start no new ones.
    Shutdown,
}
impl Input {
    /// Makes the [`Input::Send`] of a bundle that is all in memory and does not age.
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
    /// Bytes of an arriving bundle. The first part with a ticket begins the bundle, the part with `last` ends it; a
    /// small bundle is one part. The agent's verdict comes as `Accepted` or `Refused`. A refusal may come before the
    /// last part and then stops the transfer.
    Offer {
        ticket: Ticket,
        link: LinkId,
        part: Payload,
        /// Whether the bundle ends with this part.
        last: bool,
        /// Length of the whole bundle, if the peer announced it.
        total: Option<u64>,
        /// Whether the layer sends the verdict to the peer. False for LTP green data, which has no acknowledgment; the
        /// agent gives its verdict all the same.
        reliable: bool,
    },
    /// Announcement, before a bundle's first part, that the peer regards acknowledged bytes as held here even if the
    /// transfer breaks. The bundle should be stored in pieces while it arrives; [`Input::Kept`] reports the progress.
    InParts {
        ticket: Ticket,
        link: LinkId,
        /// Least number of payload bytes that are worth a fragment of their own.
        least: u64,
    },
    /// An incoming transfer was abandoned (session lost, cancelled). No verdict is expected, and only parts that `Kept`
    /// covered are of use.
    OfferAborted { ticket: Ticket },
    /// Request for more of a bundle, answered by `SendMore` or `SendBroken`. A range may be requested again, for
    /// retransmission.
    Want {
        link: LinkId,
        id: SendId,
        /// Offset of the range.
        from: u64,
        /// Length of the range, at most [`WINDOW`]; the range never exceeds the bundle.
        len: u64,
    },
    /// The peer confirmed a bundle, or the bundle left over a protocol without confirmation.
    Sent { id: SendId, link: LinkId },
    /// A transfer broke, and the peer keeps the bytes it acknowledged. `SendFailed` follows; only the rest needs to be
    /// sent again.
    SentInPart {
        id: SendId,
        link: LinkId,
        /// Number of bytes that the peer keeps, counted from the start of the encoded bundle.
        bytes: u64,
    },
    /// A transmission failed; the agent routes the bundle again.
    SendFailed {
        id: SendId,
        link: LinkId,
        /// The peer's reason, if it refused.
        refused: Option<Refusal>,
    },
    /// Whether the link can take another bundle; initially it cannot. A layer withdraws readiness when its queue holds
    /// about as much as it can use, so that the agent decides about priorities.
    Ready {
        link: LinkId,
        /// Whether `Send` may follow.
        ready: bool,
    },
    /// A peer identified itself, on a configured link or on a dynamic one ([`LinkId::is_dynamic`]) that exists from now
    /// on. Repeated when a peer proves a node ID that it had only claimed.
    PeerUp {
        link: LinkId,
        /// Unproven node ID that the peer claimed, as text (TCPCL: SESS_INIT); `None`: it claimed none.
        claimed: Option<String>,
        /// Node ID that the peer's certificate proves; always the claimed one.
        proven: Option<String>,
        /// Node that uses the peer's LTP engine number; `None` in other layers.
        node: Option<NodeId>,
    },
    /// The session with the peer ended; a dynamic link no longer exists.
    PeerDown { link: LinkId },
    /// Event for logs and metrics.
    Event(Event),
}

/// Convergence layer. One instance serves all links of a node that use the layer.
pub trait ConvergenceLayer: Send {
    /// Processes one input at `now` and pushes the resulting outputs.
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>);
    /// Time by which [`Input::Wake`] must follow; `None` if no timer runs. Takes constant time.
    fn next_timeout(&self) -> Option<Instant>;
}

/// Most layers of one node, because a layer's index has 7 bits in the number of a dynamic link.
pub const LAYERS_MAX: usize = 128;

/// First stream number of a layer; the layer's index is in bits 48..62.
pub const fn stream_base(layer: LayerId) -> u64 {
    (layer.0 as u64) << 48
}
/// First dynamic link number of a layer; the layer's index is in bits 24..31.
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

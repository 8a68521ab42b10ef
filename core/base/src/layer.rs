//! The contract of convergence layers: each is a state machine over opaque bytes.
//!
//! A layer never parses a bundle, reads a clock or opens a socket. It gets [`Input`]s with the time
//! they happened and pushes [`Output`]s; [`ConvergenceLayer::next_timeout`] tells when it must be
//! called with [`Input::Wake`] at the latest.
//!
//! **Accepting has two steps.** What arrives is pushed as [`Output::Offer`]s; only when
//! [`Input::Accepted`] comes back may the layer acknowledge the last byte to the peer.
//!
//! **Long bundles pass in parts.** [`Input::Send`] gives the first bytes; where that is not all, the
//! layer asks for more when it can use it ([`Output::Want`]), and may ask for a range again. Arriving
//! parts are pushed as they come; [`Input::Hold`] makes the layer push back on the peer.

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

/// A bundle on its way out, as the agent numbered it for this transmission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SendId(pub u64);

/// A bundle on its way in, as the layer numbered it; unique within the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Several datagrams to or from one place, laid end to end: all are `stride` bytes but the last,
/// which may be shorter. Segmentation offload and receive coalescing fall out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramBatch {
    /// Length of each datagram but the last.
    pub stride: u32,
    /// The datagrams' bytes.
    pub data: Payload,
}
impl DatagramBatch {
    /// A train of one datagram.
    pub fn single(data: Payload) -> DatagramBatch {
        DatagramBatch { stride: u32::try_from(data.len()).unwrap_or(u32::MAX), data }
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

/// What carries a layer: the kind of socket a driver opens for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Datagrams (UDP).
    Datagrams,
    /// Byte streams (TCP).
    Streams,
}

/// Longest range a layer asks for at once ([`Output::Want`]).
pub const WINDOW: u64 = 1 << 20;

/// What a layer is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// Its sockets say something.
    Socket(socket::Input),
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
        /// Length of the encoded bundle.
        total: u64,
        /// Its first bytes, in memory or fill: mostly all of them. At least one.
        part: Payload,
        /// Whether it must arrive (LTP red) or may be lost (LTP green).
        reliable: bool,
        /// How it ages while it waits in the layer, which stamps it as its first byte leaves. One that expired until then does
        /// not leave, and is answered by `SendFailed`.
        leaving: Leaving,
    },
    /// The range a [`Output::Want`] asked for, whole; the ranges of one bundle are given in the order
    /// they were asked for, and counted as in the bundle that was given, whatever its stamp added. What comes after `Sent` or `SendFailed` is ignored.
    SendMore {
        /// Over which link.
        link: LinkId,
        /// Which bundle.
        id: SendId,
        /// Where the bytes are in the encoded bundle.
        from: u64,
        /// The bytes, in memory or fill.
        part: Payload,
    },
    /// The bytes asked for cannot be had. The layer ends the transfer so that the peer does not take
    /// it for whole, and answers `SendFailed`.
    SendBroken {
        /// Over which link.
        link: LinkId,
        /// Which bundle.
        id: SendId,
    },
    /// The bundle given with `Send` is not wanted any more. One not begun is forgotten at once; one
    /// under way stops where the protocol has a word for it, and else goes on to its end. Answered
    /// once, now or later: `SendFailed` with no refusal, or `Sent` where the peer confirmed it.
    /// Without effect when the answer was given already. Until then, its bytes are asked for as before.
    CancelSend {
        /// Over which link.
        link: LinkId,
        /// Which.
        id: SendId,
    },
    /// An operator turned a configured link off: its sessions end in good order, what they carried is
    /// answered by `SendFailed` and `OfferAborted`, and none is taken until the link's state is up again.
    /// Layers without sessions have nothing to end: [`Input::Link`] told them that the link is down.
    CloseLink {
        /// Which.
        link: LinkId,
    },
    /// A link exists no more. Before this call returns, `Ready` is taken back, every open send is
    /// answered by `SendFailed`, every offer under way by `OfferAborted`, and `PeerDown` is said where
    /// `PeerUp` was; its sessions end in good order. From then on nothing more is said about the link,
    /// and its number may be given anew: each layer has an `add_span` of its own.
    RemoveLink {
        /// Which.
        link: LinkId,
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
    /// No more parts of this arriving bundle for now: push back on the peer. A few parts may still
    /// come.
    Hold {
        /// Which.
        ticket: Ticket,
    },
    /// Its parts are welcome again.
    Resume {
        /// Which.
        ticket: Ticket,
    },
    /// Of what [`Output::InParts`] was said about, the first bytes are kept, whatever becomes of the rest: acknowledgments
    /// may promise them.
    Kept {
        /// Which.
        ticket: Ticket,
        /// How many bytes of the encoded bundle.
        bytes: u64,
    },
    /// Memory is scarce: what arrived and waits in the layer lets go of the buffers it came in
    /// ([`Payload::own`]).
    Unshare,
    /// End all sessions in good order, start none.
    Shutdown,
}
impl Input {
    /// A [`Input::Send`] of a bundle that is all in memory, and leaves as it is.
    pub fn send(link: LinkId, id: SendId, bundle: Payload, reliable: bool) -> Input {
        Input::Send { link, id, total: bundle.len(), part: bundle, reliable, leaving: Leaving::AS_IT_IS }
    }
}

/// What a layer decides.
#[derive(Clone, Debug)]
pub enum Output {
    /// It asks something of its sockets.
    Socket(socket::Output),
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
    /// Said before the first part of a bundle: its peer counts what is acknowledged as held here, should the transfer
    /// break. So it is kept in pieces while it arrives, where that may be; [`Input::Kept`] says how far.
    InParts {
        /// Which.
        ticket: Ticket,
        /// Over which link.
        link: LinkId,
        /// Fewest payload bytes that are worth a piece.
        least: u64,
    },
    /// An arriving bundle was abandoned (session lost, cancelled); its parts are worthless and no
    /// verdict is wanted.
    OfferAborted {
        /// Which.
        ticket: Ticket,
    },
    /// More of a bundle of which `Send` gave only the first bytes: answered by `SendMore`, or by
    /// `SendBroken`. Ranges may be asked for again (what was lost on the way).
    Want {
        /// Over which link.
        link: LinkId,
        /// Which bundle.
        id: SendId,
        /// First byte.
        from: u64,
        /// How many, at most [`WINDOW`], never beyond the end.
        len: u64,
    },
    /// The peer confirmed a bundle, or it left and the layer cannot know more.
    Sent {
        /// Which.
        id: SendId,
        /// Over which link.
        link: LinkId,
    },
    /// A transfer broke, and the peer keeps what it acknowledged of it. `SendFailed` follows: only the rest is to go again.
    SentInPart {
        /// Which.
        id: SendId,
        /// Over which link.
        link: LinkId,
        /// The first so many bytes of the encoded bundle.
        bytes: u64,
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
    /// ([`LinkId::is_dynamic`]) that exists from now on. Said again when a peer that only claimed its
    /// name proves it.
    PeerUp {
        /// Which.
        link: LinkId,
        /// The node ID it claims, as text (TCPCL: SESS_INIT), when it gave one. Anyone can claim.
        claimed: Option<String>,
        /// The node ID its certificate proves; never another than the claimed one.
        proven: Option<String>,
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

/// Layers of one node: as many as link numbers tell apart.
pub const LAYERS_MAX: usize = 128;

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
    use crate::id::StreamId;
    use alloc::vec::Vec;

    #[test]
    fn streams_and_dynamic_links_of_layers_stay_apart() {
        for layer in 0..LAYERS_MAX as u16 {
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
    fn a_train_falls_apart_into_its_datagrams() {
        let train = DatagramBatch { stride: 4, data: Payload::from(&b"aaaabbbbcc"[..]) };
        assert_eq!(train.count(), 3);
        let parts: Vec<_> = train.datagrams().map(|d| d.to_bytes().unwrap()).collect();
        assert_eq!(parts, [&b"aaaa"[..], b"bbbb", b"cc"]);
        assert_eq!(DatagramBatch { stride: 0, data: Payload::new() }.count(), 0);
    }
}

//! What goes into a stack and what comes out.

use alloc::boxed::Box;
use alloc::sync::Arc;
use farlink_base::layer::{SendId, Ticket};
use farlink_base::socket;
use farlink_base::store::{DiskDone, DiskOp};
use farlink_base::{BundleMeta, Clock, Event, Hop, LayerId, LinkId, Refusal};
use farlink_bpa::Pressure;
use farlink_bpa::app::{AdminInput, AppInput, AppOutput};

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
    /// A layer asks something of its sockets.
    Socket(LayerId, socket::Output),
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

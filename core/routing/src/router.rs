//! The contract of routers.

use farlink_base::{BundleView, Clock, DataRate, Instant, LinkId, NodeId, Param, Proposal, Signal, Sink};

use crate::ContactPlan;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A link came up or went down at this node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ContactChange {
    /// The neighbour can be reached over this link.
    Up {
        /// Neighbour.
        peer: NodeId,
        /// Over which link.
        link: LinkId,
        /// How fast, where known.
        rate: Option<DataRate>,
        /// Until when, where the contact plan says.
        until: Option<Instant>,
    },
    /// It cannot any more.
    Down {
        /// Neighbour.
        peer: NodeId,
        /// Over which link.
        link: LinkId,
    },
}

/// What the agent asks a router.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// Where should this bundle go?
    Bundle(&'a BundleView),
    /// This neighbour just came up: which of the stored bundles should it get? Asked once per
    /// stored bundle of a replicating router.
    Peer {
        /// The neighbour.
        peer: NodeId,
        /// Over which link.
        link: LinkId,
        /// One stored bundle.
        bundle: &'a BundleView,
    },
}

/// How a proposal ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The agent queued the bundle for this link, following a `Forward`.
    Queued {
        /// Over which link.
        link: LinkId,
    },
    /// The neighbour has it.
    Sent {
        /// Over which link.
        link: LinkId,
    },
    /// It did not get through, or its contact ended first: what was booked is free again.
    Failed {
        /// Over which link.
        link: LinkId,
    },
    /// It was delivered here, expired or was deleted.
    Gone,
}

/// What a router says unasked.
#[derive(Clone, PartialEq, Debug)]
pub enum RouterOutput {
    /// Tell a neighbour's router something.
    Signal(Signal),
    /// Routes changed: ask again about bundles that wait.
    Reconsider,
    /// A booking was overridden by a more urgent bundle: ask again about this queued one.
    Bump(farlink_base::BundleHandle),
}

/// A router: answers, for one node, where bundles go.
///
/// Written against this trait, one file each; registered by one line in the agent's registry.
pub trait Router: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;
    /// Its parameters.
    fn params(&self) -> &'static [Param] {
        &[]
    }
    /// Whether links come up only by the contact plan's word. A router that knows the plan answers
    /// true; then `on_contact` is for links outside the plan.
    fn uses_plan(&self) -> bool {
        false
    }
    /// Whether it hands out copies and wants [`Question::Peer`] when a neighbour comes up.
    fn replicates(&self) -> bool {
        false
    }
    /// The contact plan was loaded or replaced, or the clock that binds it moved. `local` maps this
    /// node's contacts to its links: `(contact index, link)`.
    fn on_plan(
        &mut self,
        now: Instant,
        clock: &Clock,
        plan: &Arc<ContactPlan>,
        local: &[(u32, LinkId)],
        out: &mut dyn Sink<RouterOutput>,
    ) {
        let _ = (now, clock, plan, local, out);
    }
    /// A link changed.
    fn on_contact(&mut self, now: Instant, change: ContactChange, out: &mut dyn Sink<RouterOutput>) {
        let _ = (now, change, out);
    }
    /// A neighbour's router says something.
    fn on_signal(&mut self, now: Instant, from: NodeId, bytes: &[u8], out: &mut dyn Sink<RouterOutput>) {
        let _ = (now, from, bytes, out);
    }
    /// Proposals in order of preference; none means "no route".
    fn propose(&mut self, now: Instant, question: Question<'_>, out: &mut Vec<Proposal>);
    /// What became of a proposal.
    fn on_outcome(&mut self, now: Instant, bundle: &BundleView, outcome: Outcome, out: &mut dyn Sink<RouterOutput>) {
        let _ = (now, bundle, outcome, out);
    }
}

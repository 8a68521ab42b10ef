//! The steps of a stack, and the layers that steps for links go to.

use crate::io::Output;
use crate::pieces::Kept;
use crate::reads::Departure;
use crate::shards::Across;
use alloc::boxed::Box;
use alloc::sync::Arc;
use farlink_base::layer;
use farlink_base::store::{self, IndexEntry};
use farlink_base::{BundleHandle, BundleMeta, Bytes, LayerId, LinkId, Malformed, Payload, Refusal, StreamId};
use farlink_bpa::OfferToken;
use farlink_bpa::app::AppOutput;

/// One step of work. Rare and large contents are boxed, which keeps the frequent steps small.
#[derive(Debug)]
pub(crate) enum Work {
    Layer(LayerId, layer::Input),
    /// Write all that a layer has for a stream by now, together.
    Write(LayerId, StreamId),
    Agent(farlink_bpa::Input),
    Store(store::Input),
    /// A whole bundle arrived; the agent or the disk may know of it already.
    Whole {
        token: OfferToken,
        link: LinkId,
        rope: Payload,
        known: bool,
        /// Digest of the payload if it was computed on arrival, else 0.
        digest: u64,
    },
    /// A whole bundle with parts on disk is faulty.
    Damaged(OfferToken, LinkId, Box<(Malformed, Payload)>),
    /// A fragment of an arriving bundle is on disk.
    Piece(OfferToken, LinkId, Box<Kept>),
    Send(Departure),
    Deliver(Box<(AppOutput, Payload)>),
    /// A delivery whose security is to be checked.
    Open(Box<(AppOutput, Arc<BundleMeta>)>),
    /// A bundle that came inside another.
    Inside(OfferToken, Payload),
    /// Push this output to the driver.
    Tell(Box<Output>),
    /// Take a transmission back.
    Cancel(LinkId, layer::SendId),
    /// Read the rest of a cancelled transmission that its layer finishes, unless it has ended.
    Rescue(layer::SendId),
    /// A link went down.
    Down(LinkId),
    Put(BundleHandle, IndexEntry, Arc<BundleMeta>),
    Recover(BundleHandle, Box<IndexEntry>, Box<(Bytes, Payload, Bytes)>),
    Loaded(u64, Result<Payload, Refusal>),
    /// Message of another shard.
    Across(LayerId, u8, Box<Across>),
}

/// Layer of a link; the number of a dynamic link contains it.
pub(crate) fn layer_of(link_layer: &[LayerId], link: LinkId) -> LayerId {
    if link.is_dynamic() {
        return LayerId(((link.0 >> 24) & 0x7f) as u16);
    }
    link_layer.get(link.0 as usize).copied().unwrap_or(NO_LAYER)
}
/// Layer of a removed link.
pub(crate) const NO_LAYER: LayerId = LayerId(u16::MAX);

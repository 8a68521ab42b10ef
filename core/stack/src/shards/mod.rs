//! One node in several stacks, its shards: each layer is owned by one of them, and the others have a remote layer
//! for it.
//!
//! An agent's input for a remote layer ([`remote_layer`]) crosses unchanged to the layer's owner ([`layer_owner`]), and
//! the outputs cross back; so the contract between shards is that of convergence layers. Bundles that need common
//! tables (local applications, reports, custody, groups) go to shard 0 while they arrive; all others stay in the shard
//! where they came in.

#[cfg(test)]
mod answer_tests;
mod heads;
pub(crate) mod layer_owner;
pub(crate) mod remote_layer;
pub(crate) mod steps;
#[cfg(test)]
mod tests;

use crate::build::error;
use crate::config::Config;
use crate::kinds::Layer;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer::{self, SendId, Ticket};
use farlink_base::{ConfigError, LinkId};
pub use heads::HeadBudget;
use layer_owner::LayerOwner;

pub use farlink_base::node::SHARDS_MAX;
/// Maximum number of bundles of one shard: transmissions are numbered by them, and eight bits must be left for the
/// shard.
pub const SHARD_BUNDLES_MAX: u64 = 1 << 23;
/// Bit position of the shard number within the number of a transmission from another shard.
const SHARD_AT: u32 = 56;

/// Position of a stack among the shards of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardConfig {
    /// Number of this shard; shard 0 has the applications.
    pub own: u8,
    /// Number of shards.
    pub count: u8,
    /// Owning shard of each layer of [`Config::layers`].
    pub owners: Vec<u8>,
    /// Memory for incomplete heads, shared by all shards of the node.
    pub heads: Arc<HeadBudget>,
}
impl ShardConfig {
    /// Shard `own` of `count`, with a bound of its own for incomplete heads.
    pub fn new(own: u8, count: u8, owners: Vec<u8>) -> Self {
        ShardConfig { own, count, owners, heads: Arc::new(HeadBudget::new(HEADS)) }
    }
}
/// Default limit on memory for partially received heads (all bytes of a bundle before its payload), bytes.
const HEADS: u64 = 8 << 20;

/// Messages between shards about a layer.
#[derive(Clone, Debug)]
pub enum Across {
    /// Input of the sending shard's agent for the layer.
    Input(layer::Input),
    /// Output of the layer for the receiving shard's agent.
    Output(layer::Output),
    /// The layer took this much of the bundles that the receiving shard handed over for a link.
    Taken {
        /// The link concerned.
        link: LinkId,
        /// Number of bundles taken.
        bundles: u32,
        /// Bytes handed over with these bundles.
        bytes: u64,
    },
    /// The sending shard has added this link: the owner repeats the link's state.
    Known {
        /// The link concerned.
        link: LinkId,
    },
    /// An offer that the receiving shard refused has ended.
    Closed {
        /// The refused offer.
        ticket: Ticket,
    },
}

impl Across {
    /// Bytes of a bundle that the message carries.
    pub fn bytes(&self) -> u64 {
        match self {
            Across::Input(layer::Input::Send { part, .. } | layer::Input::SendMore { part, .. })
            | Across::Output(layer::Output::Offer { part, .. }) => part.len(),
            _ => 0,
        }
    }
}

/// A layer of this shard that other shards use too.
#[derive(Debug)]
pub(crate) struct Shared {
    pub layer: Layer,
    pub owner: LayerOwner,
}

/// The number of another shard's transmission at the layer's owner.
fn tagged(shard: u8, SendId(id): SendId) -> SendId {
    SendId(id | (u64::from(shard) + 1) << SHARD_AT)
}
/// The shard of a transmission and its number there; `None` for a transmission of the owner itself.
fn untagged(SendId(id): SendId) -> Option<(u8, SendId)> {
    let shard = (id >> SHARD_AT) as u8;
    Some((shard.checked_sub(1)?, SendId(id & ((1 << SHARD_AT) - 1))))
}

/// Checks that a node can be divided into shards.
///
/// # Errors
/// The node cannot be divided; names the key that prevents it, and a value to write instead.
pub(crate) fn check(config: &Config, copies: bool) -> Result<(), ConfigError> {
    let Some(shards) = &config.shards else { return Ok(()) };
    let wrong = |expected: &str, hint: &str| Err(error(String::from("shards"), expected, hint));
    if shards.count == 0 || shards.count > SHARDS_MAX || shards.own >= shards.count {
        return wrong(&format!("1 to {SHARDS_MAX} shards"), "one for each core that the node may use");
    }
    if shards.owners.len() != config.layers.len() || shards.owners.iter().any(|owner| *owner >= shards.count) {
        return wrong("an owner for each layer", "give layers a `shard` below `shards`");
    }
    if shards.count == 1 {
        return Ok(());
    }
    // Spray and similar routers count copies; two shards with one bundle would each spend the whole count.
    if copies {
        let expected = "1 with a router or control that copies bundles: each shard would copy for itself";
        return wrong(expected, "use `sabr` or `static`, or take `shards` out");
    }
    // The tables of a tunnel belong to one shard, but bundles for it may come to each.
    if !config.tunnels.is_empty() {
        return wrong("1 with tunnels: both ends of one are to meet", "take [[tunnel]] or `shards` out");
    }
    if config.node.limits.bundles > SHARD_BUNDLES_MAX {
        let expected = format!("at most {SHARD_BUNDLES_MAX} bundles in each shard");
        return Err(error(String::from("limits.bundles"), &expected, "lower it, or use more shards"));
    }
    Ok(())
}

/// The layer in its role at this shard: not shared, owned and shared, or remote.
pub(crate) fn placed(
    config: &Config,
    index: usize,
    make: impl FnOnce() -> Result<Layer, ConfigError>,
) -> Result<Layer, ConfigError> {
    let Some(shards) = config.shards.as_ref().filter(|shards| shards.count > 1) else { return make() };
    let links = || config.links.iter().enumerate().filter(|(_, link)| link.layer == index);
    let links = links().map(|(place, _)| LinkId(place as u32));
    match shards.owners.get(index) {
        Some(owner) if *owner != shards.own => {
            // Build and drop the layer in each shard, so that a faulty configuration fails everywhere.
            drop(make()?);
            Ok(Layer::Remote(alloc::boxed::Box::new(remote_layer::RemoteLayer::new(*owner, links))))
        }
        _ => {
            let local = config.node_ids.iter().map(farlink_base::EndpointId::node).collect();
            let owner = LayerOwner::new(shards, local, links);
            Ok(Layer::Shared(alloc::boxed::Box::new(Shared { layer: make()?, owner })))
        }
    }
}

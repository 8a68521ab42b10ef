//! Construction of a node's agent, store and layers from its configuration.

use crate::config::{Config, LinkConfig, StoreKind};
use crate::kinds::{self, Layer};
use crate::shards;
use crate::store::Store;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::EndpointId;
use farlink_base::layer::LAYERS_MAX;
use farlink_base::{ConfigError, DataVolume, LinkId, NodeId, Rng};
use farlink_bpa::{Agent, CustodySettings, LinkSettings, RareSettings, Settings};
use farlink_storage::LogStore;

pub(crate) fn error(path: String, expected: &str, hint: &str) -> ConfigError {
    ConfigError { path, expected: expected.to_string(), hint: hint.to_string() }
}

/// The layers of a node.
pub(crate) fn layers(config: &Config) -> Result<Vec<Layer>, ConfigError> {
    if config.layers.len() > LAYERS_MAX {
        let expected = format!("at most {LAYERS_MAX} convergence layers");
        return Err(error("layer".to_string(), &expected, "join some of them"));
    }
    kinds::layers(config)
}

pub(crate) fn mismatch(link: &str, layer: &str) -> ConfigError {
    error(format!("link.{link}"), &format!("parameters of the protocol of layer `{layer}`"), "name the right layer")
}

/// Error for a link whose layer this node lacks.
pub(crate) fn no_layer(link: &str) -> ConfigError {
    error(format!("link.{link}.layer"), "a convergence layer that exists", "add it under [[layer]]")
}

/// The store of a node.
pub(crate) fn store(config: &Config) -> Store {
    let capacity = config.node.store.capacity.bytes();
    match config.store.kind {
        StoreKind::Memory => Store::Memory,
        StoreKind::Durable => {
            // A stream of its own, so that the store's draws do not change those of policies.
            let seed = Rng::stream(config.seed, 99).next_u64();
            let usual = farlink_storage::Config::new(capacity);
            let settings = farlink_storage::Config {
                seed,
                accel: config.accel,
                // The store need not remember identities that the agent forgets.
                remembered: config.node.limits.remembered,
                segment_bytes: usual.segment_bytes.min(config.store.file_max.bytes()),
                ..usual
            };
            Store::Durable(Box::new(LogStore::new(settings)))
        }
    }
}

/// The agent of a node with its policies; bundles that this node makes are of `version`.
pub(crate) fn agent(config: &Config, version: u8) -> Result<Agent, ConfigError> {
    let mut names: Vec<NodeId> = Vec::new();
    for id in &config.node_ids {
        if !id.is_node_id() {
            return Err(error(
                "node.id".to_string(),
                &format!("a node ID, found `{id}`"),
                "write e.g. \"ipn:1.0\" or \"dtn://name/\"",
            ));
        }
        names.push(id.node());
    }
    if config.node_ids.is_empty() {
        return Err(error("node.id".to_string(), "at least one node ID", "write e.g. \"ipn:1.0\""));
    }
    let router = farlink_routing::make_router(&config.router, &config.router_params, &names, config.seed)?;
    let control = farlink_congestion::make_control(&config.control, &config.control_params, config.seed)?;
    // Whether a router copies bundles is known only once it is made, so shards and custody are checked after it.
    shards::check(config, router.copies() || control.wishes())?;
    if let Some(custody) = &config.custody {
        let durable = config.store.kind == StoreKind::Durable;
        check_custody(&custody.settings, durable, router.copies() || control.wishes())?;
    }
    let links = config.links.iter().enumerate();
    let links = links.map(|(index, link)| link_settings(LinkId(index as u32), link, config.layers.len()));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let (durable, capacity) = (config.store.kind == StoreKind::Durable, config.node.store.capacity.bytes());
    let settings = Settings {
        node_ids: config.node_ids.clone(),
        links,
        routes: config.routes.clone(),
        limits: config.node.limits,
        node: config.node.agent,
        // The log needs part of the disk for itself; the agent may fill the rest.
        capacity_bytes: if durable { LogStore::room_in(capacity) } else { capacity },
        record_bytes: if durable { LogStore::RECORD_BYTES as u32 } else { 0 },
        durable,
        custody: config.custody.as_ref().map(|custody| Box::new(custody.settings.clone())),
        rare: rare(config, &names)?,
        version,
        shard: config.shards.as_ref().map_or(0, |shards| shards.own),
        seed: config.seed,
    };
    let mut agent = Agent::new(settings, router, control);
    if let Some(plan) = &config.plan {
        agent.preload_plan(plan.clone());
    }
    Ok(agent)
}

/// Settings that few nodes have: tunnels and compressed reports. `names` are this node's IDs.
fn rare(config: &Config, names: &[NodeId]) -> Result<Option<Box<RareSettings>>, ConfigError> {
    for (at, tunnel) in config.tunnels.iter().enumerate() {
        let wrong =
            |expected: &str| Err(error(format!("tunnel.{}.end", tunnel.end), expected, "write e.g. \"ipn:2.0\""));
        if tunnel.end == EndpointId::Null || !tunnel.end.is_node_id() {
            return wrong("the node ID of the far end");
        }
        if names.contains(&tunnel.end.node()) {
            return wrong("another node than this one");
        }
        if config.tunnels[..at].iter().any(|before| before.end.node() == tunnel.end.node()) {
            return wrong("one tunnel to each far end");
        }
    }
    let compressed = config.compressed.as_ref().map(|told| told.settings.clone());
    let rare = RareSettings { tunnels: config.tunnels.clone(), compressed };
    Ok((rare != RareSettings::default()).then(|| Box::new(rare)))
}

/// Checks that the node can act as a custodian as configured.
fn check_custody(settings: &CustodySettings, durable: bool, copies: bool) -> Result<(), ConfigError> {
    if copies {
        let expected = "a router that gives a bundle to one neighbour: of copies there is no single custodian";
        return Err(error("custody".to_string(), expected, "use `sabr` or `static`, or take [custody] out"));
    }
    if !durable && !settings.request.is_empty() {
        let expected = "a durable store: custody is only of what is kept through a restart";
        return Err(error("custody.request".to_string(), expected, "give the store a `dir`"));
    }
    Ok(())
}

/// A link's settings for the agent, in a node with this many layers.
pub(crate) fn link_settings(id: LinkId, link: &LinkConfig, layers: usize) -> Result<LinkSettings, ConfigError> {
    if link.peer == EndpointId::Null || !link.peer.is_node_id() {
        let expected = format!("the neighbour's node ID, found `{}`", link.peer);
        return Err(error(format!("link.{}.peer", link.name), &expected, "write e.g. \"ipn:2.0\""));
    }
    if link.layer >= layers {
        return Err(no_layer(&link.name));
    }
    Ok(LinkSettings {
        link: id,
        name: link.name.clone(),
        peer: link.peer.clone(),
        rate: link.rate,
        one_way_delay: link.one_way_delay,
        terms: link.terms,
        wire_bytes_per_million: link.params.wire_bytes_per_million(),
        sessions: link.params.has_sessions(),
        largest: link.params.largest_bundle().map(DataVolume),
    })
}

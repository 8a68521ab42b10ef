//! Number of shards, and the owner of each layer.

use super::NodeConfig;
use farlink_config::Reader;

/// Shard that owns a layer: the shard named in the layer's table, or else the number `place` of the layer in the file
/// modulo the number of shards.
pub fn owner(top: &Reader<'_>, layer: &Reader<'_>, place: usize) -> u8 {
    let shards = top.setting("shards").map_or(1, |count| count as u8);
    let owner = layer.custom("shard", |input| match u8::try_from(input.integer()?) {
        Ok(owner) if owner < shards => Ok(owner),
        _ => Err(format!("there is no shard {}: `shards` is {shards}", input.integer()?)),
    });
    owner.unwrap_or((place % usize::from(shards.max(1))) as u8)
}

/// Checks that the configuration can be divided among shards, and warns of a shard without a layer.
pub fn look(top: &Reader<'_>, config: &NodeConfig) {
    let shards = config.stack.node.shards;
    if shards <= 1 {
        return;
    }
    let hint = "take `shards` out, or that";
    if super::custody::copies(&config.stack.router, &config.stack.control) {
        let why = "above 1 with a router or control that copies bundles: each shard would copy for itself";
        top.fail("shards", why, "use `sabr` or `static`, or take `shards` out");
    }
    if !config.stack.tunnels.is_empty() {
        top.fail("shards", "above 1 with a [[tunnel]], both ends of which are to meet", hint);
    }
    if config.discovery.is_some() {
        top.fail("shards", "above 1 with [discovery], whose links nobody assigned", hint);
    }
    if let Some(idle) = (0..shards).find(|shard| !config.layers.iter().any(|layer| layer.shard == *shard)) {
        let what = format!("shard {idle} has no layer: a layer and its links are in one shard");
        top.warn("shards", what, "give busy links layers of their own, or lower `shards`");
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{NodeConfig, build};
    use std::path::Path;

    const LAYERS: &str = "[layer.a]\nkind = \"tcpclv4\"\n[layer.b]\nkind = \"ltp\"\n[layer.c]\nkind = \"stcp\"\n";

    fn read(shards: &str, more: &str) -> Result<NodeConfig, Vec<String>> {
        let text = format!("node_ids = \"ipn:1.0\"\nshards = {shards}\n{LAYERS}{more}");
        let found = build::look(&text, Path::new("n.toml"));
        let told = found.mistakes.iter().chain(&found.warnings).map(ToString::to_string).collect();
        found.config.filter(|_| found.warnings.is_empty()).ok_or(told)
    }
    fn owners(config: &NodeConfig) -> Vec<u8> {
        config.layers.iter().map(|layer| layer.shard).collect()
    }

    #[test]
    fn layers_are_dealt_or_pinned() {
        assert_eq!(owners(&read("2", "").unwrap()), [0, 1, 0]);
        assert_eq!(owners(&read("1", "shard = 0\n").unwrap()), [0, 0, 0]);
        assert_eq!(owners(&read("3", "").unwrap()), [0, 1, 2]);
        let told = read("2", "shard = 2\n").unwrap_err();
        assert!(told[0].contains("layer.c.shard: there is no shard 2: `shards` is 2"), "{told:?}");
        let told = read("4", "").unwrap_err();
        assert!(told.len() == 1 && told[0].contains("shard 3 has no layer"), "{told:?}");
    }

    #[test]
    fn indivisible_settings_are_refused() {
        for (more, part) in [
            ("[router]\nname = \"epidemic\"\n", "copies bundles"),
            ("[discovery]\n", "[discovery]"),
            ("[limits]\nmemory = \"100 MiB\"\n", "2 shards need a memory of"),
        ] {
            let told = read("2", more).unwrap_err();
            assert!(told.iter().any(|why| why.contains("shards: ") && why.contains(part)), "{more}: {told:?}");
            assert!(read("1", more).is_ok(), "{more}");
        }
    }
}

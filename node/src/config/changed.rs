//! What a running node cannot take from a file it reads again.

use super::{LayerSettings, NodeConfig};
use farlink_stack::Limits;
use std::fmt::Debug;

/// Keys whose values differ and that are obeyed at start only: all but links, discovery, plan, routes, quotas, certificates,
/// rules and keys of security, and log level.
pub fn needs_restart(running: &NodeConfig, fresh: &NodeConfig) -> Vec<String> {
    let (old, new) = (&running.stack, &fresh.stack);
    let mut keys: Vec<String> = Vec::new();
    let mut differ = |key: &str, old: &dyn Debug, new: &dyn Debug| {
        // Not everything a layer is told can be compared but by what it says.
        if format!("{old:?}") != format!("{new:?}") {
            keys.push(key.into());
        }
    };
    differ("node_ids", &old.node_ids, &new.node_ids);
    differ("shards", &running.shards, &fresh.shards);
    let layers = |config: &NodeConfig| -> Vec<_> {
        let both = config.stack.layers.iter().zip(&config.layers);
        // Whether there are certificates counts, not which: those are read again.
        let told = |driver: &LayerSettings| {
            let plain = LayerSettings { tls: None, credentials: None, ..driver.clone() };
            format!("{plain:?} {}", driver.tls.is_some())
        };
        both.map(|(stack, driver)| (stack.name.clone(), format!("{stack:?} {}", told(driver)))).collect()
    };
    let (old_layers, new_layers) = (layers(running), layers(fresh));
    for (name, told) in &old_layers {
        let now = new_layers.iter().find(|(new, _)| new == name).map(|(_, told)| told);
        differ(&format!("layer.{name}"), &Some(told), &now);
    }
    for (name, told) in new_layers.iter().filter(|(new, _)| !old_layers.iter().any(|(old, _)| old == new)) {
        differ(&format!("layer.{name}"), &"", told);
    }
    differ("store.kind", &old.store.kind, &new.store.kind);
    differ("store.dir", &running.store_dir, &fresh.store_dir);
    differ("store.capacity", &old.store.capacity, &new.store.capacity);
    differ("store.spill_from", &old.spill_from, &new.spill_from);
    differ("router", &(&old.router, &old.router_params), &(&new.router, &new.router_params));
    differ("control", &(&old.control, &old.control_params), &(&new.control, &new.control_params));
    differ("custody", &old.custody, &new.custody);
    differ("tunnel", &old.tunnels, &new.tunnels);
    differ("compressed_reports", &old.compressed, &new.compressed);
    differ("limits.memory", &running.memory, &fresh.memory);
    let shares = |config: &farlink_stack::Config| {
        let (limits, capacity) = (config.limits, config.store.capacity.bytes());
        let given = |bytes: u64, without: u64| (bytes != without).then_some(bytes);
        (given(limits.stranger_bytes, capacity / 2), limits.source_bytes, given(limits.reserved_bytes, capacity / 16))
    };
    differ("store.strangers, per_source or reserved", &shares(old), &shares(new));
    let bounds = |limits: Limits| Limits { stranger_bytes: 0, source_bytes: 0, reserved_bytes: 0, ..limits };
    differ("limits", &bounds(old.limits), &bounds(new.limits));
    differ("hand_over_ahead", &old.hand_over_ahead, &new.hand_over_ahead);
    differ("crc", &old.crc, &new.crc);
    differ("bundle_version", &old.bundle_version, &new.bundle_version);
    differ("profile", &old.profile, &new.profile);
    differ("status_reports", &old.status_reports, &new.status_reports);
    differ("previous_node_block", &old.previous_node_block, &new.previous_node_block);
    differ("hop_limit", &old.hop_limit, &new.hop_limit);
    let seed = |config: &NodeConfig| config.seed_given.then_some(config.stack.seed);
    differ("seed", &seed(running), &seed(fresh));
    differ("clock", &running.trusted_clock, &fresh.trusted_clock);
    differ("downtime_max", &running.downtime_max, &fresh.downtime_max);
    differ("clock_error", &running.clock_error_ms, &fresh.clock_error_ms);
    let security = |config: &NodeConfig| {
        let longest = config.stack.security.as_ref().map(|security| security.bytes_max);
        longest.map(|longest| (longest, config.security.as_ref().map(|files| files.starts.clone())))
    };
    differ("security", &security(running), &security(fresh));
    differ("app", &running.app, &fresh.app);
    differ("api", &running.api, &fresh.api);
    differ("log.format", &running.log_json, &fresh.log_json);
    differ("events", &running.events, &fresh.events);
    differ("shutdown_timeout", &running.shutdown_timeout, &fresh.shutdown_timeout);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = "node_ids = \"ipn:1.0\"\nhop_limit = 9\n[store]\ncapacity = \"1 GB\"\n\
        [layer.tcp]\nkind = \"tcpclv4\"\nlisten = \"127.0.0.1:4556\"\n\
        [link.b]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:4557\"\n[routes]\n\"*\" = \"ipn:2.0\"\n";

    fn said(fresh: &str) -> Vec<String> {
        let config = |text| NodeConfig::parse(text, Path::new("node.toml")).unwrap();
        needs_restart(&config(TEXT), &config(fresh))
    }

    #[test]
    fn what_a_reload_applies_needs_no_restart() {
        assert!(said(TEXT).is_empty());
        let applied = TEXT.replace("4557", "4558").replace("\"*\"", "\"ipn:2.*\"") + "[log]\nlevel = \"debug\"\n";
        assert!(said(&applied).is_empty(), "{:?}", said(&applied));
    }

    #[test]
    fn what_is_obeyed_at_start_only_is_named() {
        let fresh = TEXT.replace("1 GB", "2 GB").replace("4556", "4566").replace("hop_limit = 9\n", "");
        assert_eq!(said(&fresh), ["layer.tcp", "store.capacity", "hop_limit"]);
        let more = format!("{TEXT}[layer.new]\nkind = \"tcpclv4\"\n[router]\nname = \"epidemic\"\n");
        assert_eq!(said(&more), ["layer.new", "router"]);
    }
}

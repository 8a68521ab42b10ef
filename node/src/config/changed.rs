//! Settings that a running node cannot take from a reloaded file.

use super::{LayerSettings, NodeConfig};
use farlink_base::node::params;
use std::fmt::Debug;

/// Keys whose values differ and need a restart.
///
/// Links, discovery, plan, routes, quotas, certificates, security rules and keys change live, as do settings whose rows
/// allow it.
pub fn needs_restart(running: &NodeConfig, fresh: &NodeConfig) -> Vec<String> {
    let (old, new) = (&running.stack, &fresh.stack);
    let mut keys: Vec<String> = Vec::new();
    let mut differ = |key: &str, old: &dyn Debug, new: &dyn Debug| {
        // Layers hold types without equality; their debug text shows all settings.
        if format!("{old:?}") != format!("{new:?}") {
            keys.push(key.into());
        }
    };
    differ("node_ids", &old.node_ids, &new.node_ids);
    let layers = |config: &NodeConfig| -> Vec<_> {
        let both = config.stack.layers.iter().zip(&config.layers);
        // Only the presence of certificates counts: their contents are reloaded.
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
    differ("router", &(&old.router, &old.router_params), &(&new.router, &new.router_params));
    differ("control", &(&old.control, &old.control_params), &(&new.control, &new.control_params));
    differ("custody", &old.custody, &new.custody);
    differ("tunnel", &old.tunnels, &new.tunnels);
    differ("compressed_reports", &old.compressed, &new.compressed);
    let security = |config: &NodeConfig| config.security.as_ref().map(|files| files.starts.clone());
    differ("security", &security(running), &security(fresh));
    differ("app", &running.app, &fresh.app);
    differ("api", &running.api, &fresh.api);
    differ("events", &running.events, &fresh.events);
    for row in params().filter(|row| !row.is_live) {
        differ(row.path, &row.said(&old.node), &row.said(&new.node));
    }
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
    fn live_settings_need_no_restart() {
        assert!(said(TEXT).is_empty());
        let applied = TEXT.replace("4557", "4558").replace("\"*\"", "\"ipn:2.*\"") + "[log]\nlevel = \"debug\"\n";
        assert!(said(&applied).is_empty(), "{:?}", said(&applied));
    }

    #[test]
    fn other_settings_need_restart() {
        let config = NodeConfig::parse(TEXT, Path::new("node.toml")).unwrap();
        for row in params() {
            let (mut fresh, setting) = (config.clone(), row.setting());
            let value = if setting.default < setting.max { setting.default + 1 } else { setting.default - 1 };
            (row.set)(&mut fresh.stack.node, value);
            let said = config.stack.node;
            fresh
                .stack
                .node
                .settle(|path| path == row.path || params().any(|own| own.path == path && own.said(&said).is_some()));
            let wanted: &[&str] = if row.is_live { &[] } else { &[row.path] };
            assert_eq!(needs_restart(&config, &fresh), wanted, "{}", row.path);
        }
    }

    #[test]
    fn another_memory_budget_names_no_other_key() {
        let with = |memory: &str| format!("{TEXT}[limits]\nmemory = \"{memory}\"\n");
        let config = |text: &str| NodeConfig::parse(text, Path::new("node.toml")).unwrap();
        let (old, new) = (config(&with("256 MiB")), config(&with("300 MiB")));
        assert_eq!(needs_restart(&old, &new), ["limits.memory"]);
    }

    #[test]
    fn changed_start_only_settings_are_named() {
        let fresh = TEXT.replace("1 GB", "2 GB").replace("4556", "4566").replace("hop_limit = 9\n", "");
        assert_eq!(said(&fresh), ["layer.tcp", "hop_limit", "store.capacity"]);
        let more = format!("{TEXT}[layer.new]\nkind = \"tcpclv4\"\n[router]\nname = \"epidemic\"\n");
        assert_eq!(said(&more), ["layer.new", "router"]);
    }
}

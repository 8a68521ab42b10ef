//! Warnings about settings that work but are not advised.

use super::{NodeConfig, keys};
use farlink_base::security::{Role, Rule};
use farlink_base::{DataVolume, EndpointId, exact_volume, pattern_covers};
use farlink_cla::tcpcl_v4::{Tls, Versions};
use farlink_config::Reader;
use farlink_os::memory;
use farlink_stack::{LayerKind, LinkConfig, LinkParams, StoreKind};

/// Adds a warning, with its line and an alternative, for each setting that is not advised.
pub fn all(top: &Reader<'_>, config: &NodeConfig) {
    rates(top, config);
    store(top, config);
    custody(top, config);
    versions(top, config);
    let there = memory::available();
    if let Some(memory) = config.stack.node.memory.filter(|memory| memory.bytes() > there) {
        let there = DataVolume(there);
        top.table_or_empty("limits", &keys::LIMITS).warn(
            "memory",
            format!("{memory} is more than the {there} there are: the system may end the node before it is full"),
            "give less, or leave it out for half of what there is",
        );
    }
    routes(top, config);
}

/// Warns of LTP links without a known rate.
fn rates(top: &Reader<'_>, config: &NodeConfig) {
    // A contact plan names the rates of its contacts.
    let unknown = |link: &&LinkConfig| matches!(link.params, LinkParams::Ltp(_)) && link.rate.is_none();
    let links = config.stack.links.iter().filter(|_| config.plan_file.is_none()).filter(unknown);
    for link in links {
        let path = format!("link.{}", link.name);
        let what = "is LTP and names no `rate`: its pace is found out, and is 256 kbit/s at least";
        let hint = "add e.g. rate = \"10 Mbit/s\", what the link or the peer's socket takes";
        top.errors.warn(&path, top.errors.beginning(&path), what, hint);
    }
}

/// Warns of bounds above the store's capacity.
fn store(top: &Reader<'_>, config: &NodeConfig) {
    let (limits, capacity) = (&config.stack.node.limits, config.stack.node.store.capacity.bytes());
    for (key, part) in [("strangers", limits.stranger_bytes), ("per_source", limits.source_bytes)] {
        // Unreadable values were reported elsewhere.
        if capacity > 0 && part > capacity && part < u64::MAX {
            let (part, capacity) = (exact_volume(part), exact_volume(capacity));
            top.table_or_empty("store", &keys::STORE).warn(
                key,
                format!("{part} is more than the capacity of {capacity}: it bounds nobody"),
                "give less than `capacity`, or leave it out",
            );
        }
    }
}

/// Warns of custody that no bundle can use, or whose bound exceeds the store's capacity.
fn custody(top: &Reader<'_>, config: &NodeConfig) {
    let Some(custody) = &config.stack.custody else { return };
    let table = top.table_or_empty("custody", &keys::CUSTODY);
    if config.stack.store.kind == StoreKind::Memory && custody.settings.request.is_empty() {
        let what = "takes custody of nothing: the store is in memory";
        top.errors.warn("custody", top.errors.beginning("custody"), what, "give the store a `dir`");
    }
    let (bytes, capacity) = (custody.settings.bytes, config.stack.node.store.capacity.bytes());
    if capacity > 0 && bytes > capacity {
        let (bytes, capacity) = (exact_volume(bytes), exact_volume(capacity));
        let what = format!("{bytes} is more than the {capacity} of the store: it bounds nothing");
        table.warn("capacity", what, "give less than the `capacity` of [store], or leave it out");
    }
}

/// Warns of settings that have no effect in the chosen version of BP or TCPCL.
fn versions(top: &Reader<'_>, config: &NodeConfig) {
    let stack = &config.stack;
    let six = stack.node.bundle_version == 6;
    if six && stack.compressed.as_ref().is_some_and(|told| !told.settings.request.is_empty()) {
        let what = "does nothing: bundles made here are of version 6, which has status reports only";
        let hint = "take it out, or write bundle_version = 7";
        top.table_or_empty("compressed_reports", &keys::COMPRESSED).warn("request", what, hint);
    }
    let covers = |rule: &Rule| stack.node_ids.first().is_some_and(|own| pattern_covers(&rule.from, &own.to_string()));
    let source = |rule: &&Rule| rule.role == Role::Source && covers(rule);
    if six && stack.security.as_ref().is_some_and(|told| told.rules.iter().any(|rule| source(&rule))) {
        let what = "bundles made here are of version 6, which cannot be secured: where a rule for sources fits, they are refused";
        top.warn("bundle_version", what, "write bundle_version = 7, or take the rule out");
    }
    for layer in &stack.layers {
        let LayerKind::Tcpcl(own) = &layer.kind else { continue };
        if own.versions == Versions::Both && own.tls == Tls::Require {
            let path = format!("layer.{}", layer.name);
            let what = "`v3` does nothing: sessions must be secured, and version 3 has no TLS";
            let hint = "take it out, or write tls = \"allow\"";
            top.errors.warn(&path, top.errors.beginning(&path), what, hint);
        }
    }
}

/// Warns of routes to a neighbour without a link.
fn routes(top: &Reader<'_>, config: &NodeConfig) {
    let reached = |hop: &EndpointId| config.stack.links.iter().any(|link| link.peer.node() == hop.node());
    if config.stack.links.iter().any(|link| link.peer == EndpointId::Null) {
        return;
    }
    let table = top.get("routes").and_then(|routes| routes.get_ref().as_table());
    for (pattern, hop) in config.stack.routes.iter().filter(|(_, hop)| !reached(hop)) {
        let place = table.and_then(|table| table.get(pattern.as_str())).map(|value| value.span().start);
        let what = format!("leads to {hop}, and no link does: its bundles wait");
        let hint = format!("add a [link.NAME] with peer = \"{hop}\"");
        top.errors.warn(&format!("routes.\"{pattern}\""), place, what, hint);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::build::look;
    use std::path::Path;

    /// Warnings for a file without mistakes.
    fn warnings(top: &str, text: &str) -> Vec<String> {
        let found = look(&format!("node_ids = \"ipn:1.0\"\n{top}\n{text}"), Path::new("n.toml"));
        let own = found.mistakes.iter().filter(|why| !why.to_string().contains("security.keys"));
        assert_eq!(own.count(), 0, "{:?}", found.mistakes);
        found.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn advice_on_custody_without_use_or_bound() {
        let told = warnings("", "[custody]\n");
        assert!(told.len() == 1 && told[0].contains("n.toml:3: custody: takes custody of nothing"), "{told:?}");
        let store = "[store]\ndir = \"s\"\ncapacity = \"1 MB\"\n";
        assert!(warnings("", &format!("{store}[custody]\n")).is_empty());
        let told = warnings("", &format!("{store}[custody]\ncapacity = \"2 MB\"\n"));
        assert!(told.len() == 1 && told[0].contains("custody.capacity: 2 MB is more than the 1 MB"), "{told:?}");
    }

    #[test]
    fn advice_on_settings_without_bpv6() {
        let reports = "[compressed_reports]\nrequest = \"*\"\n";
        assert!(
            warnings("", reports).is_empty() && warnings("bundle_version = 6", "[compressed_reports]\n").is_empty()
        );
        assert!(warnings("bundle_version = 6", reports)[0].contains("compressed_reports.request: does nothing"));
        let rule = |role: &str, from: &str| {
            let rule = format!("role = \"{role}\"\nservice = \"integrity\"\nkey = \"k\"\nfrom = \"{from}\"");
            warnings(
                "bundle_version = 6",
                &format!("[security]\nkeys = \"no\"\nstarts = \"s\"\n[[security.rule]]\n{rule}\n"),
            )
        };
        assert!(rule("source", "ipn:2.*").is_empty() && rule("verifier", "*").is_empty());
        for from in ["*", "ipn:1.*"] {
            let told = rule("source", from);
            assert!(told.len() == 1 && told[0].contains("n.toml:2: bundle_version: "), "{told:?}");
        }
    }
}

//! What of a configuration works and is still not advised.

use super::{NodeConfig, keys};
use farlink_base::{DataVolume, EndpointId, exact_volume};
use farlink_config::Reader;
use farlink_os::memory;
use farlink_stack::{LinkConfig, SpanConfig};

/// Warns of it, each with its line, and what to write instead.
pub fn all(top: &Reader<'_>, config: &NodeConfig) {
    rates(top, config);
    store(top, config);
    let there = memory::available();
    if let Some(memory) = config.memory.filter(|memory| memory.bytes() > there) {
        let there = DataVolume(there);
        top.table_or_empty("limits", &keys::LIMITS).warn(
            "memory",
            format!("{memory} is more than the {there} there are: the system may end the node before it is full"),
            "give less, or leave it out for half of what there is",
        );
    }
    routes(top, config);
}

/// LTP whose pace nobody told.
fn rates(top: &Reader<'_>, config: &NodeConfig) {
    // A plan names the rates of its contacts.
    let unknown = |link: &&LinkConfig| matches!(link.span, SpanConfig::Ltp(_)) && link.rate.is_none();
    let links = config.stack.links.iter().filter(|_| config.plan_file.is_none()).filter(unknown);
    for link in links {
        let path = format!("link.{}", link.name);
        let what = "is LTP and names no `rate`: its pace is found out, and is 256 kbit/s at least";
        let hint = "add e.g. rate = \"10 Mbit/s\", what the link or the peer's socket takes";
        top.errors.warn(&path, top.errors.beginning(&path), what, hint);
    }
}

/// Bounds of the store that bound nobody.
fn store(top: &Reader<'_>, config: &NodeConfig) {
    let (limits, capacity) = (&config.stack.limits, config.stack.store.capacity.bytes());
    for (key, part) in [("strangers", limits.stranger_bytes), ("per_source", limits.source_bytes)] {
        // What could not be read is told already, here and below.
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

/// Routes to a neighbour there is no link to.
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

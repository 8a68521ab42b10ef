//! Names of a scenario's nodes and endpoints, and the default epoch.

use farlink_base::{ConfigError, DtnTime, EndpointId};
use farlink_scenario::Node;

/// Wall-clock time at the start of a run whose scenario has no epoch: 2026-01-01T00:00:00Z, fixed so that a seed
/// replays.
pub const DEFAULT_EPOCH: DtnTime = DtnTime(820_540_800_000);

/// Endpoint of a service at a node.
pub(crate) fn endpoint(node: &Node, service: u32) -> Result<EndpointId, ConfigError> {
    Ok(node_id(node)?.at_service(service))
}

/// First node ID of a node.
pub(crate) fn node_id(node: &Node) -> Result<EndpointId, ConfigError> {
    parse_id(node, node.ids.first().map_or("", String::as_str))
}

/// Parses a node ID of the scenario.
pub(crate) fn parse_id(node: &Node, text: &str) -> Result<EndpointId, ConfigError> {
    text.parse().map_err(|error| ConfigError {
        path: format!("node.{}.id", node.name),
        expected: format!("a node ID, not `{text}`: {error}"),
        hint: "write e.g. \"ipn:1.0\"".into(),
    })
}

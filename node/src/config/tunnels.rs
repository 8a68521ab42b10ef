//! Settings of tunnels (bundles inside bundles) and of compressed reports.

use super::build::endpoint;
use super::keys;
use farlink_base::EndpointId;
use farlink_config::Reader;
use farlink_config::custody::patterns;
use farlink_config::reports::{ReportRules, reports};
use farlink_config::tunnel::tunnel;
use farlink_stack::{CompressedConfig, CompressedSettings, TunnelSettings};

/// Reads the `[[tunnel]]` tables of a node with these node IDs.
pub fn tunnels(top: &Reader<'_>, own: &[EndpointId]) -> Vec<TunnelSettings> {
    let mut tunnels: Vec<TunnelSettings> = Vec::new();
    for (path, table) in top.tables("tunnel") {
        let reader = Reader::checked(top.errors, &keys::TUNNEL, &path, table);
        let end = reader.custom("end", |input| far_end(input.text()?, own));
        if end.as_ref().is_some_and(|end| tunnels.iter().any(|tunnel| tunnel.end.node() == end.node())) {
            reader.fail("end", "there is a tunnel to this node already", "join the two: `to` is a list");
        }
        let to = patterns(&reader, "to").unwrap_or_default();
        tunnels.push(TunnelSettings { to, ..TunnelSettings::of(end.unwrap_or_default(), &tunnel(&reader)) });
    }
    tunnels
}

/// Parses the node ID of another node.
fn far_end(text: &str, own: &[EndpointId]) -> Result<EndpointId, String> {
    let end = endpoint(text)?;
    match end {
        EndpointId::Null => Err(format!("`{text}` is no node")),
        _ if end.is_here() => Err(format!("`{text}` is no node: whoever reads it takes it for itself")),
        _ if !end.is_node_id() => Err(format!("`{text}` is not a node ID; the node of it is `{}`", end.node_id())),
        _ if own.iter().any(|own| own.node() == end.node()) => Err(format!("`{text}` is this node itself")),
        _ => Ok(end),
    }
}

/// Reads `[compressed_reports]`, if present.
pub fn compressed(top: &Reader<'_>) -> Option<CompressedConfig> {
    let table = top.table("compressed_reports", &keys::COMPRESSED)?;
    let ReportRules { to, request, terms } = reports(&table);
    let config = CompressedConfig::of(&terms);
    Some(CompressedConfig { settings: CompressedSettings { to, request, ..config.settings }, ..config })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;
    use farlink_stack::TunnelCodes;
    use std::path::Path;

    fn parse(text: &str) -> Result<NodeConfig, String> {
        let text = format!("node_ids = \"ipn:1.0\"\n{text}");
        NodeConfig::parse(&text, Path::new("n.toml"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn tunnel_defaults_match_stack() {
        assert!(parse("").unwrap().stack.tunnels.is_empty());
        let tunnels = parse("[[tunnel]]\nend = \"ipn:3.0\"\n").unwrap().stack.tunnels;
        assert_eq!(tunnels, [TunnelSettings::new(EndpointId::ipn(3, 0))]);
        let tunnels = parse(
            "[[tunnel]]\nend = \"ipn:3.0\"\nto = [\"ipn:9.*\"]\ncustody = true\nrecord = 7\nsignal_record = 8\ntimes = \"unix\"\n\
             [[tunnel]]\nend = \"dtn://moon/\"\n",
        );
        let tunnels = tunnels.unwrap().stack.tunnels;
        assert_eq!((tunnels[0].codes, tunnels[0].custody), (TunnelCodes { bundle: 7, signal: 8, unix: true }, true));
        assert_eq!((tunnels[0].to.len(), tunnels[1].to.len()), (1, 0), "the second only takes out");
    }

    #[test]
    fn impossible_tunnel_names_line() {
        for (text, said) in [
            ("end = \"ipn:!.0\"", "n.toml:3: tunnel[1].end: `ipn:!.0` is no node"),
            ("end = \"ipn:1.0\"", "n.toml:3: tunnel[1].end: `ipn:1.0` is this node itself"),
            ("end = \"ipn:3.7\"", "is not a node ID"),
            ("to = [\"ipn:9.*\"]", "tunnel[1].end"),
            ("end = \"ipn:3.0\"\n[[tunnel]]\nend = \"ipn:3.0\"", "there is a tunnel to this node already"),
            ("end = \"ipn:3.0\"\ntimeout = \"0 s\"", "sent again at once"),
            ("end = \"ipn:3.0\"\nrecord = 4", "is the type of the record that carries bundles"),
            ("end = \"ipn:3.0\"\nto = [\"ipn:9\"]", "matches no endpoint"),
        ] {
            let found = parse(&format!("[[tunnel]]\n{text}\n")).unwrap_err();
            assert!(found.contains(said), "{text}: {found}");
        }
    }

    #[test]
    fn compressed_reports_default_to_receive_only() {
        assert!(parse("").unwrap().stack.compressed.is_none());
        let told = parse("[compressed_reports]\n").unwrap().stack.compressed.unwrap();
        assert_eq!(told, CompressedConfig::default());
        let told =
            parse("[compressed_reports]\nrequest = [\"ipn:9.*\"]\nblock = 16\n").unwrap().stack.compressed.unwrap();
        assert_eq!((told.settings.request.len(), told.block, told.record), (1, 16, 14));
    }
}

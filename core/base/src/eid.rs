//! Endpoint IDs (RFC 9171 4.2.5.1, RFC 9758): values of 16 bytes, whatever the scheme.

use crate::id::NodeId;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Endpoint ID. Comparison is by meaning: the two- and three-element encodings of an ipn EID are equal (RFC 9758), and
/// `ipn:0.0` is the null endpoint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum EndpointId {
    /// `dtn:none`; also `ipn:0.0` and, by RFC 9758, any `ipn:0.x`.
    #[default]
    Null,
    /// `ipn:node.service` or `ipn:allocator.node.service`.
    Ipn {
        /// Fully-qualified node number: allocator in the upper 32 bits.
        node: u64,
        /// Service number, 32 bits (RFC 9758).
        service: u32,
    },
    /// `dtn://node/demux`; constructed by [`EndpointId::dtn`].
    Dtn(Arc<DtnName>),
    /// Endpoint of any other scheme (ION's imc is 3), carried unchanged.
    Other(Arc<OtherName>),
}

/// The two parts of a dtn endpoint ID, and the number of its node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DtnName {
    node: Box<str>,
    demux: Box<str>,
    number: NodeId,
}
impl DtnName {
    /// Node name (authority) of the URI.
    pub fn node(&self) -> &str {
        &self.node
    }
    /// Demultiplexing part after the node name's slash; empty for the administrative endpoint.
    pub fn demux(&self) -> &str {
        &self.demux
    }
}

/// Endpoint ID of an unknown scheme.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OtherName {
    /// URI scheme code (IANA registry of RFC 9171).
    pub scheme: u64,
    /// Scheme-specific part, as encoded.
    pub part: Vec<u8>,
}

/// Error of parsing an endpoint ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EidError(pub &'static str);
impl fmt::Display for EidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: write `ipn:NODE.SERVICE`, `dtn://NODE/DEMUX` or `dtn:none`", self.0)
    }
}
impl core::error::Error for EidError {}

impl EndpointId {
    /// Node number of `ipn:!.service`, "this node" (RFC 9758).
    pub const LOCAL_NODE: u64 = 0xffff_ffff;

    /// `ipn:node.service`; the null endpoint for node 0.
    // 9758-3.4.1-1, 9758-3.4.1-2
    pub fn ipn(node: u64, service: u32) -> EndpointId {
        if node == 0 { EndpointId::Null } else { EndpointId::Ipn { node, service } }
    }
    /// `dtn://node/demux`.
    pub fn dtn(node: &str, demux: &str) -> EndpointId {
        let number = NodeId::named(node);
        EndpointId::Dtn(Arc::new(DtnName { node: node.into(), demux: demux.into(), number }))
    }
    /// Endpoint of the same node for a service number: with that service number (ipn), or with the number as demux
    /// (dtn). Null for other schemes.
    pub fn at_service(&self, service: u32) -> EndpointId {
        match self {
            EndpointId::Ipn { node, .. } => EndpointId::ipn(*node, service),
            EndpointId::Dtn(name) => EndpointId::dtn(&name.node, &alloc::format!("{service}")),
            _ => EndpointId::Null,
        }
    }
    /// Endpoint of the same dtn node with another demux; `None` for other schemes.
    pub fn at_demux(&self, demux: &str) -> Option<EndpointId> {
        match self {
            EndpointId::Dtn(name) => Some(EndpointId::dtn(&name.node, demux)),
            _ => None,
        }
    }
    /// Bytes allocated for the endpoint's name; 0 for ipn and the null endpoint.
    pub fn name_bytes(&self) -> u64 {
        match self {
            EndpointId::Null | EndpointId::Ipn { .. } => 0,
            EndpointId::Dtn(name) => (name.node.len() + name.demux.len()) as u64,
            EndpointId::Other(name) => name.part.len() as u64,
        }
    }
    /// Number of the endpoint's node: an ipn node number as it is (hashed if it needs all 64 bits), or a hash of a dtn
    /// node's name; [`NodeId::NULL`] for the null endpoint and for other schemes.
    #[inline]
    pub fn node(&self) -> NodeId {
        match self {
            // Larger numbers would collide with the hashes of names, which have the top bit set.
            EndpointId::Ipn { node, .. } if *node < NodeId::NAMED => NodeId::ipn(*node),
            EndpointId::Ipn { node, .. } => NodeId::large_ipn(*node),
            EndpointId::Dtn(name) => name.number,
            EndpointId::Null | EndpointId::Other(_) => NodeId::NULL,
        }
    }
    /// Whether the endpoint names "this node" (`ipn:!.7`, `dtn:///in`), which has a meaning inside one node only.
    pub fn is_here(&self) -> bool {
        match self {
            EndpointId::Ipn { node, .. } => *node == Self::LOCAL_NODE,
            EndpointId::Dtn(name) => name.node.is_empty(),
            EndpointId::Null | EndpointId::Other(_) => false,
        }
    }
    /// Whether this is the null endpoint.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, EndpointId::Null)
    }
    /// Administrative endpoint of the endpoint's node, which is the node ID (RFC 9171 4.2.5.2). The endpoint itself for
    /// other schemes.
    // 9171-4.2.5.2-1, 5050-3.1-1, 9758-5.7-2
    pub fn node_id(&self) -> EndpointId {
        match self {
            EndpointId::Ipn { node, .. } => EndpointId::Ipn { node: *node, service: 0 },
            EndpointId::Dtn(name) if name.demux.is_empty() => self.clone(),
            EndpointId::Dtn(name) => EndpointId::dtn(&name.node, ""),
            other => other.clone(),
        }
    }
    /// Canonical name of an endpoint of the node with these IDs: `ipn:!.77`, `ipn:1.77` and `ipn:9.77` become one if
    /// the node is both 1 and 9. `None` for an endpoint of another node. A group belongs to every node and keeps its
    /// name.
    pub fn canonical(&self, node_ids: &[EndpointId]) -> Option<EndpointId> {
        let own = || node_ids.iter().any(|id| *id == self.node_id());
        match self {
            // Groups come first: the node name in a group's ID does not make it another node's endpoint.
            EndpointId::Dtn(name) if !self.is_singleton() && !name.node.is_empty() => Some(self.clone()),
            EndpointId::Ipn { node, service } if *node == Self::LOCAL_NODE || own() => {
                let node = node_ids.iter().find_map(EndpointId::ipn_node)?;
                Some(EndpointId::ipn(node, *service))
            }
            EndpointId::Dtn(name) if name.node.is_empty() || own() => {
                node_ids.iter().find_map(|id| id.at_demux(&name.demux))
            }
            _ => None,
        }
    }
    /// Whether this is a node ID.
    pub fn is_node_id(&self) -> bool {
        match self {
            EndpointId::Ipn { service, .. } => *service == 0,
            EndpointId::Dtn(name) => name.demux.is_empty(),
            EndpointId::Null | EndpointId::Other(_) => false,
        }
    }
    /// Whether the text is a valid destination pattern: `*`, the beginning of an endpoint ID followed by `*`, a node
    /// ID, or a whole endpoint ID in its canonical spelling.
    pub fn is_pattern(text: &str) -> bool {
        // All but the last character is compared literally, so a wildcard there would have no effect.
        if text.strip_suffix('*').unwrap_or(text).contains('*') {
            return false;
        }
        let Some(prefix) = text.strip_suffix('*') else {
            return text.parse().is_ok_and(|eid: EndpointId| !eid.is_null() && eid.to_string() == text);
        };
        // The prefix may end within the scheme, such as `ip*` or `*`.
        if "ipn:".starts_with(prefix) || "dtn://".starts_with(prefix) {
            return true;
        }
        if let Some(rest) = prefix.strip_prefix("dtn://") {
            return parse_dtn(rest).or_else(|_| parse_dtn(&alloc::format!("{rest}/"))).is_ok();
        }
        // The prefix may end in a partial number: any further digits complete it to an endpoint ID.
        let rest = prefix.strip_prefix("ipn:").unwrap_or("");
        let rest = rest.strip_suffix('.').unwrap_or(rest);
        let parts: Vec<&str> = rest.split('.').collect();
        let numbers = parts.iter().all(|part| *part == "!" || number(part, u64::MAX).is_ok());
        numbers && parts.len() <= 3 && parts[0] != "0"
    }
    /// Whether at most one node is a member of the endpoint (RFC 9171 4.2.5.1.1); false for unknown schemes.
    // 9758-5.1-1
    pub fn is_singleton(&self) -> bool {
        match self {
            EndpointId::Dtn(name) => !name.demux.starts_with('~'),
            EndpointId::Ipn { .. } | EndpointId::Null => true,
            EndpointId::Other(_) => false,
        }
    }
    /// Whether the endpoint is certainly a group; false for unknown schemes, which cannot be judged.
    pub fn is_group(&self) -> bool {
        /// Scheme code of ION's multicast: all its endpoints are groups.
        const IMC: u64 = 3;
        match self {
            EndpointId::Other(name) => name.scheme == IMC,
            _ => !self.is_singleton(),
        }
    }
    /// Fully-qualified node number of an ipn endpoint; `None` for other schemes.
    pub fn ipn_node(&self) -> Option<u64> {
        if let EndpointId::Ipn { node, .. } = self { Some(*node) } else { None }
    }
    /// Service number (ipn), or a stable hash of the demux with the top bit set (dtn); 0 for node IDs and other
    /// schemes.
    pub fn service_number(&self) -> u64 {
        match self {
            EndpointId::Ipn { service, .. } => u64::from(*service),
            EndpointId::Dtn(name) if !name.demux.is_empty() => {
                // FNV-1a, 64 bits.
                let hash = name
                    .demux
                    .bytes()
                    .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
                hash | 1 << 63
            }
            _ => 0,
        }
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointId::Null => f.write_str("dtn:none"),
            EndpointId::Ipn { node: Self::LOCAL_NODE, service } => write!(f, "ipn:!.{service}"),
            EndpointId::Ipn { node, service } if *node >> 32 == 0 => write!(f, "ipn:{node}.{service}"),
            EndpointId::Ipn { node, service } => {
                write!(f, "ipn:{}.{}.{service}", node >> 32, node & 0xffff_ffff)
            }
            EndpointId::Dtn(name) => write!(f, "dtn://{}/{}", name.node, name.demux),
            EndpointId::Other(name) => {
                write!(f, "scheme{}:", name.scheme)?;
                name.part.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl FromStr for EndpointId {
    type Err = EidError;
    fn from_str(text: &str) -> Result<EndpointId, EidError> {
        if text == "dtn:none" {
            return Ok(EndpointId::Null);
        }
        if let Some(rest) = text.strip_prefix("dtn://") {
            return parse_dtn(rest);
        }
        if let Some(rest) = text.strip_prefix("ipn:") {
            return parse_ipn(rest);
        }
        Err(EidError("not an endpoint ID: it begins with neither `ipn:` nor `dtn://`"))
    }
}

/// Parses the part after `dtn://` (RFC 9171 4.2.5.1.1).
fn parse_dtn(rest: &str) -> Result<EndpointId, EidError> {
    let (node, demux) = rest.split_once('/').ok_or(EidError("a dtn endpoint ID has a `/` after its node name"))?;
    let visible = |text: &str| text.bytes().all(|b| (0x21..=0x7e).contains(&b));
    // `dtn:///demux` names an endpoint of the node that parses it. Applications may use it; it never occurs on the
    // wire.
    if node.is_empty() && demux.is_empty() {
        return Err(EidError("a dtn endpoint ID needs a node name"));
    }
    if !visible(node) || !visible(demux) {
        return Err(EidError("a dtn endpoint ID holds visible ASCII characters only"));
    }
    Ok(EndpointId::dtn(node, demux))
}

/// Parses the part after `ipn:` (RFC 9758 4).
// 9758-3-1, 9758-3.2.2-1, 9758-4-1, 9758-4.1-1
fn parse_ipn(rest: &str) -> Result<EndpointId, EidError> {
    let parts: Vec<&str> = rest.split('.').collect();
    let (node, service) = match parts[..] {
        ["!", service] => (EndpointId::LOCAL_NODE, service),
        [node, service] => (number(node, u64::MAX)?, service),
        [allocator, node, service] => (number(allocator, 0xffff_ffff)? << 32 | number(node, 0xffff_ffff)?, service),
        _ => return Err(EidError("an ipn endpoint ID is two or three numbers joined by dots")),
    };
    let service = number(service, 0xffff_ffff)? as u32;
    Ok(EndpointId::ipn(node, service))
}

/// Parses a decimal without leading zeros, at most `max`.
fn number(text: &str, max: u64) -> Result<u64, EidError> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if !plain {
        return Err(EidError("an ipn endpoint ID has decimal numbers without leading zeros"));
    }
    // All are digits, but the number may exceed 64 bits.
    text.parse().ok().filter(|n| *n <= max).ok_or(EidError("a number of the ipn endpoint ID is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps 9758-3-1, 9758-3.2.2-1, 9758-3.4.1-1, 9758-3.4.1-2, 9758-4-1, 9758-4.1-1.
    #[test]
    fn text_reads_and_prints() {
        for text in ["dtn:none", "ipn:1.2", "ipn:977000.1.3", "ipn:!.7", "dtn://node/", "dtn://node/a/b", "dtn:///x"] {
            assert_eq!(text.parse::<EndpointId>().unwrap().to_string(), text);
        }
        assert_eq!("ipn:0.1".parse(), Ok(EndpointId::Null));
        // The two-number form of allocator 977000, node 1 (977000 * 2^32 + 1).
        assert_eq!("ipn:4196183048192001.3".parse::<EndpointId>().unwrap().to_string(), "ipn:977000.1.3");
        for bad in ["", "ipn:1", "ipn:01.2", "ipn:1.2.3.4", "ipn:1.-2", "ipn:1.4294967296", "dtn:///", "dtn://a", "x:y"]
        {
            assert!(bad.parse::<EndpointId>().is_err(), "{bad}");
        }
    }

    /// Keeps 9171-4.2.5.2-1.
    #[test]
    fn canonical_name_resolves_node_aliases() {
        let ids = ["ipn:1.0", "dtn://mars/", "ipn:9.0", "dtn://m/"].map(|id| id.parse::<EndpointId>().unwrap());
        for (called, name) in [
            ("ipn:!.77", "ipn:1.77"),
            // The number of "this node" (RFC 9758 3.4.2) and allocator 0, spelled out.
            ("ipn:4294967295.77", "ipn:1.77"),
            ("ipn:0.1.77", "ipn:1.77"),
            ("ipn:9.77", "ipn:1.77"),
            ("dtn:///in", "dtn://mars/in"),
            ("dtn://m/in", "dtn://mars/in"),
            ("dtn://any/~news", "dtn://any/~news"),
            ("dtn://m/~news", "dtn://m/~news"),
            ("dtn:///~news", "dtn://mars/~news"),
        ] {
            let found = called.parse::<EndpointId>().unwrap().canonical(&ids).unwrap();
            assert_eq!(found.to_string(), name, "{called}");
        }
        for other in ["dtn:none", "ipn:2.77", "dtn://moon/in"] {
            assert_eq!(other.parse::<EndpointId>().unwrap().canonical(&ids), None, "{other}");
        }
    }

    #[test]
    fn unmatchable_eid_pattern_is_invalid() {
        let patterns = [
            "*",
            "ipn:*",
            "ipn:5.*",
            "ipn:5*",
            "ipn:5.1*",
            "ipn:!.*",
            "ipn:977000.1.*",
            "ipn:5.0",
            "ipn:5.7",
            "dtn://*",
            "dtn://ma*",
            "dtn://mars/",
            "dtn://mars/*",
            "dtn://mars/in*",
            "dtn://mars/in",
        ];
        for pattern in patterns {
            // Each matches some endpoint ID.
            assert!(EndpointId::is_pattern(pattern), "{pattern}");
        }
        let none = [
            "",
            "foo",
            "foo*",
            "ipn:5",
            "ipn:*.7",
            "ipn:5.*.*",
            "ipn:.5*",
            "ipn:05*",
            "ipn:0.*",
            "ipn:1.2.3.4*",
            "ipn:a*",
            "ipn:0.5.0",
            "dtn:none",
            "dtn://mars",
            "dtn://*/in",
            "dtn:mars*",
            "dtn://m rs/*",
            "http://*",
        ];
        for text in none {
            // None of these could ever match: not canonical, incomplete, or with a wildcard inside.
            assert!(!EndpointId::is_pattern(text), "{text}");
        }
    }

    /// Keeps 9171-4.2.5.2-1, 5050-3.1-1, 9758-5.7-2, 9758-5.1-1.
    #[test]
    fn endpoints_know_their_node() {
        let inbox = EndpointId::dtn("node", "inbox");
        assert_eq!(inbox.node_id().to_string(), "dtn://node/");
        assert!(inbox.node_id().is_node_id() && !inbox.is_node_id() && inbox.is_singleton());
        assert!(!EndpointId::dtn("all", "~news").is_singleton() && EndpointId::ipn(4, 9).is_singleton());
        assert_eq!(EndpointId::ipn(4, 9).node_id(), EndpointId::ipn(4, 0));
        assert_eq!((EndpointId::ipn(4, 9).service_number(), EndpointId::ipn(4, 9).ipn_node()), (9, Some(4)));
        // The hash covers the demux only, so that equal services of different nodes match.
        assert_ne!(inbox.service_number(), EndpointId::dtn("node", "outbox").service_number());
        assert_eq!(inbox.service_number(), EndpointId::dtn("other", "inbox").service_number());
    }

    #[test]
    fn endpoint_id_is_compact_and_stable() {
        assert_eq!((size_of::<EndpointId>(), size_of::<Option<EndpointId>>()), (16, 16));
        assert_eq!(EndpointId::ipn(4, 9).node(), NodeId::ipn(4));
        assert_eq!(EndpointId::ipn(u64::MAX, 9).node(), EndpointId::ipn(u64::MAX, 1).node());
        // Bit 63 is in use: such a number is hashed like a name.
        assert!(EndpointId::ipn(u64::MAX, 9).node().is_named());
        let (a, b) = (EndpointId::dtn("mars", "in"), EndpointId::dtn("mars", ""));
        assert_eq!((a.node(), a.node_id()), (b.node(), b));
        assert_ne!(a.node(), EndpointId::dtn("moon", "in").node());
        assert_eq!(EndpointId::Null.node(), NodeId::NULL);
        assert_eq!(a.at_service(7), EndpointId::dtn("mars", "7"));
        assert_eq!(EndpointId::ipn(4, 9).at_service(7), EndpointId::ipn(4, 7));
    }
}

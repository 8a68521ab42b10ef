//! Matching of endpoint IDs against patterns of settings, routes and security rules.

use crate::eid::EndpointId;
use alloc::string::ToString;

/// Specificity with which a pattern ([`EndpointId::is_pattern`]) matches an endpoint, a larger number being more
/// specific; `None` if it does not match. `text` is the endpoint ID as text.
pub fn pattern_rank(pattern: &str, endpoint: &EndpointId, text: &str) -> Option<usize> {
    if pattern == "*" {
        return Some(0);
    }
    if let Some(prefix) = pattern.strip_suffix('*') {
        return text.starts_with(prefix).then_some(prefix.len());
    }
    // An endpoint ID, or a node ID for all endpoints of the node, is more specific than any prefix.
    (*text == *pattern || endpoint.node_id().to_string() == pattern).then_some(usize::MAX)
}

/// Whether every endpoint that matches `other` also matches `pattern`.
pub fn pattern_covers(pattern: &str, other: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix('*') {
        return other.strip_suffix('*').unwrap_or(other).starts_with(prefix);
    }
    // A node ID covers every endpoint of its node.
    let node_of = |text: &str| text.parse().ok().map(|eid: EndpointId| eid.node_id().to_string());
    other == pattern || node_of(other).is_some_and(|node| node == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_covers_narrower_patterns_only() {
        for (pattern, other, covers) in [
            ("*", "ipn:1.*", true),
            ("*", "*", true),
            ("ipn:1*", "ipn:12.*", true),
            ("ipn:1.*", "ipn:1.7", true),
            // The dot separates node 1 from node 12.
            ("ipn:1.*", "ipn:12.*", false),
            ("ipn:1.*", "*", false),
            // A node ID stands for all endpoints of the node.
            ("ipn:1.0", "ipn:1.7", true),
            ("ipn:1.7", "ipn:1.0", false),
            ("ipn:1.7", "ipn:1.*", false),
            ("dtn://a/", "dtn://a/x", true),
        ] {
            assert_eq!(pattern_covers(pattern, other), covers, "{pattern} {other}");
        }
    }
}

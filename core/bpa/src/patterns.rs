//! Patterns of endpoints, as settings have them.

use alloc::string::{String, ToString};
use farlink_base::{EndpointId, pattern_rank};

/// Whether an endpoint fits one of these patterns.
pub(crate) fn matches_any(patterns: &[String], endpoint: &EndpointId) -> bool {
    if patterns.is_empty() {
        return false;
    }
    let text = endpoint.to_string();
    patterns.iter().any(|pattern| pattern_rank(pattern, endpoint, &text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_pattern_wins() {
        let to = EndpointId::ipn(52, 7);
        let pattern_rank = |pattern, to: &EndpointId| pattern_rank(pattern, to, &to.to_string());
        assert_eq!(pattern_rank("*", &to), Some(0));
        assert_eq!(pattern_rank("ipn:5*", &to), Some(5));
        assert_eq!(pattern_rank("ipn:52.*", &to), Some(7));
        assert_eq!(pattern_rank("ipn:52.0", &to), Some(usize::MAX), "a node ID stands for all its services");
        assert_eq!(pattern_rank("ipn:5.*", &to), None);
    }
}

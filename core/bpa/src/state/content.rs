//! Fields of a primary block that no node on the way changes; together with the payload they distinguish bundles of one
//! identity.

use farlink_base::{BundleMeta, EndpointId, Facts, hash128};

/// Whether two bundles of one identity agree in all fields of their primary blocks but the custodian (RFC 5050 4.5).
/// Different encodings do not matter.
// 9171-4.3.1-2
pub(crate) fn same_primary(a: &BundleMeta, b: &BundleMeta) -> bool {
    let facts = |meta: &BundleMeta| meta.facts.0 & primary_facts(meta.version);
    let class = |meta: &BundleMeta| (meta.version == 6).then_some(meta.priority);
    (a.version, a.lifetime_ms, facts(a), class(a), a.fragment())
        == (b.version, b.lifetime_ms, facts(b), class(b), b.fragment())
        && (a.created_ms, a.sequence) == (b.created_ms, b.sequence)
        && a.source == b.source
        && a.destination == b.destination
        && a.report_to() == b.report_to()
}

/// Mask of [`Facts`] in the primary block of this version.
pub(crate) fn primary_facts(version: u8) -> u32 {
    Facts::ADMIN | Facts::REQUESTS | if version == 6 { Facts::CUSTODY } else { 0 }
}

/// An endpoint as two numbers; names are hashed.
pub(crate) fn number_of(endpoint: &EndpointId) -> (u64, u64) {
    match endpoint {
        EndpointId::Null => (0, 0),
        EndpointId::Ipn { .. } => (endpoint.node().0, endpoint.service_number()),
        named => {
            let hash = hash128(&[alloc::format!("{named}").as_bytes()]);
            ((hash >> 64) as u64, hash as u64)
        }
    }
}

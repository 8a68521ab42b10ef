//! Endpoint IDs (RFC 9171 4.2.5.1, RFC 9758).

use alloc::sync::Arc;
use alloc::vec::Vec;

/// An endpoint ID. Comparison is by meaning: the two- and three-element encodings of an ipn EID
/// are equal (RFC 9758), and `ipn:0.0` is the null endpoint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EndpointId {
    /// `dtn:none`, also `ipn:0.0` and (RFC 9758) any `ipn:0.x`.
    Null,
    /// `ipn:node.service` or `ipn:allocator.node.service`.
    Ipn {
        /// Fully-qualified node number: allocator in the upper 32 bits.
        node: u64,
        /// Service number.
        service: u32,
    },
    /// `dtn://node/demux`.
    Dtn {
        /// The node name (authority).
        node: Arc<str>,
        /// What follows the slash after it; empty for the administrative endpoint.
        demux: Arc<str>,
    },
    /// Any other scheme (ION's imc is 3): carried, never understood.
    Unknown {
        /// URI scheme code.
        scheme: u64,
        /// The scheme-specific part as encoded.
        ssp: Arc<Vec<u8>>,
    },
}

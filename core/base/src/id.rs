//! Small identifiers. All are `Copy`; names live at the border (configuration, reports).

use crate::hash::hash128;
use core::fmt;

/// Node of the network as a number. An ipn node is its node number (the fully-qualified 64-bit form of RFC 9758,
/// allocator in the upper half). A node known by name (dtn scheme) is bit 63 and 63 bits of a hash of the name, the
/// same in every process, so that policies may send it. The numeric order is SABR's last tie-break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl NodeId {
    /// Bit set in the numbers of named (dtn scheme) nodes.
    pub const NAMED: u64 = 1 << 63;
    /// No node (the null endpoint).
    pub const NULL: NodeId = NodeId(0);

    /// The node with this ipn node number.
    pub const fn ipn(number: u64) -> Self {
        NodeId(number)
    }
    /// The dtn node of this name.
    pub fn named(name: &str) -> Self {
        Self::hashed(b"node ", name.as_bytes())
    }
    /// Node of an ipn number that uses bit 63, hashed with a prefix of its own so that it differs from a dtn node named
    /// by the same digits.
    pub(crate) fn large_ipn(number: u64) -> Self {
        Self::hashed(b"ipn ", &number.to_be_bytes())
    }
    fn hashed(scheme: &[u8], name: &[u8]) -> Self {
        // 63 bits of the hash; the top bit marks a named node.
        NodeId(Self::NAMED | (hash128(&[scheme, name]) >> 64) as u64)
    }
    /// Whether it is known by name.
    pub const fn is_named(self) -> bool {
        self.0 & Self::NAMED != 0
    }
}
impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_named() { write!(f, "dtn#{:x}", self.0 & !Self::NAMED) } else { write!(f, "ipn:{}", self.0) }
    }
}
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Neighbour of one node, numbered in order of discovery; numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PeerId(pub u32);
impl PeerId {
    /// No neighbour: created locally, or the previous node is unknown.
    pub const NONE: PeerId = PeerId(0);
    /// Pseudo-neighbour of a tunnel: the bundle arrived encapsulated in another, whose previous node knows nothing of
    /// it.
    pub const fn tunnel(place: u32) -> PeerId {
        PeerId(u32::MAX - place)
    }
}

/// Link of one node: its index in the configuration, or from [`LinkId::DYNAMIC`] up one opened by an unconfigured peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkId(pub u32);
impl LinkId {
    /// First identifier of links opened by unconfigured peers. Layer `n` uses the identifiers `DYNAMIC | n << 24 ..`,
    /// so that layers never collide.
    pub const DYNAMIC: u32 = 1 << 31;
    /// Pseudo-link of bundles encapsulated in other bundles.
    pub const TUNNEL: LinkId = LinkId(u32::MAX);
    /// Whether an unconfigured peer opened it.
    pub const fn is_dynamic(self) -> bool {
        self.0 & Self::DYNAMIC != 0
    }
}

/// Convergence layer instance of one node: its index in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LayerId(pub u16);

/// Byte stream (a TCP connection). The stack numbers outgoing streams, the driver accepted ones, from
/// [`StreamId::PASSIVE`] up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);
impl StreamId {
    /// First identifier of accepted streams.
    pub const PASSIVE: u64 = 1 << 63;
    /// Whether the peer connected to us.
    pub const fn is_passive(self) -> bool {
        self.0 & Self::PASSIVE != 0
    }
}

/// Bundle (or fragment) held by one node, numbered in arrival order; also its key in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleHandle(pub u64);

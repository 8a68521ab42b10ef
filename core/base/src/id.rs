//! Small identifiers, all `Copy`; names occur only in configuration and reports.

use crate::hash::hash128;
use core::fmt;

/// Node of the network, as a number. For an ipn node it is the node number (the fully-qualified 64-bit form of RFC
/// 9758, with the allocator in the upper half). For a node known by name (dtn scheme) it is bit 63 and 63 bits of a
/// hash of the name, which is the same in every process, so that policies may send it. The numeric order is the last
/// tie-break of SABR.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl NodeId {
    /// Bit that is set in the numbers of named (dtn scheme) nodes.
    pub const NAMED: u64 = 1 << 63;
    /// No node (the null endpoint).
    pub const NULL: NodeId = NodeId(0);

    /// Node with this ipn node number.
    pub const fn ipn(number: u64) -> Self {
        NodeId(number)
    }
    /// Node with this name (dtn scheme).
    pub fn named(name: &str) -> Self {
        Self::hashed(b"node ", name.as_bytes())
    }
    /// Node whose ipn number uses bit 63. It is hashed with a prefix of its own, so that it differs from a dtn node
    /// named by the same digits.
    pub(crate) fn large_ipn(number: u64) -> Self {
        Self::hashed(b"ipn ", &number.to_be_bytes())
    }
    fn hashed(scheme: &[u8], name: &[u8]) -> Self {
        // 63 bits of the hash are used; the top bit marks a named node.
        NodeId(Self::NAMED | (hash128(&[scheme, name]) >> 64) as u64)
    }
    /// Whether this is the number of a named node.
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

/// Neighbour of one node, numbered in the order in which neighbours were added; numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PeerId(pub u32);
impl PeerId {
    /// No neighbour: the bundle was created here, or its previous node is unknown.
    pub const NONE: PeerId = PeerId(0);
    /// Number that stands for tunnel `place` as the previous node of a bundle that came inside another one: the
    /// neighbour that sent the outer bundle does not know the inner one.
    pub const fn tunnel(place: u32) -> PeerId {
        PeerId(u32::MAX - place)
    }
}

/// Link of one node. A configured link has its index in the configuration as number; links opened by peers that are not
/// configured have numbers from [`LinkId::DYNAMIC`] up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkId(pub u32);
impl LinkId {
    /// First number of links opened by peers that are not configured. Layer `n` uses the numbers from `DYNAMIC | n <<
    /// 24` up, so that layers never collide.
    pub const DYNAMIC: u32 = 1 << 31;
    /// Stands in for a link where a bundle enters or leaves a tunnel, that is, travels inside another bundle.
    pub const TUNNEL: LinkId = LinkId(u32::MAX);
    /// Whether the link was opened by a peer that is not configured, or is [`LinkId::TUNNEL`].
    pub const fn is_dynamic(self) -> bool {
        self.0 & Self::DYNAMIC != 0
    }
}

/// Convergence layer of one node, numbered by its index in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LayerId(pub u16);

/// Byte stream (a TCP connection). The stack numbers streams that it opens; the driver numbers accepted ones, from
/// [`StreamId::PASSIVE`] up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);
impl StreamId {
    /// First number of accepted streams.
    pub const PASSIVE: u64 = 1 << 63;
    /// Whether the peer opened the stream.
    pub const fn is_passive(self) -> bool {
        self.0 & Self::PASSIVE != 0
    }
}

/// Bundle (or fragment) held by one node, numbered in order of arrival; the number is also its key in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleHandle(pub u64);

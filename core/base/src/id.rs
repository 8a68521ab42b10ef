//! Small identifiers. All are `Copy`; names live at the border (configuration, reports).

use crate::hash::hash128;
use core::fmt;

/// A node of the network in numbers. ipn nodes are their node number (the fully-qualified 64-bit
/// form of RFC 9758, allocator in the upper half); nodes known by name (dtn scheme) are bit 63 and
/// 63 bits of a hash of the name, the same in every process, so that policies may send it.
/// Ordering is by number, which is SABR's last tie-break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl NodeId {
    /// Set in the numbers of named (dtn scheme) nodes.
    pub const NAMED: u64 = 1 << 63;
    /// The null endpoint: no node.
    pub const NULL: NodeId = NodeId(0);

    /// The node with this ipn node number.
    pub const fn ipn(number: u64) -> Self {
        NodeId(number)
    }
    /// The dtn node of this name.
    pub fn named(name: &str) -> Self {
        Self::hashed(b"node ", name.as_bytes())
    }
    /// The node of an ipn number as large as those of names: another one than the dtn node called by its digits.
    pub(crate) fn large_ipn(number: u64) -> Self {
        Self::hashed(b"ipn ", &number.to_be_bytes())
    }
    fn hashed(scheme: &[u8], name: &[u8]) -> Self {
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

/// A neighbour of one node, numbered as it was met; numbers are not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PeerId(pub u32);
impl PeerId {
    /// No neighbour: made here, or its giver is not known.
    pub const NONE: PeerId = PeerId(0);
    /// No neighbour either: it came inside another bundle, through this one of a node's tunnels. Who carried that one
    /// knows nothing of it.
    pub const fn tunnel(place: u32) -> PeerId {
        PeerId(u32::MAX - place)
    }
}

/// A link of one node: its index in that node's configuration, or at and above
/// [`LinkId::DYNAMIC`] one opened by a peer that is not configured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkId(pub u32);
impl LinkId {
    /// First identifier of links opened by unconfigured peers. Layer `n` uses the identifiers
    /// `DYNAMIC | n << 24 ..`, so that two layers never give the same one.
    pub const DYNAMIC: u32 = 1 << 31;
    /// The way of bundles that travel in others.
    pub const TUNNEL: LinkId = LinkId(u32::MAX);
    /// Whether a peer opened it unasked.
    pub const fn is_dynamic(self) -> bool {
        self.0 & Self::DYNAMIC != 0
    }
}

/// A convergence layer instance of one node: its index in that node's configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LayerId(pub u16);

/// A byte stream (a TCP connection). The stack numbers the streams it asks for; the driver numbers
/// those it accepted, from [`StreamId::PASSIVE`] up.
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

/// One bundle (or fragment) inside one node, numbered in arrival order; also its key in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleHandle(pub u64);

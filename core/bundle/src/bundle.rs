//! The validated representation: what cannot be wrong once it exists.

use crate::EndpointId;
use alloc::vec::Vec;
use farlink_base::{Bytes, CrcType, CreationTimestamp, FragmentInfo, Payload, Priority};

/// Bundle processing control flags (RFC 9171 4.2.3). Unknown bits are kept and ignored.
// 9171-4.2.3-4
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BundleFlags(pub u64);
impl BundleFlags {
    /// The bundle is a fragment.
    pub const FRAGMENT: u64 = 0x1;
    /// The payload is an administrative record.
    pub const ADMIN: u64 = 0x2;
    /// Must not be fragmented.
    pub const NO_FRAGMENT: u64 = 0x4;
    /// The application asks for an acknowledgment.
    pub const APP_ACK: u64 = 0x20;
    /// Status times are wanted in reports.
    pub const STATUS_TIME: u64 = 0x40;
    /// Report reception.
    pub const REPORT_RECEPTION: u64 = 0x4000;
    /// Report forwarding.
    pub const REPORT_FORWARDING: u64 = 0x1_0000;
    /// Report delivery.
    pub const REPORT_DELIVERY: u64 = 0x2_0000;
    /// Report deletion.
    pub const REPORT_DELETION: u64 = 0x4_0000;
    /// All report requests.
    pub const REPORTS: u64 =
        Self::REPORT_RECEPTION | Self::REPORT_FORWARDING | Self::REPORT_DELIVERY | Self::REPORT_DELETION;
    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

/// Block processing control flags (RFC 9171 4.2.4).
// 9171-4.2.4-2
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BlockFlags(pub u64);
impl BlockFlags {
    /// Replicate in every fragment.
    pub const REPLICATE: u64 = 0x01;
    /// Report if the block cannot be processed.
    pub const REPORT: u64 = 0x02;
    /// Delete the bundle if the block cannot be processed.
    pub const DELETE_BUNDLE: u64 = 0x04;
    /// Discard the block if it cannot be processed.
    pub const DISCARD: u64 = 0x10;
    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

/// The primary block (RFC 9171 4.3.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Primary {
    /// Bundle processing control flags.
    pub flags: BundleFlags,
    /// CRC of the primary block.
    pub crc: CrcType,
    /// Destination.
    pub destination: EndpointId,
    /// Source.
    pub source: EndpointId,
    /// Where reports go.
    pub report_to: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// Lifetime in ms.
    pub lifetime_ms: u64,
    /// Set exactly when the fragment flag is.
    pub fragment: Option<FragmentInfo>,
}

/// Hop count block (RFC 9171 4.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopCount {
    /// Largest count allowed, 1 to 255.
    pub limit: u8,
    /// Hops so far.
    pub count: u64,
}

/// ION's quality-of-service block (type 193): `[flags, class, ordinal, label]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QualityOfService {
    /// Flags: 0x01 unreliable, 0x02 critical, 0x04 flow label present, 0x08 reliable (ION).
    pub flags: u64,
    /// Class of service.
    pub priority: Priority,
    /// Order within expedited.
    pub ordinal: u8,
    /// Data label.
    pub label: u64,
}

/// What a canonical block holds, as far as this node understands it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockData {
    /// Type 6.
    PreviousNode(EndpointId),
    /// Type 7, ms.
    Age(u64),
    /// Type 10.
    HopCount(HopCount),
    /// Type 193 (ION).
    QualityOfService(QualityOfService),
    /// Type 240, ours, private use: labels of the router and of the congestion control, such as the
    /// copies a replicating router handed over.
    Labels([u32; 2]),
    /// Type 241, ours, private use, always the number 1: a node on the way had the bundle from a neighbour nobody
    /// configured.
    Unvouched,
    /// Any other type: carried verbatim.
    Unknown(Bytes),
}

/// An extension block: every canonical block but the payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionBlock {
    /// Block type code.
    pub kind: u64,
    /// Block number, unique in the bundle, at least 2.
    pub number: u64,
    /// Block processing control flags.
    pub flags: BlockFlags,
    /// CRC of this block.
    pub crc: CrcType,
    /// Its data.
    pub data: BlockData,
    /// The block as received, forwarded verbatim while `data` is untouched; `None` once changed or
    /// when made here.
    pub raw: Option<Bytes>,
}

/// A whole bundle: blocks before the payload are parsed, the payload is a rope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// The primary block.
    pub primary: Primary,
    /// The primary block as received, forwarded verbatim; `None` when made here.
    pub primary_raw: Option<Bytes>,
    /// Extension blocks in wire order.
    pub extensions: Vec<ExtensionBlock>,
    /// Flags of the payload block.
    pub payload_flags: BlockFlags,
    /// CRC of the payload block.
    pub payload_crc: CrcType,
    /// CRC of the payload block as received, written again while the payload is untouched: a payload
    /// on disk need not be read to be forwarded. Set to `None` by whoever changes the payload block.
    pub payload_crc_value: Option<u32>,
    /// The payload.
    pub payload: Payload,
}

/// An encoded bundle in three parts, so that the payload is never copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Everything before the payload's bytes, contiguous.
    pub head: Bytes,
    /// The payload's bytes.
    pub payload: Payload,
    /// Everything after them.
    pub tail: Bytes,
}
impl Encoded {
    /// The whole bundle as one rope.
    pub fn into_payload(self) -> Payload {
        let mut rope = Payload::from(self.head);
        rope.append(self.payload);
        rope.push_bytes(self.tail);
        rope
    }
    /// Length of the whole bundle.
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + self.tail.len() as u64
    }
    /// Never: a bundle has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

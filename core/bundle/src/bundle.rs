//! In-memory representation of a bundle with all its blocks. Decoder and builder keep the fields consistent.

use crate::EndpointId;
use alloc::vec::Vec;
use farlink_base::{Bytes, CrcType, CreationTimestamp, FragmentInfo, Payload, Priority};

/// Bundle processing control flags (RFC 9171 4.2.3). Unknown bits are kept and ignored.
// 9171-4.2.3-4
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BundleFlags(pub u64);
impl BundleFlags {
    /// The bundle is a fragment of another.
    pub const FRAGMENT: u64 = 0x1;
    /// The payload is an administrative record.
    pub const ADMIN: u64 = 0x2;
    /// The bundle must not be fragmented.
    pub const NO_FRAGMENT: u64 = 0x4;
    /// The application asks for an acknowledgment.
    pub const APP_ACK: u64 = 0x20;
    /// Status times are wanted in reports.
    pub const STATUS_TIME: u64 = 0x40;
    /// A report of reception is requested.
    pub const REPORT_RECEPTION: u64 = 0x4000;
    /// A report of forwarding is requested.
    pub const REPORT_FORWARDING: u64 = 0x1_0000;
    /// A report of delivery is requested.
    pub const REPORT_DELIVERY: u64 = 0x2_0000;
    /// A report of deletion is requested.
    pub const REPORT_DELETION: u64 = 0x4_0000;
    /// Mask of all report requests.
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
    /// Replicate the block in every fragment.
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

/// Primary block (RFC 9171 4.3.1).
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Primary {
    /// Bundle processing control flags.
    pub flags: BundleFlags,
    /// CRC of the primary block.
    pub crc: CrcType,
    pub destination: EndpointId,
    pub source: EndpointId,
    /// Report-to endpoint; null for none.
    pub report_to: EndpointId,
    pub creation: CreationTimestamp,
    pub lifetime_ms: u64,
    /// Position of a fragment; set exactly when the fragment flag is.
    pub fragment: Option<FragmentInfo>,
}

/// Hop count block (RFC 9171 4.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopCount {
    /// Largest count allowed, 1 to 255.
    pub limit: u8,
    /// Hops counted so far.
    pub count: u64,
}

/// ION's quality-of-service block (type 193): `[flags, class, ordinal, label]`.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QualityOfService {
    /// Flags: 0x01 unreliable, 0x02 critical, 0x04 flow label present, 0x08 reliable (ION).
    pub flags: u64,
    pub priority: Priority,
    /// Ordinal within the expedited class.
    pub ordinal: u8,
    /// Flow label, valid with flag 0x04.
    pub label: u64,
}

/// Content of a canonical block, parsed if its type is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockData {
    /// Previous node (type 6).
    PreviousNode(EndpointId),
    /// Bundle age in ms (type 7).
    Age(u64),
    /// Hop count (type 10).
    HopCount(HopCount),
    /// Quality of service (type 193, ION).
    QualityOfService(QualityOfService),
    /// Labels of the router and of the congestion control, such as the number of copies that a replicating router hands
    /// over (type 240, Farlink's private block).
    Labels([u32; 2]),
    /// Marks a bundle that a node on the path received from an unconfigured neighbour; always the number 1 (type 241,
    /// Farlink's private block).
    Unvouched,
    /// Any other type, carried verbatim.
    Unknown(Bytes),
}

/// Extension block: any canonical block but the payload block.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionBlock {
    /// Block type code.
    pub kind: u64,
    /// Block number, unique in the bundle, at least 2.
    pub number: u64,
    pub flags: BlockFlags,
    /// CRC type of this block.
    pub crc: CrcType,
    /// Parsed content.
    pub data: BlockData,
    /// Block as received, forwarded verbatim while `data` is untouched; `None` once changed, or if made here.
    pub raw: Option<Bytes>,
}

/// Whole bundle: the blocks before the payload are parsed, the payload is a rope.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    pub primary: Primary,
    /// Primary block as received, forwarded verbatim; `None` if made here.
    pub primary_raw: Option<Bytes>,
    /// Extension blocks in wire order.
    pub extensions: Vec<ExtensionBlock>,
    /// Flags of the payload block.
    pub payload_flags: BlockFlags,
    /// CRC type of the payload block.
    pub payload_crc: CrcType,
    /// Received CRC value of the payload block, written again while the payload is unchanged, so that a payload on disk
    /// need not be read to be forwarded. Set it to `None` with any change of the payload block.
    pub payload_crc_value: Option<u32>,
    pub payload: Payload,
}

/// Encoded bundle in three parts, so that the payload is never copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Bytes before the payload, contiguous.
    pub head: Bytes,
    /// Payload bytes, shared.
    pub payload: Payload,
    /// Bytes after the payload.
    pub tail: Bytes,
}
impl Encoded {
    /// Joins the parts to one rope.
    pub fn into_payload(self) -> Payload {
        let mut rope = Payload::from(self.head);
        rope.append(self.payload);
        rope.push_bytes(self.tail);
        rope
    }
    /// Length of the whole bundle, bytes.
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + self.tail.len() as u64
    }
    /// Always false for a real bundle, which has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

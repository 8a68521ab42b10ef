//! A bundle as the engine knows it, independent of its protocol version: facts that any code may read, the payload, and
//! the blocks around it as bytes that only a codec reads.
//!
//! One [`BundleMeta`] is shared by all holders of a bundle in one process and never changes. A [`HopState`] holds the
//! fields that change from node to node.

use crate::eid::EndpointId;
use crate::event::{BundleKey, DeleteReason};
use crate::id::NodeId;
use crate::identity::{BundleId, CreationTimestamp};
use crate::payload::Payload;
use crate::priority::Priority;
use crate::time::DtnTime;
use crate::words::CrcType;
use alloc::boxed::Box;

/// Properties and requests of a bundle, as bits with the same meaning in every protocol version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Facts(pub u32);
impl Facts {
    /// The payload is an administrative record.
    pub const ADMIN: u32 = 1;
    /// The bundle must not be fragmented.
    pub const NO_FRAGMENT: u32 = 1 << 1;
    /// The application asks for an acknowledgment.
    pub const APP_ACK: u32 = 1 << 2;
    /// Status reports should contain times.
    pub const STATUS_TIME: u32 = 1 << 3;
    /// A report of reception is requested.
    pub const REPORT_RECEPTION: u32 = 1 << 4;
    /// A report of forwarding is requested.
    pub const REPORT_FORWARDING: u32 = 1 << 5;
    /// A report of delivery is requested.
    pub const REPORT_DELIVERY: u32 = 1 << 6;
    /// A report of deletion is requested.
    pub const REPORT_DELETION: u32 = 1 << 7;
    /// Mask of all report requests.
    pub const REPORTS: u32 =
        Self::REPORT_RECEPTION | Self::REPORT_FORWARDING | Self::REPORT_DELIVERY | Self::REPORT_DELETION;
    /// The bundle may be lost on the way (LTP green).
    pub const UNRELIABLE: u32 = 1 << 8;
    /// A copy should go over every plausible route.
    pub const CRITICAL: u32 = 1 << 9;
    /// The bundle carries an age, which each node increases.
    pub const AGE: u32 = 1 << 10;
    /// The bundle counts hops against [`BundleMeta::hop_limit`].
    pub const HOPS: u32 = 1 << 11;
    /// Custody transfer is requested.
    pub const CUSTODY: u32 = 1 << 12;
    /// The payload is encrypted; cleared if this node is a destination and can decrypt it.
    pub const SEALED: u32 = 1 << 13;
    /// Mask of the requests that applications make and that the primary block carries.
    pub const REQUESTS: u32 = Self::REPORTS | Self::NO_FRAGMENT | Self::APP_ACK | Self::STATUS_TIME;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// Processing that unknown blocks or failed security operations demand (RFC 9171 4.2.4). A codec leaves out blocks to
/// be discarded when it reads, so they need no bit here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Duties(pub u8);
impl Duties {
    /// Report that a block could not be processed.
    pub const REPORT: u8 = 1;
    /// Delete the bundle because of an unknown block.
    pub const DELETE: u8 = 2;
    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// Position of the bits that hold the security reason: 0 for none, else the index in [`Self::SECURITY`] plus 1.
    const SECURITY_AT: u8 = 4;
    const SECURITY: [DeleteReason; 5] = [
        DeleteReason::MissingSecurity,
        DeleteReason::UnknownSecurity,
        DeleteReason::UnexpectedSecurity,
        DeleteReason::FailedSecurity,
        DeleteReason::ConflictingSecurity,
    ];
    /// Adds the duty to delete the bundle for a security reason (RFC 9172 11.2), replacing an earlier one. Other
    /// reasons count as a failed operation.
    #[must_use]
    pub fn with_security(self, reason: DeleteReason) -> Duties {
        // 3: a failed operation, the general case.
        let place = Self::SECURITY.iter().position(|known| *known == reason).unwrap_or(3) as u8;
        Duties(self.0 & 0x0f | (place + 1) << Self::SECURITY_AT)
    }
    /// Security reason for which the bundle must be deleted, if any.
    pub fn security(self) -> Option<DeleteReason> {
        Self::SECURITY.get(usize::from(self.0 >> Self::SECURITY_AT).checked_sub(1)?).copied()
    }
}

/// Position of a fragment in the original payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FragmentInfo {
    /// Offset of the fragment's first byte.
    pub offset: u64,
    /// Length of the original payload, as the fragment claims. Never allocate by it.
    pub total: u64,
}

/// Fields that most bundles leave at their defaults, boxed to keep [`BundleMeta`] small.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rare {
    /// Report-to endpoint; null if no reports are wanted.
    pub report_to: EndpointId,
    /// Position in the original payload; `None` if the bundle is not a fragment.
    pub fragment: Option<FragmentInfo>,
    /// Ordinal within the priority, higher first (ECOS).
    pub ordinal: u8,
    /// Flow label (ECOS data label).
    pub flow: u64,
}
impl Rare {
    /// Boxes the fields; `None` if all are at their defaults.
    pub fn boxed(self) -> Option<Box<Rare>> {
        (self != Rare::default()).then(|| Box::new(self))
    }
}

/// Immutable part of a bundle, shared by all holders and made by a codec.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub struct BundleMeta {
    /// Identity as a number ([`BundleId::fingerprint_in`] the version). Anonymous bundles have no identity (RFC 9171
    /// 4.2.3): never compare this field of two anonymous bundles.
    pub id: u128,
    /// Source endpoint.
    pub source: EndpointId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Creation time, DTN ms; 0 if the source had no clock.
    pub created_ms: u64,
    /// Sequence number of the creation timestamp.
    pub sequence: u64,
    pub lifetime_ms: u64,
    /// Payload as it arrived: in memory, on disk, or a fill pattern.
    pub payload: Payload,
    /// Properties and requests ([`Facts`]).
    pub facts: Facts,
    /// Version of the bundle protocol, which selects the codec.
    pub version: u8,
    pub priority: Priority,
    /// Processing that unknown blocks demand ([`Duties`]).
    pub duties: Duties,
    /// Hop limit, valid with [`Facts::HOPS`].
    pub hop_limit: u8,
    /// Fields that most bundles leave at their defaults, boxed to keep [`BundleMeta`] small.
    pub rare: Option<Box<Rare>>,
    /// All bytes before the payload, as received; in versions with blocks after the payload, those too. Only the codec
    /// of the version reads them.
    pub head: Box<[u8]>,
    /// Offset of the end of the primary block in `head`, by which the block can be skipped unparsed; 0: the codec
    /// searches for it.
    pub primary_end: u16,
    /// Codec's data about the bytes after the payload: in version 7 the payload's CRC, in version 6 the number of these
    /// bytes, which are the end of `head`.
    pub tail: u32,
    /// Number of bytes after the payload that are not in `head`.
    pub tail_len: u8,
    /// Digest of the payload under this node's key ([`DigestKey`](crate::DigestKey)), of the plaintext if this node can
    /// decrypt it; 0: not computed.
    pub digest: u64,
}

impl BundleMeta {
    /// Encoded length as received, bytes; forwarding may add some.
    #[inline]
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + u64::from(self.tail_len)
    }
    /// Number of bytes of the encoded bundle that are not payload.
    pub fn overhead(&self) -> u64 {
        self.head.len() as u64 + u64::from(self.tail_len)
    }
    /// Bytes of memory for the head and for the endpoint names parsed from it.
    pub fn head_bytes(&self) -> u64 {
        let names = [&self.source, &self.destination, self.report_to()].map(EndpointId::name_bytes);
        self.head.len() as u64 + names.iter().sum::<u64>()
    }
    /// Number of the destination's node.
    #[inline]
    pub fn destination_node(&self) -> NodeId {
        self.destination.node()
    }
    /// Position in the original payload; `None` if the bundle is not a fragment.
    pub fn fragment(&self) -> Option<FragmentInfo> {
        self.rare.as_ref().and_then(|rare| rare.fragment)
    }
    /// Report-to endpoint; null if no reports are wanted.
    pub fn report_to(&self) -> &EndpointId {
        const NOWHERE: &EndpointId = &EndpointId::Null;
        self.rare.as_ref().map_or(NOWHERE, |rare| &rare.report_to)
    }
    /// Whether the bundle has no source and hence no identity: it is never a duplicate, never copied and never
    /// fragmented.
    #[inline]
    pub fn is_anonymous(&self) -> bool {
        self.source.is_null()
    }
    /// Whether the payload is an administrative record.
    #[inline]
    pub fn is_administrative(&self) -> bool {
        self.facts.has(Facts::ADMIN)
    }
    /// Whether the destination may have several members.
    pub fn is_for_group(&self) -> bool {
        !self.destination.is_singleton()
    }
    /// Whether the bundle may be fragmented (RFC 9171 4.2.3) and has more than one byte of payload.
    // 5050-5.8-1
    pub fn may_fragment(&self) -> bool {
        !self.facts.has(Facts::NO_FRAGMENT) && !self.is_anonymous() && self.payload.len() > 1
    }
    /// Whether all of these reports are requested and there is an endpoint to receive them. Requests of anonymous and
    /// administrative bundles are void (RFC 9171 4.2.3).
    pub fn wants_report(&self, bits: u32) -> bool {
        // Reports about reports could go back and forth for ever, and a report about an anonymous bundle would name no
        // bundle.
        self.facts.has(bits) && !self.is_administrative() && !self.is_anonymous() && !self.report_to().is_null()
    }
    /// Creation timestamp, assembled from its two fields.
    pub fn creation(&self) -> CreationTimestamp {
        CreationTimestamp { time: DtnTime(self.created_ms), sequence: self.sequence }
    }
    /// Identity with all its fields, for people and programs.
    pub fn identity(&self) -> BundleId {
        BundleId {
            source: self.source.clone(),
            creation: self.creation(),
            fragment: self.fragment().map(|f| (f.offset, self.payload.len())),
        }
    }
    /// Identity, as a number, of the original bundle of a fragment; for a whole bundle its own.
    pub fn original_id(&self) -> u128 {
        // The fingerprint of a whole bundle is known; only a fragment needs that of its original computed.
        if self.fragment().is_none() { self.id } else { self.identity().original().fingerprint_in(self.version) }
    }
    /// Identity in numbers, for events.
    pub fn key(&self) -> BundleKey {
        BundleKey {
            source: self.source.node(),
            service: self.source.service_number(),
            time: self.created_ms,
            sequence: self.sequence,
            fragment: self.fragment().map(|f| (f.offset, self.payload.len())),
        }
    }
}

/// Number that a custodian gave to a bundle, so that one signal can cover many (the annex of CCSDS 734.2-B-1 on
/// aggregate custody signals, and CCSDS 734.6-O-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// The number itself.
    pub number: u64,
    /// Counter that gave the number; 0: the custodian has a counter for each destination.
    pub sequence: u64,
    /// Type code of the block that carries the number, if the encoding does not fix it; only the codec reads it.
    pub block: u64,
}
impl Transfer {
    /// Counter of nodes that use a single counter for all bundles.
    pub const COUNTER: u64 = 1;
}

/// CRC type of a departing bundle's blocks. The primary block always keeps its own (RFC 9171 4.3.1); the other blocks
/// may change theirs at each hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopCrc {
    /// CRC type of the blocks that this hop adds.
    pub kind: CrcType,
    /// Whether blocks that the bundle already has get this CRC, too. A block under a security operation gets none (RFC
    /// 9173 3.8.1, 4.8.1).
    pub all: bool,
}

/// Part of a bundle that changes from node to node: as received, or as it will leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopState {
    /// Previous node, or, in a departing bundle, this node. Null: not stated.
    pub previous: EndpointId,
    /// Age in ms, valid with [`Facts::AGE`].
    pub age_ms: u64,
    /// Number of hops so far, valid with [`Facts::HOPS`].
    pub hops: u8,
    /// Labels of the router and of the congestion control, if present.
    pub labels: Option<[u32; 2]>,
    /// Current custodian, or null. In a departing bundle: this node if it has custody; null leaves the field unchanged.
    pub custodian: EndpointId,
    /// Number that the custodian gave to the bundle, if any; in a departing bundle only together with a custodian.
    pub transfer: Option<Box<Transfer>>,
    /// Whether a node on the path received the bundle from an unauthenticated neighbour (private block 241). Nodes that
    /// forward the bundle later do not clear this mark.
    pub unvouched: bool,
    /// CRC type on departure; `None`: blocks added here get the primary block's CRC type, other blocks keep their own.
    pub crc: Option<HopCrc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_duty_keeps_other_duties() {
        let duties = Duties(Duties::REPORT | Duties::DELETE);
        assert_eq!(duties.security(), None);
        for reason in Duties::SECURITY {
            let both = duties.with_security(reason);
            assert!(both.security() == Some(reason) && both.has(Duties::REPORT | Duties::DELETE));
        }
        // There are bits for one reason only, so that the last one counts.
        let twice = duties.with_security(DeleteReason::MissingSecurity).with_security(DeleteReason::FailedSecurity);
        assert_eq!(twice.security(), Some(DeleteReason::FailedSecurity));
    }

    #[test]
    fn bundle_meta_and_hop_state_are_compact() {
        // A node may hold a million of them.
        assert!(size_of::<BundleMeta>() <= 176, "{}", size_of::<BundleMeta>());
        assert!(size_of::<HopState>() <= 72, "{}", size_of::<HopState>());
    }
}

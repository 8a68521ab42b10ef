//! A bundle as the engine knows it, independent of its protocol version: facts anyone may read, the payload, and the
//! blocks around it as bytes that only a codec reads.
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
    /// Times are wanted in status reports.
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
    /// Loss on the way is acceptable (LTP green).
    pub const UNRELIABLE: u32 = 1 << 8;
    /// A copy should go over every plausible route.
    pub const CRITICAL: u32 = 1 << 9;
    /// The bundle carries an age, which each node increases.
    pub const AGE: u32 = 1 << 10;
    /// The bundle counts hops against [`BundleMeta::hop_limit`].
    pub const HOPS: u32 = 1 << 11;
    /// Custody transfer is requested.
    pub const CUSTODY: u32 = 1 << 12;
    /// The payload is encrypted, and this node lacks the key.
    pub const SEALED: u32 = 1 << 13;
    /// Mask of the bits a source may set; the others follow from the bundle's content.
    pub const REQUESTS: u32 = Self::REPORTS | Self::NO_FRAGMENT | Self::APP_ACK | Self::STATUS_TIME;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// Processing that unknown blocks demand (RFC 9171 4.2.4). Blocks to be discarded are gone already: a codec omits them
/// when it reads.
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

    /// From this bit up: index in [`Self::SECURITY`] plus one, or 0.
    const SECURITY_AT: u8 = 4;
    const SECURITY: [DeleteReason; 5] = [
        DeleteReason::MissingSecurity,
        DeleteReason::UnknownSecurity,
        DeleteReason::UnexpectedSecurity,
        DeleteReason::FailedSecurity,
        DeleteReason::ConflictingSecurity,
    ];
    /// Adds the duty to delete the bundle for a security reason (RFC 9172 11.2); any other reason counts as a failed
    /// operation.
    #[must_use]
    pub fn with_security(self, reason: DeleteReason) -> Duties {
        // 3: a failed operation, the general case.
        let place = Self::SECURITY.iter().position(|known| *known == reason).unwrap_or(3) as u8;
        Duties(self.0 & 0x0f | (place + 1) << Self::SECURITY_AT)
    }
    /// Security reason to delete the bundle, if any.
    pub fn security(self) -> Option<DeleteReason> {
        Self::SECURITY.get(usize::from(self.0 >> Self::SECURITY_AT).checked_sub(1)?).copied()
    }
}

/// Position of a fragment in the original payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FragmentInfo {
    /// Offset of the fragment's first byte.
    pub offset: u64,
    /// Length of the original payload, as claimed. Never allocate from it.
    pub total: u64,
}

/// Fields that most bundles leave at their defaults, boxed to keep [`BundleMeta`] small.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rare {
    /// Report-to endpoint; null if reports are not wanted.
    pub report_to: EndpointId,
    /// Position in the original payload, for a fragment.
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

/// Immutable part of a bundle, shared by all holders. Made by a codec.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub struct BundleMeta {
    /// [`BundleId::fingerprint_in`] its version. Bundles of the null endpoint have no identity (RFC 9171 4.2.3): never
    /// compare theirs.
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
    /// Payload as it arrived: in memory, on disk, or a pattern.
    pub payload: Payload,
    /// Properties and requests ([`Facts`]).
    pub facts: Facts,
    /// Version of the bundle protocol, which picks the codec.
    pub version: u8,
    pub priority: Priority,
    /// Processing that unknown blocks demand ([`Duties`]).
    pub duties: Duties,
    /// Hop limit, valid with [`Facts::HOPS`].
    pub hop_limit: u8,
    /// Fields that most bundles leave at their defaults, boxed to keep [`BundleMeta`] small.
    pub rare: Option<Box<Rare>>,
    /// All bytes before the payload, as received; in versions with blocks after the payload, those too. Only the codec
    /// of `version` reads it.
    pub head: Box<[u8]>,
    /// End of the primary block in `head`, so that it can be skipped unparsed; 0: the codec searches.
    pub primary_end: u16,
    /// Codec state for the bytes after the payload: the payload's CRC, or their length in `head`.
    pub tail: u32,
    /// Bytes after the payload that are not in `head`.
    pub tail_len: u8,
    /// Digest of the payload by this node's key ([`DigestKey`](crate::DigestKey)), of the decrypted one if this node
    /// can read it; 0: not computed.
    pub digest: u64,
}

impl BundleMeta {
    /// Encoded length as received, bytes; a hop may add some.
    #[inline]
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + u64::from(self.tail_len)
    }
    /// Bytes of the encoded bundle that are not payload.
    pub fn overhead(&self) -> u64 {
        self.head.len() as u64 + u64::from(self.tail_len)
    }
    /// Memory of the head and of the endpoint names parsed from it, bytes.
    pub fn head_bytes(&self) -> u64 {
        let names = [&self.source, &self.destination, self.report_to()].map(EndpointId::name_bytes);
        self.head.len() as u64 + names.iter().sum::<u64>()
    }
    /// Node of the destination, as a number.
    #[inline]
    pub fn destination_node(&self) -> NodeId {
        self.destination.node()
    }
    /// Position in the original payload, for a fragment.
    pub fn fragment(&self) -> Option<FragmentInfo> {
        self.rare.as_ref().and_then(|rare| rare.fragment)
    }
    /// Report-to endpoint; null if reports are not wanted.
    pub fn report_to(&self) -> &EndpointId {
        const NOWHERE: &EndpointId = &EndpointId::Null;
        self.rare.as_ref().map_or(NOWHERE, |rare| &rare.report_to)
    }
    /// Whether it has no source and hence no identity: never a duplicate, never copied, never fragmented.
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
    /// Whether it may be fragmented (RFC 9171 4.2.3).
    // 5050-5.8-1
    pub fn may_fragment(&self) -> bool {
        !self.facts.has(Facts::NO_FRAGMENT) && !self.is_anonymous() && self.payload.len() > 1
    }
    /// Whether all of these reports are requested and possible. Requests of anonymous and administrative bundles are
    /// void (RFC 9171 4.2.3).
    pub fn wants_report(&self, bits: u32) -> bool {
        // A report about a report could answer back for ever, and one about an anonymous bundle names nobody.
        self.facts.has(bits) && !self.is_administrative() && !self.is_anonymous() && !self.report_to().is_null()
    }
    /// Creation timestamp, assembled from its two fields.
    pub fn creation(&self) -> CreationTimestamp {
        CreationTimestamp { time: DtnTime(self.created_ms), sequence: self.sequence }
    }
    /// Full identity, for people and programs.
    pub fn identity(&self) -> BundleId {
        BundleId {
            source: self.source.clone(),
            creation: self.creation(),
            fragment: self.fragment().map(|f| (f.offset, self.payload.len())),
        }
    }
    /// Identity of the original bundle of a fragment; its own for a whole bundle.
    pub fn original_id(&self) -> u128 {
        // Only fragments pay for computing a second fingerprint.
        if self.fragment().is_none() { self.id } else { self.identity().original().fingerprint_in(self.version) }
    }
    /// Numeric identity, for events.
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

/// A custodian's number of a bundle, so that one signal can cover many (the annex of CCSDS 734.2-B-1 on aggregate
/// custody signals, and CCSDS 734.6-O-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// The custodian's number of the bundle.
    pub number: u64,
    /// Counter that assigned the number; 0: a counter per destination.
    pub sequence: u64,
    /// Type code of its block on the wire, where that is not fixed; read by the codec only.
    pub block: u64,
}
impl Transfer {
    /// Counter of nodes that number all bundles with a single one.
    pub const COUNTER: u64 = 1;
}

/// CRC type of a departing bundle's blocks. The primary block keeps its own in any case (RFC 9171 4.3.1); of the others
/// the standard demands no lasting CRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopCrc {
    /// CRC type of the blocks that this hop adds.
    pub kind: CrcType,
    /// Whether the blocks that the bundle has get it, too. A block under a security operation gets none (RFC 9173
    /// 3.8.1, 4.8.1).
    pub all: bool,
}

/// Part of a bundle that changes from node to node: as received, or as it will leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopState {
    /// Previous node, if stated; on departure, this node. Null: not stated.
    pub previous: EndpointId,
    /// Age in ms, valid with [`Facts::AGE`].
    pub age_ms: u64,
    /// Hops so far, valid with [`Facts::HOPS`].
    pub hops: u8,
    /// Labels of the router and of the congestion control, if present.
    pub labels: Option<[u32; 2]>,
    /// Current custodian; on departure, the node that takes custody. Null: none, or unchanged.
    pub custodian: EndpointId,
    /// The custodian's number of the bundle, if it assigned one; on departure only together with a custodian.
    pub transfer: Option<Box<Transfer>>,
    /// Whether a node on the path received it from an unconfigured neighbour (private block 241): later neighbours do
    /// not vouch for it by forwarding it.
    pub unvouched: bool,
    /// CRC type on departure; `None`: added blocks have that of the primary block, and all others their own.
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

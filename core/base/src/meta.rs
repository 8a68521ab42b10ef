//! A bundle as the engine knows it, whatever its version on the wire: facts anyone may read, the
//! payload, and the blocks around it as bytes only a codec reads.
//!
//! One [`BundleMeta`] is shared by all holders of a bundle in one process and never changes; what
//! changes from hop to hop is a [`HopState`].

use crate::eid::EndpointId;
use crate::event::{BundleKey, DeleteReason};
use crate::id::NodeId;
use crate::identity::{BundleId, CreationTimestamp};
use crate::payload::Payload;
use crate::priority::Priority;
use crate::time::DtnTime;
use alloc::boxed::Box;

/// What a bundle is and asks for, as bits that mean the same in every version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Facts(pub u32);
impl Facts {
    /// The payload is an administrative record.
    pub const ADMIN: u32 = 1;
    /// Must not be fragmented.
    pub const NO_FRAGMENT: u32 = 1 << 1;
    /// The application asks for an acknowledgment.
    pub const APP_ACK: u32 = 1 << 2;
    /// Times are wanted in status reports.
    pub const STATUS_TIME: u32 = 1 << 3;
    /// Report reception.
    pub const REPORT_RECEPTION: u32 = 1 << 4;
    /// Report forwarding.
    pub const REPORT_FORWARDING: u32 = 1 << 5;
    /// Report delivery.
    pub const REPORT_DELIVERY: u32 = 1 << 6;
    /// Report deletion.
    pub const REPORT_DELETION: u32 = 1 << 7;
    /// All report requests.
    pub const REPORTS: u32 =
        Self::REPORT_RECEPTION | Self::REPORT_FORWARDING | Self::REPORT_DELIVERY | Self::REPORT_DELETION;
    /// It may be lost on the way (LTP green).
    pub const UNRELIABLE: u32 = 1 << 8;
    /// A copy should go over every plausible route.
    pub const CRITICAL: u32 = 1 << 9;
    /// It carries an age that each node adds to.
    pub const AGE: u32 = 1 << 10;
    /// It counts hops against [`BundleMeta::hop_limit`].
    pub const HOPS: u32 = 1 << 11;
    /// Custody is asked for.
    pub const CUSTODY: u32 = 1 << 12;
    /// Its payload is enciphered, and nobody here has the key.
    pub const SEALED: u32 = 1 << 13;
    /// What a source may ask for; the rest follows from what it sends.
    pub const REQUESTS: u32 = Self::REPORTS | Self::NO_FRAGMENT | Self::APP_ACK | Self::STATUS_TIME;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// What the sender of blocks this node does not know wants done about them (RFC 9171 4.2.4).
/// Blocks to be discarded are gone already: a codec leaves them out when it reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Duties(pub u8);
impl Duties {
    /// Report that a block could not be processed.
    pub const REPORT: u8 = 1;
    /// Delete the bundle.
    pub const DELETE: u8 = 2;
    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// From this bit on: for which of [`Self::SECURITY`] the bundle must go, counted from 1.
    const SECURITY_AT: u8 = 4;
    const SECURITY: [DeleteReason; 5] = [
        DeleteReason::MissingSecurity,
        DeleteReason::UnknownSecurity,
        DeleteReason::UnexpectedSecurity,
        DeleteReason::FailedSecurity,
        DeleteReason::ConflictingSecurity,
    ];
    /// The same, and the duty to delete the bundle for its security (RFC 9172 11.3); another reason is taken for a
    /// failed operation.
    #[must_use]
    pub fn with_security(self, reason: DeleteReason) -> Duties {
        let place = Self::SECURITY.iter().position(|known| *known == reason).unwrap_or(3) as u8;
        Duties(self.0 & 0x0f | (place + 1) << Self::SECURITY_AT)
    }
    /// Why the bundle must go, where that is for its security.
    pub fn security(self) -> Option<DeleteReason> {
        Self::SECURITY.get(usize::from(self.0 >> Self::SECURITY_AT).checked_sub(1)?).copied()
    }
}

/// Place of a fragment in its original payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FragmentInfo {
    /// Offset of the fragment's payload.
    pub offset: u64,
    /// Length of the original payload. Never allocate from it.
    pub total: u64,
}

/// What few bundles have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rare {
    /// Where reports go; null for nowhere.
    pub report_to: EndpointId,
    /// Which piece it is, when it is one.
    pub fragment: Option<FragmentInfo>,
    /// Order within its priority, higher first.
    pub ordinal: u8,
    /// Data label of its flow.
    pub flow: u64,
}
impl Rare {
    /// Boxed, unless it says nothing.
    pub fn boxed(self) -> Option<Box<Rare>> {
        (self != Rare::default()).then(|| Box::new(self))
    }
}

/// A bundle: the same for all who hold it. Made by a codec.
#[derive(Clone, Debug)]
pub struct BundleMeta {
    /// [`BundleId::fingerprint_in`] its version. Bundles of the null endpoint have no identity
    /// (RFC 9171 4.2.3): theirs is never compared.
    pub id: u128,
    /// Source.
    pub source: EndpointId,
    /// Destination.
    pub destination: EndpointId,
    /// Creation time, DTN ms; 0 when the source had no clock.
    pub created_ms: u64,
    /// Sequence number.
    pub sequence: u64,
    /// Lifetime, ms.
    pub lifetime_ms: u64,
    /// The payload as it arrived: in memory, on disk, or a pattern.
    pub payload: Payload,
    /// What it is and asks for.
    pub facts: Facts,
    /// Version of the bundle protocol, which picks the codec.
    pub version: u8,
    /// Class of service.
    pub priority: Priority,
    /// What unknown blocks ask for.
    pub duties: Duties,
    /// Most hops, with [`Facts::HOPS`].
    pub hop_limit: u8,
    /// What few bundles have.
    pub rare: Option<Box<Rare>>,
    /// Everything before the payload's bytes, as it came, and in versions with blocks after the payload those too;
    /// only the codec of `version` reads it.
    pub head: Box<[u8]>,
    /// Where in `head` its first block ends, so that it need not be read again to be stepped over; 0: the codec looks.
    pub primary_end: u16,
    /// What the codec needs to write what follows the payload: its CRC, or how much of `head` that is.
    pub tail: u32,
    /// Length of what follows the payload and is not in `head`.
    pub tail_len: u8,
    /// Digest of its payload by this node's key ([`DigestKey`](crate::DigestKey)), of the deciphered one where this node
    /// can read it; 0: not made.
    pub digest: u64,
}

impl BundleMeta {
    /// Encoded length as it came; a hop may add some bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + u64::from(self.tail_len)
    }
    /// Bytes that are not payload.
    pub fn overhead(&self) -> u64 {
        self.head.len() as u64 + u64::from(self.tail_len)
    }
    /// Bytes of memory that its head takes: as it came, and the names read from it.
    pub fn head_bytes(&self) -> u64 {
        let names = [&self.source, &self.destination, self.report_to()].map(EndpointId::name_bytes);
        self.head.len() as u64 + names.iter().sum::<u64>()
    }
    /// Where it is to go, in numbers.
    #[inline]
    pub fn destination_node(&self) -> NodeId {
        self.destination.node()
    }
    /// Which piece it is, when it is one.
    pub fn fragment(&self) -> Option<FragmentInfo> {
        self.rare.as_ref().and_then(|rare| rare.fragment)
    }
    /// Where reports go; null for nowhere.
    pub fn report_to(&self) -> &EndpointId {
        const NOWHERE: &EndpointId = &EndpointId::Null;
        self.rare.as_ref().map_or(NOWHERE, |rare| &rare.report_to)
    }
    /// Whether it has no source, and so no identity: never a duplicate, never copied, never cut.
    #[inline]
    pub fn is_anonymous(&self) -> bool {
        self.source.is_null()
    }
    /// Whether its payload is an administrative record.
    #[inline]
    pub fn is_administrative(&self) -> bool {
        self.facts.has(Facts::ADMIN)
    }
    /// Whether more than one node may be meant.
    pub fn is_for_group(&self) -> bool {
        !self.destination.is_singleton()
    }
    /// Whether it may be cut (RFC 9171 4.2.3).
    // 5050-5.8-1
    pub fn may_fragment(&self) -> bool {
        !self.facts.has(Facts::NO_FRAGMENT) && !self.is_anonymous() && self.payload.len() > 1
    }
    /// Whether the source asks for all of these reports. Requests of anonymous and administrative
    /// bundles are void (RFC 9171 4.2.3).
    pub fn wants_report(&self, bits: u32) -> bool {
        self.facts.has(bits) && !self.is_administrative() && !self.is_anonymous() && !self.report_to().is_null()
    }
    /// Its creation timestamp.
    pub fn creation(&self) -> CreationTimestamp {
        CreationTimestamp { time: DtnTime(self.created_ms), sequence: self.sequence }
    }
    /// Its identity, for people and programs.
    pub fn identity(&self) -> BundleId {
        BundleId {
            source: self.source.clone(),
            creation: self.creation(),
            fragment: self.fragment().map(|f| (f.offset, self.payload.len())),
        }
    }
    /// Identity of the bundle it is a piece of; its own when it is whole.
    pub fn original_id(&self) -> u128 {
        if self.fragment().is_none() { self.id } else { self.identity().original().fingerprint_in(self.version) }
    }
    /// Its identity in numbers, for events.
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

/// The number by which a custodian knows a bundle, so that one signal can be about many (the annex of
/// CCSDS 734.2-B-1 on aggregate custody signals, and CCSDS 734.6-O-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// The custodian's number of the bundle.
    pub number: u64,
    /// Which of its counters gave it; 0: one that it has for the bundle's destination.
    pub sequence: u64,
    /// What the block that says so is called on the wire, where that is not fixed; only the codec looks at it.
    pub block: u64,
}
impl Transfer {
    /// The counter of nodes that have one for all bundles.
    pub const COUNTER: u64 = 1;
}

/// What changes from hop to hop: as it came, or as it shall leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopState {
    /// The node it came from, where it says so; outwards the node it leaves. Null: not said.
    pub previous: EndpointId,
    /// Age, ms, with [`Facts::AGE`].
    pub age_ms: u64,
    /// Hops so far, with [`Facts::HOPS`].
    pub hops: u8,
    /// Labels of the router and of the congestion control; `None`: it carries none.
    pub labels: Option<[u32; 2]>,
    /// Who has custody of it; outwards who takes it. Null: nobody, or whoever had it.
    pub custodian: EndpointId,
    /// That custodian's number of the bundle; outwards with a custodian only. `None`: it gives none.
    pub transfer: Option<Box<Transfer>>,
    /// Whether a node on its way had it from a neighbour nobody configured (private block 241): the neighbours after
    /// that one do not vouch for it by passing it on.
    pub unvouched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duty_for_security_stands_beside_the_others() {
        let duties = Duties(Duties::REPORT | Duties::DELETE);
        assert_eq!(duties.security(), None);
        for reason in Duties::SECURITY {
            let both = duties.with_security(reason);
            assert!(both.security() == Some(reason) && both.has(Duties::REPORT | Duties::DELETE));
        }
        let twice = duties.with_security(DeleteReason::MissingSecurity).with_security(DeleteReason::FailedSecurity);
        assert_eq!(twice.security(), Some(DeleteReason::FailedSecurity));
    }

    #[test]
    fn a_bundle_and_its_hop_are_small() {
        assert!(size_of::<BundleMeta>() <= 176, "{}", size_of::<BundleMeta>());
        assert!(size_of::<HopState>() <= 72, "{}", size_of::<HopState>());
    }
}

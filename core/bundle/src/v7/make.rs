//! New bundles: those of applications and of this node, and those made of fragments.

use super::custody::{ReportingBlock, TransferBlock};
use super::facts::{Found, Outline, QOS_FLAGS, crc_of, flags, tail_len};
use super::rewrite::{Shape, put_head};
use crate::cbor::{Out, Reader};
use crate::check::Check;
use crate::encode::{put_block, put_payload_head, put_primary};
use crate::put::Short;
use crate::{
    BlockData, BlockFlags, BundleFlags, CrcType, CreationTimestamp, EndpointId, HopCount, Primary, QualityOfService,
};
use alloc::boxed::Box;
use farlink_base::{Accel, BundleMeta, Bytes, DtnTime, Facts, Payload, Priority, Rare, Transfer};

/// What a new bundle shall be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// Source; null for an anonymous bundle.
    pub source: EndpointId,
    /// Destination.
    pub destination: EndpointId,
    /// Where reports go; null for nowhere.
    pub report_to: EndpointId,
    /// What it is and asks for: [`Facts::ADMIN`], [`Facts::REQUESTS`], [`Facts::UNRELIABLE`] and
    /// [`Facts::CRITICAL`]; the rest follows.
    pub facts: Facts,
    /// Lifetime, ms.
    pub lifetime_ms: u64,
    /// Class of service.
    pub priority: Priority,
    /// Most hops; 0 to count none.
    pub hop_limit: u8,
    /// Labels it is born with.
    pub labels: Option<[u32; 2]>,
    /// Type of the block by which it asks for custody (CCSDS 734.6-O-1); 0: it asks for none. It must not be fragmented
    /// then. Its number comes with the hop.
    pub custody: u64,
    /// Type and content of the block by which it asks for compressed reports (CCSDS 734.6-O-1). It must not be fragmented
    /// then.
    pub reporting: Option<(u64, ReportingBlock)>,
}

impl Draft {
    /// The QoS block it needs: none for a plain bundle.
    fn qos(&self) -> Option<BlockData> {
        let marks = QOS_FLAGS.iter().fold(0, |all, (flag, fact)| if self.facts.has(*fact) { all | flag } else { all });
        (marks != 0 || self.priority != Priority::Normal).then_some(BlockData::QualityOfService(QualityOfService {
            flags: marks,
            priority: self.priority,
            ..QualityOfService::default()
        }))
    }
}

/// A payload on disk has no CRC: it is computed while the bytes are in memory or not at all
/// (RFC 9171 4.3.3 lets a payload block go without).
fn crc_for(crc: CrcType, payload: &Payload) -> CrcType {
    if payload.is_stored() { CrcType::None } else { crc }
}

/// A new bundle. What RFC 9171 4.2.3 forbids is adjusted: an anonymous one must not be fragmented
/// and asks for no reports, an administrative one asks for no reports. Without creation time it has
/// an age (4.4.2). The CRC of the payload is computed here, once; the primary block has one in any
/// case (4.3.1).
pub fn make(draft: &Draft, creation: CreationTimestamp, payload: Payload, crc: CrcType, accel: &Accel) -> BundleMeta {
    let signs = !draft.source.is_null() && !draft.facts.has(Facts::ADMIN);
    let asks = draft.custody > 0 && signs;
    let reports = draft.reporting.as_ref().filter(|_| signs);
    let primary = primary(draft, creation, crc, asks || reports.is_some());
    let (mut head, mut found) = (Short::new(), Found::default());
    head.byte(0x9f);
    put_primary(&primary, &mut head, accel);
    let primary_end = u16::try_from(head.at()).unwrap_or(0);
    let mut number = 1;
    let mut add = |kind, data: BlockData| {
        number += 1;
        // They travel with all copies, and through nodes that do not know them.
        put_block((kind, number, BlockFlags(BlockFlags::REPLICATE), primary.crc), &data, &mut head, accel);
        found.understood(data);
    };
    if draft.hop_limit > 0 {
        add(10, BlockData::HopCount(HopCount { limit: draft.hop_limit, count: 0 }));
    }
    if let Some(qos) = draft.qos() {
        add(193, qos);
    }
    if let Some(labels) = draft.labels {
        add(240, BlockData::Labels(labels));
    }
    // 9171-4.4.2-2
    if creation.time == DtnTime::UNKNOWN {
        add(7, BlockData::Age(0));
    }
    if asks {
        let custodian = draft.source.node_id();
        let block = TransferBlock { number: 0, sequence: Transfer::COUNTER, custodian };
        add(draft.custody, BlockData::Unknown(Bytes::from(block.encode())));
    }
    if let Some((kind, block)) = reports {
        add(*kind, BlockData::Unknown(Bytes::from(block.encode())));
    }
    let (start, crc) = (head.at(), crc_for(crc, &payload));
    put_payload_head(BlockFlags::default(), crc, payload.len(), &mut head);
    let tail = Check::of(crc, head.since(start), &payload, accel).value().unwrap_or(0);
    let outline = Outline { primary, primary_end, head: Box::from(head.bytes()), tail_len: tail_len(crc, false) };
    found.into_meta(outline, payload, tail).0
}

/// Where the primary block of a head ends; 0 where no number of 16 bits says so.
fn primary_end(head: &[u8]) -> u16 {
    let mut reader = Reader::new(head, 0, false);
    let there = reader.take(1).is_ok() && reader.item().is_ok();
    u16::try_from(reader.position()).ok().filter(|_| there).unwrap_or(0)
}

/// The primary block of a new bundle, which always has a CRC. `whole`: it must not be fragmented.
// 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.3.1-6, 9171-4.3.1-13
fn primary(draft: &Draft, creation: CreationTimestamp, crc: CrcType, whole: bool) -> Primary {
    let (anonymous, admin) = (draft.source.is_null(), draft.facts.has(Facts::ADMIN));
    let mut bits = flags(draft.facts) & !BundleFlags::FRAGMENT;
    if anonymous || whole {
        bits |= BundleFlags::NO_FRAGMENT;
    }
    if anonymous || admin {
        bits &= !BundleFlags::REPORTS;
    }
    Primary {
        flags: BundleFlags(bits),
        crc: if crc == CrcType::None { CrcType::Crc32c } else { crc },
        destination: draft.destination.clone(),
        source: draft.source.clone(),
        report_to: draft.report_to.clone(),
        creation,
        lifetime_ms: draft.lifetime_ms,
        fragment: None,
    }
}

/// The bundle that fragments make (RFC 9171 5.9): the blocks of the fragment at offset 0, and the
/// whole payload. Where that is on disk, its block goes without CRC.
// 9171-5.9-1
pub fn whole(first: &BundleMeta, payload: Payload, accel: &Accel) -> BundleMeta {
    let crc = crc_for(crc_of(first.tail_len), &payload);
    let shape = Shape { fragment: None, len: payload.len(), crc, all_blocks: true, age: true };
    let mut head = Short::new();
    // The head of a bundle that exists can be read.
    let block = put_head(first, None, false, Some(&shape), accel, &mut head).unwrap_or(head.at());
    let tail = Check::of(crc, head.since(block), &payload, accel).value().unwrap_or(0);
    let rare = first.rare.as_deref().cloned().map(|rare| Rare { fragment: None, ..rare });
    BundleMeta {
        id: first.original_id(),
        payload,
        rare: rare.and_then(Rare::boxed),
        head: Box::from(head.bytes()),
        primary_end: primary_end(head.bytes()),
        tail,
        tail_len: tail_len(crc, false),
        digest: 0,
        ..first.clone()
    }
}

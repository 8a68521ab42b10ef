//! Construction of bundles: new ones of applications and of this node, and reassembled ones.

use super::custody::{ReportingBlock, TransferBlock};
use super::facts::{BlockSummary, Outline, QOS_FLAGS, crc_of, flags, tail_len};
use super::rewrite::{PayloadShape, PrimaryShape, put_head};
use crate::cbor::{ByteSink, CborReader};
use crate::check::PayloadCheck;
use crate::encode::{put_block, put_payload_head, put_primary};
use crate::put::Short;
use crate::{
    BlockData, BlockFlags, BundleFlags, CrcType, CreationTimestamp, EndpointId, HopCount, Primary, QualityOfService,
};
use alloc::boxed::Box;
use farlink_base::{Accel, BundleMeta, Bytes, DtnTime, Facts, Payload, Priority, Rare, Transfer};

/// Properties of a new bundle.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BundleDraft {
    /// Source; null for an anonymous bundle.
    pub source: EndpointId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Report-to endpoint; null if reports are not wanted.
    pub report_to: EndpointId,
    /// Properties and requests: [`Facts::ADMIN`], [`Facts::REQUESTS`], [`Facts::UNRELIABLE`] and [`Facts::CRITICAL`];
    /// the others follow from the content.
    pub facts: Facts,
    pub lifetime_ms: u64,
    pub priority: Priority,
    /// Hop limit; 0: hops are not counted.
    pub hop_limit: u8,
    /// Initial labels of router and congestion control.
    pub labels: Option<[u32; 2]>,
    /// Type of the custody transfer block (CCSDS 734.6-O-1); 0: custody is not requested. A bundle with such a block
    /// must not be fragmented. [`super::render`] takes the custody number from the hop state.
    pub custody: u64,
    /// Type and content of the compressed reporting block (CCSDS 734.6-O-1). A bundle with such a block must not be
    /// fragmented.
    pub reporting: Option<(u64, ReportingBlock)>,
}

impl BundleDraft {
    /// QoS block, if the bundle needs one.
    fn qos(&self) -> Option<BlockData> {
        let marks = QOS_FLAGS.iter().fold(0, |all, (flag, fact)| if self.facts.has(*fact) { all | flag } else { all });
        (marks != 0 || self.priority != Priority::Normal).then_some(BlockData::QualityOfService(QualityOfService {
            flags: marks,
            priority: self.priority,
            ..QualityOfService::default()
        }))
    }
}

/// CRC type of a payload block: none for a payload on disk, which is not read to compute one (RFC 9171 4.3.2 permits
/// that).
fn crc_for(crc: CrcType, payload: &Payload) -> CrcType {
    if payload.is_stored() { CrcType::None } else { crc }
}

/// Creates a bundle. Combinations that RFC 9171 4.2.3 forbids are adjusted: an anonymous bundle must not be fragmented
/// and requests no reports, an administrative one requests no reports. Without creation time it gets an age block
/// (4.4.2). All blocks get the CRC type `crc`, except that the primary block always has a CRC (4.3.1) and a payload on
/// disk has none.
pub fn make(
    draft: &BundleDraft,
    creation: CreationTimestamp,
    payload: Payload,
    crc: CrcType,
    accel: &Accel,
) -> BundleMeta {
    // Anonymous bundles and administrative records request neither custody nor reports.
    let signs = !draft.source.is_null() && !draft.facts.has(Facts::ADMIN);
    let asks = draft.custody > 0 && signs;
    let reports = draft.reporting.as_ref().filter(|_| signs);
    let primary = primary(draft, creation, crc, asks || reports.is_some());
    let (mut head, mut found) = (Short::new(), BlockSummary::default());
    head.byte(0x9f);
    put_primary(&primary, &mut head, accel);
    let primary_end = u16::try_from(head.at()).unwrap_or(0);
    let mut number = 1;
    let mut add = |kind, data: BlockData| {
        number += 1;
        // Every fragment gets the block; the other flags are clear, so that nodes which do not know the block forward
        // it.
        put_block((kind, number, BlockFlags(BlockFlags::REPLICATE), crc), &data, &mut head, accel);
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
    let tail = PayloadCheck::of(crc, head.since(start), &payload, accel).value().unwrap_or(0);
    let outline = Outline { primary, primary_end, head: Box::from(head.bytes()), tail_len: tail_len(crc, false) };
    found.into_meta(outline, payload, tail).0
}

/// End of the primary block of a head; 0 if beyond 16 bits.
fn primary_end(head: &[u8]) -> u16 {
    let mut reader = CborReader::new(head, 0, false);
    let there = reader.take(1).is_ok() && reader.item().is_ok();
    u16::try_from(reader.position()).ok().filter(|_| there).unwrap_or(0)
}

/// Primary block of a new bundle, which always has a CRC. `whole`: it must not be fragmented.
// 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.3.1-6, 9171-4.3.1-13
fn primary(draft: &BundleDraft, creation: CreationTimestamp, crc: CrcType, whole: bool) -> Primary {
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

/// Reassembles a bundle (RFC 9171 5.9) from the blocks of the fragment at offset 0 and the whole payload. A payload on
/// disk gets no CRC.
// 9171-5.9-1
pub fn whole(first: &BundleMeta, payload: Payload, accel: &Accel) -> BundleMeta {
    let crc = crc_for(crc_of(first.tail_len), &payload);
    let primary = PrimaryShape::Whole;
    let shape = PayloadShape { primary, len: payload.len(), crc, all_blocks: true, age: true };
    let mut head = Short::new();
    // The stored head of an existing bundle always parses.
    let block = put_head(first, None, false, Some(&shape), accel, &mut head).unwrap_or(head.at());
    let tail = PayloadCheck::of(crc, head.since(block), &payload, accel).value().unwrap_or(0);
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

//! New bundles: those of applications and of this node, and those made of fragments.

use super::custody::{ReportingBlock, TransferBlock};
use super::facts::{Found, Outline, QOS_FLAGS, crc_of, flags, tail_len};
use super::rewrite::{Shape, put_head};
use crate::cbor::Count;
use crate::check::Check;
use crate::{BlockData, BlockFlags, Bundle, CrcType, CreationTimestamp, EndpointId, ExtensionBlock, QualityOfService};
use alloc::vec::Vec;
use farlink_base::{Accel, BundleMeta, Bytes, Facts, Payload, Priority, Rare, Transfer};

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
    let asks = draft.custody > 0 && !draft.source.is_null() && !draft.facts.has(Facts::ADMIN);
    let reports = draft.reporting.as_ref().filter(|_| !draft.source.is_null() && !draft.facts.has(Facts::ADMIN));
    let whole = if asks || reports.is_some() { Facts::NO_FRAGMENT } else { 0 };
    let mut builder = Bundle::new(draft.source.clone(), draft.destination.clone(), creation)
        .flags(flags(Facts(draft.facts.0 | whole)))
        .report_to(draft.report_to.clone())
        .lifetime_ms(draft.lifetime_ms)
        .crc(crc)
        .hop_limit(draft.hop_limit);
    for data in draft.qos().into_iter().chain(draft.labels.map(BlockData::Labels)) {
        builder = builder.block(data);
    }
    let mut bundle = builder.payload(payload).build();
    if asks {
        let custodian = draft.source.node_id();
        let block = TransferBlock { number: 0, sequence: Transfer::COUNTER, custodian };
        push(&mut bundle, draft.custody, block.encode());
    }
    if let Some((kind, block)) = reports {
        push(&mut bundle, *kind, block.encode());
    }
    bundle.payload_crc = crc_for(crc, &bundle.payload);
    let (head, tail) = bundle.encode_head(accel);
    let mut found = Found::default();
    bundle.extensions.into_iter().for_each(|block| found.understood(block.data));
    let tail_len = tail_len(bundle.payload_crc, false);
    let outline = Outline { primary: bundle.primary, head: head.into_boxed_slice(), tail_len };
    found.into_meta(outline, bundle.payload, tail).0
}

/// A block that travels with all copies, and through nodes that do not know it.
fn push(bundle: &mut Bundle, kind: u64, data: Vec<u8>) {
    let (number, crc) = (bundle.free_block_number(), bundle.primary.crc);
    let (flags, data) = (BlockFlags(BlockFlags::REPLICATE), BlockData::Unknown(Bytes::from(data)));
    bundle.extensions.push(ExtensionBlock { kind, number, flags, crc, data, raw: None });
}

/// The bundle that fragments make (RFC 9171 5.9): the blocks of the fragment at offset 0, and the
/// whole payload. Where that is on disk, its block goes without CRC.
// 9171-5.9-1
pub fn whole(first: &BundleMeta, payload: Payload, accel: &Accel) -> BundleMeta {
    let crc = crc_for(crc_of(first.tail_len), &payload);
    let shape = Shape { fragment: None, len: payload.len(), crc, all_blocks: true, age: true };
    let mut count = Count::default();
    // The head of a bundle that exists can be read.
    let _ = put_head(&first.head, None, false, Some(&shape), accel, &mut count);
    let mut head = Vec::with_capacity(count.0);
    let block = put_head(&first.head, None, false, Some(&shape), accel, &mut head).unwrap_or(head.len());
    let tail = Check::of(crc, &head[block..], &payload, accel).value().unwrap_or(0);
    let rare = first.rare.as_deref().cloned().map(|rare| Rare { fragment: None, ..rare });
    BundleMeta {
        id: first.original_id(),
        payload,
        rare: rare.and_then(Rare::boxed),
        head: head.into_boxed_slice(),
        tail,
        tail_len: tail_len(crc, false),
        ..first.clone()
    }
}

//! Translation of flags and blocks into facts of the engine.

use crate::cbor::{BREAK, ByteSink};
use crate::crc::put_crc;
use crate::head::{Block, targets};
use crate::{BlockData, BlockFlags, BundleFlags, CrcType, HopCount, Primary, QualityOfService};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleId, BundleMeta, Duties, Facts, HopState, Payload, Priority, Rare};

/// Pairs of flags of the QoS block (ION) and facts.
pub(super) const QOS_FLAGS: [(u64, u32); 2] = [(0x01, Facts::UNRELIABLE), (0x02, Facts::CRITICAL)];
/// Flag: the QoS block has a flow label.
const QOS_LABEL: u64 = 0x04;

/// Block types of integrity and confidentiality blocks (RFC 9172 3.7, 3.8).
pub(super) const INTEGRITY: u64 = 11;
pub(super) const CONFIDENTIALITY: u64 = 12;

/// Pairs of bundle processing control flags (RFC 9171 4.2.3) and facts.
const FLAGS: [(u64, u32); 8] = [
    (BundleFlags::ADMIN, Facts::ADMIN),
    (BundleFlags::NO_FRAGMENT, Facts::NO_FRAGMENT),
    (BundleFlags::APP_ACK, Facts::APP_ACK),
    (BundleFlags::STATUS_TIME, Facts::STATUS_TIME),
    (BundleFlags::REPORT_RECEPTION, Facts::REPORT_RECEPTION),
    (BundleFlags::REPORT_FORWARDING, Facts::REPORT_FORWARDING),
    (BundleFlags::REPORT_DELIVERY, Facts::REPORT_DELIVERY),
    (BundleFlags::REPORT_DELETION, Facts::REPORT_DELETION),
];

// 9171-4.2.3-3, 9171-4.2.3-4
fn facts(flags: BundleFlags) -> u32 {
    FLAGS.iter().fold(0, |facts, (flag, fact)| if flags.has(*flag) { facts | fact } else { facts })
}
/// Facts expressed by bundle processing control flags.
pub fn facts_of(flags: u64) -> Facts {
    Facts(facts(BundleFlags(flags)))
}
/// Bundle processing control flags that express these facts.
pub(super) fn flags(facts: Facts) -> u64 {
    FLAGS.iter().fold(0, |flags, (flag, fact)| if facts.has(*fact) { flags | flag } else { flags })
}

/// Length of the bytes after the payload: its CRC, a break if its block is `open`, and the end of the bundle.
pub(super) const fn tail_len(crc: CrcType, open: bool) -> u8 {
    let closed = match crc {
        CrcType::None => 1,
        CrcType::Crc16 => 4,
        CrcType::Crc32c => 6,
    };
    closed + open as u8
}
/// CRC type that gives this [`tail_len`].
pub(super) const fn crc_of(tail_len: u8) -> CrcType {
    match tail_len {
        4 | 5 => CrcType::Crc16,
        6 | 7 => CrcType::Crc32c,
        _ => CrcType::None,
    }
}
/// Writes the bytes after the payload.
pub(super) fn put_tail(tail: u32, len: u8, out: &mut impl ByteSink) {
    let crc = crc_of(len);
    put_crc(out, crc, tail);
    if len == tail_len(crc, true) {
        out.byte(BREAK);
    }
    out.byte(BREAK);
}

/// Owned copy of a parsed head.
pub(super) struct Outline {
    pub(super) primary: Primary,
    /// End of the primary block; 0 if beyond 16 bits.
    pub(super) primary_end: u16,
    pub(super) head: Box<[u8]>,
    pub(super) tail_len: u8,
}

/// Summary of the extension blocks of one bundle.
#[derive(Default)]
pub(super) struct BlockSummary {
    pub(super) hop: HopState,
    facts: u32,
    duties: Duties,
    qos: Option<QualityOfService>,
    hop_limit: u8,
    /// Whether the bundle has BPSec blocks.
    pub(super) guarded: bool,
    /// Ranges of blocks to be discarded, in order.
    drops: Vec<Range<usize>>,
}

impl BlockSummary {
    /// Adds one received block.
    pub(super) fn block(&mut self, block: Block<'_>) {
        self.guarded |= matches!(block.fields.kind, INTEGRITY | CONFIDENTIALITY);
        if block.fields.kind == CONFIDENTIALITY && targets(block.data, 1) {
            self.facts |= Facts::SEALED;
        }
        match block.meaning {
            Some(data) => self.understood(data),
            None => self.unknown(block.fields.kind, block.fields.flags, block.span),
        }
    }
    /// Adds the content of a known block. If blocks of a private type repeat, the first counts.
    pub(super) fn understood(&mut self, data: BlockData) {
        match data {
            BlockData::PreviousNode(eid) => self.hop.previous = eid,
            BlockData::Age(age) => {
                self.facts |= Facts::AGE;
                self.hop.age_ms = age;
            }
            BlockData::HopCount(HopCount { limit, count }) => {
                self.facts |= Facts::HOPS;
                self.hop.hops = count.min(255) as u8;
                // A count above 255 must stay above the limit although a byte holds it.
                self.hop_limit = if count > 255 { limit.min(254) } else { limit };
            }
            BlockData::QualityOfService(qos) => self.qos = self.qos.or(Some(qos)),
            BlockData::Labels(labels) => self.hop.labels = self.hop.labels.or(Some(labels)),
            BlockData::Unvouched => self.hop.unvouched = true,
            BlockData::Unknown(_) => {}
        }
    }
    /// Processes an unknown block (RFC 9171 5.6 step 4): report, delete the bundle, or discard the block. BPSec blocks
    /// never count as unprocessable: security rules decide about them, and without them nothing would show that the
    /// payload is encrypted or signed.
    // 9171-4.2.4-1, 9171-5.6-4, 9171-5.6-5, 9172-3.8-2
    fn unknown(&mut self, kind: u64, flags: BlockFlags, span: Range<usize>) {
        if matches!(kind, INTEGRITY | CONFIDENTIALITY) {
            return;
        }
        if flags.has(BlockFlags::REPORT) {
            self.duties.0 |= Duties::REPORT;
        }
        if flags.has(BlockFlags::DELETE_BUNDLE) {
            self.duties.0 |= Duties::DELETE;
        } else if flags.has(BlockFlags::DISCARD) {
            self.drops.push(span);
        }
    }
    /// Copies the head's bytes without the blocks to be discarded.
    pub(super) fn keep(&self, head: &[u8]) -> Box<[u8]> {
        if self.drops.is_empty() {
            return Box::from(head);
        }
        let gone: usize = self.drops.iter().map(|span| span.len()).sum();
        let mut kept = Vec::with_capacity(head.len() - gone);
        let mut at = 0;
        for span in &self.drops {
            kept.extend_from_slice(&head[at..span.start]);
            at = span.end;
        }
        kept.extend_from_slice(&head[at..]);
        kept.into_boxed_slice()
    }
    /// Builds the bundle.
    pub(super) fn into_meta(self, outline: Outline, payload: Payload, tail: u32) -> (BundleMeta, HopState) {
        let Primary { flags, destination, source, report_to, creation, lifetime_ms, fragment, .. } = outline.primary;
        let identity = BundleId { source, creation, fragment: fragment.map(|place| (place.offset, payload.len())) };
        let qos = self.qos.unwrap_or_default();
        let marks = QOS_FLAGS.iter().fold(0, |all, (flag, fact)| if qos.flags & flag != 0 { all | fact } else { all });
        let flow = if qos.flags & QOS_LABEL != 0 { qos.label } else { 0 };
        let meta = BundleMeta {
            id: identity.fingerprint(),
            source: identity.source,
            destination,
            created_ms: creation.time.as_millis(),
            sequence: creation.sequence,
            lifetime_ms,
            payload,
            facts: Facts(facts(flags) | self.facts | marks),
            version: 7,
            priority: self.qos.map_or(Priority::Normal, |qos| qos.priority),
            duties: self.duties,
            hop_limit: self.hop_limit,
            rare: Rare { report_to, fragment, ordinal: qos.ordinal, flow }.boxed(),
            head: outline.head,
            primary_end: outline.primary_end,
            tail,
            tail_len: outline.tail_len,
            digest: 0,
        };
        (meta, self.hop)
    }
}

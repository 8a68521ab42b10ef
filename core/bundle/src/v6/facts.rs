//! Translation of flags and blocks into facts of the engine.

use super::block::{Block, ExtendedClass, Meaning, block_flags, kind};
use super::head::BundleHead;
use super::primary::{Primary, flags};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleId, BundleMeta, Duties, EndpointId, Facts, HopState, Payload, Priority, Rare, Transfer};

/// Pairs of bundle processing control flags (RFC 5050 4.2) and facts.
const FLAGS: [(u64, u32); 8] = [
    (flags::ADMIN, Facts::ADMIN),
    (flags::NO_FRAGMENT, Facts::NO_FRAGMENT),
    (flags::CUSTODY, Facts::CUSTODY),
    (flags::APP_ACK, Facts::APP_ACK),
    (flags::REPORT_RECEPTION, Facts::REPORT_RECEPTION),
    (flags::REPORT_FORWARDING, Facts::REPORT_FORWARDING),
    (flags::REPORT_DELIVERY, Facts::REPORT_DELIVERY),
    (flags::REPORT_DELETION, Facts::REPORT_DELETION),
];

/// Facts of a primary block. Reports always contain times (RFC 5050 6.1.1), as if requested.
// 5050-4.2-1, 5050-4.2-2
fn facts(primary: &Primary) -> u32 {
    let facts = FLAGS.iter().fold(0, |facts, (flag, fact)| if primary.has(*flag) { facts | fact } else { facts });
    let times = if facts & Facts::REPORTS != 0 { Facts::STATUS_TIME } else { 0 };
    // RFC 5050 4.2: bundles without identity and administrative records have no custody. For groups its meaning is
    // undefined (5.10).
    let nobody = primary.source.is_null() || primary.has(flags::ADMIN) || !primary.has(flags::SINGLETON);
    let void = if nobody { Facts::CUSTODY } else { 0 };
    (facts | times) & !void
}
/// Flags that express these facts and this class of service.
pub(super) fn flags_of(facts: Facts, priority: Priority) -> u64 {
    let flags = FLAGS.iter().fold(0, |flags, (flag, fact)| if facts.has(*fact) { flags | flag } else { flags });
    flags | u64::from(priority.number()) << flags::PRIORITY_SHIFT
}
/// Flags of an extended class of service that express these facts.
pub(super) fn service_flags(facts: Facts) -> u8 {
    let flag = |fact, flag| if facts.has(fact) { flag } else { 0 };
    flag(Facts::CRITICAL, ExtendedClass::CRITICAL) | flag(Facts::UNRELIABLE, ExtendedClass::BEST_EFFORT)
}

/// Edits applied to received bytes when they are stored.
#[derive(Default)]
pub(super) struct Edits {
    /// Ranges of blocks to be discarded, in order.
    drops: Vec<Range<usize>>,
    /// Bits to be set, by position.
    marks: Vec<(usize, u8)>,
}
impl Edits {
    /// Sets block flags in the last byte of their SDNV, which holds all bits used here.
    pub fn mark(&mut self, flags_at: usize, bits: u64) {
        self.marks.push((flags_at, bits as u8));
    }
    /// Appends `bytes` with the edits applied.
    fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        let mut marks = self.marks.iter().peekable();
        let ends = self.drops.iter().map(|drop| (drop.start, drop.end)).chain([(bytes.len(), bytes.len())]);
        for (end, next) in ends {
            let start = out.len();
            out.extend_from_slice(&bytes[at..end]);
            while let Some((place, bits)) = marks.next_if(|(place, _)| *place < end) {
                if let Some(byte) = place.checked_sub(at).and_then(|from| out.get_mut(start + from)) {
                    *byte |= bits;
                }
            }
            at = next;
        }
    }
}

/// Summary of the extension blocks of one bundle.
#[derive(Default)]
pub(super) struct BlockSummary {
    pub hop: HopState,
    facts: u32,
    duties: Duties,
    service: Option<ExtendedClass>,
    labels: bool,
    /// Custody transfer number and its custodian.
    number: Option<(u64, EndpointId)>,
    /// Edits of the blocks before and after the payload.
    pub edits: [Edits; 2],
    /// Position of the flags of the last block kept after the payload, and whether it has the last-block flag.
    last: Option<(usize, bool)>,
}

impl BlockSummary {
    /// Adds one block; `after`: it follows the payload. Of each kind, the first block counts.
    pub fn block(&mut self, block: &Block<'_>, after: bool) {
        let kept = match &block.meaning {
            Meaning::PreviousHop(node) => {
                if self.hop.previous.is_null() {
                    self.hop.previous = node.clone();
                }
                true
            }
            Meaning::Age(age_us) => {
                // Hops rewrite the first age block only, so that no other may count.
                if self.facts & Facts::AGE == 0 {
                    self.hop.age_ms = age_us / 1000;
                }
                self.facts |= Facts::AGE;
                true
            }
            Meaning::Labels(labels) => {
                if !core::mem::replace(&mut self.labels, true) {
                    self.hop.labels = Some(*labels);
                }
                true
            }
            Meaning::Unvouched => {
                self.hop.unvouched = true;
                true
            }
            Meaning::Service(service) => {
                self.service = self.service.or(Some(*service));
                true
            }
            // If every fragment carried the block, one number would stand for several bundles.
            Meaning::Custody { id, custodian } if block.start.flags & block_flags::REPLICATE == 0 => {
                self.number.get_or_insert_with(|| (*id, custodian.clone()));
                true
            }
            Meaning::Custody { .. } => true,
            Meaning::Unknown => self.unknown(block, after),
        };
        if kept && after {
            self.last = Some((block.start.flags_at, block.start.flags & block_flags::LAST != 0));
        }
    }
    /// Processes an unknown block (RFC 5050 5.6 step 3): report, delete the bundle, discard the block, or mark it as
    /// forwarded unprocessed. A security block is never discarded, as it alone shows that the payload is encrypted or
    /// signed. Returns whether the block stays.
    // 5050-4.6-1, 5050-5.6-2, 5050-5.6-3, 5050-5.6-4, 5050-8-2
    fn unknown(&mut self, block: &Block<'_>, after: bool) -> bool {
        let start = &block.start;
        let has = |flag| start.flags & flag != 0;
        if start.kind == kind::CONFIDENTIALITY {
            self.facts |= Facts::SEALED;
        }
        if has(block_flags::REPORT) {
            self.duties.0 |= Duties::REPORT;
        }
        let secures = matches!(start.kind, kind::INTEGRITY | kind::CONFIDENTIALITY | kind::EXTENSION_SECURITY);
        let edits = &mut self.edits[usize::from(after)];
        if has(block_flags::DELETE_BUNDLE) {
            self.duties.0 |= Duties::DELETE;
        } else if has(block_flags::DISCARD) && !secures {
            edits.drops.push(block.span.clone());
            return false;
        }
        if !has(block_flags::UNPROCESSED) {
            edits.mark(start.flags_at, block_flags::UNPROCESSED);
        }
        true
    }
    /// Moves the last-block flag to the last block that is kept (RFC 5050 4).
    // 5050-4-3
    fn close(&mut self, head: &BundleHead) {
        match self.last {
            None if head.payload_flags & block_flags::LAST == 0 => {
                self.edits[0].mark(head.payload_flags_at, block_flags::LAST);
            }
            Some((at, false)) => self.edits[1].mark(at, block_flags::LAST),
            _ => {}
        }
    }
    /// Builds the bundle from the bytes received before and after its payload.
    pub fn into_meta(
        mut self,
        head: BundleHead,
        before: &[u8],
        after: &[u8],
        payload: Payload,
    ) -> (BundleMeta, HopState) {
        self.close(&head);
        // `apply` needs the marks in order of position; the last-block flag was added at the end.
        self.edits.iter_mut().for_each(|edits| edits.marks.sort_unstable());
        let mut around = Vec::with_capacity(before.len() + after.len());
        self.edits[0].apply(before, &mut around);
        let split = around.len();
        self.edits[1].apply(after, &mut around);
        let tail = (around.len() - split) as u32;
        let primary = head.primary;
        self.hop.custodian = primary.custodian.clone();
        // The number is valid only for the custodian in the primary block, and for the whole bundle.
        let custodian = &primary.custodian;
        let valid = |(_, by): &(u64, EndpointId)| by == custodian && !by.is_null() && primary.fragment.is_none();
        let numbered = self.number.filter(valid).map(|(number, _)| number);
        self.hop.transfer = numbered.map(|number| Box::new(Transfer { number, sequence: Transfer::COUNTER, block: 0 }));
        let service = self.service.unwrap_or_default();
        let facts = facts(&primary) | self.facts | marks(service);
        (bundle(primary, service, Facts(facts), self.duties, payload, around.into_boxed_slice(), tail), self.hop)
    }
}

/// Facts of an extended class of service.
fn marks(service: ExtendedClass) -> u32 {
    let lossy = service.flags & (ExtendedClass::BEST_EFFORT | ExtendedClass::RELIABLE) == ExtendedClass::BEST_EFFORT;
    let critical = service.flags & ExtendedClass::CRITICAL != 0;
    (if lossy { Facts::UNRELIABLE } else { 0 }) | if critical { Facts::CRITICAL } else { 0 }
}

/// Assembles the bundle. `around` is all bytes before the payload, then the `tail` bytes after it.
fn bundle(
    primary: Primary,
    service: ExtendedClass,
    facts: Facts,
    duties: Duties,
    payload: Payload,
    around: Box<[u8]>,
    tail: u32,
) -> BundleMeta {
    let priority = primary.priority();
    let Primary { destination, source, report_to, creation, lifetime_s, fragment, .. } = primary;
    let identity = BundleId { source, creation, fragment: fragment.map(|place| (place.offset, payload.len())) };
    BundleMeta {
        id: identity.fingerprint_in(super::VERSION),
        source: identity.source,
        destination,
        created_ms: creation.time.as_millis(),
        sequence: creation.sequence,
        lifetime_ms: lifetime_s.saturating_mul(1000),
        payload,
        facts,
        version: super::VERSION,
        priority,
        duties,
        hop_limit: 0,
        rare: Rare { report_to, fragment, ordinal: service.ordinal, flow: service.label }.boxed(),
        head: around,
        tail,
        primary_end: 0,
        tail_len: 0,
        digest: 0,
    }
}

//! What flags and blocks mean to the engine.

use super::block::{Block, Meaning, Service, block_flags, kind};
use super::head::Head;
use super::primary::{Primary, flags};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleId, BundleMeta, Duties, EndpointId, Facts, HopState, Payload, Priority, Rare, Transfer};

/// Bundle processing control flags (RFC 5050 4.2) and the facts they are.
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

/// The facts of a primary block. Reports always say when (RFC 5050 6.1.1), as if that had been asked for.
// 5050-4.2-1, 5050-4.2-2
fn facts(primary: &Primary) -> u32 {
    let facts = FLAGS.iter().fold(0, |facts, (flag, fact)| if primary.has(*flag) { facts | fact } else { facts });
    let times = if facts & Facts::REPORTS != 0 { Facts::STATUS_TIME } else { 0 };
    // RFC 5050 4.2: without identity there is no custody, nor is there for records; for groups nobody knows what it is
    // (5.10).
    let nobody = primary.source.is_null() || primary.has(flags::ADMIN) || !primary.has(flags::SINGLETON);
    let void = if nobody { Facts::CUSTODY } else { 0 };
    (facts | times) & !void
}
/// The flags that say these facts and this class of service.
pub(super) fn flags_of(facts: Facts, priority: Priority) -> u64 {
    let flags = FLAGS.iter().fold(0, |flags, (flag, fact)| if facts.has(*fact) { flags | flag } else { flags });
    flags | u64::from(priority.number()) << flags::PRIORITY_SHIFT
}
/// The flags of an extended class of service that say these facts.
pub(super) fn service_flags(facts: Facts) -> u8 {
    let flag = |fact, flag| if facts.has(fact) { flag } else { 0 };
    flag(Facts::CRITICAL, Service::CRITICAL) | flag(Facts::UNRELIABLE, Service::BEST_EFFORT)
}

/// What becomes of bytes when they are kept.
#[derive(Default)]
pub(super) struct Edits {
    /// Blocks to be discarded, in order.
    drops: Vec<Range<usize>>,
    /// Bits to be set in bytes.
    marks: Vec<(usize, u8)>,
}
impl Edits {
    /// Sets bits of block flags whose last byte is there: they are all in it.
    pub fn mark(&mut self, flags_at: usize, bits: u64) {
        self.marks.push((flags_at, bits as u8));
    }
    /// Appends what is kept of `bytes`.
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

/// What the extension blocks of one bundle say.
#[derive(Default)]
pub(super) struct Found {
    pub hop: HopState,
    facts: u32,
    duties: Duties,
    service: Option<Service>,
    labels: bool,
    /// A custodian's number of the bundle, and the custodian.
    number: Option<(u64, EndpointId)>,
    /// Before the payload, and after it.
    pub edits: [Edits; 2],
    /// Position of the flags of the last block after the payload that is kept, and whether they say so.
    last: Option<(usize, bool)>,
}

impl Found {
    /// Notes one block. Of each kind the first counts.
    pub fn block(&mut self, block: &Block<'_>, after: bool) {
        let kept = match &block.meaning {
            Meaning::PreviousHop(node) => {
                if self.hop.previous.is_null() {
                    self.hop.previous = node.clone();
                }
                true
            }
            Meaning::Age(age_us) => {
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
            // In every fragment it would mean another bundle.
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
    /// RFC 5050 5.6 step 3: report, delete the bundle, or else discard the block, or else say that it went on as it
    /// was; but never one without which nobody knows any more what was enciphered or signed. Whether it stays.
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
    /// RFC 5050 4: exactly the last block says that it is the last one, also where another was before.
    // 5050-4-3
    fn close(&mut self, head: &Head) {
        match self.last {
            None if head.payload_flags & block_flags::LAST == 0 => {
                self.edits[0].mark(head.payload_flags_at, block_flags::LAST);
            }
            Some((at, false)) => self.edits[1].mark(at, block_flags::LAST),
            _ => {}
        }
    }
    /// The bundle: `before` and `after` its payload is what came.
    pub fn into_meta(mut self, head: Head, before: &[u8], after: &[u8], payload: Payload) -> (BundleMeta, HopState) {
        self.close(&head);
        // A mark at the end of a block is found again in order.
        self.edits.iter_mut().for_each(|edits| edits.marks.sort_unstable());
        let mut around = Vec::with_capacity(before.len() + after.len());
        self.edits[0].apply(before, &mut around);
        let split = around.len();
        self.edits[1].apply(after, &mut around);
        let tail = (around.len() - split) as u32;
        let primary = head.primary;
        self.hop.custodian = primary.custodian.clone();
        // The number is that of the custodian in the primary block, and means all of the bundle.
        let custodian = &primary.custodian;
        let valid = |(_, by): &(u64, EndpointId)| by == custodian && !by.is_null() && primary.fragment.is_none();
        let numbered = self.number.filter(valid).map(|(number, _)| number);
        self.hop.transfer = numbered.map(|number| Box::new(Transfer { number, sequence: Transfer::COUNTER, block: 0 }));
        let service = self.service.unwrap_or_default();
        let facts = facts(&primary) | self.facts | marks(service);
        (bundle(primary, service, Facts(facts), self.duties, payload, around.into_boxed_slice(), tail), self.hop)
    }
}

/// The facts of an extended class of service.
fn marks(service: Service) -> u32 {
    let lossy = service.flags & (Service::BEST_EFFORT | Service::RELIABLE) == Service::BEST_EFFORT;
    let critical = service.flags & Service::CRITICAL != 0;
    (if lossy { Facts::UNRELIABLE } else { 0 }) | if critical { Facts::CRITICAL } else { 0 }
}

/// A bundle of all its parts. `around` is everything before the payload, then the `tail` bytes after it.
fn bundle(
    primary: Primary,
    service: Service,
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

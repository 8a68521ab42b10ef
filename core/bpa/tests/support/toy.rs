//! Bundles without a wire format, for tests of the agent.

use super::NOW_UTC;
use farlink_base::{
    Accel, BundleId, BundleMeta, Bytes, CreationTimestamp, DeleteReason, DigestKey, DtnTime, Duties, EndpointId, Facts,
    FragmentInfo, HopState, Malformed, Payload, Priority, Rare, Refusal, Transfer,
};
use farlink_bpa::{About, Answer, Asked, Carried, Draft, Edge, Item, Numbers, Record, Signal, Status, TunnelCodes};
use std::ops::Range;
use std::sync::Arc;

/// A version number that no bundle protocol uses.
pub const VERSION: u8 = 99;
/// Bytes around a payload, and the additional ones of a fragment.
const HEAD: usize = 40;
const FRAGMENT: u64 = 10;
/// First bytes of the toy format's administrative records.
const REPORT: u8 = b'R';
const HELLO: u8 = b'H';
const CUSTODY: u8 = b'C';
const CARRIED: u8 = b'I';
const TOLD: u8 = b'T';
const SHORT: u8 = b'S';
const ANSWERS: [Answer; 8] = [
    Answer::Taken,
    Answer::Redundant,
    Answer::Depleted,
    Answer::Unintelligible,
    Answer::NoRoute,
    Answer::NoContact,
    Answer::BadBlock,
    Answer::Refused,
];

/// The edge of tests: bundles are values.
pub struct Toy;

fn fragment_of(meta: &BundleMeta) -> Option<(u64, u64)> {
    meta.fragment().map(|f| (f.offset, meta.payload.len()))
}

/// Computes a bundle's identity from its fields.
fn seal(mut meta: BundleMeta) -> BundleMeta {
    let (source, creation) = (meta.source.clone(), meta.creation());
    meta.id = BundleId { source, creation, fragment: fragment_of(&meta) }.fingerprint_in(VERSION);
    meta
}

/// A fragment of a bundle, as it arrives.
pub fn piece(meta: &BundleMeta, range: Range<u64>) -> BundleMeta {
    let mut piece = meta.clone();
    let before = meta.fragment().unwrap_or(FragmentInfo { offset: 0, total: meta.payload.len() });
    let mut rare = piece.rare.take().map(|rare| *rare).unwrap_or_default();
    rare.fragment = Some(FragmentInfo { offset: before.offset + range.start, total: before.total });
    piece.rare = rare.boxed();
    piece.payload = meta.payload.slice(range.start, range.end - range.start);
    seal(piece)
}

impl Edge for Toy {
    fn make(&mut self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        let Draft { version, source, destination, report_to, facts, lifetime_ms, priority, hop_limit, .. } = draft;
        // Compressed reports have version 7 for bundles of any version.
        if ![VERSION, 7].contains(&version) {
            return Err(Refusal::NotAcceptable);
        }
        let hops = if hop_limit > 0 { Facts::HOPS } else { 0 };
        let age = if creation.time == DtnTime::UNKNOWN { Facts::AGE } else { 0 };
        Ok(seal(BundleMeta {
            id: 0,
            source,
            destination,
            created_ms: creation.time.0,
            sequence: creation.sequence,
            lifetime_ms,
            payload,
            facts: Facts(facts.0 | hops | age),
            version,
            priority,
            duties: Duties::default(),
            hop_limit,
            rare: Rare { report_to, ..Rare::default() }.boxed(),
            head: Box::from([0u8; HEAD]),
            tail: 0,
            primary_end: 0,
            tail_len: 1,
            digest: 0,
        }))
    }
    fn digest(&mut self, bundle: &BundleMeta) -> u64 {
        match bundle.digest {
            0 => DigestKey::new(7, &Accel::default()).of(&bundle.payload).unwrap_or(0),
            known => known,
        }
    }
    fn whole(&mut self, first: &BundleMeta, payload: Payload) -> Result<BundleMeta, Refusal> {
        let mut whole = first.clone();
        let mut rare = whole.rare.take().map(|rare| *rare).unwrap_or_default();
        rare.fragment = None;
        whole.rare = rare.boxed();
        whole.payload = payload;
        Ok(seal(whole))
    }
    fn size(&self, bundle: &BundleMeta, _hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        match cut {
            Some(range) => bundle.overhead() + FRAGMENT + range.end - range.start,
            None => bundle.size(),
        }
    }
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, _at: Option<DtnTime>) -> Payload {
        let mut record = vec![REPORT, status as u8, reason as u8];
        record.extend_from_slice(&about.created_ms.to_be_bytes());
        record.extend_from_slice(&about.sequence.to_be_bytes());
        Payload::from(record)
    }
    fn custody_signal(&self, _: u8, signal: &Signal, _: Option<DtnTime>) -> Option<Payload> {
        let mut record = vec![CUSTODY, ANSWERS.iter().position(|answer| *answer == signal.answer)? as u8];
        let mut put = |numbers: &[u64]| numbers.iter().for_each(|n| record.extend_from_slice(&n.to_be_bytes()));
        match &signal.about {
            About::One(BundleId { source, creation, fragment }) => {
                let (offset, len) = fragment.unwrap_or((u64::MAX, 0));
                let service = u64::from(source.to_string().rsplit('.').next()?.parse::<u32>().ok()?);
                put(&[0, source.ipn_node()?, service, creation.time.0, creation.sequence, offset, len]);
            }
            About::Numbers(numbers) => {
                put(&[1]);
                numbers.iter().for_each(|run| put(&[run.sequence, run.first, run.last]));
            }
        }
        Some(Payload::from(record))
    }
    fn asked(&self, bundle: &BundleMeta) -> Option<Asked> {
        let report_to = bundle.report_to().clone();
        let (number, source) = (bundle.sequence, bundle.source.clone());
        (!report_to.is_null()).then_some(Asked { number, sequence: 1, asks: u64::MAX, source, report_to })
    }
    fn compressed_report(&self, said: &[(Item, Numbers)], _: &[&EndpointId]) -> Option<Payload> {
        let mut record = vec![SHORT];
        said.iter()
            .for_each(|(item, run)| record.extend_from_slice(&[item.fate as u8, run.first as u8, run.last as u8]));
        Some(Payload::from(record))
    }
    fn carry(&self, _: TunnelCodes, number: u64, _: Option<DtnTime>, bundle: Payload) -> Payload {
        let mut payload = Payload::from([&[CARRIED][..], &number.to_be_bytes()].concat());
        payload.append(bundle);
        payload
    }
    fn tunnel_signal(&self, _: TunnelCodes, answer: Answer, runs: &[Numbers]) -> Payload {
        let mut record = vec![TOLD, ANSWERS.iter().position(|known| *known == answer).expect("one of them") as u8];
        for run in runs {
            [run.first, run.last].iter().for_each(|n| record.extend_from_slice(&n.to_be_bytes()));
        }
        Payload::from(record)
    }
    fn carried(&self, _: &BundleMeta, payload: &Payload, _: TunnelCodes, _: usize) -> Result<Carried, Malformed> {
        let bytes = payload.to_bytes().expect("it is in memory");
        Ok(match &bytes[..] {
            [CARRIED, b'!', ..] => return Err(Malformed { offset: 1, reason: "no number" }),
            [CARRIED, rest @ ..] => {
                let number = u64::from_be_bytes(rest[..8].try_into().expect("eight bytes"));
                Carried::Inside(number, payload.slice(9, u64::MAX))
            }
            [TOLD, answer, rest @ ..] => {
                let numbers: Vec<u64> =
                    rest.as_chunks::<8>().0.iter().map(|chunk| u64::from_be_bytes(*chunk)).collect();
                let run = |run: &[u64; 2]| Numbers {
                    sequence: 0,
                    destination: EndpointId::Null,
                    first: run[0],
                    last: run[1],
                };
                Carried::Signal(ANSWERS[usize::from(*answer)], numbers.as_chunks::<2>().0.iter().map(run).collect())
            }
            _ => Carried::Nothing,
        })
    }
    fn depth(&self, _: &BundleMeta, _: TunnelCodes, _: usize) -> usize {
        0
    }
    fn hello(&self, content: &[u8]) -> Payload {
        Payload::from([&[HELLO][..], content].concat())
    }
    fn record(&self, bundle: &BundleMeta) -> Record {
        match bundle.payload.to_bytes().as_deref() {
            Some([CUSTODY, ..]) => {
                Toy::custody(bundle).map_or(Record::Unreadable, |signal| Record::Custody(vec![signal]))
            }
            Some([HELLO, content @ ..]) => Record::Hello(Bytes::copy_from_slice(content)),
            Some([REPORT, ..]) => Record::Other,
            _ => Record::Unreadable,
        }
    }
}

impl Toy {
    /// Reads a custody signal.
    pub fn custody(bundle: &BundleMeta) -> Option<Signal> {
        let bytes = bundle.payload.to_bytes()?;
        let [CUSTODY, answer, rest @ ..] = &bytes[..] else { return None };
        let answer = *ANSWERS.get(usize::from(*answer))?;
        let numbers: Vec<u64> = rest.as_chunks::<8>().0.iter().map(|chunk| u64::from_be_bytes(*chunk)).collect();
        let about = match &numbers[..] {
            [0, node, service, time, sequence, offset, len] => About::One(BundleId {
                source: EndpointId::ipn(*node, *service as u32),
                creation: CreationTimestamp { time: DtnTime(*time), sequence: *sequence },
                fragment: (*offset < u64::MAX).then_some((*offset, *len)),
            }),
            [1, runs @ ..] => {
                let run = |run: &[u64; 3]| {
                    let [sequence, first, last] = *run;
                    Numbers { sequence, destination: EndpointId::Null, first, last }
                };
                About::Numbers(runs.as_chunks::<3>().0.iter().map(run).collect())
            }
            _ => return None,
        };
        Some(Signal { answer, about })
    }
    /// Reads a compressed report: events with the numbers of their bundles.
    pub fn compressed(bundle: &BundleMeta) -> Vec<(u8, Range<u8>)> {
        let bytes = bundle.payload.to_bytes().expect("in memory");
        let [SHORT, rest @ ..] = &bytes[..] else { return Vec::new() };
        rest.as_chunks::<3>().0.iter().map(|[fate, first, last]| (*fate, *first..*last + 1)).collect()
    }
    /// Reads a status report: assertion, reason, creation timestamp.
    pub fn report(bundle: &BundleMeta) -> (u8, u8, u64, u64) {
        let bytes = bundle.payload.to_bytes().expect("in memory");
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!(bytes[0], REPORT, "a status report");
        (bytes[1], bytes[2], number(3), number(11))
    }
}

/// A bundle with its hop state.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub meta: BundleMeta,
    pub hop: HopState,
}

impl Bundle {
    pub fn new(source: EndpointId, destination: EndpointId, sequence: u64) -> Bundle {
        let draft = Draft {
            version: VERSION,
            source,
            destination,
            report_to: EndpointId::Null,
            facts: Facts(0),
            lifetime_ms: 60_000,
            priority: Priority::Normal,
            hop_limit: 0,
            compressed: None,
        };
        let creation = CreationTimestamp { time: NOW_UTC, sequence };
        let meta = Toy.make(draft, creation, Payload::fill(2, 1000)).expect("version 99");
        Bundle { meta, hop: HopState::default() }
    }
    pub fn change(mut self, change: impl FnOnce(&mut BundleMeta)) -> Bundle {
        change(&mut self.meta);
        self.meta = seal(self.meta);
        self
    }
    pub fn created_ms(self, ms: u64) -> Bundle {
        self.change(|m| m.created_ms = ms)
    }
    pub fn lifetime_ms(self, ms: u64) -> Bundle {
        self.change(|m| m.lifetime_ms = ms)
    }
    pub fn payload(self, payload: Payload) -> Bundle {
        self.change(|m| m.payload = payload)
    }
    pub fn priority(self, priority: Priority) -> Bundle {
        self.change(|m| m.priority = priority)
    }
    pub fn facts(self, facts: u32) -> Bundle {
        self.change(|m| m.facts = Facts(m.facts.0 | facts))
    }
    pub fn duties(self, duties: u8) -> Bundle {
        self.change(|m| m.duties = Duties(duties))
    }
    pub fn report_to(self, report_to: EndpointId) -> Bundle {
        self.change(|m| m.rare = Rare { report_to, ..Rare::default() }.boxed())
    }
    pub fn hops(mut self, count: u8, limit: u8) -> Bundle {
        self.hop.hops = count;
        self.change(|m| {
            m.hop_limit = limit;
            m.facts = Facts(m.facts.0 | Facts::HOPS);
        })
    }
    pub fn age_ms(mut self, age: u64) -> Bundle {
        self.hop.age_ms = age;
        self.facts(Facts::AGE)
    }
    pub fn labels(mut self, labels: [u32; 2]) -> Bundle {
        self.hop.labels = Some(labels);
        self
    }
    /// Requests custody transfer; `node` is custodian, under `number` if given.
    pub fn custody(mut self, node: u64, number: Option<u64>) -> Bundle {
        self.hop.custodian = EndpointId::ipn(node, 0);
        self.hop.transfer = number.map(|number| Box::new(Transfer { number, sequence: Transfer::COUNTER, block: 0 }));
        self.facts(Facts::CUSTODY)
    }
    pub fn previous(mut self, node: u64) -> Bundle {
        self.hop.previous = EndpointId::ipn(node, 0);
        self
    }
    /// A fragment with these payload bytes.
    pub fn piece(&self, range: Range<u64>) -> Bundle {
        Bundle { meta: piece(&self.meta, range), hop: self.hop.clone() }
    }
    pub fn parts(self) -> (Arc<BundleMeta>, Box<HopState>) {
        (Arc::new(self.meta), Box::new(self.hop))
    }
}

/// A bundle of 1,000 bytes from `ipn:2.5`, created now.
pub fn from_two(sequence: u64, to: EndpointId) -> Bundle {
    Bundle::new(EndpointId::ipn(2, 5), to, sequence)
}

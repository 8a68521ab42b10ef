//! An invented version of the bundle protocol: the byte 0x66, the length of the head, fields each with its length,
//! the payload, the byte 0x99. Nothing in it is CBOR.

#![allow(clippy::disallowed_types, reason = "the test and its codec, both `Send`, look at the same bundles")]

use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DeleteReason, DtnTime, EndpointId, Facts, FragmentInfo, HopState,
    Malformed, Payload, Priority, Refusal,
};
use farlink_bpa::{Draft, Record, Status};
use farlink_bundle::Encoded;
use farlink_stack::{Codec, Opening};
use std::ops::Range;
use std::sync::{Arc, Mutex};

const FIRST: u8 = 0x66;
const LAST: u8 = 0x99;
/// Number of the version.
pub const VERSION: u8 = 2;

/// Hop states of bundles that were read whole.
pub type Seen = Arc<Mutex<Vec<HopState>>>;

/// The stub version; records the bundles it reads.
#[derive(Default, Debug)]
pub struct Stub(pub Seen);

/// Encodes a head: the bundle with the length of its payload, and its hop state.
fn put(bundle: &BundleMeta, hop: &HopState, fragment: Option<FragmentInfo>, len: u64) -> Vec<u8> {
    let mut fields = Vec::new();
    let mut field = |bytes: &[u8]| {
        fields.extend((bytes.len() as u16).to_be_bytes());
        fields.extend(bytes);
    };
    for endpoint in [&bundle.source, &bundle.destination, bundle.report_to(), &hop.previous] {
        field(endpoint.to_string().as_bytes());
    }
    let place = fragment.map_or([u64::MAX; 2], |place| [place.offset, place.total]);
    let facts = u64::from(bundle.facts.0);
    let labels = hop.labels.map_or(u64::MAX, |[router, control]| u64::from(router) << 32 | u64::from(control));
    for number in [bundle.created_ms, bundle.sequence, bundle.lifetime_ms, facts, hop.age_ms, labels, len] {
        field(&number.to_be_bytes());
    }
    place.iter().for_each(|number| field(&number.to_be_bytes()));
    field(&[bundle.priority as u8, bundle.hop_limit, hop.hops]);
    let mut head = vec![FIRST];
    head.extend((fields.len() as u32).to_be_bytes());
    head.extend(fields);
    head
}

fn wrong(offset: usize, reason: &'static str) -> Malformed {
    Malformed { offset: offset as u64, reason }
}

/// Fields one after the other.
struct Fields<'a>(&'a [u8], usize);
impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a [u8], Malformed> {
        let cut = || wrong(self.1, "a field is cut");
        let (len, rest) = self.0.split_at_checked(2).ok_or_else(cut)?;
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let (field, rest) = rest.split_at_checked(len).ok_or_else(cut)?;
        *self = Fields(rest, self.1 + 2 + len);
        Ok(field)
    }
    fn number(&mut self) -> Result<u64, Malformed> {
        let at = self.1;
        self.next()?.try_into().map(u64::from_be_bytes).map_err(|_| wrong(at, "not a number"))
    }
    fn endpoint(&mut self) -> Result<EndpointId, Malformed> {
        let at = self.1;
        let text = std::str::from_utf8(self.next()?).map_err(|_| wrong(at, "not text"))?;
        text.parse().map_err(|_| wrong(at, "not an endpoint ID"))
    }
}

/// Bundle and hop state of a complete head, with a placeholder as payload; `None`: more bytes are needed.
fn take(prefix: &[u8]) -> Result<Option<(BundleMeta, HopState)>, Malformed> {
    if prefix.first().is_some_and(|first| *first != FIRST) {
        return Err(wrong(0, "not version 2"));
    }
    let Some(len) = prefix.get(1..5) else { return Ok(None) };
    let end = 5 + u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
    let Some(head) = prefix.get(..end) else { return Ok(None) };
    let mut fields = Fields(&head[5..], 5);
    let (source, destination, report_to) = (fields.endpoint()?, fields.endpoint()?, fields.endpoint()?);
    let previous = fields.endpoint()?;
    let (created_ms, sequence, lifetime_ms) = (fields.number()?, fields.number()?, fields.number()?);
    let (facts, age_ms, labels) = (Facts(fields.number()? as u32), fields.number()?, fields.number()?);
    let payload = Payload::fill(0, fields.number()?);
    let (offset, total) = (fields.number()?, fields.number()?);
    let &[priority, hop_limit, hops] = fields.next()? else { return Err(wrong(end, "three bytes are missing")) };
    let fragment = (total != u64::MAX).then_some(FragmentInfo { offset, total });
    let labels = (labels != u64::MAX).then_some([(labels >> 32) as u32, labels as u32]);
    let rare = farlink_base::Rare { report_to, fragment, ..Default::default() };
    let mut bundle = BundleMeta {
        id: 0,
        source,
        destination,
        created_ms,
        sequence,
        lifetime_ms,
        payload,
        facts,
        version: VERSION,
        priority: Priority::from_number(priority),
        duties: Default::default(),
        hop_limit,
        rare: rare.boxed(),
        head: head.into(),
        tail: 0,
        primary_end: 0,
        tail_len: 1,
        digest: 0,
    };
    bundle.id = bundle.identity().fingerprint_in(VERSION);
    Ok(Some((bundle, HopState { previous, age_ms, hops, labels, ..HopState::default() })))
}

fn start(rope: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; rope.len().min(64 << 10) as usize];
    let copied = rope.copy_to(0, &mut bytes);
    bytes.truncate(copied);
    bytes
}

/// The fragment and its place in the original payload.
fn place(bundle: &BundleMeta, cut: Option<Range<u64>>) -> (Option<FragmentInfo>, u64) {
    let len = bundle.payload.len();
    let Some(cut) = cut.filter(|cut| cut.start > 0 || cut.end < len) else { return (bundle.fragment(), len) };
    let own = bundle.fragment().unwrap_or(FragmentInfo { offset: 0, total: len });
    (Some(FragmentInfo { offset: own.offset + cut.start, ..own }), cut.end - cut.start)
}

impl Codec for Stub {
    fn version(&self) -> u8 {
        VERSION
    }
    fn recognises(&self, first: u8) -> bool {
        first == FIRST
    }
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        Ok(take(&start(prefix))?.map(|(meta, hop)| Opening {
            meta,
            hop,
            watch: Box::new(()),
            starts_at: 0,
            payload_at: None,
            named: false,
        }))
    }
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        let (mut bundle, hop) = take(&start(rope))?.ok_or(wrong(0, "its head is cut"))?;
        let (at, len) = (bundle.head.len() as u64, bundle.payload.len());
        let mut last = [0];
        if rope.copy_to(at + len, &mut last) != 1 || last != [LAST] || rope.len() != at + len + 1 {
            return Err(wrong(rope.len() as usize, "its end is missing"));
        }
        bundle.payload = rope.slice(at, len);
        self.0.lock().expect("nobody panicked").push(hop.clone());
        Ok((bundle, hop))
    }
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed> {
        let (bundle, hop) = take(head)?.ok_or(wrong(0, "its head is cut"))?;
        if bundle.payload.len() != payload.len() || **tail != [LAST] {
            return Err(wrong(head.len(), "its parts do not fit"));
        }
        Ok((BundleMeta { payload, ..bundle }, hop))
    }
    fn tail(&self, _: &BundleMeta) -> Bytes {
        Bytes::from_static(&[LAST])
    }
    fn render(
        &self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
        _: &mut BytesMut,
    ) -> Encoded {
        let (fragment, len) = place(bundle, cut);
        assert_eq!(len, payload.len(), "what leaves is what was asked for");
        Encoded { head: put(bundle, hop, fragment, len).into(), payload, tail: self.tail(bundle) }
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        let (fragment, len) = place(bundle, cut);
        put(bundle, hop, fragment, len).len() as u64 + len + 1
    }
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        let Draft { source, destination, report_to, facts, lifetime_ms, priority, hop_limit, .. } = draft;
        let counts = if hop_limit > 0 { Facts::HOPS } else { 0 };
        let rare = farlink_base::Rare { report_to, ..Default::default() };
        let mut bundle = BundleMeta {
            id: 0,
            source,
            destination,
            created_ms: creation.time.0,
            sequence: creation.sequence,
            lifetime_ms,
            payload,
            facts: Facts(facts.0 | Facts::AGE | counts),
            version: VERSION,
            priority,
            duties: Default::default(),
            hop_limit,
            rare: rare.boxed(),
            head: Box::default(),
            tail: 0,
            primary_end: 0,
            tail_len: 1,
            digest: 0,
        };
        bundle.id = bundle.identity().fingerprint_in(VERSION);
        bundle.head = put(&bundle, &HopState::default(), None, bundle.payload.len()).into();
        Ok(bundle)
    }
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta {
        let mut bundle = BundleMeta { id: first.original_id(), payload, ..first.clone() };
        if let Some(rare) = &mut bundle.rare {
            rare.fragment = None;
        }
        bundle.head = put(&bundle, &HopState::default(), None, bundle.payload.len()).into();
        bundle
    }
    fn status_report(&self, about: &BundleMeta, status: Status, _: DeleteReason, _: Option<DtnTime>) -> Payload {
        Payload::from(format!("r{status:?} {:x}", about.id).into_bytes())
    }
    fn hello(&self, content: &[u8]) -> Payload {
        Payload::from([b"h", content].concat())
    }
    fn record(&self, payload: &[u8]) -> Record {
        match payload.split_first() {
            Some((b'h', content)) => Record::Hello(Bytes::copy_from_slice(content)),
            Some((b'r', _)) => Record::Other,
            _ => Record::Unreadable,
        }
    }
}

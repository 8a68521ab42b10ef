//! Parsing and rendering of bundles. Arriving bytes become bundles for the agent here; leaving bundles are rendered
//! here, once for each hop.
//!
//! Each version of the bundle protocol is a [`Codec`]. Security is checked and added between codec and agent: on
//! arrival after [`Edges::read`], before the agent sees the bundle; for this node's own bundles in [`Edge::make`],
//! once, before the store has them.

use crate::custody;
use crate::reporting;
use crate::security::Security;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use farlink_base::{
    Accel, BundleMeta, Bytes, BytesMut, CreationTimestamp, DeleteReason, DigestKey, Digester, DtnTime, Duties,
    EndpointId, Facts, HopState, LinkId, Malformed, Payload, Refusal, Restamp,
};
use farlink_bpa::{
    Answer, Asked, Carried, Draft, Edge, Input, Item, Numbers, OfferToken, Record, Signal, Status, TunnelCodes,
};
use farlink_bundle::{CrcType, Encoded, Profile, v7};

/// Maximum length of a payload that is copied out of its read buffer, bytes: a slice would keep the whole buffer alive.
const SMALL: u64 = 4096;

/// Checker of a bundle's CRCs and digest that gets the bytes in order while they arrive, as they do not stay in memory.
pub trait Watch: fmt::Debug + Send {
    /// Takes the next bytes of the bundle.
    fn pass(&mut self, part: &Payload);
    /// Digest of the payload, if it was to be computed ([`BundleMeta::digest`]); else 0.
    fn digest(&self) -> u64 {
        0
    }
    /// Checks the whole bundle; only its first and last bytes need be in memory.
    ///
    /// # Errors
    /// The fault and its offset.
    fn finish(self: Box<Self>, bundle: &Payload) -> Result<(), Malformed>;
}
/// A watch without checks, for a version without check sums.
impl Watch for () {
    fn pass(&mut self, _: &Payload) {}
    fn finish(self: Box<Self>, _: &Payload) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Computes the digest of a payload among the bytes of a bundle, beside another watch.
#[derive(Debug)]
struct Digesting {
    watch: Box<dyn Watch>,
    digester: Digester,
    payload: Range<u64>,
    passed: u64,
}
impl Watch for Digesting {
    fn pass(&mut self, part: &Payload) {
        self.watch.pass(part);
        let (start, end) = (self.passed, self.passed + part.len());
        // Parts are cut without regard to blocks: only the overlap with the payload counts.
        let (from, to) = (self.payload.start.max(start), self.payload.end.min(end));
        if from < to {
            self.digester.update(&part.slice(from - start, to - from));
        }
        self.passed = end;
    }
    fn digest(&self) -> u64 {
        if self.passed >= self.payload.end { self.digester.clone().finish() } else { 0 }
    }
    fn finish(self: Box<Self>, bundle: &Payload) -> Result<(), Malformed> {
        self.watch.finish(bundle)
    }
}

/// The beginning of a bundle whose head has arrived.
#[derive(Debug)]
pub struct Opening {
    /// Fields of the bundle, with a placeholder of the right length as payload.
    pub meta: BundleMeta,
    /// Hop state that the bundle arrived with.
    pub hop: HopState,
    /// Watch that must see all bytes of the bundle, from the first on, if they are not to stay in memory.
    pub watch: Box<dyn Watch>,
    /// Offset of the payload's first byte in the bundle.
    pub starts_at: u64,
    /// Value of `starts_at`, if an arrived part of the payload may be kept as a fragment. `None` under BPSec, whose
    /// operations cover all of it (RFC 9172 5.2).
    pub payload_at: Option<u64>,
    /// Whether the primary block is known to be right: then the identity is certain, even if a later block is wrong.
    pub named: bool,
}

/// A fragment that leaves while its payload is on disk.
pub trait Piece: fmt::Debug + Send {
    /// Whether payload bytes must pass before the fragment can be rendered.
    fn wants_bytes(&self) -> bool;
    /// Takes the next bytes, in memory.
    fn pass(&mut self, part: &Payload);
    /// Fragment as it leaves; `payload` may be in memory or on disk.
    fn finish(self: Box<Self>, payload: Payload) -> Encoded;
}

/// One version of the bundle protocol on the wire. A codec converts between bytes and bundles, and decides nothing.
pub trait Codec: fmt::Debug + Send {
    /// Version number in the primary block.
    fn version(&self) -> u8;
    /// Whether a bundle with this first byte is of this version.
    fn recognises(&self, first: u8) -> bool;
    /// Reads the head of a bundle that is still arriving; `None`: more bytes are needed. The blocks before the payload
    /// end within the first 64 KiB; the blocks after it fit in the last 4 KiB.
    ///
    /// # Errors
    /// The fault and its offset.
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed>;
    /// Reads a whole bundle. If its payload is on disk, a [`Watch`] has seen the bytes.
    ///
    /// # Errors
    /// The fault and its offset.
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed>;
    /// Reads a bundle that a store kept in three parts; the payload may be on disk.
    ///
    /// # Errors
    /// The fault and its offset.
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed>;
    /// Accelerated functions that this machine offers.
    fn accel(&self) -> Accel {
        Accel::default()
    }
    /// Bytes before the payload, for the store.
    fn head<'a>(&self, bundle: &'a BundleMeta) -> &'a [u8] {
        &bundle.head
    }
    /// Bytes after the payload, for the store.
    fn tail(&self, bundle: &BundleMeta) -> Bytes;
    /// Renders the bundle for this hop; `payload` is the part of the payload that leaves. A fragment's payload is in
    /// memory. A whole bundle's payload may be on disk unless [`Codec::computes_crc`] is true for it.
    fn render(
        &self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
        room: &mut BytesMut,
    ) -> Encoded;
    /// Begins a fragment, or a whole bundle with a new check sum, that leaves on this hop from disk; `None`: this
    /// version needs its bytes in memory.
    fn piece(
        &self,
        _bundle: &BundleMeta,
        _hop: &HopState,
        _cut: Range<u64>,
        _room: &mut BytesMut,
    ) -> Option<Box<dyn Piece>> {
        None
    }
    /// Whether the whole bundle leaves with a check sum of its payload that is still to be computed: then the payload
    /// must be in memory for [`Codec::render`], or leave as a [`Codec::piece`] of all its bytes.
    fn computes_crc(&self, _bundle: &BundleMeta, _hop: &HopState) -> bool {
        false
    }
    /// Function that rewrites the age in the first bytes of this bundle as it leaves; `None` if it has no age.
    fn restamp(&self, _bundle: &BundleMeta) -> Option<Restamp> {
        None
    }
    /// Length of the bundle as [`Codec::render`] encodes it.
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64;
    /// Makes a new bundle.
    ///
    /// # Errors
    /// This version cannot express the bundle.
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal>;
    /// Adds the security blocks that a bundle made here must have.
    ///
    /// # Errors
    /// The blocks cannot be made.
    fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        Ok(made)
    }
    /// Checks the security of an arrived bundle as the node's rules ask; faults are noted in [`BundleMeta::duties`].
    ///
    /// Fails if the check needs the payload in memory but it is on disk; returns the bundle with the refusal.
    fn arrive(&mut self, bundle: BundleMeta) -> Result<BundleMeta, (Box<BundleMeta>, Refusal)> {
        Ok(bundle)
    }
    /// Whether an application may get the payload only through [`Codec::open`].
    fn guards(&self, _bundle: &BundleMeta) -> bool {
        false
    }
    /// Checks and decrypts the payload for an application; `payload` is the bundle's, in memory.
    ///
    /// # Errors
    /// The reason why the payload must not be handed out.
    fn open(&self, _bundle: &BundleMeta, payload: Payload) -> Result<Payload, DeleteReason> {
        Ok(payload)
    }
    /// Security rules for bundles of this version, if there are any.
    fn security(&self) -> Option<&Security> {
        None
    }
    /// Mutable access to the security rules.
    fn security_mut(&mut self) -> Option<&mut Security> {
        None
    }
    /// The reassembled bundle; `first` is its first fragment.
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta;
    /// Payload of a status report.
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload;
    /// Payload of a custody signal; `None`: this version cannot express it.
    fn custody_signal(&self, _signal: &Signal, _at: Option<DtnTime>) -> Option<Payload> {
        None
    }
    /// Compressed reports that a bundle requests, if any.
    fn asked(&self, _bundle: &BundleMeta) -> Option<Asked> {
        None
    }
    /// Payload of a compressed reporting signal; a source among `known` need not be named. `None`: this version has no
    /// such signal.
    fn compressed_report(&self, _said: &[(Item, Numbers)], _known: &[&EndpointId]) -> Option<Payload> {
        None
    }
    /// Payload of a hello.
    fn hello(&self, content: &[u8]) -> Payload;
    /// Reads an administrative record.
    fn record(&self, payload: &[u8]) -> Record;
}

/// Bundle protocol version 7 (RFC 9171).
#[derive(Clone, Debug)]
pub struct BpV7 {
    /// Strictness of reading arriving bundles.
    pub profile: Profile,
    /// CRC put on blocks made here.
    pub crc: CrcType,
    /// Accelerated functions of this machine, checked by the driver.
    pub accel: Accel,
    /// Type numbers of custody blocks and records; `None`: they are ignored.
    pub custody: Option<Box<v7::CustodyCodes>>,
}

impl BpV7 {
    fn note(&self, mut read: (BundleMeta, HopState)) -> (BundleMeta, HopState) {
        if let Some(codes) = &self.custody {
            custody::v7_note(&mut read.0, &mut read.1, codes);
        }
        read
    }
    fn hop(&self, hop: &HopState) -> Option<HopState> {
        custody::v7_hop(hop, self.custody.as_deref())
    }
}

impl Codec for BpV7 {
    fn version(&self) -> u8 {
        7
    }
    fn recognises(&self, first: u8) -> bool {
        first == 0x9f
    }
    fn accel(&self) -> Accel {
        self.accel
    }
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        let begun = v7::begin(prefix, self.profile, &self.accel)?;
        Ok(begun.map(|v7::Begun { meta, hop, payload_at, payload_len, check, guarded, named }| {
            let (meta, hop) = self.note((meta, hop));
            let watch = Passing { check, payload_at, payload_end: payload_at + payload_len, passed: 0 };
            Opening {
                meta,
                hop,
                watch: Box::new(watch),
                starts_at: payload_at,
                payload_at: (!guarded).then_some(payload_at),
                named,
            }
        }))
    }
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        Ok(self.note(v7::read(rope, self.profile, &self.accel)?))
    }
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed> {
        Ok(self.note(v7::read_parts(head, payload, tail, Profile::Permissive, &self.accel)?))
    }
    fn tail(&self, bundle: &BundleMeta) -> Bytes {
        v7::tail(bundle)
    }
    fn render(
        &self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
        room: &mut BytesMut,
    ) -> Encoded {
        v7::render_loaded(bundle, payload, self.hop(hop).as_ref().unwrap_or(hop), cut, &self.accel, room)
    }
    fn piece(
        &self,
        bundle: &BundleMeta,
        hop: &HopState,
        cut: Range<u64>,
        room: &mut BytesMut,
    ) -> Option<Box<dyn Piece>> {
        Some(Box::new(v7::piece(bundle, self.hop(hop).as_ref().unwrap_or(hop), cut, &self.accel, room)))
    }
    fn computes_crc(&self, bundle: &BundleMeta, hop: &HopState) -> bool {
        v7::computes_crc(bundle, hop)
    }
    fn restamp(&self, bundle: &BundleMeta) -> Option<Restamp> {
        has_age(bundle).then_some(v7::restamp as Restamp)
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        v7::size(bundle, self.hop(hop).as_ref().unwrap_or(hop), cut)
    }
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        let Draft { source, destination, report_to, facts, lifetime_ms, priority, hop_limit, compressed, version: _ } =
            draft;
        let codes = self.custody.as_deref();
        let custody = codes.filter(|_| facts.has(Facts::CUSTODY)).map_or(0, |codes| codes.transfer_block);
        let reporting = compressed.zip(codes).map(|(asked, codes)| reporting::block(asked, codes));
        let draft = v7::BundleDraft {
            source,
            destination,
            report_to,
            facts,
            lifetime_ms,
            priority,
            hop_limit,
            labels: None,
            custody,
            reporting,
        };
        let made = v7::make(&draft, creation, payload, self.crc, &self.accel);
        Ok(if custody > 0 { self.note((made, HopState::default())).0 } else { made })
    }
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta {
        v7::whole(first, payload, &self.accel)
    }
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload {
        let which = match status {
            Status::Received => v7::StatusAssertion::Received,
            Status::Forwarded => v7::StatusAssertion::Forwarded,
            Status::Delivered => v7::StatusAssertion::Delivered,
            Status::Deleted => v7::StatusAssertion::Deleted,
        };
        Payload::from(v7::status_report(about, which, reason as u64, at))
    }
    fn custody_signal(&self, signal: &Signal, _: Option<DtnTime>) -> Option<Payload> {
        custody::v7_signal(signal, self.custody.as_deref()?).map(Payload::from)
    }
    fn asked(&self, bundle: &BundleMeta) -> Option<Asked> {
        reporting::asked(bundle, self.custody.as_deref()?)
    }
    fn compressed_report(&self, said: &[(Item, Numbers)], known: &[&EndpointId]) -> Option<Payload> {
        reporting::signal(said, known, self.custody.as_deref()?)
    }
    fn hello(&self, content: &[u8]) -> Payload {
        Payload::from(v7::signal(content))
    }
    fn record(&self, payload: &[u8]) -> Record {
        match v7::record(payload) {
            Ok(v7::ParsedRecord::Signal(content)) => Record::Hello(content),
            Ok(v7::ParsedRecord::Other { kind, content })
                if self.custody.as_ref().is_some_and(|codes| codes.custody_record == kind && kind > 0) =>
            {
                // A run of two bytes on the wire becomes many in memory: the bound keeps a small record from filling
                // it.
                let short = content.len() <= custody::RECORD_MAX;
                let signal = short.then(|| custody::v7_record(&content).ok()).flatten();
                signal.unwrap_or(Record::Unreadable)
            }
            Ok(_) => Record::Other,
            Err(_) => Record::Unreadable,
        }
    }
}

/// Whether the rendered bundle has an age block: its own, or one added because it lacks a creation time.
pub(crate) fn has_age(bundle: &BundleMeta) -> bool {
    bundle.created_ms == 0 || bundle.facts.has(Facts::AGE)
}

/// Checks payload and end of the payload block (RFC 9171 4.3.2) while all bytes of a bundle pass.
#[derive(Debug)]
struct Passing {
    check: v7::PayloadCheck,
    payload_at: u64,
    payload_end: u64,
    passed: u64,
}
impl Watch for Passing {
    fn pass(&mut self, part: &Payload) {
        let (start, end) = (self.passed, self.passed + part.len());
        // Parts are cut without regard to blocks: only the overlap with the payload counts.
        let (from, to) = (self.payload_at.max(start), self.payload_end.min(end));
        if from < to {
            self.check.update_rope(&part.slice(from - start, to - from));
        }
        self.passed = end;
    }
    fn finish(self: Box<Self>, bundle: &Payload) -> Result<(), Malformed> {
        // 16 bytes hold the CRC of the payload block, at most 5 bytes with its header, and the break after it.
        let mut tail = [0u8; 16];
        let copied = bundle.copy_to(self.payload_end, &mut tail);
        self.check.finish(&tail[..copied]).map(drop)
    }
}
impl Piece for v7::PendingFragment {
    fn wants_bytes(&self) -> bool {
        v7::PendingFragment::wants_bytes(self)
    }
    fn pass(&mut self, part: &Payload) {
        v7::PendingFragment::pass(self, part);
    }
    fn finish(self: Box<Self>, payload: Payload) -> Encoded {
        v7::PendingFragment::finish(*self, payload)
    }
}

/// Choice of the bundles whose payloads get a digest, with the key of the digests.
#[derive(Debug)]
enum Digests {
    /// Only bundles that are compared with another; the key derives from this secret.
    WhereNeeded(u64),
    /// Follows `WhereNeeded` at the first digest, for which the key is derived.
    Needed(DigestKey),
    /// All arriving bundles, as their payloads may leave memory; `None` until the store has read its secret.
    OfAll(Option<DigestKey>),
}

/// The codecs of all versions that a node speaks.
#[derive(Debug)]
pub(crate) struct Edges {
    codecs: Box<[Box<dyn Codec>]>,
    digests: Digests,
    /// Buffer that heads are rendered into, one after the other.
    room: BytesMut,
}

impl Edges {
    /// All codecs of a node; the first one also handles bundles of unknown versions. With `digests`, payloads may
    /// leave memory, so all get a digest.
    pub fn new(codecs: Vec<Box<dyn Codec>>, digests: bool) -> Self {
        let digests = if digests { Digests::OfAll(None) } else { Digests::WhereNeeded(0) };
        Edges { codecs: codecs.into_boxed_slice(), digests, room: BytesMut::new() }
    }
    fn digest_of(&mut self, payload: &Payload) -> u64 {
        // The key is derived at the first need: thousands of simulated nodes never need one.
        if let Digests::WhereNeeded(secret) = self.digests {
            self.digests = Digests::Needed(self.key(secret));
        }
        match &self.digests {
            Digests::Needed(key) | Digests::OfAll(Some(key)) => key.of(payload).unwrap_or(0),
            // Without a key there is no digest. No bundle is accepted before the store is read.
            _ => 0,
        }
    }
    fn key(&self, secret: u64) -> DigestKey {
        DigestKey::new(secret, &self.of(7).map_or_else(Accel::default, Codec::accel))
    }
    /// The payload, decrypted if this node can do that.
    fn in_clear(&self, bundle: &BundleMeta) -> Payload {
        let payload = bundle.payload.clone();
        if !self.guards(bundle) || payload.is_stored() {
            return payload;
        }
        let security = self.of(bundle.version).and_then(|codec| codec.security());
        security.and_then(|security| security.look(bundle, payload.clone()).ok()).unwrap_or(payload)
    }
    fn of(&self, version: u8) -> Option<&dyn Codec> {
        let codec = self.codecs.iter().find(|codec| codec.version() == version).or(self.codecs.first());
        codec.map(|codec| &**codec)
    }
    fn of_mut(&mut self, version: u8) -> Option<&mut Box<dyn Codec>> {
        let place = self.codecs.iter().position(|codec| codec.version() == version).unwrap_or(0);
        self.codecs.get_mut(place)
    }
    /// Security rules, if there are any.
    pub fn security(&self) -> Option<&Security> {
        self.codecs.iter().find_map(|codec| codec.security())
    }
    /// Mutable access to the security rules.
    pub fn security_mut(&mut self) -> Option<&mut Security> {
        self.codecs.iter_mut().find_map(|codec| codec.security_mut())
    }
    /// Security rules that apply to a version without security blocks of its own.
    fn guard_without(&self, version: u8) -> Option<&Security> {
        self.security().filter(|_| self.of(version).is_some_and(|codec| codec.security().is_none()))
    }
    fn for_bytes(&self, rope: &Payload) -> Result<&dyn Codec, Malformed> {
        let first = rope.reader().read_u8();
        let codec = first.and_then(|first| self.codecs.iter().find(|codec| codec.recognises(first)));
        // Bytes that no version recognises go to the first codec, whose error names the fault.
        codec
            .or(self.codecs.first())
            .map(|codec| &**codec)
            .ok_or(Malformed { offset: 0, reason: "no version is spoken" })
    }
    /// Reads the head of an arriving bundle; `None`: more bytes are needed.
    pub fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        let mut begun = self.for_bytes(prefix)?.begin(prefix)?;
        if let (Some(opening), Digests::OfAll(Some(key))) = (&mut begun, &self.digests)
            // Digests are computed over plaintext, and an encrypted payload is not decrypted while it arrives.
            && !self.guards(&opening.meta)
        {
            let payload = opening.starts_at..opening.starts_at + opening.meta.payload.len();
            let watch = core::mem::replace(&mut opening.watch, Box::new(()));
            opening.watch = Box::new(Digesting { watch, digester: key.begin(), payload, passed: 0 });
        }
        if let (Some(opening), Some(security)) = (&mut begun, self.security()) {
            // RFC 9172 5.2: a fragment must not get the security blocks that the whole bundle is to have.
            opening.payload_at = opening.payload_at.filter(|_| !security.forbids(&opening.meta));
        }
        Ok(begun)
    }
    /// Parses a fragment cut from an arriving bundle, its payload in memory or on disk. `None` if it must not be kept:
    /// it is malformed, or its blocks demand a report or a deletion.
    pub fn piece_of(&self, Encoded { head, payload, tail }: Encoded) -> Option<(BundleMeta, HopState)> {
        self.read_parts(&head, payload, &tail).ok().filter(|(meta, _)| meta.duties == Duties::default())
    }
    /// Begins a fragment of an arriving bundle, as its sender would have cut it; `None` if its version cannot do that.
    pub fn cut(&self, meta: &BundleMeta, hop: &HopState, range: Range<u64>) -> Option<Box<dyn Piece>> {
        self.of(meta.version)?.piece(meta, hop, range, &mut BytesMut::new())
    }
    /// Reads a whole bundle for the agent; `digest` is that of its payload if it was computed on arrival, else 0.
    pub fn arrived(&mut self, token: OfferToken, link: LinkId, rope: &Payload, digest: u64) -> Input {
        match self.read(rope) {
            Ok((meta, hop)) => self.taken(token, link, BundleMeta { digest, ..meta }, hop),
            Err(error) => self.damaged(token, link, rope, error),
        }
    }
    /// Makes the agent's input for a faulty bundle, with its identity if the primary block is right (RFC 9171 5.6 step
    /// 3).
    pub fn damaged(&self, token: OfferToken, link: LinkId, rope: &Payload, error: Malformed) -> Input {
        match self.begin(rope) {
            Ok(Some(Opening { meta, named: true, .. })) => Input::Damaged { link, token, bundle: meta.into(), error },
            _ => Input::Malformed { link, token, error },
        }
    }
    /// Reads a whole bundle for the agent, unless `is_foreign` finds that it belongs to another shard.
    pub fn arrived_unless(
        &mut self,
        token: OfferToken,
        link: LinkId,
        rope: &Payload,
        is_foreign: impl FnOnce(&BundleMeta) -> bool,
    ) -> Option<Input> {
        match self.read(rope) {
            Ok((meta, _)) if is_foreign(&meta) => None,
            Ok((meta, hop)) => Some(self.taken(token, link, meta, hop)),
            Err(error) => Some(self.damaged(token, link, rope, error)),
        }
    }
    fn taken(&mut self, token: OfferToken, link: LinkId, mut meta: BundleMeta, hop: HopState) -> Input {
        if meta.payload.len() <= SMALL {
            // A short payload would keep the whole read buffer alive.
            meta.payload = meta.payload.own();
        }
        self.judged(token, link, meta, Box::new(hop))
    }
    fn judged(&mut self, token: OfferToken, link: LinkId, meta: BundleMeta, hop: Box<HopState>) -> Input {
        let meta = match self.guard_without(meta.version) {
            Some(security) => security.foreign(meta),
            None => meta,
        };
        let judged = match self.of_mut(meta.version) {
            Some(codec) => codec.arrive(meta),
            None => Ok(meta),
        };
        match judged {
            Ok(mut meta) if matches!(self.digests, Digests::OfAll(_)) && meta.digest == 0 => {
                meta.digest = Edge::digest(self, &meta);
                Input::Arrived { link, token, bundle: Arc::new(meta), hop }
            }
            Ok(meta) => Input::Arrived { link, token, bundle: Arc::new(meta), hop },
            Err((meta, reason)) => Input::Unwanted { link, token, bundle: Arc::new(*meta), reason },
        }
    }
    /// Checks a bundle that came without encoding (message level), for the agent.
    pub fn message(&mut self, token: OfferToken, link: LinkId, bundle: Arc<BundleMeta>, hop: Box<HopState>) -> Input {
        if self.security().is_none() {
            return Input::Arrived { link, token, bundle, hop };
        }
        self.judged(token, link, BundleMeta::clone(&bundle), hop)
    }
    /// Checks and decrypts the payload of a delivery.
    pub fn open(&self, bundle: &BundleMeta, payload: Payload) -> Result<Payload, DeleteReason> {
        self.of(bundle.version).map_or(Err(DeleteReason::UnknownSecurity), |codec| codec.open(bundle, payload))
    }
    /// Reads a whole bundle.
    pub fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        self.for_bytes(rope)?.read(rope)
    }
    /// Reads a bundle from its stored parts.
    pub fn read_parts(
        &self,
        head: &Bytes,
        payload: Payload,
        tail: &Bytes,
    ) -> Result<(BundleMeta, HopState), Malformed> {
        let (meta, hop) = self.for_bytes(&Payload::from(head.clone()))?.read_parts(head, payload, tail)?;
        match self.guard_without(meta.version) {
            Some(security) => Ok((security.foreign(meta), hop)),
            None => Ok((meta, hop)),
        }
    }
    /// The stored parts of a bundle: all before the payload, and all after it.
    pub fn around(&self, bundle: &BundleMeta) -> (Bytes, Bytes) {
        let Some(codec) = self.of(bundle.version) else { return Default::default() };
        (Bytes::copy_from_slice(codec.head(bundle)), codec.tail(bundle))
    }
    /// Renders a bundle for this hop.
    pub fn render(
        &mut self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
    ) -> Payload {
        let mut room = core::mem::take(&mut self.room);
        let rendered = self.of(bundle.version).map(|codec| codec.render(bundle, payload, hop, cut, &mut room));
        self.room = room;
        rendered.map(Encoded::into_payload).unwrap_or_default()
    }
    /// Function that rewrites the age in the first bytes; `None`: the bundle has no age.
    pub fn restamp(&self, bundle: &BundleMeta) -> Option<Restamp> {
        self.of(bundle.version)?.restamp(bundle)
    }
    /// Whether the whole bundle leaves with a check sum of its payload that is still to be computed.
    pub fn computes_crc(&self, bundle: &BundleMeta, hop: &HopState) -> bool {
        self.of(bundle.version).is_some_and(|codec| codec.computes_crc(bundle, hop))
    }
    /// Begins a fragment, or a whole bundle with a new check sum, that leaves from disk; `None`: its bytes are needed
    /// in memory.
    pub fn piece(&mut self, bundle: &BundleMeta, hop: &HopState, cut: Range<u64>) -> Option<Box<dyn Piece>> {
        let mut room = core::mem::take(&mut self.room);
        let piece = self.of(bundle.version).and_then(|codec| codec.piece(bundle, hop, cut, &mut room));
        self.room = room;
        piece
    }
}

impl Edge for Edges {
    fn digest(&mut self, bundle: &BundleMeta) -> u64 {
        match bundle.digest {
            0 => {
                let payload = self.in_clear(bundle);
                self.digest_of(&payload)
            }
            known => known,
        }
    }
    fn set_secret(&mut self, secret: u64) {
        self.digests = match self.digests {
            Digests::OfAll(_) => Digests::OfAll(Some(self.key(secret))),
            _ => Digests::WhereNeeded(secret),
        };
    }
    fn make(&mut self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        self.of(draft.version).ok_or(Refusal::NotAcceptable)?.make(draft, creation, payload)
    }
    fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        if self.guard_without(made.version).is_some_and(|security| security.is_source_of(&made)) {
            return Err(Refusal::NotAcceptable);
        }
        self.of_mut(made.version).ok_or(Refusal::NotAcceptable)?.protect(made)
    }
    fn guards(&self, bundle: &BundleMeta) -> bool {
        self.of(bundle.version).is_some_and(|codec| codec.guards(bundle))
    }
    fn whole(&mut self, first: &BundleMeta, payload: Payload) -> Result<BundleMeta, Refusal> {
        Ok(self.of(first.version).ok_or(Refusal::NotAcceptable)?.whole(first, payload))
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        self.of(bundle.version).map_or(0, |codec| codec.size(bundle, hop, cut))
    }
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload {
        self.of(about.version).map(|codec| codec.status_report(about, status, reason, at)).unwrap_or_default()
    }
    fn custody_signal(&self, version: u8, signal: &Signal, at: Option<DtnTime>) -> Option<Payload> {
        self.of(version)?.custody_signal(signal, at)
    }
    fn asked(&self, bundle: &BundleMeta) -> Option<Asked> {
        self.of(bundle.version)?.asked(bundle)
    }
    fn compressed_report(&self, said: &[(Item, Numbers)], known: &[&EndpointId]) -> Option<Payload> {
        self.of(7)?.compressed_report(said, known)
    }
    fn carry(&self, codes: TunnelCodes, number: u64, due: Option<DtnTime>, bundle: Payload) -> Payload {
        crate::tunnel::carry(codes, number, due, bundle)
    }
    fn tunnel_signal(&self, codes: TunnelCodes, answer: Answer, runs: &[Numbers]) -> Payload {
        crate::tunnel::signal(codes, answer, runs)
    }
    fn carried(
        &self,
        outer: &BundleMeta,
        payload: &Payload,
        codes: TunnelCodes,
        depth_max: usize,
    ) -> Result<Carried, Malformed> {
        crate::tunnel::carried(outer, payload, codes, depth_max)
    }
    fn depth(&self, bundle: &BundleMeta, codes: TunnelCodes, most: usize) -> usize {
        if bundle.version == 7 { v7::tunnel::depth(&bundle.payload, codes.bundle, most) } else { 0 }
    }
    fn hello(&self, content: &[u8]) -> Payload {
        self.codecs.first().map(|codec| codec.hello(content)).unwrap_or_default()
    }
    fn record(&self, bundle: &BundleMeta) -> Record {
        let payload = match self.guards(bundle) {
            true => self.open(bundle, bundle.payload.clone()),
            false => Ok(bundle.payload.clone()),
        };
        let Some(bytes) = payload.ok().and_then(|payload| payload.to_bytes()) else { return Record::Unreadable };
        self.of(bundle.version).map_or(Record::Unreadable, |codec| codec.record(&bytes))
    }
}

//! The codec of version 7 together with the security rules for its bundles.

use super::Security;
use crate::edge::{BpV7, Codec, Opening, Piece};
use alloc::boxed::Box;
use core::ops::Range;
use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DeleteReason, DtnTime, EndpointId, HopState, Malformed, Payload,
    Refusal, Restamp,
};
use farlink_bpa::{Asked, Draft, Item, Numbers, Record, Signal, Status};
use farlink_bundle::Encoded;

/// Bundle protocol version 7 (RFC 9171) with BPSec (RFC 9172).
#[derive(Debug)]
pub struct Secured {
    codec: BpV7,
    security: Security,
}
impl Secured {
    pub(crate) fn new(codec: BpV7, security: Security) -> Secured {
        Secured { codec, security }
    }
    fn unsealed(&self, (mut meta, hop): (BundleMeta, HopState)) -> (BundleMeta, HopState) {
        self.security.unseal(&mut meta);
        (meta, hop)
    }
}

impl Codec for Secured {
    fn version(&self) -> u8 {
        self.codec.version()
    }
    fn recognises(&self, first: u8) -> bool {
        self.codec.recognises(first)
    }
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        self.codec.begin(prefix)
    }
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        self.codec.read(rope).map(|read| self.unsealed(read))
    }
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed> {
        let (meta, hop) = self.codec.read_parts(head, payload, tail).map(|read| self.unsealed(read))?;
        Ok((self.security.recall(meta), hop))
    }
    fn head<'a>(&self, bundle: &'a BundleMeta) -> &'a [u8] {
        self.codec.head(bundle)
    }
    fn tail(&self, bundle: &BundleMeta) -> Bytes {
        self.codec.tail(bundle)
    }
    fn render(
        &self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
        room: &mut BytesMut,
    ) -> Encoded {
        self.codec.render(bundle, payload, hop, cut, room)
    }
    fn piece(
        &self,
        bundle: &BundleMeta,
        hop: &HopState,
        cut: Range<u64>,
        room: &mut BytesMut,
    ) -> Option<Box<dyn Piece>> {
        self.codec.piece(bundle, hop, cut, room)
    }
    fn computes_crc(&self, bundle: &BundleMeta, hop: &HopState) -> bool {
        self.codec.computes_crc(bundle, hop)
    }
    fn restamp(&self, bundle: &BundleMeta) -> Option<Restamp> {
        self.codec.restamp(bundle)
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        self.codec.size(bundle, hop, cut)
    }
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        self.codec.make(draft, creation, payload)
    }
    fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        self.security.protect(made)
    }
    fn arrive(&mut self, bundle: BundleMeta) -> Result<BundleMeta, (Box<BundleMeta>, Refusal)> {
        self.security.arrive(bundle)
    }
    fn guards(&self, bundle: &BundleMeta) -> bool {
        self.security.guards(bundle)
    }
    fn open(&self, bundle: &BundleMeta, payload: Payload) -> Result<Payload, DeleteReason> {
        self.security.open(bundle, payload)
    }
    fn security(&self) -> Option<&Security> {
        Some(&self.security)
    }
    fn accel(&self) -> farlink_base::Accel {
        self.codec.accel()
    }
    fn security_mut(&mut self) -> Option<&mut Security> {
        Some(&mut self.security)
    }
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta {
        self.codec.whole(first, payload)
    }
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload {
        self.codec.status_report(about, status, reason, at)
    }
    fn custody_signal(&self, signal: &Signal, at: Option<DtnTime>) -> Option<Payload> {
        self.codec.custody_signal(signal, at)
    }
    fn asked(&self, bundle: &BundleMeta) -> Option<Asked> {
        self.codec.asked(bundle)
    }
    fn compressed_report(&self, said: &[(Item, Numbers)], known: &[&EndpointId]) -> Option<Payload> {
        self.codec.compressed_report(said, known)
    }
    fn hello(&self, content: &[u8]) -> Payload {
        self.codec.hello(content)
    }
    fn record(&self, payload: &[u8]) -> Record {
        self.codec.record(payload)
    }
}

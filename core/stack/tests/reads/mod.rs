//! A codec that lets a test observe or break the reading of whole bundles.

use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DeleteReason, DtnTime, EndpointId, HopState, Malformed, Payload,
    Refusal, Restamp,
};
use farlink_bpa::{Asked, Draft, Item, Numbers, Record, Signal, Status};
use farlink_bundle::Encoded;
use farlink_stack::{Codec, Opening, Piece};
use std::fmt;
use std::ops::Range;

/// A codec that reads whole bundles by this function and is otherwise unchanged.
pub struct Reads<C, R>(pub C, pub R);
impl<C, R> fmt::Debug for Reads<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reads")
    }
}
impl<C: Codec, R: Fn(&C, &Payload) -> Result<(BundleMeta, HopState), Malformed> + Send> Codec for Reads<C, R> {
    fn version(&self) -> u8 {
        self.0.version()
    }
    fn recognises(&self, first: u8) -> bool {
        self.0.recognises(first)
    }
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        self.0.begin(prefix)
    }
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        (self.1)(&self.0, rope)
    }
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed> {
        self.0.read_parts(head, payload, tail)
    }
    fn head<'a>(&self, bundle: &'a BundleMeta) -> &'a [u8] {
        self.0.head(bundle)
    }
    fn tail(&self, bundle: &BundleMeta) -> Bytes {
        self.0.tail(bundle)
    }
    fn render(
        &self,
        b: &BundleMeta,
        p: Payload,
        h: &HopState,
        cut: Option<Range<u64>>,
        room: &mut BytesMut,
    ) -> Encoded {
        self.0.render(b, p, h, cut, room)
    }
    fn piece(&self, b: &BundleMeta, hop: &HopState, cut: Range<u64>, room: &mut BytesMut) -> Option<Box<dyn Piece>> {
        self.0.piece(b, hop, cut, room)
    }
    fn computes_crc(&self, bundle: &BundleMeta, hop: &HopState) -> bool {
        self.0.computes_crc(bundle, hop)
    }
    fn restamp(&self, bundle: &BundleMeta) -> Option<Restamp> {
        self.0.restamp(bundle)
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        self.0.size(bundle, hop, cut)
    }
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        self.0.make(draft, creation, payload)
    }
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta {
        self.0.whole(first, payload)
    }
    fn status_report(&self, about: &BundleMeta, status: Status, why: DeleteReason, at: Option<DtnTime>) -> Payload {
        self.0.status_report(about, status, why, at)
    }
    fn custody_signal(&self, signal: &Signal, at: Option<DtnTime>) -> Option<Payload> {
        self.0.custody_signal(signal, at)
    }
    fn asked(&self, bundle: &BundleMeta) -> Option<Asked> {
        self.0.asked(bundle)
    }
    fn compressed_report(&self, said: &[(Item, Numbers)], known: &[&EndpointId]) -> Option<Payload> {
        self.0.compressed_report(said, known)
    }
    fn hello(&self, content: &[u8]) -> Payload {
        self.0.hello(content)
    }
    fn record(&self, payload: &[u8]) -> Record {
        self.0.record(payload)
    }
}

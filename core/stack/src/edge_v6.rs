//! Bundle protocol version 6 at the edge (RFC 5050, RFC 6260).

use crate::custody;
use crate::edge::{Codec, Opening, Piece, has_age};
use alloc::boxed::Box;
use core::ops::Range;
use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DeleteReason, DtnTime, HopState, Malformed, Payload, Refusal,
    Restamp,
};
use farlink_bpa::{Draft, Record, Signal, Status};
use farlink_bundle::{Encoded, Profile, v6};

/// Bundle protocol version 6. A bundle that arrived in it leaves in it.
#[derive(Clone, Copy, Debug)]
pub struct BpV6 {
    /// Strictness of reading arriving bundles.
    pub profile: Profile,
    /// Whether custody numbers are read from arriving bundles and assigned to leaving ones, so that one custody signal
    /// can cover many bundles (CCSDS 734.2-B-1).
    pub numbers: bool,
}

impl BpV6 {
    /// Copy of the hop state without its custody number, if this node uses no custody numbers; `None`: the state stays
    /// as it is.
    fn hop(&self, hop: &HopState) -> Option<HopState> {
        // The block of CCSDS 734.2-B-1 means nothing to nodes that only know RFC 5050.
        let drops = !self.numbers && hop.transfer.is_some();
        drops.then(|| HopState { transfer: None, ..hop.clone() })
    }
    fn heed(&self, mut read: (BundleMeta, HopState)) -> (BundleMeta, HopState) {
        if !self.numbers {
            read.1.transfer = None;
        }
        read
    }
}

impl Codec for BpV6 {
    fn version(&self) -> u8 {
        v6::VERSION
    }
    fn recognises(&self, first: u8) -> bool {
        first == v6::VERSION
    }
    fn begin(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        let begun = v6::begin(prefix, self.profile)?;
        // Version 6 has no check sums to watch; the blocks after the payload are parsed with the whole bundle.
        Ok(begun.map(|v6::Begun { meta, hop, payload_at, .. }| {
            let (meta, hop) = self.heed((meta, hop));
            Opening {
                meta,
                hop,
                watch: Box::new(()),
                starts_at: payload_at,
                payload_at: Some(payload_at),
                named: false,
            }
        }))
    }
    fn read(&self, rope: &Payload) -> Result<(BundleMeta, HopState), Malformed> {
        Ok(self.heed(v6::read(rope, self.profile)?))
    }
    fn read_parts(&self, head: &Bytes, payload: Payload, tail: &Bytes) -> Result<(BundleMeta, HopState), Malformed> {
        Ok(self.heed(v6::read_parts(head, payload, tail, Profile::Permissive)?))
    }
    fn head<'a>(&self, bundle: &'a BundleMeta) -> &'a [u8] {
        v6::head(bundle)
    }
    fn tail(&self, bundle: &BundleMeta) -> Bytes {
        v6::tail(bundle)
    }
    fn render(
        &self,
        bundle: &BundleMeta,
        payload: Payload,
        hop: &HopState,
        cut: Option<Range<u64>>,
        room: &mut BytesMut,
    ) -> Encoded {
        v6::render_loaded(bundle, payload, self.hop(hop).as_ref().unwrap_or(hop), cut, room)
    }
    fn piece(
        &self,
        bundle: &BundleMeta,
        hop: &HopState,
        cut: Range<u64>,
        room: &mut BytesMut,
    ) -> Option<Box<dyn Piece>> {
        let hop = self.hop(hop).unwrap_or_else(|| hop.clone());
        Some(Box::new(Around(v6::render_loaded(bundle, Payload::new(), &hop, Some(cut), room))))
    }
    fn restamp(&self, bundle: &BundleMeta) -> Option<Restamp> {
        has_age(bundle).then_some(v6::restamp as Restamp)
    }
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
        v6::size(bundle, self.hop(hop).as_ref().unwrap_or(hop), cut)
    }
    fn make(&self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
        let Draft { source, destination, report_to, facts, lifetime_ms, priority, hop_limit, .. } = draft;
        let draft = v6::BundleDraft {
            source,
            destination,
            report_to,
            facts,
            lifetime_ms,
            priority,
            hop_limit,
            ..v6::BundleDraft::default()
        };
        v6::make(&draft, creation, payload)
    }
    fn whole(&self, first: &BundleMeta, payload: Payload) -> BundleMeta {
        v6::whole(first, payload)
    }
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload {
        let which = match status {
            Status::Received => v6::StatusAssertion::Received,
            Status::Forwarded => v6::StatusAssertion::Forwarded,
            Status::Delivered => v6::StatusAssertion::Delivered,
            Status::Deleted => v6::StatusAssertion::Deleted,
        };
        Payload::from(v6::status_report(about, which, reason as u64, at))
    }
    fn custody_signal(&self, signal: &Signal, at: Option<DtnTime>) -> Option<Payload> {
        Some(Payload::from(custody::v6_signal(signal, at)))
    }
    fn hello(&self, content: &[u8]) -> Payload {
        Payload::from(v6::signal(content))
    }
    fn record(&self, payload: &[u8]) -> Record {
        if custody::v6_too_long(payload) {
            return Record::Unreadable;
        }
        match v6::record(payload) {
            Ok(v6::ParsedRecord::Signal(content)) => Record::Hello(content),
            Ok(record) => custody::v6_record(&record).unwrap_or(Record::Other),
            Err(_) => Record::Unreadable,
        }
    }
}

/// The bytes around a fragment; in version 6 they do not depend on its payload.
#[derive(Debug)]
struct Around(Encoded);
impl Piece for Around {
    fn wants_bytes(&self) -> bool {
        false
    }
    fn pass(&mut self, _: &Payload) {}
    fn finish(self: Box<Self>, payload: Payload) -> Encoded {
        Encoded { payload, ..self.0 }
    }
}

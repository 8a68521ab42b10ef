//! Fuzz targets of version 6 of the bundle protocol, listed in [`crate::fuzz::TARGETS`].

use core::ops::Range;
use farlink_base::{Bytes, BytesMut, EndpointId, HopState, Payload};
use farlink_bundle::{Profile, v6};

/// A BPv6 bundle: all readers agree on it, and the output of a hop is valid input of the next one, both from the wire
/// and from the parts of a store.
pub fn bundle_v6(data: &[u8]) {
    let whole = Payload::from(data.to_vec());
    let mut pieces = Payload::new();
    data.chunks(7).for_each(|piece| pieces.push_bytes(Bytes::copy_from_slice(piece)));
    for profile in [Profile::Strict, Profile::Permissive] {
        let (read, begun) = (v6::read(&whole, profile), v6::begin(&whole, profile));
        let error = read.as_ref().err().copied();
        assert_eq!(v6::read(&pieces, profile).err(), error);
        assert_eq!(v6::decode(&whole, profile).err(), error);
        let Ok((meta, hop)) = read else { continue };
        assert!(begun.is_ok_and(|begun| begun.is_some_and(|begun| begun.meta.id == meta.id)));
        assert!(meta.size() <= data.len() as u64);
        let write = |hop: &HopState, cut: Option<Range<u64>>| {
            let encoded = v6::render(&meta, hop, cut.clone(), &mut BytesMut::new());
            assert_eq!(encoded.len(), v6::size(&meta, hop, cut));
            encoded
        };
        let encoded = write(&hop, None);
        // A bundle grows by its age, and by a previous hop that was a reference into the dictionary and is now written
        // out.
        assert!(encoded.len() <= data.len() as u64 + 2100);
        let (next, came) = v6::read(&encoded.clone().into_payload(), profile).expect("what was written is read");
        assert_eq!((next.id, &came), (meta.id, &HopState { age_ms: came.age_ms, ..hop.clone() }));
        let parts = v6::read_parts(&encoded.head, encoded.payload, &encoded.tail, profile);
        assert_eq!(parts.map(|(meta, hop)| (meta.id, hop)), Ok((next.id, came)));
        let other = HopState { previous: EndpointId::dtn("hop", ""), custodian: EndpointId::ipn(3, 0), ..hop };
        let half = meta.payload.len() / 2;
        for cut in [None, Some(0..half), Some(half..meta.payload.len())] {
            if cut.is_none() || meta.may_fragment() {
                v6::read(&write(&other, cut).into_payload(), profile).expect("what a hop writes is read");
            }
        }
        if meta.fragment().is_some() {
            let joined = v6::whole(&meta, meta.payload.clone());
            assert_eq!(joined.id, meta.original_id());
        }
    }
}

/// A BPv6 administrative record: encoding and decoding agree.
pub fn record_v6(data: &[u8]) {
    match v6::record(data) {
        Ok(v6::ParsedRecord::Custody(signal)) => {
            assert_eq!(v6::record(&signal.encode()), Ok(v6::ParsedRecord::Custody(signal)));
        }
        Ok(v6::ParsedRecord::Aggregate(signal)) => {
            assert!(signal.fills.len() <= data.len() / 2);
            assert_eq!(v6::record(&signal.encode()), Ok(v6::ParsedRecord::Aggregate(signal)));
        }
        _ => {}
    }
}

//! Bundle-in-bundle encapsulation (draft-ietf-dtn-bibect-05): the administrative record that carries a bundle, and the
//! signal that reports the fate of carried bundles.
//!
//! Record types are the caller's configuration: drafts and HDTN use 3 and 4, ION 7 and 8.

use super::custody::NumberRun;
use crate::cbor::{ARRAY, BYTES, CborReader, put_head, put_uint};
use crate::{AdministrativeRecord, Profile};
use alloc::vec::Vec;
use farlink_base::{Accel, Bytes, Facts, Malformed, Payload};

/// Record types on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelCodes {
    /// Record type of an encapsulated bundle.
    pub bundle: u64,
    /// Record type of signals about such bundles.
    pub signal: u64,
}
impl Default for TunnelCodes {
    fn default() -> Self {
        TunnelCodes { bundle: 3, signal: 4 }
    }
}

/// Upper bound of the bytes before a carried bundle, which are six CBOR heads.
const BEFORE_MAX: usize = 64;
/// Maximum number of ranges in one signal; each takes at least three bytes.
const RUNS_MAX: u64 = 1 << 14;

/// Bundle encapsulated in another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The sender's transmission number; 0: no signal requested.
    pub number: u64,
    /// Time at which the sender retransmits if no signal has arrived: DTN ms, or Unix seconds from ION; 0: not stated.
    pub due: u64,
    /// Encoded bundle; its bytes may be in memory or on disk.
    pub bundle: Payload,
}

impl Carried {
    /// Encodes the payload of the administrative bundle. The carried bundle's bytes are shared, not read.
    pub fn encode(self, kind: u64) -> Payload {
        let mut head = Vec::with_capacity(BEFORE_MAX);
        put_head(&mut head, ARRAY, 2);
        put_uint(&mut head, kind);
        put_head(&mut head, ARRAY, 3);
        put_uint(&mut head, self.number);
        put_uint(&mut head, self.due);
        put_head(&mut head, BYTES, self.bundle.len());
        let mut payload = Payload::from(head);
        payload.append(self.bundle);
        payload
    }
    /// Decodes an administrative payload; the carried bundle is a slice of it, without a copy. `None` if the record
    /// type is not `kind`.
    ///
    /// # Errors
    /// The record is malformed; the error names the rule and the offset.
    pub fn read(payload: &Payload, kind: u64) -> Result<Option<Carried>, Malformed> {
        let mut room = [0; BEFORE_MAX];
        let len = payload.copy_to(0, &mut room);
        let mut reader = CborReader::new(&room[..len], 0, false);
        let is_record = reader.array() == Ok(2) && reader.uint() == Ok(kind);
        if !is_record {
            return Ok(None);
        }
        let at = reader.position();
        if reader.array()? != 3 {
            return reader.error_at(at, "a bundle protocol data unit is an array of three items");
        }
        let (number, due, len) = (reader.uint()?, reader.uint()?, reader.bytes_head()?);
        let from = reader.position() as u64;
        // Also refuses a length that would reach beyond the record.
        if payload.len().checked_sub(from) != Some(len) {
            return reader.error("an encapsulated bundle must end with its record");
        }
        Ok(Some(Carried { number, due, bundle: payload.slice(from, len) }))
    }
}

/// Record types that drafts and implementations use for a carried bundle.
const KINDS: [u64; 2] = [3, 7];

/// Nesting depth of BPv7 bundles encapsulated in the payload of an administrative record, counted up to `most`; 0 for
/// none. Each level may use this record type or any that drafts or implementations use, since tunnels differ. Nothing
/// else is checked.
pub fn depth(payload: &Payload, kind: u64, most: usize) -> usize {
    let mut payload = payload.clone();
    for depth in 0..most {
        let read = |kind| Carried::read(&payload, kind).ok().flatten();
        let Some(carried) = read(kind).or_else(|| KINDS.into_iter().find_map(read)) else { return depth };
        let Ok(Some(begun)) = super::begin(&carried.bundle, Profile::Permissive, &Accel::default()) else {
            return depth + 1;
        };
        // The payload of an encrypted bundle cannot be read, so deeper levels are not counted.
        if !begun.meta.is_administrative() || begun.meta.facts.has(Facts::SEALED) {
            return depth + 1;
        }
        payload = carried.bundle.slice(begun.payload_at, begun.payload_len);
    }
    most
}

/// Signal about encapsulated bundles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelSignal {
    /// Disposition code. 0: accepted; 3 redundant, 4 no room, 5 destination not understood, 6 no route, 7 no contact in
    /// time, 8 block not understood; others: refused without a reason.
    pub disposition: u64,
    /// Ranges of transmission numbers. Never iterate over them: one range may cover all numbers.
    pub runs: Vec<NumberRun>,
}

impl TunnelSignal {
    /// Encodes the payload of the administrative bundle with the signal.
    pub fn encode(&self, kind: u64) -> Bytes {
        let mut out = Vec::with_capacity(16 + 18 * self.runs.len());
        put_head(&mut out, ARRAY, 2);
        put_uint(&mut out, self.disposition);
        put_head(&mut out, ARRAY, self.runs.len() as u64);
        for run in &self.runs {
            put_head(&mut out, ARRAY, 2);
            put_uint(&mut out, run.first);
            put_uint(&mut out, run.last.saturating_sub(run.first).saturating_add(1));
        }
        AdministrativeRecord::Unknown { kind, content: Bytes::from(out) }.encode()
    }
    /// Decodes the content of a signal record.
    ///
    /// # Errors
    /// The record is malformed; the error names the rule and the offset.
    pub fn read(content: &[u8]) -> Result<TunnelSignal, Malformed> {
        let mut reader = CborReader::new(content, 0, false);
        let signal = reader.list_of(2, "a signal is a disposition and ranges of numbers", |reader| {
            let disposition = reader.uint()?;
            let runs = reader.list(|reader, items| {
                if items > RUNS_MAX {
                    return reader.error("a signal about too many ranges");
                }
                let mut runs = Vec::new();
                for _ in 0..items {
                    runs.push(read_run(reader)?);
                }
                Ok(runs)
            })?;
            Ok(TunnelSignal { disposition, runs })
        })?;
        reader.finish("bytes after a signal")?;
        Ok(signal)
    }
}

fn read_run(reader: &mut CborReader<'_>) -> Result<NumberRun, Malformed> {
    reader.list_of(2, "a range is its first number and its count", |reader| {
        let (first, count) = (reader.uint()?, reader.uint()?);
        match count.checked_sub(1).and_then(|more| first.checked_add(more)) {
            Some(last) => Ok(NumberRun { first, last }),
            None => reader.error("a range that is empty or goes beyond 64 bits"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bundle, CrcType, CreationTimestamp, EndpointId};
    use crate::{BundleFlags, v7};

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn carried_bundle_encoding_matches_draft() {
        let carried = Carried { number: 5, due: 1000, bundle: Payload::from(&b"inner"[..]) };
        let payload = carried.clone().encode(3);
        assert_eq!(
            payload.to_bytes().unwrap()[..],
            bytes("8203830519 03e8 45 696e6e6572".replace(' ', "").as_str())[..]
        );
        assert_eq!(Carried::read(&payload, 3), Ok(Some(carried)));
        assert_eq!(Carried::read(&payload, 7), Ok(None), "a record of another type is another record");
        let long = Carried { number: u64::MAX, due: u64::MAX, bundle: Payload::fill(1, 1 << 40) };
        let read = Carried::read(&long.clone().encode(u64::MAX), u64::MAX).unwrap().unwrap();
        assert_eq!((read.number, read.due, read.bundle.len()), (long.number, long.due, 1 << 40));
    }

    #[test]
    fn malformed_tunnel_record_is_refused() {
        let good = Carried { number: 5, due: 1000, bundle: Payload::from(&b"inner"[..]) }.encode(3);
        let good = good.to_bytes().unwrap();
        for len in 0..good.len() {
            let cut = Carried::read(&Payload::from(good.slice(..len)), 3);
            assert!(!matches!(cut, Ok(Some(_))), "{len} bytes: {cut:?}");
        }
        for hex in [
            "820384 0500 00 4101",
            "8203830500 440102",
            "8203830500 5bffffffffffffffff01",
            "8203830500 4101 00",
            "82038305004100ff",
        ] {
            let read = Carried::read(&Payload::from(bytes(&hex.replace(' ', ""))), 3);
            assert!(read.is_err(), "{hex}: {read:?}");
        }
    }

    #[test]
    fn tunnel_signals_round_trip() {
        let runs = Vec::from([
            NumberRun { first: 5, last: 6 },
            NumberRun { first: 9, last: 9 },
            NumberRun { first: 10, last: u64::MAX },
        ]);
        let signal = TunnelSignal { disposition: 4, runs };
        let wire = signal.encode(4);
        let Ok(v7::ParsedRecord::Other { kind: 4, content }) = v7::record(&wire) else { panic!("{wire:x?}") };
        assert_eq!(TunnelSignal::read(&content), Ok(signal));
        assert_eq!(
            TunnelSignal { disposition: 0, runs: Vec::from([NumberRun { first: 5, last: 6 }]) }.encode(4)[..],
            bytes("820482008182 0502".replace(' ', "").as_str())[..]
        );
        let all = bytes("82008182001bffffffffffffffff");
        assert_eq!(TunnelSignal::read(&all).unwrap().runs, [NumberRun { first: 0, last: u64::MAX - 1 }]);
        for bad in [
            "8200",
            "820081820500",
            "8200818202",
            "82008182021bffffffffffffffff",
            "820081820105ff",
            "82008383",
            "82009bffffffffffffffff",
        ] {
            assert!(TunnelSignal::read(&bytes(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn tunnel_depth_is_bounded() {
        let around = |payload: Payload| {
            let creation = CreationTimestamp { time: farlink_base::DtnTime(1), sequence: 1 };
            let bundle = Bundle::new(EndpointId::ipn(1, 0), EndpointId::ipn(2, 0), creation)
                .flags(BundleFlags::ADMIN)
                .crc(CrcType::None)
                .payload(payload)
                .build();
            Payload::from(bundle.encode(&Accel::default()).into_payload().to_bytes().unwrap())
        };
        for kinds in [[3, 3], [3, 7], [99, 7], [99, 99]] {
            let mut payload = Payload::from(&b"no record"[..]);
            for levels in 0..10 {
                assert_eq!(depth(&payload, kinds[0], 4), levels.min(4), "records {kinds:?} in turn");
                payload = Carried { number: 0, due: 0, bundle: around(payload) }.encode(kinds[levels % 2]);
            }
        }
    }
}

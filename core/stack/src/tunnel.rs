//! Translation of bundles in bundles between the agent and version 7 (draft-ietf-dtn-bibect-05).

use crate::custody::{REASONS, RECORD_MAX, answer_of};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, DtnTime, EndpointId, Malformed, Payload};
use farlink_bpa::{Answer, Carried, Numbers, TunnelCodes};
use farlink_bundle::v7::custody::NumberRun;
use farlink_bundle::v7::{self, TunnelSignal, tunnel};

/// Unix time at the beginning of DTN time, in seconds.
const UNIX_TO_DTN_S: u64 = 946_684_800;

/// Payload of the outer bundle that carries `bundle`.
pub(crate) fn carry(codes: TunnelCodes, number: u64, due: Option<DtnTime>, bundle: Payload) -> Payload {
    let written = |due: DtnTime| if codes.unix { due.0 / 1000 + UNIX_TO_DTN_S } else { due.0 };
    // Without a number no signal is wanted, and the draft writes zeros for both.
    let due = if number == 0 { 0 } else { due.map_or(0, written) };
    v7::Carried { number, due, bundle }.encode(codes.bundle)
}

/// Payload of a signal with this answer for the transmissions numbered by `runs`.
pub(crate) fn signal(codes: TunnelCodes, answer: Answer, runs: &[Numbers]) -> Payload {
    let reason = REASONS.iter().find(|(known, _)| *known == answer).map(|(_, (_, reason))| u64::from(*reason));
    let disposition = match answer {
        Answer::Taken => 0,
        // 0 means acceptance; 1 is "no information".
        _ => reason.filter(|reason| *reason > 0).unwrap_or(1),
    };
    let runs = runs.iter().map(|run| NumberRun { first: run.first, last: run.last }).collect();
    Payload::from(TunnelSignal { disposition, runs }.encode(codes.signal))
}

/// Reads the bundle or the signal that a record carries; [`Carried::Nothing`] for other records.
pub(crate) fn carried(
    outer: &BundleMeta,
    payload: &Payload,
    codes: TunnelCodes,
    depth_max: usize,
) -> Result<Carried, Malformed> {
    // The draft defines the record for version 7 only.
    if outer.version != 7 {
        return Ok(Carried::Nothing);
    }
    if let Some(carried) = v7::Carried::read(payload, codes.bundle)? {
        if tunnel::depth(payload, codes.bundle, depth_max + 1) > depth_max {
            return Err(Malformed { offset: 0, reason: "too many bundles around one another" });
        }
        return Ok(Carried::Inside(carried.number, carried.bundle));
    }
    // A longer record would take many times its length in memory.
    let short = payload.len() <= RECORD_MAX as u64;
    let Some(bytes) = short.then(|| payload.to_bytes()).flatten() else { return Ok(Carried::Nothing) };
    match v7::record(&bytes) {
        Ok(v7::ParsedRecord::Other { kind, content }) if kind == codes.signal => {
            let TunnelSignal { disposition, runs } = TunnelSignal::read(&content)?;
            let reason = u8::try_from(disposition).unwrap_or(u8::MAX);
            let answer = answer_of(disposition == 0, reason);
            let number = |run: NumberRun| Numbers {
                sequence: 0,
                destination: EndpointId::Null,
                first: run.first,
                last: run.last,
            };
            Ok(Carried::Signal(answer, runs.into_iter().map(number).collect::<Vec<_>>()))
        }
        _ => Ok(Carried::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Accel, CreationTimestamp};
    use farlink_bundle::{Bundle, CrcType, Profile};

    fn outer(payload: Payload) -> BundleMeta {
        let creation = CreationTimestamp { time: DtnTime(1), sequence: 1 };
        let bundle =
            Bundle::new(EndpointId::ipn(1, 0), EndpointId::ipn(2, 0), creation).crc(CrcType::None).payload(payload);
        let rope = bundle.build().encode(&Accel::default()).into_payload();
        v7::read(&rope, Profile::Strict, &Accel::default()).unwrap().0
    }

    #[test]
    fn only_acceptance_releases_bundle() {
        let codes = TunnelCodes { bundle: 7, signal: 8, unix: true };
        let runs = [Numbers { sequence: 0, destination: EndpointId::Null, first: 3, last: 9 }];
        for (answer, _) in REASONS {
            let payload = signal(codes, answer, &runs);
            let Ok(Carried::Signal(heard, said)) = carried(&outer(payload.clone()), &payload, codes, 4) else {
                panic!("{answer:?}")
            };
            assert!(heard == answer && said == runs, "{answer:?} became {heard:?}");
            let others = TunnelCodes::default();
            assert_eq!(carried(&outer(payload.clone()), &payload, others, 4), Ok(Carried::Nothing), "of other drafts");
        }
        for unknown in [1, 2, 9, 255, 256, u64::MAX] {
            let payload = Payload::from(TunnelSignal { disposition: unknown, runs: Vec::new() }.encode(8));
            let Ok(Carried::Signal(heard, _)) = carried(&outer(payload.clone()), &payload, codes, 4) else {
                panic!("{unknown}")
            };
            assert!(!heard.releases(), "{unknown}");
        }
    }

    #[test]
    fn unsignalled_bundle_has_zero_fields() {
        let codes = TunnelCodes::default();
        let payload = carry(codes, 0, Some(DtnTime(5)), Payload::from(&b"x"[..]));
        assert_eq!(payload.to_bytes().unwrap()[..], [0x82, 3, 0x83, 0, 0, 0x41, b'x']);
        let later =
            |codes| v7::Carried::read(&carry(codes, 1, Some(DtnTime(5_999)), Payload::new()), 3).unwrap().unwrap().due;
        let ion = TunnelCodes { unix: true, ..codes };
        assert_eq!([later(codes), later(ion)], [5_999, 946_684_805], "drafts say DTN ms, ION seconds of Unix");
        let read = carried(&outer(payload.clone()), &payload, codes, 4);
        assert_eq!(read, Ok(Carried::Inside(0, Payload::from(&b"x"[..]))));
    }
}

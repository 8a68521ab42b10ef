//! Forged bundles with the identity of an honest one.

use farlink_base::{Accel, Bytes, BytesMut, CreationTimestamp, EndpointId, HopState, Payload};
use farlink_bundle::{CrcType, Encoded, v6, v7};
use std::fmt;

/// Length of an honest payload.
pub const LENGTH: usize = 400;
/// Byte that fills the attacker's own payloads.
pub const STRANGE: u8 = b's';

/// Difference between a forgery and the honest bundle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Alteration {
    /// No difference: a copy.
    Nothing,
    Payload,
    Length,
    Lifetime,
    ReportTo,
    /// The first node, or the second one where the first is the honest destination.
    Destination,
    /// The first half of another payload.
    FirstPiece,
    /// The second half of another payload.
    LastPiece,
    /// All of another payload as one fragment.
    WholePiece,
    /// The first half of the honest payload.
    TrueFirstPiece,
    /// The second half of the honest payload.
    TrueLastPiece,
}
use Alteration as A;
impl Alteration {
    pub const ALL: [Alteration; 11] = [
        A::Nothing,
        A::Payload,
        A::Length,
        A::Lifetime,
        A::ReportTo,
        A::Destination,
        A::FirstPiece,
        A::LastPiece,
        A::WholePiece,
        A::TrueFirstPiece,
        A::TrueLastPiece,
    ];
    pub fn named(name: &str) -> Option<Alteration> {
        Alteration::ALL.into_iter().find(|alteration| alteration.to_string() == name)
    }
    /// Whether the forgery has the honest payload, or part of it, if the attacker can know that.
    pub fn is_true(self) -> bool {
        !matches!(self, A::Payload | A::Length | A::FirstPiece | A::LastPiece | A::WholePiece)
    }
    /// The range of the payload that a fragment has.
    pub fn cut(self) -> Option<core::ops::Range<u64>> {
        let (half, all) = (LENGTH as u64 / 2, LENGTH as u64);
        match self {
            A::FirstPiece | A::TrueFirstPiece => Some(0..half),
            A::LastPiece | A::TrueLastPiece => Some(half..all),
            _ => None,
        }
    }
}
impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// An honest bundle as its source makes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Honest {
    pub source: EndpointId,
    pub destination: EndpointId,
    pub creation: CreationTimestamp,
    pub lifetime_ms: u64,
    pub payload: Bytes,
}

/// The forgery in bytes.
pub fn forge(honest: &Honest, alteration: Alteration, version: u8) -> Bytes {
    let Honest { source, destination, creation, lifetime_ms, payload } = honest.clone();
    let mut draft = v7::BundleDraft { source, destination, lifetime_ms, hop_limit: 64, ..v7::BundleDraft::default() };
    match alteration {
        A::Lifetime => draft.lifetime_ms += 5000,
        A::ReportTo => draft.report_to = EndpointId::ipn(9, 1),
        A::Destination => {
            let other = if draft.destination == EndpointId::ipn(1, 1) { 2 } else { 1 };
            draft.destination = EndpointId::ipn(other, 1);
        }
        _ => {}
    }
    let payload = match alteration {
        _ if alteration.is_true() => payload,
        A::Length => Bytes::from(vec![STRANGE; LENGTH - 7]),
        _ => Bytes::from(vec![STRANGE; LENGTH]),
    };
    let (payload, accel, hop) = (Payload::from(payload), Accel::default(), HopState::default());
    let mut room = BytesMut::new();
    let encoded: Encoded = if version == 6 {
        let meta = v6::make(&draft, creation, payload).expect("version 6 can say it");
        v6::render(&meta, &hop, alteration.cut(), &mut room)
    } else {
        let meta = v7::make(&draft, creation, payload, CrcType::Crc32c, &accel);
        v7::render(&meta, &hop, alteration.cut(), &accel, &mut room)
    };
    encoded.into_payload().to_bytes().expect("it is in memory")
}

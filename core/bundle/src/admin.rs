//! Administrative records: status reports (RFC 9171 6.1).

use crate::{CreationTimestamp, EndpointId};
use alloc::vec::Vec;
use farlink_base::{Bytes, DtnTime, Malformed};

/// Status report reason codes (RFC 9171 9.5, RFC 9172 11.3).
pub mod reason {
    /// No additional information.
    pub const NONE: u64 = 0;
    /// Lifetime expired.
    pub const LIFETIME_EXPIRED: u64 = 1;
    /// Depleted storage.
    pub const DEPLETED_STORAGE: u64 = 4;
    /// Block unintelligible.
    pub const BLOCK_UNINTELLIGIBLE: u64 = 8;
    /// Hop limit exceeded.
    pub const HOP_LIMIT: u64 = 9;
    /// Block unsupported.
    pub const BLOCK_UNSUPPORTED: u64 = 11;
}

/// One assertion of a status report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusItem {
    /// Whether it happened.
    pub asserted: bool,
    /// When, if the subject bundle asked for times.
    pub time: Option<DtnTime>,
}

/// A bundle status report (RFC 9171 6.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusReport {
    /// The node received the bundle.
    pub received: StatusItem,
    /// The node forwarded it.
    pub forwarded: StatusItem,
    /// The node delivered it.
    pub delivered: StatusItem,
    /// The node deleted it.
    pub deleted: StatusItem,
    /// Why ([`reason`]).
    pub reason: u64,
    /// Source of the subject bundle.
    pub source: EndpointId,
    /// Creation timestamp of the subject bundle.
    pub creation: CreationTimestamp,
    /// Fragment offset and payload length, when the subject was a fragment.
    pub fragment: Option<(u64, u64)>,
}

/// An administrative record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdministrativeRecord {
    /// Type 1.
    Status(StatusReport),
    /// Any other type, its content as encoded.
    Unknown {
        /// Record type code.
        kind: u64,
        /// The content, one CBOR item.
        content: Bytes,
    },
}
impl AdministrativeRecord {
    /// The record as the payload of an administrative bundle.
    pub fn encode(&self) -> Bytes {
        Bytes::from(Vec::new())
    }
    /// Reads the payload of an administrative bundle.
    pub fn decode(payload: &[u8]) -> Result<AdministrativeRecord, Malformed> {
        Err(Malformed { offset: payload.len() as u64, reason: "an administrative record" })
    }
}

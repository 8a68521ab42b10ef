//! Bundles on the wire and in memory: endpoint IDs, the BPv7 codec, CRCs, extension blocks,
//! fragments and administrative records (RFC 9171, RFC 9758, RFC 9713), security blocks (RFC 9172, RFC 9173);
//! and BPv6 (RFC 5050, RFC 6260).
//!
//! It decides nothing: the agent decides about bundles (`core/bpa`). The engine uses [`v7`] and [`v6`], which expose no
//! wire structures; tools that show every block use [`Bundle`] and [`decode`]. One parser fills both. Read [`v7`]
//! first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod admin;
mod blocks;
pub mod bpsec;
mod builder;
mod bundle;
pub mod cbor;
mod check;
mod crc;
mod decode;
mod eid_wire;
mod encode;
mod end;
mod fields;
mod head;
mod id;
mod peek;
mod put;
pub mod v6;
pub mod v7;

pub use admin::{AdministrativeRecord, StatusItem, StatusReport, reason};
pub use builder::BundleBuilder;
pub use bundle::*;
pub use check::PayloadCheck;
pub use decode::{decode, decode_parts, decode_prefix};
pub use eid_wire::EidCodec;
pub use end::BundleEnd;
pub use farlink_base::{BundleId, CrcType, CreationTimestamp, EidError, EndpointId, FragmentInfo, Profile};
pub use head::{MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES};
pub use peek::{PeekedIdentity, peek_identity};

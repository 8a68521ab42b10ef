//! Bundles on the wire and in memory: endpoint IDs, the BPv7 codec, CRCs, extension blocks,
//! fragments and administrative records (RFC 9171, RFC 9758, RFC 9713).
//!
//! It decides nothing: what to do with a bundle is the agent's business (`core/bpa`). Read
//! [`Bundle`] and [`decode`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod admin;
mod blocks;
mod builder;
mod bundle;
pub mod cbor;
mod crc;
mod decode;
mod eid;
mod eid_wire;
mod encode;
mod fragment;
mod id;
mod reassemble;

pub use admin::{AdministrativeRecord, StatusItem, StatusReport, reason};
pub use builder::BundleBuilder;
pub use bundle::*;
pub use decode::{MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES, decode, decode_parts, decode_prefix};
pub use eid::{EidError, EndpointId};
pub use fragment::fragment;
pub use reassemble::{Reassembler, Reassembly, ReassemblyLimits};

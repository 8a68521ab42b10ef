//! Shared vocabulary of the engine: time, units, identifiers, payload ropes, events, and the contracts of convergence
//! layers, stores and policies.
//!
//! The crate contains no protocol, no policy and no I/O; every other crate of the engine builds on it. Read [`layer`]
//! and [`store`] first: they are the two contracts that hold the engine together.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod accel;
mod digest;
mod eid;
mod error;
mod event;
mod few;
mod find_end;
mod hash;
mod id;
mod identity;
pub mod layer;
mod lazy;
mod leaving;
mod map;
mod meta;
pub mod node;
mod param;
mod pattern;
mod payload;
mod priority;
mod rng;
pub mod sdnv;
pub mod security;
mod setting;
mod sink;
pub mod socket;
pub mod store;
mod terms;
mod time;
mod timer;
mod units;
mod words;

pub use accel::{Accel, AesGcm, crc16_x25, crc32c};
pub use digest::{DIGEST_BLOCK, DIGEST_KEY, DigestKey, Digester, carryless_sums};
pub use eid::{DtnName, EidError, EndpointId, OtherName};
pub use error::{ConfigError, Malformed, Refusal};
pub use event::{BundleKey, DeleteReason, Event, EventClass, LtpSegmentEvent};
pub use few::Few;
pub use find_end::FindEnd;
pub use hash::hash128;
pub use id::{BundleHandle, LayerId, LinkId, NodeId, PeerId, StreamId};
pub use identity::{BundleId, CreationTimestamp};
pub use lazy::{Empty, Lazy};
pub use leaving::{Leaving, Restamp};
pub use map::{Map, Set, map, set};
pub use meta::{BundleMeta, Duties, Facts, FragmentInfo, HopCrc, HopState, Rare, Transfer};
pub use node::{AgentSettings, Limits, NodeParam, NodeSettings};
pub use param::{Param, nearest_name, resolve_params};
pub use pattern::{pattern_covers, pattern_rank};
pub use payload::{Chunk, Extent, Payload, PayloadReader, fill_byte};
pub use priority::Priority;
pub use rng::Rng;
pub use setting::{
    LayerParam, Setting, Unit, apply_settings, exact_duration, exact_volume, nanoseconds, parse_offset, settings,
    settings_of,
};
pub use sink::{FnSink, Sink};
pub use terms::{
    CUSTODY_TERMS, CustodyTerms, LINK_TERMS, LinkTerms, REPORT_TERMS, ReportTerms, TUNNEL_TERMS, TunnelTerms,
};
pub use time::{Clock, DtnTime, Instant};
pub use timer::{TimerKey, TimerQueue};
pub use units::{DataRate, DataVolume, format_duration, parse_duration};
pub use words::{ClockTrust, CrcType, LinkCrc, LogFormat, LogLevel, Profile};

pub use bytes::{Bytes, BytesMut};
pub use core::time::Duration;

//! Files in bundles: cut, sent, put together again and verified.
//!
//! Each bundle's payload is `FLF1`, the length of a JSON header (two bytes, big-endian), the header
//! `{"id","name","offset","bytes"}` and the bytes. The last one's header also has `total` and
//! `sha256`. Parts may arrive in any order and more than once.

mod receive;
mod send;
mod shelf;

pub use receive::{Came, ReceiveOptions, Received, receive};
pub use send::{Pace, SendOptions, SendReport, Source, send};

use anyhow::Context;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 4] = b"FLF1";

/// What a part says of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
struct Header {
    id: String,
    name: String,
    offset: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

fn encode(header: &Header, chunk: &[u8]) -> anyhow::Result<Vec<u8>> {
    let header = serde_json::to_vec(header)?;
    let length = u16::try_from(header.len()).context("the file's name is too long")?;
    let mut payload = Vec::with_capacity(chunk.len() + header.len() + 6);
    payload.extend_from_slice(MAGIC);
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(&header);
    payload.extend_from_slice(chunk);
    Ok(payload)
}

fn decode(payload: &[u8]) -> Option<(Header, &[u8])> {
    let rest = payload.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_at_checked(2)?;
    let (header, data) = rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let id_is_sane = !header.id.is_empty() && header.id.len() <= 32 && header.id.chars().all(|c| c.is_ascii_hexdigit());
    (id_is_sane && data.len() as u64 == header.bytes && header.offset.checked_add(header.bytes).is_some())
        .then_some((header, data))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

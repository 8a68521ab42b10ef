//! Transfer of files in bundles: files are split, sent, reassembled and verified.
//!
//! The payload of each bundle is `FLF1`, the length of a JSON header (two bytes, big-endian), the header
//! `{"id","name","offset","bytes"}`, and the bytes of one piece. The header of the last piece also has `total` and
//! `sha256`. Pieces may arrive in any order and more than once.

mod part;
mod receive;
mod send;
mod settle;
mod shelf;
mod taken;

pub use receive::{ReceiveOptions, Received, ReceivedCounts, receive};
pub use send::{SendOptions, SendPace, SendReport, SendSource, send};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

const MAGIC: &[u8; 4] = b"FLF1";
/// Longest file, in bytes; a payload whose header exceeds it is treated as a plain bundle.
const FILE_MAX: u64 = 1 << 43;

/// Header of one piece of a file.
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

/// Encodes the header of a piece, without the piece's bytes.
fn head(header: &Header) -> anyhow::Result<Vec<u8>> {
    encode(header, &[])
}

/// Reads the header of a payload of `length` bytes, and returns it with the bytes read. Without a header (`None`) the
/// payload is not a piece of a file, and these bytes are its beginning.
fn decode(payload: &mut impl Read, length: u64) -> io::Result<(Option<Header>, Vec<u8>)> {
    let mut read = Vec::new();
    payload.by_ref().take(6).read_to_end(&mut read)?;
    // Any other payload is not a piece of a file.
    let Some((MAGIC, [high, low])) = read.split_first_chunk() else { return Ok((None, read)) };
    let header_length = u16::from_be_bytes([*high, *low]);
    payload.by_ref().take(header_length.into()).read_to_end(&mut read)?;
    let data = length.saturating_sub(6 + u64::from(header_length));
    let sane = |header: &Header| {
        let id = &header.id;
        // The ID becomes part of a file name: no separators, and not too long.
        let id_is_sane = !id.is_empty() && id.len() <= 32 && id.chars().all(|c| c.is_ascii_hexdigit());
        id_is_sane && data == header.bytes && header.offset.checked_add(header.bytes).is_some_and(|end| end <= FILE_MAX)
    };
    Ok((serde_json::from_slice(&read[6..]).ok().filter(sane), read))
}

/// Reads to the end in large pieces, and calls `to` with each; `length` is an estimate.
fn each_piece(from: &mut impl Read, length: u64, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    // A sender may have claimed `length`, so at most 1 MiB is allocated.
    let mut buffer = vec![0; length.clamp(512, 1 << 20) as usize];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to(&buffer[..n])?,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// Encodes bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

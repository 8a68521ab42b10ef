//! A bundle with all its blocks, for tools and people.

use super::block::{Block, Meaning};
use super::head::Head;
use super::names::Names;
use super::primary::Primary;
use super::read::split;
use crate::Profile;
use crate::head::{Stop, with_head};
use crate::{BundleId, EndpointId};
use alloc::vec::Vec;
use farlink_base::{Bytes, Malformed, Payload};

/// Most references of one block that are followed.
const REFERENCES_MAX: usize = 32;

/// An extension block and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockView {
    /// Block type code ([`super::kind`]).
    pub kind: u8,
    /// Block processing control flags ([`super::block_flags`]).
    pub flags: u64,
    /// Endpoint IDs it refers to: the first 32.
    pub references: Vec<EndpointId>,
    /// Its data.
    pub data: Bytes,
    /// What that means.
    pub meaning: Meaning,
    /// Offset in the bundle.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A whole bundle as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// The primary block.
    pub primary: Primary,
    /// Length of the primary block in bytes.
    pub primary_len: u64,
    /// Blocks before the payload.
    pub before: Vec<BlockView>,
    /// Flags of the payload block.
    pub payload_flags: u64,
    /// Offset of the payload block.
    pub payload_offset: u64,
    /// Length of the payload block in bytes.
    pub payload_block_len: u64,
    /// The payload.
    pub payload: Payload,
    /// Blocks after the payload.
    pub after: Vec<BlockView>,
    /// Length of the bundle in bytes.
    pub len: u64,
}
impl Bundle {
    /// Its identity.
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|place| (place.offset, self.payload.len())),
        }
    }
}

fn view(block: Block<'_>, names: Names<'_>, base: u64) -> BlockView {
    let references = block.start.references.as_ref();
    BlockView {
        kind: block.start.kind,
        flags: block.start.flags,
        references: references.map_or_else(Vec::new, |references| references.endpoints(names, REFERENCES_MAX)),
        data: Bytes::copy_from_slice(block.data),
        meaning: block.meaning,
        offset: base + block.span.start as u64,
        len: block.span.len() as u64,
    }
}

/// Reads one whole bundle, block by block. The payload becomes a sub-rope of `rope`.
///
/// # Errors
/// What breaks the standard, and where.
pub fn decode(rope: &Payload, profile: Profile) -> Result<Bundle, Malformed> {
    with_head(rope, |bytes| {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let mut head = Head::parse(bytes, profile, &mut |block, names| before.push(view(block, names, 0)))?;
        let (payload, after) = split(rope, &head)?;
        let base = head.data as u64 + head.data_len;
        head.parse_after(bytes, &after, profile, &mut |block, names| behind.push(view(block, names, base)))?;
        let primary_len = before.first().map_or(head.payload_block as u64, |block| block.offset);
        Ok(Bundle {
            primary_len,
            before,
            payload_flags: head.payload_flags,
            payload_offset: head.payload_block as u64,
            payload_block_len: (head.data - head.payload_block) as u64 + head.data_len,
            payload,
            after: behind,
            len: rope.len(),
            primary: head.primary,
        })
    })
    .map_err(Stop::error)
}

//! View of a bundle with all its blocks, for tools and people.

use super::block::{Block, Meaning};
use super::head::BundleHead;
use super::names::NameTable;
use super::primary::Primary;
use super::read::split;
use crate::Profile;
use crate::head::{HeadError, with_head};
use crate::{BundleId, EndpointId};
use alloc::vec::Vec;
use farlink_base::{Bytes, Malformed, Payload};

/// Maximum number of references resolved in one block.
const REFERENCES_MAX: usize = 32;

/// Extension block with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockView {
    /// Block type code ([`super::kind`]).
    pub kind: u8,
    /// Block processing control flags ([`super::block_flags`]).
    pub flags: u64,
    /// First 32 endpoint IDs that the block refers to.
    pub references: Vec<EndpointId>,
    /// Block-type-specific data.
    pub data: Bytes,
    /// Parsed content of the data.
    pub meaning: Meaning,
    /// Offset of the block in the bundle.
    pub offset: u64,
    /// Length of the block, bytes.
    pub len: u64,
}

/// Whole bundle as received.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleView {
    pub primary: Primary,
    /// Length of the primary block, bytes.
    pub primary_len: u64,
    /// Blocks before the payload.
    pub before: Vec<BlockView>,
    /// Flags of the payload block.
    pub payload_flags: u64,
    /// Offset of the payload block.
    pub payload_offset: u64,
    /// Length of the payload block, bytes.
    pub payload_block_len: u64,
    pub payload: Payload,
    /// Blocks after the payload.
    pub after: Vec<BlockView>,
    /// Length of the bundle, bytes.
    pub len: u64,
}
impl BundleView {
    /// Identity of the bundle.
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|place| (place.offset, self.payload.len())),
        }
    }
}

fn view(block: Block<'_>, names: NameTable<'_>, base: u64) -> BlockView {
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

/// Decodes one whole bundle, block by block. The payload becomes a sub-rope of `rope`.
///
/// # Errors
/// Violation of the standard, with its offset.
pub fn decode(rope: &Payload, profile: Profile) -> Result<BundleView, Malformed> {
    with_head(rope, |bytes| {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let mut head = BundleHead::parse(bytes, profile, &mut |block, names| before.push(view(block, names, 0)))?;
        let (payload, after) = split(rope, &head)?;
        let base = head.data as u64 + head.data_len;
        head.parse_after(bytes, &after, profile, &mut |block, names| behind.push(view(block, names, base)))?;
        let primary_len = before.first().map_or(head.payload_block as u64, |block| block.offset);
        Ok(BundleView {
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
    .map_err(HeadError::error)
}

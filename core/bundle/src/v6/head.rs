//! Parser of a bundle's blocks, in two calls: first the blocks before the payload and the payload's header, then the
//! blocks after the payload (RFC 5050 4).

use super::block::{Block, Start, block_flags, kind};
use super::names::NameTable;
use super::primary::{Layout, Primary, flags, read_primary};
use super::wire::FieldReader;
use crate::Profile;
use crate::head::{HOP_BYTES, HeadError, MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES};
use farlink_base::sdnv;

/// Maximum length of all blocks after the payload, which a node keeps in memory while the payload goes to disk.
pub const MAX_TAIL_BYTES: usize = 4096;

/// Parsed head of a bundle, up to the payload's first byte. Positions are offsets into the bundle.
pub(super) struct BundleHead {
    pub primary: Primary,
    pub layout: Layout,
    /// Position of the payload block.
    pub payload_block: usize,
    pub payload_flags: u64,
    /// Position of the last byte of the payload block's flags.
    pub payload_flags_at: usize,
    /// Position of the payload's first byte.
    pub data: usize,
    pub data_len: u64,
    /// Whether some block requests reports.
    reports: bool,
}

impl BundleHead {
    /// Parses a head and passes each extension block to `visit`.
    // 5050-4-1, 5050-4-2
    pub fn parse<'a>(
        bytes: &'a [u8],
        profile: Profile,
        visit: &mut dyn FnMut(Block<'a>, NameTable<'a>),
    ) -> Result<BundleHead, HeadError> {
        let mut reader = FieldReader::open(bytes);
        let (primary, layout) = read_primary(&mut reader, profile)?;
        let names = NameTable { dictionary: &bytes[layout.dictionary.clone()], profile };
        let mut count = BlockCounts::default();
        if let Some(place) = primary.fragment {
            count.hop_bytes += sdnv::len(place.offset) + sdnv::len(place.total);
        }
        loop {
            let start = Start::read(&mut reader, bytes, names)?;
            if start.kind != kind::PAYLOAD {
                // RFC 5050 4: no block follows the last one.
                // 5050-4-3
                if start.flags & block_flags::LAST != 0 {
                    return reader.bad_at(start.at, "the last block comes before the payload");
                }
                // The length is checked before the data arrives: a node must not wait for data that it will refuse.
                if start.len > MAX_HEAD_BYTES as u64 {
                    return reader.bad_at(start.at, "the blocks before the payload are longer than 64 KiB");
                }
                let block = Block::read(start, &mut reader, names)?;
                count.count(&block, profile, &reader)?;
                visit(block, names);
                continue;
            }
            if start.at > MAX_HEAD_BYTES - HOP_BYTES + count.hop_bytes {
                return reader.bad_at(start.at, "the blocks before the payload leave no room for hops in 64 KiB");
            }
            check(&primary, start.len, profile).or_else(|reason| reader.bad_at(0, reason))?;
            count.reports |= start.flags & block_flags::REPORT != 0;
            let head = BundleHead {
                primary,
                layout,
                payload_block: start.at,
                payload_flags: start.flags,
                payload_flags_at: start.flags_at,
                data: reader.position(),
                data_len: start.len,
                reports: count.reports,
            };
            head.check_reports(profile, &reader)?;
            return Ok(head);
        }
    }

    /// Parses the blocks after the payload, all of `bytes`, and passes each to `visit`. `head` is the bytes before the
    /// payload.
    pub fn parse_after<'a>(
        &mut self,
        head: &'a [u8],
        bytes: &'a [u8],
        profile: Profile,
        visit: &mut dyn FnMut(Block<'a>, NameTable<'a>),
    ) -> Result<(), HeadError> {
        // The references of these blocks point into the dictionary of the primary block.
        let names = NameTable { dictionary: &head[self.layout.dictionary.clone()], profile };
        let base = (self.data as u64).saturating_add(self.data_len);
        let mut reader = FieldReader::closed(bytes, base, "the bundle ends inside a block");
        let mut count = BlockCounts::default();
        let mut last = self.payload_flags & block_flags::LAST != 0;
        while !reader.is_at_end() {
            if last {
                return reader.bad("bytes after the last block");
            }
            let start = Start::read(&mut reader, bytes, names)?;
            last = start.flags & block_flags::LAST != 0;
            if start.kind == kind::PAYLOAD {
                return reader.bad_at(start.at, "a second payload block");
            }
            // RFC 5050 4.3: replicated blocks must precede the payload.
            // 5050-4.3-2
            if profile == Profile::Strict && start.flags & block_flags::REPLICATE != 0 {
                return reader.bad_at(start.at, "a block after the payload that is to be in every fragment");
            }
            let block = Block::read(start, &mut reader, names)?;
            count.count(&block, profile, &reader)?;
            visit(block, names);
        }
        self.reports |= count.reports;
        self.check_reports(profile, &reader)?;
        // 5050-4-3
        if profile == Profile::Strict && !last {
            return reader.bad("no block has the last-block flag");
        }
        Ok(())
    }

    /// Anonymous and administrative bundles must not request reports in blocks (RFC 5050 4.3).
    // 5050-4.3-1
    fn check_reports(&self, profile: Profile, reader: &FieldReader<'_>) -> Result<(), HeadError> {
        let silent = self.primary.source.is_null() || self.primary.has(flags::ADMIN);
        if profile == Profile::Strict && silent && self.reports {
            return reader.bad("an anonymous or administrative bundle with a block that asks for reports");
        }
        Ok(())
    }
}

/// Counters of the limits on blocks.
#[derive(Default)]
struct BlockCounts {
    /// Number of extension blocks other than those that hops write.
    blocks: usize,
    /// Bytes of blocks that hops write.
    hop_bytes: usize,
    /// Kinds of hop-written blocks seen ([`Block::of_hops`]); the first of each kind counts as written by a hop.
    once: u8,
    /// Whether some block requests reports.
    reports: bool,
}
impl BlockCounts {
    fn count(&mut self, block: &Block<'_>, profile: Profile, reader: &FieldReader<'_>) -> Result<(), HeadError> {
        let Start { kind, flags, at, .. } = block.start;
        self.reports |= flags & block_flags::REPORT != 0;
        if block.of_hops() & !self.once != 0 {
            self.once |= block.of_hops();
            self.hop_bytes += block.span.len();
        } else if self.blocks == MAX_EXTENSION_BLOCKS {
            return reader.bad_at(at, "more than 128 extension blocks");
        } else {
            self.blocks += 1;
        }
        // CCSDS 734.2-B-1: in every fragment, the number of one bundle would stand for several.
        let several = kind == kind::CUSTODY && flags & block_flags::REPLICATE != 0;
        if several && profile == Profile::Strict {
            return reader.bad_at(at, "a custody block that is to be in every fragment");
        }
        Ok(())
    }
}

/// Checks rules over several fields of the primary block (RFC 5050 4.2, 5.8).
// 5050-4.2-1, 5050-4.2-2
fn check(primary: &Primary, data_len: u64, profile: Profile) -> Result<(), &'static str> {
    let (strict, anonymous) = (profile == Profile::Strict, primary.source.is_null());
    if anonymous && !primary.has(flags::NO_FRAGMENT) {
        return Err("an anonymous bundle that may be fragmented");
    }
    if strict && (anonymous || primary.has(flags::ADMIN)) {
        if primary.flags & flags::REPORTS != 0 {
            return Err("an anonymous or administrative bundle that asks for reports");
        }
        if primary.has(flags::CUSTODY) {
            return Err("an anonymous or administrative bundle that asks for custody");
        }
    }
    if strict && primary.has(flags::FRAGMENT | flags::NO_FRAGMENT) {
        return Err("a fragment of a bundle that must not be fragmented");
    }
    if let Some(place) = primary.fragment {
        // Anonymous bundles have no identity: fragments of different ones would be joined.
        if anonymous {
            return Err("a fragment of an anonymous bundle");
        }
        if data_len == 0 {
            return Err("a fragment without payload");
        }
        if place.offset.checked_add(data_len).is_none_or(|end| end > place.total) {
            return Err("a fragment that reaches beyond the original payload");
        }
    }
    Ok(())
}

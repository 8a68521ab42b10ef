//! Rewriting of the blocks around a payload that leaves: one pass over the stored blocks copies unchanged ones and
//! encodes changed ones (RFC 5050 5.4, 5.8, 5.9).

use super::block::{
    Block, Meaning, Start, age_data, block_flags, custody_data, kind, labels_data, previous_hop_data, put_block,
};
use super::names::{Dictionary, NameTable, numbers, put_reference};
use super::primary::{Layout, Primary, flags, put_primary, read_primary};
use super::read::around;
use super::wire::{FieldReader, put_sdnv};
use crate::cbor::ByteSink;
use crate::head::HeadError;
use crate::{EndpointId, FragmentInfo, Profile};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Facts, HopState};

/// Changes of the primary block and the payload, for fragmentation or reassembly.
pub(super) struct PayloadShape {
    /// Position of a fragment; `None` for a whole bundle.
    pub fragment: Option<FragmentInfo>,
    /// Length of the payload, bytes.
    pub len: u64,
    /// Whether this part starts at the payload's beginning; if so, it carries all blocks before the payload (RFC 5050
    /// 5.8).
    pub first: bool,
    /// Whether this part ends at the payload's end; if so, it carries all blocks after the payload.
    pub last: bool,
}

/// Writes all bytes before the payload; without `hop`, its blocks stay as they are. Returns the blocks after the
/// payload.
pub(super) fn put_around(
    meta: &BundleMeta,
    hop: Option<&HopState>,
    shape: Option<&PayloadShape>,
    out: &mut impl ByteSink,
) -> Vec<u8> {
    let rewrite = Rewrite { meta, hop, shape, custodian: None, names_custodian: false, met: 0 };
    // The stored head of an existing bundle always parses.
    rewrite.run(out).unwrap_or_default()
}

/// Treatment of a block.
enum BlockChange {
    Keep,
    Remove,
    Write(Vec<u8>),
}

struct Rewrite<'a> {
    meta: &'a BundleMeta,
    hop: Option<&'a HopState>,
    shape: Option<&'a PayloadShape>,
    /// Node that takes custody on this hop.
    custodian: Option<&'a EndpointId>,
    /// Whether the primary block, as it leaves, names the custodian of the hop.
    names_custodian: bool,
    /// Kinds of hop-written blocks that were kept or written so far, as bits ([`Block::of_hops`]).
    met: u8,
}
const PREVIOUS: u8 = 1;
const AGE: u8 = 2;
const LABELS: u8 = 4;
const CUSTODY: u8 = 8;
const UNVOUCHED: u8 = 16;

impl<'a> Rewrite<'a> {
    // 5050-5.4-8, 5050-5.8-7, 5050-8-2, 5050-8-3
    fn run(mut self, out: &mut impl ByteSink) -> Result<Vec<u8>, HeadError> {
        let (before, after) = around(self.meta);
        let mut reader = FieldReader::open(before);
        let (primary, layout) = read_primary(&mut reader, Profile::Permissive)?;
        let names = NameTable { dictionary: &before[layout.dictionary.clone()], profile: Profile::Permissive };
        self.primary(before, reader.position(), &primary, &layout, names, out);
        let payload = loop {
            let start = Start::read(&mut reader, before, names)?;
            if start.kind == kind::PAYLOAD {
                break start;
            }
            let block = Block::read(start, &mut reader, names)?;
            match self.change(&block, false) {
                BlockChange::Keep => out.put(&before[block.span]),
                BlockChange::Remove => {}
                BlockChange::Write(data) => put_block(block.start.kind, block.start.flags, &data, out),
            }
        };
        self.add_missing(out);
        // The blocks after the payload are rewritten first: if none of them is left, the payload block gets the
        // last-block flag.
        let rest = self.after(after, names)?;
        let last = if rest.is_empty() { block_flags::LAST } else { 0 };
        if self.shape.is_none() && payload.flags & block_flags::LAST == last {
            out.put(&before[payload.at..]);
        } else {
            out.byte(kind::PAYLOAD);
            put_sdnv(out, payload.flags & !block_flags::LAST | last);
            put_sdnv(out, self.shape.map_or(payload.len, |shape| shape.len));
        }
        Ok(rest)
    }

    /// Writes the primary block: unchanged except for a fragment's position and a new custodian.
    // 5050-5.8-3, 5050-5.10.1-3
    fn primary(
        &mut self,
        before: &[u8],
        end: usize,
        primary: &Primary,
        layout: &Layout,
        names: NameTable<'_>,
        out: &mut impl ByteSink,
    ) {
        let same = &before[layout.endpoints..layout.dictionary.end];
        let (bits, place) = match self.shape {
            None => (primary.flags, primary.fragment),
            Some(PayloadShape { fragment: None, .. }) => (primary.flags & !flags::FRAGMENT, None),
            Some(PayloadShape { fragment, .. }) => (primary.flags | flags::FRAGMENT, *fragment),
        };
        self.names_custodian =
            self.hop.is_some_and(|hop| !hop.custodian.is_null() && hop.custodian == primary.custodian);
        let new = self.hop.map(|hop| &hop.custodian).filter(|new| !new.is_null() && **new != primary.custodian);
        if let Some((new, reference, dictionary)) = new.and_then(|new| {
            let (reference, dictionary) = custodian(new, names)?;
            Some((new, reference, dictionary))
        }) {
            (self.custodian, self.names_custodian) = (Some(new), true);
            let mut len = Vec::new();
            put_sdnv(&mut len, dictionary.len() as u64);
            let ours = [
                &before[layout.endpoints..layout.custodian.start],
                &reference,
                &before[layout.custodian.end..layout.dictionary_len],
                &len,
                &dictionary,
            ];
            put_primary(bits, &ours, place, out);
        } else if self.shape.is_some() {
            put_primary(bits, &[same], place, out);
        } else {
            out.put(&before[..end]);
        }
    }

    /// Decides the treatment of a block on this hop. A block whose content stays the same is copied verbatim, however
    /// it was encoded.
    // 5050-5.8-4, 5050-5.8-5, 5050-5.8-6
    fn change(&mut self, block: &Block<'_>, after: bool) -> BlockChange {
        let replicate = block.start.flags & block_flags::REPLICATE != 0;
        // A bundle without creation time expires by its age, so each of its fragments needs the age block.
        let ages = block.of_hops() == AGE && self.meta.created_ms == 0;
        let takes = self.shape.is_none_or(|shape| match after {
            false => shape.first || replicate || ages,
            true => shape.last,
        });
        if !takes {
            return BlockChange::Remove;
        }
        let Some(hop) = self.hop else {
            self.met |= block.of_hops();
            return BlockChange::Keep;
        };
        let first = self.met & block.of_hops() == 0;
        let change = match &block.meaning {
            // RFC 6259 3.2: received blocks are removed; this node's own is added if it states its identity.
            Meaning::PreviousHop(_) if hop.previous.is_null() || !first => BlockChange::Remove,
            Meaning::PreviousHop(node) if *node == hop.previous => BlockChange::Keep,
            Meaning::PreviousHop(_) => previous_hop_data(&hop.previous).map_or(BlockChange::Remove, BlockChange::Write),
            Meaning::Age(age_us) if first && age_us / 1000 != hop.age_ms => BlockChange::Write(age_data(hop.age_ms)),
            Meaning::Labels(old) => match hop.labels {
                None => BlockChange::Remove,
                Some(new) if first && new != *old => BlockChange::Write(labels_data(new)),
                Some(_) => BlockChange::Keep,
            },
            Meaning::Unvouched if !hop.unvouched || !first => BlockChange::Remove,
            // If every fragment carried the block, one number would stand for several bundles.
            Meaning::Custody { .. } if replicate && hop.transfer.is_some() => BlockChange::Remove,
            Meaning::Custody { id, custodian } => self.number(hop, *id, custodian, first),
            _ => BlockChange::Keep,
        };
        if !matches!(change, BlockChange::Remove) {
            self.met |= block.of_hops();
        }
        change
    }

    /// Decides the treatment of a custody number. The previous custodian's number stays unless this hop takes custody
    /// or assigns a number; a fragment carries none, as a signal about it would confirm the whole bundle.
    fn number(&self, hop: &HopState, id: u64, by: &EndpointId, first: bool) -> BlockChange {
        if self.is_piece() {
            return BlockChange::Remove;
        }
        match hop.transfer.as_ref().filter(|_| self.names_custodian) {
            Some(new) if first && new.number == id && *by == hop.custodian => BlockChange::Keep,
            Some(new) if first => BlockChange::Write(custody_data(new.number, &hop.custodian)),
            Some(_) => BlockChange::Remove,
            None if self.custodian.is_some() => BlockChange::Remove,
            None => BlockChange::Keep,
        }
    }
    fn is_piece(&self) -> bool {
        self.shape.is_some_and(|shape| shape.fragment.is_some())
    }

    /// Adds missing blocks before the payload.
    fn add_missing(&mut self, out: &mut impl ByteSink) {
        let Some(hop) = self.hop else { return };
        let number = hop.transfer.as_ref().filter(|_| self.names_custodian && !self.is_piece());
        let mut add = |bit, kind, flags, data: Option<Vec<u8>>| {
            if let Some(data) = data.filter(|_| self.met & bit == 0) {
                self.met |= bit;
                put_block(kind, flags, &data, out);
            }
        };
        let previous = Some(&hop.previous).filter(|node| !node.is_null()).and_then(previous_hop_data);
        add(PREVIOUS, kind::PREVIOUS_HOP, block_flags::DISCARD, previous);
        add(LABELS, kind::LABELS, block_flags::REPLICATE, hop.labels.map(labels_data));
        add(UNVOUCHED, kind::UNVOUCHED, block_flags::REPLICATE, hop.unvouched.then(|| Vec::from([1])));
        // Nodes that do not know the block should discard it: they cannot send a signal about its number.
        let number = number.map(|new| custody_data(new.number, &hop.custodian));
        add(CUSTODY, kind::CUSTODY, block_flags::DISCARD, number);
        // Without creation time, a bundle expires by its age alone.
        let ages = self.meta.created_ms == 0 && (self.shape.is_some() || !self.meta.facts.has(Facts::AGE));
        add(AGE, kind::AGE, block_flags::REPLICATE, ages.then(|| age_data(hop.age_ms)));
    }

    /// Writes the blocks after the payload and flags the last one.
    // 5050-4-3, 5050-5.8-5
    fn after(&mut self, after: &[u8], names: NameTable<'_>) -> Result<Vec<u8>, HeadError> {
        let mut out = Vec::new();
        if after.is_empty() {
            return Ok(out);
        }
        out.reserve(after.len());
        let mut reader = FieldReader::closed(after, 0, "");
        let mut last = None;
        while !reader.is_at_end() {
            let start = Start::read(&mut reader, after, names)?;
            let block = Block::read(start, &mut reader, names)?;
            let at = out.len();
            match self.change(&block, true) {
                BlockChange::Remove => continue,
                BlockChange::Keep => out.extend_from_slice(&after[block.span.clone()]),
                BlockChange::Write(data) => put_block(block.start.kind, block.start.flags, &data, &mut out),
            }
            // One byte of type, then the flags: an SDNV, whose last byte has no top bit.
            let len = out[at + 1..].iter().take_while(|byte| **byte & 0x80 != 0).count();
            last = Some(at + 1 + len);
        }
        if let Some(flags) = last.and_then(|at| out.get_mut(at)) {
            *flags |= block_flags::LAST as u8;
        }
        Ok(out)
    }
}

/// Reference to a new custodian, and the dictionary extended by its name (RFC 5050 5.10.1). `None` if a bundle whose
/// endpoint IDs are numbers has no place for the name.
fn custodian(new: &EndpointId, names: NameTable<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut dictionary = Dictionary { bytes: names.dictionary.to_vec() };
    let pair = if names.compressed() { numbers(new)? } else { dictionary.reference(new)? };
    let mut reference = Vec::new();
    put_reference(&mut reference, pair);
    Some((reference, dictionary.bytes))
}

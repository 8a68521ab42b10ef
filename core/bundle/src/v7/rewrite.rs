//! Rewriting of a head that leaves: one pass over the stored blocks copies unchanged ones and encodes changed ones (RFC
//! 9171 5.4, 5.8, 5.9).

use super::custody::TransferBlock;
use super::facts::{CONFIDENTIALITY, INTEGRITY};
use crate::cbor::{ByteSink, CborReader};
use crate::eid_wire::EidCodec;
use crate::encode::{put_block, put_payload_head, put_primary_around, put_raw_block};
use crate::fields::{BlockStart, read_block_start, read_crc_type, read_data};
use crate::head::{BlockNumbers, targets};
use crate::{BlockData, BlockFlags, BundleFlags, CrcType, EndpointId, FragmentInfo, HopCount, Profile};
use alloc::vec::Vec;
use farlink_base::{Accel, BundleMeta, Bytes, HopState, Malformed, Transfer};

/// Primary block of a bundle whose payload block is encoded afresh.
#[derive(Clone, Copy)]
pub(super) enum PrimaryShape {
    /// Received primary block, byte for byte.
    Same,
    /// Primary block of a fragment.
    Fragment(FragmentInfo),
    /// Primary block of a reassembled bundle.
    Whole,
}

/// Changes of the primary block and the payload, for fragmentation, reassembly or another CRC.
pub(super) struct PayloadShape {
    /// Primary block.
    pub(super) primary: PrimaryShape,
    /// Length of the payload, bytes.
    pub(super) len: u64,
    /// CRC type of the payload block.
    pub(super) crc: CrcType,
    /// Whether blocks that are not marked for replication are written.
    pub(super) all_blocks: bool,
    /// Whether the age block is written even if it is not marked for replication.
    pub(super) age: bool,
}
impl PayloadShape {
    // 9171-5.8-6, 9171-5.8-7
    fn takes(&self, fields: BlockStart) -> bool {
        self.all_blocks || fields.flags.has(BlockFlags::REPLICATE) || (self.age && fields.kind == 7)
    }
}

/// Writes the head of a bundle that leaves; without `hop`, its blocks stay as they are. `ages` adds an age block to a
/// bundle without one. Returns the position of the payload block in `out`.
///
/// # Errors
/// The head was not made by this codec.
pub(super) fn put_head(
    meta: &BundleMeta,
    hop: Option<&HopState>,
    ages: bool,
    shape: Option<&PayloadShape>,
    accel: &Accel,
    out: &mut impl ByteSink,
) -> Result<usize, Malformed> {
    let numbers = BlockNumbers::default();
    let (crc, previous, labels, unvouched) = (CrcType::None, false, false, false);
    let (head, primary_end) = (&meta.head, usize::from(meta.primary_end));
    let changed = hop.and_then(|hop| hop.crc).filter(|crc| crc.all).map(|crc| (crc.kind, Guards::of(head)));
    Rewrite { head, primary_end, hop, ages, accel, out, from: 0, numbers, crc, changed, previous, labels, unvouched }
        .run(shape)
}

/// Data of the security blocks in a head (RFC 9172 3.6).
pub(super) struct Guards<'a>(Vec<&'a [u8]>);
impl<'a> Guards<'a> {
    /// Security blocks of a head that this codec made.
    pub(super) fn of(head: &'a [u8]) -> Self {
        let mut guards = Guards(Vec::new());
        // A stored head parses; if it does not, nothing is found, and encoding fails at the same place.
        let _ = guards.find(head);
        guards
    }
    fn find(&mut self, head: &'a [u8]) -> Result<(), Malformed> {
        let mut reader = CborReader::new(head, 0, false);
        reader.take(1)?;
        reader.item()?;
        loop {
            let fields = read_block_start(&mut reader, Profile::Permissive)?;
            if fields.number == 1 {
                return Ok(());
            }
            let data = reader.bytes()?;
            if fields.crc != CrcType::None {
                reader.bytes()?;
            }
            reader.array_end(fields.open)?;
            if matches!(fields.kind, INTEGRITY | CONFIDENTIALITY) {
                self.0.push(data);
            }
        }
    }
    /// Whether the block of this number is the target of a security operation.
    pub(super) fn cover(&self, number: u64) -> bool {
        self.0.iter().any(|data| targets(data, number))
    }
}

/// Treatment of a block.
enum BlockChange {
    Keep,
    Remove,
    Write(BlockData),
}

struct Rewrite<'a, O> {
    head: &'a [u8],
    /// End of the primary block; 0: to be searched.
    primary_end: usize,
    hop: Option<&'a HopState>,
    /// Whether to add an age block.
    ages: bool,
    accel: &'a Accel,
    out: &'a mut O,
    /// Bytes of the head before this position are done: written or omitted.
    from: usize,
    numbers: BlockNumbers,
    /// CRC type of the primary block.
    crc: CrcType,
    /// CRC type that all blocks but the primary one get, except those that security blocks cover.
    changed: Option<(CrcType, Guards<'a>)>,
    /// Whether a previous node block was written.
    previous: bool,
    /// Whether a labels block was seen.
    labels: bool,
    /// Whether an unvouched block was seen.
    unvouched: bool,
}

impl<O: ByteSink> Rewrite<'_, O> {
    fn run(mut self, shape: Option<&PayloadShape>) -> Result<usize, Malformed> {
        let mut reader = CborReader::new(self.head, 0, false);
        reader.take(1)?;
        self.primary(&mut reader, shape)?;
        loop {
            let start = reader.position();
            let fields = read_block_start(&mut reader, Profile::Permissive)?;
            if fields.number == 1 {
                return Ok(self.payload(start, fields, shape));
            }
            let data = reader.bytes()?;
            if fields.crc != CrcType::None {
                reader.bytes()?;
            }
            reader.array_end(fields.open)?;
            let change = match shape {
                Some(shape) if !shape.takes(fields) => BlockChange::Remove,
                _ => self.change(fields, data),
            };
            let crc = self.crc_of(fields);
            if matches!(change, BlockChange::Keep) && crc == fields.crc {
                self.numbers.insert(fields.number);
                continue;
            }
            self.copy_to(start);
            self.from = reader.position();
            let kept = (fields.kind, fields.number, fields.flags, crc);
            match change {
                BlockChange::Keep => put_raw_block(kept, data, self.out, self.accel),
                BlockChange::Write(data) => put_block(kept, &data, self.out, self.accel),
                BlockChange::Remove => continue,
            }
            self.numbers.insert(fields.number);
        }
    }

    /// CRC type with which an extension block leaves.
    fn crc_of(&self, fields: BlockStart) -> CrcType {
        match &self.changed {
            Some((crc, guards)) if fields.crc != CrcType::None || !guards.cover(fields.number) => *crc,
            _ => fields.crc,
        }
    }

    /// Copies kept bytes up to `end`.
    fn copy_to(&mut self, end: usize) {
        self.out.put(&self.head[self.from..end]);
        self.from = end;
    }

    /// Writes the primary block, unchanged (RFC 9171 4.3.1) except for a fragment's flag, position and CRC. Its other
    /// fields keep their encoding, so that a signature over it is valid again after reassembly.
    // 9171-4.3.1-2, 9171-4.3.1-3, 9171-5.8-4, 9171-5.8-5
    fn primary(&mut self, reader: &mut CborReader<'_>, shape: Option<&PayloadShape>) -> Result<(), Malformed> {
        let mut fields = reader.clone();
        match self.primary_end.checked_sub(reader.position()) {
            // The stored end saves parsing the primary block on every hop.
            Some(rest) => drop(reader.take(rest as u64)?),
            None => drop(reader.item()?),
        }
        fields.array_or_open()?;
        let (_version, flags) = (fields.uint()?, fields.uint()?);
        self.crc = read_crc_type(&mut fields)?;
        let place = match shape.map(|shape| shape.primary) {
            None | Some(PrimaryShape::Same) => return Ok(()),
            Some(PrimaryShape::Fragment(place)) => Some(place),
            Some(PrimaryShape::Whole) => None,
        };
        self.from = reader.position();
        let start = fields.position();
        // Five fields: destination, source, report-to, creation timestamp, lifetime.
        (0..5).try_for_each(|_| fields.item().map(|_| ()))?;
        let same = &self.head[start..fields.position()];
        let fragment = if place.is_some() { BundleFlags::FRAGMENT } else { 0 };
        let flags = BundleFlags(flags & !BundleFlags::FRAGMENT | fragment);
        self.out.byte(0x9f);
        put_primary_around(|out| out.put(same), flags, self.crc, place, self.out, self.accel);
        Ok(())
    }

    /// Decides the treatment of a block on this hop. A block whose content stays the same is copied verbatim, however
    /// it was encoded.
    // 9171-5.4-9
    fn change(&mut self, fields: BlockStart, data: &[u8]) -> BlockChange {
        let Some(hop) = self.hop else { return BlockChange::Keep };
        if let Some(transfer) =
            hop.transfer.as_ref().filter(|transfer| transfer.block != 0 && transfer.block == fields.kind)
        {
            return change_custody(hop, transfer, data);
        }
        match fields.kind {
            6 => self.change_previous(&hop.previous, data),
            7 | 10 | 240 | 241 => match read_data(fields.kind, data, 0, Profile::Permissive) {
                Ok(Some(BlockData::Age(age))) if age != hop.age_ms => BlockChange::Write(BlockData::Age(hop.age_ms)),
                Ok(Some(BlockData::HopCount(hops))) if hops.count.min(255) != u64::from(hop.hops) => {
                    BlockChange::Write(BlockData::HopCount(HopCount { count: u64::from(hop.hops), ..hops }))
                }
                Ok(Some(BlockData::Labels(labels))) => self.change_labels(hop.labels, labels),
                Ok(Some(BlockData::Unvouched)) if !hop.unvouched || self.unvouched => BlockChange::Remove,
                Ok(Some(BlockData::Unvouched)) => {
                    self.unvouched = true;
                    BlockChange::Keep
                }
                // Another implementation's private block of these types stays untouched.
                _ => BlockChange::Keep,
            },
            _ => BlockChange::Keep,
        }
    }

    /// Replaces the previous node block, or removes it if this node does not state its identity (RFC 9171 4.4.1 and 5.4
    /// step 4).
    // 9171-4.4.1-3, 9171-5.4-7
    fn change_previous(&mut self, previous: &EndpointId, data: &[u8]) -> BlockChange {
        if previous.is_null() {
            return BlockChange::Remove;
        }
        self.previous = true;
        // An ipn node has two encodings (RFC 9758), which must stay; others have only one, so rewriting gives the same
        // bytes.
        let is_ipn = matches!(previous, EndpointId::Ipn { .. }) && data.get(1) == Some(&2);
        // 9758-7.2-1
        if is_ipn && EndpointId::decode(data, Profile::Permissive).as_ref() == Ok(previous) {
            return BlockChange::Keep;
        }
        BlockChange::Write(BlockData::PreviousNode(previous.clone()))
    }

    fn change_labels(&mut self, new: Option<[u32; 2]>, old: [u32; 2]) -> BlockChange {
        // New labels go into the first labels block, the only one that is read. Without labels all such blocks are
        // removed, since the next node would read the first that is left.
        let first = !core::mem::replace(&mut self.labels, true);
        match new {
            None => BlockChange::Remove,
            Some(new) if first && new != old => BlockChange::Write(BlockData::Labels(new)),
            Some(_) => BlockChange::Keep,
        }
    }

    /// Writes missing blocks, then the payload block up to the payload's first byte. Returns the position of the
    /// payload block.
    fn payload(mut self, start: usize, fields: BlockStart, shape: Option<&PayloadShape>) -> usize {
        self.copy_to(start);
        if let Some(hop) = self.hop {
            // 9171-5.4-8
            if !self.previous && !hop.previous.is_null() {
                self.add(6, 0, BlockData::PreviousNode(hop.previous.clone()));
            }
            if let Some(labels) = hop.labels
                && !self.labels
            {
                self.add(240, BlockFlags::REPLICATE, BlockData::Labels(labels));
            }
            if hop.unvouched && !self.unvouched {
                self.add(241, BlockFlags::REPLICATE, BlockData::Unvouched);
            }
            // 9171-4.4.2-2
            if self.ages {
                // RFC 9171 4.4.2: without creation time, a bundle expires by its age alone.
                self.add(7, BlockFlags::REPLICATE, BlockData::Age(hop.age_ms));
            }
        }
        let at = self.out.at();
        match shape {
            None => self.copy_to(self.head.len()),
            Some(shape) => put_payload_head(fields.flags, shape.crc, shape.len, self.out),
        }
        at
    }

    fn add(&mut self, kind: u64, flags: u64, data: BlockData) {
        let crc = self.hop.and_then(|hop| hop.crc).map_or(self.crc, |crc| crc.kind);
        let fields = (kind, self.numbers.take_free(), BlockFlags(flags), crc);
        put_block(fields, &data, self.out, self.accel);
    }
}

/// Rewrites the custody transfer block with custodian and number (CCSDS 734.6-O-1). A block of the same type with other
/// content stays.
fn change_custody(hop: &HopState, transfer: &Transfer, data: &[u8]) -> BlockChange {
    let (number, sequence, custodian) = (transfer.number, transfer.sequence, hop.custodian.clone());
    let new = TransferBlock { number, sequence, custodian };
    match TransferBlock::decode(data) {
        Some(old) if old != new && !new.custodian.is_null() => {
            BlockChange::Write(BlockData::Unknown(Bytes::from(new.encode())))
        }
        _ => BlockChange::Keep,
    }
}

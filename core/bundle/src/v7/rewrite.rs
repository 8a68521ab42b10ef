//! The head of a bundle as it leaves: one walk over the blocks kept, copying what stays and writing
//! anew what changes (RFC 9171 5.4, 5.8, 5.9).

use super::custody::TransferBlock;
use crate::cbor::{Out, Reader};
use crate::eid_wire::EidCodec;
use crate::encode::{put_block, put_payload_head, put_primary_around};
use crate::fields::{BlockStart, read_block_start, read_crc_type, read_data};
use crate::head::Numbers;
use crate::{BlockData, BlockFlags, BundleFlags, CrcType, EndpointId, FragmentInfo, HopCount, Profile};
use farlink_base::{Accel, BundleMeta, Bytes, HopState, Malformed, Transfer};

/// Another primary block and another payload than those of the head.
pub(super) struct Shape {
    /// Place of the piece; `None` for a whole bundle.
    pub(super) fragment: Option<FragmentInfo>,
    /// Bytes of the payload.
    pub(super) len: u64,
    /// CRC of the payload block.
    pub(super) crc: CrcType,
    /// Whether blocks go along that are not marked for replication.
    pub(super) all_blocks: bool,
    /// Whether the age block goes along in any case.
    pub(super) age: bool,
}
impl Shape {
    // 9171-5.8-6, 9171-5.8-7
    fn takes(&self, fields: BlockStart) -> bool {
        self.all_blocks || fields.flags.has(BlockFlags::REPLICATE) || (self.age && fields.kind == 7)
    }
}

/// Writes the head of a bundle as it shall leave; without `hop`, its blocks as they are. `ages`: it gets an age block, having
/// none. Gives where the payload
/// block begins in `out`.
///
/// # Errors
/// The head is none that this codec made.
pub(super) fn put_head(
    meta: &BundleMeta,
    hop: Option<&HopState>,
    ages: bool,
    shape: Option<&Shape>,
    accel: &Accel,
    out: &mut impl Out,
) -> Result<usize, Malformed> {
    let numbers = Numbers::default();
    let (crc, previous, labels, unvouched) = (CrcType::None, false, false, false);
    let (head, primary_end) = (&meta.head, usize::from(meta.primary_end));
    Rewrite { head, primary_end, hop, ages, accel, out, from: 0, numbers, crc, previous, labels, unvouched }.run(shape)
}

/// What becomes of a block.
enum Change {
    Keep,
    Remove,
    Write(BlockData),
}

struct Rewrite<'a, O> {
    head: &'a [u8],
    /// Where its primary block ends; 0: that is to be found.
    primary_end: usize,
    hop: Option<&'a HopState>,
    /// Whether it gets an age block, having none.
    ages: bool,
    accel: &'a Accel,
    out: &'a mut O,
    /// Bytes of the head before this one are written, or left out.
    from: usize,
    numbers: Numbers,
    /// CRC type of the primary block, which blocks that are added get too.
    crc: CrcType,
    /// Whether there is a previous node block.
    previous: bool,
    /// Whether there are labels.
    labels: bool,
    /// Whether there is a block that says that nobody vouches for the bundle.
    unvouched: bool,
}

impl<O: Out> Rewrite<'_, O> {
    fn run(mut self, shape: Option<&Shape>) -> Result<usize, Malformed> {
        let mut reader = Reader::new(self.head, 0, false);
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
                Some(shape) if !shape.takes(fields) => Change::Remove,
                _ => self.change(fields, data),
            };
            if let Change::Keep = change {
                self.numbers.insert(fields.number);
                continue;
            }
            self.copy_to(start);
            self.from = reader.position();
            if let Change::Write(data) = change {
                self.numbers.insert(fields.number);
                let fields = (fields.kind, fields.number, fields.flags, fields.crc);
                put_block(fields, &data, self.out, self.accel);
            }
        }
    }

    /// Copies what was kept so far.
    fn copy_to(&mut self, end: usize) {
        self.out.put(&self.head[self.from..end]);
        self.from = end;
    }

    /// The primary block: it never changes (RFC 9171 4.3.1) but for what makes a fragment. Its other fields keep
    /// their encoding, so that a signature over it holds again once the fragments are joined.
    // 9171-4.3.1-2, 9171-4.3.1-3, 9171-5.8-4, 9171-5.8-5
    fn primary(&mut self, reader: &mut Reader<'_>, shape: Option<&Shape>) -> Result<(), Malformed> {
        let mut fields = reader.clone();
        match self.primary_end.checked_sub(reader.position()) {
            Some(rest) => drop(reader.take(rest as u64)?),
            None => drop(reader.item()?),
        }
        fields.array_or_open()?;
        let (_version, flags) = (fields.uint()?, fields.uint()?);
        self.crc = read_crc_type(&mut fields)?;
        let Some(shape) = shape else { return Ok(()) };
        self.from = reader.position();
        let start = fields.position();
        // Destination to lifetime.
        (0..5).try_for_each(|_| fields.item().map(|_| ()))?;
        let same = &self.head[start..fields.position()];
        let fragment = if shape.fragment.is_some() { BundleFlags::FRAGMENT } else { 0 };
        let flags = BundleFlags(flags & !BundleFlags::FRAGMENT | fragment);
        self.out.byte(0x9f);
        put_primary_around(|out| out.put(same), flags, self.crc, shape.fragment, self.out, self.accel);
        Ok(())
    }

    /// What the hop makes of a block. Unchanged meaning stays verbatim, however it was encoded.
    // 9171-5.4-9
    fn change(&mut self, fields: BlockStart, data: &[u8]) -> Change {
        let Some(hop) = self.hop else { return Change::Keep };
        if let Some(transfer) =
            hop.transfer.as_ref().filter(|transfer| transfer.block != 0 && transfer.block == fields.kind)
        {
            return change_custody(hop, transfer, data);
        }
        match fields.kind {
            6 => self.change_previous(&hop.previous, data),
            7 | 10 | 240 | 241 => match read_data(fields.kind, data, 0, Profile::Permissive) {
                Ok(Some(BlockData::Age(age))) if age != hop.age_ms => Change::Write(BlockData::Age(hop.age_ms)),
                Ok(Some(BlockData::HopCount(hops))) if hops.count.min(255) != u64::from(hop.hops) => {
                    Change::Write(BlockData::HopCount(HopCount { count: u64::from(hop.hops), ..hops }))
                }
                Ok(Some(BlockData::Labels(labels))) => self.change_labels(hop.labels, labels),
                Ok(Some(BlockData::Unvouched)) if !hop.unvouched || self.unvouched => Change::Remove,
                Ok(Some(BlockData::Unvouched)) => {
                    self.unvouched = true;
                    Change::Keep
                }
                // A private block 240 of somebody else is none of ours.
                _ => Change::Keep,
            },
            _ => Change::Keep,
        }
    }

    /// RFC 9171 4.4.1 and 5.4 step 4: the previous node block is replaced, or removed where this
    /// node does not say who it is.
    // 9171-4.4.1-3, 9171-5.4-7
    fn change_previous(&mut self, previous: &EndpointId, data: &[u8]) -> Change {
        if previous.is_null() {
            return Change::Remove;
        }
        self.previous = true;
        // An ipn node may be written in two ways (RFC 9758), others are written alike again.
        let is_ipn = matches!(previous, EndpointId::Ipn { .. }) && data.get(1) == Some(&2);
        // 9758-7.2-1
        if is_ipn && EndpointId::decode(data, Profile::Permissive).as_ref() == Ok(previous) {
            return Change::Keep;
        }
        Change::Write(BlockData::PreviousNode(previous.clone()))
    }

    fn change_labels(&mut self, new: Option<[u32; 2]>, old: [u32; 2]) -> Change {
        let first = !core::mem::replace(&mut self.labels, true);
        match new {
            None => Change::Remove,
            Some(new) if first && new != old => Change::Write(BlockData::Labels(new)),
            Some(_) => Change::Keep,
        }
    }

    /// Blocks to be added, then the payload block up to the payload's first byte; where it begins.
    fn payload(mut self, start: usize, fields: BlockStart, shape: Option<&Shape>) -> usize {
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
                // RFC 9171 4.4.2: without a creation time, a bundle expires by its age alone.
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
        let fields = (kind, self.numbers.take_free(), BlockFlags(flags), self.crc);
        put_block(fields, &data, self.out, self.accel);
    }
}

/// CCSDS 734.6-O-1: whoever has custody says so, and by which number it knows the bundle. A block of the same type that
/// is none of custody stays.
fn change_custody(hop: &HopState, transfer: &Transfer, data: &[u8]) -> Change {
    let (number, sequence, custodian) = (transfer.number, transfer.sequence, hop.custodian.clone());
    let new = TransferBlock { number, sequence, custodian };
    match TransferBlock::decode(data) {
        Some(old) if old != new && !new.custodian.is_null() => {
            Change::Write(BlockData::Unknown(Bytes::from(new.encode())))
        }
        _ => Change::Keep,
    }
}

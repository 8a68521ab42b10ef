//! Search for the end of a bundle, of either version, in bytes that pass in pieces and are not kept.

use crate::cbor::MAX_DEPTH;
use crate::head::{MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES, NOT_A_BUNDLE};
use crate::v6::{VERSION, block_flags, kind};
use farlink_base::{FindEnd, sdnv};

/// Stands for the unknown number of items in a CBOR item of indefinite length.
const OPEN: u64 = u64::MAX;
const NO_END: &str = "no end of a bundle of version 6";

/// Finds the end of one bundle in bytes that are passed piece by piece; [`crate::decode_prefix`] does so for a rope.
/// The bundle is not checked.
#[derive(Clone, Debug, Default)]
pub struct BundleEnd {
    place: Place,
    /// Bytes still missing of a string or of a block's data.
    opaque: u64,
    cbor: CborNesting,
    old: OldBlocks,
}

/// Position in the bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    FirstByte,
    /// First byte of a CBOR item.
    Item,
    /// Value in the head of an item.
    ItemValue {
        major: u8,
        left: u8,
        value: u64,
    },
    /// Bytes of a CBOR string.
    ItemString,
    /// A field of version 6, and its bytes so far.
    Field(OldField, [u8; sdnv::LEN_MAX], u8),
    /// Data of a block of version 6.
    OldData,
    Over,
    Broken(&'static str),
}

/// Number of items still missing in every open CBOR container, innermost last.
#[derive(Clone, Debug, Default)]
struct CborNesting {
    left: [u64; MAX_DEPTH],
    depth: usize,
}
impl CborNesting {
    fn is_open(&self) -> bool {
        self.depth > 0 && self.left[self.depth - 1] == OPEN
    }
    fn push(&mut self, children: u64) -> Result<(), &'static str> {
        let place = self.left.get_mut(self.depth).ok_or("CBOR nested too deeply")?;
        *place = children;
        self.depth += 1;
        Ok(())
    }
    /// Counts a complete item, and every item that it completes. Returns whether the outermost item is complete.
    fn complete(&mut self) -> bool {
        while self.depth > 0 {
            let left = &mut self.left[self.depth - 1];
            if *left == OPEN {
                return false;
            }
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.depth -= 1;
        }
        true
    }
}

/// Field of a bundle of version 6 (RFC 5050 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldField {
    PrimaryFlags,
    PrimaryLength,
    Kind,
    Flags,
    References,
    Reference,
    Length,
}
/// Progress through the blocks of a bundle of version 6.
#[derive(Clone, Debug, Default)]
struct OldBlocks {
    blocks: usize,
    kind: u64,
    flags: u64,
    /// Numbers still missing in the list of references.
    references: u64,
}

fn field(field: OldField) -> Place {
    Place::Field(field, [0; sdnv::LEN_MAX], 0)
}

impl BundleEnd {
    fn byte(&mut self, byte: u8) -> Result<Place, &'static str> {
        Ok(match self.place {
            Place::FirstByte if byte == VERSION => field(OldField::PrimaryFlags),
            Place::FirstByte if byte != 0x9f => return Err(NOT_A_BUNDLE),
            Place::FirstByte | Place::Item => return self.item(byte),
            Place::ItemValue { major, left: 1, value } => return self.head(major, value << 8 | u64::from(byte)),
            Place::ItemValue { major, left, value } => {
                Place::ItemValue { major, left: left - 1, value: value << 8 | u64::from(byte) }
            }
            Place::Field(OldField::Kind, ..) => return self.old_field(OldField::Kind, byte.into()),
            Place::Field(name, mut bytes, used) => {
                let last = usize::from(used);
                bytes[last] = byte;
                if byte < 0x80 {
                    let (value, _) = sdnv::decode(&bytes[..=last]).or(Err(NO_END))?;
                    return self.old_field(name, value);
                }
                if last + 1 == bytes.len() {
                    return Err(NO_END);
                }
                Place::Field(name, bytes, used + 1)
            }
            Place::Broken(reason) => return Err(reason),
            place @ (Place::ItemString | Place::OldData | Place::Over) => place,
        })
    }
    /// First byte of a CBOR item.
    fn item(&mut self, first: u8) -> Result<Place, &'static str> {
        let (major, info) = (first >> 5, first & 0x1f);
        match info {
            0..=23 => self.head(major, info.into()),
            24..=27 => Ok(Place::ItemValue { major, left: 1 << (info - 24), value: 0 }),
            31 if (2..=5).contains(&major) => self.children(OPEN),
            31 if major == 7 && self.cbor.is_open() => {
                self.cbor.depth -= 1;
                Ok(self.completed())
            }
            31 if major == 7 => Err("a CBOR break outside an item of indefinite length"),
            _ => Err("a reserved CBOR head"),
        }
    }
    fn head(&mut self, major: u8, value: u64) -> Result<Place, &'static str> {
        match major {
            2 | 3 if value > 0 => {
                self.opaque = value;
                Ok(Place::ItemString)
            }
            // The doubled count of a map must not overflow.
            4 | 5 if value > u64::MAX / 4 => Err("a CBOR item beyond 64 bits of length"),
            4 | 5 if value > 0 => self.children(value << (major - 4)),
            // A tag and the item after it are one item, which is counted when the latter is complete.
            6 => Ok(Place::Item),
            _ => Ok(self.completed()),
        }
    }
    fn children(&mut self, children: u64) -> Result<Place, &'static str> {
        self.cbor.push(children)?;
        Ok(Place::Item)
    }
    fn completed(&mut self) -> Place {
        if self.cbor.complete() { Place::Over } else { Place::Item }
    }

    fn old_field(&mut self, name: OldField, value: u64) -> Result<Place, &'static str> {
        let old = &mut self.old;
        Ok(match name {
            OldField::PrimaryFlags => field(OldField::PrimaryLength),
            OldField::PrimaryLength => return self.old_data(value, MAX_HEAD_BYTES as u64),
            OldField::Kind => {
                old.kind = value;
                field(OldField::Flags)
            }
            OldField::Flags => {
                old.flags = value;
                field(if value & block_flags::REFERENCES == 0 { OldField::Length } else { OldField::References })
            }
            // Each reference takes at least two bytes, so a head cannot hold more of them.
            OldField::References if value > MAX_HEAD_BYTES as u64 => return Err(NO_END),
            OldField::References => {
                old.references = 2 * value;
                field(if value == 0 { OldField::Length } else { OldField::Reference })
            }
            OldField::Reference => {
                old.references -= 1;
                field(if old.references == 0 { OldField::Length } else { OldField::Reference })
            }
            OldField::Length => {
                // Only the payload may be longer than `MAX_HEAD_BYTES`.
                let most = if old.kind == kind::PAYLOAD.into() { u64::MAX } else { MAX_HEAD_BYTES as u64 };
                return self.old_data(value, most);
            }
        })
    }
    fn old_data(&mut self, length: u64, most: u64) -> Result<Place, &'static str> {
        if length > most {
            return Err(NO_END);
        }
        self.opaque = length;
        if length > 0 { Ok(Place::OldData) } else { self.old_block_over() }
    }
    fn old_block_over(&mut self) -> Result<Place, &'static str> {
        if self.old.flags & block_flags::LAST != 0 {
            return Ok(Place::Over);
        }
        // The count includes the primary block, but not the block that ends here: the payload and the extension blocks
        // that a reader accepts may follow the primary block.
        if self.old.blocks == MAX_EXTENSION_BLOCKS + 1 {
            return Err(NO_END);
        }
        self.old.blocks += 1;
        Ok(field(OldField::Kind))
    }
}

impl FindEnd for BundleEnd {
    fn opaque(&self) -> u64 {
        self.opaque
    }
    fn pass(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.opaque = self.opaque.saturating_sub(count);
        if self.opaque > 0 {
            return;
        }
        self.place = match self.place {
            Place::ItemString => self.completed(),
            Place::OldData => self.old_block_over().unwrap_or_else(Place::Broken),
            place => place,
        };
    }
    fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0;
        while at < bytes.len() && self.place != Place::Over {
            if self.opaque > 0 {
                let count = self.opaque.min((bytes.len() - at) as u64);
                self.pass(count);
                at += count as usize;
                continue;
            }
            self.place = self.byte(bytes[at]).inspect_err(|reason| self.place = Place::Broken(reason))?;
            at += 1;
        }
        Ok(at)
    }
    fn is_over(&self) -> bool {
        self.place == Place::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bundle, CreationTimestamp, decode_prefix};
    use alloc::vec::Vec;
    use farlink_base::{Accel, EndpointId, Payload};
    use proptest::prelude::*;

    fn bundle(payload: usize) -> Vec<u8> {
        let made = Bundle::new(EndpointId::dtn("a", "b"), EndpointId::ipn(2, 1), CreationTimestamp::default());
        let made = made.payload(Payload::fill(7, payload as u64)).build();
        let wire = made.encode(&Accel::default()).into_payload();
        let mut bytes = alloc::vec![0; wire.len() as usize];
        wire.copy_to(0, &mut bytes);
        bytes
    }
    /// A bundle of version 6 with an extension block that has references, and a payload.
    fn old(payload: &[u8]) -> Vec<u8> {
        let primary = [2, 1, 2, 1, 2, 1, 0, 0, 1, 1, 60, 0];
        let mut bytes = [&[6, 0x90, 0x10, primary.len() as u8][..], &primary, &[5, 0x40, 1, 2, 1, 2, 8, 8]].concat();
        bytes.extend_from_slice(&[1, 8, 0x80 | (payload.len() >> 7) as u8, (payload.len() & 0x7f) as u8]);
        bytes.extend_from_slice(payload);
        bytes
    }
    /// Length of the bundle read in pieces of these lengths, strings passed over unread.
    fn found(bytes: &[u8], pieces: &[usize]) -> Result<Option<u64>, &'static str> {
        let (mut end, mut at) = (BundleEnd::default(), 0);
        for piece in pieces.iter().cycle() {
            let opaque = end.opaque().min((bytes.len() - at) as u64);
            if piece % 2 == 0 {
                end.pass(opaque);
                at += opaque as usize;
            }
            let to = bytes.len().min(at + piece);
            at += end.read(&bytes[at..to])?;
            if end.is_over() {
                return Ok(Some(at as u64));
            }
            if at == bytes.len() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    proptest! {
        #[test]
        fn end_agrees_with_the_rope_reader(
            noise in proptest::collection::vec(any::<u8>(), 0..40),
            change in (any::<prop::sample::Index>(), any::<u8>()),
            pieces in proptest::collection::vec(1usize..50, 1..6),
            payload in 0usize..600,
        ) {
            let wires = [bundle(payload), old(&alloc::vec![9; payload])];
            for mut bytes in wires.into_iter().map(|wire| [wire, noise.clone()].concat()).chain([noise.clone()]) {
                for _ in 0..2 {
                    let whole = decode_prefix(&Payload::from(bytes.clone()));
                    prop_assert_eq!(found(&bytes, &pieces).ok(), whole.ok(), "{:02x?}", bytes);
                    if !bytes.is_empty() {
                        let at = change.0.index(bytes.len());
                        bytes[at] = change.1;
                    }
                }
            }
        }
    }

    #[test]
    fn end_is_found_in_concatenated_bundles() {
        for wire in [bundle(3000), old(&[1; 500]), bundle(0)] {
            assert_eq!(found(&[wire.clone(), bundle(9)].concat(), &[7]), Ok(Some(wire.len() as u64)));
            assert_eq!(found(&wire[..wire.len() - 1], &[7]), Ok(None));
        }
        assert!(found(b"no bundle", &[1]).is_err());
    }
}

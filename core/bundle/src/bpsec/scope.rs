//! Scope of keyed hashes and authenticated encryption besides the target (RFC 9173 3.7, 4.7), in canonical form (RFC
//! 9172 4).

use super::{PAYLOAD, PRIMARY, SecurityFault};
use crate::cbor::{ARRAY, BYTES, ByteSink, CborReader, TEXT, UINT, put_bytes, put_head, put_uint};
use crate::encode::put_primary;
use crate::{BlockFlags, Bundle, ExtensionBlock};
use alloc::vec::Vec;
use farlink_base::{Accel, Malformed};

/// Scope flags: the parts of the bundle covered besides the target (integrity scope flags, AAD scope flags; RFC 9173
/// 3.3.3, 4.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope(pub u16);
impl Scope {
    /// Covers the primary block.
    pub const PRIMARY: u16 = 1;
    /// Covers type, number and flags of the target.
    pub const TARGET: u16 = 2;
    /// Covers type, number and flags of the security block.
    pub const SECURITY: u16 = 4;
    /// All parts, the default of a block without the parameter.
    pub const ALL: Scope = Scope(7);

    pub(super) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
    /// Reads the scope parameter; without one, the scope is all parts.
    // 9172-3.6-16, 9173-3.3.3-1, 9173-3.3.3-2, 9173-4.3.4-1, 9173-4.3.4-2
    pub(super) fn read(parameter: Option<&super::SecurityValue>) -> Result<Scope, SecurityFault> {
        match parameter {
            None => Ok(Scope::ALL),
            Some(super::SecurityValue::Uint(bits)) => {
                u16::try_from(*bits).map(Scope).map_err(|_| SecurityFault::Parameters)
            }
            Some(_) => Err(SecurityFault::Parameters),
        }
    }
}

/// Header fields of a block, which a scope may cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Block type code.
    pub kind: u64,
    /// Block number.
    pub number: u64,
    /// Block processing control flags.
    pub flags: BlockFlags,
}
impl Header {
    /// Flags defined by RFC 9171 4.2.4; the others are 0 in canonical form (RFC 9172 4).
    const KNOWN: u64 = 0x17;

    /// Header of an extension block.
    pub fn of(block: &ExtensionBlock) -> Header {
        Header { kind: block.kind, number: block.number, flags: block.flags }
    }
    /// Header of a block by number, other than the primary block.
    // 9172-3.6-5
    pub(super) fn find(bundle: &Bundle, number: u64) -> Result<Header, SecurityFault> {
        if number == PAYLOAD {
            return Ok(Header { kind: 1, number, flags: bundle.payload_flags });
        }
        bundle.extensions.iter().find(|block| block.number == number).map(Header::of).ok_or(SecurityFault::Target)
    }
    // 9172-4-5
    fn put(self, out: &mut Vec<u8>) {
        [self.kind, self.number, self.flags.0 & Self::KNOWN].into_iter().for_each(|field| put_uint(out, field));
    }
}

/// Bytes that a BIB hashes before the target; for a BCB, the whole associated data.
// 9173-3.2-2, 9173-3.7-1, 9173-3.7-2, 9173-3.7-3, 9173-3.7-4, 9173-3.7-5, 9173-4.7-1, 9173-4.7.2-1, 9173-4.7.2-2
// 9173-4.7.2-3, 9173-4.7.2-4, 9173-4.7.2-5
pub(super) fn preface(bundle: &Bundle, target: u64, own: Header, scope: Scope) -> Result<Vec<u8>, SecurityFault> {
    let mut out = Vec::new();
    put_uint(&mut out, u64::from(scope.0 & Scope::ALL.0));
    // RFC 9173 3.7: if the target is the primary block, only the security header can be in scope.
    if target != PRIMARY {
        let header = Header::find(bundle, target)?;
        if scope.has(Scope::PRIMARY) {
            out.put(&primary(bundle));
        }
        if scope.has(Scope::TARGET) {
            header.put(&mut out);
        }
    }
    if scope.has(Scope::SECURITY) {
        own.put(&mut out);
    }
    Ok(out)
}

/// Primary block in canonical form.
// 9172-4-2
pub(super) fn primary(bundle: &Bundle) -> Vec<u8> {
    let Some(raw) = &bundle.primary_raw else {
        let mut out = Vec::new();
        put_primary(&bundle.primary, &mut out, &Accel::default());
        return out;
    };
    let mut out = Vec::with_capacity(raw.len());
    match canonical(&mut CborReader::new(raw, 0, false), &mut out, 8) {
        Ok(()) => out,
        // A primary block nested too deeply is covered as received.
        Err(_) => raw.to_vec(),
    }
}

/// Copies one item in deterministic encoding: shortest heads, definite lengths (RFC 8949 4.2.1).
// 9172-4-2
fn canonical(reader: &mut CborReader<'_>, out: &mut Vec<u8>, depth: u8) -> Result<(), Malformed> {
    match reader.peek().map(|first| first >> 5) {
        Some(UINT) => put_uint(out, reader.uint()?),
        Some(BYTES) => put_bytes(out, reader.bytes()?),
        Some(TEXT) => {
            let text = reader.text()?;
            put_head(out, TEXT, text.len() as u64);
            out.put(text.as_bytes());
        }
        Some(ARRAY) if depth > 0 => reader.list(|reader, items| {
            put_head(out, ARRAY, items);
            (0..items).try_for_each(|_| canonical(reader, out, depth - 1))
        })?,
        _ => out.put(reader.item()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreationTimestamp, EndpointId};
    use farlink_base::Bytes;

    /// Keeps 9172-4-2.
    #[test]
    fn primary_block_scope_is_canonical() {
        // [7, 5, [1, "//a/"]] with long heads and an array of indefinite length.
        let lax = [0x98, 3, 0x18, 7, 5, 0x9f, 1, 0x78, 4, b'/', b'/', b'a', b'/', 0xff];
        let mut out = Vec::new();
        canonical(&mut CborReader::new(&lax, 0, false), &mut out, 8).unwrap();
        assert_eq!(out, [0x83, 7, 5, 0x82, 1, 0x64, b'/', b'/', b'a', b'/']);
        let mut again = Vec::new();
        canonical(&mut CborReader::new(&out, 0, true), &mut again, 8).unwrap();
        assert_eq!(again, out);
        // The received primary block of a bundle is made canonical in the same way.
        let plain = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), CreationTimestamp::default()).build();
        let other = |raw: &[u8]| primary(&Bundle { primary_raw: Some(Bytes::copy_from_slice(raw)), ..plain.clone() });
        assert_eq!((other(&lax), other(&out)), (out.clone(), out));
        let shortest = primary(&Bundle { primary_raw: None, ..plain.clone() });
        assert_eq!(other(&shortest), shortest);
    }

    /// Keeps 9172-4-5.
    #[test]
    fn unknown_header_flags_are_cleared() {
        let mut out = Vec::new();
        Header { kind: 6, number: 2, flags: BlockFlags(0xff) }.put(&mut out);
        assert_eq!(out, [6, 2, 0x17]);
    }
}

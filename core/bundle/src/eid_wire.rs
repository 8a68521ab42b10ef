//! CBOR encoding of endpoint IDs (RFC 9171 4.2.5.1, RFC 9758 5).

use crate::cbor::{ARRAY, ByteSink, CborReader, TEXT, head_len, put_head, put_uint};
use crate::{EndpointId, Profile};
use alloc::sync::Arc;
use farlink_base::{Malformed, OtherName};

const SCHEME_DTN: u64 = 1;
const SCHEME_IPN: u64 = 2;
const MAX_U32: u64 = 0xffff_ffff;

/// Encodes and decodes endpoint IDs as CBOR.
pub trait EidCodec: Sized {
    /// Appends the CBOR form: ipn in two elements, null as `dtn:none`.
    fn encode(&self, out: &mut impl ByteSink);
    /// Length of the CBOR form, bytes.
    fn encoded_len(&self) -> u64;
    /// Decodes one endpoint ID that fills `bytes`.
    ///
    /// # Errors
    /// The endpoint ID is malformed; the error names the rule and the offset.
    fn decode(bytes: &[u8], profile: Profile) -> Result<Self, Malformed>;
    /// Reads one endpoint ID from a reader.
    ///
    /// # Errors
    /// The endpoint ID is malformed; the error names the rule and the offset.
    fn read(reader: &mut CborReader<'_>, profile: Profile) -> Result<Self, Malformed>;
}

impl EidCodec for EndpointId {
    // 9171-4.2.5.1-2, 9171-4.2.5.1-3, 9171-4.2.5.1.1-1, 9171-4.2.5.1.2-1, 9171-4.2.5.1.2-2
    // 9171-4.2.5.1.2-3, 9758-6.1-1, 9758-6.1-2, 9758-6.1.1-1, 9758-6.1.1-2, 9758-6.1.1-3, 9758-6.3-1
    fn encode(&self, out: &mut impl ByteSink) {
        put_head(out, ARRAY, 2);
        match self {
            EndpointId::Null => out.put(&[SCHEME_DTN as u8, 0]),
            EndpointId::Ipn { node, service } => {
                put_uint(out, SCHEME_IPN);
                put_head(out, ARRAY, 2);
                put_uint(out, *node);
                put_uint(out, u64::from(*service));
            }
            EndpointId::Dtn(name) => {
                put_uint(out, SCHEME_DTN);
                put_head(out, TEXT, (3 + name.node().len() + name.demux().len()) as u64);
                for part in ["//", name.node(), "/", name.demux()] {
                    out.put(part.as_bytes());
                }
            }
            EndpointId::Other(name) => {
                put_uint(out, name.scheme);
                out.put(&name.part);
            }
        }
    }
    fn encoded_len(&self) -> u64 {
        match self {
            EndpointId::Null => 3,
            EndpointId::Ipn { node, service } => 3 + head_len(*node) + head_len(u64::from(*service)),
            EndpointId::Dtn(name) => {
                let text = (3 + name.node().len() + name.demux().len()) as u64;
                2 + head_len(text) + text
            }
            EndpointId::Other(name) => 1 + head_len(name.scheme) + name.part.len() as u64,
        }
    }
    fn decode(bytes: &[u8], profile: Profile) -> Result<EndpointId, Malformed> {
        let mut reader = CborReader::new(bytes, 0, profile == Profile::Strict);
        let eid = Self::read(&mut reader, profile)?;
        reader.finish("bytes after an endpoint ID")?;
        Ok(eid)
    }
    // 9171-4.2.5.1-2, 9171-4.2.5.1-3, 9171-4.2.5.1-4, 9171-4.2.5.1-5
    fn read(reader: &mut CborReader<'_>, profile: Profile) -> Result<EndpointId, Malformed> {
        reader.list_of(2, "an endpoint ID is an array of two items", |reader| match reader.uint()? {
            SCHEME_DTN => read_dtn(reader, profile),
            SCHEME_IPN => read_ipn(reader),
            // RFC 9171 4.2.5: future schemes must not stop a bundle.
            scheme => Ok(EndpointId::Other(Arc::new(OtherName { scheme, part: reader.item()?.to_vec() }))),
        })
    }
}

// 9171-4.2.5.1.2-1, 9171-4.2.5.1.2-2, 9171-4.2.5.1.2-3
// 9758-3-1, 9758-3.2.2-1, 9758-6.1-1, 9758-6.1-2, 9758-6.1.1-1, 9758-6.1.1-2, 9758-6.1.1-3, 9758-6.3-1
// 9758-6.4-1, 9758-6.4-2, 9758-7.1-1
fn read_ipn(reader: &mut CborReader<'_>) -> Result<EndpointId, Malformed> {
    let start = reader.position();
    reader.list(|reader, numbers| {
        // 9758-6-1
        let node = match numbers {
            2 => reader.uint()?,
            3 => {
                let allocator = reader.uint_to(MAX_U32, "an ipn allocator beyond 32 bits")?;
                allocator << 32 | reader.uint_to(MAX_U32, "an ipn node number beyond 32 bits")?
            }
            _ => return reader.error_at(start, "an ipn endpoint ID has two or three numbers"),
        };
        let service = reader.uint_to(MAX_U32, "an ipn service number beyond 32 bits")?;
        // RFC 9758 3.4.1: node 0 is the null endpoint whatever the service.
        Ok(EndpointId::ipn(node, service as u32))
    })
}

// 9171-4.2.5.1.1-1
fn read_dtn(reader: &mut CborReader<'_>, profile: Profile) -> Result<EndpointId, Malformed> {
    let start = reader.position();
    if reader.peek().is_some_and(|byte| byte >> 5 != TEXT) {
        return match reader.uint()? {
            0 => Ok(EndpointId::Null),
            _ => reader.error_at(start, "the only number a dtn endpoint ID may be is 0 (dtn:none)"),
        };
    }
    let text = reader.text()?;
    let lenient = profile == Profile::Permissive;
    // Old peers write the null endpoint as text.
    if lenient && text == "none" {
        return Ok(EndpointId::Null);
    }
    let Some(rest) = text.strip_prefix("//") else {
        return reader.error_at(start, "a dtn endpoint ID begins with `//`");
    };
    let (node, demux) = match rest.split_once('/') {
        Some(parts) => parts,
        // Some peers leave out the slash after the node name.
        None if lenient => (rest, ""),
        None => return reader.error_at(start, "a dtn endpoint ID has a `/` after its node name"),
    };
    if node.is_empty() {
        return reader.error_at(start, "a dtn endpoint ID without node name");
    }
    let visible = |c: char| if lenient { !c.is_control() } else { c.is_ascii_graphic() };
    if !rest.chars().all(visible) {
        return reader.error_at(start, "a dtn endpoint ID with invisible characters");
    }
    Ok(EndpointId::dtn(node, demux))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// Keeps 9171-4.2.5.1.2-1, 9758-3-1, 9758-3.2.2-1, 9758-6.1.1-1, 9758-6.1.1-2, 9758-6.1.1-3.
    /// Keeps 9758-6.3-1, 9758-6.4-1, 9758-6.4-2, 9758-7.1-1.
    #[test]
    fn ipn_encodings_compare_equal() {
        let two = EndpointId::decode(&[0x82, 2, 0x82, 0x1b, 0, 0x0e, 0xe8, 0x68, 0, 0, 0, 1, 3], Profile::Strict);
        let three = EndpointId::decode(&[0x82, 2, 0x83, 0x1a, 0, 0x0e, 0xe8, 0x68, 1, 3], Profile::Strict);
        assert_eq!(two, three);
        assert_eq!(two.unwrap().to_string(), "ipn:977000.1.3");
        assert_eq!(EndpointId::decode(&[0x82, 2, 0x82, 0, 1], Profile::Strict), Ok(EndpointId::Null));
    }

    /// Keeps 9171-4.2.5.1-2, 9171-4.2.5.1-3, 9171-4.2.5.1.1-1, 9171-4.2.5.1.2-1, 9171-4.2.5.1.2-2.
    /// Keeps 9171-4.2.5.1.2-3, 9758-6.1-1, 9758-6.1-2.
    #[test]
    fn endpoint_id_encoding_is_exact() {
        for (eid, bytes) in [
            (EndpointId::Null, &[0x82, 1, 0][..]),
            (EndpointId::dtn("a", ""), b"\x82\x01\x64//a/"),
            (EndpointId::dtn("a", "b"), b"\x82\x01\x65//a/b"),
            (EndpointId::ipn(5, 24), &[0x82, 2, 0x82, 5, 0x18, 24]),
        ] {
            let mut out = Vec::new();
            eid.encode(&mut out);
            assert_eq!((&out[..], eid.encoded_len()), (bytes, bytes.len() as u64), "{eid}");
            assert_eq!(EndpointId::decode(bytes, Profile::Strict), Ok(eid));
        }
        // No array, one item, three items; a scheme that is text; a name that is bytes; parts that are no array.
        let wrong: [&[u8]; 6] =
            [&[1, 0], &[0x81, 1], &[0x83, 1, 0, 0], b"\x82\x61\x01\x00", b"\x82\x01\x44//a/", &[0x82, 2, 5]];
        for bytes in wrong {
            assert!(EndpointId::decode(bytes, Profile::Permissive).is_err(), "{bytes:02x?}");
        }
    }

    /// Keeps 9171-4.2.5.1-3, 9171-4.2.5.1-5.
    #[test]
    fn unknown_schemes_are_carried_verbatim() {
        let imc = [0x82, 3, 0x82, 0x18, 0x64, 0];
        let eid = EndpointId::decode(&imc, Profile::Strict).unwrap();
        let mut out = Vec::new();
        eid.encode(&mut out);
        assert_eq!(out, imc);
        assert_eq!(eid.encoded_len(), 6);
    }

    /// Keeps 9171-4.2.5.1.1-1.
    #[test]
    fn permissive_reads_what_old_peers_write() {
        for bytes in [&b"\x82\x01\x64none"[..], b"\x82\x01\x66//node"] {
            assert!(EndpointId::decode(bytes, Profile::Strict).is_err());
            assert!(EndpointId::decode(bytes, Profile::Permissive).is_ok());
        }
        assert!(EndpointId::decode(b"\x82\x01\x63///", Profile::Permissive).is_err());
        assert!(EndpointId::decode(b"\x82\x01\x65//a/\x07", Profile::Permissive).is_err());
    }
}

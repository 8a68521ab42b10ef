//! BPv6 encodings of endpoint IDs: text in a dictionary (RFC 5050 4.4), or pairs of numbers (RFC 6260).

use super::wire::put_sdnv;
use crate::cbor::{self, ByteSink, TEXT, put_head};
use crate::{EndpointId, Profile};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::OtherName;

/// Longest scheme name, and longest scheme-specific part, in bytes (RFC 5050 4.4).
pub(super) const PART_MAX: usize = 1023;
/// Scheme code, in the engine, of endpoint IDs whose scheme has no code in BPv7: their scheme-specific part is the text
/// of the whole endpoint ID, as CBOR. IANA reserves the code 0.
const TEXT_SCHEME: u64 = 0;

/// Table that resolves endpoint ID references.
#[derive(Clone, Copy)]
pub(super) struct NameTable<'a> {
    /// Strings, each terminated by a zero byte; if empty, references are pairs of node and service (RFC 6260 2.2).
    pub dictionary: &'a [u8],
    pub profile: Profile,
}

impl<'a> NameTable<'a> {
    /// Whether there is no dictionary, so that references are numbers.
    pub fn compressed(&self) -> bool {
        self.dictionary.is_empty()
    }
    /// Position of a string in the dictionary.
    fn place(&self, offset: u64) -> Result<usize, &'static str> {
        let at = usize::try_from(offset).ok().filter(|at| *at < self.dictionary.len());
        let Some(at) = at else { return Err("an endpoint ID beyond the dictionary") };
        // A reference into the middle of a string refers to its end; a strict reader refuses that.
        if self.profile == Profile::Strict && at > 0 && self.dictionary[at - 1] != 0 {
            return Err("an endpoint ID inside a string of the dictionary");
        }
        Ok(at)
    }
    /// String at an offset, truncated one byte beyond the limit.
    fn string(&self, offset: u64) -> Result<&'a [u8], &'static str> {
        let rest = &self.dictionary[self.place(offset)?..];
        let most = &rest[..rest.len().min(PART_MAX + 1)];
        Ok(&most[..most.iter().position(|byte| *byte == 0).unwrap_or(most.len())])
    }
    /// Checks that a reference is in range, without parsing its target.
    pub fn check(&self, (first, second): (u64, u64)) -> Result<(), &'static str> {
        if self.compressed() {
            // 6260-2.1-4
            return if second > u64::from(u32::MAX) && first != 0 { Err(SERVICE) } else { Ok(()) };
        }
        self.place(first).and(self.place(second)).map(drop)
    }
    /// Endpoint ID of a reference.
    pub fn endpoint(&self, (first, second): (u64, u64)) -> Result<EndpointId, &'static str> {
        if !self.compressed() {
            return from_parts(self.string(first)?, self.string(second)?, self.profile);
        }
        // RFC 6260 2.2: node 0 is the null endpoint.
        // 6260-2.1-3, 6260-2.1-4, 6260-3.2-1
        match u32::try_from(second) {
            _ if first == 0 => Ok(EndpointId::Null),
            Ok(service) => Ok(EndpointId::ipn(first, service)),
            Err(_) => Err(SERVICE),
        }
    }
}
const SERVICE: &str = "an ipn service number beyond 32 bits";

/// Endpoint ID of a scheme name and a scheme-specific part. Unknown schemes are carried unchanged.
// 5050-4.4-1
pub(super) fn from_parts(scheme: &[u8], part: &[u8], profile: Profile) -> Result<EndpointId, &'static str> {
    if scheme.len() > PART_MAX || part.len() > PART_MAX {
        return Err("an endpoint ID with a part of more than 1023 bytes");
    }
    let text = |bytes| core::str::from_utf8(bytes).ok();
    let (Some(scheme), Some(part)) = (text(scheme), text(part)) else {
        return Err("an endpoint ID that is not text");
    };
    let visible = |c: char| if profile == Profile::Strict { c.is_ascii_graphic() } else { !c.is_control() };
    if scheme.is_empty() || !scheme.chars().chain(part.chars()).all(visible) {
        return Err("an endpoint ID with invisible characters");
    }
    match (scheme, part) {
        ("dtn", "none") => return Ok(EndpointId::Null),
        ("ipn", _) => {
            let ipn = format!("ipn:{part}");
            return ipn.parse().map_err(|_| "an ipn endpoint ID is two numbers joined by a dot");
        }
        ("dtn", _) => {
            if let Some(rest) = part.strip_prefix("//") {
                // Node names often lack the trailing slash, which RFC 5050 does not require.
                let (node, demux) = rest.split_once('/').unwrap_or((rest, ""));
                if node.is_empty() {
                    return Err("a dtn endpoint ID without node name");
                }
                return Ok(EndpointId::dtn(node, demux));
            }
        }
        _ => {}
    }
    let mut item = Vec::with_capacity(scheme.len() + part.len() + 4);
    put_head(&mut item, TEXT, (scheme.len() + 1 + part.len()) as u64);
    [scheme, ":", part].iter().for_each(|text| item.extend_from_slice(text.as_bytes()));
    Ok(EndpointId::Other(Arc::new(OtherName { scheme: TEXT_SCHEME, part: item })))
}

/// Parses an endpoint ID from its text, as used in records (RFC 5050 6.1.1).
pub(super) fn from_text(text: &[u8], profile: Profile) -> Result<EndpointId, &'static str> {
    let Some(colon) = text.iter().position(|byte| *byte == b':') else {
        return Err("an endpoint ID without scheme");
    };
    from_parts(&text[..colon], &text[colon + 1..], profile)
}

/// Whether an application's BPv6 bundle may use this endpoint ID: only ipn numbers of the default allocator (RFC 9758
/// section 7.4). Longer node numbers in received bundles are read, cited and answered unchanged.
// 9758-7.4-1
pub(super) fn may_be_given(endpoint: &EndpointId) -> bool {
    !matches!(endpoint, EndpointId::Ipn { node, .. } if *node > u64::from(u32::MAX))
}

/// Scheme name and scheme-specific part of an endpoint ID; `None` if BPv6 cannot express it.
// 9758-7.4-2
pub(super) fn parts(endpoint: &EndpointId) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (scheme, part) = match endpoint {
        EndpointId::Null => (Cow::from("dtn"), Cow::from("none")),
        // RFC 6260 2.1: the node is one number, including the allocator of newer standards.
        EndpointId::Ipn { node, service } => (Cow::from("ipn"), Cow::from(format!("{node}.{service}"))),
        EndpointId::Dtn(name) => (Cow::from("dtn"), Cow::from(format!("//{}/{}", name.node(), name.demux()))),
        EndpointId::Other(name) if name.scheme == TEXT_SCHEME => {
            let text = cbor::CborReader::new(&name.part, 0, false).text().ok()?;
            let (scheme, part) = text.split_once(':')?;
            (Cow::from(scheme), Cow::from(part))
        }
        EndpointId::Other(_) => return None,
    };
    (scheme.len() <= PART_MAX && part.len() <= PART_MAX && !part.contains('\0')).then_some((scheme, part))
}

/// Text of an endpoint ID in BPv6; in the engine's notation if BPv6 has none.
pub fn text(endpoint: &EndpointId) -> String {
    parts(endpoint).map_or_else(|| endpoint.to_string(), |(scheme, part)| format!("{scheme}:{part}"))
}

/// Node and service of an endpoint ID that needs no dictionary (RFC 6260 2.1); `None` for others.
pub(super) fn numbers(endpoint: &EndpointId) -> Option<(u64, u64)> {
    match endpoint {
        EndpointId::Null => Some((0, 0)),
        EndpointId::Ipn { node, service } => Some((*node, u64::from(*service))),
        _ => None,
    }
}

/// Dictionary under construction: strings that are not found are appended.
#[derive(Default)]
pub(super) struct Dictionary {
    pub bytes: Vec<u8>,
}
impl Dictionary {
    /// Offset of a string, appended if missing.
    fn offset(&mut self, text: &str) -> u64 {
        let mut at = 0;
        for string in self.bytes.split(|byte| *byte == 0) {
            // `split` yields an empty string behind the last terminator, which is not in the dictionary.
            if string == text.as_bytes() && at < self.bytes.len() {
                return at as u64;
            }
            at += string.len() + 1;
        }
        let end = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        end as u64
    }
    /// Reference to an endpoint ID; `None` if BPv6 cannot express it.
    pub fn reference(&mut self, endpoint: &EndpointId) -> Option<(u64, u64)> {
        let (scheme, part) = parts(endpoint)?;
        Some((self.offset(&scheme), self.offset(&part)))
    }
}

/// Appends a reference as two SDNVs.
pub(super) fn put_reference(out: &mut impl ByteSink, (first, second): (u64, u64)) {
    put_sdnv(out, first);
    put_sdnv(out, second);
}

//! Endpoint IDs of BPv6: text in a dictionary (RFC 5050 4.4), or pairs of numbers (RFC 6260).

use super::wire::put_sdnv;
use crate::cbor::{self, Out, TEXT, put_head};
use crate::{EndpointId, Profile};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::OtherName;

/// Most bytes of a scheme name, and of a scheme-specific part (RFC 5050 4.4).
pub(super) const PART_MAX: usize = 1023;
/// Scheme code of what BPv7 has no code for: its part is the text of the whole endpoint ID, as CBOR. IANA keeps
/// it reserved.
const TEXT_SCHEME: u64 = 0;

/// What endpoint ID references refer to.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    /// Strings, each ended by a zero byte; empty: references are pairs of node and service (RFC 6260 2.2).
    pub dictionary: &'a [u8],
    pub profile: Profile,
}

impl<'a> Names<'a> {
    /// Whether there is no dictionary, references being numbers.
    pub fn compressed(&self) -> bool {
        self.dictionary.is_empty()
    }
    /// Where in the dictionary a string begins.
    fn place(&self, offset: u64) -> Result<usize, &'static str> {
        let at = usize::try_from(offset).ok().filter(|at| *at < self.dictionary.len());
        let Some(at) = at else { return Err("an endpoint ID beyond the dictionary") };
        if self.profile == Profile::Strict && at > 0 && self.dictionary[at - 1] != 0 {
            return Err("an endpoint ID inside a string of the dictionary");
        }
        Ok(at)
    }
    /// The string at an offset, or as much of it as makes it too long.
    fn string(&self, offset: u64) -> Result<&'a [u8], &'static str> {
        let rest = &self.dictionary[self.place(offset)?..];
        let most = &rest[..rest.len().min(PART_MAX + 1)];
        Ok(&most[..most.iter().position(|byte| *byte == 0).unwrap_or(most.len())])
    }
    /// Whether a reference leads somewhere; nothing is read there.
    pub fn check(&self, (first, second): (u64, u64)) -> Result<(), &'static str> {
        if self.compressed() {
            // 6260-2.1-4
            return if second > u64::from(u32::MAX) && first != 0 { Err(SERVICE) } else { Ok(()) };
        }
        self.place(first).and(self.place(second)).map(drop)
    }
    /// The endpoint ID of a reference.
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

/// An endpoint ID of a scheme name and a scheme-specific part. What no scheme known here explains is carried as it
/// is, never understood.
// 5050-4.4-1
pub(super) fn from_parts(scheme: &[u8], part: &[u8], profile: Profile) -> Result<EndpointId, &'static str> {
    if scheme.len() > PART_MAX || part.len() > PART_MAX {
        return Err("an endpoint ID with a part of more than 1023 bytes");
    }
    let text = |bytes| core::str::from_utf8(bytes).ok();
    let (Some(scheme), Some(part)) = (text(scheme), text(part)) else {
        return Err("an endpoint ID that is no text");
    };
    let visible = |c: char| if profile == Profile::Strict { c.is_ascii_graphic() } else { !c.is_control() };
    if scheme.is_empty() || !scheme.chars().chain(part.chars()).all(visible) {
        return Err("an endpoint ID with characters that cannot be seen");
    }
    match (scheme, part) {
        ("dtn", "none") => return Ok(EndpointId::Null),
        ("ipn", _) => {
            let ipn = format!("ipn:{part}");
            return ipn.parse().map_err(|_| "an ipn endpoint ID is two numbers joined by a dot");
        }
        ("dtn", _) => {
            if let Some(rest) = part.strip_prefix("//") {
                // A node's own name often comes without the slash: RFC 5050 leaves it open.
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

/// An endpoint ID of its text, as records have it (RFC 5050 6.1.1).
pub(super) fn from_text(text: &[u8], profile: Profile) -> Result<EndpointId, &'static str> {
    let Some(colon) = text.iter().position(|byte| *byte == b':') else {
        return Err("an endpoint ID without scheme");
    };
    from_parts(&text[..colon], &text[colon + 1..], profile)
}

/// Whether an application's bundle of version 6 may be given this endpoint ID: its ipn scheme has the default allocator
/// only (RFC 9758 section 7.4). Longer node numbers of bundles that others made are read, cited and answered as they are.
// 9758-7.4-1
pub(super) fn may_be_given(endpoint: &EndpointId) -> bool {
    !matches!(endpoint, EndpointId::Ipn { node, .. } if *node > u64::from(u32::MAX))
}

/// Scheme name and scheme-specific part of an endpoint ID; `None` where BPv6 cannot say it.
// 9758-7.4-2
pub(super) fn parts(endpoint: &EndpointId) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (scheme, part) = match endpoint {
        EndpointId::Null => (Cow::from("dtn"), Cow::from("none")),
        // RFC 6260 2.1: one number is the node, whichever allocator it has in newer standards.
        EndpointId::Ipn { node, service } => (Cow::from("ipn"), Cow::from(format!("{node}.{service}"))),
        EndpointId::Dtn(name) => (Cow::from("dtn"), Cow::from(format!("//{}/{}", name.node(), name.demux()))),
        EndpointId::Other(name) if name.scheme == TEXT_SCHEME => {
            let text = cbor::Reader::new(&name.part, 0, false).text().ok()?;
            let (scheme, part) = text.split_once(':')?;
            (Cow::from(scheme), Cow::from(part))
        }
        EndpointId::Other(_) => return None,
    };
    (scheme.len() <= PART_MAX && part.len() <= PART_MAX && !part.contains('\0')).then_some((scheme, part))
}

/// An endpoint ID as BPv6 writes it out; one of a scheme that it has no name for, as the engine does.
pub fn text(endpoint: &EndpointId) -> String {
    parts(endpoint).map_or_else(|| endpoint.to_string(), |(scheme, part)| format!("{scheme}:{part}"))
}

/// Node and service of an endpoint ID that needs no dictionary (RFC 6260 2.1).
pub(super) fn numbers(endpoint: &EndpointId) -> Option<(u64, u64)> {
    match endpoint {
        EndpointId::Null => Some((0, 0)),
        EndpointId::Ipn { node, service } => Some((*node, u64::from(*service))),
        _ => None,
    }
}

/// A dictionary that grows by what is looked up and not found.
#[derive(Default)]
pub(super) struct Dictionary {
    pub bytes: Vec<u8>,
}
impl Dictionary {
    /// Offset of a string.
    fn offset(&mut self, text: &str) -> u64 {
        let mut at = 0;
        for string in self.bytes.split(|byte| *byte == 0) {
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
    /// The reference to an endpoint ID; `None` where BPv6 cannot say it.
    pub fn reference(&mut self, endpoint: &EndpointId) -> Option<(u64, u64)> {
        let (scheme, part) = parts(endpoint)?;
        Some((self.offset(&scheme), self.offset(&part)))
    }
}

/// Appends a reference.
pub(super) fn put_reference(out: &mut impl Out, (first, second): (u64, u64)) {
    put_sdnv(out, first);
    put_sdnv(out, second);
}

//! Extensions of segments (RFC 5326 3.1.4), read in place and inserted into encoded segments.

use crate::sdnv;
use alloc::vec::Vec;

/// Tags of extensions.
pub mod tag {
    /// Authentication (RFC 5327 2.1).
    pub const AUTHENTICATION: u8 = 0x00;
    /// A cookie (RFC 5327 2.2).
    pub const COOKIE: u8 = 0x01;
}

/// Most extensions at either end of a segment, because their count has four bits.
const COUNT_MAX: u8 = 15;

/// Extensions at one end of a segment, in place. The parser has checked them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Extensions<'a> {
    count: u8,
    bytes: &'a [u8],
}

/// One extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension<'a> {
    /// Tag ([`tag`]).
    pub tag: u8,
    /// Encoded tag and length.
    pub prefix: &'a [u8],
    /// Value bytes.
    pub value: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// No extensions.
    pub const NONE: Extensions<'static> = Extensions { count: 0, bytes: &[] };

    /// Creates a view of `count` extensions, which fill `bytes`.
    pub(super) fn new(count: u8, bytes: &'a [u8]) -> Self {
        Extensions { count, bytes }
    }
    /// Whether there are no extensions.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Iterates over the extensions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (length, n) = sdnv::decode(rest.get(1..)?).ok()?;
            let start = 1 + n;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            let (prefix, value) = (rest.get(..start)?, rest.get(start..end)?);
            rest = rest.get(end..)?;
            Some(Extension { tag: *prefix.first()?, prefix, value })
        })
    }
    /// Values of extensions with this tag.
    pub fn of(&self, tag: u8) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.iter().filter(move |extension| extension.tag == tag).map(|extension| extension.value)
    }
}

/// Encoded length of an extension whose value has this length, bytes.
pub(super) fn size(value: usize) -> usize {
    1 + sdnv::len(value as u64) + value
}

pub(super) fn put(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    let mut length = [0; sdnv::LEN_MAX];
    let n = sdnv::encode(value.len() as u64, &mut length);
    out.push(tag);
    out.extend_from_slice(&length[..n]);
    out.extend_from_slice(value);
}

/// Position of the byte with the extension counts, after the session ID; `None` if the segment is too short.
fn counts_at(segment: &[u8]) -> Option<usize> {
    let mut at = 1;
    for _ in 0..2 {
        at += sdnv::decode(segment.get(at..)?).ok()?.1;
    }
    (at < segment.len()).then_some(at)
}

/// Inserts header extensions into a segment, or the head of one, before existing ones, up to the limit. Adds `trailers`
/// to the count of trailer extensions, which the caller appends.
// 5326-3.1.4-1
pub(super) fn dress<'v>(segment: &[u8], extensions: impl Iterator<Item = (u8, &'v [u8])>, trailers: u8) -> Vec<u8> {
    let Some(at) = counts_at(segment) else { return segment.to_vec() };
    let mut out = Vec::with_capacity(segment.len() + 96);
    out.extend_from_slice(&segment[..=at]);
    let (mut headers, before) = (segment[at] >> 4, segment[at] & 0x0f);
    for (tag, value) in extensions {
        if headers < COUNT_MAX {
            headers += 1;
            put(&mut out, tag, value);
        }
    }
    out[at] = headers << 4 | (before + trailers).min(COUNT_MAX);
    out.extend_from_slice(&segment[at + 1..]);
    out
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Segment, SegmentBody, SegmentContent, SessionId, parse};
    use super::*;

    #[test]
    fn segment_extensions_round_trip() {
        let session = SessionId { engine: 300, number: 70_000 };
        let bare = Segment { session, body: SegmentBody::ReportAck { serial: 9 } }.emit();
        let cookie = [7; 200];
        let once = dress(&bare, [(tag::COOKIE, &cookie[..])].into_iter(), 0);
        assert_eq!(once.len(), bare.len() + size(cookie.len()));
        let mut twice = dress(&once, [(tag::AUTHENTICATION, &[0, 0x24][..])].into_iter(), 1);
        put(&mut twice, tag::AUTHENTICATION, &[1; 10]);
        let view = parse(&twice, twice.len() as u64).unwrap();
        assert!(view.session == session && matches!(view.content, SegmentContent::ReportAck { serial: 9 }));
        let headers: Vec<_> = view.header.iter().map(|e| (e.tag, e.value)).collect();
        assert_eq!(headers, [(tag::AUTHENTICATION, &[0, 0x24][..]), (tag::COOKIE, &cookie[..])]);
        assert_eq!(view.trailer.of(tag::AUTHENTICATION).collect::<Vec<_>>(), [[1; 10]]);
        assert_eq!(&twice[view.trailer_at..], [&[0, 10][..], &[1; 10]].concat());
        assert!(view.trailing == 0 && view.header.of(tag::COOKIE).eq([&cookie[..]]));
    }

    #[test]
    fn extension_count_is_capped() {
        let bare =
            Segment { session: SessionId { engine: 1, number: 2 }, body: SegmentBody::CancelAck { by_sender: true } };
        let many = dress(&bare.emit(), core::iter::repeat_n((tag::COOKIE, &[1][..]), 20), 0);
        assert_eq!(parse(&many, many.len() as u64).unwrap().header.iter().count(), 15);
        for broken in [&b""[..], b"\x08", b"\x08\x01", b"\x08\x81\x81", b"\x08\x01\x01"] {
            assert_eq!(dress(broken, [(0, &[1][..])].into_iter(), 1), broken);
        }
        assert!(Extensions::NONE.is_empty() && Extensions::NONE.iter().next().is_none());
    }
}

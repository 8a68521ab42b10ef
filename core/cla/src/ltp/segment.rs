//! Encoding of LTP segments (RFC 5326 3). [`parse`] reads a segment in place and gives a [`View`]; [`Segment`] is an
//! owned, valid form, which [`Segment::emit`] writes.

use super::extension::Extensions;
use crate::sdnv;
use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};
use farlink_base::Malformed;

/// Segment type numbers (RFC 5326 3.1, table 2).
pub mod kind {
    /// Red data without a checkpoint.
    pub const RED: u8 = 0;
    /// Red data, checkpoint.
    pub const CHECKPOINT: u8 = 1;
    /// Red data, checkpoint, end of red part; green data follows.
    pub const RED_END: u8 = 2;
    /// Red data, checkpoint, end of red part and of block.
    pub const BLOCK_END: u8 = 3;
    /// Green data inside a block.
    pub const GREEN: u8 = 4;
    /// Green data, end of block.
    pub const GREEN_END: u8 = 7;
    /// Report segment.
    pub const REPORT: u8 = 8;
    /// Report acknowledgment.
    pub const REPORT_ACK: u8 = 9;
    /// Cancellation by the block's sender.
    pub const CANCEL_SENDER: u8 = 12;
    /// Acknowledgment of a cancellation by the block's sender.
    pub const CANCEL_SENDER_ACK: u8 = 13;
    /// Cancellation by the block's receiver.
    pub const CANCEL_RECEIVER: u8 = 14;
    /// Acknowledgment of a cancellation by the block's receiver.
    pub const CANCEL_RECEIVER_ACK: u8 = 15;
}

/// Reasons of cancel segments (RFC 5326 3.2.4).
pub mod reason {
    /// The client service cancelled.
    pub const USER: u8 = 0;
    /// Unknown client service.
    pub const UNREACHABLE: u8 = 1;
    /// Retransmission limit exceeded.
    pub const LIMIT: u8 = 2;
    /// Red after green, or green before red.
    pub const MISCOLORED: u8 = 3;
    /// A system error (no resources).
    pub const SYSTEM: u8 = 4;
    /// Retransmission cycles exceeded.
    pub const CYCLES: u8 = 5;
}

/// Client service number of the bundle protocol.
pub const SERVICE_BUNDLE: u64 = 1;
/// Client service number of service data aggregation (CCSDS 734.1): the block consists of items, each preceded by its
/// own client service number.
pub const SERVICE_AGGREGATE: u64 = 2;

/// Session ID: the engine that sends the block, and the number that it gave the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId {
    /// Engine number of the sender.
    pub engine: u64,
    /// Session number.
    pub number: u64,
}

/// Fields of a data segment, without the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Segment type: 0 to 4, or 7.
    pub kind: u8,
    /// Client service number.
    pub service: u64,
    /// Offset of the data in the block, bytes.
    pub offset: u64,
    /// Length of the data, bytes; at least 1 except in a checkpoint. The sum of offset and length does not overflow.
    pub length: u64,
    /// Checkpoint serial number; 0 if the segment is not a checkpoint.
    pub checkpoint: u64,
    /// Serial number of the report that this checkpoint answers; 0 for none.
    pub report: u64,
}
impl Data {
    /// Whether the data is red, so that it is sent again if lost.
    pub fn is_red(&self) -> bool {
        self.kind <= kind::BLOCK_END
    }
    /// Whether the segment asks for a report.
    pub fn is_checkpoint(&self) -> bool {
        (kind::CHECKPOINT..=kind::BLOCK_END).contains(&self.kind)
    }
    /// Whether the segment ends the red part.
    pub fn ends_red(&self) -> bool {
        matches!(self.kind, kind::RED_END | kind::BLOCK_END)
    }
    /// Whether the segment ends the block.
    pub fn ends_block(&self) -> bool {
        matches!(self.kind, kind::BLOCK_END | kind::GREEN_END)
    }
    /// Offset of the first byte after the data in the block.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// Claims of a report, in place; [`parse`] has checked them.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    bytes: &'a [u8],
    count: u64,
    lower: u64,
}
impl Claims<'_> {
    /// Claimed runs `start..end` of the block, in order and not adjacent.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut rest = self.bytes;
        let lower = self.lower;
        let mut next = move || {
            let (value, n) = sdnv::decode(rest).ok()?;
            rest = &rest[n..];
            Some(value)
        };
        (0..self.count).map_while(move |_| {
            let start = lower + next()?;
            Some((start, start + next()?))
        })
    }
}

/// Content of a segment, read in place.
#[derive(Clone, Copy, Debug)]
pub enum SegmentContent<'a> {
    /// Data of a block.
    Data {
        /// Header fields.
        data: Data,
        /// Offset of the data in the datagram.
        at: usize,
    },
    /// A report.
    Report {
        /// Report serial number, not 0.
        serial: u64,
        /// Serial number of the checkpoint that the report answers; 0 if it is asynchronous.
        checkpoint: u64,
        /// Lower bound of the report's scope.
        lower: u64,
        /// Upper bound of the report's scope, greater than `lower`.
        upper: u64,
        /// Data received within the scope.
        claims: Claims<'a>,
    },
    /// Acknowledgment of a report.
    ReportAck {
        /// Serial number of the report.
        serial: u64,
    },
    /// Cancellation of a session.
    Cancel {
        /// Whether the block's sender cancels; otherwise its receiver does.
        by_sender: bool,
        /// Reason code ([`reason`]).
        reason: u8,
    },
    /// Acknowledgment of a cancellation.
    CancelAck {
        /// Whether the block's sender had cancelled; otherwise its receiver had.
        by_sender: bool,
    },
}

/// One segment, read in place.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Segment type number.
    pub kind: u8,
    /// Session that the segment belongs to.
    pub session: SessionId,
    /// Content by type.
    pub content: SegmentContent<'a>,
    /// Header extensions.
    pub header: Extensions<'a>,
    /// Trailer extensions.
    pub trailer: Extensions<'a>,
    /// Offset of the trailer extensions.
    pub trailer_at: usize,
    /// Number of bytes after a segment without data. RFC 5326 does not provide for them, but ION pads its secondary
    /// reports with zeros, so they are ignored.
    pub trailing: u64,
}

struct SegmentReader<'a> {
    bytes: &'a [u8],
    at: usize,
}
impl<'a> SegmentReader<'a> {
    fn fail<T>(&self, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.at as u64, reason })
    }
    #[inline]
    fn u8(&mut self) -> Result<u8, Malformed> {
        let Some(byte) = self.bytes.get(self.at) else { return self.fail("LTP segment ends early") };
        self.at += 1;
        Ok(*byte)
    }
    #[inline]
    fn sdnv(&mut self) -> Result<u64, Malformed> {
        match sdnv::decode(&self.bytes[self.at..]) {
            Ok((value, n)) => {
                self.at += n;
                Ok(value)
            }
            Err(sdnv::Error::Truncated) => self.fail("LTP segment ends inside a number"),
            Err(sdnv::Error::TooLarge) => self.fail("SDNV larger than 64 bits"),
        }
    }
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
    /// Reads `count` extensions (RFC 5326 3.1.4).
    fn extensions(&mut self, count: u8) -> Result<Extensions<'a>, Malformed> {
        let start = self.at;
        for _ in 0..count {
            self.u8()?;
            let length = self.sdnv()?;
            match usize::try_from(length).ok().and_then(|n| self.at.checked_add(n)) {
                Some(end) if end <= self.bytes.len() => self.at = end,
                _ => return self.fail("LTP extension is longer than the segment"),
            }
        }
        Ok(Extensions::new(count, &self.bytes[start..self.at]))
    }
}

/// Parses the segment in a datagram of `total` bytes. `head` is the beginning of the datagram: all of it, or, for a
/// data segment without trailer extensions, at least everything before the data.
// 5326-3.1.2-1, 5326-6-1
pub fn parse(head: &[u8], total: u64) -> Result<View<'_>, Malformed> {
    let mut r = SegmentReader { bytes: head, at: 0 };
    let control = r.u8()?;
    // 5326-3.1-1
    if control >> 4 != 0 {
        return r.fail("LTP version is not 0");
    }
    let kind = control & 0x0f;
    let session = SessionId { engine: r.sdnv()?, number: r.sdnv()? };
    let extensions = r.u8()?;
    let header = if extensions >> 4 != 0 { r.extensions(extensions >> 4)? } else { Extensions::NONE };
    let (trailers, mut trailer) = (extensions & 0x0f, Extensions::NONE);
    let content = match kind {
        0..=4 | 7 => {
            let content = parse_data(&mut r, kind, trailers, total)?;
            if trailers > 0 {
                trailer = r.extensions(trailers)?;
                if r.at as u64 != total {
                    return r.fail("bytes after the LTP segment");
                }
            }
            content
        }
        kind::REPORT => parse_report(&mut r)?,
        kind::REPORT_ACK => SegmentContent::ReportAck { serial: r.sdnv()? },
        kind::CANCEL_SENDER | kind::CANCEL_RECEIVER => {
            SegmentContent::Cancel { by_sender: kind == kind::CANCEL_SENDER, reason: r.u8()? }
        }
        kind::CANCEL_SENDER_ACK | kind::CANCEL_RECEIVER_ACK => {
            SegmentContent::CancelAck { by_sender: kind == kind::CANCEL_SENDER_ACK }
        }
        _ => return r.fail("undefined LTP segment type"),
    };
    let mut trailing = 0;
    if kind >= kind::REPORT {
        trailer = r.extensions(trailers)?;
        trailing = total.saturating_sub(r.at as u64);
    }
    Ok(View { kind, session, content, header, trailer, trailer_at: r.at - trailer.len(), trailing })
}

// 5326-3.2.1-1, 5326-3.2.1-2, 5326-3.2.1-6, 5326-9.3-1
#[inline]
fn parse_data<'a>(
    r: &mut SegmentReader<'a>,
    kind: u8,
    trailers: u8,
    total: u64,
) -> Result<SegmentContent<'a>, Malformed> {
    let (service, offset, length) = (r.sdnv()?, r.sdnv()?, r.sdnv()?);
    let mut data = Data { kind, service, offset, length, checkpoint: 0, report: 0 };
    if data.is_checkpoint() {
        data.checkpoint = r.sdnv()?;
        data.report = r.sdnv()?;
        if data.checkpoint == 0 {
            return r.fail("checkpoint serial number 0");
        }
    }
    let at = r.at;
    // A checkpoint without data may follow the last byte of a block; other segments without data are invalid.
    if length == 0 && (!data.is_checkpoint() || offset == 0) {
        return r.fail("data segment without data");
    }
    if offset.checked_add(length).is_none() {
        return r.fail("data beyond the largest block");
    }
    let left = total.saturating_sub(at as u64);
    if length > left {
        return r.fail("data longer than the segment");
    }
    if trailers == 0 && length < left {
        return r.fail("bytes after the LTP segment");
    }
    if trailers > 0 {
        if head_is_partial(r, total) {
            return r.fail("trailer extensions are not in memory");
        }
        r.at += length as usize;
    }
    Ok(SegmentContent::Data { data, at })
}

fn head_is_partial(r: &SegmentReader<'_>, total: u64) -> bool {
    r.bytes.len() as u64 != total
}

// 5326-3.2.2-4, 5326-3.2.2-7, 5326-3.2.2-8, 5326-3.2.2-9, 5326-3.2.2-10, 5326-9.3-1
fn parse_report<'a>(r: &mut SegmentReader<'a>) -> Result<SegmentContent<'a>, Malformed> {
    let serial = r.sdnv()?;
    let checkpoint = r.sdnv()?;
    let upper = r.sdnv()?;
    let lower = r.sdnv()?;
    let count = r.sdnv()?;
    if serial == 0 {
        return r.fail("report serial number 0");
    }
    if lower >= upper {
        return r.fail("report scope is empty");
    }
    // Each claim has at least two bytes, which bounds the loop below.
    let bytes = r.rest();
    if count > bytes.len() as u64 / 2 {
        return r.fail("more claims than bytes");
    }
    let start = r.at;
    let mut claimed_to = None;
    for _ in 0..count {
        let (offset, length) = (r.sdnv()?, r.sdnv()?);
        if claimed_to.is_some_and(|to| offset <= to) {
            return r.fail("claims overlap or touch");
        }
        let Some(end) = offset.checked_add(length).filter(|end| *end <= upper - lower && length > 0) else {
            return r.fail("claim is empty or outside the scope");
        };
        claimed_to = Some(end);
    }
    Ok(SegmentContent::Report {
        serial,
        checkpoint,
        lower,
        upper,
        claims: Claims { bytes: &bytes[..r.at - start], count, lower },
    })
}

/// A segment in an owned, valid form, without extensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Session that the segment belongs to.
    pub session: SessionId,
    /// Content by type.
    pub body: SegmentBody,
}

/// Content of a [`Segment`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SegmentBody {
    /// Data of a block.
    Data(Data, Bytes),
    /// A report; its `claims` are runs `start..end` of the block within the scope, in order and not adjacent.
    Report {
        /// Report serial number.
        serial: u64,
        /// Serial number of the checkpoint that the report answers; 0 if it is asynchronous.
        checkpoint: u64,
        /// Lower bound of the report's scope.
        lower: u64,
        /// Upper bound of the report's scope.
        upper: u64,
        /// Data received within the scope.
        claims: Vec<(u64, u64)>,
    },
    /// Acknowledgment of a report.
    ReportAck {
        /// Serial number of the report.
        serial: u64,
    },
    /// Cancellation of a session.
    Cancel {
        /// Whether the block's sender cancels; otherwise its receiver does.
        by_sender: bool,
        /// Reason code ([`reason`]).
        reason: u8,
    },
    /// Acknowledgment of a cancellation.
    CancelAck {
        /// Whether the block's sender had cancelled; otherwise its receiver had.
        by_sender: bool,
    },
}

/// Buffer for the header of a segment; the longest header of a data segment has 72 bytes.
#[derive(Debug)]
pub(super) struct HeaderBuffer {
    buffer: [u8; 80],
    len: usize,
}
impl HeaderBuffer {
    /// Writes the common header (RFC 5326 3.1), without extensions.
    // 5326-3.1-1, 5326-3.1.4-1
    pub(super) fn new(kind: u8, session: SessionId) -> HeaderBuffer {
        let mut head = HeaderBuffer { buffer: [0; 80], len: 0 };
        head.u8(kind);
        head.sdnv(session.engine);
        head.sdnv(session.number);
        head.u8(0);
        head
    }
    /// Writes the header of a data segment.
    // 5326-3.2.1-1, 5326-3.2.1-2
    pub(super) fn data(session: SessionId, data: &Data) -> HeaderBuffer {
        let mut head = HeaderBuffer::new(data.kind, session);
        head.sdnv(data.service);
        head.sdnv(data.offset);
        head.sdnv(data.length);
        if data.is_checkpoint() {
            head.sdnv(data.checkpoint);
            head.sdnv(data.report);
        }
        head
    }
    fn u8(&mut self, byte: u8) {
        self.buffer[self.len] = byte;
        self.len += 1;
    }
    #[inline]
    fn sdnv(&mut self, value: u64) {
        self.len += sdnv::encode(value, &mut self.buffer[self.len..]);
    }
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

fn put_sdnv(out: &mut BytesMut, value: u64) {
    let mut buffer = [0; sdnv::LEN_MAX];
    let n = sdnv::encode(value, &mut buffer);
    out.put_slice(&buffer[..n]);
}

impl Segment {
    /// Segment type number.
    pub fn kind(&self) -> u8 {
        match &self.body {
            SegmentBody::Data(data, _) => data.kind,
            SegmentBody::Report { .. } => kind::REPORT,
            SegmentBody::ReportAck { .. } => kind::REPORT_ACK,
            SegmentBody::Cancel { by_sender: true, .. } => kind::CANCEL_SENDER,
            SegmentBody::Cancel { by_sender: false, .. } => kind::CANCEL_RECEIVER,
            SegmentBody::CancelAck { by_sender: true } => kind::CANCEL_SENDER_ACK,
            SegmentBody::CancelAck { by_sender: false } => kind::CANCEL_RECEIVER_ACK,
        }
    }
    /// Encodes the segment.
    pub fn emit(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match &self.body {
            SegmentBody::Data(data, bytes) => {
                out.put_slice(HeaderBuffer::data(self.session, data).bytes());
                out.put_slice(bytes);
            }
            SegmentBody::Report { serial, checkpoint, lower, upper, claims } => {
                out.put_slice(HeaderBuffer::new(kind::REPORT, self.session).bytes());
                for value in [*serial, *checkpoint, *upper, *lower, claims.len() as u64] {
                    put_sdnv(&mut out, value);
                }
                for (start, end) in claims {
                    put_sdnv(&mut out, start - lower);
                    put_sdnv(&mut out, end - start);
                }
            }
            SegmentBody::ReportAck { serial } => {
                out.put_slice(HeaderBuffer::new(kind::REPORT_ACK, self.session).bytes());
                put_sdnv(&mut out, *serial);
            }
            SegmentBody::Cancel { reason, .. } => {
                out.put_slice(HeaderBuffer::new(self.kind(), self.session).bytes());
                out.put_u8(*reason);
            }
            SegmentBody::CancelAck { .. } => out.put_slice(HeaderBuffer::new(self.kind(), self.session).bytes()),
        }
        out.freeze()
    }
    /// Parses a whole datagram; extensions are left out.
    pub fn parse(datagram: &Bytes) -> Result<Segment, Malformed> {
        let view = parse(datagram, datagram.len() as u64)?;
        let body = match view.content {
            SegmentContent::Data { data, at } => SegmentBody::Data(data, datagram.slice(at..at + data.length as usize)),
            SegmentContent::Report { serial, checkpoint, lower, upper, claims } => {
                SegmentBody::Report { serial, checkpoint, lower, upper, claims: claims.runs().collect() }
            }
            SegmentContent::ReportAck { serial } => SegmentBody::ReportAck { serial },
            SegmentContent::Cancel { by_sender, reason } => SegmentBody::Cancel { by_sender, reason },
            SegmentContent::CancelAck { by_sender } => SegmentBody::CancelAck { by_sender },
        };
        Ok(Segment { session: view.session, body })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::RangeSet;
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s)
    }
    fn body() -> impl Strategy<Value = SegmentBody> {
        let data = (
            prop_oneof![0u8..=4, Just(7)],
            number(),
            number(),
            1u64..u64::MAX,
            number(),
            proptest::collection::vec(any::<u8>(), 1..100),
        )
            .prop_map(|(kind, service, offset, checkpoint, report, bytes)| {
                let length = bytes.len() as u64;
                let mut data =
                    Data { kind, service, offset: offset.min(u64::MAX - length), length, checkpoint: 0, report: 0 };
                if data.is_checkpoint() {
                    (data.checkpoint, data.report) = (checkpoint, report);
                }
                SegmentBody::Data(data, Bytes::from(bytes))
            });
        let report =
            (1u64..u64::MAX, number(), number(), proptest::collection::vec((0u64..5000, 1u64..5000), 0..20), 0u64..3)
                .prop_map(|(serial, checkpoint, lower, runs, slack)| {
                    let lower = lower.min(u64::MAX - 20_000);
                    let mut set = RangeSet::new();
                    runs.iter().for_each(|(at, len)| set.insert(lower + at, lower + at + len));
                    let upper = set.end().max(lower + 1) + slack;
                    SegmentBody::Report { serial, checkpoint, lower, upper, claims: set.runs().to_vec() }
                });
        prop_oneof![
            data,
            report,
            number().prop_map(|serial| SegmentBody::ReportAck { serial }),
            (any::<bool>(), any::<u8>()).prop_map(|(by_sender, reason)| SegmentBody::Cancel { by_sender, reason }),
            any::<bool>().prop_map(|by_sender| SegmentBody::CancelAck { by_sender }),
        ]
    }

    proptest! {
        /// Keeps 5326-3.2.1-1, 5326-3.2.1-2.
        #[test]
        fn parse_undoes_emit(engine in number(), session in number(), body in body()) {
            let segment = Segment { session: SessionId { engine, number: session }, body };
            let bytes = segment.emit();
            prop_assert_eq!(Segment::parse(&bytes), Ok(segment.clone()));
            for cut in 0..bytes.len() {
                prop_assert!(Segment::parse(&bytes.slice(..cut)).is_err(), "cut at {}", cut);
            }
        }

        /// Keeps 5326-6-1, 5326-9.3-1.
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let bytes = Bytes::from(bytes);
            if let Ok(segment) = Segment::parse(&bytes) {
                prop_assert_eq!(Segment::parse(&segment.emit()), Ok(segment));
            }
        }
    }

    #[test]
    fn header_and_trailer_extensions_are_skipped() {
        let bytes = Bytes::from_static(&[0, 1, 42, 0x12, 0, 2, 9, 9, 1, 0, 2, b'h', b'i', 0xc0, 0, 1, 1, 7]);
        let Ok(Segment { body: SegmentBody::Data(data, content), .. }) = Segment::parse(&bytes) else {
            panic!("no data")
        };
        assert_eq!((data.length, &content[..]), (2, &b"hi"[..]));
        assert!(Segment::parse(&bytes.slice(..17)).is_err());
    }
}

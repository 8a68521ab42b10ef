//! Passive readers: find the bundles in bytes that two other nodes exchange, and the times at which they pass.
//!
//! A [`PassiveReader`] takes one direction of a conversation: a connection's bytes in order, or the datagrams from one
//! host to another, repeated and reordered as they may be. It keeps the first bytes of each bundle, from which the
//! bundle can be identified, and skips the rest by length. Each layer has its reader in its own `reading.rs`.

use crate::tcpcl_v4::wire::NoMessage;
use alloc::vec::Vec;
use farlink_base::{Instant, Payload, PayloadReader};

/// Number of first bytes kept of a bundle: enough for any primary block with endpoint IDs of sensible length.
pub const HEAD_BYTES: usize = 1024;
/// Longest message of a stream, not counting the data of a bundle: a SESS_INIT with the longest node ID and extensions
/// takes 6.2 kB.
const MESSAGE_BYTES: usize = 8192;
/// Bytes of a message that parsing tries first; nearly all messages are shorter.
const MESSAGE_FIRST: usize = 64;

/// A bundle that passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BundlePassage<'a> {
    /// First bytes of the bundle, at most [`HEAD_BYTES`].
    pub head: &'a [u8],
    /// Length of the bundle, bytes; if it was cut short, the number of bytes that passed.
    pub length: u64,
    /// Earliest time at which a byte of the bundle passed. Repetitions of a byte do not count.
    pub first: Instant,
    /// Time at which the last missing byte passed; from then on a receiver can have the bundle.
    pub last: Instant,
}

/// Finding of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading<'a> {
    /// The last byte of a bundle passed.
    Bundle(BundlePassage<'a>),
    /// The rest of a bundle will not come, because its transfer was given up or the connection ended.
    Cut(BundlePassage<'a>),
    /// The conversation is enciphered from here on; reported once.
    Enciphered,
    /// Some bytes could not be read, for this reason. Reading goes on with the next datagram, or after the segment if
    /// it belongs to a transfer whose beginning did not pass; after any other fault the rest of a stream is not read.
    Lost(&'static str),
}

/// Reader of one direction of a conversation.
pub trait PassiveReader {
    /// Takes the next bytes of a stream, or one datagram, that passed at this time, and reports each finding.
    fn push(&mut self, now: Instant, bytes: &[u8], each: &mut dyn FnMut(Reading<'_>));
    /// Ends the conversation: bundles under way are reported as cut short.
    fn end(&mut self, each: &mut dyn FnMut(Reading<'_>));
    /// Number of bytes that could not be read.
    fn unread(&self) -> u64;
}

/// Bundle under way, of which the bytes pass in order.
#[derive(Debug)]
pub(crate) struct Passing {
    pub(crate) head: Vec<u8>,
    pub(crate) length: u64,
    first: Instant,
    last: Instant,
}
impl Passing {
    pub(crate) const fn new(now: Instant) -> Self {
        Passing { head: Vec::new(), length: 0, first: now, last: now }
    }
    /// Takes the next bytes, which passed between the two times.
    pub(crate) fn take(&mut self, times: (Instant, Instant), bytes: &[u8]) {
        // Bytes are kept only while none is missing before them, so that the head has no gaps.
        if self.head.len() as u64 == self.length {
            let room = HEAD_BYTES - self.head.len().min(HEAD_BYTES);
            self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.pass(times, bytes.len() as u64);
    }
    /// Counts further bytes without looking at them.
    pub(crate) fn pass(&mut self, times: (Instant, Instant), count: u64) {
        if self.length == 0 {
            (self.first, self.last) = times;
        }
        (self.first, self.last) = (self.first.min(times.0), self.last.max(times.1));
        self.length += count;
    }
    pub(crate) fn passage(&self) -> BundlePassage<'_> {
        BundlePassage { head: &self.head, length: self.length, first: self.first, last: self.last }
    }
}

/// Meaning of the next bytes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamStep {
    /// A message without data of a bundle.
    Message,
    /// Data of a bundle follows.
    Data {
        /// Number of the transfer; 0 in protocols that do not number transfers.
        id: u64,
        starts: bool,
        ends: bool,
        len: u64,
    },
    /// Everything from here on is enciphered.
    Enciphered,
    /// The stream cannot be read further.
    Over(&'static str),
}

/// Messages of a protocol over streams.
pub(crate) trait StreamFormat {
    /// Reads the next message; if it carries data of a bundle, only the head before that data. Bytes that follow do not
    /// change the result.
    fn next(&mut self, reader: &mut PayloadReader<'_>) -> Result<StreamStep, NoMessage>;
}

/// Reader of one direction of a connection.
#[derive(Debug)]
pub(crate) struct StreamReading<F> {
    format: F,
    /// Bytes of a message that is not complete yet.
    pending: Vec<u8>,
    /// Bytes of the current segment that did not pass yet.
    left: u64,
    /// Whether the current segment ends its transfer.
    ends: bool,
    /// Transfer under way.
    open: Option<(u64, Passing)>,
    over: bool,
    unread: u64,
}

impl<F: StreamFormat> StreamReading<F> {
    pub(crate) const fn new(format: F) -> Self {
        StreamReading { format, pending: Vec::new(), left: 0, ends: false, open: None, over: false, unread: 0 }
    }

    /// Reads a message from the front of `bytes`. `None` if it is incomplete; all of `bytes` then waits in `pending`.
    fn message(&mut self, bytes: &mut &[u8]) -> Option<StreamStep> {
        let (had, mut try_bytes) = (self.pending.len(), MESSAGE_FIRST);
        loop {
            let taken = bytes.len().min(try_bytes);
            self.pending.truncate(had);
            self.pending.extend_from_slice(&bytes[..taken]);
            let rope = Payload::from(farlink_base::Bytes::copy_from_slice(&self.pending));
            let mut reader = rope.reader();
            let step = match self.format.next(&mut reader) {
                Err(NoMessage::Incomplete) if taken < bytes.len() && try_bytes < MESSAGE_BYTES => {
                    try_bytes *= 4;
                    continue;
                }
                Err(NoMessage::Incomplete) if self.pending.len() >= MESSAGE_BYTES => {
                    StreamStep::Over("a message of more than 8 kB")
                }
                Err(NoMessage::Incomplete) => {
                    *bytes = &[];
                    return None;
                }
                Err(NoMessage::UnknownType(_)) => StreamStep::Over("a message of an unknown type"),
                Err(NoMessage::Broken(reason)) => StreamStep::Over(reason),
                Ok(step) => step,
            };
            if matches!(step, StreamStep::Over(_) | StreamStep::Enciphered) {
                self.unread = self.unread.saturating_add(self.pending.len() as u64);
                *bytes = &bytes[taken..];
            } else {
                // The message was incomplete without the new bytes, so it ends among them.
                *bytes = &bytes[(reader.position() as usize).saturating_sub(had).min(bytes.len())..];
            }
            self.pending.clear();
            return Some(step);
        }
    }

    fn step(&mut self, now: Instant, step: StreamStep, each: &mut dyn FnMut(Reading<'_>)) {
        match step {
            StreamStep::Message => {}
            StreamStep::Data { id, starts, ends, len } => {
                if starts {
                    self.cut(each);
                    self.open = Some((id, Passing::new(now)));
                } else if self.open.as_ref().is_none_or(|(open, _)| *open != id) {
                    self.cut(each);
                    each(Reading::Lost("a segment of a transfer whose beginning did not pass"));
                    self.unread = self.unread.saturating_add(len);
                }
                (self.left, self.ends) = (len, ends);
                self.segment_over(now, each);
            }
            StreamStep::Enciphered => {
                self.over = true;
                each(Reading::Enciphered);
            }
            StreamStep::Over(reason) => {
                self.over = true;
                self.cut(each);
                each(Reading::Lost(reason));
            }
        }
    }
    /// Reports the bundle under way as cut short.
    fn cut(&mut self, each: &mut dyn FnMut(Reading<'_>)) {
        if let Some((_, passing)) = self.open.take() {
            each(Reading::Cut(passing.passage()));
        }
    }
    /// Takes data of the current segment from the front of `bytes`.
    fn data(&mut self, now: Instant, bytes: &mut &[u8], each: &mut dyn FnMut(Reading<'_>)) {
        let count = self.left.min(bytes.len() as u64) as usize;
        let (data, rest) = bytes.split_at(count);
        if let Some((_, passing)) = &mut self.open {
            passing.take((now, now), data);
        }
        *bytes = rest;
        self.left -= count as u64;
        self.segment_over(now, each);
    }
    fn segment_over(&mut self, now: Instant, each: &mut dyn FnMut(Reading<'_>)) {
        if self.left == 0
            && self.ends
            && let Some((_, mut passing)) = self.open.take()
        {
            // A last segment may be empty, and only after it does a receiver have the bundle.
            passing.pass((now, now), 0);
            each(Reading::Bundle(passing.passage()));
        }
    }
}

impl<F: StreamFormat> PassiveReader for StreamReading<F> {
    fn push(&mut self, now: Instant, mut bytes: &[u8], each: &mut dyn FnMut(Reading<'_>)) {
        while !bytes.is_empty() {
            if self.over {
                self.unread = self.unread.saturating_add(bytes.len() as u64);
                return;
            }
            if self.left > 0 {
                self.data(now, &mut bytes, each);
            } else if let Some(step) = self.message(&mut bytes) {
                self.step(now, step, each);
            }
        }
    }
    fn end(&mut self, each: &mut dyn FnMut(Reading<'_>)) {
        self.over = true;
        self.cut(each);
    }
    fn unread(&self) -> u64 {
        self.unread
    }
}

/// Defines a public reader type for one format of streams.
macro_rules! stream_reader {
    ($(#[$docs:meta])* $name:ident, $format:ty) => {
        $(#[$docs])*
        #[derive(Debug)]
        pub struct $name($crate::reading::StreamReading<$format>);
        impl $crate::reading::PassiveReader for $name {
            fn push(
                &mut self,
                now: farlink_base::Instant,
                bytes: &[u8],
                each: &mut dyn FnMut($crate::reading::Reading<'_>),
            ) {
                self.0.push(now, bytes, each);
            }
            fn end(&mut self, each: &mut dyn FnMut($crate::reading::Reading<'_>)) {
                self.0.end(each);
            }
            fn unread(&self) -> u64 {
                self.0.unread()
            }
        }
    };
}
pub(crate) use stream_reader;

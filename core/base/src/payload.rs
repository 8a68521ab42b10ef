//! Payloads as ropes: sequences of bytes in memory, extents on disk, or patterns known only by seed and length.

use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// Position in a record of the store. It stays valid as long as the record exists, wherever compaction moves the
/// record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Extent {
    /// Number of a bundle ([`crate::BundleHandle`]), or [`Extent::SPILL`] plus the number of a spill.
    pub record: u64,
    /// Offset in the record's bytes.
    pub offset: u64,
}
impl Extent {
    /// Bit that is set in the record number of a spill.
    pub const SPILL: u64 = 1 << 63;
}

/// Piece of a rope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Bytes in memory, shared by reference count.
    Bytes(Bytes),
    /// Bytes in the store, to be loaded before they can be sent.
    Stored {
        /// Position of the first byte.
        extent: Extent,
        /// Length in bytes.
        len: u64,
    },
    /// Bytes computed from a seed ([`fill_byte`]): the payload of simulations, of which only the length matters.
    Fill {
        /// Seed of the pattern.
        seed: u64,
        /// Position of the first byte in the pattern.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}
impl Chunk {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::Stored { len, .. } | Chunk::Fill { len, .. } => *len,
        }
    }
    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn slice(&self, start: u64, len: u64) -> Chunk {
        match self {
            Chunk::Bytes(bytes) => Chunk::Bytes(bytes.slice(start as usize..(start + len) as usize)),
            Chunk::Stored { extent, .. } => {
                Chunk::Stored { extent: Extent { record: extent.record, offset: extent.offset + start }, len }
            }
            Chunk::Fill { seed, offset, .. } => Chunk::Fill { seed: *seed, offset: offset + start, len },
        }
    }
    /// Whether two chunks of equal length hold the same bytes; false if one is on disk.
    fn is_same(&self, other: &Chunk) -> bool {
        match (self, other) {
            (Chunk::Bytes(a), Chunk::Bytes(b)) => a == b,
            (Chunk::Fill { seed, offset, .. }, Chunk::Fill { seed: s, offset: o, .. }) => (seed, offset) == (s, o),
            (Chunk::Bytes(bytes), Chunk::Fill { seed, offset, .. })
            | (Chunk::Fill { seed, offset, .. }, Chunk::Bytes(bytes)) => {
                (*offset..).zip(bytes).all(|(at, byte)| fill_byte(*seed, at) == *byte)
            }
            _ => false,
        }
    }
    /// Appends `next` if it continues this chunk's extent or pattern; otherwise returns it.
    fn extend(&mut self, next: Chunk) -> Option<Chunk> {
        match (&mut *self, &next) {
            (Chunk::Fill { seed, offset, len }, Chunk::Fill { seed: s, offset: o, len: l })
                if seed == s && *offset + *len == *o =>
            {
                *len += l;
                None
            }
            (Chunk::Stored { extent, len }, Chunk::Stored { extent: e, len: l })
                if extent.record == e.record && extent.offset + *len == e.offset =>
            {
                *len += l;
                None
            }
            _ => Some(next),
        }
    }
}

/// Byte at `position` of the pattern `seed`.
pub fn fill_byte(seed: u64, position: u64) -> u8 {
    // One multiplication serves eight bytes, and any byte is computed without those before it.
    let x = (position / 8).wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 29)).to_le_bytes()[(position % 8) as usize]
}

/// Length below which [`Payload::gather`] joins pieces, bytes.
const SHORT: u64 = 4096;
/// Largest allocation of [`Payload::own`], bytes.
const OWN_PIECE: u64 = 1 << 20;

/// Rope of chunks. To split, join or slice it costs one step per chunk; cloning shares the bytes.
#[derive(Clone, Default, Debug)]
pub struct Payload {
    chunks: Chunks,
    len: u64,
}

/// Chunks of a rope. Most ropes have one chunk, which needs no allocation.
#[derive(Clone, Default, Debug)]
enum Chunks {
    #[default]
    None,
    One(Chunk),
    Many(Vec<Chunk>),
}

impl Payload {
    /// Creates an empty rope.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }
    /// Creates `len` bytes of the pattern `seed`.
    pub fn fill(seed: u64, len: u64) -> Self {
        let mut payload = Payload::new();
        payload.push(Chunk::Fill { seed, offset: 0, len });
        payload
    }
    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Chunks in order, without empty ones.
    #[inline]
    pub fn chunks(&self) -> &[Chunk] {
        match &self.chunks {
            Chunks::None => &[],
            Chunks::One(chunk) => core::slice::from_ref(chunk),
            Chunks::Many(chunks) => chunks,
        }
    }
    /// Number of bytes in memory, without stored and pattern chunks.
    pub fn resident_len(&self) -> u64 {
        self.chunks().iter().map(|c| if let Chunk::Bytes(b) = c { b.len() as u64 } else { 0 }).sum()
    }
    /// Whether part of the rope is on disk and must be loaded before use.
    pub fn is_stored(&self) -> bool {
        self.chunks().iter().any(|c| matches!(c, Chunk::Stored { .. }))
    }
    /// Whether part of the rope is a fill pattern.
    pub fn is_fill(&self) -> bool {
        self.chunks().iter().any(|c| matches!(c, Chunk::Fill { .. }))
    }
    /// Appends a chunk; it is merged with the last one if it continues that one's extent or pattern.
    pub fn push(&mut self, chunk: Chunk) {
        if chunk.is_empty() {
            return;
        }
        self.len += chunk.len();
        self.chunks = match core::mem::take(&mut self.chunks) {
            Chunks::None => Chunks::One(chunk),
            Chunks::One(mut first) => match first.extend(chunk) {
                None => Chunks::One(first),
                Some(second) => Chunks::Many(Vec::from([first, second])),
            },
            Chunks::Many(mut chunks) => {
                let rest = match chunks.last_mut() {
                    Some(last) => last.extend(chunk),
                    None => Some(chunk),
                };
                chunks.extend(rest);
                Chunks::Many(chunks)
            }
        };
    }
    /// Appends bytes in memory.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        self.push(Chunk::Bytes(bytes));
    }
    /// Appends another rope.
    pub fn append(&mut self, other: Payload) {
        if self.is_empty() {
            *self = other;
            return;
        }
        match other.chunks {
            Chunks::None => {}
            Chunks::One(chunk) => self.push(chunk),
            Chunks::Many(chunks) => chunks.into_iter().for_each(|c| self.push(c)),
        }
    }
    /// Appends another rope; short pieces in memory are copied into one, so that many of them need few chunks and do
    /// not keep alive the large buffers that they came in.
    pub fn gather(&mut self, other: Payload) {
        // Copying a long piece would cost more than another chunk does.
        if other.len() >= SHORT || other.resident_len() < other.len() {
            return self.append(other);
        }
        let Some(last) = self.pop_short() else { return self.append(other.own()) };
        let mut joined = BytesMut::with_capacity(last.len() + other.len as usize);
        joined.extend_from_slice(&last);
        for chunk in other.chunks() {
            if let Chunk::Bytes(bytes) = chunk {
                joined.extend_from_slice(bytes);
            }
        }
        self.push_bytes(joined.freeze());
    }
    /// Removes the last chunk if it is short and in memory.
    fn pop_short(&mut self) -> Option<Bytes> {
        let Some(Chunk::Bytes(last)) = self.chunks().last() else { return None };
        let last = (last.len() < SHORT as usize).then(|| last.clone())?;
        self.len -= last.len() as u64;
        match &mut self.chunks {
            Chunks::Many(chunks) => drop(chunks.pop()),
            all => *all = Chunks::None,
        }
        Some(last)
    }
    /// Part of the rope, `start .. start + len`, cut off at the end of the rope.
    pub fn slice(&self, start: u64, len: u64) -> Payload {
        let mut out = Payload::new();
        let end = start.saturating_add(len).min(self.len);
        let mut at = 0u64;
        for chunk in self.chunks() {
            let (from, to) = (start.max(at), end.min(at + chunk.len()));
            if from < to {
                out.push(chunk.slice(from - at, to - from));
            }
            at += chunk.len();
            // The chunks behind the slice need no step.
            if at >= end {
                break;
            }
        }
        out
    }
    /// Splits off and returns the first `at` bytes.
    pub fn split_to(&mut self, at: u64) -> Payload {
        let head = self.slice(0, at);
        *self = self.slice(at, u64::MAX);
        head
    }
    /// Copies up to `out.len()` bytes, beginning at `start`, and returns their number. Stops at a stored chunk, whose
    /// bytes are not in memory.
    pub fn copy_to(&self, start: u64, out: &mut [u8]) -> usize {
        let mut done = 0usize;
        let mut at = 0u64;
        for chunk in self.chunks() {
            let end = at + chunk.len();
            let position = start + done as u64;
            if position < end {
                let inside = position - at;
                let n = ((end - position) as usize).min(out.len() - done);
                match chunk {
                    Chunk::Bytes(bytes) => {
                        out[done..done + n].copy_from_slice(&bytes[inside as usize..inside as usize + n]);
                    }
                    Chunk::Fill { seed, offset, .. } => {
                        for (i, byte) in out[done..done + n].iter_mut().enumerate() {
                            *byte = fill_byte(*seed, offset + inside + i as u64);
                        }
                    }
                    Chunk::Stored { .. } => return done,
                }
                done += n;
                if done == out.len() {
                    break;
                }
            }
            at = end;
        }
        done
    }
    /// Whole rope as one contiguous `Bytes`: without a copy if it is a single chunk in memory. `None` if part of it is
    /// on disk.
    pub fn to_bytes(&self) -> Option<Bytes> {
        match self.chunks() {
            [] => Some(Bytes::new()),
            [Chunk::Bytes(bytes)] => Some(bytes.clone()),
            _ if self.is_stored() => None,
            _ => {
                let mut out = BytesMut::zeroed(self.len as usize);
                // No chunk is stored, so all bytes are there.
                let copied = self.copy_to(0, &mut out);
                debug_assert_eq!(copied as u64, self.len);
                Some(out.freeze())
            }
        }
    }
    /// Copies the bytes in memory to allocations of their own, so that shared buffers (such as a read buffer of which
    /// this is a small part) are released. Stored and pattern chunks stay as they are.
    #[must_use]
    pub fn own(&self) -> Payload {
        let mut out = Payload::new();
        let mut run = BytesMut::new();
        let mut left = self.resident_len();
        for chunk in self.chunks() {
            match chunk {
                Chunk::Bytes(bytes) => {
                    let mut bytes = &bytes[..];
                    while !bytes.is_empty() {
                        if run.capacity() == 0 {
                            run = BytesMut::with_capacity(left.min(OWN_PIECE) as usize);
                        }
                        let n = bytes.len().min(run.capacity() - run.len());
                        run.extend_from_slice(&bytes[..n]);
                        (bytes, left) = (&bytes[n..], left - n as u64);
                        if run.len() == run.capacity() {
                            out.push_bytes(core::mem::take(&mut run).freeze());
                        }
                    }
                }
                // The copied bytes before a chunk that is not in memory are complete.
                other => {
                    out.push_bytes(core::mem::take(&mut run).freeze());
                    out.push(other.clone());
                }
            }
        }
        out.push_bytes(run.freeze());
        out
    }
    /// Whether two ropes hold the same bytes; `None` if their lengths are equal but some bytes are not in memory.
    pub fn same(&self, other: &Payload) -> Option<bool> {
        if self.len != other.len {
            return Some(false);
        }
        if self.is_stored() || other.is_stored() {
            return None;
        }
        let (mut ours, mut theirs) = (self.chunks().iter(), other.chunks().iter());
        // Chunk boundaries may differ: the common length of the current chunks is compared, and the rest of the longer
        // one is kept.
        let (mut a, mut b): (Option<Chunk>, Option<Chunk>) = (None, None);
        loop {
            let (Some(one), Some(two)) =
                (a.take().or_else(|| ours.next().cloned()), b.take().or_else(|| theirs.next().cloned()))
            else {
                return Some(true);
            };
            let len = one.len().min(two.len());
            if !one.slice(0, len).is_same(&two.slice(0, len)) {
                return Some(false);
            }
            a = Some(one.slice(len, one.len() - len)).filter(|rest| !rest.is_empty());
            b = Some(two.slice(len, two.len() - len)).filter(|rest| !rest.is_empty());
        }
    }
    /// Reader at the start of the rope.
    pub fn reader(&self) -> PayloadReader<'_> {
        PayloadReader { payload: self, chunk: 0, inside: 0, position: 0 }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let mut payload = Payload::new();
        payload.push_bytes(bytes);
        payload
    }
}
impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload::from(Bytes::from(bytes))
    }
}
impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Payload::from(Bytes::from_static(bytes))
    }
}
impl PartialEq for Payload {
    /// Compares the bytes; ropes that are partly on disk are equal only if their chunks are.
    fn eq(&self, other: &Payload) -> bool {
        if self.len != other.len {
            return false;
        }
        // Bytes of equal chunks need not be compared; they may be on disk.
        if self.chunks() == other.chunks() {
            return true;
        }
        match (self.to_bytes(), other.to_bytes()) {
            (Some(a), Some(b)) => a == b,
            _ => self.chunks() == other.chunks(),
        }
    }
}
impl Eq for Payload {}

/// Cursor over a rope: small reads copy bytes, large ones share them.
#[derive(Clone)]
pub struct PayloadReader<'a> {
    payload: &'a Payload,
    chunk: usize,
    inside: u64,
    position: u64,
}
impl PayloadReader<'_> {
    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }
    /// Number of bytes not read yet.
    pub fn remaining(&self) -> u64 {
        self.payload.len - self.position
    }
    /// Reads one byte; `None` at the end, or if the byte is on disk.
    #[inline]
    pub fn read_u8(&mut self) -> Option<u8> {
        let chunk = self.payload.chunks().get(self.chunk)?;
        let byte = match chunk {
            Chunk::Bytes(bytes) => *bytes.get(self.inside as usize)?,
            Chunk::Fill { seed, offset, .. } => fill_byte(*seed, offset + self.inside),
            Chunk::Stored { .. } => return None,
        };
        self.position += 1;
        self.inside += 1;
        if self.inside == chunk.len() {
            (self.chunk, self.inside) = (self.chunk + 1, 0);
        }
        Some(byte)
    }
    /// Fills `out` with the next bytes. Returns false, and reads nothing, if fewer are left or some are on disk.
    #[inline]
    pub fn read_exact(&mut self, out: &mut [u8]) -> bool {
        // Most fields lie in one piece of memory.
        if let Some(here) = self.contiguous().get(..out.len()) {
            out.copy_from_slice(here);
            self.skip(out.len() as u64);
            return true;
        }
        self.read_across(out)
    }
    fn read_across(&mut self, out: &mut [u8]) -> bool {
        if self.remaining() < out.len() as u64 {
            return false;
        }
        let before = self.clone();
        for byte in out.iter_mut() {
            match self.read_u8() {
                Some(b) => *byte = b,
                None => {
                    // Nothing counts as read: the cursor stays before the field.
                    *self = before;
                    return false;
                }
            }
        }
        true
    }
    /// Skips `n` bytes, or all that are left.
    pub fn skip(&mut self, n: u64) {
        let mut left = n.min(self.remaining());
        self.position += left;
        while left > 0 {
            let Some(chunk) = self.payload.chunks().get(self.chunk) else { return };
            let here = (chunk.len() - self.inside).min(left);
            self.inside += here;
            left -= here;
            if self.inside == chunk.len() {
                self.chunk += 1;
                self.inside = 0;
            }
        }
    }
    /// Takes the next `n` bytes as a rope that shares them; `None` if fewer are left.
    pub fn take(&mut self, n: u64) -> Option<Payload> {
        if self.remaining() < n {
            return None;
        }
        let mut out = Payload::new();
        let mut left = n;
        while left > 0 {
            let chunk = self.payload.chunks().get(self.chunk)?;
            let here = (chunk.len() - self.inside).min(left);
            out.push(chunk.slice(self.inside, here));
            self.skip(here);
            left -= here;
        }
        Some(out)
    }
    /// Rest of the current chunk, for parsers that need a plain slice; empty if the chunk is not in memory.
    #[inline]
    pub fn contiguous(&self) -> &[u8] {
        match self.payload.chunks().get(self.chunk) {
            Some(Chunk::Bytes(bytes)) => &bytes[self.inside as usize..],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope() -> Payload {
        let mut p = Payload::from(Bytes::from_static(b"hello "));
        p.push(Chunk::Fill { seed: 3, offset: 0, len: 10 });
        p.push_bytes(Bytes::from_static(b" world"));
        p
    }

    #[test]
    fn slices_match_contiguous_bytes() {
        let p = rope();
        let flat = p.to_bytes().unwrap();
        for start in 0..=flat.len() {
            for len in 0..=flat.len() {
                let want = &flat[start..(start + len).min(flat.len())];
                assert_eq!(&p.slice(start as u64, len as u64).to_bytes().unwrap()[..], want);
            }
        }
    }

    #[test]
    fn own_copies_bytes_and_releases_buffer() {
        let buffer = Bytes::from(alloc::vec![7; 3 << 20]);
        // Slices of one large buffer, around pieces that have no memory.
        let mut p = Payload::from(buffer.slice(5..(2 << 20)));
        p.push_bytes(buffer.slice(..3));
        p.push(Chunk::Fill { seed: 3, offset: 0, len: 10 });
        p.push(Chunk::Stored { extent: Extent { record: 1, offset: 10 }, len: 5 });
        p.push_bytes(buffer.slice(7..9));
        let own = p.own();
        let lengths: Vec<u64> = own.chunks().iter().map(Chunk::len).collect();
        assert_eq!(lengths, [1 << 20, (1 << 20) - 2, 10, 5, 2]);
        drop(p);
        assert!(buffer.is_unique(), "no reference to the buffer is left");
        assert!(own.slice(0, (2 << 20) - 2).to_bytes().unwrap().iter().all(|byte| *byte == 7));
        assert!(Payload::new().own().is_empty());
    }

    #[test]
    fn gather_copies_short_pieces_only() {
        let buffer = Bytes::from((0..=255).cycle().take(100_000).collect::<Vec<u8>>());
        let mut p = Payload::new();
        // Byte by byte, as a slow peer sends.
        for at in 0..10_000 {
            p.gather(buffer.slice(at..at + 1).into());
        }
        assert!(buffer.is_unique() && p.chunks().len() == 3, "{}", p.chunks().len());
        p.gather(buffer.slice(10_000..60_000).into());
        p.gather(Payload::fill(1, 10));
        p.gather(buffer.slice(60_000..60_002).into());
        assert_eq!(p.chunks().len(), 6);
        assert!(p.slice(0, 60_000).to_bytes().unwrap() == buffer.slice(..60_000));
        assert_eq!(p.len(), 60_012);
    }

    #[test]
    fn split_then_append_restores_rope() {
        // Every cut of a rope of 6, 10 and 6 bytes.
        for at in 0..=22u64 {
            let mut tail = rope();
            let mut head = tail.split_to(at);
            assert_eq!(head.len(), at);
            head.append(tail);
            assert_eq!(head, rope());
            assert_eq!(head.slice(6, 10).chunks().len(), 1, "split fills join again");
        }
    }

    #[test]
    fn reader_stops_at_rope_end() {
        let p = rope();
        let mut r = p.reader();
        let mut word = [0; 5];
        assert!(r.read_exact(&mut word) && &word == b"hello");
        assert_eq!(r.take(11).unwrap().len(), 11);
        assert_eq!(r.contiguous(), b" world");
        assert!(r.take(7).is_none());
        assert_eq!(r.take(6).unwrap().to_bytes().unwrap(), &b" world"[..]);
        assert_eq!(r.read_u8(), None);
    }

    #[test]
    fn adjacent_stored_extents_merge() {
        let mut p = Payload::new();
        p.push(Chunk::Stored { extent: Extent { record: 1, offset: 10 }, len: 5 });
        p.push(Chunk::Stored { extent: Extent { record: 1, offset: 15 }, len: 5 });
        assert_eq!(p.chunks().len(), 1);
        assert_eq!(p.to_bytes(), None);
        assert_eq!(p.slice(3, 4).chunks(), [Chunk::Stored { extent: Extent { record: 1, offset: 13 }, len: 4 }]);
        assert_eq!(p.copy_to(0, &mut [0; 4]), 0);
    }
}

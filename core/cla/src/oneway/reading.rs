//! Passive reader of STCP and MTCP.

use super::framing::Framing;
use crate::reading::{StreamFormat, StreamReading, StreamStep, stream_reader};
use crate::tcpcl_v4::wire::NoMessage;
use farlink_base::PayloadReader;

stream_reader! {
    /// Passive reader of the direction in which a connection carries bundles.
    OneWayReader, Framing
}
impl OneWayReader {
    /// Creates a reader of a connection from its first byte on.
    pub const fn new(framing: Framing) -> Self {
        OneWayReader(StreamReading::new(framing))
    }
}

impl StreamFormat for Framing {
    fn next(&mut self, reader: &mut PayloadReader<'_>) -> Result<StreamStep, NoMessage> {
        match self.read_head(reader) {
            Ok(None) => Err(NoMessage::Incomplete),
            Ok(Some(0)) => Ok(StreamStep::Message),
            Ok(Some(len)) if len > self.longest() => Err(NoMessage::Broken("a frame longer than any bundle")),
            Ok(Some(len)) => Ok(StreamStep::Data { id: 0, starts: true, ends: true, len }),
            Err(reason) => Err(NoMessage::Broken(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{PassiveReader, Reading};
    use alloc::vec::Vec;
    use farlink_base::Instant;

    #[test]
    fn frames_pass_with_their_times() {
        for framing in [Framing::Stcp, Framing::Mtcp] {
            let (mut reader, mut wire, mut seen) = (OneWayReader::new(framing), Vec::new(), Vec::new());
            for len in [3u64, 0, 2000, 1] {
                framing.put_head(&mut wire, len);
                wire.resize(wire.len() + len as usize, len as u8);
            }
            // Passing one byte at each time shows which bytes count as the first and the last.
            for (at, byte) in wire.iter().enumerate() {
                reader.push(Instant(at as u64), &[*byte], &mut |reading| {
                    let Reading::Bundle(passage) = reading else { panic!("{reading:?}") };
                    seen.push((passage.length, passage.head.len(), passage.last.0 - passage.first.0));
                });
            }
            assert_eq!(seen, [(3, 3, 2), (2000, 1024, 1999), (1, 1, 0)], "{framing:?}");
        }
    }

    #[test]
    fn rest_after_a_broken_frame_is_unread() {
        let (mut reader, mut seen) = (OneWayReader::new(Framing::Mtcp), Vec::new());
        for bytes in [&b"\x42ab"[..], b"\x80junk", b"\x42ab"] {
            reader.push(Instant::ZERO, bytes, &mut |reading| seen.push(matches!(reading, Reading::Lost(_))));
        }
        assert_eq!((seen, reader.unread()), ([false, true].to_vec(), 8));
    }

    #[test]
    fn open_bundle_is_cut_at_the_end() {
        let (mut reader, mut seen) = (OneWayReader::new(Framing::Stcp), 0);
        reader.push(Instant(5), b"\0\0\0\x09abc", &mut |reading| panic!("{reading:?}"));
        reader.end(&mut |reading| {
            assert!(matches!(reading, Reading::Cut(passage) if passage.length == 3 && passage.head == b"abc"));
            seen += 1;
        });
        assert_eq!(seen, 1);
    }
}

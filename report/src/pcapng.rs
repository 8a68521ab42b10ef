//! Reading of captures that the testbed writes: pcapng files (draft-ietf-opsawg-pcapng) of Ethernet frames, with the
//! bytes in little-endian order and times in nanoseconds.

use anyhow::{Result, bail, ensure};
use std::io::{ErrorKind, Read};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
// Byte-order magic of a section.
const LITTLE_ENDIAN: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
// Options: the name and the resolution of times of an interface, the flags of a packet.
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
// Exponent of ten of a nanosecond, without its sign.
const NANOSECONDS: u8 = 9;
// Longest block: a super-packet of 64 kB needs an eighth.
const BLOCK_MAX: usize = 512 << 10;
// Most interfaces of a file; ours have two.
const INTERFACES_MAX: usize = 256;

/// Direction of a frame at the host of its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameSide {
    /// The host received the frame.
    Inbound,
    /// The host sent the frame.
    Outbound,
}

/// One frame of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedFrame<'a> {
    /// Number of the interface.
    pub interface: usize,
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// Direction at the interface's host.
    pub side: FrameSide,
    /// The frame, starting with the Ethernet header.
    pub bytes: &'a [u8],
}

/// Reader of one capture; holds one block at a time.
#[derive(Debug)]
pub struct PcapngReader<R: Read> {
    input: R,
    kind: u32,
    body: Vec<u8>,
    interfaces: Vec<String>,
}

impl<R: Read> PcapngReader<R> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// When it is no capture in this format.
    pub fn new(input: R) -> Result<PcapngReader<R>> {
        let mut reader = PcapngReader { input, kind: 0, body: Vec::new(), interfaces: Vec::new() };
        let is_ours = reader.block()? && reader.kind == SECTION && u32_at(&reader.body, 0) == Some(LITTLE_ENDIAN);
        ensure!(is_ours, "it begins with no little-endian section\nhint: only captures of the testbed are read");
        Ok(reader)
    }

    /// Name of an interface, which is that of its host in captures of the testbed.
    pub fn interface(&self, number: usize) -> &str {
        self.interfaces.get(number).map_or("", String::as_str)
    }

    /// Reads the next frame; `None` at the end. An incomplete last frame counts as the end.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn frame(&mut self) -> Result<Option<CapturedFrame<'_>>> {
        loop {
            if !self.block()? {
                return Ok(None);
            }
            match self.kind {
                INTERFACE => self.begin_interface()?,
                PACKET => break,
                SECTION => bail!("a second section\nhint: files that were joined are not read"),
                _ => {}
            }
        }
        let body = &self.body;
        let word = |at| u32_at(body, at).unwrap_or_default();
        let (interface, length) = (word(0) as usize, word(12) as usize);
        let bytes = body.get(20..).and_then(|rest| rest.get(..length));
        let Some(bytes) = bytes.filter(|_| interface < self.interfaces.len()) else {
            bail!("a packet of {length} bytes at interface {interface} does not fit its block")
        };
        // The upper half of the time comes first, whatever the byte order.
        let time_ns = u64::from(word(4)) << 32 | u64::from(word(8));
        let flags = option(&body[(20 + length.next_multiple_of(4)).min(body.len())..], FLAGS);
        let is_out = flags.and_then(|flags| u32_at(flags, 0)).is_some_and(|flags| flags & 3 == 2);
        let side = if is_out { FrameSide::Outbound } else { FrameSide::Inbound };
        Ok(Some(CapturedFrame { interface, time_ns, side, bytes }))
    }

    fn begin_interface(&mut self) -> Result<()> {
        let options = self.body.get(8..).unwrap_or_default();
        let kind = self.body.get(..2).map(|kind| u16::from_le_bytes([kind[0], kind[1]]));
        ensure!(kind == Some(ETHERNET), "interface {} is not of Ethernet", self.interfaces.len());
        let resolution = option(options, RESOLUTION).and_then(|value| value.first());
        ensure!(resolution == Some(&NANOSECONDS), "times of interface {} are not in ns", self.interfaces.len());
        ensure!(self.interfaces.len() < INTERFACES_MAX, "more than {INTERFACES_MAX} interfaces");
        let name = option(options, NAME).unwrap_or_default();
        self.interfaces.push(String::from_utf8_lossy(name).into_owned());
        Ok(())
    }

    /// Reads a block into `kind` and `body`; returns false at the end of the file, also if that is within a block.
    fn block(&mut self) -> Result<bool> {
        let mut head = [0; 8];
        if !fill(&mut self.input, &mut head)? {
            return Ok(false);
        }
        self.kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // The length includes 12 bytes around the body: the block's type, its length, and the length again.
        ensure!((12..=BLOCK_MAX).contains(&length) && length.is_multiple_of(4), "a block of {length} bytes");
        self.body.resize(length - 8, 0);
        if !fill(&mut self.input, &mut self.body)? {
            return Ok(false);
        }
        let again = u32_at(&self.body, length - 12).unwrap_or_default() as usize;
        ensure!(again == length, "a block of {length} bytes that ends as one of {again}");
        self.body.truncate(length - 12);
        Ok(true)
    }
}

/// Fills a buffer; false if the input ends before.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(why) => Err(why.into()),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Value of the first option of a kind.
fn option(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let head = options.get(..4)?;
        let (kind, length) = (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
        let length = usize::from(length);
        let value = options.get(4..4 + length)?;
        match kind {
            0 => return None,
            kind if kind == wanted => return Some(value),
            _ => options = options.get(4 + length.next_multiple_of(4)..)?,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes(), &length[..], body, &length].concat()
    }
    fn option_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [kind.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// A capture with two interfaces, `a` and `b`, and these frames: interface, time, whether outbound, bytes.
    pub fn capture(frames: &[(u32, u64, bool, Vec<u8>)]) -> Vec<u8> {
        let section = [&LITTLE_ENDIAN.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8], &option_of(1, b"test")].concat();
        let mut file = block(SECTION, &section);
        for name in ["a", "b"] {
            let options = [option_of(NAME, name.as_bytes()), option_of(RESOLUTION, &[9]), option_of(0, &[])].concat();
            file.extend(block(INTERFACE, &[&[1, 0, 0, 0, 0, 0, 0, 0], &options[..]].concat()));
        }
        for (interface, time_ns, is_out, bytes) in frames {
            let mut body = interface.to_le_bytes().to_vec();
            body.extend(((time_ns >> 32) as u32).to_le_bytes());
            body.extend((*time_ns as u32).to_le_bytes());
            (0..2).for_each(|_| body.extend((bytes.len() as u32).to_le_bytes()));
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(4), 0);
            body.extend([option_of(FLAGS, &[1 + u8::from(*is_out), 0, 0, 0]), option_of(0, &[])].concat());
            file.extend(block(PACKET, &body));
        }
        // The statistics that end a file are passed over.
        file.extend(block(5, &[0; 12]));
        file
    }

    #[test]
    fn frames_come_with_time_and_side() {
        let time = 1_700_000_000_123_456_789;
        let file = capture(&[(0, time, true, vec![7; 61]), (1, time + 5, false, vec![8; 4])]);
        let mut reader = PcapngReader::new(&file[..]).unwrap();
        let first = reader.frame().unwrap().unwrap();
        let expected = CapturedFrame { interface: 0, time_ns: time, side: FrameSide::Outbound, bytes: &[7; 61] };
        assert_eq!(first, expected);
        let second = reader.frame().unwrap().unwrap();
        assert_eq!((second.time_ns - time, second.side, second.bytes), (5, FrameSide::Inbound, &[8; 4][..]));
        assert_eq!(reader.frame().unwrap(), None);
        assert_eq!([0, 1, 2].map(|number| reader.interface(number)), ["a", "b", ""]);
    }

    #[test]
    fn cut_file_ends_without_error() {
        let file = capture(&[(0, 1, true, vec![7; 61]), (1, 2, false, vec![8; 64])]);
        let frames = |length: usize| {
            let mut reader = PcapngReader::new(&file[..length])?;
            let mut count = 0;
            while reader.frame()?.is_some() {
                count += 1;
            }
            anyhow::Ok(count)
        };
        for length in 0..file.len() {
            let counted = frames(length).unwrap_or(0);
            assert!(counted <= 2, "{length}");
        }
        assert_eq!((frames(file.len()).unwrap(), frames(file.len() - 30).unwrap()), (2, 1));
        assert!(frames(5).is_err(), "not even a section");
    }

    #[test]
    fn damaged_file_is_an_error() {
        let file = capture(&[(0, 1, true, vec![7; 61])]);
        for at in 0..file.len() {
            for value in [0, 0xff, file[at] ^ 1] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let Ok(mut reader) = PcapngReader::new(&damaged[..]) else { continue };
                while let Ok(Some(frame)) = reader.frame() {
                    assert!(frame.bytes.len() < damaged.len());
                }
            }
        }
        let big_endian = [&file[..8], &LITTLE_ENDIAN.to_be_bytes(), &file[12..]].concat();
        let why = PcapngReader::new(&big_endian[..]).unwrap_err().to_string();
        assert!(why.contains("hint: only captures of the testbed"), "{why}");
    }
}

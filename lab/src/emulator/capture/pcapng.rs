//! Writer of pcapng files (draft-ietf-opsawg-pcapng), which Wireshark reads.

use std::io::{self, Write};

/// Link type of Ethernet (`LINKTYPE_ETHERNET`).
const ETHERNET: u16 = 1;
// Types of blocks. That of the section header is a palindrome, so that readers recognize it before they know the file's
// byte order.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;
// Types of options; some numbers have another meaning in another block.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// Direction of a packet at its interface, as in `epb_flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketSide {
    Inbound = 1,
    Outbound = 2,
}

/// Writer of one pcapng file.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a file with these interfaces, which are numbered from 0; `comment` describes the file.
    pub fn new(out: W, comment: &str, interfaces: &[String]) -> io::Result<Self> {
        let mut writer = PcapngWriter { out, block: Vec::new() };
        writer.begin(SECTION);
        // Byte-order magic, version 1.0, and all ones for an unknown section length.
        writer.bytes(&0x1a2b_3c4du32.to_le_bytes());
        writer.bytes(&[1, 0, 0, 0]);
        writer.bytes(&u64::MAX.to_le_bytes());
        writer.option(COMMENT, comment.as_bytes());
        writer.option(APPLICATION, concat!("farlink ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.option(END, &[]);
        writer.end()?;
        for name in interfaces {
            writer.begin(INTERFACE);
            writer.bytes(&ETHERNET.to_le_bytes());
            // Two reserved bytes, then snapshot length 0: packets are never truncated.
            writer.bytes(&[0; 6]);
            writer.option(NAME, name.as_bytes());
            // Negative power of ten: 9 for nanoseconds. Without this option readers assume microseconds.
            writer.option(RESOLUTION, &[9]);
            writer.option(END, &[]);
            writer.end()?;
        }
        Ok(writer)
    }

    /// Writes an Ethernet frame; `unix_ns` is its Unix time in nanoseconds.
    pub fn packet(&mut self, interface: u32, unix_ns: u64, side: PacketSide, frame: &[u8]) -> io::Result<()> {
        self.begin(PACKET);
        self.bytes(&interface.to_le_bytes());
        self.time(unix_ns);
        let length = (frame.len() as u32).to_le_bytes();
        self.bytes(&length);
        self.bytes(&length);
        self.padded(frame);
        self.option(FLAGS, &(side as u32).to_le_bytes());
        self.option(END, &[]);
        self.end()
    }

    /// Writes the numbers of packets seen and missed at an interface; belongs at the end of a file.
    pub fn statistics(&mut self, interface: u32, unix_ns: u64, seen: u64, missed: u64) -> io::Result<()> {
        self.begin(STATISTICS);
        self.bytes(&interface.to_le_bytes());
        self.time(unix_ns);
        self.option(RECEIVED, &seen.to_le_bytes());
        self.option(DROPPED, &missed.to_le_bytes());
        self.option(END, &[]);
        self.end()
    }

    /// Flushes buffered data to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.bytes(&kind.to_le_bytes());
        // Block length, which `end` fills in.
        self.bytes(&[0; 4]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn time(&mut self, unix_ns: u64) {
        // The upper half comes first, whatever the byte order.
        self.bytes(&((unix_ns >> 32) as u32).to_le_bytes());
        self.bytes(&(unix_ns as u32).to_le_bytes());
    }

    fn option(&mut self, kind: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.bytes(&kind.to_le_bytes());
        self.bytes(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.bytes(&length);
        self.block[4..8].copy_from_slice(&length);
        self.out.write_all(&self.block)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Blocks of a file, each as its type and its body.
    pub fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!((length % 4, word(length - 4) as usize), (0, length));
            blocks.push((word(0), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        blocks
    }

    /// Interface, time, side and frame of each packet of a file.
    pub fn packets(file: &[u8]) -> Vec<(u32, u64, u32, Vec<u8>)> {
        let packet = |body: &[u8]| {
            let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
            let length = word(12) as usize;
            // The flags are the only option, with a header of four bytes.
            let flags = word(20 + length.next_multiple_of(4) + 4);
            (word(0), u64::from(word(4)) << 32 | u64::from(word(8)), flags, body[20..20 + length].to_vec())
        };
        blocks(file).iter().filter(|(kind, _)| *kind == PACKET).map(|(_, body)| packet(body)).collect()
    }

    fn file() -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::new(&mut out, "test", &["a".into(), "b".into()]).unwrap();
        writer.packet(0, 1_700_000_000_123_456_789, PacketSide::Outbound, &[7; 61]).unwrap();
        writer.packet(1, 1_700_000_000_223_456_789, PacketSide::Inbound, &[7; 61]).unwrap();
        writer.statistics(1, 1_700_000_001_000_000_000, 1, 2).unwrap();
        writer.flush().unwrap();
        out
    }

    #[test]
    fn blocks_are_aligned_and_complete() {
        let file = file();
        let kinds: Vec<u32> = blocks(&file).iter().map(|block| block.0).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, INTERFACE, PACKET, PACKET, STATISTICS]);
        let expected = [(0, 1_700_000_000_123_456_789, 2, vec![7; 61]), (1, 1_700_000_000_223_456_789, 1, vec![7; 61])];
        assert_eq!(packets(&file), expected);
    }

    #[test]
    fn reader_of_findings_reads_frames() {
        let file = file();
        let mut reader = farlink_report::PcapngReader::new(&file[..]).unwrap();
        for (interface, name, time_ns, side) in [
            (0, "a", 1_700_000_000_123_456_789, farlink_report::FrameSide::Outbound),
            (1, "b", 1_700_000_000_223_456_789, farlink_report::FrameSide::Inbound),
        ] {
            let frame = reader.frame().unwrap().unwrap();
            let expected = farlink_report::CapturedFrame { interface, time_ns, side, bytes: &[7; 61] };
            assert_eq!(frame, expected);
            assert_eq!(reader.interface(interface), name);
        }
        assert_eq!(reader.frame().unwrap(), None);
    }

    #[test]
    fn wireshark_reads_times_and_interfaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.pcapng");
        std::fs::write(&path, file()).unwrap();
        let fields = ["frame.time_epoch", "frame.interface_name", "frame.packet_flags_direction", "frame.len"];
        let mut tshark = std::process::Command::new("tshark");
        tshark.arg("-r").arg(&path).args(["-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field]));
        let Ok(output) = tshark.output() else {
            println!("skipped: no tshark");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(rows.len(), 2, "{text} {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(rows[0][0], "1700000000.123456789");
        assert_eq!((rows[0][1], rows[1][1], rows[0][3]), ("a", "b", "61"));
        // Some versions print flags as hexadecimal numbers.
        assert!(rows[0][2].ends_with('2') && rows[1][2].ends_with('1'), "{text}");
    }
}

//! Trains: datagrams of one flow that are due together leave as one super-packet, so that the far host's network stack
//! is passed once for all of them.

use super::frame::{ETHERNET, GSO_NONE, GSO_UDP, GsoLayout, HEADERS_MAX, NEEDS_CHECKSUM};
use farlink_os::packet::VNET_HEADER;

/// Maximum number of datagrams of a train (`UDP_MAX_SEGMENTS` of older kernels).
pub const TRAIN_MOST: usize = 64;
/// Maximum size of a train's IP packet, in bytes.
const PACKET_MAX: usize = 65_535;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: u16 = 6;

/// Headers of a datagram that may travel in a train.
struct Datagram<'a> {
    headers: &'a [u8],
    payload: usize,
    /// Offset of the UDP header in the frame.
    transport: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a frame; `None` unless it is one whole, unfragmented UDP datagram whose checksum the receiving kernel
    /// completes. Super-packets always have such checksums; a finished checksum may be wrong, and must arrive as it is.
    fn read(frame: &'a [u8]) -> Option<Datagram<'a>> {
        let (virtio, ethernet) = frame.split_at_checked(VNET_HEADER)?;
        let field = |at: usize| u16::from_ne_bytes([virtio[at], virtio[at + 1]]);
        let ip = ethernet.get(ETHERNET..)?;
        let header = match (u16::from_be_bytes([ethernet[12], ethernet[13]]), ip.first()?) {
            (0x0800, 0x45) => 20,
            (0x86dd, version) if version >> 4 == 6 => 40,
            _ => return None,
        };
        let transport = ETHERNET + header;
        let udp = ethernet.get(transport..transport + 8)?;
        let payload = ethernet.len() - transport - 8;
        let whole = match header {
            20 => ip[9] == 17 && ip[6] & 0x3f == 0 && ip[7] == 0 && be16(ip, 2) == ip.len(),
            _ => ip[6] == 17 && be16(ip, 4) + 40 == ip.len(),
        };
        let left = virtio[0] == NEEDS_CHECKSUM && virtio[1] == GSO_NONE;
        let left = left && usize::from(field(6)) == transport && field(8) == UDP_CHECKSUM;
        let fits = whole && left && be16(udp, 4) == payload + 8 && payload > 0;
        fits.then(|| Datagram { headers: &frame[..VNET_HEADER + transport + 8], payload, transport })
    }

    /// Whether both datagrams have the same addresses, ports, TTL and traffic class.
    fn same_flow(&self, other: &Datagram<'_>) -> bool {
        if self.headers.len() != other.headers.len() {
            return false;
        }
        let ip = VNET_HEADER + ETHERNET;
        // Lengths, identification and checksums may differ.
        let same: &[std::ops::Range<usize>] = match self.transport - ETHERNET {
            20 => &[VNET_HEADER..ip + 2, ip + 6..ip + 10, ip + 12..ip + 24],
            _ => &[VNET_HEADER..ip + 4, ip + 6..ip + 44],
        };
        same.iter().all(|range| self.headers[range.clone()] == other.headers[range.clone()])
    }
}

fn be16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Number of frames from the beginning of `frames` that may leave as one train: at least 1, or 0 without frames.
pub fn length<'a>(mut frames: impl Iterator<Item = &'a [u8]>) -> usize {
    let Some(first) = frames.next() else { return 0 };
    let Some(first) = Datagram::read(first) else { return 1 };
    let (mut count, mut bytes) = (1, first.headers.len() - VNET_HEADER - ETHERNET + first.payload);
    for frame in frames.take(TRAIN_MOST - 1) {
        let Some(next) = Datagram::read(frame) else { break };
        bytes += next.payload;
        if next.payload > first.payload || bytes > PACKET_MAX || !first.same_flow(&next) {
            break;
        }
        count += 1;
        // Only the last datagram of a train may be shorter.
        if next.payload < first.payload {
            break;
        }
    }
    count
}

/// Headers of a train, from virtio-net to UDP.
#[derive(Clone, Debug)]
pub struct TrainHead {
    bytes: [u8; VNET_HEADER + HEADERS_MAX],
    length: usize,
}

impl TrainHead {
    /// Creates the headers of a train of at least two frames ([`length`]), the first of which is `first`, with
    /// `payload` bytes in total.
    pub fn new(first: &[u8], payload: usize) -> Option<TrainHead> {
        let datagram = Datagram::read(first)?;
        let length = datagram.headers.len();
        let mut bytes = [0; VNET_HEADER + HEADERS_MAX];
        bytes[..length].copy_from_slice(datagram.headers);
        let (virtio, headers) = bytes[..length].split_at_mut(VNET_HEADER);
        virtio[1] = GSO_UDP;
        virtio[2..4].copy_from_slice(&(headers.len() as u16).to_ne_bytes());
        virtio[4..6].copy_from_slice(&(datagram.payload as u16).to_ne_bytes());
        let (headers_length, size, transport) = (headers.len(), datagram.payload, datagram.transport);
        let layout = GsoLayout { headers: headers_length, size, kind: GSO_UDP, transport };
        layout.rewrite_headers(headers, payload, 0, true);
        Some(TrainHead { bytes, length })
    }

    /// Bytes of the virtio-net, Ethernet, IP and UDP headers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Payload of one frame of the train.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        &frame[self.length..]
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::super::frame::tests::super_packet;
    use super::*;

    /// Splits a super-packet into its datagrams.
    fn datagrams(payload: usize, size: u16) -> Vec<Vec<u8>> {
        let bytes = super_packet(GSO_UDP, payload, size);
        let frame = Frame::read(&bytes).unwrap();
        let piece = |index: usize| {
            let mut out = vec![0; frame.run_length(index, index + 1)];
            frame.write_run(index, index + 1, &mut out);
            out
        };
        (0..frame.packets()).map(piece).collect()
    }
    fn together(frames: &[Vec<u8>]) -> usize {
        length(frames.iter().map(Vec::as_slice))
    }

    #[test]
    fn datagrams_join_to_their_super_packet() {
        let frames = datagrams(2500, 1000);
        assert_eq!(together(&frames), 3);
        let head = TrainHead::new(&frames[0], 2500).unwrap();
        let mut joined = head.bytes().to_vec();
        frames.iter().for_each(|frame| joined.extend_from_slice(head.payload(frame)));
        // The far host must see the original datagrams, not only their data.
        let frame = Frame::read(&joined).unwrap();
        assert_eq!(frame.packets(), 3);
        for (index, original) in frames.iter().enumerate() {
            let mut out = vec![0; frame.run_length(index, index + 1)];
            frame.write_run(index, index + 1, &mut out);
            assert_eq!(&out, original);
        }
    }

    #[test]
    fn train_ends_where_datagrams_differ() {
        let frames = datagrams(64 * 500, 500);
        let changed = |index: usize, at: usize, value: u8| {
            let mut frames = frames.clone();
            frames[index][at] = value;
            together(&frames)
        };
        assert_eq!(together(&frames), 64);
        assert_eq!(together(&datagrams(128 * 500, 500)), 64, "no more than a kernel cuts");
        assert_eq!(changed(3, VNET_HEADER + ETHERNET + 8, 9), 3, "TTL");
        assert_eq!(changed(3, VNET_HEADER + ETHERNET + 1, 4), 3, "class");
        assert_eq!(changed(3, VNET_HEADER + ETHERNET + 19, 9), 3, "destination");
        assert_eq!(changed(3, VNET_HEADER + ETHERNET + 23, 9), 3, "port");
        assert_eq!(changed(3, 0, 0), 3, "its checksum is complete, and may be wrong");
        assert_eq!(changed(3, VNET_HEADER + ETHERNET + 6, 0x20), 3, "a fragment");
        assert_eq!(changed(0, VNET_HEADER + ETHERNET + 9, 6), 1, "no datagram");
        let mut short = datagrams(2500, 1000);
        short.extend(datagrams(2000, 1000));
        assert_eq!(together(&short), 3, "a shorter one is the last");
        let mut long = datagrams(1000, 500);
        long.extend(datagrams(2000, 1000));
        assert_eq!(together(&long), 2, "a longer one does not fit");
        assert_eq!(together(&datagrams(60_000, 9_000)), 7, "a packet has at most 65,535 bytes");
        for end in 0..frames[0].len() {
            assert_eq!(length([&frames[0][..end]].into_iter()), 1, "{end}");
        }
    }
}

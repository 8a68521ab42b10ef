//! Ethernet frames with a virtio-net header. A frame may be a super-packet, which stands for many wire packets: this
//! module counts them, splits a super-packet between them, and completes a packet's checksum before a bit is flipped.

use farlink_os::packet::VNET_HEADER;

pub(super) const ETHERNET: usize = 14;
// Maximum size of a super-packet's headers, in bytes: Ethernet, IPv4 or IPv6 with options, TCP with options.
pub(super) const HEADERS_MAX: usize = 256;

// Flag `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
pub(super) const NEEDS_CHECKSUM: u8 = 1;
pub(super) const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
pub(super) const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// A frame as received from an interface, starting with the virtio-net header.
pub struct Frame<'a> {
    bytes: &'a [u8],
    /// Layout, if the frame is a super-packet.
    cut: Option<GsoLayout>,
}

/// Headers and segment size of a super-packet (generic segmentation offload).
#[derive(Clone, Copy)]
pub(super) struct GsoLayout {
    /// Length of the Ethernet, IP, and TCP or UDP headers, in bytes.
    pub headers: usize,
    /// Payload bytes of each wire packet except the last.
    pub size: usize,
    pub kind: u8,
    /// Offset of the TCP or UDP header in the Ethernet frame.
    pub transport: usize,
}

impl<'a> Frame<'a> {
    /// Reads a frame; `None` unless it is unicast IP, since a link carries nothing else.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let ethernet = bytes.get(VNET_HEADER..)?;
        let unicast = ethernet.first()? & 1 == 0;
        // ARP is not needed, since neighbours are configured statically; other traffic of the kernel would shift the
        // random decisions about packets.
        let kind = u16::from_be_bytes([*ethernet.get(12)?, *ethernet.get(13)?]);
        if !unicast || !matches!(kind, 0x0800 | 0x86dd) || ethernet.len() < ETHERNET + 20 {
            return None;
        }
        Some(Frame { bytes, cut: GsoLayout::read(bytes, ethernet) })
    }

    fn ethernet(&self) -> &'a [u8] {
        &self.bytes[VNET_HEADER..]
    }

    /// Number of wire packets that the frame stands for.
    pub fn packets(&self) -> usize {
        self.cut.map_or(1, |cut| (self.ethernet().len() - cut.headers).div_ceil(cut.size))
    }

    /// Length of each wire packet's IP packet in bytes, in order.
    pub fn packet_bytes(&self) -> impl Iterator<Item = u64> + use<> {
        let total = self.ethernet().len();
        let cut = self.cut;
        (0..self.packets()).map(move |i| match cut {
            None => (total - ETHERNET) as u64,
            Some(cut) => (cut.headers - ETHERNET + cut.size.min(total - cut.headers - i * cut.size)) as u64,
        })
    }

    /// Length of the frame that holds wire packets `first..last`, virtio-net header included.
    pub fn run_length(&self, first: usize, last: usize) -> usize {
        match self.cut {
            None => self.bytes.len(),
            Some(cut) => VNET_HEADER + cut.headers + self.payload(cut, first, last).len(),
        }
    }

    fn payload(&self, cut: GsoLayout, first: usize, last: usize) -> &'a [u8] {
        let payload = &self.ethernet()[cut.headers..];
        &payload[(first * cut.size).min(payload.len())..(last * cut.size).min(payload.len())]
    }

    /// Writes the frame that holds wire packets `first..last` to `out`, which is [`Frame::run_length`] long.
    pub fn write_run(&self, first: usize, last: usize, out: &mut [u8]) {
        let whole = first == 0 && last >= self.packets();
        let Some(cut) = self.cut.filter(|_| !whole) else {
            out.copy_from_slice(&self.bytes[..out.len()]);
            return;
        };
        let payload = self.payload(cut, first, last);
        let (head, body) = out.split_at_mut(VNET_HEADER + cut.headers);
        head.copy_from_slice(&self.bytes[..VNET_HEADER + cut.headers]);
        body.copy_from_slice(payload);
        let (virtio, headers) = head.split_at_mut(VNET_HEADER);
        virtio[2..4].copy_from_slice(&(cut.headers as u16).to_ne_bytes());
        // A single packet is no super-packet any more.
        if last - first == 1 {
            virtio[1] = GSO_NONE;
            virtio[4..6].copy_from_slice(&[0, 0]);
        }
        cut.rewrite_headers(headers, payload.len(), first, last >= self.packets());
    }
}

impl GsoLayout {
    fn read(bytes: &[u8], ethernet: &[u8]) -> Option<GsoLayout> {
        let kind = bytes[1] & !GSO_ECN;
        let size = usize::from(u16::from_ne_bytes([bytes[4], bytes[5]]));
        let transport = usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        if size == 0 || !matches!(kind, GSO_TCP4 | GSO_TCP6 | GSO_UDP) || bytes[0] & NEEDS_CHECKSUM == 0 {
            return None;
        }
        let length = match kind {
            GSO_UDP => 8,
            _ => usize::from(ethernet.get(transport + 12)? >> 4) * 4,
        };
        let headers = transport + length;
        // A program in the host may have chosen the offsets, so they are checked before use.
        let plausible = transport >= ETHERNET + 20 && headers <= HEADERS_MAX && headers < ethernet.len();
        plausible.then_some(GsoLayout { headers, size, kind, transport })
    }

    /// Rewrites the headers copied from a super-packet for the part of it that begins with wire packet `first`, has
    /// `payload` bytes, and includes the last wire packet if `at_end`. It does the same as the kernel's own
    /// segmentation (`inet_gso_segment`, `tcp_gso_segment`, `__udp_gso_segment`).
    pub(super) fn rewrite_headers(self, headers: &mut [u8], payload: usize, first: usize, at_end: bool) {
        let ip_length = headers.len() - ETHERNET + payload;
        let version_4 = headers[ETHERNET] >> 4 == 4;
        if version_4 {
            let ip = &mut headers[ETHERNET..self.transport];
            // As in the kernel, each segment has the next IP identification.
            let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
            ip[2..4].copy_from_slice(&(ip_length as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&identification.to_be_bytes());
            ip[10..12].copy_from_slice(&[0, 0]);
            let sum = !fold(add(0, ip));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            headers[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&((ip_length - 40) as u16).to_be_bytes());
        }
        let transport_length = headers.len() - self.transport + payload;
        let pseudo = pseudo_header(headers, version_4, self.kind, transport_length);
        let transport = &mut headers[self.transport..];
        if self.kind == GSO_UDP {
            transport[4..6].copy_from_slice(&(transport_length as u16).to_be_bytes());
            transport[6..8].copy_from_slice(&pseudo.to_be_bytes());
        } else {
            let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let sequence = sequence.wrapping_add((first * self.size) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            // FIN and PSH belong to the last packet, and CWR to the first.
            let cleared = if at_end { 0 } else { 0x01 | 0x08 } | if first == 0 { 0 } else { 0x80 };
            transport[13] &= !cleared;
            transport[16..18].copy_from_slice(&pseudo.to_be_bytes());
        }
    }
}

/// Sum over addresses, protocol and length: the content of the checksum field while the receiving interface is to
/// compute the rest.
fn pseudo_header(headers: &[u8], version_4: bool, kind: u8, length: usize) -> u16 {
    let addresses =
        if version_4 { &headers[ETHERNET + 12..ETHERNET + 20] } else { &headers[ETHERNET + 8..ETHERNET + 40] };
    let protocol = if kind == GSO_UDP { 17 } else { 6 };
    fold(add(protocol + length as u64, addresses))
}

/// Adds the 16-bit words of `bytes` to a checksum (RFC 1071).
fn add(start: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let sum: u64 = words.by_ref().map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let odd = words.remainder().first().map_or(0, |b| u64::from(*b) << 8);
    start + sum + odd
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Flips one bit, selected by `choice`, behind the first 20 bytes of the IP packet of a single-packet frame. Completes
/// a pending checksum first.
pub fn corrupt(frame: &mut [u8], choice: u64) {
    let (virtio, ethernet) = frame.split_at_mut(VNET_HEADER);
    let start = usize::from(u16::from_ne_bytes([virtio[6], virtio[7]]));
    let at = start + usize::from(u16::from_ne_bytes([virtio[8], virtio[9]]));
    // The receiving interface would compute a pending checksum over the damaged bytes, and so hide the damage.
    if virtio[0] & NEEDS_CHECKSUM != 0 && at + 2 <= ethernet.len() {
        // The field holds the sum of the pseudo-header, so it is summed with the rest.
        let sum = !fold(add(0, &ethernet[start..]));
        // UDP transmits a sum of zero as all ones (RFC 768).
        let sum = if sum == 0 { 0xffff } else { sum };
        ethernet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    virtio[0] &= !NEEDS_CHECKSUM;
    let payload = &mut ethernet[ETHERNET + 20..];
    if !payload.is_empty() {
        let bit = choice % (payload.len() as u64 * 8);
        payload[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a super-packet with `payload` bytes, to be split into packets of `size` bytes.
    pub fn super_packet(kind: u8, payload: usize, size: u16) -> Vec<u8> {
        let transport = if kind == GSO_UDP { 8 } else { 20 };
        let mut bytes = vec![NEEDS_CHECKSUM, kind, 0, 0];
        bytes.extend_from_slice(&size.to_ne_bytes());
        bytes.extend_from_slice(&34u16.to_ne_bytes());
        bytes.extend_from_slice(&(if kind == GSO_UDP { 6u16 } else { 16 }).to_ne_bytes());
        bytes.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        bytes.extend_from_slice(&[0x45, 0, 0, 0, 0x10, 0x00, 0x40, 0, 64, if kind == GSO_UDP { 17 } else { 6 }, 0, 0]);
        bytes.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let mut header = vec![0u8; transport];
        if kind != GSO_UDP {
            header[4..8].copy_from_slice(&1000u32.to_be_bytes());
            header[12] = 5 << 4;
            header[13] = 0x80 | 0x10 | 0x08 | 0x01;
        }
        bytes.extend_from_slice(&header);
        bytes.extend((0..payload).map(|i| i as u8));
        bytes
    }

    fn run(bytes: &[u8], first: usize, last: usize) -> Vec<u8> {
        let frame = Frame::read(bytes).unwrap();
        let mut out = vec![0; frame.run_length(first, last)];
        frame.write_run(first, last, &mut out);
        out
    }

    #[test]
    fn super_packet_counts_each_packet() {
        let bytes = super_packet(GSO_UDP, 2500, 1000);
        let frame = Frame::read(&bytes).unwrap();
        assert_eq!(frame.packets(), 3);
        assert_eq!(frame.packet_bytes().collect::<Vec<_>>(), [1028, 1028, 528]);
        assert_eq!(run(&bytes, 0, 3), bytes, "whole: untouched");
    }

    #[test]
    fn udp_segments_get_lengths_and_checksums() {
        let bytes = super_packet(GSO_UDP, 2500, 1000);
        let piece = run(&bytes, 1, 3);
        let ip = &piece[24..44];
        assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), 1528);
        assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), 0x1001);
        assert_eq!(fold(add(0, ip)), 0xffff, "IP header sum");
        assert_eq!(u16::from_be_bytes([piece[48], piece[49]]), 1508);
        assert_eq!(piece[52..], bytes[52 + 1000..]);
        assert_eq!(piece[1], GSO_UDP);
        let single = run(&bytes, 2, 3);
        assert_eq!((single[1], single[4], single[5]), (GSO_NONE, 0, 0));
        assert_eq!(single.len(), 52 + 500);
    }

    #[test]
    fn tcp_segments_continue_sequence_numbers() {
        let bytes = super_packet(GSO_TCP4, 3000, 1000);
        let (head, tail) = (run(&bytes, 0, 1), run(&bytes, 1, 3));
        let tcp = |f: &[u8]| (u32::from_be_bytes(f[48..52].try_into().unwrap()), f[57]);
        assert_eq!(tcp(&head), (1000, 0x80 | 0x10), "no FIN, no PSH before the end");
        assert_eq!(tcp(&tail), (2000, 0x10 | 0x08 | 0x01), "CWR only at the start");
    }

    #[test]
    fn corruption_survives_checksum_offload() {
        let bytes = super_packet(GSO_UDP, 500, 1000);
        let mut frame = run(&bytes, 0, 1);
        frame[1] = GSO_NONE;
        let pseudo = pseudo_header(&frame[VNET_HEADER..], true, GSO_UDP, 508);
        frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
        frame[48..50].copy_from_slice(&508u16.to_be_bytes());
        let before = frame.clone();
        corrupt(&mut frame, 8 * 100 + 3);
        assert_eq!(frame[0] & NEEDS_CHECKSUM, 0);
        let different = frame[52..].iter().zip(&before[52..]).filter(|(a, b)| a != b).count();
        assert_eq!(different, 1);
        let whole = add(17 + 508, &frame[36..44]);
        assert_ne!(fold(add(whole, &frame[44..])), 0xffff, "UDP will notice");
    }

    #[test]
    fn only_unicast_ip_is_carried() {
        let mut bytes = super_packet(GSO_UDP, 100, 1000);
        assert!(Frame::read(&bytes).is_some());
        bytes[VNET_HEADER] |= 1;
        assert!(Frame::read(&bytes).is_none(), "multicast");
        for length in 0..60 {
            let bytes = super_packet(GSO_TCP4, 0, 1);
            if let Some(frame) = Frame::read(&bytes[..length]) {
                assert!(frame.packet_bytes().count() <= 60);
            }
        }
    }
}

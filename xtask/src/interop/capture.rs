//! Capture files (pcap) of datagrams, for programs that read what is on the wire.

/// The ports packets are shown with; the registered one tells the reader what is in them.
const FROM: u16 = 40_000;
/// Datagrams from and to this machine.
const ADDRESS: [u8; 4] = [127, 0, 0, 1];
/// Packets begin with their IP header (LINKTYPE_RAW).
const RAW_IP: u32 = 101;
const IP: usize = 20;
const UDP: usize = 8;

/// A capture file of these UDP payloads to this port.
pub fn file(payloads: &[Vec<u8>], port: u16) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0xa1b2_c3d4_u32.to_le_bytes());
    out.extend([2_u16, 4].map(u16::to_le_bytes).concat());
    out.extend([0_u32, 0, 65_535, RAW_IP].map(u32::to_le_bytes).concat());
    for (at, payload) in payloads.iter().enumerate() {
        let packet = packet(payload, port);
        let length = packet.len() as u32;
        // One a millisecond.
        out.extend([at as u32 / 1_000, at as u32 % 1_000 * 1_000, length, length].map(u32::to_le_bytes).concat());
        out.extend(packet);
    }
    out
}

/// IPv4 (RFC 791) and UDP (RFC 768) before a payload; no checksum of UDP.
fn packet(payload: &[u8], port: u16) -> Vec<u8> {
    let total = (IP + UDP + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    ip.extend(ADDRESS);
    ip.extend(ADDRESS);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [FROM, port, (UDP + payload.len()) as u16, 0].map(u16::to_be_bytes).concat();
    [ip, udp, payload.to_vec()].concat()
}

/// The checksum of an IPv4 header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_head_and_a_record_for_each_datagram() {
        let file = file(&[b"one".to_vec(), b"three".to_vec()], 4_556);
        assert_eq!(file.len(), 24 + 2 * (16 + IP + UDP) + 8);
        assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert!(file.ends_with(b"three"));
    }

    #[test]
    fn the_header_of_ip_adds_up() {
        let packet = packet(&[7; 100], 4_556);
        assert_eq!(packet.len(), 128);
        assert_eq!(checksum(&packet[..IP]), 0, "with its checksum in place");
        assert_eq!(packet[IP + 2..IP + 4], 4_556_u16.to_be_bytes());
    }
}

//! Capture files (pcap) of recorded traffic, for programs that dissect packets.

/// Port of the calling side; the other side has the registered port, by which dissectors choose the protocol.
const CALLER: u16 = 40_000;
/// Source and destination address of all packets.
const ADDRESS: [u8; 4] = [127, 0, 0, 1];
/// Link type of packets that begin with their IP header (LINKTYPE_RAW).
const RAW_IP: u32 = 101;
const IP: usize = 20;
/// Protocol numbers in the IP header.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// TCP flags (RFC 9293 section 3.1).
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// Datagrams between two sides that both use `port`.
pub fn datagrams(payloads: &[Vec<u8>], port: u16) -> Vec<u8> {
    let packet = |payload: &Vec<u8>| {
        let udp = [port, port, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
        packet(UDP, &udp, payload)
    };
    file(payloads.iter().map(packet))
}

/// A TCP stream to `port`; each piece has its direction (true: from the caller) and bytes.
pub fn stream(pieces: &[(bool, Vec<u8>)], port: u16) -> Vec<u8> {
    // Sequence number of each side, the caller's first; a SYN counts as one byte.
    let mut sent = [0_u32, 0];
    let mut segment = |forth: bool, flags: u8, payload: &[u8]| {
        let (from, to) = if forth { (CALLER, port) } else { (port, CALLER) };
        let (own, other) = (usize::from(!forth), usize::from(forth));
        let mut tcp = [from, to].map(u16::to_be_bytes).concat();
        tcp.extend([sent[own], sent[other]].map(u32::to_be_bytes).concat());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        sent[own] = sent[own].wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        packet(TCP, &tcp, payload)
    };
    // Dissectors follow a stream only from its handshake on.
    let mut packets = vec![segment(true, SYN, &[]), segment(false, SYN | ACK, &[]), segment(true, ACK, &[])];
    packets.extend(pieces.iter().map(|(forth, bytes)| segment(*forth, PUSH | ACK, bytes)));
    file(packets.into_iter())
}

fn file(packets: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    // Magic number, version 2.4, time zone, accuracy, snapshot length, link type.
    out.extend(0xa1b2_c3d4_u32.to_le_bytes());
    out.extend([2_u16, 4].map(u16::to_le_bytes).concat());
    out.extend([0_u32, 0, 65_535, RAW_IP].map(u32::to_le_bytes).concat());
    for (packet, at) in packets.zip(0_u32..) {
        let length = packet.len() as u32;
        // The dissector only needs rising times: one packet per millisecond.
        out.extend([at / 1_000, at % 1_000 * 1_000, length, length].map(u32::to_le_bytes).concat());
        out.extend(packet);
    }
    out
}

/// IPv4 packet (RFC 791) that contains a transport header, without a checksum in it, and a payload.
fn packet(protocol: u8, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = (IP + header.len() + payload.len()) as u16;
    // Version 4, header of five words.
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    ip.extend(ADDRESS);
    ip.extend(ADDRESS);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&ip, header, payload].concat()
}

/// Checksum of an IPv4 header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    // Carries are added back, twice at most.
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_datagram_gets_a_record() {
        let file = datagrams(&[b"one".to_vec(), b"three".to_vec()], 4_556);
        assert_eq!(file.len(), 24 + 2 * (16 + IP + 8) + 8);
        assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert!(file.ends_with(b"three"));
    }

    #[test]
    fn ip_checksum_is_correct() {
        let packet = packet(UDP, &[0; 8], &[7; 100]);
        assert_eq!(packet.len(), 128);
        assert_eq!(checksum(&packet[..IP]), 0, "with its checksum in place");
    }

    #[test]
    fn stream_has_handshake_and_sequence_numbers() {
        let file = stream(&[(true, b"hello".to_vec()), (false, b"hi".to_vec()), (true, b"!".to_vec())], 4_556);
        // The three segments of the handshake, then the pieces.
        let mut at = 24 + 3 * (16 + 40);
        let mut numbers = Vec::new();
        for length in [5, 2, 1] {
            let tcp = &file[at + 16 + IP..];
            let number = |from: usize| u32::from_be_bytes(tcp[from..from + 4].try_into().unwrap());
            numbers.push((number(4), number(8)));
            at += 16 + 40 + length;
        }
        assert_eq!((at, numbers), (file.len(), vec![(1, 1), (1, 6), (6, 3)]));
    }
}

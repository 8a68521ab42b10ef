//! The first flight of TLS 1.3 (RFC 8446), for a client that never means to finish.

/// Contact header with the flag CAN_TLS (RFC 9174 section 4.2).
pub const CONTACT: &[u8] = b"dtn!\x04\x01";

/// A ClientHello in its record: X25519, AES-128-GCM, and signatures that every server supports. Its random bytes come
/// from `random`.
pub fn client_hello(mut random: impl FnMut() -> u64) -> Vec<u8> {
    let mut bytes = |count: usize| (0..count).map(|_| random() as u8).collect::<Vec<u8>>();
    let mut hello = vec![3, 3];
    hello.extend(bytes(32));
    hello.push(32);
    hello.extend(bytes(32));
    // TLS_AES_128_GCM_SHA256; no compression.
    hello.extend([0, 2, 0x13, 0x01, 1, 0]);
    let mut share = vec![0, 36, 0, 0x1d, 0, 32];
    share.extend(bytes(32));
    let extensions: [(u16, &[u8]); 4] = [
        // In this order: supported_versions, supported_groups, signature_algorithms, key_share (RFC 8446 section 4.2).
        (43, &[2, 3, 4]),
        (10, &[0, 2, 0, 0x1d]),
        (13, &[0, 8, 4, 3, 8, 4, 8, 7, 5, 3]),
        (51, &share),
    ];
    let mut list = Vec::new();
    for (kind, data) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend((data.len() as u16).to_be_bytes());
        list.extend(data);
    }
    hello.extend((list.len() as u16).to_be_bytes());
    hello.extend(list);
    let mut record = vec![22, 3, 1];
    record.extend((hello.len() as u16 + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend((hello.len() as u16).to_be_bytes());
    record.extend(hello);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_lengths_are_consistent() {
        let hello = client_hello(|| 7);
        let number = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
        assert_eq!((hello[0], number(3) + 5, hello[5]), (22, hello.len(), 1));
        assert_eq!(number(7) + 9, hello.len());
    }
}

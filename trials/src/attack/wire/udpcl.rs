//! Extension maps of UDPCLv2 (draft-ietf-dtn-udpcl-04, section 3.5).

use super::bundle::put;

/// A segment of a transfer: its number, total length, offset and data.
pub fn segment(transfer: u64, whole: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa1, 2, 0x84];
    [transfer, whole, offset].into_iter().for_each(|value| put(&mut out, 0, value));
    put(&mut out, 2, data.len() as u64);
    out.extend(data);
    out
}
/// A peer probe that asks for an immediate confirmation.
pub fn probe(nonce: u64, sequence: u64) -> Vec<u8> {
    let mut out = vec![0xa1, 6, 0x83];
    [nonce, sequence, 0].into_iter().for_each(|value| put(&mut out, 0, value));
    out
}
/// A node ID together with a promise to listen for a minute.
pub fn listens(name: &str) -> Vec<u8> {
    let mut out = vec![0xa2, 3];
    put(&mut out, 0, 60_000);
    out.push(4);
    put(&mut out, 3, name.len() as u64);
    out.extend(name.bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_follow_the_draft() {
        assert_eq!(segment(5, 300, 24, b"x"), [0xa1, 2, 0x84, 5, 0x19, 1, 44, 0x18, 24, 0x41, b'x']);
        assert_eq!(probe(1, 2), [0xa1, 6, 0x83, 1, 2, 0]);
        assert_eq!(listens("ipn:7.0")[..6], [0xa2, 3, 0x19, 0xea, 0x60, 4]);
    }
}

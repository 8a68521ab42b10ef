//! LTP segments (RFC 5326 section 3).

/// Segment type of red data without a checkpoint.
pub const RED: u8 = 0;
/// Segment type of a report.
pub const REPORT: u8 = 8;
/// Segment types of cancels: from the block's sender, from its receiver.
pub const CANCEL: [u8; 2] = [12, 14];

/// Appends an SDNV (RFC 6256).
pub fn put_sdnv(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        out.push((value >> (7 * group)) as u8 & 0x7f | if group > 0 { 0x80 } else { 0 });
    }
}

/// A segment of a session that `engine` opened, without extensions.
pub fn segment(kind: u8, engine: u64, session: u64, content: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    put_sdnv(&mut out, engine);
    put_sdnv(&mut out, session);
    out.push(0);
    out.extend(content);
    out
}

/// A data segment: `data` at `offset` of a block for client service 1 (RFC 5326 section 3.2.1).
pub fn data(engine: u64, session: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut content = vec![1];
    put_sdnv(&mut content, offset);
    put_sdnv(&mut content, data.len() as u64);
    content.extend(data);
    segment(RED, engine, session, &content)
}

/// A report that claims the first `bytes` of a block (RFC 5326 section 3.2.2).
pub fn report(engine: u64, session: u64, serial: u64, bytes: u64) -> Vec<u8> {
    let mut content = Vec::new();
    // Serial, checkpoint, upper and lower bound, number of claims, then one claim: offset and length.
    for value in [serial, 1, bytes, 0, 1, 0, bytes] {
        put_sdnv(&mut content, value);
    }
    segment(REPORT, engine, session, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_rfc_5326() {
        // Examples of RFC 6256: 0x7f is one byte, 0x1234 is a4 34.
        let mut out = Vec::new();
        put_sdnv(&mut out, 0x7f);
        put_sdnv(&mut out, 0x1234);
        put_sdnv(&mut out, 0);
        assert_eq!(out, [0x7f, 0xa4, 0x34, 0]);
        assert_eq!(data(3, 5, 0, b"x"), [0, 3, 5, 0, 1, 0, 1, b'x']);
        assert_eq!(report(1, 9, 7, 100), [8, 1, 9, 0, 7, 1, 100, 0, 1, 0, 100]);
    }
}

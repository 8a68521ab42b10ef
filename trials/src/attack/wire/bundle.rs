//! Bundles of BPv7 (RFC 9171 section 4), well-formed unless the attack is about the form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1970 to 2000, where DTN time begins.
const DTN_EPOCH_S: u64 = 946_684_800;
/// Flag of a fragment.
pub const FRAGMENT: u64 = 1;
/// Flags for all reports: reception, forwarding, delivery and deletion.
pub const ALL_REPORTS: u64 = 0x4000 | 0x10000 | 0x20000 | 0x40000;

/// A bundle to be encoded.
pub struct Bundle {
    /// Destination: `ipn:N.S` or `dtn://...`.
    pub destination: String,
    pub source: String,
    /// Endpoint that receives reports.
    pub report_to: String,
    /// Bundle processing control flags.
    pub flags: u64,
    /// Sequence number, which identifies the bundle together with source and creation time.
    pub sequence: u64,
    pub lifetime: Duration,
    /// Offset and total length, if it is a fragment.
    pub fragment: Option<(u64, u64)>,
    /// Type and data of an extension block before the payload.
    pub extension: Option<(u64, Vec<u8>)>,
}

impl Bundle {
    /// A bundle from the unknown endpoint `ipn:66.66`, with a lifetime of an hour.
    pub fn new(destination: &str, sequence: u64) -> Bundle {
        Bundle {
            destination: destination.into(),
            source: "ipn:66.66".into(),
            report_to: "dtn:none".into(),
            flags: 0,
            sequence,
            lifetime: Duration::from_secs(3600),
            fragment: None,
            extension: None,
        }
    }
    /// Bytes up to the end of the primary block.
    pub fn primary(&self) -> Vec<u8> {
        let mut out = vec![0x9f];
        let primary = out.len();
        let items = if self.fragment.is_some() { 11 } else { 9 };
        put(&mut out, 4, items);
        put(&mut out, 0, 7);
        put(&mut out, 0, self.flags | if self.fragment.is_some() { FRAGMENT } else { 0 });
        put(&mut out, 0, 2);
        for endpoint in [&self.destination, &self.source, &self.report_to] {
            put_endpoint(&mut out, endpoint);
        }
        put(&mut out, 4, 2);
        put(&mut out, 0, dtn_time_ms());
        put(&mut out, 0, self.sequence);
        put(&mut out, 0, self.lifetime.as_millis() as u64);
        if let Some((offset, whole)) = self.fragment {
            put(&mut out, 0, offset);
            put(&mut out, 0, whole);
        }
        put(&mut out, 2, 4);
        // The CRC covers the block with zeros in its own place (RFC 9171 section 4.3.1).
        let sum_at = out.len();
        out.extend([0; 4]);
        let sum = crc32c(&out[primary..]);
        out[sum_at..].copy_from_slice(&sum.to_be_bytes());
        out
    }
    /// Bytes up to the payload; `payload` bytes follow, then one byte 0xff.
    pub fn head(&self, payload: u64) -> Vec<u8> {
        let mut out = self.primary();
        if let Some((kind, data)) = &self.extension {
            // Block number 2, without flags and CRC.
            put(&mut out, 4, 5);
            put(&mut out, 0, *kind);
            out.extend([2, 0, 0]);
            put(&mut out, 2, data.len() as u64);
            out.extend(data);
        }
        // Payload block: type 1, number 1, without flags and CRC.
        out.extend([0x85, 1, 1, 0, 0]);
        put(&mut out, 2, payload);
        out
    }
    /// The whole bundle with this payload.
    pub fn with(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = self.head(payload.len() as u64);
        out.extend(payload);
        out.push(0xff);
        out
    }
}

fn dtn_time_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() as u64).saturating_sub(DTN_EPOCH_S * 1000)
}

/// Appends the head of a CBOR item (RFC 8949 section 3).
pub fn put(out: &mut Vec<u8>, major: u8, value: u64) {
    // The major type is the three high bits; short values follow in the same byte.
    let major = major << 5;
    match value {
        0..24 => out.push(major | value as u8),
        24..0x100 => out.extend([major | 24, value as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend((value as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend((value as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend(value.to_be_bytes());
        }
    }
}

/// Appends an endpoint ID (RFC 9171 section 4.2.5.1).
pub fn put_endpoint(out: &mut Vec<u8>, endpoint: &str) {
    put(out, 4, 2);
    let numbers = endpoint.strip_prefix("ipn:").and_then(|rest| rest.split_once('.'));
    if let Some((Ok(node), Ok(service))) = numbers.map(|(node, service)| (node.parse(), service.parse())) {
        put(out, 0, 2);
        put(out, 4, 2);
        put(out, 0, node);
        put(out, 0, service);
        return;
    }
    // Everything else is a `dtn` name; `dtn:none` is the number 0.
    put(out, 0, 1);
    match endpoint.strip_prefix("dtn:") {
        Some(name) if name != "none" => {
            put(out, 3, name.len() as u64);
            out.extend(name.as_bytes());
        }
        _ => put(out, 0, 0),
    }
}

/// CRC-32C (Castagnoli) of RFC 9171 section 4.2.1.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut sum, mut bit) = (at as u32, 0);
            while bit < 8 {
                // The reflected polynomial 0x1EDC6F41.
                sum = if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 };
                bit += 1;
            }
            table[at] = sum;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum: u32, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_matches_the_catalogue() {
        // Check value of the CRC catalogue (CRC-32/ISCSI).
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn endpoints_follow_rfc_9171() {
        let encoded = |text| {
            let mut out = Vec::new();
            put_endpoint(&mut out, text);
            out
        };
        assert_eq!(encoded("ipn:2.300"), [0x82, 2, 0x82, 2, 0x19, 1, 44]);
        assert_eq!(encoded("dtn:none"), [0x82, 1, 0]);
        assert_eq!(encoded("dtn://a/"), [0x82, 1, 0x64, b'/', b'/', b'a', b'/']);
    }
}

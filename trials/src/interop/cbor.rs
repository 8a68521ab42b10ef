//! Just enough CBOR (RFC 8949) to examine bundles that peers deliver, independent of the node's own code.

/// Deepest nesting that is followed.
const DEPTH_MAX: u32 = 16;

/// Payload of a bundle of version 7: the data of its last block (RFC 9171 sections 4.1 and 4.3.2).
pub fn payload(bundle: &[u8]) -> Option<&[u8]> {
    let mut rest = bundle.strip_prefix(&[0x9f])?;
    let mut last = None;
    while *rest.first()? != 0xff {
        last = Some(rest);
        skip(&mut rest, 0)?;
    }
    let mut block = last?;
    let (4, 5..=6) = head(&mut block)? else { return None };
    // Type, number, flags and CRC type.
    for _ in 0..4 {
        skip(&mut block, 0)?;
    }
    let (2, length) = head(&mut block)? else { return None };
    block.get(..usize::try_from(length).ok()?)
}

/// Whether an administrative record reports a delivery (RFC 9171 section 6.1.1 or RFC 5050 section 6.1.1).
pub fn reports_delivery(mut record: &[u8]) -> bool {
    // Version 6: the record type is in the upper half of the first byte, the status flags in the second.
    if let [kind, status, ..] = record
        && kind >> 4 == 1
    {
        return status & 0x08 != 0;
    }
    let mut read = || {
        let ((4, 2), (0, 1)) = (head(&mut record)?, head(&mut record)?) else { return None };
        // Status report: four status items, reason, source, creation time, and two more items for a fragment.
        let ((4, 4 | 6), (4, 4)) = (head(&mut record)?, head(&mut record)?) else { return None };
        // Received and forwarded come before delivered.
        skip(&mut record, 0)?;
        skip(&mut record, 0)?;
        let (4, 1..=2) = head(&mut record)? else { return None };
        record.first().copied()
    };
    // 0xf5 is the value true.
    read() == Some(0xf5)
}

/// Major type and number of the next item's head.
fn head(bytes: &mut &[u8]) -> Option<(u8, u64)> {
    let (first, mut rest) = bytes.split_first()?;
    let number = match first & 0x1f {
        small @ 0..=23 => small.into(),
        size @ 24..=27 => {
            let (digits, after) = rest.split_at_checked(1 << (size - 24))?;
            rest = after;
            digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit))
        }
        // 31 is an indefinite length, the others are reserved.
        _ => return None,
    };
    *bytes = rest;
    Some((first >> 5, number))
}

/// Skips an item of definite length.
fn skip(bytes: &mut &[u8], depth: u32) -> Option<()> {
    let (kind, number) = head(bytes)?;
    match kind {
        2 | 3 => *bytes = bytes.get(usize::try_from(number).ok()?..)?,
        4..=6 if depth < DEPTH_MAX => {
            let items = match kind {
                4 => number,
                5 => number.checked_mul(2)?,
                _ => 1,
            };
            for _ in 0..items {
                skip(bytes, depth + 1)?;
            }
        }
        0 | 1 | 7 => {}
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A primary block without CRC, a hop count block, and the payload `hi`.
    const BUNDLE: [u8; 41] = [
        0x9f, 0x88, 7, 0, 0, 0x82, 2, 0x82, 1, 1, 0x82, 2, 0x82, 2, 1, 0x82, 1, 0, 0x82, 0, 0, 0x18,
        60, // primary
        0x85, 10, 2, 0, 0, 0x43, 0x82, 9, 1, // hop count
        0x85, 1, 1, 0, 0, 0x42, b'h', b'i', 0xff,
    ];

    #[test]
    fn payload_is_last_block_data() {
        assert_eq!(payload(&BUNDLE), Some(&b"hi"[..]));
    }

    #[test]
    fn truncated_bundle_has_no_payload() {
        for end in 0..BUNDLE.len() {
            assert_eq!(payload(&BUNDLE[..end]), None, "{end} bytes");
        }
        assert_eq!(payload(b"Nothing to receive"), None);
        assert_eq!(payload(&[0x9f, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]), None);
        assert_eq!(payload(&[[0x9f].as_slice(), &[0x81; 100_000]].concat()), None);
    }

    #[test]
    fn report_status_is_decoded() {
        let report = |third: &[u8]| [&[0x82, 1, 0x84, 0x84, 0x81, 0xf4, 0x82, 0xf5, 0x18, 99], third].concat();
        assert!(reports_delivery(&report(&[0x82, 0xf5, 0x18, 100])) && reports_delivery(&report(&[0x81, 0xf5])));
        assert!(!reports_delivery(&report(&[0x81, 0xf4])));
        assert!(reports_delivery(&[0x10, 0x09, 0]) && !reports_delivery(&[0x10, 0x01, 0]), "of version 6");
        assert!(!reports_delivery(b"") && !reports_delivery(b"an ordinary payload"));
    }
}

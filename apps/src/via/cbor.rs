//! Just enough CBOR (RFC 8949) to find the payload and the source of a bundle that an implementation delivers whole, and
//! to write a map of texts and bytes.

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

/// Source endpoint ID of a bundle of version 7, as text.
pub fn source(bundle: &[u8]) -> Option<String> {
    let mut rest = bundle.strip_prefix(&[0x9f])?;
    let (4, 8..=11) = head(&mut rest)? else { return None };
    // Version, flags, CRC type and destination come first.
    for _ in 0..4 {
        skip(&mut rest, 0)?;
    }
    let ((4, 2), (0, scheme)) = (head(&mut rest)?, head(&mut rest)?) else { return None };
    match (scheme, head(&mut rest)?) {
        (1, (3, length)) => {
            let name = rest.get(..usize::try_from(length).ok()?)?;
            Some(format!("dtn:{}", std::str::from_utf8(name).ok()?))
        }
        (1, (0, 0)) => Some("dtn:none".into()),
        (2, (4, parts @ 2..=3)) => {
            let mut number = || head(&mut rest).filter(|(kind, _)| *kind == 0).map(|(_, number)| number);
            let numbers: Option<Vec<String>> = (0..parts).map(|_| number().map(|n| n.to_string())).collect();
            Some(format!("ipn:{}", numbers?.join(".")))
        }
        _ => None,
    }
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

/// Appends the head of an item.
fn put_head(kind: u8, number: u64, out: &mut Vec<u8>) {
    let kind = kind << 5;
    match number {
        0..=23 => out.push(kind | number as u8),
        24..=0xff => out.extend([kind | 24, number as u8]),
        0x100..=0xffff => out.extend([&[kind | 25][..], &(number as u16).to_be_bytes()].concat()),
        0x1_0000..=0xffff_ffff => out.extend([&[kind | 26][..], &(number as u32).to_be_bytes()].concat()),
        _ => out.extend([&[kind | 27][..], &number.to_be_bytes()].concat()),
    }
}

/// Value of a map entry.
pub enum MapValue<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
    Bytes(&'a [u8]),
}

/// Encodes a map with texts as keys.
pub fn map(entries: &[(&str, MapValue<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_head(5, entries.len() as u64, &mut out);
    for (key, value) in entries {
        put_head(3, key.len() as u64, &mut out);
        out.extend(key.as_bytes());
        match value {
            MapValue::Text(text) => {
                put_head(3, text.len() as u64, &mut out);
                out.extend(text.as_bytes());
            }
            MapValue::Number(number) => put_head(0, *number, &mut out),
            MapValue::Flag(flag) => put_head(7, 20 + u64::from(*flag), &mut out),
            MapValue::Bytes(bytes) => {
                put_head(2, bytes.len() as u64, &mut out);
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Bundle from ipn:2.1 to ipn:1.1 without CRCs, with a hop count block.
    pub fn bundle(payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x9f, 0x88, 7, 0, 0, 0x82, 2, 0x82, 1, 1, 0x82, 2, 0x82, 2, 1, 0x82, 1, 0];
        out.extend([0x82, 0, 0, 0x18, 60, 0x85, 10, 2, 0, 0, 0x43, 0x82, 9, 1, 0x85, 1, 1, 0, 0]);
        put_head(2, payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out.push(0xff);
        out
    }

    #[test]
    fn payload_is_last_block_data() {
        assert_eq!(payload(&bundle(b"hi")), Some(&b"hi"[..]));
        let long = vec![7; 70_000];
        assert_eq!(payload(&bundle(&long)), Some(&long[..]));
        assert_eq!(source(&bundle(b"hi")).as_deref(), Some("ipn:2.1"));
    }

    #[test]
    fn sources_of_both_schemes_are_read() {
        let of = |eid: &[u8]| source(&[&[0x9f, 0x88, 7, 0, 0, 0x82, 2, 0x82, 1, 1][..], eid].concat());
        assert_eq!(of(b"\x82\x01\x66//a/in").as_deref(), Some("dtn://a/in"));
        assert_eq!(of(b"\x82\x01\x00").as_deref(), Some("dtn:none"));
        assert_eq!(of(&[0x82, 2, 0x83, 1, 2, 3]).as_deref(), Some("ipn:1.2.3"));
        for eid in [&[0x82, 3, 0][..], &[0x82, 1, 0x7b, 255, 255, 255, 255, 255, 255, 255, 255], &[0x82, 2, 0x81, 1]] {
            assert_eq!(of(eid), None, "{eid:?}");
        }
    }

    #[test]
    fn truncated_bundle_has_no_payload() {
        let whole = bundle(b"hi");
        for end in 0..whole.len() {
            assert_eq!(payload(&whole[..end]), None, "{end} bytes");
        }
        assert_eq!(payload(b"Nothing to receive"), None);
        assert_eq!(payload(&[0x9f, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]), None);
        assert_eq!(payload(&[[0x9f].as_slice(), &[0x81; 100_000]].concat()), None);
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut random = farlink_base::Rng::new(5);
        let whole = bundle(b"payload");
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            let _ = (payload(&bytes), source(&bytes));
        }
    }

    #[test]
    fn maps_have_the_standard_encoding() {
        let entries = [
            ("a", MapValue::Text("x")),
            ("n", MapValue::Number(300)),
            ("f", MapValue::Flag(true)),
            ("b", MapValue::Bytes(&[1, 2])),
        ];
        assert_eq!(map(&entries), b"\xa4\x61a\x61x\x61n\x19\x01\x2c\x61f\xf5\x61b\x42\x01\x02");
    }
}

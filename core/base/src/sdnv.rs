//! Self-delimiting numeric values (SDNV, RFC 6256): seven bits per byte, most significant first; the top bit is set in
//! all bytes but the last.

/// Longest encoding of a 64-bit value, bytes.
pub const LEN_MAX: usize = 10;

/// Encoded length of `value`, bytes.
pub const fn len(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Encodes `value` at the front of `out` and returns the number of bytes written. If `out` is too short, nothing is
/// written and 0 is returned.
// 5326-2-3, 5050-4.1-1, 5050-4.1-2
pub fn encode(value: u64, out: &mut [u8]) -> usize {
    let length = len(value);
    let Some(out) = out.get_mut(..length) else { return 0 };
    let mut rest = value;
    for (i, byte) in out.iter_mut().rev().enumerate() {
        *byte = (rest & 0x7f) as u8 | if i == 0 { 0 } else { 0x80 };
        rest >>= 7;
    }
    length
}

/// Error of decoding a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The input ends within the value.
    Truncated,
    /// The value needs more than 64 bits, or its encoding more than [`LEN_MAX`] bytes.
    TooLarge,
}

/// Decodes a value from the front of `bytes`; returns the value and the length of its encoding. Leading zero groups are
/// accepted (RFC 6256 does not forbid them) as long as the encoding has at most [`LEN_MAX`] bytes.
// 5050-4.1-1
pub fn decode(bytes: &[u8]) -> Result<(u64, usize), Error> {
    // Most values of real headers take one or two bytes.
    match bytes {
        [a, ..] if *a < 0x80 => return Ok((u64::from(*a), 1)),
        [a, b, ..] if *b < 0x80 => return Ok((u64::from(*a & 0x7f) << 7 | u64::from(*b), 2)),
        _ => {}
    }
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(LEN_MAX).enumerate() {
        // Seven more bits would exceed 64.
        if value >> 57 != 0 {
            return Err(Error::TooLarge);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
    }
    Err(if bytes.len() < LEN_MAX { Error::Truncated } else { Error::TooLarge })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Keeps 5326-2-3, 5050-4.1-1, 5050-4.1-2.
        #[test]
        fn decode_undoes_encode(value: u64, shift in 0u32..64, tail: [u8; 3]) {
            // Uniform 64-bit values are nearly all of ten bytes: shifting gives every length.
            let value = value >> shift;
            let mut bytes = [0; LEN_MAX + 3];
            let n = encode(value, &mut bytes);
            prop_assert_eq!(n, len(value));
            bytes[n..n + 3].copy_from_slice(&tail);
            prop_assert_eq!(decode(&bytes[..n + 3]), Ok((value, n)));
            prop_assert_eq!(decode(&bytes[..n - 1]), Err(Error::Truncated));
        }
    }

    #[test]
    fn sdnv_edge_cases() {
        assert_eq!(decode(&[]), Err(Error::Truncated));
        assert_eq!(decode(&[0x80; 10]), Err(Error::TooLarge));
        assert_eq!(decode(&[0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]), Err(Error::TooLarge));
        // Padded with zero groups, as some encoders write.
        assert_eq!(decode(&[0x80, 0x80, 0x7f]), Ok((127, 3)));
        assert_eq!(encode(300, &mut [0; 1]), 0, "no room, nothing written");
    }
}

//! A configured neighbour at its own address that lies about everything a neighbour may report.

use super::{Case, Outcome, Target};
use crate::attack::stage::LIAR;
use crate::attack::wire::bundle::{Bundle, put};
use anyhow::Result;

pub const CASE: Case = Case {
    name: "liar",
    what: "A configured neighbour of a node with epidemic routing and marginal utility says ten thousand hellos a \
           second: invented arrivals, meetings and holdings, one identity many times over, and nothing at all.",
    run,
};

/// Administrative record flag (RFC 9171 section 4.2.3).
const RECORD: u64 = 2;
/// Record type of policy messages (private use, RFC 9713).
const SIGNAL: u64 = 65_000;
/// Hellos per second, spread evenly over the attack.
const A_SECOND: u64 = 10_000;

fn run(target: &Target) -> Result<Outcome> {
    let (sent, bytes) = target.offer_from(LIAR.0, A_SECOND * target.lasts.as_secs().max(1), hello);
    Ok(Outcome::of(format!("{sent} hellos, {} MB", bytes / 1_000_000)))
}

/// Hello with a different lie for each number, newer than the previous one.
fn hello(number: u64) -> Vec<u8> {
    let letter = match number % 200 {
        0 => letter(64, 400, number),
        100 => letter(64, 0, number),
        _ => letter(1, 1, number),
    };
    // Hellos alternate between no holdings and bundles that do not exist: each time the node has to recompute which
    // neighbour holds which bundle.
    let ids = (0..if number.is_multiple_of(50) { 8_192 } else { number % 2 }).map(|n| number << 20 | n);
    let mut content = vec![1, 1];
    content.extend([0xff; 8]);
    content.extend([0; 8]);
    content.extend((ids.clone().count() as u32).to_be_bytes());
    ids.for_each(|id| content.extend(id.to_be_bytes()));
    content.extend(0u32.to_be_bytes());
    content.extend(letter);
    let mut record = Vec::new();
    put(&mut record, 4, 2);
    put(&mut record, 0, SIGNAL);
    put(&mut record, 2, content.len() as u64);
    record.extend(content);
    let source = "ipn:66.0".into();
    Bundle { source, flags: RECORD, ..Bundle::new("ipn:1.0", number) }.with(&record)
}

/// Policy message of `parts` parts with `entries` entries each. Parts report in turn invented arrivals, invented
/// meetings, and one bundle given up again and again.
fn letter(parts: u64, entries: u64, number: u64) -> Vec<u8> {
    let mut letter = Vec::new();
    for part in 0..parts {
        let kind = [b'a', b'm', b'g'][((number + part) % 3) as usize];
        letter.push(kind);
        letter.extend((entries as u16).to_be_bytes());
        for entry in 0..entries {
            // Invented numbers never repeat: the node cannot drop them as known.
            let invented = (number << 24 | part << 12 | entry) + 1_000;
            match kind {
                b'a' => letter.extend([u128::from(invented).to_be_bytes().as_slice(), &[0xff; 4]].concat()),
                b'm' => letter.extend([invented.to_be_bytes().as_slice(), &[0; 4]].concat()),
                _ => letter.extend([7; 16]),
            }
        }
    }
    letter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_differ_in_content_and_length() {
        let lengths: Vec<usize> = (0..400).map(|number| hello(number).len()).collect();
        assert!(lengths.iter().any(|length| *length > 400_000) && lengths.iter().any(|length| *length < 200));
        assert_ne!(hello(3), hello(4));
        assert_eq!(letter(1, 1, 0).len(), 3 + 20);
        assert_eq!((letter(1, 1, 1).len(), letter(1, 1, 2).len()), (3 + 12, 3 + 16));
    }
}

//! Bundles of version 6.

use super::{Case, Outcome, Target};
use crate::attack::wire::old::Old;
use crate::random::Random;
use anyhow::Result;

/// Malformed bundles of version 6.
pub const MALFORMED: Case = Case {
    name: "old-malformed",
    what: "50,000 bundles of version 6, each with a byte changed or its end cut off, one after the other.",
    run: malformed,
};
/// Fragments of version 6 whose other parts never arrive.
pub const FRAGMENTS: Case = Case {
    name: "old-fragments",
    what: "20,000 fragments of version 6 for an application here, each of another bundle of 1 GB.",
    run: fragments,
};
/// Bundles of version 6 that consist almost entirely of headers.
pub const LONG_HEADS: Case = Case {
    name: "old-long-heads",
    what: "6,000 bundles of version 6 to nowhere, of one byte behind a dictionary of 55 kB and before a block of 4 kB.",
    run: long_heads,
};

fn malformed(target: &Target) -> Result<Outcome> {
    let mut random = Random::new(10);
    let (sent, _) = target.offer(50_000, |number| {
        // A third of the bundles have no dictionary (compressed bundle headers, RFC 6260).
        let old = Old { dictionary: (number % 3 * 20) as usize, ..Old::new((404, 1), number) };
        let mut bytes = old.with(&[0x55; 200]);
        let at = random.below(bytes.len() as u64 - 1) as usize + 1;
        match random.below(3) {
            0 => bytes.truncate(at),
            _ => bytes[at.min(60)] ^= 1 << random.below(8),
        }
        bytes
    });
    Ok(Outcome::of(format!("{sent} bundles")))
}
fn fragments(target: &Target) -> Result<Outcome> {
    let payload = vec![0x55; 40_000];
    let (sent, bytes) = target.offer(20_000, |number| {
        let mut bundle = Old::new((1, 24), number);
        bundle.fragment = Some((number % 7 * 40_000, 1_000_000_000));
        bundle.with(&payload)
    });
    Ok(Outcome::of(format!("{sent} fragments, {} MB", bytes / 1_000_000)))
}
fn long_heads(target: &Target) -> Result<Outcome> {
    let (sent, bytes) = target.offer(6000, |number| {
        let mut bundle = Old::new((404, 1), number);
        (bundle.dictionary, bundle.behind) = (55_000, 4000);
        bundle.with(&[0x55])
    });
    Ok(Outcome::of(format!("{sent} bundles, {} MB", bytes / 1_000_000)))
}

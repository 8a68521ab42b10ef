//! Replays every input of the fuzz corpora, and mutations of each.

use farlink_base::Rng;
use farlink_tests::{fuzz::TARGETS, mend, seeds};
use std::collections::BTreeSet;
use std::path::Path;

/// Mutations of one input: enough to catch a parser that trusts its input, few enough for every run
/// of the tests.
const MUTATIONS: u64 = 60;

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let folder = seeds::corpus(target);
    let listing = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = listing.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        // Truncate, insert, remove, flip a bit, or set a byte that CBOR and length fields are sensitive to.
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.below(256) as u8),
            2 => drop(bytes.drain(at.saturating_sub(3)..at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            _ if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff, 0x1b, 0x9f][rng.below(6) as usize],
            _ => {}
        }
    }
    bytes
}

#[test]
fn mutated_corpora_never_panic() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        // A fixed seed: a failure must repeat. The number is that of the RFC.
        let mut rng = Rng::new(9171);
        for (number, input) in inputs.iter().enumerate() {
            target(input);
            for mutation in 0..MUTATIONS {
                let mut bytes = mutate(input, &mut rng);
                // A wrong CRC ends parsing early: with mended ones, three of four mutations reach the code behind it.
                if *name == "bundle" && mutation % 4 > 0 {
                    mend::mend(&mut bytes);
                }
                let outcome = std::panic::catch_unwind(|| target(&bytes));
                assert!(outcome.is_ok(), "{name}: input {number}, mutation {mutation}: {bytes:02x?}");
            }
        }
    }
}

#[test]
fn fuzz_targets_and_binaries_match() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/src/bin");
    let binaries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let binaries: BTreeSet<String> =
        binaries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(binaries, targets, "see tests/src/fuzz.rs on how to add one");
}

#[test]
fn corpora_contain_the_seeds() {
    for seed in seeds::all() {
        let path = seeds::corpus(seed.target).join(&seed.name);
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(kept == seed.bytes, "{}: run `cargo run -p farlink-tests --example write_seeds`", path.display());
    }
}

//! Settings of ours, run by The ONE: each report of ours has the SHA-256 of the report that it wrote
//! (`cargo xtask one-reference --make CHECKOUT`).

use farlink_one::{Setup, Values};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn run(folder: &Path, number: &str, out: &Path) {
    let files = ["base.txt".to_string(), format!("{number}.txt")].map(|file| folder.join(file));
    let setup = Values::read(&files, &[]).and_then(|values| Setup::of(&values));
    let setup = setup.unwrap_or_else(|mistake| panic!("{mistake}"));
    farlink_one::run(&setup, Some(out), &mut |_| {}).unwrap_or_else(|failure| panic!("{number}: {failure:?}"));
}

#[test]
fn reports_have_the_hashes_of_the_one() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/logs"));
    let hashes = std::fs::read_to_string(folder.join("sha256.txt")).expect("hashes");
    let (mut last, mut other) = (String::new(), Vec::new());
    let out = tempfile::tempdir().expect("a folder");
    for line in hashes.lines() {
        let (theirs, name) = line.split_once("  ").expect("a hash and a name");
        let number = name.split('_').next().expect("a number");
        if number != last {
            run(&folder, number, out.path());
            last = number.into();
        }
        let report = std::fs::read(out.path().join(name)).unwrap_or_else(|_| panic!("{name} is missing"));
        let ours: String = Sha256::digest(&report).iter().map(|byte| format!("{byte:02x}")).collect();
        if ours != theirs {
            other.push(name);
        }
    }
    assert!(hashes.lines().count() > 120 && other.is_empty(), "others than The ONE's: {other:?}");
}

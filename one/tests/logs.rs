//! Settings of ours, run by The ONE: each report of ours has the SHA-256 of the report that it wrote
//! (`cargo xtask one-reference --make CHECKOUT`).

use farlink_one::{Setup, Values};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Runs the settings of a name: `12`, or `12-3` for the third run of a batch.
fn run(folder: &Path, name: &str, out: &Path) {
    let (number, run) = name.split_once('-').map_or((name, 1), |(number, run)| (number, run.parse().expect("a run")));
    let files = ["base.txt".to_string(), format!("{number}.txt")].map(|file| folder.join(file));
    let setup = Values::read(&files, &[]).and_then(|values| Setup::of(&values.of_run(run - 1)));
    let setup = setup.unwrap_or_else(|mistake| panic!("{mistake}"));
    farlink_one::run(&setup, Some(out), &mut |_| {}).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
}

#[test]
fn reports_have_the_hashes_of_the_one() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/logs"));
    let hashes = std::fs::read_to_string(folder.join("sha256.txt")).expect("hashes");
    let (mut last, mut other) = (String::new(), Vec::new());
    let out = tempfile::tempdir().expect("a folder");
    for line in hashes.lines() {
        let (theirs, name) = line.split_once("  ").expect("a hash and a name");
        let settings = name.split('_').next().expect("a name");
        if settings != last {
            run(&folder, settings, out.path());
            last = settings.into();
        }
        let report = std::fs::read(out.path().join(name)).unwrap_or_else(|_| panic!("{name} is missing"));
        let ours: String = Sha256::digest(&report).iter().map(|byte| format!("{byte:02x}")).collect();
        if ours != theirs {
            other.push(name);
        }
    }
    assert!(hashes.lines().count() > 120 && other.is_empty(), "others than The ONE's: {other:?}");
}

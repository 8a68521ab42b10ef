//! Probe of the size of the files in which a node keeps bundles, for implementations whose events do not report it.

use super::{Probe, ProbedHosts};
use crate::supervisor::Reading;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files and folders examined in one store.
const ENTRIES: usize = 10_000;

/// Probe of store sizes: indexes of hosts, with the folders of their stores.
#[derive(Debug)]
pub struct StoreVolume {
    stores: Vec<(usize, PathBuf)>,
}

impl StoreVolume {
    /// Creates a probe of these folders, each with the index of its host.
    pub fn new(stores: Vec<(usize, PathBuf)>) -> Self {
        StoreVolume { stores }
    }
}

impl Probe for StoreVolume {
    fn sample(&mut self, _: &mut ProbedHosts<'_>, each: &mut dyn FnMut(Reading)) {
        for (host, folder) in &self.stores {
            each(Reading::Store { host: *host, bytes: bytes_in(folder) });
        }
    }
}

/// Size of the files below a folder in bytes, as far as [`ENTRIES`] permits.
fn bytes_in(folder: &Path) -> u64 {
    let (mut waiting, mut bytes, mut seen) = (vec![folder.to_path_buf()], 0u64, 0);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            // A symbolic link does not count as the file to which it leads.
            match entry.metadata() {
                Ok(found) if found.is_dir() && seen < ENTRIES => waiting.push(entry.path()),
                Ok(found) if found.is_file() => bytes = bytes.saturating_add(found.len()),
                _ => {}
            }
            if seen >= ENTRIES {
                return bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_files_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/one"), [0; 1000]).unwrap();
        fs::write(folder.path().join("two"), [0; 24]).unwrap();
        std::os::unix::fs::symlink("two", folder.path().join("link")).unwrap();
        assert_eq!(bytes_in(folder.path()), 1024);
        assert_eq!(bytes_in(&folder.path().join("none")), 0);
    }
}

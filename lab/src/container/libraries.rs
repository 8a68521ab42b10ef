//! Shared libraries of the program `farlink`, which let it start in images without them.

use super::Bind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Number of bytes at the start of a program file that are searched for its loader's path, which linkers put near the
/// start.
const HEAD: u64 = 64 << 10;
/// Folders that loaders of all distributions search, in addition to those named after the machine.
const FOLDERS: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// Shared libraries of a program of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Libraries {
    /// Path of the loader, as the program names it; `None` for a static program.
    loader: Option<PathBuf>,
    /// Paths of the libraries.
    files: Vec<PathBuf>,
}

impl Libraries {
    /// Finds the libraries of a program, which must be the one that this process runs: they are read from its memory
    /// map.
    pub fn of(program: &Path) -> Libraries {
        let mut head = Vec::new();
        let read = File::open(program).and_then(|file| file.take(HEAD).read_to_end(&mut head));
        let loader = read.ok().and_then(|_| loader(&head)).map(PathBuf::from);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let files = if loader.is_some() { mapped(&maps) } else { Vec::new() };
        Libraries { loader, files }
    }

    /// Files that a root file system lacks for the program to start. A root without the loader gets all libraries; a
    /// root with it keeps its own, since its C library fits its loader, and gets only those that it lacks.
    pub fn needed_in(&self, root: &Path) -> Vec<Bind> {
        // Links in the root are not followed: an absolute one would lead into this machine's own root.
        let has = |path: &Path| fs::symlink_metadata(root.join(path.strip_prefix("/").unwrap_or(path))).is_ok();
        let Some(loader) = &self.loader else { return Vec::new() };
        let lacking = |file: &&PathBuf| {
            let own = file.parent().into_iter().flat_map(|own| [Some(own), own.strip_prefix("/usr").ok()]).flatten();
            let mut folders = own.chain(FOLDERS.into_iter().map(Path::new));
            !has(loader) || !file.file_name().is_some_and(|name| folders.any(|folder| has(&folder.join(name))))
        };
        let all = std::iter::once(loader).filter(|loader| !has(loader)).chain(self.files.iter().filter(lacking));
        all.map(|path| Bind { path: path.clone(), writable: false }).collect()
    }
}

/// Loader's path: the program header `PT_INTERP` of a 64-bit little-endian ELF file (elf(5)).
fn loader(head: &[u8]) -> Option<&str> {
    let number = |at: usize, length: usize| {
        let mut bytes = [0; 8];
        let part = head.get(at..at.checked_add(length)?)?;
        // Little-endian; the identification checked below excludes other byte orders.
        bytes[..length].copy_from_slice(part);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(size)?)?;
        if number(header, 4)? == 3 {
            let (start, length) = (number(header.checked_add(8)?, 8)?, number(header.checked_add(32)?, 8)?);
            let text = head.get(start..start.checked_add(length)?)?;
            return std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok();
        }
    }
    None
}

/// Paths of the libraries in the text of /proc/self/maps (proc_pid_maps(5)), sorted.
fn mapped(maps: &str) -> Vec<PathBuf> {
    let path = |line: &str| Some(line.split_once('/')?.1).map(|rest| PathBuf::from(format!("/{rest}")));
    let library = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    let files: BTreeSet<PathBuf> = maps.lines().filter_map(path).filter(library).collect();
    files.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_of_program_is_found() {
        let libraries = Libraries::of(&std::env::current_exe().unwrap());
        let Some(loader) = &libraries.loader else { return println!("skipped: this test is a static program") };
        assert!(loader.is_absolute() && loader.exists(), "{loader:?}");
        assert!(libraries.files.iter().any(|file| file.to_string_lossy().contains("libc.so")), "{libraries:?}");
    }

    #[test]
    fn only_lacking_libraries_are_needed() {
        let root = tempfile::tempdir().unwrap();
        let (loader, c, gcc) = ("/lib64/ld.so", "/usr/lib/x/libc.so.6", "/usr/lib/x/libgcc_s.so.1");
        let libraries = Libraries { loader: Some(loader.into()), files: vec![c.into(), gcc.into()] };
        let needed =
            || -> Vec<PathBuf> { libraries.needed_in(root.path()).into_iter().map(|bind| bind.path).collect() };
        let add = |file: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/nowhere", path).unwrap();
        };
        add("usr/lib64/libc.so.6");
        assert_eq!(needed(), [loader, c, gcc].map(PathBuf::from), "one without a loader is of no use");
        add("lib64/ld.so");
        assert_eq!(needed(), [PathBuf::from(gcc)]);
        add("lib/x/libgcc_s.so.1");
        assert!(needed().is_empty() && Libraries::default().needed_in(root.path()).is_empty());
    }

    #[test]
    fn damaged_program_has_no_loader() {
        assert_eq!(loader(b""), None);
        let mut head = b"\x7fELF\x02\x01".to_vec();
        head.resize(64, 0xff);
        assert_eq!(loader(&head), None);
        head[32..40].copy_from_slice(&8u64.to_le_bytes());
        assert_eq!(loader(&head), None);
    }

    #[test]
    fn only_libraries_are_read_from_maps() {
        let maps = "1-2 r-xp 0 fe:00 7  /usr/bin/x\n2-3 r 0 fe:00 8  /usr/lib/libm.so.6\n3-4 rw 0 0:0 0 [heap]\n\
                    4-5 r 0 fe:00 8  /usr/lib/libm.so.6\n";
        assert_eq!(mapped(maps), [PathBuf::from("/usr/lib/libm.so.6")]);
    }
}

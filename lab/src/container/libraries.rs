//! Shared libraries of the program `farlink`, so that it starts in images without them.

use super::Bind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a program that are searched for its loader; linkers put it in front.
const HEAD: u64 = 64 << 10;

/// Libraries of a program of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Libraries {
    /// Path of the loader, as the program names it; `None` of a static program.
    loader: Option<PathBuf>,
    /// Files that the loader maps.
    files: Vec<PathBuf>,
}

impl Libraries {
    /// Libraries of a program, provided that this process runs it: what it has mapped tells them.
    pub fn of(program: &Path) -> Libraries {
        let mut head = Vec::new();
        let read = File::open(program).and_then(|file| file.take(HEAD).read_to_end(&mut head));
        let loader = read.ok().and_then(|_| loader(&head)).map(PathBuf::from);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let files = if loader.is_some() { mapped(&maps) } else { Vec::new() };
        Libraries { loader, files }
    }

    /// Files that a root file system needs so that the program starts; none if it has the loader and so, presumably,
    /// its libraries.
    pub fn needed_in(&self, root: &Path) -> Vec<Bind> {
        let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let Some(loader) = &self.loader else { return Vec::new() };
        // A link there may be meant for another root, so it is not followed.
        if fs::symlink_metadata(inside(loader)).is_ok() {
            return Vec::new();
        }
        let all = std::iter::once(loader).chain(&self.files);
        all.map(|path| Bind { path: path.clone(), writable: false }).collect()
    }
}

/// Path in the program header `PT_INTERP` of an ELF file of 64 bits (elf(5)), of this machine's byte order.
fn loader(head: &[u8]) -> Option<&str> {
    let number = |at: usize, length: usize| {
        let mut bytes = [0; 8];
        let part = head.get(at..at.checked_add(length)?)?;
        // This machine's own programs have its byte order; big-endian ones are not read.
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

/// Libraries in the text of proc_pid_maps(5).
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
    fn root_with_loader_needs_nothing() {
        let root = tempfile::tempdir().unwrap();
        let loader = Some(PathBuf::from("/lib64/ld.so"));
        let libraries = Libraries { loader, files: vec!["/lib/libc.so.6".into()] };
        let needed: Vec<PathBuf> = libraries.needed_in(root.path()).into_iter().map(|bind| bind.path).collect();
        assert_eq!(needed, [PathBuf::from("/lib64/ld.so"), PathBuf::from("/lib/libc.so.6")]);
        fs::create_dir(root.path().join("lib64")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.path().join("lib64/ld.so")).unwrap();
        assert!(libraries.needed_in(root.path()).is_empty());
        assert!(Libraries::default().needed_in(root.path()).is_empty(), "a static program");
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

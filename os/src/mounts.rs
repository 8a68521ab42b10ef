//! Mounts of a mount namespace, which vanish with it, and marks that hide files of the lower layers of an overlay.

use crate::{check, context};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most layers of an overlay: the kernel takes one page of options.
pub const LAYERS_MAX: usize = 120;

/// Mounts an empty file system in memory, which only its owner may enter.
///
/// # Errors
/// When the kernel refuses.
pub fn mount_memory(at: &Path) -> io::Result<()> {
    mount(c"tmpfs", at, c"tmpfs", libc::MS_NOSUID | libc::MS_NODEV, c"mode=0700")
}

/// Mounts folders one over the other, the lowest first; changes go to `upper`, which needs `work` beside it.
///
/// # Errors
/// When a folder is missing, there are more than [`LAYERS_MAX`], or the kernel refuses.
pub fn mount_overlay(layers: &[impl AsRef<Path>], upper: &Path, work: &Path, at: &Path) -> io::Result<()> {
    if layers.is_empty() || layers.len() > LAYERS_MAX {
        return Err(io::Error::other(format!("{} layers, where 1 to {LAYERS_MAX} are possible", layers.len())));
    }
    let open = |folder: &Path| {
        let file = File::open(folder).map_err(|e| context(e, &folder.display().to_string()));
        file.map(OwnedFd::from)
    };
    // Names of descriptors are short, and hold no `:` or `,`, which separate options.
    let mut options = String::new();
    let mut opened = Vec::new();
    for (turn, layer) in layers.iter().rev().enumerate() {
        let folder = open(layer.as_ref())?;
        let start = if turn == 0 { "lowerdir=" } else { ":" };
        let _ = write!(options, "{start}/proc/self/fd/{}", folder.as_raw_fd());
        opened.push(folder);
    }
    let (upper, work) = (open(upper)?, open(work)?);
    let _ = write!(options, ",upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{}", upper.as_raw_fd(), work.as_raw_fd());
    if !in_first_user_namespace() {
        options += ",userxattr";
    }
    let options = CString::new(options)?;
    mount(c"overlay", at, c"overlay", libc::MS_NODEV, &options)
}

/// Makes a whiteout: a mark in a layer of an overlay that hides the file of this name in the layers below.
///
/// # Errors
/// When the file system refuses. Since Linux 5.8 the kernel lets every user make such a mark.
pub fn hide(name: &Path) -> io::Result<()> {
    // A character device 0, 0 is the kernel's mark.
    rustix::fs::mknodat(CWD, name, FileType::CharacterDevice, Mode::empty(), 0)
        .map_err(|e| context(e.into(), &format!("hiding {}", name.display())))
}

/// Marks a folder in a layer of an overlay as opaque, which hides the contents of this folder in the layers below.
///
/// # Errors
/// When the file system has no extended attributes.
pub fn hide_below(folder: &Path) -> io::Result<()> {
    let set = |name: &str| rustix::fs::setxattr(folder, name, b"y", XattrFlags::empty());
    // The kernel heeds one of the two attributes, depending on the user who mounts.
    let (trusted, user) = (set("trusted.overlay.opaque"), set("user.overlay.opaque"));
    trusted.or(user).map_err(|e| context(e.into(), &format!("marking {}", folder.display())))
}

/// Whether this process is in the machine's initial user namespace, which maps all user IDs to themselves.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn mount(source: &CStr, at: &Path, kind: &CStr, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    let target = CString::new(at.as_os_str().as_bytes())?;
    // SAFETY: all four texts end with NUL and live for the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) })
        .map(drop)
        .map_err(|e| context(e, &format!("mounting {} on {}", kind.to_string_lossy(), at.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("farlink-mounts-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn hiding_mark_is_device_zero() {
        let folder = folder("hide");
        let mark = folder.join("gone");
        match hide(&mark) {
            Ok(()) => assert!(fs::symlink_metadata(&mark).unwrap().file_type().is_char_device()),
            Err(e) => println!("skipped: {e}"),
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn overlay_without_layers_is_error() {
        let error = mount_overlay(&[] as &[&Path], Path::new("a"), Path::new("b"), Path::new("c")).unwrap_err();
        assert!(error.to_string().contains("0 layers"), "{error}");
        let missing = mount_overlay(&["/no/such/layer"], Path::new("a"), Path::new("b"), Path::new("c")).unwrap_err();
        assert!(missing.to_string().contains("/no/such/layer"), "{missing}");
    }
}

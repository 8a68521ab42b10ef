//! Archives of images and their layers, handled by programs that every machine with images has: `tar`, Podman, Docker.

use super::runtime;
use anyhow::{Context, Result, bail};
use farlink_os::mounts;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefix of the names of files by which a layer removes files of lower layers (OCI image specification, layer.md).
const REMOVED: &str = ".wh.";
/// Name of the file by which a folder of a layer removes all contents of the folder in lower layers.
const EMPTIED: &str = ".wh..wh..opq";

/// Prefix of the names that AUFS uses for its own files.
const KEPT_APART: &str = ".wh..wh.";

/// Saves an image of Podman or Docker as an archive in the folder `into`; returns the archive's path.
///
/// # Errors
/// If neither program is installed, or neither has the image.
pub fn save(name: &str, into: &Path) -> Result<PathBuf> {
    if name.starts_with('-') {
        bail!("no image has a name that begins with `-`\nhint: a path begins with `/`, `./` or `../`");
    }
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let file = into.join("saved.tar");
    let engines: [(&str, &[&str]); 2] =
        [("podman", &["save", "--quiet", "--format", "oci-archive", "--output"]), ("docker", &["save", "--output"])];
    let mut reasons = Vec::new();
    for (engine, arguments) in engines {
        let Some(program) = runtime::program(engine) else { continue };
        match run(Command::new(program).args(arguments).arg(&file).arg(name)) {
            Ok(()) => return Ok(file),
            Err(error) => reasons.push(format!("{engine}: {error}")),
        }
        let _ = fs::remove_file(&file);
    }
    if reasons.is_empty() {
        bail!(
            "neither Podman nor Docker is here to give it\nhint: install one, or give a path that begins with `/`, `./` \
             or `../`: an archive that one of them saved elsewhere, or a folder with the files"
        );
    }
    let hint = hint(&reasons, name);
    bail!("{}\nhint: {hint}", reasons.join("; "))
}

/// Suggested remedy when no engine gave the image.
fn hint(reasons: &[String], name: &str) -> String {
    // Docker's program only asks a daemon, which may not run, or may not listen to this user.
    if reasons.iter().any(|reason| reason.contains("daemon") || reason.contains("docker.sock")) {
        return format!(
            "start Docker's daemon (`systemctl start docker`; other users than root join the group `docker`), or give \
             an archive saved elsewhere: `docker save -o image.tar {name}`, and image = \"./image.tar\""
        );
    }
    format!("`podman pull {name}` or `docker pull {name}` fetches it")
}

/// Unpacks an archive into a new folder.
///
/// # Errors
/// If `tar` fails, or is missing.
pub fn unpack(archive: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut tar = Command::new("tar");
    // `tar` detects the compression, and follows no link of the archive out of the folder.
    tar.args(["--numeric-owner", "-x", "-p", "-f"]).arg(archive).arg("-C").arg(into).env_remove("TAR_OPTIONS");
    run(&mut tar).with_context(|| format!("unpacking {}", archive.display()))
}

/// Unpacks a layer, and replaces the files by which it removes others with the marks of the kernel's overlay file
/// system.
///
/// # Errors
/// As [`unpack`], and if a mark cannot be made.
pub fn unpack_layer(archive: &Path, into: &Path) -> Result<()> {
    unpack(archive, into)?;
    let mut waiting = vec![into.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        let mode = fs::symlink_metadata(&folder)?.permissions().mode();
        if mode & 0o700 != 0o700 {
            // Without these rights, an ordinary user could not remove the layer later.
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode | 0o700))?;
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if name == EMPTIED {
                fs::remove_file(&path)?;
                mounts::hide_below(&folder)?;
            } else if name.to_str().is_some_and(|name| name.starts_with(KEPT_APART)) {
                let removed =
                    if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.with_context(|| format!("cannot remove {}", path.display()))?;
            } else if let Some(removed) = name.to_str().and_then(|name| name.strip_prefix(REMOVED)) {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
                if !removed.is_empty() && removed != "." && removed != ".." {
                    hide(&folder.join(removed))?;
                }
            } else if entry.file_type()?.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(())
}

/// Hides the file or folder of lower layers at this path; an entry of this layer at the path stays.
fn hide(name: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(name) {
        Ok(own) if own.is_dir() => mounts::hide_below(name),
        Ok(_) => Ok(()),
        Err(_) => mounts::hide(name),
    }
}

/// Runs a program to its end. If it fails, the error is the first line of its error output, as later lines are mostly
/// consequences; a notice of `tar` about leading slashes is skipped.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.env("LC_ALL", "C").output().with_context(|| format!("cannot start `{program}`"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let complaint = |line: &&str| !line.trim().is_empty() && !line.contains("Removing leading");
        bail!("{}", words.lines().find(complaint).unwrap_or("it failed").trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_daemon_is_named_in_hint() {
        let down =
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
        assert!(hint(&[down.to_string()], "x:1").starts_with("start Docker's daemon"));
        assert!(hint(&["podman: x:1: image not known".to_string()], "x:1").contains("`podman pull x:1`"));
    }
    use std::os::unix::fs::FileTypeExt;

    #[test]
    fn removals_become_marks() {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path().join("layer");
        for name in ["etc/emptied", "etc/.wh..wh.plnk", "etc/anew"] {
            fs::create_dir_all(layer.join(name)).unwrap();
        }
        // A layer may both remove a lower entry and bring its own of the same name.
        let names = ["etc/.wh.gone", "etc/emptied/.wh..wh..opq", "etc/kept", "etc/.wh.kept", "etc/.wh.anew"];
        for name in names {
            fs::write(layer.join(name), "").unwrap();
        }
        let archive = folder.path().join("layer.tar");
        run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&layer).arg("etc")).unwrap();
        let into = folder.path().join("unpacked");
        if let Err(error) = unpack_layer(&archive, &into) {
            return println!("skipped: no marks of overlays may be made here: {error:#}");
        }
        let gone = fs::symlink_metadata(into.join("etc/gone")).unwrap();
        assert!(gone.file_type().is_char_device());
        let mut names: Vec<_> =
            fs::read_dir(into.join("etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["anew", "emptied", "gone", "kept"]);
        assert!(fs::symlink_metadata(into.join("etc/kept")).unwrap().is_file() && into.join("etc/anew").is_dir());
        assert_eq!(fs::read_dir(into.join("etc/emptied")).unwrap().count(), 0);
    }

    #[test]
    fn damaged_archive_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("no.tar");
        fs::write(&archive, [7; 700]).unwrap();
        let error = format!("{:#}", unpack(&archive, &folder.path().join("x")).unwrap_err());
        assert!(error.contains("no.tar: tar: This does not look like a tar archive"), "{error}");
    }
}

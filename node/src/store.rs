//! Store folder before and after opening: whether this program can read it, and which node it belongs to.

pub mod offline;
pub mod transfer;

pub use farlink_storage::FORMAT;

use crate::clock;
use farlink_bundle::EndpointId;
use farlink_os::disk::open_regular;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// File with the node IDs that the store belongs to, one a line.
const OWNER: &str = "owner";
/// File with the machine's boot ID, the time since boot, the operating time of the node, ms, and a checksum.
const RAN: &str = "ran";

/// Checks the format of every file of a store and the node that it belongs to; writes nothing. `folders` has the folder
/// of each shard; with `adopt`, the store may belong to another node.
///
/// # Errors
/// If a file cannot be read or has a newer format, or if the store belongs to another node and `adopt` is false.
pub fn examine(folders: &[PathBuf], ids: &[EndpointId], adopt: bool) -> anyhow::Result<()> {
    let mut marked = None;
    for folder in folders {
        for path in files(folder).map_err(|why| unreadable(folder, &why))? {
            not_newer(&path, format_of(&path).map_err(|why| unreadable(&path, &why))?)?;
        }
        let owner = owner(folder).map_err(|why| unreadable(&folder.join(OWNER), &why))?;
        // The first mark decides: a start that was killed may have marked the folders of some shards only.
        if marked.is_none() && !owner.is_empty() {
            marked = Some((folder, owner));
        }
    }
    let own: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match marked {
        // One common name suffices, so that a node can change its others.
        Some((folder, owner)) if !adopt && !owner.iter().any(|id| own.contains(id)) => anyhow::bail!(
            "the store {} belongs to {}, and this node is {}\nhint: give this node its own store folder, or take the \
             store over with --adopt: bundles for {} are then passed on as those for any other node",
            folder.display(),
            owner.join(" "),
            own.join(" "),
            owner.join(" ")
        ),
        _ => Ok(()),
    }
}

fn not_newer(path: &Path, format: Option<u32>) -> anyhow::Result<()> {
    match format {
        Some(format) if format > farlink_storage::FORMAT => anyhow::bail!(
            "{}: written by a newer Farlink (store format {format}; this one reads up to {})\nhint: run the newer \
             program, or take the bundles along: `farlink node store export` of the newer one, `farlink node store \
             import` of this one",
            path.display(),
            farlink_storage::FORMAT
        ),
        _ => Ok(()),
    }
}

/// Node IDs that a store belongs to; empty if never set.
pub fn owner(dir: &Path) -> io::Result<Vec<String>> {
    let read = |mut file: File| {
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    };
    match open_regular(OpenOptions::new().read(true), &dir.join(OWNER)).and_then(read) {
        Ok(text) => Ok(text.lines().map(str::to_string).filter(|line| !line.is_empty()).collect()),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}
/// Records durably to which node the store belongs.
pub fn set_owner(dir: &Path, own: &[String]) -> io::Result<()> {
    if owner(dir)? == *own {
        return Ok(());
    }
    let fresh = dir.join("owner.new");
    let made = open_regular(OpenOptions::new().write(true).create(true).truncate(true), &fresh);
    let mut file = made.map_err(|why| farlink_os::context(why, &format!("writing {}", fresh.display())))?;
    file.write_all((own.join("\n") + "\n").as_bytes())?;
    file.sync_all()?;
    // Replaced by renaming, so that a crash leaves the old owner or the new one.
    std::fs::rename(&fresh, dir.join(OWNER))?;
    File::open(dir)?.sync_all()
}

/// Wall time at which a run of the store was last alive, ms since 1970; `None` if unknown.
pub fn last_run(dir: &Path) -> Option<u64> {
    let time = std::fs::metadata(dir.join(OWNER)).and_then(|data| data.modified()).ok()?;
    // The file's modification time serves as the note: updating it writes no data.
    u64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()).ok()
}
/// Records that a run is alive, for the next one; errors are ignored.
pub fn note_run(dir: &Path, unix_ms: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_ms);
    let _ = open_regular(OpenOptions::new().append(true), &dir.join(OWNER)).and_then(|file| file.set_modified(time));
}

/// Operating time of all runs of the store, ms: as recorded, plus the time since unless the machine rebooted.
pub fn ran_before(dir: &Path) -> u64 {
    // If the record is missing or damaged, 0 keeps bundles too long rather than too short.
    let mut noted = String::new();
    let file = open_regular(OpenOptions::new().read(true), &dir.join(RAN));
    let read = file.and_then(|file| file.take(256).read_to_string(&mut noted));
    // Limited to 256 bytes above: a damaged file may be long.
    let Some((text, crc)) = noted.trim_end().rsplit_once(' ').filter(|_| read.is_ok()) else { return 0 };
    if crc.parse() != Ok(checksum(text)) {
        return 0;
    }
    let mut words = text.split(' ');
    let (boot, mut number) = (words.next(), || words.next()?.parse::<u64>().ok());
    let (Some(at_ms), Some(ran_ms)) = (number(), number()) else { return 0 };
    let (now_boot, now_ms) = clock::boot();
    // The clock since boot restarts with the machine: readings of two boots cannot be compared.
    let since_ms = if boot == Some(now_boot.as_str()) { now_ms.saturating_sub(at_ms) } else { 0 };
    ran_ms.saturating_add(since_ms)
}
/// Records the operating time. A failure is ignored: the next record may succeed.
pub fn note_ran(dir: &Path, ran_ms: u64) {
    let (boot, now_ms) = clock::boot();
    let text = format!("{} {now_ms} {ran_ms}", if boot.is_empty() { "unknown" } else { &boot });
    let fresh = dir.join("ran.new");
    // No sync: a note torn by a power cut fails its checksum and counts as 0, which keeps bundles too
    // long, not too short.
    let _ = open_regular(OpenOptions::new().write(true).create(true).truncate(true), &fresh)
        .and_then(|mut file| writeln!(file, "{text} {}", checksum(&text)))
        .and_then(|()| std::fs::rename(&fresh, dir.join(RAN)));
}
fn checksum(text: &str) -> u32 {
    (crate::accel().crc32c)(0, text.as_bytes())
}

/// Numbered files of a store.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u32>().ok());
        if number.is_some() && path.extension() == Some("farlink".as_ref()) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
fn format_of(path: &Path) -> io::Result<Option<u32>> {
    // Opened for writing as a run would, so that a read-only file is found here.
    format_in(open_regular(OpenOptions::new().read(true).write(true), path)?)
}
fn format_of_readable(path: &Path) -> io::Result<Option<u32>> {
    format_in(open_regular(OpenOptions::new().read(true), path)?)
}
fn format_in(file: File) -> io::Result<Option<u32>> {
    let mut bytes = Vec::new();
    file.take(farlink_storage::FORMAT_BYTES).read_to_end(&mut bytes)?;
    Ok(farlink_storage::format_of(&crate::accel(), &bytes))
}

/// Error that ends a start whose store is unreadable.
pub fn unreadable(what: &Path, why: &io::Error) -> anyhow::Error {
    let folder = if what.is_dir() { what } else { what.parent().unwrap_or(what) }.display();
    let hint = match why.kind() {
        ErrorKind::PermissionDenied => format!(
            "another user has written it, as a run as root does: give it to this one (chown -R USER {folder}), or run \
             as the one it belongs to"
        ),
        ErrorKind::ReadOnlyFilesystem => "a node writes to its store: mount it so that it can".into(),
        // The error has a hint of its own.
        _ if why.to_string().contains("hint: ") => String::new(),
        _ => format!(
            "nothing was written. Repair the disk and start again; `farlink node store export` saves what can be \
             read; with {folder} moved away the node starts with an empty store"
        ),
    };
    let hint = if hint.is_empty() { hint } else { format!("\nhint: {hint}") };
    anyhow::anyhow!("the store cannot be read: {}: {why}{hint}", what.display())
}
/// Returns whether waiting may cure an error of a start.
pub fn may_pass(kind: ErrorKind) -> bool {
    let lasting = [
        ErrorKind::PermissionDenied,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::InvalidInput,
        ErrorKind::IsADirectory,
        ErrorKind::NotADirectory,
        ErrorKind::NotFound,
    ];
    !lasting.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(texts: &[&str]) -> Vec<EndpointId> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn store_requires_a_shared_node_id() {
        let dir = tempfile::tempdir().unwrap();
        let look =
            |texts: &[&str], adopt| examine(&[dir.path().into()], &ids(texts), adopt).map_err(|why| why.to_string());
        assert_eq!(look(&["ipn:1.0"], false), Ok(()), "nobody's yet");
        set_owner(dir.path(), &["ipn:1.0".into(), "dtn://one/".into()]).unwrap();
        assert_eq!(owner(dir.path()).unwrap(), ["ipn:1.0", "dtn://one/"]);
        assert_eq!(look(&["ipn:9.0", "dtn://one/"], false), Ok(()), "one name stayed");
        let refused = look(&["ipn:2.0"], false).unwrap_err();
        assert!(refused.contains("belongs to ipn:1.0 dtn://one/, and this node is ipn:2.0"), "{refused}");
        assert!(refused.contains("--adopt"), "{refused}");
        assert_eq!(look(&["ipn:2.0"], true), Ok(()));
        // A start as ipn:2.0 was killed when it had marked the first of two shards.
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        for (folder, id) in [(&first, "ipn:2.0"), (&second, "ipn:1.0")] {
            std::fs::create_dir(folder).unwrap();
            set_owner(folder, &[id.into()]).unwrap();
        }
        let folders = [dir.path().join("nothing"), first, second];
        assert!(examine(&folders, &ids(&["ipn:2.0"]), false).is_ok());
        assert!(examine(&folders, &ids(&["ipn:1.0"]), false).unwrap_err().to_string().contains("belongs to ipn:2.0"));
        std::fs::remove_file(dir.path().join(OWNER)).unwrap();
        std::fs::create_dir(dir.path().join(OWNER)).unwrap();
        assert!(look(&["ipn:1.0"], true).unwrap_err().contains("owner"), "unread is not unsaid");
    }

    fn mkfifo(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn operating_time_survives_restart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ran_before(dir.path()), 0);
        note_ran(dir.path(), 70_000);
        assert!((70_000..80_000).contains(&ran_before(dir.path())));
        let (boot, now_ms) = clock::boot();
        let noted = |text: String| {
            std::fs::write(dir.path().join(RAN), format!("{text} {}\n", checksum(&text))).unwrap();
            ran_before(dir.path())
        };
        assert!(
            (75_000..85_000).contains(&noted(format!("{boot} {} 70000", now_ms - 5_000))),
            "down, and the machine not"
        );
        assert_eq!(noted(format!("another {} 70000", now_ms - 5_000)), 70_000, "the machine was started anew");
        assert_eq!(noted(format!("{boot} {} 70000", now_ms + 3_600_000)), 70_000);
        for text in ["", "x", "x 1", "x y 1", "x 1 -1"] {
            assert_eq!(noted(text.into()), 0, "{text}");
        }
        note_ran(dir.path(), 70_000);
        let mut bytes = std::fs::read(dir.path().join(RAN)).unwrap();
        for at in 0..bytes.len() - 1 {
            bytes[at] ^= 1;
            std::fs::write(dir.path().join(RAN), &bytes).unwrap();
            assert_eq!(ran_before(dir.path()), 0, "damage at {at}");
            bytes[at] ^= 1;
        }
        std::fs::remove_file(dir.path().join(RAN)).unwrap();
        for name in [RAN, "ran.new"] {
            assert!(std::process::Command::new("mkfifo").arg(dir.path().join(name)).status().unwrap().success());
        }
        note_ran(dir.path(), 70_000);
        assert_eq!(ran_before(dir.path()), 0, "nobody waits for a pipe");
    }

    #[test]
    fn unreadable_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("0000000003.farlink")).unwrap();
        let refused = examine(&[dir.path().into()], &ids(&["ipn:1.0"]), false).unwrap_err().to_string();
        assert!(refused.contains("0000000003.farlink") && refused.contains("hint: "), "{refused}");
        std::fs::remove_dir(dir.path().join("0000000003.farlink")).unwrap();
        for name in ["0000000002.farlink", OWNER] {
            mkfifo(&dir.path().join(name));
            let refused = examine(&[dir.path().into()], &ids(&["ipn:1.0"]), false).unwrap_err().to_string();
            for part in [name, "it is a named pipe, not a regular file", "hint: move it away"] {
                assert!(refused.contains(part) && refused.matches("hint: ").count() == 1, "{part}: {refused}");
            }
            let read = offline::Offline::read(dir.path()).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(read.contains(name) && read.contains("it is a named pipe"), "{read}");
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        mkfifo(&dir.path().join("owner.new"));
        let refused = set_owner(dir.path(), &["ipn:1.0".into()]).unwrap_err().to_string();
        assert!(refused.contains("owner.new") && refused.contains("it is a named pipe"), "{refused}");
        let denied = unreadable(dir.path(), &ErrorKind::PermissionDenied.into()).to_string();
        assert!(denied.contains("chown"), "{denied}");
        assert!(
            !may_pass(ErrorKind::PermissionDenied) && !may_pass(ErrorKind::InvalidInput) && may_pass(ErrorKind::Other)
        );
    }
}

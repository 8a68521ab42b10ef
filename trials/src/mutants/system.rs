//! Mutations of disk and clock, the border to the operating system.

use super::{Mutant, durable, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    // The write would be in the page cache only.
    durable("no fdatasync", "os/src/disk.rs", "file.sync_data()?;", "file.metadata()?;", &["forgetting"]),
    // A new file's name needs a sync of its folder (POSIX).
    durable("no fsync of the folder", "os/src/disk.rs", "            self.folder.sync_all()?;\n", "", &["forgetting"]),
    durable(
        "new names are not synced",
        "os/src/disk.rs",
        "open(path)?;\n        self.entries.changed();",
        "open(path)?;",
        &["forgetting"],
    ),
    durable(
        "the name of the store folder is not synced",
        "os/src/disk.rs",
        "File::open(folder).and_then(|folder| folder.sync_all())",
        "File::open(folder).map(|_| ())",
        &["forgetting"],
    ),
    durable(
        "the node does not sync",
        "node/src/disk.rs",
        "DiskAction::Sync { file } => *syncing = Some(self.files.syncing(file)?),",
        "DiskAction::Sync { .. } => {}",
        &["forgetting"],
    ),
    durable(
        "a file without a name is as good",
        "os/src/disk.rs",
        "if file.metadata()?.nlink() > 0 &&",
        "if file.metadata()?.len() > 0 &&",
        &["-p farlink-os"],
    ),
    durable(
        "a folder elsewhere is as good",
        "os/src/disk.rs",
        "nlink() > 0 && self.entries.is_in_place()? {",
        "nlink() > 0 && self.entries.is_in_place().is_ok() {",
        &["-p farlink-os"],
    ),
    // Two writers would overwrite each other's records.
    durable(
        "two processes share a store",
        "os/src/disk.rs",
        "FlockOperation::NonBlockingLockExclusive",
        "FlockOperation::NonBlockingLockShared",
        &["-p farlink-os"],
    ),
    // write(2) may write less than requested.
    durable(
        "a short write is not continued where it ended",
        "os/src/disk.rs",
        "            offset += n as u64;\n",
        "",
        &["-p farlink-os"],
    ),
    plain("everybody may read the store", "os/src/disk.rs", ".mode(0o700)", ".mode(0o755)", &["-p farlink-os"]),
    // An existing file may hold the only copy of a bundle.
    durable(
        "a file is made over another",
        "os/src/disk.rs",
        ".create_new(true)",
        ".create(true).truncate(true)",
        &["-p farlink-os"],
    ),
    // The node would run out of descriptors.
    plain(
        "no bound on open files",
        "os/src/disk.rs",
        "if self.open.len() >= OPEN_MAX",
        "if self.open.len() >= usize::MAX",
        &["-p farlink-os"],
    ),
    plain(
        "a limit on files is a failure",
        "node/src/disk.rs",
        " | ErrorKind::FileTooLarge",
        "",
        &["-p farlink-node disk"],
    ),
    plain(
        "nothing is cut",
        "node/src/disk.rs",
        "DiskAction::Truncate { file, len } => self.files.truncate(file, len)?,",
        "DiskAction::Truncate { .. } => {}",
        &["-p farlink-node --lib disk"],
    ),
    plain(
        "nothing is removed",
        "node/src/disk.rs",
        "let answer = kept(self.files.remove(file, keep)?.unwrap_or(0));",
        "let answer = kept(u64::from(file + u32::from(keep)) * 0);",
        &["-p farlink-node --lib disk"],
    ),
    plain(
        "a step of the clock is told for ever",
        "node/src/clock.rs",
        "            self.offset_ns = offset;\n",
        "",
        &["-p farlink-node --lib clock"],
    ),
    plain(
        "an untrusted clock is believed",
        "node/src/clock.rs",
        "if !self.trusted || unix_ms",
        "if unix_ms",
        &["-p farlink-node --lib clock"],
    ),
    // A machine without a battery starts at the epoch: DTN time begins in 2000.
    plain(
        "1970 is a time",
        "node/src/clock.rs",
        "unix_ms <= DtnTime(0).as_unix_ms()",
        "unix_ms == u64::MAX",
        &["-p farlink-node --lib clock"],
    ),
];

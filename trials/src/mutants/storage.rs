//! Mutations of the durable store.

use super::{Mutant, durable, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    durable(
        "recovery from what may be memory only",
        "core/storage/src/log/recover.rs",
        "if len > 0 && file >= recovery.clean_below.unwrap_or(0) && !recovery.settled.contains_key(&file) {",
        "if false {",
        &["-p farlink-storage"],
    ),
    // Without a sync, what was written may still be in the page cache, which a power cut empties.
    durable(
        "commit without sync",
        "core/storage/src/log/commit.rs",
        "self.disk(Op::Sync(group), DiskAction::Sync { file }, out);",
        "self.groups.answered(group, true, None);",
        &["-p farlink-storage", "forgetting"],
    ),
    // A group is durable only after its write and its sync.
    durable(
        "acknowledge before the sync",
        "core/storage/src/log/groups.rs",
        "self.answers == 2",
        "self.answers >= 1",
        &["-p farlink-storage", "forgetting"],
    ),
    // The kernel may drop dirty pages after a failed fsync and report success later.
    durable(
        "a failed sync is none",
        "core/storage/src/log/groups.rs",
        "self.write_error.or(self.sync_error)",
        "self.write_error",
        &["-p farlink-storage"],
    ),
    durable(
        "a failed write is none",
        "core/storage/src/log/groups.rs",
        "self.write_error.or(self.sync_error)",
        "self.sync_error",
        &["-p farlink-storage"],
    ),
    // Reused files still contain records of their earlier content.
    durable(
        "what a file held in a former life is found",
        "core/storage/src/log/record.rs",
        "let here = header.file == file || header.file == 0;",
        "let here = header.file < file || header.file >= file;",
        &["-p farlink-storage"],
    ),
    durable(
        "a group is committed although the one before it failed",
        "core/storage/src/log/groups.rs",
        "let done = self.list.front().is_some_and(|group| group.is_over() && !group.has_failed());",
        "while self.list.front().is_some_and(CommitGroup::has_failed) && self.list.len() > 1 { self.list.rotate_left(1); }\n        \
         let done = self.list.front().is_some_and(|group| group.is_over() && !group.has_failed());",
        &["-p farlink-storage"],
    ),
    durable(
        "a file counts as durable while a group of it is under way",
        "core/storage/src/log/commit.rs",
        "clean_below(self.groups.oldest_file().unwrap_or(draw.file))",
        "clean_below(self.groups.oldest_file().map_or(draw.file, |_| draw.file))",
        &["-p farlink-storage"],
    ),
    durable(
        "data found are not checked",
        "core/storage/src/log/scan.rs",
        "let whole = check.found == check.meta.crcs();",
        "let whole = !check.found.is_empty();",
        &["-p farlink-storage"],
    ),
    // Damage on the disk would be sent as a valid bundle.
    durable(
        "data read are not checked",
        "core/storage/src/log/load.rs",
        "|| !chunks_match(&self.config.accel, bytes, sums)",
        "|| sums.len() > 1 << 20",
        &["-p farlink-storage"],
    ),
    // A torn write would be taken for a record.
    durable(
        "record headers are not checked",
        "core/storage/src/log/record.rs",
        "let whole = f.u32()? == (accel.crc32c)(0, &bytes[..44]);",
        "let whole = f.u32().is_some() && bytes.len() >= 44;",
        &["-p farlink-storage"],
    ),
    durable(
        "file headers are not checked",
        "core/storage/src/log/header.rs",
        "(f.u32()? == (accel.crc32c)(0, &copy[..HEADER_COPY as usize - 4])).then_some(version)",
        "(f.u32().is_some() && accel.agrees_with_portable()).then_some(version)",
        &["-p farlink-storage"],
    ),
    // The second copy survives damage to the first.
    durable(
        "only one copy of the file header is read",
        "core/storage/src/log/header.rs",
        "first.into_iter().chain(seconds.into_iter().flatten())",
        "first.into_iter().chain(seconds.into_iter().flatten().filter(|_| false))",
        &["-p farlink-storage"],
    ),
    // A power cut during compaction would lose the bundle in both files.
    durable(
        "delete before the copy is durable",
        "core/storage/src/log/compact.rs",
        "let from = header.loc(victim, at);",
        "let from = header.loc(victim, at);\n                        self.segments.release(victim, at);",
        &["-p farlink-storage"],
    ),
    durable(
        "the newest durable file may go",
        "core/storage/src/log/segment.rs",
        "**file != self.newest_durable && self.table",
        "self.table",
        &["-p farlink-storage"],
    ),
    durable(
        "a deletion is answered before its commit",
        "core/storage/src/log/mod.rs",
        "            gone.answer = true;",
        "            out.push(Output::Deleted { bundle });",
        &["-p farlink-storage"],
    ),
    durable(
        "the last files are not verified",
        "core/storage/src/log/recover.rs",
        "scan.verify = file >= clean;",
        "scan.verify = file > clean && false;",
        &["-p farlink-storage"],
    ),
    durable(
        "files in doubt count as clean",
        "core/storage/src/log/segment.rs",
        "self.table.iter().find(|(_, s)| s.suspect).map_or(next, |(file, _)| next.min(*file))",
        "next",
        &["-p farlink-storage"],
    ),
    durable(
        "a counter record is not read",
        "core/storage/src/log/recover.rs",
        "Meta::Counter(value) => self.counter = self.counter.max(value),",
        "Meta::Counter(_) => {}",
        &["-p farlink-storage"],
    ),
    durable(
        "the counter of file headers is not read",
        "core/storage/src/log/recover.rs",
        "self.counter = self.counter.max(header.counter);",
        "",
        &["-p farlink-storage"],
    ),
    // A new bundle would take the place of an old record.
    durable(
        "numbers used before are used again",
        "core/storage/src/log/recover.rs",
        "self.last_bundle = self.last_bundle.max(header.last_bundle);",
        "",
        &["-p farlink-storage"],
    ),
    // The bundle would be delivered or forwarded a second time.
    durable(
        "a deleted record comes back",
        "core/storage/src/log/recover.rs",
        "deleted.is_some_and(|at| at > found.sequence) || ",
        "deleted.is_some_and(|at| at > found.sequence && at == 0) || ",
        &["-p farlink-storage"],
    ),
    durable(
        "a failed group goes on in its file",
        "core/storage/src/log/failure.rs",
        "        self.segments.seal(file);\n        let reason = refusal_of(group",
        "        let reason = refusal_of(group",
        &["-p farlink-storage"],
    ),
    durable(
        "deliveries are not remembered",
        "core/storage/src/log/recover.rs",
        "recovery.deliveries = self.gone.values().filter_map(|gone| gone.remember).collect();",
        "",
        &["-p farlink-storage"],
    ),
    // A payload can contain the bytes of a record: the salt tells real ones apart.
    durable(
        "records of payload are believed",
        "core/storage/src/log/record.rs",
        "salt.is_none_or(|salt| salt == header.salt) && ",
        "salt.is_none_or(|salt| salt != 0) && ",
        &["-p farlink-storage"],
    ),
    plain(
        "a store has no bound",
        "core/storage/src/log/mod.rs",
        "if live.saturating_add(bytes) > self.config.live_max()",
        "if live.saturating_add(bytes) == u64::MAX",
        &["-p farlink-storage"],
    ),
    plain(
        "a quota has no bound",
        "core/storage/src/log/mod.rs",
        "if !self.quotas.allows(draft.index.quota, draft.bundle_len().saturating_sub(counted)) {",
        "if counted == u64::MAX {",
        &["-p farlink-storage"],
    ),
    plain(
        "a spill that is not durable is taken",
        "core/storage/src/log/mod.rs",
        "if !self.spills.cover(&draft.pieces) {",
        "if draft.pieces.len() > 1 << 20 {",
        &["-p farlink-storage"],
    ),
    plain(
        "retries do not slow down",
        "core/storage/src/log/failure.rs",
        "pause * (1 << self.failures.min(4))",
        "pause",
        &["-p farlink-storage"],
    ),
    plain(
        "compaction forgets who is deleted",
        "core/storage/src/log/compact.rs",
        "                    gone.loc = Some(to);",
        "                    gone.loc = None;",
        &["-p farlink-storage"],
    ),
];

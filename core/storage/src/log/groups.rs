//! Commit groups under way: two at most, answered in order.

use super::commit::QueuedRecord;
use super::record::Loc;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::store::DiskError;

/// Records on their way to one file.
#[derive(Debug)]
pub(super) struct CommitGroup {
    number: u64,
    pub file: u32,
    pub items: Vec<(QueuedRecord, Loc)>,
    /// Bytes of bundle and spill records.
    large: u64,
    pub write_error: Option<DiskError>,
    sync_error: Option<DiskError>,
    answers: u8,
}
impl CommitGroup {
    fn is_over(&self) -> bool {
        self.answers == 2
    }
    fn has_failed(&self) -> bool {
        self.error().is_some()
    }
    /// The error that keeps the group from being durable, if any.
    pub fn error(&self) -> Option<DiskError> {
        self.write_error.or(self.sync_error)
    }
}

/// Maximum number of groups under way at once.
const GROUPS: usize = 2;

/// The groups under way, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Groups {
    list: VecDeque<CommitGroup>,
    last: u64,
    /// Number of groups begun while another was under way.
    overlapped: u64,
}
impl Groups {
    pub fn rest(&mut self) {
        self.list.shrink_to_fit();
    }
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// Number of groups begun so far, and of those that overlapped another.
    pub fn begun(&self) -> (u64, u64) {
        (self.last, self.overlapped)
    }
    pub fn oldest_file(&self) -> Option<u32> {
        self.list.front().map(|group| group.file)
    }
    /// Whether another group may begin. `bytes` are waiting or in flight; a second group needs at least `worth`
    /// waiting.
    pub fn may_begin(&self, bytes: u64, worth: u64) -> bool {
        let in_flight: u64 = self.list.iter().map(|group| group.large).sum();
        let all_well = !self.list.iter().any(CommitGroup::has_failed);
        self.is_empty() || (self.list.len() < GROUPS && all_well && bytes.saturating_sub(in_flight) >= worth)
    }
    /// Begins a group with `large` bytes of bundle and spill records; returns its number.
    pub fn begin(&mut self, file: u32, items: Vec<(QueuedRecord, Loc)>, large: u64) -> u64 {
        self.last += 1;
        self.overlapped += u64::from(!self.list.is_empty());
        let number = self.last;
        self.list.push_back(CommitGroup {
            number,
            file,
            items,
            large,
            write_error: None,
            sync_error: None,
            answers: 0,
        });
        number
    }
    /// Records the result of a group's write or sync.
    pub fn answered(&mut self, number: u64, sync: bool, error: Option<DiskError>) {
        let Some(group) = self.list.iter_mut().find(|group| group.number == number) else { return };
        group.answers += 1;
        if sync {
            group.sync_error = error;
        } else {
            group.write_error = error;
        }
    }
    /// Takes the oldest group once its write and sync succeeded.
    pub fn next_committed(&mut self) -> Option<CommitGroup> {
        let done = self.list.front().is_some_and(|group| group.is_over() && !group.has_failed());
        if done { self.list.pop_front() } else { None }
    }
    /// Takes all groups once the oldest failed and all are answered. The kernel may have dropped pages of any of
    /// them, and rewriting all keeps their order.
    pub fn failed(&mut self) -> Option<VecDeque<CommitGroup>> {
        let failed =
            self.list.front().is_some_and(CommitGroup::has_failed) && self.list.iter().all(CommitGroup::is_over);
        failed.then(|| core::mem::take(&mut self.list))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, LogStore};
    use super::*;

    fn two() -> Groups {
        let mut groups = Groups::default();
        assert!(groups.may_begin(1, 100), "the first always");
        assert_eq!(groups.begin(1, Vec::new(), 500), 1);
        assert!(!groups.may_begin(599, 100), "99 bytes are not worth it");
        assert!(groups.may_begin(600, 100));
        assert_eq!(groups.begin(2, Vec::new(), 100), 2);
        assert!(!groups.may_begin(u64::MAX, 0), "no third");
        groups
    }
    fn over(groups: &mut Groups, number: u64) {
        groups.answered(number, false, None);
        groups.answered(number, true, None);
    }

    #[test]
    fn groups_at_rest_take_no_memory() {
        let mut store = LogStore::new(Config::new(1 << 30));
        store.groups = two();
        store.groups.list.clear();
        store.rest();
        assert_eq!(store.groups.list.capacity(), 0);
    }

    #[test]
    fn groups_commit_in_order() {
        let mut groups = two();
        over(&mut groups, 2);
        assert!(groups.next_committed().is_none() && groups.oldest_file() == Some(1));
        groups.answered(1, true, None);
        assert!(groups.next_committed().is_none(), "its write is not answered");
        groups.answered(1, false, None);
        let files = [groups.next_committed(), groups.next_committed()].map(|group| group.map(|group| group.file));
        assert_eq!((files, groups.begun()), ([Some(1), Some(2)], (2, 1)));
    }

    #[test]
    fn failed_group_fails_the_next() {
        // A group that failed first lets no other begin.
        for sync in [false, true] {
            let mut groups = two();
            groups.answered(1, sync, Some(DiskError::Io));
            groups.list.truncate(1);
            assert!(!groups.may_begin(u64::MAX, 0), "a group begun now would fail too");
            // The second succeeded, but may not be answered before the first.
            let mut groups = two();
            groups.answered(1, sync, Some(DiskError::Io));
            over(&mut groups, 2);
            assert!(groups.next_committed().is_none() && groups.failed().is_none(), "not all are over");
            groups.answered(1, !sync, None);
            assert!(groups.next_committed().is_none());
            assert_eq!(groups.failed().map(|groups| groups.len()), Some(2));
            // A failure of the second leaves the first to commit.
            let mut groups = two();
            groups.answered(2, sync, Some(DiskError::Full));
            groups.answered(2, !sync, None);
            assert!(groups.failed().is_none());
            over(&mut groups, 1);
            assert!(groups.next_committed().is_some_and(|group| group.file == 1));
            assert!(groups.next_committed().is_none());
            assert_eq!(groups.failed().map(|groups| groups.len()), Some(1));
        }
    }
}

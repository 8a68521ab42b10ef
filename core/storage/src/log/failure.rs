//! Handles disk errors: bundles being committed are refused or written again elsewhere, acknowledged ones are not
//! touched, and the store retries after a pause.

use super::commit::QueuedRecord;
use super::groups::CommitGroup;
use super::segment::{LogSegment, Owner, Segments};
use super::{BundleState, Config, LogStore};
use alloc::collections::VecDeque;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{BundleHandle, Duration, Event, EventClass, Instant, Refusal, Sink};

/// Failed commits after which a bundle is refused.
const ATTEMPTS: u8 = 3;

/// Recent disk errors and when to retry.
#[derive(Debug)]
pub(super) struct Trouble {
    retry_at: Option<Instant>,
    failures: u32,
    reason: Refusal,
    remove_at: Option<Instant>,
}
impl Default for Trouble {
    fn default() -> Self {
        Trouble { retry_at: None, failures: 0, reason: Refusal::StoreFailed, remove_at: None }
    }
}
impl Trouble {
    /// Reason to refuse new bundles at `now`.
    pub fn refusal(&self, now: Instant) -> Option<Refusal> {
        self.retry_at.is_some_and(|at| at > now).then_some(self.reason)
    }
    /// Whether the disk had no room for the last commit.
    pub fn is_full(&self) -> bool {
        self.retry_at.is_some() && self.reason == Refusal::NoResources
    }
    /// Earliest time of the next commit after a failure.
    pub fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
    /// Ends the pauses after a successful commit.
    pub fn clear(&mut self) {
        self.retry_at = None;
        self.failures = 0;
    }
    fn note(&mut self, now: Instant, reason: Refusal, pause: Duration) {
        // 2^4: the pause doubles up to 16 times the first.
        self.retry_at = Some(now + pause * (1 << self.failures.min(4)));
        self.failures += 1;
        self.reason = reason;
    }
    /// Time of the next attempt to remove files.
    pub fn remove_at(&self, segments: &Segments) -> Option<Instant> {
        self.remove_at.filter(|_| !segments.empty.is_empty())
    }
}

pub(super) fn refusal_of(error: DiskError) -> Refusal {
    match error {
        DiskError::Full => Refusal::NoResources,
        DiskError::Io => Refusal::StoreFailed,
    }
}

impl LogStore {
    pub(super) fn report_failure(&self, file: u32, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Node) {
            out.push(Output::Event(Event::StoreFailed { file }));
        }
    }
    pub(super) fn report_damage(&self, file: u32, offset: u64, len: u64, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Node) {
            out.push(Output::Event(Event::StoreDamage { file, offset, len }));
        }
    }

    /// Refuses the bundles that wait for a new file that could not be made; deletions keep waiting.
    pub(super) fn create_failed(&mut self, now: Instant, file: u32, error: DiskError, out: &mut impl Sink<Output>) {
        self.segments.seal(file);
        self.trouble.note(now, refusal_of(error), self.config.retry);
        self.report_failure(file, out);
        // Kept files hold disk space that the next attempt may need.
        self.drop_spares(out);
        self.refuse_waiting(refusal_of(error), out);
        if error == DiskError::Full {
            self.reserve.need(true);
        }
    }
    /// Refuses every bundle and spill that waits for a commit.
    pub(super) fn refuse_waiting(&mut self, reason: Refusal, out: &mut impl Sink<Output>) {
        while let Some(item) = self.queue.pop_large() {
            match item {
                QueuedRecord::Put(bundle) => {
                    if self.kept.get(&bundle).is_some_and(|kept| matches!(kept.state, BundleState::Waiting(_))) {
                        self.refuse(bundle, reason, out);
                    }
                }
                QueuedRecord::Spill(arriving) => self.spill_failed(&arriving, reason, out),
                QueuedRecord::Delete { .. } | QueuedRecord::Counter(_) | QueuedRecord::Copy(_) => {}
            }
        }
    }
    /// Refuses a bundle that is not durable.
    pub(super) fn refuse(&mut self, bundle: BundleHandle, reason: Refusal, out: &mut impl Sink<Output>) {
        if let Some(kept) = self.forget(bundle) {
            if let BundleState::Waiting(draft) | BundleState::Writing(draft) = kept.state {
                self.queue.cancel(draft.record_len());
            }
            out.push(Output::Refused { bundle, reason });
        }
    }

    /// Fails all groups under way, because the oldest was not written or may not be durable, and later groups may not
    /// be answered before it. Their files are sealed: after a failed sync a kernel may report pages clean that never
    /// reached the disk, so nothing is synced twice.
    pub(super) fn fail_groups(&mut self, now: Instant, groups: VecDeque<CommitGroup>, out: &mut impl Sink<Output>) {
        let error = groups.iter().find_map(CommitGroup::error).unwrap_or(DiskError::Io);
        self.trouble.note(now, refusal_of(error), self.config.retry);
        self.end_compaction();
        if error == DiskError::Full {
            self.drop_spares(out);
            // The first failure may only mean that the group was too long for the room left.
            if self.trouble.failures > 1 {
                self.reserve.need(true);
            }
        }
        // Newest group first: `requeue` puts each item in front of the queue.
        for group in groups.into_iter().rev() {
            self.segments.end(group.file);
            self.fail_group(now, group, out);
        }
        if self.reserve.is_wanted() {
            self.refuse_waiting(Refusal::NoResources, out);
        }
    }
    fn fail_group(&mut self, now: Instant, group: CommitGroup, out: &mut impl Sink<Output>) {
        let file = group.file;
        if let Some(segment) = self.segments.get_mut(file) {
            segment.suspect = true;
        }
        self.segments.seal(file);
        let reason = refusal_of(group.error().unwrap_or(DiskError::Io));
        self.report_failure(file, out);
        // Only a failed sync is tried again; bundles of a failed write are refused.
        let again = group.write_error.is_none();
        for (item, _) in group.items.into_iter().rev() {
            match item {
                QueuedRecord::Put(bundle) => self.put_failed(file, bundle, again, reason, out),
                QueuedRecord::Delete { bundle, answer } => self.delete_failed(bundle, answer, out),
                QueuedRecord::Spill(mut arriving) => {
                    arriving.attempts += 1;
                    if again && arriving.attempts < ATTEMPTS && self.spills.wants(arriving.number) {
                        self.queue.requeue(now, QueuedRecord::Spill(arriving));
                    } else {
                        self.spill_failed(&arriving, reason, out);
                    }
                }
                QueuedRecord::Counter(value) => self.queue.requeue(now, QueuedRecord::Counter(value)),
                QueuedRecord::Copy(copy) => {
                    if let Owner::Bundle(bundle) = copy.owner {
                        self.segments.add_dead(file, bundle);
                    }
                }
            }
        }
    }
    fn put_failed(
        &mut self,
        file: u32,
        bundle: BundleHandle,
        again: bool,
        reason: Refusal,
        out: &mut impl Sink<Output>,
    ) {
        // The bundle's record may be on disk although its commit failed.
        self.segments.add_dead(file, bundle);
        let Some(kept) = self.kept.get_mut(&bundle).filter(|kept| matches!(kept.state, BundleState::Writing(_))) else {
            // The bundle was deleted meanwhile; its delete record counts this copy.
            out.push(Output::Stored { bundle, payload: None });
            return;
        };
        self.stale.entry(bundle).or_default().add(Some(file));
        if let BundleState::Writing(draft) = &mut kept.state
            && again
            && draft.attempts + 1 < ATTEMPTS
        {
            let mut draft = draft.clone();
            draft.attempts += 1;
            kept.state = BundleState::Waiting(draft);
            self.queue.requeue(Instant::ZERO, QueuedRecord::Put(bundle));
        } else {
            self.refuse(bundle, reason, out);
        }
    }
    fn delete_failed(&mut self, bundle: BundleHandle, answer: bool, out: &mut impl Sink<Output>) {
        match self.gone.get_mut(&bundle) {
            Some(gone) => {
                gone.answer |= answer;
                if !core::mem::replace(&mut gone.queued, true) {
                    // `answer` is false here: whether `Deleted` is due is kept in `gone`, from which `draw_small` takes
                    // it.
                    self.queue.requeue(Instant::ZERO, QueuedRecord::Delete { bundle, answer: false });
                }
            }
            None if answer => out.push(Output::Deleted { bundle }),
            None => {}
        }
    }

    pub(super) fn remove_files(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        if self.segments.empty.is_empty() || self.trouble.remove_at.is_some_and(|at| at > now) {
            return;
        }
        self.trouble.remove_at = None;
        for file in self.segments.removable() {
            let Config { spares, segment_bytes, capacity, .. } = self.config;
            // While the disk refuses bundles, files are removed rather than kept.
            let keep = self.refusal(now).is_none() && self.segments.may_keep(file, spares, segment_bytes, capacity);
            if keep {
                self.segments.keep(file);
            }
            if let Some(segment) = self.segments.get_mut(file) {
                segment.removing = true;
            }
            self.disk(super::Op::Remove(file), DiskAction::Remove { file, keep }, out);
        }
    }
    /// Removes the files that were kept to be written over. Returns whether there were any.
    pub(super) fn drop_spares(&mut self, out: &mut impl Sink<Output>) -> bool {
        let mut any = false;
        while let Some((file, bytes)) = self.segments.take_spare() {
            self.disk(super::Op::RemoveKept(file, bytes), DiskAction::Remove { file, keep: false }, out);
            any = true;
        }
        any
    }
    pub(super) fn removed(
        &mut self,
        now: Instant,
        file: u32,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        let kept = if let Ok(DiskAnswer::Kept(len)) = result { Some(len) } else { None };
        // A kept file leaves the table as well: only its number and length stay known.
        self.segments.kept(file, kept);
        if result.is_ok() {
            for bundle in self.segments.remove(file) {
                self.drop_copy(bundle);
            }
            self.trouble.remove_at = None;
            self.reserve.hurry(now);
            return;
        }
        if let Some(segment) = self.segments.get_mut(file) {
            segment.removing = false;
        }
        self.remove_later(now, file, out);
    }
    /// Puts a kept file that could not be removed back into the table, as a file without live records.
    pub(super) fn removed_kept(&mut self, now: Instant, file: u32, size: u64, gone: bool, out: &mut impl Sink<Output>) {
        if gone {
            return self.reserve.hurry(now);
        }
        self.segments.insert(file, LogSegment { size, ..LogSegment::default() });
        self.segments.seal(file);
        self.remove_later(now, file, out);
    }
    fn remove_later(&mut self, now: Instant, file: u32, out: &mut impl Sink<Output>) {
        // Ten pauses: one attempt may concern many files.
        self.trouble.remove_at = Some(now + self.config.retry * 10);
        self.report_failure(file, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_success_or_limit() {
        let mut trouble = Trouble::default();
        let pause = Duration::from_millis(100);
        // Multiples of the first pause, up to the limit.
        let pauses = [1u64, 2, 4, 8, 16, 16];
        for times in pauses {
            trouble.note(Instant::ZERO, Refusal::NoResources, pause);
            assert_eq!(trouble.retry_at(), Some(Instant::from_nanos(times * 100_000_000)));
        }
        assert_eq!(trouble.refusal(Instant::from_nanos(1)), Some(Refusal::NoResources));
        assert_eq!(trouble.refusal(Instant::from_nanos(1_600_000_000)), None);
        trouble.clear();
        assert_eq!(trouble.refusal(Instant::ZERO), None);
        trouble.note(Instant::ZERO, Refusal::NoResources, pause);
        assert_eq!(trouble.retry_at(), Some(Instant::from_nanos(100_000_000)), "the first pause is short again");
    }
}

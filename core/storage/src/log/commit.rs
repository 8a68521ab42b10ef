//! Group commit: one write and one sync for everything that waits. Two groups may be under way; they are answered in
//! order, and a failed group fails the one behind it.

use super::compact::RecordCopy;
use super::groups::CommitGroup;
use super::header::FileHeader;
use super::record::{COUNTER_RECORD, DELETE_RECORD};
use super::record::{Loc, PayloadPiece, RECORD_HEADER, RecordHeader, spill_record_len};
use super::segment::{LogSegment, Owner};
use super::{BundleState, Gone, KeptBundle, LogStore, Op};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{BundleHandle, Chunk, Duration, Extent, Instant, Payload, Refusal, Sink};

/// Longest payload chunk that is copied next to its record header, bytes: cheaper than one more slice of a vectored
/// write.
const COPIED: usize = 2048;
/// Number of small records that may wait for a commit of other records; one more starts a commit.
const LAZY_MAX: usize = 10_000;

/// Bytes of an arriving bundle on their way to disk.
#[derive(Debug)]
pub(super) struct SpillWrite {
    /// The spill's number at the agent, and in the store.
    pub agent: u64,
    pub number: u64,
    /// Offset of the bytes in the spill.
    pub start: u64,
    pub data: Payload,
    /// Failed commits of these bytes.
    pub attempts: u8,
}
impl SpillWrite {
    pub fn record_len(&self) -> u64 {
        spill_record_len(self.data.len())
    }
}

/// A record to be written.
#[derive(Debug)]
pub(super) enum QueuedRecord {
    Put(BundleHandle),
    Spill(SpillWrite),
    Delete {
        bundle: BundleHandle,
        /// Whether the commit is answered by `Deleted`.
        answer: bool,
    },
    Counter(u64),
    Copy(RecordCopy),
}

/// Records waiting for the next group. Small records go first, because they give space back.
#[derive(Debug, Default)]
pub(super) struct CommitQueue {
    small: VecDeque<QueuedRecord>,
    large: VecDeque<QueuedRecord>,
    /// Bytes of bundle and spill records waiting or in flight.
    bytes: u64,
    urgent_since: Option<Instant>,
    lazy_at: Option<Instant>,
    /// Whether bundles wait for space that compaction must free first.
    pub blocked: bool,
}
impl CommitQueue {
    pub fn rest(&mut self) {
        self.small.shrink_to_fit();
        self.large.shrink_to_fit();
    }
    pub fn push_put(&mut self, now: Instant, bundle: BundleHandle, record: u64) {
        self.bytes += record;
        self.large.push_back(QueuedRecord::Put(bundle));
        self.urge(now);
    }
    pub fn push_spill(&mut self, now: Instant, arriving: SpillWrite) {
        self.bytes += arriving.record_len();
        self.large.push_back(QueuedRecord::Spill(arriving));
        self.urge(now);
    }
    pub fn push_counter(&mut self, now: Instant, value: u64) {
        self.small.push_back(QueuedRecord::Counter(value));
        self.urge(now);
    }
    /// Queues a copied record, in front of the queue if `first`.
    pub fn push_copy(&mut self, now: Instant, copy: RecordCopy, first: bool) {
        if first {
            self.small.push_front(QueuedRecord::Copy(copy));
        } else {
            self.small.push_back(QueuedRecord::Copy(copy));
        }
        self.urge(now);
    }
    pub fn is_copy_next(&self) -> bool {
        matches!(self.small.front(), Some(QueuedRecord::Copy(_)))
    }
    /// Gives up all queued copies.
    pub fn drop_copies(&mut self) {
        self.small.retain(|item| !matches!(item, QueuedRecord::Copy(_)));
    }
    /// Takes the next record if it is a copy.
    pub fn pop_copy(&mut self) -> Option<RecordCopy> {
        match self.small.pop_front_if(|item| matches!(item, QueuedRecord::Copy(_)))? {
            QueuedRecord::Copy(copy) => Some(copy),
            _ => None,
        }
    }
    /// Queues a delete record, which may wait for other records until [`CommitQueue::urge`].
    pub fn push_delete(&mut self, now: Instant, bundle: BundleHandle) {
        self.small.push_back(QueuedRecord::Delete { bundle, answer: false });
        self.lazy_at.get_or_insert(now);
        if self.small.len() > LAZY_MAX {
            self.urge(now);
        }
    }
    /// Puts a record of a failed group back in front of its queue.
    pub fn requeue(&mut self, now: Instant, item: QueuedRecord) {
        match item {
            QueuedRecord::Put(_) | QueuedRecord::Spill(_) => self.large.push_front(item),
            _ => self.small.push_front(item),
        }
        self.urge(now);
    }
    /// Makes the next group start without waiting for more records.
    pub fn urge(&mut self, now: Instant) {
        self.urgent_since.get_or_insert(now);
    }
    /// Subtracts a bundle or spill record of this length that no longer waits.
    pub fn cancel(&mut self, record: u64) {
        self.bytes = self.bytes.saturating_sub(record);
    }
    pub fn pop_large(&mut self) -> Option<QueuedRecord> {
        self.large.pop_front()
    }
    /// Bytes of bundle and spill records that are not durable yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.bytes
    }
    pub fn has_small(&self) -> bool {
        !self.small.is_empty()
    }
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }
    /// Time at which the next group should start; `enough`: so many bytes wait that there is no need to wait for more.
    fn due_at(&self, wait: Duration, lazy_wait: Duration, enough: bool) -> Option<Instant> {
        let urgent = self.urgent_since.map(|since| if enough { since } else { since + wait });
        let lazy = self.lazy_at.map(|since| since + lazy_wait);
        [urgent, lazy].into_iter().flatten().min()
    }
}

/// A group being assembled.
struct Draw {
    file: u32,
    /// Length of the file including the records drawn so far.
    len: u64,
    start: u64,
    items: Vec<(QueuedRecord, Loc)>,
    rope: Payload,
    buffer: BytesMut,
    /// Bytes of bundle and spill records drawn.
    large: u64,
    /// Bundle and spill records in the file, including those drawn.
    bundles: u64,
    /// Whether the next record does not fit into this file.
    full: bool,
}
impl Draw {
    fn push(&mut self, item: QueuedRecord, header: &RecordHeader, data: &Payload) {
        // Fill patterns and bytes that are on disk already are not written: the pieces in the record's meta part
        // describe them.
        let loc = header.loc(self.file, self.len);
        for chunk in data.chunks() {
            if let Chunk::Bytes(bytes) = chunk {
                self.push_data(bytes);
            }
        }
        self.len += loc.size();
        self.items.push((item, loc));
    }
    fn push_data(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPIED {
            self.buffer.extend_from_slice(bytes);
        } else {
            // A long piece becomes a slice of its own in the vectored write, behind the bytes copied so far.
            self.rope.push_bytes(self.buffer.split().freeze());
            self.rope.push_bytes(bytes.clone());
        }
    }
}

impl LogStore {
    /// Time at which the next commit should begin, if it waits for time alone.
    pub(super) fn commit_at(&self) -> Option<Instant> {
        let may_begin = self.groups.may_begin(self.queue.bytes, self.config.second_group);
        if self.queue.is_empty() || self.is_creating() || !may_begin {
            return None;
        }
        // Bundles cannot be written now; small records may free space.
        if (self.queue.blocked || self.reserve.is_wanted()) && !self.queue.has_small() {
            return None;
        }
        // Only a copy is tried in a full reserve: it may use the last quarter.
        if self.reserve.is_used_up() && !self.queue.is_copy_next() {
            return None;
        }
        let enough = self.queue.bytes >= self.config.group_bytes;
        let due = self.queue.due_at(self.config.commit_wait, self.config.delete_wait, enough)?;
        Some(self.trouble.retry_at().map_or(due, |retry| retry.max(due)))
    }
    fn is_creating(&self) -> bool {
        self.creating.is_some()
    }

    /// Starts commits while one is due and may begin.
    pub(super) fn start_group(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        self.queue.blocked = false;
        while self.commit_at().is_some_and(|at| at <= now) {
            let Some(file) = self.segments.active else {
                self.create(now, out);
                return;
            };
            let draw = self.draw(file);
            if !draw.items.is_empty() {
                self.emit(draw, out);
            } else if draw.full {
                self.segments.seal(file);
            } else if self.is_cramped(file) {
                // The reserve is full and no file may be made: deletions wait until space is freed.
                self.reserve_used_up();
            } else if self.queue.blocked {
                if self.unblock(now, out) {
                    self.emit(draw, out);
                }
            } else {
                self.calm();
            }
        }
    }
    /// Frees space for bundles that wait, by removing kept files or by compaction, or refuses them. Returns true if the
    /// group should be written although it has only a new file's header: once that is durable, the empty file that was
    /// the newest durable one may be removed.
    fn unblock(&mut self, now: Instant, out: &mut impl Sink<Output>) -> bool {
        if self.drop_spares(out) || !self.groups.is_empty() {
            return false;
        }
        self.compact(now, out);
        let newest = self.segments.newest_durable;
        let removing =
            self.segments.iter().any(|(_, s)| s.removing) || self.segments.empty.iter().any(|file| *file != newest);
        if self.compaction.is_some() || removing {
            return false;
        }
        if self.segments.empty.contains(&newest) {
            return true;
        }
        // Garbage of the active file can only be compacted once it is sealed.
        let active_waste = self.segments.active.filter(|file| {
            self.segments.get(*file).is_some_and(|s| s.len.saturating_sub(s.live) > self.config.file_header())
        });
        match active_waste {
            Some(file) => self.segments.seal(file),
            None => self.refuse_waiting(Refusal::NoResources, out),
        }
        self.queue.blocked = false;
        false
    }
    /// Resets the waiting times of empty queues.
    fn calm(&mut self) {
        if self.queue.small.is_empty() {
            self.queue.lazy_at = None;
        }
        if self.queue.is_empty() {
            self.queue.urgent_since = None;
        }
    }

    fn create(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        // The reserve is only for a full disk; otherwise a kept file saves the disk the work of growing one.
        let reserved = self.take_reserve(now, out);
        let of = reserved.or_else(|| self.segments.take_spare().map(|(file, _)| file));
        let file = self.segments.next;
        self.segments.insert(
            file,
            LogSegment { salt: self.salt, named: true, reserved: reserved.is_some(), ..LogSegment::default() },
        );
        self.creating = Some(file);
        self.disk(Op::Create(file), DiskAction::Create { file, of }, out);
    }
    pub(super) fn created(
        &mut self,
        now: Instant,
        file: u32,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        self.creating = None;
        match result {
            Ok(answer) => {
                if let DiskAnswer::Kept(len) = answer {
                    self.segments.remade(file, len);
                }
                self.segments.active = Some(file);
            }
            Err(error) => self.create_failed(now, file, error, out),
        }
    }

    /// Draws records from the queue that fit into the file and one group.
    fn draw(&mut self, file: u32) -> Draw {
        let start = self.segments.get(file).map_or(0, |segment| segment.len);
        let mut draw = Draw {
            file,
            len: start,
            start,
            items: Vec::new(),
            rope: Payload::new(),
            buffer: BytesMut::new(),
            large: 0,
            bundles: self.segments.get(file).map_or(0, |segment| segment.bundles),
            full: false,
        };
        if start == 0 {
            self.encode_file_header(&mut draw);
        }
        while draw.len - draw.start < self.config.group_bytes {
            let Some(item) = self.queue.small.pop_front() else { break };
            if let Some(item) = self.draw_small(item, &mut draw) {
                self.queue.small.push_front(item);
                return draw;
            }
        }
        // After a failed commit for want of room, and while the disk is full, small records are written alone.
        if self.reserve.is_wanted() || (self.trouble.is_full() && !draw.items.is_empty()) {
            return draw;
        }
        while draw.len - draw.start < self.config.group_bytes {
            let Some(item) = self.queue.large.pop_front() else { break };
            if let Some(item) = self.draw_large(item, &mut draw) {
                self.queue.large.push_front(item);
                break;
            }
        }
        draw
    }
    fn encode_file_header(&mut self, draw: &mut Draw) {
        let header = FileHeader {
            file: draw.file,
            salt: self.salt,
            sequence: self.sequence,
            last_bundle: self.last_bundle,
            counter: self.counter,
            clean_below: self.segments.clean_below(self.groups.oldest_file().unwrap_or(draw.file)),
            len: self.config.file_header() as u32,
            // A recycled file need not grow for its first byte.
            remade: self.segments.growth(draw.file, 1) == 0,
            nameless: false,
        };
        header.encode(&self.config.accel, &mut draw.buffer);
        draw.len = self.config.file_header();
    }
    fn fits(&self, draw: &mut Draw, record: u64) -> bool {
        draw.full = draw.len > self.config.file_header() && draw.len + record > self.config.segment_bytes;
        !draw.full
    }
    /// Draws a small record; returns the item if it does not fit.
    fn draw_small(&mut self, item: QueuedRecord, draw: &mut Draw) -> Option<QueuedRecord> {
        let record = match &item {
            QueuedRecord::Delete { bundle, .. } if self.delete_matters(*bundle) => DELETE_RECORD,
            QueuedRecord::Counter(_) => COUNTER_RECORD,
            QueuedRecord::Copy(copy) if self.copy_matters(copy) => copy.bytes.len() as u64,
            // The record died or moved since it was read: no copy is needed.
            QueuedRecord::Copy(copy) => {
                self.copy_finished(copy.from.file);
                return None;
            }
            _ => return None,
        };
        if self.is_cramped(draw.file) {
            if !self.fits_reserved(draw.file, draw.len + record, matches!(item, QueuedRecord::Copy(_))) {
                return Some(item);
            }
        } else if !self.fits(draw, record) {
            return Some(item);
        }
        let sequence = self.next_sequence();
        let mut encoder = self.config.encoder(self.salt, draw.file, &mut draw.buffer);
        match item {
            QueuedRecord::Delete { bundle, .. } => {
                let gone = self.gone.entry(bundle).or_default();
                gone.queued = false;
                let answer = core::mem::take(&mut gone.answer);
                let header = encoder.delete(sequence, bundle, gone.remember);
                draw.push(QueuedRecord::Delete { bundle, answer }, &header, &Payload::new());
            }
            QueuedRecord::Counter(value) => {
                let header = encoder.counter(sequence, value);
                draw.push(item, &header, &Payload::new());
            }
            QueuedRecord::Copy(copy) => {
                if let Owner::Bundle(bundle) = copy.owner {
                    // Of the original and the copy one will be a dead record. Which one, and so its file, is known once
                    // the copy is durable.
                    self.stale.entry(bundle).or_default().add(None);
                }
                // The record's body stays as it was read; only its header names the new file and salt.
                let header = RecordHeader { file: draw.file, salt: self.salt, ..copy.header };
                draw.push_data(&Bytes::copy_from_slice(&header.encode(&self.config.accel)));
                draw.push_data(&copy.bytes.slice(RECORD_HEADER as usize..));
                draw.push(QueuedRecord::Copy(copy), &header, &Payload::new());
            }
            QueuedRecord::Put(_) | QueuedRecord::Spill(_) => {}
        }
        None
    }
    /// Whether a queued delete record is still needed.
    fn delete_matters(&self, bundle: BundleHandle) -> bool {
        self.gone.get(&bundle).is_some_and(|gone| gone.copies.count > 0 || gone.remember.is_some() || gone.answer)
    }
    /// Draws a bundle or spill; returns the item if it does not fit or no space is left.
    fn draw_large(&mut self, item: QueuedRecord, draw: &mut Draw) -> Option<QueuedRecord> {
        let record = match &item {
            QueuedRecord::Put(bundle) => match self.kept.get(bundle).map(|kept| &kept.state) {
                Some(BundleState::Waiting(draft)) => draft.record_len(),
                _ => return None,
            },
            QueuedRecord::Spill(arriving) if self.spills.wants(arriving.number) => arriving.record_len(),
            // The spill was dropped, or failed, while these bytes waited.
            QueuedRecord::Spill(arriving) => {
                self.queue.cancel(arriving.record_len());
                return None;
            }
            _ => return None,
        };
        if self.segments.bytes + self.segments.growth(draw.file, draw.len + record) > self.config.files_max() {
            self.queue.blocked = true;
            return Some(item);
        }
        if !self.fits(draw, record) || draw.bundles >= self.config.bundles_max() {
            draw.full = true;
            return Some(item);
        }
        let sequence = self.next_sequence();
        draw.large += record;
        draw.bundles += 1;
        let mut encoder = self.config.encoder(self.salt, draw.file, &mut draw.buffer);
        match item {
            QueuedRecord::Put(bundle) => {
                let kept = self.kept.get_mut(&bundle)?;
                // `NOWHERE` stands in while the draft is encoded.
                if let BundleState::Waiting(draft) = core::mem::replace(&mut kept.state, BundleState::Disk(NOWHERE)) {
                    let header = encoder.bundle(sequence, bundle, &draft);
                    draw.push(item, &header, &draft.payload);
                    kept.state = BundleState::Writing(draft);
                }
            }
            QueuedRecord::Spill(arriving) => {
                let header = encoder.spill(sequence, arriving.number, arriving.start, &arriving.data);
                let data = arriving.data.clone();
                draw.push(QueuedRecord::Spill(arriving), &header, &data);
            }
            QueuedRecord::Delete { .. } | QueuedRecord::Counter(_) | QueuedRecord::Copy(_) => {}
        }
        None
    }
    fn emit(&mut self, mut draw: Draw, out: &mut impl Sink<Output>) {
        self.calm();
        let Draw { file, start, len, large, bundles, .. } = draw;
        let group = self.groups.begin(file, draw.items, large);
        draw.rope.push_bytes(draw.buffer.freeze());
        self.segments.extend(file, len - start, bundles);
        self.segments.begin(file);
        self.disk(Op::Write(group), DiskAction::Write { file, offset: start, data: draw.rope }, out);
        self.disk(Op::Sync(group), DiskAction::Sync { file }, out);
    }

    pub(super) fn group_answered(
        &mut self,
        now: Instant,
        group: u64,
        result: Result<DiskAnswer, DiskError>,
        sync: bool,
        out: &mut impl Sink<Output>,
    ) {
        self.groups.answered(group, sync, result.err());
        while let Some(group) = self.groups.next_committed() {
            self.segments.end(group.file);
            self.commit_group(group, out);
        }
        if let Some(groups) = self.groups.failed() {
            self.fail_groups(now, groups, out);
        }
    }
    fn commit_group(&mut self, group: CommitGroup, out: &mut impl Sink<Output>) {
        self.segments.newest_durable = self.segments.newest_durable.max(group.file);
        self.trouble.clear();
        self.reserve.need(false);
        self.look |= self.reserve.is_wanted();
        for (item, loc) in group.items {
            match item {
                QueuedRecord::Put(bundle) => self.put_committed(bundle, loc, out),
                QueuedRecord::Delete { bundle, answer } => self.delete_committed(bundle, answer, loc, out),
                QueuedRecord::Counter(value) => out.push(Output::CounterSet { value }),
                QueuedRecord::Spill(arriving) => self.spill_committed(arriving, loc, out),
                QueuedRecord::Copy(copy) => self.copy_committed(copy, loc),
            }
        }
    }
    fn put_committed(&mut self, bundle: BundleHandle, loc: Loc, out: &mut impl Sink<Output>) {
        self.queue.cancel(loc.size());
        let mut payload = None;
        match self.kept.get_mut(&bundle) {
            Some(KeptBundle { state, .. }) if matches!(state, BundleState::Writing(_)) => {
                if let BundleState::Writing(draft) = core::mem::replace(state, BundleState::Disk(loc)) {
                    payload = (loc.data > 0).then(|| stored_rope(&draft.pieces, bundle));
                }
                self.segments.add(loc, Owner::Bundle(bundle));
            }
            // The bundle was deleted during its commit, so this record is dead.
            _ => {
                self.segments.add_dead(loc.file, bundle);
                if let Some(gone) = self.gone.get_mut(&bundle).filter(|gone| gone.copies.count == 1) {
                    gone.copies.file = Some(loc.file);
                }
            }
        }
        out.push(Output::Stored { bundle, payload });
    }
    fn delete_committed(&mut self, bundle: BundleHandle, answer: bool, loc: Loc, out: &mut impl Sink<Output>) {
        if let Some(Gone { loc: current, .. }) = self.gone.get_mut(&bundle) {
            // A later delete record replaces an earlier one of the same bundle.
            if let Some(before) = current.replace(loc) {
                self.segments.release(before.file, before.offset);
            }
            self.segments.add(loc, Owner::Delete(bundle));
            self.settle(bundle);
        }
        if answer {
            out.push(Output::Deleted { bundle });
        }
    }
    fn spill_committed(&mut self, arriving: SpillWrite, loc: Loc, out: &mut impl Sink<Output>) {
        let SpillWrite { agent, number, start, data, .. } = arriving;
        self.queue.cancel(loc.size());
        if self.spills.committed(number, start, loc, &mut self.segments) {
            let mut extents = Payload::new();
            extents.push(super::spill::extents(number, start, data.len()));
            out.push(Output::Spilled { spill: agent, result: Ok(extents) });
        }
    }
}

/// Placeholder for a record's place while the record is being encoded.
const NOWHERE: Loc = Loc { file: 0, offset: 0, meta: 0, data: 0 };

/// The payload as stored: bytes in the bundle's own record become extents of it; spills and fill patterns stay as they
/// are.
pub(super) fn stored_rope(pieces: &[PayloadPiece], bundle: BundleHandle) -> Payload {
    let (mut rope, mut offset) = (Payload::new(), 0);
    for piece in pieces {
        rope.push(match *piece {
            PayloadPiece::Inline { len } => {
                offset += len;
                Chunk::Stored { extent: Extent { record: bundle.0, offset: offset - len }, len }
            }
            PayloadPiece::Spill { spill, offset, len } => super::spill::extents(spill, offset, len),
            PayloadPiece::Fill { seed, offset, len } => Chunk::Fill { seed, offset, len },
        });
    }
    rope
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn many_deletions_wait_no_longer() {
        let (mut queue, wait) = (CommitQueue::default(), Duration::from_millis(50));
        for number in 0..LAZY_MAX as u64 {
            queue.push_delete(Instant::ZERO, BundleHandle(number));
        }
        assert_eq!(queue.due_at(Duration::ZERO, wait, false), Some(Instant::ZERO + wait));
        // One more than may wait.
        queue.push_delete(Instant::ZERO, BundleHandle(u64::MAX));
        assert_eq!(queue.due_at(Duration::ZERO, wait, false), Some(Instant::ZERO));
    }

    #[test]
    fn queue_at_rest_takes_no_memory() {
        let mut store = LogStore::new(Config::new(1 << 30));
        for number in 0..1000 {
            store.queue.push_delete(Instant::ZERO, BundleHandle(number));
            store.queue.push_put(Instant::ZERO, BundleHandle(number), 100);
        }
        store.queue.small.clear();
        store.queue.large.clear();
        store.rest();
        assert_eq!((store.queue.small.capacity(), store.queue.large.capacity()), (0, 0));
    }
}

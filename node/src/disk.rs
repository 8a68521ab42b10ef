//! Disk thread: performs the store's operations in batches, in order, and answers each.
//!
//! If more operations wait behind a sync, a second thread runs the sync meanwhile; syncs never overtake each other.

use crate::log::{Repeats, more};
use farlink_base::store::{DiskAction, DiskAnswer, DiskDone, DiskError, DiskOp};
use farlink_base::{Chunk, DataVolume, Payload};
use farlink_os::allocator;
use farlink_os::disk::{DiskFiles, Syncing};
use farlink_os::poll::Waker;
use farlink_stack::Input;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Least bound of a store file's length: shorter files are not worth their overhead, however full the disk is.
const FILE_LEAST: u64 = 256 << 10;

/// Most transient failures of a start before it gives up; the store retries every second.
const TRIES: u32 = 3;

/// Path and error of the last failed operation, and the number of failures; `None` before the first.
type Failures = Arc<Mutex<Option<(PathBuf, io::Error, u32)>>>;

/// Free bytes that a disk with room has besides those for a write.
const SPARE: u64 = 64 << 10;
/// Hint for a full disk.
const ROOM: &str = "hint: free space on that disk, or name a folder of a larger one as `dir` of [store]; a `capacity` that the \
                    disk has room for is refused in time";

/// Errors of a store's disk, for the log and for those who ask: whether there is room for bundles.
#[derive(Debug)]
pub struct DiskState {
    dir: PathBuf,
    /// Bytes of the shortest write that found no room; `u64::MAX` while there is room.
    wanting: AtomicU64,
    /// Whether the log says that the disk is full.
    said: AtomicBool,
    repeats: Mutex<Repeats<ErrorKind>>,
}
impl DiskState {
    fn new(dir: &Path) -> Arc<DiskState> {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let (wanting, said) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Arc::new(DiskState { dir, wanting, said, repeats: Mutex::default() })
    }
    /// Logs a failure, at most once a minute for each kind, and returns the store's error. `bytes` is the length of a
    /// write that failed.
    fn failed(&self, place: &Path, why: &io::Error, bytes: Option<u64>) -> DiskError {
        let (kind, error) = (why.kind(), disk_error(why.kind()));
        if error == DiskError::Full {
            self.wanting.fetch_min(bytes.unwrap_or(u64::MAX - 1), Ordering::Relaxed);
        }
        let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = repeats.say(kind, std::time::Instant::now()).map(more) else { return error };
        match error {
            DiskError::Full => {
                self.said.store(true, Ordering::Relaxed);
                let what = self.full_as(kind);
                tracing::error!("{what}: new bundles are refused, those stored are kept{times}\n{ROOM}");
            }
            DiskError::Io => tracing::error!("store {}: {why}{times}", place.display()),
        }
        error
    }
    /// Notes a write of this length that found room.
    fn found_room(&self, bytes: u64) {
        let wanting = self.wanting.load(Ordering::Relaxed);
        if wanting == u64::MAX {
            return;
        }
        // Short writes may still fit on a full disk, and any write into a file that has its room already, so the free
        // space counts, with a margin for what surrounds a write.
        let margin = wanting / 2 + SPARE;
        let has_space = |(free, _)| free > wanting.saturating_add(margin) || (bytes >= wanting && free > bytes);
        if farlink_os::disk::space(&self.dir).map_or(bytes >= wanting, has_space) {
            self.wanting.store(u64::MAX, Ordering::Relaxed);
            if self.said.swap(false, Ordering::Relaxed) {
                tracing::info!("store {}: there is room again", self.dir.display());
            }
        }
    }
    /// State for people and programs.
    pub fn to_json(&self) -> serde_json::Value {
        let space = farlink_os::disk::space(&self.dir);
        serde_json::json!({
            "dir": self.dir.display().to_string(),
            "free_bytes": space.map(|(free, _)| free),
            "size_bytes": space.map(|(_, size)| size),
            "full": self.full(),
            "hint": self.full().map(|_| ROOM.trim_start_matches("hint: ")),
        })
    }
    /// Folder of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Words about a disk without room for bundles; `None` while there is room.
    pub fn full(&self) -> Option<String> {
        (self.wanting.load(Ordering::Relaxed) < u64::MAX).then(|| self.full_as(ErrorKind::StorageFull))
    }
    fn full_as(&self, kind: ErrorKind) -> String {
        let store = format!("the disk of the store {}", self.dir.display());
        let what = match kind {
            ErrorKind::QuotaExceeded => "has no room left for this user (disk quota)".into(),
            ErrorKind::FileTooLarge => "has room, but the limit of file sizes is reached (ulimit -f)".into(),
            _ => match farlink_os::disk::space(&self.dir) {
                Some((free, all)) => format!("is full: {} of {} are free", DataVolume(free), DataVolume(all)),
                None => "is full".into(),
            },
        };
        format!("{store} {what}")
    }
}

/// Owner's side of the disk thread.
#[derive(Debug)]
pub struct Disk {
    state: Arc<DiskState>,
    queued: Vec<DiskOp>,
    outstanding: u64,
    operations: Sender<Vec<DiskOp>>,
    answers: Receiver<Vec<DiskDone>>,
    failures: Failures,
}

impl Disk {
    /// Opens or creates the folder and starts the threads.
    ///
    /// # Errors
    /// If the folder cannot be opened, or no thread can be started.
    pub fn start(dir: &Path, waker: Waker) -> io::Result<Disk> {
        let (failures, state) = (Failures::default(), DiskState::new(dir));
        let mut files = Performer {
            files: DiskFiles::open(dir)?,
            was_direct: true,
            state: state.clone(),
            failures: failures.clone(),
        };
        files.log_cache_use();
        let (operations, inbox) = channel::<Vec<DiskOp>>();
        let (outbox, answers) = channel();
        let (syncs, to_sync) = channel::<HeldOps>();
        let (first, second) = (Answers { outbox: outbox.clone(), waker: waker.clone() }, Answers { outbox, waker });
        let place = state.clone();
        // Syncs left to the second thread. The kernel reports a failed write-back to the first sync after it only: if a
        // later sync ran first, it would consume the error, and the lost data would be called durable.
        let behind = Arc::new(AtomicUsize::new(0));
        let left = behind.clone();
        std::thread::Builder::new().name("disk sync".into()).spawn(move || {
            while let Ok(held) = to_sync.recv() {
                let heard = second.send(held.finish(&place));
                left.fetch_sub(1, Ordering::Release);
                if !heard {
                    return;
                }
            }
        })?;
        let place = state.clone();
        std::thread::Builder::new().name("disk".into()).spawn(move || {
            while let Ok(batch) = inbox.recv() {
                let (mut batch, mut done) = (VecDeque::from(batch), Vec::new());
                while let Some(operation) = batch.pop_front() {
                    // Operations that arrived meanwhile join the batch: whether any of them wait behind a sync matters
                    // below.
                    batch.extend(inbox.try_iter().flatten());
                    let Some(syncing) = files.perform(operation, &mut done) else { continue };
                    let held = HeldOps { done: std::mem::take(&mut done), syncing };
                    // If no operation waits behind the sync, running it in this thread saves a change of threads. It
                    // may not overtake a sync that the second thread has yet to run.
                    if batch.is_empty() && behind.load(Ordering::Acquire) == 0 {
                        done = held.finish(&place);
                        continue;
                    }
                    behind.fetch_add(1, Ordering::Relaxed);
                    if syncs.send(held).is_err() {
                        return;
                    }
                }
                if !done.is_empty() && !first.send(done) {
                    return;
                }
                allocator::give_back_if_asked();
            }
        })?;
        Ok(Disk { state, queued: Vec::new(), outstanding: 0, operations, answers, failures })
    }
    /// End of a log line about a damaged record in a file of the store.
    pub fn damage(&self, file: u32) -> String {
        let dir = self.state.dir.display();
        format!(
            " in {dir}/{file:010}.farlink: bundles that only it had are lost\n\
             hint: `farlink node store check {dir}` of the stopped node says what is left"
        )
    }
    /// Errors of the disk, and its room.
    pub fn state(&self) -> &Arc<DiskState> {
        &self.state
    }
    /// Queues an operation; it starts at the end of the turn.
    pub fn push(&mut self, operation: DiskOp) {
        self.outstanding += 1;
        self.queued.push(operation);
    }
    /// Wakes the disk thread so that it returns free pages even if no operation comes.
    pub fn give_back(&self) {
        let _ = self.operations.send(Vec::new());
    }
    /// Passes queued operations to the disk thread.
    pub fn flush(&mut self) {
        if !self.queued.is_empty() {
            let _ = self.operations.send(std::mem::take(&mut self.queued));
        }
    }
    /// Collects answers of the disk thread.
    pub fn answers(&mut self, inputs: &mut VecDeque<Input>) {
        while let Ok(done) = self.answers.try_recv() {
            self.outstanding = self.outstanding.saturating_sub(done.len() as u64);
            inputs.extend(done.into_iter().map(Input::DiskDone));
        }
    }
    /// Error that ends a start whose store is unreadable, naming the file; `None` without such an error, or while a
    /// transient error may be tried again.
    pub fn given_up(&self) -> Option<anyhow::Error> {
        let failures = self.failures.lock().ok()?;
        let (what, why, count) = failures.as_ref()?;
        (*count >= TRIES || !crate::store::may_pass(why.kind())).then(|| crate::store::unreadable(what, why))
    }
    /// Returns whether no operation is queued or running.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }
}

/// Most bytes of one file of a store in this folder.
pub fn file_max(dir: &Path) -> u64 {
    // A full disk regains room file by file, so a disk should hold at least 32 of them. A disk that does not report its
    // size sets no bound.
    let (room, longest) = farlink_os::disk::room(dir).unwrap_or((u64::MAX, u64::MAX));
    (room / 32).max(FILE_LEAST).min(longest)
}

/// Channel of answers to the owner.
struct Answers {
    outbox: Sender<Vec<DiskDone>>,
    waker: Waker,
}
impl Answers {
    /// Returns whether the owner still listens.
    fn send(&self, done: Vec<DiskDone>) -> bool {
        let sent = self.outbox.send(done).is_ok();
        self.waker.wake();
        sent
    }
}

/// Answers that must wait for a sync; the last is that of the operation that needs the sync.
struct HeldOps {
    done: Vec<DiskDone>,
    syncing: Syncing,
}
impl HeldOps {
    fn finish(mut self, state: &DiskState) -> Vec<DiskDone> {
        if let (Err(why), Some(last)) = (self.syncing.run(), self.done.last_mut()) {
            last.result = Err(state.failed(state.dir(), &why, None));
        }
        self.done
    }
}

/// Maps an error to the store's: lack of space, a quota and a limit of file sizes all mean a full disk.
fn disk_error(kind: ErrorKind) -> DiskError {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => DiskError::Full,
        _ => DiskError::Io,
    }
}

/// Performs operations on the files.
#[derive(Debug)]
struct Performer {
    files: DiskFiles,
    was_direct: bool,
    state: Arc<DiskState>,
    failures: Failures,
}

impl Performer {
    /// Logs once that writes go through the page cache; that may become known only with the first write.
    fn log_cache_use(&mut self) {
        if self.was_direct && !self.files.is_direct() {
            self.was_direct = false;
            let place = self.files.dir().display();
            tracing::info!("store {place}: this file system takes no direct writes: through the page cache");
        }
    }
    /// Performs an operation and adds its answer to `done`; a returned sync must finish before the answers are given.
    fn perform(&mut self, operation: DiskOp, done: &mut Vec<DiskDone>) -> Option<Syncing> {
        let mut syncing = None;
        let result = match operation.action {
            DiskAction::Reserve { file, bytes } => self.reserve(file, bytes),
            action => {
                let bytes = if let DiskAction::Write { data, .. } = &action { Some(data.len()) } else { None };
                let what = match &action {
                    DiskAction::Settle { file } | DiskAction::Read { file, .. } | DiskAction::Write { file, .. } => {
                        self.files.path(*file)
                    }
                    _ => self.files.dir().to_path_buf(),
                };
                let done = self.one(action, &mut syncing);
                if let (Some(bytes), true) = (bytes, done.is_ok()) {
                    self.state.found_room(bytes);
                }
                done.map_err(|why| {
                    let error = self.state.failed(&what, &why, bytes);
                    if let Ok(mut failures) = self.failures.lock() {
                        let count = failures.as_ref().map_or(0, |(.., count)| *count);
                        *failures = Some((what, why, count + 1));
                    }
                    error
                })
            }
        };
        self.log_cache_use();
        done.push(DiskDone { id: operation.id, result });
        syncing
    }
    fn one(&mut self, action: DiskAction, syncing: &mut Option<Syncing>) -> io::Result<DiskAnswer> {
        let kept = |bytes| if bytes > 0 { DiskAnswer::Kept(bytes) } else { DiskAnswer::Done };
        match action {
            DiskAction::List => return Ok(DiskAnswer::Files(self.files.list()?)),
            DiskAction::Create { file, of } => return Ok(kept(self.files.create(file, of)?)),
            DiskAction::Write { file, offset, data } => self.write(file, offset, &data)?,
            DiskAction::Sync { file } => *syncing = Some(self.files.syncing(file)?),
            DiskAction::Settle { file } => self.files.settle(file)?,
            DiskAction::Read { file, offset, len } => return Ok(DiskAnswer::Data(self.files.read(file, offset, len)?)),
            DiskAction::Truncate { file, len } => self.files.truncate(file, len)?,
            DiskAction::Remove { file, keep } => {
                let answer = kept(self.files.remove(file, keep)?.unwrap_or(0));
                *syncing = Some(self.files.syncing_names());
                return Ok(answer);
            }
            DiskAction::Reserve { file, bytes } => {
                return Ok(DiskAnswer::Kept(self.files.reserve(file, bytes)?));
            }
        }
        Ok(DiskAnswer::Done)
    }
    /// Reserves bytes for when the disk is full; the store tries again after a failure.
    fn reserve(&mut self, file: u32, bytes: u64) -> Result<DiskAnswer, DiskError> {
        let made = self.one(DiskAction::Reserve { file, bytes }, &mut None);
        if made.is_ok() {
            self.state.found_room(bytes);
        }
        made.map_err(|why| self.state.failed(self.files.dir(), &why, Some(bytes)))
    }
    fn write(&mut self, file: u32, offset: u64, data: &Payload) -> io::Result<()> {
        let mut made = Vec::new();
        for chunk in data.chunks() {
            match chunk {
                Chunk::Bytes(bytes) => made.push(bytes.clone()),
                other => {
                    let mut rope = Payload::new();
                    rope.push(other.clone());
                    made.push(rope.to_bytes().ok_or(io::ErrorKind::InvalidInput)?);
                }
            }
        }
        let mut slices: Vec<IoSlice<'_>> = made.iter().map(|bytes| IoSlice::new(bytes)).collect();
        self.files.write(file, offset, &mut slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Bytes;

    #[test]
    fn space_limits_count_as_full_disk() {
        // Errno values of Linux: EIO, EFBIG, ENOSPC, EDQUOT.
        let [io, file_too_large, no_space, quota] = [5, 27, 28, 122];
        let told = |errno| disk_error(std::io::Error::from_raw_os_error(errno).kind());
        assert_eq!([file_too_large, no_space, quota].map(told), [DiskError::Full; 3]);
        assert_eq!(told(io), DiskError::Io);
    }

    #[test]
    fn full_disk_is_told_until_room_for_write() {
        let dir = tempfile::tempdir().unwrap();
        let state = DiskState::new(dir.path());
        assert_eq!(state.full(), None);
        let no_space = io::Error::from(ErrorKind::StorageFull);
        assert_eq!(state.failed(dir.path(), &no_space, Some(5000)), DiskError::Full);
        let said = state.full().unwrap();
        let name = format!("the disk of the store {} is full: ", dir.path().display());
        assert!(said.starts_with(&name) && said.ends_with(" are free"), "{said}");
        state.found_room(5000);
        assert_eq!(state.full(), None);
        assert_eq!(state.failed(dir.path(), &io::Error::other("broken"), Some(1)), DiskError::Io);
        assert_eq!(state.full(), None);
    }

    #[test]
    fn sync_thread_reports_failure_to_waiters() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Performer {
            files: DiskFiles::open(dir.path()).unwrap(),
            was_direct: true,
            state: DiskState::new(dir.path()),
            failures: Failures::default(),
        };
        let mut waits = |action| files.perform(DiskOp { id: 1, action }, &mut Vec::new()).is_some();
        let write = |file| DiskAction::Write { file, offset: 0, data: Payload::from(vec![7; 5000]) };
        assert!(!waits(DiskAction::Create { file: 1, of: None }) && !waits(write(1)));
        assert!(waits(DiskAction::Sync { file: 1 }));
        // Removal or reuse of a file counts once the folder's entries are synced.
        assert!(
            waits(DiskAction::Remove { file: 1, keep: true }) && waits(DiskAction::Remove { file: 2, keep: false })
        );
        drop(files);
        let poller = farlink_os::poll::Poller::new().unwrap();
        let mut disk = Disk::start(dir.path(), poller.waker()).unwrap();
        let mut run = |actions: Vec<DiskAction>| {
            let count = actions.len();
            actions.into_iter().zip(0..).for_each(|(action, id)| disk.push(DiskOp { id, action }));
            disk.flush();
            let mut inputs = VecDeque::new();
            while inputs.len() < count {
                std::thread::sleep(std::time::Duration::from_millis(1));
                disk.answers(&mut inputs);
            }
            let well =
                |input| if let Input::DiskDone(done) = input { (done.id, done.result.is_ok()) } else { panic!() };
            inputs.into_iter().map(well).collect::<std::collections::BTreeMap<_, _>>().into_values().collect::<Vec<_>>()
        };
        assert_eq!(run(vec![DiskAction::Create { file: 3, of: None }, write(3)]), [true; 2]);
        std::fs::remove_file(dir.path().join("0000000003.farlink")).unwrap();
        assert_eq!(run(vec![DiskAction::Sync { file: 3 }]), [false], "nothing behind it");
        let more = vec![DiskAction::Sync { file: 3 }, DiskAction::Create { file: 4, of: None }, write(4)];
        assert_eq!(run(more), [false, true, true], "the second thread does it");
    }

    #[test]
    fn no_sync_overtakes_another() {
        // Only the first sync after a failed write-back learns of it, so order matters.
        let dir = tempfile::tempdir().unwrap();
        let poller = farlink_os::poll::Poller::new().unwrap();
        let mut disk = Disk::start(dir.path(), poller.waker()).unwrap();
        let mut actions = vec![DiskAction::Create { file: 1, of: None }];
        for n in 0..50u64 {
            actions.push(DiskAction::Write { file: 1, offset: n * 5000, data: Payload::from(vec![n as u8; 5000]) });
            actions.push(DiskAction::Sync { file: 1 });
        }
        let count = actions.len();
        actions.into_iter().zip(0..).for_each(|(action, id)| disk.push(DiskOp { id, action }));
        disk.flush();
        let mut inputs = VecDeque::new();
        while inputs.len() < count {
            std::thread::sleep(std::time::Duration::from_millis(1));
            disk.answers(&mut inputs);
        }
        let answered =
            inputs.into_iter().map(|input| if let Input::DiskDone(done) = input { done.id } else { panic!() });
        assert!(answered.eq(0..count as u64), "the last is synced by whoever wrote, after all before it");
    }

    #[test]
    fn operations_keep_order_across_restart() {
        let dir = tempfile::tempdir().unwrap();
        let poller = farlink_os::poll::Poller::new().unwrap();
        let mut disk = Disk::start(dir.path(), poller.waker()).unwrap();
        let mut run = |actions: Vec<DiskAction>| {
            let count = actions.len();
            for (id, action) in actions.into_iter().enumerate() {
                disk.push(DiskOp { id: id as u64, action });
            }
            disk.flush();
            let mut inputs = VecDeque::new();
            while inputs.len() < count {
                std::thread::sleep(std::time::Duration::from_millis(1));
                disk.answers(&mut inputs);
            }
            assert!(disk.is_idle());
            let answer = |input| if let Input::DiskDone(done) = input { (done.id, done.result) } else { panic!() };
            let answers: std::collections::BTreeMap<_, _> = inputs.into_iter().map(answer).collect();
            assert_eq!(answers.len(), count, "each is answered once");
            answers.into_values().collect::<Vec<_>>()
        };
        let mut data = Payload::from(&b"hello "[..]);
        data.push_bytes(Bytes::from_static(b"disk"));
        let done = run(vec![
            DiskAction::Create { file: 3, of: None },
            DiskAction::Write { file: 3, offset: 2, data },
            DiskAction::Sync { file: 3 },
            DiskAction::Read { file: 3, offset: 8, len: 100 },
            DiskAction::List,
        ]);
        assert_eq!(done[3], Ok(DiskAnswer::Data(Bytes::from_static(b"disk"))));
        assert_eq!(done[4], Ok(DiskAnswer::Files(vec![(3, 12)])));
        let done = run(vec![
            DiskAction::Truncate { file: 3, len: 1 },
            DiskAction::Read { file: 3, offset: 0, len: 9 },
            DiskAction::Remove { file: 3, keep: false },
            DiskAction::List,
            DiskAction::Sync { file: 3 },
        ]);
        assert_eq!(done[1], Ok(DiskAnswer::Data(Bytes::from_static(&[0]))));
        assert_eq!(done[3], Ok(DiskAnswer::Files(vec![])));
        assert_eq!(done[4], Err(DiskError::Io));
        // Many syncs with more behind them: two threads answer.
        let mut actions = vec![DiskAction::Create { file: 4, of: None }];
        for n in 0..50u64 {
            let data = Payload::from(vec![n as u8; 5000]);
            actions.push(DiskAction::Write { file: 4, offset: n * 5000, data });
            actions.push(DiskAction::Sync { file: 4 });
        }
        let length = actions.len();
        actions.push(DiskAction::Remove { file: 4, keep: true });
        actions.push(DiskAction::Create { file: 5, of: Some(4) });
        actions.push(DiskAction::Read { file: 5, offset: 249_999, len: 9 });
        let done = run(actions);
        assert_eq!(done[..length], vec![Ok(DiskAnswer::Done); length]);
        let kept = Ok(DiskAnswer::Kept(250_000));
        assert_eq!(done[length..], [kept.clone(), kept, Ok(DiskAnswer::Data(Bytes::from_static(&[49])))]);
    }
}

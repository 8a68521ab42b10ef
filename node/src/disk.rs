//! The disk thread: performs the store's operations in batches, in order, and answers each.

use farlink_base::store::{DiskAction, DiskAnswer, DiskDone, DiskError, DiskOp};
use farlink_base::{Chunk, Payload};
use farlink_os::disk::DiskFiles;
use farlink_os::poll::Waker;
use farlink_stack::Input;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The owner's side of the disk thread.
#[derive(Debug)]
pub struct Disk {
    queued: Vec<DiskOp>,
    outstanding: u64,
    operations: Sender<Vec<DiskOp>>,
    answers: Receiver<Vec<DiskDone>>,
}

impl Disk {
    /// Opens (or makes) the folder and starts the thread.
    ///
    /// # Errors
    /// When the folder cannot be had.
    pub fn start(dir: &Path, waker: Waker) -> io::Result<Disk> {
        let mut files = Performer(DiskFiles::open(dir)?);
        if !files.0.is_direct() {
            tracing::info!("store {}: this file system takes no direct writes: through the page cache", dir.display());
        }
        let (operations, inbox) = channel::<Vec<DiskOp>>();
        let (outbox, answers) = channel();
        std::thread::Builder::new().name("disk".into()).spawn(move || {
            while let Ok(mut batch) = inbox.recv() {
                while let Ok(more) = inbox.try_recv() {
                    batch.extend(more);
                }
                let done = files.perform(batch);
                if outbox.send(done).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Disk { queued: Vec::new(), outstanding: 0, operations, answers })
    }
    /// Queues an operation; it begins at the end of the turn.
    pub fn push(&mut self, operation: DiskOp) {
        self.outstanding += 1;
        self.queued.push(operation);
    }
    /// Hands over what is queued.
    pub fn flush(&mut self) {
        if !self.queued.is_empty() {
            let _ = self.operations.send(std::mem::take(&mut self.queued));
        }
    }
    /// Collects what is done.
    pub fn answers(&mut self, inputs: &mut VecDeque<Input>) {
        while let Ok(done) = self.answers.try_recv() {
            self.outstanding = self.outstanding.saturating_sub(done.len() as u64);
            inputs.extend(done.into_iter().map(Input::DiskDone));
        }
    }
    /// Whether nothing is queued or under way.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }
}

/// What a failure is to the store: no space, no quota and a limit on the size of files are a full disk.
fn disk_error(kind: ErrorKind) -> DiskError {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => DiskError::Full,
        _ => DiskError::Io,
    }
}

/// Performs operations on the files.
#[derive(Debug)]
struct Performer(DiskFiles);

impl Performer {
    fn perform(&mut self, batch: Vec<DiskOp>) -> Vec<DiskDone> {
        batch
            .into_iter()
            .map(|operation| {
                let result = self.one(operation.action).map_err(|why| {
                    tracing::error!("store {}: {why}", self.0.dir().display());
                    disk_error(why.kind())
                });
                DiskDone { id: operation.id, result }
            })
            .collect()
    }
    fn one(&mut self, action: DiskAction) -> io::Result<DiskAnswer> {
        match action {
            DiskAction::List => return Ok(DiskAnswer::Files(self.0.list()?)),
            DiskAction::Create { file } => self.0.create(file)?,
            DiskAction::Write { file, offset, data } => self.write(file, offset, &data)?,
            DiskAction::Sync { file } => self.0.sync(file)?,
            DiskAction::Read { file, offset, len } => return Ok(DiskAnswer::Data(self.0.read(file, offset, len)?)),
            DiskAction::Truncate { file, len } => self.0.truncate(file, len)?,
            DiskAction::Remove { file } => self.0.remove(file)?,
        }
        Ok(DiskAnswer::Done)
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
        self.0.write(file, offset, &mut slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Bytes;

    #[test]
    fn every_limit_on_space_is_a_full_disk() {
        // Linux's numbers.
        let [io, file_too_large, no_space, quota] = [5, 27, 28, 122];
        let told = |errno| disk_error(std::io::Error::from_raw_os_error(errno).kind());
        assert_eq!([file_too_large, no_space, quota].map(told), [DiskError::Full; 3]);
        assert_eq!(told(io), DiskError::Io);
    }

    #[test]
    fn operations_are_done_in_order_and_survive_the_thread() {
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
            let result = |input| if let Input::DiskDone(done) = input { done.result } else { panic!() };
            inputs.into_iter().map(result).collect::<Vec<_>>()
        };
        let mut data = Payload::from(&b"hello "[..]);
        data.push_bytes(Bytes::from_static(b"disk"));
        let done = run(vec![
            DiskAction::Create { file: 3 },
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
            DiskAction::Remove { file: 3 },
            DiskAction::List,
            DiskAction::Sync { file: 3 },
        ]);
        assert_eq!(done[1], Ok(DiskAnswer::Data(Bytes::from_static(&[0]))));
        assert_eq!(done[3], Ok(DiskAnswer::Files(vec![])));
        assert_eq!(done[4], Err(DiskError::Io));
    }
}

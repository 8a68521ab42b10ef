//! Receiver of files and bundles. A delivery is accepted only once its bytes are on disk. Deliveries that arrive fast
//! are synced and accepted in groups; while one group is synced, the next deliveries are read.

use super::shelf::Shelf;
use crate::client::{Client, ReadySource};
use crate::stop::StopWatch;
use crate::{clock, connect};
use anyhow::anyhow;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for which a receiver tries to restore a lost connection to the node.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

/// Maximum number of deliveries read before the first is accepted.
const WINDOW: u32 = 1024;
/// Maximum number of deliveries synced and accepted together: at most half of a node's window for one application, so
/// that the node can send the other half meanwhile.
const GROUP: usize = 128;
/// Payload bytes after which a group is synced; meanwhile the node sends further deliveries.
const GROUP_BYTES: u64 = 8 << 20;
/// Time for which a smaller group waits for further deliveries.
const PAUSE: Duration = Duration::from_micros(500);

/// Interval at which the stop flag is read.
const ATTENTION: Duration = Duration::from_millis(50);
/// Time in which a delivery that has begun may end after the stop.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes between two reports of progress.
const PROGRESS_STEP: u64 = 4 << 20;

/// Parameters of [`receive`].
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Service or endpoint ID to register at.
    pub service: String,
    /// Folder for received files and bundles; `None` to pass payloads to the caller.
    pub out: Option<PathBuf>,
    /// Number of bundles after which to stop; `None` for no limit.
    pub count: Option<u64>,
    /// Number of complete files after which to stop; `None` for no limit.
    pub files: Option<u64>,
    /// Time without a delivery after which to stop; `None` to wait forever.
    pub timeout: Option<Duration>,
    /// Secret that all connections to the endpoint must present.
    pub secret: String,
}

impl ReceiveOptions {
    /// Adds to an error about received data the folder, and what helps; `whole` has the bundles and files that are kept.
    fn explain(&self, why: anyhow::Error, whole: ReceivedCounts) -> anyhow::Error {
        let Some(out) = &self.out else { return why };
        let kind = why.chain().find_map(|why| why.downcast_ref::<io::Error>()).map(io::Error::kind);
        let place = format!("the folder {}: {why:#}", out.display());
        match kind {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) => anyhow!(
                "{place}\nwhole there from this run: bundles {}, files {}\n\
                 hint: make room on that disk, then run the same command again: the node keeps what was not accepted",
                whole.bundles,
                whole.files
            ),
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                crate::BadInput(format!("{place}\nhint: --out names a folder that this user may write to")).into()
            }
            _ => anyhow!("{place}"),
        }
    }
}

/// Event of the reception, for the caller.
pub enum Received {
    /// Progress of the reception.
    Progress {
        /// Payload bytes of all bundles received so far.
        bytes: u64,
    },
    /// A complete file.
    File {
        /// Name that the sender gave.
        name: String,
        /// Path under which the file is stored.
        path: PathBuf,
        /// Length in bytes.
        bytes: u64,
        /// SHA-256 of the received file, hexadecimal.
        sha256: String,
        /// Whether the digest equals the sender's.
        verified: bool,
        /// Time from the first piece to the last, in s, as far as this run received them.
        seconds: f64,
    },
    /// A bundle that is not a piece of a file.
    Bundle {
        /// Source endpoint ID.
        source: String,
        /// Payload bytes, without the header of a piece.
        bytes: u64,
        /// Payload, if there is no folder; else empty.
        payload: Vec<u8>,
        /// Path of the file with the payload, if there is a folder.
        path: Option<PathBuf>,
        /// Name of the file of which this is a piece; only if there is no folder.
        piece_of: Option<String>,
        /// Whether an earlier run may have passed the bundle on without accepting it. With a folder, such repetitions
        /// are dropped.
        redelivered: bool,
    },
}

/// Numbers of bundles and files received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedCounts {
    /// Number of bundles, pieces of files included.
    pub bundles: u64,
    /// Number of complete files.
    pub files: u64,
}

/// Receives until a limit or the timeout is reached or `stop` is set, calls `tell` with each event, and returns the numbers received.
/// Accepts a delivery only once its bytes were passed on or, with a folder, are on disk.
///
/// # Errors
/// If the node is not reachable for a minute, the folder cannot be written or is used by another receiver, or `tell`
/// fails.
pub fn receive(
    at: &str,
    options: &ReceiveOptions,
    stop: &Arc<AtomicBool>,
    tell: impl FnMut(Received) -> io::Result<()>,
) -> anyhow::Result<ReceivedCounts> {
    let shelf = Shelf::open(options.out.as_deref());
    let shelf = shelf.map_err(|why| options.explain(why, ReceivedCounts::default()))?;
    let client = subscribe(at, options)?;
    let mut watch = StopWatch::new(stop, GRACE, &[&client])?;
    let mut receiver = Receiver {
        client,
        stop,
        shelf,
        options,
        tell,
        came: ReceivedCounts::default(),
        bytes: 0,
        unanswered: 0,
        settling: 0,
    };
    // Completes files that an earlier run had received when it was killed.
    receiver.settle()?;
    while !receiver.has_enough() {
        match receiver.next() {
            Ok(()) => {}
            Err(Lost::Quiet | Lost::Stopped) => break,
            Err(Lost::Connection(_)) if stop.load(Ordering::Relaxed) => break,
            Err(Lost::Connection(why)) => {
                crate::tell(&format!("connection to the node lost ({why}); connecting again"));
                // The node repeats deliveries that were not accepted; syncing first records them as known.
                receiver.settle()?;
                let Some(client) = reconnect(at, options, stop)? else { break };
                watch = StopWatch::new(stop, GRACE, &[&client])?;
                receiver.client = client;
            }
            Err(Lost::Ours(why)) => {
                // Accepts the deliveries that can still be synced, so that the next run needs no space for them. After
                // a failed group it accepts nothing: an acceptance always applies to the oldest unanswered delivery.
                let _ = receiver.settle();
                let unsettled = (receiver.unanswered + receiver.settling) as u64;
                let bundles = receiver.came.bundles.saturating_sub(unsettled);
                return Err(options.explain(why, ReceivedCounts { bundles, ..receiver.came }));
            }
        }
    }
    receiver.settle()?;
    drop(watch);
    Ok(receiver.came)
}

struct Receiver<'a, T> {
    client: Client,
    stop: &'a AtomicBool,
    shelf: Shelf,
    options: &'a ReceiveOptions,
    tell: T,
    came: ReceivedCounts,
    /// Payload bytes received so far.
    bytes: u64,
    /// Number of deliveries read and not yet in a group.
    unanswered: usize,
    /// Number of deliveries in the group that is being synced.
    settling: usize,
}

/// Reason to stop waiting for deliveries.
enum Lost {
    /// The timeout passed.
    Quiet,
    /// The stop flag is set.
    Stopped,
    Connection(io::Error),
    Ours(anyhow::Error),
}
impl From<anyhow::Error> for Lost {
    fn from(why: anyhow::Error) -> Lost {
        Lost::Ours(why)
    }
}

impl<T: FnMut(Received) -> io::Result<()>> Receiver<'_, T> {
    fn has_enough(&self) -> bool {
        let enough = |limit: Option<u64>, n: u64| limit.is_some_and(|limit| n >= limit);
        let files = || self.came.files + self.shelf.whole() as u64;
        enough(self.options.count, self.came.bundles)
            || (self.options.files.is_some() && enough(self.options.files, files()))
    }
    /// Reads the next delivery. While it waits, syncs and accepts earlier ones, once the group is full or no further
    /// delivery has arrived.
    fn next(&mut self) -> Result<(), Lost> {
        loop {
            let waits = self.unanswered > 0;
            if waits && (self.unanswered >= GROUP || self.shelf.unsettled() >= GROUP_BYTES) {
                self.finish()?;
                self.begin()?;
            }
            let alone = self.unanswered > 0 && !self.shelf.is_settling();
            let time = if alone { Some(PAUSE) } else { self.options.timeout };
            match self.wait(time)? {
                ReadySource::Node => return self.take(),
                ReadySource::Other => self.finish()?,
                ReadySource::Nothing if alone => self.begin()?,
                ReadySource::Nothing if self.shelf.is_settling() => self.finish()?,
                ReadySource::Nothing => return Err(Lost::Quiet),
            }
        }
    }
    /// Waits as [`Client::wait`] does, and watches the stop flag meanwhile.
    fn wait(&self, time: Option<Duration>) -> Result<ReadySource, Lost> {
        let began = clock::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Lost::Stopped);
            }
            let left = time.map(|time| time.saturating_sub(clock::now().since(began)));
            let step = left.unwrap_or(ATTENTION).min(ATTENTION);
            match self.client.wait(self.shelf.done(), Some(step)).map_err(Lost::Connection)? {
                ReadySource::Nothing if left.is_none_or(|left| left > step) => {}
                ready => return Ok(ready),
            }
        }
    }
    fn take(&mut self) -> Result<(), Lost> {
        let begun = self.bytes;
        let taken = match self.client.arriving() {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(Lost::Quiet),
            Err(why) => Err(why),
            Ok(mut arriving) => {
                let adu = arriving.adu.clone();
                let mut counted = Counted { bytes: &mut arriving, count: &mut self.bytes, tell: &mut self.tell };
                let taken = self.shelf.take(&adu, &mut counted);
                match (taken, arriving.lost()) {
                    (Err(_), Some(kind)) => Err(kind.into()),
                    (taken, _) => Ok(taken?),
                }
            }
        };
        // Bytes of a partial delivery do not count: the node repeats it.
        if let Err(why) = taken {
            self.bytes = begun;
            return Err(Lost::Connection(why));
        }
        self.unanswered += 1;
        self.came.bundles += 1;
        Ok(())
    }
    /// Syncs and accepts everything received.
    fn settle(&mut self) -> anyhow::Result<()> {
        self.finish()?;
        self.begin()?;
        self.finish()
    }
    fn begin(&mut self) -> anyhow::Result<()> {
        self.settling = std::mem::take(&mut self.unanswered);
        self.shelf.begin()?;
        // Without a folder there is no sync to wait for.
        if self.shelf.done().is_none() { self.finish() } else { Ok(()) }
    }
    /// Waits for the sync, reports the group to the caller, and accepts its deliveries.
    fn finish(&mut self) -> anyhow::Result<()> {
        if !self.shelf.is_settling() {
            return Ok(());
        }
        let told = self.shelf.finish()?;
        (self.tell)(Received::Progress { bytes: self.bytes })?;
        for event in told {
            self.came.files += u64::from(matches!(event, Received::File { .. }));
            (self.tell)(event)?;
        }
        // An error is ignored here: a lost connection shows at the next read.
        let _ = self.client.taken_all(std::mem::take(&mut self.settling));
        Ok(())
    }
}

/// Reader that reports progress every [`PROGRESS_STEP`] bytes.
struct Counted<'a, R, T> {
    bytes: &'a mut R,
    count: &'a mut u64,
    tell: &'a mut T,
}
impl<R: Read, T: FnMut(Received) -> io::Result<()>> Read for Counted<'_, R, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read(buffer)?;
        let before = *self.count / PROGRESS_STEP;
        *self.count += n as u64;
        if *self.count / PROGRESS_STEP > before {
            (self.tell)(Received::Progress { bytes: *self.count })?;
        }
        Ok(n)
    }
}

fn subscribe(at: &str, options: &ReceiveOptions) -> anyhow::Result<Client> {
    let mut client = connect(at)?;
    let endpoint = client.endpoint(&options.service);
    // The node delivers no more bundles than this run accepts; the others stay in its store for the next receiver.
    let window = options.count.map_or(WINDOW, |count| u32::try_from(count).unwrap_or(WINDOW).clamp(1, WINDOW));
    client.configure(&endpoint, &options.secret, window)?;
    client.set_read_timeout(options.timeout)?;
    Ok(client)
}

/// Connects again; `None` if `stop` is set first.
fn reconnect(at: &str, options: &ReceiveOptions, stop: &AtomicBool) -> anyhow::Result<Option<Client>> {
    let began = clock::now();
    loop {
        // A restarting node needs a moment.
        std::thread::sleep(Duration::from_millis(100));
        match subscribe(at, options) {
            Ok(client) => return Ok(Some(client)),
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
            Err(why) if clock::now().since(began) > RECONNECT_FOR => return Err(why),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse, AapStatus, BundleAdu};
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::thread::JoinHandle;

    #[test]
    fn full_disk_names_folder_and_remedy() {
        let options = options(Path::new("/in"));
        let full = io::Error::from(ErrorKind::StorageFull);
        let said = options.explain(full.into(), ReceivedCounts { bundles: 3, files: 1 }).to_string();
        assert!(said.starts_with("the folder /in: ") && said.contains("bundles 3, files 1\nhint: make room"), "{said}");
        let locked = options.explain(io::Error::from(ErrorKind::PermissionDenied).into(), ReceivedCounts::default());
        assert!(locked.is::<crate::BadInput>() && locked.to_string().contains("hint: --out names"), "{locked}");
    }

    /// Simulates a node that delivers these payloads; returns the number of bytes that the receiver answers before it
    /// disconnects.
    fn node(path: &Path, payloads: Vec<Vec<u8>>) -> JoinHandle<usize> {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
            assert!(socket.read(&mut [0; 256]).unwrap() > 0);
            let mut out = BytesMut::new();
            proto::frame(&AapResponse::new(AapStatus::Success), &mut out);
            for (n, payload) in payloads.iter().enumerate() {
                let adu = BundleAdu {
                    src_eid: "ipn:2.9".into(),
                    sequence_number: n as u64,
                    payload_length: payload.len() as u64,
                    ..Default::default()
                };
                proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
                out.extend_from_slice(payload);
            }
            let _ = socket.write_all(&out);
            let mut heard = Vec::new();
            let _ = socket.read_to_end(&mut heard);
            heard.len()
        })
    }
    fn options(out: &Path) -> ReceiveOptions {
        ReceiveOptions {
            service: "64".into(),
            out: Some(out.to_path_buf()),
            count: None,
            files: None,
            timeout: Some(Duration::from_secs(5)),
            secret: "s".into(),
        }
    }

    #[test]
    fn arrivals_during_sync_wait_for_next() {
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("node.sock"), folder.path().join("in"));
        let node = node(&path, vec![vec![1; GROUP_BYTES as usize + 1], vec![2; 9]]);
        let failed = receive(path.to_str().unwrap(), &options(&out), &Arc::default(), |told| {
            if matches!(told, Received::Bundle { .. }) {
                // The second bundle's file disappears with the folder.
                std::fs::remove_dir_all(&out)?;
            }
            Ok(())
        });
        assert!(failed.is_err());
        let mut answer = BytesMut::new();
        proto::frame(&AapResponse::new(AapStatus::Success), &mut answer);
        assert_eq!(node.join().unwrap(), answer.len(), "one answer");
    }

    #[test]
    fn failed_group_answers_nothing_behind_it() {
        // Acceptances count from the oldest delivery: one for a later delivery would be taken for the failed one.
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("node.sock"), folder.path().join("in"));
        let node = node(&path, vec![vec![1; GROUP_BYTES as usize + 1], vec![2; 9], vec![3; 9]]);
        let failed = receive(path.to_str().unwrap(), &options(&out), &Arc::default(), |_| {
            // A file unlinked before its sync is lost: its group must fail.
            let _ = std::fs::remove_file(out.join(".bundle-1.new"));
            Ok(())
        });
        let why = format!("{:#}", failed.expect_err("the first file is gone"));
        assert!(why.contains("cannot be stored durably"), "{why}");
        assert_eq!(node.join().unwrap(), 0, "bytes of answers");
        let known = std::fs::read_to_string(out.join(".taken")).unwrap();
        assert!(known.lines().all(|line| line.starts_with("0 0 ")), "later bundles are not recorded either: {known}");
    }
}

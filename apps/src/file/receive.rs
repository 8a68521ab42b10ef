//! The receiving side: a delivery is answered only when its bytes are written, several together where they come fast;
//! while those wait for the disk the next are taken.

use super::shelf::Shelf;
use crate::client::{Client, ReadySource};
use crate::{clock, connect};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::time::Duration;

/// How long a lost connection to the node is tried again.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

/// Deliveries taken before the first is answered, where the node has so many.
const WINDOW: u32 = 1024;
/// Deliveries and payload bytes that wait for the disk and are answered together at most: no more than half of what a node
/// has under way for one application, so that it sends on meanwhile.
const GROUP: usize = 128;
const GROUP_BYTES: u64 = 8 << 20;
/// How long fewer wait for company.
const PAUSE: Duration = Duration::from_micros(500);

/// Bytes of one bundle after which progress is told.
const PROGRESS_STEP: u64 = 4 << 20;

/// How to receive.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Service to receive at.
    pub service: String,
    /// Folder for what is received.
    pub out: Option<PathBuf>,
    /// Stop after so many bundles.
    pub count: Option<u64>,
    /// Stop after so many files.
    pub files: Option<u64>,
    /// Stop when nothing came for so long.
    pub timeout: Option<Duration>,
    /// Secret of the endpoint.
    pub secret: String,
}

impl ReceiveOptions {
    /// Why the folder takes no more.
    fn lost(&self, why: anyhow::Error) -> Lost {
        Lost::Ours(match &self.out {
            Some(out) => why.context(format!("the folder {}", out.display())),
            None => why,
        })
    }
}

/// What the caller hears.
pub enum Received {
    /// Bytes so far.
    Progress {
        /// Of all bundles.
        bytes: u64,
    },
    /// A whole file.
    File {
        /// Its name as sent.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// Its digest as computed here.
        sha256: String,
        /// Whether that is what was sent.
        verified: bool,
        /// Time from its first part to its last.
        seconds: f64,
    },
    /// A bundle that is no part of a file.
    Bundle {
        /// Source.
        source: String,
        /// Bytes of its payload; without the header, where it is a piece of a file.
        bytes: u64,
        /// Those, where there is no folder.
        payload: Vec<u8>,
        /// Where it was written, when there is a folder.
        path: Option<PathBuf>,
        /// The file it is a piece of, which there is no folder to put together in.
        piece_of: Option<String>,
        /// Whether it may have been handed on before, by a run that ended before it answered for it. Where there is a
        /// folder, what was is not told again.
        redelivered: bool,
    },
}

/// What came before it was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedCounts {
    /// Bundles.
    pub bundles: u64,
    /// Whole files.
    pub files: u64,
}

/// Receives until one of the limits or the timeout, and says what came; a delivery is answered only when its bytes are
/// written and, where there is a folder, on disk.
///
/// # Errors
/// When the node is not there or stays away, or the folder cannot be written or is another receiver's.
pub fn receive(
    at: &str,
    options: &ReceiveOptions,
    tell: impl FnMut(Received) -> io::Result<()>,
) -> anyhow::Result<ReceivedCounts> {
    let shelf = Shelf::open(options.out.as_deref())?;
    let client = subscribe(at, options)?;
    let mut receiver = Receiver {
        client,
        shelf,
        options,
        tell,
        came: ReceivedCounts::default(),
        bytes: 0,
        unanswered: 0,
        settling: 0,
    };
    // What a run before was killed in the middle of.
    receiver.settle()?;
    while !receiver.has_enough() {
        match receiver.next() {
            Ok(()) => {}
            Err(Lost::Quiet) => break,
            Err(Lost::Connection(why)) => {
                eprintln!("connection to the node lost ({why}); connecting again");
                // What was not answered comes again, and is known by then.
                receiver.settle()?;
                receiver.client = reconnect(at, options)?;
            }
            Err(Lost::Ours(why)) => {
                // What was taken before lasts, and is answered for: the next run has that much less to find room for. Not
                // where something before it does not last: answers count from the oldest.
                let _ = receiver.settle();
                return Err(why);
            }
        }
    }
    receiver.settle()?;
    Ok(receiver.came)
}

struct Receiver<'a, T> {
    client: Client,
    shelf: Shelf,
    options: &'a ReceiveOptions,
    tell: T,
    came: ReceivedCounts,
    /// Payload bytes that came.
    bytes: u64,
    /// Deliveries that the node hears no answer about yet.
    unanswered: usize,
    /// Those that are made to last now.
    settling: usize,
}

/// Why there is no delivery.
enum Lost {
    /// Nothing came for so long.
    Quiet,
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
    /// Takes the next delivery. What was taken before is made to last and answered meanwhile, once it is enough or nothing
    /// more is here.
    fn next(&mut self) -> Result<(), Lost> {
        loop {
            let waits = self.unanswered > 0;
            if waits && (self.unanswered >= GROUP || self.shelf.unsettled() >= GROUP_BYTES) {
                self.finish()?;
                self.begin()?;
            }
            let alone = self.unanswered > 0 && !self.shelf.is_settling();
            let time = if alone { Some(PAUSE) } else { self.options.timeout };
            match self.client.wait(self.shelf.done(), time).map_err(Lost::Connection)? {
                ReadySource::Node => return self.take(),
                ReadySource::Other => self.finish()?,
                ReadySource::Nothing if alone => self.begin()?,
                ReadySource::Nothing if self.shelf.is_settling() => self.finish()?,
                ReadySource::Nothing => return Err(Lost::Quiet),
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
                    (taken, _) => Ok(taken.map_err(|why| self.options.lost(why))?),
                }
            }
        };
        if let Err(why) = taken {
            self.bytes = begun;
            return Err(Lost::Connection(why));
        }
        self.unanswered += 1;
        self.came.bundles += 1;
        Ok(())
    }
    /// Makes all that came last, and answers for it.
    fn settle(&mut self) -> anyhow::Result<()> {
        self.finish()?;
        self.begin()?;
        self.finish()
    }
    fn begin(&mut self) -> anyhow::Result<()> {
        self.settling = std::mem::take(&mut self.unanswered);
        self.shelf.begin()?;
        // Where nothing goes to disk there is nothing to wait for.
        if self.shelf.done().is_none() { self.finish() } else { Ok(()) }
    }
    /// Waits for the disk, tells what was made to last, and answers for all of it.
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
        // Where the node is gone, the next read says so.
        let _ = self.client.taken_all(std::mem::take(&mut self.settling));
        Ok(())
    }
}

/// Tells how many bytes were read, every so often.
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
    let window = options.count.map_or(WINDOW, |count| u32::try_from(count).unwrap_or(WINDOW).clamp(1, WINDOW));
    client.configure(&endpoint, &options.secret, window)?;
    client.set_read_timeout(options.timeout)?;
    Ok(client)
}

fn reconnect(at: &str, options: &ReceiveOptions) -> anyhow::Result<Client> {
    let began = clock::now();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        match subscribe(at, options) {
            Ok(client) => return Ok(client),
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

    /// A node that delivers these and hears what it is answered, in bytes, until the receiver is gone.
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
        let failed = receive(path.to_str().unwrap(), &options(&out), |told| {
            if matches!(told, Received::Bundle { .. }) {
                // What came behind it goes.
                std::fs::remove_dir_all(&out)?;
            }
            Ok(())
        });
        assert!(failed.is_err());
        let mut answer = BytesMut::new();
        proto::frame(&AapResponse::new(AapStatus::Success), &mut answer);
        assert_eq!(node.join().unwrap(), answer.len(), "one answer");
    }

    /// Answers count from the oldest: one for a later delivery would be taken for it.
    #[test]
    fn failed_group_answers_nothing_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("node.sock"), folder.path().join("in"));
        let node = node(&path, vec![vec![1; GROUP_BYTES as usize + 1], vec![2; 9], vec![3; 9]]);
        let failed = receive(path.to_str().unwrap(), &options(&out), |_| {
            // Somebody takes away what is being written.
            let _ = std::fs::remove_file(out.join(".bundle-1.new"));
            Ok(())
        });
        let why = format!("{:#}", failed.expect_err("the first cannot be named"));
        assert!(why.contains("cannot be made to last"), "{why}");
        assert_eq!(node.join().unwrap(), 0, "bytes of answers");
        let known = std::fs::read_to_string(out.join(".taken")).unwrap();
        assert!(known.lines().all(|line| line.starts_with("0 0 ")), "what came later is not known either: {known}");
    }
}

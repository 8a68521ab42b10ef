//! The receiving side: a delivery is answered only when its bytes are written.

use super::shelf::Shelf;
use crate::client::Client;
use crate::{clock, connect};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::time::Duration;

/// How long a lost connection to the node is tried again.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

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
    },
}

/// What came before it was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Bundles.
    pub bundles: u64,
    /// Whole files.
    pub files: u64,
}

/// Receives until one of the limits or the timeout, and says what came; a delivery is answered only when its bytes are written.
///
/// # Errors
/// When the node is not there or stays away, or the folder cannot be written.
pub fn receive(
    at: &str,
    options: &ReceiveOptions,
    mut tell: impl FnMut(Received) -> io::Result<()>,
) -> anyhow::Result<Came> {
    let mut shelf = Shelf::open(options.out.as_deref())?;
    let mut client = subscribe(at, options)?;
    let (mut came, mut bytes) = (Came::default(), 0);
    loop {
        let begun = bytes;
        let taken = match client.arriving() {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(came),
            Err(why) => Err(why),
            Ok(mut arriving) => {
                let adu = arriving.adu.clone();
                let mut counted = Counted { bytes: &mut arriving, count: &mut bytes, tell: &mut tell };
                let taken = shelf.take(&adu, &mut counted);
                match (taken, arriving.lost()) {
                    (Err(_), Some(kind)) => Err(kind.into()),
                    (taken, _) => Ok(taken?),
                }
            }
        };
        let event = match taken {
            Ok(event) => event,
            Err(why) => {
                bytes = begun;
                eprintln!("connection to the node lost ({why}); connecting again");
                client = reconnect(at, options)?;
                continue;
            }
        };
        came.bundles += 1;
        tell(Received::Progress { bytes })?;
        if let Some(event) = event {
            came.files += u64::from(matches!(event, Received::File { .. }));
            tell(event)?;
        }
        client.taken(true)?;
        let enough = |limit: Option<u64>, n: u64| limit.is_some_and(|limit| n >= limit);
        if enough(options.count, came.bundles) || enough(options.files, came.files) {
            return Ok(came);
        }
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
    client.configure(&endpoint, &options.secret, 1)?;
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

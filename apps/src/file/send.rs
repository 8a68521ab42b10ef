//! Sender of files: splits them into bundles, paces these, and retries when the node's store is full.

use super::{Header, each_piece, head, hex};
use crate::client::Client;
use crate::stop::{StopWatch, sleep};
use crate::{clock, connect, passing_service, random};
use anyhow::{Context, anyhow, bail};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_base::DataRate;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for which a refused bundle is retried: a full store empties with the next contact.
const RETRY_FOR: Duration = Duration::from_secs(600);
/// Interval at which answers are read during a pause.
const GLANCE: Duration = Duration::from_millis(20);
/// Time without an answer after which a message is printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Parameters of [`send`].
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Destination endpoint ID.
    pub to: String,
    /// Bytes of the source in each bundle.
    pub bundle_size: u64,
    /// Lifetime of each bundle, in ms.
    pub lifetime_ms: u64,
    /// Class of service: 1 bulk, 2 normal, 3 expedited.
    pub priority: u32,
    /// Maximum number of bundles submitted and not yet accepted.
    pub window: u64,
    /// Service of this sender; `None` for a random one.
    pub service: Option<String>,
    /// Whether payloads are sent without the headers that mark pieces of a file.
    pub raw: bool,
    /// Pace at which bundles are sent.
    pub pace: SendPace,
    /// Whether to request custody of each bundle.
    pub custody: bool,
    /// Flags of the bundle processing control field that request status reports.
    pub reports: u64,
    /// Endpoint ID to which status reports are sent.
    pub report_to: String,
    /// Bytes of the source in each of the first bundles, instead of `bundle_size`; 0 makes an empty payload.
    pub sizes: Vec<u64>,
}
impl SendOptions {
    fn size(&self, bundle: u64) -> u64 {
        let given = usize::try_from(bundle).ok().and_then(|index| self.sizes.get(index).copied());
        given.unwrap_or(self.bundle_size.max(1))
    }
}

/// Pace of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendPace {
    /// As fast as the node accepts bundles.
    #[default]
    Flat,
    /// At this rate, counted in bytes of the source.
    Rate(DataRate),
    /// One bundle per interval.
    Interval(Duration),
}
impl SendPace {
    /// Time after the start at which the next bundle is due, after this many bundles and bytes.
    pub fn due(self, bundles: u64, bytes: u64) -> Duration {
        match self {
            SendPace::Flat => Duration::ZERO,
            SendPace::Rate(rate) => rate.time_for(bytes),
            SendPace::Interval(interval) => {
                let each = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(each.saturating_mul(bundles))
            }
        }
    }
}

/// Source of the bytes to send, with its name.
pub struct SendSource {
    name: String,
    reader: Box<dyn Read>,
    len: Option<u64>,
    /// Regular file, from which long bundles are read while they are sent.
    file: Option<Arc<File>>,
    /// Offset of the next byte.
    at: u64,
}
impl SendSource {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// If it cannot be opened, or is a folder.
    pub fn open(path: &Path) -> io::Result<SendSource> {
        if path.as_os_str() == "-" {
            return Ok(SendSource {
                name: "stdin".into(),
                reader: Box::new(io::stdin()),
                len: None,
                file: None,
                at: 0,
            });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "is a folder"));
        }
        let name = path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
        if !metadata.is_file() {
            return Ok(SendSource { name, reader: Box::new(file), len: None, file: None, at: 0 });
        }
        let file = Arc::new(file);
        // Read with `read_at`, which leaves the file's position alone, so that ranges can be read independently.
        let reader = Box::new(Stretch { file: file.clone(), at: 0, end: u64::MAX });
        Ok(SendSource { name, reader, len: Some(metadata.len()), file: Some(file), at: 0 })
    }
    /// Creates a source that consists of this text.
    pub fn text(text: String) -> SendSource {
        let len = Some(text.len() as u64);
        SendSource { name: "text".into(), reader: Box::new(io::Cursor::new(text)), len, file: None, at: 0 }
    }
    /// Takes the next `size` bytes, or the rest if it is shorter.
    fn take(&mut self, size: u64) -> anyhow::Result<FileChunk> {
        let hint = "hint: nothing more is sent; name a file that can be read to its end";
        self.read(size).map_err(|why| anyhow!("{} cannot be read at byte {}: {why}\n{hint}", self.name, self.at))
    }
    fn read(&mut self, size: u64) -> io::Result<FileChunk> {
        if let Some(file) = self.file.clone().filter(|_| size > IN_MEMORY) {
            let end = file.metadata()?.len().min(self.at.saturating_add(size)).max(self.at);
            let stretch = Stretch { file: file.clone(), at: self.at, end };
            self.at = end;
            self.reader = Box::new(Stretch { file, at: end, end: u64::MAX });
            return Ok(FileChunk::File(stretch));
        }
        let mut chunk = Vec::new();
        (&mut self.reader).take(size).read_to_end(&mut chunk)?;
        self.at += chunk.len() as u64;
        Ok(FileChunk::Memory(chunk))
    }
    /// Length of the source in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        self.len
    }
}

/// Longest payload kept in memory, in bytes; longer ones are read from their file while they are sent.
const IN_MEMORY: u64 = 16 << 20;

/// Range of a file, read on demand.
#[derive(Clone)]
struct Stretch {
    file: Arc<File>,
    at: u64,
    end: u64,
}
impl Read for Stretch {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let n = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Part of a source that one bundle carries.
enum FileChunk {
    Memory(Vec<u8>),
    File(Stretch),
}
impl FileChunk {
    fn len(&self) -> u64 {
        match self {
            FileChunk::Memory(bytes) => bytes.len() as u64,
            FileChunk::File(stretch) => stretch.end - stretch.at,
        }
    }
    fn hash(&self, hash: &mut Sha256) -> io::Result<()> {
        match self {
            FileChunk::Memory(bytes) => hash.update(bytes),
            FileChunk::File(stretch) => {
                return each_piece(&mut stretch.clone(), self.len(), |piece| {
                    hash.update(piece);
                    Ok(())
                });
            }
        }
        Ok(())
    }
}

/// Payload of one bundle: the header (empty if raw), and its part of the source.
struct Payload {
    head: Vec<u8>,
    chunk: FileChunk,
}
impl Payload {
    fn send(&self, client: &mut Client, adu: BundleAdu, told: impl FnMut(u64)) -> io::Result<()> {
        let length = self.head.len() as u64 + self.chunk.len();
        match &self.chunk {
            FileChunk::Memory(bytes) => client.send(adu, &[&self.head[..], bytes].concat()),
            FileChunk::File(stretch) => client.send_from(adu, (&self.head, &mut stretch.clone()), length, told),
        }
    }
}

/// Summary of a source that was sent, or of the part of it that was.
#[derive(Clone, Debug)]
pub struct SendReport {
    /// Name of the source.
    pub name: String,
    /// Number of bundles.
    pub bundles: u64,
    /// Bytes of the source that were sent.
    pub bytes: u64,
    /// SHA-256 of the source, hexadecimal; `None` if the sender was stopped, or failed, before its end.
    pub sha256: Option<String>,
    /// Failure that ended the sender after the node had accepted a part, with a hint.
    pub failed: Option<String>,
}

/// Sends a source and waits until the node has accepted all of it, or until `stop` is set. Calls `progress` with the
/// number of bytes sent or accepted so far.
///
/// # Errors
/// If the node is not reachable, or refuses the first bundle. The report has what fails later: that the node ends, that
/// it refuses a bundle, or that its store stays full for ten minutes.
pub fn send(
    at: &str,
    mut source: SendSource,
    options: &SendOptions,
    stop: &Arc<AtomicBool>,
    progress: impl Fn(u64),
) -> anyhow::Result<SendReport> {
    let mut client = connect(at)?;
    let _watch = StopWatch::new(stop, Duration::ZERO, &[&client])?;
    let service = options.service.clone().unwrap_or_else(passing_service);
    let endpoint = client.endpoint(&service);
    client.configure(&endpoint, &random().to_string(), 0)?;
    // Reads return after a second without an answer, so that the sender can print a message.
    client.set_read_timeout(Some(PATIENCE))?;
    let adu = BundleAdu {
        dst_eid: options.to.clone(),
        lifetime_ms: options.lifetime_ms,
        priority: options.priority,
        custody: options.custody,
        bundle_flags: options.reports,
        report_to_eid: options.report_to.clone(),
        ..Default::default()
    };
    let waiting = VecDeque::new();
    let mut window =
        SendWindow { client, adu, waiting, taken: 0, bundles: 0, told: false, stop, reason: String::new(), progress };
    let sent = send_all(&mut window, &mut source, options);
    let (sha256, failed) = match sent {
        // The watch ended the connection.
        Err(_) if stop.load(Ordering::Relaxed) => (None, None),
        Err(why) if window.bundles > 0 => (None, Some(why.to_string())),
        sent => (Some(sent?), None),
    };
    Ok(SendReport { name: source.name, bundles: window.bundles, bytes: window.taken, sha256, failed })
}

/// Sends the whole source; returns its digest.
fn send_all<F: Fn(u64)>(
    window: &mut SendWindow<'_, F>,
    source: &mut SendSource,
    options: &SendOptions,
) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    // Distinguishes files with equal names.
    let id = format!("{:016x}", random());
    let (mut offset, mut bundles) = (0, 0);
    // Pacing starts when the first bundle is ready.
    let mut began = None;
    let mut chunk = source.take(options.size(0))?;
    loop {
        let wanted = options.size(bundles + 1);
        let next = source.take(wanted)?;
        chunk.hash(&mut hash)?;
        // An empty payload that `sizes` asks for (`wanted` is 0) does not mean that the source has ended.
        let last = wanted > 0 && next.len() == 0;
        let bytes = chunk.len();
        let mut header = Header { id: id.clone(), name: source.name.clone(), offset, bytes, total: None, sha256: None };
        if last {
            header.total = Some(offset + bytes);
            header.sha256 = Some(hex(&hash.clone().finalize()));
        }
        // Only the last piece has the digest, which is why the next piece is read ahead.
        let payload = Payload { head: if options.raw { Vec::new() } else { head(&header)? }, chunk };
        let began = *began.get_or_insert_with(std::time::Instant::now);
        window.pause(options.pace.due(bundles, offset).saturating_sub(began.elapsed()))?;
        window.send(payload, bytes, options.window)?;
        offset += bytes;
        bundles += 1;
        if last {
            break;
        }
        chunk = next;
    }
    window.finish()?;
    Ok(hex(&hash.finalize()))
}

/// Bundles that were submitted and not yet answered; refused ones are retried.
struct SendWindow<'a, F> {
    client: Client,
    adu: BundleAdu,
    waiting: VecDeque<(Payload, u64)>,
    /// Bytes and bundles that the node accepted.
    taken: u64,
    bundles: u64,
    stop: &'a AtomicBool,
    /// Reason in the node's last answer.
    reason: String,
    /// Whether the message about waiting was printed.
    told: bool,
    progress: F,
}
impl<F: Fn(u64)> SendWindow<'_, F> {
    fn send(&mut self, payload: Payload, bytes: u64, window: u64) -> anyhow::Result<()> {
        while self.waiting.len() as u64 >= window {
            self.answer()?;
        }
        let before = self.taken + self.waiting.iter().map(|(_, bytes)| bytes).sum::<u64>();
        // The header does not count as progress.
        payload.send(&mut self.client, self.adu.clone(), |sent| (self.progress)(before + sent.min(bytes)))?;
        self.waiting.push_back((payload, bytes));
        Ok(())
    }
    /// Waits for the time of the next bundle, and reads answers meanwhile.
    fn pause(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = std::time::Instant::now() + time;
        loop {
            while !self.waiting.is_empty() && self.client.hears_within(Duration::ZERO)? {
                self.answer()?;
            }
            if self.stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(GLANCE), self.stop);
        }
    }
    fn answer(&mut self) -> anyhow::Result<()> {
        let began = clock::now();
        let Some((payload, bytes)) = self.waiting.pop_front() else { return Ok(()) };
        let mut status = self.response()?;
        while status == AapStatus::Error && clock::now().since(began) < RETRY_FOR {
            // The bundle is submitted again behind the waiting ones. Responses come in order of submission, so those of
            // the waiting bundles are read first.
            std::thread::sleep(Duration::from_millis(100));
            if clock::now().since(began) >= PATIENCE {
                self.tell();
            }
            let behind = self.waiting.len();
            payload.send(&mut self.client, self.adu.clone(), |_| {})?;
            for _ in 0..behind {
                let (payload, bytes) = self.waiting.pop_front().context("a response without a request")?;
                match self.response()? {
                    AapStatus::Success => self.count(bytes),
                    _ => self.resend(payload, bytes)?,
                }
            }
            status = self.response()?;
        }
        match status {
            AapStatus::Success => self.count(bytes),
            AapStatus::Error => {
                bail!(
                    "the node refuses bundles: {}\nhint: `farlink node status` shows their usage, and what helps",
                    self.reason()
                )
            }
            AapStatus::InvalidRequest if self.adu.custody => bail!(
                "the node cannot request custody of a bundle for {}\nhint: it needs [custody] in its file, a durable store, \
                 and a router that does not copy; bundles for groups or for the node itself have no custody",
                self.adu.dst_eid
            ),
            other => bail!("the node refuses a bundle for {}: {}", self.adu.dst_eid, crate::refusal(other)),
        }
        Ok(())
    }
    fn response(&mut self) -> anyhow::Result<AapStatus> {
        while !self.client.hears().map_err(|why| Self::ended(&why))? {
            if self.stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            self.tell();
        }
        let response = self.client.response().map_err(|why| Self::ended(&why))?;
        let status = response.response_status();
        self.reason = response.reason;
        Ok(status)
    }
    fn ended(why: &io::Error) -> anyhow::Error {
        anyhow!("{why}\n{}", crate::ENDED)
    }
    /// Reason why the node accepts no bundle, as far as it is known.
    fn reason(&self) -> &str {
        if self.reason.is_empty() { "its memory, its store or a quota may be full" } else { &self.reason }
    }
    /// Prints a message that the node does not accept a bundle, unless it was printed before.
    fn tell(&mut self) {
        if !std::mem::replace(&mut self.told, true) {
            let reason = self.reason();
            crate::tell(&format!(
                "the node has not accepted the bundle yet: {reason}; waiting\n\
                hint: `farlink node status` shows their usage, and what helps"
            ));
        }
    }
    fn resend(&mut self, payload: Payload, bytes: u64) -> anyhow::Result<()> {
        payload.send(&mut self.client, self.adu.clone(), |_| {})?;
        self.waiting.push_back((payload, bytes));
        Ok(())
    }
    fn count(&mut self, bytes: u64) {
        self.taken += bytes;
        self.bundles += 1;
        (self.progress)(self.taken);
    }
    fn finish(&mut self) -> anyhow::Result<()> {
        while !self.waiting.is_empty() {
            self.answer()?;
        }
        Ok(())
    }
}

//! Files in bundles: cut, sent, put together again and verified.
//!
//! Each bundle's payload is `FLF1`, the length of a JSON header (two bytes, big-endian), the header
//! `{"id","name","offset","bytes"}` and the bytes. The last one's header also has `total` and
//! `sha256`. Parts may arrive in any order and more than once.

use super::{connect, passing_service, random};
use crate::aap2::client::{Client, Delivered};
use crate::aap2::proto::{BundleAdu, Status};
use crate::clock;
use anyhow::{Context, bail};
use farlink_base::DataRate;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAGIC: &[u8; 4] = b"FLF1";
/// How long a refused bundle is tried again: a full store empties with the next contact.
const RETRY_FOR: Duration = Duration::from_secs(600);
/// How long a lost connection to the node is tried again.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
struct Header {
    id: String,
    name: String,
    offset: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// How to send.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Destination.
    pub to: String,
    /// Payload bytes of each bundle.
    pub bundle_size: u64,
    /// Lifetime in ms.
    pub lifetime_ms: u64,
    /// 1 bulk, 2 normal, 3 expedited.
    pub priority: u32,
    /// Bundles handed over before the first is answered.
    pub window: u64,
    /// Our service; random when not given.
    pub service: Option<String>,
    /// Without headers.
    pub raw: bool,
    /// When each bundle is due.
    pub pace: Pace,
    /// Payload bytes of the first bundles, in place of `bundle_size`.
    pub sizes: Vec<u64>,
}
impl SendOptions {
    fn size(&self, bundle: u64) -> u64 {
        let given = usize::try_from(bundle).ok().and_then(|index| self.sizes.get(index).copied());
        given.unwrap_or(self.bundle_size).max(1)
    }
}

/// How fast bundles are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the node takes them.
    #[default]
    Flat,
    /// Bytes at this rate.
    Rate(DataRate),
    /// One every so often.
    Interval(Duration),
}
impl Pace {
    /// Time from the start to a bundle before which so many bundles and bytes were sent.
    fn due(self, bundles: u64, bytes: u64) -> Duration {
        match self {
            Pace::Flat => Duration::ZERO,
            Pace::Rate(rate) => rate.time_for(bytes),
            Pace::Interval(interval) => {
                let each = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(each.saturating_mul(bundles))
            }
        }
    }
}

/// Where bytes come from.
pub struct Source {
    name: String,
    reader: Box<dyn Read>,
    len: Option<u64>,
}
impl Source {
    /// A file, or standard input for `-`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Source> {
        if path.as_os_str() == "-" {
            return Ok(Source { name: "stdin".into(), reader: Box::new(io::stdin()), len: None });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "is a folder\nhint: name its files"));
        }
        let name = path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
        Ok(Source { name, reader: Box::new(file), len: metadata.is_file().then_some(metadata.len()) })
    }
    /// Text.
    pub fn text(text: String) -> Source {
        let len = Some(text.len() as u64);
        Source { name: "text".into(), reader: Box::new(io::Cursor::new(text)), len }
    }
    /// Its length, where known.
    pub fn length(&self) -> Option<u64> {
        self.len
    }
}

/// What was sent.
#[derive(Clone, Debug)]
pub struct SendReport {
    /// Its name.
    pub name: String,
    /// In so many bundles.
    pub bundles: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its digest.
    pub sha256: String,
}

/// Sends a source; `progress` hears the bytes the node has taken.
///
/// # Errors
/// When the node is not there or refuses for long.
pub fn send(at: &str, mut source: Source, options: &SendOptions, progress: impl Fn(u64)) -> anyhow::Result<SendReport> {
    let mut client = connect(at)?;
    let service = options.service.clone().unwrap_or_else(passing_service);
    let endpoint = client.endpoint(&service);
    client.configure(&endpoint, &random().to_string(), 0)?;
    let adu = BundleAdu {
        dst_eid: options.to.clone(),
        lifetime_ms: options.lifetime_ms,
        priority: options.priority,
        ..Default::default()
    };
    let mut window = Window { client, adu, waiting: VecDeque::new(), taken: 0, progress };
    let mut hash = Sha256::new();
    let id = format!("{:016x}", random());
    let (mut offset, mut bundles) = (0, 0);
    let began = std::time::Instant::now();
    let mut chunk = read_chunk(&mut source.reader, options.size(0))?;
    loop {
        let next = read_chunk(&mut source.reader, options.size(bundles + 1))?;
        hash.update(&chunk);
        let last = next.is_empty();
        let bytes = chunk.len() as u64;
        let mut header = Header { id: id.clone(), name: source.name.clone(), offset, bytes, total: None, sha256: None };
        if last {
            header.total = Some(offset + bytes);
            header.sha256 = Some(hex(&hash.clone().finalize()));
        }
        let payload = if options.raw { chunk } else { encode(&header, &chunk)? };
        std::thread::sleep(options.pace.due(bundles, offset).saturating_sub(began.elapsed()));
        window.send(payload, bytes, options.window)?;
        offset += bytes;
        bundles += 1;
        if last {
            break;
        }
        chunk = next;
    }
    window.finish()?;
    Ok(SendReport { name: source.name, bundles, bytes: offset, sha256: hex(&hash.finalize()) })
}

/// Bundles handed over and not yet answered; a refused one is tried again.
struct Window<F> {
    client: Client,
    adu: BundleAdu,
    waiting: VecDeque<(Vec<u8>, u64)>,
    taken: u64,
    progress: F,
}
impl<F: Fn(u64)> Window<F> {
    fn send(&mut self, payload: Vec<u8>, bytes: u64, window: u64) -> anyhow::Result<()> {
        while self.waiting.len() as u64 >= window {
            self.answer()?;
        }
        self.client.send(self.adu.clone(), &payload)?;
        self.waiting.push_back((payload, bytes));
        Ok(())
    }
    fn answer(&mut self) -> anyhow::Result<()> {
        let began = clock::now();
        let Some((payload, bytes)) = self.waiting.pop_front() else { return Ok(()) };
        let mut status = self.client.response()?.response_status();
        while status == Status::Error && clock::now().since(began) < RETRY_FOR {
            // The answers of those behind it come first; they keep their places.
            std::thread::sleep(Duration::from_millis(100));
            let behind = self.waiting.len();
            self.client.send(self.adu.clone(), &payload)?;
            for _ in 0..behind {
                let (payload, bytes) = self.waiting.pop_front().context("an answer to nothing")?;
                match self.client.response()?.response_status() {
                    Status::Success => self.count(bytes),
                    _ => self.resend(payload, bytes)?,
                }
            }
            status = self.client.response()?.response_status();
        }
        match status {
            Status::Success => self.count(bytes),
            Status::Error => bail!("the node refuses bundles: its store is full\nhint: farlink node status shows it"),
            other => bail!("the node does not take a bundle for {}: {other:?}", self.adu.dst_eid),
        }
        Ok(())
    }
    fn resend(&mut self, payload: Vec<u8>, bytes: u64) -> anyhow::Result<()> {
        self.client.send(self.adu.clone(), &payload)?;
        self.waiting.push_back((payload, bytes));
        Ok(())
    }
    fn count(&mut self, bytes: u64) {
        self.taken += bytes;
        (self.progress)(self.taken);
    }
    fn finish(&mut self) -> anyhow::Result<()> {
        while !self.waiting.is_empty() {
            self.answer()?;
        }
        Ok(())
    }
}

fn read_chunk(reader: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::new();
    reader.take(size).read_to_end(&mut chunk)?;
    Ok(chunk)
}

fn encode(header: &Header, chunk: &[u8]) -> anyhow::Result<Vec<u8>> {
    let header = serde_json::to_vec(header)?;
    let length = u16::try_from(header.len()).context("the file's name is too long")?;
    let mut payload = Vec::with_capacity(chunk.len() + header.len() + 6);
    payload.extend_from_slice(MAGIC);
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(&header);
    payload.extend_from_slice(chunk);
    Ok(payload)
}

fn decode(payload: &[u8]) -> Option<(Header, &[u8])> {
    let rest = payload.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_at_checked(2)?;
    let (header, data) = rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let id_is_sane = !header.id.is_empty() && header.id.len() <= 32 && header.id.chars().all(|c| c.is_ascii_hexdigit());
    (id_is_sane && data.len() as u64 == header.bytes && header.offset.checked_add(header.bytes).is_some())
        .then_some((header, data))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

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
        /// Payload.
        payload: Vec<u8>,
        /// Where it was written, when there is a folder.
        path: Option<PathBuf>,
    },
}

/// Receives until one of the limits; a delivery is answered only when its bytes are written.
///
/// # Errors
/// When the node is not there or stays away, or the folder cannot be written.
pub fn receive(
    at: &str,
    options: &ReceiveOptions,
    mut tell: impl FnMut(Received) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut shelf = Shelf::open(options.out.as_deref())?;
    let mut client = subscribe(at, options)?;
    let (mut bundles, mut files, mut bytes) = (0, 0, 0);
    loop {
        let delivered = match client.delivery() {
            Ok(delivered) => delivered,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
            Err(why) => {
                eprintln!("connection to the node lost ({why}); connecting again");
                client = reconnect(at, options)?;
                continue;
            }
        };
        bundles += 1;
        bytes += delivered.payload.len() as u64;
        tell(Received::Progress { bytes })?;
        if let Some(event) = shelf.take(delivered)? {
            files += u64::from(matches!(event, Received::File { .. }));
            tell(event)?;
        }
        client.taken(true)?;
        let enough = |limit: Option<u64>, n: u64| limit.is_some_and(|limit| n >= limit);
        if enough(options.count, bundles) || enough(options.files, files) {
            return Ok(());
        }
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

/// Files being put together.
struct Shelf {
    out: Option<PathBuf>,
    parts: BTreeMap<String, Part>,
    seen: VecDeque<(String, u64, u64)>,
    /// What the run before took last: it may not have told the node any more.
    resumed: Option<(String, u64, u64)>,
    numbered: u64,
}

/// One unfinished file: `.ID.part` holds its bytes, `.ID.journal` what of it is there.
struct Part {
    data: File,
    journal: File,
    have: BTreeMap<u64, u64>,
    last: Option<Header>,
    began: farlink_base::Instant,
}

impl Shelf {
    fn open(out: Option<&Path>) -> anyhow::Result<Shelf> {
        if let Some(out) = out {
            std::fs::create_dir_all(out).with_context(|| format!("the folder {}", out.display()))?;
        }
        let mut shelf = Shelf {
            out: out.map(Path::to_path_buf),
            parts: BTreeMap::new(),
            seen: VecDeque::new(),
            resumed: None,
            numbered: 0,
        };
        if let Some(out) = out
            && let Ok(text) = std::fs::read_to_string(out.join(".taken"))
        {
            shelf.resumed = text.lines().find_map(parse_identity);
            shelf.seen.extend(shelf.resumed.clone());
        }
        Ok(shelf)
    }
    /// Keeps a delivery; what the caller should hear, unless it came before.
    fn take(&mut self, delivered: Delivered) -> anyhow::Result<Option<Received>> {
        let adu = &delivered.adu;
        let identity = (adu.src_eid.clone(), adu.creation_timestamp_ms, adu.sequence_number);
        let repeated = self.resumed.take().is_some_and(|last| last == identity);
        if repeated || (delivered.redelivered() && self.seen.contains(&identity)) {
            return Ok(None);
        }
        let event = match (&self.out, decode(&delivered.payload)) {
            (Some(out), Some((header, data))) => {
                let out = out.clone();
                self.part(&out, header, data)?
            }
            _ => Some(self.bundle(delivered)?),
        };
        self.remember(identity)?;
        Ok(event)
    }
    /// The last few identities, so that a delivery repeated after a crash is known.
    fn remember(&mut self, identity: (String, u64, u64)) -> io::Result<()> {
        self.seen.push_back(identity);
        if self.seen.len() > 64 {
            self.seen.pop_front();
        }
        if let (Some(out), Some((source, time, sequence))) = (&self.out, self.seen.back()) {
            // One delivery is in flight at a time: the last identity is enough.
            std::fs::write(out.join(".taken"), format!("{time} {sequence} {source}\n"))?;
        }
        Ok(())
    }
    fn bundle(&mut self, delivered: Delivered) -> io::Result<Received> {
        let mut path = None;
        if let Some(out) = &self.out {
            let place = loop {
                self.numbered += 1;
                let place = out.join(format!("bundle-{}", self.numbered));
                if !place.exists() {
                    break place;
                }
            };
            std::fs::write(&place, &delivered.payload)?;
            path = Some(place);
        }
        Ok(Received::Bundle { source: delivered.adu.src_eid, payload: delivered.payload, path })
    }
    fn part(&mut self, out: &Path, header: Header, data: &[u8]) -> anyhow::Result<Option<Received>> {
        let id = header.id.clone();
        if !self.parts.contains_key(&id) {
            self.parts.insert(id.clone(), Part::open(out, &id)?);
        }
        let Some(part) = self.parts.get_mut(&id) else { return Ok(None) };
        part.put(header, data)?;
        if !part.complete() {
            return Ok(None);
        }
        let Some(part) = self.parts.remove(&id) else { return Ok(None) };
        part.finish(out, &id).map(Some)
    }
}

fn parse_identity(line: &str) -> Option<(String, u64, u64)> {
    let mut words = line.splitn(3, ' ');
    let (time, sequence) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((words.next()?.to_string(), time, sequence))
}

impl Part {
    fn open(out: &Path, id: &str) -> anyhow::Result<Part> {
        let path = |kind: &str| out.join(format!(".{id}.{kind}"));
        let open = |path: &Path| OpenOptions::new().read(true).append(true).create(true).open(path);
        let text = std::fs::read_to_string(path("journal")).unwrap_or_default();
        let data = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path("part"))?;
        let journal = open(&path("journal"))?;
        let mut part = Part { data, journal, have: BTreeMap::new(), last: None, began: clock::now() };
        // A torn last line (killed while writing) does not parse: its part comes again.
        for header in text.lines().filter_map(|line| serde_json::from_str::<Header>(line).ok()) {
            part.note(header);
        }
        Ok(part)
    }
    fn note(&mut self, header: Header) {
        let length = self.have.entry(header.offset).or_default();
        *length = header.bytes.max(*length);
        if header.total.is_some() {
            self.last = Some(header);
        }
    }
    fn put(&mut self, header: Header, data: &[u8]) -> io::Result<()> {
        self.data.write_all_at(data, header.offset)?;
        let mut line = serde_json::to_string(&header)?;
        line.push('\n');
        self.journal.write_all(line.as_bytes())?;
        self.note(header);
        Ok(())
    }
    fn complete(&self) -> bool {
        let Some(total) = self.last.as_ref().and_then(|header| header.total) else { return false };
        let mut reached = 0;
        for (offset, length) in &self.have {
            if *offset > reached {
                return false;
            }
            reached = reached.max(offset + length);
        }
        reached >= total
    }
    fn finish(self, out: &Path, id: &str) -> anyhow::Result<Received> {
        let header = self.last.clone().unwrap_or_default();
        let bytes = header.total.unwrap_or_default();
        self.data.set_len(bytes)?;
        let sha256 = digest(&self.data)?;
        self.data.sync_all()?;
        let path = free_name(out, &header.name);
        std::fs::rename(out.join(format!(".{id}.part")), &path)?;
        let _ = std::fs::remove_file(out.join(format!(".{id}.journal")));
        Ok(Received::File {
            verified: header.sha256.as_deref() == Some(&sha256),
            name: header.name,
            path,
            bytes,
            sha256,
            seconds: clock::now().since(self.began).as_secs_f64(),
        })
    }
}

fn digest(file: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let n = file.read_at(&mut buffer, offset)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
        offset += n as u64;
    }
}

/// A name in the folder that is not taken; what the peer calls the file never leaves the folder.
fn free_name(out: &Path, name: &str) -> PathBuf {
    let plain = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
    let plain = plain.map(|name| name.trim_start_matches('.').replace(char::is_control, "_"));
    let plain = plain.filter(|name| !name.is_empty()).unwrap_or_else(|| "file".into());
    let mut path = out.join(&plain);
    let mut number = 1;
    while path.exists() {
        path = out.join(format!("{plain}.{number}"));
        number += 1;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(header: &Header, data: &[u8], sequence: u64, redelivered: bool) -> Delivered {
        let adu_flags = if redelivered { vec![crate::aap2::proto::adu_flag::REDELIVERED] } else { vec![] };
        let adu = BundleAdu { src_eid: "ipn:1.9".into(), sequence_number: sequence, adu_flags, ..Default::default() };
        Delivered { adu, payload: encode(header, data).unwrap() }
    }
    fn parts(data: &[u8], size: usize) -> Vec<(Header, Vec<u8>)> {
        let count = data.chunks(size).count();
        let part = |(i, chunk): (usize, &[u8])| {
            let mut header = Header {
                id: "ab12".into(),
                name: "../../etc/name.txt".into(),
                offset: (i * size) as u64,
                bytes: chunk.len() as u64,
                ..Default::default()
            };
            if i + 1 == count {
                header.total = Some(data.len() as u64);
                header.sha256 = Some(hex(&Sha256::digest(data)));
            }
            (header, chunk.to_vec())
        };
        data.chunks(size).enumerate().map(part).collect()
    }

    #[test]
    fn a_file_is_whole_again_in_any_order_across_restarts_and_repeats() {
        let dir = tempfile::tempdir().unwrap();
        let data: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let mut parts = parts(&data, 9_000);
        parts.reverse();
        let last = parts.len() - 1;
        for (i, (header, chunk)) in parts.iter().enumerate() {
            // A new shelf each time: the receiver was killed and started again.
            let mut shelf = Shelf::open(Some(dir.path())).unwrap();
            let event = shelf.take(delivered(header, chunk, i as u64, false)).unwrap();
            let mut again = Shelf::open(Some(dir.path())).unwrap();
            assert!(again.take(delivered(header, chunk, i as u64, true)).unwrap().is_none(), "a repeat is dropped");
            match event {
                Some(Received::File { path, verified, bytes, .. }) => {
                    assert_eq!((i, verified, bytes), (last, true, 100_000));
                    assert_eq!(path, dir.path().join("name.txt"), "never outside the folder");
                    assert_eq!(std::fs::read(path).unwrap(), data);
                }
                None => assert!(i < last),
                _ => panic!("a part is no bundle"),
            }
        }
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_damaged_file_is_said_to_be_damaged_and_other_payloads_are_bundles() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::open(Some(dir.path())).unwrap();
        let (mut header, _) = parts(b"right", 100).remove(0);
        header.bytes = 5;
        let event = shelf.take(delivered(&header, b"wrong", 1, false)).unwrap();
        assert!(matches!(event, Some(Received::File { verified: false, .. })));
        let mut plain = delivered(&header, b"wrong", 2, false);
        plain.payload = b"just text".to_vec();
        let event = shelf.take(plain).unwrap();
        assert!(matches!(event, Some(Received::Bundle { path: Some(_), .. })));
    }

    #[test]
    fn hostile_headers_are_no_files() {
        for payload in [&b"FLF1"[..], b"FLF1\xff\xff{}", b"FLF1\0\x02{}", b"FLF1\0\0"] {
            assert!(decode(payload).is_none());
        }
        let header = Header { id: "../x".into(), ..Default::default() };
        assert!(decode(&encode(&header, b"").unwrap()).is_none());
        let header = Header { id: "a".into(), offset: u64::MAX, bytes: 1, ..Default::default() };
        assert!(decode(&encode(&header, b"x").unwrap()).is_none());
    }
}

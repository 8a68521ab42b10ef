//! Store without a running node: read unchanged, or newly written.

use super::{files, format_of_readable, unreadable};
use farlink_base::store::{BundleStore, DiskAction, DiskAnswer, DiskDone, DiskError, DiskOp};
use farlink_base::store::{IndexEntry, Input, Output, Remembered};
use farlink_base::{BundleHandle, Bytes, Chunk, Event, EventClass, Instant, Payload, Sink};
use farlink_os::disk::{DiskFiles, open_regular};
use farlink_storage::{Config, LogStore};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes of a payload in memory at once.
const PART: u64 = 1 << 20;
/// Unit of damage, bytes: around an unreadable byte, a whole block of the file counts as damaged.
const BLOCK: u64 = 4096;

/// Bundle in the store.
#[derive(Debug)]
pub struct Found {
    /// Number of the bundle.
    pub bundle: u64,
    /// Index entry of the bundle.
    pub index: IndexEntry,
    /// Bytes before the payload.
    pub head: Bytes,
    payload: Payload,
    /// Bytes after the payload.
    pub tail: Bytes,
}
impl Found {
    /// Length of the payload, bytes.
    pub fn payload_len(&self) -> u64 {
        self.payload.len()
    }
}

/// Range of a file that is damaged or unreadable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Damaged file.
    pub file: PathBuf,
    /// Start of the range.
    pub offset: u64,
    /// Length of the range.
    pub len: u64,
}

/// Contents of a store.
#[derive(Debug, Default)]
pub struct Contents {
    /// Number, length and format of each file.
    pub files: Vec<(u32, u64, Option<u32>)>,
    /// Bundles, the most urgent first.
    pub bundles: Vec<Found>,
    /// Identities of delivered bundles.
    pub deliveries: Vec<Remembered>,
    /// Counter of creation sequence numbers.
    pub counter: u64,
    /// Highest bundle number used.
    pub last_bundle: u64,
    /// All damage found.
    pub damage: Vec<Damage>,
}

/// Files of the store.
enum Medium {
    /// Existing files, never changed.
    Reading { paths: BTreeMap<u32, PathBuf>, unread: Vec<Damage>, _lock: Option<File> },
    /// New files, being written.
    Writing(Box<DiskFiles>),
}

#[derive(Default)]
struct OfflineOutput {
    operations: VecDeque<DiskOp>,
    rest: VecDeque<Output>,
}
impl Sink<Output> for OfflineOutput {
    fn push(&mut self, output: Output) {
        match output {
            Output::Disk(operation) => self.operations.push_back(operation),
            other => self.rest.push_back(other),
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        class == EventClass::Node
    }
}

/// Store of a stopped node.
pub struct Offline {
    store: LogStore,
    medium: Medium,
    dir: PathBuf,
    now: Instant,
    said: OfflineOutput,
}

impl Offline {
    /// Reads a store; unreadable parts count as damage.
    ///
    /// # Errors
    /// If a node uses the store, the folder has no store, or its format is newer.
    pub fn read(dir: &Path) -> anyhow::Result<(Offline, Contents)> {
        if !dir.is_dir() {
            anyhow::bail!("{} is no store\nhint: give the folder that `[store] dir` names", dir.display());
        }
        // A pipe or link in place of the file is not opened: it could block, or lead elsewhere.
        if let Err(why) = super::owner(dir)
            && why.kind() == io::ErrorKind::InvalidInput
        {
            return Err(unreadable(&dir.join(super::OWNER), &why));
        }
        let (mut paths, mut found) = (BTreeMap::new(), Contents::default());
        for path in files(dir).map_err(|why| unreadable(dir, &why))? {
            let number =
                path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()).unwrap_or(0);
            let format = match format_of_readable(&path) {
                // Not a regular file.
                Err(why) if why.kind() == io::ErrorKind::InvalidInput => return Err(unreadable(&path, &why)),
                // Unreadable bytes are reported as damage later.
                format => format.ok().flatten(),
            };
            super::not_newer(&path, format)?;
            found.files.push((number, path.metadata().map_or(0, |data| data.len()), format));
            paths.insert(number, path);
        }
        // Locked before the store is opened, so that no node starts meanwhile.
        let medium = Medium::Reading { paths, unread: Vec::new(), _lock: lock(dir)? };
        let mut offline = Offline::new(dir, medium);
        offline.open(&mut found)?;
        if let Medium::Reading { unread, .. } = &mut offline.medium {
            found.damage.append(unread);
        }
        Ok((offline, found))
    }
    /// Creates a store in a folder without one.
    ///
    /// # Errors
    /// If the folder has a store already, or cannot be written.
    pub fn make(dir: &Path) -> anyhow::Result<Offline> {
        if !files(dir).map_err(|why| unreadable(dir, &why))?.is_empty() {
            anyhow::bail!("{} holds a store\nhint: import into a new folder", dir.display());
        }
        let files = DiskFiles::open(dir).map_err(|why| crate::unwritable("store", &dir.display().to_string(), &why))?;
        let mut offline = Offline::new(dir, Medium::Writing(Box::new(files)));
        offline.open(&mut Contents::default())?;
        Ok(offline)
    }
    fn new(dir: &Path, medium: Medium) -> Offline {
        let mut seed = [0; 8];
        let _ = farlink_os::random(&mut seed);
        let config = Config {
            // No bound of remembered deliveries and no spare files: everything is kept, nothing more is written.
            seed: u64::from_ne_bytes(seed),
            accel: crate::accel(),
            remembered: usize::MAX,
            segment_bytes: 8 << 20,
            spares: 0,
            ..Config::new(1 << 50)
        };
        let (store, dir) = (LogStore::new(config), dir.to_path_buf());
        Offline { store, medium, dir, now: Instant::ZERO, said: OfflineOutput::default() }
    }
    fn open(&mut self, found: &mut Contents) -> anyhow::Result<()> {
        self.input(Input::Open);
        // Simulated time: timers of the store fire as soon as nothing else is left to do.
        while !self.said.rest.iter().any(|output| matches!(output, Output::Opened { .. })) {
            if !self.step() {
                anyhow::bail!("the store {} does not open", self.dir.display());
            }
        }
        for output in std::mem::take(&mut self.said.rest) {
            match output {
                Output::Recovered { bundle, index, head, payload, tail } => {
                    found.bundles.push(Found { bundle: bundle.0, index: *index, head, payload, tail });
                }
                Output::RecoveredDelivery(remembered) => found.deliveries.push(remembered),
                Output::Opened { counter, last_bundle, .. } => {
                    (found.counter, found.last_bundle) = (counter, last_bundle)
                }
                Output::Event(Event::StoreDamage { file, offset, len }) => {
                    found.damage.push(Damage { file: self.path(file), offset, len });
                }
                _ => {}
            }
        }
        Ok(())
    }
    fn path(&self, file: u32) -> PathBuf {
        self.dir.join(format!("{file:010}.farlink"))
    }
    fn input(&mut self, input: Input) {
        self.store.handle(self.now, input, &mut self.said);
    }
    /// Performs one operation or advances time; false if nothing is left to do.
    fn step(&mut self) -> bool {
        if let Some(operation) = self.said.operations.pop_front() {
            let result = self.medium.perform(&self.dir, operation.action);
            self.input(Input::DiskDone(DiskDone { id: operation.id, result }));
            return true;
        }
        let Some(at) = self.store.next_timeout() else { return false };
        self.now = self.now.max(at);
        self.input(Input::Wake);
        true
    }
    /// Runs the store until `wanted` accepts one of its outputs; later ones remain for the next call.
    fn until<T>(&mut self, mut wanted: impl FnMut(Output) -> Option<T>) -> anyhow::Result<T> {
        loop {
            // One commit of the store may have answered many requests, so earlier outputs are examined first.
            while let Some(output) = self.said.rest.pop_front() {
                if let Some(answer) = wanted(output) {
                    return Ok(answer);
                }
            }
            if !self.step() {
                anyhow::bail!("the store {} does not answer", self.dir.display());
            }
        }
    }

    /// Passes a bundle's payload to `take`, part by part; false if it is damaged.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn payload(&mut self, found: &Found, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> anyhow::Result<bool> {
        let len = found.payload.len();
        for from in (0..len).step_by(PART as usize) {
            let part = found.payload.slice(from, (len - from).min(PART));
            self.input(Input::Load { load: from, payload: part });
            let loaded = self.until(|output| match output {
                Output::Loaded { load, result } if load == from => Some(result),
                _ => None,
            })?;
            let Some(bytes) = loaded.ok().and_then(|rope| rope.to_bytes()) else { return Ok(false) };
            take(&bytes)?;
        }
        Ok(true)
    }
    /// Stores a bundle whose payload `give` supplies part by part.
    ///
    /// # Errors
    /// If the payload cannot be read or stored.
    pub fn put(
        &mut self,
        (bundle, index): (u64, IndexEntry),
        (head, tail): (Bytes, Bytes),
        len: u64,
        mut give: impl FnMut(u64) -> io::Result<Bytes>,
    ) -> anyhow::Result<()> {
        let mut rope = Payload::new();
        for from in (0..len).step_by(PART as usize) {
            let part = Payload::from(give((len - from).min(PART))?);
            // A short payload needs no spilling.
            if len <= PART {
                rope = part;
                break;
            }
            self.input(Input::Spill { spill: bundle, quota: index.quota, data: part });
            let result = self.until(|output| match output {
                Output::Spilled { result, .. } => Some(result),
                _ => None,
            })?;
            rope.append(result.map_err(|why| anyhow::anyhow!("{}: {why}", self.dir.display()))?);
        }
        let number = BundleHandle(bundle);
        self.input(Input::Put { bundle: number, index: Box::new(index), head, payload: rope, tail });
        let refused = self.until(|output| match output {
            Output::Stored { .. } => Some(None),
            Output::Refused { reason, .. } => Some(Some(reason)),
            _ => None,
        })?;
        refused.map_or(Ok(()), |why| Err(anyhow::anyhow!("{}: {why}", self.dir.display())))
    }
    /// Stores identities of delivered bundles, numbered from `last_bundle + 1`, and the counter.
    ///
    /// # Errors
    /// If the identities cannot be stored.
    pub fn remember(&mut self, deliveries: &[Remembered], last_bundle: u64, counter: u64) -> anyhow::Result<()> {
        for (remembered, number) in deliveries.iter().zip(last_bundle + 1..) {
            self.input(Input::Delete { bundle: BundleHandle(number), remember: Some(*remembered) });
        }
        // Answers may come in any order; only their number counts.
        let mut left = deliveries.len();
        while left > 0 {
            self.until(|output| matches!(output, Output::Deleted { .. }).then_some(()))?;
            left -= 1;
        }
        self.input(Input::SetCounter { value: counter });
        self.until(|output| matches!(output, Output::CounterSet { .. }).then_some(()))
    }
}

impl Medium {
    fn perform(&mut self, dir: &Path, action: DiskAction) -> Result<DiskAnswer, DiskError> {
        match self {
            Medium::Reading { paths, unread, .. } => match action {
                DiskAction::List => {
                    // A file that vanished counts as empty.
                    let len = |path: &PathBuf| path.metadata().map_or(0, |data| data.len());
                    Ok(DiskAnswer::Files(paths.iter().map(|(number, path)| (*number, len(path))).collect()))
                }
                DiskAction::Read { file, offset, len } => {
                    let path = paths.get(&file).ok_or(DiskError::Io)?;
                    Ok(DiskAnswer::Data(read_what_can_be(path, offset, len, unread)))
                }
                // The files stay as they are: repairs of the store are not written.
                DiskAction::Settle { .. } | DiskAction::Write { .. } | DiskAction::Sync { .. } => Ok(DiskAnswer::Done),
                _ => Err(DiskError::Io),
            },
            Medium::Writing(files) => write(files, action).map_err(|why| {
                tracing::error!("store {}: {why}", dir.display());
                if farlink_os::disk::is_full(&why) { DiskError::Full } else { DiskError::Io }
            }),
        }
    }
}
fn write(files: &mut DiskFiles, action: DiskAction) -> io::Result<DiskAnswer> {
    match action {
        DiskAction::List => return Ok(DiskAnswer::Files(files.list()?)),
        DiskAction::Create { file, of } => _ = files.create(file, of)?,
        DiskAction::Write { file, offset, data } => {
            let parts: Vec<Bytes> = data
                .chunks()
                .iter()
                .filter_map(|chunk| if let Chunk::Bytes(bytes) = chunk { Some(bytes.clone()) } else { None })
                .collect();
            files.write(file, offset, &mut parts.iter().map(|part| IoSlice::new(part)).collect::<Vec<_>>())?;
        }
        DiskAction::Sync { file } => files.sync(file)?,
        DiskAction::Settle { file } => files.settle(file)?,
        DiskAction::Read { file, offset, len } => return Ok(DiskAnswer::Data(files.read(file, offset, len)?)),
        DiskAction::Truncate { file, len } => files.truncate(file, len)?,
        DiskAction::Remove { file, .. } => {
            files.remove(file, false)?;
            files.syncing_names().run()?;
        }
        DiskAction::Reserve { .. } => {}
    }
    Ok(DiskAnswer::Done)
}
/// Reads bytes up to the end of the file; unreadable blocks become zeros and are added to `unread`.
fn read_what_can_be(path: &Path, offset: u64, len: u64, unread: &mut Vec<Damage>) -> Bytes {
    let size = path.metadata().map_or(0, |data| data.len());
    let end = size.min(offset.saturating_add(len));
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
    let opened = open_regular(OpenOptions::new().read(true), path);
    // The whole range is read first; only if the disk reports an error, it is read block by block.
    if opened.as_ref().is_ok_and(|file| file.read_exact_at(&mut bytes, offset).is_ok()) {
        return bytes.into();
    }
    // The failed read may have filled parts of the buffer.
    bytes.fill(0);
    for (part, at) in bytes.chunks_mut(BLOCK as usize).zip((offset..).step_by(BLOCK as usize)) {
        if !opened.as_ref().is_ok_and(|file| file.read_exact_at(part, at).is_ok()) {
            part.fill(0);
            let damage = Damage { file: path.to_path_buf(), offset: at, len: part.len() as u64 };
            // The same block may be read more than once.
            if !unread.contains(&damage) {
                unread.push(damage);
            }
        }
    }
    bytes.into()
}
/// Locks the store as a node does; `None` if it has no lock file.
fn lock(dir: &Path) -> anyhow::Result<Option<File>> {
    let path = dir.join("lock");
    let file = match open_regular(OpenOptions::new().read(true), &path) {
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => return Err(unreadable(&path, &why)),
        // A folder copied without its lock file can still be read.
        Err(_) => return Ok(None),
        Ok(file) => file,
    };
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        anyhow::anyhow!("the store {} is in use by another process\nhint: stop the node first", dir.display())
    })?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;

    #[test]
    fn five_remembered_deliveries_survive_import() {
        let dir = tempfile::tempdir().unwrap();
        let deliveries: Vec<Remembered> =
            (0..5).map(|n| Remembered { fingerprint: n, until: DtnTime(1_000_000), content: 0 }).collect();
        let mut store = Offline::make(dir.path()).unwrap();
        store.remember(&deliveries, 7, 99).unwrap();
        drop(store);
        let (_, mut contents) = Offline::read(dir.path()).unwrap();
        contents.deliveries.sort_by_key(|remembered| remembered.fingerprint);
        assert_eq!((contents.deliveries, contents.counter), (deliveries, 99));
    }
}

//! Files being put together: what is there survives a restart, and what comes twice counts once.

use super::{Header, Received, decode, each_piece, hex};
use crate::clock;
use anyhow::Context;
use farlink_aap2::proto::{BundleAdu, adu_flag};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Files being put together.
pub struct Shelf {
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
    pub fn open(out: Option<&Path>) -> anyhow::Result<Shelf> {
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
    /// Keeps a delivery, whose payload is read as it comes; what the caller should hear, unless it came before.
    pub fn take(&mut self, adu: &BundleAdu, payload: &mut impl Read) -> anyhow::Result<Option<Received>> {
        let identity = (adu.src_eid.clone(), adu.creation_timestamp_ms, adu.sequence_number);
        let repeated = self.resumed.take().is_some_and(|last| last == identity);
        let redelivered = adu.adu_flags.contains(&adu_flag::REDELIVERED);
        if repeated || (redelivered && self.seen.contains(&identity)) {
            each_piece(payload, adu.payload_length, |_| Ok(()))?;
            return Ok(None);
        }
        let (header, read) = decode(payload, adu.payload_length)?;
        let event = match (&self.out, header) {
            (Some(out), Some(header)) => {
                let out = out.clone();
                self.part(&out, header, payload)?
            }
            (None, Some(header)) => {
                let mut data = Vec::new();
                payload.read_to_end(&mut data)?;
                let (source, bytes, piece_of) = (adu.src_eid.clone(), header.bytes, Some(header.name));
                Some(Received::Bundle { source, bytes, payload: data, path: None, piece_of })
            }
            _ => Some(self.bundle(adu, read, payload)?),
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
    /// One that is no part of a file: `read` is the beginning of its payload.
    fn bundle(&mut self, adu: &BundleAdu, mut read: Vec<u8>, rest: &mut impl Read) -> io::Result<Received> {
        let source = adu.src_eid.clone();
        let Some(out) = &self.out else {
            rest.read_to_end(&mut read)?;
            return Ok(Received::Bundle {
                source,
                bytes: adu.payload_length,
                payload: read,
                path: None,
                piece_of: None,
            });
        };
        let (place, mut file) = loop {
            self.numbered += 1;
            let place = out.join(format!("bundle-{}", self.numbered));
            match File::create_new(&place) {
                Ok(file) => break (place, file),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        };
        let written =
            file.write_all(&read).and_then(|()| each_piece(rest, adu.payload_length, |piece| file.write_all(piece)));
        if let Err(why) = written {
            // Half of it is of no use: it comes again.
            let _ = std::fs::remove_file(&place);
            return Err(why);
        }
        let path = Some(place);
        Ok(Received::Bundle { source, bytes: adu.payload_length, payload: Vec::new(), path, piece_of: None })
    }
    fn part(&mut self, out: &Path, header: Header, data: &mut impl Read) -> anyhow::Result<Option<Received>> {
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
    fn put(&mut self, header: Header, data: &mut impl Read) -> io::Result<()> {
        self.data.seek(SeekFrom::Start(header.offset))?;
        each_piece(data, header.bytes, |piece| self.data.write_all(piece))?;
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
    fn finish(mut self, out: &Path, id: &str) -> anyhow::Result<Received> {
        let header = self.last.clone().unwrap_or_default();
        let bytes = header.total.unwrap_or_default();
        self.data.set_len(bytes)?;
        let sha256 = digest(&mut self.data)?;
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

fn digest(file: &mut File) -> io::Result<String> {
    let mut hash = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    each_piece(file, u64::MAX, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
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
    use super::super::encode;
    use super::*;

    type Taken = anyhow::Result<Option<Received>>;

    fn take_payload(shelf: &mut Shelf, payload: &[u8], sequence: u64, redelivered: bool) -> Taken {
        let adu_flags = if redelivered { vec![adu_flag::REDELIVERED] } else { vec![] };
        let adu = BundleAdu {
            src_eid: "ipn:1.9".into(),
            sequence_number: sequence,
            adu_flags,
            payload_length: payload.len() as u64,
            ..Default::default()
        };
        let mut rest = payload;
        let taken = shelf.take(&adu, &mut rest);
        assert!(rest.is_empty(), "all of it is read");
        taken
    }
    fn take(shelf: &mut Shelf, header: &Header, data: &[u8], sequence: u64, redelivered: bool) -> Taken {
        take_payload(shelf, &encode(header, data).unwrap(), sequence, redelivered)
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
            let event = take(&mut shelf, header, chunk, i as u64, false).unwrap();
            let mut again = Shelf::open(Some(dir.path())).unwrap();
            assert!(take(&mut again, header, chunk, i as u64, true).unwrap().is_none(), "a repeat is dropped");
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
        let event = take(&mut shelf, &header, b"wrong", 1, false).unwrap();
        assert!(matches!(event, Some(Received::File { verified: false, .. })));
        for (sequence, plain) in [&b"just text"[..], b"FLF", b"FLF1\xff\xff no header", b""].into_iter().enumerate() {
            let Some(Received::Bundle { path: Some(path), bytes, .. }) =
                take_payload(&mut shelf, plain, 2 + sequence as u64, false).unwrap()
            else {
                panic!("it is a bundle")
            };
            assert_eq!((std::fs::read(path).unwrap(), bytes), (plain.to_vec(), plain.len() as u64));
        }
    }

    #[test]
    fn a_bundle_that_ends_in_the_middle_leaves_nothing() {
        struct Breaks(u32);
        impl Read for Breaks {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 > 3 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(buffer.len()) }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::open(Some(dir.path())).unwrap();
        let adu = BundleAdu { src_eid: "ipn:1.9".into(), payload_length: 1 << 30, ..Default::default() };
        assert!(shelf.take(&adu, &mut Breaks(0)).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let adu = BundleAdu { payload_length: 4, ..adu };
        assert!(shelf.take(&adu, &mut &b"same"[..]).unwrap().is_some(), "it comes again, and was never taken");
    }

    #[test]
    fn without_a_folder_a_piece_of_a_file_is_a_bundle_without_its_header() {
        let mut shelf = Shelf::open(None).unwrap();
        let (header, chunk) = parts(b"the first and the second", 9).remove(0);
        let Some(Received::Bundle { payload, piece_of, path, .. }) =
            take(&mut shelf, &header, &chunk, 1, false).unwrap()
        else {
            panic!("a piece is a bundle")
        };
        assert_eq!((payload, piece_of, path), (b"the first".to_vec(), Some("../../etc/name.txt".into()), None));
    }

    fn is_no_file(payload: &[u8]) -> bool {
        decode(&mut &payload[..], payload.len() as u64).unwrap().0.is_none()
    }

    #[test]
    fn hostile_headers_are_no_files() {
        for payload in [&b"FLF1"[..], b"FLF1\xff\xff{}", b"FLF1\0\x02{}", b"FLF1\0\0"] {
            assert!(is_no_file(payload));
        }
        let header = Header { id: "../x".into(), ..Default::default() };
        assert!(is_no_file(&encode(&header, b"").unwrap()));
        let header = Header { id: "a".into(), offset: u64::MAX, bytes: 1, ..Default::default() };
        assert!(is_no_file(&encode(&header, b"x").unwrap()));
    }
}

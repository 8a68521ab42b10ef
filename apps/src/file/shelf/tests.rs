use super::super::{encode, hex};
use super::*;
use sha2::{Digest, Sha256};

impl Shelf {
    /// Syncs everything received, in two groups if one is under way; returns the events.
    fn settle(&mut self) -> anyhow::Result<Vec<Received>> {
        let mut told = self.finish()?;
        self.begin()?;
        told.extend(self.finish()?);
        Ok(told)
    }
}

type TakeOutcome = anyhow::Result<Option<Received>>;

fn adu(payload: &[u8], sequence: u64, redelivered: bool) -> BundleAdu {
    let adu_flags = if redelivered { vec![adu_flag::REDELIVERED] } else { vec![] };
    BundleAdu {
        src_eid: "ipn:1.9".into(),
        sequence_number: sequence,
        adu_flags,
        payload_length: payload.len() as u64,
        ..Default::default()
    }
}
/// Receives a payload without syncing it.
fn hold(shelf: &mut Shelf, payload: &[u8], sequence: u64, redelivered: bool) {
    let mut rest = payload;
    shelf.take(&adu(payload, sequence, redelivered), &mut rest).unwrap();
    assert!(rest.is_empty(), "all of it is read");
}
fn take_payload(shelf: &mut Shelf, payload: &[u8], sequence: u64, redelivered: bool) -> TakeOutcome {
    hold(shelf, payload, sequence, redelivered);
    let mut told = shelf.settle()?;
    assert!(told.len() < 2 && shelf.unsettled() == 0);
    Ok(told.pop())
}
fn take(shelf: &mut Shelf, header: &Header, data: &[u8], sequence: u64, redelivered: bool) -> TakeOutcome {
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

fn names(dir: &tempfile::TempDir) -> Vec<String> {
    let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(dir.path()).unwrap().map(name).collect();
    names.sort();
    names
}
fn open(dir: &tempfile::TempDir) -> Shelf {
    Shelf::open(Some(dir.path())).unwrap()
}

#[test]
fn file_reassembles_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let mut parts = parts(&data, 9_000);
    parts.reverse();
    let last = parts.len() - 1;
    for (i, (header, chunk)) in parts.iter().enumerate() {
        // A new shelf each time stands for a receiver that was killed and restarted.
        let mut shelf = open(&dir);
        let event = take(&mut shelf, header, chunk, i as u64, false).unwrap();
        drop(shelf);
        let mut again = open(&dir);
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
    assert_eq!(names(&dir), [".taken", "name.txt"]);
}

#[test]
fn damaged_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
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
fn rejoined_group_keeps_bundles_once() {
    // On rejoining, an urgent bundle may be delivered before those received earlier.
    let dir = tempfile::tempdir().unwrap();
    let taken = |shelf: &mut Shelf, to: &str, sequence: u64| {
        let adu = BundleAdu { dst_eid: to.into(), ..adu(b"news", sequence, false) };
        shelf.take(&adu, &mut &b"news"[..]).unwrap();
        shelf.settle().unwrap().len()
    };
    for (to, again) in [("dtn://any/~news", 0), ("ipn:1.64", 1)] {
        let first = taken(&mut open(&dir), to, 1);
        let mut back = open(&dir);
        assert_eq!([first, taken(&mut back, to, 2), taken(&mut back, to, 1)], [1, 1, again], "{to}");
        std::fs::remove_file(dir.path().join(".taken")).unwrap();
    }
}

#[test]
fn truncated_delivery_leaves_nothing() {
    struct Breaks(u32);
    impl Read for Breaks {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 3 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(buffer.len()) }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    let adu = BundleAdu { src_eid: "ipn:1.9".into(), payload_length: 1 << 30, ..Default::default() };
    assert!(shelf.take(&adu, &mut Breaks(0)).is_err());
    assert_eq!(names(&dir), [".taken"]);
    let adu = BundleAdu { payload_length: 4, ..adu };
    shelf.take(&adu, &mut &b"same"[..]).unwrap();
    assert_eq!(shelf.settle().unwrap().len(), 1, "delivered again, as it was never recorded");
}

#[test]
fn stdout_gets_pieces_without_header() {
    let mut shelf = Shelf::open(None).unwrap();
    let (header, chunk) = parts(b"the first and the second", 9).remove(0);
    let Some(Received::Bundle { payload, piece_of, path, .. }) = take(&mut shelf, &header, &chunk, 1, false).unwrap()
    else {
        panic!("a piece is a bundle")
    };
    assert_eq!((payload, piece_of, path), (b"the first".to_vec(), Some("../../etc/name.txt".into()), None));
}

#[test]
fn stdout_marks_possible_repeats() {
    // A run may be killed between printing a payload and accepting it: the next run prints it again, marked.
    let (header, chunk) = parts(b"the first and the second", 9).remove(0);
    for payload in [b"plain".to_vec(), encode(&header, &chunk).unwrap()] {
        for marked in [false, true] {
            let mut shelf = Shelf::open(None).unwrap();
            let told = take_payload(&mut shelf, &payload, 1, marked).unwrap();
            assert!(matches!(told, Some(Received::Bundle { redelivered, .. }) if redelivered == marked));
        }
    }
}

fn is_no_file(payload: &[u8]) -> bool {
    decode(&mut &payload[..], payload.len() as u64).unwrap().0.is_none()
}

#[test]
fn hostile_headers_are_plain_bundles() {
    for payload in [&b"FLF1"[..], b"FLF1\xff\xff{}", b"FLF1\0\x02{}", b"FLF1\0\0"] {
        assert!(is_no_file(payload));
    }
    let header = Header { id: "../x".into(), ..Default::default() };
    assert!(is_no_file(&encode(&header, b"").unwrap()));
    for offset in [u64::MAX, u64::MAX - 1, 1 << 62, super::super::FILE_MAX] {
        let header = Header { id: "a".into(), offset, bytes: 1, ..Default::default() };
        assert!(is_no_file(&encode(&header, b"x").unwrap()), "no file system has room for {offset}");
    }
}

#[test]
fn unsettled_group_is_delivered_again() {
    let dir = tempfile::tempdir().unwrap();
    for run in 0..3_u64 {
        let mut shelf = open(&dir);
        assert!(shelf.settle().unwrap().is_empty());
        // The last three of the earlier run were not synced: they are delivered again, marked or not.
        for n in run * 10..run * 10 + 10 {
            hold(&mut shelf, &n.to_be_bytes(), n, run > 0);
        }
        assert_eq!((shelf.settle().unwrap().len(), shelf.unsettled()), (10, 0));
        for n in run * 10 + 10..run * 10 + 13 {
            hold(&mut shelf, &n.to_be_bytes(), n, false);
        }
        assert_eq!(shelf.unsettled(), 24);
        assert!(names(&dir).iter().filter(|name| name.ends_with(".new")).count() == 3);
    }
    drop(open(&dir));
    let names = names(&dir);
    assert_eq!(names.len(), 31, "each once: {names:?}");
    let mut held: Vec<u64> = names[1..]
        .iter()
        .map(|name| u64::from_be_bytes(std::fs::read(dir.path().join(name)).unwrap().try_into().unwrap()))
        .collect();
    held.sort_unstable();
    assert_eq!(held, (0..30).collect::<Vec<_>>());
}

#[test]
fn arrivals_during_sync_are_unpromised() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    let pieces = parts(&[3; 100], 40);
    let piece = |n: usize| encode(&pieces[n].0, &pieces[n].1).unwrap();
    let many = 4 * 8192 + 10;
    // Enough to rewrite the list while more bundles arrive.
    let record = TakenRecord { number: None, content: Some([0; 32]) };
    (0..many).for_each(|n| shelf.taken.note(("ipn:1.9".into(), 0, n), record));
    hold(&mut shelf, &piece(0), many, false);
    hold(&mut shelf, &piece(2), many + 1, false);
    shelf.begin().unwrap();
    hold(&mut shelf, b"later", many + 2, false);
    hold(&mut shelf, &piece(1), many + 3, false);
    assert!(shelf.is_settling() && shelf.whole() == 1);
    assert!(shelf.finish().unwrap().is_empty(), "its last piece may be delivered again");
    assert!(!shelf.is_settling() && shelf.done().is_none());
    // Killed before the sync.
    let again = {
        drop(shelf);
        open(&dir)
    };
    let known = |n: u64| !again.taken.of(&("ipn:1.9".into(), 0, n)).is_empty();
    assert_eq!([many - 1, many, many + 1, many + 2, many + 3].map(known), [true, true, true, false, false]);
    assert!(!names(&dir).iter().any(|name| name.ends_with(".new")));
}

#[test]
fn kill_anywhere_loses_and_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = vec![5; 100];
    let (header, chunk) = parts(&data, 100).remove(0);
    let piece = encode(&header, &chunk).unwrap();
    let mut shelf = open(&dir);
    (0..8).for_each(|n| hold(&mut shelf, b"bundle", n, false));
    hold(&mut shelf, &piece, 8, false);
    // Killed after the list was written and before the bundles were named.
    let mut batch = shelf.batch();
    drop(shelf);
    let folder = lock(dir.path()).unwrap();
    batch.make_last(dir.path(), &folder, &mut TakenBundles::open(Some(dir.path())).unwrap().1.unwrap()).unwrap();
    drop((batch, folder));
    let mut shelf = open(&dir);
    let told = shelf.settle().unwrap();
    assert!(matches!(&told[..], [Received::File { verified: true, bytes: 100, .. }]), "the file is reported");
    for n in 0..8 {
        hold(&mut shelf, b"bundle", n, true);
    }
    hold(&mut shelf, &piece, 8, true);
    assert!(shelf.settle().unwrap().is_empty(), "they were recorded");
    let numbered = (1..=8).map(|n| format!("bundle-{n}"));
    let want: Vec<String> = [".taken".into()].into_iter().chain(numbered).chain(["name.txt".into()]).collect();
    assert_eq!(names(&dir), want);
}

#[test]
fn taken_names_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    hold(&mut shelf, b"ours", 1, false);
    std::fs::write(dir.path().join("bundle-1"), b"theirs").unwrap();
    assert_eq!(shelf.settle().unwrap().len(), 1);
    assert_eq!(names(&dir), [".taken", "bundle-1", "bundle-2"]);
    assert_eq!(std::fs::read(dir.path().join("bundle-1")).unwrap(), b"theirs");
    drop(shelf);
    // Other files in the folder are never touched, whatever their names.
    for name in [".bundle-x.new", ".bundle-7", "bundle-18446744073709551615", ".y.journal"] {
        std::fs::write(dir.path().join(name), b"?").unwrap();
    }
    let mut shelf = open(&dir);
    hold(&mut shelf, b"third", 2, false);
    shelf.settle().unwrap();
    assert!(names(&dir).contains(&"bundle-3".to_string()) && names(&dir).len() == 8, "{:?}", names(&dir));
    let refused = Shelf::open(Some(dir.path())).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(refused.contains("another receiver uses"), "{refused}");
}

#[test]
fn unfinished_files_keep_few_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    let pieces = |id: usize| {
        let mut pieces = parts(&[id as u8; 10], 6);
        for (header, _) in &mut pieces {
            (header.id, header.name) = (format!("{id:x}"), "\u{e9}".repeat(400));
        }
        pieces
    };
    let mut whole = 0;
    for half in 0..2 {
        for id in 0..3 * OPEN_MAX {
            let (header, chunk) = pieces(id).remove(half);
            hold(&mut shelf, &encode(&header, &chunk).unwrap(), (id * 2 + half) as u64, false);
            if id % 100 == 99 {
                whole += shelf.settle().unwrap().len();
                assert!(shelf.parts.len() <= OPEN_MAX, "{} open", shelf.parts.len());
            }
        }
        whole += shelf.settle().unwrap().len();
        assert_eq!(whole, half * 3 * OPEN_MAX);
    }
    let names = names(&dir);
    assert_eq!(names.len(), 1 + 3 * OPEN_MAX);
    assert!(names.iter().all(|name| name.len() <= 210), "{names:?}");
}

#[test]
fn dangling_link_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.path().join("bundle-9")).unwrap();
    std::fs::write(arriving(dir.path(), 9), "bytes").unwrap();
    assert_eq!(name_bundle(dir.path(), 9).unwrap(), dir.path().join("bundle-10"));
    assert_eq!(names(&dir), ["bundle-10", "bundle-9"]);
}

#[test]
fn pieces_in_removed_folder_are_unpromised() {
    let pieces = parts(&[3; 100], 40);
    let piece = |n: usize| encode(&pieces[n].0, &pieces[n].1).unwrap();
    for (removed, moved) in [(".ab12.part", false), (".ab12.journal", false), ("", false), ("", true)] {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path().join("in");
        let mut shelf = Shelf::open(Some(&inbox)).unwrap();
        hold(&mut shelf, &piece(0), 1, false);
        shelf.settle().unwrap();
        match (removed, moved) {
            ("", false) => std::fs::remove_dir_all(&inbox).unwrap(),
            ("", true) => std::fs::rename(&inbox, dir.path().join("elsewhere")).unwrap(),
            (file, _) => std::fs::remove_file(inbox.join(file)).unwrap(),
        }
        hold(&mut shelf, &piece(1), 2, false);
        let why = format!("{:#}", shelf.settle().err().expect("it went with its name"));
        assert!(why.contains("cannot be stored durably"), "{removed}: {why}");
        drop(shelf);
        let again = Shelf::open(Some(&inbox)).unwrap();
        assert!(again.taken.of(&("ipn:1.9".into(), 0, 2)).is_empty(), "{removed}: it may come again");
    }
}

#[test]
fn same_identity_other_content_is_kept() {
    // Any sender can use any identity: a forged bundle and the genuine one are both delivered.
    let long = |byte: u8| vec![byte; AT_ONCE as usize + 1];
    let piece = |data: &[u8]| {
        let (mut header, chunk) = parts(data, data.len()).remove(0);
        header.id = hex(&Sha256::digest(data)[..4]);
        encode(&header, &chunk).unwrap()
    };
    for contents in [
        [b"FORGED".to_vec(), b"HONEST".to_vec(), b"longer".to_vec()],
        [long(1), long(2), b"short".to_vec()],
        [piece(b"FORGED"), piece(&long(3)), piece(&long(4))],
        [long(5), piece(&long(6)), b"plain".to_vec()],
    ] {
        for (marked, one_run) in [(true, true), (true, false), (false, false)] {
            let dir = tempfile::tempdir().unwrap();
            let mut shelf = open(&dir);
            for (n, content) in contents.iter().enumerate() {
                let told = take_payload(&mut shelf, content, 1, marked).unwrap();
                assert!(told.is_some(), "{n} of {}, {marked} {one_run}", content.len());
                assert_eq!(names(&dir).len(), n + 2, "{:?}", names(&dir));
                if !one_run {
                    drop(shelf);
                    shelf = open(&dir);
                }
            }
            for content in &contents {
                assert!(take_payload(&mut shelf, content, 1, true).unwrap().is_none(), "{}", content.len());
            }
            drop(shelf);
            let mut shelf = open(&dir);
            for content in &contents {
                assert!(take_payload(&mut shelf, content, 1, marked).unwrap().is_none(), "not accepted before");
            }
            let mut there: Vec<Vec<u8>> = Vec::new();
            for name in names(&dir).iter().filter(|name| *name != ".taken") {
                there.push(std::fs::read(dir.path().join(name)).unwrap());
            }
            let bytes = |payload: &Vec<u8>| match decode(&mut &payload[..], payload.len() as u64).unwrap().0 {
                Some(header) => payload[payload.len() - header.bytes as usize..].to_vec(),
                None => payload.clone(),
            };
            let mut sent: Vec<Vec<u8>> = contents.iter().map(bytes).collect();
            there.sort();
            sent.sort();
            assert!(there == sent, "{:?}", names(&dir));
        }
    }
}

#[test]
fn stdout_gets_other_content_too() {
    let mut shelf = Shelf::open(None).unwrap();
    for (content, told) in [("FORGED", 1), ("HONEST", 1), ("FORGED", 0), ("HONEST", 0)] {
        let came = take_payload(&mut shelf, content.as_bytes(), 1, true).unwrap();
        assert_eq!(came.iter().count(), told, "{content}");
    }
}

#[test]
fn old_entries_compare_with_their_file() {
    // Lists of earlier versions have no digests.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".taken"), "0 1 ipn:1.9 1\n0 2 ipn:1.9\n0 3 ipn:1.9 3\n").unwrap();
    std::fs::write(dir.path().join("bundle-1"), "FORGED").unwrap();
    let mut shelf = open(&dir);
    let mut take = |content: &str, sequence| take_payload(&mut shelf, content.as_bytes(), sequence, true).unwrap();
    assert!(take("FORGED", 1).is_none());
    std::fs::remove_file(dir.path().join("bundle-1")).unwrap();
    let told = take("HONEST", 1);
    assert!(matches!(told, Some(Received::Bundle { path: Some(path), .. }) if path.ends_with("bundle-4")));
    assert!(take("HONEST", 1).is_none() && take("FORGED", 1).is_none(), "remembered without its file");
    assert!(take("a piece", 2).is_none() && take("gone", 3).is_none(), "without a digest they count as equal");
}

#[test]
fn full_disk_keeps_earlier_promises() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    let long = |byte: u8| vec![byte; AT_ONCE as usize + 1];
    hold(&mut shelf, &long(1), 1, false);
    shelf.settle().unwrap();
    std::fs::create_dir(arriving(dir.path(), 0)).unwrap();
    hold(&mut shelf, &long(1), 1, true);
    assert!(shelf.take(&adu(&long(2), 1, true), &mut &long(2)[..]).is_err());
    std::fs::remove_dir(arriving(dir.path(), 0)).unwrap();
    hold(&mut shelf, &long(2), 1, true);
    assert_eq!(shelf.settle().unwrap().len(), 1);
}

#[test]
fn late_empty_piece_begins_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut shelf = open(&dir);
    let pieces = parts(b"all of it", 5);
    for (sequence, (header, data)) in pieces.iter().enumerate() {
        take(&mut shelf, header, data, sequence as u64, false).unwrap();
    }
    let empty = Header { bytes: 0, ..parts(b"all of it", 5).remove(0).0 };
    assert!(take(&mut shelf, &empty, b"", 2, false).unwrap().is_none());
    assert_eq!(names(&dir), [".taken", "name.txt"]);
}

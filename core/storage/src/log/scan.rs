//! Scan of one file from front to back in bounded windows. After damage it resumes at the next whole record header. In
//! a recycled file, bytes behind the last record belong to the earlier file and are no damage, unless they look like a
//! record header of this file.

use super::header::{FileHeader, LONG_HEADER, SHORT_HEADER};
use super::record::{ChunkSums, Loc, Meta, RECORD_HEADER, RECORD_MAGIC as MAGIC, RecordHeader, find_header};
use alloc::vec::Vec;
use farlink_base::Accel;

/// A finding of a scan.
#[derive(Debug)]
pub(super) enum Find {
    Header(FileHeader),
    /// The file was written in a newer format.
    Newer,
    Record {
        sequence: u64,
        loc: Loc,
        meta: Meta,
        /// Whether the checksums of its data match, or were not to be checked.
        whole: bool,
    },
    Damage {
        offset: u64,
        len: u64,
    },
}

/// One file being read.
#[derive(Debug)]
pub(super) struct Scan {
    pub file: u32,
    pub len: u64,
    /// Salt of the file's records: from the file's header, or, if that is lost, as given to [`Scan::new`] or found in a
    /// record.
    pub salt: Option<u64>,
    window: u64,
    /// Offset of the next read; `need` is its minimum length.
    read_from: u64,
    need: u64,
    /// Offset of the next record, or of the search for one.
    at: u64,
    damage_from: Option<u64>,
    check: Option<DataCheck>,
    /// Whether to check the data of records besides their headers and meta parts.
    pub verify: bool,
    started: bool,
    /// Whether a whole header or record was found.
    pub ours: bool,
    /// Whether a byte other than zero was found.
    pub content: bool,
    /// Whether the file is recycled.
    remade: bool,
    /// Length of a damaged record of this file behind its last whole record, if there is one.
    broken_end: Option<u64>,
    done: bool,
}
/// Check of a record's data under way.
#[derive(Debug)]
struct DataCheck {
    sequence: u64,
    loc: Loc,
    meta: Meta,
    position: u64,
    sums: ChunkSums,
    found: Vec<u32>,
}

impl Scan {
    pub fn new(file: u32, len: u64, salt: Option<u64>, window: u64) -> Scan {
        Scan {
            file,
            len,
            salt,
            window,
            read_from: 0,
            need: 0,
            at: 0,
            damage_from: None,
            check: None,
            verify: true,
            started: false,
            ours: false,
            content: false,
            remade: false,
            broken_end: None,
            done: len == 0,
        }
    }
    /// Offset and length of the next read; `None` at the end of the scan.
    pub fn next_read(&self) -> Option<(u64, u64)> {
        let need = if self.started { self.need } else { LONG_HEADER };
        let len = self.window.max(need).min(self.len.saturating_sub(self.read_from));
        (!self.done).then_some((self.read_from, len))
    }
    fn finish(&mut self, find: &mut impl FnMut(&mut Scan, Find)) {
        self.done = true;
        // Whatever is left at the end was no record.
        let tail = self.damage_from.take().or((self.at < self.len).then_some(self.at));
        if let Some(offset) = tail {
            let rest = self.len - offset;
            match self.broken_end {
                // In a recycled file the rest is old content, and only a broken record of its own is damage.
                _ if !self.remade => find(self, Find::Damage { offset, len: rest }),
                Some(len) => find(self, Find::Damage { offset, len: len.min(rest) }),
                None => {}
            }
        }
    }
    /// Processes the bytes of the last [`Scan::next_read`]. `find` may set [`Scan::verify`].
    pub fn take(&mut self, accel: &Accel, bytes: &[u8], mut find: impl FnMut(&mut Scan, Find)) {
        let asked = self.next_read().map_or(0, |(_, len)| len);
        if (bytes.len() as u64) < asked {
            // The file became shorter since it was listed.
            self.len = self.read_from + bytes.len() as u64;
        }
        self.need = 0;
        // A file of zeros alone was never written: nothing in it can be lost.
        if !self.ours && !self.content {
            self.content = bytes.iter().any(|b| *b != 0);
        }
        if !self.started {
            self.start(accel, bytes, &mut find);
        }
        while !self.done && self.step(accel, bytes, &mut find) {}
    }
    fn start(&mut self, accel: &Accel, bytes: &[u8], find: &mut impl FnMut(&mut Scan, Find)) {
        self.started = true;
        self.at = SHORT_HEADER.min(self.len);
        if super::header::format_of(accel, bytes).is_some_and(|format| format > super::header::FORMAT) {
            self.done = true;
            return find(self, Find::Newer);
        }
        match FileHeader::decode(accel, bytes, self.file) {
            // The file's own header never reached the disk, but records may have.
            Some((before, _)) if before.file != self.file => {
                (self.salt, self.ours) = (Some(before.salt), true);
                (self.remade, self.damage_from) = (true, Some(0));
            }
            Some((header, whole)) => {
                self.remade = header.remade;
                self.at = u64::from(header.len).min(self.len);
                (self.salt, self.ours) = (Some(header.salt), true);
                find(self, Find::Header(header));
                if !whole {
                    find(self, Find::Damage { offset: 0, len: self.at });
                }
            }
            None => self.damage_from = Some(0),
        }
    }
    /// Handles one record, or one search for the next. Returns false when more bytes are needed.
    fn step(&mut self, accel: &Accel, bytes: &[u8], find: &mut impl FnMut(&mut Scan, Find)) -> bool {
        let base = self.read_from;
        if self.check.is_some() {
            return self.check_data(accel, bytes, find);
        }
        if self.at + RECORD_HEADER > self.len {
            self.finish(find);
            return false;
        }
        let inside = self.at.saturating_sub(base) as usize;
        if inside + RECORD_HEADER as usize > bytes.len() {
            self.read_from = self.at;
            return false;
        }
        let header = RecordHeader::decode(accel, self.salt, self.file, &bytes[inside..]);
        let Some((header, loc)) = header.map(|h| (h, h.loc(self.file, self.at))).filter(|(h, _)| self.fits(h)) else {
            if self.damage_from.is_none() {
                self.damage_from = Some(self.at);
                self.broken_end = damaged_len(accel, self.salt, self.file, &bytes[inside..]);
            }
            // Without a salt, only a record directly behind a lost file header is trusted.
            let next = self.salt.and_then(|salt| find_header(accel, Some(salt), self.file, bytes, inside + 1));
            self.at = match next {
                Some(at) => base + at as u64,
                // A header may begin in the last bytes of the window: resume there.
                None => (base + bytes.len() as u64 + 1).saturating_sub(RECORD_HEADER).max(self.at + 1),
            };
            return true;
        };
        let meta_end = inside + RECORD_HEADER as usize + header.meta as usize;
        if meta_end > bytes.len() {
            self.read_from = self.at;
            self.need = RECORD_HEADER + u64::from(header.meta);
            return false;
        }
        // The first record found settles the salt of a file without a header.
        self.salt.get_or_insert(header.salt);
        self.ours = true;
        if let Some(offset) = self.damage_from.take() {
            find(self, Find::Damage { offset, len: self.at - offset });
        }
        match Meta::decode(accel, &header, &bytes[inside + RECORD_HEADER as usize..meta_end]) {
            None => {
                find(self, Find::Damage { offset: self.at, len: loc.size() });
                self.at += loc.size();
            }
            Some(meta) if self.verify && loc.data > 0 => {
                let (position, sums) = (loc.data_offset(), ChunkSums::default());
                self.check =
                    Some(DataCheck { sequence: header.sequence, loc, meta, position, sums, found: Vec::new() });
            }
            Some(meta) => {
                self.at += loc.size();
                find(self, Find::Record { sequence: header.sequence, loc, meta, whole: true });
            }
        }
        true
    }
    fn fits(&self, header: &RecordHeader) -> bool {
        let rest = self.len - self.at;
        header.data <= rest && header.loc(self.file, self.at).size() <= rest
    }
    fn check_data(&mut self, accel: &Accel, bytes: &[u8], find: &mut impl FnMut(&mut Scan, Find)) -> bool {
        let Some(mut check) = self.check.take() else { return true };
        let end = check.loc.offset + check.loc.size();
        let available = bytes.get((check.position - self.read_from) as usize..).unwrap_or_default();
        let n = available.len().min((end - check.position) as usize);
        let DataCheck { sums, found, .. } = &mut check;
        sums.add(accel, &available[..n], |crc| found.push(crc));
        check.position += n as u64;
        if check.position < end {
            if self.read_from + bytes.len() as u64 >= self.len {
                // The file became shorter during the scan.
                self.damage_from.get_or_insert(self.at);
                self.at = self.len;
                return true;
            }
            self.read_from = check.position;
            self.check = Some(check);
            return false;
        }
        check.found.extend(check.sums.finish());
        let whole = check.found == check.meta.crcs();
        self.at = end;
        let DataCheck { sequence, loc, meta, .. } = check;
        find(self, Find::Record { sequence, loc, meta, whole });
        true
    }
}

/// Length of the record that a damaged header of this file begins; `None` for other bytes, such as a header from
/// before the file was recycled, which names another file and is whole or differs in few bits from a whole one.
fn damaged_len(accel: &Accel, salt: Option<u64>, file: u32, bytes: &[u8]) -> Option<u64> {
    const FILE: core::ops::Range<usize> = 40..44;
    // Nine of twelve bytes of magic and salt must match: chance alone does not do that.
    const SAME: usize = 9;
    let header: [u8; RECORD_HEADER as usize] = bytes.get(..RECORD_HEADER as usize)?.try_into().ok()?;
    let whole = |header: &[u8; RECORD_HEADER as usize]| (accel.crc32c)(0, &header[..44]).to_le_bytes() == header[44..];
    let of_file = |number: u32| {
        let mut header = header;
        header[FILE].copy_from_slice(&number.to_le_bytes());
        header
    };
    let named = u32::from_le_bytes(header[FILE].try_into().ok()?);
    let expected = MAGIC.iter().chain(salt?.to_le_bytes().iter()).copied().collect::<Vec<u8>>();
    let found = header[..4].iter().chain(&header[8..16]);
    let same = found.zip(&expected).filter(|(found, expected)| found == expected).count();
    // Another file's number with one flipped bit is this file's number by accident: an old header, not a damaged one.
    let ours = match named == file {
        true => same >= SAME && !(0..u32::BITS).any(|bit| whole(&of_file(file ^ 1 << bit))),
        false => whole(&of_file(file)),
    };
    let meta = u32::from_le_bytes(header[24..28].try_into().ok()?);
    let data = u64::from_le_bytes(header[32..40].try_into().ok()?);
    ours.then(|| data.saturating_add(RECORD_HEADER + u64::from(meta)))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Encoder, spill_record_len};
    use super::*;
    use bytes::{BufMut, BytesMut};
    use farlink_base::{BundleHandle, Payload};

    fn file() -> BytesMut {
        let accel = Accel::default();
        let mut out = BytesMut::new();
        FileHeader { file: 1, salt: 9, sequence: 1, ..FileHeader::default() }.encode(&accel, &mut out);
        let data = Payload::from(alloc::vec![7u8; 10_000]);
        for n in 0..3 {
            let mut encoder = Encoder { accel: &accel, salt: 9, file: 1, out: &mut out };
            encoder.delete(n, BundleHandle(n), None);
            encoder.spill(n, 1, n * 10_000, &data);
            out.put_slice(&data.to_bytes().unwrap());
        }
        out
    }
    /// Counts whole records, records with damaged data, and bytes that were skipped.
    fn scan(bytes: &[u8], window: u64) -> (usize, usize, u64) {
        let accel = Accel::default();
        let mut scan = Scan::new(1, bytes.len() as u64, None, window);
        let (mut good, mut bad, mut lost) = (0, 0, 0);
        while let Some((at, len)) = scan.next_read() {
            scan.take(&accel, &bytes[at as usize..(at + len) as usize], |_, find| match find {
                Find::Record { whole: true, .. } => good += 1,
                Find::Record { .. } => bad += 1,
                Find::Damage { len, .. } => lost += len,
                Find::Header(_) | Find::Newer => {}
            });
        }
        (good, bad, lost)
    }

    #[test]
    fn recycled_content_is_not_damage() {
        let (accel, mut before) = (Accel::default(), BytesMut::new());
        let data = Payload::from(alloc::vec![7u8; 700]);
        FileHeader { file: 1, salt: 9, ..FileHeader::default() }.encode(&accel, &mut before);
        for n in 0..40 {
            Encoder { accel: &accel, salt: 9, file: 1, out: &mut before }.spill(n, 1, n * 700, &data);
            before.put_slice(&data.to_bytes().unwrap());
        }
        for records in 0..20 {
            let mut now = BytesMut::new();
            FileHeader { file: 5, salt: 9, remade: true, ..FileHeader::default() }.encode(&accel, &mut now);
            for n in 0..records {
                Encoder { accel: &accel, salt: 9, file: 5, out: &mut now }.delete(n, BundleHandle(n), None);
            }
            let end = now.len();
            now.extend_from_slice(&before[end..]);
            for window in [200, 1000, 1 << 20] {
                let mut scan = Scan::new(5, now.len() as u64, Some(9), window);
                let (mut found, mut lost) = (0, 0);
                while let Some((at, len)) = scan.next_read() {
                    let bytes = &now[at as usize..(at + len) as usize];
                    scan.take(&accel, bytes, |_, find| match find {
                        Find::Record { whole: true, .. } => found += 1,
                        Find::Record { .. } | Find::Damage { .. } => lost += 1,
                        Find::Header(_) | Find::Newer => {}
                    });
                }
                assert_eq!((found, lost, scan.ours), (records, 0, true), "{records} records, window {window}");
            }
        }
        // Nothing written after the recycling reached the disk.
        let mut scan = Scan::new(5, before.len() as u64, None, 1 << 20);
        scan.take(&accel, &before, |_, find| panic!("{find:?}"));
        assert!(scan.ours && scan.next_read().is_none() && scan.salt == Some(9));
    }

    #[test]
    fn every_window_finds_every_record() {
        let bytes = file();
        // The first window is shorter than a record's header and meta part.
        for window in [50, 200, 333, 4096, 10_000, 1 << 20] {
            assert_eq!(scan(&bytes, window), (6, 0, 0), "window {window}");
        }
    }

    #[test]
    fn a_flipped_byte_costs_one_record() {
        let mut bytes = file();
        for at in (0..bytes.len()).step_by(7) {
            bytes[at] ^= 0x10;
            let (good, bad, lost) = scan(&bytes, 4096);
            bytes[at] ^= 0x10;
            if (at as u64) < SHORT_HEADER {
                // The file header has two copies: no record is lost.
                assert_eq!((good, bad), (6, 0), "byte {at}");
            } else {
                assert_eq!(good, 5, "byte {at}: {bad} {lost}");
                assert!(bad == 1 || lost > 0);
                assert!(lost <= spill_record_len(10_000), "byte {at}: {lost} bytes for one record");
            }
        }
    }

    #[test]
    fn file_shortened_during_read_damaged() {
        // The listing reported more bytes than there are at the time of the read.
        let (accel, bytes) = (Accel::default(), file());
        for end in [2000, 15_000, 25_000] {
            let mut scan = Scan::new(1, bytes.len() as u64, None, 4096);
            let (mut good, mut lost, mut reads) = (0, Vec::new(), 0);
            while let Some((at, len)) = scan.next_read() {
                let (from, to) = ((at as usize).min(end), ((at + len) as usize).min(end));
                scan.take(&accel, &bytes[from..to], |_, find| match find {
                    Find::Record { whole: true, loc, .. } => good = loc.offset + loc.size(),
                    Find::Damage { offset, .. } => lost.push(offset),
                    _ => {}
                });
                reads += 1;
                assert!(reads < 100, "never ends");
            }
            assert_eq!(lost, [good], "{end} bytes are left");
        }
    }

    #[test]
    fn torn_tail_costs_last_record_only() {
        let bytes = file();
        // The first cuts end in the data of the last record, the last one in its header.
        for cut in [1, 47, 5000, 10_063] {
            let torn = &bytes[..bytes.len() - cut];
            assert_eq!(scan(torn, 4096).0, 5, "{cut} bytes missing");
        }
        // Zeros behind the last record are reported, but cost no record.
        let mut zeros = bytes.clone();
        zeros.put_bytes(0, 9000);
        assert_eq!(scan(&zeros, 4096), (6, 0, 9000));
    }
}

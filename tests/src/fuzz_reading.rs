//! Fuzz targets of the layers' passive readers, and of the search for the end of a bundle.

use farlink_base::{Accel, FindEnd, Instant, Payload};
use farlink_bundle::{BundleEnd, decode_prefix, peek_identity};
use farlink_cla::ltp::{self, LtpReader};
use farlink_cla::oneway::{Framing, OneWayReader};
use farlink_cla::reading::{HEAD_BYTES, PassiveReader, Reading};
use farlink_cla::tcpcl_v4::TcpclReader;
use farlink_cla::udpcl::UdpclReader;

/// Findings of a reader.
#[derive(PartialEq, Debug, Default)]
struct Findings {
    /// Length and first bytes of each bundle, and whether all of it was read.
    bundles: Vec<(u64, Vec<u8>, bool)>,
    enciphered: u32,
    lost: Vec<&'static str>,
    unread: u64,
}
impl Findings {
    fn add(&mut self, now: Instant, reading: Reading<'_>) {
        match reading {
            Reading::Bundle(passage) | Reading::Cut(passage) => {
                assert!(passage.head.len() as u64 <= passage.length.min(HEAD_BYTES as u64));
                assert!(passage.first <= passage.last && passage.last <= now);
                let _ = peek_identity(passage.head, &Accel::default());
                let whole = matches!(reading, Reading::Bundle(_));
                self.bundles.push((passage.length, passage.head.to_vec(), whole));
            }
            Reading::Enciphered => self.enciphered += 1,
            Reading::Lost(reason) => self.lost.push(reason),
        }
    }
    fn bytes(&self) -> u64 {
        self.bundles.iter().map(|(length, ..)| length).sum()
    }
}

/// Passes pieces to a reader, one each nanosecond, and then ends it.
fn read<'a>(reader: &mut impl PassiveReader, pieces: impl Iterator<Item = &'a [u8]>) -> Findings {
    let (mut found, mut last) = (Findings::default(), Instant::ZERO);
    for (now, piece) in (0..).map(Instant).zip(pieces) {
        reader.push(now, piece, &mut |reading| found.add(now, reading));
        last = now;
    }
    reader.end(&mut |reading| found.add(last, reading));
    found.unread = reader.unread();
    assert!(found.enciphered <= 1);
    found
}

/// Checks that a reader finds the same in a stream cut into pieces of any length, and no more bundle bytes than passed.
fn stream<R: PassiveReader>(data: &[u8], make: impl Fn() -> R) {
    let whole = read(&mut make(), std::iter::once(data));
    assert!(whole.bytes() + whole.unread <= data.len() as u64 || !whole.lost.is_empty());
    assert!(whole.bytes() <= data.len() as u64 && whole.bundles.len() <= data.len());
    for length in [1, 7, 65] {
        assert_eq!(read(&mut make(), data.chunks(length)), whole, "in pieces of {length} B");
    }
}
/// One direction of a TCPCL session, of either version.
pub fn reading_tcpcl(data: &[u8]) {
    stream(data, TcpclReader::new);
}
/// A stream of STCP.
pub fn reading_stcp(data: &[u8]) {
    stream(data, || OneWayReader::new(Framing::Stcp));
}
/// A stream of MTCP.
pub fn reading_mtcp(data: &[u8]) {
    stream(data, || OneWayReader::new(Framing::Mtcp));
}

/// Datagrams of the input, each preceded by a byte with its length.
fn datagrams(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, after) = data.split_first()?;
        let (datagram, rest) = after.split_at(usize::from(*length).min(after.len()));
        data = rest;
        Some(datagram)
    })
}
/// Datagrams of LTP, each preceded by a byte with its length.
pub fn reading_ltp(data: &[u8]) {
    let mut reader = LtpReader::<BundleEnd>::new();
    let found = read(&mut reader, datagrams(data));
    assert!(found.bytes() <= data.len() as u64);
    assert_eq!((reader.sessions(), reader.held_bytes()), (0, 0), "everything is given back");
    // Each segment twice in a row: repetitions must add no complete bundle.
    let mut reader = LtpReader::<BundleEnd>::new();
    let mut twice = Findings::default();
    for (now, datagram) in (0..).map(Instant).zip(datagrams(data).flat_map(|datagram| [datagram; 2])) {
        reader.push(now, datagram, &mut |reading| twice.add(now, reading));
        assert!(reader.held_bytes() <= ltp::READING_BYTES_MAX);
    }
    let whole = |found: &Findings| found.bundles.iter().filter(|bundle| bundle.2).count();
    assert_eq!(whole(&twice), whole(&found));
}
/// Datagrams of UDPCL, each preceded by a byte with its length.
pub fn reading_udpcl(data: &[u8]) {
    let mut reader = UdpclReader::<BundleEnd>::new();
    let found = read(&mut reader, datagrams(data));
    assert!(found.bytes() <= data.len() as u64 && reader.transfers() == 0);
}

/// [`BundleEnd`] and [`decode_prefix`] find the same end of a bundle, in pieces of any length and with strings passed
/// over.
pub fn bundle_end(data: &[u8]) {
    let whole = decode_prefix(&Payload::from(data.to_vec()));
    for (length, passes) in [(1, false), (7, true), (usize::MAX, false), (13, false), (1, true)] {
        let (mut end, mut at, mut failed) = (BundleEnd::default(), 0, false);
        while at < data.len() && !end.is_over() && !failed {
            let opaque = end.opaque().min((data.len() - at) as u64);
            if passes && opaque > 0 {
                end.pass(opaque);
                at += opaque as usize;
                continue;
            }
            match end.read(&data[at..data.len().min(at.saturating_add(length))]) {
                Ok(count) => at += count,
                Err(_) => failed = true,
            }
        }
        match whole {
            Ok(Some(len)) => assert!(end.is_over() && at as u64 == len),
            Ok(None) => assert!(!end.is_over() && !failed),
            // `decode_prefix` may find a mistake at the very end while `BundleEnd` still waits for bytes.
            Err(_) => assert!(failed || at == data.len() && !end.is_over()),
        }
    }
    let _ = peek_identity(data, &Accel::default());
}

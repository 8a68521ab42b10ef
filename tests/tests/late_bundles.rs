//! Real nodes whose neighbours read nothing for a while, over each layer on TCP. The age in a bundle is right when its
//! first byte leaves, apart from the time that bytes wait in the node's stream and the kernels. A bundle that expired
//! before is not sent.

use crate::node_support::Node;
use farlink_aap2::proto::BundleAdu;
use farlink_base::{Accel, Payload};
use farlink_bundle::{Profile, v6};
use farlink_cla::oneway::Framing;
use farlink_cla::sdnv;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const COUNT: u32 = 200;
const SIZE: usize = 20_000;
/// Time during which no neighbour reads.
const STALL: Duration = Duration::from_secs(3);
/// Lifetime of every other bundle; the others have a day.
const SHORT: Duration = Duration::from_secs(1);
/// Greatest amount by which an age may be too small, apart from the time that [`HELD`] bytes take.
const EXACT: Duration = Duration::from_millis(10);
/// The neighbours' buffer, which the kernel doubles for its own needs.
const RECEIVE_BUFFER: usize = 64 << 10;
/// Most bytes between a bundle that is stamped and the reader: the layer's queue, the kernel's unsent bytes, one buffer
/// more because the kernel counts whole buffers, and the neighbour's buffer.
const HELD: u64 = (64 << 10) + (1 << 20) + (64 << 10) + 2 * RECEIVE_BUFFER as u64;
/// Bytes that the reader takes before each rest: 8 MB/s, in small steps for exact times.
const STEP: usize = 16 << 10;
const REST: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
enum LateCarrier {
    TcpclV4,
    TcpclV3,
    OneWay(Framing),
}
const ALL: [LateCarrier; 4] = [
    LateCarrier::TcpclV4,
    LateCarrier::TcpclV3,
    LateCarrier::OneWay(Framing::Stcp),
    LateCarrier::OneWay(Framing::Mtcp),
];
impl LateCarrier {
    fn word(self) -> &'static str {
        match self {
            LateCarrier::TcpclV4 => "tcpclv4",
            LateCarrier::TcpclV3 => "tcpclv3",
            LateCarrier::OneWay(Framing::Stcp) => "stcp",
            LateCarrier::OneWay(Framing::Mtcp) => "mtcp",
        }
    }
}

/// Listens with a small receive buffer, so that few bytes leave the node while nobody reads.
fn listener() -> TcpListener {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    TcpListener::from(socket)
}

/// A bundle that arrived.
struct LateArrival {
    /// Offset of its first byte in the stream.
    offset: u64,
    /// Time at which its first byte was read.
    here: Instant,
    bytes: Vec<u8>,
}

/// The neighbour's end of a stream, with the time of each read.
struct SlowReader {
    stream: TcpStream,
    read: u64,
    times: Vec<(u64, Instant)>,
    /// Bytes read and not parsed yet.
    rest: Vec<u8>,
}
impl SlowReader {
    /// Accepts a connection and sends the first messages of a session.
    fn open(over: LateCarrier, listener: &TcpListener, name: &str) -> SlowReader {
        let stream = listener.accept().expect("the node connects").0;
        let mut reader = SlowReader { stream, read: 0, times: Vec::new(), rest: Vec::new() };
        let name_and_length = |length: &[u8]| [length, name.as_bytes()].concat();
        match over {
            LateCarrier::OneWay(_) => {}
            LateCarrier::TcpclV4 => {
                reader.say(b"dtn!\x04\x00");
                assert_eq!(reader.take(6).unwrap(), b"dtn!\x04\x00", "no TLS");
                // No keepalives; segments and transfers of any length; no extensions.
                reader.say(&[&[7, 0, 0][..], &[0x7f; 16], &name_and_length(&[0, name.len() as u8]), &[0; 4]].concat());
                assert_eq!(reader.take(19).unwrap()[0], 7);
                let name = reader.number(2).unwrap();
                reader.take(name as usize).unwrap();
                let items = reader.number(4).unwrap();
                reader.take(items as usize).unwrap();
            }
            LateCarrier::TcpclV3 => {
                // With acknowledgments, without keepalives.
                reader.say(&[&b"dtn!\x03\x01\0\0"[..], &name_and_length(&[name.len() as u8])].concat());
                let head = reader.take(8).unwrap();
                assert!(head.starts_with(b"dtn!\x03") && head[5] & 1 == 1, "{head:?}");
                let name = reader.sdnv().unwrap();
                reader.take(name as usize).unwrap();
            }
        }
        reader
    }
    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node reads");
    }
    /// The next bytes; `None` when no more come.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.rest.len() < len {
            let (mut chunk, now) = ([0; STEP], Instant::now());
            let got = self.stream.read(&mut chunk).ok().filter(|got| *got > 0)?;
            self.read += got as u64;
            self.times.push((self.read, now));
            self.rest.extend_from_slice(&chunk[..got]);
            thread::sleep(REST);
        }
        Some(self.rest.drain(..len).collect())
    }
    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
    fn sdnv(&mut self) -> Option<u64> {
        let mut number = 0;
        loop {
            let byte = self.number(1)?;
            number = number << 7 | byte & 0x7f;
            if byte < 0x80 {
                return Some(number);
            }
        }
    }
    /// Offset of the next byte in the stream.
    fn place(&self) -> u64 {
        self.read - self.rest.len() as u64
    }
    /// Lower bound of the time at which this byte was read.
    fn time_of(&self, byte: u64) -> Instant {
        self.times[self.times.partition_point(|(end, _)| *end <= byte)].1
    }
    /// Reads the next bundle and acknowledges it; `None` at the end of the stream.
    fn bundle(&mut self, over: LateCarrier) -> Option<LateArrival> {
        let mut arrival: Option<LateArrival> = None;
        loop {
            let (flags, transfer, length) = match over {
                LateCarrier::OneWay(framing) => {
                    let (mut head, mut length) = (Vec::new(), None);
                    while length.is_none() {
                        head.extend(self.take(1)?);
                        let rope = Payload::from(head.clone());
                        length = framing.read_head(&mut rope.reader()).expect("a head");
                    }
                    // An empty frame is a keepalive.
                    if length == Some(0) {
                        continue;
                    }
                    (3, 0, length?)
                }
                LateCarrier::TcpclV4 => match self.number(1)? {
                    // XFER_SEGMENT (RFC 9174 section 5.2.2): flags, transfer ID, extension items with START, length.
                    1 => {
                        let (flags, transfer) = (self.number(1)?, self.number(8)?);
                        if flags & 2 != 0 {
                            let items = self.number(4)?;
                            self.take(items as usize)?;
                        }
                        (flags, transfer, self.number(8)?)
                    }
                    4 => continue,
                    other => panic!("message {other}"),
                },
                LateCarrier::TcpclV3 => match self.number(1)? {
                    // DATA_SEGMENT of RFC 7242, with its flags in the low bits.
                    data @ 0x10..0x20 => (data & 3, 0, self.sdnv()?),
                    0x40 => continue,
                    other => panic!("message {other:02x}"),
                },
            };
            let place = self.place();
            let bytes = self.take(length as usize)?;
            let arrival = match &mut arrival {
                Some(arrival) if flags & 2 == 0 => arrival,
                arrival => arrival.insert(LateArrival { offset: place, here: Instant::now(), bytes: Vec::new() }),
            };
            arrival.bytes.extend(bytes);
            let have = arrival.bytes.len() as u64;
            match over {
                LateCarrier::OneWay(_) => {}
                LateCarrier::TcpclV4 => {
                    let numbers = [transfer.to_be_bytes(), have.to_be_bytes()].concat();
                    self.say(&[&[2, flags as u8][..], &numbers].concat());
                }
                LateCarrier::TcpclV3 => {
                    let mut number = [0; sdnv::LEN_MAX];
                    let len = sdnv::encode(have, &mut number);
                    self.say(&[&[0x20][..], &number[..len]].concat());
                }
            }
            if flags & 1 != 0 {
                return Some(LateArrival {
                    offset: arrival.offset,
                    here: arrival.here,
                    bytes: std::mem::take(&mut arrival.bytes),
                });
            }
        }
    }
    fn bundles(&mut self, over: LateCarrier) -> Vec<LateArrival> {
        // The bundles with a lifetime of a day, half of all, must come. After them, half a second of silence is the
        // end.
        let mut all = Vec::new();
        let mut must = 0;
        while let Some(arrival) = {
            let patience = if must < COUNT / 2 { 30_000 } else { 500 };
            self.stream.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
            self.bundle(over)
        } {
            must += 1 - number_and_age(&arrival.bytes).0 % 2;
            all.push(arrival);
        }
        all
    }
}

/// Number in a bundle's payload, and the bundle's age if it carries one.
fn number_and_age(bytes: &[u8]) -> (u32, Option<Duration>) {
    let rope = Payload::from(bytes.to_vec());
    let (payload, age) = if bytes[0] == 6 {
        let bundle = v6::decode(&rope, Profile::Strict).unwrap();
        let age = bundle.before.iter().find_map(|block| match block.meaning {
            v6::Meaning::Age(age_us) => Some(Duration::from_micros(age_us)),
            _ => None,
        });
        (bundle.payload, age)
    } else {
        let bundle = farlink_bundle::decode(&rope, Profile::Strict, &Accel::default()).unwrap();
        let age = bundle.age_ms().map(Duration::from_millis);
        (bundle.payload, age)
    };
    let number = payload.slice(0, 4).to_bytes().unwrap();
    (u32::from_be_bytes(number[..].try_into().unwrap()), age)
}

/// A node with a neighbour over each layer, the first of which is `ipn:2.0`.
fn start(dir: &Path, version: u8, clock: bool, listeners: &[TcpListener]) -> Node {
    let clock = if clock { "trusted" } else { "untrusted" };
    let mut text = format!(
        "node_ids = \"ipn:1.0\"\nclock = \"{clock}\"\nbundle_version = {version}\n[store]\nkind = \"memory\"\n\
         [app]\nsocket = \"app.sock\"\n[api]\nsocket = \"\"\n"
    );
    for ((peer, over), listener) in (2..).zip(ALL).zip(listeners) {
        let (kind, address) = (over.word(), listener.local_addr().unwrap());
        text += &format!(
            "[layer.{kind}]\nkind = \"{kind}\"\n[link.to{peer}]\nlayer = \"{kind}\"\npeer = \"ipn:{peer}.0\"\n\
             address = \"{address}\"\n"
        );
    }
    let file = dir.join("node.toml");
    std::fs::write(&file, text).unwrap();
    Node::start(&file, dir.join("app.sock"))
}

/// Times just before and just after each bundle was sent, by neighbour and number.
type SentBundle = [Vec<[Instant; 2]>; ALL.len()];

fn send(node: &Node) -> SentBundle {
    let mut client = node.client("99", 0);
    let mut sent = SentBundle::default();
    for number in 0..COUNT {
        for (place, times) in sent.iter_mut().enumerate() {
            // 0 stands for the default of a day.
            let lifetime_ms = if number % 2 == 0 { 0 } else { SHORT.as_millis() as u64 };
            let adu = BundleAdu { dst_eid: format!("ipn:{}.64", place + 2), lifetime_ms, ..Default::default() };
            let payload = [&number.to_be_bytes()[..], &[0x5a; SIZE - 4]].concat();
            let before = Instant::now();
            client.send(adu, &payload).unwrap();
            client.response().unwrap();
            times.push([before, Instant::now()]);
        }
    }
    sent
}

/// Checks that each bundle has the right age and left within its lifetime, apart from the time that [`HELD`] bytes
/// take.
fn check(what: &str, clock: bool, reader: &SlowReader, arrivals: &[LateArrival], sent: &[[Instant; 2]]) {
    let (mut late, mut shorts, mut longs) = (0, 0, 0);
    for arrival in arrivals {
        let (number, age) = number_and_age(&arrival.bytes);
        let [before, after] = sent[number as usize];
        let is_short = number % 2 == 1;
        *(if is_short { &mut shorts } else { &mut longs }) += 1;
        assert_eq!(age.is_none(), clock, "{what}: {number}");
        // Between a bundle's stamp and the reader are at most `HELD` bytes. So the bundle was stamped after the reader
        // had read the byte that precedes it by `HELD`.
        let waited = arrival.offset.checked_sub(HELD).map(|byte| reader.time_of(byte).saturating_duration_since(after));
        if let Some(waited) = waited {
            assert!(
                !is_short || waited <= SHORT + EXACT,
                "{what}: {number} expired, and left {waited:?} after it was sent"
            );
            late += u32::from(waited >= STALL);
        }
        if let Some(age) = age {
            let least = waited.unwrap_or_default();
            assert!(age + EXACT >= least, "{what}: {number} waited {least:?} and says {age:?}");
            let most = arrival.here - before + EXACT;
            assert!(age <= most, "{what}: {number} was here {most:?} after it was sent and says {age:?}");
        }
    }
    assert_eq!(longs, COUNT / 2, "{what}: all that live longer come");
    assert!(u64::from(shorts) * SIZE as u64 <= HELD, "{what}: {shorts} that live for a second came, more than is held");
    assert!(late >= COUNT / 4, "{what}: only {late} waited in the node");
}

#[test]
fn bundles_age_behind_unread_sockets() {
    // Both versions of the bundle protocol, with and without a trusted clock: without it a bundle carries its age.
    let tries = [(7, true), (7, false), (6, true), (6, false)];
    let run = |version: u8, clock: bool| {
        let dir = tempfile::tempdir().unwrap();
        let listeners = ALL.map(|_| listener());
        let node = start(dir.path(), version, clock, &listeners);
        thread::scope(|scope| {
            let readers: Vec<_> = ALL
                .into_iter()
                .zip(&listeners)
                .zip(2..)
                .map(|((over, listener), peer)| {
                    let (reads, when) = mpsc::channel::<()>();
                    let work = move || {
                        let mut reader = SlowReader::open(over, listener, &format!("ipn:{peer}.0"));
                        when.recv().expect("the node took all");
                        let arrivals = reader.bundles(over);
                        (reader, arrivals)
                    };
                    (reads, scope.spawn(work))
                })
                .collect();
            let sent = send(&node);
            thread::sleep(STALL);
            readers.iter().for_each(|(reads, _)| reads.send(()).expect("it waits"));
            for ((over, sent), (_, reader)) in ALL.into_iter().zip(&sent).zip(readers) {
                let (reader, arrivals) = reader.join().expect("what came is understood");
                let what =
                    format!("{}, version {version}, {}", over.word(), ["no clock", "a clock"][usize::from(clock)]);
                check(&what, clock, &reader, &arrivals, sent);
            }
        });
    };
    // All four cases run at once: each waits for seconds and computes for moments.
    thread::scope(|scope| tries.iter().for_each(|(version, clock)| drop(scope.spawn(|| run(*version, *clock)))));
}

//! Fuzz targets: each takes arbitrary bytes, must not panic, and must not output much more than it received.
//!
//! To add one: write a function here, add it to [`TARGETS`], add `tests/fuzz/src/bin/<name>.rs` (copy
//! any other) and at least one seed in [`crate::seeds`]; then
//! `cargo run -p farlink-tests --example write_seeds`. `cargo xtask fuzz <name>` runs it, and
//! `tests/tests/fuzz_corpora.rs` replays every corpus and a few thousand mutations of it with the
//! ordinary tests.

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{
    Accel, Bytes, Clock, DtnTime, Duration, Instant, LayerId, Leaving, LinkId, NodeId, Payload, Refusal, StreamId,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId};
use farlink_bundle::{
    AdministrativeRecord, Bundle, CreationTimestamp, EidCodec, EndpointId, FragmentInfo, Profile, cbor, decode,
    decode_prefix,
};
use farlink_cla::registry::LayerInfo;
use farlink_cla::{announce, ltp, oneway, tcpcl_v4, udpcl};
use farlink_stack::{self as stack, Config, LayerConfig, LayerKind, Stack};

pub use crate::fuzz_ltp::ltp_extensions;
pub use crate::fuzz_reading::{bundle_end, reading_ltp, reading_mtcp, reading_stcp, reading_tcpcl, reading_udpcl};
pub use crate::fuzz_security::{secured_bundle, security_block};
pub use crate::fuzz_v6::{bundle_v6, record_v6};

/// A fuzz target: takes any bytes and panics on a defect.
pub type Target = fn(&[u8]);

/// Every target by name; the names are those of the binaries in `tests/fuzz/src/bin` and of the
/// folders in `tests/fuzz/corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("administrative_record", administrative_record),
    ("beacon", beacon),
    ("bundle", bundle),
    ("bundle_end", bundle_end),
    ("bundle_v6", bundle_v6),
    ("cbor_item", cbor_item),
    ("contact_plan", contact_plan),
    ("eid_cbor", eid_cbor),
    ("eid_text", eid_text),
    ("ltp", ltp_engine),
    ("ltp_extensions", ltp_extensions),
    ("ltp_segment", ltp_segment),
    ("mtcp", mtcp),
    ("reading_ltp", reading_ltp),
    ("reading_mtcp", reading_mtcp),
    ("reading_stcp", reading_stcp),
    ("reading_tcpcl", reading_tcpcl),
    ("reading_udpcl", reading_udpcl),
    ("reassembly", reassembly),
    ("record_v6", record_v6),
    ("sdnv", sdnv),
    ("secured_bundle", secured_bundle),
    ("security_block", security_block),
    ("stcp", stcp),
    ("tcpcl_v3_active", tcpcl_v3_active),
    ("tcpcl_v3_passive", tcpcl_v3_passive),
    ("tcpcl_v3_session", tcpcl_v3_session),
    ("tcpcl_v4_active", tcpcl_v4_active),
    ("tcpcl_v4_passive", tcpcl_v4_passive),
    ("tcpcl_v4_session", tcpcl_v4_session),
    ("udpcl", udpcl),
];

/// Greatest processor time allowed for one input.
pub const TIME_MAX: Duration = Duration::from_secs(1);

/// Runs a target and limits its time. An input that exceeds the limit in wall time, which means little on a busy
/// machine, runs again and is measured in processor time. Fuzzers with a timeout of their own do not need this.
///
/// # Panics
/// When the target panics, or takes more processor time than [`TIME_MAX`].
pub fn in_time(target: Target, data: &[u8]) {
    within(TIME_MAX, target, data);
}
fn within(most: Duration, target: Target, data: &[u8]) {
    let began = std::time::Instant::now();
    target(data);
    if began.elapsed() > most {
        let before = processor_time();
        target(data);
        let took = processor_time() - before;
        assert!(took <= most, "{took:?} for an input of {} B", data.len());
    }
}
/// Processor time of this thread, to a hundredth of a second; zero if the kernel does not report it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // proc(5): utime and stime are the 14th and 15th field; the second may hold spaces and ends with `)`.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// A BPv7 bundle: decoding does not depend on how the bytes are chunked, and a decoded bundle encodes to the same
/// bytes.
pub fn bundle(data: &[u8]) {
    let accel = Accel::default();
    let whole = Payload::from(data.to_vec());
    let mut pieces = Payload::new();
    data.chunks(7).for_each(|piece| pieces.push_bytes(Bytes::copy_from_slice(piece)));
    assert_eq!(decode_prefix(&whole), decode_prefix(&pieces));
    for profile in [Profile::Strict, Profile::Permissive] {
        let read = decode(&whole, profile, &accel);
        assert_eq!(read, decode(&pieces, profile, &accel));
        let Ok(bundle) = read else { continue };
        assert!(bundle.payload.len() < data.len() as u64);
        let again = bundle.encode(&accel);
        assert_eq!(again.len(), bundle.encoded_len());
        let written = again.into_payload().to_bytes().unwrap_or_default();
        if profile == Profile::Strict {
            // A payload block whose array has indefinite length is encoded with a definite one, a byte shorter.
            assert!(written[..] == *data || written.len() + 1 == data.len(), "deterministic encoding");
            assert_eq!(decode_prefix(&whole), Ok(Some(data.len() as u64)));
        }
        let back = decode(&Payload::from(written), profile, &accel).expect("what was written is read");
        assert_eq!(back.id(), bundle.id());
        let _ = (bundle.id().fingerprint(), bundle.unprocessable().count(), bundle.priority());
    }
}

/// A beacon: encoding and parsing agree, and an announcer that receives it from three addresses keeps its bounds.
pub fn beacon(data: &[u8]) {
    if let Ok(read) = announce::Beacon::parse(data) {
        assert!(read.node.is_node_id() && read.services.len() <= data.len());
        let whole = read.period.is_none_or(|period| period.subsec_nanos() == 0);
        let written = announce::Beacon { sequence: read.sequence.or(Some(0)), ..read };
        assert!(whole && announce::Beacon::parse(&written.emit()).as_ref() == Ok(&written));
    }
    let layer = LayerInfo::named("tcpclv4");
    let config = announce::Config {
        node_ids: vec![EndpointId::ipn(1, 0)],
        services: Vec::new(),
        interval: Duration::from_secs(5),
        reach: layer.into_iter().collect(),
        accept: vec!["*".into()],
        neighbours_max: 2,
        seed: 1,
    };
    let mut announcer = announce::Announcer::new(config, Instant::ZERO);
    let mut out = Vec::new();
    for second in 0..20u8 {
        let from = ([10, 0, 0, second % 3], 3003).into();
        announcer.handle(
            Instant(u64::from(second) * 1_000_000_000),
            announce::Input::Heard { from, bytes: data },
            &Nowhere,
            &mut out,
        );
        announcer.handle(Instant(u64::from(second) * 1_000_000_000), announce::Input::Wake, &Nowhere, &mut out);
    }
    let found = out.iter().filter(|output| matches!(output, announce::Output::Discovered { .. })).count();
    // Three addresses announce themselves, so three entries are the most. Two attempts to connect run at a time
    // (`neighbours_max`), each for 10 s: fewer than six begin in 20 s.
    assert!(found <= 6 && announcer.announced().count() <= 3);
}
/// Surroundings in which no node is known and no link comes up.
struct Nowhere;
impl announce::Around for Nowhere {
    fn is_known(&self, _: &EndpointId, _: usize, _: std::net::SocketAddr) -> bool {
        false
    }
    fn state(&self, _: announce::DiscoveredId) -> announce::LinkNow {
        announce::LinkNow::Down
    }
}

/// CBOR items: each is skipped whole or rejected.
pub fn cbor_item(data: &[u8]) {
    for strict in [false, true] {
        let mut reader = cbor::CborReader::new(data, 0, strict);
        while let Ok(item) = reader.item() {
            assert!(!item.is_empty());
        }
        let mut reader = cbor::CborReader::new(data, 0, strict);
        while reader.head().is_ok() {}
    }
}

/// An endpoint ID as text: printing and parsing agree.
pub fn eid_text(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let Ok(eid) = text.parse::<EndpointId>() else { return };
    assert_eq!(eid.to_string().parse::<EndpointId>().as_ref(), Ok(&eid));
    let mut wire = Vec::new();
    eid.encode(&mut wire);
    assert_eq!(wire.len() as u64, eid.encoded_len());
    let _ = (eid.service_number(), eid.is_singleton(), eid.node_id().is_node_id());
}

/// An endpoint ID as CBOR: encoding and decoding agree.
pub fn eid_cbor(data: &[u8]) {
    for profile in [Profile::Strict, Profile::Permissive] {
        let Ok(eid) = EndpointId::decode(data, profile) else { continue };
        let mut wire = Vec::new();
        eid.encode(&mut wire);
        assert_eq!(wire.len() as u64, eid.encoded_len());
        // An allocator and a node number, read as two integers of one byte, may be written as one of nine bytes.
        assert!(wire.len() <= data.len() + 7);
        assert_eq!(EndpointId::decode(&wire, profile), Ok(eid));
    }
}

/// An administrative record: encoding and decoding agree.
pub fn administrative_record(data: &[u8]) {
    let Ok(record) = AdministrativeRecord::decode(data) else { return };
    let wire = record.encode();
    assert!(wire.len() <= data.len() + 3);
    if let AdministrativeRecord::Unknown { content, kind } = &record {
        custody_signal(*kind, content);
        tunnel(*kind, content, data);
    }
    assert_eq!(AdministrativeRecord::decode(&wire), Ok(record));
}
fn custody_signal(kind: u64, content: &[u8]) {
    // Reads the content as a compressed custody signal, whatever its type: encoding and decoding agree, and no run is
    // empty.
    use farlink_bundle::v7::custody::{put_signal, read_signal};
    let Ok(said) = read_signal(content) else { return };
    let runs = || said.iter().flat_map(|said| &said.sequences).flat_map(|sequence| &sequence.runs);
    assert!(runs().count() <= content.len() && runs().all(|run| run.first <= run.last));
    let again = AdministrativeRecord::decode(&put_signal(kind, &said));
    let Ok(AdministrativeRecord::Unknown { content, .. }) = again else { panic!("a record") };
    assert_eq!(read_signal(&content), Ok(said));
}

fn tunnel(kind: u64, content: &[u8], data: &[u8]) {
    // Reads the content as a signal about tunnelled bundles, and the record as a carrier of one, whatever its type:
    // encoding and decoding agree, no run is empty, and the search for nested bundles ends at its bound.
    use farlink_bundle::v7::tunnel::depth;
    use farlink_bundle::v7::{Carried, TunnelSignal};
    let payload = Payload::from(data.to_vec());
    assert!(depth(&payload, kind, 5) <= 5);
    if let Ok(Some(carried)) = Carried::read(&payload, kind) {
        assert!(carried.bundle.len() <= payload.len());
        assert_eq!(Carried::read(&carried.clone().encode(kind), kind), Ok(Some(carried)));
    }
    let Ok(signal) = TunnelSignal::read(content) else { return };
    assert!(signal.runs.len() <= content.len() && signal.runs.iter().all(|run| run.first <= run.last));
    let again = AdministrativeRecord::decode(&signal.encode(kind));
    let Ok(AdministrativeRecord::Unknown { content, .. }) = again else { panic!("a record") };
    // A run of all 2^64 numbers cannot be encoded, and is rejected when read.
    assert_eq!(TunnelSignal::read(&content), Ok(signal));
}

/// A node receives fragments of a few bundles in any order. Input: for each fragment 16 bits of offset, 16 of length
/// and 8 of total length.
pub fn reassembly(data: &[u8]) {
    let mut config = Config::new(EndpointId::ipn(2, 0));
    config.layers = vec![LayerConfig {
        name: "udpcl".into(),
        kind: LayerKind::Udpcl(udpcl::Config { split: decode_prefix, ..udpcl::Config::default() }),
    }];
    (config.node.limits.fragments, config.node.limits.bundles) = (20, 100);
    let mut stack = Stack::new(config).expect("the configuration is right");
    let (mut now, mut out) = (Instant::ZERO, Vec::new());
    let created = DtnTime(800_000_000_000);
    stack.handle(now, stack::Input::Clock(Clock { at: now, utc: Some(created), error_ms: 0 }), &mut out);
    let endpoint = EndpointId::ipn(2, 1);
    let register = AppInput::Register { registration: RegistrationId(1), endpoint: endpoint.clone(), window: 4 };
    stack.handle(now, stack::Input::App(register), &mut out);
    for field in data.chunks_exact(5).take(200) {
        let at = |i: usize| u64::from(u16::from_be_bytes([field[i], field[i + 1]]));
        // The total doubles as the sequence number, so that fragments of one bundle agree on it.
        let total = u64::from(field[4]) * 256;
        let payload = Payload::fill(total, at(2));
        let creation = CreationTimestamp { time: created, sequence: total };
        let mut fragment = Bundle::new(EndpointId::ipn(1, 1), endpoint.clone(), creation).payload(payload).build();
        fragment.primary.fragment = Some(FragmentInfo { offset: at(0), total });
        let bytes = fragment.encode(&Accel::default()).into_payload().to_bytes().expect("a pattern");
        let train = DatagramBatch::single(Payload::from(bytes));
        let from = core::net::SocketAddr::from(([127, 0, 0, 1], 4556));
        let arrived = socket::Input::Datagrams { from, train };
        stack.handle(now, stack::Input::Socket(LayerId(0), arrived), &mut out);
        now = now + Duration::from_millis(1);
        while stack.next_timeout().is_some_and(|at| at <= now) {
            stack.handle(now, stack::Input::Wake, &mut out);
        }
        for output in std::mem::take(&mut out) {
            let stack::Output::App(AppOutput::Deliver { registration, delivery, bundle }) = output else { continue };
            assert_eq!(
                bundle.payload.len(),
                bundle.creation.sequence,
                "a whole bundle, of the length that its fragments state"
            );
            let done = AppInput::DeliveryDone { registration, delivery, taken: true };
            stack.handle(now, stack::Input::App(done), &mut out);
        }
        assert!(stack.status(now).bundles <= 100);
    }
    // Fragments of incomplete bundles expire.
    now = now + Duration::from_secs(2 * 86_400);
    while stack.next_timeout().is_some_and(|at| at <= now) {
        stack.handle(now, stack::Input::Wake, &mut out);
    }
    assert_eq!(stack.status(now).bundles, 0);
}

/// A self-delimiting numeric value (SDNV): encoding and decoding agree.
pub fn sdnv(data: &[u8]) {
    use farlink_base::sdnv::{LEN_MAX, decode, encode, len};
    let Ok((value, used)) = decode(data) else { return };
    assert!(used <= data.len() && used <= LEN_MAX && len(value) <= used);
    let mut wire = [0; LEN_MAX];
    let written = encode(value, &mut wire);
    assert_eq!(decode(&wire[..written]), Ok((value, written)));
}

/// One LTP segment: encoding and parsing agree.
pub fn ltp_segment(data: &[u8]) {
    let Ok(segment) = ltp::segment::Segment::parse(&Bytes::copy_from_slice(data)) else { return };
    let wire = segment.emit();
    assert!(wire.len() <= data.len() + 16);
    assert_eq!(ltp::segment::Segment::parse(&wire).map(|again| again.emit()), Ok(wire));
}

/// An LTP engine that accepts every bundle. Input: datagrams, each with a byte for its length.
pub fn ltp_engine(data: &[u8]) {
    let config = ltp::Config { engine: 1, memory_bytes: 1 << 20, ..ltp::Config::default() };
    let span = ltp::SpanConfig { engine: 2, node: NodeId::ipn(2), ..ltp::SpanConfig::default() };
    let mut layer = ltp::Ltp::new(config, vec![span]);
    let mut now = Instant::ZERO;
    let mut out = Vec::new();
    layer.handle(now, Input::Link { link: LinkId(0), state: LinkState::UP }, &mut out);
    let bundle = Payload::from(vec![7; 3000]);
    layer.handle(now, Input::send(LinkId(0), SendId(1), bundle, true), &mut out);
    let (link, part) = (LinkId(0), Payload::from(vec![8; 1000]));
    layer.handle(
        now,
        Input::Send { link, id: SendId(2), total: 3000, part, reliable: true, leaving: Leaving::AS_IT_IS },
        &mut out,
    );
    let mut rest = data;
    let mut said = 0u64;
    for _ in 0..1000 {
        let Some((length, after)) = rest.split_first() else { break };
        let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now = Instant(now.0 + 50_000_000);
        let from = core::net::SocketAddr::from(([127, 0, 0, 1], 1113));
        let train = DatagramBatch::single(Payload::from(datagram.to_vec()));
        layer.handle(now, Input::Socket(socket::Input::Datagrams { from, train }), &mut out);
        layer.handle(now, Input::Wake, &mut out);
        for output in core::mem::take(&mut out) {
            match output {
                Output::Offer { ticket, last: true, .. } => {
                    layer.handle(now, Input::Accepted { ticket }, &mut out);
                }
                Output::Want { link, id, from, len } => {
                    let part = Payload::from(vec![8; len as usize]);
                    layer.handle(now, Input::SendMore { link, id, from, part }, &mut out);
                }
                Output::Socket(socket::Output::Datagrams { train, .. }) => said += train.data.len(),
                _ => {}
            }
        }
    }
    // Amplification is bounded: the engine's own bundles with their retransmissions, and a few segments for each byte
    // received.
    assert!(said <= 1_000_000 + 64 * data.len() as u64, "{said} bytes said for {} heard", data.len());
}

/// A UDPCL entity. Input: datagrams, each with a byte for the sender and one for the length. In the end all memory must
/// be free.
pub fn udpcl(data: &[u8]) {
    let config = udpcl::Config {
        node_id: "ipn:1.0".into(),
        memory_bytes: 1 << 16,
        transfers: 16,
        split: decode_prefix,
        ..udpcl::Config::default()
    };
    let span = udpcl::LinkParams { version: 2, datagram_bytes: 200, ..udpcl::LinkParams::default() };
    let mut layer = udpcl::Udpcl::new(config, vec![span]);
    let (link, mut now, mut out) = (LinkId(0), Instant::ZERO, Vec::new());
    let address = |host: u8| core::net::SocketAddr::from(([127, 0, 0, host], 4556));
    layer.handle(now, Input::Socket(socket::Input::Located { link, addresses: vec![address(0)] }), &mut out);
    layer.handle(now, Input::Link { link, state: LinkState::UP }, &mut out);
    layer.handle(now, Input::send(link, SendId(1), Payload::from(vec![7; 3000]), false), &mut out);
    let (mut rest, mut said, mut offered) = (data, 0u64, 0u64);
    for _ in 0..1000 {
        let Some(([host, length], after)) = rest.split_first_chunk() else { break };
        let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now = Instant(now.0 + 50_000_000);
        let train = DatagramBatch::single(Payload::from(datagram.to_vec()));
        let from = address(*host);
        layer.handle(now, Input::Socket(socket::Input::Datagrams { from, train }), &mut out);
        layer.handle(now, Input::Wake, &mut out);
        for output in core::mem::take(&mut out) {
            match output {
                Output::Offer { part, .. } => offered += part.len(),
                Output::Socket(socket::Output::Datagrams { train, .. }) => said += train.data.len(),
                Output::Ready { link, ready: true } if link.is_dynamic() => {
                    let bundle = Payload::from(vec![9; 50]);
                    layer.handle(now, Input::send(link, SendId(now.0), bundle, false), &mut out);
                }
                _ => {}
            }
        }
        assert!(layer.usage().arriving_bytes <= 1 << 16 && layer.usage().transfers <= 16);
    }
    assert!(offered <= data.len() as u64, "more offered than came");
    assert!(said <= 4000 + 16 * data.len() as u64, "{said} bytes said for {} heard", data.len());
    while let Some(due) = layer.next_timeout() {
        now = now.max(due);
        layer.handle(now, Input::Wake, &mut out);
        out.clear();
    }
    assert_eq!(layer.usage(), udpcl::Usage::default());
}

/// Text of a contact plan, in any dialect.
pub fn contact_plan(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(parsed) = farlink_routing::contact_plan::parse(text) {
        assert!(parsed.plan.contacts.len() <= text.len());
    }
}

/// TCPCLv4, connecting side. Input: bytes of the peer.
pub fn tcpcl_v4_active(data: &[u8]) {
    tcpcl(tcpcl_v4::Versions::Four, data, StreamId(0), &[]);
}
/// TCPCLv4, accepting side, which also knows version 3. Input: bytes of the peer.
pub fn tcpcl_v4_passive(data: &[u8]) {
    tcpcl(tcpcl_v4::Versions::Both, data, StreamId(StreamId::PASSIVE), &[]);
}
/// TCPCLv4 after contact headers and session initialization. Input: bytes of the peer.
pub fn tcpcl_v4_session(data: &[u8]) {
    let hello = b"dtn!\x04\x00\x07\x00\x1e\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x07ipn:1.0\x00\x00\x00\x00";
    tcpcl(tcpcl_v4::Versions::Four, data, StreamId(0), hello);
}
/// TCPCLv3, connecting side. Input: bytes of the peer.
pub fn tcpcl_v3_active(data: &[u8]) {
    tcpcl(tcpcl_v4::Versions::Three, data, StreamId(0), &[]);
}
/// TCPCLv3, accepting side. Input: bytes of the peer.
pub fn tcpcl_v3_passive(data: &[u8]) {
    tcpcl(tcpcl_v4::Versions::Three, data, StreamId(StreamId::PASSIVE), &[]);
}
/// TCPCLv3 after contact headers that agree on everything, on acknowledgments without refusals, or on nothing; the
/// second byte chooses.
pub fn tcpcl_v3_session(data: &[u8]) {
    let mut hello = *b"dtn!\x03\x0d\x00\x1e\x07ipn:1.0";
    hello[5] = [0x0d, 0x01, 0x00][usize::from(data.get(1).copied().unwrap_or(0) % 3)];
    tcpcl(tcpcl_v4::Versions::Three, data, StreamId(0), &hello);
}

fn tcpcl(versions: tcpcl_v4::Versions, data: &[u8], stream: StreamId, hello: &[u8]) {
    // The first byte chooses the size of chunks (6 bits) and the verdicts on offered bundles (2 bits). The tested
    // entity also sends bundles.
    let config = tcpcl_v4::Config { node_id: "ipn:2.0".into(), versions, ..tcpcl_v4::Config::default() };
    let span = tcpcl_v4::LinkParams { node_id: "ipn:1.0".into(), segment_bytes: 40, ..Default::default() };
    let mut layer = tcpcl_v4::TcpclV4::new(config, vec![span]);
    let now = Instant::ZERO;
    let from = core::net::SocketAddr::from(([127, 0, 0, 1], 4556));
    let Some((choice, data)) = data.split_first() else { return };
    let mut out = Vec::new();
    layer.handle(now, Input::Link { link: LinkId(0), state: LinkState::UP }, &mut out);
    layer.handle(now, Input::Socket(socket::Input::Opened { stream, from }), &mut out);
    layer.handle(now, Input::Socket(socket::Input::Writable { stream, room: 1 << 20 }), &mut out);
    let (mut written, mut offered, mut next) = (0u64, 0u64, 0u64);
    let size = usize::from(choice & 0x3f) + 1;
    let chunks: Vec<&[u8]> =
        Some(hello).filter(|hello| !hello.is_empty()).into_iter().chain(data.chunks(size)).collect();
    for chunk in chunks {
        layer.handle(now, Input::Socket(socket::Input::Data { stream, data: Payload::from(chunk.to_vec()) }), &mut out);
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    Output::Socket(socket::Output::Write { data, .. }) => written += data.len(),
                    Output::Offer { ticket, part, last, .. } => {
                        offered += part.len();
                        if last && choice & 0x40 == 0 {
                            layer.handle(now, Input::Accepted { ticket }, &mut out);
                        } else if choice & 0x80 != 0 {
                            let reason = Refusal::NoResources;
                            layer.handle(now, Input::Refused { ticket, reason }, &mut out);
                        }
                    }
                    Output::Want { link, id, .. } if choice & 0xc0 == 0xc0 => {
                        layer.handle(now, Input::SendBroken { link, id }, &mut out);
                    }
                    Output::Want { link, id, from, len } => {
                        let part = Payload::from(vec![9; len as usize]);
                        layer.handle(now, Input::SendMore { link, id, from, part }, &mut out);
                    }
                    Output::Ready { link, ready: true } if next < 3 => {
                        next += 1;
                        // The first bundle is passed in parts.
                        let (id, total) = (SendId(next), 100);
                        let part = Payload::from(vec![9; if next == 1 { 30 } else { 100 }]);
                        layer.handle(
                            now,
                            Input::Send { link, id, total, part, reliable: true, leaving: Leaving::AS_IT_IS },
                            &mut out,
                        );
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(offered <= data.len() as u64, "more offered than came");
    // An acknowledgment is never longer than the segment it is for, a rejection never longer than
    // the message.
    assert!(written <= 2000 + 3 * data.len() as u64, "{written} bytes written for {} heard", data.len());
    layer.handle(now, Input::Socket(socket::Input::Closed { stream, error: true }), &mut out);
}

/// STCP. Input: bytes of the peer, on either side's stream.
pub fn stcp(data: &[u8]) {
    one_way(oneway::Framing::Stcp, data);
}
/// MTCP. Input: bytes of the peer, on either side's stream.
pub fn mtcp(data: &[u8]) {
    one_way(oneway::Framing::Mtcp, data);
}

fn one_way(framing: oneway::Framing, data: &[u8]) {
    // The first byte chooses the size of chunks, the verdicts and the stream. Every third offer is accepted, so a
    // bundle refused for lack of room is not offered forever.
    let Some((choice, data)) = data.split_first() else { return };
    let config = oneway::Config { framing, kept: 10_000, transfer_mru: 100_000, ..oneway::Config::default() };
    let mut layer = oneway::OneWay::new(config, vec![oneway::LinkParams::default()]);
    let from = core::net::SocketAddr::from(([127, 0, 0, 1], 4556));
    let (ours, theirs) = (StreamId(0), StreamId(StreamId::PASSIVE));
    let (mut now, mut out) = (Instant::ZERO, Vec::new());
    layer.handle(now, Input::Link { link: LinkId(0), state: LinkState::UP }, &mut out);
    for stream in [ours, theirs] {
        layer.handle(now, Input::Socket(socket::Input::Opened { stream, from }), &mut out);
        layer.handle(now, Input::Socket(socket::Input::Writable { stream, room: 1 << 20 }), &mut out);
    }
    layer.handle(now, Input::send(LinkId(0), SendId(1), Payload::from(vec![7; 300]), true), &mut out);
    let stream = if choice & 0x20 == 0 { theirs } else { ours };
    let (mut refusals, mut written, mut offered) = (0, 0u64, 0u64);
    let chunks = data.chunks(usize::from(choice & 0x1f) + 1).map(Some).chain([None]);
    for chunk in chunks {
        let heard = |bytes: &[u8]| socket::Input::Data { stream, data: Payload::from(bytes.to_vec()) };
        let input = chunk.map_or(socket::Input::Closed { stream, error: choice & 0x80 == 0 }, heard);
        layer.handle(now, Input::Socket(input), &mut out);
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    Output::Socket(socket::Output::Write { stream, data }) => {
                        assert_eq!(stream, ours, "who accepted says nothing");
                        written += data.len();
                    }
                    Output::Offer { ticket, part, last, .. } => {
                        offered += part.len();
                        refusals += 1;
                        let verdict = if choice & 0x40 != 0 && refusals % 3 > 0 {
                            let reason = if choice & 0x80 == 0 { Refusal::NoResources } else { Refusal::NotAcceptable };
                            Input::Refused { ticket, reason }
                        } else if last {
                            Input::Accepted { ticket }
                        } else {
                            Input::Hold { ticket }
                        };
                        if let Input::Hold { ticket } = verdict {
                            layer.handle(now, Input::Hold { ticket }, &mut out);
                            layer.handle(now, Input::Resume { ticket }, &mut out);
                        } else {
                            layer.handle(now, verdict, &mut out);
                        }
                    }
                    _ => {}
                }
            }
        }
        assert!(layer.usage().kept <= 10_000 && layer.usage().kept <= data.len() as u64);
        now += Duration::from_secs(1);
        layer.handle(now, Input::Wake, &mut out);
    }
    // The output is one bundle and keepalives. A refused byte is offered again a few times only.
    assert!(written <= 310 + 4 * data.len() as u64, "{written} bytes written for {} heard", data.len());
    assert!(offered <= 40 * (data.len() as u64 + 1), "{offered} bytes offered of {}", data.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(50);

    #[test]
    fn budget_counts_work_not_waiting() {
        // A waiting input passes the bound of wall time, and its second run costs no processor time.
        within(MOST, |_| std::thread::sleep(3 * MOST), &[]);
        let works: Target = |_| {
            let began = processor_time();
            while processor_time() - began < 3 * MOST {}
        };
        assert!(std::panic::catch_unwind(|| within(MOST, works, &[])).is_err());
    }
}

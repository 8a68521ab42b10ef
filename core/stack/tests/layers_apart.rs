//! Several layers of one kind in one node stay apart: each receives and sends by its own sockets only.

use farlink_base::layer::{DatagramBatch, Destination, Medium};
use farlink_base::socket;
use farlink_base::{Bytes, Clock, DtnTime, Duration, Instant, LayerId, Payload, StreamId};
use farlink_bpa::Pressure;
use farlink_bundle::EndpointId;
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind};
use farlink_cla::oneway::{self, Framing};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, Output, Stack};
use std::net::SocketAddr;
use std::sync::Arc;

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 7], 1113))
}
/// Layers 0 and 1 are LTP, 2 and 3 TCPCLv4.
fn stack() -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let ltp = || LayerKind::Ltp(ltp::Config { engine: 1, ..ltp::Config::default() });
    let tcpcl = || LayerKind::Tcpcl(tcpcl_v4::Config { node_id: "ipn:1.0".into(), ..tcpcl_v4::Config::default() });
    let kinds = [ltp(), ltp(), tcpcl(), tcpcl()];
    assert_eq!(kinds[1].medium(), Some(Medium::Datagrams));
    assert_eq!((kinds[2].medium(), LayerKind::Message.medium()), (Some(Medium::Streams), None));
    config.layers = kinds.into_iter().map(|kind| LayerConfig { name: "layer".into(), kind }).collect();
    config.router = "static".into();
    started(config)
}
fn started(config: Config) -> Stack {
    let mut stack = Stack::new(config).expect("the configuration is right");
    give(&mut stack, Input::Clock(Clock { at: Instant::ZERO, utc: Some(DtnTime(800_000_000_000)), error_ms: 0 }));
    stack
}
fn give(stack: &mut Stack, input: Input) -> Vec<Output> {
    let mut out = Vec::new();
    stack.handle(Instant::ZERO, input, &mut out);
    while stack.next_timeout().is_some_and(|at| at <= Instant::ZERO) {
        stack.handle(Instant::ZERO, Input::Wake, &mut out);
    }
    out
}

#[test]
fn receiving_layer_answers_datagrams() {
    let mut stack = stack();
    let data = Data { kind: kind::RED, service: 1, offset: 0, length: 3, checkpoint: 0, report: 0 };
    for (heard, layer) in [1, 0, 1].into_iter().enumerate() {
        let session = SessionId { engine: 7, number: 5 };
        let begin = Segment { session, body: SegmentBody::Data(data, Bytes::from_static(b"abc")) }.emit();
        let cancel = Segment { session, body: SegmentBody::Cancel { by_sender: true, reason: 0 } }.emit();
        let datagrams = |bytes: Bytes| {
            Input::Socket(
                LayerId(layer),
                socket::Input::Datagrams { from: peer(), train: DatagramBatch::single(Payload::from(bytes)) },
            )
        };
        give(&mut stack, datagrams(begin));
        assert_eq!(stack.status(Instant::ZERO).links.len(), 2.min(heard + 1), "a link of its own in each layer");
        let out = give(&mut stack, datagrams(cancel));
        let answer = |o: &Output| match o {
            Output::Socket(layer, socket::Output::Datagrams { to: Destination::Address(to), .. }) => {
                Some((*layer, *to))
            }
            _ => None,
        };
        assert_eq!(out.iter().find_map(answer), Some((LayerId(layer), peer())));
    }
}

#[test]
fn accepting_layer_owns_streams() {
    let mut stack = stack();
    let mut hello = b"dtn!\x04\x00\x07\x00\x1e".to_vec();
    hello.extend([0, 0, 0, 0, 0, 0, 0x10, 0].repeat(2));
    hello.extend(b"\x00\x07ipn:7.0\x00\x00\x00\x00");
    for layer in [2, 3] {
        let stream = StreamId(StreamId::PASSIVE | u64::from(layer));
        give(&mut stack, Input::Socket(LayerId(layer), socket::Input::Opened { stream, from: peer() }));
        give(&mut stack, Input::Socket(LayerId(layer), socket::Input::Writable { stream, room: 1000 }));
        let out = give(
            &mut stack,
            Input::Socket(LayerId(layer), socket::Input::Data { stream, data: Payload::from(hello.clone()) }),
        );
        assert!(
            out.iter().any(|o| matches!(o, Output::Socket(_, socket::Output::Write { stream: s, .. }) if *s == stream))
        );
    }
    let links = |stack: &Stack| stack.status(Instant::ZERO).links.len();
    assert_eq!(links(&stack), 2, "one in each layer, for the same node");
    give(
        &mut stack,
        Input::Socket(LayerId(2), socket::Input::Closed { stream: StreamId(StreamId::PASSIVE | 2), error: true }),
    );
    assert_eq!(links(&stack), 1);
    // A stream given to a layer of datagrams is closed or ignored, not taken by another layer.
    let out = give(
        &mut stack,
        Input::Socket(LayerId(0), socket::Input::Opened { stream: StreamId(StreamId::PASSIVE | 9), from: peer() }),
    );
    assert!(out.is_empty());
}

#[test]
fn one_wake_serves_all_layers() {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let kind = LayerKind::Tcpcl(tcpcl_v4::Config { node_id: "ipn:1.0".into(), ..tcpcl_v4::Config::default() });
    config.layers = (0..2).map(|_| LayerConfig { name: "layer".into(), kind: kind.clone() }).collect();
    let link = |layer: usize| LinkConfig {
        name: format!("to-{layer}"),
        peer: EndpointId::ipn(7 + layer as u64, 0),
        layer,
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Tcpcl(tcpcl_v4::LinkParams { connect: true, ..tcpcl_v4::LinkParams::default() }),
    };
    config.links = [0, 1].map(link).into();
    config.router = "static".into();
    let (mut stack, mut out) = (Stack::new(config).expect("the configuration is right"), Vec::new());
    let connects = |out: &mut Vec<Output>| -> Vec<(LayerId, StreamId)> {
        let all = out.drain(..).filter_map(|output| match output {
            Output::Socket(layer, socket::Output::Connect { stream, .. }) => Some((layer, stream)),
            _ => None,
        });
        all.collect()
    };
    stack.handle(Instant::ZERO, Input::Clock(Clock::UNTRUSTED), &mut out);
    for _ in 0..2 {
        stack.handle(Instant::ZERO, Input::Wake, &mut out);
    }
    for (layer, stream) in connects(&mut out) {
        let failed = Input::Socket(layer, socket::Input::Closed { stream, error: true });
        stack.handle(Instant::ZERO, failed, &mut out);
    }
    // Both retries are overdue, as in a process that was stopped for a while.
    out.clear();
    stack.handle(Instant::ZERO + Duration::from_secs(3600), Input::Wake, &mut out);
    assert_eq!(connects(&mut out).iter().map(|(layer, _)| layer.0).collect::<Vec<_>>(), [0, 1]);
}

/// A read buffer that counts the holders of its parts.
struct Watched(Vec<u8>, #[allow(dead_code, reason = "counted")] Arc<()>);
impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn memory_pressure_frees_layer_buffers() {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let kind = LayerKind::OneWay(oneway::Config::of(Framing::Mtcp));
    config.layers = vec![LayerConfig { name: "layer".into(), kind }];
    config.router = "static".into();
    let mut stack = started(config);
    let (stream, buffer) = (StreamId(StreamId::PASSIVE | 2), Arc::new(()));
    give(&mut stack, Input::Socket(LayerId(0), socket::Input::Opened { stream, from: peer() }));
    // The beginning of an MTCP frame: the head of a CBOR byte string of 50,000 bytes, and most of its bytes.
    let mut bytes = vec![0x5a, 0, 0, 0xc3, 0x50];
    bytes.resize(40_000, 2);
    let data = Payload::from(Bytes::from_owner(Watched(bytes, buffer.clone())));
    give(&mut stack, Input::Socket(LayerId(0), socket::Input::Data { stream, data }));
    assert_eq!(Arc::strong_count(&buffer), 2);
    give(&mut stack, Input::Pressure(Pressure::High));
    assert_eq!(Arc::strong_count(&buffer), 1);
}

#[test]
fn link_numbers_bound_layer_count() {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    config.layers = (0..129).map(|_| LayerConfig { name: "m".into(), kind: LayerKind::Message }).collect();
    assert!(Stack::new(config.clone()).is_err());
    config.layers.pop();
    assert!(Stack::new(config).is_ok());
}

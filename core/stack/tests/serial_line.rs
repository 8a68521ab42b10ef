//! A medium that is neither UDP nor TCP: LTP over a serial line, added without a change to the engine.
//!
//! A medium is a driver's affair. The stack gives datagrams for a link ([`socket::Output::Datagrams`]) and takes those
//! that arrive ([`socket::Input::Datagrams`]); bytes in between may cross a line, a radio or a call into hardware. Here
//! they cross a serial line in SLIP frames (RFC 1055), each with a checksum, since a line damages bytes.

use farlink_base::layer::{DatagramBatch, Destination};
use farlink_base::{
    Bytes, Clock, DataRate, DtnTime, Duration, EndpointId, Facts, Instant, LayerId, LinkId, NodeId, Payload, Priority,
    socket,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_cla::ltp;
use farlink_stack::{Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, Output, Stack};
use std::collections::VecDeque;
use std::net::SocketAddr;

const BITS_PER_SECOND: u64 = 115_200;
/// Start, eight data bits and stop.
const BITS_PER_BYTE: u64 = 10;
/// One byte of this many is damaged on the way.
const NOISE: u64 = 20_000;
const END: u8 = 0xc0;
const ESCAPE: u8 = 0xdb;
const ESCAPED_END: u8 = 0xdc;
const ESCAPED_ESCAPE: u8 = 0xdd;

/// One direction of the line: bytes with the time at which they arrive.
#[derive(Default)]
struct SerialLine {
    bytes: VecDeque<(Instant, u8)>,
    free_at: Instant,
    sent: u64,
    /// Bytes of the frame that is arriving.
    frame: Vec<u8>,
    damaged: u64,
}

impl SerialLine {
    fn write(&mut self, now: Instant, datagram: &[u8]) {
        let checksum = datagram.iter().fold(0_u8, |sum, byte| sum.rotate_left(1) ^ byte);
        let escaped = datagram.iter().chain([&checksum]).flat_map(|byte| match *byte {
            END => vec![ESCAPE, ESCAPED_END],
            ESCAPE => vec![ESCAPE, ESCAPED_ESCAPE],
            byte => vec![byte],
        });
        for byte in escaped.chain([END]) {
            self.sent += 1;
            self.free_at =
                self.free_at.max(now) + Duration::from_nanos(BITS_PER_BYTE * 1_000_000_000 / BITS_PER_SECOND);
            let noise = if self.sent.is_multiple_of(NOISE) { 0x10 } else { 0 };
            self.bytes.push_back((self.free_at, byte ^ noise));
        }
    }
    /// The next whole datagram that has arrived by `now`.
    fn read(&mut self, now: Instant) -> Option<Bytes> {
        while let Some((_, byte)) = self.bytes.pop_front_if(|(at, _)| *at <= now) {
            if byte != END {
                self.frame.push(byte);
                continue;
            }
            let mut datagram = Vec::new();
            let mut frame = std::mem::take(&mut self.frame).into_iter();
            while let Some(byte) = frame.next() {
                datagram.push(match byte {
                    ESCAPE if frame.next() == Some(ESCAPED_END) => END,
                    ESCAPE => ESCAPE,
                    byte => byte,
                });
            }
            let checksum = datagram.pop();
            if checksum == Some(datagram.iter().fold(0, |sum: u8, byte| sum.rotate_left(1) ^ byte)) {
                return Some(datagram.into());
            }
            self.damaged += 1;
        }
        None
    }
}

fn node(own: u64, peer: u64) -> Stack {
    let mut config = Config::new(EndpointId::ipn(own, 0));
    let kind = LayerKind::Ltp(ltp::Config { engine: own, ..ltp::Config::default() });
    let span = ltp::SpanConfig { engine: peer, node: NodeId::ipn(peer), datagram_bytes: 256, ..Default::default() };
    config.layers = vec![LayerConfig { name: "line".into(), kind }];
    config.links = vec![LinkConfig {
        name: "line".into(),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: Some(DataRate(BITS_PER_SECOND * 8 / BITS_PER_BYTE)),
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Ltp(span),
    }];
    config.router = "static".into();
    config.seed = own;
    Stack::new(config).expect("the configuration is right")
}

/// Two nodes and their line; `lines[n]` leads away from node `n`.
struct Driver {
    now: Instant,
    stacks: [Stack; 2],
    lines: [SerialLine; 2],
    delivered: Vec<Bytes>,
}

impl Driver {
    fn handle(&mut self, node: usize, input: Input) {
        let mut outputs = Vec::new();
        self.stacks[node].handle(self.now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Socket(_, socket::Output::Datagrams { to, train }) => {
                    assert_eq!(to, Destination::Link(LinkId(0)), "the line has one other end");
                    for datagram in train.datagrams() {
                        self.lines[node].write(self.now, &datagram.to_bytes().expect("bytes"));
                    }
                }
                Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
                    self.delivered.push(bundle.payload.to_bytes().expect("bytes"));
                    self.handle(node, Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
                }
                _ => {}
            }
        }
    }
    fn run_until(&mut self, end: Instant) {
        while self.now < end {
            let arrivals = self.lines.iter().filter_map(|line| line.bytes.front().map(|(at, _)| *at));
            let next = self.stacks.iter().filter_map(Stack::next_timeout).chain(arrivals).min().unwrap_or(end);
            self.now = self.now.max(next.min(end));
            for node in [0, 1] {
                while let Some(datagram) = self.lines[1 - node].read(self.now) {
                    // A line has no addresses: any that stays the same stands for the other end.
                    let from = SocketAddr::from(([0, 0, 0, 0], 1));
                    let train = DatagramBatch::single(Payload::from(datagram));
                    self.handle(node, Input::Socket(LayerId(0), socket::Input::Datagrams { from, train }));
                }
                self.handle(node, Input::Wake);
            }
        }
    }
}

#[test]
fn ltp_crosses_a_noisy_serial_line() {
    let mut driver = Driver {
        now: Instant::ZERO,
        stacks: [node(1, 2), node(2, 1)],
        lines: Default::default(),
        delivered: Vec::new(),
    };
    for node in [0, 1] {
        let clock = Clock { at: Instant::ZERO, utc: Some(DtnTime(800_000_000_000)), error_ms: 0 };
        driver.handle(node, Input::Clock(clock));
    }
    let registration =
        AppInput::Register { registration: RegistrationId(1), endpoint: EndpointId::ipn(2, 1), window: 8 };
    driver.handle(1, Input::App(registration));
    let payloads: Vec<Bytes> = (0..8).map(|seed| Payload::fill(seed, 10_000).to_bytes().expect("a pattern")).collect();
    for (number, payload) in payloads.iter().enumerate() {
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(2, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::from(payload.clone()),
        };
        driver.handle(0, Input::App(AppInput::Send { request: RequestId(number as u64), bundle }));
    }
    driver.run_until(Instant::ZERO + Duration::from_secs(60));
    assert!(driver.lines[0].damaged > 0, "noise damaged no frame: the test shows nothing");
    driver.delivered.sort();
    let mut expected = payloads;
    expected.sort();
    assert_eq!(driver.delivered, expected);
}

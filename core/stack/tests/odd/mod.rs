//! One node with an STCP layer for unconfigured peers, an outgoing UDPCL link and a disk; and bundles of version 6
//! assembled by hand, so that they can be wrong.

use crate::line::Disk;
use farlink_base::store::DiskDone;
use farlink_base::{
    Bytes, Clock, DataVolume, DtnTime, Duration, EndpointId, Event, Instant, LayerId, LinkId, LinkTerms, Payload,
    StreamId, sdnv, socket,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId};
use farlink_cla::oneway;
use farlink_cla::udpcl;
use farlink_stack::{Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, Output, Stack, StoreKind};
use std::net::SocketAddr;

/// Seconds from 2000 to the test.
pub const NOW_S: u64 = 800_000_000;
pub const SINGLETON: u64 = 0x10;
pub const NO_FRAGMENT: u64 = 4;
pub const LAST: u64 = 8;

fn put(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; sdnv::LEN_MAX];
    let len = sdnv::encode(value, &mut bytes);
    out.extend(&bytes[..len]);
}
/// Encodes a number as an SDNV.
pub fn number(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, value);
    out
}

/// A bundle of version 6 (RFC 5050), from ipn:9.1 to ipn:1.1.
#[derive(Clone)]
pub struct Old {
    pub flags: u64,
    /// Destination, source, report-to, custodian.
    pub ends: [(u64, u64); 4],
    pub dictionary: Vec<u8>,
    pub seconds: u64,
    pub sequence: u64,
    pub lifetime: u64,
    pub place: Option<(u64, u64)>,
    /// Blocks before the payload: type, flags, data.
    pub before: Vec<(u8, u64, Vec<u8>)>,
    pub payload: Vec<u8>,
    pub after: Vec<(u8, u64, Vec<u8>)>,
}
/// A correct bundle with this sequence number.
pub fn old(sequence: u64) -> Old {
    Old {
        flags: SINGLETON | 1 << 7,
        ends: [(1, 1), (9, 1), (0, 0), (0, 0)],
        dictionary: Vec::new(),
        seconds: NOW_S,
        sequence,
        lifetime: 3600,
        place: None,
        before: Vec::new(),
        payload: b"payload".to_vec(),
        after: Vec::new(),
    }
}
impl Old {
    pub fn with(mut self, change: impl FnOnce(&mut Old)) -> Old {
        change(&mut self);
        self
    }
    /// Uses names instead of numbers.
    pub fn named(mut self, names: [(&str, &str); 4]) -> Old {
        for (end, (scheme, part)) in self.ends.iter_mut().zip(names) {
            let scheme_at = self.dictionary.len() as u64;
            self.dictionary.extend(scheme.bytes().chain([0]));
            *end = (scheme_at, self.dictionary.len() as u64);
            self.dictionary.extend(part.bytes().chain([0]));
        }
        self
    }
    pub fn wire(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.ends.iter().for_each(|(first, second)| [first, second].iter().for_each(|n| put(&mut rest, **n)));
        let numbers = [self.seconds, self.sequence, self.lifetime, self.dictionary.len() as u64];
        numbers.iter().for_each(|n| put(&mut rest, *n));
        rest.extend(&self.dictionary);
        self.place.iter().for_each(|(offset, total)| [offset, total].iter().for_each(|n| put(&mut rest, **n)));
        let mut out = vec![6];
        put(&mut out, self.flags | u64::from(self.place.is_some()));
        put(&mut out, rest.len() as u64);
        out.extend(rest);
        // RFC 5050 4.3: the last block, and no other, has this flag.
        let last = if self.after.is_empty() { LAST } else { 0 };
        let payload = (1, last, self.payload.clone());
        let end = self.after.len();
        let after = self.after.iter().enumerate();
        let after =
            after.map(|(n, (kind, flags, data))| (*kind, flags | if n + 1 == end { LAST } else { 0 }, data.clone()));
        for (kind, flags, data) in self.before.iter().cloned().chain([payload]).chain(after) {
            out.push(kind);
            put(&mut out, flags);
            put(&mut out, data.len() as u64);
            out.extend(data);
        }
        out
    }
}

/// The node under test and its surroundings.
pub struct Site {
    stack: Stack,
    disk: Disk,
    /// Changes to its configuration, from the next start on.
    pub tune: fn(&mut Config),
    pub now: Instant,
    /// Deliveries and events since they were last asked for.
    pub delivered: Vec<Bytes>,
    pub events: Vec<Event>,
    /// Datagrams that left the node.
    pub left: Vec<Bytes>,
    streams: u64,
}
impl Site {
    pub fn new() -> Site {
        Site::tuned(|_| {})
    }
    pub fn tuned(tune: fn(&mut Config)) -> Site {
        let mut site = Site {
            stack: stack(tune),
            disk: Disk::default(),
            tune,
            now: Instant(1_000_000_000),
            delivered: Vec::new(),
            events: Vec::new(),
            left: Vec::new(),
            streams: 0,
        };
        site.begin();
        site.listen();
        site
    }
    fn begin(&mut self) {
        let utc = Some(DtnTime(NOW_S * 1000 + self.now.0 / 1_000_000));
        self.give(Input::Clock(Clock { at: self.now, utc, error_ms: 0 }));
        let addresses = vec![SocketAddr::from(([10, 0, 0, 2], 4556))];
        self.give(Input::Socket(LayerId(1), socket::Input::Located { link: LinkId(0), addresses }));
    }
    /// Registers the test's applications.
    pub fn listen(&mut self) {
        let endpoints = [EndpointId::ipn(1, 1), EndpointId::dtn("one", "app"), EndpointId::dtn("any", "~news")];
        for (registration, endpoint) in (1..).map(RegistrationId).zip(endpoints) {
            self.give(Input::App(AppInput::Register { registration, endpoint, window: 100 }));
        }
    }
    /// Kills the process and starts it again on its disk.
    pub fn restart(&mut self) {
        self.stack = stack(self.tune);
        self.begin();
        self.wait(Duration::from_secs(1));
    }
    pub fn set_link_terms(&mut self, link: LinkId, terms: LinkTerms) {
        self.stack.set_link_terms(link, terms);
    }
    pub fn held(&self) -> u64 {
        self.stack.held()
    }
    pub fn give(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Vec::new();
            self.stack.handle(self.now, input, &mut out);
            // Wake-ups wait until other inputs are done, as with a driver.
            if inputs.is_empty() && self.stack.next_timeout().is_some_and(|at| at <= self.now) {
                inputs.push(Input::Wake);
            }
            for output in out {
                match output {
                    Output::Disk(op) => {
                        let result = Ok(self.disk.perform(&op.action));
                        inputs.insert(0, Input::DiskDone(DiskDone { id: op.id, result }));
                    }
                    Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
                        self.delivered.push(bundle.payload.to_bytes().expect("in memory"));
                        inputs.insert(0, Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
                    }
                    Output::Socket(_, socket::Output::Datagrams { train, .. }) => {
                        self.left.extend(train.datagrams().filter_map(|datagram| datagram.to_bytes()));
                    }
                    Output::Event(event) => self.events.push(event),
                    _ => {}
                }
            }
        }
    }
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.stack.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.give(Input::Wake);
        }
        self.now = end;
    }
    /// Connects as an unconfigured peer, sends this bundle, and keeps the connection open.
    pub fn receive(&mut self, bundle: &[u8]) {
        self.receive_beginning(bundle, bundle.len());
    }
    /// Like `receive`, but only the first bytes of the bundle have come.
    pub fn receive_beginning(&mut self, bundle: &[u8], came: usize) {
        self.streams += 1;
        let stream = StreamId(StreamId::PASSIVE | self.streams);
        let from = SocketAddr::from(([10, 9, 9, 9], 40_000));
        // STCP frames a bundle by its length in 4 bytes.
        let frame = [&(bundle.len() as u32).to_be_bytes()[..], &bundle[..came]].concat();
        self.give(Input::Socket(LayerId(0), socket::Input::Opened { stream, from }));
        self.give(Input::Socket(LayerId(0), socket::Input::Data { stream, data: Payload::from(frame) }));
    }
    /// Outcome of a bundle, in words.
    pub fn fate(&mut self, bundle: &[u8]) -> String {
        (self.delivered, self.events, self.left) = Default::default();
        self.receive(bundle);
        self.wait(Duration::from_millis(500));
        let told = self.events.iter().find_map(|event| match event {
            Event::Malformed { reason, .. } => Some(format!("malformed: {reason}")),
            Event::Refused { reason, .. } => Some(format!("refused: {reason}")),
            _ => None,
        });
        let deleted = || {
            let reason =
                |e: &Event| if let Event::Deleted { reason, .. } = e { Some(format!("{reason:?}")) } else { None };
            self.events.iter().find_map(reason)
        };
        match told {
            Some(told) => told,
            None if !self.delivered.is_empty() => "delivered".into(),
            None if !self.left.is_empty() => "left".into(),
            None => deleted().unwrap_or_else(|| if self.held() > 0 { "waits".into() } else { "nothing".into() }),
        }
    }
}

/// Node ipn:1.0, also dtn://one/. It accepts bundles from any peer, and forwards those for other nodes to ipn:2.0.
fn stack(tune: fn(&mut Config)) -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    config.node_ids.push(EndpointId::dtn("one", ""));
    let split = farlink_bundle::decode_prefix;
    config.layers = vec![
        LayerConfig { name: "in".into(), kind: LayerKind::OneWay(oneway::Config::default()) },
        LayerConfig { name: "out".into(), kind: LayerKind::Udpcl(udpcl::Config { split, ..udpcl::Config::default() }) },
    ];
    config.links = vec![LinkConfig {
        name: "out".into(),
        peer: EndpointId::ipn(2, 0),
        layer: 1,
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Udpcl(udpcl::LinkParams { keepalive: Duration::ZERO, ..udpcl::LinkParams::default() }),
    }];
    config.routes = vec![("*".into(), EndpointId::ipn(2, 0))];
    config.router = "static".into();
    config.node.agent.status_reports = true;
    config.keep_in(StoreKind::Durable, DataVolume(1 << 30));
    tune(&mut config);
    Stack::new(config).expect("the configuration is right")
}

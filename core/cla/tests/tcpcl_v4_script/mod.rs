//! A TCPCLv4 layer whose peer is scripted.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Duration, Event, Instant, LayerId, LinkId, NodeId, Payload, Refusal, StreamId};
use farlink_cla::tcpcl_v4::{Config, LinkParams, TcpclV4};

pub const PASSIVE: StreamId = StreamId(StreamId::PASSIVE);

pub fn vectors() -> serde_json::Value {
    file("tcpclv4.json")
}
pub fn file(name: &str) -> serde_json::Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
pub fn message(id: &str) -> Vec<u8> {
    message_of(&vectors(), id)
}
pub fn message_of(file: &serde_json::Value, id: &str) -> Vec<u8> {
    let found = file["messages"].as_array().unwrap().iter().find(|m| m["id"] == id).unwrap();
    hex(found["hex"].as_str().unwrap())
}

/// A SESS_INIT with this node ID.
pub fn init_of(id: &str) -> Vec<u8> {
    let mru = (1u64 << 20).to_be_bytes();
    [&[7, 0, 30][..], &mru, &mru, &(id.len() as u16).to_be_bytes(), id.as_bytes(), &[0; 4]].concat()
}

/// Room of a stream, small enough that the peer never seems not to read.
const ROOM: u64 = 1 << 17;

/// One layer whose peer is scripted.
pub struct Lone {
    pub layer: TcpclV4,
    pub now: Instant,
    pub stream: StreamId,
    /// Bytes written since the test last took them.
    pub written: Vec<u8>,
    /// Other outputs since the test last took them.
    pub said: Vec<Output>,
    /// Sessions refused: link, claimed node and reason.
    pub refusals: Vec<(Option<LinkId>, Option<NodeId>, &'static str)>,
}
impl Lone {
    pub fn new(config: Config, spans: Vec<LinkParams>) -> Lone {
        let layer = TcpclV4::new(config, spans);
        let (now, refusals) = (Instant::ZERO, Vec::new());
        Lone { layer, now, stream: PASSIVE, written: Vec::new(), said: Vec::new(), refusals }
    }
    /// A layer to which the script connects.
    pub fn passive(config: Config) -> Lone {
        let mut lone = Lone::new(config, Vec::new());
        lone.open();
        lone
    }
    /// A layer that connects to the script.
    pub fn active(span: LinkParams) -> Lone {
        Lone::connecting(ours(), span)
    }
    /// Like `active`, with this configuration.
    pub fn connecting(config: Config, span: LinkParams) -> Lone {
        let config = Config { layer: LayerId(2), ..config };
        let mut lone = Lone::new(config, vec![span]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        lone.connect();
        lone
    }
    /// Opens the stream that the layer asked for.
    pub fn connect(&mut self) {
        match self.said.pop() {
            Some(Output::Socket(socket::Output::Connect { stream, link: LinkId(0) })) => self.stream = stream,
            other => panic!("{other:?}"),
        }
        self.open();
    }
    pub fn open(&mut self) {
        let from = "127.0.0.1:4556".parse().unwrap();
        self.give(Input::Socket(socket::Input::Opened { stream: self.stream, from }));
        self.give(Input::Socket(socket::Input::Writable { stream: self.stream, room: ROOM }));
    }
    pub fn give(&mut self, input: Input) {
        let mut out = Vec::new();
        self.layer.handle(self.now, input, &mut out);
        self.take(out);
    }
    pub fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Socket(socket::Output::Write { data, .. }) => {
                    self.written.extend_from_slice(&data.to_bytes().unwrap())
                }
                Output::Event(Event::SessionRefused { link, peer, reason }) => self.refusals.push((link, peer, reason)),
                Output::Event(_) => {}
                other => self.said.push(other),
            }
        }
    }
    pub fn receive(&mut self, bytes: &[u8]) {
        self.give(Input::Socket(socket::Input::Data { stream: self.stream, data: Payload::from(bytes.to_vec()) }));
    }
    /// Lets the script read everything written, then lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.give(Input::Socket(socket::Input::Writable { stream: self.stream, room: ROOM }));
        let end = self.now + time;
        while let Some(at) = self.layer.next_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.give(Input::Wake);
        }
        self.now = end;
    }
    pub fn wrote(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }
    pub fn said(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.said)
    }
    /// Introduces the script, and takes all outputs.
    pub fn greet(mut self, keepalive: u16) -> Lone {
        self.receive(&message("contact_no_tls"));
        let mut init = message("sess_init_ipn");
        init[1..3].copy_from_slice(&keepalive.to_be_bytes());
        self.receive(&init);
        assert!(self.said().iter().any(|o| matches!(o, Output::PeerUp { .. })));
        self.wrote();
        self.give(Input::Socket(socket::Input::Writable { stream: self.stream, room: 1 << 20 }));
        self
    }
    /// Numbers of the bundles that the peer confirmed.
    pub fn sent(&mut self) -> Vec<u64> {
        let sent = |o: &Output| if let Output::Sent { id, .. } = o { Some(id.0) } else { None };
        self.said().iter().filter_map(sent).collect()
    }
    /// Numbers of the bundles that returned to the agent, with the peer's reasons.
    pub fn failed(&mut self) -> Vec<(u64, Option<Refusal>)> {
        let failed =
            |o: &Output| if let Output::SendFailed { id, refused, .. } = o { Some((id.0, *refused)) } else { None };
        self.said().iter().filter_map(failed).collect()
    }
    pub fn closed(&mut self) -> Option<bool> {
        let closes =
            |o: &Output| if let Output::Socket(socket::Output::Close { abort, .. }) = o { Some(*abort) } else { None };
        self.said().iter().find_map(closes)
    }
    pub fn tickets(&mut self) -> Vec<Ticket> {
        let last = |o: &Output| if let Output::Offer { ticket, last: true, .. } = o { Some(*ticket) } else { None };
        self.said().iter().filter_map(last).collect()
    }
}
pub fn ours() -> Config {
    Config {
        node_id: "ipn:2.0".into(),
        keepalive: Duration::from_secs(60),
        segment_mru: 4096,
        transfer_mru: 1 << 20,
        ..Config::default()
    }
}
pub fn span() -> LinkParams {
    LinkParams { node_id: "ipn:1.0".into(), segment_bytes: 28, ..LinkParams::default() }
}
/// Sends a bundle over link 0.
pub fn send(id: u64, bundle: Vec<u8>) -> Input {
    Input::send(LinkId(0), SendId(id), Payload::from(bundle), true)
}

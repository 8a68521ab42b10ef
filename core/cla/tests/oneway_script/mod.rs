//! An STCP or MTCP layer whose peers are scripted.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Duration, Event, Instant, LayerId, LinkId, Payload, Refusal, StreamId};
use farlink_cla::oneway::{Config, Framing, LinkParams, OneWay};

pub const FRAMINGS: [Framing; 2] = [Framing::Stcp, Framing::Mtcp];
/// Stream that a peer opened.
pub const PASSIVE: StreamId = StreamId(StreamId::PASSIVE);
/// Address of the neighbour of link 0.
pub const PLACE: &str = "10.0.0.1";

/// Encoded frame of a bundle.
pub fn frame(framing: Framing, bundle: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    framing.put_head(&mut out, bundle.len() as u64);
    out.extend_from_slice(bundle);
    out
}
/// Cases in the file of vectors: description, and bytes.
pub fn vectors(framing: Framing) -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/stcp_mtcp.json");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let name = if framing == Framing::Stcp { "stcp" } else { "mtcp" };
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    };
    let case = |case: &serde_json::Value| (case["what"].as_str().unwrap().into(), hex(case["hex"].as_str().unwrap()));
    file[name].as_array().unwrap().iter().map(case).collect()
}
pub fn span() -> LinkParams {
    LinkParams::default()
}
pub fn ours() -> Config {
    Config { layer: LayerId(2), ..Config::default() }
}
/// Sends a bundle over link 0.
pub fn send(id: u64, bundle: Vec<u8>) -> Input {
    Input::send(LinkId(0), SendId(id), Payload::from(bundle), true)
}

/// One layer whose peers are scripted.
pub struct Lone {
    pub layer: OneWay,
    pub framing: Framing,
    pub now: Instant,
    pub stream: StreamId,
    /// Bytes written since the test last took them.
    pub written: Vec<u8>,
    /// Reasons of faults reported since the test last took them.
    pub reasons: Vec<&'static str>,
    /// Other outputs since the test last took them.
    pub said: Vec<Output>,
}
impl Lone {
    pub fn new(framing: Framing, config: Config, spans: Vec<LinkParams>) -> Lone {
        let layer = OneWay::new(Config { framing, ..config }, spans);
        let (written, reasons, said) = (Vec::new(), Vec::new(), Vec::new());
        Lone { layer, framing, now: Instant::ZERO, stream: PASSIVE, written, reasons, said }
    }
    /// Makes a layer that does not connect, with a neighbour whose address is known.
    pub fn waiting(framing: Framing, config: Config) -> Lone {
        let mut lone = Lone::new(framing, config, vec![LinkParams { connect: false, ..span() }]);
        lone.located(&[PLACE]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        lone
    }
    /// Makes a layer to which its neighbour has connected.
    pub fn passive(framing: Framing, config: Config) -> Lone {
        let mut lone = Lone::waiting(framing, config);
        lone.open(0, PLACE);
        lone.said();
        lone
    }
    /// Makes a layer that has connected to its neighbour.
    pub fn active(framing: Framing, config: Config, span: LinkParams) -> Lone {
        let mut lone = Lone::new(framing, config, vec![span]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        lone.connects(1 << 20);
        lone
    }
    /// Opens the stream that the layer asked for, with this room; returns the layer's outputs.
    pub fn connects(&mut self, room: u64) -> Vec<Output> {
        match self.said().pop() {
            Some(Output::Socket(socket::Output::Connect { stream, link: LinkId(0) })) => self.stream = stream,
            other => panic!("{other:?}"),
        }
        let from = format!("{PLACE}:4556").parse().unwrap();
        self.give(Input::Socket(socket::Input::Opened { stream: self.stream, from }));
        self.room(room);
        let said = self.said();
        assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Confirm { .. }))));
        said
    }
    /// Lets a peer at this address connect, as stream `number`.
    pub fn open(&mut self, number: u64, address: &str) {
        self.stream = StreamId(PASSIVE.0 + number);
        let from = format!("{address}:40000").parse().unwrap();
        self.give(Input::Socket(socket::Input::Opened { stream: self.stream, from }));
        self.room(1 << 20);
    }
    pub fn room(&mut self, room: u64) {
        self.give(Input::Socket(socket::Input::Writable { stream: self.stream, room }));
    }
    pub fn confirm(&mut self, bytes: u64) {
        self.give(Input::Socket(socket::Input::Confirmed { stream: self.stream, bytes }));
    }
    pub fn located(&mut self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| format!("{address}:4556").parse().unwrap()).collect();
        self.give(Input::Socket(socket::Input::Located { link: LinkId(0), addresses }));
    }
    pub fn give(&mut self, input: Input) {
        let mut out = Vec::new();
        self.layer.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Socket(socket::Output::Write { data, .. }) => {
                    self.written.extend_from_slice(&data.to_bytes().unwrap())
                }
                Output::Event(Event::Malformed { reason, .. } | Event::SessionRefused { reason, .. }) => {
                    self.reasons.push(reason)
                }
                other => self.said.push(other),
            }
        }
    }
    pub fn receive(&mut self, bytes: &[u8]) {
        self.give(Input::Socket(socket::Input::Data { stream: self.stream, data: Payload::from(bytes.to_vec()) }));
    }
    /// Receives a complete frame.
    pub fn receive_bundle(&mut self, bundle: &[u8]) {
        self.receive(&frame(self.framing, bundle));
    }
    pub fn close(&mut self, error: bool) {
        self.give(Input::Socket(socket::Input::Closed { stream: self.stream, error }));
    }
    pub fn refuse(&mut self, ticket: Ticket) {
        self.give(Input::Refused { ticket, reason: Refusal::NoResources });
    }
    pub fn wait(&mut self, time: Duration) {
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
    pub fn reasons(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.reasons)
    }
    /// Takes the offers so far, part by part; asserts that there were no other outputs.
    pub fn offers(&mut self) -> Vec<(Ticket, Vec<u8>, bool)> {
        let offer = |o: Output| match o {
            Output::Offer { ticket, part, last, .. } => (ticket, part.to_bytes().unwrap().to_vec(), last),
            other => panic!("{other:?}"),
        };
        self.said().into_iter().map(offer).collect()
    }
}
/// Whether a stream was closed: `Some(true)` by a reset, `Some(false)` in order, `None` if not.
pub fn closed(said: &[Output], stream: StreamId) -> Option<bool> {
    said.iter().find_map(|o| match o {
        Output::Socket(socket::Output::Close { stream: s, abort }) if *s == stream => Some(*abort),
        _ => None,
    })
}
pub fn sent(said: &[Output]) -> Vec<u64> {
    said.iter().filter_map(|o| if let Output::Sent { id, .. } = o { Some(id.0) } else { None }).collect()
}
pub fn failed(said: &[Output]) -> Vec<u64> {
    said.iter().filter_map(|o| if let Output::SendFailed { id, .. } = o { Some(id.0) } else { None }).collect()
}
pub fn ups(said: &[Output]) -> Vec<LinkId> {
    said.iter().filter_map(|o| if let Output::PeerUp { link, .. } = o { Some(*link) } else { None }).collect()
}
pub fn downs(said: &[Output]) -> Vec<LinkId> {
    said.iter().filter_map(|o| if let Output::PeerDown { link } = o { Some(*link) } else { None }).collect()
}
pub fn paused(said: &[Output]) -> Vec<bool> {
    let paused = |o: &Output| match o {
        Output::Socket(socket::Output::Pause { .. }) => Some(true),
        Output::Socket(socket::Output::Resume { .. }) => Some(false),
        _ => None,
    };
    said.iter().filter_map(paused).collect()
}

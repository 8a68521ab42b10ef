//! TCP between nodes: connections of two [`StreamEnd`]s each, the operating system's side of a stack's stream inputs
//! and outputs, and the TLS side of secured streams.

use crate::sim_event::{Address, Queue, SimEvent};
use crate::tls::Tls;
use farlink_base::socket;
use farlink_base::{Instant, LayerId, Map, Payload, Sink, StreamId, TimerKey, map};
use farlink_link::stream::{Config, Input as EndInput, Output as EndOutput, Segment, StreamEnd};
use farlink_stack::Input;
use std::collections::{BTreeSet, VecDeque};

/// First port number of outgoing connections.
const EPHEMERAL: u16 = 40_000;

/// Request of a node for one of its streams.
pub(crate) enum StreamSignal {
    Write(Payload),
    Close {
        abort: bool,
    },
    Pause,
    Resume,
    Confirm,
    StartTls {
        /// Whether the node answers the handshake.
        server: bool,
    },
}

/// Side of a connection.
struct StreamSide {
    node: usize,
    layer: LayerId,
    /// End of the cable at which this side is.
    cable_end: usize,
    /// Stream number at the node; a passive side gets it when the connection opens.
    stream: Option<StreamId>,
    end: StreamEnd,
    /// TLS state of a secured stream.
    tls: Option<Box<Tls>>,
    alarm: Option<TimerKey>,
    /// Whether the side received input since its alarm was set.
    touched: bool,
    opened: bool,
    /// Whether the node closed the stream, or knows that it is closed.
    closed: bool,
}

/// Connection of two sides; side 0 opened it.
struct Connection {
    cable: usize,
    sides: [StreamSide; 2],
}

/// Segment to send: cable, end of the cable it leaves from, side it goes to, and the segment.
pub(crate) type Departure = (usize, usize, usize, Box<Segment>);

/// Connections of a simulation.
pub(crate) struct Streams {
    /// Node IDs in each node's certificate.
    node_ids: Vec<Vec<String>>,
    /// Connections by number; closed ones are `None`.
    connections: Vec<Option<Box<Connection>>>,
    accepted: u64,
    /// Nodes that are down.
    asleep: BTreeSet<usize>,
    by_stream: Map<(usize, StreamId), (usize, usize)>,
    /// Segments to send now; the world takes them.
    pub departures: Vec<Departure>,
    news: Vec<(usize, usize, EndOutput)>,
    /// Connections to nodes that are down, to be reset; empty between calls.
    refused: Vec<(usize, usize)>,
}

/// Sorts the outputs of an end: segments become departures, all others are news for the end's node.
struct StreamOutputs<'a> {
    departures: &'a mut Vec<Departure>,
    news: &'a mut Vec<(usize, usize, EndOutput)>,
    connection: usize,
    cable: usize,
    cable_end: usize,
    side: usize,
}
impl Sink<EndOutput> for StreamOutputs<'_> {
    fn push(&mut self, output: EndOutput) {
        match output {
            EndOutput::Transmit(segment) => {
                self.departures.push((self.cable, self.cable_end, 1 - self.side, segment));
            }
            news => self.news.push((self.connection, self.side, news)),
        }
    }
}

impl Streams {
    /// Makes an empty table for nodes with these IDs.
    pub fn new(node_ids: Vec<Vec<String>>) -> Streams {
        Streams {
            node_ids,
            connections: Vec::new(),
            accepted: 0,
            asleep: BTreeSet::new(),
            by_stream: map(0),
            departures: Vec::new(),
            news: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_deref_mut()
    }

    /// Opens a connection over a cable from one of its ends. `ports` gives node and layer of the near and far side,
    /// `configs` their TCP parameters.
    pub fn connect(
        &mut self,
        now: Instant,
        cable: usize,
        cable_end: usize,
        ports: [(usize, LayerId); 2],
        configs: [Config; 2],
        stream: StreamId,
    ) -> usize {
        let side = |index: usize, end: StreamEnd| StreamSide {
            node: ports[index].0,
            layer: ports[index].1,
            cable_end: if index == 0 { cable_end } else { 1 - cable_end },
            stream: (index == 0).then_some(stream),
            end,
            tls: None,
            alarm: None,
            touched: false,
            opened: false,
            closed: false,
        };
        let sides = [side(0, StreamEnd::new(configs[0])), side(1, StreamEnd::listen(configs[1]))];
        let connection = self.connections.len();
        self.connections.push(Some(Box::new(Connection { cable, sides })));
        self.by_stream.insert((ports[0].0, stream), (connection, 0));
        self.input(now, connection, 0, EndInput::Connect);
        connection
    }

    /// Kills a node: its operating system resets its connections, and later ones opened to it. Returns the connections
    /// affected.
    pub fn kill(&mut self, now: Instant, node: usize) -> Vec<usize> {
        self.asleep.insert(node);
        let mut all = Vec::new();
        for index in 0..self.connections.len() {
            for side in 0..2 {
                let Some(connection) = self.connection(index) else { continue };
                let here = &mut connection.sides[side];
                if here.node != node || here.end.is_over() {
                    continue;
                }
                here.closed = true;
                let stream = here.stream;
                stream.map(|stream| self.by_stream.remove(&(node, stream)));
                self.input(now, index, side, EndInput::Abort);
                all.push(index);
            }
        }
        all
    }
    /// Lets a node accept connections again.
    pub fn wake_up(&mut self, node: usize) {
        self.asleep.remove(&node);
    }

    /// Delivers a segment to one side.
    pub fn segment(&mut self, now: Instant, connection: usize, side: usize, segment: Box<Segment>) {
        self.input(now, connection, side, EndInput::Segment(segment));
    }

    /// Handles a deadline of one side.
    pub fn wake(&mut self, now: Instant, connection: usize, side: usize) {
        if let Some(connection) = self.connection(connection) {
            connection.sides[side].alarm = None;
        }
        self.input(now, connection, side, EndInput::Wake);
    }

    /// Passes a node's request to a stream; returns the connection, if it still exists.
    pub fn signal(&mut self, now: Instant, node: usize, stream: StreamId, signal: StreamSignal) -> Option<usize> {
        let (connection, side) = *self.by_stream.get(&(node, stream))?;
        let secured = self.connection(connection).is_some_and(|here| here.sides[side].tls.is_some());
        let input = match signal {
            StreamSignal::Write(data) => EndInput::Write(if secured { Tls::seal(&data) } else { data }),
            StreamSignal::Pause => EndInput::Pause,
            StreamSignal::Resume => EndInput::Resume,
            StreamSignal::Confirm => EndInput::Confirm,
            StreamSignal::StartTls { server } => {
                let (tls, hello) = Tls::begin(server);
                self.connection(connection)?.sides[side].tls = Some(Box::new(tls));
                EndInput::Write(hello.unwrap_or_default())
            }
            StreamSignal::Close { abort } => {
                if secured && !abort {
                    self.input(now, connection, side, EndInput::Write(Tls::goodbye()));
                }
                self.by_stream.remove(&(node, stream));
                let side = &mut self.connection(connection)?.sides[side];
                side.closed = true;
                // Closing a socket that is still connecting abandons it.
                if abort || !side.opened { EndInput::Abort } else { EndInput::Close }
            }
        };
        self.input(now, connection, side, input);
        Some(connection)
    }

    /// Translates the outputs of all ends into inputs for nodes, and writes the answers of TLS.
    pub fn take_news(
        &mut self,
        now: Instant,
        address: impl Fn(usize, usize) -> Address,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        // Answers of TLS produce new outputs, so this repeats until none are left.
        while !self.news.is_empty() {
            for (connection, side, says) in self.dispatch_outputs(&address, todo) {
                self.input(now, connection, side, EndInput::Write(says));
            }
            for (connection, side) in std::mem::take(&mut self.refused) {
                self.input(now, connection, side, EndInput::Abort);
            }
        }
    }
    fn dispatch_outputs(
        &mut self,
        address: &impl Fn(usize, usize) -> Address,
        todo: &mut VecDeque<(usize, Input)>,
    ) -> Vec<(usize, usize, Payload)> {
        // One pass; returns answers of TLS to write: connection, side, bytes.
        let mut answers = Vec::new();
        let mut news = std::mem::take(&mut self.news);
        for (index, side_index, output) in news.drain(..) {
            let Some(connection) = self.connections[index].as_deref_mut() else { continue };
            let (cable, peer) = (connection.cable, connection.sides[1 - side_index].node);
            let side = &mut connection.sides[side_index];
            if side.closed {
                continue;
            }
            // A node that is down accepts nothing: its operating system resets the connection.
            if self.asleep.contains(&side.node) {
                side.closed = true;
                self.refused.push((index, side_index));
                continue;
            }
            side.opened |= matches!(output, EndOutput::Opened);
            if side.opened && side.stream.is_none() {
                let stream = StreamId(StreamId::PASSIVE | self.accepted);
                self.accepted += 1;
                side.stream = Some(stream);
                self.by_stream.insert((side.node, stream), (index, side_index));
            }
            let Some(stream) = side.stream else { continue };
            let gone = matches!(output, EndOutput::Closed { .. });
            let input = match output {
                EndOutput::Opened => {
                    // The passive side sees an ephemeral port, as after a real connect.
                    let mut from = address(cable, 1 - side.cable_end);
                    if side_index == 1 {
                        from.set_port(EPHEMERAL + (index % 20_000) as u16);
                    }
                    socket::Input::Opened { stream, from }
                }
                EndOutput::Data(data) => match &mut side.tls {
                    None => socket::Input::Data { stream, data },
                    Some(tls) => {
                        let heard = tls.receive(data);
                        answers.extend(heard.says.map(|says| (index, side_index, says)));
                        let (node, layer) = (side.node, side.layer);
                        if heard.secured {
                            let proven = self.node_ids.get(peer).cloned().unwrap_or_default();
                            let input = socket::Input::Secured { stream, proven, contradicts: false };
                            todo.push_back((node, Input::Socket(layer, input)));
                        }
                        if !heard.plain.is_empty() {
                            let input = socket::Input::Data { stream, data: heard.plain };
                            todo.push_back((node, Input::Socket(layer, input)));
                        }
                        continue;
                    }
                },
                EndOutput::Writable { room } => socket::Input::Writable { stream, room },
                EndOutput::Confirmed { bytes } => socket::Input::Confirmed { stream, bytes },
                EndOutput::PeerClosed => socket::Input::Closed { stream, error: false },
                EndOutput::Closed { error } => socket::Input::Closed { stream, error },
                EndOutput::Transmit(_) => continue,
            };
            let (node, layer) = (side.node, side.layer);
            if gone {
                side.closed = true;
                self.by_stream.remove(&(node, stream));
            }
            todo.push_back((node, Input::Socket(layer, input)));
        }
        // The list is put back, so that its allocation is reused.
        self.news = news;
        answers
    }

    /// Sets the alarms of a connection to the deadlines of its ends, and removes it once it is over.
    pub fn set_alarms(&mut self, index: usize, queue: &mut Queue) {
        let Some(connection) = self.connection(index) else { return };
        for (number, side) in connection.sides.iter_mut().enumerate() {
            if !std::mem::take(&mut side.touched) {
                continue;
            }
            let wanted = side.end.next_timeout();
            if side.alarm.map(|key| key.deadline()) != wanted {
                if let Some(old) = side.alarm.take() {
                    queue.cancel(old);
                }
                side.alarm = wanted.map(|at| queue.arm(at, SimEvent::StreamWake(index, number)));
            }
        }
        // A listening side that never received anything is idle, not over.
        let over = |side: &StreamSide| side.end.is_over() || side.end.is_idle();
        if connection.sides.iter().all(over) && connection.sides[0].end.is_over() {
            self.connections[index] = None;
        }
    }

    fn input(&mut self, now: Instant, index: usize, side: usize, input: EndInput) {
        let Some(here) = self.connections.get_mut(index).and_then(Option::as_deref_mut) else { return };
        let Connection { cable, sides } = here;
        let (departures, news) = (&mut self.departures, &mut self.news);
        let cable_end = sides[side].cable_end;
        let mut said = StreamOutputs { departures, news, connection: index, cable: *cable, cable_end, side };
        sides[side].touched = true;
        sides[side].end.handle(now, input, &mut said);
    }
}

//! Plain TCP and UDP flows between hosts, over the links of the scenario: background traffic beside the nodes' own.

use crate::build;
use crate::cable::Cable;
use crate::sim_event::{Queue, SimEvent};
use farlink_base::{Duration, Instant, Payload, TimerKey};
use farlink_link::UDP_IPV4_HEADERS;
use farlink_link::stream::{self, Input, Output, Segment, StreamEnd};
use farlink_report::PlainFlow;
use farlink_scenario::{Flow, FlowTransport, Scenario};

/// Amount that a TCP sender of limited rate writes at once, as time at that rate.
const PIECE: Duration = Duration::from_millis(1);
/// Fewest bytes that a TCP sender of limited rate writes at once: a full segment, as smaller ones would be mostly
/// headers.
const PIECE_LEAST: u64 = 1448;
/// Most bytes that a TCP sender writes at once.
const WRITE_MOST: u64 = 256 << 10;

/// Packet of a flow in transit.
#[derive(Clone)]
pub(crate) struct FlowPacket {
    flow: usize,
    /// Whether the packet goes to the receiver.
    onward: bool,
    /// Number of links crossed.
    crossed: usize,
    /// The segment; `None` for a datagram.
    segment: Option<Box<Segment>>,
}

/// Next hop of a packet: cable, its end, and IP bytes.
pub(crate) type FlowStep = (usize, usize, u64);

/// All flows of a simulation.
pub(crate) struct Flows {
    flows: Vec<SimFlow>,
    /// Packets that leave a host now; the world takes them.
    pub departures: Vec<FlowPacket>,
}

struct SimFlow {
    /// Cables on the way to the receiver, each with the end at which packets to the receiver enter it.
    path: Vec<(usize, usize)>,
    start: Instant,
    stop: Instant,
    rate_bit_s: Option<u64>,
    /// Payload bytes of a datagram; 0 for TCP.
    datagram: u64,
    stream: Option<Box<FlowStream>>,
    /// Bytes due so far by the sender's rate.
    due: u64,
    /// Time and bytes of the first delivery.
    first: Option<(Instant, u64)>,
    last: Instant,
    arrived: u64,
    /// Datagrams that a link dropped.
    dropped: u64,
    result: PlainFlow,
}

/// The TCP connection of a flow: the sender's end, then the receiver's.
struct FlowStream {
    ends: [StreamEnd; 2],
    alarms: [Option<TimerKey>; 2],
    room: u64,
    opened: bool,
    closing: bool,
    /// Sequence number after the last one sent.
    highest: u64,
}

impl Flows {
    /// Prepares the flows of a scenario and schedules their starts.
    pub fn new(scenario: &Scenario, queue: &mut Queue) -> Flows {
        let flows: Vec<SimFlow> = scenario.flows.iter().map(|flow| SimFlow::new(scenario, flow)).collect();
        for (index, flow) in flows.iter().enumerate() {
            queue.arm(flow.start, SimEvent::FlowTurn(index));
        }
        Flows { flows, departures: Vec::new() }
    }

    /// Sends everything that is due, and schedules the next call for the flow's sender.
    pub fn turn(&mut self, now: Instant, index: usize, queue: &mut Queue) {
        let flow = &mut self.flows[index];
        match &mut flow.stream {
            None => {
                let packet = FlowPacket { flow: index, onward: true, crossed: 0, segment: None };
                self.departures.push(packet);
                flow.result.datagrams += 1;
                flow.result.sent_bytes += flow.datagram;
                flow.due += flow.datagram;
            }
            Some(stream) => {
                if stream.ends[0].is_idle() {
                    self.tell(now, index, 0, Input::Connect, queue);
                } else if now >= flow.stop {
                    stream.closing = true;
                    if !stream.opened {
                        let within = (flow.stop - flow.start).as_secs_f64();
                        flow.result.failure.get_or_insert_with(|| format!("no connection within {within:.1} s"));
                    }
                }
                let flow = &mut self.flows[index];
                let piece = |rate: u64| {
                    let bits = u128::from(rate) * PIECE.as_nanos() / 1_000_000_000;
                    u64::try_from(bits / 8).unwrap_or(u64::MAX).max(PIECE_LEAST)
                };
                flow.due = flow.rate_bit_s.map_or(u64::MAX, |rate| flow.due.saturating_add(piece(rate)));
                self.write(now, index, queue);
            }
        }
        let flow = &self.flows[index];
        let next = match (flow.rate_bit_s, &flow.stream) {
            // The time of each byte counts from the start, so that rounding does not add up.
            (Some(rate), _) => {
                flow.start
                    + Duration::from_nanos((u128::from(flow.due) * 8_000_000_000 / u128::from(rate.max(1))) as u64)
            }
            (None, _) => flow.stop,
        };
        let ended = now >= flow.stop;
        let next = next.max(now + Duration::from_nanos(1)).min(flow.stop);
        // A stream gets one more call at its stop time, in which it closes.
        if !ended && (flow.stream.is_some() || next < flow.stop) {
            queue.arm(next, SimEvent::FlowTurn(index));
        }
    }

    /// Handles a deadline of one end of a connection.
    pub fn wake(&mut self, now: Instant, index: usize, side: usize, queue: &mut Queue) {
        if let Some(stream) = &mut self.flows[index].stream {
            stream.alarms[side] = None;
        }
        self.tell(now, index, side, Input::Wake, queue);
    }

    /// Receives a packet at the end of a link: delivers it, or forwards it over the next link.
    pub fn arrive(&mut self, now: Instant, mut packet: FlowPacket, queue: &mut Queue) {
        packet.crossed += 1;
        let flow = &mut self.flows[packet.flow];
        if packet.crossed < flow.path.len() {
            return self.departures.push(packet);
        }
        match packet.segment {
            Some(segment) => self.tell(now, packet.flow, usize::from(packet.onward), Input::Segment(segment), queue),
            None => {
                flow.arrived += 1;
                flow.received(now, flow.datagram);
            }
        }
    }

    /// Next link of a packet.
    pub fn step(&self, packet: &FlowPacket) -> FlowStep {
        let flow = &self.flows[packet.flow];
        let bytes = packet.segment.as_ref().map_or(flow.datagram + UDP_IPV4_HEADERS, |segment| segment.ip_bytes());
        let (cable, end) = match packet.onward {
            true => flow.path[packet.crossed],
            false => {
                let (cable, end) = flow.path[flow.path.len() - 1 - packet.crossed];
                (cable, 1 - end)
            }
        };
        (cable, end, bytes)
    }

    /// Results at the end of the run.
    pub fn results(&self) -> Vec<PlainFlow> {
        self.flows.iter().map(SimFlow::outcome).collect()
    }

    /// Writes to a stream as much as rate and buffer permit.
    fn write(&mut self, now: Instant, index: usize, queue: &mut Queue) {
        loop {
            let flow = &mut self.flows[index];
            let Some(stream) = flow.stream.as_mut().filter(|stream| stream.opened) else { return };
            if stream.closing {
                // Closing twice has no effect.
                return self.tell(now, index, 0, Input::Close, queue);
            }
            let bytes = stream.room.min(flow.due.saturating_sub(flow.result.sent_bytes)).min(WRITE_MOST);
            if bytes == 0 {
                return;
            }
            stream.room -= bytes;
            flow.result.sent_bytes += bytes;
            self.tell(now, index, 0, Input::Write(Payload::fill(0, bytes)), queue);
        }
    }

    fn tell(&mut self, now: Instant, index: usize, side: usize, input: Input, queue: &mut Queue) {
        let flow = &mut self.flows[index];
        let Some(stream) = &mut flow.stream else { return };
        let mut outputs: Vec<Output> = Vec::new();
        stream.ends[side].handle(now, input, &mut outputs);
        let mut writes = false;
        for output in outputs {
            match output {
                Output::Transmit(segment) => {
                    let again = side == 0 && !segment.payload.is_empty() && segment.sequence < stream.highest;
                    flow.result.retransmitted += u64::from(again);
                    if side == 0 {
                        stream.highest = stream.highest.max(segment.sequence + segment.payload.len());
                    }
                    let packet = FlowPacket { flow: index, onward: side == 0, crossed: 0, segment: Some(segment) };
                    self.departures.push(packet);
                }
                Output::Opened => {
                    stream.opened = true;
                    writes |= side == 0;
                }
                Output::Writable { room } if side == 0 => {
                    stream.room = room;
                    writes = true;
                }
                Output::Data(data) => {
                    flow.result.received_bytes += data.len();
                    flow.first.get_or_insert((now, data.len()));
                    flow.last = now;
                }
                Output::Closed { error: true } => {
                    flow.result.failure = Some("the connection ended by an error".into());
                }
                _ => {}
            }
        }
        let wanted = stream.ends[side].next_timeout();
        if stream.alarms[side].map(|key| key.deadline()) != wanted {
            if let Some(old) = stream.alarms[side].take() {
                queue.cancel(old);
            }
            stream.alarms[side] = wanted.map(|at| queue.arm(at, SimEvent::FlowWake(index, side)));
        }
        if writes && !stream.closing {
            self.write(now, index, queue);
        }
    }
}

impl SimFlow {
    fn new(scenario: &Scenario, flow: &Flow) -> SimFlow {
        let path = flow.path.iter().map(|hop| (hop.link, usize::from(!hop.forward))).collect();
        let mtu = flow.path.iter().map(|hop| u64::from(scenario.links[hop.link].mtu_bytes)).min().unwrap_or(1500);
        let tcp = flow.transport == FlowTransport::Tcp;
        let stream = tcp.then(|| {
            let config = |node: usize| -> stream::Config { build::stream(&scenario.nodes[node].tcp, mtu) };
            let ends = [StreamEnd::new(config(flow.from)), StreamEnd::listen(config(flow.to))];
            Box::new(FlowStream { ends, alarms: [None; 2], room: 0, opened: false, closing: false, highest: 0 })
        });
        let result = PlainFlow {
            name: flow.name.clone(),
            from: scenario.nodes[flow.from].name.clone(),
            to: scenario.nodes[flow.to].name.clone(),
            transport: flow.transport.name().into(),
            congestion: tcp.then(|| scenario.nodes[flow.from].tcp.control_in_linux().to_string()),
            ..PlainFlow::default()
        };
        SimFlow {
            path,
            start: Instant::ZERO + flow.start,
            stop: Instant::ZERO + flow.stop,
            rate_bit_s: flow.rate.map(|rate| rate.0),
            datagram: if tcp { 0 } else { flow.datagram_bytes },
            stream,
            due: 0,
            first: None,
            last: Instant::ZERO,
            arrived: 0,
            dropped: 0,
            result,
        }
    }

    fn received(&mut self, now: Instant, bytes: u64) {
        self.result.received_bytes += bytes;
        self.first.get_or_insert((now, bytes));
        self.last = now;
    }

    fn outcome(&self) -> PlainFlow {
        // The measured time begins with the first delivery, whose bytes therefore do not count.
        let (first, bytes) = self.first.unwrap_or((self.last, 0));
        let (seconds, later) = ((self.last - first).as_secs_f64(), self.result.received_bytes - bytes);
        let bit_s = if seconds > 0.0 { later as f64 * 8.0 / seconds } else { 0.0 };
        // Datagrams in flight at the end are not lost. One copy of a duplicate may be dropped and the other arrive.
        let lost = self.dropped.min(self.result.datagrams.saturating_sub(self.arrived));
        PlainFlow { seconds, bit_s, lost, ..self.result.clone() }
    }
}

/// Carries the departures of flows over the cables.
pub(crate) fn carry(
    now: Instant,
    flows: &mut Flows,
    cables: &mut [Cable],
    bottlenecks: &mut [crate::cable::SharedTransmitters],
    queue: &mut Queue,
) {
    let mut departures = std::mem::take(&mut flows.departures);
    for packet in departures.drain(..) {
        let (cable, end, bytes) = flows.step(&packet);
        let cable = &mut cables[cable];
        let shared = cable.bottleneck.map(|place| &mut bottlenecks[place][end]);
        let (first, again) = cable.send_ip(now, end, bytes, shared);
        if first.is_none() && again.is_none() {
            flows.flows[packet.flow].dropped += u64::from(packet.segment.is_none());
        }
        for at in first.into_iter().chain(again) {
            queue.arm(at, SimEvent::FlowPacket(Box::new(packet.clone())));
        }
    }
    flows.departures = departures;
}

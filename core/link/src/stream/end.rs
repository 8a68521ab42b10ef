//! One end of a stream: the states of a connection, around a sending and a receiving half.

use super::Config;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::{SegmentContent, StreamSender};
use alloc::boxed::Box;
use farlink_base::{Instant, Payload, Sink};

/// Most bytes of segments that leave as one burst: a packet that the interface splits (segmentation offload).
const BURST: u64 = 65_536;

/// Input of an end: a request of its user, an arriving segment, or a deadline.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline of [`StreamEnd::next_timeout`] may have passed.
    Wake,
    /// Open the connection; the other end must be made by [`StreamEnd::listen`].
    Connect,
    /// A segment from the other end arrived.
    Segment(Box<Segment>),
    /// Send these bytes, which are within the room of [`Output::Writable`].
    Write(Payload),
    /// Half-close: after the bytes written so far, no more are sent.
    Close,
    /// Discard everything and reset the connection; no output reports the end.
    Abort,
    /// Buffer arriving bytes instead of delivering them; the window of the peer closes as the buffer fills.
    Pause,
    /// Deliver arriving bytes again.
    Resume,
    /// From now on, report how many bytes the peer has acknowledged.
    Confirm,
}

/// Output of an end: a segment to send, or an event for its user.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this segment to the other end.
    Transmit(Box<Segment>),
    /// The connection is open.
    Opened,
    /// Bytes arrived, in order.
    Data(Payload),
    /// The end accepts `room` more bytes; replaces the room reported before.
    Writable { room: u64 },
    /// The peer acknowledged more bytes; reported after [`Input::Confirm`].
    Confirmed {
        /// Number of bytes acknowledged since the connection opened.
        bytes: u64,
    },
    /// The peer half-closed: it sends no more, but this end may still write.
    PeerClosed,
    /// The connection ended: both ends have closed, or an error occurred (reset, refused, timed out).
    Closed {
        /// Whether the connection ended because of an error.
        error: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EndState {
    /// Waiting for a SYN, or for [`Input::Connect`].
    Idle,
    /// A SYN was sent by this end, and is not acknowledged yet.
    Opening,
    Open,
    /// Ended in order; repeated segments of the peer are still acknowledged (TIME-WAIT).
    Finished,
    /// Ended by an error.
    Broken,
}

/// State machine of one end of a stream.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    config: Config,
    state: EndState,
    sender: StreamSender,
    receiver: Receiver,
    /// Time at which opening the connection fails; `None` once it is open.
    open_by: Option<Instant>,
    peer_closed: bool,
    /// Number of acknowledged bytes reported last; `None` before [`Input::Confirm`].
    confirmed: Option<u64>,
}

impl StreamEnd {
    /// Creates an end that opens the connection on [`Input::Connect`].
    pub fn new(config: Config) -> StreamEnd {
        StreamEnd {
            state: EndState::Idle,
            sender: StreamSender::new(&config),
            receiver: Receiver::new(&config),
            open_by: None,
            peer_closed: false,
            confirmed: None,
            config,
        }
    }
    /// Creates an end that answers the SYN of the other end.
    pub fn listen(config: Config) -> StreamEnd {
        StreamEnd::new(config)
    }
    /// Whether the connection ended. A driver may drop the end a minute later (TIME-WAIT).
    pub fn is_over(&self) -> bool {
        matches!(self.state, EndState::Finished | EndState::Broken)
    }
    /// Whether no connection was attempted so far.
    pub fn is_idle(&self) -> bool {
        self.state == EndState::Idle
    }
    /// Time at which [`Input::Wake`] is due; `None` if nothing is scheduled.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        Instant::earliest([self.sender.deadline(), self.receiver.ack_deadline(), self.open_by])
    }

    /// Handles one input at `now` and pushes the resulting outputs.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        if self.is_over() {
            return self.answer_when_over(now, input, out);
        }
        match input {
            Input::Wake => {}
            Input::Connect => self.open(now, out),
            Input::Segment(segment) => self.on_segment(now, *segment, out),
            Input::Write(data) => self.sender.write(data),
            Input::Close => self.sender.finish(),
            Input::Abort => {
                if self.state != EndState::Idle {
                    out.push(Output::Transmit(Box::new(Segment { reset: true, ..self.bare_segment(now) })));
                }
                self.state = EndState::Broken;
                return;
            }
            Input::Pause => self.receiver.pause(),
            Input::Resume => self.receiver.resume(now),
            Input::Confirm => self.confirmed = Some(self.confirmed.unwrap_or(0)),
        }
        // Deadlines are checked after the input, so that an answer that arrives at the deadline counts.
        let in_time = self.open_by.is_none_or(|by| by > now) && self.sender.on_time(now);
        if !in_time {
            self.fail(out);
        }
        if !self.is_over() {
            self.hand_over(out);
            self.flush(now, out);
            self.conclude(out);
        }
    }

    fn open(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        self.state = EndState::Opening;
        self.open_by = Some(now + self.config.connect_timeout);
        let syn = self.sender.open(now);
        self.transmit(now, syn, false, out);
    }

    fn on_segment(&mut self, now: Instant, segment: Segment, out: &mut impl Sink<Output>) {
        if segment.reset {
            // As on Linux, bytes received before a reset can still be read, even if the reader had paused.
            self.receiver.resume(now);
            if let Some(data) = self.receiver.read().filter(|_| self.state == EndState::Open) {
                out.push(Output::Data(data));
            }
            return self.fail(out);
        }
        if self.receiver.next().is_none() && !segment.syn {
            // Before the peer's SYN no other segment is valid.
            if self.state == EndState::Idle {
                out.push(Output::Transmit(Box::new(Segment { reset: true, ..Segment::default() })));
            }
            return;
        }
        if let Some(acknowledgment) = segment.acknowledgment {
            self.sender.acknowledge(now, &segment, acknowledgment);
        }
        // A window probe, an empty segment with an old sequence number, must be answered.
        let probe = segment.length() == 0 && self.receiver.next().is_some_and(|next| segment.sequence < next);
        if segment.length() > 0 || probe {
            self.receiver.take(now, segment);
        }
        if self.state == EndState::Idle {
            self.open(now, out);
        }
        if self.state == EndState::Opening && self.sender.is_open() {
            self.state = EndState::Open;
            self.open_by = None;
            out.push(Output::Opened);
        }
    }

    /// Reports changes to the driver: acknowledged bytes, received data, the end of the peer's data, room for writing.
    fn hand_over(&mut self, out: &mut impl Sink<Output>) {
        if self.state != EndState::Open {
            return;
        }
        let acknowledged = self.sender.acknowledged();
        if self.confirmed.is_some_and(|reported| reported < acknowledged) {
            self.confirmed = Some(acknowledged);
            out.push(Output::Confirmed { bytes: acknowledged });
        }
        if let Some(data) = self.receiver.read() {
            out.push(Output::Data(data));
        }
        if self.receiver.is_finished() && !self.peer_closed {
            self.peer_closed = true;
            out.push(Output::PeerClosed);
        }
        if let Some(room) = self.sender.new_room() {
            out.push(Output::Writable { room });
        }
    }

    fn flush(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let mut next = self.sender.next_segment(now);
        let mut burst = 0;
        while let Some(content) = next {
            next = self.sender.next_segment(now);
            burst += content.payload.len();
            // The receiving end merges the segments of a burst, so each segment has a flag for another one that
            // follows.
            let more = next.is_some() && burst + self.config.segment_bytes <= BURST;
            if !more {
                burst = 0;
            }
            self.transmit(now, content, more, out);
        }
        if self.sender.take_probe() {
            let bare = self.bare_segment(now);
            // The sequence number before the next one is old, and any end answers it with its window (Linux
            // `tcp_xmit_probe_skb`).
            out.push(Output::Transmit(Box::new(Segment { sequence: bare.sequence - 1, ..bare })));
        }
        if self.receiver.ack_deadline().is_some_and(|at| at <= now) {
            let bare = self.bare_segment(now);
            self.receiver.acknowledged();
            out.push(Output::Transmit(Box::new(bare)));
        }
    }

    fn conclude(&mut self, out: &mut impl Sink<Output>) {
        if self.peer_closed && self.sender.is_finished() {
            self.state = EndState::Finished;
            out.push(Output::Closed { error: false });
        }
    }

    fn fail(&mut self, out: &mut impl Sink<Output>) {
        self.state = EndState::Broken;
        out.push(Output::Closed { error: true });
    }

    fn transmit(&mut self, now: Instant, content: SegmentContent, more: bool, out: &mut impl Sink<Output>) {
        let bare = self.bare_segment(now);
        self.receiver.acknowledged();
        let SegmentContent { sequence, payload, syn, fin } = content;
        out.push(Output::Transmit(Box::new(Segment { sequence, payload, syn, fin, more, ..bare })));
    }

    /// A segment without content, which acknowledges what was received.
    fn bare_segment(&self, now: Instant) -> Segment {
        Segment {
            stamp: now,
            echo: self.receiver.echo(),
            sequence: self.sender.next_sequence(),
            acknowledgment: self.receiver.next(),
            selective: self.receiver.selective(),
            window: self.receiver.window(),
            ..Segment::default()
        }
    }

    fn answer_when_over(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        let Input::Segment(segment) = input else { return };
        match self.state {
            EndState::Finished if segment.length() > 0 => out.push(Output::Transmit(Box::new(self.bare_segment(now)))),
            EndState::Broken => {
                segment.refusal().into_iter().for_each(|refusal| out.push(Output::Transmit(Box::new(refusal))))
            }
            _ => {}
        }
    }
}

//! One end of a stream: opening, closing, and the two halves joined.

use super::Config;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::{Outgoing, Sender};
use alloc::boxed::Box;
use farlink_base::{Instant, Payload, Sink};

/// Most bytes that leave as one burst: a packet that the interface cuts (segmentation offload).
const BURST: u64 = 65_536;

/// What an end is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// Open the connection; the other end must have been made by [`StreamEnd::listen`].
    Connect,
    /// A segment arrived.
    Segment(Box<Segment>),
    /// Send these bytes (within the room given).
    Write(Payload),
    /// Send no more after what was written: half close.
    Close,
    /// Drop everything and reset the connection.
    Abort,
    /// Keep what arrives; the peer's window closes as the buffer fills.
    Pause,
    /// Hand over what arrives again.
    Resume,
    /// Tell from now on how much the peer acknowledged.
    Confirm,
}

/// What an end decides.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this segment to the other end.
    Transmit(Box<Segment>),
    /// The connection is open.
    Opened,
    /// Bytes arrived, in order.
    Data(Payload),
    /// The end takes this many more bytes in total.
    Writable {
        /// Bytes.
        room: u64,
    },
    /// The peer has acknowledged so many bytes of what was written, where [`Input::Confirm`] asked.
    Confirmed {
        /// Bytes, since the connection opened.
        bytes: u64,
    },
    /// The peer sent its last byte. This end may still write.
    PeerClosed,
    /// The connection is over: both ends closed, or an error (reset, refused, timed out).
    Closed {
        /// Whether by an error.
        error: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Waits for a SYN, or to be told to connect.
    Idle,
    /// Sent a SYN (either side); not acknowledged yet.
    Opening,
    Open,
    /// Over in good order: repeated segments are still acknowledged (TIME-WAIT).
    Finished,
    /// Over by an error.
    Broken,
}

/// One end of a stream.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    config: Config,
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// Give up opening then.
    open_by: Option<Instant>,
    peer_closed: bool,
    /// Bytes last told to be acknowledged, where that is asked for.
    confirmed: Option<u64>,
}

impl StreamEnd {
    /// An end that opens the connection when told [`Input::Connect`].
    pub fn new(config: Config) -> StreamEnd {
        StreamEnd {
            state: State::Idle,
            sender: Sender::new(&config),
            receiver: Receiver::new(&config),
            open_by: None,
            peer_closed: false,
            confirmed: None,
            config,
        }
    }
    /// An end that answers the other's SYN.
    pub fn listen(config: Config) -> StreamEnd {
        StreamEnd::new(config)
    }
    /// Whether the connection is over; a driver may drop the end a minute later (TIME-WAIT).
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Finished | State::Broken)
    }
    /// Whether nothing has happened here yet.
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }
    /// When to call with [`Input::Wake`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        Instant::earliest([self.sender.deadline(), self.receiver.ack_deadline(), self.open_by])
    }

    /// Takes one input at `now`; pushes what follows from it.
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
                if self.state != State::Idle {
                    out.push(Output::Transmit(Box::new(Segment { reset: true, ..self.bare_segment(now) })));
                }
                self.state = State::Broken;
                return;
            }
            Input::Pause => self.receiver.pause(),
            Input::Resume => self.receiver.resume(now),
            Input::Confirm => self.confirmed = Some(self.confirmed.unwrap_or(0)),
        }
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
        self.state = State::Opening;
        self.open_by = Some(now + self.config.connect_timeout);
        let syn = self.sender.open(now);
        self.transmit(now, syn, false, out);
    }

    fn on_segment(&mut self, now: Instant, segment: Segment, out: &mut impl Sink<Output>) {
        if segment.reset {
            // What came before can still be read, as on Linux, also by who had paused.
            self.receiver.resume(now);
            if let Some(data) = self.receiver.read().filter(|_| self.state == State::Open) {
                out.push(Output::Data(data));
            }
            return self.fail(out);
        }
        if self.receiver.next().is_none() && !segment.syn {
            // Nothing makes sense before the peer's SYN.
            if self.state == State::Idle {
                out.push(Output::Transmit(Box::new(Segment { reset: true, ..Segment::default() })));
            }
            return;
        }
        if let Some(acknowledgment) = segment.acknowledgment {
            self.sender.acknowledge(now, &segment, acknowledgment);
        }
        let probe = segment.length() == 0 && self.receiver.next().is_some_and(|next| segment.sequence < next);
        if segment.length() > 0 || probe {
            self.receiver.take(now, segment);
        }
        if self.state == State::Idle {
            self.open(now, out);
        }
        if self.state == State::Opening && self.sender.is_open() {
            self.state = State::Open;
            self.open_by = None;
            out.push(Output::Opened);
        }
    }

    /// Gives the driver what is new: what was acknowledged, bytes, room, the peer's end.
    fn hand_over(&mut self, out: &mut impl Sink<Output>) {
        if self.state != State::Open {
            return;
        }
        let acknowledged = self.sender.acknowledged();
        if self.confirmed.is_some_and(|told| told < acknowledged) {
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
            let more = next.is_some() && burst + self.config.segment_bytes <= BURST;
            if !more {
                burst = 0;
            }
            self.transmit(now, content, more, out);
        }
        if self.sender.take_probe() {
            let bare = self.bare_segment(now);
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
            self.state = State::Finished;
            out.push(Output::Closed { error: false });
        }
    }

    fn fail(&mut self, out: &mut impl Sink<Output>) {
        self.state = State::Broken;
        out.push(Output::Closed { error: true });
    }

    fn transmit(&mut self, now: Instant, content: Outgoing, more: bool, out: &mut impl Sink<Output>) {
        let bare = self.bare_segment(now);
        self.receiver.acknowledged();
        let Outgoing { sequence, payload, syn, fin } = content;
        out.push(Output::Transmit(Box::new(Segment { sequence, payload, syn, fin, more, ..bare })));
    }

    /// A segment without content: an acknowledgment.
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
            State::Finished if segment.length() > 0 => out.push(Output::Transmit(Box::new(self.bare_segment(now)))),
            State::Broken => {
                segment.refusal().into_iter().for_each(|refusal| out.push(Output::Transmit(Box::new(refusal))))
            }
            _ => {}
        }
    }
}

//! Links for message-level simulation: each end sends one bundle at a time, for as long as the link's rate requires;
//! the bundle arrives after the one-way delay. If the link goes down first, the bundle resumes later or fails, as in
//! the layer that the link stands for.
//!
//! No bundle waits here: an end that is up and idle is ready for one more, and the agent keeps the queue. Bundles are
//! known by their size and a token that the driver chooses. Like every state machine of the engine, it takes the time
//! as an argument and returns its next deadline.

use farlink_base::{Duration, Instant, Sink};
use farlink_link::{LinkDirection, MessageFate, Statistics, Transmission};

/// End of a link: the link's index in the scenario, and 0 or 1 for its first or second node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Index of the link.
    pub link: usize,
    /// Index of the end, 0 or 1.
    pub end: usize,
}
impl Place {
    /// The opposite end of the link.
    pub fn peer(self) -> Place {
        Place { end: 1 - self.end, ..self }
    }
}

/// Bundle identifier, chosen by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Output of a link's end for the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// The end is up and idle and accepts one bundle.
    Ready(Place),
    /// The last bit of the bundle left.
    Sent(Place, Token),
    /// The link was down for too long, or the bundle was cancelled; the part already sent is lost.
    Failed(Place, Token),
    /// The bundle arrives at this end at the given time; emitted when its last bit leaves.
    Arrives(Place, Token, Instant),
}

/// Overhead of a bundle on a link, and the layer's handling of loss and outages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Bundle bytes in one packet.
    pub payload_bytes: u64,
    /// Header bytes of one packet, without the link's own overhead.
    pub header_bytes: u64,
    /// Whether the link's losses affect bundles; otherwise a layer beneath is assumed to repair them.
    pub losses: bool,
    /// Longest outage after which a bundle resumes instead of failing.
    pub outlives: Duration,
    /// Whether a bundle being sent can be cancelled.
    pub stops: bool,
}
impl Framing {
    /// Bytes of a bundle on the link, in packets with this overhead each.
    pub fn wire_bytes(&self, size: u64, overhead: u64) -> u64 {
        size + size.div_ceil(self.payload_bytes.max(1)).max(1) * (self.header_bytes + overhead)
    }
}

/// One end of a link, which sends in one direction.
struct MessageEnd {
    direction: LinkDirection,
    framing: Framing,
    sending: Option<(Token, Transmission)>,
    /// Bundle interrupted by an outage: bytes left to send, and the deadline for resuming.
    rest: Option<(Token, u64, Instant)>,
    /// Whether [`Output::Ready`] was emitted and still holds.
    ready: bool,
    wake_at: Instant,
}

fn at_rest(directions: [LinkDirection; 2], framing: Framing) -> [MessageEnd; 2] {
    directions.map(|direction| MessageEnd {
        direction,
        framing,
        sending: None,
        rest: None,
        ready: false,
        wake_at: Instant::ZERO,
    })
}

/// All links of a simulation.
pub struct Messages {
    links: Vec<[MessageEnd; 2]>,
}

impl Messages {
    /// Makes idle links with these directions (forward, reverse); wake each end once at the start.
    pub fn new(links: impl IntoIterator<Item = ([LinkDirection; 2], Framing)>) -> Messages {
        let link = |(directions, framing): ([LinkDirection; 2], Framing)| at_rest(directions, framing);
        Messages { links: links.into_iter().map(link).collect() }
    }

    /// Begins to send a bundle; returns `false` and does nothing if the end is not ready.
    pub fn send(&mut self, now: Instant, place: Place, size: u64, token: Token) -> bool {
        let end = self.end(place);
        if !std::mem::take(&mut end.ready) {
            return false;
        }
        let wire_bytes = end.framing.wire_bytes(size, u64::from(end.direction.spec().overhead));
        let Ok(transmission) = end.direction.begin_message(now, wire_bytes) else { return false };
        end.wake_at = transmission.until;
        end.sending = Some((token, transmission));
        true
    }

    /// Next deadline for [`Messages::wake`]; [`Instant::MAX`] for never.
    pub fn next_timeout(&self, place: Place) -> Instant {
        self.links[place.link][place.end].wake_at
    }

    /// Whether an end accepts a bundle.
    pub fn is_ready(&self, place: Place) -> bool {
        self.links[place.link][place.end].ready
    }

    /// Handles a deadline of an end: a transmission ended, or the link came up or went down.
    pub fn wake(&mut self, now: Instant, place: Place, out: &mut impl Sink<Output>) {
        let end = self.end(place);
        if end.sending.is_some_and(|(_, transmission)| transmission.until <= now) {
            end.conclude(now, place, true, out);
        }
        end.go_on(now, place, out);
        if end.sending.is_some() {
            return;
        }
        let up = end.direction.is_up(now);
        if up && !end.ready {
            out.push(Output::Ready(place));
        }
        end.ready = up;
        end.wake_at = end.direction.next_change(now);
        // An interrupted bundle keeps its place: the end accepts no other before it resumes or fails.
        if let Some((_, _, until)) = end.rest {
            (end.ready, end.wake_at) = (false, end.wake_at.min(until));
        }
    }

    /// Cancels a bundle, if the layer can. Wake the end afterwards.
    pub fn cancel(&mut self, now: Instant, place: Place, token: Token, out: &mut impl Sink<Output>) {
        let end = self.end(place);
        let rest = end.rest.is_some_and(|(waiting, ..)| waiting == token);
        let sent = end.sending.is_some_and(|(sending, transmission)| sending == token && !transmission.is_out(now));
        if end.framing.stops && (rest || sent) {
            end.conclude(now, place, false, out);
        }
    }

    /// Stops both ends, as on the failure of a node or the loss of the carrier: bundles being sent are lost, those that
    /// have left still arrive. Wake the ends when they may send again.
    pub fn abort(&mut self, now: Instant, link: usize, out: &mut impl Sink<Output>) {
        for (number, end) in self.links[link].iter_mut().enumerate() {
            end.conclude(now, Place { link, end: number }, false, out);
            // No deadline until the driver wakes the end, once it may send again.
            (end.ready, end.wake_at) = (false, Instant::MAX);
        }
    }

    /// Counters of the direction that an end sends in; they count bundles as packets.
    pub fn statistics(&self, place: Place) -> &Statistics {
        self.links[place.link][place.end].direction.statistics()
    }

    fn end(&mut self, place: Place) -> &mut MessageEnd {
        &mut self.links[place.link][place.end]
    }
}

impl MessageEnd {
    fn go_on(&mut self, now: Instant, place: Place, out: &mut impl Sink<Output>) {
        // An interrupted bundle resumes once the link is up, or fails once the layer has given up.
        let Some((token, bytes, until)) = self.rest else { return };
        if let Ok(transmission) = self.direction.begin_message(now, bytes) {
            (self.rest, self.sending, self.wake_at) = (None, Some((token, transmission)), transmission.until);
        } else if until <= now {
            self.rest = None;
            out.push(Output::Failed(place, token));
        }
    }
    /// Ends the transmission under way, complete or not; with `goes_on` an interrupted one may resume.
    fn conclude(&mut self, now: Instant, place: Place, goes_on: bool, out: &mut impl Sink<Output>) {
        // A remainder that has not resumed by now is lost.
        if let Some((token, ..)) = self.rest.take() {
            out.push(Output::Failed(place, token));
        }
        let Some((token, transmission)) = self.sending.take() else { return };
        // Only layers that outlive an outage keep the rest; others start over.
        if goes_on && !self.framing.outlives.is_zero() && !transmission.is_out(now) {
            let bytes = self.direction.suspend_message(now, transmission);
            self.rest = Some((token, bytes, now.saturating_add(self.framing.outlives)));
            return;
        }
        match self.direction.end_message(now, transmission, self.framing.losses) {
            MessageFate::Arrives(at) => {
                out.push(Output::Arrives(place.peer(), token, at));
                out.push(Output::Sent(place, token));
            }
            // The loss is unknown to the sender.
            MessageFate::Lost => out.push(Output::Sent(place, token)),
            MessageFate::CutOff => out.push(Output::Failed(place, token)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataRate;
    use farlink_link::{ContactWindow, DirectionSpec, Loss};

    const MS: u64 = 1_000_000;
    const HERE: Place = Place { link: 0, end: 0 };
    const THERE: Place = Place { link: 0, end: 1 };
    const BARE: Framing =
        Framing { payload_bytes: u64::MAX, header_bytes: 0, losses: true, outlives: Duration::ZERO, stops: false };

    fn spec(windows: &[(u64, u64)]) -> DirectionSpec {
        // The link carries 1 kB a millisecond, 100 ms one way.
        let window = |w: &(u64, u64)| ContactWindow::new(Instant(w.0 * MS), Instant(w.1 * MS));
        let windows = (!windows.is_empty()).then(|| windows.iter().map(window).collect());
        DirectionSpec { windows, ..DirectionSpec::new(DataRate(8_000_000), Duration::from_millis(100)) }
    }
    fn messages(spec: DirectionSpec, framing: Framing) -> Messages {
        Messages::new([([1, 2].map(|seed| LinkDirection::new(spec.clone(), seed)), framing)])
    }
    fn wake(messages: &mut Messages, at: u64, place: Place) -> Vec<Output> {
        // Times are in milliseconds.
        let mut out = Vec::new();
        messages.wake(Instant(at * MS), place, &mut out);
        out
    }

    #[test]
    fn each_end_sends_one_bundle() {
        let mut m = messages(spec(&[]), BARE);
        assert!(!m.send(Instant(0), HERE, 1000, Token(9)), "not ready before it said so");
        assert_eq!(wake(&mut m, 0, HERE), [Output::Ready(HERE)]);
        assert_eq!(wake(&mut m, 0, THERE), [Output::Ready(THERE)]);
        assert!(m.send(Instant(0), HERE, 5000, Token(1)) && m.send(Instant(0), THERE, 2000, Token(2)));
        assert!(!m.send(Instant(MS), HERE, 1, Token(3)));
        assert_eq!((m.next_timeout(HERE), m.next_timeout(THERE)), (Instant(5 * MS), Instant(2 * MS)));
        let arrives = Output::Arrives(HERE, Token(2), Instant(102 * MS));
        assert_eq!(wake(&mut m, 2, THERE), [arrives, Output::Sent(THERE, Token(2)), Output::Ready(THERE)]);
        assert_eq!(wake(&mut m, 4, HERE), [], "too early");
        let arrives = Output::Arrives(THERE, Token(1), Instant(105 * MS));
        assert_eq!(wake(&mut m, 5, HERE), [arrives, Output::Sent(HERE, Token(1)), Output::Ready(HERE)]);
        assert_eq!(m.next_timeout(HERE), Instant::MAX);
    }

    #[test]
    fn contact_end_fails_bundle_in_progress() {
        let mut m = messages(spec(&[(10, 20), (30, 50)]), BARE);
        assert_eq!(wake(&mut m, 0, HERE), []);
        assert_eq!(m.next_timeout(HERE), Instant(10 * MS));
        assert_eq!(wake(&mut m, 10, HERE), [Output::Ready(HERE)]);
        assert!(m.send(Instant(12 * MS), HERE, 9000, Token(1)));
        assert_eq!(m.next_timeout(HERE), Instant(20 * MS));
        assert_eq!(wake(&mut m, 20, HERE), [Output::Failed(HERE, Token(1))]);
        assert!(!m.send(Instant(20 * MS), HERE, 1, Token(1)));
        assert_eq!(wake(&mut m, 30, HERE), [Output::Ready(HERE)]);
        assert!(m.send(Instant(30 * MS), HERE, 20_000, Token(1)), "fits to the last bit");
        let arrives = Output::Arrives(THERE, Token(1), Instant(150 * MS));
        assert_eq!(wake(&mut m, 50, HERE), [arrives, Output::Sent(HERE, Token(1))], "in flight as the contact ends");
        assert_eq!((m.statistics(HERE).sent, m.statistics(HERE).delivered), (2, 1));
    }

    #[test]
    fn cut_bundle_resumes_with_rest() {
        let framing = Framing { outlives: Duration::from_millis(15), ..BARE };
        let mut m = messages(spec(&[(10, 20), (30, 40), (60, 70)]), framing);
        wake(&mut m, 10, HERE);
        assert!(m.send(Instant(10 * MS), HERE, 15_000, Token(1)));
        assert_eq!(wake(&mut m, 20, HERE), [], "it waits");
        assert!(!m.send(Instant(20 * MS), HERE, 1, Token(2)));
        assert_eq!(m.next_timeout(HERE), Instant(30 * MS));
        assert_eq!(wake(&mut m, 30, HERE), [], "and goes on before anything else");
        assert!(!m.send(Instant(30 * MS), HERE, 1, Token(2)));
        let arrives = Output::Arrives(THERE, Token(1), Instant(135 * MS));
        assert_eq!(wake(&mut m, 35, HERE), [arrives, Output::Sent(HERE, Token(1)), Output::Ready(HERE)]);
        // This gap exceeds the time for which the layer keeps a bundle.
        assert!(m.send(Instant(35 * MS), HERE, 15_000, Token(3)));
        assert_eq!(wake(&mut m, 40, HERE), []);
        assert_eq!(m.next_timeout(HERE), Instant(55 * MS));
        assert_eq!(wake(&mut m, 55, HERE), [Output::Failed(HERE, Token(3))]);
        assert_eq!(wake(&mut m, 60, HERE), [Output::Ready(HERE)]);
    }

    #[test]
    fn cancelled_bundle_stops_where_possible() {
        let framing = Framing { outlives: Duration::MAX, stops: true, ..BARE };
        let cancel = |m: &mut Messages, at: u64, token| {
            let mut out = Vec::new();
            m.cancel(Instant(at * MS), HERE, Token(token), &mut out);
            out
        };
        let mut m = messages(spec(&[(10, 20), (30, 40)]), framing);
        wake(&mut m, 10, HERE);
        assert!(m.send(Instant(10 * MS), HERE, 5000, Token(1)));
        assert_eq!(cancel(&mut m, 12, 9), []);
        assert_eq!(cancel(&mut m, 12, 1), [Output::Failed(HERE, Token(1))]);
        assert_eq!(wake(&mut m, 12, HERE), [Output::Ready(HERE)]);
        assert!(m.send(Instant(12 * MS), HERE, 15_000, Token(2)));
        assert_eq!(wake(&mut m, 20, HERE), []);
        assert_eq!(cancel(&mut m, 25, 2), [Output::Failed(HERE, Token(2))]);
        assert_eq!((wake(&mut m, 25, HERE), m.next_timeout(HERE)), (vec![], Instant(30 * MS)));
        let mut m = messages(spec(&[]), Framing { stops: false, ..framing });
        wake(&mut m, 0, HERE);
        assert!(m.send(Instant(0), HERE, 5000, Token(1)));
        assert_eq!(cancel(&mut m, 1, 1), [], "it has no word for it");
    }

    #[test]
    fn contact_end_withdraws_ready() {
        let mut m = messages(spec(&[(0, 20), (20, 30), (40, 50)]), BARE);
        assert_eq!(wake(&mut m, 0, HERE), [Output::Ready(HERE)]);
        assert_eq!(m.next_timeout(HERE), Instant(30 * MS), "contacts that touch are one");
        assert_eq!(wake(&mut m, 30, HERE), []);
        assert!(!m.send(Instant(30 * MS), HERE, 1, Token(1)));
        assert_eq!(wake(&mut m, 40, HERE), [Output::Ready(HERE)]);
    }

    #[test]
    fn abort_fails_both_ends_until_wake() {
        let mut m = messages(spec(&[]), BARE);
        wake(&mut m, 0, HERE);
        wake(&mut m, 0, THERE);
        assert!(m.send(Instant(0), HERE, 1000, Token(1)) && m.send(Instant(0), THERE, 1000, Token(2)));
        let mut out = Vec::new();
        m.abort(Instant(MS / 2), 0, &mut out);
        assert_eq!(out, [Output::Failed(HERE, Token(1)), Output::Failed(THERE, Token(2))]);
        assert_eq!(m.next_timeout(HERE), Instant::MAX);
        out.clear();
        m.wake(Instant(MS / 2), HERE, &mut out);
        assert_eq!(out, [Output::Ready(HERE)]);
        assert!(m.send(Instant(MS / 2), HERE, 1000, Token(3)));
        assert_eq!(m.next_timeout(HERE), Instant(MS * 3 / 2));
    }

    #[test]
    fn overhead_and_loss_are_charged() {
        let framing = Framing { payload_bytes: 1000, header_bytes: 40, losses: false, ..BARE };
        let mut m = messages(DirectionSpec { overhead: 10, loss: Loss::Bernoulli(0.5), ..spec(&[]) }, framing);
        wake(&mut m, 0, HERE);
        assert!(m.send(Instant(0), HERE, 2001, Token(1)));
        assert_eq!(m.next_timeout(HERE), Instant(2151 * MS / 1000), "three packets");
        let mut lossy = messages(DirectionSpec { loss: Loss::Bernoulli(0.5), ..spec(&[]) }, BARE);
        let (mut sent, mut arrives) = (0, 0);
        for n in 0..1000 {
            for output in wake(&mut lossy, n, HERE) {
                sent += u32::from(matches!(output, Output::Sent(..)));
                arrives += u32::from(matches!(output, Output::Arrives(..)));
            }
            assert!(lossy.send(Instant(n * MS), HERE, 1000, Token(n)));
        }
        assert!(sent == 999 && (400..600).contains(&arrives), "{arrives} of {sent}");
    }
}

//! Links for simulations of whole bundles: each end of a link sends one bundle at a time, for as
//! long as the link's rate needs; it arrives after the light time. Where the link goes down first, it
//! goes on afterwards as far as the layer it stands for does, or fails.
//!
//! No bundle waits here: an end that is up and idle is ready for one more, and the agent keeps the
//! queue. Bundles are known by their size and a token of the driver's choice. Like every machine of
//! the engine it is told the time and says when to be woken.

use farlink_base::{Duration, Instant, Sink};
use farlink_link::{LinkDirection, MessageFate, Statistics, Transmission};

/// One end of a link: the link's place in the scenario, and 0 or 1 for its first or second node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Which link.
    pub link: usize,
    /// Which of its two ends.
    pub end: usize,
}
impl Place {
    /// The other end.
    pub fn peer(self) -> Place {
        Place { end: 1 - self.end, ..self }
    }
}

/// A bundle, as the driver numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// What an end says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// It is up and idle: it takes one bundle.
    Ready(Place),
    /// The last bit of the bundle left.
    Sent(Place, Token),
    /// The link went down before, for too long, or it was taken back; the part that was sent is lost.
    Failed(Place, Token),
    /// The bundle is at this end from then on; said when its last bit leaves.
    Arrives(Place, Token, Instant),
}

/// What a bundle weighs on a link, and whether it can be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Bytes of a bundle in one packet.
    pub payload_bytes: u64,
    /// Bytes of headers of one packet, the link's overhead aside.
    pub header_bytes: u64,
    /// Whether the link's losses hit bundles. Without, a layer beneath is thought to repair them.
    pub losses: bool,
    /// How long the link may be down until what was being sent begins anew.
    pub outlives: Duration,
    /// Whether what is being sent can be taken back.
    pub stops: bool,
}
impl Framing {
    /// Bytes on the link of a bundle of this size, in packets with this overhead each.
    pub fn wire_bytes(&self, size: u64, overhead: u64) -> u64 {
        size + size.div_ceil(self.payload_bytes.max(1)).max(1) * (self.header_bytes + overhead)
    }
}

/// One end: it sends over one direction.
struct End {
    direction: LinkDirection,
    framing: Framing,
    sending: Option<(Token, Transmission)>,
    /// What goes on when the link is up again: the bytes still to go, and until when it can.
    rest: Option<(Token, u64, Instant)>,
    /// Whether [`Output::Ready`] was said and holds.
    ready: bool,
    wake_at: Instant,
}

fn at_rest(directions: [LinkDirection; 2], framing: Framing) -> [End; 2] {
    directions.map(|direction| End {
        direction,
        framing,
        sending: None,
        rest: None,
        ready: false,
        wake_at: Instant::ZERO,
    })
}

/// All links of a world.
pub struct Messages {
    links: Vec<[End; 2]>,
}

impl Messages {
    /// Links of these directions (forward, reverse), at rest; wake each end once at the start.
    pub fn new(links: impl IntoIterator<Item = ([LinkDirection; 2], Framing)>) -> Messages {
        let link = |(directions, framing): ([LinkDirection; 2], Framing)| at_rest(directions, framing);
        Messages { links: links.into_iter().map(link).collect() }
    }

    /// Begins to send a bundle; `false` when the end is not ready, and nothing happens.
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

    /// When to call [`Messages::wake`] for this end; [`Instant::MAX`] for never.
    pub fn next_timeout(&self, place: Place) -> Instant {
        self.links[place.link][place.end].wake_at
    }

    /// Whether an end takes a bundle.
    pub fn is_ready(&self, place: Place) -> bool {
        self.links[place.link][place.end].ready
    }

    /// A deadline of an end passed: a transmission ended, or the link came up or went down.
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
        if let Some((_, _, until)) = end.rest {
            (end.ready, end.wake_at) = (false, end.wake_at.min(until));
        }
    }

    /// What an end sends is not wanted any more; where that can be said, it stops. Wake the end then.
    pub fn cancel(&mut self, now: Instant, place: Place, token: Token, out: &mut impl Sink<Output>) {
        let end = self.end(place);
        let rest = end.rest.is_some_and(|(waiting, ..)| waiting == token);
        let sent = end.sending.is_some_and(|(sending, transmission)| sending == token && !transmission.is_out(now));
        if end.framing.stops && (rest || sent) {
            end.conclude(now, place, false, out);
        }
    }

    /// Both ends stop at once, as when a node fails or a carrier falls: what was being sent is lost.
    /// What has left still arrives. Wake the ends when they may send again.
    pub fn abort(&mut self, now: Instant, link: usize, out: &mut impl Sink<Output>) {
        for (number, end) in self.links[link].iter_mut().enumerate() {
            end.conclude(now, Place { link, end: number }, false, out);
            (end.ready, end.wake_at) = (false, Instant::MAX);
        }
    }

    /// Counters of the direction an end sends over; bundles stand for packets.
    pub fn statistics(&self, place: Place) -> &Statistics {
        self.links[place.link][place.end].direction.statistics()
    }

    fn end(&mut self, place: Place) -> &mut End {
        &mut self.links[place.link][place.end]
    }
}

impl End {
    /// What was cut goes on where the link is up again, and begins anew where that took too long.
    fn go_on(&mut self, now: Instant, place: Place, out: &mut impl Sink<Output>) {
        let Some((token, bytes, until)) = self.rest else { return };
        if let Ok(transmission) = self.direction.begin_message(now, bytes) {
            (self.rest, self.sending, self.wake_at) = (None, Some((token, transmission)), transmission.until);
        } else if until <= now {
            self.rest = None;
            out.push(Output::Failed(place, token));
        }
    }
    /// What is being sent ends now, whole or not. `goes_on`: the rest may follow.
    fn conclude(&mut self, now: Instant, place: Place, goes_on: bool, out: &mut impl Sink<Output>) {
        if let Some((token, ..)) = self.rest.take() {
            out.push(Output::Failed(place, token));
        }
        let Some((token, transmission)) = self.sending.take() else { return };
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
            // The sender cannot know.
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

    /// 1 kB a millisecond, 100 ms one way.
    fn spec(windows: &[(u64, u64)]) -> DirectionSpec {
        let window = |w: &(u64, u64)| ContactWindow::new(Instant(w.0 * MS), Instant(w.1 * MS));
        let windows = (!windows.is_empty()).then(|| windows.iter().map(window).collect());
        DirectionSpec { windows, ..DirectionSpec::new(DataRate(8_000_000), Duration::from_millis(100)) }
    }
    fn messages(spec: DirectionSpec, framing: Framing) -> Messages {
        Messages::new([([1, 2].map(|seed| LinkDirection::new(spec.clone(), seed)), framing)])
    }
    /// Wakes an end at a time given in milliseconds.
    fn wake(messages: &mut Messages, at: u64, place: Place) -> Vec<Output> {
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
        // A gap that is longer than the layer's patience.
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

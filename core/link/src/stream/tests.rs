//! Tests of two ends over two emulated directions, in virtual time.

use super::{Config, Congestion, Input, Output, Segment, StreamEnd};
use crate::spec::{ContactWindow, DirectionSpec, LinkSpec, Loss, Reorder};
use crate::{LinkDirection, UDP_IPV4_HEADERS};
use alloc::boxed::Box;
use alloc::vec::Vec;
use farlink_base::{Bytes, DataRate, Duration, Instant, Payload, TimerQueue};
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
const A: usize = 0;
const B: usize = 1;

/// Two ends, the link between them, and the users of both ends.
struct StreamPair {
    now: Instant,
    ends: [StreamEnd; 2],
    directions: [LinkDirection; 2],
    flying: TimerQueue<(usize, Box<Segment>)>,
    user: [User; 2],
    segments: [u64; 2],
}

#[derive(Default)]
struct User {
    opened: Option<Instant>,
    received: Payload,
    received_at: Instant,
    room: u64,
    confirmed: u64,
    to_write: Payload,
    close_after: bool,
    peer_closed: bool,
    closed: Option<bool>,
}

impl StreamPair {
    fn new(spec: DirectionSpec, config: Config) -> StreamPair {
        let LinkSpec { forward, reverse } = LinkSpec::symmetric(spec);
        StreamPair {
            now: Instant::ZERO,
            ends: [StreamEnd::new(config), StreamEnd::listen(config)],
            directions: [LinkDirection::new(forward, 1), LinkDirection::new(reverse, 2)],
            flying: TimerQueue::new(),
            user: Default::default(),
            segments: [0; 2],
        }
    }
    fn tell(&mut self, end: usize, input: Input) {
        let mut out = Vec::new();
        self.ends[end].handle(self.now, input, &mut out);
        for output in out {
            let user = &mut self.user[end];
            match output {
                Output::Transmit(segment) => {
                    self.segments[end] += 1;
                    let verdict = self.directions[end].transmit(self.now, segment.ip_bytes());
                    for delivery in verdict.deliveries().filter(|d| !d.corrupted) {
                        self.flying.arm(delivery.at, (1 - end, segment.clone()));
                    }
                }
                Output::Opened => user.opened = Some(self.now),
                Output::Data(data) => {
                    user.received.append(data);
                    user.received_at = self.now;
                }
                Output::Writable { room } => user.room = room,
                Output::Confirmed { bytes } => {
                    assert!(bytes > user.confirmed, "every report is an increase");
                    user.confirmed = bytes;
                }
                Output::PeerClosed => user.peer_closed = true,
                Output::Closed { error } => {
                    assert_eq!(user.closed.replace(error), None, "closed once");
                }
            }
        }
        self.write_more(end);
    }
    fn write_more(&mut self, end: usize) {
        let user = &mut self.user[end];
        if user.opened.is_none() || user.closed.is_some() {
            return;
        }
        let n = user.room.min(user.to_write.len());
        if n > 0 {
            user.room -= n;
            let data = user.to_write.split_to(n);
            self.tell(end, Input::Write(data));
        } else if user.close_after && user.to_write.is_empty() {
            user.close_after = false;
            self.tell(end, Input::Close);
        }
    }
    /// Runs until `until`, or until nothing is scheduled.
    fn run(&mut self, until: Instant) {
        loop {
            let timers = [A, B].map(|e| self.ends[e].next_timeout());
            let Some(next) = [self.flying.next_deadline(), timers[A], timers[B]].into_iter().flatten().min() else {
                return;
            };
            if next > until {
                self.now = until;
                return;
            }
            assert!(next >= self.now, "time goes forward");
            self.now = next;
            if let Some((_, (end, segment))) = self.flying.pop_due(next) {
                self.tell(end, Input::Segment(segment));
            } else {
                let end = if timers[A] == Some(next) { A } else { B };
                self.tell(end, Input::Wake);
                assert!(self.ends[end].next_timeout() != Some(next) || self.flying.next_deadline() == Some(next));
            }
        }
    }
    fn at(&mut self, seconds: f64) {
        self.run(Instant((seconds * 1e9) as u64));
    }
    /// Connects, sends `bytes` from A to B, and closes both ends.
    fn transfer(spec: DirectionSpec, config: Config, bytes: u64) -> StreamPair {
        let mut pair = StreamPair::new(spec, config);
        pair.user[A].to_write = Payload::fill(9, bytes);
        pair.user[A].close_after = true;
        pair.user[B].close_after = true;
        pair.tell(A, Input::Connect);
        pair.run(Instant::MAX);
        pair
    }
}

fn path(rate: u64, delay_ms: u64) -> DirectionSpec {
    DirectionSpec::new(DataRate(rate), Duration::from_millis(delay_ms))
}

#[test]
fn stream_opens_and_closes_both_ways() {
    let pair = StreamPair::transfer(path(10_000_000, 600), Config::default(), 1000);
    assert_eq!(pair.user[A].opened.unwrap().as_secs_f64().round(), 1.0);
    assert!(pair.user[A].opened.unwrap() - Instant::ZERO < MS * 1201);
    assert_eq!(pair.user[B].received, Payload::fill(9, 1000));
    assert!(pair.user[B].received_at - Instant::ZERO < MS * 1804);
    assert_eq!(pair.user.each_ref().map(|u| (u.peer_closed, u.closed)), [(true, Some(false)); 2]);
}

#[test]
fn confirmed_counts_acknowledged_data_bytes() {
    let mut pair = StreamPair::new(path(10_000_000, 100), Config::default());
    pair.user[A].to_write = Payload::fill(9, 100_000);
    pair.tell(A, Input::Connect);
    pair.at(0.25);
    assert_eq!((pair.user[A].confirmed, pair.user[A].opened.is_some()), (0, true), "no report without a request");
    pair.tell(A, Input::Confirm);
    pair.at(0.45);
    let first = pair.user[A].confirmed;
    assert!((1..=20 * 1448).contains(&first), "the first window came back: {first}");
    pair.at(5.0);
    assert_eq!(pair.user[A].confirmed, 100_000);
    // While the reader pauses, bytes that fit into its host's buffer are acknowledged, and no further ones.
    pair.tell(B, Input::Pause);
    pair.user[A].to_write = Payload::fill(9, 20_000_000);
    pair.user[A].close_after = true;
    pair.write_more(A);
    pair.at(60.0);
    let held = pair.user[A].confirmed - 100_000;
    assert!((1 << 20..=7 << 20).contains(&held), "{held} of 20,000,000");
    pair.user[B].close_after = true;
    pair.tell(B, Input::Resume);
    pair.run(Instant::MAX);
    assert_eq!((pair.user[A].confirmed, pair.user[A].closed), (20_100_000, Some(false)));
    assert_eq!(pair.user[B].confirmed, 0, "the other did not ask");
}

#[test]
fn slow_start_doubles_each_round_trip() {
    // 10 segments in the first round trip, 20 in the second, ...: 10 (2^n - 1) after n.
    let pair = StreamPair::transfer(path(1_000_000_000, 600), Config::default(), 1448 * 10 * 31);
    let seconds = pair.user[B].received_at.as_secs_f64();
    assert!((1.2 * 5.5..1.2 * 5.5 + 0.2).contains(&seconds), "SYN, 4 round trips, and half of one: {seconds}");
    assert!(
        pair.segments[A] <= 10 * 31 + 6,
        "beside data: SYN, its repetition at 1 s, two ACKs, FIN, last ACK: {}",
        pair.segments[A]
    );
}

#[test]
fn the_receive_window_bounds_goodput() {
    let config = Config { receive_buffer: 1_000_000, ..Config::default() };
    let pair = StreamPair::transfer(path(1_000_000_000, 600), config, 50_000_000);
    let rate = 50e6 / pair.user[B].received_at.as_secs_f64();
    assert!((0.72..0.84).contains(&(rate / 1e6)), "1 MB per 1.2 s is 0.83 MB/s, after slow start: {rate}");
}

#[test]
fn receive_window_opens_in_round_trips() {
    // A sender that would put 6 MB into the first round trip: 65,535 bytes, then twice what came before in addition.
    let config = Config { congestion: Congestion::Ideal { window: 6_000_000 }, ..Config::default() };
    let mut pair = StreamPair::new(path(1_000_000_000, 300), config);
    pair.user[A].to_write = Payload::fill(9, 10_000_000);
    pair.tell(A, Input::Connect);
    let received = [1.0, 1.6, 2.2, 2.8].map(|seconds| {
        pair.at(seconds);
        pair.user[B].received.len()
    });
    assert!((60_000..=65_535).contains(&received[0]), "{received:?}");
    for (before, after) in received.iter().zip(&received[1..]) {
        let opened = after - before;
        assert!((before * 2..=before * 2 + 66_000).contains(&opened), "{received:?}");
    }
}

#[test]
fn clean_link_reaches_full_rate() {
    let pair = StreamPair::transfer(path(10_000_000, 10), Config::default(), 10_000_000);
    let rate = 80e6 / pair.user[B].received_at.as_secs_f64();
    assert!((9.2e6..9.66e6).contains(&rate), "1448 of 1500 bytes at 10 Mbit/s: {rate}");
}

#[test]
fn new_reno_loss_follows_mathis_law() {
    // The rate is 1.22 MSS / (RTT sqrt(p)) (Mathis et al., 1997), and a bit less with delayed acknowledgments.
    let spec = DirectionSpec { loss: Loss::Bernoulli(0.01), ..path(1_000_000_000, 50) };
    let pair = StreamPair::transfer(spec, Config::default(), 10_000_000);
    let rate = 10e6 / pair.user[B].received_at.as_secs_f64();
    let law = 1.22 * 1448.0 / (0.1 * 0.1);
    assert!((0.6..1.4).contains(&(rate / law)), "{rate} of {law}");
    assert_eq!(pair.user[B].received.len(), 10_000_000);
}

#[test]
fn goodput_falls_with_loss() {
    let mut rows = Vec::new();
    for (name, congestion) in [("NewReno", Congestion::NewReno), ("ideal", Congestion::Ideal { window: 750_000 })] {
        for loss in [0.0, 0.001, 0.01, 0.05, 0.2] {
            let spec = DirectionSpec { loss: Loss::Bernoulli(loss), ..path(10_000_000, 300) };
            let config = Config { congestion, ..Config::default() };
            let pair = StreamPair::transfer(spec, config, 4_000_000);
            assert_eq!(pair.user[B].received, Payload::fill(9, 4_000_000), "{name} {loss}");
            rows.push((name, loss, 32e6 / pair.user[B].received_at.as_secs_f64()));
        }
    }
    let rate = |n: usize| rows[n].2;
    assert!(rate(0) > 3e6 && rate(5) > 6e6, "{rows:?}");
    // NewReno is as fast with 0.1 % of loss as without: one early loss ends slow start just before the queue would
    // overflow, which costs no goodput.
    assert!((0.9..1.1).contains(&(rate(0) / rate(1))), "{rows:?}");
    assert!((1..4).all(|n| rate(n) > rate(n + 1)), "more loss, less goodput: {rows:?}");
    assert!((5..9).all(|n| rate(n) > rate(n + 1)), "more loss, less goodput: {rows:?}");
    assert!(rate(7) > 5.0 * rate(2), "at 1 % NewReno collapses: {rows:?}");
}

#[test]
fn reordered_and_duplicated_segments_are_delivered() {
    let reorder = Some(Reorder { probability: 0.05, gap: MS * 3 });
    let spec = DirectionSpec { reorder, duplicate: 0.1, corrupt: 0.01, ..path(10_000_000, 20) };
    let pair = StreamPair::transfer(spec, Config::default(), 500_000);
    assert_eq!(pair.user[B].received, Payload::fill(9, 500_000));
}

#[test]
fn probe_recovers_lost_window_update() {
    let config = Config { receive_buffer: 100_000, send_buffer: 50_000, ..Config::default() };
    let mut pair = StreamPair::new(path(10_000_000, 100), config);
    pair.user[A].to_write = Payload::fill(9, 400_000);
    pair.tell(A, Input::Connect);
    pair.at(0.25);
    pair.tell(B, Input::Pause);
    pair.at(30.0);
    assert!(pair.user[B].received.len() < 100_000);
    let left = pair.user[A].to_write.len();
    assert!(left >= 400_000 - 100_000 - 50_000 - pair.user[B].received.len(), "push-back reaches the writer: {left}");
    // The window update is lost in an outage; the probe finds the open window.
    let closed = ContactWindow::new(Instant::ZERO, Instant(1));
    pair.directions[B] =
        LinkDirection::new(DirectionSpec { windows: Some([closed].into()), ..path(10_000_000, 100) }, 2);
    pair.tell(B, Input::Resume);
    // The outage ends only now, so that nothing but the probe can reveal the open window.
    pair.directions[B] = LinkDirection::new(path(10_000_000, 100), 2);
    pair.at(200.0);
    assert_eq!(pair.user[B].received, Payload::fill(9, 400_000));
}

/// Number of segments from A to B for each segment from B to A, on a path without loss.
fn segments_for_each_acknowledgment(rate: u64, delay_ms: u64) -> f64 {
    let pair = StreamPair::transfer(path(rate, delay_ms), Config::default(), 10_000_000);
    pair.segments[A] as f64 / pair.segments[B] as f64
}

#[test]
fn coalesced_burst_is_acknowledged_once() {
    // A segment of 1,500 B takes 1.2 ms on the slow path and 12 us on the fast one.
    let (slow, fast) =
        (segments_for_each_acknowledgment(10_000_000, 10), segments_for_each_acknowledgment(1_000_000_000, 10));
    assert!((1.8..2.1).contains(&slow), "1.2 ms apart: every second segment, {slow}");
    assert!((8.0..18.0).contains(&fast), "12 us apart: every 200 us, {fast}");
}

#[test]
fn half_close_lets_peer_finish() {
    let mut pair = StreamPair::new(path(1_000_000, 50), Config::default());
    pair.user[A].close_after = true;
    pair.user[B].to_write = Payload::fill(4, 300_000);
    pair.tell(A, Input::Connect);
    pair.at(1.0);
    assert!(pair.user[B].peer_closed && pair.user[B].closed.is_none());
    pair.user[B].close_after = true;
    pair.run(Instant::MAX);
    assert_eq!(pair.user[A].received, Payload::fill(4, 300_000));
    assert_eq!(pair.user.each_ref().map(|u| u.closed), [Some(false); 2]);
}

#[test]
fn abort_resets_peer() {
    let mut pair = StreamPair::new(path(1_000_000, 50), Config::default());
    pair.user[A].to_write = Payload::fill(1, 1_000_000);
    pair.tell(A, Input::Connect);
    pair.at(1.0);
    pair.tell(B, Input::Abort);
    pair.run(Instant::MAX);
    assert_eq!(pair.user[A].closed, Some(true));
    assert_eq!(pair.user[B].closed, None, "the aborting end gets no event");
}

#[test]
fn data_before_reset_reaches_paused_reader() {
    let mut pair = StreamPair::new(path(10_000_000, 10), Config::default());
    pair.user[A].to_write = Payload::fill(9, 100_000);
    pair.tell(A, Input::Connect);
    pair.tell(A, Input::Confirm);
    pair.at(0.03);
    pair.tell(B, Input::Pause);
    let before = pair.user[B].received.len();
    pair.at(5.0);
    assert_eq!((pair.user[A].confirmed, pair.user[B].received.len()), (100_000, before));
    pair.tell(A, Input::Abort);
    pair.run(Instant::MAX);
    assert_eq!((pair.user[B].received.len(), pair.user[B].closed), (100_000, Some(true)));
}

#[test]
fn unanswered_connect_times_out() {
    let down = DirectionSpec { windows: Some(Vec::new()), ..path(1_000_000, 50) };
    let mut pair = StreamPair::new(down, Config::default());
    pair.tell(A, Input::Connect);
    pair.run(Instant::MAX);
    assert_eq!(pair.user[A].closed, Some(true));
    assert_eq!(pair.now, Instant::ZERO + Config::default().connect_timeout);
    // Timeouts of 1, 2, 4, ... 64 s add up to 127 s.
    assert_eq!(pair.segments[A], 7, "as Linux: one SYN and six more");
}

#[test]
fn refused_connection_closes_at_once() {
    let mut out = Vec::new();
    let mut end = StreamEnd::new(Config::default());
    end.handle(Instant(0), Input::Connect, &mut out);
    let Some(Output::Transmit(syn)) = out.pop() else { panic!("a SYN") };
    end.handle(Instant(9), Input::Segment(syn.refusal().unwrap().into()), &mut out);
    assert!(matches!(out[..], [Output::Closed { error: true }]));
    assert!(end.is_over() && end.next_timeout().is_none());
}

#[test]
fn gap_is_survived_dead_peer_is_not() {
    let window = |a: u64, b: u64| ContactWindow::new(Instant(a * 1_000_000_000), Instant(b * 1_000_000_000));
    let gap = DirectionSpec { windows: Some([window(0, 3), window(60, 900)].into()), ..path(1_000_000, 50) };
    let pair = StreamPair::transfer(gap, Config::default(), 1_000_000);
    assert_eq!(pair.user[B].received, Payload::fill(9, 1_000_000));
    let seconds = pair.user[B].received_at.as_secs_f64();
    // The gap lasts 57 s. Because the timer backs off exponentially, the first retransmission after the gap may come as
    // much as another 57 s later.
    assert!((60.0..125.0).contains(&seconds), "{seconds}");

    let dead = DirectionSpec { windows: Some([window(0, 3)].into()), ..path(1_000_000, 50) };
    let pair = StreamPair::transfer(dead, Config::default(), 1_000_000);
    assert_eq!(pair.user[A].closed, Some(true));
    assert!((900.0..1100.0).contains(&pair.now.as_secs_f64()), "{:?}", pair.now);
}

#[test]
fn segment_and_datagram_headers_are_charged() {
    assert_eq!(Segment { payload: Payload::fill(0, 100), ..Segment::default() }.ip_bytes(), 152);
    assert_eq!(UDP_IPV4_HEADERS, 28);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn exactly_the_bytes_written_arrive(
        writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..4000), 1..20),
        loss in 0.0f64..0.2, reorder in 0.0f64..0.2, duplicate in 0.0f64..0.2,
        receive_buffer in 3_000u64..60_000, seed: u64,
    ) {
        let spec = DirectionSpec {
            loss: Loss::Bernoulli(loss), duplicate, reorder: Some(Reorder { probability: reorder, gap: MS * 7 }),
            ..path(2_000_000, 40)
        };
        let mut pair = StreamPair::new(spec.clone(), Config { receive_buffer, ..Config::default() });
        // With equal seeds both directions would lose the same packets.
        pair.directions = [LinkDirection::new(spec.clone(), seed), LinkDirection::new(spec, !seed)];
        for (n, bytes) in writes.iter().enumerate() {
            // Writes alternate between the ends, so that data and acknowledgments meet.
            pair.user[n % 2].to_write.push_bytes(Bytes::from(bytes.clone()));
        }
        let want = [1, 0].map(|e: usize| pair.user[e].to_write.to_bytes().unwrap());
        pair.user.iter_mut().for_each(|u| u.close_after = true);
        pair.tell(A, Input::Connect);
        pair.run(Instant::MAX);
        for (end, bytes) in want.iter().enumerate() {
            prop_assert_eq!(&pair.user[end].received.to_bytes().unwrap(), bytes);
            prop_assert_eq!(pair.user[end].closed, Some(false));
        }
    }
}

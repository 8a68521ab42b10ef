//! Exchange of probes with the relay of another machine: delay, loss and path of the real network, and how far the
//! clocks there are ahead.

use crate::emulator::tunnel::{TunnelHead, TunnelKind};
use farlink_os::{monotonic_ns, realtime_ns};
use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Probes of one measurement, and the time between two.
const PROBES: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(5);
/// Longest wait for an answer.
const WAIT: Duration = Duration::from_millis(800);
/// Attempts to reach the relay at all.
const ATTEMPTS: u32 = 8;

/// Result of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measured {
    /// Shortest round trip.
    pub fastest: Duration,
    /// Middle round trip.
    pub median: Duration,
    /// Part of the probes without an answer.
    pub loss: f64,
    /// Nanoseconds by which the machine's monotonic clock is ahead; wrong by at most half the fastest round trip.
    pub monotonic_ahead: i64,
    /// The same of its Unix time.
    pub realtime_ahead: i64,
}

/// Makes the relay know the address of a tunnel's socket.
///
/// # Errors
/// If no answer comes.
pub fn greet(socket: &UdpSocket, token: u64, tunnel: u16) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    let mut exchange = Exchange::new(socket, token, tunnel);
    for _ in 0..ATTEMPTS {
        exchange.ask()?;
        if exchange.answer(WAIT)?.is_some() {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Measures the network and the clocks by probes from a connected socket of a greeted tunnel.
///
/// # Errors
/// If no answer comes.
pub fn measure(socket: &UdpSocket, token: u64, tunnel: u16) -> io::Result<Measured> {
    socket.set_nonblocking(false)?;
    let mut exchange = Exchange::new(socket, token, tunnel);
    let mut answers = Vec::new();
    for _ in 0..PROBES {
        let next = monotonic_ns() + INTERVAL.as_nanos() as u64;
        exchange.ask()?;
        // All that comes until then is read at once: an answer that waits would look like a long way.
        exchange.answers_until(next, &mut answers)?;
    }
    // Round trips may be longer than the interval.
    let end = monotonic_ns() + WAIT.as_nanos() as u64;
    exchange.answers_until(end, &mut answers)?;
    conclude(answers, PROBES).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// Times of a probe: monotonic and Unix time here as it left, its round trip, and both clocks there.
#[derive(Clone, Copy, Debug)]
struct Answer {
    left: [u64; 2],
    round_trip: u64,
    there: [u64; 2],
}

struct Exchange<'a> {
    socket: &'a UdpSocket,
    token: u64,
    tunnel: u16,
    /// Number of the first probe, which no earlier exchange had, and that of the next one.
    first: u32,
    number: u32,
    /// Numbers of probes without an answer: the network may copy answers.
    open: BTreeSet<u32>,
}

impl Exchange<'_> {
    fn new(socket: &UdpSocket, token: u64, tunnel: u16) -> Exchange<'_> {
        // Exchanges take longer than the microseconds that their probes count.
        let first = (monotonic_ns() / 1000) as u32;
        Exchange { socket, token, tunnel, first, number: first, open: BTreeSet::new() }
    }

    /// Reads answers until a monotonic time, or until none is missing.
    fn answers_until(&mut self, end_ns: u64, answers: &mut Vec<Answer>) -> io::Result<()> {
        loop {
            let left = end_ns.saturating_sub(monotonic_ns());
            let is_last = self.number.wrapping_sub(self.first) >= PROBES;
            if left == 0 || (is_last && self.open.is_empty()) {
                return Ok(());
            }
            answers.extend(self.answer(Duration::from_nanos(left))?);
        }
    }

    fn ask(&mut self) -> io::Result<()> {
        let head = TunnelHead { token: self.token, tunnel: self.tunnel, kind: TunnelKind::Probe, number: self.number };
        self.open.insert(self.number);
        self.number = self.number.wrapping_add(1);
        let mut datagram = head.bytes().to_vec();
        datagram.extend_from_slice(&monotonic_ns().to_be_bytes());
        datagram.extend_from_slice(&realtime_ns().to_be_bytes());
        match self.socket.send(&datagram) {
            // The relay may not be there yet, or the machine refuses; the missing answer tells.
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
            _ => Ok(()),
        }
    }

    fn answer(&mut self, wait: Duration) -> io::Result<Option<Answer>> {
        self.socket.set_read_timeout(Some(wait))?;
        let mut datagram = [0; 128];
        let length = match self.socket.recv(&mut datagram) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {
                std::thread::sleep(wait);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let now = monotonic_ns();
        let Some((head, content)) = TunnelHead::read(&datagram[..length], self.token) else { return Ok(None) };
        let number = |place: usize| content.get(place * 8..place * 8 + 8)?.try_into().ok().map(u64::from_be_bytes);
        let all = || Some(([number(0)?, number(1)?], [number(2)?, number(3)?]));
        let is_first = head.kind == TunnelKind::Answer && self.open.remove(&head.number);
        let answer = all().filter(|_| is_first);
        Ok(answer.map(|(left, there)| Answer { left, round_trip: now.saturating_sub(left[0]), there }))
    }
}

fn conclude(mut answers: Vec<Answer>, asked: u32) -> Option<Measured> {
    answers.sort_unstable_by_key(|answer| answer.round_trip);
    let (fastest, median) = (answers.first()?, answers.get(answers.len() / 2)?);
    // In the middle of the fastest exchange the clocks there had these values.
    let ahead = |clock: usize| fastest.there[clock] as i64 - (fastest.left[clock] + fastest.round_trip / 2) as i64;
    Some(Measured {
        fastest: Duration::from_nanos(fastest.round_trip),
        median: Duration::from_nanos(median.round_trip),
        loss: 1.0 - answers.len() as f64 / f64::from(asked),
        monotonic_ahead: ahead(0),
        realtime_ahead: ahead(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_answers_neither_count_nor_delay() {
        let [here, there] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || {
            let mut datagram = [0; 128];
            for number in 0u32.. {
                let (length, from) = there.recv_from(&mut datagram).unwrap();
                let (head, content) = TunnelHead::read(&datagram[..length], 7).unwrap();
                let head = TunnelHead { kind: TunnelKind::Answer, ..head };
                let clocks = [monotonic_ns(), realtime_ns()].map(u64::to_be_bytes).concat();
                let answer = [&head.bytes()[..], content, &clocks].concat();
                // Every tenth answer is lost, the others come three times.
                for _ in 0..if number % 10 == 9 { 0 } else { 3 } {
                    there.send_to(&answer, from).unwrap();
                }
            }
        });
        let found = measure(&here, 7, 3).unwrap();
        assert!((found.loss - 0.1).abs() < 1e-9, "{found:?}");
        let again = measure(&here, 7, 3).unwrap();
        // Answers that waited in the socket would come to whole seconds.
        assert!(again.median < Duration::from_millis(100) && again.loss > 0.09, "{again:?}");
    }

    #[test]
    fn fastest_exchange_sets_offsets() {
        let answer = |left: u64, round_trip: u64, there: u64| Answer {
            left: [left, left + 7000],
            round_trip,
            there: [there, there + 6000],
        };
        let found = conclude(vec![answer(100, 50, 1000), answer(200, 20, 1210), answer(300, 90, 9)], 4).unwrap();
        assert_eq!((found.fastest.as_nanos(), found.median.as_nanos(), found.loss), (20, 50, 0.25));
        assert_eq!((found.monotonic_ahead, found.realtime_ahead), (1000, 0));
        assert_eq!(conclude(Vec::new(), 4), None);
    }
}

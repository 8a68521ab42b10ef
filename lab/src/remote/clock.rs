//! Exchange of probes with the relay of another machine: delay, loss and path of the real network, and how far the
//! clocks there are ahead.

use crate::emulator::tunnel::{TunnelHead, TunnelKind};
use farlink_os::{monotonic_ns, realtime_ns};
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
    let mut exchange = Exchange { socket, token, tunnel, number: 0 };
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
    let mut exchange = Exchange { socket, token, tunnel, number: 0 };
    let mut answers = Vec::new();
    for _ in 0..PROBES {
        let next = monotonic_ns() + INTERVAL.as_nanos() as u64;
        exchange.ask()?;
        answers.extend(exchange.answer(INTERVAL)?);
        std::thread::sleep(Duration::from_nanos(next.saturating_sub(monotonic_ns())));
    }
    // Round trips may be longer than the interval.
    while (answers.len() as u32) < PROBES {
        let Some(answer) = exchange.answer(WAIT)? else { break };
        answers.push(answer);
    }
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
    number: u32,
}

impl Exchange<'_> {
    fn ask(&mut self) -> io::Result<()> {
        let head = TunnelHead { token: self.token, tunnel: self.tunnel, kind: TunnelKind::Probe, number: self.number };
        self.number += 1;
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
        let answer = all().filter(|_| head.kind == TunnelKind::Answer);
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

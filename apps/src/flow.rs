//! Plain TCP and UDP flows between two hosts, without bundles: background traffic, or baselines of a network.

use anyhow::{Context, Result};
use farlink_base::DataRate;
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Bytes that a TCP flow writes or reads at once.
const PIECE: usize = 256 << 10;
/// Minimum bytes that a flow of limited rate writes at once: a full segment, as smaller ones would be mostly headers.
const PIECE_LEAST: usize = 1448;
/// Interval at which a wait checks the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// Silence after which a flow of datagrams has ended, and time for which a refused TCP connection is tried again.
const SILENCE: Duration = Duration::from_secs(3);
/// Waits shorter than this are spun, since a sleep would end too late.
const NAP: Duration = Duration::from_micros(200);

/// Transport of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One TCP connection.
    Tcp,
    /// Numbered UDP datagrams.
    Udp,
}

/// Parameters of a sender.
#[derive(Clone, Debug)]
pub struct FlowOptions {
    /// Address of the receiver.
    pub to: SocketAddr,
    /// Transport of the flow.
    pub transport: Transport,
    /// Payload rate; `None` for as fast as the network permits.
    pub rate: Option<DataRate>,
    /// Payload bytes of each datagram; at least 8 are sent.
    pub datagram: usize,
    /// Duration of the flow, the time for connecting included.
    pub duration: Duration,
}

/// Counters of one end of a flow.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct FlowReport {
    /// Number of payload bytes sent or received.
    pub bytes: u64,
    /// Time from the first byte received to the last; at senders, duration of the flow. In s.
    pub seconds: f64,
    /// Mean rate in that time, in bit/s. Receivers leave out the bytes of the first read, with which the time begins.
    pub bit_s: f64,
    /// Number of datagrams sent or received; 0 for TCP.
    pub datagrams: u64,
    /// Number of datagrams that are missing below the highest number received; 0 at senders.
    pub lost: u64,
    /// Number of TCP segments retransmitted; 0 at receivers.
    pub retransmitted: u64,
}

impl FlowReport {
    fn timed(self, seconds: f64) -> FlowReport {
        let bit_s = if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 };
        FlowReport { seconds, bit_s, ..self }
    }
}

/// Receives all flows at an address until `stop` is set, or with `once` until the first flow has ended.
///
/// # Errors
/// If it cannot listen at the address.
pub fn receive(at: SocketAddr, transport: Transport, once: bool, stop: &Arc<AtomicBool>) -> Result<FlowReport> {
    match transport {
        Transport::Tcp => receive_tcp(at, once, stop),
        Transport::Udp => receive_udp(at, once, stop),
    }
    .with_context(|| format!("receiving at {at}"))
}

/// Sends a flow until its duration is over or `stop` is set.
///
/// # Errors
/// If the receiver cannot be reached.
pub fn send(options: &FlowOptions, stop: &AtomicBool) -> Result<FlowReport> {
    match options.transport {
        Transport::Tcp => send_tcp(options, stop),
        Transport::Udp => send_udp(options, stop),
    }
    .with_context(|| format!("sending to {}", options.to))
}

/// Counters that connections share: bytes, bytes of the first read, and monotonic times of the first and the last read.
#[derive(Default)]
struct Counters {
    bytes: AtomicU64,
    first_bytes: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    ended: AtomicBool,
}

impl Counters {
    fn add(&self, bytes: usize) {
        let now = farlink_os::monotonic_ns();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.first_ns.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.first_bytes.store(bytes as u64, Ordering::Relaxed);
        }
        self.last_ns.fetch_max(now, Ordering::Relaxed);
    }
    fn report(&self) -> FlowReport {
        let span = self.last_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed));
        let (bytes, seconds) = (self.bytes.load(Ordering::Relaxed), span as f64 / 1e9);
        // The measured time begins with the first read, so the bytes of that read do not count.
        let later = bytes.saturating_sub(self.first_bytes.load(Ordering::Relaxed));
        let bit_s = FlowReport { bytes: later, ..FlowReport::default() }.timed(seconds).bit_s;
        FlowReport { bytes, seconds, bit_s, ..FlowReport::default() }
    }
}

fn receive_tcp(at: SocketAddr, once: bool, stop: &Arc<AtomicBool>) -> Result<FlowReport> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let counters = Arc::new(Counters::default());
    while !(stop.load(Ordering::Relaxed) || once && counters.ended.load(Ordering::Relaxed)) {
        match listener.accept() {
            Ok((connection, _)) => {
                let (counters, stop) = (Arc::clone(&counters), Arc::clone(stop));
                std::thread::spawn(move || {
                    let _ = count_bytes(connection, &counters, &stop);
                    counters.ended.store(true, Ordering::Relaxed);
                });
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK / 10),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(counters.report())
}

fn count_bytes(mut connection: TcpStream, counters: &Counters, stop: &AtomicBool) -> std::io::Result<()> {
    connection.set_nonblocking(false)?;
    connection.set_read_timeout(Some(LOOK))?;
    let mut piece = vec![0; PIECE];
    while !stop.load(Ordering::Relaxed) {
        match connection.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => counters.add(count),
            Err(why) if may_go_on(&why) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn may_go_on(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn receive_udp(at: SocketAddr, once: bool, stop: &AtomicBool) -> Result<FlowReport> {
    let socket = UdpSocket::bind(at)?;
    farlink_os::udp::grow_buffers(&socket, 64 << 20);
    socket.set_read_timeout(Some(LOOK))?;
    let (counters, mut datagrams, mut next) = (Counters::default(), 0, 0);
    let mut buffer = vec![0; 1 << 16];
    let mut last = None;
    while !(stop.load(Ordering::Relaxed) || once && last.is_some_and(|at: Instant| at.elapsed() > SILENCE)) {
        match socket.recv(&mut buffer) {
            Ok(count) => {
                last = Some(Instant::now());
                counters.add(count);
                datagrams += 1;
                let number = buffer[..count].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                next = number.saturating_add(1).max(next);
            }
            Err(why) if may_go_on(&why) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(FlowReport { datagrams, lost: u64::saturating_sub(next, datagrams), ..counters.report() })
}

/// Connects within the duration of the flow; retries while the receiver may still be starting. `None` after `stop`.
fn connect(to: SocketAddr, pace: &Pace, stop: &AtomicBool) -> Result<Option<TcpStream>> {
    while !stop.load(Ordering::Relaxed) {
        let left = pace.duration.saturating_sub(pace.begun.elapsed());
        let within = pace.duration.as_secs_f64();
        anyhow::ensure!(!left.is_zero(), "no connection to {to} within {within:.1} s\n{NOBODY}");
        match connect_within(to, left, stop) {
            Ok(connection) => return Ok(connection),
            Err(why) if why.kind() == ErrorKind::ConnectionRefused && pace.begun.elapsed() < SILENCE => {
                std::thread::sleep(LOOK.min(left));
            }
            Err(why) if why.kind() == ErrorKind::TimedOut => {}
            Err(why) => anyhow::bail!("no connection to {to}: {why}\n{NOBODY}"),
        }
    }
    Ok(None)
}

/// Hint for a receiver that does not answer.
const NOBODY: &str = "hint: does `farlink flow --receive ADDRESS:PORT` run there, and is the address right?";

/// Connects in a thread of its own, so that `stop` can end the wait: then `None`.
fn connect_within(to: SocketAddr, left: Duration, stop: &AtomicBool) -> std::io::Result<Option<TcpStream>> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(TcpStream::connect_timeout(&to, left)));
    while !stop.load(Ordering::Relaxed) {
        match told.recv_timeout(LOOK) {
            Ok(connection) => return connection.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ErrorKind::Other.into()),
        }
    }
    Ok(None)
}

fn send_tcp(options: &FlowOptions, stop: &AtomicBool) -> Result<FlowReport> {
    // The flow's time begins before connecting: it ends on time, and bytes are due from the beginning.
    let mut pace = Pace::new(options.rate, options.duration);
    let Some(mut connection) = connect(options.to, &pace, stop)? else { return Ok(FlowReport::default()) };
    // A network that accepts nothing must not keep a sender beyond its time.
    connection.set_write_timeout(Some(LOOK))?;
    connection.set_read_timeout(Some(LOOK))?;
    let piece = vec![0; options.rate.map_or(PIECE, |rate| (rate.0 as usize / 8000).clamp(PIECE_LEAST, PIECE))];
    let mut bytes = 0;
    while pace.wait(piece.len()) && !stop.load(Ordering::Relaxed) {
        let mut left = &piece[..];
        while !left.is_empty() && !pace.is_over() && !stop.load(Ordering::Relaxed) {
            match connection.write(left) {
                Ok(count) => left = &left[count..],
                Err(why) if may_go_on(&why) => {}
                Err(why) => return Err(why.into()),
            }
        }
        bytes += (piece.len() - left.len()) as u64;
    }
    // The peer closes the connection after the last byte has arrived.
    connection.shutdown(Shutdown::Write)?;
    while !stop.load(Ordering::Relaxed) {
        match connection.read(&mut [0; 64]) {
            Ok(0) => break,
            Err(why) if !may_go_on(&why) => break,
            _ => {}
        }
    }
    let retransmitted = farlink_os::stream::retransmitted(&connection).unwrap_or(0);
    Ok(FlowReport { bytes, retransmitted, ..FlowReport::default() }.timed(pace.begun.elapsed().as_secs_f64()))
}

fn send_udp(options: &FlowOptions, stop: &AtomicBool) -> Result<FlowReport> {
    let any: SocketAddr = if options.to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(options.to)?;
    let mut datagram = vec![0; options.datagram.max(8)];
    let mut pace = Pace::new(options.rate, options.duration);
    let mut report = FlowReport::default();
    while pace.wait(datagram.len()) && !stop.load(Ordering::Relaxed) {
        datagram[..8].copy_from_slice(&report.datagrams.to_be_bytes());
        match socket.send(&datagram) {
            Ok(count) => report.bytes += count as u64,
            // Without a listener, or if the interface is full or down, the datagram counts as sent and is lost.
            Err(why) if !matches!(why.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => {}
            Err(why) => return Err(why.into()),
        }
        report.datagrams += 1;
    }
    Ok(report.timed(pace.begun.elapsed().as_secs_f64()))
}

/// Pace of a sender, and the time that is left to it.
struct Pace {
    begun: Instant,
    duration: Duration,
    /// Nanoseconds per byte; 0 without a rate.
    byte_ns: f64,
    bytes: u64,
}

impl Pace {
    fn new(rate: Option<DataRate>, duration: Duration) -> Pace {
        let byte_ns = rate.map_or(0.0, |rate| 8e9 / (rate.0.max(1) as f64));
        Pace { begun: Instant::now(), duration, byte_ns, bytes: 0 }
    }
    fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.duration
    }
    /// Waits until `bytes` more may be sent; returns false when the time is over.
    fn wait(&mut self, bytes: usize) -> bool {
        let due = Duration::from_nanos((self.bytes as f64 * self.byte_ns) as u64);
        self.bytes += bytes as u64;
        loop {
            let now = self.begun.elapsed();
            if now >= self.duration || due >= self.duration {
                return false;
            }
            match due.saturating_sub(now) {
                Duration::ZERO => return true,
                left if left < NAP => std::hint::spin_loop(),
                left => std::thread::sleep(left - NAP / 2),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a flow over loopback; returns the reports of sender and receiver.
    fn flow(transport: Transport, rate: Option<u64>) -> (FlowReport, FlowReport) {
        let to: SocketAddr = match transport {
            Transport::Tcp => TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
            Transport::Udp => UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let receiver = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || receive(to, transport, true, &stop).unwrap())
        };
        std::thread::sleep(Duration::from_millis(200));
        let duration = Duration::from_millis(400);
        let options = FlowOptions { to, transport, rate: rate.map(DataRate), datagram: 1000, duration };
        (send(&options, &stop).unwrap(), receiver.join().unwrap())
    }

    #[test]
    fn tcp_flow_counts_same_bytes_at_both_ends() {
        let (sent, received) = flow(Transport::Tcp, None);
        assert!(sent.bytes > 0 && sent.bytes == received.bytes, "{sent:?} {received:?}");
        assert!(received.bit_s > 0.0 && received.lost == 0);
    }

    #[test]
    fn connecting_takes_time_of_the_flow() {
        // Once without a receiver, and once with a receiver that starts later.
        for late in [false, true] {
            let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let receiver = late.then(|| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(1));
                    receive(to, Transport::Tcp, true, &stop).unwrap()
                })
            });
            let (duration, rate) = (Duration::from_millis(1500), Some(DataRate(8_000_000)));
            let options = FlowOptions { to, transport: Transport::Tcp, rate, datagram: 1000, duration };
            let begun = Instant::now();
            let sent = send(&options, &stop);
            assert!(begun.elapsed() < Duration::from_millis(2400), "{:?}", begun.elapsed());
            match receiver.map(|thread| thread.join().unwrap()) {
                None => assert!(
                    format!("{:#}", sent.unwrap_err()).contains("within 1.5 s\nhint: does `farlink flow --receive")
                ),
                Some(received) => assert_eq!(sent.unwrap().bytes, received.bytes),
            }
        }
    }

    #[test]
    fn paced_datagrams_are_numbered() {
        let (sent, received) = flow(Transport::Udp, Some(8_000_000));
        // 1000 datagrams a second for 400 ms; a busy machine may send fewer.
        assert!((200..=401).contains(&sent.datagrams), "{sent:?}");
        assert_eq!(received.datagrams + received.lost, sent.datagrams, "{received:?}");
    }
}

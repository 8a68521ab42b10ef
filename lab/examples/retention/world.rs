//! Three hosts in a row; the relay in the middle host computes for a known time for each unit.

use crate::traffic::Traffic;
use farlink_lab::cable::{CableEnd, CablePlace, make_host, plug};
use farlink_lab::emulator::{Emulator, rings};
use farlink_lab::probes::retention::{RetentionProbe, RetentionReport, RetentionSetup, WatchedRelay};
use farlink_link::LinkSpec;
use farlink_os::monotonic_ns;
use farlink_os::namespace::NetworkNamespace;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

const PORT: u16 = 4556;
/// Priority of programs in hosts, as in the testbed.
const PRIORITY: i32 = 10;
/// Time without a datagram after which the rest is presumed lost.
const SILENCE: Duration = Duration::from_secs(3);

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct RelayRun {
    pub traffic: Traffic,
    /// Number of units sent.
    pub units: u64,
    /// Time between units.
    pub pace: Duration,
    /// Time for which the relay computes for each unit.
    pub work: Duration,
    /// Whether programs get real-time priority, where that is permitted.
    pub real_time: bool,
}

fn address(host: usize, link: usize) -> SocketAddr {
    // Link 0 joins hosts 0 and 1, link 1 hosts 1 and 2.
    format!("10.0.{link}.{}:{PORT}", host - link + 1).parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a relay between two hosts, with the probe on both links. Changes the network namespace of the calling thread,
/// so call it in a thread of its own.
///
/// # Errors
///
/// If the kernel refuses a host or an interface, or a program of a host fails.
pub fn run(run: RelayRun) -> io::Result<RetentionReport> {
    NetworkNamespace::create()?.enter()?;
    let hosts = [make_host()?, make_host()?, make_host()?];
    let spec = LinkSpec::parse("delay=1 ms,rate=1 Gbit/s").map_err(io::Error::other)?;
    let mut emulator = Emulator::new(Duration::from_millis(50))?;
    let rings = rings(&[spec.clone(), spec.clone()]);
    for link in 0..2 {
        let end = |side: usize| CableEnd {
            place: CablePlace::Host(&hosts[link + side]),
            addresses: vec![(address(link + side, link).ip(), 24)],
            congestion: None,
        };
        let ports = plug(&format!("link{link}"), [&end(0), &end(1)], 1500, rings[link])?;
        emulator.add(ports, &spec, 1, false)?;
    }
    let relays = vec![WatchedRelay { name: "relay".into(), links: vec![(0, true), (1, false)] }];
    let layers = [0, 1].map(|link| (link, (run.traffic.layer(), PORT))).into();
    let setup = RetentionSetup { layers, relays, zero_work: None };
    let (probe, watchers) = RetentionProbe::start(setup)?;
    for ((link, forward), watcher) in watchers {
        emulator.observe(link, forward, Box::new(watcher));
    }
    emulator.begin(None)?;
    let start = |host: usize, work: fn(RelayRun) -> io::Result<()>| {
        let home = NetworkNamespace::current()?;
        hosts[host].enter()?;
        // A thread inherits the network namespace of the thread that starts it.
        let started = std::thread::Builder::new().spawn(move || {
            if run.real_time {
                let _ = farlink_os::schedule::set_real_time_in_turns(PRIORITY);
            } else {
                let _ = farlink_os::schedule::set_ordinary();
            }
            work(run)
        });
        home.enter()?;
        started
    };
    let stream = run.traffic.is_stream();
    let sink = start(2, if stream { stream_sink } else { datagram_sink })?;
    // A datagram to a socket that is not bound yet would be lost; TCP's `connect` tries again.
    std::thread::sleep(Duration::from_millis(20));
    let relay = start(1, if stream { stream_relay } else { datagram_relay })?;
    std::thread::sleep(Duration::from_millis(20));
    let source = start(0, if stream { stream_source } else { datagram_source })?;
    for program in [source, relay, sink] {
        ended(program)?;
    }
    emulator.finish()?;
    drop(emulator);
    probe.finish()
}
fn ended(program: JoinHandle<io::Result<()>>) -> io::Result<()> {
    program.join().unwrap_or_else(|_| Err(io::Error::other("a program of a host panicked")))
}

/// Busy-waits for `time`; a sleep would overshoot by the wake-up delay.
fn work(time: Duration) {
    let until = monotonic_ns() + time.as_nanos() as u64;
    while monotonic_ns() < until {
        std::hint::spin_loop();
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let mut result = TcpStream::connect(to);
    for _ in 0..50 {
        if result.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        result = TcpStream::connect(to);
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
fn stream_source(run: RelayRun) -> io::Result<()> {
    let mut stream = connect(address(1, 0))?;
    stream.write_all(&run.traffic.preamble())?;
    for number in 0..run.units {
        std::thread::sleep(run.pace);
        stream.write_all(&run.traffic.unit(number).concat())?;
    }
    Ok(())
}
fn stream_relay(run: RelayRun) -> io::Result<()> {
    let (mut from, _) = TcpListener::bind(address(1, 0))?.accept()?;
    let mut to = connect(address(2, 1))?;
    let mut preamble = run.traffic.preamble();
    from.read_exact(&mut preamble)?;
    to.write_all(&preamble)?;
    let mut unit = run.traffic.unit(0).concat();
    for _ in 0..run.units {
        from.read_exact(&mut unit)?;
        work(run.work);
        to.write_all(&unit)?;
    }
    Ok(())
}
fn stream_sink(_: RelayRun) -> io::Result<()> {
    let (mut from, _) = TcpListener::bind(address(2, 1))?.accept()?;
    io::copy(&mut from, &mut io::sink()).map(drop)
}

fn datagram_socket(host: usize, link: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address(host, link))?;
    socket.set_read_timeout(Some(SILENCE))?;
    Ok(socket)
}
fn datagram_source(run: RelayRun) -> io::Result<()> {
    let socket = datagram_socket(0, 0)?;
    for number in 0..run.units {
        std::thread::sleep(run.pace);
        for datagram in run.traffic.unit(number) {
            socket.send_to(&datagram, address(1, 0))?;
        }
    }
    Ok(())
}
fn datagram_relay(run: RelayRun) -> io::Result<()> {
    let (from, to) = (datagram_socket(1, 0)?, datagram_socket(1, 1)?);
    let mut unit: Vec<(Vec<u8>, usize)> = run.traffic.unit(0).iter().map(|_| (vec![0; 2000], 0)).collect();
    for _ in 0..run.units {
        for (buffer, len) in &mut unit {
            *len = from.recv(buffer)?;
        }
        work(run.work);
        for (buffer, len) in &unit {
            to.send_to(&buffer[..*len], address(2, 1))?;
        }
    }
    Ok(())
}
fn datagram_sink(run: RelayRun) -> io::Result<()> {
    let socket = datagram_socket(2, 1)?;
    let datagrams = run.units * run.traffic.unit(0).len() as u64;
    let mut buffer = [0; 2000];
    for _ in 0..datagrams {
        socket.recv(&mut buffer)?;
    }
    Ok(())
}

//! Just enough of each wire format to attack with it, written from the standards: an attacker does not use the node's
//! encoder.

pub mod bundle;
pub mod ltp;
pub mod old;
pub mod tcpcl;
pub mod tcpclv3;
pub mod tls;
pub mod udpcl;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait of a hostile socket: an attack must notice the end of its time.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// Address of an unknown peer, different from those of all honest nodes.
pub fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 66, number)
}

/// Address of one of 65,536 unknown peers.
pub fn one_of_many(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

/// Connects from an address; reads and writes wait at most [`PATIENCE`].
///
/// # Errors
/// When the kernel refuses, or no answer arrives in time.
pub fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The send timeout bounds `connect`, too (socket(7)).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads the rest of a message that has begun; the peer is expected to send it soon.
///
/// # Errors
/// When the connection ends, or the rest does not arrive in time.
pub fn exactly(stream: &mut TcpStream, mut buffer: &mut [u8]) -> io::Result<()> {
    let deadline = Instant::now() + 10 * PATIENCE;
    while !buffer.is_empty() {
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => buffer = &mut buffer[n..],
            Err(why) if why.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}
/// Reads and discards `bytes` bytes.
///
/// # Errors
/// As [`exactly`].
pub fn skip(stream: &mut TcpStream, mut bytes: u64) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while bytes > 0 {
        let step = bytes.min(buffer.len() as u64);
        exactly(stream, &mut buffer[..step as usize])?;
        bytes -= step;
    }
    Ok(())
}

/// Connects to a Unix socket; reads and writes wait at most [`PATIENCE`].
///
/// # Errors
/// When the kernel refuses, or the listener's queue stays full.
pub fn connect_unix(to: &Path) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The send timeout bounds `connect`, too (socket(7)).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    net::connect(&socket, &SocketAddrUnix::new(to)?)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A non-blocking UDP socket at an address, on any port.
///
/// # Errors
/// When the kernel refuses the socket.
pub fn datagrams(from: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Reads and discards pending input without blocking; returns its bytes and whether the socket is still open.
pub fn discard(mut stream: &TcpStream) -> (u64, bool) {
    let (mut bytes, mut buffer) = (0, [0; 16 << 10]);
    if stream.set_nonblocking(true).is_err() {
        return (0, false);
    }
    let open = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break false,
            Ok(n) => bytes += n as u64,
            Err(why) => break why.kind() == io::ErrorKind::WouldBlock,
        }
    };
    let _ = stream.set_nonblocking(false);
    (bytes, open)
}

/// Sends bytes, reading and discarding input meanwhile. Returns whether the stream is still open and took everything.
pub fn push(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> bool {
    while !bytes.is_empty() {
        if !discard(stream).1 || Instant::now() >= deadline {
            return false;
        }
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Raises the descriptor limit of this process and its children to the maximum that the system permits.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

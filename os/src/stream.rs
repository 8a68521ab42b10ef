//! Byte streams: connecting without waiting, reading into spare capacity, writing ropes.

use bytes::BytesMut;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Begins to connect; the socket becomes writable when it is connected or failed
/// ([`TcpStream::take_error`] then tells which).
///
/// # Errors
/// When the kernel refuses at once.
pub fn connect(to: &SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match rustix::net::connect(&socket, to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    // Small acknowledgments must not wait for one another (Nagle).
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A listening socket that never blocks; an address in TIME_WAIT may be used again.
///
/// # Errors
/// What the kernel says, such as "address in use".
pub fn listen(at: &SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Reads what is there into the spare capacity of `buffer`, at most `limit` bytes; 0 is the end.
///
/// # Errors
/// `WouldBlock` when nothing is there.
pub fn read_into(from: impl AsFd, buffer: &mut BytesMut, limit: usize) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(limit);
    let (initialised, _) = rustix::io::read(from, &mut spare[..room])?;
    let n = initialised.len();
    let length = buffer.len() + n;
    // SAFETY: the kernel wrote `n` bytes at the start of the spare capacity.
    unsafe { buffer.set_len(length) };
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reads_into_spare_capacity_and_reports_the_end() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let client = connect(&listener.local_addr().unwrap()).unwrap();
        let mut server = loop {
            match listener.accept() {
                Ok((server, _)) => break server,
                Err(why) => assert_eq!(why.kind(), io::ErrorKind::WouldBlock),
            }
        };
        let mut buffer = BytesMut::with_capacity(64);
        assert_eq!(read_into(&client, &mut buffer, 64).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        server.write_all(b"hello").unwrap();
        drop(server);
        client.set_nonblocking(false).unwrap();
        assert_eq!(read_into(&client, &mut buffer, 3).unwrap(), 3);
        assert_eq!(read_into(&client, &mut buffer, 64).unwrap(), 2);
        assert_eq!(&buffer[..], b"hello");
        assert_eq!(read_into(&client, &mut buffer, 64).unwrap(), 0);
    }
}

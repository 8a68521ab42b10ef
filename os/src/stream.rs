//! Byte streams: non-blocking connects, Unix sockets, reads into spare capacity, and queue lengths of TCP.

use bytes::BytesMut;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto};
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Starts to connect, from the given address (port 0: any) or one chosen by the kernel. The socket becomes writable
/// when it is connected or has failed ([`TcpStream::take_error`]).
///
/// # Errors
/// If the kernel refuses at once.
pub fn connect(to: &SocketAddr, from: Option<&SocketAddr>) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if let Some(from) = from {
        rustix::net::bind(&socket, from)?;
    }
    match rustix::net::connect(&socket, to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    // Nagle's algorithm would delay small acknowledgments.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Opens a non-blocking listening socket; an address in TIME_WAIT may be reused.
///
/// # Errors
/// System call errors such as "address in use".
pub fn listen(at: &SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Opens a non-blocking listening Unix socket, whose file has these permission bits, and never more, even while it is
/// created. Replaces a socket left by a killed process, but nothing else at `path`.
///
/// # Errors
/// `AddrInUse` if a process listens there, `AlreadyExists` if the file is not a socket, and system call errors.
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket exists there"));
        }
        // Only a refused connection proves that no process listens; any other error may come from a socket in use.
        match UnixStream::connect(path) {
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode of the socket less the umask: no other user can connect before `set_permissions`.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode & 0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let there = std::fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.into(), device: there.dev(), inode: there.ino() };
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, 128)?;
    Ok((UnixListener::from(socket), file))
}

/// File of a listening Unix socket; removed on drop, unless it was replaced meanwhile.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}
impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = std::fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (self.device, self.inode)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads available bytes into the spare capacity of `buffer`, at most `limit`; 0 means the end.
///
/// # Errors
/// `WouldBlock` if nothing is available.
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

/// Limits the bytes of a TCP socket that wait to be sent (TCP_NOTSENT_LOWAT, tcp(7)); bytes sent and not acknowledged
/// do not count.
///
/// # Errors
/// System call errors, e.g. if the socket is not a TCP connection.
pub fn bound_unsent(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    let (name, size) = (libc::TCP_NOTSENT_LOWAT, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the option is one number of 32 bits, which lives until the call returns.
    crate::check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, (&raw const bytes).cast(), size)
    })?;
    Ok(())
}

/// Bytes written to a connected TCP socket and not sent yet (SIOCOUTQNSD, linux/sockios.h).
///
/// # Errors
/// System call errors, e.g. if the socket is not connected.
pub fn unsent(socket: &TcpStream) -> io::Result<u64> {
    const SIOCOUTQNSD: libc::Ioctl = 0x894B;
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQNSD writes one int.
    crate::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Bytes written to a connected TCP socket that the peer has not acknowledged, sent or not (SIOCOUTQ, tcp(7)).
///
/// # Errors
/// System call errors, e.g. if the socket is not a TCP connection.
pub fn unacknowledged(socket: &TcpStream) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which Linux calls TIOCOUTQ too, writes one int.
    crate::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Segments of a TCP connection that were sent again (TCP_INFO, tcp(7)).
///
/// # Errors
/// System call errors, e.g. if the socket is not a TCP connection.
pub fn retransmitted(socket: &TcpStream) -> io::Result<u64> {
    // SAFETY: tcp_info is plain old data; all zeros is a value of it.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the room and its length are given; the kernel writes at most that much.
    crate::check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    })?;
    Ok(u64::from(info.tcpi_total_retrans))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn connected_stream_disables_nagle() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(connect(&listener.local_addr().unwrap(), None).unwrap().nodelay().unwrap());
    }

    #[test]
    fn unread_bytes_count_as_acknowledged() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(why) => assert_eq!(why.kind(), io::ErrorKind::WouldBlock),
            }
        };
        assert_eq!(unacknowledged(&client).unwrap(), 0);
        client.write_all(&[7; 1000]).unwrap();
        let began = std::time::Instant::now();
        while unacknowledged(&client).unwrap() > 0 {
            assert!(began.elapsed().as_secs() < 10, "the kernel acknowledges what nobody reads");
        }
        client.set_nonblocking(true).unwrap();
        while client.write(&[7; 1 << 16]).is_ok() {}
        assert!(unacknowledged(&client).unwrap() > 0, "its buffers are full");
        drop(server);
    }

    #[test]
    fn unix_socket_replaces_only_stale_sockets() {
        let folder = std::env::temp_dir().join(format!("farlink-os-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        let (listener, file) = listen_unix(&path, 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen_unix(&path, 0o600).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        std::mem::forget(file);
        let (_listener, file) = listen_unix(&path, 0o666).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        drop(file);
        assert!(!path.exists());
        std::fs::write(&path, "dear diary").unwrap();
        assert_eq!(listen_unix(&path, 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn replaced_socket_does_not_unlink_successor() {
        let folder = std::env::temp_dir().join(format!("farlink-os-heir-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        let first = listen_unix(&path, 0o600).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = listen_unix(&path, 0o600).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn read_fills_capacity_and_reports_end() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let client = connect(&listener.local_addr().unwrap(), "127.0.0.7:0".parse().ok().as_ref()).unwrap();
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

//! Blocking AAP2 client, which the command line's applications use.

use bytes::BytesMut;
use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse, AapStatus, BundleAdu, ConnectionConfig, adu_flag};
use farlink_base::EndpointId;
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Connection to a node's application socket.
pub struct Client {
    reader: BufReader<Socket>,
    writer: Socket,
    /// Node ID from the node's welcome message.
    pub node_id: String,
    /// Address of the socket.
    at: String,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}
impl Socket {
    /// Another handle of the same connection.
    fn copy(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
        })
    }
    /// Ends both directions; errors are ignored, since they mean that the other side has already ended.
    fn shutdown(&self) {
        let _ = match self {
            Socket::Unix(socket) => socket.shutdown(std::net::Shutdown::Both),
            Socket::Tcp(socket) => socket.shutdown(std::net::Shutdown::Both),
        };
    }
}
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}
impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(buffer),
            Socket::Tcp(socket) => socket.read(buffer),
        }
    }
}
impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.write(buffer),
            Socket::Tcp(socket) => socket.write(buffer),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Delivered bundle with its whole payload.
#[derive(Clone, Debug)]
pub struct DeliveredBundle {
    /// Message that precedes the payload.
    pub adu: BundleAdu,
    /// Whole payload.
    pub payload: Vec<u8>,
}
impl DeliveredBundle {
    /// Whether the node may have delivered the bundle before it crashed.
    pub fn redelivered(&self) -> bool {
        self.adu.adu_flags.contains(&adu_flag::REDELIVERED)
    }
}

/// Bundle under delivery, whose payload is read as it arrives.
pub struct ArrivingBundle<'a> {
    /// Message that precedes the payload.
    pub adu: BundleAdu,
    bytes: io::Take<&'a mut BufReader<Socket>>,
    lost: Option<io::ErrorKind>,
}
impl ArrivingBundle<'_> {
    /// Error that ended the connection before the last byte, if any.
    pub fn lost(&self) -> Option<io::ErrorKind> {
        self.lost
    }
}
impl Read for ArrivingBundle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = match self.bytes.read(buffer) {
            Ok(0) if self.bytes.limit() > 0 && !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        if let Err(why) = &result {
            self.lost = Some(why.kind());
        }
        result
    }
}

/// Reason for the return of [`Client::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadySource {
    /// The node has sent data, or has closed the connection.
    Node,
    /// The other descriptor is readable.
    Other,
    /// The time is up.
    Nothing,
}

/// Maximum memory allocated for a payload before its bytes arrive.
const AT_ONCE: u64 = 1 << 20;
/// Longest wait for the node's welcome message.
const GREETING: Duration = Duration::from_secs(10);

/// Refuses `host:port` with a port that is out of range.
pub(crate) fn check_port(at: &str) -> io::Result<()> {
    let port = at.rsplit_once(':').filter(|_| !at.contains('/')).map(|(_, port)| port);
    let wrong = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    match wrong.filter(|port| port.parse::<u16>().is_err()) {
        Some(port) => {
            let why = format!("the port {port} is out of range\nhint: ports are 0 to 65535; write ./{at} for a file");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        None => Ok(()),
    }
}

/// Endpoint ID of a service (or demux) at a node; an endpoint ID is returned unchanged.
pub(crate) fn endpoint_of(node_id: &str, service: &str) -> String {
    match node_id.rsplit_once('.') {
        _ if service.starts_with("ipn:") || service.starts_with("dtn:") => service.to_string(),
        Some((node, _)) if node_id.starts_with("ipn:") => format!("{node}.{service}"),
        _ => format!("{}/{service}", node_id.trim_end_matches('/')),
    }
}

/// Kinds of errors of a read that only waited.
const WAITED: [io::ErrorKind; 3] = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut, io::ErrorKind::Interrupted];

/// Puts the end of a connection into words.
fn lost(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            io::Error::new(why.kind(), "the node ended the connection")
        }
        _ => why,
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Error of a name that the user chose.
fn mistaken(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, crate::BadInput(message))
}

impl Client {
    /// Connects to a node's application socket: a path, or `host:port` for TCP.
    ///
    /// # Errors
    /// If nothing listens there, or the peer does not speak AAP2.
    pub fn connect(at: &str) -> io::Result<Client> {
        check_port(at)?;
        let tcp = !at.contains('/') && at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let (read, write) = if tcp {
            let socket = TcpStream::connect(at)?;
            // Nagle's algorithm would delay small requests.
            socket.set_nodelay(true)?;
            (Socket::Tcp(socket.try_clone()?), Socket::Tcp(socket))
        } else {
            let socket = UnixStream::connect(at)?;
            (Socket::Unix(socket.try_clone()?), Socket::Unix(socket))
        };
        let mut client = Client {
            reader: BufReader::with_capacity(256 << 10, read),
            writer: write,
            node_id: String::new(),
            at: at.into(),
        };
        client.set_read_timeout(Some(GREETING))?;
        client.node_id = client.greeting().map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => invalid("it closes the connection without a message"),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => invalid("it sends no message"),
            _ => why,
        })?;
        // The timeout was for the welcome message only.
        client.set_read_timeout(None)?;
        Ok(client)
    }
    /// Reads the magic byte and the welcome message; returns the node ID.
    fn greeting(&mut self) -> io::Result<String> {
        let mut magic = [0];
        self.reader.read_exact(&mut magic)?;
        if magic[0] != proto::MAGIC {
            return Err(invalid("it does not speak AAP2"));
        }
        match self.message()?.body {
            Some(AapBody::Welcome(welcome)) => Ok(welcome.node_id),
            _ => Err(invalid("its first message is not a welcome")),
        }
    }
    /// Endpoint ID of this service (or demux) at the node; returns an endpoint ID unchanged.
    pub fn endpoint(&self, service: &str) -> String {
        endpoint_of(&self.node_id, service)
    }
    /// Registers at an endpoint: as a sender if `window` is 0, else as a subscriber with this window. Connections with
    /// the same `secret` may share the endpoint.
    ///
    /// # Errors
    /// If the node refuses.
    pub fn configure(&mut self, endpoint: &str, secret: &str, window: u32) -> io::Result<()> {
        let config = ConnectionConfig {
            is_subscriber: window > 0,
            auth_type: 0,
            secret: secret.to_string(),
            endpoint_id: endpoint.to_string(),
            keepalive_seconds: 0,
            window,
        };
        self.send_message(&AapMessage::new(AapBody::Config(config)), &[])?;
        let status = self.response()?.response_status();
        match status {
            AapStatus::Success => Ok(()),
            AapStatus::Unauthorized => Err(invalid(format!(
                "{endpoint} is in use by an application with another secret\n\
                 hint: choose another --service; the node itself uses 128, 7 and 2047 unless its file has `[app] echo = \
                 false`"
            ))),
            AapStatus::InvalidRequest if endpoint.parse::<EndpointId>().is_ok_and(|eid| eid.is_node_id()) => {
                let why = "is the node's administrative endpoint, which is not for applications";
                Err(mistaken(format!("{endpoint} {why}\nhint: choose another --service, e.g. 64")))
            }
            AapStatus::InvalidRequest => Err(mistaken(format!(
                "the node refused the endpoint {endpoint}\nhint: --service takes a number at an ipn node, visible ASCII at a dtn node"
            ))),
            AapStatus::NotFound => Err(mistaken(format!(
                "{endpoint} is an endpoint of another node\nhint: register at an endpoint of {}, or of a group: dtn://NAME/~DEMUX",
                self.node_id
            ))),
            other => Err(invalid(format!("the node refused the endpoint {endpoint}: {}", crate::refusal(other)))),
        }
    }
    fn send_message(&mut self, message: &impl Message, payload: &[u8]) -> io::Result<()> {
        let mut out = BytesMut::with_capacity(payload.len() + 256);
        proto::frame(message, &mut out);
        out.extend_from_slice(payload);
        self.writer.write_all(&out)
    }
    /// Sends a bundle without waiting for the response; responses arrive in order ([`Client::response`]).
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn send(&mut self, mut adu: BundleAdu, payload: &[u8]) -> io::Result<()> {
        adu.payload_length = payload.len() as u64;
        let sent = self.send_message(&AapMessage::new(AapBody::Adu(adu)), payload);
        sent.map_err(|why| self.lost_with_bundle(why, payload.len() as u64))
    }
    /// Puts the end of a connection over which a bundle was sent into words: a node that still accepts connections has
    /// refused it.
    fn lost_with_bundle(&self, why: io::Error, length: u64) -> io::Error {
        if !matches!(why.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return why;
        }
        let hint = match Client::connect(&self.at) {
            Ok(_) => {
                "hint: it was started again, or the payload is too long (`bundle_bytes` of [limits]): its log has the reason"
            }
            Err(_) => crate::ENDED,
        };
        let said = format!("the node ended the connection while it received a bundle of {length} B\n{hint}");
        io::Error::new(why.kind(), said)
    }
    /// Sends a bundle whose payload is read while it is sent: `head`, then `rest`, `length` bytes in total. Calls
    /// `told` with the number of bytes sent so far.
    ///
    /// # Errors
    /// If the connection is lost, or `rest` cannot be read or ends early; the connection is then unusable.
    pub fn send_from(
        &mut self,
        mut adu: BundleAdu,
        (head, rest): (&[u8], &mut dyn Read),
        length: u64,
        mut told: impl FnMut(u64),
    ) -> io::Result<()> {
        // The length is sent first, so the file must not shrink meanwhile.
        adu.payload_length = length;
        let lost = |client: &Client, why| client.lost_with_bundle(why, length);
        self.send_message(&AapMessage::new(AapBody::Adu(adu)), head).map_err(|why| lost(self, why))?;
        let (mut sent, mut buffer) = (head.len() as u64, vec![0; 1 << 20]);
        while sent < length {
            let room = buffer.len().min(usize::try_from(length - sent).unwrap_or(usize::MAX));
            match rest.read(&mut buffer[..room])? {
                0 => return Err(invalid("the file became shorter while it was sent")),
                n => {
                    self.writer.write_all(&buffer[..n]).map_err(|why| lost(self, why))?;
                    sent += n as u64;
                    told(sent);
                }
            }
        }
        Ok(())
    }
    /// Waits for the next response.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn response(&mut self) -> io::Result<AapResponse> {
        let bytes = self.frame()?;
        AapResponse::decode(&bytes[..]).map_err(|why| invalid(why.to_string()))
    }
    fn message(&mut self) -> io::Result<AapMessage> {
        let bytes = self.frame()?;
        AapMessage::decode(&bytes[..]).map_err(|why| invalid(why.to_string()))
    }
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        self.frame_as_it_comes().map_err(lost)
    }
    fn frame_as_it_comes(&mut self) -> io::Result<Vec<u8>> {
        let mut length = 0usize;
        // A varint of at most four bytes: 28 bits exceed the longest message.
        for shift in (0..28).step_by(7) {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            length |= usize::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                // The length is the peer's claim: allocate no more than the longest message.
                let mut bytes = vec![0; length.min(proto::MESSAGE_MAX)];
                self.reader.read_exact(&mut bytes)?;
                return Ok(bytes);
            }
        }
        Err(invalid("a message length beyond 64 KiB"))
    }
    /// Waits until data can be read, at most for the timeout set; returns whether it can.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn hears(&mut self) -> io::Result<bool> {
        match self.reader.fill_buf() {
            Ok(_) => Ok(true),
            // A signal ends the wait, so that callers notice their stop flags.
            Err(why) if WAITED.contains(&why.kind()) => Ok(false),
            Err(why) => Err(lost(why)),
        }
    }
    /// Waits for the next delivery, which the caller must answer with [`Client::taken`]. Answers keepalives meanwhile.
    ///
    /// # Errors
    /// If the connection is lost; `WouldBlock` or `TimedOut` after the timeout set.
    pub fn delivery(&mut self) -> io::Result<DeliveredBundle> {
        let mut arriving = self.arriving()?;
        let mut payload = Vec::with_capacity(arriving.adu.payload_length.min(AT_ONCE) as usize);
        arriving.read_to_end(&mut payload)?;
        Ok(DeliveredBundle { adu: arriving.adu, payload })
    }
    /// Waits for the next delivery and returns it before its payload has arrived; the caller must read the whole
    /// payload.
    ///
    /// # Errors
    /// As for [`Client::delivery`].
    pub fn arriving(&mut self) -> io::Result<ArrivingBundle<'_>> {
        loop {
            match self.message()?.body {
                Some(AapBody::Adu(adu)) => {
                    let bytes = (&mut self.reader).take(adu.payload_length);
                    return Ok(ArrivingBundle { adu, bytes, lost: None });
                }
                Some(AapBody::Keepalive(_)) => self.send_message(&AapResponse::new(AapStatus::Ack), &[])?,
                _ => return Err(invalid("an unexpected message from the node")),
            }
        }
    }
    /// Accepts or refuses the oldest unanswered delivery.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn taken(&mut self, taken: bool) -> io::Result<()> {
        let status = if taken { AapStatus::Success } else { AapStatus::Error };
        self.send_message(&AapResponse::new(status), &[])
    }
    /// Accepts the oldest `deliveries` unanswered deliveries with one write.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn taken_all(&mut self, deliveries: usize) -> io::Result<()> {
        let (mut out, yes) = (BytesMut::new(), AapResponse::new(AapStatus::Success));
        (0..deliveries).for_each(|_| proto::frame(&yes, &mut out));
        self.writer.write_all(&out)
    }
    /// Waits until data can be read, at most for `time`, regardless of the timeout set; returns whether it can.
    ///
    /// # Errors
    /// System call errors.
    pub fn hears_within(&self, time: Duration) -> io::Result<bool> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let time = Timespec::try_from(time).ok();
        match poll(&mut [PollFd::new(&self.writer, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            // A signal ends the wait, so that callers notice their stop flags.
            Err(Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
    /// Waits until data arrives from the node, `other` is readable, or the time is up (`None` for no limit). If both
    /// are ready, returns [`ReadySource::Other`].
    ///
    /// # Errors
    /// System call errors.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, time: Option<Duration>) -> io::Result<ReadySource> {
        // Buffered bytes are invisible to `poll`.
        let here = !self.reader.buffer().is_empty();
        let time = if here { Some(Duration::ZERO) } else { time };
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut asked = vec![PollFd::new(&self.writer, PollFlags::IN)];
        asked.extend(other.iter().map(|other| PollFd::new(other, PollFlags::IN)));
        loop {
            match poll(&mut asked, time.as_ref()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        let heard = |at: usize| asked.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok(match (heard(1), here || heard(0)) {
            (true, _) => ReadySource::Other,
            (_, true) => ReadySource::Node,
            _ => ReadySource::Nothing,
        })
    }
    /// Limits the time for which reads wait. Use it only between messages: a timeout within a message loses its
    /// beginning.
    ///
    /// # Errors
    /// System call errors.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.writer {
            Socket::Unix(socket) => socket.set_read_timeout(timeout),
            Socket::Tcp(socket) => socket.set_read_timeout(timeout),
        }
    }
    /// Limits the time for which writes wait. A timeout may leave a message incomplete: the connection is then
    /// unusable.
    ///
    /// # Errors
    /// System call errors.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.writer {
            Socket::Unix(socket) => socket.set_write_timeout(timeout),
            Socket::Tcp(socket) => socket.set_write_timeout(timeout),
        }
    }
    /// Closes the connection; a read in another thread returns.
    pub fn shutdown(&self) {
        self.writer.shutdown();
    }
    /// Handle that can end the connection from another thread.
    ///
    /// # Errors
    /// System call errors.
    pub(crate) fn ender(&self) -> io::Result<ClientSender> {
        Ok(ClientSender { writer: self.writer.copy()? })
    }
    /// Splits the client, so that one thread can send while another reads responses.
    ///
    /// # Errors
    /// System call errors.
    pub fn split(self) -> io::Result<(ClientSender, Client)> {
        Ok((ClientSender { writer: self.writer.copy()? }, self))
    }
}

/// Sending half of a split client.
pub struct ClientSender {
    writer: Socket,
}
impl ClientSender {
    /// Sends a bundle; the other half receives the responses, in order.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn send(&mut self, mut adu: BundleAdu, payload: &[u8]) -> io::Result<()> {
        adu.payload_length = payload.len() as u64;
        let mut out = BytesMut::with_capacity(payload.len() + 256);
        proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
        out.extend_from_slice(payload);
        self.writer.write_all(&out)
    }
    /// Ends the connection; a blocked call of the other half returns.
    pub fn shutdown(&self) {
        self.writer.shutdown();
    }
}

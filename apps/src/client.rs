//! A blocking AAP2 client: what the applications of the command line attach with.

use bytes::BytesMut;
use farlink_aap2::proto::{self, AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, Status, adu_flag};
use farlink_base::EndpointId;
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection to a node.
pub struct Client {
    reader: BufReader<Socket>,
    writer: Socket,
    /// The node's ID as it introduced itself.
    pub node_id: String,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}
impl Socket {
    /// Ends both directions; an error means that the other side was first.
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

/// A bundle that was delivered.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Its head.
    pub adu: BundleAdu,
    /// Its payload.
    pub payload: Vec<u8>,
}
impl Delivered {
    /// Whether it may have been delivered before a crash of the node.
    pub fn redelivered(&self) -> bool {
        self.adu.adu_flags.contains(&adu_flag::REDELIVERED)
    }
}

/// A bundle that is being delivered: its bytes are read as they come.
pub struct Arriving<'a> {
    /// Its head.
    pub adu: BundleAdu,
    bytes: io::Take<&'a mut BufReader<Socket>>,
    lost: Option<io::ErrorKind>,
}
impl Arriving<'_> {
    /// Why the connection ended before the last byte came, if it did.
    pub fn lost(&self) -> Option<io::ErrorKind> {
        self.lost
    }
}
impl Read for Arriving<'_> {
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

/// What [`Client::wait`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something comes from the node.
    Node,
    /// The other can be read.
    Other,
    /// Nothing, for all of the time.
    Nothing,
}

/// Memory made for a payload before its bytes come, at most.
const AT_ONCE: u64 = 1 << 20;
/// How long a node may take to introduce itself.
const GREETING: Duration = Duration::from_secs(10);

/// Refuses what looks like `host:port`, but for a port that is none.
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

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Client {
    /// Connects to a node's application socket: a path, or `host:port` for TCP.
    ///
    /// # Errors
    /// When nothing serves there, or not AAP2.
    pub fn connect(at: &str) -> io::Result<Client> {
        check_port(at)?;
        let tcp = !at.contains('/') && at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let (read, write) = if tcp {
            let socket = TcpStream::connect(at)?;
            socket.set_nodelay(true)?;
            (Socket::Tcp(socket.try_clone()?), Socket::Tcp(socket))
        } else {
            let socket = UnixStream::connect(at)?;
            (Socket::Unix(socket.try_clone()?), Socket::Unix(socket))
        };
        let mut client =
            Client { reader: BufReader::with_capacity(256 << 10, read), writer: write, node_id: String::new() };
        client.set_read_timeout(Some(GREETING))?;
        client.node_id = client.greeting().map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => invalid("it ends the connection without a word"),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => invalid("it says nothing"),
            _ => why,
        })?;
        client.set_read_timeout(None)?;
        Ok(client)
    }
    /// How the node introduces itself.
    fn greeting(&mut self) -> io::Result<String> {
        let mut magic = [0];
        self.reader.read_exact(&mut magic)?;
        if magic[0] != proto::MAGIC {
            return Err(invalid("it does not speak AAP2"));
        }
        match self.message()?.body {
            Some(Body::Welcome(welcome)) => Ok(welcome.node_id),
            _ => Err(invalid("it does not introduce itself as a node")),
        }
    }
    /// The endpoint with this service (or demux) at the node; an endpoint ID is what it is.
    pub fn endpoint(&self, service: &str) -> String {
        match self.node_id.rsplit_once('.') {
            _ if service.starts_with("ipn:") || service.starts_with("dtn:") => service.to_string(),
            Some((node, _)) if self.node_id.starts_with("ipn:") => format!("{node}.{service}"),
            _ => format!("{}/{service}", self.node_id.trim_end_matches('/')),
        }
    }
    /// Becomes a sender (`window` 0) or a subscriber at an endpoint.
    ///
    /// # Errors
    /// When the node does not agree.
    pub fn configure(&mut self, endpoint: &str, secret: &str, window: u32) -> io::Result<()> {
        let config = ConnectionConfig {
            is_subscriber: window > 0,
            auth_type: 0,
            secret: secret.to_string(),
            endpoint_id: endpoint.to_string(),
            keepalive_seconds: 0,
            window,
        };
        self.send_message(&AapMessage::new(Body::Config(config)), &[])?;
        let status = self.response()?.response_status();
        match status {
            Status::Success => Ok(()),
            Status::Unauthorized => Err(invalid(format!(
                "{endpoint} is used by another application with another secret\n\
                 hint: choose another --service; 128, 7 and 2047 are the node's own unless its file says `[app] echo = \
                 false`"
            ))),
            Status::InvalidRequest if endpoint.parse::<EndpointId>().is_ok_and(|eid| eid.is_node_id()) => {
                let why = "is the node's administrative endpoint, which is not for applications";
                Err(invalid(format!("{endpoint} {why}\nhint: choose another --service, e.g. 64")))
            }
            Status::InvalidRequest => Err(invalid(format!(
                "the node refused the endpoint {endpoint}\nhint: --service takes a number at an ipn node, visible ASCII at a dtn node"
            ))),
            Status::NotFound => Err(invalid(format!(
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
    /// Sends a bundle without waiting for the answer; answers come in order ([`Client::response`]).
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, mut adu: BundleAdu, payload: &[u8]) -> io::Result<()> {
        adu.payload_length = payload.len() as u64;
        self.send_message(&AapMessage::new(Body::Adu(adu)), payload)
    }
    /// The same for a payload that is read as it is sent: `head`, then all that `rest` has, `length` bytes together.
    /// `told` hears how many are sent.
    ///
    /// # Errors
    /// When the connection is gone, or `rest` cannot be read or ends early; then it is of no use any more.
    pub fn send_from(
        &mut self,
        mut adu: BundleAdu,
        (head, rest): (&[u8], &mut dyn Read),
        length: u64,
        mut told: impl FnMut(u64),
    ) -> io::Result<()> {
        adu.payload_length = length;
        self.send_message(&AapMessage::new(Body::Adu(adu)), head)?;
        let (mut sent, mut buffer) = (head.len() as u64, vec![0; 1 << 20]);
        while sent < length {
            let room = buffer.len().min(usize::try_from(length - sent).unwrap_or(usize::MAX));
            match rest.read(&mut buffer[..room])? {
                0 => return Err(invalid("it became shorter while it was sent")),
                n => {
                    self.writer.write_all(&buffer[..n])?;
                    sent += n as u64;
                    told(sent);
                }
            }
        }
        Ok(())
    }
    /// The next answer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn response(&mut self) -> io::Result<AapResponse> {
        let bytes = self.frame()?;
        AapResponse::decode(&bytes[..]).map_err(|why| invalid(why.to_string()))
    }
    fn message(&mut self) -> io::Result<AapMessage> {
        let bytes = self.frame()?;
        AapMessage::decode(&bytes[..]).map_err(|why| invalid(why.to_string()))
    }
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = 0usize;
        for shift in (0..28).step_by(7) {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            length |= usize::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                let mut bytes = vec![0; length.min(proto::MESSAGE_MAX)];
                self.reader.read_exact(&mut bytes)?;
                return Ok(bytes);
            }
        }
        Err(invalid("a message length beyond 64 KiB"))
    }
    /// Whether something comes before a timeout set passes; then it can be read.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn hears(&mut self) -> io::Result<bool> {
        match self.reader.fill_buf() {
            Ok(_) => Ok(true),
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(false),
            Err(why) => Err(why),
        }
    }
    /// The next delivery; keepalives are answered on the way. Answer it with [`Client::taken`].
    ///
    /// # Errors
    /// When the connection is gone; `WouldBlock` or `TimedOut` when a timeout set before passed.
    pub fn delivery(&mut self) -> io::Result<Delivered> {
        let mut arriving = self.arriving()?;
        let mut payload = Vec::with_capacity(arriving.adu.payload_length.min(AT_ONCE) as usize);
        arriving.read_to_end(&mut payload)?;
        Ok(Delivered { adu: arriving.adu, payload })
    }
    /// The same, whose bytes are read as they come. All of them must be.
    ///
    /// # Errors
    /// As of [`Client::delivery`].
    pub fn arriving(&mut self) -> io::Result<Arriving<'_>> {
        loop {
            match self.message()?.body {
                Some(Body::Adu(adu)) => {
                    let bytes = (&mut self.reader).take(adu.payload_length);
                    return Ok(Arriving { adu, bytes, lost: None });
                }
                Some(Body::Keepalive(_)) => self.send_message(&AapResponse::new(Status::Ack), &[])?,
                _ => return Err(invalid("an unexpected message from the node")),
            }
        }
    }
    /// Tells the node that the oldest unanswered delivery is taken for good (or not).
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn taken(&mut self, taken: bool) -> io::Result<()> {
        let status = if taken { Status::Success } else { Status::Error };
        self.send_message(&AapResponse::new(status), &[])
    }
    /// Tells it that the oldest so many unanswered deliveries are taken for good: one answer each, written at once.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn taken_all(&mut self, deliveries: usize) -> io::Result<()> {
        let (mut out, yes) = (BytesMut::new(), AapResponse::new(Status::Success));
        (0..deliveries).for_each(|_| proto::frame(&yes, &mut out));
        self.writer.write_all(&out)
    }
    /// Whether something is here, or comes within this time, whatever timeout is set.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn hears_within(&self, time: Duration) -> io::Result<bool> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let time = Timespec::try_from(time).ok();
        match poll(&mut [PollFd::new(&self.writer, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
    /// Waits until something comes from the node, or `other` can be read, or for this time.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, time: Option<Duration>) -> io::Result<Heard> {
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
            (true, _) => Heard::Other,
            (_, true) => Heard::Node,
            _ => Heard::Nothing,
        })
    }
    /// Bounds how long reads wait. Only safe between messages that arrive whole.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.writer {
            Socket::Unix(socket) => socket.set_read_timeout(timeout),
            Socket::Tcp(socket) => socket.set_read_timeout(timeout),
        }
    }
    /// Bounds how long writes wait while nothing is taken. What was written by then is half said: the connection is of no
    /// use any more.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.writer {
            Socket::Unix(socket) => socket.set_write_timeout(timeout),
            Socket::Tcp(socket) => socket.set_write_timeout(timeout),
        }
    }
    /// Ends the connection: a reader in another thread returns.
    pub fn shutdown(&self) {
        self.writer.shutdown();
    }
    /// A second handle: one thread sends, another reads answers.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn split(self) -> io::Result<(Sender, Client)> {
        let writer = match &self.writer {
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
        };
        Ok((Sender { writer }, self))
    }
}

/// The sending half of a split client.
pub struct Sender {
    writer: Socket,
}
impl Sender {
    /// Sends a bundle; the answer comes at the other half, in order.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, mut adu: BundleAdu, payload: &[u8]) -> io::Result<()> {
        adu.payload_length = payload.len() as u64;
        let mut out = BytesMut::with_capacity(payload.len() + 256);
        proto::frame(&AapMessage::new(Body::Adu(adu)), &mut out);
        out.extend_from_slice(payload);
        self.writer.write_all(&out)
    }
    /// Ends the connection: the other half returns from what it waits for.
    pub fn shutdown(&self) {
        self.writer.shutdown();
    }
}

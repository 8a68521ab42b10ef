//! Client of WebSockets (RFC 6455), as much as the interface of dtn7-rs needs: whole messages, pings answered.

use super::MESSAGE_MAX;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest head of the server's answer, bytes.
const HEAD_MAX: usize = 16 << 10;
/// Longest wait for the server's answer.
const GREETING: Duration = Duration::from_secs(10);
/// String that the server appends to the client's key to compute `Sec-WebSocket-Accept` (RFC 6455 section 1.3).
const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whole message from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum WebMessage {
    /// UTF-8 text.
    Text(String),
    /// Arbitrary bytes.
    Binary(Vec<u8>),
}

/// Sending half; the other half answers pings through it.
#[derive(Clone)]
pub struct WebSocketWriter(Arc<Mutex<TcpStream>>);

/// Receiving half.
pub struct WebSocketReader {
    stream: BufReader<TcpStream>,
    writer: WebSocketWriter,
}

/// Connects to the WebSocket at a path of a server.
///
/// # Errors
/// If nothing listens there, or it is no WebSocket.
pub fn connect(host: &str, path: &str) -> Result<(WebSocketWriter, WebSocketReader)> {
    let socket = TcpStream::connect(host).with_context(|| format!("nothing answers at {host}"))?;
    // Small messages must not wait for acknowledgments.
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(GREETING))?;
    let random = [crate::random(), crate::random()].map(u64::to_ne_bytes);
    let key = base64(random.as_flattened());
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    (&socket).write_all(request.as_bytes())?;
    let mut stream = BufReader::new(socket.try_clone()?);
    let head = head(&mut stream).with_context(|| format!("no WebSocket at {host}{path}"))?;
    ensure!(head.starts_with("HTTP/1.1 101 "), "no WebSocket at {host}{path}: {}", head.lines().next().unwrap_or(""));
    let proof = ring::digest::digest(
        &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
        [key.as_bytes(), PROOF.as_bytes()].concat().as_slice(),
    );
    let proven = head.lines().filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("sec-websocket-accept") && value.trim() == base64(proof.as_ref())
    });
    ensure!(proven, "{host} is no WebSocket server: its proof is wrong");
    // The timeout was for the greeting only.
    socket.set_read_timeout(None)?;
    let writer = WebSocketWriter(Arc::new(Mutex::new(socket)));
    Ok((writer.clone(), WebSocketReader { stream, writer }))
}

fn head(stream: &mut impl Read) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_MAX, "its answer is too long");
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Flag of the last fragment of a message.
const FINAL: u8 = 0x80;

impl WebSocketWriter {
    /// Sends a text.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn text(&self, text: &str) -> Result<()> {
        self.frame(TEXT, text.as_bytes())
    }
    /// Sends bytes.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn binary(&self, bytes: &[u8]) -> Result<()> {
        self.frame(BINARY, bytes)
    }
    fn frame(&self, kind: u8, bytes: &[u8]) -> Result<()> {
        let mut out = Vec::with_capacity(bytes.len() + 14);
        // Clients mask their frames (RFC 6455 section 5.3).
        out.push(FINAL | kind);
        match bytes.len() {
            short @ 0..126 => out.push(0x80 | short as u8),
            middle @ 126..0x1_0000 => out.extend([&[0x80 | 126][..], &(middle as u16).to_be_bytes()].concat()),
            long => out.extend([&[0x80 | 127][..], &(long as u64).to_be_bytes()].concat()),
        }
        let mask = (crate::random() as u32).to_ne_bytes();
        out.extend(mask);
        out.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        socket.write_all(&out).context("the WebSocket is closed")
    }
    /// Ends the connection; the reader returns.
    pub fn shutdown(&self) {
        // An error means that the server closed the connection first.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).shutdown(std::net::Shutdown::Both);
    }
}

impl WebSocketReader {
    /// Waits for the next message; answers pings meanwhile.
    ///
    /// # Errors
    /// If the connection is lost or closed, or a message is too long.
    pub fn message(&mut self) -> Result<WebMessage> {
        let (mut kind, mut message) = (0, Vec::new());
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).context("the WebSocket is closed")?;
            let [first, second] = head;
            // Servers do not mask.
            ensure!(first & 0x70 == 0 && second & 0x80 == 0, "the WebSocket server sends frames that make no sense");
            let (code, last) = (first & 0x0f, first & FINAL != 0);
            let length = match second {
                126 => self.number::<2>()?,
                127 => self.number::<8>()?,
                short => short.into(),
            };
            ensure!(
                length <= MESSAGE_MAX - message.len() as u64,
                "a WebSocket message of more than {MESSAGE_MAX} bytes"
            );
            let mut bytes = Vec::new();
            // Grows with the bytes that arrive, whatever the length claims.
            (&mut self.stream).take(length).read_to_end(&mut bytes)?;
            ensure!(bytes.len() as u64 == length, "the WebSocket is closed within a message");
            match code {
                PING => self.writer.frame(PONG, &bytes)?,
                PONG => {}
                CLOSE => bail!("the WebSocket server closed the connection"),
                TEXT | BINARY if kind == 0 => (kind, message) = (code, bytes),
                0 if kind != 0 => message.extend(bytes),
                _ => bail!("the WebSocket server sends frames that make no sense"),
            }
            if last && code < CLOSE {
                return match kind {
                    TEXT => Ok(WebMessage::Text(String::from_utf8(message).context("a text that is not UTF-8")?)),
                    _ => Ok(WebMessage::Binary(message)),
                };
            }
        }
    }
    fn number<const N: usize>(&mut self) -> Result<u64> {
        let mut digits = [0; N];
        self.stream.read_exact(&mut digits)?;
        Ok(digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let word = three.iter().enumerate().fold(0, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        let letter = |at: usize| char::from(LETTERS[(word >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at <= three.len() { letter(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Accepts one WebSocket: reads the request, answers, and returns the stream.
    pub fn accept(listener: &TcpListener) -> TcpStream {
        let (mut socket, _) = listener.accept().unwrap();
        let request = head(&mut socket).unwrap();
        let key = request.split("Sec-WebSocket-Key: ").nth(1).unwrap().lines().next().unwrap();
        let proof = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{PROOF}").as_bytes());
        let accept = base64(proof.as_ref());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
        );
        socket.write_all(answer.as_bytes()).unwrap();
        socket
    }

    /// Reads a frame of a client: its kind and the bytes, unmasked.
    pub fn client_frame(socket: &mut impl Read) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        socket.read_exact(&mut head).ok()?;
        let digits = match head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = vec![0; digits];
        socket.read_exact(&mut length).ok()?;
        let number = length.iter().fold(0, |number, digit| number << 8 | usize::from(*digit));
        let mut mask = [0; 4];
        socket.read_exact(&mut mask).ok()?;
        let mut bytes = vec![0; if digits == 0 { usize::from(head[1] & 0x7f) } else { number }];
        socket.read_exact(&mut bytes).ok()?;
        bytes.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Some((head[0] & 0x0f, bytes))
    }

    /// Encodes a frame of a server.
    pub fn server_frame(first: u8, bytes: &[u8]) -> Vec<u8> {
        let head = match bytes.len() {
            short @ 0..126 => vec![first, short as u8],
            middle @ 126..0x1_0000 => [&[first, 126][..], &(middle as u16).to_be_bytes()].concat(),
            long => [&[first, 127][..], &(long as u64).to_be_bytes()].concat(),
        };
        [&head, bytes].concat()
    }

    /// Client of a server that sends these bytes, and the server's stream.
    fn client_of(bytes: Vec<u8>) -> (WebSocketWriter, WebSocketReader, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut socket = accept(&listener);
            socket.write_all(&bytes).unwrap();
            socket
        });
        let (writer, reader) = connect(&host, "/ws").unwrap();
        (writer, reader, server.join().unwrap())
    }

    #[test]
    fn messages_of_all_lengths_pass() {
        let lengths = [0, 125, 126, 70_000];
        let sent = lengths.map(|length| server_frame(FINAL | BINARY, &vec![7; length])).concat();
        let (writer, mut reader, mut server) = client_of(sent);
        for length in lengths {
            assert_eq!(reader.message().unwrap(), WebMessage::Binary(vec![7; length]));
            writer.binary(&vec![8; length]).unwrap();
            assert_eq!(client_frame(&mut server), Some((BINARY, vec![8; length])));
        }
        writer.text("/node").unwrap();
        assert_eq!(client_frame(&mut server), Some((TEXT, b"/node".to_vec())));
    }

    #[test]
    fn pings_are_answered_between_fragments() {
        let frames = [
            server_frame(TEXT, b"one "),
            server_frame(FINAL | PING, b"dtn7"),
            server_frame(0, b"message"),
            server_frame(FINAL, b""),
            server_frame(FINAL | CLOSE, b""),
        ];
        let (_writer, mut reader, mut server) = client_of(frames.concat());
        assert_eq!(reader.message().unwrap(), WebMessage::Text("one message".into()));
        assert_eq!(client_frame(&mut server), Some((PONG, b"dtn7".to_vec())));
        assert!(reader.message().unwrap_err().to_string().contains("closed"));
    }

    #[test]
    fn random_frames_never_panic() {
        let mut random = farlink_base::Rng::new(11);
        let claim = [&[FINAL | BINARY, 127][..], &[0xff; 8], b"few"].concat();
        let mut noises = vec![claim, vec![0x82, 126, 255], vec![0xf2, 0]];
        noises.extend((0..50).map(|_| (0..random.below(100)).map(|_| random.next_u64() as u8).collect()));
        for noise in noises {
            let (_writer, mut reader, server) = client_of(noise);
            server.shutdown(std::net::Shutdown::Both).unwrap();
            while reader.message().is_ok() {}
        }
    }

    #[test]
    fn other_servers_are_refused() {
        let answers =
            ["HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 101 x\r\nsec-websocket-accept: x\r\n\r\n", "SSH-2.0\r\n"];
        for answer in answers {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let host = listener.local_addr().unwrap().to_string();
            let server = std::thread::spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                head(&mut socket).unwrap();
                socket.write_all(answer.as_bytes()).unwrap();
            });
            let why = format!("{:#}", connect(&host, "/ws").err().unwrap());
            assert!(why.contains("no WebSocket"), "{why}");
            server.join().unwrap();
        }
    }

    #[test]
    fn base64_matches_the_standard() {
        // Vectors of RFC 4648 section 10.
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}

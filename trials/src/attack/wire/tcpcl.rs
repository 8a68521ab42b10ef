//! TCPCLv4 sessions (RFC 9174), as far as a hostile neighbour needs them.

use super::{PATIENCE, connect, exactly, push, skip};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

/// Contact header: version 4, no TLS (RFC 9174 section 4.2).
pub const CONTACT: &[u8] = b"dtn!\x04\x00";
/// Flag of a transfer's first segment.
pub const START: u8 = 2;
/// Flag of a transfer's last segment.
pub const END: u8 = 1;

/// A SESS_INIT without keepalives (RFC 9174 section 4.6).
pub fn sess_init(node_id: &str) -> Vec<u8> {
    let mut out = vec![7, 0, 0];
    // Segments up to 1 MiB, transfers up to 4 GiB.
    out.extend((1u64 << 20).to_be_bytes());
    out.extend((1u64 << 32).to_be_bytes());
    out.extend((node_id.len() as u16).to_be_bytes());
    out.extend(node_id.as_bytes());
    out.extend([0; 4]);
    out
}

/// Header of an XFER_SEGMENT whose `length` bytes follow; `total` becomes a Transfer Length item (RFC 9174 sections
/// 5.2.2 and 5.2.5.1).
pub fn segment_head(flags: u8, transfer: u64, total: Option<u64>, length: u64) -> Vec<u8> {
    let mut out = vec![1, flags];
    out.extend(transfer.to_be_bytes());
    if flags & START != 0 {
        match total {
            Some(total) => {
                out.extend(13u32.to_be_bytes());
                // One critical item of type 1 with eight bytes.
                out.extend([1, 0, 1, 0, 8]);
                out.extend(total.to_be_bytes());
            }
            None => out.extend([0; 4]),
        }
    }
    out.extend(length.to_be_bytes());
    out
}

/// A bundle in a single segment.
pub fn transfer(id: u64, bundle: &[u8]) -> Vec<u8> {
    let mut out = segment_head(START | END, id, None, bundle.len() as u64);
    out.extend(bundle);
    out
}

/// A message from the node, reduced to segments.
pub enum Message {
    /// A segment: flags, transfer, and data bytes.
    Segment(u8, u64, u64),
    /// Any other message.
    Other,
}

/// A session with the node.
pub struct Session {
    stream: TcpStream,
}

impl Session {
    /// Connects from an address, sends SESS_INIT and waits for the node's.
    ///
    /// # Errors
    /// When the node refuses the session, or does not answer in time.
    pub fn open(from: Ipv4Addr, to: SocketAddr, node_id: &str) -> io::Result<Session> {
        let mut stream = connect(from, to)?;
        stream.write_all(&[CONTACT, &sess_init(node_id)].concat())?;
        let mut header = [0; 6];
        stream.read_exact(&mut header)?;
        let mut session = Session { stream };
        match session.message()? {
            Some(_) => Ok(session),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }
    /// Answers a connection of the node under the name `node_id`.
    ///
    /// # Errors
    /// When the connection ended, or the node's SESS_INIT does not arrive in time.
    pub fn answer(stream: TcpStream, node_id: &str) -> io::Result<Session> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Session { stream };
        exactly(&mut session.stream, &mut [0; 6])?;
        session.stream.write_all(&[CONTACT, &sess_init(node_id)].concat())?;
        session.message()?.ok_or(io::ErrorKind::TimedOut)?;
        Ok(session)
    }
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
    /// Sends bytes, reading and discarding input meanwhile. Returns whether the session is still open and took
    /// everything.
    pub fn push(&mut self, bytes: &[u8], deadline: Instant) -> bool {
        push(&self.stream, bytes, deadline)
    }
    /// Acknowledges `bytes` bytes of a transfer.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn acknowledge(&mut self, flags: u8, transfer: u64, bytes: u64) -> io::Result<()> {
        let mut out = vec![2, flags];
        out.extend(transfer.to_be_bytes());
        out.extend(bytes.to_be_bytes());
        self.stream.write_all(&out)
    }
    /// The next message; `None` if none begins within [`PATIENCE`].
    ///
    /// # Errors
    /// When the session has ended, or a message stops in the middle.
    pub fn message(&mut self) -> io::Result<Option<Message>> {
        let mut kind = [0];
        match self.stream.read(&mut kind) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
            Err(why) => return Err(why),
        }
        match kind[0] {
            // Lengths of the other messages: RFC 9174 sections 4.6, 5.1.1, 5.1.2, 5.2.3, 5.2.4 and 6.1.
            1 => return self.segment().map(Some),
            2 => skip(&mut self.stream, 17)?,
            3 => skip(&mut self.stream, 9)?,
            4 => {}
            5 | 6 => skip(&mut self.stream, 2)?,
            7 => {
                skip(&mut self.stream, 18)?;
                let id = self.number(2)?;
                skip(&mut self.stream, id)?;
                let items = self.number(4)?;
                skip(&mut self.stream, items)?;
            }
            other => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("message {other}"))),
        }
        Ok(Some(Message::Other))
    }
    fn segment(&mut self) -> io::Result<Message> {
        let flags = self.number(1)? as u8;
        let transfer = self.number(8)?;
        if flags & START != 0 {
            let items = self.number(4)?;
            skip(&mut self.stream, items)?;
        }
        let length = self.number(8)?;
        skip(&mut self.stream, length)?;
        Ok(Message::Segment(flags, transfer, length))
    }
    fn number(&mut self, bytes: usize) -> io::Result<u64> {
        let mut buffer = [0; 8];
        exactly(&mut self.stream, &mut buffer[8 - bytes..])?;
        Ok(u64::from_be_bytes(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_rfc_9174() {
        let init = sess_init("ipn:1.0");
        assert_eq!((init[0], init.len()), (7, 1 + 2 + 8 + 8 + 2 + 7 + 4));
        assert_eq!(transfer(5, b"ab").len(), 2 + 8 + 4 + 8 + 2);
        assert_eq!(segment_head(START, 0, Some(9), 0).len(), 2 + 8 + 4 + 13 + 8);
        assert_eq!(segment_head(0, 0, None, 0).len(), 2 + 8 + 8);
    }
}

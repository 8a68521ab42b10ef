//! TCPCLv3 (RFC 7242), as far as a hostile neighbour needs it.

use super::ltp::put_sdnv;
use super::{connect, exactly, push, skip};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

/// Flag of a bundle's first segment.
pub const START: u8 = 2;
/// Flag of a bundle's last segment.
pub const END: u8 = 1;
/// KEEPALIVE (RFC 7242 section 5.6).
pub const KEEPALIVE: u8 = 0x40;
/// REFUSE_BUNDLE with reason 2: resources exhausted.
pub const REFUSE: u8 = 0x32;
/// Contact header flags: acknowledgments, reactive fragmentation, refusals and LENGTH (RFC 7242 section 4.1).
const FLAGS: u8 = 1 | 2 | 4 | 8;

/// Contact header without keepalives (RFC 7242 section 4.1).
pub fn contact(node_id: &str) -> Vec<u8> {
    let mut out = b"dtn!\x03".to_vec();
    out.extend([FLAGS, 0, 0]);
    put_sdnv(&mut out, node_id.len() as u64);
    out.extend(node_id.bytes());
    out
}
/// Header of a DATA_SEGMENT whose `length` bytes follow (RFC 7242 section 5.2).
pub fn segment_head(flags: u8, length: u64) -> Vec<u8> {
    with(0x10 | flags, length)
}
/// An ACK_SEGMENT (RFC 7242 section 5.3).
pub fn ack(bytes: u64) -> Vec<u8> {
    with(0x20, bytes)
}
/// A LENGTH (RFC 7242 section 5.5).
pub fn length(bytes: u64) -> Vec<u8> {
    with(0x60, bytes)
}
fn with(kind: u8, value: u64) -> Vec<u8> {
    let mut out = vec![kind];
    put_sdnv(&mut out, value);
    out
}

/// A session with the node.
pub struct Session {
    stream: TcpStream,
}
impl Session {
    /// Connects from an address, sends a contact header and waits for the node's.
    ///
    /// # Errors
    /// When the node refuses the session, or does not answer in time.
    pub fn open(from: Ipv4Addr, to: SocketAddr, node_id: &str) -> io::Result<Session> {
        let mut stream = connect(from, to)?;
        stream.write_all(&contact(node_id))?;
        let mut session = Session { stream };
        let mut header = [0; 8];
        exactly(&mut session.stream, &mut header)?;
        let name = session.number()?;
        skip(&mut session.stream, name)?;
        Ok(session)
    }
    /// Sends bytes, reading and discarding input meanwhile. Returns whether the session is still open and took
    /// everything.
    pub fn push(&mut self, bytes: &[u8], deadline: Instant) -> bool {
        push(&self.stream, bytes, deadline)
    }
    /// The next segment: flags and data bytes; `None` after another message, or if nothing begins within [`PATIENCE`].
    ///
    /// # Errors
    /// When the session has ended, or a message stops in the middle.
    pub fn segment(&mut self) -> io::Result<Option<(u8, u64)>> {
        let mut kind = [0];
        match self.stream.read(&mut kind) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
            Err(why) => return Err(why),
        }
        match kind[0] >> 4 {
            1 => {
                let bytes = self.number()?;
                skip(&mut self.stream, bytes)?;
                return Ok(Some((kind[0] & 3, bytes)));
            }
            // ACK_SEGMENT and LENGTH carry one SDNV; REFUSE_BUNDLE and KEEPALIVE carry nothing.
            2 | 6 => {
                self.number()?;
            }
            3 | 4 => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(None)
    }
    /// Acknowledges `bytes` bytes of the arriving bundle.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn acknowledge(&mut self, bytes: u64) -> io::Result<()> {
        self.stream.write_all(&ack(bytes))
    }
    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0u64;
        loop {
            let mut byte = [0];
            exactly(&mut self.stream, &mut byte)?;
            value = value << 7 | u64::from(byte[0] & 0x7f);
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_rfc_7242() {
        assert_eq!(contact("a"), [&b"dtn!"[..], &[3, 15, 0, 0, 1, b'a']].concat());
        assert_eq!(segment_head(START | END, 300), [0x13, 0x82, 0x2c]);
        assert_eq!((ack(5), length(5)), (vec![0x20, 5], vec![0x60, 5]));
    }
}

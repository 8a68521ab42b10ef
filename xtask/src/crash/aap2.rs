//! A small AAP2 client, written from the protocol's schema and not with the node's own code: the
//! node must keep its promises to a stranger.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// First byte of every AAP2 connection.
const MAGIC: u8 = 0x2f;
const SUCCESS: u64 = 1;
/// Flag of a delivery that may have been made before a crash (ours, above the protocol's own).
const REDELIVERED: u64 = 1000;

/// A connection to a node.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

/// A delivered bundle.
pub struct Delivered {
    pub payload: Vec<u8>,
    /// It may have been delivered before the node crashed.
    pub redelivered: bool,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Client {
    /// Attaches at `endpoint`: as a subscriber that has one delivery in flight, or as a sender.
    pub fn attach(socket: &Path, endpoint: &str, subscriber: bool) -> io::Result<Client> {
        Client::attach_with(socket, endpoint, "crash", subscriber.into())
    }
    /// Attaches at `endpoint` with a secret: as a subscriber that has up to `window` deliveries in flight,
    /// or, with a window of 0, as a sender.
    pub fn attach_with(socket: &Path, endpoint: &str, secret: &str, window: u64) -> io::Result<Client> {
        let subscriber = window > 0;
        let writer = UnixStream::connect(socket)?;
        writer.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut client = Client { reader: BufReader::new(writer.try_clone()?), writer };
        let mut magic = [0];
        client.reader.read_exact(&mut magic)?;
        if magic[0] != MAGIC {
            return Err(invalid("not AAP2"));
        }
        client.message()?;
        let mut config = Vec::new();
        put_number(&mut config, 1, subscriber.into());
        put_bytes(&mut config, 3, secret.as_bytes());
        put_bytes(&mut config, 4, endpoint.as_bytes());
        put_number(&mut config, 1000, window);
        client.send_message(2, &config, &[])?;
        if client.response()? { Ok(client) } else { Err(invalid("the node refused the endpoint")) }
    }
    /// The same connection for another thread: one sends and the other reads answers.
    pub fn try_clone(&self) -> io::Result<Client> {
        Ok(Client { reader: BufReader::new(self.writer.try_clone()?), writer: self.writer.try_clone()? })
    }
    /// Ends the connection for whoever reads from it too.
    pub fn shutdown(&self) {
        let _ = self.writer.shutdown(std::net::Shutdown::Both);
    }
    /// Sends a bundle; the answer comes with [`Client::response`], in order.
    pub fn send(&mut self, destination: &str, payload: &[u8]) -> io::Result<()> {
        self.send_reported(destination, payload, "")
    }
    /// The same with reports to this endpoint asked for, unless it is empty.
    pub fn send_reported(&mut self, destination: &str, payload: &[u8], report_to: &str) -> io::Result<()> {
        self.send_adu(destination, payload, report_to, 0)
    }
    /// The same with a priority: 1 bulk, 2 normal, 3 expedited.
    pub fn send_as(&mut self, destination: &str, payload: &[u8], priority: u64) -> io::Result<()> {
        self.send_adu(destination, payload, "", priority)
    }
    fn send_adu(&mut self, destination: &str, payload: &[u8], report_to: &str, priority: u64) -> io::Result<()> {
        let mut adu = Vec::new();
        put_bytes(&mut adu, 2, destination.as_bytes());
        put_number(&mut adu, 5, payload.len() as u64);
        if !report_to.is_empty() {
            put_bytes(&mut adu, 7, report_to.as_bytes());
        }
        if priority > 0 {
            put_number(&mut adu, 1001, priority);
        }
        self.send_message(3, &adu, payload)
    }
    /// The next answer: whether the node took it.
    pub fn response(&mut self) -> io::Result<bool> {
        let message = self.message()?;
        Ok(fields(&message)?.iter().any(|(number, value)| *number == 1 && value.number() == SUCCESS))
    }
    /// Waits for the next delivery; answer it with [`Client::taken`].
    pub fn delivery(&mut self) -> io::Result<Delivered> {
        loop {
            let message = self.message()?;
            for (number, value) in fields(&message)? {
                let Value::Bytes(adu) = value else { continue };
                match number {
                    3 => return self.adu(adu),
                    6 => self.taken()?,
                    _ => return Err(invalid("an unexpected message")),
                }
            }
        }
    }
    fn adu(&mut self, adu: &[u8]) -> io::Result<Delivered> {
        let (mut length, mut redelivered) = (0, false);
        for (number, value) in fields(adu)? {
            match (number, value) {
                (5, value) => length = value.number(),
                (6, Value::Number(flag)) => redelivered |= flag == REDELIVERED,
                (6, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        redelivered |= varint(&mut packed)? == REDELIVERED;
                    }
                }
                _ => {}
            }
        }
        let mut payload = Vec::new();
        (&mut self.reader).take(length).read_to_end(&mut payload)?;
        if payload.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Delivered { payload, redelivered })
    }
    /// Says that the delivery is taken for good.
    pub fn taken(&mut self) -> io::Result<()> {
        self.writer.write_all(&[2, 8, SUCCESS as u8])
    }
    /// Bounds how long reads wait.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.writer.set_read_timeout(Some(timeout))
    }
    fn send_message(&mut self, field: u64, body: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut message = Vec::new();
        put_bytes(&mut message, field, body);
        let mut out = Vec::with_capacity(message.len() + payload.len() + 4);
        put_varint(&mut out, message.len() as u64);
        out.extend(message);
        out.extend(payload);
        self.writer.write_all(&out)
    }
    fn message(&mut self) -> io::Result<Vec<u8>> {
        let mut length = 0;
        for shift in (0..28).step_by(7) {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            length |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                let mut message = vec![0; length as usize];
                self.reader.read_exact(&mut message)?;
                return Ok(message);
            }
        }
        Err(invalid("a message too long"))
    }
}

/// A protobuf field's value.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}
impl Value<'_> {
    fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number } else { 0 }
    }
}
fn fields(mut message: &[u8]) -> io::Result<Vec<(u64, Value<'_>)>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut message)?),
            2 => {
                let length = varint(&mut message)? as usize;
                let (bytes, rest) = message.split_at_checked(length).ok_or_else(|| invalid("a field too long"))?;
                message = rest;
                Value::Bytes(bytes)
            }
            _ => return Err(invalid("an unknown wire type")),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}
fn varint(bytes: &mut &[u8]) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(|| invalid("a number cut short"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    Err(invalid("a number too long"))
}
/// Appends a protobuf varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
/// Appends a protobuf field that is a number.
pub fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}
/// Appends a protobuf field that is bytes.
pub fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put() {
        let mut message = Vec::new();
        put_bytes(&mut message, 2, b"ipn:2.1");
        put_number(&mut message, 1000, 300);
        let found = fields(&message).unwrap();
        assert!(matches!(found[0], (2, Value::Bytes(b"ipn:2.1"))));
        assert_eq!((found[1].0, found[1].1.number()), (1000, 300));
        assert!(fields(&message[..4]).is_err());
    }
}

//! TLS 1.3 between simulated nodes, modelled and not computed: a handshake costs its round trips and bytes, and data
//! travels in records of true length; nothing is encrypted, and each peer has the identity in the scenario.

use farlink_base::{Bytes, Payload};

/// Largest content of a record, bytes (RFC 8446 5.1).
pub const RECORD_MAX: u64 = 1 << 14;
/// Record header, bytes (RFC 8446 5.1).
const HEADER: u64 = 5;
/// Content type and authentication tag behind the content, bytes (RFC 8446 5.2).
const TRAILER: u64 = 17;
/// Overhead of a record, bytes.
pub const RECORD_BYTES: u64 = HEADER + TRAILER;

/// Handshake bytes if both sides have a certificate of `farlink node certs`: the ClientHello, the server's flight from
/// ServerHello to Finished, and the client's flight from Certificate to Finished.
pub const HANDSHAKE_BYTES: [u64; 3] = [198, 882, 669];
/// Content of a close_notify alert, bytes (RFC 8446 6.1).
const GOODBYE_BYTES: u64 = 2;

/// Content types of records (RFC 8446 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// Flights of a handshake, in order (RFC 8446 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TlsFlight {
    Hello,
    Answer,
    Proof,
}
impl TlsFlight {
    fn bytes(self) -> Payload {
        record(HANDSHAKE, Payload::fill(0, HANDSHAKE_BYTES[self as usize] - HEADER))
    }
}

/// One side of a secured stream.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Handshake flight expected next; `None` once secured.
    awaits: Option<TlsFlight>,
    /// Received bytes of an incomplete record.
    heard: Payload,
}

/// Result of bytes from the peer.
#[derive(Default, Debug)]
pub(crate) struct Heard {
    /// Decrypted data.
    pub plain: Payload,
    /// Bytes of the handshake to write as they are, without [`Tls::seal`].
    pub says: Option<Payload>,
    /// Whether the handshake is complete.
    pub secured: bool,
}

impl Tls {
    /// Begins a handshake as server or client; returns the bytes to write as they are, which only a client has.
    pub fn begin(server: bool) -> (Tls, Option<Payload>) {
        let (awaits, says) = match server {
            true => (TlsFlight::Hello, None),
            false => (TlsFlight::Answer, Some(TlsFlight::Hello.bytes())),
        };
        (Tls { awaits: Some(awaits), heard: Payload::new() }, says)
    }
    /// Handles bytes from the peer.
    pub fn receive(&mut self, data: Payload) -> Heard {
        self.heard.append(data);
        let (mut heard, mut reader) = (Heard::default(), self.heard.reader());
        let mut header = [0; HEADER as usize];
        let mut read = 0;
        while reader.read_exact(&mut header) {
            let [kind, _, _, high, low] = header;
            let Some(content) = reader.take(u16::from_be_bytes([high, low]).into()) else { break };
            read = reader.position();
            match (kind, self.awaits) {
                (HANDSHAKE, Some(TlsFlight::Hello)) => {
                    (self.awaits, heard.says) = (Some(TlsFlight::Proof), Some(TlsFlight::Answer.bytes()));
                }
                (HANDSHAKE, Some(flight)) => {
                    heard.says = (flight == TlsFlight::Answer).then(|| TlsFlight::Proof.bytes());
                    (self.awaits, heard.secured) = (None, true);
                }
                (DATA, None) => heard.plain.append(content.slice(0, content.len().saturating_sub(TRAILER))),
                _ => {}
            }
        }
        self.heard = self.heard.slice(read, u64::MAX);
        heard
    }
    /// Encloses data in records; as in a real node, each chunk begins a new record.
    pub fn seal(data: &Payload) -> Payload {
        let mut records = Payload::new();
        for chunk in data.chunks() {
            let mut piece = Payload::new();
            piece.push(chunk.clone());
            for at in (0..piece.len()).step_by(RECORD_MAX as usize) {
                records.append(secret(DATA, piece.slice(at, RECORD_MAX)));
            }
        }
        records
    }
    /// Record that closes the session.
    pub fn goodbye() -> Payload {
        secret(ALERT, Payload::fill(0, GOODBYE_BYTES))
    }
}

fn secret(kind: u8, mut content: Payload) -> Payload {
    // Zeros stand for the encrypted content type and the tag.
    content.push_bytes(Bytes::from_static(&[0; TRAILER as usize]));
    record(kind, content)
}

fn record(kind: u8, content: Payload) -> Payload {
    let [high, low] = (content.len() as u16).to_be_bytes();
    // Version 3.3, as every TLS 1.3 record carries it (RFC 8446 5.1).
    let mut record = Payload::from(vec![kind, 3, 3, high, low]);
    record.append(content);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secured(piece: u64) -> ([Tls; 2], u64) {
        // The handshake arrives in pieces of this length, because TCP may cut it anywhere.
        let (client, hello) = Tls::begin(false);
        let (server, nothing) = Tls::begin(true);
        assert!(nothing.is_none(), "a server is asked");
        let (mut sides, mut ready) = ([server, client], [false; 2]);
        let (mut on_the_way, mut to, mut total) = (hello, 0, 0);
        while let Some(said) = on_the_way.take() {
            total += said.len();
            for at in (0..said.len()).step_by(piece as usize) {
                let heard = sides[to].receive(said.slice(at, piece));
                assert!(heard.plain.is_empty() && on_the_way.is_none());
                ready[to] |= heard.secured;
                on_the_way = heard.says;
            }
            to = 1 - to;
        }
        assert_eq!(ready, [true; 2]);
        (sides, total)
    }

    #[test]
    fn handshake_takes_three_flights() {
        for piece in [1, 4, 700, 5000] {
            assert_eq!(secured(piece).1, HANDSHAKE_BYTES.iter().sum::<u64>(), "in pieces of {piece} B");
        }
    }

    #[test]
    fn sealed_records_cost_constant_overhead() {
        for len in [1, RECORD_MAX - 1, RECORD_MAX, RECORD_MAX + 1, 100_000] {
            let mut data = Payload::from(&b"a head"[..]);
            data.append(Payload::fill(7, len));
            let sealed = Tls::seal(&data);
            let records = 1 + len.div_ceil(RECORD_MAX);
            assert_eq!(sealed.len(), data.len() + records * RECORD_BYTES, "{len}");
            for piece in [3, 1448, 1 << 20] {
                let ([mut server, _], _) = secured(100);
                let mut plain = Payload::new();
                for at in (0..sealed.len()).step_by(piece as usize) {
                    plain.append(server.receive(sealed.slice(at, piece)).plain);
                }
                assert_eq!(plain, data);
                assert!(plain.chunks().len() <= 4, "a pattern stays one: {}", plain.chunks().len());
            }
        }
    }

    #[test]
    fn close_carries_no_layer_bytes() {
        let ([mut server, _], _) = secured(100);
        let heard = server.receive(Tls::goodbye());
        assert!(heard.plain.is_empty() && heard.says.is_none() && !heard.secured);
        // Header 5, alert 2, trailer 17.
        assert_eq!(Tls::goodbye().len(), 24);
    }
}

//! WebSocket interface of dtn7-rs: bundles are delivered at once, and sent from any endpoint of the node.

use super::cbor::{self, MapValue};
use super::dtn7_http::Dtn7Web;
use super::queue::ByteQueue;
use super::websocket::{self, WebMessage, WebSocketReader, WebSocketWriter};
use super::{ANSWER_MAX, AttachedPair, BundleReceiver, BundleSender, DeliveredPayload, SenderTerms};
use crate::passing_service;
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;

/// Attaches a sender at a service or endpoint ID.
pub fn sender(at: &str, terms: &SenderTerms) -> Result<WsSender> {
    let web = Dtn7Web::new(at)?;
    // The daemon drops bundles from endpoints that are not registered, and confirms them all the same.
    let source = web.register(&terms.source.clone().unwrap_or_else(passing_service))?;
    let socket = WsSocket::open(&web)?;
    let lifetime_ms = u64::try_from(terms.lifetime.as_millis()).unwrap_or(u64::MAX);
    let sender = WsSender { socket, source, lifetime_ms, window: terms.window.max(1), unanswered: 0 };
    sender.socket.command("/data")?;
    Ok(sender)
}

/// Attaches a receiver at a service or endpoint ID.
pub fn receiver(at: &str, service: &str) -> Result<WsReceiver> {
    let web = Dtn7Web::new(at)?;
    // Only registered endpoints can be subscribed to.
    let endpoint = web.register(service)?;
    let socket = WsSocket::open(&web)?;
    socket.command("/bundle")?;
    socket.command(&format!("/subscribe {endpoint}"))?;
    Ok(WsReceiver { socket })
}

/// Attaches a sender and a receiver at one endpoint.
pub fn pair(at: &str, terms: &SenderTerms) -> Result<AttachedPair> {
    let service = terms.source.clone().unwrap_or_else(passing_service);
    let endpoint = crate::client::endpoint_of(&Dtn7Web::new(at)?.node_id()?, &service);
    let sender = sender(at, &SenderTerms { source: Some(endpoint.clone()), ..terms.clone() })?;
    Ok(AttachedPair { sender: Box::new(sender), receiver: Box::new(receiver(at, &endpoint)?), endpoint })
}

/// WebSocket with a thread that reads its messages, so that the daemon's pings are always answered.
struct WsSocket {
    writer: WebSocketWriter,
    /// Texts: answers to commands and bundles, in order.
    answers: Arc<ByteQueue<String>>,
    bundles: Arc<ByteQueue<(u64, Vec<u8>)>>,
}

impl WsSocket {
    fn open(web: &Dtn7Web) -> Result<WsSocket> {
        let (writer, reader) = websocket::connect(web.host(), "/ws")?;
        let (answers, bundles) = (Arc::new(ByteQueue::default()), Arc::new(ByteQueue::default()));
        let socket = WsSocket { writer, answers: Arc::clone(&answers), bundles: Arc::clone(&bundles) };
        std::thread::Builder::new().name("websocket".into()).spawn(move || read(reader, &answers, &bundles))?;
        Ok(socket)
    }
    /// Sends a command and waits for its success.
    fn command(&self, command: &str) -> Result<()> {
        self.writer.text(command)?;
        self.answer().with_context(|| format!("the daemon refuses `{command}`"))
    }
    fn answer(&self) -> Result<()> {
        let answer = self.answers.pop(ANSWER_MAX)?;
        let Some(answer) = answer else { bail!("the daemon does not answer within {} s", ANSWER_MAX.as_secs()) };
        ensure!(answer.starts_with("200 "), "{}", answer.chars().take(200).collect::<String>());
        Ok(())
    }
}
impl Drop for WsSocket {
    fn drop(&mut self) {
        self.writer.shutdown();
        self.bundles.end("closed");
    }
}

fn read(mut reader: WebSocketReader, answers: &ByteQueue<String>, bundles: &ByteQueue<(u64, Vec<u8>)>) {
    let why = loop {
        match reader.message() {
            Ok(WebMessage::Text(text)) => {
                let length = text.len();
                answers.push(text, length);
            }
            Ok(WebMessage::Binary(bundle)) => {
                let length = bundle.len();
                bundles.push((farlink_os::monotonic_ns(), bundle), length);
            }
            Err(why) => break format!("{why:#}"),
        }
    };
    answers.end(why.clone());
    bundles.end(why);
}

/// Sender over a WebSocket of its own.
pub struct WsSender {
    socket: WsSocket,
    source: String,
    lifetime_ms: u64,
    window: u64,
    unanswered: u64,
}

impl WsSender {
    fn wait_for(&mut self, most: u64) -> Result<()> {
        while self.unanswered > most {
            self.socket.answer().context("the daemon refuses a bundle")?;
            self.unanswered -= 1;
        }
        Ok(())
    }
}

impl BundleSender for WsSender {
    fn room(&mut self) -> Result<()> {
        self.wait_for(self.window - 1)
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        let bundle = [
            ("src", MapValue::Text(&self.source)),
            ("dst", MapValue::Text(to)),
            ("delivery_notification", MapValue::Flag(false)),
            ("lifetime", MapValue::Number(self.lifetime_ms)),
            ("data", MapValue::Bytes(&payload)),
        ];
        self.socket.writer.binary(&cbor::map(&bundle))?;
        self.unanswered += 1;
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.wait_for(0)
    }
}

/// Receiver over a WebSocket of its own.
pub struct WsReceiver {
    socket: WsSocket,
}

impl BundleReceiver for WsReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let Some((at_ns, bundle)) = self.socket.bundles.pop(wait)? else { return Ok(None) };
        let payload = cbor::payload(&bundle).context("the daemon delivers something that is no bundle")?;
        Ok(Some(DeliveredPayload { at_ns, source: cbor::source(&bundle), bytes: payload.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cbor::tests::bundle;
    use super::super::websocket::tests::{accept, client_frame, server_frame};
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const NODE_ID: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nipn:2.0";
    const TEXT: u8 = 0x81;
    const BINARY: u8 = 0x82;

    /// Starts a daemon that answers this number of HTTP requests and then accepts one WebSocket; returns its address.
    fn daemon(requests: usize, serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for _ in 0..requests {
                let (mut socket, _) = listener.accept().unwrap();
                assert!(std::io::Read::read(&mut socket, &mut [0; 1000]).unwrap() > 0);
                socket.write_all(NODE_ID).unwrap();
            }
            serve(accept(&listener));
        });
        address
    }

    fn terms(window: u64) -> SenderTerms {
        SenderTerms { source: Some("65".into()), lifetime: Duration::from_secs(60), window }
    }

    #[test]
    fn bundles_are_delivered_with_pings_between() {
        let at = daemon(2, |mut socket| {
            assert_eq!(client_frame(&mut socket).unwrap().1, b"/bundle");
            socket.write_all(&server_frame(TEXT, b"200 tx mode: bundle")).unwrap();
            assert_eq!(client_frame(&mut socket).unwrap().1, b"/subscribe ipn:2.42");
            // A bundle that waited may precede the answer.
            socket.write_all(&server_frame(BINARY, &bundle(b"first"))).unwrap();
            socket.write_all(&server_frame(TEXT, b"200 subscribed")).unwrap();
            socket.write_all(&server_frame(0x89, b"dtn7")).unwrap();
            assert_eq!(client_frame(&mut socket).unwrap(), (10, b"dtn7".to_vec()));
            socket.write_all(&server_frame(BINARY, &bundle(b"second"))).unwrap();
        });
        let mut receiver = receiver(&at, "42").unwrap();
        for expected in [&b"first"[..], b"second"] {
            let delivered = receiver.receive(Duration::from_secs(20)).unwrap().unwrap();
            assert_eq!((delivered.bytes.as_slice(), delivered.source.as_deref()), (expected, Some("ipn:2.1")));
        }
        assert!(receiver.receive(Duration::from_secs(20)).is_err());
    }

    #[test]
    fn sent_bundles_wait_for_their_answers() {
        let at = daemon(2, |mut socket| {
            assert_eq!(client_frame(&mut socket).unwrap().1, b"/data");
            socket.write_all(&server_frame(TEXT, b"200 tx mode: data")).unwrap();
            for answer in ["200 Sent bundle", "200 Sent bundle", "400 Unexpected binary"] {
                let (_, sent) = client_frame(&mut socket).unwrap();
                assert!(sent.starts_with(b"\xa5\x63src\x68ipn:2.65\x63dst\x67ipn:3.1"), "{sent:?}");
                assert!(sent.ends_with(b"\x64data\x42hi"), "{sent:?}");
                socket.write_all(&server_frame(TEXT, answer.as_bytes())).unwrap();
            }
        });
        let mut sender = sender(&at, &terms(2)).unwrap();
        for _ in 0..3 {
            sender.room().unwrap();
            sender.hand_over("ipn:3.1", b"hi".to_vec()).unwrap();
        }
        let why = format!("{:#}", sender.finish().unwrap_err());
        assert!(why.contains("refuses a bundle: 400 Unexpected binary"), "{why}");
    }

    #[test]
    fn unknown_endpoint_is_refused() {
        let at = daemon(2, |mut socket| {
            for answer in ["200 tx mode: bundle", "404 unknown endpoint"] {
                client_frame(&mut socket).unwrap();
                socket.write_all(&server_frame(TEXT, answer.as_bytes())).unwrap();
            }
        });
        let why = format!("{:#}", receiver(&at, "42").err().unwrap());
        assert!(why.contains("refuses `/subscribe ipn:2.42`: 404 unknown endpoint"), "{why}");
    }
}

//! AAP2 of Farlink and µD3TN: bundles are sent over one connection and delivered over another.

use super::{AttachedPair, BundleReceiver, BundleSender, DeliveredPayload, MESSAGE_MAX, SenderTerms};
use crate::answers::Answers;
use crate::client::Client;
use crate::{connect, passing_service};
use anyhow::{Result, anyhow, bail, ensure};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use std::collections::VecDeque;
use std::io::Read;
use std::time::{Duration, Instant};

/// Secret shared by the applications at an endpoint.
const SECRET: &str = "farlink";
/// Most deliveries that the node sends before the first is accepted.
const WINDOW: u32 = 64;
/// Time during which refused bundles are sent again: a full store empties with the next contact.
const RETRY_FOR: Duration = Duration::from_secs(600);
/// Pause before a refused bundle is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Error of a connection that the node ended.
fn ended(why: std::io::Error) -> anyhow::Error {
    anyhow!("{why}\n{}", crate::ENDED)
}

/// Attaches a sender at a service or endpoint ID, random if none is given.
pub fn sender(at: &str, terms: &SenderTerms) -> Result<AapSender> {
    let mut client = connect(at)?;
    let endpoint = client.endpoint(&terms.source.clone().unwrap_or_else(passing_service));
    client.configure(&endpoint, SECRET, 0)?;
    let lifetime_ms = u64::try_from(terms.lifetime.as_millis()).unwrap_or(u64::MAX);
    let (waiting, taken) = (VecDeque::new(), Instant::now());
    Ok(AapSender { client, lifetime_ms, window: terms.window.max(1), waiting, taken })
}

/// Attaches a receiver at a service or endpoint ID.
pub fn receiver(at: &str, service: &str) -> Result<AapReceiver> {
    let mut client = connect(at)?;
    let endpoint = client.endpoint(service);
    client.configure(&endpoint, SECRET, WINDOW)?;
    Ok(AapReceiver { client, answers: Answers::new(WINDOW), due: false })
}

/// Attaches a sender and a receiver at one endpoint.
pub fn pair(at: &str, terms: &SenderTerms) -> Result<AttachedPair> {
    let service = terms.source.clone().unwrap_or_else(passing_service);
    // The receiver attaches first: µD3TN drops bundles that arrive while only a sender is there.
    let receiver = receiver(at, &service)?;
    let endpoint = receiver.client.endpoint(&service);
    let sender = sender(at, &SenderTerms { source: Some(endpoint.clone()), ..terms.clone() })?;
    Ok(AttachedPair { sender: Box::new(sender), receiver: Box::new(receiver), endpoint })
}

/// Sender with the bundles that the node has not accepted yet.
pub struct AapSender {
    client: Client,
    lifetime_ms: u64,
    window: u64,
    waiting: VecDeque<(String, Vec<u8>)>,
    /// Time of the latest acceptance.
    taken: Instant,
}

impl AapSender {
    fn send(&mut self, to: String, payload: Vec<u8>) -> Result<()> {
        let adu = BundleAdu { dst_eid: to.clone(), lifetime_ms: self.lifetime_ms, ..Default::default() };
        self.client.send(adu, &payload)?;
        self.waiting.push_back((to, payload));
        Ok(())
    }
    /// Reads the response to the oldest bundle; a refused bundle is sent again behind the others.
    fn answer(&mut self) -> Result<()> {
        let status = self.client.response().map_err(ended)?.response_status();
        let Some((to, payload)) = self.waiting.pop_front() else { bail!("a response without a request") };
        match status {
            AapStatus::Success => self.taken = Instant::now(),
            AapStatus::Error if self.taken.elapsed() < RETRY_FOR => {
                std::thread::sleep(RETRY_PAUSE);
                self.send(to, payload)?;
            }
            AapStatus::Error => bail!(
                "the node has refused bundles for {} min: its store or a quota is full\n\
                 hint: with Farlink, `farlink node status` shows both",
                RETRY_FOR.as_secs() / 60
            ),
            other => bail!("the node refuses a bundle for {to}: {}", crate::refusal(other)),
        }
        Ok(())
    }
}

impl BundleSender for AapSender {
    fn room(&mut self) -> Result<()> {
        // Reads all responses that have arrived, so that the node never waits for this program to read.
        while !self.waiting.is_empty()
            && (self.waiting.len() as u64 >= self.window || self.client.hears_within(Duration::ZERO)?)
        {
            self.answer()?;
        }
        Ok(())
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        self.send(to.into(), payload)
    }
    fn finish(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            self.answer()?;
        }
        Ok(())
    }
}

/// Receiver that acknowledges deliveries in groups. A delivery is acknowledged by the next call at the earliest, so that
/// the application has recorded it before the node forgets it.
pub struct AapReceiver {
    client: Client,
    answers: Answers,
    /// Whether the next call acknowledges the group.
    due: bool,
}

impl Drop for AapReceiver {
    fn drop(&mut self) {
        // If the node is gone, it delivers the bundles again.
        let _ = self.answers.give(&mut self.client);
    }
}

impl BundleReceiver for AapReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        if std::mem::take(&mut self.due) {
            self.answers.give(&mut self.client)?;
        }
        if !self.client.hears_within(wait)? {
            return Ok(None);
        }
        let mut arriving = self.client.arriving().map_err(ended)?;
        let length = arriving.adu.payload_length;
        ensure!(length <= MESSAGE_MAX, "a payload of {length} B: more than {MESSAGE_MAX}");
        let mut payload = Vec::new();
        // Grows with the bytes that arrive, whatever the length claims.
        arriving.read_to_end(&mut payload).map_err(ended)?;
        let delivered = DeliveredPayload::now(Some(arriving.adu.src_eid), payload);
        self.due = self.answers.add(&self.client)?;
        Ok(Some(delivered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::{AppInterface, Via};
    use bytes::BytesMut;
    use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse};
    use prost::Message;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// Node that answers with these statuses in turn, the last for ever, and delivers every accepted payload.
    fn node(statuses: &'static [AapStatus]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (deliver, deliveries) = std::sync::mpsc::channel::<Vec<u8>>();
            let mut deliveries = Some(deliveries);
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
                let config = match message(&mut socket) {
                    Some(AapBody::Config(config)) => config,
                    other => panic!("{other:?}"),
                };
                respond(&mut socket, AapStatus::Success);
                if config.is_subscriber {
                    let deliveries = deliveries.take().unwrap();
                    std::thread::spawn(move || deliveries.iter().for_each(|payload| give(&mut socket, &payload)));
                } else {
                    let deliver = deliver.clone();
                    std::thread::spawn(move || take(socket, statuses, &deliver));
                }
            }
        });
        address
    }

    fn take(mut socket: TcpStream, statuses: &[AapStatus], deliver: &std::sync::mpsc::Sender<Vec<u8>>) {
        let mut turn = 0;
        while let Some(AapBody::Adu(adu)) = message(&mut socket) {
            let mut payload = vec![0; adu.payload_length as usize];
            socket.read_exact(&mut payload).unwrap();
            let status = statuses[turn.min(statuses.len() - 1)];
            turn += 1;
            respond(&mut socket, status);
            if status == AapStatus::Success {
                let _ = deliver.send(payload);
            }
        }
    }

    fn give(socket: &mut TcpStream, payload: &[u8]) {
        let adu = BundleAdu { src_eid: "ipn:2.9".into(), payload_length: payload.len() as u64, ..Default::default() };
        let mut out = BytesMut::new();
        proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
        out.extend_from_slice(payload);
        let _ = socket.write_all(&out);
    }

    fn respond(socket: &mut TcpStream, status: AapStatus) {
        let mut out = BytesMut::new();
        proto::frame(&AapResponse::new(status), &mut out);
        let _ = socket.write_all(&out);
    }

    fn message(socket: &mut TcpStream) -> Option<AapBody> {
        let mut input = BytesMut::new();
        loop {
            let mut byte = [0];
            socket.read_exact(&mut byte).ok()?;
            input.extend_from_slice(&byte);
            if let Some(message) = proto::deframe(&mut input).unwrap() {
                return AapMessage::decode(message).unwrap().body;
            }
        }
    }

    fn terms(window: u64) -> SenderTerms {
        SenderTerms { source: None, lifetime: Duration::from_secs(60), window }
    }

    #[test]
    fn refused_bundles_are_sent_again() {
        let at = node(&[AapStatus::Error, AapStatus::Success, AapStatus::Error, AapStatus::Success]);
        let interface = AppInterface { via: Via::Aap2, at };
        let AttachedPair { mut sender, mut receiver, endpoint } = interface.pair(&terms(4)).unwrap();
        assert!(endpoint.starts_with("ipn:1."));
        for number in 0..10 {
            sender.room().unwrap();
            sender.hand_over("ipn:2.9", vec![number; 100]).unwrap();
        }
        sender.finish().unwrap();
        let mut came: Vec<u8> = (0..10)
            .map(|_| {
                let delivered = receiver.receive(Duration::from_secs(20)).unwrap().unwrap();
                assert_eq!((delivered.bytes.len(), delivered.source.as_deref()), (100, Some("ipn:2.9")));
                delivered.bytes[0]
            })
            .collect();
        came.sort_unstable();
        assert_eq!(came, (0..10).collect::<Vec<u8>>());
        assert_eq!(receiver.receive(Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn delivery_is_acknowledged_after_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let node = std::thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
            message(&mut socket).unwrap();
            respond(&mut socket, AapStatus::Success);
            give(&mut socket, b"one");
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let early = socket.read(&mut [0; 8]).is_ok();
            give(&mut socket, b"two");
            socket.set_read_timeout(None).unwrap();
            let mut answers = Vec::new();
            socket.read_to_end(&mut answers).unwrap();
            let mut one = BytesMut::new();
            proto::frame(&AapResponse::new(AapStatus::Success), &mut one);
            (early, answers.len() / one.len())
        });
        let mut receiver = receiver(&at, "64").unwrap();
        let wait = Duration::from_secs(20);
        assert_eq!(receiver.receive(wait).unwrap().unwrap().bytes, b"one");
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(receiver.receive(wait).unwrap().unwrap().bytes, b"two");
        drop(receiver);
        assert_eq!(node.join().unwrap(), (false, 2), "the last is acknowledged at the end");
    }

    #[test]
    fn window_bounds_unanswered_bundles() {
        let at = node(&[AapStatus::Success]);
        let mut sender = sender(&at, &terms(3)).unwrap();
        for _ in 0..20 {
            sender.room().unwrap();
            sender.hand_over("ipn:2.9", vec![1]).unwrap();
            assert!(sender.waiting.len() <= 3, "{}", sender.waiting.len());
        }
        sender.finish().unwrap();
        assert!(sender.waiting.is_empty());
    }

    #[test]
    fn random_messages_never_panic() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        const NOISES: u64 = 200;
        let node = std::thread::spawn(move || {
            let mut random = farlink_base::Rng::new(8);
            for turn in 0..NOISES {
                let (mut socket, _) = listener.accept().unwrap();
                socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
                message(&mut socket).unwrap();
                respond(&mut socket, AapStatus::Success);
                let mut noise = BytesMut::new();
                // First a payload length beyond any memory, then a payload that is cut short, then only noise.
                let payload_length = [u64::MAX, 1 << 20][turn as usize % 2];
                proto::frame(
                    &AapMessage::new(AapBody::Adu(BundleAdu { payload_length, ..Default::default() })),
                    &mut noise,
                );
                if turn > 1 {
                    noise.clear();
                }
                noise.extend((0..random.below(60)).map(|_| random.next_u64() as u8));
                let _ = socket.write_all(&noise);
            }
        });
        for _ in 0..NOISES {
            let mut receiver = receiver(&at, "64").unwrap();
            while receiver.receive(Duration::from_secs(20)).is_ok() {}
        }
        node.join().unwrap();
    }

    #[test]
    fn invalid_destination_is_an_error() {
        let at = node(&[AapStatus::InvalidRequest]);
        let mut sender = sender(&at, &terms(1)).unwrap();
        sender.hand_over("ipn:2.9", vec![1]).unwrap();
        let why = sender.finish().unwrap_err().to_string();
        assert!(why.starts_with("the node refuses a bundle for ipn:2.9: ") && why.contains("hint: "), "{why}");
    }
}

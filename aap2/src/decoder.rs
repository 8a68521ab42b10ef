//! Decoder of a client's byte stream into requests. Payload bytes are shared, not copied.

use super::proto::{self, AapBody, AapMessage, AapResponse, AapStatus, BundleAdu, ConnectionConfig, LinkNotice};
use bytes::{Bytes, BytesMut};
use farlink_base::Payload;
use prost::Message;
use std::collections::VecDeque;

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Configuration of the connection.
    Configure(ConnectionConfig),
    /// A bundle to send, with the payload bytes that [`Decoder::take_part`] has not taken before.
    Send(BundleAdu, Payload),
    /// Link state of a neighbour.
    Link(LinkNotice),
    /// Sign of life, to be answered.
    Keepalive,
    /// Response to a message of the server.
    Response(AapStatus),
}

/// Bytes copied at a time while a message is expected; the rest of the input is shared as payload.
const HEAD_STEP: usize = 512;

/// A bundle whose payload is incomplete.
#[derive(Debug)]
struct Coming {
    adu: BundleAdu,
    payload: Payload,
    /// Number of payload bytes that were taken before; they precede `payload`.
    taken: u64,
}
impl Coming {
    fn missing(&self) -> u64 {
        self.adu.payload_length - self.taken - self.payload.len()
    }
}

/// Splits a client's byte stream into requests.
#[derive(Debug)]
pub struct Decoder {
    input: BytesMut,
    adu: Option<Coming>,
    answers: bool,
    payload_max: u64,
    ready: VecDeque<Request>,
}

impl Decoder {
    /// Accepts payloads up to `payload_max` bytes.
    pub fn new(payload_max: u64) -> Self {
        Decoder { input: BytesMut::new(), adu: None, answers: false, payload_max, ready: VecDeque::new() }
    }
    /// Takes the next complete request.
    pub fn request(&mut self) -> Option<Request> {
        self.ready.pop_front()
    }
    /// Whether a complete request is ready.
    pub fn has_request(&self) -> bool {
        !self.ready.is_empty()
    }
    /// Decodes messages as requests again, because the server refused the subscription.
    pub fn expect_requests(&mut self) {
        self.answers = false;
    }
    /// Number of payload bytes announced for an incomplete bundle, and of those received; `None` if no bundle is
    /// incomplete.
    pub fn unfinished(&self) -> Option<(u64, u64)> {
        self.adu.as_ref().map(|coming| (coming.adu.payload_length, coming.taken + coming.payload.len()))
    }
    /// Takes the payload bytes of an incomplete bundle that arrived since the last call; `None` if fewer than `least`
    /// arrived or no bundle is incomplete. The bundle's request will contain only later bytes.
    pub fn take_part(&mut self, least: u64) -> Option<Payload> {
        let coming = self.adu.as_mut().filter(|coming| coming.payload.len() >= least)?;
        // The request's announced length still covers these bytes.
        coming.taken += coming.payload.len();
        Some(std::mem::take(&mut coming.payload))
    }
    /// Adds received bytes.
    ///
    /// # Errors
    /// Reason to close the connection.
    pub fn feed(&mut self, mut data: Bytes) -> Result<(), &'static str> {
        loop {
            if let Some(coming) = &mut self.adu {
                let missing = coming.missing();
                // Bytes beyond the payload belong to the next message.
                let n = missing.min(data.len() as u64) as usize;
                coming.payload.gather(Payload::from(data.split_to(n)));
                if n as u64 == missing {
                    self.finish_adu();
                } else {
                    return Ok(());
                }
            }
            // Only the bytes of a message are copied; a payload that follows it stays shared.
            let step = data.len().min(HEAD_STEP);
            self.input.extend_from_slice(&data.split_to(step));
            while self.adu.is_none() {
                let Some(message) = proto::deframe(&mut self.input)? else { break };
                self.message(message)?;
                self.payload_from_input();
            }
            if data.is_empty() && self.adu.is_none() {
                return Ok(());
            }
        }
    }
    fn message(&mut self, bytes: Bytes) -> Result<(), &'static str> {
        if self.answers {
            let response = AapResponse::decode(bytes).map_err(|_| "a response that is no protobuf")?;
            self.ready.push_back(Request::Response(response.response_status()));
            return Ok(());
        }
        let message = AapMessage::decode(bytes).map_err(|_| "a message that is no protobuf")?;
        let request = match message.body.ok_or("a message of a kind this node does not serve")? {
            AapBody::Config(config) => {
                // After its configuration a subscriber sends only responses. If the server refuses the subscription, it
                // calls `expect_requests`.
                self.answers = config.is_subscriber;
                Request::Configure(config)
            }
            AapBody::Adu(adu) => {
                // Checked before any payload byte is kept; memory grows with the bytes received, not with the length
                // announced.
                if adu.payload_length > self.payload_max {
                    return Err("a payload larger than this node takes");
                }
                self.adu = Some(Coming { adu, payload: Payload::new(), taken: 0 });
                return Ok(());
            }
            AapBody::Link(link) => Request::Link(link),
            AapBody::Keepalive(_) => Request::Keepalive,
            AapBody::Welcome(_) => return Err("a welcome from a client"),
        };
        self.ready.push_back(request);
        Ok(())
    }
    /// Moves bytes that follow a message in the input into the bundle's payload.
    fn payload_from_input(&mut self) {
        let Some(coming) = &mut self.adu else { return };
        let n = coming.missing().min(self.input.len() as u64) as usize;
        coming.payload.push_bytes(self.input.split_to(n).freeze());
        if coming.missing() == 0 {
            self.finish_adu();
        }
    }
    fn finish_adu(&mut self) {
        if let Some(Coming { adu, payload, .. }) = self.adu.take() {
            self.ready.push_back(Request::Send(adu, payload));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(payloads: &[usize]) -> BytesMut {
        let mut out = BytesMut::new();
        let config = ConnectionConfig { endpoint_id: "ipn:1.5".into(), secret: "s".into(), ..Default::default() };
        proto::frame(&AapMessage::new(AapBody::Config(config)), &mut out);
        for n in payloads {
            let adu = BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: *n as u64, ..Default::default() };
            proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
            out.extend((0..*n).map(|i| i as u8));
            proto::frame(&AapMessage::new(AapBody::Keepalive(proto::Keepalive {})), &mut out);
        }
        out
    }

    #[test]
    fn requests_decode_at_any_split() {
        let bytes = stream(&[0, 1, 700, 3000]).freeze();
        let mut whole = Decoder::new(1 << 20);
        whole.feed(bytes.clone()).unwrap();
        let want: Vec<_> = std::iter::from_fn(|| whole.request()).collect();
        assert_eq!(want.len(), 9);
        // Lengths below and above the copy step of 512 bytes.
        for step in [1, 2, 7, 100, 511, 513, 2000] {
            let mut decoder = Decoder::new(1 << 20);
            let mut got = Vec::new();
            for part in bytes.chunks(step) {
                decoder.feed(Bytes::copy_from_slice(part)).unwrap();
                got.extend(std::iter::from_fn(|| decoder.request()));
            }
            assert_eq!(got, want, "in steps of {step}");
        }
    }

    #[test]
    fn payload_can_be_drained_while_arriving() {
        let bytes = stream(&[3000]).freeze();
        let mut decoder = Decoder::new(1 << 20);
        let (mut taken, mut last) = (Vec::new(), None);
        for part in bytes.chunks(100) {
            decoder.feed(Bytes::copy_from_slice(part)).unwrap();
            if let Some(part) = decoder.take_part(1000) {
                assert!(part.len() >= 1000);
                taken.extend_from_slice(&part.to_bytes().unwrap());
                assert_eq!(decoder.unfinished(), Some((3000, taken.len() as u64)));
            }
            last = std::iter::from_fn(|| decoder.request()).find(|r| matches!(r, Request::Send(..))).or(last);
        }
        let Some(Request::Send(adu, rest)) = last else { panic!("no bundle") };
        assert!(!taken.is_empty() && rest.len() < 1100);
        taken.extend_from_slice(&rest.to_bytes().unwrap());
        assert_eq!(adu.payload_length, 3000);
        assert!(taken.iter().enumerate().all(|(i, byte)| *byte == i as u8) && taken.len() == 3000);
        assert!(decoder.take_part(0).is_none());
    }

    #[test]
    fn malformed_requests_end_the_connection() {
        assert!(Decoder::new(10).feed(stream(&[11]).freeze()).is_err());
        assert!(Decoder::new(10).feed(Bytes::from_static(&[0xff; 20])).is_err());
        assert!(Decoder::new(10).feed(Bytes::from_static(b"\x03\xff\xff\xff")).is_err());
        // Only servers send a welcome.
        assert!(Decoder::new(10).feed(proto::greeting("ipn:1.0").slice(1..)).is_err());
    }

    #[test]
    fn subscriber_sends_only_responses() {
        let mut out = BytesMut::new();
        let config = ConnectionConfig { is_subscriber: true, ..Default::default() };
        proto::frame(&AapMessage::new(AapBody::Config(config)), &mut out);
        proto::frame(&AapResponse::new(AapStatus::Success), &mut out);
        let mut decoder = Decoder::new(0);
        decoder.feed(out.freeze()).unwrap();
        assert!(matches!(decoder.request(), Some(Request::Configure(_))));
        assert_eq!(decoder.request(), Some(Request::Response(AapStatus::Success)));
    }

    #[test]
    fn refused_subscriber_sends_requests() {
        let mut decoder = Decoder::new(0);
        for subscribes in [true, false] {
            let mut out = BytesMut::new();
            let config = ConnectionConfig { is_subscriber: subscribes, ..Default::default() };
            proto::frame(&AapMessage::new(AapBody::Config(config)), &mut out);
            decoder.feed(out.freeze()).unwrap();
            assert!(matches!(decoder.request(), Some(Request::Configure(_))), "{subscribes}");
            decoder.expect_requests();
        }
    }
}

//! The messages of µD3TN's Application Agent Protocol 2 (AAP2), and how they are framed.
//!
//! On connecting the server sends the byte 0x2F and a `Welcome`; then every message is a varint
//! length and a protobuf. Fields numbered from 1000 are ours: a peer that does not know them
//! ignores them.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// First byte the server sends.
pub const MAGIC: u8 = 0x2f;
/// Longest message (without payload) accepted.
pub const MESSAGE_MAX: usize = 64 << 10;

/// Any message but a response.
#[derive(Clone, PartialEq, Message)]
pub struct AapMessage {
    /// What it is.
    #[prost(oneof = "AapBody", tags = "1, 2, 3, 5, 6")]
    pub body: Option<AapBody>,
}
/// The kinds of messages.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AapBody {
    /// Server to client, once.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// Client to server, first.
    #[prost(message, tag = "2")]
    Config(ConnectionConfig),
    /// A bundle; its payload follows the message.
    #[prost(message, tag = "3")]
    Adu(BundleAdu),
    /// Link state of a neighbour.
    #[prost(message, tag = "5")]
    Link(LinkNotice),
    /// Are you there?
    #[prost(message, tag = "6")]
    Keepalive(Keepalive),
}
/// Who the node is.
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    /// Its node ID.
    #[prost(string, tag = "1")]
    pub node_id: String,
}
/// What the client wants.
#[derive(Clone, PartialEq, Message)]
pub struct ConnectionConfig {
    /// Whether it receives (true) or sends (false).
    #[prost(bool, tag = "1")]
    pub is_subscriber: bool,
    /// Rights asked for.
    #[prost(int32, tag = "2")]
    pub auth_type: i32,
    /// Connections sharing an endpoint must show the same secret.
    #[prost(string, tag = "3")]
    pub secret: String,
    /// Endpoint.
    #[prost(string, tag = "4")]
    pub endpoint_id: String,
    /// Seconds between keepalives; 0 for none.
    #[prost(uint32, tag = "5")]
    pub keepalive_seconds: u32,
    /// Ours: deliveries a subscriber takes before answering the first (0 and 1 are one).
    #[prost(uint32, tag = "1000")]
    pub window: u32,
}
/// A bundle's head; `payload_length` bytes follow.
#[derive(Clone, PartialEq, Message)]
pub struct BundleAdu {
    /// Source; empty from a sender means its endpoint.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time, DTN ms.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Bytes that follow.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// Kinds ([`adu_flag`]).
    #[prost(int32, repeated, tag = "6")]
    pub adu_flags: Vec<i32>,
    /// Where reports go; asks for reports.
    #[prost(string, tag = "7")]
    pub report_to_eid: String,
    /// Ours: lifetime in ms; 0 is a day.
    #[prost(uint64, tag = "1000")]
    pub lifetime_ms: u64,
    /// Ours: 1 bulk, 2 normal, 3 expedited; 0 is normal.
    #[prost(uint32, tag = "1001")]
    pub priority: u32,
    /// Ours: bundle processing control flags asked for.
    #[prost(uint64, tag = "1002")]
    pub bundle_flags: u64,
    /// Ours: may be lost (LTP green).
    #[prost(bool, tag = "1003")]
    pub unreliable: bool,
    /// Ours: asks for custody; refused where the node cannot.
    #[prost(bool, tag = "1004")]
    pub custody: bool,
}
/// Values in `adu_flags`.
pub mod adu_flag {
    /// The payload is an encapsulated bundle (BIBE).
    pub const BPDU: i32 = 1;
    /// Sent with dispatch rights.
    pub const WITH_BDM_AUTH: i32 = 2;
    /// The payload is a status report.
    pub const STATUS_REPORT: i32 = 3;
    /// Ours: may have been delivered before a crash.
    pub const REDELIVERED: i32 = 1000;
}
/// Link state, µD3TN's forwarding table interface.
#[derive(Clone, PartialEq, Message)]
pub struct LinkNotice {
    /// 3 up, 4 down, 5 forget.
    #[prost(int32, tag = "1")]
    pub status: i32,
    /// Neighbour.
    #[prost(string, tag = "2")]
    pub peer_node_id: String,
    /// Its address.
    #[prost(string, tag = "3")]
    pub peer_cla_addr: String,
    /// 1 direct.
    #[prost(int32, tag = "4")]
    pub flag: i32,
}
/// Nothing in it.
#[derive(Clone, PartialEq, Message)]
pub struct Keepalive {}
/// The answer to a message.
#[derive(Clone, PartialEq, Message)]
pub struct AapResponse {
    /// One of [`AapStatus`].
    #[prost(enumeration = "AapStatus", tag = "1")]
    pub response_status: i32,
    /// Identity of a bundle that was sent.
    #[prost(message, optional, tag = "3")]
    pub bundle_headers: Option<BundleHeaders>,
}
/// Identity of a bundle.
#[derive(Clone, PartialEq, Message)]
pub struct BundleHeaders {
    /// Source.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time, DTN ms.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Payload bytes.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// Offset, of a fragment.
    #[prost(uint64, tag = "6")]
    pub fragment_offset: u64,
    /// Whole payload length, of a fragment.
    #[prost(uint64, tag = "7")]
    pub total_adu_length: u64,
    /// Lifetime in ms.
    #[prost(uint64, tag = "8")]
    pub lifetime_ms: u64,
}
/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AapStatus {
    /// Not said.
    Unspecified = 0,
    /// Done.
    Success = 1,
    /// Noted (keepalive).
    Ack = 2,
    /// Failed.
    Error = 8,
    /// Took too long.
    Timeout = 9,
    /// Makes no sense.
    InvalidRequest = 10,
    /// No such thing.
    NotFound = 11,
    /// Wrong secret or no right.
    Unauthorized = 12,
}

impl AapMessage {
    /// A message of this kind.
    pub fn new(body: AapBody) -> Self {
        AapMessage { body: Some(body) }
    }
}
impl AapResponse {
    /// A response without more to say.
    pub fn new(status: AapStatus) -> Self {
        AapResponse { response_status: status.into(), bundle_headers: None }
    }
}

/// Appends a message with its length.
pub fn frame(message: &impl Message, out: &mut BytesMut) {
    let length = message.encoded_len();
    out.reserve(length + 10);
    // `reserve` made room: encoding cannot fail.
    let _ = message.encode_length_delimited(out);
}

/// Takes one framed message from the front of `input`; `None` when it is not all there.
///
/// # Errors
/// When the length is beyond [`MESSAGE_MAX`] or not a varint.
pub fn deframe(input: &mut BytesMut) -> Result<Option<Bytes>, &'static str> {
    let mut length = 0usize;
    for (i, byte) in input.iter().enumerate() {
        if i >= 4 {
            return Err("message length is not a varint below 64 KiB");
        }
        length |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            if length > MESSAGE_MAX {
                return Err("message longer than 64 KiB");
            }
            if input.len() < i + 1 + length {
                return Ok(None);
            }
            let _ = input.split_to(i + 1);
            return Ok(Some(input.split_to(length).freeze()));
        }
    }
    Ok(None)
}

/// What the server says on connecting.
pub fn greeting(node_id: &str) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(MAGIC);
    frame(&AapMessage::new(AapBody::Welcome(Welcome { node_id: node_id.to_string() })), &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_encode_as_the_schema_says() {
        // Made with ud3tn-utils 0.15.2: AAPMessage(adu=BundleADU(dst_eid="ipn:2.1", payload_length=3)).
        let adu = BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: 3, ..Default::default() };
        let mut out = BytesMut::new();
        frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
        assert_eq!(&out[..], b"\x0d\x1a\x0b\x12\x07ipn:2.1\x28\x03");
        let mut out = BytesMut::new();
        frame(&AapResponse::new(AapStatus::Success), &mut out);
        assert_eq!(&out[..], b"\x02\x08\x01");
    }

    proptest! {
        #[test]
        fn frames_survive_splits_and_garbage(
            id in "[a-z:0-9.]{0,300}", cut in 0usize..400, garbage in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut out = BytesMut::new();
            let message = AapMessage::new(AapBody::Welcome(Welcome { node_id: id }));
            frame(&message, &mut out);
            let whole = out.clone();
            let mut input = BytesMut::from(&whole[..cut.min(whole.len())]);
            let early = deframe(&mut input).unwrap();
            prop_assert_eq!(early.is_some(), cut >= whole.len());
            let mut input = out;
            let bytes = deframe(&mut input).unwrap().unwrap();
            prop_assert_eq!(AapMessage::decode(bytes).unwrap(), message);
            let mut noise = BytesMut::from(&garbage[..]);
            while let Ok(Some(bytes)) = deframe(&mut noise) {
                let _ = AapMessage::decode(bytes);
            }
        }
    }
}

//! Messages of µD3TN's Application Agent Protocol 2 (AAP2), and their framing.
//!
//! The server first sends the byte 0x2F and a `Welcome`. Every message is a protobuf preceded by its length as a
//! varint. Fields numbered from 1000 are Farlink's extensions, which other peers ignore.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// First byte sent by the server.
pub const MAGIC: u8 = 0x2f;
/// Greatest length of a message in bytes, without the payload that follows it.
pub const MESSAGE_MAX: usize = 64 << 10;

/// Message of a client or the server, except for responses ([`AapResponse`]).
#[derive(Clone, PartialEq, Message)]
pub struct AapMessage {
    /// Kind and content of the message.
    #[prost(oneof = "AapBody", tags = "1, 2, 3, 5, 6")]
    pub body: Option<AapBody>,
}
/// Kinds of messages, with their contents.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AapBody {
    /// First message, from server to client.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// First message from client to server.
    #[prost(message, tag = "2")]
    Config(ConnectionConfig),
    /// A bundle; its payload follows the message.
    #[prost(message, tag = "3")]
    Adu(BundleAdu),
    /// Link state of a neighbour.
    #[prost(message, tag = "5")]
    Link(LinkNotice),
    /// Request for a sign of life.
    #[prost(message, tag = "6")]
    Keepalive(Keepalive),
}
/// Identity of the node.
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    /// Node ID of the server.
    #[prost(string, tag = "1")]
    pub node_id: String,
}
/// Registration of a client.
#[derive(Clone, PartialEq, Message)]
pub struct ConnectionConfig {
    /// Whether the client receives (true) or sends (false) bundles.
    #[prost(bool, tag = "1")]
    pub is_subscriber: bool,
    /// Authorization requested, as in µD3TN's `AuthType`: 0 for an ordinary application, others for control of links or
    /// of dispatch.
    #[prost(int32, tag = "2")]
    pub auth_type: i32,
    /// Secret that all connections to an endpoint must share.
    #[prost(string, tag = "3")]
    pub secret: String,
    /// Endpoint ID to register.
    #[prost(string, tag = "4")]
    pub endpoint_id: String,
    /// Seconds between keepalives, which the server sends to a subscriber, and a sender to the server; 0 for none.
    #[prost(uint32, tag = "5")]
    pub keepalive_seconds: u32,
    /// Extension: greatest number of deliveries that await the subscriber's answer; 0 means 1.
    #[prost(uint32, tag = "1000")]
    pub window: u32,
}
/// Bundle without its payload, of which `payload_length` bytes follow.
#[derive(Clone, PartialEq, Message)]
pub struct BundleAdu {
    /// Source endpoint ID; if empty, the sender's endpoint.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination endpoint ID.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time in DTN ms.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number of the creation timestamp.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Payload bytes that follow this message.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// Flags of the bundle, see [`adu_flag`].
    #[prost(int32, repeated, tag = "6")]
    pub adu_flags: Vec<i32>,
    /// Report-to endpoint ID; unless empty, requests all status reports if `bundle_flags` requests none.
    #[prost(string, tag = "7")]
    pub report_to_eid: String,
    /// Extension: lifetime in ms; 0 means one day.
    #[prost(uint64, tag = "1000")]
    pub lifetime_ms: u64,
    /// Extension: class of service, 1 bulk, 2 normal, 3 expedited; 0 means normal.
    #[prost(uint32, tag = "1001")]
    pub priority: u32,
    /// Extension: requested bundle processing control flags, as numbered in BPv7.
    #[prost(uint64, tag = "1002")]
    pub bundle_flags: u64,
    /// Extension: unreliable transfer allowed (LTP green).
    #[prost(bool, tag = "1003")]
    pub unreliable: bool,
    /// Extension: requests custody; a node without custody refuses the bundle.
    #[prost(bool, tag = "1004")]
    pub custody: bool,
}
/// Values of the field `adu_flags`.
pub mod adu_flag {
    /// The payload is an encapsulated bundle (BIBE).
    pub const BPDU: i32 = 1;
    /// The sender has µD3TN's right to dispatch bundles.
    pub const WITH_BDM_AUTH: i32 = 2;
    /// The payload is a status report.
    pub const STATUS_REPORT: i32 = 3;
    /// Extension: the bundle may have been delivered before a crash.
    pub const REDELIVERED: i32 = 1000;
}
/// State of the link to a neighbour, as µD3TN's forwarding table sends it.
#[derive(Clone, PartialEq, Message)]
pub struct LinkNotice {
    /// State: 3 up, 4 down, 5 removed.
    #[prost(int32, tag = "1")]
    pub status: i32,
    /// Node ID of the neighbour.
    #[prost(string, tag = "2")]
    pub peer_node_id: String,
    /// Convergence layer address of the neighbour.
    #[prost(string, tag = "3")]
    pub peer_cla_addr: String,
    /// Kind of link: 1 is direct.
    #[prost(int32, tag = "4")]
    pub flag: i32,
}
/// Keepalive message, without fields.
#[derive(Clone, PartialEq, Message)]
pub struct Keepalive {}
/// Response to a message.
#[derive(Clone, PartialEq, Message)]
pub struct AapResponse {
    /// Result, one of [`AapStatus`].
    #[prost(enumeration = "AapStatus", tag = "1")]
    pub response_status: i32,
    /// Identity of the bundle that was sent; `None` if none was sent.
    #[prost(message, optional, tag = "3")]
    pub bundle_headers: Option<BundleHeaders>,
    /// Reason of an error as text; empty without an error. µD3TN's interface lacks this field, and its clients ignore it.
    #[prost(string, tag = "100")]
    pub reason: String,
}
/// Identity and lifetime of a bundle.
#[derive(Clone, PartialEq, Message)]
pub struct BundleHeaders {
    /// Source endpoint ID.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination endpoint ID.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time in DTN ms.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number of the creation timestamp.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Length of the payload in bytes.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// Fragment offset in bytes.
    #[prost(uint64, tag = "6")]
    pub fragment_offset: u64,
    /// Total length of the application data unit of a fragment, bytes.
    #[prost(uint64, tag = "7")]
    pub total_adu_length: u64,
    /// Lifetime of the bundle, ms.
    #[prost(uint64, tag = "8")]
    pub lifetime_ms: u64,
}
/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AapStatus {
    /// No status was given.
    Unspecified = 0,
    /// The request was carried out.
    Success = 1,
    /// A keepalive was received.
    Ack = 2,
    /// The request failed for now, e.g. for lack of space.
    Error = 8,
    /// The request took too long.
    Timeout = 9,
    /// The request is not valid.
    InvalidRequest = 10,
    /// The endpoint or link does not exist.
    NotFound = 11,
    /// The secret is wrong, or a permission is missing.
    Unauthorized = 12,
}

impl AapMessage {
    /// Message of this kind and content.
    pub fn new(body: AapBody) -> Self {
        AapMessage { body: Some(body) }
    }
}
impl AapResponse {
    /// Response with a status only.
    pub fn new(status: AapStatus) -> Self {
        AapResponse { response_status: status.into(), ..Default::default() }
    }
}

/// Appends a message, preceded by its length.
pub fn frame(message: &impl Message, out: &mut BytesMut) {
    let length = message.encoded_len();
    out.reserve(length + 10);
    // `reserve` made room for the message and a varint of ten bytes: encoding cannot fail.
    let _ = message.encode_length_delimited(out);
}

/// Takes one message from the front of `input`; `None` if it is incomplete.
///
/// # Errors
/// If the length exceeds [`MESSAGE_MAX`] or is not a varint.
pub fn deframe(input: &mut BytesMut) -> Result<Option<Bytes>, &'static str> {
    let mut length = 0usize;
    for (i, byte) in input.iter().enumerate() {
        // Four bytes hold 28 bits: more than any valid length.
        if i >= 4 {
            return Err("message length is not a varint below 64 KiB");
        }
        length |= usize::from(byte & 0x7f) << (7 * i);
        // The last byte of a varint has its high bit clear.
        if byte & 0x80 == 0 {
            if length > MESSAGE_MAX {
                return Err("message longer than 64 KiB");
            }
            if input.len() < i + 1 + length {
                return Ok(None);
            }
            // Drops the length itself.
            let _ = input.split_to(i + 1);
            return Ok(Some(input.split_to(length).freeze()));
        }
    }
    Ok(None)
}

/// First bytes sent by the server: the magic byte and its welcome.
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
    fn messages_match_reference_encoding() {
        // Made with ud3tn-utils 0.15.2: AAPMessage(adu=BundleADU(dst_eid="ipn:2.1", payload_length=3)).
        let adu = BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: 3, ..Default::default() };
        let mut out = BytesMut::new();
        frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
        assert_eq!(&out[..], b"\x0d\x1a\x0b\x12\x07ipn:2.1\x28\x03");
        let mut out = BytesMut::new();
        frame(&AapResponse::new(AapStatus::Success), &mut out);
        // A response with status 1.
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

//! Bundles encoded for each convergence layer, in units of equal length, so that a relay that only counts bytes or
//! datagrams can forward whole units.

use farlink_base::{Accel, Bytes, CreationTimestamp, EndpointId, Payload};
use farlink_bundle::Bundle;
use farlink_cla::ltp::segment::{Data, SERVICE_AGGREGATE, SERVICE_BUNDLE, Segment, SegmentBody, SessionId, kind};
use farlink_cla::oneway::Framing;
use farlink_cla::udpcl::packet::segment_head;
use farlink_lab::probes::retention::WatchedLayer;

/// Length of a bundle's payload, in bytes.
const PAYLOAD: u64 = 3000;
/// Length of the payload of a bundle in a single datagram, in bytes; the probe does not reassemble IP fragments.
const PAYLOAD_DATAGRAM: u64 = 1300;
/// Maximum data in one datagram, in bytes.
const DATAGRAM: usize = 1360;
/// Number of bundles in an aggregated block.
const AGGREGATED: u64 = 10;

/// Kind of traffic: convergence layer and form of its transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    TcpclV4,
    /// Transfers of three segments, with a KEEPALIVE after the first.
    TcpclV4Pieces,
    TcpclV3,
    Stcp,
    Mtcp,
    Udpcl,
    /// UDPCL version 2, several datagrams per transfer.
    UdpclPieces,
    /// LTP, one block per bundle.
    Ltp,
    LtpAggregated,
    /// Aggregated LTP block: the client service ID stands before each bundle.
    LtpMarked,
    /// TCPCLv4 session that switches to TLS; the relay forwards it unread.
    Tls,
}

impl Traffic {
    pub const ALL: [(Traffic, &'static str); 11] = [
        (Traffic::TcpclV4, "TCPCLv4"),
        (Traffic::TcpclV4Pieces, "TCPCLv4, three segments"),
        (Traffic::TcpclV3, "TCPCLv3"),
        (Traffic::Stcp, "STCP"),
        (Traffic::Mtcp, "MTCP"),
        (Traffic::Udpcl, "UDPCL"),
        (Traffic::UdpclPieces, "UDPCL version 2, three datagrams"),
        (Traffic::Ltp, "LTP"),
        (Traffic::LtpAggregated, "LTP, ten bundles a block"),
        (Traffic::LtpMarked, "LTP, ten marked bundles a block"),
        (Traffic::Tls, "TCPCLv4 with TLS"),
    ];

    pub fn layer(self) -> WatchedLayer {
        match self {
            Traffic::TcpclV4 | Traffic::TcpclV4Pieces | Traffic::TcpclV3 | Traffic::Tls => WatchedLayer::Tcpcl,
            Traffic::Stcp => WatchedLayer::Stcp,
            Traffic::Mtcp => WatchedLayer::Mtcp,
            Traffic::Udpcl | Traffic::UdpclPieces => WatchedLayer::Udpcl,
            Traffic::Ltp | Traffic::LtpAggregated | Traffic::LtpMarked => WatchedLayer::Ltp,
        }
    }
    pub fn is_stream(self) -> bool {
        matches!(self.layer(), WatchedLayer::Tcpcl | WatchedLayer::Stcp | WatchedLayer::Mtcp)
    }
    /// Number of bundles in a unit.
    pub fn bundles(self) -> u64 {
        if matches!(self, Traffic::LtpAggregated | Traffic::LtpMarked) { AGGREGATED } else { 1 }
    }

    /// Bytes of a stream before its first unit.
    pub fn preamble(self) -> Vec<u8> {
        let hello =
            b"\x07\x00\x1e\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x07ipn:1.0\0\0\0\0";
        match self {
            Traffic::TcpclV4 | Traffic::TcpclV4Pieces => [&b"dtn!\x04\0"[..], hello].concat(),
            Traffic::TcpclV3 => b"dtn!\x03\0\0\x1e\x07ipn:1.0".to_vec(),
            // The contact header, and the beginning of a TLS record.
            Traffic::Tls => b"dtn!\x04\x01\x16\x03\x01\x02\x00\x01".to_vec(),
            _ => Vec::new(),
        }
    }
    /// Encodes one unit: the next bytes of a stream as one item, or datagrams.
    pub fn unit(self, number: u64) -> Vec<Vec<u8>> {
        let bundle = self.bundle(number);
        match self {
            Traffic::TcpclV4 => vec![v4_segment(3, number, Some(bundle.len()), &bundle)],
            Traffic::TcpclV4Pieces => {
                let (first, rest) = bundle.split_at(1000);
                let (second, third) = rest.split_at(1000);
                let first = v4_segment(2, number, Some(bundle.len()), first);
                let keepalive = [4];
                vec![
                    [&first[..], &keepalive, &v4_segment(0, number, None, second), &v4_segment(1, number, None, third)]
                        .concat(),
                ]
            }
            Traffic::TcpclV3 => {
                let length = [0x80 | (bundle.len() >> 7) as u8, (bundle.len() & 0x7f) as u8];
                vec![[&[0x13][..], &length, &bundle].concat()]
            }
            Traffic::Stcp => vec![framed(Framing::Stcp, &bundle)],
            Traffic::Mtcp => vec![framed(Framing::Mtcp, &bundle)],
            Traffic::Udpcl => vec![bundle],
            Traffic::UdpclPieces => transfer(number, &bundle),
            Traffic::Ltp => block(number, SERVICE_BUNDLE, &bundle),
            Traffic::LtpAggregated | Traffic::LtpMarked => {
                let marked = self == Traffic::LtpMarked;
                let mark = if marked { &[SERVICE_BUNDLE as u8][..] } else { &[] };
                let all = (0..AGGREGATED).map(|part| self.bundle(number * AGGREGATED + part));
                let all: Vec<u8> = all.flat_map(|bundle| [mark, &bundle].concat()).collect();
                block(number, if marked { SERVICE_AGGREGATE } else { SERVICE_BUNDLE }, &all)
            }
            Traffic::Tls => vec![[&b"\x17\x03\x03\x0b\xb8"[..], &[7; 3000]].concat()],
        }
    }

    /// Encodes a bundle; all of the first 50,000 have the same length.
    pub fn bundle(self, number: u64) -> Vec<u8> {
        let payload = if self == Traffic::Udpcl { PAYLOAD_DATAGRAM } else { PAYLOAD };
        let creation = CreationTimestamp { sequence: 1000 + number, ..CreationTimestamp::default() };
        let made = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(3, 1), creation);
        let wire = made.payload(Payload::fill(number, payload)).build().encode(&Accel::default()).into_payload();
        let mut bytes = vec![0; wire.len() as usize];
        wire.copy_to(0, &mut bytes);
        bytes
    }
}

fn v4_segment(flags: u8, id: u64, total: Option<usize>, data: &[u8]) -> Vec<u8> {
    let mut out = vec![1, flags];
    out.extend(id.to_be_bytes());
    if let Some(total) = total {
        out.extend([0, 0, 0, 13, 0, 0, 1, 0, 8]);
        out.extend((total as u64).to_be_bytes());
    }
    out.extend((data.len() as u64).to_be_bytes());
    [out.as_slice(), data].concat()
}
fn framed(framing: Framing, bundle: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    framing.put_head(&mut head, bundle.len() as u64);
    [head.as_slice(), bundle].concat()
}
fn transfer(number: u64, bundle: &[u8]) -> Vec<Vec<u8>> {
    let (mut packets, mut at, total) = (Vec::new(), 0, bundle.len() as u64);
    while at < total {
        // A large number, so that transfer numbers of all bundles are encoded in equally many bytes.
        let (head, len) = segment_head((1 << 40) + number, total, at, DATAGRAM as u64);
        packets.push([&head[..], &bundle[at as usize..(at + len) as usize]].concat());
        at += len;
    }
    packets
}
fn block(number: u64, service: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut offset = 0;
    let segments = bytes.chunks(DATAGRAM).map(|data| {
        let last = offset + data.len() == bytes.len();
        let (start, length) = (offset as u64, data.len() as u64);
        offset += data.len();
        let kind = if last { kind::BLOCK_END } else { kind::RED };
        let head = Data { kind, service, offset: start, length, checkpoint: last.into(), report: 0 };
        let body = SegmentBody::Data(head, Bytes::copy_from_slice(data));
        Segment { session: SessionId { engine: 1, number: 1000 + number }, body }.emit().to_vec()
    });
    segments.collect()
}

//! Conversations seen at one place of a link, each with the passive reader of its layer.

use super::{RetentionSubject, WatchedLayer, WatchedPort};
use crate::probes::flow::TcpOrder;
use crate::probes::packet::{Packet, Transport};
use farlink_base::Instant;
use farlink_bundle::BundleEnd;
use farlink_cla::ltp::LtpReader;
use farlink_cla::oneway::{Framing, OneWayReader};
use farlink_cla::reading::{PassiveReader, Reading};
use farlink_cla::tcpcl_v4::TcpclReader;
use farlink_cla::udpcl::UdpclReader;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Maximum number of conversations followed at once; packets of others are not read.
const CONVERSATIONS_MAX: usize = 4096;

/// One direction of a connection, or datagrams from one address to another.
struct Conversation {
    reader: Box<dyn PassiveReader + Send>,
    /// Reassembly of a connection's bytes; `None` for datagrams.
    order: Option<TcpOrder>,
    /// Whether the conversation has ended, or cannot be followed further.
    lost: bool,
}

/// All conversations seen at one place, by transport and addresses.
pub struct Conversations {
    open: BTreeMap<(bool, SocketAddr, SocketAddr), Conversation>,
    unread: u64,
}

impl WatchedLayer {
    fn is_stream(self) -> bool {
        matches!(self, WatchedLayer::Tcpcl | WatchedLayer::Stcp | WatchedLayer::Mtcp)
    }
    fn reader(self) -> Box<dyn PassiveReader + Send> {
        match self {
            WatchedLayer::Tcpcl => Box::new(TcpclReader::new()),
            WatchedLayer::Stcp => Box::new(OneWayReader::new(Framing::Stcp)),
            WatchedLayer::Mtcp => Box::new(OneWayReader::new(Framing::Mtcp)),
            WatchedLayer::Udpcl => Box::new(UdpclReader::<BundleEnd>::new()),
            WatchedLayer::Ltp => Box::new(LtpReader::<BundleEnd>::new()),
        }
    }
}

impl Conversations {
    pub const fn new() -> Self {
        Conversations { open: BTreeMap::new(), unread: 0 }
    }
    /// Number of payload bytes that could not be read.
    pub fn unread(&self) -> u64 {
        self.unread + self.open.values().map(|conversation| conversation.reader.unread()).sum::<u64>()
    }

    /// Reads a frame that passed at `at_ns`, if it belongs to one of these ports, and calls `each` with its findings.
    pub fn frame(
        &mut self,
        at_ns: u64,
        bytes: &[u8],
        ports: &[WatchedPort],
        each: &mut dyn FnMut(RetentionSubject, Reading<'_>),
    ) {
        let Some(packet) = Packet::read(bytes) else {
            // Fragments are not reassembled: a layer over datagrams should send none.
            self.unread += Packet::fragment_bytes(bytes) as u64;
            return;
        };
        let stream = matches!(packet.transport, Transport::Tcp { .. });
        let watched = ports.iter().find(|watched| {
            // The port on which a node listens is the source port of packets in the other direction.
            watched.layer.is_stream() == stream && [packet.to.port(), packet.from.port()].contains(&watched.port)
        });
        let Some(WatchedPort { layer, subject, .. }) = watched.copied() else { return };
        let each = &mut |reading: Reading<'_>| each(subject, reading);
        let key = (stream, packet.from, packet.to);
        if let Transport::Tcp { sequence, begins: true, .. } = packet.transport {
            self.begin(key, sequence, layer, each);
        } else if !stream && !self.open.contains_key(&key) && self.open.len() < CONVERSATIONS_MAX {
            self.open.insert(key, Conversation { reader: layer.reader(), order: None, lost: false });
        }
        let Some(conversation) = self.open.get_mut(&key).filter(|conversation| !conversation.lost) else {
            // The connection began before the probe, or there is no room for the conversation.
            self.unread += packet.payload.len() as u64;
            return;
        };
        conversation.packet(at_ns, &packet, each);
    }
    /// Removes conversations that have ended; only late copies of segments could still come.
    fn forget_ended(&mut self) {
        let ended = self.open.extract_if(.., |_, conversation| conversation.lost);
        self.unread += ended.map(|(_, conversation)| conversation.reader.unread()).sum::<u64>();
    }
    /// Begins a connection, and ends an older one between the same ports. Repetitions of a SYN change nothing.
    fn begin(
        &mut self,
        key: (bool, SocketAddr, SocketAddr),
        syn: u32,
        layer: WatchedLayer,
        each: &mut dyn FnMut(Reading<'_>),
    ) {
        let same = |open: &Conversation| open.order.as_ref().is_some_and(|order| order.began_with(syn));
        if self.open.get(&key).is_some_and(same) {
            return;
        }
        if let Some(mut older) = self.open.remove(&key) {
            older.reader.end(each);
            self.unread += older.reader.unread();
        }
        if self.open.len() >= CONVERSATIONS_MAX {
            self.forget_ended();
        }
        if self.open.len() < CONVERSATIONS_MAX {
            let order = Some(TcpOrder::new(syn));
            self.open.insert(key, Conversation { reader: layer.reader(), order, lost: false });
        }
    }
}

impl Conversation {
    fn packet(&mut self, at_ns: u64, packet: &Packet<'_>, each: &mut dyn FnMut(Reading<'_>)) {
        let (Some(order), Transport::Tcp { sequence, begins, ends, resets }) = (&mut self.order, packet.transport)
        else {
            return packet.datagrams().for_each(|datagram| self.reader.push(Instant(at_ns), datagram, each));
        };
        let reader = &mut self.reader;
        // A SYN itself takes the sequence number before the first byte.
        let sequence = sequence.wrapping_add(begins.into());
        let taken = order.take(at_ns, sequence, packet.payload, ends, &mut |at_ns, bytes| {
            reader.push(Instant(at_ns), bytes, each);
        });
        if taken.is_err() || resets || order.is_over() {
            self.lost = true;
            reader.end(each);
        }
        if taken.is_err() {
            each(Reading::Lost("too much behind a gap of a connection"));
        }
    }
}

//! What whole bundles weigh on links: the packets that layers would cut them into.

use crate::messages::Framing;
use crate::tls;
use farlink_link::UDP_IPV4_HEADERS;
use farlink_scenario::{Layer, LayerInfo, Medium, Scenario};
use farlink_stack::{Identity, LayerKind, LinkParams, Neighbour};

/// Bytes of data in a full TCP segment on Ethernet, and of the headers around it.
const TCP_SEGMENT: u64 = 1448;
const TCP_HEADERS: u64 = 52;

/// What whole bundles weigh on a link: the packets its layer would cut them into.
pub(crate) fn framing(scenario: &Scenario, link: usize) -> Framing {
    weight(&scenario.links[link].layer, scenario.is_secured(link).unwrap_or_default())
}

/// The same over a layer, whose sessions are secured or not.
pub(crate) fn weight(layer: &Layer, secured: bool) -> Framing {
    let headers = UDP_IPV4_HEADERS;
    match layer.kind.medium {
        Medium::Datagrams => {
            let datagram = layer.value("datagram").unwrap_or(TCP_SEGMENT);
            // Cheap and once a link: what authentication adds follows from the layer's own parameters.
            let known = LayerKind::new(layer.kind, Identity::default(), &[]);
            let span = known.map(|kind| kind.link(Neighbour::default(), &layer.settings));
            let shown = if let Some(LinkParams::Ltp(span)) = span { span.authentication.bytes() } else { 0 };
            let own = layer.kind.header_bytes + shown;
            packets(layer.kind, datagram.max(64 + shown) - own, headers + own)
        }
        Medium::Streams => {
            // What records add is taken from each segment.
            let records = if secured { (TCP_SEGMENT * tls::RECORD_BYTES).div_ceil(tls::RECORD_MAX) } else { 0 };
            packets(layer.kind, TCP_SEGMENT - records, TCP_HEADERS + records)
        }
    }
}

/// How a node reckons with what bundles weigh.
pub(crate) fn message_span(weight: &Framing, overhead: u64) -> LinkParams {
    let packet = weight.payload_bytes + weight.header_bytes + overhead;
    LinkParams::Message { wire_bytes_per_million: packet * 1_000_000 / weight.payload_bytes }
}

/// What bundles weigh on a link: the packets a layer would cut them into.
const fn packets(layer: &LayerInfo, payload_bytes: u64, header_bytes: u64) -> Framing {
    Framing { payload_bytes, header_bytes, losses: !layer.repairs, outlives: layer.outlives, stops: layer.stops }
}

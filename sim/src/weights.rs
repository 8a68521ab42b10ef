//! Sizes of whole bundles on links, from the packets that layers would produce.

use crate::messages::Framing;
use crate::tls;
use farlink_link::UDP_IPV4_HEADERS;
use farlink_scenario::{Layer, LayerInfo, Medium, Scenario};
use farlink_stack::{Identity, LayerKind, LinkParams, Neighbour};

/// Data bytes of a full TCP segment on Ethernet, and the headers around it.
const TCP_SEGMENT: u64 = 1448;
const TCP_HEADERS: u64 = 52;

/// Framing of bundles on a link, from the packets that its layer would produce.
pub(crate) fn framing(scenario: &Scenario, link: usize) -> Framing {
    weight(&scenario.links[link].layer, scenario.is_secured(link).unwrap_or_default())
}

/// Framing for a layer, with secured sessions or without.
pub(crate) fn weight(layer: &Layer, secured: bool) -> Framing {
    let headers = UDP_IPV4_HEADERS;
    match layer.kind.medium {
        Medium::Datagrams => {
            let datagram = layer.value("datagram").unwrap_or(TCP_SEGMENT);
            // The overhead of authentication follows from the layer's parameters. Building the layer for them is cheap,
            // and happens only while links and radios are set up.
            let known = LayerKind::new(layer.kind, Identity::default(), &[]);
            let span = known.map(|kind| kind.link(Neighbour::default(), &layer.settings));
            let shown = if let Some(LinkParams::Ltp(span)) = span { span.authentication.bytes() } else { 0 };
            let own = layer.kind.header_bytes + shown;
            packets(layer.kind, datagram.max(64 + shown) - own, headers + own)
        }
        Medium::Streams => {
            // Record overhead reduces the data of each segment.
            let records = if secured { (TCP_SEGMENT * tls::RECORD_BYTES).div_ceil(tls::RECORD_MAX) } else { 0 };
            packets(layer.kind, TCP_SEGMENT - records, TCP_HEADERS + records)
        }
    }
}

/// Overhead of a link as a node's forecasts count it.
pub(crate) fn message_span(weight: &Framing, overhead: u64) -> LinkParams {
    let packet = weight.payload_bytes + weight.header_bytes + overhead;
    LinkParams::Message { wire_bytes_per_million: packet * 1_000_000 / weight.payload_bytes }
}

const fn packets(layer: &LayerInfo, payload_bytes: u64, header_bytes: u64) -> Framing {
    // A layer's losses, outages and cancellation are those of its real counterpart.
    Framing { payload_bytes, header_bytes, losses: !layer.repairs, outlives: layer.outlives, stops: layer.stops }
}

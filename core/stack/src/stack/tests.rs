//! State that ends with the transfer it belongs to: it would otherwise grow for as long as a node runs.

use super::*;
use crate::config::LayerConfig;
use crate::kinds::LayerKind;
use crate::outputs::LayerOutputs;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use farlink_base::layer::{Output as LayerOutput, SendId, WINDOW};
use farlink_base::{Chunk, Clock, EndpointId, Extent, Leaving, LinkId, Payload, StreamId, socket};
use farlink_cla::oneway;

/// A node that accepts bundles by STCP.
fn stack() -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let kind = LayerKind::OneWay(oneway::Config::default());
    config.layers = Vec::from([LayerConfig { name: "in".into(), kind }]);
    config.node.limits.bundle_bytes = 1 << 20;
    let mut stack = Stack::new(config).expect("right");
    stack.handle(Instant::ZERO, Input::Clock(Clock::UNTRUSTED), &mut Vec::new());
    stack
}

#[test]
fn refused_offer_is_forgotten() {
    let (mut stack, stream) = (stack(), StreamId(StreamId::PASSIVE | 1));
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
    // STCP announces the length: 2 MiB.
    let mut data = Payload::from(&[0, 0x20, 0, 0][..]);
    data.append(Payload::from(alloc::vec![0x9f; 300_000]));
    let mut out = Vec::new();
    for input in [socket::Input::Opened { stream, from }, socket::Input::Data { stream, data }] {
        stack.handle(Instant::ZERO, Input::Socket(LayerId(0), input), &mut out);
    }
    let arrivals = stack.arrivals.made().expect("one was offered");
    assert_eq!(arrivals.offers(), 0);
}

#[test]
fn sent_bundle_is_read_no_more() {
    let (mut stack, mut todo) = (stack(), Vec::new());
    let (link, id, mut rope) = (LinkId(0), SendId(1), Payload::new());
    rope.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len: 3 * WINDOW });
    stack.outgoing.send(link, (id, rope), (true, Leaving::AS_IT_IS), &mut todo);
    stack.outgoing.loaded(FIRST_SEND_LOAD, Ok(Payload::fill(1, WINDOW)), &mut todo);
    todo.clear();
    let Stack { work, arrivals, outgoing, edges, link_layer, todo: acts, .. } = &mut stack;
    let (layer, out) = (LayerId(0), &mut Vec::new());
    let mut outputs = LayerOutputs { layer, work, out, arrivals, outgoing, edges, link_layer, todo: acts, owner: None };
    Sink::<LayerOutput>::push(&mut outputs, LayerOutput::Sent { id, link });
    stack.outgoing.want(id, WINDOW, WINDOW, &mut todo);
    assert!(todo.is_empty(), "{todo:?}");
}

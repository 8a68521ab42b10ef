//! Implementation of `Protocol` for UDPCL: its registry row, its settings and its construction.

use super::{Config, LINK_PARAMS, LinkParams, PARAMS, Udpcl, sender_result};
use crate::protocol::{Identity, Neighbour, Position, Protocol};
use crate::registry::{Introduction, LayerInfo, Medium};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, Output};
use farlink_base::{Duration, Instant, LayerParam, LinkId, Sink, StreamId, settings};

impl Protocol for Udpcl {
    type Config = Config;
    type Link = LinkParams;

    const LAYERS: &'static [LayerInfo] = &[LayerInfo {
        name: "udpcl",
        short: "UDPCL",
        title: "UDPCL (RFC 7122; draft-ietf-dtn-udpcl)",
        summary: "a bundle, or a part of one, per datagram; no retransmission",
        announced: "udp",
        announced_number: None,
        medium: Medium::Datagrams,
        introduction: Introduction::NodeId,
        port: 4556,
        settings: || settings(PARAMS),
        link_settings: || settings(LINK_PARAMS),
        sender_result,
        // Bundles not sent return to the agent as soon as the link is down.
        outlives: Duration::ZERO,
        header_bytes: 0,
        stops: true,
        repairs: false,
        one_way: false,
        sessions: false,
        held: &["memory"],
    }];
    const LINK_PARAMS: &'static [LayerParam<LinkParams>] = LINK_PARAMS;

    fn config(_: &LayerInfo, own: Identity) -> Config {
        Config { node_id: own.node_id, ..Config::default() }
    }
    fn params(_: &LayerInfo) -> &'static [LayerParam<Config>] {
        PARAMS
    }
    fn info(_: &Config) -> &'static LayerInfo {
        &Self::LAYERS[0]
    }
    fn link(Neighbour { identity, .. }: Neighbour) -> LinkParams {
        LinkParams { node_id: identity.node_id, ..LinkParams::default() }
    }
    fn create(config: &Config, Position { layer, seed, split }: Position, links: Vec<(LinkId, LinkParams)>) -> Udpcl {
        let links = links.into_iter().map(|(link, params)| LinkParams { link, ..params }).collect();
        Udpcl::new(Config { layer, seed, split, ..config.clone() }, links)
    }

    fn wire_bytes_per_million(link: &LinkParams) -> u64 {
        let datagram = u64::from(link.datagram_bytes.max(64));
        (datagram + u64::from(link.overhead_bytes)) * 1_000_000 / datagram
    }
    fn largest_bundle(link: &LinkParams) -> Option<u64> {
        link.largest()
    }
    fn lacks_key(_: &LinkParams) -> bool {
        false
    }
    fn discovered(link: LinkParams, _: Duration) -> LinkParams {
        link
    }

    fn add_link(&mut self, now: Instant, link: LinkId, params: LinkParams, out: &mut impl Sink<Output>) -> bool {
        self.add_span(now, LinkParams { link, ..params }, out)
    }
    fn rekey(&mut self, _: LinkId, _: &LinkParams) -> bool {
        false
    }
    fn serves(&self, _: &str, _: IpAddr) -> bool {
        false
    }
    fn shrink(&mut self) {}
    fn handle_soon(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) -> Option<StreamId> {
        self.handle(now, input, out);
        None
    }
    fn write(&mut self, _: Instant, _: StreamId, _: &mut impl Sink<Output>) {}
}

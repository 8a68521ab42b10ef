//! Implementation of `Protocol` for TCPCLv4 and TCPCLv3: their registry rows, settings and construction.

use super::{Config, LINK_PARAMS, LinkParams, PARAMS, PARK, TcpclV4, Versions, sender_result};
use crate::protocol::{Identity, Neighbour, Position, Protocol};
use crate::registry::{Introduction, LayerInfo, Medium};
use crate::{streams, tcpcl_v3};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{Input, Output};
use farlink_base::{Duration, Instant, LayerParam, LinkId, Sink, StreamId, settings};

impl Protocol for TcpclV4 {
    type Config = Config;
    type Link = LinkParams;

    const LAYERS: &'static [LayerInfo] = &[
        LayerInfo {
            name: "tcpclv4",
            short: "TCPCLv4",
            title: "TCPCLv4 (RFC 9174)",
            summary: "sessions over TCP, every bundle acknowledged",
            announced: "tcp",
            announced_number: Some(0),
            medium: Medium::Streams,
            introduction: Introduction::NodeId,
            port: 4556,
            settings: || settings(PARAMS),
            link_settings: || settings(LINK_PARAMS),
            sender_result,
            outlives: PARK,
            header_bytes: 0,
            stops: false,
            repairs: true,
            one_way: false,
            sessions: true,
            held: &[],
        },
        LayerInfo {
            name: "tcpclv3",
            short: "TCPCLv3",
            title: "TCPCLv3 (RFC 7242)",
            summary: "the version that ION and µD3TN use",
            announced: "tcpclv3",
            announced_number: None,
            medium: Medium::Streams,
            introduction: Introduction::NodeId,
            port: 4556,
            settings: || settings(tcpcl_v3::PARAMS),
            link_settings: || settings(LINK_PARAMS),
            sender_result: tcpcl_v3::sender_result,
            outlives: PARK,
            header_bytes: 0,
            stops: false,
            repairs: true,
            one_way: false,
            sessions: true,
            held: &[],
        },
    ];
    const LINK_PARAMS: &'static [LayerParam<LinkParams>] = LINK_PARAMS;

    fn config(info: &LayerInfo, own: Identity) -> Config {
        let versions = if info.name == Self::LAYERS[1].name { Versions::Three } else { Versions::Four };
        Config { node_id: own.node_id, versions, ..Config::default() }
    }
    fn params(info: &LayerInfo) -> &'static [LayerParam<Config>] {
        if info.name == Self::LAYERS[1].name { tcpcl_v3::PARAMS } else { PARAMS }
    }
    fn info(config: &Config) -> &'static LayerInfo {
        &Self::LAYERS[usize::from(config.versions == Versions::Three)]
    }
    fn link(Neighbour { identity, connect, .. }: Neighbour) -> LinkParams {
        LinkParams { node_id: identity.node_id, connect, ..LinkParams::default() }
    }
    fn create(config: &Config, position: Position, links: Vec<(LinkId, LinkParams)>) -> TcpclV4 {
        let links = links.into_iter().map(|(link, params)| LinkParams { link, ..params }).collect();
        TcpclV4::new(Config { layer: position.layer, ..config.clone() }, links)
    }

    fn wire_bytes_per_million(_: &LinkParams) -> u64 {
        streams::WIRE_BYTES_PER_MILLION
    }
    fn largest_bundle(_: &LinkParams) -> Option<u64> {
        None
    }
    fn lacks_key(_: &LinkParams) -> bool {
        false
    }
    fn discovered(link: LinkParams, interval: Duration) -> LinkParams {
        LinkParams { hearsay: true, reconnect_min: interval, reconnect_max: interval, ..link }
    }

    fn add_link(&mut self, now: Instant, link: LinkId, params: LinkParams, out: &mut impl Sink<Output>) -> bool {
        self.add_span(now, LinkParams { link, ..params }, out)
    }
    fn rekey(&mut self, _: LinkId, _: &LinkParams) -> bool {
        false
    }
    fn serves(&self, node_id: &str, at: IpAddr) -> bool {
        TcpclV4::serves(self, node_id, at)
    }
    fn shrink(&mut self) {}
    fn handle_soon(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) -> Option<StreamId> {
        TcpclV4::handle_soon(self, now, input, out)
    }
    fn write(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        TcpclV4::write(self, now, stream, out);
    }
}

//! Implementation of `Protocol` for STCP and MTCP: their registry rows, settings and construction.

use super::{Config, Framing, LINK_PARAMS, LinkParams, OneWay, PARAMS, PARK, sender_result};
use crate::protocol::{Identity, Neighbour, Position, Protocol};
use crate::registry::{Introduction, LayerInfo, Medium};
use crate::streams;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, Output};
use farlink_base::{Duration, Instant, LayerParam, LinkId, Setting, Sink, StreamId, settings, settings_of};

/// Registry row of STCP or MTCP. Neither has an assigned port; ION uses the one for STCP, and dtn7 the one for MTCP.
const fn row(
    name: &'static str,
    short: &'static str,
    title: &'static str,
    port: u16,
    announced_number: Option<u64>,
    of_layer: fn() -> Vec<Setting>,
) -> LayerInfo {
    LayerInfo {
        name,
        short,
        title,
        summary: "bundles in sequence over TCP, without acknowledgments",
        announced: name,
        announced_number,
        medium: Medium::Streams,
        introduction: Introduction::None,
        port,
        settings: of_layer,
        link_settings: || settings(LINK_PARAMS),
        sender_result,
        outlives: PARK,
        header_bytes: 0,
        stops: false,
        repairs: true,
        one_way: true,
        sessions: true,
        held: &["kept"],
    }
}

impl Protocol for OneWay {
    type Config = Config;
    type Link = LinkParams;

    const LAYERS: &'static [LayerInfo] = &[
        row("stcp", "STCP", "STCP (draft-burleigh-dtn-stcp)", 4456, None, || {
            settings_of(PARAMS, &Config::of(Framing::Stcp))
        }),
        row("mtcp", "MTCP", "MTCP (draft-ietf-dtn-mtcpcl-01)", 16162, Some(10), || {
            settings_of(PARAMS, &Config::of(Framing::Mtcp))
        }),
    ];
    const LINK_PARAMS: &'static [LayerParam<LinkParams>] = LINK_PARAMS;

    fn config(info: &LayerInfo, _: Identity) -> Config {
        Config::of(if info.name == Self::LAYERS[1].name { Framing::Mtcp } else { Framing::Stcp })
    }
    fn params(_: &LayerInfo) -> &'static [LayerParam<Config>] {
        PARAMS
    }
    fn info(config: &Config) -> &'static LayerInfo {
        &Self::LAYERS[usize::from(config.framing == Framing::Mtcp)]
    }
    fn link(Neighbour { connect, .. }: Neighbour) -> LinkParams {
        LinkParams { connect, ..LinkParams::default() }
    }
    fn create(config: &Config, position: Position, links: Vec<(LinkId, LinkParams)>) -> OneWay {
        let links = links.into_iter().map(|(link, params)| LinkParams { link, ..params }).collect();
        OneWay::new(Config { layer: position.layer, ..config.clone() }, links)
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
        LinkParams { reconnect_min: interval, reconnect_max: interval, ..link }
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

//! Implementation of `Protocol` for LTP: its registry row, its settings and its construction.

use super::{Config, HEADER_BYTES, LINK_PARAMS, Ltp, PARAMS, SpanConfig, sender_result};
use crate::protocol::{Identity, Neighbour, Position, Protocol};
use crate::registry::{Introduction, LayerInfo, Medium};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, Output};
use farlink_base::{Duration, Instant, LayerParam, LinkId, Sink, StreamId, settings};

impl Protocol for Ltp {
    type Config = Config;
    type Link = SpanConfig;

    const LAYERS: &'static [LayerInfo] = &[LayerInfo {
        name: "ltp",
        short: "LTP",
        title: "LTP (RFC 5326) over UDP (RFC 7122)",
        summary: "LTP over UDP, for links with long delay or loss",
        announced: "ltp",
        announced_number: None,
        medium: Medium::Datagrams,
        introduction: Introduction::Engine,
        port: 1113,
        settings: || settings(PARAMS),
        link_settings: || settings(LINK_PARAMS),
        sender_result,
        // Timers of LTP stop during an outage, so its sessions survive outages of any length.
        outlives: Duration::MAX,
        header_bytes: HEADER_BYTES,
        stops: true,
        repairs: true,
        one_way: false,
        sessions: false,
        held: &["memory", "in_flight"],
    }];
    const LINK_PARAMS: &'static [LayerParam<SpanConfig>] = LINK_PARAMS;

    fn config(_: &LayerInfo, own: Identity) -> Config {
        Config { engine: own.engine, ..Config::default() }
    }
    fn params(_: &LayerInfo) -> &'static [LayerParam<Config>] {
        PARAMS
    }
    fn info(_: &Config) -> &'static LayerInfo {
        &Self::LAYERS[0]
    }
    fn link(Neighbour { identity, node, .. }: Neighbour) -> SpanConfig {
        SpanConfig { engine: identity.engine, node, ..SpanConfig::default() }
    }
    fn create(config: &Config, Position { layer, seed, split }: Position, links: Vec<(LinkId, SpanConfig)>) -> Ltp {
        let spans = links.into_iter().map(|(link, span)| SpanConfig { link, ..span }).collect();
        Ltp::new(Config { layer, seed, split, ..config.clone() }, spans)
    }

    fn wire_bytes_per_million(span: &SpanConfig) -> u64 {
        let datagram = u64::from(span.datagram_bytes.max(64));
        let data = datagram.saturating_sub(HEADER_BYTES + span.authentication.bytes()).max(1);
        (datagram + u64::from(span.overhead_bytes)) * 1_000_000 / data
    }
    fn largest_bundle(_: &SpanConfig) -> Option<u64> {
        None
    }
    fn lacks_key(span: &SpanConfig) -> bool {
        span.authentication.lacks_key()
    }
    fn discovered(span: SpanConfig, _: Duration) -> SpanConfig {
        span
    }

    fn add_link(&mut self, now: Instant, link: LinkId, span: SpanConfig, out: &mut impl Sink<Output>) -> bool {
        self.add_span(now, SpanConfig { link, ..span }, out)
    }
    fn rekey(&mut self, link: LinkId, span: &SpanConfig) -> bool {
        self.replace_keys(link, &span.authentication)
    }
    fn serves(&self, _: &str, _: IpAddr) -> bool {
        false
    }
    fn shrink(&mut self) {
        self.rest();
    }
    fn handle_soon(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) -> Option<StreamId> {
        self.handle(now, input, out);
        None
    }
    fn write(&mut self, _: Instant, _: StreamId, _: &mut impl Sink<Output>) {}
}

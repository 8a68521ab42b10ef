//! The protocols a stack's layers can speak, each behind the same few questions: a new one is a variant
//! of [`LayerKind`], [`SpanConfig`] and [`Layer`], and a line in each `match` of this file.

use crate::build::{error, mismatch};
use crate::config::{Config, LayerConfig, LinkConfig};
use crate::shards::elsewhere::Elsewhere;
use crate::shards::{self, Shared};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{self, ConvergenceLayer, Medium};
use farlink_base::{ConfigError, Duration, Instant, LayerId, LinkId, NodeId, Rng, Sink, StreamId, apply_settings};
use farlink_cla::ltp::{self, Ltp};
use farlink_cla::oneway::{self, Framing, OneWay};
use farlink_cla::registry::LayerInfo;
use farlink_cla::tcpcl_v3;
use farlink_cla::tcpcl_v4::{self, TcpclV4, Versions};
use farlink_cla::udpcl::{self, Udpcl};

/// Which convergence layer, and its parameters.
#[derive(Clone, Debug)]
pub enum LayerKind {
    /// LTP over datagrams (RFC 5326).
    Ltp(ltp::Config),
    /// TCPCLv4 over streams (RFC 9174).
    TcpclV4(tcpcl_v4::Config),
    /// TCPCLv3 over streams (RFC 7242): the machine of TCPCLv4, told to speak version 3 alone.
    TcpclV3(tcpcl_v4::Config),
    /// STCP or MTCP over streams.
    OneWay(Framing, oneway::Config),
    /// Bundles in datagrams (RFC 7122).
    Udpcl(udpcl::Config),
    /// No protocol and no codec: whole bundles from node to node (message-level simulation only).
    Message,
}

/// Parameters of a layer for one link.
#[derive(Clone, PartialEq, Debug)]
pub enum SpanConfig {
    /// LTP.
    Ltp(ltp::SpanConfig),
    /// TCPCLv4 and TCPCLv3.
    TcpclV4(tcpcl_v4::LinkParams),
    /// STCP or MTCP.
    OneWay(oneway::LinkParams),
    /// UDPCL.
    Udpcl(udpcl::LinkParams),
    /// Message level.
    Message {
        /// Bytes on the link for each 1,000,000 bytes of bundle: 1,000,000 without headers.
        wire_bytes_per_million: u64,
    },
}

/// How a layer knows a node; each protocol takes what it has a word for.
#[derive(Clone, Default, Debug)]
pub struct Identity {
    /// Its node ID, as text.
    pub node_id: String,
    /// Its LTP engine number.
    pub engine: u64,
}

/// What a layer is told of a neighbour.
#[derive(Clone, Default, Debug)]
pub struct Neighbour {
    /// How it is known.
    pub identity: Identity,
    /// Its node ID in numbers.
    pub node: NodeId,
    /// Whether this side opens streams to it.
    pub connect: bool,
}

fn one_way(framing: Framing, settings: &[(&str, u64)]) -> LayerKind {
    let mut config = oneway::Config::of(framing);
    apply_settings(oneway::PARAMS, &mut config, settings);
    LayerKind::OneWay(framing, config)
}

impl LayerKind {
    /// The layer that the registry calls so, for a node of this identity, with these settings of it;
    /// `None`: the registry has no such name.
    pub fn new(info: &LayerInfo, own: Identity, settings: &[(&str, u64)]) -> Option<LayerKind> {
        let Identity { node_id, engine } = own;
        Some(match info.name {
            "ltp" => {
                let mut config = ltp::Config { engine, ..ltp::Config::default() };
                apply_settings(ltp::PARAMS, &mut config, settings);
                LayerKind::Ltp(config)
            }
            "tcpclv4" => {
                let mut config = tcpcl_v4::Config { node_id, ..tcpcl_v4::Config::default() };
                apply_settings(tcpcl_v4::PARAMS, &mut config, settings);
                LayerKind::TcpclV4(config)
            }
            "tcpclv3" => {
                let mut config = tcpcl_v4::Config { node_id, versions: Versions::Three, ..Default::default() };
                apply_settings(tcpcl_v3::PARAMS, &mut config, settings);
                LayerKind::TcpclV3(config)
            }
            "stcp" => one_way(Framing::Stcp, settings),
            "mtcp" => one_way(Framing::Mtcp, settings),
            "udpcl" => {
                let mut config = udpcl::Config { node_id, ..udpcl::Config::default() };
                apply_settings(udpcl::PARAMS, &mut config, settings);
                LayerKind::Udpcl(config)
            }
            _ => return None,
        })
    }
    /// Its row of the registry; of messages there is none.
    pub fn info(&self) -> Option<&'static LayerInfo> {
        LayerInfo::named(match self {
            LayerKind::Ltp(_) => "ltp",
            LayerKind::TcpclV4(_) => "tcpclv4",
            LayerKind::TcpclV3(_) => "tcpclv3",
            LayerKind::OneWay(Framing::Stcp, _) => "stcp",
            LayerKind::OneWay(Framing::Mtcp, _) => "mtcp",
            LayerKind::Udpcl(_) => "udpcl",
            LayerKind::Message => return None,
        })
    }
    /// The kind of socket a driver opens for each layer of this kind, apart from those of every other
    /// layer; `None`: the layer needs none.
    pub fn medium(&self) -> Option<Medium> {
        self.info().map(|info| info.medium)
    }
    /// Parameters for a link of this layer, with these settings of it.
    pub fn span(&self, to: Neighbour, settings: &[(&str, u64)]) -> SpanConfig {
        let Neighbour { identity: Identity { node_id, engine }, node, connect } = to;
        match self {
            LayerKind::Ltp(_) => {
                let mut span = ltp::SpanConfig { engine, node, ..ltp::SpanConfig::default() };
                apply_settings(ltp::LINK_PARAMS, &mut span, settings);
                SpanConfig::Ltp(span)
            }
            LayerKind::TcpclV4(_) | LayerKind::TcpclV3(_) => {
                let mut span = tcpcl_v4::LinkParams { node_id, connect, ..tcpcl_v4::LinkParams::default() };
                apply_settings(tcpcl_v4::LINK_PARAMS, &mut span, settings);
                SpanConfig::TcpclV4(span)
            }
            LayerKind::OneWay(..) => {
                let mut span = oneway::LinkParams { connect, ..oneway::LinkParams::default() };
                apply_settings(oneway::LINK_PARAMS, &mut span, settings);
                SpanConfig::OneWay(span)
            }
            LayerKind::Udpcl(_) => {
                let mut span = udpcl::LinkParams { node_id, ..udpcl::LinkParams::default() };
                apply_settings(udpcl::LINK_PARAMS, &mut span, settings);
                SpanConfig::Udpcl(span)
            }
            LayerKind::Message => SpanConfig::Message { wire_bytes_per_million: 1_000_000 },
        }
    }
}

impl SpanConfig {
    /// What a bundle costs on the link: LTP and its datagrams, or TCP/IP around full segments.
    pub(crate) fn wire_bytes_per_million(&self) -> u64 {
        match self {
            SpanConfig::Ltp(span) => {
                let datagram = u64::from(span.datagram_bytes.max(64));
                let data = datagram.saturating_sub(ltp::HEADER_BYTES + span.authentication.bytes()).max(1);
                (datagram + u64::from(span.overhead_bytes)) * 1_000_000 / data
            }
            // 1448 bytes of data in 1500 bytes of packet.
            SpanConfig::TcpclV4(_) | SpanConfig::OneWay(_) => 1_036_000,
            SpanConfig::Udpcl(span) => {
                let datagram = u64::from(span.datagram_bytes.max(64));
                (datagram + u64::from(span.overhead_bytes)) * 1_000_000 / datagram
            }
            SpanConfig::Message { wire_bytes_per_million } => *wire_bytes_per_million,
        }
    }
    /// Longest bundle that the link takes, bytes; `None`: any.
    pub(crate) fn largest(&self) -> Option<u64> {
        if let SpanConfig::Udpcl(span) = self { span.largest() } else { None }
    }
    /// The same for a neighbour whose name is hearsay, and which is tried once for each time it is found.
    pub fn found(mut self, again: Duration) -> SpanConfig {
        match &mut self {
            SpanConfig::TcpclV4(span) => {
                span.hearsay = true;
                (span.reconnect_min, span.reconnect_max) = (again, again);
            }
            SpanConfig::OneWay(span) => (span.reconnect_min, span.reconnect_max) = (again, again),
            SpanConfig::Ltp(_) | SpanConfig::Udpcl(_) | SpanConfig::Message { .. } => {}
        }
        self
    }
    /// Whether the neighbour is there only while a session with it is.
    pub(crate) fn has_sessions(&self) -> bool {
        matches!(self, SpanConfig::TcpclV4(_) | SpanConfig::OneWay(_))
    }
}

/// A convergence layer.
#[derive(Debug)]
pub(crate) enum Layer {
    Ltp(Box<Ltp>),
    TcpclV4(Box<TcpclV4>),
    OneWay(Box<OneWay>),
    Udpcl(Box<Udpcl>),
    Message,
    /// One of this shard that others use, too.
    Shared(Box<Shared>),
    /// One of another shard.
    Elsewhere(Box<Elsewhere>),
}

/// A node's layers, each with the spans of the links that use it.
pub(crate) fn layers(config: &Config) -> Result<Vec<Layer>, ConfigError> {
    let layers = config.layers.iter().enumerate();
    layers.map(|(index, layer)| shards::placed(config, index, || Layer::new(config, index, layer))).collect()
}

/// Spans of the links of one layer, each with its number.
fn spans<T>(
    config: &Config,
    index: usize,
    own: impl Fn(LinkId, &SpanConfig) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    let links = config.links.iter().enumerate().filter(|(_, link)| link.layer == index);
    let span = |(place, link): (usize, &LinkConfig)| {
        has_key(link)?;
        own(LinkId(place as u32), &link.span).ok_or_else(|| mismatch(&link.name, &config.layers[index].name))
    };
    links.map(span).collect()
}

/// Whether a link that needs a key has one.
pub(crate) fn has_key(link: &LinkConfig) -> Result<(), ConfigError> {
    match &link.span {
        SpanConfig::Ltp(span) if span.authentication.lacks_key() => {
            let path = alloc::format!("link.{}.authentication", link.name);
            Err(error(path, "a key that both ends share", "give the link a key, or take the authentication out"))
        }
        _ => Ok(()),
    }
}

impl Layer {
    /// Gives back room that a busy time needed.
    pub fn rest(&mut self) {
        match self {
            Layer::Ltp(layer) => layer.rest(),
            Layer::Shared(shared) => shared.layer.rest(),
            _ => {}
        }
    }
    fn new(config: &Config, index: usize, layer: &LayerConfig) -> Result<Layer, ConfigError> {
        let id = LayerId(index as u16);
        Ok(match &layer.kind {
            LayerKind::Ltp(settings) => {
                let spans = spans(config, index, |link, span| match span {
                    SpanConfig::Ltp(span) => Some(ltp::SpanConfig { link, ..span.clone() }),
                    _ => None,
                })?;
                let seed = Rng::stream(config.seed, 100 + index as u64).next_u64();
                let split = farlink_bundle::decode_prefix;
                Layer::Ltp(Box::new(Ltp::new(ltp::Config { layer: id, seed, split, ..settings.clone() }, spans)))
            }
            LayerKind::TcpclV4(settings) | LayerKind::TcpclV3(settings) => {
                let spans = spans(config, index, |link, span| match span {
                    SpanConfig::TcpclV4(span) => Some(tcpcl_v4::LinkParams { link, ..span.clone() }),
                    _ => None,
                })?;
                let settings = tcpcl_v4::Config { layer: id, ..settings.clone() };
                Layer::TcpclV4(Box::new(TcpclV4::new(settings, spans)))
            }
            LayerKind::OneWay(framing, settings) => {
                let spans = spans(config, index, |link, span| match span {
                    SpanConfig::OneWay(span) => Some(oneway::LinkParams { link, ..span.clone() }),
                    _ => None,
                })?;
                let settings = oneway::Config { layer: id, ..settings.clone() };
                Layer::OneWay(Box::new(OneWay::new(*framing, settings, spans)))
            }
            LayerKind::Udpcl(settings) => {
                let spans = spans(config, index, |link, span| match span {
                    SpanConfig::Udpcl(span) => Some(udpcl::LinkParams { link, ..span.clone() }),
                    _ => None,
                })?;
                let seed = Rng::stream(config.seed, 100 + index as u64).next_u64();
                let split = farlink_bundle::decode_prefix;
                Layer::Udpcl(Box::new(Udpcl::new(udpcl::Config { layer: id, seed, split, ..settings.clone() }, spans)))
            }
            LayerKind::Message => Layer::Message,
        })
    }
    /// Tells it something. What is to be written to the stream that it names may wait for [`Layer::write`].
    pub fn handle_soon(
        &mut self,
        now: Instant,
        input: layer::Input,
        out: &mut impl Sink<layer::Output>,
    ) -> Option<StreamId> {
        match self {
            Layer::TcpclV4(l) => return l.handle_soon(now, input, out),
            Layer::Ltp(l) => l.handle(now, input, out),
            Layer::OneWay(l) => l.handle(now, input, out),
            Layer::Udpcl(l) => l.handle(now, input, out),
            // They have no protocol: bundles bypass one, the stack talks to the others itself.
            Layer::Message | Layer::Shared(_) | Layer::Elsewhere(_) => {}
        }
        None
    }
    /// Writes to a stream what waits for it.
    pub fn write(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<layer::Output>) {
        if let Layer::TcpclV4(l) = self {
            l.write(now, stream, out);
        }
    }
    /// A link more; `None`: it is of another protocol, false: the layer has it already.
    pub fn add_span(
        &mut self,
        now: Instant,
        link: LinkId,
        span: SpanConfig,
        out: &mut impl Sink<layer::Output>,
    ) -> Option<bool> {
        Some(match (self, span) {
            (Layer::Ltp(l), SpanConfig::Ltp(span)) => l.add_span(now, ltp::SpanConfig { link, ..span }, out),
            (Layer::TcpclV4(l), SpanConfig::TcpclV4(span)) => {
                l.add_span(now, tcpcl_v4::LinkParams { link, ..span }, out)
            }
            (Layer::OneWay(l), SpanConfig::OneWay(span)) => l.add_span(now, oneway::LinkParams { link, ..span }, out),
            (Layer::Udpcl(l), SpanConfig::Udpcl(span)) => l.add_span(now, udpcl::LinkParams { link, ..span }, out),
            (Layer::Message, SpanConfig::Message { .. }) => true,
            (Layer::Elsewhere(l), _) => l.add(link),
            _ => return None,
        })
    }
    /// Other keys for a link, whose sessions go on; false: it must begin anew.
    pub fn rekey(&mut self, link: LinkId, span: &SpanConfig) -> bool {
        match (self, span) {
            (Layer::Ltp(l), SpanConfig::Ltp(span)) => l.rekey(link, &span.authentication),
            (Layer::Shared(shared), span) => shared.layer.rekey(link, span),
            // Its owner has the keys.
            (Layer::Elsewhere(_), _) => true,
            _ => false,
        }
    }
    /// Whether a peer that says this name is served at this address; layers without names know of none.
    pub fn serves(&self, node_id: &str, at: IpAddr) -> bool {
        match self {
            Layer::TcpclV4(l) => l.serves(node_id, at),
            Layer::Shared(shared) => shared.layer.serves(node_id, at),
            _ => false,
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Layer::Ltp(l) => l.next_timeout(),
            Layer::TcpclV4(l) => l.next_timeout(),
            Layer::OneWay(l) => l.next_timeout(),
            Layer::Udpcl(l) => l.next_timeout(),
            // What others wait to send leaves behind what this shard has for it.
            Layer::Shared(shared) => Instant::earliest([shared.desk.pending(), shared.layer.next_timeout()]),
            Layer::Message | Layer::Elsewhere(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use farlink_cla::registry::LAYERS;

    #[test]
    fn every_layer_of_the_registry_is_one_a_stack_can_hold_and_takes_its_settings() {
        for info in LAYERS {
            let most: Vec<(&str, u64)> = info.settings().iter().map(|setting| (setting.name, setting.max)).collect();
            let kind = LayerKind::new(info, Identity::default(), &most).expect(info.name);
            assert_eq!((kind.info(), kind.medium()), (Some(info), Some(info.medium)));
            let defaults: Vec<(&str, u64)> =
                info.settings().iter().map(|setting| (setting.name, setting.default)).collect();
            let [told, begun] =
                [&defaults[..], &[]].map(|settings| LayerKind::new(info, Identity::default(), settings));
            assert_eq!(format!("{told:?}"), format!("{begun:?}"), "its table says what it begins with");
            for setting in info.settings() {
                let other = if setting.default == setting.max { setting.min } else { setting.max };
                let told = LayerKind::new(info, Identity::default(), &[(setting.name, other)]);
                assert_ne!(format!("{told:?}"), format!("{begun:?}"), "{} obeys {}", info.name, setting.name);
            }
            let given: Vec<(&str, u64)> = info.link_settings().iter().map(|set| (set.name, set.max)).collect();
            let [given, default] = [&given[..], &[]].map(|settings| kind.span(Neighbour::default(), settings));
            assert_ne!(given, default, "{}", info.name);
            assert!(default.wire_bytes_per_million() > 1_000_000, "{}: there are headers", info.name);
        }
    }
}

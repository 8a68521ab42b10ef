//! Protocols that the layers of a stack can speak, one variant for each row of
//! [`each_protocol`](farlink_cla::each_protocol).
//!
//! One macro makes everything from that list, so that no `match` over protocols can be forgotten elsewhere.
//! [`LayerKind`] is a layer's configuration, [`LinkParams`] that of one of its links, `Layer` the running state
//! machine.

use crate::build::{error, mismatch};
use crate::config::{Config, LayerConfig, LinkConfig};
use crate::shards::remote_layer::RemoteLayer;
use crate::shards::{self, Shared};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{self, ConvergenceLayer, Medium};
use farlink_base::{ConfigError, Duration, Instant, LayerId, LayerParam, LinkId, Rng, Sink, StreamId, apply_settings};
use farlink_cla::protocol::{Position, Protocol};
use farlink_cla::registry::LayerInfo;

pub use farlink_cla::protocol::{Identity, Neighbour};

/// The value of a setting; `None` if the table has no setting of this name.
fn value<C>(table: &[LayerParam<C>], config: &C, name: &str) -> Option<u64> {
    table.iter().find(|row| row.name == name).map(|row| (row.get)(config))
}

macro_rules! layers {
    ($($name:ident: $protocol:ty,)*) => {
        /// Protocol of a convergence layer, and its settings.
        #[derive(Clone, Debug)]
        pub enum LayerKind {
            $(
                #[doc = concat!("Configuration of [`", stringify!($protocol), "`].")]
                $name(<$protocol as Protocol>::Config),
            )*
            /// No protocol and no codec: whole bundles from node to node (message-level simulation only).
            Message,
        }

        /// Settings of a layer for one link.
        #[derive(Clone, PartialEq, Debug)]
        pub enum LinkParams {
            $(
                #[doc = concat!("A link of [`", stringify!($protocol), "`].")]
                $name(<$protocol as Protocol>::Link),
            )*
            /// Whole bundles in place of packets, for the simulator.
            Message {
                /// Bytes on the link for each 1,000,000 bytes of bundle: 1,000,000 without headers.
                wire_bytes_per_million: u64,
            },
        }

        /// A convergence layer that a stack holds.
        #[derive(Debug)]
        pub(crate) enum Layer {
            $($name(Box<$protocol>),)*
            Message,
            /// A layer of this shard that other shards use, too.
            Shared(Box<Shared>),
            /// A layer of another shard.
            Remote(Box<RemoteLayer>),
        }

        impl LayerKind {
            /// Configuration of a layer with this row of the registry, at a node of this identity, with these settings
            /// applied. `None` if no protocol has the row.
            pub fn new(info: &LayerInfo, own: Identity, settings: &[(&str, u64)]) -> Option<LayerKind> {
                $(
                    if <$protocol>::LAYERS.contains(info) {
                        let mut config = <$protocol>::config(info, own);
                        apply_settings(<$protocol>::params(info), &mut config, settings);
                        return Some(LayerKind::$name(config));
                    }
                )*
                None
            }
            /// Row of the registry; `None` for messages, which have none.
            pub fn info(&self) -> Option<&'static LayerInfo> {
                match self {
                    $(LayerKind::$name(config) => Some(<$protocol>::info(config)),)*
                    LayerKind::Message => None,
                }
            }
            /// The value of a setting of the layer, in its unit; `None`: it has no such setting.
            pub fn value(&self, name: &str) -> Option<u64> {
                match self {
                    $(LayerKind::$name(config) => value(<$protocol>::params(<$protocol>::info(config)), config, name),)*
                    LayerKind::Message => None,
                }
            }
            /// Lowers a setting that bounds the layer's memory to `bound`, even below the minimum that configuration
            /// files may give.
            pub fn lower(&mut self, name: &str, bound: u64) {
                match self {
                    $(
                        LayerKind::$name(config) => {
                            let rows = <$protocol>::params(<$protocol>::info(config));
                            if let Some(row) = rows.iter().find(|row| row.name == name) {
                                (row.set)(config, bound.min((row.get)(config)));
                            }
                        }
                    )*
                    LayerKind::Message => {}
                }
            }
            /// Parameters for a link of this layer to a neighbour, with these settings applied.
            pub fn link(&self, to: Neighbour, settings: &[(&str, u64)]) -> LinkParams {
                match self {
                    $(
                        LayerKind::$name(_) => {
                            let mut link = <$protocol>::link(to);
                            apply_settings(<$protocol>::LINK_PARAMS, &mut link, settings);
                            LinkParams::$name(link)
                        }
                    )*
                    LayerKind::Message => LinkParams::Message { wire_bytes_per_million: 1_000_000 },
                }
            }
        }

        impl LinkParams {
            /// Bytes on the medium for each 1,000,000 bytes of bundle.
            pub(crate) fn wire_bytes_per_million(&self) -> u64 {
                match self {
                    $(LinkParams::$name(link) => <$protocol>::wire_bytes_per_million(link),)*
                    LinkParams::Message { wire_bytes_per_million } => *wire_bytes_per_million,
                }
            }
            /// Longest bundle that the link takes, bytes; `None`: any.
            pub(crate) fn largest_bundle(&self) -> Option<u64> {
                match self {
                    $(LinkParams::$name(link) => <$protocol>::largest_bundle(link),)*
                    LinkParams::Message { .. } => None,
                }
            }
            /// Whether the neighbour is reachable only while a session with it is open.
            pub(crate) fn has_sessions(&self) -> bool {
                match self {
                    $(LinkParams::$name(_) => <$protocol>::LAYERS[0].sessions,)*
                    LinkParams::Message { .. } => false,
                }
            }
            /// Whether the link is set to authenticate and has no key.
            fn lacks_key(&self) -> bool {
                match self {
                    $(LinkParams::$name(link) => <$protocol>::lacks_key(link),)*
                    LinkParams::Message { .. } => false,
                }
            }
            /// Parameters adapted to a discovered neighbour, which announces itself every `interval`.
            pub fn discovered(self, interval: Duration) -> LinkParams {
                match self {
                    $(LinkParams::$name(link) => LinkParams::$name(<$protocol>::discovered(link, interval)),)*
                    message @ LinkParams::Message { .. } => message,
                }
            }
            /// The value of a setting of the link, in its unit; `None`: it has no such setting.
            pub fn value(&self, name: &str) -> Option<u64> {
                match self {
                    $(LinkParams::$name(link) => value(<$protocol>::LINK_PARAMS, link, name),)*
                    LinkParams::Message { .. } => None,
                }
            }
        }

        impl Layer {
            fn new(config: &Config, index: usize, layer: &LayerConfig) -> Result<Layer, ConfigError> {
                let seed = Rng::stream(config.seed, 100 + index as u64).next_u64();
                let position = Position { layer: LayerId(index as u16), seed, split: farlink_bundle::decode_prefix };
                Ok(match &layer.kind {
                    $(
                        LayerKind::$name(settings) => {
                            let links = links(config, index, |params| match params {
                                LinkParams::$name(link) => Some(link.clone()),
                                _ => None,
                            })?;
                            Layer::$name(Box::new(<$protocol>::create(settings, position, links)))
                        }
                    )*
                    LayerKind::Message => Layer::Message,
                })
            }
            /// Releases memory that a busy period needed.
            pub fn shrink(&mut self) {
                match self {
                    $(Layer::$name(layer) => layer.shrink(),)*
                    Layer::Shared(shared) => shared.layer.shrink(),
                    Layer::Message | Layer::Remote(_) => {}
                }
            }
            /// Handles one input. Bytes for the returned stream may wait for [`Layer::write`].
            pub fn handle_soon(
                &mut self,
                now: Instant,
                input: layer::Input,
                out: &mut impl Sink<layer::Output>,
            ) -> Option<StreamId> {
                match self {
                    $(Layer::$name(layer) => layer.handle_soon(now, input, out),)*
                    // No protocol runs here: bundles bypass the first, and the stack itself handles the other two.
                    Layer::Message | Layer::Shared(_) | Layer::Remote(_) => None,
                }
            }
            /// Writes bytes that wait for a stream.
            pub fn write(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<layer::Output>) {
                match self {
                    $(Layer::$name(layer) => layer.write(now, stream, out),)*
                    Layer::Message | Layer::Shared(_) | Layer::Remote(_) => {}
                }
            }
            /// Adds a link; `None`: the link is of another protocol, false: the layer has it already.
            pub fn add_link(
                &mut self,
                now: Instant,
                id: LinkId,
                link: LinkParams,
                out: &mut impl Sink<layer::Output>,
            ) -> Option<bool> {
                Some(match (self, link) {
                    $((Layer::$name(layer), LinkParams::$name(link)) => layer.add_link(now, id, link, out),)*
                    (Layer::Message, LinkParams::Message { .. }) => true,
                    (Layer::Remote(layer), _) => layer.add(id),
                    _ => return None,
                })
            }
            /// Replaces the keys of a link without ending its sessions; false: the link must be removed and added
            /// again.
            pub fn rekey(&mut self, id: LinkId, link: &LinkParams) -> bool {
                match (self, link) {
                    $((Layer::$name(layer), LinkParams::$name(link)) => layer.rekey(id, link),)*
                    (Layer::Shared(shared), link) => shared.layer.rekey(id, link),
                    // Only the owner shard holds the keys.
                    (Layer::Remote(_), _) => true,
                    _ => false,
                }
            }
            /// Whether a session with a peer of this node ID at this address is open.
            pub fn serves(&self, node_id: &str, at: IpAddr) -> bool {
                match self {
                    $(Layer::$name(layer) => layer.serves(node_id, at),)*
                    Layer::Shared(shared) => shared.layer.serves(node_id, at),
                    Layer::Message | Layer::Remote(_) => false,
                }
            }
            pub fn next_timeout(&self) -> Option<Instant> {
                match self {
                    $(Layer::$name(layer) => layer.next_timeout(),)*
                    // Bundles that other shards queued leave after those of this shard, at the time that `pending`
                    // gives.
                    Layer::Shared(shared) => Instant::earliest([shared.owner.pending(), shared.layer.next_timeout()]),
                    Layer::Message | Layer::Remote(_) => None,
                }
            }
        }
    };
}
farlink_cla::each_protocol!(layers);

impl LayerKind {
    /// Kind of socket that a driver opens for each layer of this kind; `None` for messages, which need none. No two
    /// layers share a socket.
    pub fn medium(&self) -> Option<Medium> {
        self.info().map(|info| info.medium)
    }
}

/// A node's layers, each with the links that use it.
pub(crate) fn layers(config: &Config) -> Result<Vec<Layer>, ConfigError> {
    let layers = config.layers.iter().enumerate();
    layers.map(|(index, layer)| shards::placed(config, index, || Layer::new(config, index, layer))).collect()
}

/// Links of one layer, each with its number.
fn links<T>(
    config: &Config,
    index: usize,
    own: impl Fn(&LinkParams) -> Option<T>,
) -> Result<Vec<(LinkId, T)>, ConfigError> {
    let links = config.links.iter().enumerate().filter(|(_, link)| link.layer == index);
    let params = |(place, link): (usize, &LinkConfig)| {
        has_key(link)?;
        let own = own(&link.params).ok_or_else(|| mismatch(&link.name, &config.layers[index].name))?;
        Ok((LinkId(place as u32), own))
    };
    links.map(params).collect()
}

pub(crate) fn has_key(link: &LinkConfig) -> Result<(), ConfigError> {
    // Starting without a key would leave the link unauthenticated, so a missing key is an error of the
    // configuration.
    if !link.params.lacks_key() {
        return Ok(());
    }
    let path = alloc::format!("link.{}.authentication", link.name);
    Err(error(path, "a key that both ends share", "give the link a key, or take the authentication out"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use farlink_cla::registry::LAYERS;

    #[test]
    fn registered_layers_build_from_their_settings() {
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
            let [given, default] = [&given[..], &[]].map(|settings| kind.link(Neighbour::default(), settings));
            assert_ne!(given, default, "{}", info.name);
            assert!(default.wire_bytes_per_million() > 1_000_000, "{}: there are headers", info.name);
        }
    }
}

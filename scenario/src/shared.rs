//! Words that nodes, links and movement share: layers with their settings, and ranges of sizes.

use farlink_base::DataVolume;
use farlink_cla::registry::LayerInfo;
use farlink_link::{DirectionSpec, UDP_IPV4_HEADERS};

/// Given values of a layer's settings, by name (tables in `core/cla` list them); other settings have their defaults.
pub type Settings = Vec<(&'static str, u64)>;

/// Convergence layer of a link, with its parameters; both ends use the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Layer {
    /// Entry of the layer in the registry.
    pub kind: &'static LayerInfo,
    /// End that opens the connection, for layers over streams.
    pub connect: ConnectSide,
    /// Parameters on this link.
    pub settings: Settings,
}
impl Layer {
    /// The value of a parameter on this link, its default where the scenario gives none; `None` when
    /// the layer has no such parameter.
    pub fn value(&self, name: &str) -> Option<u64> {
        let known = self.kind.link_settings().into_iter().find(|setting| setting.name == name)?;
        Some(value_in(&self.settings, name).unwrap_or(known.default))
    }
    /// Parameters of one end of the link: those of the scenario, and the framing that its direction adds to each
    /// datagram, unless `overhead` is given.
    pub fn settings_towards(&self, direction: &DirectionSpec) -> Settings {
        let mut settings = self.settings.clone();
        // A layer that paces by the rate of the wire must count the bytes that each packet has around its datagram.
        let counts = self.kind.link_settings().iter().any(|setting| setting.name == "overhead");
        if counts && value_in(&settings, "overhead").is_none() {
            settings.push(("overhead", UDP_IPV4_HEADERS + u64::from(direction.overhead)));
        }
        settings
    }
}

fn value_in(settings: &Settings, name: &str) -> Option<u64> {
    // The list is short: a search is cheaper than a map.
    settings.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// End of a stream link that opens the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectSide {
    /// The first node of `between`.
    First,
    /// The second node of `between`.
    Second,
    /// Both ends try to connect.
    Both,
}
impl ConnectSide {
    /// Whether this end of the link connects.
    pub fn connects(self, first: bool) -> bool {
        match self {
            ConnectSide::First => first,
            ConnectSide::Second => !first,
            ConnectSide::Both => true,
        }
    }
}

/// Uniformly drawn size; a fixed one has equal bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeRange {
    /// Least size, included.
    pub min: DataVolume,
    /// Greatest size, included.
    pub max: DataVolume,
}

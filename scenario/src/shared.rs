//! Words that nodes, links and movement share: layers with their settings, and ranges of sizes.

use farlink_base::DataVolume;
use farlink_cla::registry::LayerInfo;
use farlink_link::{DirectionSpec, UDP_IPV4_HEADERS};

/// Values of a layer's settings by name (its tables in `core/cla` list them), as the scenario gives
/// them; what is not here has its default.
pub type Settings = Vec<(&'static str, u64)>;

/// Convergence layer of a link, with its parameters; both ends use the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Layer {
    /// Which one.
    pub kind: &'static LayerInfo,
    /// Which end opens the connection, of a layer over streams.
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
    /// The parameters an end of the link is given: those of the scenario, and what its direction adds to
    /// each datagram where nothing is said of it.
    pub fn settings_towards(&self, direction: &DirectionSpec) -> Settings {
        let mut settings = self.settings.clone();
        let counts = self.kind.link_settings().iter().any(|setting| setting.name == "overhead");
        if counts && value_in(&settings, "overhead").is_none() {
            settings.push(("overhead", UDP_IPV4_HEADERS + u64::from(direction.overhead)));
        }
        settings
    }
}

/// A value the scenario gives.
fn value_in(settings: &Settings, name: &str) -> Option<u64> {
    settings.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Which end of a stream link opens the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectSide {
    /// The first node of `between`.
    First,
    /// The second node of `between`.
    Second,
    /// Both try.
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

/// Uniformly drawn size; both the same for a fixed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeRange {
    /// Smallest.
    pub min: DataVolume,
    /// Largest.
    pub max: DataVolume,
}

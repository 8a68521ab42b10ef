//! Registry of the convergence layers, with the facts that configuration files, references and forms need. Each layer
//! has tables of its parameters.

use crate::protocol::Protocol;
use alloc::vec::Vec;
use core::fmt;
use farlink_base::{Duration, Refusal, Setting};

pub use farlink_base::layer::Medium;

/// Kind of name by which the peers of a layer identify themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Introduction {
    /// LTP engine number.
    Engine,
    /// Node ID, as in TCPCL.
    NodeId,
    /// No identification: peers are known by their addresses.
    None,
}

/// Registry entry of one convergence layer.
#[derive(Clone, Copy)]
pub struct LayerInfo {
    /// Name in configuration files.
    pub name: &'static str,
    /// Short name, for display.
    pub short: &'static str,
    /// Name with its standard.
    pub title: &'static str,
    /// Summary in one line, for choosing a layer.
    pub summary: &'static str,
    /// Name in beacons (IPND).
    pub announced: &'static str,
    /// Number in announcements of dtn7-go; `None` if that has none for the layer.
    pub announced_number: Option<u64>,
    /// Transport below the layer.
    pub medium: Medium,
    /// Kind of name by which the layer's peers identify themselves.
    pub introduction: Introduction,
    /// Assigned port; where none is assigned, the one commonly used.
    pub port: u16,
    pub(crate) settings: fn() -> Vec<Setting>,
    pub(crate) link_settings: fn() -> Vec<Setting>,
    pub(crate) sender_result: fn(Refusal) -> Result<(), Refusal>,
    /// Longest link outage that transfers in progress survive.
    pub outlives: Duration,
    /// Bytes of the layer's own headers in a typical full packet.
    pub header_bytes: u64,
    /// Whether a sender can abort a transfer in progress.
    pub stops: bool,
    /// Whether the layer, or its transport, retransmits lost data.
    pub repairs: bool,
    /// Whether each connection carries bundles one way only, so that each sender connects.
    pub one_way: bool,
    /// Whether a neighbour is reachable only while a session with it is open; such a layer has the setting `sessions`.
    pub sessions: bool,
    /// Names of the settings that bound the bytes of bundles which the layer itself holds.
    pub held: &'static [&'static str],
}

macro_rules! rows {
    ($($name:ident: $protocol:ty,)*) => {
        const COUNT: usize = 0 $(+ <$protocol as Protocol>::LAYERS.len())*;
        const ALL: [LayerInfo; COUNT] = {
            let mut all = [crate::ltp::Ltp::LAYERS[0]; COUNT];
            let mut count = 0;
            $(
                let rows = <$protocol as Protocol>::LAYERS;
                let mut i = 0;
                while i < rows.len() {
                    all[count] = rows[i];
                    (i, count) = (i + 1, count + 1);
                }
            )*
            all
        };
    };
}
crate::each_protocol!(rows);

/// All convergence layers: the rows of every protocol.
pub const LAYERS: &[LayerInfo] = &ALL;

/// Names of all layers, in the order of [`LAYERS`].
pub const NAMES: &[&str] = &{
    let mut names = [""; LAYERS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = LAYERS[i].name;
        i += 1;
    }
    names
};

impl LayerInfo {
    /// Finds a layer by its name.
    pub fn named(name: &str) -> Option<&'static LayerInfo> {
        LAYERS.iter().find(|layer| layer.name == name)
    }
    /// Settings of the whole layer.
    pub fn settings(&self) -> Vec<Setting> {
        (self.settings)()
    }
    /// Whether the layer can secure its sessions by TLS, as its settings show.
    pub fn knows_tls(&self) -> bool {
        self.settings().iter().any(|setting| setting.name == "tls")
    }
    /// Settings of one link.
    pub fn link_settings(&self) -> Vec<Setting> {
        (self.link_settings)()
    }
    /// Result that a sender sees when its neighbour refuses a bundle for this reason; `Ok` if the sender may treat
    /// the bundle as kept.
    ///
    /// # Errors
    ///
    /// The reason as the layer's codes convey it.
    pub fn sender_result(&self, why: Refusal) -> Result<(), Refusal> {
        (self.sender_result)(why)
    }
}
impl PartialEq for LayerInfo {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for LayerInfo {}
impl fmt::Debug for LayerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ltp, oneway, tcpcl_v3, tcpcl_v4, udpcl};
    use farlink_base::LayerParam;

    /// Asserts that each row sets and gets its own field over its whole range, and no other field.
    fn check<C: Default + 'static>(table: &[LayerParam<C>]) {
        for row in table {
            let setting = row.setting();
            assert_eq!(setting.check(setting.default), Ok(()), "{}: the default", row.name);
            assert!(setting.help.ends_with('.'), "{}: a sentence", row.name);
            assert_eq!(table.iter().filter(|other| other.name == row.name).count(), 1, "{} twice", row.name);
            for value in [row.min, row.max, setting.default] {
                let mut config = C::default();
                (row.set)(&mut config, value);
                assert_eq!((row.get)(&config), value, "{}", row.name);
                let others = table.iter().filter(|other| other.name != row.name);
                others.for_each(|other| {
                    assert_eq!((other.get)(&config), other.setting().default, "{} sets {}", row.name, other.name);
                });
                assert_eq!(setting.parse(&setting.text(value)), Ok(value), "{}", row.name);
            }
        }
    }

    #[test]
    fn every_parameter_holds_its_value() {
        check(ltp::PARAMS);
        check(ltp::LINK_PARAMS);
        check(tcpcl_v3::PARAMS);
        check(tcpcl_v4::PARAMS);
        check(tcpcl_v4::LINK_PARAMS);
        check(oneway::PARAMS);
        check(oneway::LINK_PARAMS);
        check(udpcl::PARAMS);
        check(udpcl::LINK_PARAMS);
    }

    #[test]
    fn sender_learns_refusal_reason() {
        use Refusal as R;
        // UDPCL conveys no refusal.
        for layer in LAYERS.iter().filter(|layer| layer.name != "udpcl") {
            assert_eq!(layer.sender_result(R::NoResources), Err(R::NoResources), "{}", layer.name);
            // Layers without acknowledgments convey no refusal; for lack of room they stop reading instead, which holds
            // the sender back.
            let silent = layer.sender_result(R::NotAcceptable).is_ok();
            assert_eq!(silent, ["stcp", "mtcp"].contains(&layer.name), "{}", layer.name);
            assert!(silent || layer.sender_result(R::NotAcceptable) == Err(R::NotAcceptable), "{}", layer.name);
            assert_eq!(layer.sender_result(R::Duplicate), Ok(()), "{}", layer.name);
            for why in [R::Terminating, R::TooLarge, R::Expired, R::Unknown, R::StoreFailed, R::Damaged, R::NotOpen] {
                let told = layer.sender_result(why);
                assert_eq!(told.or_else(|heard| layer.sender_result(heard)), told, "{}", layer.name);
                assert!(silent || told.is_err() || why == R::Expired, "{}: {why:?}", layer.name);
            }
        }
    }

    #[test]
    fn datagram_sender_sees_no_refusal() {
        let udpcl = LayerInfo::named("udpcl").unwrap();
        assert_eq!([Refusal::NoResources, Refusal::TooLarge].map(|why| udpcl.sender_result(why)), [Ok(()); 2]);
    }

    #[test]
    fn keepalives_default_to_stcp_only() {
        let keepalive = |name: &str| {
            let settings = LayerInfo::named(name).unwrap().settings();
            settings.into_iter().find(|setting| setting.name == "keepalive").unwrap()
        };
        assert_eq!(["stcp", "mtcp"].map(|name| keepalive(name).default), [15_000_000_000, 0]);
        assert_eq!(keepalive("mtcp").parse("5 s"), Ok(5_000_000_000));
    }

    #[test]
    fn bounds_of_held_bytes_are_settings() {
        for layer in LAYERS {
            let has = |name: &str| layer.settings().iter().any(|setting| setting.name == name);
            assert!(layer.held.iter().all(|name| has(name)), "{}", layer.name);
            assert!(!layer.sessions || has("sessions"), "{}", layer.name);
        }
    }

    #[test]
    fn layers_are_found_by_name() {
        assert_eq!(NAMES.len(), LAYERS.len());
        for name in NAMES {
            let layer = LayerInfo::named(name).unwrap();
            assert!(layer.port > 0 && !layer.settings().is_empty() && !layer.link_settings().is_empty());
        }
        assert_eq!(LayerInfo::named("carrier-pigeon"), None);
    }
}

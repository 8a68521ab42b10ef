//! The configuration of a node: one TOML file.
//!
//! Every quantity carries its unit ("100 kB", "2.5 Mbit/s", "600 ms"); relative paths start at the
//! folder of the file; unknown keys are mistakes. All keys, with their defaults and what they do, are
//! in [`keys`], which `docs/reference/node.md` is made from; parameters of convergence layers are in
//! the tables beside the layers.

mod advice;
mod build;
mod changed;
mod codes;
mod conflicts;
mod custody;
mod discovery;
mod docs;
pub mod keys;
pub(crate) mod link_keys;
mod links;
mod places;
mod policies;
mod security;
mod shards;
mod tunnels;

use crate::tls::{Credentials, Files};
use farlink_base::layer::Medium;
use farlink_base::{ConfigError, DtnTime, EndpointId};
use farlink_stack::{LayerConfig, LinkConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use build::PATTERN_HINT;
pub use changed::needs_restart;
pub use discovery::DiscoverySettings;
pub use docs::{example, schema};

/// What a node is told: the stack's configuration, with all plain settings, and the driver's places and files.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// For the stack. `plan` is read by [`NodeConfig::load`], `seed` and `accel` come at start.
    pub stack: farlink_stack::Config,
    /// Folder of the durable store.
    pub store_dir: Option<PathBuf>,
    /// Takes over a store that belongs to another node.
    pub adopt: bool,
    /// One per layer of the stack.
    pub layers: Vec<LayerSettings>,
    /// One per link of the stack.
    pub links: Vec<LinkSettings>,
    /// Neighbours found by announcements, where they are.
    pub discovery: Option<DiscoverySettings>,
    /// Contact plan file.
    pub plan_file: Option<PathBuf>,
    /// Epoch of the plan, where the plan has none.
    pub epoch: Option<DtnTime>,
    /// Application interface.
    pub app: AppSettings,
    /// The control API.
    pub api: ApiSettings,
    /// Events file.
    pub events: Option<EventsSettings>,
    /// Files of the security of bundles.
    pub security: Option<SecurityFiles>,
    /// The file it came from, for reloading.
    pub file: PathBuf,
}

/// The driver's part of a convergence layer.
#[derive(Clone, Debug)]
pub struct LayerSettings {
    /// Its name.
    pub name: String,
    /// Which sockets it needs; no other layer uses them.
    pub medium: Medium,
    /// Addresses served.
    pub listen: Vec<SocketAddr>,
    /// Which shard owns it.
    pub shard: u8,
    /// Whether datagram offloads may be used.
    pub offload: bool,
    /// File of the keys of its links.
    pub keys: Option<PathBuf>,
    /// Files of its certificates, where its sessions may be secured.
    pub tls: Option<Files>,
    /// What is in them, once read.
    pub credentials: Option<Credentials>,
}

/// The driver's part of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSettings {
    /// `host:port` of the peer.
    pub address: Option<String>,
    /// Name of the key its segments are authenticated by.
    pub key: Option<String>,
}

/// Places of the application interface.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Unix socket path.
    pub socket: Option<PathBuf>,
    /// Permission bits of the socket: whom it lets in.
    pub socket_mode: u32,
    /// TCP address.
    pub listen: Option<SocketAddr>,
}

/// The control API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Unix socket path.
    pub socket: Option<PathBuf>,
    /// Whether that path was given: one nobody asked for may be missing.
    pub socket_given: bool,
    /// TCP address; never without a `token_file`.
    pub listen: Option<SocketAddr>,
    /// File with the token that TCP clients show.
    pub token_file: Option<PathBuf>,
}

/// Files of the security of bundles.
#[derive(Clone, PartialEq, Debug)]
pub struct SecurityFiles {
    /// The keys.
    pub keys: PathBuf,
    /// Counts the starts.
    pub starts: PathBuf,
}

/// The events file.
#[derive(Clone, Debug)]
pub struct EventsSettings {
    /// Where.
    pub file: PathBuf,
    /// Whether LTP segments are written too.
    pub segments: bool,
}

/// What was found in a configuration file, all of it at once and by its lines.
#[derive(Debug)]
pub struct Findings {
    /// The configuration, where there is no mistake.
    pub config: Option<NodeConfig>,
    /// What keeps a node from starting with it.
    pub mistakes: Vec<ConfigError>,
    /// What works and is still not advised, or does nothing.
    pub warnings: Vec<ConfigError>,
}

impl NodeConfig {
    /// Reads a configuration file, and the contact plan it names, and looks at the places it names.
    pub fn look(file: &Path) -> Findings {
        match farlink_config::read_text(file) {
            Ok(text) => build::look(&text, file),
            Err(expected) => {
                let hint = "`farlink init two-nodes` writes working files".into();
                let mistake = ConfigError { path: file.display().to_string(), expected, hint };
                Findings { config: None, mistakes: vec![mistake], warnings: Vec::new() }
            }
        }
    }
    /// Reads a configuration file and the contact plan it names.
    ///
    /// # Errors
    /// Every mistake of the file, or why it cannot be read.
    pub fn load(file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        let found = Self::look(file);
        found.config.ok_or(found.mistakes)
    }
    /// Reads a configuration from text; relative paths start at the folder of `file`.
    ///
    /// # Errors
    /// Every mistake found.
    pub fn parse(text: &str, file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        build::parse(text, file)
    }
    /// Reads `[link.NAME]` tables for a running node with these layers and these names of its own.
    ///
    /// # Errors
    /// Every mistake found.
    pub fn parse_links(
        text: &str,
        layers: &[LayerConfig],
        own: &[EndpointId],
    ) -> Result<Vec<(LinkConfig, LinkSettings)>, Vec<ConfigError>> {
        build::parse_links(text, layers, own)
    }
}

//! Configuration of a node: one TOML file.
//!
//! Every quantity has a unit ("100 kB", "2.5 Mbit/s", "600 ms"), relative paths start at the folder of the file, and
//! unknown keys are mistakes. [`keys`] has all keys with defaults and descriptions, and `docs/reference/node.md` is
//! made from it; `farlink_cla` defines the parameters of convergence layers.

mod advice;
mod build;
mod changed;
mod codes;
mod conflicts;
mod custody;
mod discovery;
mod docs;
mod foreign;
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

/// Complete configuration of a node: that of the stack, which includes all plain settings, and the sockets and files of
/// the driver.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Configuration of the stack. [`NodeConfig::load`] reads `plan`; `seed` and `accel` are set at start.
    pub stack: farlink_stack::Config,
    /// Folder of the durable store.
    pub store_dir: Option<PathBuf>,
    /// Whether to take over a store that belongs to another node.
    pub adopt: bool,
    /// Driver's settings of each layer of the stack.
    pub layers: Vec<LayerSettings>,
    /// Driver's settings of each link of the stack.
    pub links: Vec<LinkSettings>,
    /// Discovery, if enabled.
    pub discovery: Option<DiscoverySettings>,
    /// Contact plan file, if any.
    pub plan_file: Option<PathBuf>,
    /// Epoch of a plan without one.
    pub epoch: Option<DtnTime>,
    /// Sockets at which applications attach.
    pub app: AppSettings,
    /// Sockets of the control API, and its token.
    pub api: ApiSettings,
    /// Events file, if any.
    pub events: Option<EventsSettings>,
    /// Files of BPSec; `None` without `[security]`.
    pub security: Option<SecurityFiles>,
    /// File of this configuration, for reloading.
    pub file: PathBuf,
}

/// Driver's part of a convergence layer.
#[derive(Clone, Debug)]
pub struct LayerSettings {
    /// Name of the layer.
    pub name: String,
    /// Kind of sockets that the layer needs; it shares them with no other layer.
    pub medium: Medium,
    /// Addresses at which the layer listens.
    pub listen: Vec<SocketAddr>,
    /// Shard that owns the layer.
    pub shard: u8,
    /// Whether datagram offloads may be used.
    pub offload: bool,
    /// File with the keys of the layer's links.
    pub keys: Option<PathBuf>,
    /// Certificate files, if sessions of the layer may use TLS.
    pub tls: Option<Files>,
    /// Contents of the certificate files, once read.
    pub credentials: Option<Credentials>,
}

/// Driver's part of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSettings {
    /// Address of the peer, `host:port`.
    pub address: Option<String>,
    /// Name of the key that authenticates segments of the link.
    pub key: Option<String>,
}

/// Sockets at which applications attach.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// Permission bits of the socket.
    pub socket_mode: u32,
    /// TCP address to listen at.
    pub listen: Option<SocketAddr>,
}

/// Sockets of the control API, and its token.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// Whether the file sets the path; if not, the node starts even if the default socket cannot be opened.
    pub socket_given: bool,
    /// TCP address to listen at; never without a `token_file`.
    pub listen: Option<SocketAddr>,
    /// File with the token of TCP clients.
    pub token_file: Option<PathBuf>,
}

/// Files of BPSec.
#[derive(Clone, PartialEq, Debug)]
pub struct SecurityFiles {
    /// File with the keys.
    pub keys: PathBuf,
    /// File with the number of starts so far, which makes the IVs of each start unique.
    pub starts: PathBuf,
}

/// Settings of the events file.
#[derive(Clone, Debug)]
pub struct EventsSettings {
    /// Path of the file.
    pub file: PathBuf,
    /// Whether LTP segments are written as well.
    pub segments: bool,
}

/// Result of checking a configuration file, with all mistakes at once, each with its line.
#[derive(Debug)]
pub struct Findings {
    /// Configuration, if there is no mistake.
    pub config: Option<NodeConfig>,
    /// Mistakes that prevent a start.
    pub mistakes: Vec<ConfigError>,
    /// Settings that are not advised or have no effect.
    pub warnings: Vec<ConfigError>,
}

impl NodeConfig {
    /// Name and file of the key that authenticates a link over this layer, for messages.
    pub(crate) fn key_of(&self, layer: usize, link: &LinkSettings) -> Option<String> {
        let file = self.layers.get(layer)?.keys.as_ref()?;
        Some(format!("key `{}` of {}", link.key.as_ref()?, file.display()))
    }
    /// Reads a configuration file and its contact plan, and checks the places that it names.
    pub fn look(file: &Path) -> Findings {
        Self::look_by(file, build::look)
    }
    /// Reads the file of a running node: what it has open already is not checked again.
    pub fn look_again(file: &Path) -> Findings {
        Self::look_by(file, build::look_again)
    }
    fn look_by(file: &Path, look: fn(&str, &Path) -> Findings) -> Findings {
        match farlink_config::read_text(file) {
            Ok(text) => look(&text, file),
            Err(expected) => {
                let hint = "`farlink init two-nodes` writes working files".into();
                let mistake = ConfigError { path: file.display().to_string(), expected, hint };
                Findings { config: None, mistakes: vec![mistake], warnings: Vec::new() }
            }
        }
    }
    /// Reads a configuration file and its contact plan.
    ///
    /// # Errors
    /// All mistakes of the file, or why it cannot be read.
    pub fn load(file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        let found = Self::look(file);
        found.config.ok_or(found.mistakes)
    }
    /// Parses a configuration; relative paths start at the folder of `file`.
    ///
    /// # Errors
    /// All mistakes found.
    pub fn parse(text: &str, file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        build::parse(text, file)
    }
    /// Parses `[link.NAME]` tables for a running node with these layers and node IDs.
    ///
    /// # Errors
    /// All mistakes found.
    pub fn parse_links(
        text: &str,
        layers: &[LayerConfig],
        own: &[EndpointId],
    ) -> Result<Vec<(LinkConfig, LinkSettings)>, Vec<ConfigError>> {
        build::parse_links(text, layers, own)
    }
}

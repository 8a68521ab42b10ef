//! The configuration of a node: one TOML file.
//!
//! Every quantity carries its unit ("100 kB", "2.5 Mbit/s", "600 ms"); relative paths start at the
//! folder of the file; unknown keys are mistakes. All keys, with their defaults:
//!
//! ```toml
//! node_ids = ["ipn:1.0"]            # required; the first is the node's own name, others are aliases
//! clock = "trusted"                 # or "untrusted": bundles get time 0 and an age block
//! clock_error = "100 ms"            # bound on the error of a trusted clock
//! crc = "crc32c"                    # of blocks made here: "crc32c", "crc16", "none"
//! profile = "permissive"            # how arriving bundles are read: or "strict"
//! status_reports = false            # whether requested status reports are generated
//! previous_node_block = true        # put on what is forwarded
//! hop_limit = 64                    # of bundles created here; 0 puts no hop count block
//! seed = 1                          # of everything random; default: different at every start
//! shutdown_timeout = "10 s"         # how long SIGTERM waits for sessions and disk
//!
//! [store]
//! kind = "durable"                  # or "memory": gone at exit, acknowledged at once
//! dir = "store"                     # required for "durable"
//! capacity = "10 GB"
//!
//! [layer.tcp]                       # any name; one table per convergence layer
//! kind = "tcpclv4"
//! listen = ["0.0.0.0:4556"]         # TCP addresses served; none: only connects
//! node_id = "ipn:1.0"               # put into SESS_INIT; default: the first of node_ids
//! keepalive = "30 s"
//! contact_timeout = "10 s"
//! idle = "0 s"                      # end a session without transfers after this; 0 never
//! segment_mru = "1 MiB"
//! transfer_mru = "4 GiB"
//! sessions = 1000
//! accept_unknown = true             # serve peers without a [link]
//!
//! [layer.ltp]
//! kind = "ltp"
//! listen = ["0.0.0.0:1113"]         # UDP addresses; datagrams leave from the first of a family
//! engine = 1                        # default: the ipn number of the first of node_ids
//! sessions = 100000
//! accept_unknown = true
//! offload = true                    # segmentation offload and receive coalescing where the kernel has them
//!
//! [link.moon]                       # any name; the contact plan and operators use it
//! layer = "ltp"                     # required: name of a [layer]
//! peer = "ipn:2.0"                  # required: node ID of the neighbour
//! address = "moon.example:1113"     # host name or IP, resolved again on every attempt
//! rate = "2 Mbit/s"                 # obeyed when no contact gives one; default: as fast as it goes
//! one_way_delay = "1.3 s"           # used when no contact gives one
//! # LTP only:
//! engine = 2                        # default: the ipn number of `peer`
//! datagram = "1360 B"               # one segment, LTP headers included
//! overhead = "28 B"                 # headers the medium adds, charged to the rate
//! sessions = 10000                  # export sessions open at once
//! window = "1 GiB"                  # bytes in flight at once
//! aggregate = "0 B"                 # join bundles to blocks of this size; only for peers that split
//! aggregate_wait = "2 ms"
//! margin = "200 ms"                 # added to the round trip for each timer
//! attempts = 20
//! checkpoint_every = "0 B"
//! copies = 2                        # checkpoints and reports leave this often where loss was seen
//! report_every = "1 MiB"            # a visible gap is reported unasked once this came; 0 B: never
//! idle = "1 h"                      # import sessions idle longer are dropped
//! idle_green = "10 s"               # the same for purely green ones
//! # TCPCLv4 only:
//! node_id = "ipn:2.0"               # what the neighbour says in SESS_INIT; default: `peer`
//! connect = true                    # whether this side connects (default: when `address` is given)
//! reconnect_min = "100 ms"
//! reconnect_max = "30 s"
//! segment = "256 KiB"
//! window = "64 MiB"
//!
//! [routes]                          # static routes, tried when the router has none
//! "ipn:5.*" = "ipn:2.0"
//!
//! [plan]
//! file = "contacts.txt"             # ION's dialect or ours
//! epoch = "2026-11-20T09:00:00Z"    # of `+s` times, when the plan declares none; default: the start
//!
//! [router]
//! name = "sabr"                     # its parameters follow as numbers
//!
//! [control]
//! name = "none"                     # its parameters follow as numbers
//!
//! [limits]
//! bundle_bytes = "4 GiB"
//! memory_bytes = "1 GiB"            # payload kept in memory before stored bundles stay on disk
//! arriving_bytes = "1 GiB"
//! bundles = 10000000
//! remembered = 1000000
//! registrations = 10000
//! fragments = 100000
//! dynamic_links = 10000             # links opened by unconfigured peers
//!
//! [app]
//! socket = "farlink.sock"           # AAP2 over a Unix socket; absent: none
//! listen = "127.0.0.1:4242"         # AAP2 over TCP; absent: none
//! echo = true                       # answer pings on ipn services 128, 7, 2047 and dtn /echo
//! echo_rate = 1000                  # answers per second at most
//!
//! [api]
//! listen = "127.0.0.1:4280"         # control API; absent: off (it has no password: keep it local)
//!
//! [log]
//! level = "info"                    # error, warn, info, debug (one line per bundle event), trace
//! format = "text"                   # or "json"
//!
//! [events]                          # one JSON line per event, for measurements
//! file = "events.jsonl"
//! segments = false                  # LTP segments too
//! ```

mod build;
mod reader;

use farlink_base::{ConfigError, DtnTime, Duration};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use reader::nearest;

/// What a node is told: the stack's configuration and the driver's own settings.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// For the stack. `plan` is filled by [`NodeConfig::load_plan`], `seed` and `accel` at start.
    pub stack: farlink_stack::Config,
    /// Whether the wall clock is to be believed.
    pub trusted_clock: bool,
    /// Bound on the error of a trusted clock, ms.
    pub clock_error_ms: u64,
    /// Folder of the durable store.
    pub store_dir: Option<PathBuf>,
    /// One per layer of the stack.
    pub layers: Vec<LayerSettings>,
    /// One per link of the stack.
    pub links: Vec<LinkSettings>,
    /// Contact plan file.
    pub plan_file: Option<PathBuf>,
    /// Epoch of the plan, where the plan has none.
    pub epoch: Option<DtnTime>,
    /// Whether the seed was given.
    pub seed_given: bool,
    /// Application interface.
    pub app: AppSettings,
    /// Address of the control API.
    pub api: Option<SocketAddr>,
    /// Log level word.
    pub log_level: String,
    /// Whether log lines are JSON.
    pub log_json: bool,
    /// Events file.
    pub events: Option<EventsSettings>,
    /// How long a shutdown may take.
    pub shutdown_timeout: Duration,
    /// The file it came from, for reloading.
    pub file: PathBuf,
}

/// The driver's part of a convergence layer.
#[derive(Clone, Debug)]
pub struct LayerSettings {
    /// Its name.
    pub name: String,
    /// Which sockets it needs.
    pub transport: Transport,
    /// Addresses served.
    pub listen: Vec<SocketAddr>,
    /// Whether datagram offloads may be used.
    pub offload: bool,
}

/// Kind of socket a layer needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Byte streams.
    Tcp,
}

/// The driver's part of a link.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Its name.
    pub name: String,
    /// `host:port` of the peer.
    pub address: Option<String>,
    /// Index of its layer.
    pub layer: usize,
}

/// The application interface.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Unix socket path.
    pub socket: Option<PathBuf>,
    /// TCP address.
    pub listen: Option<SocketAddr>,
    /// Whether the node answers echo requests itself.
    pub echo: bool,
    /// Answers per second at most.
    pub echo_rate: u64,
}

/// The events file.
#[derive(Clone, Debug)]
pub struct EventsSettings {
    /// Where.
    pub file: PathBuf,
    /// Whether LTP segments are written too.
    pub segments: bool,
}

impl NodeConfig {
    /// Reads a configuration file and the contact plan it names.
    ///
    /// # Errors
    /// Every mistake of the file, or why it cannot be read.
    pub fn load(file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        let text = std::fs::read_to_string(file).map_err(|why| vec![unreadable(file, &why)])?;
        let mut config = Self::parse(&text, file)?;
        config.load_plan()?;
        Ok(config)
    }
    /// Reads a configuration from text; relative paths start at the folder of `file`.
    ///
    /// # Errors
    /// Every mistake found.
    pub fn parse(text: &str, file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
        build::parse(text, file)
    }
    /// Reads the contact plan the configuration names, again when called again.
    ///
    /// # Errors
    /// Why the plan cannot be read.
    pub fn load_plan(&mut self) -> Result<(), Vec<ConfigError>> {
        let Some(path) = &self.plan_file else { return Ok(()) };
        let text = std::fs::read_to_string(path).map_err(|why| vec![unreadable(path, &why)])?;
        let mut plan = crate::plan::parse(&text).map_err(|why| {
            vec![ConfigError {
                path: path.display().to_string(),
                expected: why,
                hint: "`farlink plan check` explains it".into(),
            }]
        })?;
        plan.epoch = plan.epoch.or(self.epoch);
        self.stack.plan = Some(std::sync::Arc::new(plan));
        Ok(())
    }
}

fn unreadable(path: &Path, why: &std::io::Error) -> ConfigError {
    ConfigError {
        path: path.display().to_string(),
        expected: format!("cannot be read: {why}"),
        hint: "`farlink init two-nodes` writes working files".into(),
    }
}

//! Values that probes read, in the form in which the supervisor sends them.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Role of a process, which selects the account that counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Node under test.
    Implementation,
    /// Programs that send and receive, baselines and flows included.
    Application,
    /// Link emulator, which belongs to no host.
    Emulator,
}

impl Role {
    /// Name of the role in tables and manifests.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Implementation => "implementation",
            Role::Application => "application",
            Role::Emulator => "emulator",
        }
    }
}

/// One value, or set of values, of a sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Use of processor and memory by one role.
    Role(RoleReading),
    /// State of a host's TCP connections with one peer.
    Tcp(TcpReading),
    /// Size of a host's store.
    Store {
        /// Index of the host.
        host: usize,
        /// Size of the store's files, in bytes.
        bytes: u64,
    },
}

/// Use of processor and memory by the processes of one role at a host.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoleReading {
    /// Index of the host; `None` for the emulator.
    pub host: Option<usize>,
    /// Role of the processes.
    pub role: Role,
    /// Processor time in user mode since the start, in ns.
    pub cpu_user_ns: u64,
    /// Processor time in the kernel since the start, in ns.
    pub cpu_system_ns: u64,
    /// Anonymous memory in bytes.
    pub anonymous: u64,
    /// Shared memory in bytes.
    pub shared: u64,
    /// Page cache in bytes; mapped files if `/proc` is the source.
    pub cache: u64,
    /// Peak of all memory since the start of the phase, in bytes; `None` if it is unknown.
    pub peak: Option<u64>,
}

/// State of all TCP connections of a host with one peer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TcpReading {
    /// Index of the host.
    pub host: usize,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Smoothed round-trip time of the connection that has carried the most data, in microseconds.
    pub round_trip_us: u32,
    /// Sum of the congestion windows in bytes.
    pub window: u64,
    /// Number of segments retransmitted by connections that are still open.
    pub retransmitted: u64,
    /// Sum of the delivery rates in bytes per second.
    pub delivery_rate: u64,
}

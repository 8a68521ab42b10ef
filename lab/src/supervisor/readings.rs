//! Values that probes read, as the supervisor sends them.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Account of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The node under test.
    Implementation,
    /// Programs that send and receive, and baselines.
    Application,
    /// The link emulator, which belongs to no host.
    Emulator,
}

impl Role {
    /// Word in tables and manifests.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Implementation => "implementation",
            Role::Application => "application",
            Role::Emulator => "emulator",
        }
    }
}

/// Values of one sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Use of processor and memory by one role.
    Role(RoleReading),
    /// TCP connections of a host with one peer.
    Tcp(TcpReading),
    /// Bytes in a host's store.
    Store {
        /// Number of the host.
        host: usize,
        /// Size of its files.
        bytes: u64,
    },
}

/// Use of processor and memory by the processes of one role at a host.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoleReading {
    /// Number of the host; `None` for the emulator.
    pub host: Option<usize>,
    /// Role of the processes.
    pub role: Role,
    /// Processor time in user mode since the start.
    pub cpu_user_ns: u64,
    /// Processor time in the kernel since the start.
    pub cpu_system_ns: u64,
    /// Anonymous memory in bytes.
    pub anonymous: u64,
    /// Shared memory in bytes.
    pub shared: u64,
    /// Page cache, or mapped files where `/proc` counts, in bytes.
    pub cache: u64,
    /// Peak of all memory since the start of the phase, in bytes, where it is known.
    pub peak: Option<u64>,
}

/// TCP connections of a host with one peer, added up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TcpReading {
    /// Number of the host.
    pub host: usize,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Smoothed round-trip time of the connection that has carried most, in microseconds.
    pub round_trip_us: u32,
    /// Congestion windows in bytes.
    pub window: u64,
    /// Segments sent again by connections that are still open.
    pub retransmitted: u64,
    /// Rates of delivery in bytes a second.
    pub delivery_rate: u64,
}

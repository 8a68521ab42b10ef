//! Messages between the testbed and the agent on another machine, between those of its supervisor: a line of JSON,
//! after which the bytes of a file may follow.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Request to the agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "agent")]
pub enum AgentRequest {
    /// Write a part of a file; its bytes follow. No reply.
    Put {
        /// Absolute path here, and in the root of the hosts there.
        path: PathBuf,
        offset: u64,
        bytes: usize,
        /// Length of the whole file: what is not sent is zero.
        length: u64,
        /// Permissions of the file.
        mode: u32,
    },
    /// Send the files of these folders as they grow. Replies: [`AgentReply::File`].
    Watch { folders: Vec<PathBuf> },
    /// Send what is new in the watched folders. Reply: [`AgentReply::Synced`].
    Sync,
    /// The testbed is still there. No reply.
    Alive,
}

/// Reply of the agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "agent")]
pub enum AgentReply {
    /// The program runs there.
    Hello {
        version: String,
        /// UDP port of the relay.
        port: u16,
    },
    /// A part of a file, which now ends with it; its bytes follow.
    File { path: PathBuf, offset: u64, bytes: usize },
    /// Everything new up to the request was sent.
    Synced,
    /// The machine is still there.
    Alive,
}

/// Version of the program, which must be equal on all machines.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Start of the line that the shell on the machine prints.
pub const GREETING: &str = "farlink-machine ";
/// Hidden argument that makes the program an agent.
pub const ARGUMENT: &str = "lab-agent";
/// Longest part of a file in one message.
pub const PART: usize = 256 << 10;
/// Longest line from a machine. The longest are of runs with many hosts: 65,536 descriptors take a third of it.
pub const LINE: usize = 1 << 20;

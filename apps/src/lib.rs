//! Applications and clients of a node: ping, echo, files, performance, the control API's client, and
//! the loopback benchmark.
//!
//! They speak to a node as anyone's would, over AAP2 ([`client`]) and HTTP ([`http`]), and link
//! nothing of it; what a node serves itself (echo, load) is in `node/src/apps`. Read
//! [`client::Client`] first, then [`ping`].
#![forbid(unsafe_code)]

pub mod bench;
pub mod client;
mod clock;
pub mod echo;
pub mod file;
pub mod http;
mod inbox;
pub mod perf;
pub mod ping;
mod timing;

pub use timing::Quantiles;

use client::Client;
use std::io::Read;

/// Connects to a node, saying what to try when nothing is there.
///
/// # Errors
/// When nothing serves there.
pub fn connect(at: &str) -> anyhow::Result<Client> {
    Client::connect(at).map_err(|why| {
        anyhow::anyhow!(
            "no node at the application socket {at}: {why}\n\
             hint: is it running, and does its file have `[app] socket` or `listen`? --at names the socket"
        )
    })
}

/// A number nobody can guess, for services, secrets and identifiers.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() { clock::now().0 ^ u64::from(std::process::id()) << 40 } else { u64::from_ne_bytes(bytes) }
}

/// A service number for a passing application.
pub fn passing_service() -> String {
    (0x1_0000 + random() % 0x7fff_0000).to_string()
}

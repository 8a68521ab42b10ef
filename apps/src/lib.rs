//! Applications and clients of a node: ping, echo, files, performance, the control API's client, and
//! the loopback benchmark.
//!
//! They speak to a node as anyone's would, over AAP2 ([`client`]) and HTTP ([`http`]), and link
//! nothing of it; what a node serves itself (echo, load) is in `node/src/apps`. Read
//! [`client::Client`] first, then [`ping`].
#![forbid(unsafe_code)]

mod answers;
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
use farlink_aap2::proto::AapStatus;
use std::io::{ErrorKind, Read};

/// Connects to a node, saying what to try when nothing is there.
///
/// # Errors
/// When nothing serves there.
pub fn connect(at: &str) -> anyhow::Result<Client> {
    Client::connect(at).map_err(|why| match why.kind() {
        ErrorKind::InvalidData => anyhow::anyhow!(
            "{at} is not an application socket: {why}\n\
             hint: --at names what `[app]` of the node's file says, such as node-a.sock; not its control socket \
             (node-a.control.sock), and not a port of its links"
        ),
        ErrorKind::InvalidInput => anyhow::anyhow!("{at}: {why}"),
        _ => anyhow::anyhow!(
            "no node at the application socket {at}: {why}\n\
             hint: is it running, and does its file have `[app] socket` or `listen`? --at names the socket"
        ),
    })
}

/// Why a node takes no bundle, in words.
fn refusal(status: AapStatus) -> &'static str {
    match status {
        AapStatus::InvalidRequest => "no bundle can go there\nhint: write ipn:NODE.SERVICE or dtn://NODE/NAME",
        AapStatus::Unauthorized => "this application may not send it\nhint: `[app]` of the node's file says who may",
        AapStatus::NotFound => "the node knows no such endpoint\nhint: `farlink node registrations` lists them",
        AapStatus::Timeout => "the node took too long\nhint: `farlink node status` says what it is busy with",
        _ => "its answer is none of those known\nhint: the node's log says more",
    }
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

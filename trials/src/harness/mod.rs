//! Real `farlink node` processes with attached applications: shared by all trials, the interoperability runs, and the
//! tests across crates.
//!
//! It links no code of the node: the program is started as any user would, and applications attach over its socket.

pub mod client;
mod measures;
mod node;
mod process;
mod program;

pub use node::Node;
pub use process::Process;
pub use program::{beside_tests, build};

use anyhow::{Result, bail};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that is free for TCP and UDP, below the range of outgoing connections, and never returned twice: a node that
/// was killed finds its port still free.
///
/// # Errors
/// When all are taken.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..20_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        // The process number spreads concurrent trials over the range, so that they do not race for the same ports.
        let port = 10_000 + (std::process::id().wrapping_mul(61).wrapping_add(step) % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 10000 and 30000")
}

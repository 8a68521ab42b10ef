//! Real `farlink node` processes and the applications attached to them: one place for every trial, for the exchange
//! with other implementations, and for the tests across crates.
//!
//! It links nothing of the node: the program is started like anyone's, and applications attach over its socket.

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

/// A port free for TCP and UDP, below those the system gives to outgoing connections, and each only once: a node that
/// was killed finds its port free again.
///
/// # Errors
/// When all are taken.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..20_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(61).wrapping_add(step) % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 10000 and 30000")
}

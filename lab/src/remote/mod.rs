//! Hosts on machines reached by SSH. `ssh` starts a shell there, which takes this program from its standard input and
//! starts it ([`agent`]); the program starts a supervisor in a root of its own and passes on what it says. Links to
//! these hosts pass the emulator here: a relay there and the emulator exchange frames as UDP datagrams. Everything
//! there ends with the connection.

mod agent;
mod clock;
mod heard;
mod machine;
mod outbox;
mod program;
mod protocol;
mod reader;
pub(crate) mod relay;

pub(crate) use agent::run_if_asked;
pub use clock::Measured;
pub(crate) use heard::Heard;
pub use machine::{Connecting, Machine};

/// The program in the root of the hosts of another machine.
pub const PROGRAM: &str = "/farlink";

/// Number of the tunnel to one end of a link.
pub const fn tunnel_of(link: usize, end: usize) -> u16 {
    (link * 2 + end) as u16
}

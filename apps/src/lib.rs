//! Applications and clients of a node: ping, echo, file transfer, performance tests, a client of the control API, and
//! benchmarks.
//!
//! They use a node as any other program would, over AAP2 ([`client`]) and HTTP ([`http`]), and link none of its code.
//! Services inside the node (echo, load) are in `node/src/apps`. [`via`] has applications for other implementations of
//! DTN. Read [`client::Client`] first, then [`ping`].
#![forbid(unsafe_code)]

mod answers;
pub mod bench;
pub mod client;
mod clock;
pub mod echo;
pub mod file;
pub mod flow;
pub mod http;
mod inbox;
pub mod perf;
pub mod ping;
mod stop;
mod timing;
pub mod via;

pub use timing::Quantiles;

use client::Client;
use farlink_aap2::proto::AapStatus;
use std::io::{self, ErrorKind, Write as _};
use std::time::{Duration, Instant};

/// Longest wait for a node that is starting: its socket appears tens of milliseconds after its process.
const STARTING: Duration = Duration::from_secs(2);
const ATTEMPTS_EVERY: Duration = Duration::from_millis(20);

/// Attempts what needs a node until the node is there, at most 2 s.
///
/// # Errors
/// Those of the attempt that do not come from an absent node at once, the others after 2 s.
pub fn while_starting<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + STARTING;
    loop {
        match attempt() {
            Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                if Instant::now() >= end {
                    return Err(why);
                }
                std::thread::sleep(ATTEMPTS_EVERY);
            }
            other => return other,
        }
    }
}

/// Error of what the user wrote, as opposed to one of the node or the machine.
#[derive(Debug)]
pub struct BadInput(pub String);
impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BadInput {}

/// Prints a message to standard error. One that cannot be printed, as on a full disk, changes nothing.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Hint for a node that ends a connection.
pub(crate) const ENDED: &str =
    "hint: is it still running? Its log has the reason; what it had accepted is in its store";

/// Connects to a node's application socket, given as for [`Client::connect`], and waits for a node that is starting;
/// errors have a hint.
///
/// # Errors
/// If nothing listens there, or the peer does not speak AAP2.
pub fn connect(at: &str) -> anyhow::Result<Client> {
    while_starting(|| Client::connect(at)).map_err(|why| match why.kind() {
        ErrorKind::InvalidData => anyhow::anyhow!(
            "{at} is not an application socket: {why}\n\
             hint: --at names the socket in `[app]` of the node's file, e.g. node-a.sock; not its control socket \
             (node-a.control.sock), and not a port of its links"
        ),
        ErrorKind::InvalidInput => BadInput(format!("{at}: {why}")).into(),
        ErrorKind::ConnectionRefused if std::path::Path::new(at).is_file() => {
            BadInput(format!("{at} is a file, not a socket\nhint: --at names the application socket, e.g. node-a.sock"))
                .into()
        }
        ErrorKind::PermissionDenied => anyhow::anyhow!(
            "the application socket {at} is not open to this user: {why}\n\
             hint: run as the node's user, or let others in with `socket_mode` of [app] in the node's file"
        ),
        _ => anyhow::anyhow!(
            "no node at the application socket {at}: {why}\n\
             hint: is it running, and does its file have `[app] socket` or `listen`? --at names the socket"
        ),
    })
}

/// Describes a node's reason to refuse a bundle, with a hint.
fn refusal(status: AapStatus) -> &'static str {
    match status {
        AapStatus::InvalidRequest => "the destination is not valid\nhint: write ipn:NODE.SERVICE or dtn://NODE/NAME",
        AapStatus::Unauthorized => "this application may not send it\nhint: see `[app]` in the node's file",
        AapStatus::NotFound => "the node knows no such endpoint\nhint: `farlink node registrations` lists them",
        AapStatus::Timeout => "the node took too long\nhint: `farlink node status` shows its load",
        _ => "unknown response\nhint: see the node's log",
    }
}

/// Unpredictable number for services, secrets and identifiers.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without random bytes at least different from other processes.
    if farlink_os::random(&mut bytes).is_err() {
        clock::now().0 ^ u64::from(std::process::id()) << 40
    } else {
        u64::from_ne_bytes(bytes)
    }
}

/// Random service number, for a short-lived application.
pub fn passing_service() -> String {
    // Above 65535, where well-known service numbers end, and below 2^31.
    (0x1_0000 + random() % 0x7fff_0000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_node_is_waited_for_but_no_mistake() {
        let mut left = 3;
        let found = while_starting(|| {
            left -= 1;
            if left > 0 { Err(ErrorKind::NotFound.into()) } else { Ok(7) }
        });
        assert_eq!(found.unwrap(), 7);
        let mut attempts = 0;
        let refused: io::Result<()> = while_starting(|| {
            attempts += 1;
            Err(ErrorKind::PermissionDenied.into())
        });
        assert_eq!((refused.unwrap_err().kind(), attempts), (ErrorKind::PermissionDenied, 1));
    }
}

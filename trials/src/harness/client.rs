//! Applications attached to a node with Farlink's own AAP2 client. `cargo xtask interop` tries the clients of µD3TN.

use farlink_aap2::proto::{AapStatus, frame};
use std::io;
use std::path::Path;
use std::time::Duration;

pub use farlink_aap2::proto::{AapBody, AapMessage, BundleAdu, ConnectionConfig};
pub use farlink_apps::client::{Client, ClientSender, DeliveredBundle};

/// Secret of applications that specify none.
const SECRET: &str = "trial";
/// Longest wait for an answer, unless the application sets another.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Attaches at `endpoint` as a subscriber with up to `window` deliveries in flight, or as a sender if `window` is 0.
///
/// # Errors
/// When there is no node, or the node refuses the endpoint.
pub fn attach(socket: &Path, endpoint: &str, window: u32) -> io::Result<Client> {
    attach_with(socket, endpoint, SECRET, window)
}

/// Attaches like [`attach`], with a secret.
///
/// # Errors
/// When there is no node, or the node refuses the endpoint.
pub fn attach_with(socket: &Path, endpoint: &str, secret: &str, window: u32) -> io::Result<Client> {
    let mut client = Client::connect(&socket.display().to_string())?;
    client.set_read_timeout(Some(ANSWER_MAX))?;
    client.configure(endpoint, secret, window)?;
    Ok(client)
}

/// ADU header of a bundle to `destination`.
pub fn to(destination: &str) -> BundleAdu {
    BundleAdu { dst_eid: destination.into(), ..BundleAdu::default() }
}

/// Reads the next answer and returns whether the node accepted the bundle.
///
/// # Errors
/// When the connection is gone, or nothing comes in time.
pub fn is_taken(client: &mut Client) -> io::Result<bool> {
    Ok(client.response()?.response_status() == AapStatus::Success)
}

/// Encoded message, for applications that break off in the middle.
pub fn framed(body: AapBody) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    frame(&AapMessage::new(body), &mut out);
    out.to_vec()
}

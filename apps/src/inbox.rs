//! Inbox of an application: a thread reads the deliveries of a subscription and passes them on with their times of
//! arrival.

use crate::answers::Answers;
use crate::client::{Client, DeliveredBundle};
use crate::connect;
use farlink_base::Instant;
use std::sync::mpsc::{Receiver, sync_channel};

/// Maximum number of deliveries buffered: a flood fills the node's store rather than this program's memory.
const HELD: usize = 1024;

/// Two connections to a node at one endpoint, one to send and one to receive.
pub struct Inbox {
    /// Connection for sending, from the same endpoint.
    pub sender: Client,
    /// Deliveries with their times of arrival.
    pub deliveries: Receiver<(Instant, DeliveredBundle)>,
}

impl Inbox {
    /// Registers both connections at a service of the node; `window` is the subscriber's.
    ///
    /// # Errors
    /// If the node is not reachable or refuses.
    pub fn open(at: &str, service: &str, window: u32) -> anyhow::Result<Inbox> {
        let mut receiver = connect(at)?;
        let endpoint = receiver.endpoint(service);
        // Random, so that no other application can share the endpoint.
        let secret = crate::random().to_string();
        receiver.configure(&endpoint, &secret, window.max(1))?;
        let mut sender = connect(at)?;
        sender.configure(&endpoint, &secret, 0)?;
        // A full channel blocks the thread. It then acknowledges nothing more, and the node stops sending once its
        // window is full.
        let (outbox, deliveries) = sync_channel(HELD);
        std::thread::Builder::new().name("inbox".into()).spawn(move || {
            let mut answers = Answers::new(window);
            while let Ok(delivered) = receiver.delivery() {
                let now = crate::clock::now();
                let due = answers.add(&receiver);
                let answered = due.and_then(|due| if due { answers.give(&mut receiver) } else { Ok(()) });
                if answered.is_err() || outbox.send((now, delivered)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Inbox { sender, deliveries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse, AapStatus, BundleAdu};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn inbox_stops_reading_when_full() {
        const SENT: usize = 3 * HELD;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let answers = answered.clone();
        let node = std::thread::spawn(move || {
            let mut success = BytesMut::new();
            proto::frame(&AapResponse::new(AapStatus::Success), &mut success);
            let sockets = [(); 2].map(|()| {
                let (mut socket, _) = listener.accept().unwrap();
                socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
                assert!(socket.read(&mut [0; 256]).unwrap() > 0);
                socket.write_all(&success).unwrap();
                socket
            });
            let mut reader = sockets[0].try_clone().unwrap();
            let length = success.len();
            let hears = std::thread::spawn(move || {
                let mut answer = vec![0; length];
                while reader.read_exact(&mut answer).is_ok() {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut out = BytesMut::new();
            let adu = BundleAdu { src_eid: "ipn:2.9".into(), payload_length: 4, ..Default::default() };
            proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
            out.extend_from_slice(b"more");
            (0..SENT).for_each(|_| (&sockets[0]).write_all(&out).unwrap());
            hears.join().unwrap();
        });
        let inbox = Inbox::open(path.to_str().unwrap(), "9", 16).unwrap();
        let mut before = 0;
        loop {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let now = answered.load(Ordering::Relaxed);
            // No acknowledgment for 200 ms: the reader is blocked.
            if now == before && now > 0 {
                break;
            }
            before = now;
        }
        assert!(before <= HELD + 16, "{before} answered, and none looked at");
        // Nothing is lost once the channel is read.
        (0..SENT).for_each(|_| drop(inbox.deliveries.recv_timeout(std::time::Duration::from_secs(20)).unwrap()));
        drop(inbox);
        drop(node);
    }
}

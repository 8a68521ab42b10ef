//! A subscription read by a thread of its own: deliveries come over a channel with their time.

use crate::answers::Answers;
use crate::client::{Client, DeliveredBundle};
use crate::connect;
use farlink_base::Instant;
use std::sync::mpsc::{Receiver, sync_channel};

/// Deliveries taken and not looked at, at most: whoever sends more than is looked at fills the node's store, and not our
/// memory.
const HELD: usize = 1024;

/// What an application that asks and waits needs: one connection to send, one that receives.
pub struct Inbox {
    /// To send with, from the same endpoint.
    pub sender: Client,
    /// Deliveries and when they came.
    pub deliveries: Receiver<(Instant, DeliveredBundle)>,
}

impl Inbox {
    /// Registers at a service of the node.
    ///
    /// # Errors
    /// When the node is not there or does not agree.
    pub fn open(at: &str, service: &str, window: u32) -> anyhow::Result<Inbox> {
        let mut receiver = connect(at)?;
        let endpoint = receiver.endpoint(service);
        let secret = crate::random().to_string();
        receiver.configure(&endpoint, &secret, window.max(1))?;
        let mut sender = connect(at)?;
        sender.configure(&endpoint, &secret, 0)?;
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
            if now == before && now > 0 {
                break;
            }
            before = now;
        }
        assert!(before <= HELD + 16, "{before} answered, and none looked at");
        // Nothing is missing once somebody looks.
        (0..SENT).for_each(|_| drop(inbox.deliveries.recv_timeout(std::time::Duration::from_secs(20)).unwrap()));
        drop(inbox);
        drop(node);
    }
}

//! A subscription read by a thread of its own: deliveries come over a channel with their time.

use crate::answers::Answers;
use crate::client::{Client, Delivered};
use crate::connect;
use farlink_base::Instant;
use std::sync::mpsc::{Receiver, channel};

/// What an application that asks and waits needs: one connection to send, one that receives.
pub struct Inbox {
    /// To send with, from the same endpoint.
    pub sender: Client,
    /// Deliveries and when they came.
    pub deliveries: Receiver<(Instant, Delivered)>,
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
        let (outbox, deliveries) = channel();
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

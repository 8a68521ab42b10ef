//! Echo service for implementations that have none: `farlink app echo`.

use super::stamp::read_reply_to;
use super::{ATTENTION, AttachedPair};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sends every payload back until `stop` is set: to the endpoint that the payload names, else to its source. Returns
/// the number sent.
///
/// # Errors
/// If the node refuses an answer or is gone.
pub fn echo(pair: AttachedPair, stop: &AtomicBool) -> Result<u64> {
    let AttachedPair { mut sender, mut receiver, endpoint } = pair;
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(delivered) = receiver.receive(ATTENTION)? else { continue };
        let to = read_reply_to(&delivered.bytes).map(String::from).or(delivered.source);
        // An answer to itself would never end, and some sources cannot be answered.
        let Some(to) = to.filter(|to| *to != endpoint && *to != "dtn:none") else { continue };
        sender.room()?;
        sender.hand_over(&to, delivered.bytes)?;
        answered += 1;
    }
    sender.finish()?;
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::super::stamp::write_reply_to;
    use super::super::{BundleReceiver, BundleSender, DeliveredPayload};
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    struct Sent(Arc<Mutex<Vec<String>>>);
    impl BundleSender for Sent {
        fn room(&mut self) -> Result<()> {
            Ok(())
        }
        fn hand_over(&mut self, to: &str, _: Vec<u8>) -> Result<()> {
            self.0.lock().unwrap().push(to.into());
            Ok(())
        }
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }
    /// Receiver that returns these deliveries, the last one first, and sets the flag with the final one.
    struct Given(Vec<DeliveredPayload>, Arc<AtomicBool>);
    impl BundleReceiver for Given {
        fn receive(&mut self, _: Duration) -> Result<Option<DeliveredPayload>> {
            self.1.store(self.0.len() <= 1, Ordering::Relaxed);
            Ok(self.0.pop())
        }
    }

    #[test]
    fn answers_go_to_named_endpoint_or_source() {
        let mut named = vec![0; 64];
        write_reply_to(&mut named, "ipn:3.9");
        let mut itself = vec![0; 64];
        write_reply_to(&mut itself, "ipn:2.7");
        let delivered = |bytes: Vec<u8>, source: Option<&str>| DeliveredPayload::now(source.map(String::from), bytes);
        let given = vec![
            delivered(itself, Some("ipn:1.9")),
            delivered(vec![0; 64], None),
            delivered(vec![1], Some("dtn:none")),
            delivered(vec![1], Some("ipn:1.9")),
            delivered(named, Some("ipn:1.9")),
        ];
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let pair = AttachedPair {
            sender: Box::new(Sent(Arc::clone(&sent))),
            receiver: Box::new(Given(given, Arc::clone(&stop))),
            endpoint: "ipn:2.7".into(),
        };
        assert_eq!(echo(pair, &stop).unwrap(), 2);
        assert_eq!(*sent.lock().unwrap(), ["ipn:3.9", "ipn:1.9"]);
    }
}

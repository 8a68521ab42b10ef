//! Resolver of host names on its own thread, so that the owner of the stack never waits for a name server.

use farlink_base::{LinkId, StreamId};
use farlink_os::poll::Waker;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Purpose of a lookup for a stream layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Connecting this stream.
    Stream(StreamId),
    /// Reporting the address of this link's peer.
    Peer(LinkId),
}

/// Addresses of a host name, or why there are none, with the name.
pub type FoundAddresses = Result<Vec<SocketAddr>, String>;

/// Queue of lookups and their answers.
#[derive(Debug)]
pub struct Resolver<K> {
    questions: Sender<(K, String)>,
    answers: Receiver<(K, FoundAddresses)>,
}

impl<K: Send + 'static> Resolver<K> {
    /// Starts the thread, which ends when the resolver is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(waker: Waker) -> std::io::Result<Self> {
        let (questions, inbox) = channel::<(K, String)>();
        let (outbox, answers) = channel();
        std::thread::Builder::new().name("resolver".into()).spawn(move || {
            while let Ok((key, name)) = inbox.recv() {
                let found = name.to_socket_addrs().map(Iterator::collect);
                if outbox.send((key, found.map_err(|why| format!("{name}: {why}")))).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Resolver { questions, answers })
    }
    /// Requests the addresses of `host:port`; a literal address is returned immediately.
    pub fn ask(&self, key: K, name: &str) -> Option<(K, Vec<SocketAddr>)> {
        if let Ok(address) = name.parse() {
            return Some((key, vec![address]));
        }
        let _ = self.questions.send((key, name.to_string()));
        None
    }
    /// Next answer, if one has arrived.
    pub fn answer(&self) -> Option<(K, FoundAddresses)> {
        self.answers.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_os::poll::Poller;
    use std::time::Duration;

    #[test]
    fn literals_resolve_immediately_names_wake_owner() {
        let mut poller = Poller::new().unwrap();
        let resolver = Resolver::start(poller.waker()).unwrap();
        let (key, addresses) = resolver.ask(1, "[::1]:99").unwrap();
        assert_eq!((key, addresses), (1, vec!["[::1]:99".parse().unwrap()]));
        assert!(resolver.ask(2, "localhost:99").is_none());
        let answer = (0..100).find_map(|_| {
            poller.wait(Some(Duration::from_millis(100)), |_| {}).unwrap();
            resolver.answer()
        });
        let (key, addresses) = answer.unwrap();
        let addresses = addresses.unwrap();
        assert_eq!(key, 2);
        assert!(addresses.iter().all(|a| a.ip().is_loopback()) && !addresses.is_empty());
    }
}

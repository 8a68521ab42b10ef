//! Applications that send and receive through dying nodes, and their observations.

use crate::harness::client::{Client, attach, is_taken, to};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a payload that carry its number.
const ID: usize = 16;

/// Observations of all applications of one direction.
#[derive(Default)]
pub struct Seen {
    /// Bundles that the node acknowledged.
    pub acknowledged: BTreeSet<u64>,
    /// Bundles whose connection was lost before an answer.
    pub unanswered: BTreeSet<u64>,
    /// Bundles that the node refused.
    pub refused: u64,
    /// All deliveries in order.
    pub deliveries: Vec<Delivery>,
    /// Bundles whose bytes differ from those sent.
    pub corrupt: Vec<u64>,
    received: BTreeSet<u64>,
}
/// A delivery to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: u64,
    pub redelivered: bool,
    /// Connection of the application, by number.
    pub connection: u64,
}

/// Evaluation of a direction's deliveries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Bundles acknowledged but never delivered.
    pub lost: Vec<u64>,
    /// Repeats of a delivery in flight when its node died, marked as redelivered.
    pub in_flight: usize,
    /// Repeats after the response was committed.
    pub repeated: Vec<u64>,
    /// Repeats of a delivery in flight without the mark.
    pub unmarked: Vec<u64>,
}

impl Seen {
    /// Number of bundles acknowledged but not delivered yet.
    pub fn missing(&self) -> usize {
        self.acknowledged.difference(&self.received).count()
    }
    /// Compares the deliveries with the acknowledgments.
    pub fn verdict(&self) -> Verdict {
        let mut verdict =
            Verdict { lost: self.acknowledged.difference(&self.received).copied().collect(), ..Verdict::default() };
        // With one delivery in flight, the next one over the same connection proves that the previous response was
        // committed.
        let mut last: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, delivery) in self.deliveries.iter().enumerate() {
            if let Some(before) = last.insert(delivery.id, at) {
                let connection = self.deliveries[before].connection;
                let committed = self.deliveries.get(before + 1).is_some_and(|next| next.connection == connection);
                match (committed, delivery.redelivered) {
                    (true, _) => verdict.repeated.push(delivery.id),
                    (false, false) => verdict.unmarked.push(delivery.id),
                    (false, true) => verdict.in_flight += 1,
                }
            }
        }
        verdict
    }
}

/// One direction: a sender at one node, a receiver at the other.
#[derive(Clone)]
pub struct Flow {
    pub name: &'static str,
    pub source: String,
    pub source_socket: PathBuf,
    pub destination: String,
    pub destination_socket: PathBuf,
    /// Most bundles that wait for an answer.
    pub window: usize,
    /// Most acknowledged but undelivered bundles. With few, each bundle is delivered as it arrives; with many, stores
    /// are full when a node dies.
    pub backlog: usize,
    pub seen: Arc<Mutex<Seen>>,
    /// Set when sending has to end.
    pub sending_over: Arc<AtomicBool>,
    /// Set when all threads have to end.
    pub over: Arc<AtomicBool>,
}
impl Flow {
    /// Observations so far, locked.
    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends until [`Flow::sending_over`], over as many connections as necessary.
    pub fn send(&self, seed: u64) {
        let (mut random, mut next) = (Random::new(seed), 0);
        while !self.sending_over.load(Ordering::Relaxed) {
            match attach(&self.source_socket, &self.source, 0) {
                Ok(client) => self.send_over(client, &mut random, &mut next),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
    fn send_over(&self, mut client: Client, random: &mut Random, next: &mut u64) {
        let mut waiting = VecDeque::new();
        loop {
            let stop = self.sending_over.load(Ordering::Relaxed);
            if !stop && waiting.len() < self.window && self.seen().missing() < self.backlog {
                let id = *next;
                *next += 1;
                waiting.push_back(id);
                if client.send(to(&self.destination), &payload(id, random.below(20_000) as usize)).is_ok() {
                    continue;
                }
            }
            let Some(id) = waiting.front().copied() else {
                if stop {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            match is_taken(&mut client) {
                Ok(true) => drop(self.seen().acknowledged.insert(id)),
                Ok(false) => self.seen().refused += 1,
                // Unanswered bundles may or may not have been accepted.
                Err(_) => return self.seen().unanswered.extend(waiting),
            }
            waiting.pop_front();
        }
    }
    /// Receives until [`Flow::over`].
    pub fn receive(&self) {
        // One delivery in flight: see `Seen::verdict`.
        let mut connection = 0;
        while !self.over.load(Ordering::Relaxed) {
            let Ok(mut client) = attach(&self.destination_socket, &self.destination, 1) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            connection += 1;
            // An hour is longer than any trial: in practice the receiver blocks until its node dies.
            let _ = client.set_read_timeout(Some(Duration::from_secs(3600)));
            while let Ok(delivered) = client.delivery() {
                let id = id_of(&delivered.payload);
                {
                    let mut seen = self.seen();
                    if delivered.payload != payload(id, delivered.payload.len().saturating_sub(ID)) {
                        seen.corrupt.push(id);
                    }
                    seen.received.insert(id);
                    seen.deliveries.push(Delivery { id, redelivered: delivered.redelivered(), connection });
                }
                if client.taken(true).is_err() {
                    break;
                }
            }
        }
    }
}

/// Payload number `id` with `length` bytes after its number.
pub fn payload(id: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ID + length);
    // The number twice, once inverted; the rest follows from it, so that any change is noticed.
    bytes.extend(id.to_be_bytes());
    bytes.extend((!id).to_be_bytes());
    let mut random = Random::new(id ^ 0xfa11);
    while bytes.len() < ID + length {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(ID + length);
    bytes
}
/// Number of a payload.
pub fn id_of(payload: &[u8]) -> u64 {
    payload.first_chunk::<8>().map_or(u64::MAX, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(acknowledged: &[u64], deliveries: &[(u64, bool, u64)]) -> Seen {
        Seen {
            acknowledged: acknowledged.iter().copied().collect(),
            received: deliveries.iter().map(|d| d.0).collect(),
            deliveries: deliveries
                .iter()
                .map(|&(id, redelivered, connection)| Delivery { id, redelivered, connection })
                .collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn verdict_separates_loss_from_repeats() {
        let fine = seen(&[1, 2], &[(1, false, 1), (2, false, 1), (2, true, 2), (3, false, 2)]).verdict();
        assert_eq!(fine, Verdict { in_flight: 1, ..Verdict::default() });
        let lost = seen(&[1, 2], &[(1, false, 1)]).verdict();
        assert_eq!(lost.lost, [2]);
        let committed = seen(&[1, 2], &[(1, false, 1), (2, false, 1), (1, true, 2)]).verdict();
        assert_eq!(committed.repeated, [1], "2 followed over the same connection");
        let unmarked = seen(&[1], &[(1, false, 1), (1, false, 2)]).verdict();
        assert_eq!((unmarked.repeated, unmarked.unmarked), (vec![], vec![1]));
    }

    #[test]
    fn payloads_carry_their_number() {
        let bytes = payload(77, 1000);
        assert_eq!((id_of(&bytes), bytes.len()), (77, 1016));
        assert_ne!(payload(78, 1000), bytes);
    }
}

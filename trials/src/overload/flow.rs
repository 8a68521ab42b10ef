//! Applications that offer bundles at a given rate regardless of answers, and one that receives.

use crate::harness::client::{BundleAdu, Client, ClientSender, attach_with, is_taken, to};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Payload length, bytes.
pub const PAYLOAD: usize = 5_000;
/// Deliveries in flight to the receiver.
const WINDOW: u32 = 256;
/// Longest wait for an answer before the application attaches again.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Observations of one flow.
#[derive(Default)]
struct FlowSeen {
    /// Time of sending of each undelivered bundle.
    open: HashMap<u64, Instant>,
    acknowledged: HashSet<u64>,
    delivered: HashSet<u64>,
    refused: u64,
    last_refused: Option<Instant>,
    corrupt: u64,
    /// Longest time from sending to delivery.
    slowest: Duration,
}

/// Bundles of one priority from one node to another.
pub struct Flow {
    /// Priority of a bundle's ADU: 2 normal, 3 expedited.
    pub priority: u32,
    /// Application socket and endpoint of the sender.
    pub source: (PathBuf, String),
    /// Application socket and endpoint of the receiver.
    pub destination: (PathBuf, String),
    /// Bundles offered per second; `u64::MAX` for as many as `backlog` allows.
    rate: AtomicU64,
    /// Greatest number of undelivered bundles at the rate `u64::MAX`.
    backlog: usize,
    seen: Mutex<FlowSeen>,
    sending_over: AtomicBool,
    over: AtomicBool,
}

/// Fate of a flow's bundles so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Bundles acknowledged to the application.
    pub acknowledged: u64,
    /// Bundles refused with an answer.
    pub refused: u64,
    /// Bundles delivered, each counted once.
    pub delivered: u64,
    /// Bundles acknowledged but not delivered.
    pub missing: u64,
    /// Deliveries that differ from the sent bytes.
    pub corrupt: u64,
    /// Longest time from sending to delivery.
    pub slowest: Duration,
    /// Time of the last refusal.
    pub last_refused: Option<Instant>,
}

impl Flow {
    /// Starts the threads of a flow, which offers nothing before [`Flow::offer`].
    pub fn start(
        priority: u32,
        source: (PathBuf, String),
        destination: (PathBuf, String),
        backlog: usize,
    ) -> (Arc<Flow>, [JoinHandle<()>; 2]) {
        let flow = Arc::new(Flow {
            priority,
            source,
            destination,
            rate: AtomicU64::new(0),
            backlog,
            seen: Mutex::default(),
            sending_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let (sender, receiver) = (flow.clone(), flow.clone());
        (flow, [std::thread::spawn(move || sender.send()), std::thread::spawn(move || receiver.receive())])
    }
    /// Offers `rate` bundles a second from now on; `u64::MAX`: as many as the backlog allows.
    pub fn offer(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }
    /// Stops offering for good.
    pub fn stop(&self) {
        self.sending_over.store(true, Ordering::Relaxed);
    }
    /// Ends all threads; to be called before the nodes end.
    pub fn end(&self) {
        self.stop();
        self.over.store(true, Ordering::Relaxed);
    }
    /// Fate of the bundles so far.
    pub fn account(&self) -> Account {
        let seen = self.seen();
        Account {
            acknowledged: seen.acknowledged.len() as u64,
            refused: seen.refused,
            delivered: seen.delivered.len() as u64,
            missing: seen.acknowledged.difference(&seen.delivered).count() as u64,
            corrupt: seen.corrupt,
            slowest: seen.slowest,
            last_refused: seen.last_refused,
        }
    }
    fn seen(&self) -> MutexGuard<'_, FlowSeen> {
        lock(&self.seen)
    }

    fn send(&self) {
        let mut next = 0;
        while !self.sending_over.load(Ordering::Relaxed) {
            match attach_with(&self.source.0, &self.source.1, "overload", 0) {
                Ok(client) => self.send_over(client, &mut next),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    fn send_over(&self, client: Client, next: &mut u64) {
        let _ = client.set_read_timeout(Some(ANSWER_MAX));
        let Ok((mut sender, answers)) = client.split() else { return };
        let waiting = Mutex::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read_answers(answers, &waiting));
            self.offer_over(&mut sender, next, &waiting, || reader.is_finished());
            // Waits for outstanding answers: an unanswered bundle counts neither as acknowledged nor as refused.
            let begun = Instant::now();
            while !reader.is_finished() && !lock(&waiting).is_empty() && begun.elapsed() < ANSWER_MAX {
                std::thread::sleep(Duration::from_millis(5));
            }
            sender.shutdown();
        });
    }
    fn read_answers(&self, mut answers: Client, waiting: &Mutex<VecDeque<u64>>) {
        while let Ok(taken) = is_taken(&mut answers) {
            // Answers come in the order of the bundles.
            let Some(id) = lock(waiting).pop_front() else { return };
            let mut seen = self.seen();
            if taken {
                seen.acknowledged.insert(id);
            } else {
                seen.open.remove(&id);
                seen.refused += 1;
                seen.last_refused = Some(Instant::now());
            }
        }
    }
    fn offer_over(
        &self,
        sender: &mut ClientSender,
        next: &mut u64,
        waiting: &Mutex<VecDeque<u64>>,
        broken: impl Fn() -> bool,
    ) {
        let (mut last, mut due) = (Instant::now(), 0.0);
        while !self.sending_over.load(Ordering::Relaxed) && !broken() {
            let rate = self.rate.load(Ordering::Relaxed);
            let room = self.backlog.saturating_sub(self.seen().open.len()) as f64;
            due += rate as f64 * last.elapsed().as_secs_f64();
            last = Instant::now();
            // At most a tenth of a second's bundles at once: a stall must not cause a burst.
            due = if rate == u64::MAX { room } else { due.min((rate as f64 / 10.0).max(1.0)) };
            while due >= 1.0 {
                due -= 1.0;
                *next += 1;
                self.seen().open.insert(*next, Instant::now());
                lock(waiting).push_back(*next);
                let adu = BundleAdu { priority: self.priority, ..to(&self.destination.1) };
                if sender.send(adu, &payload(*next)).is_err() {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    fn receive(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let Ok(mut client) = attach_with(&self.destination.0, &self.destination.1, "overload", WINDOW) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            // An hour is longer than any trial: in practice the receiver blocks until its node ends.
            let _ = client.set_read_timeout(Some(Duration::from_secs(3600)));
            while let Ok(delivered) = client.delivery() {
                self.delivered(&delivered.payload);
                if client.taken(true).is_err() {
                    break;
                }
            }
        }
    }
    fn delivered(&self, bytes: &[u8]) {
        let id = bytes.first_chunk().map_or(0, |id| u64::from_be_bytes(*id));
        let mut seen = self.seen();
        if bytes != payload(id) {
            seen.corrupt += 1;
            return;
        }
        if let Some(sent) = seen.open.remove(&id) {
            seen.slowest = seen.slowest.max(sent.elapsed());
        }
        seen.delivered.insert(id);
    }
}

fn payload(id: u64) -> Vec<u8> {
    let mut bytes = vec![id as u8 ^ 0x5a; PAYLOAD];
    bytes[..8].copy_from_slice(&id.to_be_bytes());
    bytes
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

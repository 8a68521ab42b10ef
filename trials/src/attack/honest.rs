//! Honest applications at the node under attack and at its neighbours: bundles both ways over both layers, each counted
//! and compared byte by byte.

use super::stage::Stage;
use crate::crash::load::{id_of, payload};
use crate::harness::client::{Client, ClientSender, attach_with, is_taken, to};
use anyhow::{Result, bail};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Directions, as the node under attack sees them.
pub const NAMES: [&str; 4] = ["TCPCL out", "TCPCL in", "LTP out", "LTP in"];
/// Deliveries a receiver accepts before it answers the first: enough for the disk to be the bottleneck.
const WINDOW: u32 = 256;
/// Bytes of a payload.
pub const PAYLOAD: usize = 5_000;
/// Most bundles sent in one go.
const BATCH: u64 = 64;
/// Longest wait for an answer before the application attaches again.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Longest wait for the first deliveries.
const FLOWING_MAX: Duration = Duration::from_secs(30);
/// Secret with which the applications keep their endpoints.
const SECRET: &str = "honest";

/// Observations of one direction.
#[derive(Default)]
struct HonestSeen {
    /// Bundles not yet both acknowledged and delivered, by number: whether acknowledged, whether delivered.
    open: HashMap<u64, (bool, bool)>,
    acknowledged: u64,
    refused: u64,
    corrupt: u64,
}

/// One direction: a sender and a receiver.
pub struct Flow {
    source: (PathBuf, String),
    destination: (PathBuf, String),
    /// Bundles offered per second; 0: as many as possible.
    rate: u64,
    /// Most acknowledged bundles that are not delivered yet; bounds the sender at rate 0.
    backlog: usize,
    seen: Mutex<HonestSeen>,
    delivered: AtomicU64,
    paused: AtomicBool,
    sending_over: AtomicBool,
    over: AtomicBool,
}

/// Running senders and receivers.
pub struct Honest {
    flows: Vec<Arc<Flow>>,
    threads: Vec<JoinHandle<()>>,
}

/// Fate of the honest bundles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bundles acknowledged to an application.
    pub acknowledged: u64,
    /// Bundles acknowledged but not delivered.
    pub missing: u64,
    /// Bundles refused with an answer.
    pub refused: u64,
    /// Deliveries that differ from the sent bytes.
    pub corrupt: u64,
}

impl Honest {
    /// Starts all directions with these rates, in the order of [`NAMES`], bundles per second; 0 means as many as
    /// possible.
    pub fn start(stage: &Stage, rates: [u64; 4]) -> Honest {
        let end = |node: usize, service: u64| (stage.socket(node), format!("ipn:{node}.{service}"));
        let flow = |rate, source, destination| {
            Arc::new(Flow {
                source,
                destination,
                rate,
                backlog: 1000,
                seen: Mutex::default(),
                delivered: AtomicU64::new(0),
                paused: AtomicBool::new(false),
                sending_over: AtomicBool::new(false),
                over: AtomicBool::new(false),
            })
        };
        let flows = vec![
            flow(rates[0], end(1, 11), end(2, 21)),
            flow(rates[1], end(2, 12), end(1, 22)),
            flow(rates[2], end(1, 13), end(3, 23)),
            flow(rates[3], end(3, 14), end(1, 24)),
        ];
        let mut threads = Vec::new();
        for flow in &flows {
            let (sender, receiver) = (flow.clone(), flow.clone());
            threads.push(std::thread::spawn(move || sender.send()));
            threads.push(std::thread::spawn(move || receiver.receive()));
        }
        Honest { flows, threads }
    }
    /// Waits until every direction delivers, and half a second longer.
    ///
    /// # Errors
    /// When a direction delivers nothing within half a minute.
    pub fn wait_flowing(&self) -> Result<()> {
        let begun = Instant::now();
        while self.delivered().contains(&0) {
            if begun.elapsed() > FLOWING_MAX {
                let silent = NAMES.into_iter().zip(self.delivered()).filter(|(_, delivered)| *delivered == 0);
                let silent: Vec<&str> = silent.map(|(name, _)| name).collect();
                bail!("nothing arrives undisturbed: {}", silent.join(", "));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    }
    /// Bundles delivered so far, by direction.
    pub fn delivered(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.delivered.load(Ordering::Relaxed)).collect()
    }
    /// Fate of the bundles so far, summed over all directions.
    pub fn account(&self) -> Account {
        self.flows.iter().fold(Account::default(), |sum, flow| {
            let seen = flow.seen();
            Account {
                acknowledged: sum.acknowledged + seen.acknowledged,
                missing: sum.missing + seen.missing() as u64,
                refused: sum.refused + seen.refused,
                corrupt: sum.corrupt + seen.corrupt,
            }
        })
    }
    /// Stops sending for good, and waits at most `patience` until all acknowledged bundles have arrived.
    pub fn drain(&self, patience: Duration) -> Account {
        self.flows.iter().for_each(|flow| flow.sending_over.store(true, Ordering::Relaxed));
        self.settle(patience);
        self.account()
    }
    /// Pauses the senders, waits at most `patience` until all earlier bundles have arrived, and runs `look`.
    pub fn pause<T>(&self, patience: Duration, look: impl FnOnce() -> T) -> T {
        let pause = |on| self.flows.iter().for_each(|flow| flow.paused.store(on, Ordering::Relaxed));
        pause(true);
        self.settle(patience);
        let seen = look();
        pause(false);
        seen
    }
    fn settle(&self, patience: Duration) {
        let begun = Instant::now();
        // Bundles without an answer count, too.
        while begun.elapsed() < patience && self.flows.iter().any(|flow| !flow.seen().open.is_empty()) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    /// Ends all threads. The nodes must have ended before: applications that wait for a node go on only then.
    pub fn end(self) {
        for flow in &self.flows {
            flow.sending_over.store(true, Ordering::Relaxed);
            flow.over.store(true, Ordering::Relaxed);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl HonestSeen {
    fn missing(&self) -> usize {
        self.open.values().filter(|(acknowledged, _)| *acknowledged).count()
    }
    fn answered(&mut self, id: u64, taken: bool) {
        // The node made no promise for a refused bundle.
        if !taken {
            self.refused += 1;
            self.open.remove(&id);
            return;
        }
        self.acknowledged += 1;
        match self.open.get_mut(&id) {
            Some((_, true)) => {
                self.open.remove(&id);
            }
            Some((acknowledged, _)) => *acknowledged = true,
            None => {}
        }
    }
    fn delivered(&mut self, bytes: &[u8]) {
        let id = id_of(bytes);
        if bytes != expected(id) {
            // A corrupt payload may carry another bundle's number, so no entry is closed.
            self.corrupt += 1;
            return;
        }
        match self.open.get_mut(&id) {
            Some((true, _)) => {
                self.open.remove(&id);
            }
            Some((_, delivered)) => *delivered = true,
            None => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expected(id: u64) -> Vec<u8> {
    payload(id, PAYLOAD)
}

impl Flow {
    fn seen(&self) -> MutexGuard<'_, HonestSeen> {
        lock(&self.seen)
    }
    fn send(&self) {
        let mut next = 0;
        while !self.sending_over.load(Ordering::Relaxed) {
            match attach_with(&self.source.0, &self.source.1, SECRET, 0) {
                Ok(client) => self.send_over(client, &mut next),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    /// Sends over one connection and reads answers in parallel until the connection or all sending ends.
    fn send_over(&self, client: Client, next: &mut u64) {
        let _ = client.set_read_timeout(Some(ANSWER_MAX));
        let Ok((mut sender, answers)) = client.split() else { return };
        let waiting = Mutex::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read_answers(answers, &waiting));
            self.offer(&mut sender, next, &waiting, || reader.is_finished());
            // Waits for outstanding answers: an unanswered bundle counts neither as acknowledged nor as refused.
            let begun = Instant::now();
            while !reader.is_finished() && !lock(&waiting).is_empty() && begun.elapsed() < ANSWER_MAX {
                std::thread::sleep(Duration::from_millis(5));
            }
            sender.shutdown();
        });
        // Unanswered bundles may or may not have been accepted: nothing was promised.
        let mut seen = self.seen();
        lock(&waiting).drain(..).for_each(|id| {
            seen.open.remove(&id);
        });
    }
    fn read_answers(&self, mut answers: Client, waiting: &Mutex<VecDeque<u64>>) {
        while let Ok(taken) = is_taken(&mut answers) {
            let Some(id) = lock(waiting).pop_front() else { return };
            self.seen().answered(id, taken);
        }
    }
    fn offer(
        &self,
        sender: &mut ClientSender,
        next: &mut u64,
        waiting: &Mutex<VecDeque<u64>>,
        broken: impl Fn() -> bool,
    ) {
        let (begun, mut due_before) = (Instant::now(), 0);
        while !self.sending_over.load(Ordering::Relaxed) && !broken() {
            let due = (begun.elapsed().as_secs_f64() * self.rate as f64) as u64;
            let open = self.seen().open.len();
            // Bundles that could not be sent in time are skipped, so that a stall causes no burst.
            let batch = match self.rate {
                _ if self.paused.load(Ordering::Relaxed) => 0,
                0 if open < self.backlog => BATCH,
                0 => 0,
                _ => (due - due_before).min(BATCH),
            };
            due_before = due;
            for _ in 0..batch {
                let id = *next;
                *next += 1;
                self.seen().open.insert(id, (false, false));
                // Answers come in the order of the bundles.
                lock(waiting).push_back(id);
                if sender.send(to(&self.destination.1), &expected(id)).is_err() {
                    return;
                }
            }
            // Only a full batch shows that more could be sent at once.
            if batch < BATCH {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    fn receive(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let Ok(mut client) = attach_with(&self.destination.0, &self.destination.1, SECRET, WINDOW) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            // An hour is longer than any attack: in practice the receiver blocks until its node ends.
            let _ = client.set_read_timeout(Some(Duration::from_secs(3600)));
            while let Ok(delivered) = client.delivery() {
                self.seen().delivered(&delivered.payload);
                self.delivered.fetch_add(1, Ordering::Relaxed);
                if client.taken(true).is_err() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_undelivered_bundle_is_missing() {
        let mut seen = HonestSeen::default();
        for id in 0..4 {
            seen.open.insert(id, (false, false));
        }
        seen.answered(0, true);
        seen.answered(1, false);
        seen.delivered(&expected(2));
        assert_eq!((seen.missing(), seen.refused), (1, 1), "0 is owed, 1 was refused, 2 was not promised");
        seen.delivered(&expected(0));
        seen.answered(2, true);
        assert_eq!((seen.missing(), seen.open.len()), (0, 1), "3 was neither answered nor delivered");
        let mut wrong = expected(3);
        wrong[100] ^= 1;
        seen.delivered(&wrong);
        assert_eq!(seen.corrupt, 1);
    }
}

//! Round-trip times to an echo service: `farlink app ping`.

use super::event::AppEvent;
use super::send::wait_until;
use super::stamp::{STAMP, Stamp, filler, write_reply_to};
use super::{ATTENTION, AttachedPair, BundleReceiver};
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Parameters of pings.
#[derive(Clone, Debug)]
pub struct PingPlan {
    /// Endpoint ID of the echo service.
    pub to: String,
    /// Number of pings.
    pub count: u64,
    /// Time between pings; zero: each is sent after the answer to the previous one.
    pub interval: Duration,
    /// Payload bytes, at least those of a stamp.
    pub size: u64,
    /// Time after which a ping is lost.
    pub timeout: Duration,
}

/// Arrival times (monotonic ns) and stamps of answers.
type Answers = Receiver<Result<(u64, Stamp)>>;

/// Sends pings; `say` gets an event for each, in the order of answers and losses. Returns the number answered.
///
/// # Errors
/// If the node refuses a ping or is gone.
pub fn ping(pair: AttachedPair, plan: &PingPlan, stop: &AtomicBool, say: &mut dyn FnMut(AppEvent)) -> Result<u64> {
    let AttachedPair { mut sender, receiver, endpoint } = pair;
    // Distinguishes the pings of this run from late answers to an earlier one.
    let flow = crate::random();
    let done = Arc::new(AtomicBool::new(false));
    let (answer, answers) = channel();
    let thread = {
        let done = Arc::clone(&done);
        // A thread of its own stamps answers while this one hands pings over.
        std::thread::Builder::new().name("answers".into()).spawn(move || listen(receiver, flow, &answer, &done))?
    };
    let mut run = PingRun { answers, waiting: BTreeMap::new(), answered: 0, say };
    let mut pings = || -> Result<()> {
        let begun = Instant::now();
        for number in 0..plan.count {
            let due = begun + plan.interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)).min(FOREVER);
            run.collect(
                |waiting| if plan.interval.is_zero() { waiting.is_empty() } else { Instant::now() >= due },
                stop,
            )?;
            wait_until(due, stop);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut payload = filler(usize::try_from(plan.size)?.max(STAMP));
            write_reply_to(&mut payload, &endpoint);
            sender.room()?;
            let sent_ns = farlink_os::monotonic_ns();
            Stamp { flow, number, sent_ns }.write(&mut payload);
            // Recorded before the ping is handed over: its answer may arrive before the node has accepted it.
            run.waiting.insert(number, Instant::now() + plan.timeout);
            sender.hand_over(&plan.to, payload)?;
        }
        sender.finish()?;
        run.collect(BTreeMap::is_empty, stop)
    };
    let result = pings();
    done.store(true, Ordering::Relaxed);
    // The thread checks `done` after each wait, so it ends soon. Its errors came through the channel of answers.
    let _ = thread.join();
    result.map(|()| run.answered)
}

/// Bound of durations added to an `Instant`, against overflow.
const FOREVER: Duration = Duration::from_secs(1 << 32);

fn listen(mut receiver: Box<dyn BundleReceiver>, flow: u64, answer: &Sender<Result<(u64, Stamp)>>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let answered = match receiver.receive(ATTENTION) {
            Ok(delivered) => delivered.and_then(|delivered| {
                let stamp = Stamp::read(&delivered.bytes).filter(|stamp| stamp.flow == flow)?;
                Some(Ok((delivered.at_ns, stamp)))
            }),
            Err(why) => Some(Err(why)),
        };
        let failed = matches!(answered, Some(Err(_)));
        if answered.is_some_and(|answered| answer.send(answered).is_err()) || failed {
            return;
        }
    }
}

struct PingRun<'a> {
    answers: Answers,
    /// Pings without an answer, and the times at which they are lost.
    waiting: BTreeMap<u64, Instant>,
    answered: u64,
    say: &'a mut dyn FnMut(AppEvent),
}

impl PingRun<'_> {
    /// Takes answers and reports lost pings until `stop` is set or `enough`, called with the unanswered pings, returns
    /// true.
    fn collect(&mut self, enough: impl Fn(&BTreeMap<u64, Instant>) -> bool, stop: &AtomicBool) -> Result<()> {
        while !enough(&self.waiting) && !stop.load(Ordering::Relaxed) {
            // Pings are sent in order, with one timeout: the first is lost first.
            let first = self.waiting.first_key_value().map(|(number, lost_at)| (*number, *lost_at));
            if let Some((number, _)) = first.filter(|(_, lost_at)| *lost_at <= Instant::now()) {
                self.waiting.remove(&number);
                (self.say)(AppEvent::Lost { number });
                continue;
            }
            // Waits a millisecond at most, since `enough` may become true by time alone.
            let left = first.map_or(ATTENTION, |(_, lost_at)| lost_at.saturating_duration_since(Instant::now()));
            match self.answers.recv_timeout(left.min(Duration::from_millis(1))) {
                Ok(answer) => self.take(answer?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the receiver of answers ended")),
            }
        }
        Ok(())
    }
    fn take(&mut self, (at_ns, stamp): (u64, Stamp)) {
        // Answers to lost pings, and second ones, come too late.
        if self.waiting.remove(&stamp.number).is_some() {
            self.answered += 1;
            let rtt_s = at_ns.saturating_sub(stamp.sent_ns) as f64 / 1e9;
            (self.say)(AppEvent::RoundTrip { number: stamp.number, at_ns, rtt_s, own: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::read_reply_to;
    use super::super::{BundleSender, DeliveredPayload};
    use super::*;
    use std::sync::Mutex;

    /// Echo service that answers ping `n` as often as `times(n)` returns, and the inbox that gets the answers.
    struct Echoed {
        times: fn(u64) -> usize,
        inbox: Arc<Mutex<Vec<Vec<u8>>>>,
    }
    impl BundleSender for Echoed {
        fn room(&mut self) -> Result<()> {
            Ok(())
        }
        fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
            assert_eq!((to, payload.len(), read_reply_to(&payload)), ("ipn:2.7", 64, Some("ipn:1.9")));
            let number = Stamp::read(&payload).unwrap().number;
            let mut inbox = self.inbox.lock().unwrap();
            // A payload of another flow, which the run must ignore.
            inbox.push(filler(64));
            (0..(self.times)(number)).for_each(|_| inbox.push(payload.clone()));
            Ok(())
        }
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }
    struct Inbox(Arc<Mutex<Vec<Vec<u8>>>>);
    impl BundleReceiver for Inbox {
        fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
            let payload = self.0.lock().unwrap().pop();
            if payload.is_none() {
                std::thread::sleep(wait.min(Duration::from_millis(1)));
            }
            Ok(payload.map(|bytes| DeliveredPayload::now(None, bytes)))
        }
    }

    fn pinged(times: fn(u64) -> usize, interval: Duration) -> (u64, Vec<AppEvent>) {
        let inbox = Arc::new(Mutex::new(Vec::new()));
        let pair = AttachedPair {
            sender: Box::new(Echoed { times, inbox: Arc::clone(&inbox) }),
            receiver: Box::new(Inbox(inbox)),
            endpoint: "ipn:1.9".into(),
        };
        let timeout = Duration::from_millis(200);
        let plan = PingPlan { to: "ipn:2.7".into(), count: 5, interval, size: 64, timeout };
        let mut events = Vec::new();
        let answered = ping(pair, &plan, &AtomicBool::new(false), &mut |event| events.push(event)).unwrap();
        (answered, events)
    }

    #[test]
    fn each_ping_has_one_event() {
        for interval in [Duration::ZERO, Duration::from_millis(2)] {
            // The second ping is lost; the others are answered once, twice, and so on.
            let (answered, events) = pinged(|number| if number == 1 { 0 } else { 1 + number as usize }, interval);
            assert_eq!((answered, events.len()), (4, 5), "{events:?}");
            let mut numbers: Vec<u64> = events
                .iter()
                .map(|event| match event {
                    AppEvent::RoundTrip { number, rtt_s, own: false, .. } => {
                        assert!(*number != 1 && (0.0..10.0).contains(rtt_s));
                        *number
                    }
                    AppEvent::Lost { number: 1 } => 1,
                    other => panic!("{other:?}"),
                })
                .collect();
            // Without an interval the lost ping holds the others up.
            assert!(!interval.is_zero() || numbers == [0, 1, 2, 3, 4]);
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn silence_loses_every_ping() {
        let (answered, events) = pinged(|_| 0, Duration::from_millis(1));
        assert_eq!((answered, events), (0, (0..5).map(|number| AppEvent::Lost { number }).collect()));
    }
}

//! Measurement of goodput and round-trip time between two applications, with a window or at a fixed rate.

use crate::answers::Answers;
use crate::client::Client;
use crate::inbox::Inbox;
use crate::stop::StopWatch;
use crate::{Quantiles, clock, connect, passing_service, random};
use anyhow::bail;
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_base::{DataRate, Instant};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// First bytes of a payload. Nonce of the run, sequence number and time sent (ns) follow, each in 8 bytes, big-endian.
const MAGIC: &[u8; 8] = b"FLPERF1\0";
/// Length of the header in each payload, in bytes; an answer consists of the header only.
pub const HEADER: usize = 32;
/// Window of the server: deliveries that the node sends to it before the first is acknowledged.
const WINDOW: u32 = 256;
/// Hint for the case that no answer arrives.
pub const SILENT: &str = "hint: does `farlink perf --serve` run there? `farlink node bundles` shows why bundles wait";

/// Condition to stop sending.
#[derive(Clone, Debug)]
pub enum StopRule {
    /// After this time since the start.
    After(Duration),
    /// After this many bundles.
    Count(u64),
    /// After this many payload bytes.
    Bytes(u64),
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Endpoint ID of the server.
    pub destination: String,
    /// Payload bytes in each bundle.
    pub bundle_size: u64,
    /// Maximum number of unanswered bundles, if there is no rate.
    pub window: u64,
    /// Payload rate; `None` to send by the window.
    pub rate: Option<DataRate>,
    /// Condition to stop sending.
    pub stop: StopRule,
    /// Bytes to send once, in the payloads behind the headers; filler follows.
    pub content: Option<Vec<u8>>,
    /// Longest wait for answers after the last bundle.
    pub timeout: Duration,
}

/// Results of a measurement.
#[derive(Clone, Debug)]
pub struct PerfReport {
    sent: u64,
    received: u64,
    bytes: u64,
    seconds: f64,
    rtt: Quantiles,
    failed: Option<String>,
}
impl PerfReport {
    /// Number of bundles that the node accepted.
    pub fn sent(&self) -> u64 {
        self.sent
    }
    /// Failure that ended the measurement early, with a hint.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }
    /// Number of bundles answered.
    pub fn answered(&self) -> u64 {
        self.received
    }
    fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }
    /// Results as JSON.
    pub fn json(&self) -> Value {
        json!({
            "sent": self.sent,
            "received": self.received,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "goodput_bit_s": self.per_second(self.bytes as f64 * 8.0),
            "bundles_s": self.per_second(self.received as f64),
            "rtt_ms": self.rtt.json(),
        })
    }
    /// Results as one line of text.
    pub fn summary(&self) -> String {
        format!(
            "{} sent, {} answered, {} in {:.2} s: {}, {:.0} bundles/s, round trip min/p50/p99/max {}",
            self.sent,
            self.received,
            farlink_base::DataVolume(self.bytes),
            self.seconds,
            DataRate(self.per_second(self.bytes as f64 * 8.0) as u64),
            self.per_second(self.received as f64),
            self.rtt.text()
        )
    }
}

/// Bundles and payload bytes that a server answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedCounts {
    /// Number of bundles.
    pub bundles: u64,
    /// Their payload bytes.
    pub bytes: u64,
}

/// Runs a server, which answers every bundle with its header, until `stop` is set.
///
/// # Errors
/// If the node is not reachable, refuses, or closes the connection.
pub fn serve(at: &str, service: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<ServedCounts> {
    let mut receiver = connect(at)?;
    let endpoint = receiver.endpoint(service);
    let secret = random().to_string();
    receiver.configure(&endpoint, &secret, WINDOW)?;
    let mut sender = connect(at)?;
    sender.configure(&endpoint, &secret, 0)?;
    let _watch = StopWatch::new(stop, Duration::ZERO, &[&receiver, &sender])?;
    crate::tell(&format!("measuring at {endpoint}"));
    let mut served = ServedCounts::default();
    match answer_all(&mut receiver, &mut sender, &mut served) {
        Err(_) if stop.load(Ordering::Relaxed) => Ok(served),
        Err(why) => bail!("{why}\n{}", crate::ENDED),
        Ok(never) => match never {},
    }
}

/// Answers bundles until the connection ends.
fn answer_all(receiver: &mut Client, sender: &mut Client, served: &mut ServedCounts) -> std::io::Result<Infallible> {
    // Replies and acknowledgments are handled in groups, so that the server is not the bottleneck.
    let (mut answers, mut replies) = (Answers::new(WINDOW), 0);
    loop {
        let delivered = receiver.delivery()?;
        if delivered.payload.starts_with(MAGIC) && delivered.payload.len() >= HEADER {
            let adu = BundleAdu { dst_eid: delivered.adu.src_eid, lifetime_ms: 3_600_000, ..Default::default() };
            sender.send(adu, &delivered.payload[..HEADER])?;
            replies += 1;
            served.bundles += 1;
            served.bytes += delivered.payload.len() as u64;
        }
        if answers.add(receiver)? {
            (0..std::mem::take(&mut replies)).try_for_each(|_| sender.response().map(drop))?;
            answers.give(receiver)?;
        }
    }
}

/// Runs a client, which sends bundles to a server and evaluates its answers, until the end of the measurement or until
/// `stop` is set. Calls `say` with a line of results once a second.
///
/// # Errors
/// If, before the first answer, the node is not reachable, refuses, or ends the connection. The report has what fails
/// later.
pub fn run(
    at: &str,
    options: &ClientOptions,
    stop: &Arc<AtomicBool>,
    say: impl FnMut(String),
) -> anyhow::Result<PerfReport> {
    let inbox = Inbox::open(at, &passing_service(), 256)?;
    let _watch = StopWatch::new(stop, Duration::ZERO, &[&inbox.sender])?;
    let began = clock::now();
    let mut run = PerfRun {
        inbox,
        options,
        nonce: random(),
        sent: 0,
        sent_bytes: 0,
        times: Vec::new(),
        began,
        last: began,
        stop,
        line: LineState { next: began + LINE_EVERY, answered: 0 },
        say,
    };
    let failed = match run.measure() {
        // The watch ended the connection.
        Err(_) if stop.load(Ordering::Relaxed) => None,
        Err(why) if !run.times.is_empty() => Some(why.to_string()),
        measured => measured.map(|()| None)?,
    };
    Ok(PerfReport { failed, ..run.report() })
}

/// Interval of the reports on a measurement that goes on.
const LINE_EVERY: Duration = Duration::from_secs(1);

struct PerfRun<'a, F> {
    inbox: Inbox,
    options: &'a ClientOptions,
    nonce: u64,
    sent: u64,
    sent_bytes: u64,
    times: Vec<u64>,
    began: Instant,
    last: Instant,
    stop: &'a AtomicBool,
    line: LineState,
    say: F,
}

/// State of the lines about a measurement that goes on.
struct LineState {
    next: Instant,
    /// Answers that earlier lines covered.
    answered: usize,
}

impl<F: FnMut(String)> PerfRun<'_, F> {
    fn measure(&mut self) -> anyhow::Result<()> {
        while !self.stopped() {
            if self.may_send() {
                self.send()?;
            }
            self.collect()?;
        }
        let until = clock::now() + self.options.timeout;
        while (self.times.len() as u64) < self.sent && clock::now() < until && !self.stop.load(Ordering::Relaxed) {
            // In short waits, so that lines and Control-C are not late.
            self.take(until.min(clock::now() + Duration::from_millis(50)))?;
        }
        Ok(())
    }
    fn report(&self) -> PerfReport {
        let received = self.times.len() as u64;
        PerfReport {
            sent: self.sent,
            received,
            bytes: self.bytes_of(received),
            seconds: self.last.since(self.began).as_secs_f64(),
            rtt: Quantiles::new(&self.times),
            failed: None,
        }
    }
    /// Payload bytes of this many answered bundles.
    fn bytes_of(&self, answered: u64) -> u64 {
        // Answers do not contain the payload's length, so the mean stands for it; only the last bundle may be shorter.
        let mean = if self.sent > 0 { self.sent_bytes as f64 / self.sent as f64 } else { 0.0 };
        (mean * answered as f64) as u64
    }
    /// Reports on the last second, once it is over.
    fn tell(&mut self) {
        let now = clock::now();
        if now < self.line.next {
            return;
        }
        self.line.next = now + LINE_EVERY;
        // Of the new answers only: sorting all of them each second would slow the measurement.
        let fresh = &self.times[self.line.answered..];
        let rate = DataRate(self.bytes_of(fresh.len() as u64) * 8);
        let p50 = Quantiles::new(fresh).at(0.5).map_or_else(|| "-".into(), |ms| format!("{ms:.3} ms"));
        self.line.answered = self.times.len();
        let at = now.since(self.began).as_secs_f64();
        (self.say)(format!(
            "{at:.0} s: {} sent, {} answered, {rate}, round trip p50 {p50}",
            self.sent,
            self.times.len()
        ));
    }
    fn stopped(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return true;
        }
        match self.options.stop {
            StopRule::After(time) => clock::now().since(self.began) >= time,
            StopRule::Count(count) => self.sent >= count,
            StopRule::Bytes(bytes) => self.sent_bytes >= bytes,
        }
    }
    fn may_send(&self) -> bool {
        match self.options.rate {
            Some(rate) => rate.time_for(self.sent_bytes) <= clock::now().since(self.began),
            None => self.sent < self.times.len() as u64 + self.options.window,
        }
    }
    fn send(&mut self) -> anyhow::Result<()> {
        let mut size = self.options.bundle_size as usize;
        if let StopRule::Bytes(total) = self.options.stop {
            size = size.min((total - self.sent_bytes).max(HEADER as u64) as usize);
        }
        let mut payload = Vec::with_capacity(size);
        payload.extend_from_slice(MAGIC);
        for number in [self.nonce, self.sent, clock::now().0] {
            payload.extend_from_slice(&number.to_be_bytes());
        }
        if let Some(content) = &self.options.content {
            let from = (self.sent_bytes as usize).min(content.len());
            let to = (from + size - HEADER).min(content.len());
            payload.extend_from_slice(&content[from..to]);
        }
        // Any filler will do: the server looks at the header only.
        payload.resize(size, 0x5a);
        let adu = BundleAdu { dst_eid: self.options.destination.clone(), lifetime_ms: 3_600_000, ..Default::default() };
        self.inbox.sender.send(adu, &payload)?;
        match self.inbox.sender.response()?.response_status() {
            AapStatus::Success => {
                self.sent += 1;
                self.sent_bytes += size as u64;
                Ok(())
            }
            // The store is full until bundles in flight leave it; the caller tries again.
            AapStatus::Error => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
            other => {
                bail!("the node refuses a bundle for {}: {}", self.options.destination, crate::refusal(other))
            }
        }
    }
    /// Reads the answers that have arrived; waits for one for a millisecond if nothing may be sent yet.
    fn collect(&mut self) -> anyhow::Result<()> {
        let wait = if self.may_send() { Duration::ZERO } else { Duration::from_millis(1) };
        let until = clock::now() + wait;
        while self.take(until)? {}
        Ok(())
    }
    fn take(&mut self, until: Instant) -> anyhow::Result<bool> {
        self.tell();
        let left = Duration::from_nanos(until.0.saturating_sub(clock::now().0));
        match self.inbox.deliveries.recv_timeout(left) {
            Ok((at, delivered)) => {
                let number = |from: usize| {
                    delivered.payload.get(from..from + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
                };
                // Late answers to an earlier run have another nonce.
                if delivered.payload.starts_with(MAGIC) && number(8) == self.nonce {
                    self.times.push(at.0.saturating_sub(number(24)));
                    self.last = at;
                }
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the node ended the connection\n{}", crate::ENDED),
        }
    }
}

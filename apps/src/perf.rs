//! Performance between two applications: window and rate modes.

use crate::answers::Answers;
use crate::inbox::Inbox;
use crate::{Quantiles, clock, connect, passing_service, random};
use anyhow::bail;
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_base::{DataRate, Instant};
use serde_json::{Value, json};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// First bytes of a payload; then, big-endian: run, sequence number, time sent (ns).
const MAGIC: &[u8; 8] = b"FLPERF1\0";
/// Bytes of the header in each payload, which is all of an answer.
pub const HEADER: usize = 32;
/// Deliveries under way to whoever serves.
const WINDOW: u32 = 256;
/// What to look at when nothing comes back.
pub const SILENT: &str =
    "hint: does `farlink perf --serve` run there? `farlink node bundles` says what the bundles wait for";

/// When to stop sending.
#[derive(Clone, Debug)]
pub enum StopRule {
    /// After a time.
    After(Duration),
    /// After so many bundles.
    Count(u64),
    /// After so many payload bytes.
    Bytes(u64),
}

/// What to do.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The serving side.
    pub destination: String,
    /// Payload bytes.
    pub bundle_size: u64,
    /// Unanswered bundles at once (window mode).
    pub window: u64,
    /// Payload rate (rate mode).
    pub rate: Option<DataRate>,
    /// When to stop.
    pub stop: StopRule,
    /// Bytes to fill payloads with, once.
    pub content: Option<Vec<u8>>,
    /// Wait after the last.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct PerfReport {
    sent: u64,
    received: u64,
    bytes: u64,
    seconds: f64,
    rtt: Quantiles,
}
impl PerfReport {
    /// Bundles that were answered.
    pub fn answered(&self) -> u64 {
        self.received
    }
    fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }
    /// For programs.
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
    /// For people.
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

/// Answers every bundle with its header, until the node closes the connection.
///
/// # Errors
/// When the node is not there or does not agree.
pub fn serve(at: &str, service: &str) -> anyhow::Result<()> {
    let mut receiver = connect(at)?;
    let endpoint = receiver.endpoint(service);
    let secret = random().to_string();
    receiver.configure(&endpoint, &secret, WINDOW)?;
    let mut sender = connect(at)?;
    sender.configure(&endpoint, &secret, 0)?;
    eprintln!("measuring at {endpoint}");
    let (mut answers, mut replies) = (Answers::new(WINDOW), 0);
    loop {
        let delivered = receiver.delivery()?;
        if delivered.payload.starts_with(MAGIC) && delivered.payload.len() >= HEADER {
            let adu = BundleAdu { dst_eid: delivered.adu.src_eid, lifetime_ms: 3_600_000, ..Default::default() };
            sender.send(adu, &delivered.payload[..HEADER])?;
            replies += 1;
        }
        if answers.add(&receiver)? {
            (0..std::mem::take(&mut replies)).try_for_each(|_| sender.response().map(drop))?;
            answers.give(&mut receiver)?;
        }
    }
}

/// Measures against a serving side.
///
/// # Errors
/// When the node is not there or refuses.
pub fn run(at: &str, options: &ClientOptions) -> anyhow::Result<PerfReport> {
    let inbox = Inbox::open(at, &passing_service(), 256)?;
    let mut run =
        PerfRun { inbox, options, nonce: random(), sent: 0, sent_bytes: 0, times: Vec::new(), last: clock::now() };
    let began = clock::now();
    while !run.stopped(began) {
        if run.may_send(began) {
            run.send()?;
        }
        run.collect(began)?;
    }
    let until = clock::now() + options.timeout;
    while (run.times.len() as u64) < run.sent && clock::now() < until {
        run.take(until)?;
    }
    let received = run.times.len() as u64;
    let mean = if run.sent > 0 { run.sent_bytes as f64 / run.sent as f64 } else { 0.0 };
    Ok(PerfReport {
        sent: run.sent,
        received,
        bytes: (mean * received as f64) as u64,
        seconds: run.last.since(began).as_secs_f64(),
        rtt: Quantiles::new(&run.times),
    })
}

struct PerfRun<'a> {
    inbox: Inbox,
    options: &'a ClientOptions,
    nonce: u64,
    sent: u64,
    sent_bytes: u64,
    times: Vec<u64>,
    last: Instant,
}

impl PerfRun<'_> {
    fn stopped(&self, began: Instant) -> bool {
        match self.options.stop {
            StopRule::After(time) => clock::now().since(began) >= time,
            StopRule::Count(count) => self.sent >= count,
            StopRule::Bytes(bytes) => self.sent_bytes >= bytes,
        }
    }
    fn may_send(&self, began: Instant) -> bool {
        match self.options.rate {
            Some(rate) => rate.time_for(self.sent_bytes) <= clock::now().since(began),
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
        payload.resize(size, 0x5a);
        let adu = BundleAdu { dst_eid: self.options.destination.clone(), lifetime_ms: 3_600_000, ..Default::default() };
        self.inbox.sender.send(adu, &payload)?;
        match self.inbox.sender.response()?.response_status() {
            AapStatus::Success => {
                self.sent += 1;
                self.sent_bytes += size as u64;
                Ok(())
            }
            // The store is full: what is on the way must leave first.
            AapStatus::Error => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
            other => {
                bail!("the node does not take a bundle for {}: {}", self.options.destination, crate::refusal(other))
            }
        }
    }
    /// Takes what answers are in; waits for one when nothing may be sent.
    fn collect(&mut self, began: Instant) -> anyhow::Result<()> {
        let wait = if self.may_send(began) { Duration::ZERO } else { Duration::from_millis(1) };
        let until = clock::now() + wait;
        while self.take(until)? {}
        Ok(())
    }
    fn take(&mut self, until: Instant) -> anyhow::Result<bool> {
        let left = Duration::from_nanos(until.0.saturating_sub(clock::now().0));
        match self.inbox.deliveries.recv_timeout(left) {
            Ok((at, delivered)) => {
                let number = |from: usize| {
                    delivered.payload.get(from..from + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
                };
                if delivered.payload.starts_with(MAGIC) && number(8) == self.nonce {
                    self.times.push(at.0.saturating_sub(number(24)));
                    self.last = at;
                }
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the node closed the connection"),
        }
    }
}

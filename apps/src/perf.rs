//! Measurement of goodput and round-trip time between two applications, with a window or at a fixed rate.

use crate::answers::Answers;
use crate::inbox::Inbox;
use crate::{Quantiles, clock, connect, passing_service, random};
use anyhow::bail;
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_base::{DataRate, Instant};
use serde_json::{Value, json};
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
}
impl PerfReport {
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

/// Runs a server, which answers every bundle with its header, until the node closes the connection.
///
/// # Errors
/// If the node is not reachable, refuses, or closes the connection.
pub fn serve(at: &str, service: &str) -> anyhow::Result<()> {
    let mut receiver = connect(at)?;
    let endpoint = receiver.endpoint(service);
    let secret = random().to_string();
    receiver.configure(&endpoint, &secret, WINDOW)?;
    let mut sender = connect(at)?;
    sender.configure(&endpoint, &secret, 0)?;
    eprintln!("measuring at {endpoint}");
    // Replies and acknowledgments are handled in groups, so that the server is not the bottleneck.
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

/// Runs a client, which sends bundles to a server and evaluates its answers.
///
/// # Errors
/// If the node is not reachable or refuses.
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
    // Answers do not contain the payload's length, so the mean stands for it; only the last bundle may be shorter.
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
                // Late answers to an earlier run have another nonce.
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

//! Ping: sends bundles to an echo service, and measures their round-trip times.

use crate::client::DeliveredBundle;
use crate::inbox::Inbox;
use crate::{Quantiles, clock, passing_service, random};
use anyhow::{anyhow, bail};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_base::Instant;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// First bytes of a ping's payload. Nonce of the run, sequence number and time sent (ns) follow, each in 8 bytes,
/// big-endian.
const MAGIC: &[u8; 8] = b"FLPING1\0";
const HEADER: usize = 32;
/// Interval at which the stop flag is checked.
const ATTENTION: Duration = Duration::from_millis(50);
/// Hint for the case that no answer arrives.
pub const SILENT: &str =
    "hint: is it running? `farlink node bundles` shows why pings wait here; its log, whether it refused them";
/// Echo services that are tried if the destination is a node without a service.
const SERVICES: [&str; 3] = ["128", "7", "2047"];

/// Parameters of [`run`].
#[derive(Clone, Debug)]
pub struct PingOptions {
    /// Endpoint ID, or node ID without a service, such as `ipn:2` or `dtn://mars/`.
    pub destination: String,
    /// Number of pings.
    pub count: u64,
    /// Time between pings; 0 to send each ping after the answer to the previous one.
    pub interval: Duration,
    /// Payload bytes in each ping.
    pub size: u64,
    /// Longest wait for answers after the last ping, and for the node to accept each ping.
    pub timeout: Duration,
}

/// Results of the pings.
#[derive(Clone, Debug)]
pub struct PingReport {
    /// Number of pings that the node accepted.
    pub sent: u64,
    /// Number of answers received.
    pub received: u64,
    /// Endpoint ID to which the pings were sent.
    pub destination: String,
    /// Quantiles of the round-trip times.
    pub rtt: Quantiles,
    /// Failure that ended the pings early, with a hint.
    pub failed: Option<String>,
}
impl PingReport {
    /// Results as JSON.
    pub fn json(&self) -> Value {
        json!({
            "destination": self.destination, "sent": self.sent, "received": self.received, "rtt_ms": self.rtt.json(),
        })
    }
    /// Results as one line of text.
    pub fn summary(&self) -> String {
        let PingReport { sent, received, .. } = self;
        format!("{sent} sent, {received} received, round trip min/p50/p99/max {}", self.rtt.text())
    }
}

/// Registers at a random service of the node at `at`, for [`run`].
///
/// # Errors
/// If the node is not reachable or refuses.
pub fn attach(at: &str) -> anyhow::Result<Inbox> {
    Inbox::open(at, &passing_service(), 1)
}

/// Sends the pings, and waits until all are answered, the timeout has passed, or `stop` is set. Calls `say` with a line
/// per answer.
///
/// # Errors
/// If, before the first answer, the connection is lost, the node refuses a ping or does not accept it in time; if no
/// echo service answers. The report has what fails later.
pub fn run(
    inbox: Inbox,
    options: &PingOptions,
    stop: &AtomicBool,
    say: impl FnMut(String),
) -> anyhow::Result<PingReport> {
    inbox.sender.set_write_timeout(Some(options.timeout.max(ATTENTION)))?;
    let mut run =
        PingRun { inbox, options, stop, nonce: random(), sent: BTreeMap::new(), times: Vec::new(), say, taken: 0 };
    let candidates = candidates(&options.destination);
    let destination = match candidates.as_slice() {
        [one] => one.clone(),
        several => run.find_service(several)?,
    };
    let failed = match run.pings(&destination) {
        Err(why) if !run.times.is_empty() => Some(why.to_string()),
        ended => ended.map(|()| None)?,
    };
    let (received, rtt) = (run.times.len() as u64, Quantiles::new(&run.times));
    Ok(PingReport { sent: run.taken, received, destination, rtt, failed })
}

/// Endpoint IDs to try for a destination.
pub fn candidates(destination: &str) -> Vec<String> {
    // A node's own endpoint, `ipn:2.0`, is for the node itself: whoever pings it means the node.
    let node = destination.strip_suffix(".0").unwrap_or(destination);
    if node.strip_prefix("ipn:").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit())) {
        SERVICES.iter().map(|service| format!("{node}.{service}")).collect()
    } else if destination.starts_with("dtn://") && !destination["dtn://".len()..].trim_end_matches('/').contains('/') {
        vec![format!("{}/echo", destination.trim_end_matches('/'))]
    } else {
        vec![destination.to_string()]
    }
}

struct PingRun<'a, F> {
    inbox: Inbox,
    options: &'a PingOptions,
    stop: &'a AtomicBool,
    nonce: u64,
    /// Sequence numbers of unanswered pings, with their destinations.
    sent: BTreeMap<u64, String>,
    times: Vec<u64>,
    say: F,
    taken: u64,
}

impl<F: FnMut(String)> PingRun<'_, F> {
    /// Tries the echo services one second apart; returns the first that answers.
    fn find_service(&mut self, candidates: &[String]) -> anyhow::Result<String> {
        let began = clock::now();
        for (number, candidate) in candidates.iter().enumerate() {
            // Probes have the highest numbers, pings the lowest, so that a late answer to a probe is not taken for that
            // of a ping.
            let sequence = u64::MAX - number as u64;
            self.send(sequence, candidate)?;
            // The last candidate gets the whole timeout, for links with a long delay.
            let last = number + 1 == candidates.len();
            let until = if last { began + self.options.timeout } else { clock::now() + Duration::from_secs(1) };
            while let Some((_, sequence)) = self.answer(until)? {
                if let Some(destination) = self.sent.remove(&sequence) {
                    // Late answers of the other services must not count.
                    self.sent.clear();
                    self.taken = 0;
                    return Ok(destination);
                }
            }
        }
        let waited = clock::now().since(began).as_secs_f64().round();
        let tried: Vec<&str> = candidates.iter().filter_map(|c| c.rsplit('.').next()).collect();
        bail!("no answer from {} in {waited} s (tried {})\n{SILENT}", self.options.destination, tried.join(", "))
    }
    fn pings(&mut self, destination: &str) -> anyhow::Result<()> {
        let began = clock::now();
        for sequence in 0..self.options.count {
            if self.stopped() {
                break;
            }
            self.send(sequence, destination)?;
            let due = began + self.options.interval * u32::try_from(sequence + 1).unwrap_or(u32::MAX);
            if self.options.interval.is_zero() {
                self.collect(clock::now() + self.options.timeout, true)?;
            } else if sequence + 1 < self.options.count {
                self.collect(due, false)?;
            }
        }
        self.collect(clock::now() + self.options.timeout, true)
    }
    /// Reads answers until a time or, with `all`, until every ping is answered.
    fn collect(&mut self, until: Instant, all: bool) -> anyhow::Result<()> {
        while !(all && self.sent.is_empty()) {
            let Some((time_ns, sequence)) = self.answer(until)? else { break };
            if let Some(from) = self.sent.remove(&sequence) {
                self.times.push(time_ns);
                (self.say)(format!("answer from {from}: sequence {sequence}, {:.3} ms", time_ns as f64 / 1e6));
            }
        }
        Ok(())
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    fn send(&mut self, sequence: u64, destination: &str) -> anyhow::Result<()> {
        let mut payload = Vec::with_capacity(HEADER);
        payload.extend_from_slice(MAGIC);
        payload.extend_from_slice(&self.nonce.to_be_bytes());
        payload.extend_from_slice(&sequence.to_be_bytes());
        payload.extend_from_slice(&clock::now().0.to_be_bytes());
        payload.resize(HEADER.max(usize::try_from(self.options.size).unwrap_or(HEADER)), b'.');
        let adu = BundleAdu { dst_eid: destination.to_string(), lifetime_ms: 3_600_000, ..Default::default() };
        self.sent.insert(sequence, destination.to_string());
        let until = clock::now() + self.options.timeout;
        match self.inbox.sender.send(adu, &payload) {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(self.not_taken());
            }
            sent => sent?,
        }
        // Polls before it reads: on a Unix socket, a blocked read would also be woken whenever the node reads.
        while !self.inbox.sender.hears_within(ATTENTION)? {
            if self.stopped() {
                return Ok(());
            }
            if clock::now() >= until {
                return Err(self.not_taken());
            }
        }
        match self.inbox.sender.response()?.response_status() {
            AapStatus::Success => self.taken += 1,
            other => bail!("the node refuses a ping for {destination}: {}", crate::refusal(other)),
        }
        Ok(())
    }
    /// Creates the error for a ping that the node did not accept in time.
    fn not_taken(&self) -> anyhow::Error {
        let PingOptions { size, timeout, .. } = self.options;
        let waited = timeout.as_secs_f64();
        anyhow!(
            "the node did not accept a ping of {size} B in {waited} s\nhint: use a smaller --size, or a longer --timeout"
        )
    }
    /// Waits until a time for the next answer of this run; returns its round-trip time in ns and its sequence number.
    fn answer(&mut self, until: Instant) -> anyhow::Result<Option<(u64, u64)>> {
        loop {
            let left = Duration::from_nanos(until.0.saturating_sub(clock::now().0));
            match self.inbox.deliveries.recv_timeout(left.min(ATTENTION)) {
                Ok((at, delivered)) => {
                    if let Some((sequence, sent)) = read(&delivered, self.nonce) {
                        return Ok(Some((at.0.saturating_sub(sent), sequence)));
                    }
                }
                Err(RecvTimeoutError::Timeout) if left > ATTENTION && !self.stopped() => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the node ended the connection\n{}", crate::ENDED)
                }
            }
        }
    }
}

fn read(delivered: &DeliveredBundle, nonce: u64) -> Option<(u64, u64)> {
    let payload = delivered.payload.get(..HEADER)?;
    let number = |at: usize| payload.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
    (payload.starts_with(MAGIC) && number(8)? == nonce).then_some((number(16)?, number(24)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use farlink_aap2::proto::{self, AapResponse};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    /// Simulates a node that lets applications register and then neither reads nor answers.
    fn mute(path: &std::path::Path) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                socket.write_all(&proto::greeting("ipn:1.0")).unwrap();
                let mut config = [0; 256];
                assert!(socket.read(&mut config).unwrap() > 0);
                let mut success = BytesMut::new();
                proto::frame(&AapResponse::new(AapStatus::Success), &mut success);
                socket.write_all(&success).unwrap();
                kept.push(socket);
            }
        });
    }

    #[test]
    fn ping_gives_up_on_stalled_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mute.sock");
        mute(&path);
        // A short ping fits the socket's buffer and is not answered; a long one cannot even be written.
        for size in [64, 16_000_000] {
            let inbox = attach(path.to_str().unwrap()).unwrap();
            let timeout = Duration::from_millis(100);
            let options = PingOptions { destination: "ipn:2.7".into(), count: 1, interval: timeout, size, timeout };
            let error = run(inbox, &options, &AtomicBool::new(false), |_| ()).unwrap_err().to_string();
            assert!(error.contains(&format!("did not accept a ping of {size} B in 0.1 s\nhint: ")), "{error}");
        }
    }

    #[test]
    fn node_destination_means_echo_service() {
        assert_eq!(candidates("ipn:2"), ["ipn:2.128", "ipn:2.7", "ipn:2.2047"]);
        assert_eq!(candidates("ipn:2.0"), candidates("ipn:2"));
        assert_eq!(candidates("ipn:2.9"), ["ipn:2.9"]);
        assert_eq!(candidates("dtn://mars/"), ["dtn://mars/echo"]);
        assert_eq!(candidates("dtn://mars/ping"), ["dtn://mars/ping"]);
    }
}

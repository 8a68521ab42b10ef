//! Interface of a peer, and peers controlled over standard input and output.

use super::process::last_lines;
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A foreign node that is our node's neighbour.
pub trait Peer: Send {
    /// Starts the node; called again after each kill.
    fn start(&mut self) -> Result<()>;
    /// Ends the node without a shutdown.
    fn kill(&mut self);
    /// Lets the node send a bundle, with a delivery report requested where possible.
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()>;
    /// Payload that arrives for the node's application within `wait`, if any.
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>>;
    /// Number of delivery reports that the node has understood so far.
    fn reports(&mut self) -> Result<usize>;
}

/// Abilities of a peer over one layer, from its documentation or from observation.
#[derive(Clone)]
pub struct Can {
    /// Endpoint of the peer's application.
    pub endpoint: &'static str,
    /// Endpoint that answers pings.
    pub echo: Option<&'static str>,
    /// Largest payloads that the peer receives and sends; 0 if its bundles cannot be read.
    pub takes: usize,
    pub gives: usize,
    /// Payloads of the trials with a single long bundle, to the peer and from it; 0: no such trial.
    pub takes_once: usize,
    pub gives_once: usize,
    /// Whether the peer reports deliveries, and understands such reports.
    pub reports: bool,
    pub understands_reports: bool,
    /// Whether each bundle is one datagram, which may be lost.
    pub datagrams: bool,
    /// Whether the peer retransmits unconfirmed bundles.
    pub repeats: bool,
    /// Whether trials kill and restart either side.
    pub restarts: bool,
}

/// Longest frame accepted from a driven peer, bytes.
const FRAME_MAX: u32 = 256 << 20;
/// Longest wait for a driven peer's start or answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A peer that exchanges frames: a letter, a length (4 bytes, big-endian) and the body. It receives `S` (endpoint, zero
/// byte, payload: send it); it sends `K` (ready), `A` (bundle sent), `E` (not sent, with the reason), `D` (a payload
/// arrived) and `R` (a delivery report arrived).
pub struct Driven {
    command: Box<dyn Fn() -> Command + Send>,
    log: PathBuf,
    running: Option<PeerRunning>,
}

struct PeerRunning {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Result<(), String>>,
    payloads: Receiver<Vec<u8>>,
    reports: Arc<AtomicUsize>,
}

impl Drop for PeerRunning {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Driven {
    /// A peer started by `command`; its standard error is appended to `log`.
    pub fn new(command: impl Fn() -> Command + Send + 'static, log: PathBuf) -> Driven {
        Driven { command: Box::new(command), log, running: None }
    }
    fn running(&mut self) -> Result<&mut PeerRunning> {
        self.running.as_mut().context("the peer does not run")
    }
    fn answer(&mut self) -> Result<()> {
        let log = self.log.clone();
        match self.running()?.answers.recv_timeout(ANSWER_MAX) {
            Ok(answer) => answer.map_err(anyhow::Error::msg),
            Err(RecvTimeoutError::Timeout) => bail!("the peer says nothing for {ANSWER_MAX:?}:\n{}", last_lines(&log)),
            Err(RecvTimeoutError::Disconnected) => bail!("the peer ended:\n{}", last_lines(&log)),
        }
    }
}

impl Peer for Driven {
    fn start(&mut self) -> Result<()> {
        let mut command = (self.command)();
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = child.with_context(|| format!("cannot run `{}`", tools::shown(&command)))?;
        let input = child.stdin.take().context("no standard input")?;
        let mut output = child.stdout.take().context("no standard output")?;
        let ((answer, answers), (payload, payloads)) = (channel(), channel());
        let reports = Arc::new(AtomicUsize::new(0));
        let counted = reports.clone();
        std::thread::spawn(move || {
            while let Ok((letter, body)) = frame(&mut output) {
                let heard = match letter {
                    b'K' | b'A' => answer.send(Ok(())).is_ok(),
                    b'E' => answer.send(Err(String::from_utf8_lossy(&body).into_owned())).is_ok(),
                    b'D' => payload.send(body).is_ok(),
                    b'R' => counted.fetch_add(1, Ordering::Relaxed) < usize::MAX,
                    // An unknown letter ends the reader: later bytes cannot be divided into frames.
                    _ => false,
                };
                if !heard {
                    break;
                }
            }
        });
        self.running = Some(PeerRunning { child, input, answers, payloads, reports });
        // Waits for the first frame, which is `K`.
        self.answer()
    }
    fn kill(&mut self) {
        self.running = None;
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        let body = [to.as_bytes(), &[0], payload].concat();
        let input = &mut self.running()?.input;
        input.write_all(&[&b"S"[..], &(body.len() as u32).to_be_bytes()].concat())?;
        input.write_all(&body)?;
        input.flush()?;
        self.answer()
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let log = self.log.clone();
        match self.running()?.payloads.recv_timeout(wait) {
            Ok(payload) => Ok(Some(payload)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the peer ended:\n{}", last_lines(&log)),
        }
    }
    fn reports(&mut self) -> Result<usize> {
        Ok(self.running()?.reports.load(Ordering::Relaxed))
    }
}

fn frame(input: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    // The length is checked before memory is allocated.
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [letter, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    ensure!(length <= FRAME_MAX, "a frame of {length} bytes");
    let mut body = Vec::new();
    input.take(length.into()).read_to_end(&mut body)?;
    ensure!(body.len() as u64 == u64::from(length), "a frame cut short");
    Ok((letter, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_frames_are_refused() {
        assert_eq!(frame(&mut &b"D\0\0\0\x02hi"[..]).unwrap(), (b'D', b"hi".to_vec()));
        for bytes in [&b""[..], b"D\0\0", b"D\0\0\0\x02h", b"D\xff\xff\xff\xffhi"] {
            assert!(frame(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn peer_end_reports_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let script = "printf 'K\\0\\0\\0\\0D\\0\\0\\0\\002hiR\\0\\0\\0\\0E\\0\\0\\0\\002no'; head -c 10 >/dev/null; echo gone >&2";
        let command = move || {
            let mut command = Command::new("bash");
            command.args(["-c", script]);
            command
        };
        let mut peer = Driven::new(command, dir.path().join("log"));
        assert!(peer.take(Duration::ZERO).is_err(), "before it was started");
        peer.start().unwrap();
        assert_eq!(peer.take(Duration::from_secs(10)).unwrap().as_deref(), Some(&b"hi"[..]));
        assert_eq!(peer.send("ipn:1.7", b"x").unwrap_err().to_string(), "no");
        assert_eq!(peer.reports().unwrap(), 1);
        let ended = loop {
            if let Err(why) = peer.take(Duration::from_secs(10)) {
                break why.to_string();
            }
        };
        assert!(ended.contains("the peer ended"), "{ended}");
    }
}

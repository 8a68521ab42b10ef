//! Running an application of `farlink app`: its events go to standard output while it works, and signals end it.

use crate::CliError;
use crate::values::counted;
use farlink_apps::via::event::AppEvent;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that lines wait before they are written.
const FLUSH: Duration = Duration::from_millis(50);
/// Buffered bytes beyond which lines are written without waiting for [`FLUSH`].
const LINES_MAX: usize = 64 << 10;
/// Time that an application has to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Lines on their way to standard output.
#[derive(Default)]
struct WaitingLines(Vec<u8>);

impl WaitingLines {
    fn flush(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        if let Err(why) = stdout.write_all(&self.0).and_then(|()| stdout.flush()) {
            crate::print::stdout_failed(&why);
        }
        self.0.clear();
    }
}

/// Counts of the events of an application.
#[derive(Default)]
struct EventCounts {
    created: u64,
    delivered: u64,
    answered: u64,
    lost: u64,
}

impl EventCounts {
    fn add(&mut self, event: &AppEvent) {
        match event {
            AppEvent::Created { .. } => self.created += 1,
            AppEvent::Delivered { again: false, .. } => self.delivered += 1,
            AppEvent::RoundTrip { .. } => self.answered += 1,
            AppEvent::Lost { .. } => self.lost += 1,
            _ => {}
        }
    }
    /// Summary of an application that a signal ended.
    fn summary(&self, kind: AppKind) -> Option<String> {
        match kind {
            AppKind::Sender => Some(format!("{} handed over", counted(self.created, "bundle"))),
            AppKind::Receiver => Some(format!("{} received", counted(self.delivered, "bundle"))),
            AppKind::Ping => Some(format!("{} answered, {} lost", self.answered, self.lost)),
            AppKind::Other => None,
        }
    }
}

/// Kind of an application, which determines its summary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AppKind {
    Sender,
    Receiver,
    Ping,
    /// One without events, which prints its own summary if it has one.
    Other,
}

/// Runs an application on a thread of its own, so that lines are written and signals heeded even while the node does
/// not answer. Without `json`, bundles handed over are not listed.
pub fn run<F>(kind: AppKind, json: bool, application: F) -> Result<(), CliError>
where
    F: FnOnce(&AtomicBool, &mut dyn FnMut(AppEvent)) -> anyhow::Result<()> + Send + 'static,
{
    let stop = farlink_os::process::watch_termination()?;
    let lines = Arc::new(Mutex::new(WaitingLines::default()));
    let counts = Arc::new(Mutex::new(EventCounts::default()));
    let (done, end) = channel();
    let thread = {
        let (stop, lines, counts) = (Arc::clone(&stop), Arc::clone(&lines), Arc::clone(&counts));
        std::thread::Builder::new().name("application".into()).spawn(move || {
            let result = application(&stop, &mut |event| {
                counts.lock().unwrap_or_else(PoisonError::into_inner).add(&event);
                let delivered = matches!(event, AppEvent::Delivered { .. });
                let line = match event {
                    _ if json => event.json().to_string(),
                    AppEvent::Created { .. } => return,
                    _ => event.text(),
                };
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.0.extend_from_slice(line.as_bytes());
                lines.0.push(b'\n');
                // The timer may be slower than the application: a full buffer is written at once, so that lines never
                // pile up. So is a delivery: the node forgets it once it is acknowledged, and a kill must not lose it.
                if delivered || lines.0.len() >= LINES_MAX {
                    lines.flush();
                }
            });
            let _ = done.send(result);
        })?
    };
    let mut stopped_at: Option<Instant> = None;
    loop {
        let ended = end.recv_timeout(FLUSH);
        lines.lock().unwrap_or_else(PoisonError::into_inner).flush();
        match ended {
            Ok(result) => {
                let summary = counts.lock().unwrap_or_else(PoisonError::into_inner).summary(kind);
                if let Some(summary) = summary.filter(|_| stop.load(Ordering::Relaxed)) {
                    eprintln!("stopped: {summary}");
                }
                return Ok(result?);
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The thread panicked, which has printed the reason.
                return match thread.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => Err(CliError::Run(anyhow::anyhow!("the application ended without a result"))),
                };
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) && stopped_at.get_or_insert_with(Instant::now).elapsed() > GRACE {
            return Err(CliError::Run(anyhow::anyhow!("stopped while the node did not answer")));
        }
    }
}

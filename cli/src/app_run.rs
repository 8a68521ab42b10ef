//! Running an application of `farlink app`: its events go to standard output while it works, and signals end it.

use crate::CliError;
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

/// Runs an application on a thread of its own, so that lines are written and signals heeded even while the node does
/// not answer. Without `json`, bundles handed over are not listed.
pub fn run<F>(json: bool, application: F) -> Result<(), CliError>
where
    F: FnOnce(&AtomicBool, &mut dyn FnMut(AppEvent)) -> anyhow::Result<()> + Send + 'static,
{
    let stop = farlink_os::process::watch_termination()?;
    let lines = Arc::new(Mutex::new(WaitingLines::default()));
    let (done, end) = channel();
    let thread = {
        let (stop, lines) = (Arc::clone(&stop), Arc::clone(&lines));
        std::thread::Builder::new().name("application".into()).spawn(move || {
            let result = application(&stop, &mut |event| {
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
            Ok(result) => return Ok(result?),
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

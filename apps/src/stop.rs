//! End of an application at the user's request (Control-C).

use crate::client::Client;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the flag is read: short enough that a person does not notice.
const ATTENTION: Duration = Duration::from_millis(20);

/// Watches a stop flag while it lives, and ends the connections that would block past it.
pub(crate) struct StopWatch(Arc<AtomicBool>);

impl StopWatch {
    /// Once `stop` is set, and `grace` has passed, ends these connections: a blocked call of theirs then fails.
    pub fn new(stop: &Arc<AtomicBool>, grace: Duration, clients: &[&Client]) -> io::Result<StopWatch> {
        let connections = clients.iter().map(|client| client.ender()).collect::<io::Result<Vec<_>>>()?;
        let (stop, over) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let watch = StopWatch(over.clone());
        std::thread::Builder::new().name("stop".into()).spawn(move || {
            let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            let mut stopped_at = None;
            while !is_set(&over) {
                if is_set(&stop) && stopped_at.get_or_insert_with(Instant::now).elapsed() >= grace {
                    connections.iter().for_each(|connection| connection.shutdown());
                    return;
                }
                std::thread::sleep(ATTENTION);
            }
        })?;
        Ok(watch)
    }
}
impl Drop for StopWatch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sleeps for this time, or until `stop` is set.
pub(crate) fn sleep(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(ATTENTION));
    }
}

//! Ctrl-C and SIGTERM end a run in good order: nodes are stopped, and their disks are unmounted.

use anyhow::{Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Turns Ctrl-C and SIGTERM into a flag that [`check`] reads.
///
/// # Errors
/// When the system allows no handlers.
pub fn watch() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    Ok(())
}
/// Fails once Ctrl-C or SIGTERM has arrived.
///
/// # Errors
/// When a signal asked for the end.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(()) }
}

//! Ctrl-C and SIGTERM end a run in good order: nodes are ended, and their disks are no longer mounted.

use anyhow::{Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on these signals only say that it is to end.
///
/// # Errors
/// When the system allows no handlers.
pub fn watch() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    Ok(())
}
/// # Errors
/// When it is to end.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(()) }
}

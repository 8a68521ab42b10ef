//! Time as applications measure it: monotonic, from the first time it was asked for.

use farlink_base::Instant;
use std::sync::OnceLock;

/// Monotonic time now.
pub fn now() -> Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
    Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

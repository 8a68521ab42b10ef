//! Monotonic clock of applications, which starts at its first use.

use farlink_base::Instant;
use std::sync::OnceLock;

/// Current monotonic time.
pub fn now() -> Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
    Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

//! A disk that forgets what was not synced, for real nodes to keep their stores on.

mod disk;
mod mount;

pub use mount::Mount;

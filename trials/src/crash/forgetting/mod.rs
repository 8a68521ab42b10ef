//! A disk that forgets unsynced data, for the stores of real nodes.

mod disk;
mod mount;

pub use mount::Mount;

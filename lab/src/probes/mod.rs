//! Probes: what is measured while a run goes on, apart from its events. [`Watcher`] copies the frames of a link to a
//! reader, [`retention`] finds in them how long a relay keeps each bundle.

mod flow;
mod packet;
pub mod retention;
mod watcher;

pub use watcher::{FramePoint, WatchQueue, WatchedFrame, Watcher, watch_queue};

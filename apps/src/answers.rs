//! Acknowledgment of deliveries in groups: application and node spend one system call and one commit on a group, not on
//! each delivery.

use crate::client::Client;
use std::io;
use std::time::Duration;

/// Counter of the deliveries that are not acknowledged yet.
#[derive(Debug)]
pub struct Answers {
    waiting: usize,
    most: usize,
}
impl Answers {
    /// Creates a counter that acknowledges deliveries in groups of half the subscriber's window: while one half waits
    /// for its acknowledgment, the node can send the other.
    pub fn new(window: u32) -> Answers {
        Answers { waiting: 0, most: (window as usize / 2).max(1) }
    }
    /// Counts another delivery. Returns whether to acknowledge now: the group is full, or no further delivery has
    /// arrived.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn add(&mut self, client: &Client) -> io::Result<bool> {
        self.waiting += 1;
        // If nothing more has arrived, the node may be waiting for the acknowledgment.
        Ok(self.waiting >= self.most || !client.hears_within(Duration::ZERO)?)
    }
    /// Acknowledges all deliveries counted so far.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn give(&mut self, client: &mut Client) -> io::Result<()> {
        client.taken_all(std::mem::take(&mut self.waiting))
    }
}

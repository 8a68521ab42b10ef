//! Deliveries answered in groups: each answer costs both sides a call and a commit of its own, several together one.

use crate::client::Client;
use std::io;
use std::time::Duration;

/// Deliveries that the node hears no answer about yet.
#[derive(Debug)]
pub struct Answers {
    waiting: usize,
    most: usize,
}
impl Answers {
    /// For a subscriber with this window: half of it are answered together, so that the node sends on meanwhile.
    pub fn new(window: u32) -> Answers {
        Answers { waiting: 0, most: (window as usize / 2).max(1) }
    }
    /// Another was taken; whether it is time to answer: many wait, or nothing more is here.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn add(&mut self, client: &Client) -> io::Result<bool> {
        self.waiting += 1;
        Ok(self.waiting >= self.most || !client.hears_within(Duration::ZERO)?)
    }
    /// Answers all that were taken.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn give(&mut self, client: &mut Client) -> io::Result<()> {
        client.taken_all(std::mem::take(&mut self.waiting))
    }
}

//! The stores a stack can hold, chosen by value.

use alloc::boxed::Box;
use farlink_base::store::{self, BundleStore, Usage};
use farlink_base::{Instant, Sink};
use farlink_storage::LogStore;

/// Storage for bundles, chosen by the configuration.
#[derive(Debug)]
pub(crate) enum Store {
    /// Bundles are in the agent's book only.
    Memory,
    /// Bundles are in the agent's book and on disk.
    Durable(Box<LogStore>),
}

impl Store {
    pub fn handle(&mut self, now: Instant, input: store::Input, out: &mut impl Sink<store::Output>) {
        match (self, input) {
            (Store::Durable(s), input) => s.handle(now, input, out),
            (Store::Memory, store::Input::Open) => {
                // A store in memory has nothing to recover.
                out.push(store::Output::Opened { counter: 0, last_bundle: 0, secret: 0 })
            }
            (Store::Memory, _) => {}
        }
    }
    /// Releases memory that a busy period needed.
    pub fn rest(&mut self) {
        if let Store::Durable(store) = self {
            store.rest();
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Store::Memory => None,
            Store::Durable(s) => s.next_timeout(),
        }
    }
    /// Usage of the store; for a store in memory, the numbers are those of the agent's book.
    pub fn usage(&self, (bundles, bytes, capacity): (u64, u64, u64)) -> Usage {
        match self {
            Store::Memory => Usage { bundles, bytes, file_bytes: bytes, capacity, ..Usage::default() },
            Store::Durable(s) => s.usage(),
        }
    }
}

//! The stores and layers a stack can hold, chosen by value.

use alloc::boxed::Box;
use farlink_base::layer::{self, ConvergenceLayer};
use farlink_base::store::{self, BundleStore, Usage};
use farlink_base::{Instant, Sink};
use farlink_cla::{ltp::Ltp, tcpcl_v4::TcpclV4};
use farlink_storage::LogStore;

/// A bundle store.
pub(crate) enum Store {
    /// Bundles are in the agent's book only.
    Memory,
    /// And on disk.
    Durable(Box<LogStore>),
}

impl Store {
    pub fn handle(&mut self, now: Instant, input: store::Input, out: &mut impl Sink<store::Output>) {
        match (self, input) {
            (Store::Durable(s), input) => s.handle(now, input, out),
            (Store::Memory, store::Input::Open) => out.push(store::Output::Opened { counter: 0, last_bundle: 0 }),
            (Store::Memory, _) => {}
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Store::Memory => None,
            Store::Durable(s) => s.next_timeout(),
        }
    }
    /// How full it is; a store in memory is as full as the book.
    pub fn usage(&self, (bundles, bytes, capacity): (u64, u64, u64)) -> Usage {
        match self {
            Store::Memory => Usage { bundles, bytes, file_bytes: bytes, capacity },
            Store::Durable(s) => s.usage(),
        }
    }
}

/// A convergence layer.
pub(crate) enum Layer {
    Ltp(Box<Ltp>),
    TcpclV4(Box<TcpclV4>),
    Message,
}

impl Layer {
    pub fn handle(&mut self, now: Instant, input: layer::Input, out: &mut impl Sink<layer::Output>) {
        match self {
            Layer::Ltp(l) => l.handle(now, input, out),
            Layer::TcpclV4(l) => l.handle(now, input, out),
            // It has no protocol: bundles bypass it.
            Layer::Message => {}
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Layer::Ltp(l) => l.next_timeout(),
            Layer::TcpclV4(l) => l.next_timeout(),
            Layer::Message => None,
        }
    }
}

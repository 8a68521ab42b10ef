//! The stores and layers a stack can hold, chosen by value.

use alloc::boxed::Box;
use farlink_base::layer::{self, ConvergenceLayer};
use farlink_base::store::{self, BundleStore, Usage};
use farlink_base::{Instant, Sink};
use farlink_cla::{ltp::Ltp, tcpcl_v4::TcpclV4};
use farlink_storage::{LogStore, MemoryStore};

/// A bundle store.
pub(crate) enum Store {
    Memory(MemoryStore),
    Durable(Box<LogStore>),
}

impl Store {
    pub fn handle(&mut self, now: Instant, input: store::Input, out: &mut impl Sink<store::Output>) {
        match self {
            Store::Memory(s) => s.handle(now, input, out),
            Store::Durable(s) => s.handle(now, input, out),
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Store::Memory(s) => s.next_timeout(),
            Store::Durable(s) => s.next_timeout(),
        }
    }
    pub fn usage(&self) -> Usage {
        match self {
            Store::Memory(s) => s.usage(),
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
            Layer::Message => message(input, out),
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

/// The message layer has no protocol: it is ready while its link is up. Bundles bypass it.
fn message(input: layer::Input, out: &mut impl Sink<layer::Output>) {
    if let layer::Input::Link { link, state } = input {
        out.push(layer::Output::Ready { link, ready: state.transmit });
    }
}

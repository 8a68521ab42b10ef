//! The stores and layers a stack can hold, chosen by value.

use crate::config::SpanConfig;
use alloc::boxed::Box;
use farlink_base::layer::{self, ConvergenceLayer};
use farlink_base::store::{self, BundleStore, Usage};
use farlink_base::{Instant, LinkId, Sink};
use farlink_cla::ltp::{self, Ltp};
use farlink_cla::tcpcl_v4::{self, TcpclV4};
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
    /// A link more; `None`: it is of another protocol, false: the layer has it already.
    pub fn add_span(
        &mut self,
        now: Instant,
        link: LinkId,
        span: SpanConfig,
        out: &mut impl Sink<layer::Output>,
    ) -> Option<bool> {
        Some(match (self, span) {
            (Layer::Ltp(l), SpanConfig::Ltp(span)) => l.add_span(now, ltp::SpanConfig { link, ..span }, out),
            (Layer::TcpclV4(l), SpanConfig::TcpclV4(span)) => {
                l.add_span(now, tcpcl_v4::SpanConfig { link, ..span }, out)
            }
            (Layer::Message, SpanConfig::Message { .. }) => true,
            _ => return None,
        })
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        match self {
            Layer::Ltp(l) => l.next_timeout(),
            Layer::TcpclV4(l) => l.next_timeout(),
            Layer::Message => None,
        }
    }
}

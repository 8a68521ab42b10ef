//! Receivers of the stack's outputs: sockets, disk, applications, events, other shards.

use crate::apps::Apps;
use crate::buffers::Buffers;
use crate::datagrams::Datagrams;
use crate::disk::Disk;
use crate::events::EventHub;
use crate::faults;
use crate::metrics::Metrics;
use crate::security::SealedBundles;
use crate::shards::Mesh;
use crate::streams::Streams;
use farlink_base::{Event, EventClass, Instant, LayerId, LinkId, Sink, StreamId, socket};
use farlink_os::poll::Poller;
use farlink_stack::{Input, Output};
use std::collections::VecDeque;
use std::sync::Arc;

/// Receivers of the stack's outputs.
pub(super) struct Io {
    pub poller: Poller,
    pub streams: Streams,
    pub datagrams: Datagrams,
    pub disk: Option<Disk>,
    pub apps: Apps,
    pub events: EventHub,
    pub metrics: Arc<Metrics>,
    pub buffers: Buffers,
    pub inputs: VecDeque<Input>,
    pub connects: Vec<(LayerId, StreamId, LinkId)>,
    pub now: Instant,
    /// Stream of the input that the stack handles.
    pub stream: Option<StreamId>,
    /// Channels to other shards.
    pub mesh: Option<Box<Mesh>>,
    pub sealed: SealedBundles,
}

impl Io {
    /// End of the log line of an event for which the operator can do something, with what only the driver knows.
    fn about(&mut self, event: &Event) -> Option<Box<str>> {
        let (link, peer, reason) = match *event {
            Event::StoreDamage { file, .. } => return Some(self.disk.as_ref()?.damage(file).into()),
            Event::SessionRefused { link, peer, reason } => (link, peer, reason),
            Event::Malformed { link: Some(link), reason, .. } if self.stream.is_none() => {
                return self.streams.faults.ltp(link, reason, self.now);
            }
            Event::LtpSessionEnd { link, cancelled: true, why, .. } => {
                return self.streams.faults.ltp(link, why, self.now);
            }
            Event::LtpSessionEnd { link, cancelled: false, .. } => {
                self.streams.faults.recovered(link);
                return None;
            }
            Event::Malformed { link, reason, .. } => (link, None, reason),
            _ => return None,
        };
        self.streams.refused(self.stream?, link, peer, reason, self.now)
    }
    fn socket(&mut self, layer: LayerId, output: socket::Output) {
        use socket::Output as O;
        match output {
            O::Datagrams { to, train } => self.datagrams.send(layer, to, train, self.now),
            // Connecting needs the resolver, which `Io` lacks: it waits until the stack's call returns.
            O::Connect { stream, link } => self.connects.push((layer, stream, link)),
            O::Write { stream, data } => self.streams.write(stream, &data, &mut self.inputs),
            O::Close { stream, abort } => self.streams.close(stream, abort, self.now),
            O::StartTls { stream, server, name } => {
                self.streams.start_tls(stream, server, name, &mut self.inputs);
            }
            O::Pause { stream } => self.streams.pause(stream, true),
            O::Resume { stream } => self.streams.pause(stream, false),
            O::Confirm { stream } => self.streams.confirm(stream, self.now),
        }
    }
}

impl Sink<Output> for Io {
    fn push(&mut self, output: Output) {
        match output {
            Output::Socket(layer, output) => self.socket(layer, output),
            Output::Across { to, layer, what } => {
                if let Some(mesh) = &mut self.mesh {
                    mesh.push(to, layer, what);
                }
            }
            Output::Disk(op) => {
                if let Some(disk) = &mut self.disk {
                    disk.push(op);
                }
            }
            Output::App(output) => self.apps.on_output(output, self.now, &mut self.inputs),
            Output::Spooled { request, bytes } => self.apps.spooled(request, bytes, &mut self.inputs),
            Output::Read { delivery, result } => self.apps.read(delivery, result, &mut self.inputs),
            // Links of other shards are known here as well, and each change would be counted and logged twice.
            Output::Event(event) if self.mesh.as_ref().is_some_and(|mesh| mesh.is_reported_by_other_shard(&event)) => {}
            Output::Event(event) => {
                let event = if self.stream.is_some() { faults::as_refusal(event) } else { event };
                let about = self.about(&event);
                self.sealed.look(&event);
                self.events.push(self.now, event, about);
            }
            Output::Message(_) => {}
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        self.events.wants(class)
    }
}

//! Events about bundles, for listeners.

use crate::agent::Agent;
use crate::io::Output;
use farlink_base::{BundleMeta, Event, EventClass, LinkId, Sink};
use farlink_book::Handle;

impl Agent {
    pub(crate) fn event<S: Sink<Output>>(&self, out: &mut S, event: Event) {
        if out.wants(event.class()) {
            out.push(Output::Event(event));
        }
    }
    /// Announces a held bundle, its number and identity, to listeners.
    pub(super) fn event_seen<S: Sink<Output>>(&self, bundle: Handle, out: &mut S) {
        // Building this event for every bundle would cost time that no listener needs.
        if !out.wants(EventClass::Bundle) {
            return;
        }
        let Some(held) = self.book.get(bundle) else { return };
        let meta = &held.bundle;
        out.push(Output::Event(Event::Seen {
            bundle: held.name(),
            key: meta.key(),
            destination: held.destination(),
            destination_service: meta.destination.service_number(),
            payload: meta.payload.len(),
            size: meta.size(),
            priority: meta.priority,
            lifetime_ms: meta.lifetime_ms,
        }));
    }
    /// Reports a refusal to listeners.
    pub(crate) fn event_refused<S: Sink<Output>>(
        &self,
        link: Option<LinkId>,
        meta: Option<&BundleMeta>,
        reason: farlink_base::Refusal,
        out: &mut S,
    ) {
        self.event(out, Event::Refused { link, key: meta.map(BundleMeta::key), reason });
    }
}

//! Administrative records: status reports (RFC 9171 5.1, 6.1), generated only where configured,
//! and the one-hop signals of routers and congestion controls.

use crate::agent::Agent;
use crate::io::Output;
use alloc::vec::Vec;
use farlink_base::{BundleHandle, Bytes, DeleteReason, Instant, NodeId, Payload, Signal, Sink};
use farlink_bundle::{AdministrativeRecord, Bundle, BundleFlags, EndpointId, StatusItem, StatusReport};
use farlink_congestion::ControlOutput;

/// Administrative record type of policy signals (private use range of RFC 9713).
const SIGNAL: u64 = 65_000;
/// Lifetime of reports, ms.
const REPORT_LIFETIME_MS: u64 = 86_400_000;
/// Lifetime of signals, ms.
const SIGNAL_LIFETIME_MS: u64 = 60_000;

/// Whose signal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// The router's.
    Router = 0,
    /// The congestion control's.
    Control = 1,
}

/// What a status report asserts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Received,
    Forwarded,
    Delivered,
    Deleted,
}

impl Agent {
    pub(crate) fn report_reception<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        self.report(now, handle, BundleFlags::REPORT_RECEPTION, Status::Received, 0, out);
    }
    pub(crate) fn report_forwarding<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        self.report(now, handle, BundleFlags::REPORT_FORWARDING, Status::Forwarded, 0, out);
    }
    pub(crate) fn report_delivery<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        self.report(now, handle, BundleFlags::REPORT_DELIVERY, Status::Delivered, 0, out);
    }
    pub(crate) fn report_unsupported<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let reason = DeleteReason::BlockUnsupported as u64;
        self.report(now, handle, 0, Status::Received, reason, out);
    }
    pub(crate) fn report_deletion<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        reason: DeleteReason,
        out: &mut S,
    ) {
        self.report(now, handle, BundleFlags::REPORT_DELETION, Status::Deleted, reason as u64, out);
    }

    fn report<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        flag: u64,
        status: Status,
        reason: u64,
        out: &mut S,
    ) {
        if !self.settings.status_reports {
            return;
        }
        let Some(held) = self.bundles.get(&handle) else { return };
        let primary = &held.bundle.primary;
        if !primary.flags.has(flag) || held.bundle.is_administrative() || primary.report_to.is_null() {
            return;
        }
        let time = if primary.flags.has(BundleFlags::STATUS_TIME) { self.clock.utc_at(now) } else { None };
        let item = |which: Status| StatusItem { asserted: which == status, time: time.filter(|_| which == status) };
        let id = held.bundle.id();
        let record = AdministrativeRecord::Status(StatusReport {
            received: item(Status::Received),
            forwarded: item(Status::Forwarded),
            delivered: item(Status::Delivered),
            deleted: item(Status::Deleted),
            reason,
            source: id.source,
            creation: id.creation,
            fragment: id.fragment,
        });
        let to = primary.report_to.clone();
        self.send_record(now, to, &record, REPORT_LIFETIME_MS, 0, out);
    }

    fn send_record<S: Sink<Output>>(
        &mut self,
        now: Instant,
        to: EndpointId,
        record: &AdministrativeRecord,
        lifetime_ms: u64,
        hop_limit: u8,
        out: &mut S,
    ) {
        let Some(creation) = self.next_creation(now, out) else { return };
        let mut builder = Bundle::new(self.node_id(), to, creation)
            .flags(BundleFlags::ADMIN)
            .lifetime_ms(lifetime_ms)
            .crc(self.settings.crc)
            .payload(Payload::from(record.encode()));
        if creation.time.0 == 0 {
            builder = builder.block(farlink_bundle::BlockData::Age(0));
        }
        if hop_limit > 0 {
            builder = builder.hop_limit(hop_limit);
        }
        // A full store loses reports before it loses data.
        let _ = self.create(now, builder.build(), None, out);
    }

    /// Carries a policy's message to the same policy at a neighbour.
    pub(crate) fn send_signal<S: Sink<Output>>(&mut self, now: Instant, policy: Policy, signal: Signal, out: &mut S) {
        let to = self.names.endpoint(signal.peer);
        if to.is_null() {
            return;
        }
        // One CBOR byte string: the policy's number, then its bytes.
        let mut content = Vec::with_capacity(signal.bytes.len() + 6);
        let len = signal.bytes.len() as u32 + 1;
        content.push(0x5a);
        content.extend_from_slice(&len.to_be_bytes());
        content.push(policy as u8);
        content.extend_from_slice(&signal.bytes);
        let record = AdministrativeRecord::Unknown { kind: SIGNAL, content: Bytes::from(content) };
        self.send_record(now, to, &record, SIGNAL_LIFETIME_MS, 1, out);
    }

    /// Takes an administrative record addressed to this node; false leaves it to an application.
    pub(crate) fn take_administrative<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        out: &mut S,
    ) -> bool {
        let Some(held) = self.bundles.get(&handle) else { return false };
        let from = held.view.source;
        let Some(bytes) = held.bundle.payload.to_bytes() else { return false };
        match AdministrativeRecord::decode(&bytes) {
            Ok(AdministrativeRecord::Unknown { kind: SIGNAL, content }) => {
                self.on_signal(now, from, &content, out);
                true
            }
            // A report is for whoever registered at the endpoint it was asked to be sent to.
            Ok(_) => {
                self.endpoints.get(&held.bundle.primary.destination).is_none_or(|e| e.registrations.is_empty())
                    && held.bundle.primary.destination.is_node_id()
            }
            Err(_) => true,
        }
    }

    fn on_signal<S: Sink<Output>>(&mut self, now: Instant, from: NodeId, content: &[u8], out: &mut S) {
        let (Some(0x5a), Some(policy), Some(bytes)) = (content.first(), content.get(5), content.get(6..)) else {
            return;
        };
        if *policy == Policy::Router as u8 {
            self.router.on_signal(now, from, bytes, &mut self.router_said);
        } else if *policy == Policy::Control as u8 {
            let mut said: Vec<ControlOutput> = Vec::new();
            self.control.on_signal(now, from, bytes, &mut said);
            for ControlOutput::Signal(signal) in said {
                self.send_signal(now, Policy::Control, signal, out);
            }
        }
    }
}

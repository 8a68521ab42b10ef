//! Conversion between messages of AAP2 and of the stack: endpoints, bundles to send, deliveries.

use super::connection::{Connection, Owed};
use crate::disk::DiskState;
use farlink_aap2::proto::{AapResponse, AapStatus, BundleAdu, BundleHeaders, adu_flag};
use farlink_base::{BundleId, EndpointId, Facts, Payload, Priority, Refusal};
use farlink_bpa::app::{Delivery, RequestId, SendRequest};

/// Lifetime of bundles whose application sets none: one day, as in µD3TN.
pub const DEFAULT_LIFETIME_MS: u64 = 86_400_000;

/// Lifetime of a bundle to send, ms.
pub fn lifetime(adu: &BundleAdu) -> u64 {
    if adu.lifetime_ms == 0 { DEFAULT_LIFETIME_MS } else { adu.lifetime_ms }
}

/// AAP2 status of a refusal.
fn status_of(reason: Refusal) -> AapStatus {
    match reason {
        Refusal::NotAcceptable => AapStatus::InvalidRequest,
        Refusal::Unknown => AapStatus::NotFound,
        _ => AapStatus::Error,
    }
}

/// Converts an application's bundle for the stack.
pub fn send_request(
    adu: &BundleAdu,
    (source, destination, report_to): (EndpointId, EndpointId, EndpointId),
    payload: Payload,
) -> SendRequest {
    let mut facts = farlink_bundle::v7::facts_of(adu.bundle_flags);
    // A report-to endpoint without flags requests all reports with times.
    if report_to != EndpointId::Null && facts.0 & Facts::REPORTS == 0 {
        facts.0 |= Facts::REPORTS | Facts::STATUS_TIME;
    }
    if adu.custody {
        facts.0 |= Facts::CUSTODY;
    }
    SendRequest {
        source,
        destination,
        report_to,
        facts,
        lifetime_ms: lifetime(adu),
        priority: match adu.priority {
            1 => Priority::Bulk,
            3 => Priority::Expedited,
            _ => Priority::Normal,
        },
        hop_limit: 0,
        reliable: !adu.unreliable,
        payload,
    }
}

/// Answer to a request of a connection.
pub fn send_response(
    connection: &mut Connection,
    request: RequestId,
    result: Result<BundleId, Refusal>,
    disk: Option<&DiskState>,
) -> AapResponse {
    let headers = connection.owed.iter().find_map(|owed| match owed {
        Owed::Request(id, _, headers) if *id == request => Some(headers.clone()),
        _ => None,
    });
    match result {
        Ok(id) => AapResponse {
            response_status: AapStatus::Success.into(),
            bundle_headers: headers.map(|headers| BundleHeaders {
                src_eid: id.source.to_string(),
                creation_timestamp_ms: id.creation.time.as_millis(),
                sequence_number: id.creation.sequence,
                ..headers
            }),
            ..Default::default()
        },
        Err(reason) => refused(reason, disk),
    }
}

/// Answer to a refused request, with the state of the disk if it is the reason.
pub fn refused(reason: Refusal, disk: Option<&DiskState>) -> AapResponse {
    let full = disk.filter(|_| reason == Refusal::NoResources).and_then(DiskState::full);
    AapResponse { reason: full.unwrap_or_default(), ..AapResponse::new(status_of(reason)) }
}

/// AAP2 head of a delivery.
pub fn head_of(bundle: &Delivery) -> BundleAdu {
    let mut adu_flags = Vec::new();
    if bundle.facts.has(Facts::ADMIN) {
        adu_flags.push(adu_flag::STATUS_REPORT);
    }
    if bundle.redelivered {
        adu_flags.push(adu_flag::REDELIVERED);
    }
    BundleAdu {
        src_eid: bundle.source.to_string(),
        dst_eid: bundle.destination.to_string(),
        creation_timestamp_ms: bundle.creation.time.as_millis(),
        sequence_number: bundle.creation.sequence,
        payload_length: bundle.payload.len(),
        adu_flags,
        lifetime_ms: bundle.lifetime_ms,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(adu: &BundleAdu, report_to: EndpointId) -> Facts {
        let (source, destination) = (EndpointId::ipn(1, 1), EndpointId::ipn(9, 1));
        send_request(adu, (source, destination, report_to), Payload::new()).facts
    }

    #[test]
    fn custody_and_report_flags_are_set() {
        let all = facts(&BundleAdu::default(), EndpointId::ipn(1, 7));
        assert_eq!(all, Facts(Facts::REPORTS | Facts::STATUS_TIME), "an endpoint alone asks for all, as in \u{b5}D3TN");
        let named = BundleAdu { bundle_flags: 0x02_0000, custody: true, ..BundleAdu::default() };
        assert_eq!(facts(&named, EndpointId::ipn(1, 7)), Facts(Facts::REPORT_DELIVERY | Facts::CUSTODY));
        assert_eq!(facts(&BundleAdu::default(), EndpointId::Null), Facts(0));
    }
}

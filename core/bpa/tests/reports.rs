//! Status reports (RFC 9171 sections 5.1, 6.1).

use crate::support;

use crate::support::{NOW_UTC, Node, Sent, Toy, from_two};
use farlink_base::{BundleHandle, DeleteReason, EndpointId, Facts, LinkId};
use farlink_bpa::Settings;
use farlink_bpa::app::AdminInput;

/// Keeps 9171-5.1-1, 9171-5.4-10, 9171-6.2-2, 5050-5.1-1, 5050-5.4-10, 5050-6.2-3.
#[test]
fn reports_need_configuration_and_skip_reports() {
    for enabled in [false, true] {
        let mut node = Node::with(crate::support::reporting(enabled), None);
        let facts = Facts::REPORT_RECEPTION | Facts::REPORT_FORWARDING | Facts::STATUS_TIME;
        node.receive(1, from_two(1, EndpointId::ipn(3, 1)).facts(facts).report_to(EndpointId::ipn(2, 0)));
        let id = node.sent().iter().find(|s| s.link == LinkId(1)).map(|s| s.id).unwrap();
        node.confirm(id);
        let reports: Vec<Sent> = node.sent().into_iter().filter(|s| s.link == LinkId(0)).collect();
        assert_eq!(reports.len(), if enabled { 2 } else { 0 });
        for (report, status) in reports.iter().zip([farlink_bpa::Status::Received, farlink_bpa::Status::Forwarded]) {
            assert!(report.bundle.is_administrative() && report.bundle.facts.0 & Facts::REPORTS == 0);
            assert_eq!(Toy::report(&report.bundle), (status as u8, 0, NOW_UTC.0, 1));
        }
    }
}

/// Keeps 9171-5.12-1, 9171-5.12-2, 5050-5.15-1, 5050-5.15-2.
#[test]
fn cancelled_bundles_deletion_is_reported() {
    for (facts, reports) in [(Facts::REPORT_DELETION, 1), (Facts::REPORT_RECEPTION, 0)] {
        let mut node = Node::with(crate::support::reporting(true), None);
        node.receive(1, from_two(1, EndpointId::ipn(8, 1)).facts(facts).report_to(EndpointId::ipn(2, 0)));
        node.take_sent();
        node.admin(AdminInput::Cancel { bundle: BundleHandle(1) });
        let sent = node.sent();
        assert_eq!((sent.len(), node.deleted()), (reports, vec![DeleteReason::Cancelled]));
        for report in sent {
            let (status, reason, ..) = Toy::report(&report.bundle);
            assert_eq!((status, reason), (farlink_bpa::Status::Deleted as u8, DeleteReason::Cancelled as u8));
        }
    }
}

#[test]
fn report_rate_is_limited() {
    let limits = farlink_bpa::Limits { reports_per_second: 3, ..Default::default() };
    let mut settings = crate::support::bounded(limits);
    settings.node.status_reports = true;
    let mut node = Node::with(settings, None);
    let reports = |node: &Node| node.sent().iter().filter(|s| s.bundle.is_administrative()).count();
    let bundle = |n| from_two(n, EndpointId::ipn(8, 1)).facts(Facts::REPORT_RECEPTION).report_to(EndpointId::ipn(2, 0));
    (0..10).for_each(|n| node.receive(n, bundle(n)));
    assert_eq!(reports(&node), 3);
    node.wait_ms(1000);
    (10..20).for_each(|n| node.receive(n, bundle(n)));
    assert_eq!(reports(&node), 6);
}

#[test]
fn unknown_block_reported_regardless_of_flags() {
    let mut node = Node::with(crate::support::reporting(true), None);
    let duties = farlink_base::Duties::REPORT;
    node.receive(1, from_two(1, EndpointId::ipn(8, 1)).duties(duties).report_to(EndpointId::ipn(2, 0)));
    let report = node.sent()[0].bundle.clone();
    assert_eq!(Toy::report(&report).1, farlink_base::DeleteReason::BlockUnsupported as u8);
}

#[test]
fn security_deletion_reports_rfc_9172_reason() {
    use farlink_base::{DeleteReason as R, Duties};
    let reasons =
        [R::MissingSecurity, R::UnknownSecurity, R::UnexpectedSecurity, R::FailedSecurity, R::ConflictingSecurity];
    for (reason, code) in reasons.into_iter().zip(12..) {
        let mut node = Node::with(crate::support::reporting(true), None);
        let duties = Duties::default().with_security(reason).0;
        let bundle = from_two(1, EndpointId::ipn(8, 1)).duties(duties).facts(Facts::REPORT_DELETION);
        node.receive(1, bundle.report_to(EndpointId::ipn(2, 0)));
        assert_eq!(Toy::report(&node.sent()[0].bundle.clone()).1, code, "RFC 9172 11.2");
    }
}

#[test]
fn anonymous_source_or_null_target_unreported() {
    // RFC 9171 section 4.2.3: an anonymous bundle requests no reports, and dtn:none receives none.
    let mut node = Node::with(crate::support::reporting(true), None);
    let anonymous = support::Bundle::new(EndpointId::Null, EndpointId::ipn(8, 1), 1);
    node.receive(1, anonymous.facts(Facts::REPORTS).report_to(EndpointId::ipn(2, 0)));
    node.receive(2, from_two(2, EndpointId::ipn(8, 1)).facts(Facts::REPORTS));
    node.wait_ms(61_000);
    assert!(node.sent().is_empty());
}

/// Keeps 9171-5.4.2-3, 9171-5.5-2.
#[test]
fn expired_arrivals_deletion_is_reported() {
    for (facts, reports) in [(Facts::REPORT_DELETION, 1), (Facts::REPORT_RECEPTION, 0)] {
        let mut node = Node::with(crate::support::reporting(true), None);
        let late = support::Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(8, 1), 1);
        let late = late.created_ms(NOW_UTC.0 - 2000).lifetime_ms(1000).facts(facts);
        node.receive(1, late.report_to(EndpointId::ipn(2, 0)));
        assert_eq!(node.verdicts(), [(1, Err(farlink_base::Refusal::Expired))], "the layer refuses it");
        let sent = node.sent();
        assert_eq!(sent.len(), reports);
        for report in sent {
            let told = Toy::report(&report.bundle);
            let (deleted, expired) = (farlink_bpa::Status::Deleted, farlink_base::DeleteReason::Expired);
            assert_eq!((told.0, told.1), (deleted as u8, expired as u8));
        }
    }
}

#[test]
fn unknown_block_reported_once_across_restart() {
    let mut node = Node::with(crate::support::reporting(true), None);
    let duties = farlink_base::Duties::REPORT;
    let bundle = from_two(1, EndpointId::ipn(8, 1)).duties(duties).report_to(EndpointId::ipn(2, 0));
    let index = farlink_base::store::IndexEntry {
        priority: farlink_base::Priority::Normal,
        expires: None,
        stored_at: None,
        ran_ms: None,
        age_ms: 0,
        quota: 0,
        fingerprint: bundle.meta.id,
        flags: 0,
        digest: 0,
    };
    let (meta, hop) = bundle.parts();
    node.tell(farlink_bpa::Input::Recovered { bundle: farlink_base::BundleHandle(40), index, meta, hop });
    assert_eq!((node.sent().len(), node.held()), (0, 1));
}

#[test]
fn repeated_expired_arrival_reported_once() {
    // The neighbour retransmits the refused bundle; each attempt must not cause another report.
    let mut node = Node::with(crate::support::reporting(true), None);
    let late = |n| from_two(n, EndpointId::ipn(8, 1)).created_ms(NOW_UTC.0 - 2000).lifetime_ms(1000);
    let late = |n| late(n).facts(Facts::REPORT_DELETION).report_to(EndpointId::ipn(2, 0));
    for ticket in 0..10 {
        node.begins(0, ticket, late(1));
        node.receive(ticket, late(1));
        node.receive(ticket, late(2));
        node.wait_ms(2000);
    }
    assert!(node.verdicts().iter().all(|(_, verdict)| *verdict == Err(farlink_base::Refusal::Expired)));
    assert_eq!(node.sent().len(), 2, "one for each");
}

/// Keeps 9171-5.6-2, 9171-5.10-1.
#[test]
fn damaged_bundles_deletion_reported_once() {
    // RFC 9171 section 5.6 (step 3) and 5.10 (step 1): a valid head names the report-to endpoint.
    let asks = Facts::REPORT_DELETION;
    for (facts, enabled, held, count) in [
        (asks, true, false, 1),
        (asks, false, false, 0),
        (Facts::REPORT_RECEPTION, true, false, 0),
        (asks, true, true, 0),
    ] {
        let mut node = Node::with(crate::support::reporting(enabled), None);
        let bundle = || from_two(1, EndpointId::ipn(8, 1)).facts(facts).report_to(EndpointId::ipn(2, 0));
        if held {
            node.receive(1, bundle());
            node.take_sent();
        }
        for ticket in 3..6 {
            let error = farlink_base::Malformed { offset: 70, reason: "the CRC of a payload" };
            let (link, token, bundle) = (LinkId(0), support::token(ticket), bundle().parts().0);
            node.tell(farlink_bpa::Input::Damaged { link, token, bundle, error });
            assert!(node.verdicts().contains(&(ticket, Err(farlink_base::Refusal::NotAcceptable))));
        }
        let reports: Vec<Sent> = node.sent().into_iter().filter(|sent| sent.bundle.is_administrative()).collect();
        assert_eq!(reports.len(), count, "{facts:?} {enabled} {held}");
        for report in reports {
            let (status, reason, ..) = Toy::report(&report.bundle);
            assert_eq!((status, reason), (farlink_bpa::Status::Deleted as u8, DeleteReason::BlockUnintelligible as u8));
        }
    }
}

#[test]
fn report_without_room_is_made_later() {
    let mut node = Node::with(Settings { capacity_bytes: 1100, ..crate::support::reporting(true) }, None);
    let here = EndpointId::ipn(1, 1);
    node.receive(1, from_two(9, here.clone()).payload(farlink_base::Payload::fill(9, 1040)));
    let damaged = |node: &mut Node, ticket| {
        let bundle = from_two(1, EndpointId::ipn(8, 1)).facts(Facts::REPORT_DELETION).report_to(EndpointId::ipn(2, 0));
        let error = farlink_base::Malformed { offset: 70, reason: "the CRC of a payload" };
        let (link, token, bundle) = (LinkId(0), support::token(ticket), bundle.parts().0);
        node.tell(farlink_bpa::Input::Damaged { link, token, bundle, error });
        node.sent().iter().filter(|sent| sent.bundle.is_administrative()).count()
    };
    assert_eq!((node.held(), damaged(&mut node, 2)), (1, 0), "the store is full");
    node.register(1);
    node.done(node.deliveries()[0].0, true);
    assert_eq!(node.held(), 0);
    assert_eq!((damaged(&mut node, 3), damaged(&mut node, 4)), (1, 1), "once");
}

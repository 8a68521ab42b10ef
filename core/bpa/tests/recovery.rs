//! Restart: recovery of stored bundles and of time.

use crate::support;

use crate::support::{Bundle, NOW_UTC, Node, from_two};
use farlink_base::{
    BundleHandle, Clock, DeleteReason, DtnTime, Duties, EndpointId, Event, Instant, Priority, Refusal, store,
};
use farlink_bpa::app::AppOutput;
use farlink_bpa::{Input, Output};

/// A recovered record, stored `down_ms` ago with a bundle age of 5 s.
fn recovered(number: u64, bundle: Bundle, down_ms: u64) -> Input {
    let index = store::IndexEntry {
        priority: Priority::Normal,
        expires: None,
        stored_at: Some(DtnTime(NOW_UTC.0.wrapping_sub(down_ms))),
        ran_ms: None,
        age_ms: 5_000,
        quota: 0,
        fingerprint: bundle.meta.id,
        flags: 0,
        digest: 0,
    };
    let (meta, hop) = bundle.parts();
    Input::Recovered { bundle: BundleHandle(number), index, meta, hop }
}

#[test]
fn recovered_bundles_age_and_deliver_marked() {
    let mut node = Node::new();
    node.tell(recovered(40, from_two(1, EndpointId::ipn(1, 1)), 50_000));
    node.register(1);
    assert!(node.deliveries()[0].1.redelivered);
    assert!(node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].remaining_ms <= 5_000);
    node.wait_ms(6000);
    assert_eq!(node.deleted(), [DeleteReason::Expired]);
}

#[test]
fn restart_marks_one_window_of_deliveries() {
    // Only deliveries that were open at the crash may be repetitions; arrivals after the restart are not.
    let mut node = Node::new();
    let here = EndpointId::ipn(1, 1);
    for n in 0..3 {
        node.tell(recovered(40 + n, from_two(n, here.clone()), 50_000));
    }
    let registration = farlink_bpa::app::RegistrationId(1);
    let register = farlink_bpa::app::AppInput::Register { registration, endpoint: here.clone(), window: 8 };
    node.tell(Input::App(register));
    for n in 10..12 {
        node.receive(n, from_two(n, here.clone()));
    }
    let marked: Vec<(u64, bool)> =
        node.deliveries().iter().map(|(_, d)| (d.creation.sequence, d.redelivered)).collect();
    assert_eq!(marked, [(0, true), (1, true), (2, true), (10, false), (11, false)]);
}

/// A node that recovers bundles stored this many ms after the present (negative: before it), with this clock.
fn opened(stored_ms: &[i64], clock: Clock) -> Node {
    let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(clock));
    for (at, stored_ms) in stored_ms.iter().enumerate() {
        let bundle = from_two(at as u64, EndpointId::ipn(1, 1));
        node.tell(recovered(40 + at as u64, bundle, stored_ms.wrapping_neg() as u64));
    }
    node.open();
    node
}
fn doubts(node: &Node) -> Vec<i64> {
    let off = |event: &Event| if let Event::ClockDoubted { off_ms } = event { Some(*off_ms) } else { None };
    node.events().iter().filter_map(off).collect()
}
const YEARS_30: i64 = 30 * 31_557_600_000;

#[test]
fn clock_behind_store_is_rejected() {
    // A stored time after the present proves that the clock is wrong, whatever the distance.
    for behind in [200, 3_600_000, 700_000_000_000] {
        let mut node = opened(&[-50_000, behind], support::clock_at(Instant::ZERO));
        assert_eq!((doubts(&node), node.deleted().len()), (vec![-behind], 0));
        node.register(1);
        assert_eq!(node.deliveries().len(), 1, "one at a time");
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
        let counter =
            |o: &Output| if let Output::Store(store::Input::SetCounter { value }) = o { Some(*value) } else { None };
        let value = node.said.iter().find_map(counter).expect("numbers instead of times");
        node.tell(Input::Store(store::Output::CounterSet { value }));
        assert_eq!(node.sent().last().expect("it leaves").bundle.created_ms, 0, "it has no time to give");
    }
}

#[test]
fn clockless_duplicate_memory_outlasts_bundle() {
    let mut node = opened(&[], Clock::UNTRUSTED);
    node.register(1);
    let bundle = from_two(1, EndpointId::ipn(1, 1));
    let over = DtnTime(bundle.meta.created_ms).saturating_add_ms(bundle.meta.lifetime_ms);
    assert!(bundle.meta.created_ms > 0);
    node.receive(1, bundle);
    let delivery = node.deliveries()[0].0;
    node.done(delivery, true);
    let until = |o: &Output| match o {
        Output::Store(store::Input::Delete { remember, .. }) => remember.map(|remember| remember.until),
        _ => None,
    };
    assert_eq!(node.said.iter().find_map(until), Some(over));
}

#[test]
fn clock_set_back_repeats_no_timestamp() {
    let made = |counter| {
        let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
        node.tell(Input::Clock(support::clock_at(node.now)));
        node.tell(Input::Store(store::Output::Opened { counter, last_bundle: 0, secret: 0 }));
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
        let reserved =
            |o: &Output| if let Output::Store(store::Input::SetCounter { value }) = o { Some(*value) } else { None };
        let kept = |o: &Output| if let Output::Put { meta, .. } = o { Some(meta.creation()) } else { None };
        let created = node.said.iter().find_map(kept).expect("it is kept");
        (created, node.said.iter().find_map(reserved).expect("numbers are reserved"))
    };
    // No held bundle proves the time, so sequence numbers are reserved (RFC 9171 section 4.2.7).
    let (first, reserved) = made(0);
    let (second, more) = made(reserved);
    assert_eq!((first.time, first.sequence), (second.time, 0), "the first time numbers are short");
    assert_ne!(first, second);
    assert!(more > reserved && reserved > 0);
}

#[test]
fn implausible_downtime_counts_zero() {
    // 30 years of downtime are more likely a wrong clock; the bundle still ages by this run's residence.
    let mut node = opened(&[-YEARS_30], support::clock_at(Instant::ZERO));
    assert_eq!((doubts(&node), node.deleted()), (vec![YEARS_30], vec![]));
    assert!(node.agent.bundles(node.now, BundleHandle(0), 1)[0].remaining_ms > 50_000);
    node.wait_ms(61_000);
    assert_eq!(node.deleted(), [DeleteReason::Expired], "its age runs on");
}

/// A node that recovers a bundle stored without wall time at an operating time of 100 s; `ran_ms` is the operating time
/// last noted.
fn found_after(ran_ms: u64) -> Node {
    let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
    let downtime_max = core::time::Duration::from_secs(86_400);
    node.tell(Input::Admin(farlink_bpa::app::AdminInput::LastRun { at: None, downtime_max, ran_ms }));
    node.tell(Input::Clock(Clock::UNTRUSTED));
    let Input::Recovered { bundle, index, meta, hop } = recovered(40, from_two(0, EndpointId::ipn(1, 1)), 0) else {
        unreachable!()
    };
    let index = store::IndexEntry { stored_at: None, ran_ms: Some(100_000), ..index };
    node.tell(Input::Recovered { bundle, index, meta, hop });
    node.open();
    node
}

#[test]
fn clockless_restart_keeps_residence() {
    for (ran_ms, remaining_ms) in [(100_000, 55_000), (130_000, 25_000), (0, 55_000)] {
        let mut node = found_after(ran_ms);
        assert_eq!(node.agent.bundles(node.now, BundleHandle(0), 1)[0].remaining_ms, remaining_ms);
        node.wait_ms(remaining_ms + 1_000);
        assert_eq!(node.deleted(), [DeleteReason::Expired]);
    }
    // No operating time was noted. The stored record proves at least 100 s, so the time to be noted next includes them.
    assert!(found_after(0).agent.ran_ms(Instant::ZERO) >= 100_000);
    let node = found_after(u64::MAX);
    node.agent.ran_ms(Instant(u64::MAX));
    assert_eq!(found_after(155_000).deleted(), [DeleteReason::Expired]);
}

#[test]
fn missing_storing_time_uses_nodes() {
    let mut node = found_after(130_000);
    node.wait_ms(2_000);
    node.ready(1, false);
    node.receive(7, from_two(7, EndpointId::ipn(3, 1)));
    let stored = node.said.iter().find_map(|output| match output {
        Output::Put { index, .. } => Some((index.stored_at, index.ran_ms)),
        _ => None,
    });
    assert_eq!(stored, Some((None, Some(132_000))));
}

#[test]
fn returning_clock_resumes_residence() {
    let mut node = opened(&[-1_000], Clock::UNTRUSTED);
    assert_eq!((doubts(&node), node.deleted()), (vec![], vec![]));
    node.tell(Input::Clock(Clock { utc: Some(DtnTime(5)), ..support::clock_at(node.now) }));
    assert_eq!(doubts(&node).len(), 1, "1970 is said and not believed");
    node.tell(Input::Clock(support::clock_at(node.now)));
    assert_eq!((doubts(&node).len(), node.deleted()), (1, vec![]));
}

#[test]
fn fast_clock_trusted_after_stored_time() {
    let mut node = opened(&[3_600_000], support::clock_at(Instant::ZERO));
    assert_eq!(doubts(&node), [-3_600_000]);
    node.wait_ms(3_601_000);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.sent().last().expect("it leaves").bundle.created_ms > NOW_UTC.0 + 3_600_000);
}

#[test]
fn duplicate_record_is_dropped() {
    let mut node = Node::new();
    node.tell(recovered(40, from_two(1, EndpointId::ipn(8, 1)), 0));
    node.tell(recovered(41, from_two(1, EndpointId::ipn(8, 1)), 0));
    node.tell(recovered(42, Bundle::new(EndpointId::Null, EndpointId::ipn(8, 1), 1), 0));
    node.tell(recovered(43, Bundle::new(EndpointId::Null, EndpointId::ipn(8, 1), 1), 0));
    assert_eq!((node.held(), node.forgotten()), (3, vec![(41, false)]));
}

#[test]
fn restart_repeats_no_finished_delivery() {
    let mut node = Node::new();
    let bundle = from_two(1, EndpointId::ipn(1, 1));
    let remembered = store::Remembered { fingerprint: bundle.meta.id, until: DtnTime(NOW_UTC.0 + 60_000), content: 0 };
    node.tell(Input::Store(store::Output::RecoveredDelivery(remembered)));
    node.tell(recovered(40, bundle.piece(0..500), 0));
    node.register(1);
    node.receive(1, bundle.clone());
    node.receive(2, bundle.piece(500..1000));
    assert_eq!((node.deliveries().len(), node.held(), node.forgotten()), (0, 0, vec![(40, false)]));
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn bundles_expired_during_downtime_deleted() {
    let mut node = Node::new();
    node.tell(recovered(40, from_two(1, EndpointId::ipn(8, 1)), 56_000));
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
}

#[test]
fn recovered_bundles_listed_by_number() {
    let mut node = Node::new();
    for number in [44, 40, 43, 41, 45, 42] {
        node.tell(recovered(number, from_two(number, EndpointId::ipn(8, 1)), 0));
    }
    node.receive(1, from_two(1, EndpointId::ipn(8, 1)));
    let page = |after, limit| {
        let rows = node.agent.bundles(node.now, BundleHandle(after), limit);
        rows.iter().map(|row| row.handle.0).collect::<Vec<_>>()
    };
    assert_eq!((page(0, 3), page(42, 3), page(45, 3)), (vec![40, 41, 42], vec![43, 44, 45], vec![46]));
    assert_eq!((page(41, 0), page(46, 3)), (vec![], vec![]));
}

#[test]
fn new_numbers_follow_earlier_runs() {
    let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(support::clock_at(node.now)));
    node.tell(recovered(40, from_two(1, EndpointId::ipn(8, 1)), 0));
    node.tell(Input::Store(store::Output::Opened { counter: 0, last_bundle: 77, secret: 0 }));
    node.receive(1, from_two(2, EndpointId::ipn(8, 1)));
    assert_eq!(node.put(), [78]);
}

#[test]
fn recovered_bundle_keeps_hop_state() {
    let mut node = Node::routed(support::Script::flood());
    node.tell(recovered(40, Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(8, 1), 1).hops(2, 9).previous(2), 0));
    let sent: Vec<_> = node.take_sent().into_iter().filter(|s| !s.bundle.is_administrative()).collect();
    assert_eq!(sent.iter().map(|s| (s.link.0, s.hop.hops)).collect::<Vec<_>>(), [(1, 3)], "not to its giver");
}

#[test]
fn recovered_fragments_joined_and_marked() {
    let mut node = Node::new();
    let bundle = from_two(1, EndpointId::ipn(1, 1));
    node.tell(recovered(40, bundle.piece(0..500), 0));
    node.register(1);
    node.receive(1, bundle.piece(500..1000));
    let (_, delivery) = node.deliveries()[0].clone();
    assert_eq!((delivery.payload.len(), delivery.redelivered), (1000, true));
}

#[test]
fn age_and_lifetime_survive_restart() {
    // RFC 9171 section 5.4 (step 4) and 5.5: the next run continues from the stored values, downtime included.
    for created_ms in [NOW_UTC.0 - 30_000, 0] {
        let bundle = from_two(1, EndpointId::ipn(3, 1)).created_ms(created_ms).age_ms(5_000);
        let mut node = Node::new();
        node.ready(1, false);
        node.wait_ms(1_000);
        node.receive(1, bundle.clone());
        let put = |o: &Output| if let Output::Put { index, .. } = o { Some(*index) } else { None };
        let index = node.said.iter().find_map(put).unwrap();
        let before = node.agent.bundles(node.now, BundleHandle(0), 1)[0].remaining_ms;
        // Ten seconds later, with the monotonic clock of another process.
        let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
        node.tell(Input::Clock(Clock { utc: Some(DtnTime(NOW_UTC.0 + 11_000)), ..support::clock_at(node.now) }));
        let (meta, hop) = bundle.parts();
        node.tell(Input::Recovered { bundle: BundleHandle(40), index, meta, hop });
        let after = node.agent.bundles(node.now, BundleHandle(0), 1)[0].remaining_ms;
        assert_eq!(before - after, 10_000);
        node.open();
        assert_eq!(node.sent()[0].hop.age_ms, 15_000);
    }
}

/// Keeps 9171-5.6-4.
#[test]
fn pending_deletion_finishes_after_restart() {
    // RFC 9171 section 5.6 (step 4) and 4.4.3: the node may die between storing and deleting a bundle.
    let duty = from_two(1, EndpointId::ipn(3, 1)).duties(Duties::DELETE);
    let far = from_two(1, EndpointId::ipn(1, 1)).hops(3, 2);
    for (bundle, reason) in [(duty, DeleteReason::BlockUnsupported), (far, DeleteReason::HopLimit)] {
        let mut node = Node::new();
        node.register(1);
        node.tell(recovered(40, bundle, 0));
        assert_eq!((node.sent().len(), node.deliveries().len(), node.deleted()), (0, 0, vec![reason]));
    }
}

#[test]
fn numbering_awaits_recovered_numbers() {
    let settings = crate::support::reporting(true);
    let mut node = Node::closed(settings, None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(support::clock_at(node.now)));
    let told = farlink_base::Facts::REPORT_DELETION;
    let over = from_two(1, EndpointId::ipn(8, 1)).facts(told).report_to(EndpointId::ipn(8, 0));
    node.tell(recovered(40, over, 56_000));
    node.tell(recovered(41, from_two(2, EndpointId::ipn(8, 1)), 0));
    node.tell(Input::Store(store::Output::Opened { counter: 0, last_bundle: 77, secret: 0 }));
    node.send(EndpointId::ipn(8, 1), Priority::Normal);
    assert_eq!((node.deleted(), node.put(), node.held()), (vec![DeleteReason::Expired], vec![78], 2));
}

/// Keeps 9172-5.1.1-9.
#[test]
fn insecure_bundle_is_never_stored() {
    // Recovered bundles are not verified again, so a bundle that failed its security must not be stored.
    let insecure = Duties::default().with_security(DeleteReason::FailedSecurity).0;
    let mut node = Node::new();
    node.register(7);
    node.receive(1, from_two(1, EndpointId::ipn(1, 7)).duties(insecure));
    assert_eq!((node.put(), node.forgotten()), (vec![], vec![]), "nothing to find after a crash");
    assert_eq!((node.verdicts(), node.deleted()), (vec![(1, Ok(()))], vec![DeleteReason::FailedSecurity]));
    node.receive(2, from_two(2, EndpointId::ipn(1, 7)));
    assert_eq!((node.put().len(), node.deliveries().len()), (1, 1));
}

#[test]
fn forged_own_source_stays_foreign_after_restart() {
    use support::{NoRouter, Rule};
    let mut node = Node::new();
    // The first bundle is a neighbour's forgery without a previous node block; the second was created here.
    node.receive(1, Bundle::new(EndpointId::ipn(1, 7), EndpointId::ipn(8, 1), 1));
    node.send(EndpointId::ipn(8, 1), Priority::Normal);
    node.receive(2, Bundle::new(EndpointId::ipn(5, 7), EndpointId::ipn(8, 1), 2));
    let put = |o: &Output| {
        if let Output::Put { bundle, meta, index } = o { Some((*bundle, meta.clone(), *index)) } else { None }
    };
    let kept: Vec<_> = node.said.iter().filter_map(put).collect();
    assert_eq!(kept.len(), 3);
    let (said, heard) = std::sync::mpsc::channel();
    let control = Rule {
        hears: farlink_book::EventMask::KEPT,
        on: Box::new(move |node, news, _| {
            if let farlink_book::PolicyEvent::Kept { bundle, .. } = *news {
                let held = node.get(bundle).unwrap();
                said.send((held.bundle.source.node().0, held.is_own())).unwrap_or_default();
            }
        }),
        ..Rule::default()
    };
    let mut again = Node::closed(support::settings(), None, NoRouter, control);
    for (bundle, meta, index) in kept {
        again.tell(Input::Recovered { bundle, index, meta, hop: Box::new(farlink_base::HopState::default()) });
    }
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(1, false), (1, true), (5, true)]);
}

#[test]
fn clock_behind_last_run_is_doubted() {
    let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(support::clock_at(Instant::ZERO)));
    let downtime_max = farlink_base::Duration::from_secs(3600);
    let at = Some(NOW_UTC.saturating_add_ms(5000));
    node.tell(Input::Admin(farlink_bpa::app::AdminInput::LastRun { at, downtime_max, ran_ms: 0 }));
    node.open();
    assert_eq!(doubts(&node), [-5000]);
}

#[test]
fn requests_beyond_bound_are_refused_while_opening() {
    const KEPT: usize = 100_000;
    let mut node = Node::closed(support::settings(), None, support::NoRouter, support::Rule::default());
    for service in 0..KEPT as u32 {
        node.register(service);
    }
    assert_eq!(node.results(), [], "they wait");
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.results(), [false]);
    node.register(1);
    let refused = |output: &Output| {
        matches!(output, Output::App(AppOutput::Registered { result: Err(Refusal::NoResources), .. }))
    };
    assert!(node.said.iter().any(refused));
}

#[test]
fn confirmed_clock_is_trusted_again() {
    let mut node = opened(&[3_600_000], support::clock_at(Instant::ZERO));
    assert_eq!(doubts(&node), [-3_600_000]);
    node.admin(farlink_bpa::app::AdminInput::ConfirmClock);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().last().expect("it needs no number").bundle.created_ms, NOW_UTC.0);
}

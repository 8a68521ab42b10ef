//! Custody (RFC 5050 sections 5.10 to 5.12): acceptance, signals, retention and retransmission.

use crate::support;

use crate::support::{Bundle, NoRouter, Node, Rule, Script, Sent, Toy, from_two, request, settings};
use farlink_base::{DeleteReason, Duration, Duties, EndpointId, Event, Facts, LinkId, Priority, Refusal};
use farlink_book::{CopyOffer, NextHop, RouteDecision};
use farlink_bpa::app::AdminInput;
use farlink_bpa::{About, Answer, CustodySettings, Numbers, Settings, Signal};

fn custody(change: impl FnOnce(&mut CustodySettings)) -> Settings {
    let mut custody = CustodySettings { timeout: Duration::from_secs(10), ..CustodySettings::default() };
    change(&mut custody);
    Settings { custody: Some(Box::new(custody)), ..settings() }
}
fn node() -> Node {
    Node::with(custody(|_| {}), None)
}
/// A bundle for `ipn:9.1` by way of `ipn:3.0`; `ipn:2.0` is its custodian.
fn asks(sequence: u64) -> Bundle {
    from_two(sequence, EndpointId::ipn(9, 1)).custody(2, None)
}
fn numbered(sequence: u64, number: u64) -> Bundle {
    from_two(sequence, EndpointId::ipn(9, 1)).custody(2, Some(number))
}
/// Sent custody signals with their destinations.
fn signals(node: &Node) -> Vec<(EndpointId, Signal)> {
    let signal = |sent: &Sent| Some((sent.bundle.destination.clone(), Toy::custody(&sent.bundle)?));
    node.sent().iter().filter_map(signal).collect()
}
/// Transmissions that are no administrative records.
fn data(node: &Node) -> Vec<Sent> {
    node.sent().into_iter().filter(|sent| !sent.bundle.is_administrative()).collect()
}
fn run(first: u64, last: u64) -> About {
    About::Numbers(vec![Numbers { sequence: 1, destination: EndpointId::Null, first, last }])
}
/// A bundle with a custody signal of node `by`.
fn said(by: u64, answer: Answer, about: About, sequence: u64) -> Bundle {
    use farlink_bpa::Edge;
    let payload = Toy.custody_signal(99, &Signal { answer, about }, None).unwrap();
    Bundle::new(EndpointId::ipn(by, 0), EndpointId::ipn(1, 0), sequence)
        .facts(Facts::ADMIN)
        .payload(payload)
        .lifetime_ms(10_000_000)
}
fn about(sent: &Sent) -> About {
    About::One(sent.arrives().meta.identity())
}
fn count(node: &Node, which: fn(&Event) -> bool) -> usize {
    node.events().iter().filter(|event| which(event)).count()
}
fn ignored(node: &Node) -> usize {
    count(node, |event| matches!(event, Event::CustodySignalIgnored { .. }))
}

/// Keeps 5050-5.4-6, 5050-5.4.1-3, 5050-5.10-1, 5050-5.10-2, 5050-5.10.1-2.
#[test]
fn custody_accepted_after_commit_only() {
    // A signal releases the previous custodian, so the bundle must be durable first.
    let mut node = node();
    node.commit = false;
    node.receive(1, asks(7));
    assert_eq!((data(&node).len(), signals(&node), node.verdicts()), (0, vec![], vec![]));
    let number = node.put()[0];
    node.stored(number);
    let [(to, signal)] = &signals(&node)[..] else { panic!("{:?}", signals(&node)) };
    let subject = asks(7).meta.identity();
    assert_eq!((to, signal.answer, &signal.about), (&EndpointId::ipn(2, 0), Answer::Taken, &About::One(subject)));
    let record = node.sent().into_iter().find(|sent| sent.bundle.is_administrative()).unwrap();
    assert_eq!(record.bundle.priority, Priority::Expedited, "before data, which would come again while it waits");
    let [sent] = &data(&node)[..] else { panic!("one") };
    assert_eq!((sent.link, &sent.hop.custodian), (LinkId(1), &EndpointId::ipn(1, 0)));
    assert_eq!(sent.hop.transfer.as_ref().unwrap().number, number, "signals name it by its number here");
    assert_eq!(node.verdicts(), [(1, Ok(()))]);
}

#[test]
fn insecure_bundle_releases_no_custody() {
    // A copy that fails its security check only claims to be the custodian's bundle, so no signal may release the
    // genuine one.
    let insecure = Duties::default().with_security(DeleteReason::FailedSecurity).0;
    let mut node = node();
    node.receive(1, asks(7).duties(insecure));
    assert_eq!((node.held(), signals(&node)), (0, vec![]), "deleted, and nobody told");
    node.receive(2, asks(8));
    node.take_sent();
    node.receive(3, asks(8).duties(insecure));
    assert_eq!((signals(&node), data(&node).len()), (vec![], 0), "of one that is here, too");
    assert_eq!(node.verdicts(), [(3, Ok(()))]);
}

#[test]
fn refused_commit_accepts_no_custody() {
    // If the store refuses the bundle, custody must not be accepted: the previous custodian would delete the only copy.
    let mut node = node();
    node.commit = false;
    node.receive(1, asks(7));
    node.store_refuses(node.put()[0]);
    assert_eq!((node.held(), signals(&node)), (0, vec![]));
    assert_eq!(node.verdicts(), [(1, Err(Refusal::NoResources))]);
}

/// Keeps 5050-5.10.1-1, 5050-5.10.2-1, 5050-5.11-1, 5050-6.3-1.
#[test]
fn custody_bundle_stays_until_signal() {
    for by_number in [false, true] {
        let mut node = node();
        node.receive(1, asks(7));
        let sent = data(&node)[0].clone();
        node.confirm(sent.id);
        assert_eq!((node.held() - signals(&node).len() as u64, node.forgotten().len()), (1, 0));
        let why = node.why(1);
        assert_eq!(why, "in custody, sent to ipn:3.0; waits for its signal, 10 s more");
        let number = sent.hop.transfer.as_ref().unwrap().number;
        let about = if by_number { run(number, number) } else { about(&sent) };
        node.receive_over(1, 2, said(3, Answer::Taken, about, 1));
        assert!(node.forgotten().contains(&(number, false)));
        assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
        assert_eq!(ignored(&node), 0);
    }
}

/// Keeps 5050-5.10.1-4, 5050-5.13-1.
#[test]
fn custody_retransmission_backs_off_until_expiry() {
    // The timeout doubles after each silent transmission.
    let mut node = node();
    let bundle = asks(7).lifetime_ms(100_000).report_to(EndpointId::ipn(2, 7));
    node.receive(1, bundle);
    let mut at = Vec::new();
    for _ in 0..100 {
        for sent in node.take_sent() {
            if !sent.bundle.is_administrative() {
                at.push(node.now.as_nanos() / 1_000_000_000);
            }
            node.confirm(sent.id);
        }
        node.wait_ms(999);
        node.wait_ms(1);
    }
    assert_eq!(at, [0, 10, 30, 70], "10 s, 20 s, 40 s later");
    node.wait_ms(1000);
    let report = node.sent().into_iter().find(|sent| sent.bundle.destination == EndpointId::ipn(2, 7));
    let told = Toy::report(&report.expect("RFC 5050 5.13: whether asked for or not").bundle);
    assert_eq!((told.0, told.1), (farlink_bpa::Status::Deleted as u8, DeleteReason::Expired as u8));
}

/// Keeps 5050-6.3-2.
#[test]
fn refused_custody_retried_or_rerouted() {
    let mut node = node();
    node.admin(AdminInput::AddRoute { pattern: "ipn:9.*".into(), next_hop: EndpointId::ipn(3, 0) });
    node.receive(1, asks(7));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    for (n, answer) in [Answer::Depleted, Answer::NoRoute, Answer::Refused].into_iter().enumerate() {
        node.receive_over(1, 2 + n as u64, said(3, answer, about(&sent), n as u64));
    }
    assert_eq!((count(&node, |event| matches!(event, Event::CustodyReleased { .. })), ignored(&node)), (0, 0));
    node.said.clear();
    node.wait_ms(12_000);
    assert_eq!(data(&node).len(), 1, "once more, to the only one there is");
}

/// Keeps 5050-5.6-5.
#[test]
fn redundant_reception_signal_ends_custody() {
    // RFC 5050 section 5.6, step 4: a redundant reception is answered with a signal.
    let mut node = node();
    node.receive(1, asks(7));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    node.said.clear();
    node.receive(2, asks(7));
    let [(to, signal)] = &signals(&node)[..] else { panic!("{:?}", signals(&node)) };
    assert_eq!((to, signal.answer), (&EndpointId::ipn(2, 0), Answer::Redundant), "RFC 5050 5.6 step 4");
    assert_eq!((data(&node).len(), node.verdicts()), (0, vec![(2, Ok(()))]));
    // The head of an arrival suffices to recognize the duplicate.
    node.begins(0, 3, asks(7));
    assert_eq!((signals(&node).len(), node.verdicts()[1]), (2, (3, Err(Refusal::Duplicate))));
    node.receive_over(1, 4, said(3, Answer::Redundant, about(&sent), 1));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
    // This node is itself the custodian: no signal is due.
    node.said.clear();
    node.receive_over(1, 5, asks(8).custody(1, None));
    assert_eq!(signals(&node), []);
}

#[test]
fn one_signal_is_about_many_bundles() {
    let mut node = Node::with(custody(|custody| custody.signal_bundles = 300), None);
    for n in 0..1000 {
        node.receive(n, numbered(n, 5000 + n));
    }
    let told = signals(&node);
    assert_eq!(told.len(), 3, "each as soon as it is full");
    node.wait_ms(1001);
    let told = signals(&node);
    assert_eq!(told.len(), 4, "the rest after the delay");
    let runs = told.iter().flat_map(|(_, signal)| match &signal.about {
        About::Numbers(numbers) => numbers.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(),
        About::One(_) => panic!("by numbers"),
    });
    assert_eq!(runs.collect::<Vec<_>>(), [(5000, 5299), (5300, 5599), (5600, 5899), (5900, 5999)]);
    let sums = node.events().into_iter().filter_map(|event| match event {
        Event::CustodySignalled { bundles, taken: true, .. } => Some(bundles),
        _ => None,
    });
    assert_eq!(sums.sum::<u64>(), 1000);
}

#[test]
fn forged_signals_ignored_and_counted() {
    let mut node = node();
    (0..20).for_each(|n| node.receive(n, asks(n)));
    let sent = data(&node);
    sent.iter().for_each(|sent| node.confirm(sent.id));
    node.sent().iter().filter(|sent| sent.bundle.is_administrative()).for_each(|sent| node.confirm(sent.id));
    let stranger = node.comes(0, EndpointId::ipn(3, 0));
    let before = ignored(&node);
    for n in 0..1000 {
        let subject = if n % 2 == 0 { run(0, u64::MAX) } else { about(&sent[n as usize % 20]) };
        let bundle = match n % 4 {
            // An unauthenticated peer that claims the name of the neighbour that was sent the bundles; then a neighbour
            // (link 0) that was sent nothing and uses that name.
            0 | 1 => (stranger, said(3, Answer::Taken, subject, n)),
            _ => (0, said(3, Answer::Taken, subject, n)),
        };
        node.receive_over(bundle.0, 100 + n, bundle.1);
    }
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 0);
    assert_eq!((node.held(), ignored(&node) - before), (20, 1000));
    // Numbers of other counters and identities of unknown bundles match nothing.
    let other = About::Numbers(vec![Numbers { sequence: 7, destination: EndpointId::Null, first: 0, last: u64::MAX }]);
    node.receive_over(1, 5000, said(3, Answer::Taken, other, 5000));
    let unknown = About::One(from_two(999, EndpointId::ipn(9, 1)).meta.identity());
    node.receive_over(1, 5001, said(3, Answer::Taken, unknown, 5001));
    assert_eq!(node.held(), 20);
    // The neighbour that was sent the bundles may name every number there is.
    node.receive_over(1, 5002, said(3, Answer::Taken, run(0, u64::MAX), 5002));
    assert_eq!(node.held(), 0);
}

#[test]
fn downstream_custodians_signal_ends_custody() {
    let mut node = node();
    node.receive(1, asks(7));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    // `ipn:3.0` forwarded the bundle without taking custody, and `ipn:9.0`, a node behind it, signals. A signal in the
    // name of the neighbour `ipn:2.0` (below) counts only if it comes over that neighbour's link.
    node.receive_over(1, 2, said(9, Answer::Taken, about(&sent), 1));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
    node.receive(3, asks(8));
    let sent = data(&node)[1].clone();
    node.confirm(sent.id);
    node.receive_over(0, 4, said(2, Answer::Taken, about(&sent), 1));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 2, "its name is sure");
}

#[test]
fn long_signal_processed_in_slices() {
    // 3,000 bundles are more than one slice of 256 units releases.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..custody(|_| {}) }, None);
    node.ready(1, false);
    (0..3000).for_each(|n| node.receive(n, numbered(n, n)));
    let bundle = said(3, Answer::Taken, run(0, u64::MAX), 1);
    node.said.clear();
    let (bundle, hop) = bundle.parts();
    node.ready(1, true);
    for sent in node.sent() {
        node.confirm(sent.id);
    }
    let mut left = 3000;
    while left > 0 {
        let sent = data(&node);
        node.said.clear();
        left -= sent.len();
        sent.iter().for_each(|sent| node.confirm(sent.id));
    }
    node.said.clear();
    let token = support::token(1);
    node.once(farlink_bpa::Input::Arrived { link: LinkId(1), token, bundle, hop });
    let mut calls = 0;
    loop {
        let released = count(&node, |event| matches!(event, Event::CustodyReleased { .. }));
        assert!(released <= 256 * 8, "{released} in one call");
        calls += 1;
        node.said.clear();
        if node.agent.next_timeout().is_none_or(|at| at > node.now) {
            break;
        }
        node.once(farlink_bpa::Input::Wake);
    }
    assert!(calls > 1 && node.held() < 10, "{calls} calls, {} held", node.held());
}

#[test]
fn custody_bundle_is_never_evicted() {
    // Bundle 1 has the lowest worth, yet its accepted custody forbids eviction.
    let control = Rule { worth: Box::new(|held| Some(held.number as f64)), ..Rule::default() };
    let small = Settings { capacity_bytes: 3500, ..custody(|_| {}) };
    let mut node = Node::of(small, None, NoRouter, control);
    node.ready(1, false);
    node.receive(1, asks(1).priority(Priority::Bulk));
    node.confirm(node.sent()[0].id);
    for n in 2..6 {
        node.receive(n, from_two(n, EndpointId::ipn(9, 1)));
    }
    assert!(node.why(1).contains("link") && node.held() == 3, "{} held: {}", node.held(), node.why(1));
    assert_eq!(count(&node, |event| matches!(event, Event::Deleted { bundle, .. } if bundle.0 == 1)), 0);
}

/// Keeps 5050-5.2-2.
#[test]
fn custody_accepted_as_configured_only() {
    // Each setting bounds custody: previous nodes, destinations, bytes, a durable store, a numbered node ID.
    let taken = |settings: Settings, bundle: Bundle, link: u32| {
        let mut node = Node::with(settings, None);
        let link = if link == 9 { node.comes(0, EndpointId::ipn(2, 0)) } else { link };
        node.receive_over(link, 1, bundle);
        let left = data(&node).first().map(|sent| sent.hop.custodian.clone());
        (left == Some(EndpointId::ipn(1, 0)), signals(&node).len())
    };
    let plain = || custody(|_| {});
    assert_eq!(taken(plain(), asks(1), 0), (true, 1));
    assert_eq!(taken(custody(|c| c.from = vec!["ipn:2.*".into()]), asks(1), 0), (true, 1));
    assert_eq!(taken(custody(|c| c.from = vec!["ipn:3.0".into()]), asks(1), 0), (false, 0), "another neighbour");
    assert_eq!(taken(custody(|c| c.to = vec!["ipn:8.*".into()]), asks(1), 0), (false, 0), "another destination");
    assert_eq!(taken(custody(|c| c.bytes = 1000), asks(1), 0), (false, 0), "no room: it goes on as it came");
    assert_eq!(taken(plain(), asks(1), 9), (false, 0), "a stranger");
    assert_eq!(taken(settings(), asks(1), 0), (false, 0), "not configured");
    assert_eq!(taken(Settings { durable: false, ..plain() }, asks(1), 0), (false, 0), "nothing is kept");
    assert_eq!(taken(plain(), asks(1).change(|m| m.source = EndpointId::Null), 0), (false, 0), "anonymous");
    let dtn = Settings { node_ids: vec![EndpointId::dtn("me", "")], ..plain() };
    assert_eq!(taken(dtn, asks(1), 0).1, 0, "a name has no place among numbers");
    let copies = Node::of(plain(), None, Script::flood(), Rule::default());
    let mut node = copies;
    node.receive(1, asks(1));
    assert_eq!(signals(&node), [], "of copies there is no single custodian");
}

/// Keeps 5050-5.7-5.
#[test]
fn local_custody_bundle_answered_at_commit_or_delivery() {
    let mut node = node();
    node.commit = false;
    let own = |n| from_two(n, EndpointId::ipn(1, 1)).custody(2, None);
    node.receive(1, own(1));
    assert_eq!(signals(&node), []);
    node.stored(node.put()[0]);
    assert_eq!(signals(&node)[0].1.answer, Answer::Taken);
    node.register(1);
    let delivery = node.deliveries()[0].0;
    node.done(delivery, true);
    node.said.clear();
    node.receive(2, own(1));
    assert_eq!(signals(&node)[0].1.answer, Answer::Taken, "it came once more after it was delivered");

    let mut node = Node::with(Settings { durable: false, ..custody(|_| {}) }, None);
    node.receive(1, own(1));
    assert_eq!(signals(&node), []);
    node.register(1);
    let delivery = node.deliveries()[0].0;
    node.done(delivery, true);
    assert_eq!(signals(&node)[0].1.answer, Answer::Taken, "RFC 5050 5.7");
    node.said.clear();
    node.receive(2, own(1));
    assert_eq!(signals(&node)[0].1.answer, Answer::Taken, "its custodian missed the signal");
}

/// Keeps 5050-5.4.2-1.
#[test]
fn deletion_without_custody_signals_failure() {
    let mut node = Node::with(custody(|custody| custody.to = vec!["ipn:7.*".into()]), None);
    node.ready(1, false);
    node.receive(1, asks(1));
    node.receive(2, asks(2).lifetime_ms(50));
    node.admin(AdminInput::Cancel { bundle: farlink_base::BundleHandle(1) });
    let told: Vec<_> = signals(&node).into_iter().map(|(to, signal)| (to, signal.answer)).collect();
    assert_eq!(told, [(EndpointId::ipn(2, 0), Answer::Refused)], "RFC 5050 5.4.2");
    node.wait_ms(100);
    assert_eq!(signals(&node).len(), 1, "its custodian knows when it expires");
}

/// Keeps 5050-5.2-1.
#[test]
fn local_bundle_custody_requested_or_refused() {
    let rule = |bytes| custody(|c| (c.request, c.bytes) = (vec!["ipn:9.*".into()], bytes));
    let mut node = Node::with(rule(1100), None);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    let facts: Vec<bool> = data(&node).iter().map(|sent| sent.bundle.facts.has(Facts::CUSTODY)).collect();
    assert_eq!(facts, [false, true]);
    let sent = data(&node)[1].clone();
    assert_eq!(sent.hop.custodian, EndpointId::ipn(1, 0));
    node.confirm(sent.id);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    assert_eq!(node.results(), [true, true, false], "RFC 5050 5.2: the request cannot be honoured");
    node.receive_over(1, 1, said(3, Answer::Taken, about(&sent), 1));
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    assert_eq!(node.results().last(), Some(&true), "there is room again");

    let asked = || farlink_bpa::app::SendRequest {
        facts: Facts(Facts::CUSTODY),
        ..request(EndpointId::ipn(9, 1), Priority::Normal)
    };
    for (settings, ok) in [(settings(), false), (custody(|_| {}), true)] {
        let mut node = Node::with(settings, None);
        node.ask(asked());
        assert_eq!(node.results(), [ok]);
    }
}

#[test]
fn custody_of_pieces_released_one_by_one() {
    let plan = support::plan(0, 1, 8 * 8000);
    let mut node = Node::of(custody(|_| {}), Some(plan), Script { uses_plan: true, ..legs() }, Rule::default());
    node.receive_over(
        1,
        1,
        Bundle::new(EndpointId::ipn(3, 5), EndpointId::ipn(2, 1), 7)
            .payload(farlink_base::Payload::fill(1, 9000))
            .custody(3, Some(4)),
    );
    let first = data(&node);
    assert!(first.len() == 1 && first[0].cut.is_some(), "{first:?}");
    let piece = about(&first[0]);
    node.confirm(first[0].id);
    node.receive_over(0, 2, said(2, Answer::Taken, piece, 1));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 0, "a piece of it only");
    let len = 9000;
    let source = first[0].bundle.identity();
    let rest = farlink_base::BundleId { fragment: Some((0, len)), ..source };
    node.receive_over(0, 3, said(2, Answer::Taken, About::One(rest), 2));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
}
/// A router that always takes link 0, to `ipn:2.0`.
fn legs() -> Script {
    let leg = |now| NextHop { link: LinkId(0), not_before: now, until: farlink_base::Instant::MAX };
    Script {
        route: Box::new(move |node, _, _| RouteDecision::One(leg(node.now))),
        part: Box::new(move |node, _| Some(leg(node.now))),
        wants: Box::new(|_, _, held| Some(CopyOffer::give(held, 0))),
        ..Script::default()
    }
}

/// Index flags of the bundles handed to the store.
fn kept(node: &Node) -> Vec<u32> {
    let flags = |output: &farlink_bpa::Output| match output {
        farlink_bpa::Output::Put { index, .. } => Some(index.flags),
        _ => None,
    };
    node.said.iter().filter_map(flags).collect()
}

#[test]
fn custody_resumes_after_restart() {
    let mut node = node();
    node.receive(1, asks(7));
    node.receive(2, from_two(8, EndpointId::ipn(9, 1)));
    let flags = kept(&node);
    assert!(flags[0] != 0 && flags[2] == 0, "the record of what is in custody says so: {flags:?}");
    for settings in [custody(|_| {}), settings()] {
        let configured = settings.custody.is_some();
        let mut node = Node::closed(settings, None, NoRouter, Rule::default());
        node.tell(farlink_bpa::Input::Clock(support::clock_at(node.now)));
        let (meta, hop) = asks(7).parts();
        let index = farlink_base::store::IndexEntry {
            priority: Priority::Normal,
            expires: None,
            stored_at: None,
            ran_ms: None,
            age_ms: 0,
            quota: 0,
            fingerprint: meta.id,
            flags: flags[0],
            digest: 0,
        };
        let bundle = farlink_base::BundleHandle(40);
        node.tell(farlink_bpa::Input::Recovered { bundle, index, meta, hop });
        node.open();
        let sent = data(&node)[0].clone();
        assert_eq!(signals(&node), [], "whoever had it before was told, or asks again");
        node.confirm(sent.id);
        assert_eq!((node.held() == 1, configured), (configured, configured));
        if configured {
            // The bundle was sent before the restart; the signal after it names the number in the stored record.
            node.receive_over(1, 2, said(3, Answer::Taken, run(40, 40), 1));
            assert!(node.forgotten().contains(&(40, false)));
        }
    }
}

#[test]
fn recovered_signal_is_ignored() {
    // A stored signal has no link that would prove its sender.
    let mut node = node();
    node.receive(1, asks(7));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    let (meta, hop) = said(3, Answer::Taken, about(&sent), 1).previous(3).parts();
    let index = farlink_base::store::IndexEntry {
        priority: Priority::Normal,
        expires: None,
        stored_at: None,
        ran_ms: None,
        age_ms: 0,
        quota: 0,
        fingerprint: meta.id,
        flags: 0,
        digest: 0,
    };
    node.tell(farlink_bpa::Input::Recovered { bundle: farlink_base::BundleHandle(40), index, meta, hop });
    assert_eq!((count(&node, |event| matches!(event, Event::CustodyReleased { .. })), ignored(&node)), (0, 1));
}

#[test]
fn custody_delivers_over_lossy_link() {
    // The link loses half of the data and half of the signals; retransmission must bring everything across.
    let often = custody(|custody| custody.timeout_max = custody.timeout);
    let mut node = Node::with(Settings { capacity_bytes: 1 << 24, ..often }, None);
    let mut rng = farlink_base::Rng::new(4);
    (0..200).for_each(|n| node.receive(n, numbered(n, n).lifetime_ms(10_000_000)));
    let mut there = std::collections::BTreeSet::new();
    for round in 0..600 {
        for sent in node.take_sent() {
            node.confirm(sent.id);
            let number = sent.hop.transfer.as_ref().map(|transfer| transfer.number);
            let (Some(number), true) = (number, rng.chance(0.5)) else { continue };
            there.insert(sent.bundle.sequence);
            // The link loses signals as well as data.
            if rng.chance(0.5) {
                node.receive_over(
                    1,
                    10_000 + 1000 * round + number,
                    said(3, Answer::Taken, run(number, number), 10_000 + 1000 * round + number),
                );
            }
        }
        node.wait_ms(1000);
    }
    assert_eq!((there.len(), node.held()), (200, 0));
}

#[test]
fn signal_before_any_transmission_ignored() {
    // Even a neighbour with a proven name cannot have a bundle that was sent to nobody.
    let mut node = node();
    node.ready(1, false);
    (0..3).for_each(|n| node.receive(n, numbered(n, n)));
    let bundle = asks(0).meta.identity();
    for (n, about) in [run(0, u64::MAX), run(1, 3), About::One(bundle)].into_iter().enumerate() {
        for (link, by) in [(0, 2), (1, 3)] {
            node.receive_over(link, 100 + n as u64, said(by, Answer::Taken, about.clone(), 10 * n as u64 + by));
        }
    }
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 0);
    assert!(node.why(1).contains("link") && ignored(&node) == 6, "{} ignored", ignored(&node));
    // After a restart the receivers are unknown; `core/stack/tests/custody.rs` covers that.
}

#[test]
fn looping_bundle_keeps_a_custodian() {
    // `ipn:3.0` accepted custody and sent the bundle to `ipn:2.0`, which returns it before the signal of `ipn:3.0`
    // arrives. If this node let the bundle go, that signal would leave it without a custodian.
    for by_number in [false, true] {
        let mut node = node();
        let own = Bundle::new(EndpointId::ipn(8, 5), EndpointId::ipn(9, 1), 7);
        node.receive(1, if by_number { own.clone().custody(2, Some(40)) } else { own.clone().custody(3, None) });
        let sent = data(&node)[0].clone();
        node.confirm(sent.id);
        node.wait_ms(2000);
        node.said.clear();
        // The returning bundle names another custodian than on its first arrival, or the same one with another number,
        // so that custodian received it after this node.
        let back = if by_number { own.clone().custody(2, Some(41)) } else { own.clone().custody(2, None) };
        node.receive(2, back.clone());
        node.wait_ms(2000);
        assert_eq!(signals(&node), [], "by number: {by_number}");
        let number = sent.hop.transfer.as_ref().unwrap().number;
        node.receive_over(1, 3, said(3, Answer::Taken, run(number, number), 1));
        assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
        // The custodian retransmits, and custody is accepted again.
        node.said.clear();
        node.receive(4, back);
        node.wait_ms(2000);
        let told = signals(&node);
        assert!(told.len() == 1 && told[0].1.answer == Answer::Taken, "by number: {by_number}: {told:?}");
        // The same copy comes once more, so its custodian missed the signal. The answer, redundant reception, also
        // releases it.
        node.said.clear();
        let before = if by_number { own.clone().custody(2, Some(41)) } else { own.clone().custody(2, None) };
        node.receive(5, before);
        node.wait_ms(2000);
        assert_eq!(signals(&node)[0].1.answer, Answer::Redundant);
    }
}

#[test]
fn custody_outlives_policy_deletion() {
    // A policy's deletion does not revoke the accepted custody: without further transmissions the signal never comes.
    let on =
        |node: &farlink_book::Node<'_>, news: &farlink_book::PolicyEvent<'_>, orders: &mut farlink_book::Actions| {
            if matches!(news, farlink_book::PolicyEvent::Up { .. }) {
                node.book.all().for_each(|held| orders.delete(held.handle(), farlink_book::Why::Acked));
            }
        };
    let rule = || Rule { hears: farlink_book::EventMask::PEERS, on: Box::new(on), ..Rule::default() };
    for in_custody in [true, false] {
        let mut node = Node::of(custody(|_| {}), None, NoRouter, rule());
        node.carrier(1, false);
        let bundle = if in_custody { asks(7) } else { from_two(7, EndpointId::ipn(9, 1)) };
        node.receive(1, bundle);
        node.carrier(0, false);
        node.carrier(0, true);
        node.carrier(1, true);
        assert_eq!(data(&node).len(), usize::from(in_custody));
    }
}

#[test]
fn repeated_ranges_cost_their_length() {
    // One signal may name the same range thousands of times; the work that it causes must be bounded by its length.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..custody(|_| {}) }, None);
    for n in 0..300 {
        node.receive(n, numbered(n, n));
    }
    let mut left = 0;
    while left < 300 {
        let sent = data(&node);
        node.said.clear();
        left += sent.len();
        sent.iter().for_each(|sent| node.confirm(sent.id));
    }
    let all = Numbers { sequence: 1, destination: EndpointId::Null, first: 0, last: u64::MAX };
    let (bundle, hop) = said(3, Answer::Refused, About::Numbers(vec![all; 2000]), 1).parts();
    node.once(farlink_bpa::Input::Arrived { link: LinkId(1), token: support::token(1), bundle, hop });
    let mut calls = 0;
    while node.agent.next_timeout().is_some_and(|at| at <= node.now) {
        node.once(farlink_bpa::Input::Wake);
        calls += 1;
    }
    assert!(calls < 10, "{calls} calls");
    node.wait_ms(30_000);
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyRepeated { .. })), 300, "it was heard");
}

#[test]
fn failed_copy_keeps_custody_wait() {
    // A critical bundle leaves over all links: one neighbour has it, and the copy for the other fails last.
    for unreadable in [false, true] {
        let all = Script {
            route: Box::new(|node, _, _| {
                let leg =
                    |link| NextHop { link: LinkId(link), not_before: node.now, until: farlink_base::Instant::MAX };
                RouteDecision::All(vec![leg(0), leg(1)])
            }),
            ..Script::default()
        };
        let mut node = Node::of(custody(|_| {}), None, all, Rule::default());
        node.receive(1, asks(7));
        let sent = data(&node);
        assert_eq!(sent.len(), 2);
        node.confirm(sent[0].id);
        match unreadable {
            true => node.unreadable(farlink_bpa::Reading::Send(sent[1].id), false),
            false => node.fail(sent[1].id, None),
        }
        node.said.clear();
        node.wait_ms(10_001);
        assert_eq!(count(&node, |event| matches!(event, Event::CustodyRepeated { .. })), 1);
        assert_eq!(data(&node).len(), 2, "it goes again");
    }
}

/// A request for a local bundle with custody transfer.
fn own() -> farlink_bpa::app::SendRequest {
    farlink_bpa::app::SendRequest {
        facts: Facts(Facts::CUSTODY),
        lifetime_ms: 10_000_000,
        ..request(EndpointId::ipn(9, 1), Priority::Normal)
    }
}
fn released(node: &Node) -> usize {
    count(node, |event| matches!(event, Event::CustodyReleased { .. }))
}
/// A router that takes these links in turn and stays with the last.
fn one_after_the_other(links: &'static [u32]) -> Script {
    let mut asked = 0;
    Script {
        route: Box::new(move |node, _, _| {
            let link = LinkId(*links.get(asked).or(links.last()).unwrap());
            asked += 1;
            RouteDecision::One(NextHop { link, not_before: node.now, until: farlink_base::Instant::MAX })
        }),
        ..Script::default()
    }
}

#[test]
fn fragment_custody_ends_with_last_piece() {
    let mut node = node();
    node.receive(1, asks(7).piece(100..900));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    let whole = sent.bundle.identity();
    for (n, (piece, so_far)) in [((100, 400), 0), ((500, 400), 1)].into_iter().enumerate() {
        let about = About::One(farlink_base::BundleId { fragment: Some(piece), ..whole.clone() });
        node.receive_over(1, 2 + n as u64, said(3, Answer::Taken, about, n as u64));
        assert_eq!(released(&node), so_far);
    }
}

#[test]
fn earlier_holders_signal_accepted_after_repeats() {
    let often = custody(|custody| custody.timeout_max = custody.timeout);
    let mut node = Node::of(often, None, one_after_the_other(&[0, 1]), Rule::default());
    node.ask(own());
    for _ in 0..6 {
        let sent = node.take_sent();
        assert_eq!(sent.len(), 1);
        node.confirm(sent[0].id);
        node.wait_ms(10_001);
    }
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    // The signal comes from a custodian beyond the first neighbour that was sent the bundle.
    node.receive_over(0, 1, said(77, Answer::Taken, about(&sent), 1));
    assert_eq!((released(&node), ignored(&node)), (1, 0));
}

#[test]
fn refused_custody_takes_another_route() {
    let script = Script {
        route: Box::new(|node, _, tried| {
            let link = LinkId(u32::from(tried.is_empty()));
            RouteDecision::One(NextHop { link, not_before: node.now, until: farlink_base::Instant::MAX })
        }),
        ..Script::default()
    };
    let mut node = Node::of(custody(|_| {}), None, script, Rule::default());
    node.ask(own());
    let sent = node.take_sent().remove(0);
    assert_eq!(sent.link, LinkId(1));
    node.confirm(sent.id);
    node.receive_over(1, 1, said(3, Answer::Depleted, about(&sent), 1));
    node.wait_ms(12_000);
    assert_eq!(data(&node).iter().map(|sent| sent.link).collect::<Vec<_>>(), [LinkId(0)]);
}

#[test]
fn late_signal_removes_requeued_bundle() {
    let mut node = node();
    node.receive(1, asks(7));
    let sent = data(&node)[0].clone();
    node.confirm(sent.id);
    node.ready(1, false);
    node.wait_ms(11_000);
    assert!(node.why(1).starts_with("its turn"), "{}", node.why(1));
    node.said.clear();
    node.receive_over(1, 2, said(3, Answer::Taken, about(&sent), 1));
    assert!(node.forgotten().contains(&(1, false)));
    node.ready(1, true);
    assert_eq!(data(&node).len(), 0);
}

/// Events in the compressed reports sent since the last call.
fn fates(node: &mut Node) -> Vec<u8> {
    node.wait_ms(1001);
    let told = node.take_sent().into_iter().filter(|sent| sent.bundle.destination == EndpointId::ipn(2, 7));
    told.flat_map(|sent| Toy::compressed(&sent.bundle)).map(|(fate, _)| fate).collect()
}

#[test]
fn compressed_report_covers_custody_and_deletion() {
    let short = farlink_bpa::CompressedSettings { delay: Duration::from_secs(1), ..Default::default() };
    let rare = farlink_bpa::RareSettings { compressed: Some(short), ..Default::default() };
    let mut node = Node::with(Settings { rare: Some(Box::new(rare)), ..custody(|_| {}) }, None);
    node.receive(1, asks(7).report_to(EndpointId::ipn(2, 7)));
    let taken = fates(&mut node);
    assert_eq!(taken, [farlink_bpa::Fate::Received as u8, farlink_bpa::Fate::CustodyTaken as u8]);
    node.admin(AdminInput::Cancel { bundle: farlink_base::BundleHandle(1) });
    assert_eq!(fates(&mut node), [farlink_bpa::Fate::Deleted as u8]);
}

#[test]
fn signals_accepted_from_last_four_holders() {
    let often = custody(|custody| custody.timeout_max = custody.timeout);
    let links = (0..5).map(support::link).collect();
    let router = one_after_the_other(&[0, 1, 2, 3, 4]);
    let mut node = Node::of(Settings { links, ..often }, None, router, Rule::default());
    node.ask(own());
    let mut sent = node.take_sent();
    for link in 1..5 {
        node.confirm(sent[0].id);
        node.wait_ms(10_001);
        sent = node.take_sent();
        assert_eq!(sent[0].link, LinkId(link));
    }
    node.confirm(sent[0].id);
    for (link, so_far) in [(0, (0, 1)), (1, (1, 1))] {
        node.receive_over(link, 1, said(77, Answer::Taken, about(&sent[0]), u64::from(link)));
        assert_eq!((released(&node), ignored(&node)), so_far);
    }
}

#[test]
fn refused_custody_retried_before_silent() {
    // A refusal answers at once, so its retry need not wait for the signal timeout.
    let far = farlink_bpa::LinkSettings { one_way_delay: Duration::from_secs(60), ..support::link(1) };
    let links = vec![support::link(0), far];
    let mut node = Node::with(Settings { links, ..custody(|_| {}) }, None);
    node.ask(own());
    let sent = node.take_sent().remove(0);
    node.confirm(sent.id);
    node.receive_over(1, 1, said(3, Answer::Depleted, about(&sent), 1));
    node.wait_ms(12_000);
    assert_eq!(data(&node).len(), 1);
}

#[test]
fn custodian_table_overflow_flushes_oldest_signal() {
    // Signals are collected for at most 1,024 custodians; for one more, the oldest collected signal is sent early.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 24, ..custody(|_| {}) }, None);
    let told = |node: &Node| count(node, |event| matches!(event, Event::CustodySignalled { .. }));
    for n in 0..1024 {
        node.receive(n, asks(n).custody(100 + n, Some(n)));
    }
    assert_eq!(told(&node), 0);
    for n in 1024..1030 {
        node.receive(n, asks(n).custody(100 + n, Some(n)));
    }
    assert_eq!(told(&node), 6);
    node.agent.audit();
    node.wait_ms(1001);
    assert_eq!(told(&node), 1030);
}

#[test]
fn later_copy_postpones_retransmission() {
    let script = Script {
        route: Box::new(|node, _, _| {
            let until = farlink_base::Instant::MAX;
            RouteDecision::All([0, 1].map(|link| NextHop { link: LinkId(link), not_before: node.now, until }).to_vec())
        }),
        ..Script::default()
    };
    let mut node = Node::of(custody(|_| {}), None, script, Rule::default());
    node.ready(1, false);
    node.ask(own());
    let first = node.take_sent().remove(0);
    node.confirm(first.id);
    node.wait_ms(5000);
    node.ready(1, true);
    let copy = node.take_sent().remove(0);
    assert_eq!((first.link, copy.link), (LinkId(0), LinkId(1)));
    node.confirm(copy.id);
    node.wait_ms(9000);
    assert_eq!(node.sent().len(), 0);
    node.wait_ms(2000);
    assert_eq!(node.sent().len(), 2);
}

#[test]
fn compressed_report_covers_declined_custody() {
    let short = farlink_bpa::CompressedSettings { delay: Duration::from_secs(1), ..Default::default() };
    let rare = farlink_bpa::RareSettings { compressed: Some(short), ..Default::default() };
    let mut node = Node::with(Settings { rare: Some(Box::new(rare)), ..custody(|custody| custody.to = vec![]) }, None);
    node.ready(1, false);
    node.receive(1, asks(7).report_to(EndpointId::ipn(2, 7)));
    assert_eq!(fates(&mut node), [farlink_bpa::Fate::Received as u8, farlink_bpa::Fate::CustodyRefused as u8]);
}

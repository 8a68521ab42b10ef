//! Security rules at nodes that also speak version 6, which has no security here: it must be no way around the
//! rules.

use crate::line::{Layer, Line, content, payload_rule};
use farlink_base::security::{Role, Rule, Service};
use farlink_base::{DeleteReason, Duration, Event, Refusal};
use farlink_stack::{Config, KeyRing, Secret, SecurityConfig};

fn rule(role: Role, service: Service, required: bool) -> Rule {
    Rule { required, ..payload_rule(role, service) }
}
/// The first of `count` nodes makes bundles of version 6; the node at `place` has these rules.
fn line(count: usize, place: usize, rules: Vec<Rule>) -> Line {
    let tune = move |node: usize, config: &mut Config| {
        config.node.bundle_version = if node == 0 { 6 } else { 7 };
        let keys = KeyRing::new([(String::from("key"), Secret::new(vec![1; 32]))]);
        let told = SecurityConfig { rules: rules.clone(), keys, start: 1, seed: [1; 32], aes_gcm: None };
        config.security = (node == place).then_some(told);
    };
    Line::new(Layer::TcpclV4, count, tune)
}
fn deleted(line: &Line) -> Vec<(usize, DeleteReason)> {
    let of = |(node, event): &(usize, Event)| match event {
        Event::Deleted { reason, .. } if *reason != DeleteReason::Done => Some((*node, *reason)),
        _ => None,
    };
    line.events.iter().filter_map(of).collect()
}

/// Keeps 9172-5.1.1-7, 9172-5.1.2-6.
#[test]
fn v6_lacking_required_security_is_refused() {
    for service in [Service::Integrity, Service::Confidentiality] {
        // 3 MB go to the disk while they arrive.
        for len in [5, 3_000_000] {
            let mut line = line(2, 1, vec![rule(Role::Acceptor, service, true)]);
            line.register(1);
            line.send_from(0, content(1, len));
            line.run(Duration::from_secs(30));
            assert_eq!(line.delivered.len(), 0, "{service:?} {len}: nobody signed it");
            assert_eq!(deleted(&line), [(1, DeleteReason::MissingSecurity)], "{service:?} {len}");
            line.assert_empty();
        }
    }
    let mut may = line(2, 1, vec![rule(Role::Acceptor, Service::Integrity, false)]);
    may.register(1);
    may.send_from(0, content(1, 5));
    may.run(Duration::from_secs(30));
    assert_eq!(may.delivered.len(), 1, "it may lack the operation");
}

/// Keeps 9172-5.1.1-7.
#[test]
fn gateway_stops_clear_v6_bundles() {
    for rule in [rule(Role::Source, Service::Confidentiality, true), rule(Role::Verifier, Service::Integrity, true)] {
        let mut line = line(3, 1, vec![rule]);
        line.register(2);
        line.send_from(0, content(1, 5));
        line.run(Duration::from_secs(30));
        assert_eq!(line.delivered.len(), 0);
        assert_eq!(deleted(&line), [(1, DeleteReason::MissingSecurity)]);
        line.assert_empty();
    }
}

#[test]
fn secured_source_refuses_v6() {
    let mut line = line(2, 0, vec![rule(Role::Source, Service::Integrity, true)]);
    line.register(1);
    line.spool(&content(1, 5), 5, 100);
    line.run(Duration::from_secs(30));
    assert_eq!((&line.refused[..], line.delivered.len()), (&[Refusal::NotAcceptable][..], 0));
}

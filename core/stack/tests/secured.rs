//! Bundles of version 7 under rules for their security, from node to node, on disk and in memory.

use crate::line::{Layer, Line, content, payload_rule};
use farlink_base::security::{Role, Service};
use farlink_base::{DataVolume, DeleteReason, Duration, Event};
use farlink_stack::{Config, KeyRing, Secret, SecurityConfig};

/// Two nodes with these keys, the second in memory or on disk; the first makes, the second accepts.
fn line(service: Service, keys: [u8; 2], disk: bool) -> Line {
    let tune = move |node: usize, config: &mut Config| {
        let rule = payload_rule(if node == 0 { Role::Source } else { Role::Acceptor }, service);
        let keys = KeyRing::new([(String::from("key"), Secret::new(vec![keys[node]; 32]))]);
        config.security = Some(SecurityConfig { rules: vec![rule], keys, start: 1, seed: [1; 32], aes_gcm: None });
        if !disk {
            (config.node.limits.memory_bytes, config.node.store.spill_from) = (1 << 30, DataVolume(1 << 30));
            config.node.limits.arriving_bytes = 1 << 30;
        }
    };
    let mut line = Line::new(Layer::TcpclV4, 2, tune);
    line.run(Duration::from_secs(2));
    line
}
const SERVICES: [Service; 2] = [Service::Integrity, Service::Confidentiality];

#[test]
fn secured_bundles_are_delivered_in_clear() {
    for (service, disk) in SERVICES.into_iter().flat_map(|service| [(service, false), (service, true)]) {
        for len in [5, 100_000, 3_000_000] {
            let mut line = line(service, [1, 1], disk);
            line.send(content(1, len));
            line.run(Duration::from_secs(20));
            // Waiting deliveries lie encrypted, and are decrypted when their application registers.
            line.register(1);
            line.run(Duration::from_secs(20));
            assert!(line.delivered == [content(1, len)], "{service:?} {len} {disk}: {}", line.delivered.len());
            line.assert_empty();
        }
    }
}

#[test]
fn recovered_encrypted_bundle_is_delivered() {
    let mut line = line(Service::Confidentiality, [1, 1], true);
    line.send(content(1, 100_000));
    line.run(Duration::from_secs(5));
    line.kill(1);
    line.start(1);
    line.run(Duration::from_secs(5));
    line.register(1);
    line.run(Duration::from_secs(5));
    assert!(line.delivered == [content(1, 100_000)]);
}

/// Keeps 9172-5.1.1-9, 9172-5.1.2-3.
#[test]
fn wrong_key_bundle_is_deleted() {
    for (service, disk) in SERVICES.into_iter().flat_map(|service| [(service, false), (service, true)]) {
        // 3 MB go to the disk while they arrive, and are checked when they are handed out.
        for len in [5, 3_000_000] {
            let mut line = line(service, [1, 2], disk);
            line.register(1);
            line.send(content(1, len));
            line.run(Duration::from_secs(30));
            let reasons: Vec<_> = line
                .events
                .iter()
                .filter_map(|(node, event)| match event {
                    Event::Deleted { reason, .. } if *node == 1 => Some(*reason),
                    _ => None,
                })
                .collect();
            assert_eq!(line.delivered.len(), 0, "{service:?} {len} {disk}");
            assert_eq!(reasons, [DeleteReason::FailedSecurity], "{service:?} {len} {disk}");
            line.assert_empty();
        }
    }
}

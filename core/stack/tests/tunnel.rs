//! Bundles in bundles on the wire (draft-ietf-dtn-bibect-05): through a relay without a route to the inner
//! destination, with and without custody, and with crashes of every node on the way.

use crate::line::{Layer, Line, content, payload_rule};
use farlink_base::security::{Role, Rule, Service};
use farlink_base::{Bytes, Duration, EndpointId, Event, LinkId};
use farlink_stack::{Config, KeyRing, Secret, SecurityConfig, StoreKind, TunnelSettings};

const LAYERS: [Layer; 2] = [Layer::TcpclV4, Layer::Ltp];

/// A tunnel from the first node to the third for bundles to the fourth, which the second does not know.
fn tunnel(custody: bool) -> impl Fn(usize, &mut Config) {
    move |node, config| {
        let id = |n| EndpointId::ipn(n, 0);
        let to = |end| TunnelSettings {
            custody,
            timeout: Duration::from_secs(20),
            ..TunnelSettings::new(EndpointId::ipn(end, 0))
        };
        match node {
            0 => {
                config.routes = vec![("ipn:3.*".into(), id(2))];
                config.tunnels = vec![TunnelSettings { to: vec!["ipn:4.*".into()], ..to(3) }];
            }
            // The second node knows its neighbours only.
            1 => config.routes.clear(),
            2 => {
                // The route of signals back to the first node.
                config.routes.push(("ipn:1.*".into(), id(2)));
                config.tunnels = vec![to(1)];
            }
            _ => {}
        }
    }
}
fn count(line: &Line, of: usize, which: fn(&Event) -> bool) -> usize {
    line.events.iter().filter(|(node, event)| *node == of && which(event)).count()
}
const RELEASED: fn(&Event) -> bool = |event| matches!(event, Event::CustodyReleased { .. });
const REPEATED: fn(&Event) -> bool = |event| matches!(event, Event::CustodyRepeated { .. });
const SIGNALLED: fn(&Event) -> bool = |event| matches!(event, Event::CustodySignalled { .. });
const CAME_OUT: fn(&Event) -> bool = |event| matches!(event, Event::Received { link: LinkId::TUNNEL, .. });

fn sorted(mut payloads: Vec<Bytes>) -> Vec<Bytes> {
    payloads.sort();
    payloads
}
fn send(line: &mut Line, count: u64) -> Vec<Bytes> {
    let sent: Vec<Bytes> = (0..count).map(|n| content(n, 500)).collect();
    sent.iter().for_each(|payload| line.send(payload.clone()));
    sent
}

#[test]
fn tunnel_crosses_node_without_route() {
    for (layer, custody) in LAYERS.into_iter().flat_map(|layer| [(layer, false), (layer, true)]) {
        let mut line = Line::new(layer, 4, tunnel(custody));
        line.register(3);
        line.run(Duration::from_secs(5));
        // The longest goes to disk while it arrives, and comes back from there to be opened.
        let lengths = [3, 40_000, 3_000_000];
        let sent: Vec<Bytes> = lengths.iter().enumerate().map(|(n, len)| content(n as u64, *len)).collect();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?} {custody}: {}", line.delivered.len());
        assert_eq!((count(&line, 2, CAME_OUT), count(&line, 1, CAME_OUT)), (3, 0), "{layer:?} {custody}");
        let released = if custody { 3 } else { 0 };
        assert_eq!((count(&line, 0, RELEASED), count(&line, 0, REPEATED)), (released, 0), "{layer:?} {custody}");
        assert_eq!(count(&line, 2, SIGNALLED) > 0, custody);
        line.assert_empty();
    }
}

#[test]
fn tunnel_signal_covers_many_bundles() {
    let mut line = Line::new(Layer::TcpclV4, 4, tunnel(true));
    line.register(3);
    line.run(Duration::from_secs(5));
    let sent = send(&mut line, 1000);
    line.run(Duration::from_secs(60));
    assert!(sorted(line.delivered.clone()) == sorted(sent));
    assert_eq!(count(&line, 0, RELEASED), 1000);
    let signals = count(&line, 2, SIGNALLED);
    // Signals are collected for a while, so that few are needed.
    assert!((1..20).contains(&signals), "{signals} signals");
    line.assert_empty();
}

#[test]
fn tunnel_entry_crash_loses_nothing() {
    // The outer bundle is in memory only: it is lost with this node, and the inner bundle is sent again.
    for custody in [false, true] {
        let mut line = Line::new(Layer::TcpclV4, 4, tunnel(custody));
        line.kill(1);
        line.register(3);
        line.run(Duration::from_secs(1));
        let sent = send(&mut line, 10);
        line.run(Duration::from_secs(5));
        line.kill(0);
        line.start(0);
        line.run(Duration::from_secs(2));
        line.start(1);
        line.run(Duration::from_secs(120));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{custody}: {} came", line.delivered.len());
        line.assert_empty();
    }
}

#[test]
fn custody_resends_relay_losses() {
    // The relay has bundles in memory only, and dies with them: custody still brings them through.
    let all = tunnel(true);
    let mut line = Line::new(Layer::TcpclV4, 4, move |node, config| {
        all(node, config);
        if node == 1 {
            config.store.kind = StoreKind::Memory;
        }
    });
    line.kill(2);
    line.register(3);
    line.run(Duration::from_secs(1));
    let sent = send(&mut line, 5);
    line.run(Duration::from_secs(5));
    assert_eq!((line.node(0).held(), line.node(1).held()), (5, 5), "the first keeps what it gave away");
    line.kill(1);
    line.start(1);
    line.start(2);
    line.run(Duration::from_secs(180));
    assert!(sorted(line.delivered.clone()) == sorted(sent), "{} came", line.delivered.len());
    assert_eq!((count(&line, 0, REPEATED), count(&line, 0, RELEASED)), (5, 5));
    line.assert_empty();
}

#[test]
fn tunnel_exit_crash_loses_nothing() {
    // The far end dies at any moment of the way: accepted bundles are kept, and delivered once.
    for custody in [false, true] {
        // Steps of a prime number of microseconds fall between different events.
        for after_us in (0..30).map(|step| step * 997) {
            let mut line = Line::new(Layer::TcpclV4, 4, tunnel(custody));
            line.register(3);
            line.run(Duration::from_secs(5));
            let sent = send(&mut line, 3);
            line.run(Duration::from_micros(after_us));
            line.kill(2);
            line.run(Duration::from_millis(50));
            line.start(2);
            // Several timeouts of 20 s, with backoff.
            line.run(Duration::from_secs(300));
            let came = line.delivered.clone();
            assert!(sorted(came.clone()) == sorted(sent), "{custody}, after {after_us} us: {} came", came.len());
            line.assert_empty();
        }
    }
}

/// The first node secures its outer bundles if `signs`; the far end of the tunnel requires secured ones.
fn secured(signs: bool, service: Service) -> Line {
    let all = tunnel(true);
    Line::new(Layer::TcpclV4, 4, move |node, config| {
        all(node, config);
        let role = if node == 0 { Role::Source } else { Role::Acceptor };
        let rule = Rule { to: "ipn:3.*".into(), ..payload_rule(role, service) };
        let keys = KeyRing::new([("key".into(), Secret::new(vec![1; 32]))]);
        let told = SecurityConfig { rules: vec![rule], keys, start: 1, seed: [1; 32], aes_gcm: None };
        config.security = (node == 2 || node == 0 && signs).then_some(told);
    })
}

#[test]
fn unsecured_outer_bundle_is_discarded() {
    for service in [Service::Integrity, Service::Confidentiality] {
        let mut line = secured(true, service);
        line.kill(1);
        line.register(3);
        line.run(Duration::from_secs(1));
        // After the restart, the payloads are read from disk to be secured.
        let sent = vec![content(1, 500), content(2, 3_000_000)];
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(5));
        line.kill(0);
        line.start(0);
        line.start(1);
        line.run(Duration::from_secs(120));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{service:?}: {} came", line.delivered.len());
        assert_eq!((count(&line, 2, CAME_OUT), count(&line, 0, RELEASED)), (2, 2), "{service:?}");
        line.assert_empty();
        let mut line = secured(false, service);
        line.register(3);
        line.run(Duration::from_secs(1));
        send(&mut line, 1);
        line.run(Duration::from_secs(60));
        assert_eq!(
            (line.delivered.len(), count(&line, 2, CAME_OUT)),
            (0, 0),
            "{service:?}: anybody could have made it"
        );
        assert_eq!(count(&line, 0, RELEASED), 0);
    }
}

#[test]
fn tunnel_without_exit_is_refused() {
    let with = |ends: &[EndpointId]| {
        let mut config = Config::new(EndpointId::ipn(1, 0));
        config.tunnels = ends.iter().cloned().map(TunnelSettings::new).collect();
        farlink_stack::Stack::new(config).err().map(|error| error.path)
    };
    let (two, own) = (EndpointId::ipn(2, 0), EndpointId::ipn(1, 0));
    assert_eq!(with(std::slice::from_ref(&two)), None);
    assert_eq!(with(&[own]).as_deref(), Some("tunnel.ipn:1.0.end"));
    assert_eq!(with(&[EndpointId::ipn(2, 7)]).as_deref(), Some("tunnel.ipn:2.7.end"));
    assert_eq!(with(&[two.clone(), two]).as_deref(), Some("tunnel.ipn:2.0.end"));
}

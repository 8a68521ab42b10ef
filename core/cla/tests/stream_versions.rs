//! Tests of two TCPCL versions at one port, and of the answers of a layer with a single version (RFC 7242 4.2, RFC 9174
//! 4.3).

use crate::tcpcl_v3_script::{ALL, START, ack, contact, old_ours, segment};
use crate::tcpcl_v4_script::{Lone, init_of, message, ours, send, span};
use farlink_base::Duration;
use farlink_base::layer::{Input, LinkState, Output};
use farlink_base::{LinkId, socket};
use farlink_cla::tcpcl_v4::{Config, Tls, Versions};

fn both() -> Config {
    Config { versions: Versions::Both, ..ours() }
}

#[test]
fn incoming_version_is_answered_in_kind() {
    let mut lone = Lone::passive(both());
    assert!(lone.wrote().is_empty(), "its version is not known yet");
    for byte in contact(ALL, 30, "ipn:1.0") {
        lone.receive(&[byte]);
    }
    assert_eq!(lone.wrote(), contact(ALL, 60, "ipn:2.0"));
    lone.receive(&segment(START, b"abc"));
    assert_eq!(lone.wrote(), ack(3));
    let mut lone = Lone::passive(both());
    lone.receive(&message("contact_no_tls"));
    lone.receive(&message("sess_init_ipn"));
    assert!(lone.wrote().starts_with(&message("contact_no_tls")));
    assert!(lone.said().iter().any(|o| matches!(o, Output::PeerUp { .. })));
    let mut lone = Lone::passive(both());
    lone.receive(b"dtn!\x05\x00");
    assert_eq!(lone.wrote(), [message("contact_no_tls"), vec![5, 0, 2]].concat(), "neither");
}

/// Keeps 7242-6.1-5.
#[test]
fn single_version_layer_reports_it() {
    // The log must tell the operator which version the peer uses.
    let mut lone = Lone::passive(ours());
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    assert_eq!(lone.wrote(), [message("contact_no_tls"), vec![5, 0, 2]].concat(), "RFC 9174 4.3");
    let mut lone = Lone::passive(old_ours());
    lone.receive(&message("contact_no_tls"));
    assert_eq!(lone.wrote(), [contact(ALL, 60, "ipn:2.0"), vec![0x52, 1]].concat(), "RFC 7242 6.1");
    assert_eq!(lone.closed(), Some(false));
    for (config, header, goodbye) in [
        (ours(), contact(ALL, 30, "ipn:1.0"), vec![]),
        (old_ours(), message("contact_no_tls"), vec![0x52, 1]),
        (old_ours(), b"dtn!\x05\x00".to_vec(), vec![0x52, 1]),
    ] {
        let mut lone = Lone::connecting(config, span());
        lone.wrote();
        lone.receive(&header);
        assert_eq!(
            (lone.wrote(), lone.closed()),
            (goodbye, Some(false)),
            "only version 3 has the one who connected say why"
        );
    }
}

/// Lets the layer open its next stream after a while.
fn again(lone: &mut Lone) {
    lone.said();
    lone.wait(Duration::from_secs(1));
    lone.connect();
}

#[test]
fn downgraded_neighbour_is_dialled_in_v3() {
    let mut lone = Lone::connecting(both(), span());
    assert_eq!(lone.wrote(), message("contact_no_tls"), "the highest first");
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    assert!(lone.wrote().is_empty());
    again(&mut lone);
    assert_eq!(lone.wrote(), contact(ALL, 60, "ipn:2.0"));
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    assert!(lone.said().iter().any(|o| matches!(o, Output::PeerUp { link: LinkId(0), .. })));
    lone.give(send(1, b"abc".to_vec()));
    assert_eq!(lone.wrote(), segment(3, b"abc"));
    // The peer was replaced by a peer of version 4.
    lone.give(Input::Socket(socket::Input::Closed { stream: lone.stream, error: true }));
    again(&mut lone);
    assert_eq!(lone.wrote(), contact(ALL, 60, "ipn:2.0"));
    lone.receive(&message("contact_no_tls"));
    again(&mut lone);
    assert_eq!(lone.wrote()[..6], message("contact_no_tls"));
    lone.receive(&[message("contact_no_tls"), init_of("ipn:1.0")].concat());
    assert!(lone.said().iter().any(|o| matches!(o, Output::PeerUp { link: LinkId(0), .. })));
}

#[test]
fn stalled_header_falls_back_to_v3() {
    // A node of version 3 may wait for the rest of its contact header, which is longer.
    let mut lone = Lone::connecting(both(), span());
    assert_eq!(lone.wrote(), message("contact_no_tls"));
    lone.wait(Duration::from_secs(10));
    again(&mut lone);
    assert_eq!(lone.wrote(), contact(ALL, 60, "ipn:2.0"));
    lone.wait(Duration::from_secs(10));
    again(&mut lone);
    assert_eq!(lone.wrote(), message("contact_no_tls"), "alternating further on");
}

#[test]
fn tls_required_never_uses_v3() {
    // Version 3 has no TLS.
    let secure = Config { tls: Tls::Require, ..both() };
    let mut lone = Lone::passive(secure.clone());
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    assert_eq!(lone.wrote(), [message("contact_tls"), vec![5, 0, 2]].concat());
    let mut lone = Lone::connecting(secure, span());
    assert_eq!(lone.wrote(), message("contact_tls"));
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    again(&mut lone);
    assert_eq!(lone.wrote(), message("contact_tls"), "no downgrade by an attacker in between");
}

#[test]
fn known_version_is_reused_next_contact() {
    // The version learnt from the peer saves a failed connection.
    let mut lone = Lone::connecting(both(), span());
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    again(&mut lone);
    lone.receive(&contact(ALL, 30, "ipn:1.0"));
    lone.wrote();
    lone.give(Input::Socket(socket::Input::Closed { stream: lone.stream, error: true }));
    lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    lone.wait(Duration::from_secs(100));
    lone.said();
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    lone.connect();
    assert_eq!(lone.wrote(), contact(ALL, 60, "ipn:2.0"));
}

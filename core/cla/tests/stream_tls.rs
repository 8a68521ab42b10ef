//! Tests of TLS in TCPCLv4 (RFC 9174 4.3, 4.4): when it starts, that it cannot be suppressed, and that claimed
//! identities do not count as proven ones.

use crate::tcpcl_v4_script::{Lone, PASSIVE, message, ours, send, span};
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output};
use farlink_base::socket;
use farlink_base::{Duration, LinkId, Payload, StreamId};
use farlink_cla::tcpcl_v4::{Config, LinkParams, Tls};

fn config(tls: Tls) -> Config {
    Config { tls, ..ours() }
}
fn asked(said: &[Output]) -> Vec<(bool, Option<String>)> {
    let ask = |o: &Output| match o {
        Output::Socket(socket::Output::StartTls { server, name, .. }) => Some((*server, name.clone())),
        _ => None,
    };
    said.iter().filter_map(ask).collect()
}
fn secured(stream: StreamId, proven: &[&str]) -> Input {
    let proven = proven.iter().map(ToString::to_string).collect();
    Input::Socket(socket::Input::Secured { stream, proven, contradicts: false })
}
fn peers(said: &[Output]) -> Vec<(Option<&str>, Option<&str>)> {
    fn peer(output: &Output) -> Option<(Option<&str>, Option<&str>)> {
        match output {
            Output::PeerUp { claimed, proven, .. } => Some((claimed.as_deref(), proven.as_deref())),
            _ => None,
        }
    }
    said.iter().filter_map(peer).collect()
}
/// A node with a link to `ipn:1.0`, after that peer has connected to it.
fn visited(tls: Tls) -> Lone {
    let mut lone = Lone::new(config(tls), vec![LinkParams { connect: false, ..span() }]);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    lone.open();
    lone
}
/// Like [`visited`], after TLS with a certificate that proves these node IDs.
fn secured_visit(tls: Tls, proven: &[&str]) -> Lone {
    let mut lone = visited(tls);
    lone.receive(&message("contact_tls"));
    assert_eq!(asked(&lone.said()), [(true, None)]);
    lone.give(secured(lone.stream, proven));
    lone
}

/// Keeps 9174-4.2-1, 9174-4.4.3-1.
#[test]
fn tls_use_follows_both_headers() {
    for (tls, header, begins) in [
        (Tls::Forbid, "contact_tls", false),
        (Tls::Allow, "contact_no_tls", false),
        (Tls::Allow, "contact_tls", true),
        (Tls::Require, "contact_tls", true),
    ] {
        let mut lone = Lone::new(config(tls), Vec::new());
        lone.open();
        lone.receive(&message(header));
        let can = u8::from(tls != Tls::Forbid);
        let wrote = lone.wrote();
        assert_eq!(wrote[..6], [&b"dtn!\x04"[..], &[can]].concat());
        assert_eq!(wrote.len() > 6, !begins, "SESS_INIT waits for the handshake");
        assert_eq!(asked(&lone.said()).len(), usize::from(begins), "{tls:?} {header}");
    }
}

/// Keeps 9174-4.3-5, 9174-6.1-11.
#[test]
fn required_tls_rejects_incapable_peer() {
    let mut lone = Lone::new(config(Tls::Require), Vec::new());
    lone.open();
    lone.receive(&message("contact_no_tls"));
    assert_eq!(lone.wrote(), [&message("contact_tls")[..], &[5, 0, 4]].concat(), "SESS_TERM contact failure");
    assert_eq!(lone.closed(), Some(false));
}

/// Keeps 9174-4.4.3-1, 9174-4.4.3-3, 9174-4.4.3-10.
#[test]
fn connecting_side_starts_tls_once() {
    let span = LinkParams { tls_name: Some("moon.example".into()), ..span() };
    let mut lone = Lone::new(config(Tls::Require), vec![span]);
    lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    let Some(Output::Socket(socket::Output::Connect { stream, .. })) = lone.said().pop() else { panic!("it connects") };
    lone.stream = stream;
    let from = "127.0.0.1:4556".parse().unwrap();
    lone.give(Input::Socket(socket::Input::Opened { stream, from }));
    lone.give(Input::Socket(socket::Input::Writable { stream, room: 4 }));
    lone.receive(&message("contact_tls"));
    assert_eq!((lone.wrote().len(), asked(&lone.said()).len()), (4, 0), "two bytes of the header are left");
    lone.give(Input::Socket(socket::Input::Writable { stream, room: 1000 }));
    assert_eq!(lone.wrote(), [4, 1]);
    assert_eq!(asked(&lone.said()), [(false, Some("moon.example".into()))]);
    lone.give(Input::Socket(socket::Input::Writable { stream, room: 1000 }));
    assert!(lone.wrote().is_empty() && lone.said().is_empty(), "nothing leaves during the handshake");
    lone.give(secured(stream, &["ipn:1.0"]));
    assert_eq!(lone.wrote()[0], 7, "SESS_INIT");
    lone.receive(&message("sess_init_ipn"));
    assert_eq!(peers(&lone.said()), [(Some("ipn:1.0"), Some("ipn:1.0"))]);
    lone.give(send(1, vec![7; 20]));
    assert!(lone.wrote().len() > 20);
}

/// Keeps 9174-4.4.3-1.
#[test]
fn plaintext_before_handshake_ends_session() {
    // An attacker on the path could have inserted the plaintext.
    let header = message("contact_tls");
    for bytes in [vec![[&header[..], &[4]].concat()], vec![header.clone(), vec![4]]] {
        let mut lone = visited(Tls::Allow);
        bytes.iter().for_each(|bytes| lone.receive(bytes));
        let said = lone.said();
        assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { .. }))));
        assert!(peers(&said).is_empty());
        lone.give(secured(PASSIVE, &["ipn:1.0"]));
        lone.receive(&message("sess_init_ipn"));
        assert!(lone.said().is_empty() && !lone.wrote().contains(&7));
    }
}

/// Keeps 9174-4.4.3-9.
#[test]
fn failed_or_endless_handshake_leaves_nothing() {
    // RFC 9174 4.4.3: no SESS_TERM after a failed handshake.
    let mut lone = visited(Tls::Require);
    lone.receive(&message("contact_tls"));
    lone.wrote();
    lone.give(Input::Socket(socket::Input::Closed { stream: PASSIVE, error: true }));
    assert!(lone.wrote().is_empty(), "no SESS_TERM after a failed handshake (4.4.3)");
    assert_eq!((lone.layer.usage().sessions, lone.layer.next_timeout()), (0, None));
    let mut lone = visited(Tls::Require);
    lone.receive(&message("contact_tls"));
    lone.wait(Duration::from_secs(11));
    assert_eq!(lone.closed(), Some(true), "not introduced in time");
    assert_eq!((lone.layer.usage().sessions, lone.layer.next_timeout()), (0, None));
}

/// Keeps 9174-4.4.4.3-1, 9174-4.4.4.3-2, 9174-4.6-3.
#[test]
fn certificate_for_other_node_ends_session() {
    // A certificate without node IDs proves nothing.
    let claimed = Some("ipn:1.0");
    for (proven, want) in [
        (&["ipn:1.0"][..], Some((claimed, claimed))),
        (&["dtn://moon/", "ipn:1.0"], Some((claimed, claimed))),
        (&[], Some((claimed, None))),
        (&["ipn:9.0"], None),
    ] {
        let mut lone = secured_visit(Tls::Require, proven);
        lone.wrote();
        lone.receive(&message("sess_init_ipn"));
        let said = lone.said();
        assert_eq!(peers(&said), want.into_iter().collect::<Vec<_>>(), "{proven:?}");
        if want.is_none() {
            assert_eq!(lone.wrote(), [5, 0, 4], "contact failure (4.4.3)");
            assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))));
        }
    }
    // A peer that claims no node ID gets the one that it proves.
    let mut lone = secured_visit(Tls::Require, &["ipn:1.0"]);
    let mut silent = message("sess_init_ipn");
    let at = silent.len() - 4 - "ipn:1.0".len();
    silent.drain(at..at + "ipn:1.0".len());
    silent[at - 2..at].copy_from_slice(&[0, 0]);
    lone.receive(&silent);
    let said = lone.said();
    assert_eq!(peers(&said), [(None, Some("ipn:1.0"))]);
    assert!(said.iter().any(|o| matches!(o, Output::PeerUp { link: LinkId(0), .. })), "the link of that name");
}

/// Keeps 9174-4.4.4.2-4.
#[test]
fn certificate_for_other_host_ends_session() {
    // RFC 9174 4.4.4.2: the operator of the peer can correct a reported problem.
    for tls in [Tls::Allow, Tls::Require] {
        let mut lone = visited(tls);
        lone.receive(&message("contact_tls"));
        lone.said();
        lone.wrote();
        lone.give(Input::Socket(socket::Input::Secured { stream: lone.stream, proven: Vec::new(), contradicts: true }));
        let said = lone.said();
        assert_eq!(lone.wrote(), [5, 0, 4], "nothing but SESS_TERM");
        assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { abort: false, .. }))));
        lone.receive(&message("sess_init_ipn"));
        assert!(peers(&lone.said()).is_empty());
    }
}

#[test]
fn only_proof_takes_link_from_claim() {
    // A session with a proven node ID takes the link over from one that only claims it, and not the reverse.
    let mut lone = secured_visit(Tls::Allow, &["ipn:1.0"]);
    lone.receive(&message("sess_init_ipn"));
    lone.said();
    lone.stream = StreamId(PASSIVE.0 + 1);
    lone.open();
    lone.wrote();
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    assert!(lone.wrote().ends_with(&[5, 0, 4]), "an impostor, or a peer that was talked out of TLS");
    assert!(peers(&lone.said()).is_empty());

    let mut lone = visited(Tls::Allow);
    lone.receive(&[message("contact_no_tls"), message("sess_init_ipn")].concat());
    lone.give(send(1, vec![7; 20]));
    lone.wrote();
    lone.said();
    lone.stream = StreamId(PASSIVE.0 + 1);
    lone.open();
    lone.receive(&message("contact_tls"));
    lone.give(secured(lone.stream, &["ipn:1.0"]));
    lone.wrote();
    lone.receive(&message("sess_init_ipn"));
    assert_eq!(peers(&lone.said()), [(Some("ipn:1.0"), Some("ipn:1.0"))], "said again, now proven");
    assert_eq!(lone.wrote(), [5, 0, 0], "the session of the claim ends when it has finished");
    let ack = [&[2, 3][..], &0u64.to_be_bytes(), &20u64.to_be_bytes()].concat();
    lone.give(Input::Socket(socket::Input::Data {
        stream: PASSIVE,
        data: Payload::from([ack, vec![5, 1, 0]].concat()),
    }));
    let said = lone.said();
    assert!(said.iter().any(|o| matches!(o, Output::Sent { .. })));
    assert!(said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { stream: PASSIVE, abort: false }))));
    assert!(said.iter().all(|o| !matches!(o, Output::PeerDown { .. })));
}

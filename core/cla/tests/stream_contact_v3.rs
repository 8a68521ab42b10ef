//! Tests of the contact header of TCPCLv3, field by field (RFC 7242 4.1 and 4.2).

use crate::tcpcl_v3_script::{ALL, END, NONE, SILENT, START, ack, contact, old_ours, passive, segment};
use crate::tcpcl_v4_script::{Lone, span};
use farlink_base::layer::Output;
use farlink_base::socket;
use farlink_cla::tcpcl_v4::Config;

/// Whether these bytes from the connecting side establish a session, and whether the connection is closed after them.
fn met(bytes: &[u8]) -> (bool, bool) {
    let mut lone = Lone::passive(old_ours());
    lone.receive(bytes);
    let said = lone.said();
    let up = said.iter().any(|output| matches!(output, Output::PeerUp { .. }));
    (up, said.iter().any(|output| matches!(output, Output::Socket(socket::Output::Close { .. }))))
}

/// Keeps 7242-4.2-1.
#[test]
fn another_magic_ends_the_connection() {
    let header = contact(ALL, 30, "ipn:1.0");
    assert_eq!((&header[..4], met(&header)), (&b"dtn!"[..], (true, false)));
    for bit in 0..32 {
        let mut other = header.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(met(&other), (false, true), "bit {bit}");
    }
}

/// Keeps 7242-4.2-2.
#[test]
fn other_header_version_starts_no_session() {
    let header = contact(ALL, 30, "ipn:1.0");
    for version in (0..=255).filter(|version| ![3, 4].contains(version)) {
        let mut other = header.clone();
        other[4] = version;
        println!("{version} {:?}", met(&other));
        assert!(!met(&other).0, "version {version}");
    }
}

/// Keeps 7242-4.1-1, 7242-4.2-2.
#[test]
fn session_waits_for_complete_name() {
    let header = contact(ALL, 30, "ipn:1.0");
    for cut in 0..header.len() {
        assert_eq!(met(&header[..cut]), (false, false), "{cut} bytes");
    }
    // The length of the name delimits it.
    let (length, mut longer) = (8, header.clone());
    assert_eq!(header[length], 7);
    longer[length] = 8;
    assert_eq!(met(&longer), (false, false), "a byte of the name is still to come");
    // The name is not an endpoint ID, because it is not UTF-8.
    let mut broken = header.clone();
    broken[length + 1] = 0xff;
    assert_eq!(met(&broken), (false, true));
    // The four unused bits are ignored.
    for bit in 4..8 {
        assert_eq!(met(&contact(ALL | 1 << bit, 30, "ipn:1.0")), (true, false), "bit {bit}");
    }
    for reactive in [0, 1] {
        let ours = || Config { reactive, ..old_ours() };
        for sent in [Lone::passive(ours()).wrote(), Lone::connecting(ours(), span()).wrote()] {
            assert_eq!((sent[4], sent[5] & 0xf0), (3, 0), "{sent:x?}");
        }
    }
}

/// Keeps 7242-4.2-3.
#[test]
fn other_parameters_take_a_new_connection() {
    let closed = |said: &[Output]| said.iter().any(|o| matches!(o, Output::Socket(socket::Output::Close { .. })));
    let mut lone = passive(ALL);
    lone.receive(&[&[0x60, 3][..], &segment(START, b"ab"), &segment(END, b"c")].concat());
    assert_eq!((lone.wrote(), closed(&lone.said())), (ack(2), false), "a length and its bundle");
    lone.receive(&[contact(SILENT, 5, "ipn:1.0"), segment(START, b"de")].concat());
    assert!(lone.wrote().ends_with(&[0x50]) && closed(&lone.said()), "no header amid a session");
    let mut anew = Lone::passive(old_ours());
    anew.receive(&[contact(NONE, 5, "ipn:1.0"), segment(START, b"de")].concat());
    assert!(!closed(&anew.said()) && !anew.wrote().ends_with(&ack(2)), "without acknowledgments, as was agreed");
}

/// Keeps 7242-7-1.
#[test]
fn header_name_proves_no_identity() {
    for name in ["ipn:1.0", "dtn://moon/", "whatever"] {
        let mut lone = Lone::passive(old_ours());
        lone.receive(&contact(ALL, 30, name));
        let said = lone.said();
        let met = said.iter().find_map(|output| match output {
            Output::PeerUp { claimed, proven, node, .. } => Some((claimed.clone(), proven.clone(), *node)),
            _ => None,
        });
        assert_eq!(met, Some((Some(name.to_string()), None, None)), "claimed, not proven");
    }
}

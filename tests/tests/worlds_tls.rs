//! Cost of TLS in simulations against real nodes: the bytes of a handshake, and those of records.

use bytes::BytesMut;
use farlink_node::tls::certificate::{authority, of_node};
use farlink_node::tls::{Credentials, Files, Session};
use farlink_sim::tls::{HANDSHAKE_BYTES, RECORD_BYTES, RECORD_MAX};
use std::fs::write;
use std::path::Path;
use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Two nodes of one authority, with certificates as `farlink node certs` makes them.
fn credentials(folder: &Path) -> [Credentials; 2] {
    let root = authority(YEAR).expect("an authority");
    let authorities = folder.join("authority.pem");
    write(&authorities, &root.certificate).expect("written");
    ["ipn:1.0", "ipn:2.0"].map(|id| {
        let made = of_node(&root, &[id.to_string()], &[], YEAR).expect("a certificate");
        let [certificate, key] = ["pem", "key"].map(|kind| folder.join(format!("{}.{kind}", &id[4..5])));
        write(&certificate, made.certificate).and_then(|()| write(&key, made.key)).expect("written");
        Credentials::load(&Files { certificate, key, authorities: authorities.clone() }).expect("they are right")
    })
}

#[test]
fn simulated_tls_matches_real_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let [client, server] = credentials(folder.path());
    let mut sides = [Session::client(&client, "10.0.0.2"), Session::server(&server, [10, 0, 0, 1].into())]
        .map(|s| s.expect("it begins"));
    let mut real = Vec::new();
    let mut ready = [false; 2];
    // Three flights of TLS 1.3: client hello, server's flight, client's certificate and finished.
    for flight in 0..3 {
        let (from, to) = (flight % 2, 1 - flight % 2);
        let said = sides[from].take().expect("it speaks").expect("something");
        real.push(said.len() as u64);
        let heard = sides[to].receive(&said, &mut BytesMut::new()).expect("it is believed");
        ready[to] |= heard.proven.is_some();
    }
    assert_eq!(ready, [true; 2], "one round trip for the client, a light time more for the server");
    println!("handshake: {real:?} B");
    for (real, simulated) in real.iter().zip(HANDSHAKE_BYTES) {
        // Five per cent: certificates and ECDSA signatures vary by a few bytes.
        assert!(real.abs_diff(simulated) * 20 <= simulated, "{real} B, simulated {simulated} B");
    }
    // One byte, one full record, and several records.
    for len in [1, RECORD_MAX, 100_000] {
        sides[0].say(&vec![7; len as usize]).expect("it is sealed");
        let sealed = sides[0].take().expect("it leaves").expect("something").len() as u64;
        assert_eq!(sealed, len + len.div_ceil(RECORD_MAX) * RECORD_BYTES, "{len} B");
    }
}

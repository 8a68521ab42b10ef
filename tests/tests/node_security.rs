//! BPSec between two real node processes: integrity and confidentiality over TCPCLv4, wrong keys, missing operations,
//! rotation, and IVs across kills.

use crate::node_support::{Node, Pair, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;
use farlink_apps::http;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const SOURCE: &str = "source";
const ACCEPTOR: &str = "acceptor";

/// A security rule for bundles from node 1.
fn rule(role: &str, service: &str, key: &str, more: &str) -> String {
    format!(
        "[[security.rule]]\nrole = \"{role}\"\nservice = \"{service}\"\nfrom = \"ipn:1.*\"\nkey = \"{key}\"\n{more}\n"
    )
}
/// Section `[security]` of a node file.
fn security(number: usize, rules: &[String]) -> String {
    let place = format!("keys = \"{number}.keys\"\nstarts = \"{number}.starts\"\n");
    format!("[security]\n{place}{}", rules.concat())
}
/// Table of a key of 32 bytes, all equal to `byte`.
fn key(name: &str, byte: u8) -> String {
    format!("[[key]]\nname = \"{name}\"\nsecret = \"{}\"\n", format!("{byte:02x}").repeat(32))
}
fn write_keys(pair: &Pair, number: usize, keys: &[String]) {
    let file = pair.dir.path().join(format!("{number}.keys"));
    fs::write(&file, keys.concat()).expect("it is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its owner's only");
}
fn send(client: &mut Client, to: &str, payload: &[u8]) -> bool {
    let adu = BundleAdu { dst_eid: to.into(), ..Default::default() };
    client.send(adu, payload).expect("the node is there");
    client.response().expect("an answer").response_status() == AapStatus::Success
}
fn receive(client: &mut Client) -> Vec<u8> {
    let delivered = client.delivery().expect("a bundle");
    client.taken(true).expect("the node is there");
    delivered.payload
}
fn status(pair: &Pair, number: usize) -> serde_json::Value {
    let (code, said) = http::request("GET", &pair.control(number), "/status", "").expect("it answers");
    assert_eq!(code, 200);
    serde_json::from_str(&said).expect("JSON")
}
/// Waits until a node holds this number of bundles.
fn until_held(pair: &Pair, number: usize, bundles: u64) {
    until("bundles come and go", || status(pair, number)["bundles"] == bundles);
}
/// Security counters of a node: made, verified, failed, missing.
fn counts(pair: &Pair, number: usize) -> [u64; 4] {
    let status = status(pair, number);
    ["made", "verified", "failed", "missing"].map(|name| status["security"][name].as_u64().expect("a number"))
}
/// Whether some file of a store holds these bytes.
fn store_holds(pair: &Pair, number: usize, bytes: &[u8]) -> bool {
    let folder = pair.dir.path().join(format!("store-{number}"));
    let files = fs::read_dir(folder).expect("a store").filter_map(|entry| fs::read(entry.ok()?.path()).ok());
    files.into_iter().any(|file| file.windows(bytes.len()).any(|window| window == bytes))
}
fn nothing_comes(client: &mut Client) {
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    assert!(client.delivery().is_err(), "nothing is delivered");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
}
fn start(pair: &Pair, number: usize, rules: &[String]) -> Node {
    pair.start(number, &security(number, rules))
}

/// Keeps 9171-8-1, 9171-8-2.
#[test]
fn secured_payloads_are_never_in_clear() {
    let pair = Pair::new("tcpclv4", true);
    let keys = [key("mac", 1), key("cipher", 2)];
    (1..=2).for_each(|number| write_keys(&pair, number, &keys));
    let rules = |role: &str, source: &str| {
        let primary = "targets = [\"primary\"]";
        vec![rule(role, "integrity", "mac", primary), rule(role, "confidentiality", "cipher", source)]
    };
    let a = start(&pair, 1, &rules(SOURCE, "wrap = true"));
    let mut sender = a.client("99", 0);
    let secret = b"a secret text that lies nowhere in clear".repeat(20);
    assert!(send(&mut sender, "ipn:2.64", &secret));
    assert!(!store_holds(&pair, 1, b"a secret text"), "it is enciphered as it is made");
    let b = start(&pair, 2, &rules(ACCEPTOR, ""));
    until_held(&pair, 2, 1);
    b.kill();
    let b = start(&pair, 2, &rules(ACCEPTOR, ""));
    let mut receiver = b.client("64", 1);
    assert_eq!(receive(&mut receiver), secret);
    assert!(!store_holds(&pair, 2, b"a secret text"), "it lay enciphered until it was handed out");
    for size in [0, 1, 300_000] {
        let payload: Vec<u8> = (0..size).map(|i| ((i * 31) >> 3) as u8).collect();
        assert!(send(&mut sender, "ipn:2.64", &payload));
        assert_eq!(receive(&mut receiver), payload);
    }
    let [made, verified, failed, missing] = counts(&pair, 2);
    assert_eq!((made, verified, failed, missing), (0, 8, 0, 0), "each service of each bundle is counted once");
    assert!(counts(&pair, 1)[0] >= 8);
    let said = http::request("GET", &pair.control(2), "/metrics", "").expect("it answers").1;
    assert!(
        said.contains("farlink_security_verified_total") && said.contains("farlink_security_failed_total 0"),
        "{said}"
    );
}

#[test]
fn unsigned_bundles_are_not_delivered() {
    let pair = Pair::new("tcpclv4", false);
    write_keys(&pair, 1, &[key("mac", 1)]);
    write_keys(&pair, 2, &[key("mac", 9)]);
    let b = start(&pair, 2, &[rule(ACCEPTOR, "integrity", "mac", "")]);
    let mut receiver = b.client("64", 1);
    let a = start(&pair, 1, &[rule(SOURCE, "integrity", "mac", "")]);
    assert!(send(&mut a.client("99", 0), "ipn:2.64", b"of another key"));
    until_held(&pair, 1, 0);
    nothing_comes(&mut receiver);
    assert!(counts(&pair, 2)[2] >= 1);
    let alarm = "WARN farlink_node::node: a bundle from ipn:1.99 to ipn:2.64 failed: its integrity does not verify with the key `mac` of ";
    until("the alarm", || b.log().contains(alarm) && b.log().contains("2.keys: the source has another key"));
    assert_eq!(a.terminate(), Some(0));
    let a = pair.start(1, "");
    assert!(send(&mut a.client("99", 0), "ipn:2.64", b"plain"));
    // The bundle was accepted, so that it is not sent again, and then deleted.
    until_held(&pair, 1, 0);
    nothing_comes(&mut receiver);
    assert!(counts(&pair, 2)[3] >= 1 && counts(&pair, 2)[1] == 0);
    until("another alarm", || b.log().contains("it lacks the integrity that a rule here requires\nhint: "));
    drop(b);
}

#[test]
fn encrypted_bundle_without_rule_warns() {
    for rules in [None, Some(vec![rule(SOURCE, "integrity", "cipher", "")])] {
        let pair = Pair::new("tcpclv4", true);
        (1..=2).for_each(|number| write_keys(&pair, number, &[key("cipher", 1)]));
        let a = start(&pair, 1, &[rule(SOURCE, "confidentiality", "cipher", "")]);
        let b = pair.start(2, &rules.as_ref().map_or_else(String::new, |rules| security(2, rules)));
        assert!(send(&mut a.client("99", 0), "ipn:2.64", b"unreadable"));
        let why =
            if rules.is_some() { "no rule of [security] here decrypts it" } else { "this node has no [security]" };
        let warning = format!(
            "WARN farlink_node::node: a bundle from ipn:1.99 to this node was deleted: it is encrypted, and {why}\nhint: "
        );
        until("the warning", || b.log().contains(&warning));
        assert_eq!(counts(&pair, 2), [0, 0, 1, 0]);
        until_held(&pair, 2, 0);
    }
}

#[test]
fn wrong_ltp_key_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = [crate::node_support::port(), crate::node_support::port()];
    let nodes = [1, 2].map(|number: usize| {
        let other = 3 - number;
        let keys = folder.path().join(format!("{number}.keys"));
        fs::write(&keys, key("links", number as u8)).expect("it is written");
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("its owner's only");
        let text = format!(
            "node_ids = \"ipn:{number}.0\"\n[app]\nsocket = \"{number}.sock\"\n[layer.ltp]\nkind = \"ltp\"\n\
             listen = \"127.0.0.1:{}\"\nkeys = \"{number}.keys\"\n[link.peer]\nlayer = \"ltp\"\npeer = \"ipn:{other}.0\"\n\
             address = \"127.0.0.1:{}\"\nrate = \"10 Mbit/s\"\none_way_delay = \"5 ms\"\nattempts = 2\n\
             key = \"links\"\n[routes]\n\"ipn:{other}.*\" = \"ipn:{other}.0\"\n",
            ports[number - 1],
            ports[other - 1]
        );
        let file = folder.path().join(format!("{number}.toml"));
        fs::write(&file, text).expect("it is written");
        Node::start(&file, folder.path().join(format!("{number}.sock")))
    });
    assert!(send(&mut nodes[0].client("99", 0), "ipn:2.64", b"never taken"));
    for (number, what) in [(2, "it does not fit key `links` of "), (1, "the peer did not answer; ")] {
        let node = &nodes[number - 1];
        let warns = || {
            let log = node.log();
            log.lines().any(|line| line.contains("WARN farlink::link") && line.contains(what))
                && log.contains("\nhint: ")
        };
        until(what, warns);
        let at = folder.path().join(format!("{number}.control.sock")).display().to_string();
        until("the last error", || http::request("GET", &at, "/links", "").expect("an answer").1.contains(what));
    }
}

#[test]
fn keys_rotate_while_running() {
    let pair = Pair::new("tcpclv4", false);
    let (old, new) = (key("cipher", 1), key("cipher", 2));
    (1..=2).for_each(|number| write_keys(&pair, number, std::slice::from_ref(&old)));
    let a = start(&pair, 1, &[rule(SOURCE, "confidentiality", "cipher", "")]);
    let b = start(&pair, 2, &[rule(ACCEPTOR, "confidentiality", "cipher", "")]);
    let (mut sender, mut receiver) = (a.client("99", 0), b.client("64", 1));
    let mut crosses = |text: &[u8]| {
        assert!(send(&mut sender, "ipn:2.64", text));
        assert_eq!(receive(&mut receiver), text);
    };
    let again = |node: &Node, number: usize, keys: &[String]| {
        let before = node.log().matches("configuration read again").count();
        write_keys(&pair, number, keys);
        node.hang_up();
        until("the keys are read", || node.log().matches("configuration read again").count() > before);
    };
    crosses(b"with the old key");
    again(&b, 2, &[old.clone(), new.clone()]);
    crosses(b"still with the old key");
    again(&a, 1, &[old, new.clone()]);
    crosses(b"with the new key");
    again(&b, 2, &[new]);
    crosses(b"with the new key only");
    assert_eq!(counts(&pair, 2)[2], 0);
}

/// Keeps 9173-4.3.1-3, 9173-4.6-2, 9173-4.8.1-5.
#[test]
fn ivs_never_repeat_after_kills() {
    let restarts: usize = std::env::var("FARLINK_RESTARTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let pair = Pair::new("tcpclv4", true);
    write_keys(&pair, 1, &[key("cipher", 1)]);
    let (mut sent, mut starts) = (0, BTreeSet::new());
    for _ in 0..restarts {
        // The destination never runs: all bundles stay in the store with their IVs.
        let a = start(&pair, 1, &[rule(SOURCE, "confidentiality", "cipher", "to = \"ipn:2.*\"")]);
        let mut sender = a.client("99", 0);
        for _ in 0..5 {
            sent += usize::from(send(&mut sender, "ipn:2.64", b"the same text"));
        }
        let counted = fs::read_to_string(pair.dir.path().join("1.starts")).expect("it is counted");
        assert!(starts.insert(counted), "each start has a number of its own");
        a.kill();
    }
    // A parameter pair of ID 1 (the IV, RFC 9173 section 4.3.1) with a byte string of 12; its first four bytes are the
    // node's hash.
    let begin = [&[0x82, 1, 0x4c][..], &farlink_base::hash128(&[b"ipn:1.0"]).to_be_bytes()[..4]].concat();
    let mut ivs: Vec<Vec<u8>> = Vec::new();
    for entry in fs::read_dir(pair.dir.path().join("store-1")).expect("a store") {
        let file = fs::read(entry.expect("a file").path()).unwrap_or_default();
        let found = file.windows(15).filter(|window| window.starts_with(&begin));
        ivs.extend(found.map(|window| window[3..].to_vec()));
    }
    let all = ivs.len();
    ivs.sort();
    ivs.dedup();
    assert_eq!((sent, all >= sent), (restarts * 5, true), "{all} IVs in the store");
    assert_eq!(ivs.len(), all, "no IV twice");
}

#[test]
fn longest_payloads_are_secured() {
    // Payloads that go to disk as they arrive cannot be secured. Such a node keeps payloads in memory up to a bound,
    // and refuses longer ones.
    let pair = Pair::new("tcpclv4", true);
    write_keys(&pair, 1, &[key("k", 7)]);
    let first = start(&pair, 1, &[rule(SOURCE, "integrity", "k", "")]);
    let second = pair.start(2, "");
    let mut receiver = second.client("42", 1);
    let mut sender = first.client("41", 0);
    let long: Vec<u8> = (0..20_000_000_u32).map(|at| (at >> 7) as u8).collect();
    assert!(send(&mut sender, "ipn:2.42", &long), "longer than what else goes to disk as it comes");
    assert!(receive(&mut receiver) == long, "as it was sent");
    assert_eq!(counts(&pair, 1)[0], 1);
    assert!(!send(&mut sender, "ipn:2.42", &vec![7; 70 << 20]), "nobody could secure it");
    assert!(send(&mut sender, "ipn:2.42", b"short"), "the next is taken");
    assert_eq!(receive(&mut receiver), b"short");
}

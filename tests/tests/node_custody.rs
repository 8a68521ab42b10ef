//! Custody between real node processes, one of which is killed while it is custodian.

use crate::node_support::{Node, Pair, run, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};

const ASKS: &str = "[custody]\nrequest = [\"*\"]\ntimeout = \"2 s\"\nsignal_delay = \"100 ms\"\n";

/// Output of `farlink node bundles`.
fn bundles(pair: &Pair, number: usize) -> String {
    let said = run(&["node", "bundles", "--at", &pair.control(number)]);
    String::from_utf8_lossy(&said.stdout).into_owned()
}
fn start(pair: &Pair, number: usize, version: u8) -> Node {
    pair.start_with(number, &format!("\"ipn:{number}.0\""), &format!("bundle_version = {version}"), ASKS)
}

#[test]
fn killed_custodian_resumes_custody() {
    for version in [6, 7] {
        let pair = Pair::new("tcpclv4", true);
        let a = start(&pair, 1, version);
        let mut sender = a.client("99", 0);
        for i in 0..4u8 {
            let adu = BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
            sender.send(adu, &vec![i; 5000]).unwrap();
            assert_eq!(sender.response().unwrap().response_status(), AapStatus::Success);
        }
        a.kill();
        let a = start(&pair, 1, version);
        // The neighbour takes no custody: bundles that it received stay with the custodian until the signal.
        let b = pair.start(2, "");
        let mut receiver = b.client("64", 1);
        for _ in 0..4 {
            receiver.delivery().unwrap();
            receiver.taken(true).unwrap();
        }
        until("the custodian waits for signals", || {
            bundles(&pair, 1).matches("in custody, sent to ipn:2.0").count() == 4
        });
        b.kill();
        a.kill();
        let (a, b) = (start(&pair, 1, version), start(&pair, 2, version));
        until("signals end custody", || {
            !bundles(&pair, 1).contains("in custody") && !bundles(&pair, 1).contains("ipn:2.64")
        });
        drop((a, b));
    }
}

#[test]
fn send_reports_refused_custody() {
    let pair = Pair::new("tcpclv4", true);
    let send = |node: &Node, to: &str| {
        run(&["send", "--raw", "--text", "hello", "--to", to, "--custody", "--at", &node.socket])
    };
    let a = pair.start_with(1, "\"ipn:1.0\"", "", "[custody]\n");
    let said = send(&a, "ipn:2.64");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    until("the bundle is in custody", || bundles(&pair, 1).contains("ipn:2.64"));
    let refused = send(&a, "dtn://any/~news");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("cannot request custody"), "groups have none: {text}");
    a.kill();
    let plain = pair.start(1, "");
    let text = String::from_utf8_lossy(&send(&plain, "ipn:2.64").stderr).into_owned();
    assert!(text.contains("cannot request custody") && text.contains("it needs [custody]"), "{text}");
    drop(plain);
}

//! Applications over AAP2: secrets, order of answers, windows, files, pings, against a real node.

mod node_support;

use farlink_aap2::proto::{BundleAdu, Status};
use farlink_apps::client::Client;
use node_support::{Pair, farlink, run};
use std::process::{Command, Stdio};

#[test]
fn an_endpoint_is_shared_only_by_those_who_know_its_secret() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let first = node.client("64", 1);
    let mut stranger = Client::connect(&node.socket).unwrap();
    let refused = stranger.configure("ipn:1.64", "guess", 0).unwrap_err();
    assert!(refused.to_string().contains("another secret"), "{refused}");
    let _sharer = node.client("64", 0);
    drop(first);
    let mut elsewhere = Client::connect(&node.socket).unwrap();
    assert!(elsewhere.configure("ipn:7.64", "s", 1).is_err(), "not an endpoint of this node");
}

#[test]
fn an_application_that_answers_and_leaves_at_once_frees_its_endpoint() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let mut sender = node.client("99", 0);
    for secret in ["one", "two", "three", "four", "five"] {
        let mut receiver = Client::connect(&node.socket).unwrap();
        receiver.configure("ipn:1.64", secret, 1).unwrap();
        sender.send(BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() }, b"x").unwrap();
        receiver.delivery().unwrap();
        receiver.taken(true).unwrap();
        drop(receiver);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn answers_come_in_the_order_of_requests_and_say_what_was_wrong() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let mut sender = node.client("99", 0);
    let mut receiver = node.client("64", 8);
    for to in ["ipn:1.64", "no endpoint", "ipn:1.64"] {
        sender.send(BundleAdu { dst_eid: to.into(), ..Default::default() }, b"x").unwrap();
    }
    let forged = BundleAdu { dst_eid: "ipn:1.64".into(), src_eid: "ipn:1.1".into(), ..Default::default() };
    sender.send(forged, b"x").unwrap();
    let answers: Vec<_> = (0..4).map(|_| sender.response().unwrap()).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.response_status()).collect();
    assert_eq!(statuses, [Status::Success, Status::InvalidRequest, Status::Success, Status::Unauthorized]);
    let headers = answers[0].bundle_headers.as_ref().unwrap();
    assert_eq!((headers.src_eid.as_str(), headers.payload_length), ("ipn:1.99", 1));
    // Two deliveries before the first answer: the window that was asked for.
    receiver.delivery().unwrap();
    receiver.delivery().unwrap();
    receiver.taken(true).unwrap();
    receiver.taken(true).unwrap();
}

#[test]
fn the_administrative_endpoint_is_not_for_applications() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    for window in [0, 1] {
        let mut client = farlink_apps::client::Client::connect(&node.socket).unwrap();
        let why = client.configure("ipn:1.0", "secret", window).unwrap_err().to_string();
        assert!(why.contains("ipn:1.0 is the node's administrative endpoint") && why.contains("--service"), "{why}");
    }
    let output = run(&["recv", "--service", "0", "--at", &node.socket]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: choose another --service, e.g. 64"));
}

#[test]
fn bad_destinations_are_bad_input_and_silence_says_what_was_tried() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    for arguments in [["ping", "foo"], ["perf", "ipn:2"]] {
        let output = run(&[&arguments[..], &["--at", &node.socket]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("is not an endpoint\nhint: write ipn:NODE.SERVICE"), "{said}");
    }
    for to in ["ipn:2", "2.64"] {
        let output = run(&["send", "--text", "hello", "--to", to, "--at", &node.socket]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`{to}` is not an endpoint")), "{said}");
    }
    // Its neighbour does not run.
    let output = run(&["ping", "ipn:2", "--timeout", "2 s", "--at", &node.socket]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing from ipn:2 in 2 s (tried 128, 7, 2047)\nhint: is it running?"), "{said}");
}

#[test]
fn files_arrive_whole_and_pings_are_answered() {
    let pair = Pair::new("tcpclv4", false);
    let (a, b) = (pair.start(1, ""), pair.start(2, ""));
    let file = pair.dir.path().join("data.bin");
    let data: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&file, &data).unwrap();
    let out = pair.dir.path().join("inbox");
    let receive = Command::new(farlink())
        .args(["recv", "--files", "1", "--timeout", "20 s", "--json", "--at", &b.socket, "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = run(&[
        "send",
        &file.display().to_string(),
        "--to",
        "ipn:2.64",
        "--bundle-size",
        "64 kB",
        "--json",
        "--at",
        &a.socket,
    ]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let received = receive.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(report["verified"], true);
    assert_eq!(report["sha256"], sent["files"][0]["sha256"]);
    assert_eq!(sent["files"][0]["bundles"], 16);
    assert_eq!(std::fs::read(out.join("data.bin")).unwrap(), data);

    let ping = run(&["ping", "ipn:2", "-c", "5", "-i", "5 ms", "--json", "--at", &a.socket]);
    let report: serde_json::Value = serde_json::from_slice(&ping.stdout).unwrap();
    assert_eq!((&report["sent"], &report["received"]), (&5.into(), &5.into()));
    assert!(report["rtt_ms"]["p50"].as_f64().unwrap() > 0.0);
}

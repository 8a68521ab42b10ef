//! Bundles longer than the memory of the nodes that they cross, from one application to another.

use crate::node_support::{Node, Pair, farlink, run, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Command, Stdio};

const MEMORY: u64 = 64 << 20;
/// Memory of a test build for its own code.
const CODE: u64 = 32 << 20;
/// Twice the memory of a node.
const LONG: usize = 128 << 20;
const LITTLE: &str = "[limits]\nmemory = \"64 MiB\"";

/// Peak resident memory of a process in bytes.
fn most_resident(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says so");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn write_long(file: &Path) -> String {
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..LONG / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()
        })
        .collect();
    std::fs::write(file, &bytes).expect("the file is written");
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn arguments<'a>(command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[command], rest].concat()
}

#[test]
fn bundle_of_twice_memory_crosses() {
    let pair = Pair::new("tcpclv4", true);
    let folder = pair.dir.path().display().to_string();
    let file = format!("{folder}/long");
    // Each node is killed while it holds the whole bundle on disk.
    let digest = write_long(Path::new(&file));
    let first = pair.start(1, LITTLE);
    let sent = run(&arguments("send", &[&file, "--to", "ipn:2.64", "--bundle-size", "1 GB", "--at", &first.socket]));
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(String::from_utf8_lossy(&sent.stderr).contains("1 bundle,"), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(most_resident(&first) < MEMORY + CODE, "{} B", most_resident(&first));
    // The bundle was acknowledged: neither node may lose it.
    first.kill();
    let first = pair.start(1, LITTLE);
    let second = pair.start(2, LITTLE);
    let holds = |number: usize| farlink_apps::http::request("GET", &pair.control(number), "/bundles", "").unwrap().1;
    until("the bundle at the second node", || holds(2).contains("ipn:2.64"));
    assert!(most_resident(&second) < MEMORY + CODE, "{} B", most_resident(&second));
    second.kill();
    let second = pair.start(2, LITTLE);
    let inbox = format!("{folder}/inbox");
    let rest = ["--at", &second.socket, "--files", "1", "--out", &inbox, "--timeout", "20s"];
    let came = run(&arguments("recv", &rest));
    let printed = String::from_utf8_lossy(&came.stdout).into_owned();
    assert!(
        came.status.success() && printed.starts_with(&digest),
        "{printed}{}",
        String::from_utf8_lossy(&came.stderr)
    );
    for node in [&first, &second] {
        assert!(most_resident(node) < MEMORY + CODE, "{} B", most_resident(node));
    }
    until("nothing left", || !holds(2).contains("ipn:2.64") && !holds(1).contains("ipn:2.64"));
}

#[test]
fn stalled_sender_leaves_nothing() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, LITTLE);
    let file = pair.dir.path().join("endless");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    let mut long = node.client("98", 0);
    let half = std::thread::spawn(move || {
        let adu = BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
        let mut bytes = std::io::Read::take(std::io::repeat(7), LONG as u64 / 2);
        let sent = long.send_from(adu, (b"", &mut bytes), LONG as u64, |_| {});
        assert!(sent.is_err_and(|why| why.to_string().contains("shorter")));
        long
    });
    // A second application sends while the first one's bundle is half there.
    let mut other = node.client("99", 0);
    for _ in 0..20 {
        other.send(BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() }, &[1; 100_000]).unwrap();
        assert_eq!(other.response().unwrap().response_status(), AapStatus::Success);
    }
    drop(half.join().expect("half of it is taken"));
    // The disk space of the unfinished bundle is free again: three bundles of its length fit.
    for _ in 0..3 {
        let adu = BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
        let mut again = node.client("98", 0);
        again.send_from(adu, (b"", &mut std::io::repeat(9)), LONG as u64, |_| {}).unwrap();
        assert_eq!(again.response().unwrap().response_status(), AapStatus::Success);
    }
    assert!(most_resident(&node) < MEMORY + CODE, "{} B", most_resident(&node));
    let status = farlink_apps::http::request("GET", &pair.control(1), "/status", "").unwrap().1;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["bundles"], 23, "{status}");
}

#[test]
fn ping_beyond_memory_is_answered() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, LITTLE);
    let (mut ping, mut answers) = (node.client("98", 0), node.client("98", 4));
    for round in 1..=2_u8 {
        let adu = BundleAdu { dst_eid: "ipn:1.7".into(), ..Default::default() };
        ping.send_from(adu, (b"", &mut std::io::repeat(round)), LONG as u64, |_| {}).unwrap();
        assert_eq!(ping.response().unwrap().response_status(), AapStatus::Success);
    }
    for _ in 0..2 {
        let answer = answers.delivery().expect("an answer");
        assert_eq!((answer.adu.src_eid.as_str(), answer.payload.len()), ("ipn:1.7", LONG));
        assert!(answer.payload.iter().all(|byte| *byte == answer.payload[0]));
        answers.taken(true).unwrap();
    }
    assert!(most_resident(&node) < MEMORY + CODE, "{} B", most_resident(&node));
    let status = || farlink_apps::http::request("GET", &pair.control(1), "/status", "").unwrap().1;
    until("nothing left", || status().contains("\"bundles\":0,"));
}

#[test]
fn stalled_readers_spare_others() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, LITTLE);
    // Twelve receivers with 30 MiB each would need more than the memory of 64 MiB.
    let silent: Vec<_> = (100..112).map(|service: u32| node.client(&service.to_string(), 8)).collect();
    let mut sender = node.client("98", 0);
    for round in 0..2_u8 {
        for service in 100..112 {
            let adu = BundleAdu { dst_eid: format!("ipn:1.{service}"), lifetime_ms: 600_000, ..Default::default() };
            sender.send_from(adu, (b"", &mut std::io::repeat(round)), 15 << 20, |_| {}).unwrap();
            assert_eq!(sender.response().unwrap().response_status(), AapStatus::Success, "{service}");
        }
    }
    assert!(most_resident(&node) < MEMORY + CODE, "{} B", most_resident(&node));
    for mut client in silent {
        for round in 0..2 {
            let came = client.delivery().expect("what it did not read yet");
            assert!(came.payload.len() == 15 << 20 && came.payload.iter().all(|byte| *byte == round));
            client.taken(true).unwrap();
        }
    }
    assert!(most_resident(&node) < MEMORY + CODE, "{} B", most_resident(&node));
    let status = || farlink_apps::http::request("GET", &pair.control(1), "/status", "").unwrap().1;
    until("nothing left", || status().contains("\"bundles\":0,"));
}

#[test]
fn oversized_bundle_is_refused() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, "[limits]\nmemory = \"64 MiB\"\nbundle_bytes = \"200 MB\"");
    let file = pair.dir.path().join("long");
    write_long(&file);
    let mut send = Command::new(farlink());
    send.args(["send", "--to", "ipn:2.64", "--bundle-size", "1 GB", "--at", &node.socket]).arg(&file);
    let output = send.stdin(Stdio::null()).output().expect("farlink runs");
    assert!(output.status.success(), "it fits");
    let mut long = node.client("98", 0);
    let adu = BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
    assert!(long.send_from(adu, (b"", &mut std::io::repeat(7)), 1 << 30, |_| {}).is_err());
    until("the reason in the log", || node.log().contains("a payload larger than this node takes"));
    // An application without an endpoint is refused as well, after its payload is read.
    let mut nobody = farlink_apps::client::Client::connect(&node.socket).unwrap();
    let adu = BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
    nobody.send_from(adu, (b"", &mut std::io::repeat(7)), LONG as u64, |_| {}).unwrap();
    assert_eq!(nobody.response().unwrap().response_status(), AapStatus::InvalidRequest);
}

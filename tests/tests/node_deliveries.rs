//! Deliveries to one application over its socket: windows, answers in groups, and kills of either side in the middle.

use crate::node_support::{Node, Pair, farlink, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::{Client, DeliveredBundle};
use farlink_apps::http;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Sends bundles with these numbers to service 64 of the node, which keeps all of them.
fn fill(node: &Node, numbers: std::ops::Range<u32>) {
    let mut sender = node.client("99", 0);
    for group in numbers.clone().collect::<Vec<_>>().chunks(200) {
        for number in group {
            let payload = [&number.to_be_bytes()[..], &[0x5a; 996]].concat();
            sender.send(BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() }, &payload).unwrap();
        }
        for _ in group {
            assert_eq!(sender.response().unwrap().response_status(), AapStatus::Success);
        }
    }
}
fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}
/// Deliveries that arrive while none is answered: as many as the window allows.
fn ahead(client: &mut Client) -> Vec<DeliveredBundle> {
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut came = vec![client.delivery().expect("a delivery")];
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while let Ok(delivered) = client.delivery() {
        came.push(delivered);
    }
    came
}
fn numbers(came: &[DeliveredBundle]) -> Vec<u32> {
    came.iter().map(|delivered| number(&delivered.payload)).collect()
}
fn nothing_left(pair: &Pair) {
    let status = || http::request("GET", &pair.control(1), "/status", "").unwrap().1;
    until("nothing left", || status().contains("\"bundles\":0,"));
}

#[test]
fn delivery_window_defaults_to_one() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, "window = 6\n");
    fill(&node, 0..20);
    // Other clients of AAP2 ask for no window: they get one delivery at a time, here the first three.
    let mut plain = node.client("64", 1);
    for n in 0..3 {
        assert_eq!(numbers(&ahead(&mut plain)), [n]);
        plain.taken(true).unwrap();
    }
    drop(plain);
    let mut ours = node.client("64", 4096);
    let came = ahead(&mut ours);
    assert_eq!(numbers(&came), (3..9).collect::<Vec<_>>());
    assert!(
        !came[1..].iter().any(DeliveredBundle::redelivered),
        "the first may have been with the other when that left"
    );
    // The node gives at most six at once, whatever the application asks for.
    ours.taken_all(4).unwrap();
    assert_eq!(numbers(&ahead(&mut ours)), [9, 10, 11, 12], "each answer makes room for one");
    ours.taken(false).unwrap();
    let again = ahead(&mut ours);
    assert_eq!((numbers(&again), again[0].redelivered()), (vec![7], true), "what it could not take comes again");
    ours.taken_all(6).unwrap();
    let last = ahead(&mut ours);
    assert_eq!(numbers(&last), (13..19).collect::<Vec<_>>());
    ours.taken_all(6).unwrap();
    assert_eq!(numbers(&ahead(&mut ours)), [19]);
    ours.taken_all(1).unwrap();
    nothing_left(&pair);
}

#[test]
fn kill_repeats_at_most_a_window() {
    let pair = Pair::new("tcpclv4", true);
    let mut node = pair.start(1, "");
    fill(&node, 0..1000);
    let (mut seen, mut repeated) = (BTreeSet::new(), 0);
    for round in 0..5 {
        let mut client = node.client("64", 32);
        let mut again = 0;
        for at in 0..195 {
            let Ok(delivered) = client.delivery() else { break };
            let fresh = seen.insert(number(&delivered.payload));
            assert!(fresh || delivered.redelivered(), "round {round}: a repeat that is not marked");
            again += usize::from(!fresh);
            // The application answers ten deliveries at a time, and the node is killed between two answers.
            if at % 10 == 9 {
                client.taken_all(10).unwrap();
            }
        }
        // Only deliveries without an answer may repeat: at most the window.
        assert!(again <= 32, "round {round}: {again} of a window of 32");
        repeated += again;
        node.kill();
        node = pair.start(1, "");
    }
    assert!(repeated > 0, "some were under way each time");
    let mut client = node.client("64", 32);
    while seen.len() < 1000 {
        let delivered = client.delivery().expect("nothing is lost");
        assert!(seen.insert(number(&delivered.payload)) || delivered.redelivered());
        client.taken(true).unwrap();
    }
    nothing_left(&pair);
}

fn receiver(node: &Node, inbox: &Path) -> Child {
    let mut command = Command::new(farlink());
    command.args(["recv", "--timeout", "3 s", "--at", &node.socket, "--out"]).arg(inbox);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("farlink runs")
}
/// Names of the bundle files in a folder.
fn names(inbox: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(inbox).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    names.filter(|name| name.starts_with("bundle-"))
}
fn files(inbox: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names(inbox).map(|name| number(&std::fs::read(inbox.join(name)).expect("a file"))).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn kills_leave_one_file_per_bundle() {
    const BUNDLES: u32 = 3000;
    let pair = Pair::new("tcpclv4", true);
    let inbox = pair.dir.path().join("inbox");
    let mut node = pair.start(1, "");
    fill(&node, 0..BUNDLES);
    for round in 0..12 {
        let before = names(&inbox).count();
        if before == BUNDLES as usize {
            break;
        }
        let mut receiver = receiver(&node, &inbox);
        until("some of them", || names(&inbox).count() > before);
        // Each kill meets another moment of writing a file.
        std::thread::sleep(Duration::from_millis(round * 7 % 40));
        if round % 3 == 2 {
            node.kill();
            node = pair.start(1, "");
        }
        receiver.kill().expect("it runs");
        receiver.wait().expect("it ended");
    }
    let mut last = receiver(&node, &inbox);
    until("all of them", || names(&inbox).count() >= BUNDLES as usize);
    nothing_left(&pair);
    last.wait().expect("nothing comes any more");
    assert_eq!(files(&inbox), (0..BUNDLES).collect::<Vec<_>>(), "each once");
    // Files are written under a name with `.new` and renamed when complete.
    let hidden = std::fs::read_dir(&inbox).unwrap().filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(".new")))
    });
    assert_eq!(hidden.count(), 0);
}

#[test]
fn count_leaves_the_remaining_bundles() {
    let pair = Pair::new("tcpclv4", true);
    let node = pair.start(1, "");
    fill(&node, 0..60);
    let inbox = pair.dir.path().join("inbox");
    for (count, all) in [("1", 1), ("7", 8), ("50", 58)] {
        let args = ["recv", "--count", count, "--timeout", "20 s", "--at", &node.socket, "--out"];
        let status = Command::new(farlink()).args(args).arg(&inbox).stderr(Stdio::null()).status().unwrap();
        assert!(status.success());
        assert_eq!(files(&inbox), (0..all).collect::<Vec<_>>());
    }
}

//! Plain flows and captures in the testbed. Skipped with the reason if the kernel does not permit isolation.

use crate::testbed::{self, FARLINK, possible};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Three hosts in a row: a stream from the first to the last, and datagrams back.
const SCENARIO: &str = r#"
name = "flows"
duration = "4 s"
[[node]]
name = "a"
id = "ipn:1.0"
[[node]]
name = "b"
id = "ipn:2.0"
[[node]]
name = "c"
id = "ipn:3.0"
[[link]]
name = "near"
between = ["a", "b"]
layer = "ltp"
rate = "10 Mbit/s"
delay = "20 ms"
capture = true
[[link]]
name = "far"
between = ["b", "c"]
layer = "ltp"
rate = "5 Mbit/s"
delay = "5 ms"
[[flow]]
name = "bulk"
from = "a"
to = "c"
stop = "3 s"
[[flow]]
name = "voice"
from = "c"
to = "a"
transport = "udp"
rate = "80 kbit/s"
datagram = "100 B"
start = "500 ms"
stop = "2500 ms"
"#;

/// Runs a scenario; returns its manifest and folder.
fn run(name: &str, text: &str, world: &str) -> (Value, PathBuf) {
    let folder = testbed::folder(&format!("flows-{name}"), text);
    let mut command = Command::new(FARLINK);
    command.current_dir(&folder).args(["run", "scenario.toml", "--in", world, "--out", "run"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = std::fs::read_to_string(folder.join("run/manifest.json")).unwrap();
    (serde_json::from_str(&manifest).unwrap(), folder)
}

/// Interface, side and IP bytes of each packet of a capture.
fn packets(path: &std::path::Path) -> Vec<(u32, u32, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while rest.len() >= 12 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (kind, length) = (word(0), word(4) as usize);
        // An enhanced packet block, whose only option is its flags.
        if kind == 6 {
            let captured = word(20) as usize;
            let flags = word(28 + captured.next_multiple_of(4) + 4);
            found.push((word(8), flags, rest[28 + 14..28 + captured].to_vec()));
        }
        rest = &rest[length..];
    }
    found
}

#[test]
fn flows_cross_hosts_and_are_captured() {
    if !possible() {
        return;
    }
    let (manifest, folder) = run("lab", SCENARIO, "lab");
    let flows = manifest["flows"].as_array().unwrap();
    let (bulk, voice) = (&flows[0], &flows[1]);
    assert_eq!((bulk["failure"].as_str(), bulk["congestion"].as_str()), (None, Some("reno")), "{bulk}");
    // At most the far link's rate; how close it comes depends on other load.
    let rate = bulk["bit_s"].as_f64().unwrap();
    assert!((5e5..5.2e6).contains(&rate), "{bulk}");
    let sent = voice["datagrams"].as_u64().unwrap();
    assert!(sent > 50 && voice["received_bytes"].as_u64() > Some(50 * 100), "{voice}");
    let notes = manifest["validity"]["notes"].to_string();
    assert!(notes.contains("captures/near.pcapng") && notes.contains("TCP congestion control: reno"), "{notes}");
    // Each datagram of 128 IP bytes is seen as b sends it on and as a gets it.
    let seen = packets(&folder.join("run/captures/near.pcapng"));
    let datagrams = |interface, side| {
        let of_flow = |p: &&(u32, u32, Vec<u8>)| p.0 == interface && p.1 == side && p.2[9] == 17 && p.2.len() == 128;
        seen.iter().filter(of_flow).count() as u64
    };
    assert!(datagrams(1, 2) >= sent * 9 / 10 && datagrams(0, 1) >= sent * 9 / 10, "{sent}: {}", datagrams(1, 2));
    assert_eq!((datagrams(0, 2), datagrams(1, 1)), (0, 0), "nothing goes the other way");
    let report = Command::new(FARLINK).current_dir(&folder).args(["report", "run"]).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bottleneck_limits_links_together_in_both_worlds() {
    if !possible() {
        return;
    }
    let shared = SCENARIO
        .replace(
            "\"a\", \"b\"]\nlayer = \"ltp\"\nrate = \"10 Mbit/s\"",
            "\"b\", \"a\"]\nlayer = \"ltp\"\nrate = \"2 Mbit/s\"\nshares = \"modem\"",
        )
        .replace("rate = \"5 Mbit/s\"", "rate = \"2 Mbit/s\"\nshares = \"modem\"");
    // Both flows leave b, over links that share one transmitter: together they get its rate, not each.
    let (start, _) = shared.split_at(shared.find("[[flow]]").unwrap());
    let flow = |to: &str| {
        format!("[[flow]]\nfrom = \"b\"\nto = \"{to}\"\ntransport = \"udp\"\nrate = \"2 Mbit/s\"\nstop = \"3 s\"\n")
    };
    let text = format!("{start}{}{}", flow("a"), flow("c"));
    for world in ["sim", "lab"] {
        let (manifest, folder) = run(&format!("shared-{world}"), &text, world);
        let received = |index: usize| manifest["flows"][index]["received_bytes"].as_f64().unwrap();
        // The queue still drains when the senders have stopped.
        let seconds = |index: usize| manifest["flows"][index]["seconds"].as_f64().unwrap();
        let rate = (received(0) + received(1)) * 8.0 / seconds(0).max(seconds(1));
        assert!((1e6..2.1e6).contains(&rate), "{world}: {rate} {}", manifest["flows"]);
        assert!(received(0).min(received(1)) > 0.0, "{world}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Output, messages and exit status of the application commands, against a real node.

use crate::node_support::{Pair, farlink, run};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn file_piece_prints_without_header() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    for (text, raw) in [("a file", false), ("bare", true)] {
        let mut send = vec!["send", "--text", text, "--to", "ipn:1.64", "--at", &node.socket];
        send.extend(raw.then_some("--raw"));
        assert!(run(&send).status.success());
        let output = run(&["recv", "--count", "1", "--timeout", "20 s", "--at", &node.socket]);
        let (code, talk) = said(&output);
        assert_eq!((code, &output.stdout[..]), (Some(0), text.as_bytes()), "{talk}");
        assert_eq!(talk.contains("a piece of the file `text`") && talk.contains("\nhint: --out DIR"), !raw, "{talk}");
    }
}

#[test]
fn listed_sizes_of_zero_are_empty_bundles() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let folder = tempfile::tempdir().unwrap();
    let sizes = folder.path().join("sizes").display().to_string();
    for (text, list, wanted) in [("", "0\n0\n0\n", [0, 0, 0]), ("abcd", "0\n3\n0\n1\n", [0, 3, 0])] {
        std::fs::write(&sizes, list).unwrap();
        let send = ["send", "--raw", "--text", text, "--sizes", &sizes, "--to", "ipn:1.64", "--at", &node.socket];
        assert!(run(&send).status.success());
        let count = list.lines().count().to_string();
        let receive = ["recv", "--json", "--discard", "--count", &count, "--timeout", "20 s", "--at", &node.socket];
        let printed = String::from_utf8(run(&receive).stdout).unwrap();
        let bytes =
            printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["bytes"].as_u64());
        assert_eq!(bytes.take(3).collect::<Option<Vec<_>>>().unwrap(), wanted, "{printed}");
        assert_eq!(printed.lines().count().to_string(), count);
    }
}

#[test]
fn missing_bundles_and_answers_fail() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    assert!(run(&["send", "--raw", "--text", "one", "--to", "ipn:1.64", "--at", &node.socket]).status.success());
    let (code, talk) = said(&run(&["recv", "--count", "2", "--timeout", "500 ms", "--at", &node.socket]));
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("1 of 2 bundles received, then nothing for 0.5 s\nhint: "), "{talk}");
    let (code, talk) = said(&run(&["recv", "--timeout", "200 ms", "--at", &node.socket]));
    assert_eq!(code, Some(0), "no number was wanted: {talk}");
    let perf = ["perf", "ipn:2.2000", "--count", "1", "--timeout", "300 ms", "--at", &node.socket];
    let (code, talk) = said(&run(&perf));
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("no answer\nhint: does `farlink perf --serve` run there?"), "{talk}");
}

#[test]
fn interrupted_ping_prints_summary() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    // The node of the second destination does not run.
    for (to, code, sums) in [("ipn:1.128", 0, " received, round trip"), ("ipn:2.128", 1, " 0 received")] {
        let mut ping = Command::new(farlink());
        ping.args(["ping", to, "-c", "1000", "-i", "100 ms", "--at", &node.socket]);
        let child = ping.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let began = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "it ends at once");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains(sums) && printed.contains(" sent, "), "{printed}");
    }
}

#[test]
fn wrong_sockets_are_named() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let (control, link) = (pair.control(1), format!("127.0.0.1:{}", pair.ports[0]));
    let http = format!("http://{link}");
    let wrong = [
        (["ping", "ipn:2", "--at", &control[..]], "is not an application socket: "),
        (["ping", "ipn:2", "--at", &link], "is not an application socket: "),
        (["node", "status", "--at", &node.socket], "does not answer in HTTP: "),
        (["node", "status", "--at", &http], "does not answer in HTTP: "),
    ];
    // Each command waits seconds for a first message, so all run at once.
    std::thread::scope(|scope| {
        for (arguments, says) in wrong {
            scope.spawn(move || {
                let (code, talk) = said(&run(&arguments));
                assert_eq!(code, Some(1), "{arguments:?}: {talk}");
                assert!(talk.contains(says) && talk.contains("\nhint: --at names "), "{arguments:?}: {talk}");
                // Words of libraries in a message mean that an error was passed on unexplained.
                let bare = ["whole buffer", "io: ", "protocol: "].iter().any(|words| talk.contains(words));
                assert!(!bare, "{arguments:?}: {talk}");
            });
        }
    });
}

#[test]
fn refusals_are_explained_in_words() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    for (arguments, expected, says) in [
        (["send", "--text", "x", "--to", "dtn:none"], 2, "`dtn:none` is nobody\nhint: "),
        (["recv", "--timeout", "1 s", "--service", "a b"], 2, "the node refused the endpoint ipn:1.a b\nhint: "),
        (
            ["recv", "--timeout", "1 s", "--service", "128"],
            1,
            "another secret\nhint: choose another --service; the node itself uses 128, 7",
        ),
        (
            ["echo", "--rate", "9", "--service", "128"],
            1,
            "another secret\nhint: choose another --service; the node itself uses 128, 7",
        ),
    ] {
        let (code, talk) = said(&run(&[&arguments[..], &["--at", &node.socket]].concat()));
        assert_eq!(code, Some(expected), "{talk}");
        assert!(talk.contains(says) && talk.matches("hint: ").count() == 1, "{talk}");
    }
}

#[test]
fn single_application_socket_is_found() {
    let pair = Pair::new("tcpclv4", false);
    let _node = pair.start(1, "");
    let here =
        || Command::new(farlink()).args(["ping", "ipn:1", "-c", "1"]).current_dir(pair.dir.path()).output().unwrap();
    let (code, talk) = said(&here());
    assert_eq!(code, Some(0), "{talk}");
    let _other = pair.start(2, "");
    let (code, talk) = said(&here());
    assert_eq!(code, Some(2), "{talk}");
    assert!(talk.contains("several nodes have their application socket here: 1.sock, 2.sock\nhint: "), "{talk}");
}

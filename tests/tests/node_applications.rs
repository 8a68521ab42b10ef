//! Applications over AAP2: secrets, order of answers, windows, files, pings, against a real node.

use crate::node_support::{Pair, farlink, run};
use bytes::BytesMut;
use farlink_aap2::proto::{self, AapBody, AapMessage, AapStatus, BundleAdu, ConnectionConfig, adu_flag};
use farlink_apps::client::Client;
use farlink_apps::http;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn endpoint_sharing_needs_its_secret() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let first = node.client("64", 1);
    let mut stranger = Client::connect(&node.socket).unwrap();
    let refused = stranger.configure("ipn:1.64", "guess", 0).unwrap_err();
    assert!(refused.to_string().contains("another secret"), "{refused}");
    let _sharer = node.client("64", 0);
    drop(first);
    let mut elsewhere = Client::connect(&node.socket).unwrap();
    let refused = elsewhere.configure("ipn:7.64", "s", 1).unwrap_err();
    assert!(refused.to_string().contains("another node"), "{refused}");
}

#[test]
fn group_members_each_receive_once() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let join = || {
        let mut member = Client::connect(&node.socket).unwrap();
        member.configure("dtn://any/~news", "s", 8).unwrap();
        member
    };
    let mut members = [join(), join()];
    let mut stranger = Client::connect(&node.socket).unwrap();
    let refused = stranger.configure("dtn://any/~news", "guess", 8).unwrap_err();
    assert!(refused.to_string().contains("another secret"), "{refused}");
    let mut sender = node.client("99", 0);
    for text in ["one", "two"] {
        sender.send(BundleAdu { dst_eid: "dtn://any/~news".into(), ..Default::default() }, text.as_bytes()).unwrap();
        assert_eq!(sender.response().unwrap().response_status(), AapStatus::Success);
        for member in &mut members {
            let delivery = member.delivery().unwrap();
            assert_eq!((&delivery.adu.dst_eid[..], &delivery.payload[..]), ("dtn://any/~news", text.as_bytes()));
            member.taken(true).unwrap();
        }
    }
    // A member that joins later receives bundles that are still held.
    let folder = std::path::Path::new(&node.socket).with_file_name("inbox");
    let args = ["recv", "--service", "dtn://any/~news", "--secret", "s", "--count", "2", "--out"];
    let mut late = Command::new(farlink());
    late.args(args).arg(&folder).arg("--at").arg(&node.socket);
    assert!(late.status().unwrap().success(), "what is still held is for who joins later");
    assert_eq!(std::fs::read(folder.join("bundle-1")).unwrap(), b"one");
}

#[test]
fn aliases_share_one_endpoint() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start_as(1, "\"ipn:1.0\", \"ipn:9.0\"", "");
    let mut owner = node.client("77", 8);
    // All names of one endpoint (RFC 9758): the local node, the number of the local node, an alias and the ID itself.
    for alias in ["ipn:!.77", "ipn:4294967295.77", "ipn:9.77", "ipn:1.77"] {
        let mut stranger = Client::connect(&node.socket).unwrap();
        let refused = stranger.configure(alias, "guess", 1).unwrap_err();
        assert!(refused.to_string().contains("another secret"), "{alias}: {refused}");
        let mut sharer = Client::connect(&node.socket).unwrap();
        sharer.configure(alias, "test", 0).unwrap();
        sharer.send(BundleAdu { dst_eid: "ipn:9.77".into(), ..Default::default() }, alias.as_bytes()).unwrap();
        assert_eq!(sharer.response().unwrap().response_status(), AapStatus::Success);
        assert_eq!(owner.delivery().unwrap().payload, alias.as_bytes(), "by any of the node's names");
        owner.taken(true).unwrap();
    }
    // Echo and administration of the node, under each name; windows 0 and 1 are sender and receiver.
    for served in ["ipn:1.128", "ipn:!.7", "ipn:9.2047", "ipn:1.0", "ipn:!.0"] {
        for window in [0, 1] {
            let mut taker = Client::connect(&node.socket).unwrap();
            assert!(taker.configure(served, "mine", window).is_err(), "{served} is the node's");
        }
    }
    let own = pair.start(2, "echo = false");
    assert!(Client::connect(&own.socket).unwrap().configure("ipn:2.128", "s", 1).is_ok(), "nobody serves it there");
}

#[test]
fn unsupported_adu_flags_are_refused() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let mut sender = node.client("99", 0);
    let asks =
        [(vec![adu_flag::WITH_BDM_AUTH], AapStatus::Unauthorized), (vec![adu_flag::BPDU], AapStatus::InvalidRequest)];
    for (adu_flags, status) in asks {
        let adu = BundleAdu { dst_eid: "ipn:2.64".into(), adu_flags, ..Default::default() };
        sender.send(adu, b"x").unwrap();
        assert_eq!(sender.response().unwrap().response_status(), status);
    }
    let list = http::request("GET", &pair.control(1), "/bundles", "").unwrap().1;
    assert!(!list.contains("ipn:2.64"), "nothing was taken: {list}");
}

#[test]
fn link_control_needs_permission() {
    for (may, status) in [(false, AapStatus::Unauthorized), (true, AapStatus::Success)] {
        let pair = Pair::new("tcpclv4", false);
        let node = pair.start(1, if may { "links = true" } else { "" });
        let mut socket = UnixStream::connect(&node.socket).unwrap();
        let mut out = configuration("ipn:1.5");
        // Status 4 in the notice asks for the link to go down.
        let down = proto::LinkNotice { status: 4, peer_node_id: "ipn:2.0".into(), ..Default::default() };
        proto::frame(&AapMessage::new(AapBody::Link(down)), &mut out);
        socket.write_all(&out).unwrap();
        let state = || http::request("GET", &pair.control(1), "/links", "").unwrap().1;
        let mut answers = vec![0; proto::greeting("ipn:1.0").len() + 6];
        socket.read_exact(&mut answers).unwrap();
        assert_eq!(answers[answers.len() - 1], status as u8);
        assert_eq!(state().contains("disabled"), may, "{}", state());
    }
}

/// Resident memory of a process in bytes.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
/// First message of a sender at an endpoint, framed.
fn configuration(endpoint: &str) -> BytesMut {
    let config = ConnectionConfig { endpoint_id: endpoint.into(), secret: "s".into(), ..Default::default() };
    let mut out = BytesMut::new();
    proto::frame(&AapMessage::new(AapBody::Config(config)), &mut out);
    out
}

#[test]
fn unread_answers_cost_bounded_memory() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "[limits]\nmemory = \"2 GiB\"\n");
    let before = resident(node.id());
    let configured = |endpoint: &str| {
        let socket = UnixStream::connect(&node.socket).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        (&socket).write_all(&configuration(endpoint)).unwrap();
        socket
    };
    // Keepalives whose answers are never read: the node must stop reading them.
    let mut keepalives = BytesMut::new();
    (0..100_000).for_each(|_| proto::frame(&AapMessage::new(AapBody::Keepalive(proto::Keepalive {})), &mut keepalives));
    let deaf = configured("ipn:1.5");
    let taken = (0..100).take_while(|_| (&deaf).write_all(&keepalives).is_ok()).count();
    assert!(taken < 20, "{taken} times 100,000 keepalives are taken from one that reads no answer");
    // Six bundles of which all but the last byte arrive.
    let part = vec![7; 1 << 20];
    let mut halves = Vec::new();
    for n in 0..6 {
        let socket = configured(&format!("ipn:1.{}", 10 + n));
        let adu = BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: (100 << 20) + 1, ..Default::default() };
        let mut out = BytesMut::new();
        proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
        (&socket).write_all(&out).unwrap();
        let _ = (0..100).take_while(|_| (&socket).write_all(&part).is_ok()).count();
        halves.push(socket);
    }
    let grown = resident(node.id()).saturating_sub(before);
    assert!(grown < 330 << 20, "{grown} bytes for six half-sent bundles of 100 MiB");
    // Another application still sends, and a stalled one goes on when there is room.
    let mut other = node.client("99", 0);
    other.send(BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() }, b"small").unwrap();
    assert_eq!(other.response().unwrap().response_status(), AapStatus::Success);
    halves.drain(..5);
    let last = halves.pop().unwrap();
    last.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!((&last).write_all(&part).is_ok());
}

#[test]
fn leaving_application_frees_its_endpoint() {
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
        // The node needs a moment to see the end of the connection; the next secret would clash before.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn answers_follow_request_order() {
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
    assert_eq!(statuses, [AapStatus::Success, AapStatus::InvalidRequest, AapStatus::Success, AapStatus::Unauthorized]);
    let headers = answers[0].bundle_headers.as_ref().unwrap();
    assert_eq!((headers.src_eid.as_str(), headers.payload_length), ("ipn:1.99", 1));
    // Two deliveries before the first answer: the receiver asked for a window of 8.
    receiver.delivery().unwrap();
    receiver.delivery().unwrap();
    receiver.taken(true).unwrap();
    receiver.taken(true).unwrap();
}

/// Keeps 9758-5.7-1.
#[test]
fn administrative_endpoint_refuses_applications() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    for window in [0, 1] {
        let mut client = farlink_apps::client::Client::connect(&node.socket).unwrap();
        let why = client.configure("ipn:1.0", "secret", window).unwrap_err().to_string();
        assert!(why.contains("ipn:1.0 is the node's administrative endpoint") && why.contains("--service"), "{why}");
    }
    let output = run(&["recv", "--service", "0", "--at", &node.socket]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: choose another --service, e.g. 64"));
}

#[test]
fn bad_destinations_exit_with_2() {
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
    // The neighbour does not run, so no service number of echo answers.
    let output = run(&["ping", "ipn:2", "--timeout", "2 s", "--at", &node.socket]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no answer from ipn:2 in 2 s (tried 128, 7, 2047)\nhint: is it running?"), "{said}");
}

#[test]
fn files_arrive_and_pings_return() {
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

/// Starts the command line with these arguments against a node.
fn start(node: &crate::node_support::Node, arguments: &[&str]) -> std::process::Child {
    let mut command = Command::new(farlink());
    command.args(arguments).args(["--at", &node.socket]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn killed_node_leaves_ping_results() {
    for arguments in
        [&["ping", "ipn:1.7", "-c", "1000", "-i", "20 ms"][..], &["perf", "ipn:1.2000", "--rate", "1 Mbit/s"]]
    {
        let pair = Pair::new("tcpclv4", false);
        let node = pair.start(1, "");
        let mut server = start(&node, &["perf", "--serve"]);
        let mut child = start(&node, arguments);
        // The first line, on one output or the other, follows the first answers.
        let mut line = [0; 10];
        match arguments[0] {
            "ping" => child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap(),
            _ => child.stderr.as_mut().unwrap().read_exact(&mut line).unwrap(),
        }
        node.kill();
        let output = child.wait_with_output().unwrap();
        let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{told}{said}");
        assert!(told.contains(", round trip min/p50/p99/max "), "{told}");
        assert!(said.contains("warning: ") && said.contains("the node ended the connection"), "{said}");
        assert!(said.contains("hint: is it still running?"), "{said}");
        server.wait().unwrap();
    }
}

#[test]
fn killed_node_leaves_count_of_accepted() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let mut child = start(&node, &["send", "-", "--raw", "--to", "ipn:2.64", "--bundle-size", "1 kB"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[7; 10_000]).unwrap();
    crate::node_support::until("bundles in the node", || crate::node_support::held(&pair.control(1)) > 2);
    node.kill();
    // The sender notices when it goes on.
    let _ = input.write_all(&[7; 100_000]);
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("0 of 1 files sent; stdin: ") && said.contains(" accepted by the node\nhint: "), "{said}");
    assert!(!said.contains("bundle_bytes"), "the node was killed: {said}");
}

#[test]
fn too_long_bundle_names_the_limit() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "[limits]\nbundle_bytes = \"1 MB\"");
    let output = start(&node, &["ping", "ipn:1.7", "-s", "2 MB", "-c", "1"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a bundle of 2000000 B\nhint: ") && said.contains("bundle_bytes"), "{said}");
}

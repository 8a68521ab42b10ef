//! A real node on a failing disk: it keeps acknowledged bundles, and refuses those that it cannot keep.

use crate::node_support::{Node, accepts, configure, farlink, held, run, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::http;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[test]
fn removed_store_folder_refuses_bundles() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, _) = configure(folder.path(), "ipn:1.0", "");
    let node = Node::start(&file, socket);
    let mut sender = node.client("99", 0);
    assert!((0..5).all(|_| accepts(&mut sender, 1000)));
    std::fs::remove_dir_all(folder.path().join("store")).expect("it goes");
    let acknowledged = (0..20).filter(|_| accepts(&mut sender, 1000)).count();
    // An acknowledgment after the removal would promise a bundle that no restart finds.
    assert_eq!(acknowledged, 0, "none is kept by this folder");
    until("the log says why", || node.log().contains("was removed or moved while the node uses it"));
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn missing_direct_io_warns_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    let text = std::fs::read_to_string(&file).expect("the configuration");
    // A small capacity makes the store reuse its files soon.
    std::fs::write(&file, text.replace("1 GB", "8 MB")).expect("the configuration");
    let store = folder.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    // ramfs does no direct writes, unlike tmpfs of recent kernels.
    let Some(node) = Node::start_on("-t ramfs", &store, &file, socket) else {
        return eprintln!("not run: this user may not mount a file system of its own");
    };
    let (mut sender, mut receiver) = (node.client("99", 0), node.client("64", 16));
    // Many times the store's capacity, so that its files are written over.
    for round in 0..60u8 {
        for n in 0..16u8 {
            let adu = BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() };
            sender.send(adu, &vec![round ^ n; 10_000 + 1000 * usize::from(n)]).expect("the node takes requests");
        }
        for _ in 0..16 {
            assert_eq!(sender.response().expect("an answer").response_status(), AapStatus::Success);
        }
        for n in 0..16u8 {
            let payload = receiver.delivery().expect("a delivery").payload;
            assert!(payload == vec![round ^ n; 10_000 + 1000 * usize::from(n)], "round {round}, {n}");
            receiver.taken(true).expect("the node is there");
        }
    }
    let status = http::request("GET", &at, "/status", "").expect("a status").1;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert!(status["store"]["files_written_over"].as_u64().is_some_and(|files| files > 5), "{}", status["store"]);
    let told = node.log().matches("takes no direct writes: through the page cache").count();
    assert_eq!(told, 1, "{}", node.log());
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn full_disk_delivers_and_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    let store = folder.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    let Some(node) = Node::start_on("-t tmpfs -o size=6m", &store, &file, socket) else {
        return eprintln!("not run: this user may not mount a file system of its own");
    };
    let mut sender = node.client("99", 0);
    let mut accepts = |bytes: usize| {
        let adu = BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() };
        sender.send(adu, &vec![7; bytes]).expect("the node takes requests");
        sender.response().expect("the node answers").response_status() == AapStatus::Success
    };
    for round in 0..3 {
        // Long bundles are refused first; only when short ones are, too, is the disk full.
        let (mut kept, mut refused) = (0, 0);
        while refused < 30 {
            let bytes = if refused < 10 { 5000 } else { 20 };
            if accepts(bytes) { kept += 1 } else { refused += 1 }
        }
        assert!(kept > 500, "round {round}: {kept} bundles on 6 MiB");
        assert_eq!(held(&at), kept);
        let mut receiver = node.client("64", 16);
        for _ in 0..kept {
            receiver.delivery().expect("a delivery");
            receiver.taken(true).expect("the node is there");
        }
        until("all went", || held(&at) == 0);
        drop(receiver);
        until("there is room again", || accepts(1000));
        let mut receiver = node.client("64", 16);
        while held(&at) > 0 {
            receiver.delivery().expect("a delivery");
            receiver.taken(true).expect("the node is there");
        }
    }
    assert!(node.log().contains("there is room again"), "{}", node.log());
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn full_disk_is_named_to_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    let store = folder.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    let Some(node) = Node::start_on("-t tmpfs -o size=3m", &store, &file, socket) else {
        return eprintln!("not run: this user may not mount a file system of its own");
    };
    let full = format!("the disk of the store {} is full: ", store.display());
    let words = folder.path().join("send.err");
    let mut sender = Command::new(farlink());
    sender.args(["send", "-", "--to", "ipn:9.64", "--bundle-size", "100 kB", "--at", &node.socket]);
    sender.stdin(Stdio::piped()).stderr(std::fs::File::create(&words).expect("a file"));
    let mut sender = sender.spawn().expect("it starts");
    let mut input = sender.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || drop(input.write_all(&vec![7; 6_000_000])));
    until("the log says so", || node.log().contains(&full));
    let status = run(&["node", "status", "--at", &at]).stdout;
    let status = String::from_utf8_lossy(&status).into_owned();
    assert!(status.contains(&full) && status.contains("hint: free space on that disk"), "{status}");
    assert!(status.contains(" MB of ") && status.contains("capacity 1 GB"), "sizes have units: {status}");
    let told = format!("not accepted the bundle yet: {full}");
    until("the sender says so", || std::fs::read_to_string(&words).expect("a file").contains(&told));
    // The store tries again all the time; the log does not tell each time.
    assert_eq!(node.log().matches("ERROR").count(), 1, "{}", node.log());
    sender.kill().expect("it is there");
    sender.wait().expect("it ends");
    writer.join().expect("the writer ends");
}

#[test]
fn capacity_beyond_disk_is_advised_against() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("n.toml");
    std::fs::write(&file, "node_ids = \"ipn:1.0\"\n[store]\ndir = \"s\"\ncapacity = \"900 TB\"\n").expect("a file");
    let said = run(&["node", "--check", "--config", &file.display().to_string()]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && text.contains("n.toml:4: store.capacity: 900 TB is more than the "), "{text}");
    assert!(text.contains("has room for: it may be full before the store is\nhint: "), "{text}");
}

#[test]
fn file_size_limit_shortens_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    // 4096 blocks of 512 B are 2 MiB; the node would make longer files.
    let node = Node::start_with_files_of(4096, &file, socket.clone());
    let mut sender = node.client("99", 0);
    let acknowledged = (0..60).filter(|_| accepts(&mut sender, 100_000)).count() as u64;
    assert_eq!((acknowledged, held(&at)), (60, 60), "in files of 2 MiB");
    let files = std::fs::read_dir(folder.path().join("store")).expect("the store");
    let lengths: Vec<u64> = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).collect();
    assert!(lengths.len() > 4 && lengths.iter().all(|len| *len <= 2 << 20), "{lengths:?}");
    node.kill();
    let again = Node::start(&file, socket);
    until("what was acknowledged is kept", || held(&at) == acknowledged);
    assert!(accepts(&mut again.client("99", 0), 100_000), "and more is taken where there is room");
}

#[test]
fn lost_clock_expires_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    let text = std::fs::read_to_string(&file).expect("the configuration");
    let start = |offset: &str| {
        std::fs::write(&file, format!("clock_offset = \"{offset}\"\n{text}")).expect("the configuration");
        Node::start(&file, socket.clone())
    };
    let node = start("0 s");
    let mut sender = node.client("99", 0);
    assert!((0..5).all(|_| accepts(&mut sender, 1000)));
    node.kill();
    // Clocks before 1970, an hour behind, and thirty years ahead, with right ones in between.
    let mut times = 0;
    for (offset, said) in [("-20500 d", 0), ("-1 h", 1), ("0 s", 0), ("+10950 d", 1), ("0 s", 0)] {
        let node = start(offset);
        until("what was acknowledged is kept", || held(&at) == 5);
        times += said;
        // All runs write to one log, so the count adds up.
        let says_so = || node.log().matches("the wall clock is not believed").count();
        until("the log says so", || says_so() >= times);
        assert_eq!(says_so(), times, "{offset}: {}", node.log());
        node.kill();
    }
}

#[test]
fn store_beyond_memory_warns_and_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, _) = configure(folder.path(), "ipn:1.0", "");
    let node = Node::start(&file, socket.clone());
    let mut sender = node.client("99", 0);
    assert!((0..20).all(|_| accepts(&mut sender, 100)));
    assert!(!node.log().contains("the store holds"));
    assert_eq!(node.terminate(), Some(0));
    let text = std::fs::read_to_string(&file).expect("the configuration") + "[limits]\nbundles = 5\n";
    std::fs::write(&file, text).expect("less memory");
    let again = Node::start(&file, socket.clone());
    let warning = "the store holds 20 bundles, this memory is for 5: nothing is taken until some have left";
    until("the log says so", || again.log().contains(warning));
    let mut send = Command::new(farlink())
        .args(["send", "--text", "hello", "--to", "ipn:2.64", "--at"])
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    BufReader::new(send.stderr.take().expect("a pipe")).read_line(&mut said).expect("text");
    send.kill().expect("it still waits");
    send.wait().expect("it ends");
    assert!(said.contains("the node has not accepted the bundle yet") && said.contains("waiting"), "{said}");
    assert_eq!(again.log().matches("the store holds").count(), 1);
}

//! Start of a real node: stores that are unreadable, forbidden or of another node, and a clock that is ahead.

use crate::node_support::{Node, accepts, configure, farlink, held, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::http;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Fills a store with `count` bundles.
fn fill(file: &Path, socket: &Path, count: usize) {
    let node = Node::start(file, socket.to_path_buf());
    let mut sender = node.client("99", 0);
    assert!((0..count).all(|_| accepts(&mut sender, 1000)));
    node.kill();
}
fn ends(file: &Path, more: &[&str]) -> Output {
    Command::new(farlink()).args(["node", "--config"]).arg(file).args(more).output().expect("it runs")
}
fn refuses(file: &Path, words: &[&str]) {
    let output = ends(file, &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(words.iter().chain(&["hint: "]).all(|word| told.contains(word)), "{told}");
}
fn image(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(store).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}
fn first_file(store: &Path) -> PathBuf {
    image(store).into_keys().find(|path| path.extension() == Some("farlink".as_ref())).expect("a file")
}

#[test]
fn unreadable_store_file_stops_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    fill(&file, &socket, 50);
    let store = folder.path().join("store");
    let (path, aside) = (first_file(&store), folder.path().join("aside"));
    std::fs::rename(&path, &aside).expect("it moves");
    std::fs::create_dir(&path).expect("a folder in its place");
    let before = image(&store);
    // Repeated attempts must not damage the store either, as under a service manager that restarts the node.
    for _ in 0..3 {
        refuses(&file, &[&path.display().to_string()]);
    }
    assert_eq!(image(&store), before, "nothing was written");
    std::fs::remove_dir(&path).expect("it goes");
    std::fs::rename(&aside, &path).expect("it is back");
    let node = Node::start(&file, socket);
    until("all are there", || held(&at) == 50);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn foreign_user_store_stops_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    fill(&file, &socket, 50);
    let as_nobody = |program: &str, arguments: &[&str]| {
        let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups", program];
        Command::new("setpriv").args(setpriv).args(arguments).output()
    };
    if !as_nobody("true", &[]).is_ok_and(|output| output.status.success()) {
        return eprintln!("not run: this user may not become another");
    }
    // As after one run as root: the folders are open to all, the store's files are not.
    for path in
        [folder.path().to_path_buf(), folder.path().join("store"), folder.path().join("store/lock"), file.clone()]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).expect("permissions");
    }
    let program = folder.path().join("farlink");
    // The build folder may be closed to other users.
    std::fs::copy(farlink(), &program).expect("a copy that everybody may run");
    let before = image(&folder.path().join("store"));
    let output = as_nobody(program.to_str().expect("text"), &["node", "--config", file.to_str().expect("text")]);
    let output = output.expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(".farlink") && told.contains("chown"), "{told}");
    assert_eq!(image(&folder.path().join("store")), before);
    let node = Node::start(&file, socket);
    until("all are there", || held(&at) == 50);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn newer_store_format_stays_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    fill(&file, &socket, 5);
    let store = folder.path().join("store");
    let path = first_file(&store);
    let own = std::fs::read(&path).expect("a file");
    let mut newer = own.clone();
    // Places of the copies of a file's header, each with its own CRC.
    for copy in [0, 64, 4096] {
        let Some(copy) = newer.get_mut(copy..copy + 64).filter(|copy| copy.starts_with(b"FarlinkS")) else { continue };
        copy[8..12].copy_from_slice(&999u32.to_le_bytes());
        // With a correct CRC, so that the version is the only reason to refuse.
        let crc = (farlink_base::Accel::default().crc32c)(0, &copy[..60]);
        copy[60..].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&path, newer).expect("it is written");
    let before = image(&store);
    refuses(&file, &["written by a newer Farlink (store format 999; this one reads up to "]);
    assert_eq!(image(&store), before);
    std::fs::write(&path, own).expect("it is written");
    let node = Node::start(&file, socket);
    until("all are there", || held(&at) == 5);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn foreign_node_store_needs_adoption() {
    for shards in ["", "shards = 2\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, socket, at) = configure(folder.path(), "ipn:1.0", shards);
        fill(&file, &socket, 5);
        configure(folder.path(), "ipn:2.0", shards);
        refuses(&file, &["ipn:1.0", "ipn:2.0", "--adopt"]);
        // An additional alias does not make it another node.
        configure(folder.path(), "ipn:1.0\", \"ipn:5.0", shards);
        let node = Node::start(&file, socket.clone());
        until("a node with one name more is the same", || held(&at) == 5);
        assert_eq!(node.terminate(), Some(0));
        configure(folder.path(), "ipn:2.0", shards);
        refuses(&file, &["ipn:1.0 ipn:5.0", "ipn:2.0"]);
        let mut adopting =
            Command::new(farlink()).args(["node", "--adopt", "--config"]).arg(&file).spawn().expect("it starts");
        until("it has it", || http::request("GET", &at, "/status", "").is_ok() && held(&at) == 5);
        adopting.kill().expect("it runs");
        adopting.wait().expect("it ends");
        let node = Node::start(&file, socket);
        until("it is its own", || held(&at) == 5);
        assert_eq!(node.terminate(), Some(0));
    }
}

#[test]
fn clock_jump_awaits_confirmation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, at) = configure(folder.path(), "ipn:1.0", "");
    fill(&file, &socket, 100);
    configure(folder.path(), "ipn:1.0", "clock_offset = \"8760 h\"\n");
    for _ in 0..2 {
        let node = Node::start(&file, socket.clone());
        until("all are there", || held(&at) == 100);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(held(&at), 100);
        node.kill();
    }
    // With a longest downtime of more than a year, the same clock is believed.
    configure(folder.path(), "ipn:1.0", "clock_offset = \"8760 h\"\ndowntime_max = \"9000 h\"\n");
    let node = Node::start(&file, socket);
    until("what is over goes", || held(&at) == 0);
    let confirm = Command::new(farlink()).args(["node", "confirm-clock", "--at", &at]).status().expect("it runs");
    assert!(confirm.success());
    assert_eq!(node.terminate(), Some(0));
}

fn store_command(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(farlink()).args(["node", "store"]).args(arguments).output().expect("it runs");
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), told.concat())
}

#[test]
fn import_restores_bundles_and_deliveries() {
    for shards in ["", "shards = 2\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, socket, at) = configure(folder.path(), "ipn:1.0", shards);
        let node = Node::start(&file, socket.clone());
        let mut sender = node.client("99", 0);
        let sizes = [0, 1000, 900_000, 5_000_000];
        assert!(sizes.iter().all(|bytes| accepts(&mut sender, *bytes)));
        // One bundle is delivered: the import must remember it.
        let mut receiver = node.client("64", 16);
        let adu = BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() };
        sender.send(adu, &[7; 100]).expect("the node takes requests");
        assert_eq!(sender.response().expect("an answer").response_status(), AapStatus::Success);
        receiver.delivery().expect("a delivery");
        receiver.taken(true).expect("the node is there");
        until("it went", || held(&at) == 4);
        let [store, saved, moved] = ["store", "saved", "moved"].map(|name| folder.path().join(name));
        let [store, saved, moved] = [&store, &saved, &moved].map(|path| path.to_str().expect("text"));
        let (code, told) = store_command(&["check", store]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("in use"), "{told}");
        assert_eq!(node.terminate(), Some(0));
        let before = image(Path::new(store));
        let (code, told) = store_command(&["check", store, "--json"]);
        let document: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((code, &document["shards"][0]["node_ids"][0]), (Some(0), &Value::from("ipn:1.0")), "{told}");
        assert_eq!(document["shards"][0]["bundles"], 4, "{told}");
        assert_eq!(document["shards"][0]["deliveries"], 1, "{told}");
        let (code, told) = store_command(&["export", store, saved]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(image(Path::new(store)), before, "the store is as it was");
        let bundles = image(Path::new(saved)).into_keys().filter(|path| path.extension() == Some("bundle".as_ref()));
        for bundle in bundles {
            let decoded = Command::new(farlink()).args(["bundle", "decode"]).arg(&bundle).output().expect("it runs");
            assert!(decoded.status.success(), "{}", bundle.display());
        }
        let (code, told) = store_command(&["import", saved, moved]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(store_command(&["import", saved, moved]).0, Some(1), "never into a store");
        let again = folder.path().join("again");
        let again = again.to_str().expect("text");
        let (code, told) = store_command(&["export", moved, again]);
        assert_eq!(code, Some(0), "{told}");
        let names = |dir: &str| {
            let files = image(Path::new(dir)).into_iter();
            let files = files.filter(|(path, _)| path.extension() == Some("bundle".as_ref()));
            files.map(|(path, bytes)| (path.file_name().expect("a name").to_owned(), bytes)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(names(saved).len(), 4);
        assert!(names(saved) == names(again), "every byte of every bundle");
        // A node continues with the imported store.
        std::fs::rename(store, folder.path().join("old")).expect("it moves");
        std::fs::rename(moved, store).expect("it moves");
        let node = Node::start(&file, socket);
        until("all are there", || held(&at) == 4);
        assert_eq!(node.terminate(), Some(0));
    }
}

#[test]
fn intact_bundles_of_damage_are_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, _) = configure(folder.path(), "ipn:1.0", "");
    fill(&file, &socket, 20);
    let store = folder.path().join("store");
    let path = first_file(&store);
    let mut bytes = std::fs::read(&path).expect("a file");
    // Inside one of the bundles; the headers of the file stay whole.
    bytes[12_000] ^= 1;
    std::fs::write(&path, bytes).expect("it is written");
    let [store, saved] = [store, folder.path().join("saved")].map(|path| path.display().to_string());
    let (code, told) = store_command(&["check", &store]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("damage         1"), "{told}");
    let (code, told) = store_command(&["export", &store, &saved]);
    assert!(code == Some(0) && told.contains("19 bundles") && told.contains("warning: "), "{told}");
}

#[test]
fn export_without_clock_carries_ages() {
    // Without a clock a store keeps operating times, which mean nothing in another store: the export converts them to
    // ages.
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket, _) = configure(folder.path(), "ipn:1.0", "clock = \"untrusted\"\n");
    fill(&file, &socket, 1);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let [store, saved] = ["store", "saved"].map(|name| folder.path().join(name));
    let (code, told) = store_command(&["export", store.to_str().expect("text"), saved.to_str().expect("text")]);
    assert_eq!(code, Some(0), "{told}");
    let list = std::fs::read_to_string(saved.join("index.jsonl")).expect("a list");
    let lines = list.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let ages: Vec<u64> = lines.filter_map(|line| line["age_ms"].as_u64()).collect();
    assert!(matches!(ages[..], [age] if (1_500..60_000).contains(&age)), "{ages:?}");
}

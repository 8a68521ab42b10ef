//! A node on a machine outside the testbed, behind an interface. Skipped with the reason without root.

use crate::testbed::{self, FARLINK, possible};
use farlink_os::namespace::NetworkNamespace;
use farlink_os::netlink::Netlink;
use farlink_os::process::start_in;
use serde_json::Value;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
name = "outside"
duration = "8 s"
[[node]]
name = "a"
id = "ipn:1.0"
[[node]]
name = "board"
id = "ipn:2.0"
host = { kind = "interface", name = "board0" }
[[link]]
name = "l"
between = ["a", "board"]
layer = "tcpclv4"
delay = "200 ms"
rate = "10 Mbit/s"
[[traffic]]
name = "pings"
from = "a"
to = "board"
ping = { count = 4 }
[[traffic]]
name = "pictures"
from = "board"
to = "a"
service = 64
bundles = { count = 3, size = "1 kB" }
"#;

/// This machine and another one, joined by a cable; neither is the machine that runs the tests.
struct Machines {
    here: NetworkNamespace,
    board: NetworkNamespace,
}

impl Machines {
    fn new(address: IpAddr) -> io::Result<Machines> {
        let (here, board) = (NetworkNamespace::create()?, NetworkNamespace::create()?);
        let up = |name: &str, address: Option<IpAddr>| {
            let mut netlink = Netlink::open()?;
            let index = netlink.interface(name)?.map_or(0, |found| found.index);
            netlink.set_up(index, true)?;
            address.map_or(Ok(()), |address| netlink.add_address(index, address, 24))
        };
        here.within(|| {
            Netlink::open()?.create_veth_to("board0", "eth0", board.as_fd(), [2, 0, 0, 0, 0, 9], 1500)?;
            up("board0", None)
        })?;
        board.within(|| up("eth0", Some(address)))?;
        Ok(Machines { here, board })
    }
}

/// Runs the scenario of a folder in a machine.
fn run(machine: &NetworkNamespace, folder: &Path) -> io::Result<Output> {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", "lab", "--out", "run"]);
    start_in(&mut command, Some(machine.as_fd().try_clone_to_owned()?), None);
    command.output()
}

#[test]
fn machine_behind_interface_exchanges_bundles() {
    if !possible() {
        return;
    }
    let machines = match Machines::new(IpAddr::from([10, 0, 0, 2])) {
        Ok(machines) => machines,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = testbed::folder("outside", SCENARIO);
    // What `lab show` prints is enough to set the machine up.
    let shown = Command::new(FARLINK).current_dir(&folder).args(["lab", "show", "board", "scenario.toml"]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("its address       10.0.0.2/24"), "{shown}");
    let board = folder.join("board");
    std::fs::create_dir(&board).unwrap();
    let (_, files) = shown.split_once("there\n").unwrap();
    let (node_file, plan) = files.split_once("-- contacts.plan, beside it\n").unwrap();
    assert!(!node_file.contains("seed"), "sessions of a second run would look like those of the first: {node_file}");
    std::fs::write(board.join("node.toml"), node_file).unwrap();
    std::fs::write(board.join("contacts.plan"), plan).unwrap();
    let on_board = |arguments: &[&str]| {
        let mut command = Command::new(FARLINK);
        command.current_dir(&board).args(arguments);
        start_in(&mut command, machines.board.as_fd().try_clone_to_owned().ok(), None);
        command
    };
    let mut node = on_board(&["node", "--config", "node.toml"]).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !board.join("farlink.sock").exists() && begun.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::fs::write(board.join("pictures"), [7; 3000]).unwrap();
    let send = ["send", "pictures", "--to", "ipn:1.64", "--at", "farlink.sock", "--raw", "--bundle-size", "1 kB"];
    let sent = on_board(&send).output().unwrap();
    let output = run(&machines.here, &folder).unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = std::fs::read_to_string(folder.join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert!(manifest.to_string().contains("Node board was a machine behind board0"), "{manifest}");
    // Of the node outside only what arrives here is known, so it is told beside the counts.
    let notes = manifest["validity"]["notes"].to_string();
    assert!(notes.contains("Traffic pictures: 3 bundles arrived from board"), "{notes}");
    let reader = farlink_report::RunReader::open(&folder.join("run")).unwrap();
    let statistics = farlink_report::Statistics::read(&reader).unwrap();
    assert_eq!((statistics.created, statistics.delivered), (0, 0));
    let fastest = statistics.round_trip_s.unwrap().min;
    assert!((0.4..2.0).contains(&fastest), "{fastest}");
    // The answers and the pictures are all that the run waits for.
    assert!(statistics.duration_s < 7.0, "{statistics:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn machine_that_does_not_answer_is_named() {
    if !possible() {
        return;
    }
    let machines = match Machines::new(IpAddr::from([10, 0, 0, 77])) {
        Ok(machines) => machines,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = testbed::folder("outside-silent", SCENARIO);
    let output = run(&machines.here, &folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`board0` has no machine with the address 10.0.0.2"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

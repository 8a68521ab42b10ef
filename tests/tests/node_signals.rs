//! Signals to a node that is still starting. Its configuration is a named pipe, so that the start pauses for as long as
//! the test wants.

use crate::node_support::{farlink, port, until};
use farlink_apps::client::Client;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A node that has begun to read its configuration.
struct Starting {
    dir: tempfile::TempDir,
    node: Child,
    pipe: std::fs::File,
}

impl Starting {
    fn begin() -> Starting {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.toml");
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let log = std::fs::File::create(dir.path().join("node.log")).unwrap();
        let node = Command::new(farlink())
            .args(["node", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let (mut pipe, nonblocking) = (None, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        // Opening fails with ENXIO until the node has opened the pipe for reading.
        until("the node reads its configuration", || {
            pipe = OpenOptions::new().write(true).custom_flags(nonblocking).open(&file).ok();
            pipe.is_some()
        });
        Starting { dir, node, pipe: pipe.unwrap() }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn signal(&self, name: &str) {
        kill(&self.node, name);
        // Signals of one kind merge while one is pending.
        std::thread::sleep(Duration::from_millis(20));
    }
    /// Ends the pause: `first` goes through the pipe, and `second` takes the pipe's place for later reads.
    fn go_on(&mut self, first: &str, second: &str) {
        std::fs::write(self.path("later.toml"), second).unwrap();
        std::fs::rename(self.path("later.toml"), self.path("node.toml")).unwrap();
        self.pipe.write_all(first.as_bytes()).unwrap();
        self.pipe = std::fs::File::open("/dev/null").unwrap();
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("node.log")).unwrap()
    }
    fn ended(&mut self) -> ExitStatus {
        let mut ended = None;
        until("the node ends", || {
            ended = self.node.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

fn kill(node: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &node.id().to_string()]).status().unwrap().success());
}
fn configuration(level: &str) -> String {
    format!(
        "node_ids = [\"ipn:1.0\"]\n[log]\nlevel = \"{level}\"\n[store]\ndir = \"store\"\n[layer.main]\nkind = \"tcpclv4\"\n\
         listen = [\"127.0.0.1:{}\"]\n[app]\nsocket = \"app.sock\"\n",
        port()
    )
}
fn is_up(at: &Path) -> bool {
    Client::connect(&at.display().to_string()).is_ok()
}

#[test]
fn sighup_during_start_is_deferred() {
    let mut starting = Starting::begin();
    for signal in ["-HUP", "-USR1", "-USR2", "-HUP"] {
        starting.signal(signal);
    }
    let first = configuration("info");
    starting.go_on(&first, &first.replace("\"info\"", "\"debug\""));
    let socket = starting.path("app.sock");
    until("the node is up", || is_up(&socket));
    let control = starting.path("node.control.sock").display().to_string();
    let level = || {
        let told = Command::new(farlink()).args(["node", "log", "--at", &control]).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    until("the configuration is read again", || level().contains("debug"));
    kill(&starting.node, "-USR1");
    kill(&starting.node, "-TERM");
    assert_eq!(starting.ended().code(), Some(0), "{}", starting.log());
}

#[test]
fn end_during_start_is_clean() {
    for signal in ["-TERM", "-INT"] {
        let mut starting = Starting::begin();
        starting.signal(signal);
        let first = configuration("info");
        starting.go_on(&first, &first);
        assert_eq!(starting.ended().code(), Some(0), "{signal}: {}", starting.log());
        assert!(starting.log().contains("stopped"), "{signal}: {}", starting.log());
        assert!(!starting.path("app.sock").exists(), "{signal}: sockets are taken away");
    }
}

#[test]
fn second_sigterm_ends_at_once() {
    let mut starting = Starting::begin();
    starting.signal("-INT");
    assert!(starting.node.try_wait().unwrap().is_none());
    starting.signal("-INT");
    // 128 and the number of SIGINT, as of a program without a handler.
    assert_eq!(starting.ended().code(), Some(130));
    let mut nothing = Vec::new();
    std::fs::File::open(starting.path("node.log")).unwrap().read_to_end(&mut nothing).unwrap();
    assert!(!starting.path("store").exists(), "{}", String::from_utf8_lossy(&nothing));
}

#[test]
fn sighup_never_ends_a_node() {
    // SIGHUP would still end the program while it is being loaded. That is over: `main` installs the handlers first,
    // and the open pipe shows that it has gone on to read the configuration.
    for after_ms in [0, 1, 2, 5, 10, 20, 50] {
        let mut starting = Starting::begin();
        let first = configuration("info");
        starting.go_on(&first, &first);
        std::thread::sleep(Duration::from_millis(after_ms));
        kill(&starting.node, "-HUP");
        let socket = starting.path("app.sock");
        until("the node is up", || is_up(&socket));
        kill(&starting.node, "-TERM");
        assert_eq!(starting.ended().code(), Some(0), "{after_ms} ms: {}", starting.log());
    }
}

//! `farlink run --watch` in a terminal made by `script`, which every Linux has: its screen and its end.

use crate::node_support;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "seen"
seed = 1
duration = "20000 h"
stop_when_delivered = false
[[node]]
name = "probe"
id = "ipn:1.0"
[[node]]
name = "ground"
id = "ipn:2.0"
[[link]]
name = "space"
between = ["probe", "ground"]
layer = "ltp"
rate = "1 Mbit/s"
delay = "1 s"
[[traffic]]
name = "news"
from = "probe"
to = "ground"
bundles = { count = 2000000, size = "1 kB", interval = "1 s" }
"#;

/// Control sequences that enter and leave the alternate screen.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// A run with `--watch` in a terminal.
struct Terminal {
    script: Child,
    said: Receiver<Vec<u8>>,
    text: String,
}
impl Terminal {
    fn new(folder: &Path) -> Terminal {
        std::fs::write(folder.join("seen.toml"), SCENARIO).expect("it is written");
        // A run of the tests under `nohup` ignores SIGHUP, and so would this one.
        let farlink = format!("env --default-signal=HUP {}", node_support::farlink().display());
        let mut script = Command::new("script")
            .args([
                "-qefc",
                &format!("stty cols 80 rows 24; exec {farlink} run seen.toml --in sim --watch --out run"),
                "/dev/null",
            ])
            .current_dir(folder)
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1) is there");
        let (mut out, (tell, said)) = (script.stdout.take().expect("it has one"), channel());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n) = out.read(&mut piece) {
                if n == 0 || tell.send(piece[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { script, said, text: String::new() }
    }
    /// Reads the screen until this text appears.
    fn until(&mut self, what: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.text.contains(what) {
            let left = end.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(piece) => self.text += &String::from_utf8_lossy(&piece),
                Err(_) => panic!("no `{what}` in {} bytes of pictures", self.text.len()),
            }
        }
    }
    fn press(&mut self, keys: &str) {
        let input = self.script.stdin.as_mut().expect("it has one");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("it listens");
    }
    /// Waits for the end; returns the exit status.
    fn end(&mut self) -> Option<i32> {
        self.until(GIVEN_BACK);
        self.until("hint:");
        self.script.wait().expect("it ends").code()
    }
}
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn quitting_keeps_results_and_terminal() {
    for keys in ["q", "\x03"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut terminal = Terminal::new(folder.path());
        terminal.until(TAKEN);
        terminal.until("pause");
        // Tab selects the first node, whose details show that keys arrive.
        terminal.press("\t");
        terminal.until("probe:");
        terminal.press(keys);
        assert_eq!(terminal.end(), Some(1), "{keys:?}");
        let after = terminal.text.rsplit(GIVEN_BACK).next().unwrap_or_default().to_string();
        assert!(after.contains("the run was interrupted") && after.contains("delivered"), "{after}");
        assert!(folder.path().join("run/manifest.json").exists());
    }
}

#[test]
fn lost_terminal_keeps_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::new(folder.path());
    terminal.until(TAKEN);
    terminal.until("pause");
    // The end of `script` closes the terminal.
    terminal.script.kill().expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    let manifest = || std::fs::read_to_string(folder.path().join("run/manifest.json")).unwrap_or_default();
    // The trace hash is written last.
    while !manifest().contains("Trace hash") {
        assert!(Instant::now() < end, "no results: {}", manifest());
        std::thread::sleep(Duration::from_millis(50));
    }
    let written: serde_json::Value = serde_json::from_str(&manifest()).expect("JSON");
    assert_eq!(written["finished"], false);
    // On a busy machine the terminal may be gone before the first bundle.
    let begun = written["duration_s"].as_f64().expect("a number") > 0.0;
    assert!(!begun || folder.path().join("run/bundles.parquet").exists(), "{written}");
}

#[test]
fn watch_needs_terminal_and_simulation() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.toml");
    std::fs::write(&file, SCENARIO).expect("it is written");
    let (file, out) = (file.display().to_string(), folder.path().join("run").display().to_string());
    for (world, why) in [("sim", "needs a terminal"), ("lab", "in the testbed")] {
        let output = node_support::run(&["run", &file, "--in", world, "--watch", "--out", &out]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why) && said.contains("hint: "), "{said}");
    }
    assert!(!folder.path().join("run").exists(), "nothing is left");
}

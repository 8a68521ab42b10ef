//! Types the commands of the tutorial of two computers, each line in a shell, in the order of the page: the computers
//! are two folders and two addresses of this one. All other pages are run by the tests of the command line.

use crate::node_support::{farlink, until};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn page(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    fs::read_to_string(root.join(file)).expect("the page")
}

/// Loopback address that no other test uses: side 1 or 2 of pair `pair`.
fn address(pair: u8, side: u8) -> String {
    // Tests run in parallel processes: the process ID separates them, the pair the tests of one process.
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.{side}", 1 + (high ^ pair.rotate_right(2)) % 254)
}

/// A terminal in a folder, with the programs that still run in it.
struct Terminal {
    folder: PathBuf,
    running: Vec<(String, Child)>,
}
impl Drop for Terminal {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
impl Terminal {
    /// Opens a terminal in a new folder, with `farlink` on the shell's path.
    fn new(folder: PathBuf) -> Terminal {
        fs::create_dir_all(folder.join("bin")).expect("a folder");
        std::os::unix::fs::symlink(farlink(), folder.join("bin/farlink")).expect("a link");
        Terminal { folder, running: Vec::new() }
    }
    fn shell(&self, line: &str) -> Command {
        let path = format!("{}/bin:{}", self.folder.display(), std::env::var("PATH").unwrap_or_default());
        // No command takes a minute: one that hangs is a failure.
        let mut shell = Command::new("timeout");
        shell.args(["--foreground", "60", "sh", "-c", line]);
        shell.current_dir(&self.folder).env("PATH", path).stdin(Stdio::null());
        shell
    }
    /// Runs a line to its end, which must be a success; returns its output.
    fn run(&self, line: &str) -> String {
        let output = self.shell(line).output().expect("a shell");
        let [said, talk] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "`{line}`: {}\n{said}\n{talk}{}", output.status, self.logs());
        said
    }
    /// Starts a program that keeps running. `exec` lets signals reach the program instead of the shell.
    fn start(&mut self, line: &str) {
        let mut shell = Command::new("sh");
        let log = fs::File::create(self.folder.join(format!("{}.log", self.running.len()))).expect("a log");
        shell
            .args(["-c", &format!("exec {line}")])
            .envs(self.shell(line).get_envs().filter_map(|(k, v)| Some((k, v?))));
        let child = shell.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        self.running.push((line.to_string(), child.expect("a shell")));
    }
    /// Starts a node and waits until applications can attach.
    fn start_node(&mut self, line: &str) {
        self.start(line);
        let config = line.split_whitespace().find(|word| word.ends_with(".toml")).expect("a file");
        let socket = self.folder.join(config).with_extension("sock");
        until("the node listens", || UnixStream::connect(&socket).is_ok());
    }
    fn take(&mut self, what: &str) -> Option<Child> {
        let place = self.running.iter().position(|(line, _)| line.contains(what))?;
        Some(self.running.remove(place).1)
    }
    /// Waits for a running program's successful end; returns its output.
    fn end_of(&mut self, what: &str) -> String {
        let mut child = self.take(what).expect("it runs");
        until(what, || child.try_wait().expect("a status").is_some());
        let output = child.wait_with_output().expect("it ended");
        assert!(output.status.success(), "{what}: {}{}", output.status, self.logs());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
    /// Interrupts a running program, as Control-C does.
    fn interrupt(&mut self, what: &str) {
        let mut child = self.take(what).expect("it runs");
        let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
        assert!(told.success() && child.wait().expect("it ends").success());
    }
    fn logs(&self) -> String {
        let logs = (0..9).filter_map(|n| fs::read_to_string(self.folder.join(format!("{n}.log"))).ok());
        logs.map(|log| format!("\n--\n{log}")).collect()
    }
}

/// A step of the tutorial at one of its two computers (0 or 1).
#[derive(Debug)]
enum TypedStep {
    Type(usize, String),
    ControlC(usize),
}

fn steps(text: &str) -> Vec<TypedStep> {
    let (mut computer, mut inside, mut steps) = (0, false, Vec::new());
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            steps.push(TypedStep::Type(computer, line.to_string()));
        } else {
            // The prose names the computer: "On A", "On B", "Start B".
            for sentence in line.split(". ") {
                if sentence.contains("On A") {
                    computer = 0;
                } else if sentence.contains("On B") || sentence.contains("Start B") {
                    computer = 1;
                }
                if sentence.contains("with Ctrl-C") {
                    steps.push(TypedStep::ControlC(computer));
                }
            }
        }
    }
    steps
}

#[test]
fn two_computers_tutorial_can_be_typed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut computers = ["A", "B"].map(|name| Terminal::new(folder.path().join(name)));
    let addresses = [address(0, 1), address(0, 2)];
    let text = page("docs/tutorials/two-computers.md");
    let text = text.replace("10.0.0.1", &addresses[0]).replace("10.0.0.2", &addresses[1]);
    let (mut digest, mut pings, mut waiting, mut sent, mut copies) = (String::new(), 0, 0, 0, 0);
    for step in steps(&text) {
        match step {
            TypedStep::ControlC(computer) => computers[computer].interrupt("farlink node"),
            TypedStep::Type(computer, line) => {
                let here = &mut computers[computer];
                if line.starts_with("farlink node --config") {
                    // A wrong file fails here with its mistakes, instead of later with a timeout.
                    here.run(&format!("{line} --check"));
                    here.start_node(&line);
                } else if line.starts_with("farlink recv") {
                    here.start(&line);
                } else {
                    let said = here.run(&line);
                    match line.split_whitespace().take(3).collect::<Vec<_>>()[..] {
                        ["farlink", "ping", ..] => pings += said.matches("answer from").count(),
                        ["farlink", "node", "bundles"] => waiting += said.matches("ipn:2.64").count(),
                        ["farlink", "send", ..] => sent += 1,
                        ["sha256sum", ..] => digest = said.split_whitespace().next().expect("a digest").to_string(),
                        _ => {}
                    }
                }
            }
        }
        // A receiver ends when the file that was sent is there.
        let [_, b] = &mut computers;
        if sent > copies && b.running.iter().any(|(line, _)| line.starts_with("farlink recv")) {
            let said = b.end_of("farlink recv");
            assert!(said.contains(&digest), "the digest that sha256sum printed, {digest}: {said}");
            copies += 1;
        }
    }
    assert_eq!((pings, copies), (4, 2), "four answers, two files");
    assert!(waiting > 0, "each of the bundles for B with what it waits for");
    // The second copy gets another name instead of replacing the first.
    let original = fs::read(folder.path().join("A/photo.raw")).expect("the file");
    for copy in ["photo.raw", "photo.raw.1"] {
        assert!(fs::read(folder.path().join("B/inbox").join(copy)).expect("a copy") == original, "{copy}");
    }
}

/// Gives the two files of `farlink init two-nodes` addresses of their own.
fn own_addresses(folder: &Path, pair: u8) {
    for name in ["node-a.toml", "node-b.toml"] {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).expect("what init wrote");
        fs::write(&file, text.replace("127.0.0.1", &address(pair, 1))).expect("it is written");
    }
}

#[test]
fn discovery_page_nodes_prove_themselves() {
    for (pair, more) in [(6, ""), (7, " --tls --custody --secure")] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut here = Terminal::new(folder.path().into());
        here.run(&format!("farlink init two-nodes --discovery{more}"));
        own_addresses(folder.path(), pair);
        for name in ["node-a.toml", "node-b.toml"] {
            here.start_node(&format!("farlink node --config {name}"));
        }
        // Announcements take a second or two, and `ping` retries until its timeout.
        let said = here.run("farlink ping ipn:2 --at node-a.sock --count 2 --timeout '20 s'");
        assert_eq!(said.matches("answer from").count(), 2, "{more}: {said}{}", here.logs());
        let links: String =
            ["a", "b"].map(|n| here.run(&format!("farlink node links --at node-{n}.control.sock"))).concat();
        assert!(links.contains("found:ipn:"), "{links}");
    }
}

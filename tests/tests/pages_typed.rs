//! Types the commands that pages show, each line in a shell, in the order of the page. The two computers of the
//! tutorial are two folders and two addresses of this one.

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

/// Types the lines that call `farlink`, in a folder with links to the repository's pages and campaigns; other lines of
/// a page need programs that are not here. Returns all output.
fn type_lines(text: &str, files: &[(&str, &str)], pair: u8) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = Terminal::new(folder.path().into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    // Pages name files below these folders.
    for part in ["docs", "campaigns"] {
        std::os::unix::fs::symlink(root.join(part), folder.path().join(part)).expect("a link");
    }
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("it is written");
    }
    let mut said = String::new();
    for line in text.lines().map(|line| line.split(" #").next().unwrap_or("").trim()) {
        if line.starts_with("farlink init two-nodes") {
            said += &here.run(line);
            // Other programs may use these ports of the usual loopback address.
            for name in ["node-a.toml", "node-b.toml"] {
                let file = folder.path().join(name);
                let text = fs::read_to_string(&file).expect("what init wrote");
                fs::write(&file, text.replace("127.0.0.1", &address(pair, 1))).expect("it is written");
            }
        } else if let Some(node) = line.strip_suffix(" &") {
            here.start_node(node);
        } else if line.contains("farlink ") {
            said += &here.run(line);
        }
    }
    said
}

#[test]
fn readme_can_be_typed() {
    let text = page("README.md");
    let (_, text) = text.split_once("## Use\n\n```\n").expect("a section");
    let (lines, _) = text.split_once("```").expect("its end");
    // `farlink emulate` needs the testbed, which not every machine allows and which has tests of its own.
    let lines: Vec<_> = lines.lines().filter(|line| !line.starts_with("farlink emulate")).collect();
    let said = type_lines(&lines.join("\n"), &[], 1);
    for part in
        ["4 sent, 4 received", "inbox/report.png", "node           ipn:1.0", "after 3 hops", "\"hello\"", "800 of 800"]
    {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

#[test]
fn secure_bundles_page_can_be_typed() {
    let text = page("docs/how-to/secure-bundles.md");
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = Terminal::new(folder.path().into());
    let (mut file, mut said, mut nodes) = (None, String::new(), 0);
    for part in text.split("```") {
        let (kind, lines) = part.split_once('\n').unwrap_or(("", part));
        match (kind, &file) {
            ("sh", _) => {
                for line in lines.lines() {
                    if let Some(node) = line.strip_suffix(" &") {
                        here.start_node(node);
                        nodes += 1;
                    } else {
                        said += &here.run(line);
                    }
                    if line.starts_with("farlink init") {
                        for name in ["node-a.toml", "node-b.toml"] {
                            let file = folder.path().join(name);
                            let text = fs::read_to_string(&file).expect("what init wrote");
                            fs::write(&file, text.replace("127.0.0.1", &address(4, 1))).expect("it is written");
                        }
                    }
                }
            }
            ("toml", Some(name)) => {
                let place: PathBuf = folder.path().join(name);
                let before = fs::read_to_string(&place).expect("what init wrote");
                fs::write(&place, format!("{before}\n{lines}")).expect("it is written");
            }
            _ => {}
        }
        // The sentence before a block ends with the name of the file to which the block is appended.
        let named = |name: &&str| part.trim_end().ends_with(&format!("`{name}`:"));
        file = ["node-a.toml", "node-b.toml"].into_iter().find(named);
    }
    assert_eq!((nodes, said.matches("answer from").count()), (2, 2), "{said}");
    let verified = said.lines().find(|line| line.starts_with("security ")).expect("a line of the status");
    assert!(verified.contains(" 0 failed, 0 missing") && !verified.contains(" 0 verified"), "{verified}");
}

#[test]
fn shown_commands_can_be_typed() {
    let text = page("docs/how-to/interoperate.md");
    let blocks: Vec<_> = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```")).collect();
    let lines: Vec<_> =
        blocks.iter().flat_map(|(block, _)| block.lines()).filter(|l| l.starts_with("farlink ")).collect();
    assert_eq!(lines.len(), 3, "the two nodes all examples start from: {lines:?}");
    type_lines(&lines.join("\n"), &[], 2);

    // The two plans on the page are the files that its commands name.
    let text = page("docs/reference/contact-plan.md");
    let block = |from: &str| text.split(from).nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let plans: Vec<_> = text.split("```plan\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [ours, ion] = plans[..] else { panic!("{} plans", plans.len()) };
    let orbits = page("docs/how-to/plan-from-orbits.md");
    let orbits = orbits.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next()).expect("a constellation");
    let files = [("mars.plan", ours), ("contacts.ionrc", ion), ("leo.toml", orbits)];
    let said = type_lines(block("```\n"), &files, 3);
    assert!(said.contains("after 2 hops") && said.contains("contact "), "a way, and the other dialect in ours: {said}");
}

/// Gives the two files of `farlink init two-nodes` addresses of their own, and applies `change` to each.
fn own_addresses(folder: &Path, pair: u8, change: impl Fn(&str, String) -> String) {
    for name in ["node-a.toml", "node-b.toml"] {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).expect("what init wrote");
        fs::write(&file, change(name, text.replace("127.0.0.1", &address(pair, 1)))).expect("it is written");
    }
}

#[test]
fn secure_sessions_page_can_be_typed() {
    let text = page("docs/how-to/secure-sessions.md");
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = Terminal::new(folder.path().into());
    let blocks = |kind: &str| -> Vec<&str> {
        text.split(&format!("```{kind}\n")).skip(1).filter_map(|rest| rest.split("```").next()).collect()
    };
    let [made, reload] = blocks("sh")[..] else { panic!("two blocks to type") };
    let said: String = made.lines().map(|line| here.run(line)).collect();
    let shown = text.split("```\n").find(|block| block.starts_with("ipn:1.0 ")).expect("what it prints");
    assert_eq!(said.trim(), shown.trim(), "as the page shows");
    let (_, lines) = blocks("toml")[0].split_once("kind = \"tcpclv4\"\n").expect("its kind");
    own_addresses(folder.path(), 5, |name, text| {
        let own = if name == "node-a.toml" { "ipn-1" } else { "ipn-2" };
        text.replacen("kind = \"tcpclv4\"\n", &format!("kind = \"tcpclv4\"\n{}", lines.replace("ipn-1", own)), 1)
    });
    for name in ["node-a.toml", "node-b.toml"] {
        here.run(&format!("farlink node --config {name} --check"));
        here.start_node(&format!("farlink node --config {name}"));
    }
    let said = here.run("farlink ping ipn:2 --at node-a.sock --count 2");
    assert_eq!(said.matches("answer from").count(), 2, "{said}");
    reload.lines().for_each(|line| drop(here.run(line)));
}

#[test]
fn discovery_page_nodes_prove_themselves() {
    for (pair, more) in [(6, ""), (7, " --tls --custody --secure")] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut here = Terminal::new(folder.path().into());
        here.run(&format!("farlink init two-nodes --discovery{more}"));
        own_addresses(folder.path(), pair, |_, text| text);
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

#[test]
fn campaigns_page_can_be_typed() {
    let text = page("docs/how-to/run-a-campaign.md");
    let blocks = |kind: &str| -> Vec<&str> {
        text.split(&format!("```{kind}\n")).skip(1).filter_map(|rest| rest.split("```").next()).collect()
    };
    let [scenario, campaign, _] = blocks("toml")[..] else { panic!("two files, and a figure") };
    let folder = tempfile::tempdir().expect("a folder");
    let here = Terminal::new(folder.path().into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    std::os::unix::fs::symlink(root.join("campaigns"), folder.path().join("campaigns")).expect("a link");
    fs::create_dir(folder.path().join("crowd")).expect("a folder");
    fs::write(folder.path().join("crowd/scenario.toml"), scenario).expect("it is written");
    fs::write(folder.path().join("crowd/campaign.toml"), campaign).expect("it is written");
    let said: String = blocks("sh").concat().lines().map(|line| here.run(line)).collect();
    for part in [
        "crowd, small size: 9 points",
        "crowd: 9 points, seeds 1 to 5, 45 of 45 cells",
        "45 of 45 cells done",
        "silva, small size",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
    for file in [
        "report.html",
        "results.txt",
        "cells.parquet",
        "cells.csv",
        "points.parquet",
        "points.csv",
        "figures/overhead.svg",
    ] {
        assert!(folder.path().join("runs/crowd").join(file).exists(), "{file}");
    }
}

#[test]
fn one_tutorial_can_be_typed() {
    let text = page("docs/tutorials/from-the-one.md").replace("127.0.0.1", &address(8, 1));
    let folder = tempfile::tempdir().expect("a folder");
    let mut here = Terminal::new(folder.path().into());
    let (mut said, mut nodes) = (String::new(), 0);
    for (kind, block) in text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')) {
        match kind {
            "" => fs::write(folder.path().join("meeting.txt"), block).expect("it is written"),
            "toml" => {
                let name = block.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a name");
                fs::write(folder.path().join(name), block).expect("it is written");
                here.run(&format!("farlink node --config {name} --check"));
            }
            _ => {
                for line in block.lines() {
                    if let Some(node) = line.strip_suffix(" &") {
                        here.start_node(node);
                        nodes += 1;
                    } else if line.starts_with("farlink node bundles") {
                        until("it has a copy", || here.run(line).contains("ipn:3.64"));
                    } else {
                        said += &here.run(line);
                    }
                }
            }
        }
    }
    assert_eq!(nodes, 3);
    // Numbers that the tutorial prints: the run must reproduce them to the digit.
    for part in ["104 of 121 messages", "overhead_ratio: 7.2404", "delivered  10", "meeting.html", "inbox/message"] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

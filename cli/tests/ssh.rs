//! Nodes on machines reached by SSH: a real `sshd` in a network namespace of the test is the other machine. Skipped
//! with the reason without root or `sshd`.

use crate::testbed::{self, FARLINK, possible};
use farlink_os::namespace::NetworkNamespace;
use farlink_os::netlink::Netlink;
use farlink_os::process::{Signal, signal, start_in};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Two nodes on other machines around a node here; the last link joins the two.
const SCENARIO: &str = r#"
name = "machines"
duration = "12 s"
[[node]]
name = "here"
id = "ipn:1.0"
[[node]]
name = "far"
id = "ipn:2.0"
host = { kind = "ssh", at = "far", config = "ssh_config", program = "farlink" }
[[node]]
name = "farther"
id = "ipn:3.0"
host = { kind = "ssh", at = "far", config = "ssh_config", program = "farlink" }
[[link]]
name = "first"
between = ["here", "far"]
layer = "tcpclv4"
delay = "60 ms"
rate = "20 Mbit/s"
[[link]]
name = "second"
between = ["far", "farther"]
layer = "udpcl"
delay = "30 ms"
rate = "20 Mbit/s"
[[traffic]]
name = "pings"
from = "here"
to = "farther"
ping = { count = 10, interval = "200 ms", size = "100 B" }
[[traffic]]
name = "bundles"
from = "farther"
to = "here"
bundles = { count = 40, size = "1 kB", rate = "1 Mbit/s" }
[[traffic]]
name = "picture"
from = "here"
to = "far"
file = { size = "300 kB", bundle_size = "100 kB" }
"#;

/// This machine and another one with `sshd`, joined by a cable; neither is the machine that runs the tests.
struct Machines {
    here: NetworkNamespace,
    _far: NetworkNamespace,
    sshd: Child,
    folder: PathBuf,
}

impl Machines {
    /// `None`, with the reason, if this machine cannot have it.
    fn new(name: &str, scenario: &str) -> Option<Machines> {
        let skip = |why: String| {
            println!("skipped: {why}");
            None
        };
        if !possible() {
            return None;
        }
        if farlink_os::namespace::user_and_group().0 != 0 {
            return skip("a machine with sshd needs root".into());
        }
        let Some(sshd) = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| Path::new(path).exists()) else {
            return skip("there is no sshd (Debian: openssh-server)".into());
        };
        let folder = testbed::folder(name, scenario);
        // Without its debugging information the program is a tenth as large.
        let mut strip = Command::new("strip");
        let stripped = strip.args(["-o", "farlink", FARLINK]).current_dir(&folder).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(FARLINK, folder.join("farlink")).unwrap();
        }
        match Machines::join(sshd, &folder) {
            Ok((here, far, sshd)) => Some(Machines { here, _far: far, sshd, folder }),
            Err(why) => skip(format!("the kernel refuses a namespace or an interface: {why}")),
        }
    }

    fn join(sshd: &str, folder: &Path) -> io::Result<(NetworkNamespace, NetworkNamespace, Child)> {
        let (here, far) = (NetworkNamespace::create()?, NetworkNamespace::create()?);
        let up = |name: &str, address: Option<[u8; 4]>| {
            let mut netlink = Netlink::open()?;
            let index = netlink.interface(name)?.map_or(0, |found| found.index);
            netlink.set_up(index, true)?;
            address.map_or(Ok(()), |address| netlink.add_address(index, IpAddr::from(address), 24))
        };
        here.within(|| {
            Netlink::open()?.create_veth_to("eth0", "eth0", far.as_fd(), [2, 0, 0, 0, 0, 9], 1500)?;
            up("lo", None)?;
            up("eth0", Some([192, 0, 2, 1]))
        })?;
        far.within(|| up("lo", None).and_then(|()| up("eth0", Some([192, 0, 2, 2]))))?;
        for key in ["host_key", "user_key"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f", key]).current_dir(folder);
            assert!(make.status()?.success());
        }
        let path = |name: &str| folder.join(name).display().to_string();
        let there = folder.join("there");
        fs::create_dir_all(&there)?;
        fs::create_dir_all("/run/sshd")?;
        let server = format!(
            "Port 2222\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nPermitRootLogin yes\nSetEnv TMPDIR={}\n",
            path("host_key"),
            path("user_key.pub"),
            there.display()
        );
        let client = format!(
            "Host far\nHostName 192.0.2.2\nPort 2222\nUser root\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\n",
            path("user_key"),
            path("known_hosts")
        );
        fs::write(folder.join("sshd_config"), server)?;
        fs::write(folder.join("ssh_config"), client)?;
        let key = fs::read_to_string(folder.join("host_key.pub"))?;
        fs::write(folder.join("known_hosts"), format!("[192.0.2.2]:2222 {key}"))?;
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f", "sshd_config"]).current_dir(folder).stdin(Stdio::null());
        command.stderr(fs::File::create(folder.join("sshd.log"))?);
        start_in(&mut command, Some(far.as_fd().try_clone_to_owned()?), None);
        let sshd = command.spawn()?;
        let begun = Instant::now();
        let listens = || fs::read_to_string(folder.join("sshd.log")).is_ok_and(|log| log.contains("listening"));
        while !listens() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok((here, far, sshd))
    }

    fn command(&self, place: &[&str]) -> Command {
        let mut command = Command::new(FARLINK);
        // The folder of a run may have any path.
        let arguments = ["run", "scenario.toml", "--out", "there/../run", "--force", "--json", "--in"];
        command.current_dir(&self.folder).args(arguments).args(place);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        start_in(&mut command, self.here.as_fd().try_clone_to_owned().ok(), None);
        command
    }

    fn run(&self) -> Output {
        self.command(&["lab"]).output().unwrap()
    }

    /// Programs of runs on the other machine: number and command line.
    fn programs(&self) -> Vec<(u32, String)> {
        let mut programs = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(line) = fs::read(process.path().join("cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let program = fs::read_link(process.path().join("exe")).unwrap_or_default();
            if program.starts_with(self.folder.join("there")) {
                programs.push((process.file_name().to_str().unwrap().parse().unwrap(), line));
            }
        }
        programs
    }

    /// Programs and files that runs have left on the other machine.
    fn left(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.join("there")).unwrap();
        let files = files.map(|entry| entry.unwrap().path().display().to_string());
        files.chain(self.programs().into_iter().map(|(_, line)| line)).collect()
    }

    /// Starts a run and waits until a node is there.
    fn start(&self) -> Child {
        let mut run = self.command(&["lab"]).spawn().unwrap();
        let begun = Instant::now();
        while !self.left().iter().any(|line| line.contains(" node ")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.left());
            assert!(run.try_wait().unwrap().is_none(), "{:?}", run.wait_with_output());
            std::thread::sleep(Duration::from_millis(50));
        }
        run
    }

    /// Waits until nothing is left there.
    fn wait_until_clean(&self) {
        let begun = Instant::now();
        while !self.left().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(40), "left: {:?}", self.left());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[test]
fn nodes_on_other_machine_exchange_bundles() {
    let Some(machines) = Machines::new("ssh", SCENARIO) else { return };
    let output = machines.run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Requests and replies, bundles, and the parts of the file.
    assert_eq!((&result["created"], &result["delivered"]), (&Value::from(63), &Value::from(63)), "{result}");
    // The delay of the network is part of the links', so none is shorter, by more than what clocks are wrong.
    let fastest = result["latency_s"]["min"].as_f64().unwrap();
    assert!((0.0595..0.4).contains(&fastest), "{result}");
    let text = fs::read_to_string(machines.folder.join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let file = &manifest["files"][0];
    assert_eq!((&file["received_bytes"], &file["sent_checksum"]), (&Value::from(300_000), &file["received_checksum"]));
    for part in ["Machine far: the network there and back took", "One-way times to and from its nodes are wrong by"] {
        assert!(text.contains(part), "{part}: {manifest}");
    }
    machines.wait_until_clean();
}

#[test]
fn nodes_of_any_scenario_run_on_other_machine() {
    let plain: Vec<&str> = SCENARIO.lines().filter(|line| !line.starts_with("host =")).collect();
    let Some(machines) = Machines::new("ssh-at", &plain.join("\n")) else { return };
    let output = machines.command(&["hosts"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("`--at MACHINE` names one"), "{output:?}");
    let at = ["hosts", "--at", "far", "--ssh-config", "ssh_config", "--program", "farlink"];
    let output = machines.command(&at).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["created"], &result["delivered"]), (&Value::from(63), &Value::from(63)), "{result}");
    let text = fs::read_to_string(machines.folder.join("run/manifest.json")).unwrap();
    assert!(text.contains("--in hosts --at far --ssh-config ssh_config --program farlink"), "{text}");
    machines.wait_until_clean();
}

#[test]
fn killed_run_leaves_nothing_on_other_machine() {
    let Some(machines) = Machines::new("ssh-killed", SCENARIO) else { return };
    let mut run = machines.start();
    run.kill().unwrap();
    run.wait().unwrap();
    machines.wait_until_clean();
}

#[test]
fn program_that_ends_there_is_told() {
    let Some(machines) = Machines::new("ssh-ends", SCENARIO) else { return };
    let end = |find: &dyn Fn() -> u32, which: Signal| {
        let run = machines.start();
        signal(find(), which).unwrap();
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(!output.status.success(), "{said}");
        machines.wait_until_clean();
        said
    };
    let program = |word: &str| machines.programs().into_iter().find(|(_, line)| line.contains(word)).unwrap().0;
    let said = end(&|| program("lab-supervisor"), Signal::Kill);
    assert!(said.contains("machine far: the supervisor there ended by itself (signal: 9"), "{said}");
    let said = end(&|| program("lab-agent"), Signal::Kill);
    assert!(said.contains("the connection to machine far ended") && said.contains("/run/machine-0.log has"), "{said}");
    let said = end(&|| program("lab-agent"), Signal::Terminate);
    assert!(said.contains("machine far: a signal there asked for the end"), "{said}");
    // Without the shell nobody but the program removes the folder.
    let shell = || {
        let status = fs::read_to_string(format!("/proc/{}/status", program("lab-agent"))).unwrap();
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap()
    };
    let said = end(&shell, Signal::Kill);
    assert!(said.contains("the connection to machine far ended"), "{said}");
}

#[test]
fn interrupt_ends_wait_for_silent_machine() {
    let folder = testbed::folder("ssh-silent", &SCENARIO.replace("program = \"farlink\"", "program = \"program\""));
    fs::copy(FARLINK, folder.join("program")).unwrap();
    // One that never says anything, and one that takes nothing of the program.
    let greeting = "echo farlink-machine $(uname -m) $(ls /lib/ld-* /lib64/ld-* 2>/dev/null | tr '\\n' ,) \
                    192.0.2.1 1 192.0.2.2 22";
    for script in ["exec sleep 1000".to_string(), format!("{greeting}; exec sleep 1000")] {
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/ssh"), format!("#!/bin/sh\n{script}\n")).unwrap();
        Command::new("chmod").arg("700").arg(folder.join("bin/ssh")).status().unwrap();
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(FARLINK);
        command.args(["run", "scenario.toml", "--in", "lab", "--out", "run", "--force"]).env("PATH", path);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let run = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let begun = Instant::now();
        signal(run.id(), Signal::Interrupt).unwrap();
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("error: machine far: stopped"), "{script}: {said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{script}: {:?}", begun.elapsed());
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_machine_cannot_do_is_told() {
    let Some(machines) = Machines::new("ssh-refused", SCENARIO) else { return };
    let run = |scenario: String| {
        fs::write(machines.folder.join("scenario.toml"), scenario).unwrap();
        let output = machines.run();
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(!output.status.success(), "{said}");
        machines.wait_until_clean();
        said
    };
    // The real network is longer than the link.
    let said = run(SCENARIO.replace("delay = \"30 ms\"", "delay = \"0 s\""));
    assert!(said.contains("link `second` takes 0ns, and the network to far takes"), "{said}");
    let said = run(SCENARIO.replace("at = \"far\"", "at = \"ssh://root@192.0.2.2:9\""));
    assert!(said.contains("machine ssh://root@192.0.2.2:9: connecting by ssh") && said.contains("refused"), "{said}");
    // A full disk.
    let there = machines.folder.join("there");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&there).status().unwrap();
    if mount.success() {
        let said = run(SCENARIO.into());
        Command::new("umount").arg(&there).status().unwrap();
        assert!(said.contains("No space left") && said.contains("must have room"), "{said}");
    }
    // A folder that cannot be written to.
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "tmpfs"]).arg(&there).status().unwrap();
    if mount.success() {
        let said = run(SCENARIO.into());
        Command::new("umount").arg(&there).status().unwrap();
        assert!(said.contains("Read-only file system") && said.contains("hint: ssh got there"), "{said}");
    }
    // A program for other processors.
    let program = machines.folder.join("farlink");
    let mut bytes = fs::read(&program).unwrap();
    bytes[18..20].copy_from_slice(&[243, 0]);
    fs::write(&program, bytes).unwrap();
    let said = run(SCENARIO.into());
    assert!(said.contains("is for riscv64") && said.contains("cargo xtask static --target"), "{said}");
    let restart = "[[fault]]\nkind = \"restart\"\nnode = \"far\"\nat = \"2 s\"\nlasts = \"1 s\"\n";
    let said = run(format!("{SCENARIO}{restart}"));
    assert!(said.contains("cannot be restarted"), "{said}");
}

//! `cargo xtask bench phases`: checks that the testbed reports memory and processor time of a program to within 2 %, in
//! the right phase, with control groups and without.

use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Memory that the program allocates in one phase, bytes.
const MEMORY: usize = 300_000_000;
/// Fraction of a processor that the program uses in another phase.
const BURN: f64 = 0.4;
/// Period of the processor load: busy for the fraction [`BURN`], then asleep.
const PERIOD: Duration = Duration::from_millis(50);
/// Times between the boundaries, and the names of the phases.
const PLAN: [(&str, Duration); 4] = [
    ("before", Duration::from_millis(1500)),
    ("memory", Duration::from_secs(3)),
    ("between", Duration::from_millis(1500)),
    ("burn", Duration::from_secs(8)),
];
/// Time between a boundary and the program's work, at either end of a phase.
const MARGIN: Duration = Duration::from_millis(400);
/// Largest difference that is accepted.
const TOLERANCE: f64 = 0.02;
/// ID of an ordinary user, where this runs as root.
const NOBODY: &str = "65534";

/// Runs the program in a host, once with this user's rights and, as root, once as an ordinary user.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    if arguments.flag("--program") {
        return program();
    }
    let runs = arguments.number("--runs", 3)?;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench phases");
    }
    let farlink = std::path::absolute(tools::farlink()?)?;
    let mut users = vec![None];
    users.extend(rustix::process::geteuid().is_root().then_some(Some(NOBODY)));
    println!("| user | counted by | memory told, MB | of 300 MB | burnt, s | told, s | difference |");
    println!("|---|---|---|---|---|---|---|");
    let mut worst: f64 = 0.0;
    for user in users {
        for _ in 0..runs {
            worst = worst.max(measure(&farlink, user)?);
        }
    }
    ensure!(worst <= TOLERANCE, "told to {:.1} %, {:.0} % wanted", worst * 100.0, TOLERANCE * 100.0);
    println!("\nAll within {:.2} %.", worst * 100.0);
    Ok(())
}

/// One run; returns the largest relative difference.
fn measure(farlink: &Path, user: Option<&str>) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    // The program, which may run as another user, writes its output there.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    let mut supervisor = Supervisor::start(farlink, user)?;
    supervisor.ask(&json!({"do": "set_up", "cables": [], "hosts": [host()]}))?;
    let made = supervisor.wait_for("set_up")?;
    let way = if made["no_groups"].is_null() { "control groups" } else { "/proc" };
    supervisor.ask(&json!({"do": "probe", "interval_ms": 100, "tcp": false, "stores": []}))?;
    let own = std::env::current_exe()?;
    supervisor.ask(&json!({
        "do": "spawn", "id": 1, "host": 0, "role": "implementation", "directory": folder.path(), "environment": {},
        "command": [own, "bench", "phases", "--program"], "stderr": null, "stdout": folder.path().join("program.out"),
    }))?;
    let begun = Instant::now();
    let (mut at, mut told) = (Duration::ZERO, Vec::new());
    for (number, (_, lasts)) in PLAN.iter().enumerate() {
        at += *lasts;
        supervisor.read_until(begun + at)?;
        supervisor.ask(&json!({"do": "phase", "number": number}))?;
        told.push(supervisor.end_phase(number)?);
    }
    supervisor.ask(&json!({"do": "signal", "id": 1, "signal": "terminate"}))?;
    let text = std::fs::read_to_string(folder.path().join("program.out")).context("what the program burnt")?;
    let burnt: f64 = text.trim().parse().with_context(|| format!("`{text}` is no time"))?;
    let [before, memory, between, burn] = [0, 1, 2, 3].map(|phase: usize| &told[phase]);
    // Memory and time that the program uses otherwise are known from the preceding phases.
    let (held, cpu_s) = (memory.anonymous - before.anonymous, burn.cpu_s - between.cpu_s);
    ensure!(burn.anonymous < MEMORY as f64 / 10.0, "the peak of memory is told in the phase of the burning");
    ensure!(between.cpu_s - memory.cpu_s < 0.05, "time is told in a phase in which it sleeps");
    let memory_off = (held / MEMORY as f64 - 1.0).abs();
    let cpu_off = (cpu_s / burnt - 1.0).abs();
    println!(
        "| {} | {way} | {:.1} | {:.2} % | {burnt:.3} | {cpu_s:.3} | {:.2} % |",
        user.unwrap_or("own"),
        held / 1e6,
        memory_off * 100.0,
        cpu_off * 100.0
    );
    Ok(memory_off.max(cpu_off))
}

fn host() -> Value {
    json!({
        "name": "a", "limits": {"cpus": [], "quota": null, "memory": null},
        "tcp": {"congestion": null, "send_buffer": 4 << 20, "receive_buffer": 6 << 20, "sack": true,
            "window_scaling": true},
    })
}

/// Load with known consumption: allocates memory in one phase, uses the processor in another, and prints the processor
/// time used, in seconds.
fn program() -> Result<()> {
    let begun = Instant::now();
    let sleep_until = |at: Duration| std::thread::sleep(at.saturating_sub(begun.elapsed()));
    let [before, memory, between, burn] = PLAN.map(|(_, lasts)| lasts);
    sleep_until(before + MARGIN);
    let held = vec![1u8; MEMORY];
    std::hint::black_box(&held);
    sleep_until(before + memory - MARGIN);
    drop(held);
    let first = before + memory + between + MARGIN;
    sleep_until(first);
    let (mut due, mut turn) = (0.0, 0);
    let cpu_before = cpu_s();
    while begun.elapsed() < before + memory + between + burn - MARGIN {
        due += PERIOD.as_secs_f64() * BURN;
        while cpu_s() - cpu_before < due {
            std::hint::spin_loop();
        }
        turn += 1;
        sleep_until(first + PERIOD * turn);
    }
    println!("{}", cpu_s() - cpu_before);
    std::io::stdout().flush()?;
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Processor time of this process, s.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor time and memory of the program, as the supervisor reported them up to the end of a phase.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseTold {
    cpu_s: f64,
    /// Peak of anonymous memory in the phase, bytes.
    anonymous: f64,
}

/// A supervisor of `farlink`, addressed by lines of JSON.
struct Supervisor {
    child: Child,
    input: ChildStdin,
    replies: Receiver<Value>,
    now: PhaseTold,
}

impl Supervisor {
    fn start(farlink: &Path, user: Option<&str>) -> Result<Supervisor> {
        let mut command = match user {
            None => Command::new(farlink),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(farlink);
                command
            }
        };
        command.arg("lab-supervisor").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting `{}`", tools::shown(&command)))?;
        let (input, output) = (child.stdin.take().context("stdin")?, child.stdout.take().context("stdout")?);
        let (send, replies) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap_or_default());
            }
        });
        let mut supervisor = Supervisor { child, input, replies, now: PhaseTold::default() };
        supervisor.wait_for("ready")?;
        Ok(supervisor)
    }

    fn ask(&mut self, request: &Value) -> Result<()> {
        Ok(writeln!(self.input, "{request}")?)
    }

    fn wait_for(&mut self, say: &str) -> Result<Value> {
        let limit = Instant::now() + Duration::from_secs(10);
        while let Some(reply) = self.next(limit)? {
            if reply["say"] == say {
                return Ok(reply);
            }
        }
        bail!("the supervisor does not say `{say}`")
    }

    fn read_until(&mut self, at: Instant) -> Result<()> {
        while self.next(at)?.is_some() {}
        Ok(())
    }

    /// Waits for the boundary that begins the next phase; returns the values reported up to it.
    fn end_phase(&mut self, number: usize) -> Result<PhaseTold> {
        let boundary = self.wait_for("phase")?;
        ensure!(boundary["number"] == number, "another boundary: {boundary}");
        let told = self.now;
        self.now.anonymous = 0.0;
        Ok(told)
    }

    /// Waits until `limit` for the supervisor's next reply, and stores the readings in it.
    fn next(&mut self, limit: Instant) -> Result<Option<Value>> {
        let Ok(reply) = self.replies.recv_timeout(limit.saturating_duration_since(Instant::now())) else {
            return Ok(None);
        };
        ensure!(reply["say"] != "failed", "{}", reply["reason"].as_str().unwrap_or_default());
        for role in reply["readings"].as_array().into_iter().flatten().map(|reading| &reading["role"]) {
            if role["role"] == "implementation" {
                let number = |key: &str| role[key].as_f64().unwrap_or(0.0);
                self.now.cpu_s = (number("cpu_user_ns") + number("cpu_system_ns")) / 1e9;
                self.now.anonymous = self.now.anonymous.max(number("anonymous"));
            }
        }
        Ok(Some(reply))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // All processes of the supervisor end with it; then a process outside its namespaces removes its control
        // groups.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

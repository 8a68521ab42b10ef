//! `cargo xtask bench emulator`: cost and lateness of the testbed's link emulator, beside another build of it.

use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A kind of traffic through a kind of link.
struct Load {
    name: &'static str,
    link: &'static str,
    /// Arguments of the sender, `farlink flow`.
    flow: &'static [&'static str],
}

const LOADS: [Load; 5] = [
    Load { name: "TCP, 10 ms", link: "delay=10 ms", flow: &[] },
    Load { name: "TCP, 1 Gbit/s, 10 ms", link: "rate=1 Gbit/s,delay=10 ms", flow: &[] },
    Load { name: "datagrams of 1400 B, 10 ms", link: "delay=10 ms", flow: &["--udp"] },
    Load {
        name: "1000 datagrams a second, 10 ms",
        link: "delay=10 ms",
        flow: &["--udp", "--rate", "800 kbit/s", "--datagram", "100 B"],
    },
    Load {
        name: "datagrams at 1 Gbit/s, 2 s",
        link: "rate=1.1 Gbit/s,delay=2 s",
        flow: &["--udp", "--rate", "1 Gbit/s", "--datagram", "1360 B"],
    },
];

/// TCP buffers of the hosts, bytes: 64 MiB of payload, doubled for the kernel's bookkeeping.
const BUFFERS: u64 = 2 * (64 << 20);

/// Figures of one run.
#[derive(Clone, Copy, Default, Debug)]
struct Figures {
    gbit_s: f64,
    datagrams_s: f64,
    /// Processor seconds of the emulator per gigabyte of payload received.
    cpu_s_gb: f64,
    /// Processor microseconds of the emulator per datagram sent.
    us_datagram: f64,
    late_p50_us: f64,
    late_p99_us: f64,
    lost: f64,
    memory_mb: f64,
}

/// Runs every load with this build, alternating with the build that `--against` names.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let runs = arguments.number("--runs", 5)?;
    let seconds = arguments.number("--seconds", 5)?;
    let only = arguments.word("--only")?.unwrap_or_default();
    let against = arguments.word("--against")?.map(PathBuf::from);
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench emulator");
    }
    let ours = std::path::absolute(tools::farlink()?)?;
    let mut programs = vec![("this build", ours.clone())];
    if let Some(other) = against {
        programs.insert(0, ("the other", std::path::absolute(other)?));
    }
    println!("{HEAD}");
    for load in LOADS.iter().filter(|load| load.name.contains(only)) {
        let mut all: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
        for _ in 0..runs {
            for (name, program) in &programs {
                let figures = measure(program, &ours, load, seconds)
                    .with_context(|| format!("{} with {}", load.name, program.display()))?;
                all.entry(name).or_default().push(figures);
            }
        }
        for (name, _) in &programs {
            println!("{}", row(load.name, name, &all[name]));
        }
        if let [other, ours] = &programs[..] {
            let cost = |figures: &Figures| figures.cpu_s_gb;
            let ratios = all[ours.0].iter().zip(&all[other.0]).map(|(a, b)| cost(a) / cost(b));
            println!("| | ratio of processor time, each pair | {} |", spread(ratios.collect(), 2));
        }
    }
    println!("\nMedians of {runs} runs of {seconds} s, with minimum and maximum.");
    Ok(())
}

const HEAD: &str = "| traffic | build | Gbit/s | datagrams/s | emulator CPU-s/GB | µs a datagram | late p50, µs | \
                    late p99, µs | lost | memory, MB |\n|---|---|---|---|---|---|---|---|---|---|";

fn row(load: &str, build: &str, figures: &[Figures]) -> String {
    let mut text = format!("| {load} | {build} |");
    let columns: [(fn(&Figures) -> f64, usize); 8] = [
        (|f| f.gbit_s, 2),
        (|f| f.datagrams_s, 0),
        (|f| f.cpu_s_gb, 2),
        (|f| f.us_datagram, 2),
        (|f| f.late_p50_us, 0),
        (|f| f.late_p99_us, 0),
        (|f| f.lost, 0),
        (|f| f.memory_mb, 0),
    ];
    for (value, digits) in columns {
        let _ = write!(text, " {} |", spread(figures.iter().map(value).collect(), digits));
    }
    text
}

/// Median, minimum and maximum.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(least), Some(median), Some(most)) => format!("{median:.digits$} ({least:.digits$}..{most:.digits$})"),
        _ => "-".into(),
    }
}

/// Emulates the link with `program` for one flow, whose ends run the program `flow`.
fn measure(program: &Path, flow: &Path, load: &Load, seconds: u64) -> Result<Figures> {
    let folder = tempfile::tempdir()?;
    let results = ["received", "sent"].map(|name| folder.path().join(name));
    let shell = |words: &[&str], result: &Path| {
        // As in the testbed: equal TCP buffers, and real-time priority where that is permitted.
        let buffers = format!("4096 131072 {BUFFERS}");
        format!(
            "for b in tcp_rmem tcp_wmem; do echo '{buffers}' > /proc/sys/net/ipv4/$b; done; \
             turns=; chrt -r 10 true 2>/dev/null && turns='chrt -r 10'; $turns {} flow --json {} > {}",
            flow.display(),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            result.display()
        )
    };
    let seconds = seconds.to_string();
    let mut sender = vec!["10.77.0.2:5201", "--seconds", &seconds];
    sender.extend(load.flow);
    let mut receiver = vec!["--receive", "10.77.0.2:5201", "--once"];
    receiver.extend(load.flow.first());
    let mut command = Command::new(program);
    command.args(["emulate", "--json", "--link", load.link]);
    command.args(["--run-a", &format!("sleep 1; {}", shell(&sender, &results[1]))]);
    // The emulation ends with the receiver.
    command.args(["--run-b", &shell(&receiver, &results[0])]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let used = watch(&mut child)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`{}` failed ({})", tools::shown(&command), output.status);
    }
    let summary: Value = serde_json::from_slice(&output.stdout).context("the summary")?;
    let read = |path: &Path| -> Result<Value> { Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?) };
    let (received, sent) = (read(&results[0])?, read(&results[1])?);
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(0.0);
    let directions = summary["directions"].as_array().context("directions")?;
    let forward = directions.iter().find(|d| d["from"] == "a").context("the sender's direction")?;
    let datagrams = number(&sent, "datagrams");
    Ok(Figures {
        gbit_s: number(&received, "bit_s") / 1e9,
        datagrams_s: number(&received, "datagrams") / number(&received, "seconds").max(1e-9),
        cpu_s_gb: used.cpu_s / (number(&received, "bytes") / 1e9),
        us_datagram: if datagrams > 0.0 { used.cpu_s * 1e6 / datagrams } else { 0.0 },
        late_p50_us: number(forward, "late_p50_us"),
        late_p99_us: number(forward, "late_p99_us"),
        lost: number(forward, "own_losses") + (datagrams - number(&received, "datagrams")).max(0.0),
        memory_mb: used.memory_mb,
    })
}

#[derive(Default)]
struct Used {
    cpu_s: f64,
    memory_mb: f64,
}

/// Processor time and memory of the emulator's process, by `/proc`, until the program ends.
fn watch(child: &mut Child) -> Result<Used> {
    let mut used = Used::default();
    while child.try_wait()?.is_none() {
        if let Some(now) = emulator_below(child.id()).and_then(usage) {
            used = Used { cpu_s: now.cpu_s.max(used.cpu_s), memory_mb: now.memory_mb.max(used.memory_mb) };
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(used)
}

/// Finds the emulator among the descendants of a process: the deepest one with a supervisor's command line and threads.
fn emulator_below(process: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let threads = |process: u32| std::fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    let line = |process: u32| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    children.split_whitespace().filter_map(|word| word.parse().ok()).find_map(|child: u32| {
        let supervises = line(child).windows(14).any(|part| part == b"lab-supervisor");
        if !supervises {
            return None;
        }
        // PID 1 stays without threads, so a supervisor's process with several is the emulator.
        emulator_below(child).or_else(|| (threads(child) > 1).then_some(child))
    })
}

fn usage(process: u32) -> Option<Used> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // utime and stime: the 14th and 15th field of proc_pid_stat(5), counted here from the third.
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = peak.split_whitespace().next()?.parse().ok()?;
    Some(Used { cpu_s: ticks / rustix::param::clock_ticks_per_second() as f64, memory_mb: kib * 1024.0 / 1e6 })
}

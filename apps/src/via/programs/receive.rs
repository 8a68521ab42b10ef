//! Receivers by a program that logs its deliveries, or that is run again and again.

use super::super::lines::{LogTail, StartedProgram};
use super::super::queue::ByteQueue;
use super::super::{BundleReceiver, DeliveredPayload, MESSAGE_MAX};
use super::{OwnCommand, OwnProgram, expression};
use anyhow::{Context, Result, bail, ensure};
use regex_lite::Regex;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two reads of a log, and so the longest delay of a delivery.
const LOOK: Duration = Duration::from_millis(2);
/// Longest run of a program that is run again and again.
const RUN_MAX: Duration = Duration::from_secs(60);

/// Receiver that starts this program and reads its deliveries.
pub fn receiver(command: &OwnCommand, program: &OwnProgram, endpoint: &str) -> Result<Box<dyn BundleReceiver>> {
    let values = [("endpoint", endpoint.to_string()), ("source", endpoint.to_string()), ("count", "0".into())];
    let folder = PathBuf::from(program.folder.as_deref().unwrap_or("."));
    std::fs::create_dir_all(&folder).with_context(|| format!("the folder {}", folder.display()))?;
    if let Some(every) = &program.every {
        let pause = farlink_base::parse_duration(every).map_err(anyhow::Error::msg)?;
        let (command, waiting) = (command.clone(), VecDeque::new());
        let values = values.map(|(name, value)| (name, value)).to_vec();
        return Ok(Box::new(RepeatedReceiver { command, values, folder, pause, waiting, run_at: None }));
    }
    let each = program.each.as_deref().map(expression).transpose()?;
    // The log is opened first, so that no line of the program is missed.
    let log = program.log.as_ref().map(LogTail::from_now);
    let output = if log.is_some() { Stdio::null() } else { Stdio::piped() };
    let mut program = command.start(&values, &folder, output)?;
    let source = match log {
        Some(log) => LineSource::Log(log),
        None => LineSource::Output(program.lines()?),
    };
    Ok(Box::new(LineReceiver { program, source, each, folder, waiting: VecDeque::new() }))
}

/// Source of lines that report deliveries.
enum LineSource {
    Log(LogTail),
    Output(Arc<ByteQueue<(u64, String)>>),
}

struct LineReceiver {
    program: StartedProgram,
    source: LineSource,
    each: Option<Regex>,
    folder: PathBuf,
    waiting: VecDeque<(u64, String)>,
}

impl LineReceiver {
    /// Payload whose delivery a line reports, if any.
    fn payload(&self, at_ns: u64, line: &str) -> Result<Option<DeliveredPayload>> {
        let bytes = match &self.each {
            None => Vec::new(),
            Some(each) => match each.captures(line).and_then(|groups| groups.get(1)) {
                None => return Ok(None),
                Some(name) => read_file(&self.folder.join(name.as_str()))?,
            },
        };
        Ok(Some(DeliveredPayload { at_ns, source: None, bytes }))
    }
    /// Next line and its time (monotonic ns); `None` if none comes within `wait`.
    fn line(&mut self, wait: Duration) -> Result<Option<(u64, String)>> {
        match &mut self.source {
            LineSource::Output(lines) => lines.pop(wait),
            LineSource::Log(log) => {
                let until = Instant::now() + wait;
                loop {
                    if let Some(line) = self.waiting.pop_front() {
                        return Ok(Some(line));
                    }
                    // Read only when all earlier lines are taken, so that a long log does not fill memory.
                    log.read(|line| self.waiting.push_back((farlink_os::monotonic_ns(), line)));
                    if !self.waiting.is_empty() {
                        continue;
                    }
                    if let Some(status) = self.program.ended()? {
                        bail!("`{}` ended: {status}", self.program.shown());
                    }
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    std::thread::sleep(LOOK.min(left));
                }
            }
        }
    }
}

impl BundleReceiver for LineReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let until = Instant::now() + wait;
        loop {
            let line = self.line(until.saturating_duration_since(Instant::now()))?;
            let Some((at_ns, line)) = line else { return Ok(None) };
            if let Some(payload) = self.payload(at_ns, &line)? {
                return Ok(Some(payload));
            }
        }
    }
}

/// Reads the payload in a file, and removes the file.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let file = || format!("the file {} of a payload", path.display());
    let mut bytes = Vec::new();
    File::open(path).and_then(|open| open.take(MESSAGE_MAX + 1).read_to_end(&mut bytes)).with_context(file)?;
    ensure!(bytes.len() as u64 <= MESSAGE_MAX, "{} is longer than {MESSAGE_MAX} bytes", file());
    std::fs::remove_file(path).with_context(file)?;
    Ok(bytes)
}

/// Receiver whose program leaves what has arrived in a folder, and ends.
struct RepeatedReceiver {
    command: OwnCommand,
    values: Vec<(&'static str, String)>,
    folder: PathBuf,
    pause: Duration,
    waiting: VecDeque<PathBuf>,
    /// Earliest time of the next run; `None` before the first.
    run_at: Option<Instant>,
}

impl RepeatedReceiver {
    fn run(&mut self) -> Result<()> {
        let mut program = self.command.start(&self.values, &self.folder, Stdio::null())?;
        let status = program.wait_until(Instant::now() + RUN_MAX)?;
        // The exit status is ignored: some programs fail if nothing has arrived.
        status.with_context(|| format!("`{}` still ran after {} s", program.shown(), RUN_MAX.as_secs()))?;
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_file() {
                self.waiting.push_back(path);
            }
        }
        self.waiting.make_contiguous().sort();
        self.run_at = Some(Instant::now() + self.pause);
        Ok(())
    }
}

impl BundleReceiver for RepeatedReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(path) = self.waiting.pop_front() {
                return Ok(Some(DeliveredPayload::now(None, read_file(&path)?)));
            }
            let now = Instant::now();
            match self.run_at.map(|at| at.saturating_duration_since(now)).filter(|pause| !pause.is_zero()) {
                None => self.run()?,
                Some(pause) if now + pause > until => {
                    std::thread::sleep(until.saturating_duration_since(now));
                    return Ok(None);
                }
                Some(pause) => std::thread::sleep(pause),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Programs;
    use super::*;
    use crate::via::SenderTerms;
    use serde_json::json;

    const WAIT: Duration = Duration::from_secs(20);

    fn programs(value: serde_json::Value) -> Programs {
        Programs::parse(&value.to_string()).unwrap()
    }

    fn received(receiver: &mut dyn BundleReceiver) -> Vec<u8> {
        receiver.receive(WAIT).unwrap().expect("nothing arrived").bytes
    }

    #[test]
    fn sent_files_are_received_through_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        // The sender copies a payload to the receiver's folder, then logs it, as ION's programs do.
        let send = "cp \"$1\" \"$PLACE\"/in/$3; echo \"[i] $2 has created '$3', size x\" >> \"$PLACE\"/ion.log";
        let programs = programs(json!({
            "environment": { "PLACE": path("") },
            "send": { "run": ["sh", "-c", send, "-", "{file}", "{to}:{lifetime_s}", "n-{size}"], "remove": true },
            "receive": {
                "run": ["sh", "-c", "echo started >> ../started; exec sleep 60"], "folder": path("in"),
                "log": path("ion.log"), "each": "has created '([^']+)'",
            },
        }));
        std::fs::write(path("ion.log"), "[i] old has created 'old', size 1\n").unwrap();
        let mut receiver = programs.receiver("ipn:2.42").unwrap();
        let terms = SenderTerms { source: None, lifetime: Duration::from_millis(1), window: 8 };
        let mut sender = programs.sender(&terms).unwrap();
        for size in [1, 1000, 100_000] {
            let payload = vec![size as u8; size];
            sender.room().unwrap();
            sender.hand_over("ipn:2.42", payload.clone()).unwrap();
            assert_eq!(received(receiver.as_mut()), payload);
        }
        assert_eq!(receiver.receive(Duration::ZERO).unwrap(), None);
        assert!(std::fs::read_to_string(path("ion.log")).unwrap().contains("ipn:2.42:1 has created"));
        assert_eq!(std::fs::read_dir(path("in")).unwrap().count(), 0, "payloads are removed");
    }

    #[test]
    fn lines_alone_are_counted() {
        let programs =
            programs(json!({ "receive": { "run": ["sh", "-c", "echo 1; echo \"$1\"", "-", "{endpoint}"] } }));
        let mut receiver = programs.receiver("ipn:2.42").unwrap();
        assert_eq!((received(receiver.as_mut()), received(receiver.as_mut())), (Vec::new(), Vec::new()));
        assert!(receiver.receive(WAIT).unwrap_err().to_string().contains("ended"));
    }

    #[test]
    fn repeated_program_leaves_files() {
        let folder = tempfile::tempdir().unwrap();
        let script = "n=$(cat ../n 2>/dev/null || echo 0); echo $((n + 1)) > ../n; printf a$n > a$n; printf b$n > b$n";
        let received_at = folder.path().join("in").display().to_string();
        let run = json!(["sh", "-c", script]);
        let programs = programs(json!({ "receive": { "run": run, "folder": received_at, "every": "20 ms" } }));
        let mut receiver = programs.receiver("x").unwrap();
        let came: Vec<Vec<u8>> = (0..4).map(|_| received(receiver.as_mut())).collect();
        assert_eq!(came, [b"a0", b"b0", b"a1", b"b1"]);
    }

    #[test]
    fn failing_programs_are_errors() {
        let terms = SenderTerms { source: None, lifetime: WAIT, window: 1 };
        let sent = |run: serde_json::Value| {
            let mut sender = programs(json!({ "send": { "run": run } })).sender(&terms).unwrap();
            format!("{:#}", sender.hand_over("ipn:1.1", vec![1]).unwrap_err())
        };
        assert!(sent(json!(["sh", "-c", "exit 4"])).contains("`sh -c exit 4` failed: exit status: 4"));
        assert!(sent(json!(["/no/such/program"])).contains("cannot run `/no/such/program`"));
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let gone = json!({ "run": ["sh", "-c", "exit 5"], "log": log, "each": "(x)" });
        let mut receiver = programs(json!({ "receive": gone })).receiver("1").unwrap();
        assert!(receiver.receive(WAIT).unwrap_err().to_string().contains("ended: exit status: 5"));
        let absent = json!({ "run": ["sh", "-c", "echo created nothing; sleep 60"], "each": "created (.*)" });
        let mut receiver = programs(json!({ "receive": absent })).receiver("1").unwrap();
        assert!(format!("{:#}", receiver.receive(WAIT).unwrap_err()).contains("the file ./nothing of a payload"));
    }
}

//! Waiting until a node takes applications: `farlink app ready`.

use super::ATTENTION;
use super::lines::{LogTail, StartedProgram};
use anyhow::{Result, anyhow, bail};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sign that a node takes applications.
#[derive(Clone, Debug)]
pub enum ReadySign {
    /// A TCP connection to this address succeeds.
    Connect(String),
    /// This program ends with status 0.
    Run(Vec<String>),
    /// This file exists.
    File(PathBuf),
    /// A line of this log matches.
    Log(PathBuf, Regex),
}

impl ReadySign {
    /// Sign that a line of a log matches `pattern`.
    ///
    /// # Errors
    /// If `pattern` is not a regular expression.
    pub fn log(path: PathBuf, pattern: &str) -> Result<ReadySign, String> {
        Ok(ReadySign::Log(path, Regex::new(pattern).map_err(|why| why.to_string())?))
    }
    /// Description for messages, after "waited for".
    fn awaited(&self) -> String {
        match self {
            ReadySign::Connect(address) => format!("a connection to {address}"),
            ReadySign::Run(words) => format!("`{}` to succeed", words.join(" ")),
            ReadySign::File(path) => format!("the file {}", path.display()),
            ReadySign::Log(path, pattern) => format!("a line like `{pattern}` in {}", path.display()),
        }
    }
}

/// Waits for the sign and creates `touch`. A file of that name is removed first.
///
/// # Errors
/// If the sign does not appear within the time, or `stop` was set, or the file cannot be created.
pub fn wait_ready(sign: &ReadySign, within: Duration, touch: &Path, stop: &AtomicBool) -> Result<()> {
    // The file may be left from an earlier start of the node.
    let _ = std::fs::remove_file(touch);
    let begun = Instant::now();
    let mut log = match sign {
        ReadySign::Log(path, _) => Some(LogTail::whole(path)),
        _ => None,
    };
    let mut latest = String::new();
    loop {
        let until = begun + within.min(Duration::from_secs(1 << 32));
        if appears(sign, log.as_mut(), until, &mut latest)? {
            std::fs::write(touch, "").map_err(|why| {
                let touch = touch.display();
                anyhow!("{touch} cannot be created: {why}\nhint: --touch names a file in a folder that exists")
            })?;
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped while waiting for {}", sign.awaited());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!(
                "the node is not ready within {} s: waited for {}{latest}\nhint: its log may name the reason; --within \
                 sets the time",
                within.as_secs_f64(),
                sign.awaited()
            );
        }
        std::thread::sleep(left.min(ATTENTION));
    }
}

/// Whether the sign is there; `latest` explains why not.
fn appears(sign: &ReadySign, log: Option<&mut LogTail>, until: Instant, latest: &mut String) -> Result<bool> {
    match sign {
        ReadySign::Connect(address) => match TcpStream::connect(address) {
            Ok(_) => return Ok(true),
            Err(why) => *latest = format!(" ({why})"),
        },
        ReadySign::File(path) => return Ok(path.exists()),
        ReadySign::Run(words) => {
            // A program that hangs must not outlast the time.
            let mut program = StartedProgram::start(words, &BTreeMap::new(), Path::new("."), Stdio::null())?;
            match program.wait_until(until)? {
                Some(status) if status.success() => return Ok(true),
                Some(status) => *latest = format!(" ({status})"),
                None => *latest = " (it still runs)".into(),
            }
        }
        ReadySign::Log(_, pattern) => {
            let Some(log) = log else { return Ok(false) };
            let mut found = false;
            while log.read(|line| found |= pattern.is_match(&line)) {}
            // The line may stay without a newline for long, so its beginning is matched, too.
            return Ok(found || pattern.is_match(&log.begun()));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const SHORT: Duration = Duration::from_millis(120);
    const LONG: Duration = Duration::from_secs(20);

    struct Waiting {
        folder: tempfile::TempDir,
    }
    impl Waiting {
        fn new() -> Waiting {
            Waiting { folder: tempfile::tempdir().unwrap() }
        }
        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
        fn wait(&self, sign: &ReadySign, within: Duration) -> Result<()> {
            let result = wait_ready(sign, within, &self.path("ready"), &AtomicBool::new(false));
            assert_eq!(result.is_ok(), self.path("ready").exists());
            result
        }
        /// Waits in vain, then again while `appear` is called a little later.
        fn both(&self, sign: &ReadySign, awaited: &str, appear: impl FnOnce() + Send) {
            let why = self.wait(sign, SHORT).unwrap_err().to_string();
            assert!(why.contains(&format!("not ready within 0.12 s: waited for {awaited}")), "{why}");
            assert!(why.contains("\nhint: "), "{why}");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    appear();
                });
                self.wait(sign, LONG).unwrap();
            });
        }
    }

    #[test]
    fn connection_is_awaited() {
        let waiting = Waiting::new();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut listener = None;
        let sign = ReadySign::Connect(address.to_string());
        waiting.both(&sign, &format!("a connection to {address}"), || listener = Some(TcpListener::bind(address)));
    }

    #[test]
    fn program_is_run_until_success() {
        let waiting = Waiting::new();
        let file = waiting.path("up");
        let sign = ReadySign::Run(["test", "-e", file.to_str().unwrap()].map(String::from).to_vec());
        waiting.both(&sign, "`test -e ", || std::fs::write(&file, "").unwrap());
        let hangs = ReadySign::Run(["sleep", "60"].map(String::from).to_vec());
        assert!(waiting.wait(&hangs, SHORT).unwrap_err().to_string().contains("`sleep 60` to succeed (it still runs)"));
        let absent = ReadySign::Run(vec!["/no/such/program".into()]);
        assert!(format!("{:#}", waiting.wait(&absent, LONG).unwrap_err()).contains("cannot run `/no/such/program`"));
    }

    #[test]
    fn file_is_awaited() {
        let waiting = Waiting::new();
        let file = waiting.path("socket");
        waiting.both(&ReadySign::File(file.clone()), "the file ", || std::fs::write(&file, "").unwrap());
    }

    #[test]
    fn line_of_the_log_is_awaited() {
        let waiting = Waiting::new();
        let log = waiting.path("log");
        std::fs::write(&log, "starting\nnot listening yet\n").unwrap();
        let sign = ReadySign::log(log.clone(), "^listening at [0-9]+").unwrap();
        waiting.both(&sign, "a line like `^listening at [0-9]+` in ", || {
            std::fs::write(&log, "starting\nnot listening yet\nlistening at 4556").unwrap();
        });
        assert!(ReadySign::log(log, "(").is_err());
    }

    #[test]
    fn stop_and_wrong_folder_are_errors() {
        let waiting = Waiting::new();
        let (sign, stop) = (ReadySign::File("/no/such/file".into()), AtomicBool::new(true));
        let why = wait_ready(&sign, LONG, &waiting.path("ready"), &stop).unwrap_err().to_string();
        assert_eq!(why, "stopped while waiting for the file /no/such/file");
        let sign = ReadySign::File(waiting.folder.path().into());
        let why = wait_ready(&sign, LONG, Path::new("/no/such/ready"), &stop).unwrap_err().to_string();
        assert!(why.starts_with("/no/such/ready cannot be created: ") && why.contains("hint: "), "{why}");
    }
}

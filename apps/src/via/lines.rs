//! Lines of programs: of a log that grows, and of the output of a program that this one starts.

use super::queue::ByteQueue;
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest line kept, bytes; the rest of a longer one is dropped.
const LINE_MAX: usize = 64 << 10;
/// Bytes of a log read at once.
const PIECE: u64 = 1 << 20;
/// Time that a program has to end after SIGINT, and after SIGTERM, before the next stronger signal.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two checks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Splits bytes into lines of bounded length.
#[derive(Default)]
pub struct LineSplitter {
    begun: Vec<u8>,
}

impl LineSplitter {
    /// Passes each line that these bytes complete to `each`.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (line, ends) = part.strip_suffix(b"\n").map_or((part, false), |line| (line, true));
            let room = LINE_MAX.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&line[..line.len().min(room)]);
            if ends {
                each(self.begun());
                self.begun.clear();
            }
        }
    }
    /// Beginning of a line that is not complete yet.
    pub fn begun(&self) -> String {
        String::from_utf8_lossy(&self.begun).trim_end_matches('\r').to_string()
    }
}

/// Log that other programs write, read from a position on.
pub struct LogTail {
    path: PathBuf,
    at: u64,
    splitter: LineSplitter,
}

impl LogTail {
    /// Log from its beginning; it may appear later.
    pub fn whole(path: impl Into<PathBuf>) -> LogTail {
        LogTail { path: path.into(), at: 0, splitter: LineSplitter::default() }
    }
    /// Log from its present end.
    pub fn from_now(path: impl Into<PathBuf>) -> LogTail {
        let path = path.into();
        let at = std::fs::metadata(&path).map_or(0, |file| file.len());
        LogTail { path, at, splitter: LineSplitter::default() }
    }
    /// Passes the lines in at most 1 MiB of new bytes to `each`; returns whether there is more.
    pub fn read(&mut self, each: impl FnMut(String)) -> bool {
        let Ok(mut file) = File::open(&self.path) else { return false };
        // A log that became shorter was begun again.
        if file.metadata().is_ok_and(|file| file.len() < self.at) {
            self.at = 0;
        }
        if file.seek(SeekFrom::Start(self.at)).is_err() {
            return false;
        }
        let mut piece = Vec::new();
        // Bytes read before an error count, too.
        let _ = file.take(PIECE).read_to_end(&mut piece);
        self.at += piece.len() as u64;
        self.splitter.push(&piece, each);
        piece.len() as u64 == PIECE
    }
    /// Beginning of a line that is not complete yet.
    pub fn begun(&self) -> String {
        self.splitter.begun()
    }
}

/// Starts a program; errors name it `shown`.
pub fn spawn(command: &mut Command, shown: &str) -> Result<Child> {
    command.spawn().map_err(|why| anyhow!("cannot run `{shown}`: {why}\nhint: is it installed, and in the PATH?"))
}

/// Program started here. Dropping it ends the program: by SIGINT, then SIGTERM, then SIGKILL, so that programs can
/// leave shared memory intact.
pub struct StartedProgram {
    child: Child,
    shown: String,
}

impl StartedProgram {
    /// Starts a program in a folder, with variables of its environment and without input; its output goes to `output`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        words: &[String],
        environment: &BTreeMap<String, String>,
        folder: &Path,
        output: Stdio,
    ) -> Result<StartedProgram> {
        let (program, arguments) = words.split_first().context("no program is named")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(environment).current_dir(folder).stdin(Stdio::null()).stdout(output);
        farlink_os::process::start_in(&mut command, None, None);
        let shown: String = words.join(" ").chars().take(200).collect();
        let child = spawn(&mut command, &shown)?;
        Ok(StartedProgram { child, shown })
    }
    /// Starts a thread that reads the output's lines, with monotonic times in ns; the output must be a pipe.
    ///
    /// # Errors
    /// If the output is not a pipe.
    pub fn lines(&mut self) -> Result<Arc<ByteQueue<(u64, String)>>> {
        let mut output = BufReader::new(self.child.stdout.take().context("no output")?);
        let (queue, shown) = (Arc::new(ByteQueue::default()), self.shown.clone());
        let lines = Arc::clone(&queue);
        std::thread::Builder::new().name("lines".into()).spawn(move || {
            let (mut splitter, mut piece) = (LineSplitter::default(), [0; 4096]);
            let push = |line: String| {
                let length = line.len();
                lines.push((farlink_os::monotonic_ns(), line), length);
            };
            while let Ok(length @ 1..) = output.read(&mut piece) {
                splitter.push(&piece[..length], push);
            }
            // The last line may have no newline.
            Some(splitter.begun()).filter(|line| !line.is_empty()).map(push);
            lines.end(format!("`{shown}` ended"));
        })?;
        Ok(queue)
    }
    /// Status of the program, if it has ended.
    ///
    /// # Errors
    /// System call errors.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
    /// Waits until the program ends, at most until a time; `None` if it still runs.
    ///
    /// # Errors
    /// System call errors.
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let status = self.ended()?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(PAUSE);
        }
    }
    /// Command line of the program, for messages; at most 200 characters.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}
impl Drop for StartedProgram {
    fn drop(&mut self) {
        use farlink_os::process::Signal;
        for signal in [Signal::Interrupt, Signal::Terminate] {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            let _ = farlink_os::process::signal(self.child.id(), signal);
            let _ = self.wait_until(Instant::now() + PATIENCE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(String::from).to_vec()
    }

    #[test]
    fn log_is_read_by_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ion.log");
        let mut tail = LogTail::from_now(&path);
        let read = |tail: &mut LogTail| {
            let mut lines = Vec::new();
            tail.read(|line| lines.push(line));
            lines.join("|")
        };
        assert_eq!(read(&mut tail), "", "before there is one");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\r\ntwo\nthr").unwrap();
        assert_eq!((read(&mut tail), tail.begun()), ("one|two".into(), "thr".into()));
        file.write_all(b"ee\n").unwrap();
        assert_eq!(read(&mut tail), "three");
        assert_eq!(read(&mut LogTail::from_now(&path)), "");
        assert_eq!(read(&mut LogTail::whole(&path)), "one|two|three");
        // The log is replaced by a shorter one.
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(read(&mut tail), "new");
    }

    #[test]
    fn long_lines_are_cut() {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        for _ in 0..100 {
            splitter.push(&[b'x'; 10_000], |line| lines.push(line.len()));
        }
        splitter.push(b"\n\xff\n", |line| lines.push(line.len()));
        // An invalid byte becomes the replacement character, three bytes long.
        assert_eq!(lines, [LINE_MAX, 3]);
    }

    #[test]
    fn lines_of_a_program_end_with_it() {
        let words = shell("echo one; printf two; exit 3");
        let mut program = StartedProgram::start(&words, &BTreeMap::new(), Path::new("."), Stdio::piped()).unwrap();
        let lines = program.lines().unwrap();
        let next = || lines.pop(Duration::from_secs(20)).map(|line| line.unwrap().1);
        assert_eq!((next().unwrap(), next().unwrap()), ("one".into(), "two".into()));
        assert!(next().unwrap_err().to_string().contains("exit 3` ended"));
        let status = program.wait_until(Instant::now() + Duration::from_secs(20)).unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn dropped_programs_end() {
        let dir = tempfile::tempdir().unwrap();
        // One ends by the interrupt and leaves a file; the other ignores all but SIGKILL.
        for script in ["trap 'touch left; exit' INT; echo; sleep 60 & wait", "trap '' INT TERM; echo; sleep 60 & wait"]
        {
            let mut program =
                StartedProgram::start(&shell(script), &BTreeMap::new(), dir.path(), Stdio::piped()).unwrap();
            let lines = program.lines().unwrap();
            lines.pop(Duration::from_secs(20)).unwrap();
            let id = program.child.id();
            drop(program);
            assert!(!Path::new(&format!("/proc/{id}")).exists());
        }
        assert!(dir.path().join("left").exists());
    }
}

//! Agent: the first process of this program on a machine reached by SSH. It starts the supervisor there and passes lines
//! between it and the connection, keeps the files that the testbed sends, sends back those that the nodes write, and
//! ends everything when the connection does.

use super::PROGRAM;
use super::protocol::{ARGUMENT, AgentReply, AgentRequest, PART, VERSION};
use crate::supervisor;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which files are looked at; nodes write their events as often.
const LOOK: Duration = Duration::from_millis(200);
/// Silence of the testbed after which it counts as gone: it says that it is there every few seconds.
const SILENCE: Duration = Duration::from_secs(30);
/// Time for the supervisor to end with its input.
const GRACE: Duration = Duration::from_secs(5);
/// Folder of stores, which stay where they are.
const STORE: &str = "store";

/// Works as an agent if this process was started as one; then returns its exit status, else `None`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().filter(|argument| argument == ARGUMENT).and_then(|_| arguments.next())?;
    Some(match run(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&supervisor::Reply::Failed { reason: error.to_string() });
            ExitCode::FAILURE
        }
    })
}

fn run(folder: &Path) -> io::Result<()> {
    let root = folder.join("root");
    for inside in ["tmp", "run"] {
        fs::create_dir_all(root.join(inside))?;
    }
    let program = folder.join("farlink");
    fs::hard_link(&program, inside(&root, Path::new(PROGRAM))?)?;
    // Opened here, since no socket of the machine can be opened from the namespaces of an ordinary user.
    let socket = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
    farlink_os::process::let_inherit(&socket)?;
    say(&AgentReply::Hello { version: VERSION.into(), port: socket.local_addr()?.port() });
    let number = socket.as_raw_fd().to_string();
    let mut command = Command::new(&program);
    command.arg(supervisor::ARGUMENT).arg(number).arg(&root).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    drop(socket);
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            write(&[&line, b"\n"]);
        }
        // The supervisor has said why it ended.
        std::process::exit(1);
    });
    let mirror = Arc::new(Mutex::new(Mirror { root: root.clone(), ..Mirror::default() }));
    let watched = Arc::clone(&mirror);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            lock(&watched).look();
        }
    });
    let heard = Arc::new(AtomicU64::new(farlink_os::monotonic_ns()));
    let last = Arc::clone(&heard);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let silence = farlink_os::monotonic_ns().saturating_sub(last.load(Ordering::Relaxed));
            if silence > SILENCE.as_nanos() as u64 {
                // The kernel ends the supervisor with this process, and all hosts with the supervisor.
                std::process::exit(1);
            }
        }
    });
    let served = serve(&root, &mirror, input, &heard);
    end(child)?;
    served
}

/// Serves requests until the end of the input.
fn serve(root: &Path, mirror: &Mutex<Mirror>, mut supervisor: ChildStdin, heard: &AtomicU64) -> io::Result<()> {
    let mut input = BufReader::new(io::stdin());
    let (mut line, mut bytes) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        heard.store(farlink_os::monotonic_ns(), Ordering::Relaxed);
        match serde_json::from_slice(&line) {
            Ok(AgentRequest::Put { path, offset, bytes: count, length, mode }) => {
                bytes.resize(count.min(PART), 0);
                input.read_exact(&mut bytes)?;
                let file = inside(root, &path)?;
                put(&file, offset, &bytes, length, mode)
                    .map_err(|e| farlink_os::context(e, &format!("writing {}", path.display())))?;
                lock(mirror).given.insert(file);
            }
            Ok(AgentRequest::Watch { folders }) => {
                for folder in folders {
                    let folder = inside(root, &folder)?;
                    fs::create_dir_all(&folder)?;
                    lock(mirror).folders.push(folder);
                }
            }
            Ok(AgentRequest::Sync) => {
                lock(mirror).look();
                say(&AgentReply::Synced);
            }
            Ok(AgentRequest::Alive) => {}
            // A request to the supervisor; its end is told by its own words.
            Err(_) => drop(supervisor.write_all(&line)),
        }
    }
}

/// Waits for the supervisor to end, which it does with its input.
fn end(mut child: Child) -> io::Result<()> {
    let begun = std::time::Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > GRACE {
            child.kill()?;
            return child.wait().map(drop);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Place of an absolute path in the root of the hosts.
fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let plain = |part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_));
    match path.strip_prefix("/") {
        Ok(rest) if path.components().all(plain) => Ok(root.join(rest)),
        _ => Err(io::Error::other(format!("{} is no absolute path", path.display()))),
    }
}

fn put(path: &Path, offset: u64, bytes: &[u8], length: u64, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(mode & 0o777).open(path)?;
    file.set_len(length)?;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Watched folders, and what of their files was sent.
#[derive(Default)]
struct Mirror {
    root: PathBuf,
    folders: Vec<PathBuf>,
    /// Files that came from the testbed, which has them.
    given: BTreeSet<PathBuf>,
    /// Number and sent bytes of each file.
    sent: BTreeMap<PathBuf, (u64, u64)>,
}

impl Mirror {
    fn look(&mut self) {
        for folder in self.folders.clone() {
            self.look_at(&folder);
        }
    }

    fn look_at(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
            if found.is_dir() {
                if entry.file_name() != STORE {
                    self.look_at(&path);
                }
            } else if found.file_type().is_socket() {
                // That it is there says that its node is ready.
                if self.sent.insert(path.clone(), (found.ino(), 0)).is_none() {
                    self.send(&path, 0, &[]);
                }
            } else if found.is_file() && !self.given.contains(&path) {
                // A file that vanishes now is looked at no more.
                let _ = self.send_new(&path, found.ino());
            }
        }
    }

    /// Sends what a file has more than at the last look.
    fn send_new(&mut self, path: &Path, number: u64) -> io::Result<()> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let known =
            self.sent.get(path).filter(|(same, sent)| *same == number && *sent <= length).map(|(_, sent)| *sent);
        let mut offset = known.unwrap_or(0);
        if known.is_none() {
            self.send(path, 0, &[]);
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut part = vec![0; PART.min((length - offset) as usize)];
        while offset < length {
            let most = part.len().min((length - offset) as usize);
            let count = file.read(&mut part[..most])?;
            if count == 0 {
                break;
            }
            self.send(path, offset, &part[..count]);
            offset += count as u64;
        }
        self.sent.insert(path.to_path_buf(), (number, offset));
        Ok(())
    }

    fn send(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let Ok(rest) = path.strip_prefix(&self.root) else { return };
        let reply = AgentReply::File { path: Path::new("/").join(rest), offset, bytes: bytes.len() };
        if let Ok(mut line) = serde_json::to_vec(&reply) {
            line.push(b'\n');
            write(&[&line, bytes]);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(reply: &impl serde::Serialize) {
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        write(&[&line]);
    }
}

/// Writes a message to the connection without another one in it. The end of a connection shows at its input.
fn write(parts: &[&[u8]]) {
    let mut out = io::stdout().lock();
    let _ = parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_root() {
        let place = |path: &str| inside(Path::new("/tmp/x"), Path::new(path)).map_err(|e| e.to_string());
        assert_eq!(place("/work/run/a"), Ok("/tmp/x/work/run/a".into()));
        for path in ["work", "/work/../../etc/passwd", ""] {
            assert!(place(path).is_err(), "{path}");
        }
    }

    #[test]
    fn parts_make_a_file_with_holes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b");
        put(&file, 4, b"end", 9, 0o600).unwrap();
        put(&file, 0, b"st", 9, 0o600).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"st\0\0end\0\0");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
}

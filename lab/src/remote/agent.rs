//! Agent: the first process of this program on a machine reached by SSH. It starts the supervisor there and passes
//! lines between it and the connection, keeps the files that the testbed sends, sends back those that the nodes write,
//! and ends everything when the connection does.

use super::PROGRAM;
use super::heard::{ALIVE, Heard, NotingReader};
use super::outbox::Outbox;
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
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which files are looked at; nodes write their events as often.
const LOOK: Duration = Duration::from_millis(200);
/// Time for the supervisor to end with its input, and for the last words to leave.
const GRACE: Duration = Duration::from_secs(5);
/// Free bytes below which a disk counts as full.
const FULL: u64 = 64 << 10;
/// Folder of stores, which stay where they are.
const STORE: &str = "store";
/// Longest part of a file that is sent back: a line waits for no more than one.
const PART_BACK: usize = 32 << 10;

/// Reason for which the agent ends.
enum Ending {
    /// The input ended, or a request failed.
    Served(io::Result<()>),
    /// The supervisor ended by itself.
    Supervisor,
    /// Nothing came from the testbed for a long time.
    Silence,
    /// Somebody there asked for the end.
    Signal,
}

/// Works as an agent if this process was started as one; then returns its exit status, else `None`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().filter(|argument| argument == ARGUMENT).and_then(|_| arguments.next())?;
    let folder = Path::new(&folder);
    let outbox = Outbox::start(io::stdout());
    let ran = run(folder, &outbox);
    if let Err(error) = &ran {
        say(&outbox, &supervisor::Reply::Failed { reason: error.to_string() });
    }
    outbox.flush(GRACE);
    // The shell removes the folder, too, unless it was killed.
    let _ = fs::remove_dir_all(folder);
    Some(if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(folder: &Path, outbox: &Arc<Outbox>) -> io::Result<()> {
    let root = folder.join("root");
    for inside in ["tmp", "run"] {
        fs::create_dir_all(root.join(inside))?;
    }
    let program = folder.join("farlink");
    fs::hard_link(&program, inside(&root, Path::new(PROGRAM))?)?;
    // Opened here, since no socket of the machine can be opened from the namespaces of an ordinary user.
    let socket = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
    farlink_os::process::let_inherit(&socket)?;
    say(outbox, &AgentReply::Hello { version: VERSION.into(), port: socket.local_addr()?.port() });
    let number = socket.as_raw_fd().to_string();
    let mut command = Command::new(&program);
    command.arg(supervisor::ARGUMENT).arg(number).arg(&root).stdin(Stdio::piped()).stdout(Stdio::piped());
    // By this thread, which stays: the kernel ends the supervisor with it, and all hosts with the supervisor.
    let mut child = command.spawn()?;
    drop(socket);
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (ends, ended) = channel();
    let (lines, over) = (Arc::clone(outbox), ends.clone());
    std::thread::spawn(move || {
        for mut line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            line.push(b'\n');
            lines.line(line);
        }
        over.send(Ending::Supervisor)
    });
    let heard = Heard::now();
    watch(outbox, &heard, &ends)?;
    let (syncs, asked) = channel();
    let watched = Arc::new(Mutex::new(Watched::default()));
    let mirror =
        Mirror { root: root.clone(), watched: Arc::clone(&watched), sent: BTreeMap::new(), outbox: Arc::clone(outbox) };
    std::thread::spawn(move || mirror.work(&asked));
    let reader = BufReader::new(NotingReader { input: io::stdin(), heard });
    std::thread::spawn(move || ends.send(Ending::Served(serve(reader, &root, &watched, input, &syncs))));
    let ending = ended.recv();
    // The place of a file that is not there: only the free bytes of its disk count.
    if farlink_os::disk::room(&folder.join("none")).is_ok_and(|(free, _)| free < FULL) {
        // Into the log of the machine, since no program's log there has room for its reason.
        let _ = writeln!(io::stderr(), "the disk there is full: less than 64 KiB are free");
    }
    match ending {
        Ok(Ending::Served(served)) => {
            if let Err(error) = &served {
                // Said first: the supervisor may take its time.
                say(outbox, &supervisor::Reply::Failed { reason: error.to_string() });
            }
            end(child)
        }
        // If it said why itself, that came before.
        Ok(Ending::Supervisor) => {
            Err(io::Error::other(format!("the supervisor there ended by itself ({})", child.wait()?)))
        }
        Ok(Ending::Silence) => stop(child, "nothing came from the testbed for 30 s"),
        Ok(Ending::Signal) => stop(child, "a signal there asked for the end"),
        Err(_) => stop(child, "a thread panicked"),
    }
}

/// Tells the testbed now and then that this end is there, and watches whether the testbed is.
fn watch(outbox: &Arc<Outbox>, heard: &Heard, ends: &Sender<Ending>) -> io::Result<()> {
    let (outbox, heard, ends) = (Arc::clone(outbox), heard.clone(), ends.clone());
    let asked = farlink_os::process::watch_termination()?;
    std::thread::spawn(move || {
        let mut said = Instant::now();
        loop {
            std::thread::sleep(LOOK);
            // What waits says as much.
            if said.elapsed() >= ALIVE && outbox.is_empty() {
                said = Instant::now();
                say(&outbox, &AgentReply::Alive);
            }
            if asked.load(Ordering::Relaxed) {
                return ends.send(Ending::Signal);
            }
            if heard.is_silent() {
                return ends.send(Ending::Silence);
            }
        }
    });
    Ok(())
}

/// Serves requests until the end of the input. Nothing here waits for the connection's other direction.
fn serve(
    mut input: impl BufRead,
    root: &Path,
    watched: &Mutex<Watched>,
    mut supervisor: ChildStdin,
    syncs: &Sender<()>,
) -> io::Result<()> {
    let (mut line, mut bytes) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match serde_json::from_slice(&line) {
            Ok(AgentRequest::Put { path, offset, bytes: count, length, mode }) => {
                bytes.resize(count.min(PART), 0);
                if input.read_exact(&mut bytes).is_err() {
                    // The connection ended.
                    return Ok(());
                }
                let file = inside(root, &path)?;
                // Before it is written, so that it is never sent back.
                lock(watched).given.insert(file.clone());
                put(&file, offset, &bytes, length, mode)
                    .map_err(|e| farlink_os::context(e, &format!("writing {}", path.display())))?;
            }
            Ok(AgentRequest::Watch { folders }) => {
                for folder in folders {
                    let place = inside(root, &folder)?;
                    fs::create_dir_all(&place)
                        .map_err(|e| farlink_os::context(e, &format!("creating {}", folder.display())))?;
                    lock(watched).folders.push(place);
                }
            }
            Ok(AgentRequest::Sync) => syncs.send(()).map_err(io::Error::other)?,
            Ok(AgentRequest::Alive) => {}
            // A request to the supervisor; its end is told by its own words.
            Err(_) => drop(supervisor.write_all(&line)),
        }
    }
}

/// Ends the supervisor at once, for this reason.
fn stop(mut child: Child, reason: &str) -> io::Result<()> {
    child.kill()?;
    child.wait()?;
    Err(io::Error::other(reason))
}

/// Waits for the supervisor to end, which it does with its input.
fn end(mut child: Child) -> io::Result<()> {
    let begun = Instant::now();
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

/// What is sent back.
#[derive(Default)]
struct Watched {
    folders: Vec<PathBuf>,
    /// Files that came from the testbed, which has them.
    given: BTreeSet<PathBuf>,
}

/// Sender of the files in watched folders.
struct Mirror {
    root: PathBuf,
    watched: Arc<Mutex<Watched>>,
    /// Number and sent bytes of each file.
    sent: BTreeMap<PathBuf, (u64, u64)>,
    outbox: Arc<Outbox>,
}

impl Mirror {
    /// Sends what is new now and then, and whenever it is asked to.
    fn work(mut self, asked: &Receiver<()>) {
        loop {
            let asked = asked.recv_timeout(LOOK);
            if asked == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let folders = lock(&self.watched).folders.clone();
            folders.iter().for_each(|folder| self.look_at(folder));
            if asked.is_ok() {
                self.send_message(&AgentReply::Synced, &[]);
            }
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
            } else if found.is_file() && !lock(&self.watched).given.contains(&path) {
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
        let mut part = vec![0; PART_BACK.min((length - offset) as usize)];
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
        let path = Path::new("/").join(rest);
        self.send_message(&AgentReply::File { path, offset, bytes: bytes.len() }, bytes);
    }

    /// Sends a message after all parts of files before it.
    fn send_message(&self, reply: &AgentReply, bytes: &[u8]) {
        if let Ok(mut message) = serde_json::to_vec(reply) {
            message.push(b'\n');
            message.extend_from_slice(bytes);
            self.outbox.part(message);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(outbox: &Outbox, reply: &impl serde::Serialize) {
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        outbox.line(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_root() {
        let place = |path: &str| inside(Path::new("/tmp/x"), Path::new(path)).map_err(|e| e.to_string());
        assert_eq!(place("/srv/run/a"), Ok("/tmp/x/srv/run/a".into()));
        for path in ["srv", "/srv/../../etc/passwd", ""] {
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

    #[test]
    fn files_back_hold_up_no_request() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("run")).unwrap();
        fs::write(root.join("run/big"), vec![b'x'; 1 << 20]).unwrap();
        // Nobody reads what comes back.
        let (_reader, writer) = io::pipe().unwrap();
        let outbox = Outbox::start(writer);
        let watched = Arc::new(Mutex::new(Watched::default()));
        let (syncs, asked) = channel();
        let mirror = Mirror { root: root.clone(), watched: Arc::clone(&watched), sent: BTreeMap::new(), outbox };
        std::thread::spawn(move || mirror.work(&asked));
        let request = |request: &AgentRequest| [serde_json::to_vec(request).unwrap(), b"\n".to_vec()].concat();
        let path = PathBuf::from("/run/new");
        let put = AgentRequest::Put { path, offset: 0, bytes: 3, length: 3, mode: 0o600 };
        let watch = AgentRequest::Watch { folders: vec!["/run".into()] };
        let sync = request(&AgentRequest::Sync);
        let input = [&request(&watch)[..], &sync, &sync, &request(&put), b"abc"].concat();
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        serve(&input[..], &root, &watched, child.stdin.take().unwrap(), &syncs).unwrap();
        assert_eq!(fs::read(root.join("run/new")).unwrap(), b"abc");
        assert!(lock(&watched).given.contains(&root.join("run/new")));
        child.wait().unwrap();
    }
}

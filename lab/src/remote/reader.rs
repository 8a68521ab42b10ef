//! Reader of what comes over the connection to a machine: news of the agent, replies of the supervisor, and files. The
//! machine is not trusted: it may write the files of its own nodes, and no others.

use super::heard::{NotingReader, read_line};
use super::protocol::{AgentReply, GREETING, LINE, PART};
use crate::supervisor::{self, Reply};
use anyhow::{Context, Result, bail, ensure};
use farlink_os::disk;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Most files that come from a machine, and most bytes. A node has some ten files, and one for each bundle that its
/// applications keep; a run that brings more would fill most disks.
const FILES: usize = 100_000;
const BYTES: u64 = 64 << 30;

/// What the reading thread tells about the connection.
pub enum News {
    /// The machine's shell runs: the words of its line.
    Greeting(String),
    /// The agent runs.
    Hello { version: String, port: u16 },
    /// All files up to a request have come.
    Synced,
}

/// Files that a machine may send, and those that came from there or went there.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Folders whose files come here.
    pub folders: Vec<PathBuf>,
    /// Size and time of the files that were sent there.
    pub sent: BTreeMap<PathBuf, (u64, Option<SystemTime>)>,
    /// Length of each file that came.
    came: BTreeMap<PathBuf, u64>,
    /// Bytes that came, those overwritten since included.
    bytes: u64,
}

/// Shelf that the reading thread shares.
pub type SharedShelf = Arc<Mutex<Shelf>>;

impl Shelf {
    pub fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
        shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file came from the machine.
    pub fn has_come(&self, path: &Path) -> bool {
        self.came.contains_key(path)
    }

    /// Checks that a part of a file may come, and counts it; returns the watched folder that it is in.
    fn admit(&mut self, path: &Path, offset: u64, bytes: usize) -> Result<PathBuf> {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        let own = |folder: &&PathBuf| path.starts_with(folder) && path != folder.as_path();
        let folder = self.folders.iter().find(own).filter(|_| path.components().all(plain));
        let folder = folder.context("it is in no folder of a node there")?.clone();
        ensure!(!self.sent.contains_key(path), "it went there from here");
        let known = self.came.get(path).copied();
        // The agent sends every byte, so that a file has no holes.
        ensure!(offset <= known.unwrap_or(0), "its part at {offset} comes before those in front of it");
        ensure!(known.is_some() || self.came.len() < FILES, "more than {FILES} files came from the machine");
        self.bytes = self.bytes.saturating_add(bytes as u64);
        ensure!(self.bytes <= BYTES, "more than {} GiB came from the machine", BYTES >> 30);
        self.came.insert(path.to_path_buf(), offset.saturating_add(bytes as u64));
        Ok(folder)
    }
}

/// Reader of what comes over the connection.
pub struct Reader {
    pub news: Sender<News>,
    pub reply: Sender<Reply>,
    pub shelf: SharedShelf,
}

impl Reader {
    /// Reads until the connection ends.
    pub fn read(self, output: NotingReader<ChildStdout>) {
        if let Err(error) = self.read_lines(&mut BufReader::new(output)) {
            let _ = self.reply.send(Reply::Failed { reason: format!("{error:#}") });
        }
    }

    fn read_lines(&self, output: &mut BufReader<impl Read>) -> Result<()> {
        let (mut line, mut greeted) = (Vec::new(), false);
        loop {
            read_line(output, &mut line, LINE)?;
            if line.is_empty() {
                return Ok(());
            }
            let text = line.trim_ascii_end();
            if greeted {
                self.take(text, output)?;
            } else if let Some(words) = text.strip_prefix(GREETING.as_bytes()) {
                // Shells may print what their owners like first.
                greeted = self.news.send(News::Greeting(supervisor::plain(&String::from_utf8_lossy(words)))).is_ok();
            }
        }
    }

    fn take(&self, line: &[u8], output: &mut impl Read) -> Result<()> {
        match serde_json::from_slice(line) {
            Ok(AgentReply::Hello { version, port }) => self.news.send(News::Hello { version, port })?,
            Ok(AgentReply::Synced) => self.news.send(News::Synced)?,
            Ok(AgentReply::Alive) => {}
            Ok(AgentReply::File { path, offset, bytes }) => {
                ensure!(bytes <= PART, "a part of {bytes} bytes came");
                let mut part = vec![0; bytes];
                if output.read_exact(&mut part).is_err() {
                    bail!("the connection ended in the middle of the file {}", path.display());
                }
                self.keep(&path, offset, &part).with_context(|| format!("cannot write {}", path.display()))?;
            }
            Err(_) => self.reply.send(cleaned(supervisor::read_reply(line)))?,
        }
        Ok(())
    }

    fn keep(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        let folder = Shelf::lock(&self.shelf).admit(path, offset, bytes.len())?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        for part in path.ancestors().skip(1).take_while(|part| part.starts_with(&folder)) {
            ensure!(!part.is_symlink(), "{} is a symbolic link", part.display());
        }
        let mut file = disk::open_own(path)?;
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file.write_all(bytes)?)
    }
}

/// Reply whose words steer no terminal.
fn cleaned(mut reply: Reply) -> Reply {
    match &mut reply {
        Reply::Failed { reason } | Reply::SetUp { no_groups: Some(reason), .. } => *reason = supervisor::plain(reason),
        _ => {}
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn reader(folder: &Path) -> (Reader, Receiver<Reply>) {
        let (reply, replies) = channel();
        let shelf = Shelf { folders: vec![folder.join("nodes/a"), folder.join("files/1")], ..Shelf::default() };
        (Reader { news: channel().0, reply, shelf: Arc::new(Mutex::new(shelf)) }, replies)
    }

    #[test]
    fn files_stay_in_watched_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (reader, _) = reader(folder.path());
        let file = folder.path().join("nodes/a/sub/events.jsonl");
        reader.keep(&file, 0, b"first").unwrap();
        reader.keep(&file, 5, b" second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first second");
        reader.keep(&file, 0, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        for path in ["supervisor.log", "nodes/b/node.toml", "nodes/a", "nodes/a/../b/x", "nodes/ab", "/etc/passwd"] {
            assert!(reader.keep(&folder.path().join(path), 0, b"").is_err(), "{path}");
        }
    }

    #[test]
    fn links_and_sent_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (reader, _) = reader(folder.path());
        let [own, other] = ["nodes/a", "outside"].map(|name| folder.path().join(name));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "before").unwrap();
        std::os::unix::fs::symlink(other.join("file"), own.join("link")).unwrap();
        std::os::unix::fs::symlink(&other, own.join("folder")).unwrap();
        fs::write(own.join("node.toml"), "before").unwrap();
        Shelf::lock(&reader.shelf).sent.insert(own.join("node.toml"), (6, None));
        for name in ["link", "folder/file", "node.toml"] {
            assert!(reader.keep(&own.join(name), 0, b"after").is_err(), "{name}");
        }
        assert_eq!(fs::read(other.join("file")).unwrap(), b"before");
    }

    #[test]
    fn files_are_bounded() {
        let mut shelf = Shelf { folders: vec!["/w".into()], ..Shelf::default() };
        assert!(shelf.admit(Path::new("/w/a"), 1 << 42, 1).unwrap_err().to_string().contains("in front of it"));
        shelf.admit(Path::new("/w/a"), 0, 8).unwrap();
        assert!(shelf.admit(Path::new("/w/a"), 9, 1).is_err());
        shelf.bytes = BYTES - 10;
        shelf.admit(Path::new("/w/a"), 8, 10).unwrap();
        assert!(shelf.admit(Path::new("/w/a"), 0, 1).unwrap_err().to_string().contains("64 GiB"));
        shelf.bytes = 0;
        for number in 1..FILES {
            shelf.admit(Path::new(&format!("/w/{number}")), 0, 0).unwrap();
        }
        assert!(shelf.admit(Path::new("/w/b"), 0, 0).unwrap_err().to_string().contains("files came"));
        shelf.admit(Path::new("/w/a"), 0, 0).unwrap();
    }

    #[test]
    fn odd_words_end_connection() {
        let folder = tempfile::tempdir().unwrap();
        let (reader, replies) = reader(folder.path());
        reader.take(br#"{"say":"failed","reason":"no\u001b[2J room"}"#, &mut &b""[..]).unwrap();
        assert!(matches!(replies.try_recv().unwrap(), Reply::Failed { reason } if reason == "no[2J room"));
        let why = reader.read_lines(&mut BufReader::new(std::io::repeat(0))).unwrap_err().to_string();
        assert!(why.contains("a line of more than"), "{why}");
        // Ends within a file.
        let text = b"{\"agent\":\"file\",\"path\":\"/x\",\"offset\":0,\"bytes\":9}";
        let why = reader.take(text, &mut &b"abc"[..]).unwrap_err().to_string();
        assert!(why.contains("ended in the middle of the file /x"), "{why}");
    }
}

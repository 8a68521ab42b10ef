//! Reader of what comes over the connection to a machine: news of the agent, replies of the supervisor, and files.

use super::protocol::{AgentReply, GREETING, PART};
use crate::supervisor::{self, Reply};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

/// What the reading thread tells about the connection.
pub enum News {
    /// The machine's shell runs: the words of its line.
    Greeting(String),
    /// The agent runs.
    Hello { version: String, port: u16 },
    /// All files up to a request have come.
    Synced,
}

/// Files that came from a machine.
pub type Came = Arc<Mutex<BTreeSet<PathBuf>>>;

/// Reader of what comes over the connection.
pub struct Reader {
    pub news: Sender<News>,
    pub reply: Sender<Reply>,
    /// Folder of the run: no file goes anywhere else.
    pub root: PathBuf,
    pub came: Came,
}

impl Reader {
    /// Reads until the connection ends.
    pub fn read(self, mut output: BufReader<ChildStdout>) {
        let (mut line, mut greeted) = (Vec::new(), false);
        while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = line.trim_ascii_end();
            if !greeted {
                // Shells may print what their owners like first.
                if let Some(words) = text.strip_prefix(GREETING.as_bytes()) {
                    greeted = self.news.send(News::Greeting(String::from_utf8_lossy(words).into())).is_ok();
                }
            } else if let Err(error) = self.take(text, &mut output) {
                let _ = self.reply.send(Reply::Failed { reason: format!("{error:#}") });
                return;
            }
            line.clear();
        }
    }

    fn take(&self, line: &[u8], output: &mut impl Read) -> Result<()> {
        match serde_json::from_slice(line) {
            Ok(AgentReply::Hello { version, port }) => self.news.send(News::Hello { version, port })?,
            Ok(AgentReply::Synced) => self.news.send(News::Synced)?,
            Ok(AgentReply::File { path, offset, bytes }) => {
                ensure!(bytes <= PART, "a part of {bytes} bytes came");
                let mut part = vec![0; bytes];
                output.read_exact(&mut part)?;
                self.keep(&path, offset, &part).with_context(|| format!("cannot write {}", path.display()))?;
            }
            Err(_) => self.reply.send(supervisor::read_reply(line))?,
        }
        Ok(())
    }

    fn keep(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        ensure!(path.starts_with(&self.root) && path.components().all(plain), "it is not in the folder of the run");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if let Ok(mut came) = self.came.lock() {
            came.insert(path.to_path_buf());
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file.write_all(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn files_stay_in_folder_of_run() {
        let folder = tempfile::tempdir().unwrap();
        let reader =
            Reader { news: channel().0, reply: channel().0, root: folder.path().to_path_buf(), came: Came::default() };
        let file = folder.path().join("nodes/a/events.jsonl");
        reader.keep(&file, 0, b"first").unwrap();
        reader.keep(&file, 5, b" second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first second");
        reader.keep(&file, 0, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        for path in [folder.path().join("../x"), "/etc/passwd".into()] {
            assert!(reader.keep(&path, 0, b"").is_err(), "{path:?}");
        }
    }
}

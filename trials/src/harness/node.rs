//! A node with a folder of its own, which can be killed and restarted.

use super::process::{Process, log_tail};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest graceful shutdown: twice the node's own `shutdown_timeout`.
const END_MAX: Duration = Duration::from_secs(20);

/// One node: its folder, its configuration and, while it runs, its process.
pub struct Node {
    name: &'static str,
    pub(super) dir: PathBuf,
    pub(super) binary: PathBuf,
    pub(super) process: Option<Process>,
    store: PathBuf,
    keys: String,
    /// Soft descriptor limit, which the node may raise; `None`: inherited.
    descriptors: Option<u32>,
    /// Offset of the clock at the next start, such as `+1 h`; empty for none.
    pub clock_offset: String,
    /// Address of the node's control interface for `farlink node status --at`; empty without one.
    pub control: String,
}

impl Node {
    /// Prepares a node with this configuration in a folder; its application socket there is `app.sock`.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn configured(dir: PathBuf, binary: &Path, name: &'static str, keys: String) -> Result<Node> {
        fs::create_dir_all(&dir)?;
        Ok(Node {
            name,
            store: dir.join("store"),
            dir,
            binary: binary.to_path_buf(),
            process: None,
            keys,
            descriptors: None,
            clock_offset: String::new(),
            control: String::new(),
        })
    }
    /// Prepares and starts a node with a soft descriptor limit, in a folder of its name.
    ///
    /// # Errors
    /// When the node cannot be started.
    pub fn started(dir: &Path, name: &'static str, binary: &Path, keys: &str, descriptors: u32) -> Result<Node> {
        let mut node = Node::configured(dir.join(name), binary, name, keys.to_string())?;
        node.descriptors = Some(descriptors);
        node.start()?;
        Ok(node)
    }
    /// Sets the store's folder; it must be that of the configuration.
    pub fn with_store(mut self, store: PathBuf) -> Node {
        self.store = store;
        self
    }
    /// Name of the node in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Folder of configuration, log and socket.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Socket at which applications attach.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("app.sock")
    }
    /// Folder of the store.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log.txt")
    }
    fn write(&self) -> Result<()> {
        let keys = match self.clock_offset.as_str() {
            "" => self.keys.clone(),
            offset => format!("clock_offset = \"{offset}\"\n{}", self.keys),
        };
        Ok(fs::write(self.dir.join("node.toml"), keys)?)
    }
    /// Output of `farlink node --check` for the node's configuration.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn check(&self) -> Result<String> {
        self.write()?;
        let mut check = Command::new(&self.binary);
        let said = check.args(["node", "--check", "--config", "node.toml"]).current_dir(&self.dir).output()?;
        Ok(String::from_utf8_lossy(&said.stderr).into_owned())
    }
    /// Starts the process with the current configuration.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&mut self) -> Result<()> {
        self.write()?;
        let mut command = match self.descriptors {
            Some(limit) => {
                // `exec` keeps the process number, which measurements and signals need.
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -Sn {limit}; exec \"$0\" \"$@\"")]).arg(&self.binary);
                shell
            }
            None => Command::new(&self.binary),
        };
        command.args(["node", "--config", "node.toml"]).current_dir(&self.dir);
        self.process = Some(Process::start(&mut command, self.name, self.socket(), self.log())?);
        Ok(())
    }
    /// Waits until applications can attach; returns the time that took.
    ///
    /// # Errors
    /// When the process ends, or takes too long.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        self.process.as_mut().context("the node was not started")?.wait_ready()
    }
    /// Whether the process runs.
    pub fn alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::alive)
    }
    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// When the process had ended before.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill()?;
        // A stale socket must not be taken for that of a live node.
        let _ = fs::remove_file(self.socket());
        Ok(())
    }
    /// Sends SIGTERM and waits; kills the process if that takes too long.
    ///
    /// # Errors
    /// When the process had ended before, or had to be killed.
    pub fn end(&mut self) -> Result<()> {
        self.process.as_mut().context("the node was not started")?.end(END_MAX).map(|_| ())
    }
    /// Work of the store in this run: files reused, and commits that overlapped another. Zero if the node does not
    /// answer.
    pub fn store_work(&self) -> (u64, u64) {
        let told = Command::new(&self.binary).args(["node", "status", "--json"]).current_dir(&self.dir).output();
        let status: serde_json::Value =
            told.ok().and_then(|told| serde_json::from_slice(&told.stdout).ok()).unwrap_or_default();
        let number = |name: &str| status["store"][name].as_u64().unwrap_or(0);
        (number("files_written_over"), number("commits_overlapped"))
    }
    /// Output of `farlink node bundles`.
    pub fn holds(&self) -> String {
        let told = Command::new(&self.binary).args(["node", "bundles"]).current_dir(&self.dir).output();
        told.map_or_else(|why| why.to_string(), |told| String::from_utf8_lossy(&told.stdout).into_owned())
    }
    /// Last lines of the log.
    pub fn log_tail(&self) -> String {
        log_tail(&self.log())
    }
}

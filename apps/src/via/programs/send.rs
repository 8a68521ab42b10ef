//! Sender by a program for each bundle, with the payload in a file.

use super::super::{BundleSender, SenderTerms};
use super::{OwnCommand, Values};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Longest run of the program for one bundle, including its wait for room.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Sender of one bundle at a time.
pub struct FileSender {
    command: OwnCommand,
    remove: bool,
    source: String,
    lifetime_s: u64,
    /// Folder of the payloads.
    folder: PathBuf,
    sent: u64,
}

/// Sender whose payloads lie in a new folder beside the node's files.
pub fn sender(command: OwnCommand, remove: bool, terms: &SenderTerms) -> Result<FileSender> {
    // The folder is in the working directory, which is visible to every program of the implementation.
    let folder = std::env::current_dir()?.join(format!("sent-{:08x}", crate::random() as u32));
    let source = terms.source.clone().unwrap_or_default();
    // At least one second: implementations count whole ones.
    let lifetime_s = terms.lifetime.as_secs().max(1);
    Ok(FileSender { command, remove, source, lifetime_s, folder, sent: 0 })
}

impl FileSender {
    fn run(&self, values: &Values<'_>) -> Result<()> {
        // The program's output is discarded, as it would be mixed with the events of this one.
        let mut program = self.command.start(values, Path::new("."), Stdio::null())?;
        let status = program.wait_until(Instant::now() + RUN_MAX)?;
        let status =
            status.with_context(|| format!("`{}` still ran after {} s", program.shown(), RUN_MAX.as_secs()))?;
        ensure!(status.success(), "`{}` failed: {status}", program.shown());
        Ok(())
    }
}

impl BundleSender for FileSender {
    fn room(&mut self) -> Result<()> {
        Ok(())
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        self.sent += 1;
        std::fs::create_dir_all(&self.folder).with_context(|| format!("the folder {}", self.folder.display()))?;
        let file = self.folder.join(self.sent.to_string());
        std::fs::write(&file, &payload).with_context(|| format!("the file {}", file.display()))?;
        let values = [
            ("file", file.display().to_string()),
            ("source", self.source.clone()),
            ("to", to.into()),
            ("size", payload.len().to_string()),
            ("count", "1".into()),
            ("lifetime_s", self.lifetime_s.to_string()),
        ];
        let sent = self.run(&values);
        // A program that failed has no use for the file either.
        if self.remove || sent.is_err() {
            std::fs::remove_file(&file)?;
        }
        sent
    }
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
impl Drop for FileSender {
    fn drop(&mut self) {
        // Fails if the folder still has files, which the implementation may yet have to read.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

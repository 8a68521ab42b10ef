//! Files of a run beside its tables: a folder for each node with configuration and logs, and the files that traffic
//! flows send.

use crate::container;
use crate::driver::COMMON;
use anyhow::{Context, Result, anyhow};
use farlink_base::Rng;
use farlink_report::FileCheck;
use farlink_scenario::{Scenario, SizeRange, TrafficKind};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

// Number of log lines shown when a run fails.
const TAIL: usize = 8;
// Maximum number of bytes at the end of a log that are read for these lines.
const TAIL_BYTES: u64 = 64 << 10;

/// Paths of the files of a run.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    nodes: Vec<PathBuf>,
}

impl RunFolder {
    /// Creates empty folders for the nodes and removes the remains of an earlier run. Generates the files to send, from
    /// the scenario's seed.
    pub fn create(root: &Path, scenario: &Scenario) -> Result<Self> {
        let root = super::absolute(root)?;
        let nodes: Vec<PathBuf> = scenario.nodes.iter().map(|n| root.join("nodes").join(&n.name)).collect();
        // Remains of an earlier run would look like this run's.
        for left in [root.join("nodes").join(COMMON), root.join("captures"), root.join(container::FOLDER)] {
            if left.exists() {
                fs::remove_dir_all(&left).with_context(|| format!("cannot empty {}", left.display()))?;
            }
        }
        for node in &nodes {
            if node.exists() {
                fs::remove_dir_all(node).with_context(|| format!("cannot empty {}", node.display()))?;
            }
            fs::create_dir_all(node).with_context(|| format!("cannot create {}", node.display()))?;
        }
        let folder = RunFolder { root, nodes };
        (0..).map(|machine| folder.machine_log(machine)).take_while(|log| fs::remove_file(log).is_ok()).for_each(drop);
        fs::create_dir_all(folder.root.join("files"))?;
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let received = folder.received(index);
            if received.exists() {
                fs::remove_dir_all(&received).with_context(|| format!("cannot empty {}", received.display()))?;
            }
            let mut rng = Rng::stream(scenario.seed, 1 << 32 | index as u64);
            let seed = rng.next_u64();
            match &traffic.kind {
                TrafficKind::File { path: None, size, .. } => {
                    make_file(&folder.made(index), size.bytes(), seed).context("cannot make the file to send")?;
                }
                TrafficKind::Bundles { count, size, .. } => make_bundles(&folder.made(index), *count, *size, rng)?,
                TrafficKind::File { .. } | TrafficKind::Ping { .. } => {}
            }
        }
        Ok(folder)
    }

    /// Folder of the run.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn node(&self, index: usize) -> &Path {
        &self.nodes[index]
    }

    /// Log file of the supervisor and the emulator.
    pub fn supervisor_log(&self) -> PathBuf {
        self.root.join("supervisor.log")
    }

    /// File for what `ssh` and the supervisor on a machine say, by the machine's number.
    pub fn machine_log(&self, machine: usize) -> PathBuf {
        self.root.join(format!("machine-{machine}.log"))
    }

    fn made(&self, traffic: usize) -> PathBuf {
        self.root.join("files").join(format!("{traffic}.sent"))
    }

    /// Folder that receives the file of a traffic flow.
    pub fn received(&self, traffic: usize) -> PathBuf {
        self.root.join("files").join(format!("{traffic}.received"))
    }

    /// File that a traffic flow sends, or that holds the bytes of its bundles; `None` for pings.
    pub fn content(&self, scenario: &Scenario, traffic: usize) -> Option<PathBuf> {
        match &scenario.traffic[traffic].kind {
            TrafficKind::File { path: Some(path), .. } => super::absolute(&scenario.folder.join(path)).ok(),
            TrafficKind::File { path: None, .. } | TrafficKind::Bundles { .. } => Some(self.made(traffic)),
            TrafficKind::Ping { .. } => None,
        }
    }

    /// Compares every file sent with the file received; a file that is missing at the receiver has length 0 and no
    /// checksum.
    pub fn compare_files(&self, scenario: &Scenario) -> Result<Vec<FileCheck>> {
        let mut checks = Vec::new();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            if !matches!(traffic.kind, TrafficKind::File { .. }) {
                continue;
            }
            let Some(sent) = self.content(scenario, index) else { continue };
            let (sent_bytes, sent_checksum) = checksum(&sent)?;
            let received = self.received(index).join(sent.file_name().unwrap_or_default());
            let (received_bytes, received_checksum) = match checksum(&received) {
                Ok((bytes, sum)) => (bytes, Some(sum)),
                Err(_) => (0, None),
            };
            checks.push(FileCheck {
                traffic: traffic.name.clone(),
                sent_bytes,
                received_bytes,
                sent_checksum: Some(sent_checksum),
                received_checksum,
                complete_s: None,
            });
        }
        Ok(checks)
    }

    /// Adds the last lines of each non-empty log and the path of the run's folder to an error. Removes unpacked images.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let _ = fs::remove_dir_all(self.root.join(container::FOLDER));
        let mut text = format!("{error:#}");
        let mut logs = vec![self.supervisor_log()];
        logs.extend((0..self.nodes.len()).map(|machine| self.machine_log(machine)).take_while(|log| log.exists()));
        for node in &self.nodes {
            let mut here: Vec<PathBuf> = fs::read_dir(node).into_iter().flatten().flatten().map(|f| f.path()).collect();
            // Only regular files: other implementations may leave pipes there, and reading one would never end.
            here.retain(|path| path.extension().is_some_and(|e| e == "log") && path.is_file());
            here.sort();
            logs.extend(here);
        }
        for log in logs {
            let content = tail(&log).unwrap_or_default();
            let lines: Vec<&str> = content.lines().collect();
            if lines.is_empty() {
                continue;
            }
            let shown = log.strip_prefix(&self.root).unwrap_or(&log);
            text += &format!("\n-- {}, last lines:", shown.display());
            for line in &lines[lines.len().saturating_sub(TAIL)..] {
                // Another machine may have written it: it must not steer the terminal.
                let shown = line.chars().filter(|c| *c == '\t' || !c.is_control());
                text += &format!("\n   {}", shown.take(240).collect::<String>());
            }
        }
        anyhow!("{text}\nthe run directory is kept: {}", self.root.display())
    }

    /// Removes files that a successful run no longer needs: stores, sockets, event files (their rows are in the
    /// tables), keys, unpacked images, and the files sent and received if all arrived intact.
    pub fn tidy(&self, checks: &[FileCheck]) -> Result<()> {
        let _ = fs::remove_dir_all(self.root.join("nodes").join(COMMON));
        let _ = fs::remove_dir_all(self.root.join(container::FOLDER));
        for node in &self.nodes {
            let _ = fs::remove_dir_all(node.join("store"));
            for file in ["farlink.sock", "node.keys", "security.starts"] {
                let _ = fs::remove_file(node.join(file));
            }
            // A node writes another event file after each restart.
            let here = fs::read_dir(node).into_iter().flatten().flatten().map(|entry| entry.path());
            here.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).for_each(|path| {
                let _ = fs::remove_file(path);
            });
        }
        if checks.iter().all(|check| check.equal() == Some(true)) {
            let files = self.root.join("files");
            fs::remove_dir_all(&files).with_context(|| format!("cannot remove {}", files.display()))?;
        }
        Ok(())
    }
}

/// End of a file as text.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the bytes of all bundles (a sparse file of zeros), and the list of their sizes if these vary or are zero. The
/// simulator draws the same sizes.
fn make_bundles(path: &Path, count: u64, size: SizeRange, mut rng: Rng) -> Result<()> {
    let (least, most) = (size.min.bytes(), size.max.bytes());
    // Zeros are never written, so the file takes no room on disk.
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    // Equal sizes need no list: the sender divides the file by the count.
    if least == most && least > 0 {
        file.set_len(count.saturating_mul(least))?;
        return Ok(());
    }
    let mut sizes = BufWriter::new(File::create(path.with_extension("sizes"))?);
    let mut total = 0u64;
    for _ in 0..count {
        let size = least + rng.below(most.saturating_sub(least) + 1);
        writeln!(sizes, "{size}")?;
        total = total.saturating_add(size);
    }
    sizes.flush()?;
    file.set_len(total)?;
    Ok(())
}

/// Writes a file with contents derived from the seed.
fn make_file(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = Rng::new(seed);
    let mut left = bytes;
    // The generator yields 8 bytes at a time; the last bytes may be more than the file needs.
    while left > 0 {
        let word = rng.next_u64().to_le_bytes();
        let count = left.min(8) as usize;
        out.write_all(&word[..count])?;
        left -= count as u64;
    }
    out.flush()?;
    Ok(())
}

/// Computes the length and the SHA-256 checksum of a file.
fn checksum(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        bytes += count as u64;
    }
    let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    Ok((bytes, format!("sha256:{hex}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "name = \"s\"\nduration = \"1 s\"\nseed = 5\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\n\
            name = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
            [[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nfile = { size = \"10003 B\" }\n";
        Scenario::parse(text).unwrap()
    }

    #[test]
    fn sent_file_is_seeded_compared_removed() {
        let root = std::env::temp_dir().join(format!("farlink-folder-{}", std::process::id()));
        let scenario = scenario();
        let folder = RunFolder::create(&root, &scenario).unwrap();
        let sent = folder.content(&scenario, 0).unwrap();
        assert_eq!(fs::metadata(&sent).unwrap().len(), 10_003);
        let missing = &folder.compare_files(&scenario).unwrap()[0];
        assert_eq!((missing.received_bytes, missing.equal()), (0, Some(false)));
        fs::create_dir(folder.received(0)).unwrap();
        let secrets = [root.join("nodes/.common/authority.key"), folder.node(1).join("node.keys")];
        fs::create_dir(secrets[0].parent().unwrap()).unwrap();
        secrets.iter().for_each(|file| fs::write(file, "secret").unwrap());
        fs::copy(&sent, folder.received(0).join(sent.file_name().unwrap())).unwrap();
        let first = folder.compare_files(&scenario).unwrap();
        assert_eq!(first[0].equal(), Some(true));
        assert!(first[0].sent_checksum.as_ref().unwrap().starts_with("sha256:"));
        folder.tidy(&first).unwrap();
        assert!(!root.join("files").exists());
        assert!(secrets.iter().all(|file| !file.exists()), "a run directory can be shared without keys");
        let again = RunFolder::create(&root, &scenario).unwrap();
        assert_eq!(again.compare_files(&scenario).unwrap()[0].sent_checksum, first[0].sent_checksum);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn empty_bundles_have_size_list() {
        let path = std::env::temp_dir().join(format!("farlink-empty-{}.sent", std::process::id()));
        let size = SizeRange { min: farlink_base::DataVolume(0), max: farlink_base::DataVolume(0) };
        make_bundles(&path, 3, size, Rng::new(3)).unwrap();
        assert_eq!(fs::read_to_string(path.with_extension("sizes")).unwrap(), "0\n0\n0\n");
        fs::remove_file(path.with_extension("sizes")).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn varied_bundles_have_size_list() {
        let path = std::env::temp_dir().join(format!("farlink-bundles-{}.sent", std::process::id()));
        let size = SizeRange { min: farlink_base::DataVolume(10), max: farlink_base::DataVolume(20) };
        make_bundles(&path, 100, size, Rng::new(3)).unwrap();
        let sizes = fs::read_to_string(path.with_extension("sizes")).unwrap();
        let sizes: Vec<u64> = sizes.lines().map(|l| l.parse().unwrap()).collect();
        assert!(sizes.len() == 100 && sizes.iter().all(|s| (10..=20).contains(s)));
        assert_eq!(fs::metadata(&path).unwrap().len(), sizes.iter().sum::<u64>());
        fs::remove_file(path.with_extension("sizes")).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn error_names_log_and_folder() {
        let root = std::env::temp_dir().join(format!("farlink-explain-{}", std::process::id()));
        let folder = RunFolder::create(&root, &scenario()).unwrap();
        fs::write(folder.node(1).join("node.log"), "one\nthe reason\n").unwrap();
        let text = folder.explain(anyhow!("node `b` ended")).to_string();
        assert!(text.starts_with("node `b` ended"), "{text}");
        assert!(text.contains("nodes/b/node.log") && text.contains("the reason") && text.contains("is kept"), "{text}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn tail_of_log_is_bounded_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, b"one\xff\ntwo\n").unwrap();
        assert_eq!(tail(&path).unwrap(), "one\u{fffd}\ntwo\n");
        fs::write(&path, [vec![b'x'; 1 << 20], b"\nlast".to_vec()].concat()).unwrap();
        let text = tail(&path).unwrap();
        assert_eq!((text.len() as u64, text.lines().last()), (TAIL_BYTES, Some("last")));
        assert!(tail(&dir.path().join("none")).is_err());
    }

    #[test]
    fn the_checksum_is_sha_256() {
        let path = std::env::temp_dir().join(format!("farlink-sum-{}", std::process::id()));
        fs::write(&path, "abc").unwrap();
        let (bytes, sum) = checksum(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(bytes, 3);
        assert_eq!(sum, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

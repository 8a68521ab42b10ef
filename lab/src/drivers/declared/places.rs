//! Programs of other implementations: in a folder that the scenario names, below `FARLINK_PEERS`, or on the PATH.

use crate::driver::Program;
use anyhow::{Result, bail};
use farlink_os::process::{Signal, signal_group};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Environment variable with the folder that holds a folder for each implementation.
const FOLDER: &str = "FARLINK_PEERS";
/// Longest wait for a program that prints its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for outputs once such a program has ended.
const AFTER_END: Duration = Duration::from_secs(1);
/// Interval at which such a program is checked for its end.
const PAUSE: Duration = Duration::from_millis(5);
/// Most bytes of output that are searched for a version.
const OUTPUT_MAX: u64 = 64 << 10;

/// Folder that holds all these programs: `FARLINK_PEERS/NAME/bin`, `FARLINK_PEERS/NAME`, or one of the PATH.
///
/// # Errors
/// When no folder holds all of them; the message says how to install them.
pub fn find(name: &str, programs: &[String], install: &str) -> Result<PathBuf> {
    let own = std::env::var_os(FOLDER).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = own.into_iter().flat_map(|folder| [folder.join(name).join("bin"), folder.join(name)]);
    // A folder with only some of the programs may be another implementation's.
    let mut folders = own.chain(std::env::split_paths(&path));
    match folders.find(|folder| has_all(folder, programs)) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => {
            let hint = if install.is_empty() { String::new() } else { format!("\nhint: {install}") };
            bail!("{} not found in {FOLDER}/{name} nor on the PATH{hint}", named(programs))
        }
    }
}

/// Absolute path of `folder`, or of its subfolder `bin`: the first that holds all these programs.
///
/// # Errors
/// When neither holds all of them.
pub fn within(folder: &Path, programs: &[String]) -> Result<PathBuf> {
    for candidate in [folder.to_path_buf(), folder.join("bin")] {
        if has_all(&candidate, programs) {
            return Ok(std::path::absolute(candidate)?);
        }
    }
    bail!("{} not found in {}", named(programs), folder.display())
}

fn has_all(folder: &Path, programs: &[String]) -> bool {
    programs.iter().all(|program| folder.join(program).is_file())
}

fn named(programs: &[String]) -> String {
    programs.iter().map(|program| format!("`{program}`")).collect::<Vec<_>>().join(" and ")
}

/// Version that a program, run in a folder, prints after it got `input`: the first group of the expression. `None` if
/// it prints none in time.
pub fn version(program: &Program, folder: &Path, input: &str, expression: &str) -> Option<String> {
    let (name, arguments) = program.command.split_first()?;
    let mut command = Command::new(name);
    command.args(arguments).envs(&program.environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(folder).process_group(0);
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_string();
    // A program that reads nothing must not hold up the run.
    std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let (sender, outputs) = channel();
    let read = |order: usize, mut from: Box<dyn Read + Send>| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = (&mut from).take(OUTPUT_MAX).read_to_end(&mut bytes);
            let _ = sender.send((order, String::from_utf8_lossy(&bytes).into_owned()));
        });
    };
    read(0, Box::new(child.stdout.take()?));
    // Some programs print their version to standard error.
    read(1, Box::new(child.stderr.take()?));
    drop(sender);
    let (begun, mut ended, mut texts) = (Instant::now(), None::<Instant>, BTreeMap::new());
    let waits = |ended: Option<Instant>, texts: usize| match ended {
        None => begun.elapsed() < VERSION_WITHIN,
        Some(at) => texts < 2 && at.elapsed() < AFTER_END,
    };
    while waits(ended, texts.len()) {
        match outputs.recv_timeout(PAUSE) {
            Ok((order, text)) => drop(texts.insert(order, text)),
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(PAUSE),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait().ok()?.is_some() {
            ended = Some(Instant::now());
            // A background process that the program has left behind would keep its outputs open.
            let _ = signal_group(child.id(), Signal::Kill);
        }
    }
    if ended.is_none() {
        let _ = signal_group(child.id(), Signal::Kill);
        let _ = child.wait();
    }
    let expression = Regex::new(expression).ok()?;
    texts.values().find_map(|text| Some(expression.captures(text)?.get(1)?.as_str().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_folder_may_have_bin() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("x/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("dtnd"), "").unwrap();
        let need = ["dtnd".to_string()];
        assert_eq!(within(&dir.path().join("x"), &need).unwrap(), bin);
        assert_eq!(within(&bin, &need).unwrap(), bin);
        let why = within(dir.path(), &need).unwrap_err().to_string();
        assert!(why.contains("`dtnd` not found"), "{why}");
        let why = find("none", &["no-such-program".into()], "cargo install x").unwrap_err().to_string();
        assert!(why.contains("FARLINK_PEERS/none") && why.contains("hint: cargo install x"), "{why}");
    }

    #[test]
    fn version_is_first_group() {
        let program =
            |script: &str| Program { command: ["sh", "-c", script].map(String::from).to_vec(), ..Program::default() };
        let dir = tempfile::tempdir().unwrap();
        let of = |script: &str, input: &str| version(&program(script), dir.path(), input, "v([0-9.]+)");
        assert_eq!(of("echo tool v1.2.3", "").as_deref(), Some("1.2.3"));
        assert_eq!(of("read line; echo $line >&2", "v4\n").as_deref(), Some("4"));
        assert_eq!(of("echo v1; echo v2 >&2", "").as_deref(), Some("1"));
        assert_eq!(of("echo none; touch left", ""), None);
        assert!(dir.path().join("left").exists());
        assert_eq!(of("exec /no/such", ""), None);
        // A background process that keeps the output open is killed when the program ends.
        assert_eq!(of("sleep 1000 & echo $! > id; echo v7", "").as_deref(), Some("7"));
        let id = std::fs::read_to_string(dir.path().join("id")).unwrap();
        let status = || std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        // A killed process ends when the kernel runs it next, and may stay a zombie until PID 1 reaps it.
        let begun = std::time::Instant::now();
        while !(status().is_empty() || status().contains(") Z ")) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{}", status());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

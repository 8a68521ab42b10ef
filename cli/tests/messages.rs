//! Messages for missing files, closed pipes and `--version`.

use std::process::{Command, Output, Stdio};

fn farlink(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farlink")).args(arguments).output().unwrap()
}

#[test]
fn closed_stdout_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    let mut child =
        command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn missing_file_is_bad_input() {
    let commands: [&[&str]; 3] = [
        &["send", "/no/such/file", "--to", "ipn:2.64"],
        &["node", "links", "add", "/no/such/file"],
        &["node", "contacts", "add", "/no/such/file"],
    ];
    for arguments in commands {
        let output = farlink(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("/no/such/file: ") && said.contains("\nhint: name a file that can be read"), "{said}");
    }
}

#[test]
fn error_survives_full_disk() {
    // Standard error of programs in the testbed is a file, whose disk may be full.
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    let status = command.args(["send", "/no/such/file", "--to", "ipn:2.64"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2), "a panic has 101");
}

#[test]
fn output_to_full_disk_is_failure() {
    for arguments in [&["node", "--keys"][..], &["--help"], &["doctor"], &["completions", "bash"]] {
        let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
        let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
        let output = command.args(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("error: standard output cannot be written: No space left"), "{arguments:?}: {said}");
    }
}

#[test]
fn closed_stderr_leaves_the_result() {
    let folder = std::env::temp_dir().join(format!("farlink-cli-stderr-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A command of ION that no plan has: a warning.
    std::fs::write(folder.join("ion.rc"), "a contact +0 +10 1 2 1000\nm horizon +0\n").unwrap();
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
        command.current_dir(&folder).args(["plan", "check", "--plan", "ion.rc"]);
        command
    };
    let heard = check().output().unwrap();
    assert!(!heard.stderr.is_empty(), "no warning to lose");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unheard = check().stderr(writer).output().unwrap();
    assert_eq!((heard.status.code(), heard.stdout), (unheard.status.code(), unheard.stdout));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn version_names_build_commit() {
    let git =
        Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = git.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let commit = commit.map_or("commit unknown".into(), |text| String::from_utf8(text).unwrap().trim().to_string());
    let expected = format!("{} ({commit})\n", env!("CARGO_PKG_VERSION"));
    for arguments in [&["--version"][..], &["node", "--version"]] {
        let said = String::from_utf8(farlink(arguments).stdout).unwrap();
        assert!(said.starts_with("farlink") && said.ends_with(&expected), "{said} is not {expected}");
    }
}

//! What commands say when something is not there, or nobody reads on.

use std::process::{Command, Output, Stdio};

fn farlink(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farlink")).args(arguments).output().unwrap()
}

#[test]
fn a_reader_that_closes_early_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    let mut child =
        command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_missing_file_is_bad_input_and_comes_with_a_hint() {
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

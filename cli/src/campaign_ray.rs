//! `farlink campaign run --on ray`: runs the cells on a Ray cluster, through the Python package.

use crate::CliError;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which the child is polled.
const GLANCE: Duration = Duration::from_millis(50);

/// Places, other than this process, to run cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum On {
    /// A Ray cluster: the one RAY_ADDRESS names, else one on this machine.
    Ray,
}

/// Python interpreter with the package installed.
fn python() -> OsString {
    std::env::var_os("FARLINK_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Runs the package's campaign with these arguments; its output is that of this command.
pub fn run(words: &[OsString]) -> Result<(), CliError> {
    let python = python();
    check(&python)?;
    // Control-C reaches both processes: the child releases the folder and prints how to continue, then this one ends.
    let stop = farlink_os::process::watch_termination()?;
    let mut command = Command::new(&python);
    command.args(["-m", "farlink.campaign"]).args(words);
    let mut child = command.spawn().map_err(|why| CliError::Input(missing(&python, &why.to_string())))?;
    // Time for the child to end by itself after Control-C.
    let mut patience = Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            patience = patience.saturating_sub(GLANCE);
        }
        // A child that ignores Control-C must not keep this process alive.
        if patience.is_zero() {
            child.kill()?;
        }
        std::thread::sleep(GLANCE);
    };
    match status.code() {
        Some(0) => Ok(()),
        // The child has printed the error. Only 1 and 2 are defined exit statuses of this program.
        Some(code) => std::process::exit(code.clamp(1, 2)),
        None => Err(CliError::Run(anyhow::anyhow!("the package's campaign ended with {status}"))),
    }
}

/// Checks that the interpreter can import the packages.
fn check(python: &OsString) -> Result<(), CliError> {
    let mut asked = Command::new(python);
    asked.args(["-c", "import farlink.ray, ray"]).stdin(Stdio::null());
    let output = asked.output().map_err(|why| CliError::Input(missing(python, &why.to_string())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CliError::Input(missing(python, said.lines().last().unwrap_or("it failed"))))
}

fn missing(python: &OsString, why: &str) -> String {
    format!(
        "`--on ray` needs the Python packages farlink and ray: {}: {why}\n\
         hint: in Farlink's sources, `cargo xtask python --wheel` builds the first: pip install \
         target/python/wheels/farlink-*.whl ray; FARLINK_PYTHON selects another interpreter",
        python.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_python_package_gets_install_hint() {
        for python in ["/nowhere/python3", "false"] {
            let Err(CliError::Input(said)) = check(&python.into()) else { panic!("{python} has the package") };
            assert!(
                said.contains("pip install target/python/wheels/farlink-*.whl ray") && said.contains(python),
                "{said}"
            );
        }
    }
}

//! `farlink campaign run --on ray`: the cells of a campaign over a Ray cluster, through the Python package.

use crate::CliError;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked whether it ended.
const GLANCE: Duration = Duration::from_millis(50);

/// Where cells run that do not run here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum On {
    /// The machines of a Ray cluster: that of RAY_ADDRESS, else one on this machine.
    Ray,
}

/// The Python that has the package.
fn python() -> OsString {
    std::env::var_os("FARLINK_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Starts the package's campaign with these words and waits for it; it prints what this command would.
pub fn run(words: &[OsString]) -> Result<(), CliError> {
    let python = python();
    check(&python)?;
    // Control-C goes to both: it lets go of the folder and says how to go on, and this one ends with it.
    let stop = farlink_os::process::watch_termination()?;
    let mut command = Command::new(&python);
    command.args(["-m", "farlink.campaign"]).args(words);
    let mut child = command.spawn().map_err(|why| CliError::Input(missing(&python, &why.to_string())))?;
    let mut patience = Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            patience = patience.saturating_sub(GLANCE);
        }
        if patience.is_zero() {
            child.kill()?;
        }
        std::thread::sleep(GLANCE);
    };
    match status.code() {
        Some(0) => Ok(()),
        // What went wrong is said.
        Some(code) => std::process::exit(code.clamp(1, 2)),
        None => Err(CliError::Run(anyhow::anyhow!("the package's campaign ended with {status}"))),
    }
}

/// Whether that Python has what it takes.
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
         hint: pip install 'farlink[ray]'; FARLINK_PYTHON names another python3",
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
            assert!(said.contains("pip install 'farlink[ray]'") && said.contains(python), "{said}");
        }
    }
}
